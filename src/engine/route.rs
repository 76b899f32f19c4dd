//! Which route a request takes: matching and precedence of Gateway API's HTTPRoute, compiled once into an index, so
//! that the cost of a request does not grow with the number of routes.
//!
//! Of all matches that a request meets, the first one wins in this order: a host in full, the wildcard host with the
//! most characters, any host; then a path in full, a pattern (the longer one first), the prefix with the most
//! characters; then a match with a method, with more header conditions, with more query conditions; then the order of
//! the file. A prefix covers whole segments, so `/v2` is met by `/v2` and `/v2/x` and not by `/v2x`. Paths, parameters
//! and methods are compared as sent, in their case; hosts in any case, without the port.

use std::{
    borrow::Cow,
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use http::Method;

use super::{
    failure::Retry,
    filter::{Redirect, RouteFilters},
    names::ServiceName,
    request::{HeaderMatch, Pattern, QueryMatch, RequestView},
    table::Timeouts,
};

/// A route as the file has it.
#[derive(Debug, Clone, PartialEq)]
pub struct Route {
    /// Its name, for logs and explanations.
    pub name: String,
    /// It takes requests that meet one of these; all requests when there is none.
    pub matches: Vec<RouteMatch>,
    /// What is changed on the way.
    pub filters: RouteFilters,
    /// Its own limits on waiting; those of the service without.
    pub timeouts: Option<Timeouts>,
    /// Its own attempts at the same version; those of the service without.
    pub retry: Option<Retry>,
    /// Where its requests go.
    pub action: Action,
}

/// What becomes of a route's requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// A version of this service answers.
    Forward(ServiceName),
    /// The proxy sends the client elsewhere.
    Redirect(Redirect),
}

/// Conditions that must all be met.
#[derive(Debug, Clone, PartialEq, Eq, Default, Hash)]
pub struct RouteMatch {
    /// On the host.
    pub host: HostMatch,
    /// On the path.
    pub path: PathMatch,
    /// On the method.
    pub method: Option<Method>,
    /// On header fields.
    pub headers: Vec<HeaderMatch>,
    /// On query parameters.
    pub query: Vec<QueryMatch>,
}

/// A condition on the host; texts in lower case, without port.
#[derive(Debug, Clone, PartialEq, Eq, Default, Hash)]
pub enum HostMatch {
    /// Met by all.
    #[default]
    Any,
    /// This host.
    Exact(String),
    /// Hosts with one label or more before this, which begins after the `*.` of the file.
    Wildcard(String),
}

/// A condition on the path.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum PathMatch {
    /// The whole path.
    Exact(String),
    /// Whole segments at its beginning; a `/` at the end means nothing. `/` is met by every path.
    Prefix(String),
    /// A pattern that covers the whole path.
    Regex(Pattern),
}

impl Default for PathMatch {
    fn default() -> Self {
        Self::Prefix("/".to_owned())
    }
}

/// The routes, ready for use. Without any, all requests go to the only service.
#[derive(Debug, Clone, Default)]
pub struct Routes {
    all: Vec<Route>,
    hosts: BTreeMap<String, Paths>,
    wildcards: BTreeMap<String, Paths>,
    any_host: Paths,
    copied_to: BTreeSet<ServiceName>,
}

/// The route of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// Index into [`Routes::all`].
    pub route: usize,
    /// How many bytes of the path a prefix match covered; none where another kind of match decided.
    pub prefix: Option<usize>,
}

impl Routes {
    /// Builds the index.
    #[must_use]
    pub fn new(routes: Vec<Route>) -> Self {
        let mut built = Self::default();
        let everything = [RouteMatch::default()];
        for (at, route) in routes.iter().enumerate() {
            let matches = if route.matches.is_empty() { &everything[..] } else { &route.matches };
            for wanted in matches {
                let paths = match &wanted.host {
                    HostMatch::Any => &mut built.any_host,
                    HostMatch::Exact(host) => built.hosts.entry(host.clone()).or_default(),
                    HostMatch::Wildcard(under) => built.wildcards.entry(under.clone()).or_default(),
                };
                paths.add(at, wanted);
            }
        }
        let all = built.hosts.values_mut().chain(built.wildcards.values_mut()).chain([&mut built.any_host]);
        all.for_each(Paths::sort);
        let mirrors = routes.iter().filter_map(|route| route.filters.mirror.as_ref());
        built.copied_to = mirrors.map(|mirror| mirror.service.clone()).collect();
        built.all = routes;
        built
    }

    /// All of them, in the order of the file.
    #[must_use]
    pub fn all(&self) -> &[Route] {
        &self.all
    }

    /// Whether requests of any of them are copied to the service.
    #[must_use]
    pub fn copy_to(&self, service: &ServiceName) -> bool {
        self.copied_to.contains(service)
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The route that a request takes; none when it meets no match.
    #[must_use]
    pub fn find(&self, request: &RequestView<'_>) -> Option<Found> {
        let by_host = !self.hosts.is_empty() || !self.wildcards.is_empty();
        if by_host && !request.host.is_empty() {
            let host = lower(request.host);
            if let Some(found) = self.hosts.get(&*host).and_then(|paths| paths.find(request)) {
                return Some(found);
            }
            // Longest first; the host itself is not under its own wildcard.
            let mut under = host.split_once('.').map(|(_, rest)| rest).filter(|_| !self.wildcards.is_empty());
            while let Some(rest) = under {
                if let Some(found) = self.wildcards.get(rest).and_then(|paths| paths.find(request)) {
                    return Some(found);
                }
                under = rest.split_once('.').map(|(_, rest)| rest);
            }
        }
        self.any_host.find(request)
    }
}

impl PartialEq for Routes {
    fn eq(&self, other: &Self) -> bool {
        self.all == other.all
    }
}

/// What one host's requests are told apart by.
#[derive(Debug, Clone, Default)]
struct Paths {
    exact: BTreeMap<String, Vec<Candidate>>,
    patterns: Vec<(Pattern, Candidate)>,
    /// By prefix without the `/` at its end.
    prefixes: BTreeMap<String, Vec<Candidate>>,
    /// The lengths of those, longest first.
    lengths: Vec<usize>,
}

/// What is left of a match once host and path are met.
#[derive(Debug, Clone)]
struct Candidate {
    route: usize,
    method: Option<Method>,
    headers: Vec<HeaderMatch>,
    query: Vec<QueryMatch>,
}

impl Paths {
    fn add(&mut self, route: usize, wanted: &RouteMatch) {
        let RouteMatch { method, headers, query, .. } = wanted.clone();
        let candidate = Candidate { route, method, headers, query };
        match &wanted.path {
            PathMatch::Exact(path) => self.exact.entry(path.clone()).or_default().push(candidate),
            PathMatch::Regex(pattern) => self.patterns.push((pattern.clone(), candidate)),
            PathMatch::Prefix(prefix) => {
                self.prefixes.entry(prefix.trim_end_matches('/').to_owned()).or_default().push(candidate);
            }
        }
    }

    /// Sorting keeps the file's order among equals.
    fn sort(&mut self) {
        self.exact.values_mut().chain(self.prefixes.values_mut()).for_each(|of| of.sort_by_key(Candidate::rank));
        self.patterns.sort_by_key(|(pattern, candidate)| (Reverse(pattern.as_str().len()), candidate.rank()));
        self.lengths = self.prefixes.keys().map(String::len).collect();
        self.lengths.sort_unstable_by_key(|&length| Reverse(length));
        self.lengths.dedup();
    }

    fn find(&self, request: &RequestView<'_>) -> Option<Found> {
        let first = |of: &[Candidate]| of.iter().find(|one| one.is_met_by(request)).map(|one| one.route);
        if let Some(route) = self.exact.get(request.path).and_then(|of| first(of)) {
            return Some(Found { route, prefix: None });
        }
        let covers =
            |(pattern, one): &&(Pattern, Candidate)| pattern.covers(request.path.as_bytes()) && one.is_met_by(request);
        if let Some((_, one)) = self.patterns.iter().find(covers) {
            return Some(Found { route: one.route, prefix: None });
        }
        self.lengths.iter().find_map(|&length| {
            // Only where a segment ends, so that no lookup is made for most lengths.
            let ends = length == 0 || matches!(request.path.as_bytes().get(length), None | Some(b'/'));
            let prefix = request.path.get(..length).filter(|_| ends)?;
            let route = first(self.prefixes.get(prefix)?)?;
            Some(Found { route, prefix: Some(length) })
        })
    }
}

impl Candidate {
    fn rank(&self) -> (bool, Reverse<usize>, Reverse<usize>) {
        (self.method.is_none(), Reverse(self.headers.len()), Reverse(self.query.len()))
    }

    fn is_met_by(&self, request: &RequestView<'_>) -> bool {
        self.method.as_ref().is_none_or(|method| method == request.method)
            && self.headers.iter().all(|header| header.is_met_by(request.headers))
            && self.query.iter().all(|parameter| parameter.is_met_by(request))
    }
}

fn lower(host: &str) -> Cow<'_, str> {
    if host.bytes().any(|b| b.is_ascii_uppercase()) {
        Cow::Owned(host.to_ascii_lowercase())
    } else {
        Cow::Borrowed(host)
    }
}

#[cfg(test)]
mod tests;

//! Which route a request takes: matching and precedence of Gateway API's HTTPRoute, compiled once into an index, so
//! that the cost of a request does not grow with the number of routes.
//!
//! Of all matches that a request meets, the first one wins in this order: one of the client's scheme alone (there HTTPRoute
//! has listeners); then a host in full, the wildcard host with the
//! most characters, any host; then a path in full, a pattern (the longer one first), the prefix with the most
//! characters; then a match with a method, with more header conditions, with more query conditions; then the order of
//! the file. A prefix covers whole segments, so `/v2` is met by `/v2` and `/v2/x` and not by `/v2x`. Paths, parameters
//! and methods are compared as sent, in their case; hosts in any case, without the port.

mod index;

use std::collections::BTreeSet;

use http::Method;

use self::index::Hosts;
use super::{
    failure::Retry,
    filter::{Redirect, RouteFilters, Scheme},
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
    /// On how the client came in.
    pub scheme: Option<Scheme>,
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
    /// Of one scheme alone.
    http: Hosts,
    https: Hosts,
    /// Of both.
    either: Hosts,
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
                let hosts = match wanted.scheme {
                    Some(Scheme::Http) => &mut built.http,
                    Some(Scheme::Https) => &mut built.https,
                    None => &mut built.either,
                };
                hosts.add(at, wanted);
            }
        }
        [&mut built.http, &mut built.https, &mut built.either].into_iter().for_each(Hosts::sort);
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
        let of_scheme = match request.scheme {
            Scheme::Http => &self.http,
            Scheme::Https => &self.https,
        };
        of_scheme.find(request).or_else(|| self.either.find(request))
    }
}

impl PartialEq for Routes {
    fn eq(&self, other: &Self) -> bool {
        self.all == other.all
    }
}

#[cfg(test)]
mod tests;

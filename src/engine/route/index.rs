//! Finds the route of a request: by its host, then its path, then what else was asked for, the nearest first.

use std::{borrow::Cow, cmp::Reverse, collections::BTreeMap};

use http::Method;

use super::{Found, HostMatch, PathMatch, RouteMatch};
use crate::engine::request::{HeaderMatch, Pattern, QueryMatch, RequestView};

/// What requests are told apart by, by their hosts.
#[derive(Debug, Clone, Default)]
pub(super) struct Hosts {
    exact: BTreeMap<String, Paths>,
    wildcards: BTreeMap<String, Paths>,
    any: Paths,
}

impl Hosts {
    pub(super) fn add(&mut self, route: usize, wanted: &RouteMatch) {
        let paths = match &wanted.host {
            HostMatch::Any => &mut self.any,
            HostMatch::Exact(host) => self.exact.entry(host.clone()).or_default(),
            HostMatch::Wildcard(under) => self.wildcards.entry(under.clone()).or_default(),
        };
        paths.add(route, wanted);
    }

    pub(super) fn sort(&mut self) {
        let all = self.exact.values_mut().chain(self.wildcards.values_mut()).chain([&mut self.any]);
        all.for_each(Paths::sort);
    }

    pub(super) fn find(&self, request: &RequestView<'_>) -> Option<Found> {
        let by_host = !self.exact.is_empty() || !self.wildcards.is_empty();
        if by_host && !request.host.is_empty() {
            let host = lower(request.host);
            if let Some(found) = self.exact.get(&*host).and_then(|paths| paths.find(request)) {
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
        self.any.find(request)
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

//! Which requests are copied, and where the copies go: to another service by a route's filter, to the canary by a step of
//! the rollout. The answers of copies are thrown away, and are evidence for nothing.
//!
//! A copy is made of one request at most once by its route and once by the rollout. Each has a draw of its own, which
//! depends on nothing else: not on the version that serves the request, nor on the other copy.

use std::sync::Arc;

use http::{HeaderName, Method};

use super::{
    names::{Role, ServiceName},
    request::{RequestMatch, RequestView},
    split::Bucket,
    table::{ServiceTable, Table, VersionTable},
    weight::Weight,
};

/// A route's `mirror`: copies of its requests to the stable version of another service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MirrorFilter {
    /// Whose stable version gets them.
    pub service: ServiceName,
    /// Of so many requests.
    pub share: Weight,
    /// With these methods only.
    pub methods: Vec<Method>,
}

impl MirrorFilter {
    /// Whether requests like this one are copied.
    #[must_use]
    pub fn is_met_by(&self, request: &RequestView<'_>) -> bool {
        self.share > Weight::ZERO && self.methods.contains(request.method) && !is_copy(request)
    }

    /// Whether this one is. `draw` gives 64 random bits.
    #[must_use]
    pub fn takes(&self, request: &RequestView<'_>, draw: impl FnOnce() -> u64) -> bool {
        self.is_met_by(request) && is_drawn(self.share, draw)
    }
}

/// A step's `setMirrorRoute`: of requests that stable serves, so many are copied to the canary. Gone with the rollout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MirrorRoute {
    /// By which a later step replaces or removes it.
    pub name: Arc<str>,
    /// Of so many requests that meet it.
    pub share: Weight,
    /// It is met by requests that meet one of these; never empty.
    pub matches: Vec<RequestMatch>,
}

impl MirrorRoute {
    /// Whether the request meets it. Without a condition on the method only safe ones do ([`SAFE`]): a copy of anything
    /// else would do something twice.
    #[must_use]
    pub fn is_met_by(&self, request: &RequestView<'_>) -> bool {
        let is_safe = SAFE.contains(request.method);
        self.matches.iter().any(|one| (is_safe || one.method.is_some()) && one.is_met_by(request))
    }
}

impl Table {
    /// Whether copies of requests may go to the version of a service.
    #[must_use]
    pub fn copies_go_to(&self, service: &ServiceTable, version: &VersionTable) -> bool {
        match version.role {
            Role::Canary => !service.mirror_routes.is_empty(),
            Role::Stable => self.routes.copy_to(&service.name),
            Role::Other => false,
        }
    }
}

impl ServiceTable {
    /// The mirror route by which requests like this one are copied to the canary where stable serves them: the first one
    /// that it meets.
    #[must_use]
    pub fn mirror_route(&self, request: &RequestView<'_>) -> Option<&MirrorRoute> {
        if self.mirror_routes.is_empty() || self.canary.is_none() || self.draining || is_copy(request) {
            return None;
        }
        let first = self.mirror_routes.iter().find(|route| route.is_met_by(request));
        first.filter(|route| route.share > Weight::ZERO)
    }

    /// That route, if this request is copied, which is routed to `version`. `draw` gives 64 random bits.
    #[must_use]
    pub fn mirrored(
        &self,
        version: usize,
        request: &RequestView<'_>,
        draw: impl FnOnce() -> u64,
    ) -> Option<&MirrorRoute> {
        let route = self.mirror_route(request).filter(|_| version == self.stable)?;
        is_drawn(route.share, draw).then_some(route)
    }
}

/// The field by which a copy is known. It names the route that made it.
pub const MARK: HeaderName = HeaderName::from_static("serin-mirror");

/// Whether the request is a copy itself: it is not copied again, so that two proxies cannot copy each other's copies.
fn is_copy(request: &RequestView<'_>) -> bool {
    request.headers.contains_key(MARK)
}

/// Methods that promise to change nothing (RFC 9110 9.2.1), as far as they can be copied.
pub const SAFE: [Method; 3] = [Method::GET, Method::HEAD, Method::OPTIONS];

fn is_drawn(share: Weight, draw: impl FnOnce() -> u64) -> bool {
    share == Weight::FULL || (share > Weight::ZERO && Bucket::from_bits(draw()).number() < share.ppm())
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderValue};

    use super::*;
    use crate::engine::{
        address::Address,
        filter::Scheme,
        request::{HeaderMatch, Pattern, StringMatch},
    };

    fn request<'r>(method: &'r Method, path: &'r str, headers: &'r HeaderMap) -> RequestView<'r> {
        RequestView {
            scheme: Scheme::Http,
            method,
            host: "",
            port: None,
            path,
            query: "",
            headers,
            client: Address::default(),
        }
    }

    #[test]
    fn what_would_do_something_twice_is_copied_only_where_its_method_is_named() {
        let mut staff = HeaderMap::new();
        staff.insert("x-group", HeaderValue::from_static("staff"));
        let nobody = HeaderMap::new();
        let in_shop =
            || RequestMatch { path: Some(StringMatch::Prefix("/shop".to_owned())), ..RequestMatch::default() };
        let of_staff = HeaderMatch {
            name: HeaderName::from_static("x-group"),
            value: StringMatch::Regex(Pattern::new("staff|crew").unwrap()),
        };
        let posts =
            RequestMatch { method: Some(StringMatch::Exact("POST".to_owned())), headers: vec![of_staff], ..in_shop() };
        let route = |matches: Vec<RequestMatch>| MirrorRoute { name: "shadow".into(), share: Weight::FULL, matches };
        let (reads, both) = (route(vec![in_shop()]), route(vec![in_shop(), posts]));
        for (route, method, path, headers, expected) in [
            (&reads, Method::GET, "/shop/1", &nobody, true),
            (&reads, Method::HEAD, "/shop", &nobody, true),
            (&reads, Method::OPTIONS, "/shop", &nobody, true),
            (&reads, Method::GET, "/other", &nobody, false),
            (&reads, Method::POST, "/shop", &nobody, false),
            (&reads, Method::TRACE, "/shop", &nobody, false),
            (&reads, Method::CONNECT, "/shop", &nobody, false),
            (&both, Method::POST, "/shop", &staff, true),
            (&both, Method::POST, "/shop", &nobody, false),
            (&both, Method::DELETE, "/shop", &staff, false),
            (&both, Method::GET, "/shop", &nobody, true),
        ] {
            let met = route.is_met_by(&request(&method, path, headers));
            assert_eq!(met, expected, "{method} {path} {headers:?} {}", route.matches.len());
        }
        let filter = MirrorFilter {
            service: ServiceName::new("audit").unwrap(),
            share: Weight::FULL,
            methods: vec![Method::GET, Method::POST],
        };
        let mut copy = nobody.clone();
        copy.insert(MARK, HeaderValue::from_static("elsewhere"));
        for (method, headers, expected) in
            [(Method::POST, &nobody, true), (Method::HEAD, &nobody, false), (Method::POST, &copy, false)]
        {
            assert_eq!(filter.takes(&request(&method, "/", headers), || 0), expected, "{method} {headers:?}");
        }
    }

    #[test]
    fn the_share_is_that_of_the_draw_and_nothing_is_drawn_for_all_or_none() {
        let half = Weight::from_ppm(500_000).unwrap();
        let at = |ppm: u64| (u64::MAX / 1_000_000) * ppm;
        assert!(is_drawn(half, || at(499_900)) && !is_drawn(half, || at(500_100)));
        let never = || -> u64 { unreachable!("no draw is needed") };
        assert!(is_drawn(Weight::FULL, never) && !is_drawn(Weight::ZERO, never));
    }
}

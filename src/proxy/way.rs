//! The route that a request takes, kept with it: where it leads, and what is changed on the way and back.
//! A route is that of the table in force when the request came; a later table changes the version, not the route.

use std::sync::Arc;

use http::{HeaderMap, HeaderValue, StatusCode, header, request::Parts};

use super::{cors, edit, fast::Scope};
use crate::engine::{
    failure::Retry,
    filter::BothWays,
    mirror::MirrorFilter,
    request::RequestView,
    route::{Action, Found, Route, Routes},
    table::{ServiceTable, Timeouts},
};

/// A request's route, if there are routes at all.
#[derive(Debug, Default)]
pub(super) struct Way {
    taken: Option<(Arc<Routes>, Found)>,
    /// What the request said about its origin, where the route has to do with it.
    origin: Option<HeaderValue>,
}

/// An answer that no version makes.
#[derive(Debug)]
pub(super) struct OwnAnswer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
}

impl Way {
    pub(super) fn new(routes: &Arc<Routes>, found: Found, headers: &HeaderMap) -> Self {
        let has_cors = routes.all()[found.route].filters.cors.is_some();
        let origin = if has_cors { headers.get(header::ORIGIN).cloned() } else { None };
        Self { taken: Some((Arc::clone(routes), found)), origin }
    }

    fn route(&self) -> Option<(&Route, Option<usize>)> {
        self.taken.as_ref().map(|(routes, found)| (&routes.all()[found.route], found.prefix))
    }

    /// Whether the fast path may take it.
    pub(super) fn is_understood(&self, scope: &Scope) -> bool {
        self.taken.as_ref().is_none_or(|(_, found)| scope.has_route(found.route))
    }

    /// What it changes of fields.
    pub(super) fn edits(&self) -> Option<&BothWays> {
        self.route().map(|(route, _)| &route.filters.headers)
    }

    /// What the route answers by itself: a redirect, or a preflight.
    pub(super) fn own_answer(&self, head: &Parts, request: &RequestView<'_>) -> Option<OwnAnswer> {
        let (route, covered) = self.route()?;
        if let Some((status, headers)) = route.filters.cors.as_ref().and_then(|cors| cors::preflight(cors, head)) {
            return Some(OwnAnswer { status, headers });
        }
        let Action::Redirect(redirect) = &route.action else { return None };
        let location = redirect.location(request, covered);
        let mut headers = HeaderMap::new();
        // A target that came in as a header's text is one.
        headers.insert(header::LOCATION, HeaderValue::from_str(&location).ok()?);
        Some(OwnAnswer { status: StatusCode::from_u16(redirect.status).ok()?, headers })
    }

    /// How its requests are copied to another service, with the place and the name of the route.
    pub(super) fn mirror(&self) -> Option<(&MirrorFilter, usize, &str)> {
        let (routes, found) = self.taken.as_ref()?;
        let route = &routes.all()[found.route];
        Some((route.filters.mirror.as_ref()?, found.route, &route.name))
    }

    /// Limits on waiting.
    pub(super) fn timeouts(&self, service: &ServiceTable) -> Timeouts {
        self.route().and_then(|(route, _)| route.timeouts).unwrap_or(service.timeouts)
    }

    /// Further attempts at the same version.
    pub(super) fn retry(&self, service: &ServiceTable) -> Retry {
        self.route().and_then(|(route, _)| route.retry).unwrap_or(service.retry)
    }

    /// Changes a head that is ready for upstreams.
    pub(super) fn edit_request(&self, head: &mut Parts) {
        let Some((route, covered)) = self.route() else { return };
        edit::rewrite(head, &route.filters.rewrite, covered);
        edit::headers(&mut head.headers, &route.filters.headers.request);
    }

    /// Changes an answer of a version with these filters.
    pub(super) fn edit_response(&self, version: &BothWays, answer: &mut HeaderMap) {
        if let Some((route, _)) = self.route() {
            edit::headers(answer, &route.filters.headers.response);
        }
        edit::headers(answer, &version.response);
        if let Some(cors) = self.route().and_then(|(route, _)| route.filters.cors.as_ref()) {
            cors::answer(cors, self.origin.as_ref(), answer);
        }
    }
}

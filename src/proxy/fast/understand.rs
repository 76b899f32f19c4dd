//! What the fast path understands: listeners, tables, routes and services of which it knows every field. Whoever adds one
//! decides here whether it changes what is sent, and answers "not understood" until the fast path does the same as the
//! ordinary one.

use http::{HeaderName, header};

use super::{
    super::{access::REQUEST_ID, headers},
    field::{self, Part},
};
use crate::{
    engine::{
        assign::{Cohort, ForceRule, HeaderRoute},
        endpoint::{Endpoint, UpstreamHttp},
        filter::{BothWays, HeaderEdits, Rewrite, RouteFilters},
        route::{Action, Route, RouteMatch},
        sticky::{StickyBy, StickyRule},
        table::{ServiceTable, Table, VersionTable},
    },
    publish::ListenerSettings,
};

/// Whether connections of this listener may begin on the fast path.
pub(in crate::proxy) fn understands_listener(settings: &ListenerSettings) -> bool {
    // Who the client is was said before the first request: by its socket, by a PROXY header, or by a handshake.
    let ListenerSettings { limits: _, protocols: _, proxy_protocol: _, tls: _, access_log: _, tracing, fast_path } =
        settings;
    *fast_path && tracing.is_none()
}

/// What of a table is understood. A request is left to the ordinary path before it is drawn for a version: it would be drawn
/// again there, and the shares would be wrong. So a service is understood with all its versions or not at all.
#[derive(Debug, Default)]
pub(in crate::proxy) struct Scope {
    /// By their index in the table.
    services: Vec<bool>,
    routes: Vec<bool>,
    /// The fields that rules look at.
    looked_at: Vec<HeaderName>,
    /// Whether no request is told from another by anything.
    is_plain: bool,
}

impl Scope {
    pub(in crate::proxy) fn of(table: &Table) -> Self {
        let Table { generation: _, services, routes, trusted } = table;
        let mut looked_at = Vec::new();
        if !trusted.is_empty() {
            let said = ["x-forwarded-for", "x-forwarded-proto", "x-forwarded-host"];
            looked_at.extend(said.map(HeaderName::from_static));
            looked_at.push(header::FORWARDED);
        }
        for route in routes.all() {
            looks_of_route(route, &mut looked_at);
        }
        for service in services {
            looks_of_service(service, &mut looked_at);
        }
        looked_at.sort_by(|one, other| one.as_str().cmp(other.as_str()));
        looked_at.dedup();
        Self {
            services: services.iter().map(understands_service).collect(),
            routes: routes.all().iter().map(understands_route).collect(),
            is_plain: routes.is_empty() && trusted.is_empty() && services.iter().all(is_plain),
            looked_at,
        }
    }

    /// Whether requests may go to this service.
    pub(super) fn has_service(&self, at: usize) -> bool {
        self.services.get(at).is_some_and(|understood| *understood)
    }

    /// Whether requests may take this route.
    pub(in crate::proxy) fn has_route(&self, at: usize) -> bool {
        self.routes.get(at).is_some_and(|understood| *understood)
    }

    /// Whether there is no service that is understood.
    pub(super) fn is_empty(&self) -> bool {
        !self.services.contains(&true)
    }

    /// Whether no request is told from another by anything: no route, no rule.
    pub(super) fn is_plain(&self) -> bool {
        self.is_plain
    }

    /// Whether a rule looks at fields of this name, which is in lower case.
    pub(super) fn looks_at(&self, name: &[u8]) -> bool {
        self.looked_at.iter().any(|one| one.as_str().as_bytes() == name)
    }
}

fn is_plain(service: &ServiceTable) -> bool {
    let ServiceTable { force, header_routes, cohorts, sticky, .. } = service;
    force.is_none() && header_routes.is_empty() && cohorts.is_empty() && sticky.is_none()
}

fn looks_of_route(route: &Route, into: &mut Vec<HeaderName>) {
    let of = |one: &RouteMatch| one.headers.iter().map(|wanted| wanted.name.clone()).collect::<Vec<_>>();
    into.extend(route.matches.iter().flat_map(of));
}

fn looks_of_service(service: &ServiceTable, into: &mut Vec<HeaderName>) {
    let ServiceTable { force, header_routes, cohorts, sticky, .. } = service;
    if let Some(ForceRule { header, cookie, from: _, secret: _ }) = force {
        into.extend(header.clone());
        into.extend(cookie.as_ref().map(|_| header::COOKIE));
    }
    let of_route = |HeaderRoute { name: _, matches, all: _ }: &HeaderRoute| matches.clone();
    into.extend(header_routes.iter().flat_map(of_route).map(|wanted| wanted.name));
    into.extend(cohorts.iter().map(|Cohort { header, values: _, to: _ }| header.clone()));
    match sticky.as_ref().map(|StickyRule { by, ttl: _, key: _ }| by) {
        Some(StickyBy::Cookie(_)) => into.push(header::COOKIE),
        Some(StickyBy::Header(name)) => into.push(name.clone()),
        Some(StickyBy::Query(_) | StickyBy::ClientIp) | None => {}
    }
}

fn understands_route(route: &Route) -> bool {
    // Conditions are looked at as on the ordinary path.
    let Route { name: _, matches: _, filters, timeouts: _, retry: _, action } = route;
    let RouteFilters { headers, rewrite, cors, mirror } = filters;
    let Rewrite { host, path } = rewrite;
    matches!(action, Action::Forward(_))
        && understands_edits(&headers.request)
        && understands_edits(&headers.response)
        && host.is_none()
        && path.is_none()
        && cors.is_none()
        && mirror.is_none()
}

fn understands_service(service: &ServiceTable) -> bool {
    let ServiceTable {
        name: _,
        weight_generation: _,
        versions,
        stable: _,
        canary: _,
        split: _,
        force,
        header_routes: _,
        mirror_routes,
        cohorts: _,
        sticky: _,
        draining: _,
        drain_timeout: _,
        timeouts: _,
        // Further attempts are made as on the ordinary path, and what is an error is the recorder's business.
        retry: _,
        failure: _,
    } = service;
    force.as_ref().is_none_or(understands_force) && mirror_routes.is_empty() && versions.iter().all(understands_version)
}

/// A secret would have to be hidden from the version.
fn understands_force(rule: &ForceRule) -> bool {
    let ForceRule { header, cookie: _, from: _, secret } = rule;
    header.is_none() || secret.is_none()
}

fn understands_version(version: &VersionTable) -> bool {
    // Whose turn it is, and that nobody's is, the pools know.
    let VersionTable { name: _, role: _, weight: _, endpoints, http, upstream: _, in_use: _, filters } = version;
    let BothWays { request, response } = &**filters;
    // A head is written before its version is chosen.
    request.is_empty()
        && understands_edits(response)
        && *http == UpstreamHttp::H1
        && endpoints.iter().all(understands_endpoint)
}

/// Fields that mean something to the proxy are changed by the ordinary path.
fn understands_edits(edits: &HeaderEdits) -> bool {
    let HeaderEdits { set, add, remove } = edits;
    let names = set.iter().chain(add).map(|(name, _)| name).chain(remove);
    let means_nothing = |name: &HeaderName| match field::part_of(name.as_str().as_bytes()) {
        Part::Field => *name != header::VIA,
        Part::Claim => *name != REQUEST_ID && !headers::is_claim(name.as_str().as_bytes()),
        _ => false,
    };
    names.into_iter().all(means_nothing)
}

fn understands_endpoint(endpoint: &Endpoint) -> bool {
    // What it takes to connect is the pool's business.
    match endpoint {
        Endpoint::Tcp { host: _, port: _ } | Endpoint::Unix { path: _ } => true,
    }
}

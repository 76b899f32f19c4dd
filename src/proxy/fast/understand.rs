//! What the fast path understands: listeners and tables of which it knows every field. Whoever adds one decides here
//! whether it changes what is sent, and answers "not understood" until the fast path does the same as the ordinary one.

use crate::{
    engine::{
        assign::ForceRule,
        endpoint::{Endpoint, UpstreamHttp},
        failure::{FailurePlan, Retry},
        filter::BothWays,
        sticky::{StickyBy, StickyRule},
        table::{ServiceTable, Table, VersionTable},
    },
    publish::ListenerSettings,
};

/// Whether connections of this listener may begin on the fast path.
pub(in crate::proxy) fn understands_listener(settings: &ListenerSettings) -> bool {
    // Who the client is was said before the first request: by its socket, or by a PROXY header.
    let ListenerSettings { limits: _, protocols: _, proxy_protocol: _, tls, access_log, fast_path } = settings;
    *fast_path && tls.is_none() && access_log.is_none()
}

/// Whether every request under this table may take the fast path. Of a whole table, never of one version: a request that
/// was drawn for a version and then left to the ordinary path would be drawn again, and the shares would be wrong.
pub(in crate::proxy) fn understands_table(table: &Table) -> bool {
    let Table { generation: _, services, routes, trusted } = table;
    // Without routes there is one service, and it takes every request.
    routes.is_empty() && trusted.is_empty() && matches!(&services[..], [service] if understands_service(service))
}

fn understands_service(service: &ServiceTable) -> bool {
    let ServiceTable {
        name: _,
        weight_generation: _,
        versions,
        stable: _,
        canary,
        split: _,
        force,
        header_routes,
        mirror_routes,
        cohorts,
        sticky,
        draining: _,
        drain_timeout: _,
        timeouts: _,
        retry,
        failure,
    } = service;
    force.as_ref().is_none_or(understands_force)
        && header_routes.is_empty()
        && mirror_routes.is_empty()
        && cohorts.is_empty()
        && sticky.as_ref().is_none_or(understands_sticky)
        && versions.iter().all(understands_version)
        && understands_failure(failure, canary.is_some())
        && (retry.retries == 0 || is_never_tried_again(retry, versions))
}

/// Without a connection only another endpoint is asked again, and streams are refused by HTTP/2 only.
fn is_never_tried_again(retry: &Retry, versions: &[VersionTable]) -> bool {
    let Retry { retries: _, conditions, statuses, budget: _ } = retry;
    let usual = Retry::default();
    (*conditions, *statuses) == (usual.conditions, usual.statuses)
        && versions.iter().all(|version| version.endpoints.len() == 1)
}

/// Which answers are errors is the recorder's business.
fn understands_failure(plan: &FailurePlan, has_canary: bool) -> bool {
    let FailurePlan { count_as_error: _, rescue, dead_canary: _ } = plan;
    !has_canary || rescue.is_none()
}

fn understands_force(rule: &ForceRule) -> bool {
    let ForceRule { header: _, cookie, from: _, secret: _ } = rule;
    cookie.is_none()
}

fn understands_sticky(rule: &StickyRule) -> bool {
    let StickyRule { by, ttl: _, key: _ } = rule;
    matches!(by, StickyBy::Cookie(_))
}

fn understands_version(version: &VersionTable) -> bool {
    // Whose turn it is, and that nobody's is, the pools know.
    let VersionTable { name: _, role: _, weight: _, endpoints, http, upstream: _, in_use: _, filters } = version;
    let BothWays { request, response } = &**filters;
    request.is_empty() && response.is_empty() && *http == UpstreamHttp::H1 && endpoints.iter().all(understands_endpoint)
}

fn understands_endpoint(endpoint: &Endpoint) -> bool {
    // What it takes to connect is the pool's business.
    match endpoint {
        Endpoint::Tcp { host: _, port: _ } | Endpoint::Unix { path: _ } => true,
    }
}

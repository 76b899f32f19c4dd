//! Copies of requests: a route's `mirror`, and the `setMirrorRoute` steps of a rollout.
//! Refuses copies of a service's requests to itself, and a share of nothing.

use std::sync::Arc;

use http::Method;

use super::{
    diagnostic::Code,
    message,
    report::{At, Problem, Report},
    service, shape,
};
use crate::engine::{
    mirror::{MirrorFilter, MirrorRoute, SAFE},
    names::ServiceName,
    plan::Step,
    request::{HeaderMatch, RequestMatch, StringMatch},
    weight::Weight,
};

/// Most conditions of a route, and most fields in one.
const MATCHES_MAX: usize = 32;
/// Most methods of a filter.
const METHODS_MAX: usize = 16;

/// `{ service, percentage, methods }` of a route to the service `own`; `services` are the names there are.
pub fn filter(at: &At<'_>, own: Option<&str>, services: &[&str], report: &mut Report) -> Option<MirrorFilter> {
    let fields = report.fields(at, &shape::MIRROR)?;
    let service = fields.need(report, "service", "say whose stable version gets the copies: `service: audit`");
    let service = service.and_then(|at| target(&at, own, services, report));
    let share = fields.get("percentage").map_or(Some(Weight::FULL), |at| percentage(&at, report));
    let methods = fields.get("methods").map_or_else(|| Some(SAFE.to_vec()), |at| methods(&at, report));
    Some(MirrorFilter { service: service?, share: share?, methods: methods? })
}

fn target(at: &At<'_>, own: Option<&str>, services: &[&str], report: &mut Report) -> Option<ServiceName> {
    let name = report.filled(at, "the name of a service")?;
    if Some(&*name) == own {
        let help =
            "name another service; to try a version on copies of what stable serves there is the step `setMirrorRoute`";
        report.error(Code::Conflict, &at.span(), "a service would get copies of its own requests").help(help);
        return None;
    }
    if services.contains(&&*name) {
        return ServiceName::new(&name).ok();
    }
    if !services.is_empty() {
        service::unknown(at, "service", services.iter().copied(), report);
    }
    None
}

/// `{ name, percentage, match: [ … ] }`; without `match` the route is removed.
pub fn step(at: &At<'_>, report: &mut Report) -> Option<Step> {
    let fields = report.fields(at, &shape::MIRROR_ROUTE)?;
    let help = "name it, so that a later step can replace or remove it: `name: shadow`";
    let name = fields.need(report, "name", help).and_then(|at| service::name(&at, report));
    let percentage_at = fields.get("percentage");
    let share = percentage_at.as_ref().map_or(Some(Weight::FULL), |at| percentage(at, report));
    let matches = fields.get("match").map(|at| matches(&at, report));
    if let (Some(at), None) = (&percentage_at, &matches) {
        report
            .error(Code::Conflict, &at.key_span, "without `match` this removes the route, so there is no share of it")
            .help("to copy whatever can safely be copied write `match: [{ path: { prefix: / } }]`");
    }
    let (name, share): (Arc<str>, _) = (name?.into(), share?);
    let route = match matches {
        Some(matches) => Some(MirrorRoute { name: Arc::clone(&name), share, matches: matches? }),
        None => None,
    };
    Some(Step::SetMirrorRoute { name, route })
}

/// A number of percent, to a part per million.
fn percentage(at: &At<'_>, report: &mut Report) -> Option<Weight> {
    report.scalar(at, "a number of percent such as `10`", |text| {
        let number = text.strip_suffix('%').unwrap_or(text);
        format!("{number}%").parse().map_err(|_| {
            Problem::new(
                "is not a number of percent",
                "write a number from 0 to 100, as `10` or `0.5`, with at most four decimals",
            )
        })
    })
}

fn methods(at: &At<'_>, report: &mut Report) -> Option<Vec<Method>> {
    let items = report.items(at, METHODS_MAX)?;
    let read: Vec<Method> = items.iter().filter_map(|item| method(item, report)).collect();
    (read.len() == items.len()).then_some(read)
}

fn method(at: &At<'_>, report: &mut Report) -> Option<Method> {
    let method = message::method(at, report)?;
    if matches!(method, Method::CONNECT | Method::TRACE) {
        let why = if method == Method::CONNECT { "what it opens is a tunnel" } else { "Serin answers it with 501" };
        report.error(Code::BadValue, &at.span(), format!("`{method}` is never copied: {why}")).help("remove it");
        return None;
    }
    Some(method)
}

fn matches(at: &At<'_>, report: &mut Report) -> Option<Vec<RequestMatch>> {
    let items = report.items(at, MATCHES_MAX)?;
    let read: Vec<RequestMatch> = items.iter().filter_map(|item| one_match(item, report)).collect();
    (read.len() == items.len()).then_some(read)
}

/// All of `method`, `path` and `headers` that are written.
fn one_match(at: &At<'_>, report: &mut Report) -> Option<RequestMatch> {
    let fields = report.fields(at, &shape::MIRROR_ROUTE_MATCH)?;
    if ["method", "path", "headers"].iter().all(|name| fields.get(name).is_none()) {
        report.missing(at, "path", "say which requests: `{ path: { prefix: / } }` for all");
        return None;
    }
    // What is wrong was reported, and the file is refused.
    Some(RequestMatch {
        method: fields.get("method").and_then(|at| text(&at, report)),
        path: fields.get("path").and_then(|at| text(&at, report)),
        headers: fields.get("headers").map(|at| headers(&at, report)).unwrap_or_default(),
    })
}

fn text(at: &At<'_>, report: &mut Report) -> Option<StringMatch> {
    let fields = report.fields(at, &shape::MIRROR_VALUE)?;
    message::condition(&fields, report)
}

/// A mapping of names to conditions, as in Argo Rollouts.
fn headers(at: &At<'_>, report: &mut Report) -> Vec<HeaderMatch> {
    message::by_header(at, report, text).into_iter().map(|(name, value)| HeaderMatch { name, value }).collect()
}

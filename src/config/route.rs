//! `routes`: which service takes which request, and what is changed on the way.
//! Refuses routes that lead nowhere, and says which one is never taken.

use std::{collections::HashMap, time::Duration};

use super::{
    diagnostic::{Code, Span},
    failure,
    file::WAIT,
    filter,
    lint::requests as lint,
    message,
    report::{At, Fields, Report},
    scalar::human,
    service, shape,
    yaml::Value,
};
use crate::engine::{
    address::Network,
    filter::{PathChange, RouteFilters, Scheme},
    names::ServiceName,
    request::{HeaderMatch, QueryMatch},
    route::{Action, HostMatch, PathMatch, Route, RouteMatch},
    table::Timeouts,
};

/// Most routes of a file.
const ROUTES_MAX: usize = 10_000;
/// Most entries of a route's `match`.
const MATCHES_MAX: usize = 64;
/// Most conditions on fields or parameters in one of them.
const CONDITIONS_MAX: usize = 16;
/// Most regular expressions in all routes.
const PATTERNS_MAX: usize = 1_000;

/// The routes of a file, and whether each service has one. `schemes` are those by which clients may come in.
pub fn of_file(file: &Fields<'_>, schemes: &[Scheme], report: &mut Report) -> Vec<Route> {
    // Also of services that are wrong in other ways: those were told already.
    let names: Vec<&str> = match file.get("services").map(|at| &at.node.value) {
        Some(Value::Map(entries)) => entries.iter().map(|field| &*field.key).collect(),
        _ => Vec::new(),
    };
    let Some(at) = file.get("routes") else {
        if let (Some(second), Some(at)) = (names.get(1), file.get("services")) {
            let message = format!("which service takes which request? `{}` and `{second}` need `routes`", names[0]);
            report
                .error(Code::MissingField, &at.key_span, message)
                .help("add `routes: [{ match: [{ path: { prefix: /shop } }], service: shop }, …]`");
        }
        return Vec::new();
    };
    let (routes, redirects) = routes(&at, &names, report);
    if !report.refused() {
        lint::redirects(&routes, &redirects, schemes, report);
    }
    for name in names {
        let is_named = |route: &Route| {
            matches!(&route.action, Action::Forward(service) if service.as_str() == name)
                || route.filters.mirror.as_ref().is_some_and(|mirror| mirror.service.as_str() == name)
        };
        if !report.refused() && !routes.iter().any(is_named) {
            report
                .warning(&at.key_span, format!("no route leads to service `{name}`"))
                .help("add a route for it, or remove the service");
        }
    }
    routes
}

/// `trust`: whose word about earlier hops is believed.
pub fn trusted(file: &Fields<'_>, report: &mut Report) -> Vec<Network> {
    let Some(at) = file.get("trust") else { return Vec::new() };
    let Some(fields) = report.fields(&at, &shape::TRUST) else { return Vec::new() };
    let help = "say whose: `trust: { forwardedFrom: [10.0.0.0/8] }`";
    let Some(at) = fields.need(report, "forwardedFrom", help) else { return Vec::new() };
    let networks = message::networks(&at, report);
    lint::trusted(&networks, &at.span(), report);
    networks
}

/// All routes, and where those are that redirect; those that are wrong are reported and left out. `services` are the names there are.
#[expect(
    clippy::mutable_key_type,
    reason = "what may change in a name or a pattern is how it is kept, not what is hashed"
)]
fn routes(at: &At<'_>, services: &[&str], report: &mut Report) -> (Vec<Route>, Vec<(usize, Span)>) {
    let mut names: HashMap<String, Span> = HashMap::new();
    let mut taken = Taken::new();
    let (mut all, mut redirects) = (Vec::new(), Vec::new());
    for (nth, item) in report.items(at, ROUTES_MAX).unwrap_or_default().iter().enumerate() {
        let Some(fields) = report.fields(item, &shape::ROUTE) else { continue };
        let name = fields.get("name").and_then(|at| service::name(&at, report));
        let name = name.unwrap_or_else(|| format!("route-{}", nth + 1));
        if let Some(first) = names.insert(name.clone(), item.key_span.clone()) {
            let message = format!("two routes are named `{name}`");
            report.error(Code::Conflict, &item.key_span, message).related(&first, "the first is here");
        }
        let matches = matches(&fields, report);
        never_taken(&name, item, &matches, &mut taken, report);
        let Some(route) = route(name, &fields, matches, services, report) else { continue };
        if let Action::Redirect(_) = route.action {
            let filters = fields.get("filters");
            redirects.push((all.len(), filters.map_or(item.key_span.clone(), |at| at.key_span.clone())));
        }
        all.push(route);
    }
    let patterns = all.iter().flat_map(|route: &Route| &route.matches).map(patterns).sum::<usize>();
    if patterns > PATTERNS_MAX {
        let message = format!("the routes have {patterns} regular expressions; at most {PATTERNS_MAX}");
        report.error(Code::TooLarge, &at.key_span, message).help("use exact or prefix conditions where they do");
    }
    (all, redirects)
}

type Matches = Vec<(RouteMatch, Span)>;

/// Conditions, with the first route that has them and where.
type Taken = HashMap<RouteMatch, (String, Span)>;

fn route(name: String, fields: &Fields<'_>, matches: Matches, services: &[&str], report: &mut Report) -> Option<Route> {
    let filters_at = fields.get("filters");
    let target = fields.get("service");
    let own = target.as_ref().and_then(At::text);
    let filters = filters_at.as_ref().map(|at| filter::of_route(at, own, services, report));
    let (filters, redirect) = filters.unwrap_or_default();
    let timeouts = fields.get("timeouts").and_then(|at| timeouts(&at, report));
    let retry = fields.get("retry").and_then(|at| failure::retry(&at, report));
    let action = match (redirect, &target) {
        (Some(_), Some(at)) => {
            report
                .error(Code::Conflict, &at.key_span, "a route with `redirect` reaches no service")
                .help("remove `service`, or the redirect");
            return None;
        }
        (Some(redirect), None) => Action::Redirect(redirect),
        (None, None) => {
            // A redirect that is wrong was told already.
            if !filters_at.as_ref().is_some_and(|at| at.has("redirect")) {
                report.missing(fields.at(), "service", "say to which service: `service: web`");
            }
            return None;
        }
        (None, Some(at)) => Action::Forward(service_named(at, services, report)?),
    };
    needs_prefix(filters_at.as_ref(), &filters, &action, &matches, report);
    let matches = matches.into_iter().map(|(one, _)| one).collect();
    Some(Route { name, matches, filters, timeouts, retry, action })
}

fn service_named(at: &At<'_>, services: &[&str], report: &mut Report) -> Option<ServiceName> {
    let name = report.filled(at, "the name of a service")?;
    if services.contains(&&*name) {
        return ServiceName::new(&name).ok();
    }
    if !services.is_empty() {
        service::unknown(at, "service", services.iter().copied(), report);
    }
    None
}

fn matches(route: &Fields<'_>, report: &mut Report) -> Matches {
    let Some(at) = route.get("match") else { return Vec::new() };
    let items = report.items(&at, MATCHES_MAX).unwrap_or_default();
    items.iter().filter_map(|item| Some((one_match(item, report)?, item.key_span.clone()))).collect()
}

fn one_match(at: &At<'_>, report: &mut Report) -> Option<RouteMatch> {
    let fields = report.fields(at, &shape::MATCH)?;
    let host = fields.get("host").map(|at| message::host(&at, true, report));
    let path = fields.get("path").map(|at| path(&at, report));
    let method = fields.get("method").map(|at| message::method(&at, report));
    // No condition is a condition that everything meets, as in Gateway API.
    let is_none = |at: &At<'_>| matches!(&at.node.value, Value::List(items) if items.is_empty());
    let list = |name: &str, report: &mut Report| {
        let written = fields.get(name).filter(|at| !is_none(at));
        written.and_then(|at| report.items(&at, CONDITIONS_MAX)).unwrap_or_default()
    };
    let headers = list("headers", report).iter().filter_map(|item| header(item, report)).collect();
    let query = list("query", report).iter().filter_map(|item| parameter(item, report)).collect();
    let host = match host {
        Some(host) => {
            let host = host?;
            match host.strip_prefix("*.") {
                Some(under) => HostMatch::Wildcard(under.to_owned()),
                None => HostMatch::Exact(host),
            }
        }
        None => HostMatch::Any,
    };
    let path = match path {
        Some(path) => path?,
        None => PathMatch::default(),
    };
    let method = match method {
        Some(method) => Some(method?),
        None => None,
    };
    let schemes = [("http", Scheme::Http), ("https", Scheme::Https)];
    let scheme = match fields.get("scheme") {
        Some(at) => Some(report.word(&at, &schemes)?),
        None => None,
    };
    Some(RouteMatch { scheme, host, path, method, headers, query })
}

fn path(at: &At<'_>, report: &mut Report) -> Option<PathMatch> {
    let fields = report.fields(at, &shape::MATCH_PATH)?;
    let kind = message::one_of(&fields, &["exact", "prefix", "regex"], report)?;
    match &*kind.name {
        "exact" => message::path(&kind, report).map(PathMatch::Exact),
        "prefix" => message::path(&kind, report).map(PathMatch::Prefix),
        _ => {
            let pattern = message::pattern(&kind, report)?;
            lint::path_pattern(pattern.as_str(), &kind.span(), report);
            Some(PathMatch::Regex(pattern))
        }
    }
}

fn header(at: &At<'_>, report: &mut Report) -> Option<HeaderMatch> {
    let fields = report.fields(at, &shape::MATCH_FIELD)?;
    let name = fields.need(report, "name", "name the header: `{ name: x-group, exact: staff }`");
    let name = name.and_then(|at| message::header_name(&at, report));
    let value = message::condition(&fields, report);
    Some(HeaderMatch { name: name?, value: value? })
}

fn parameter(at: &At<'_>, report: &mut Report) -> Option<QueryMatch> {
    let fields = report.fields(at, &shape::MATCH_PARAMETER)?;
    let name = fields.need(report, "name", "name the parameter: `{ name: beta, exact: \"1\" }`");
    let name = name.and_then(|at| report.filled(&at, "the name of a parameter"));
    let value = message::condition(&fields, report);
    Some(QueryMatch { name: name?, value: value? })
}

/// Says which route an earlier one leaves nothing to: both have the same conditions.
#[expect(
    clippy::mutable_key_type,
    reason = "what may change in a name or a pattern is how it is kept, not what is hashed"
)]
fn never_taken(name: &str, at: &At<'_>, matches: &Matches, taken: &mut Taken, report: &mut Report) {
    let everything = [(RouteMatch::default(), at.key_span.clone())];
    for (one, span) in if matches.is_empty() { &everything[..] } else { matches } {
        let (other, first) = taken.entry(one.clone()).or_insert_with(|| (name.to_owned(), span.clone()));
        if other != name {
            let message = format!("route `{name}` has the same conditions as `{other}`, which comes first");
            report.warning(span, message).related(first, "this one is taken").help("remove one, or tell them apart");
        }
    }
}

/// A prefix can only be replaced where one was matched.
fn needs_prefix(
    filters_at: Option<&At<'_>>,
    filters: &RouteFilters,
    action: &Action,
    matches: &Matches,
    report: &mut Report,
) {
    let change = match action {
        Action::Redirect(redirect) => redirect.path.as_ref(),
        Action::Forward(_) => filters.rewrite.path.as_ref(),
    };
    let (Some(PathChange::Prefix(_)), Some(at)) = (change, filters_at) else { return };
    let other = matches.iter().find(|(one, _)| !matches!(one.path, PathMatch::Prefix(_)));
    if let Some((_, span)) = other {
        report
            .error(Code::Conflict, &at.key_span, "a prefix is replaced, but not every match of the route has one")
            .related(span, "this match is no prefix")
            .help("write `path: { full: … }`, or match by `path: { prefix: … }`");
    }
}

fn patterns(one: &RouteMatch) -> usize {
    use crate::engine::request::StringMatch::Regex;
    let headers = one.headers.iter().filter(|header| matches!(header.value, Regex(_))).count();
    let query = one.query.iter().filter(|parameter| matches!(parameter.value, Regex(_))).count();
    headers + query + usize::from(matches!(one.path, PathMatch::Regex(_)))
}

fn timeouts(at: &At<'_>, report: &mut Report) -> Option<Timeouts> {
    let fields = report.fields(at, &shape::TIMEOUTS)?;
    let base = Timeouts::default();
    let request = fields.get("request").map_or(Some(base.request), |at| report.duration(&at, WAIT))?;
    let attempt_at = fields.get("attempt");
    // A shorter request timeout than the default attempt is not the user's contradiction.
    let attempt = match &attempt_at {
        Some(at) => report.duration(at, WAIT)?,
        None => base.attempt.min(request),
    };
    let idle = fields.get("idle").map_or(Some(base.idle), |at| report.duration(&at, WAIT))?;
    let longest = Duration::from_secs(1)..=Duration::from_hours(24 * 7);
    let upgraded = fields.get("upgraded").map_or(Some(base.upgraded), |at| report.duration(&at, longest))?;
    if let Some(at) = attempt_at.filter(|_| attempt > request) {
        report
            .warning(&at.span(), format!("one attempt may take longer than the whole request ({})", human(request)))
            .help("make `attempt` shorter than `request`");
    }
    Some(Timeouts { request, attempt, idle, upgraded })
}

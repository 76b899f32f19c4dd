//! Gateway API: HTTPRoutes and GRPCRoutes with their rules, filters and weighted backends. Matching and precedence are the
//! same in Serin. Weights are proportions, not percent; none is 1.

use std::time::Duration;

use super::{
    Importer,
    backend::{Backend, Place, backend},
    draft::{Draft, Sticky, service_name, unused_name},
    gateway_filters,
    ledger::Ledger,
    manifest::{Item, Object, Objects},
    matching::{Condition, How, MATCHES_MAX, Match},
    route::Route,
    trial,
    value::{WAITS, go_duration, is_token, port, scalar, whole},
    weighted::{self, Leg},
};

pub(super) const IMPORTER: Importer = Importer {
    word: "gateway-api",
    reads: &["HTTPRoute", "GRPCRoute", "Service"],
    wants: "HTTPRoute or GRPCRoute with backends",
    reasons: REASONS,
    draft,
};

const LISTENS: &str = "Serin listens by itself: see `listen`";
const SESSION: &str = "only a cookie with a name and a lifetime is taken over";

const REASONS: &[(&str, &str, &str)] = &[
    ("HTTPRoute", "spec.parentRefs", LISTENS),
    ("GRPCRoute", "spec.parentRefs", LISTENS),
    ("HTTPRoute", "spec.rules[].name", "a route is named after its service"),
    ("GRPCRoute", "spec.rules[].name", "a route is named after its service"),
    ("HTTPRoute", "spec.rules[].retry.backoff", "retries are sent at once, within a budget"),
    ("HTTPRoute", "spec.rules[].sessionPersistence", SESSION),
    ("GRPCRoute", "spec.rules[].sessionPersistence", SESSION),
];

fn draft(objects: &Objects, ledger: &mut Ledger) -> Option<Draft> {
    let mut draft = Draft::empty();
    for kind in ["HTTPRoute", "GRPCRoute"] {
        for object in objects.all(kind) {
            one_route(object, kind == "GRPCRoute", &mut draft, objects, ledger);
        }
    }
    draft.remark_splits();
    (!draft.services.is_empty()).then_some(draft)
}

fn one_route(object: &Object, is_grpc: bool, draft: &mut Draft, objects: &Objects, ledger: &mut Ledger) {
    let namespace = object.namespace(ledger);
    let name = service_name(object, ledger);
    let name = &*name;
    let mut hosts = Vec::new();
    for item in object.item.list(&["spec", "hostnames"]) {
        let host = item.text().map(str::to_owned);
        match (Match { host: host.clone(), ..Match::default() }).try_out() {
            Ok(()) => {
                ledger.kept(item, "`host` of the route's `match`");
                hosts.push(host);
            }
            Err(why) => ledger.dropped(item, why),
        }
    }
    if hosts.is_empty() {
        if object.spec(&["hostnames"]).is_some_and(|item| !item.items().is_empty()) {
            return ledger.retracted(&object.item, "none of its host names can be said, and it must not take others");
        }
        hosts.push(None);
    }
    let mut known: Vec<(Vec<String>, String)> = Vec::new();
    for rule in object.item.list(&["spec", "rules"]) {
        let items = rule.list(&["matches"]);
        let mut matches: Vec<Match> = items.iter().filter_map(|item| one_match(item, is_grpc, ledger)).collect();
        if items.is_empty() {
            matches.push(Match::default());
        } else if matches.is_empty() {
            ledger.retracted(rule, "none of its matches can be said, and it must not take other requests");
            continue;
        }
        let at_hosts = |one: &Match| hosts.iter().map(|host| Match { host: host.clone(), ..one.clone() }).collect();
        let matches: Vec<Match> = matches.iter().flat_map(|one| -> Vec<Match> { at_hosts(one) }).collect();
        if matches.len() > MATCHES_MAX {
            ledger.retracted(rule, "it has more matches than a route of Serin may have");
            continue;
        }
        let mut route = Route { from: ledger.place(rule), matches, ..Route::default() };
        if !rule.list(&["backendRefs"]).is_empty() {
            let of = Of { name, namespace, is_grpc };
            route.service = service(rule, of, &mut known, draft, objects, ledger);
        }
        gateway_filters::apply(rule.list(&["filters"]), &mut route, ledger);
        timeouts(rule, &mut route, ledger);
        retry(rule, &mut route, ledger);
        if route.service.is_some() || route.filters.iter().any(|(field, _)| *field == "redirect") {
            draft.routes.push(route);
        }
    }
}

/// An entry of `matches`; none if not all of it can be said.
fn one_match(item: &Item, is_grpc: bool, ledger: &mut Ledger) -> Option<Match> {
    let mut one = Match::default();
    let text = |item: &Item, field: &str| item.get(field).and_then(Item::text).map(str::to_owned);
    let how = |item: &Item| match text(item, "type").as_deref() {
        Some("RegularExpression") => How::Regex,
        Some("PathPrefix") => How::Prefix,
        _ => How::Exact,
    };
    if let (false, Some(path)) = (is_grpc, item.get("path")) {
        let how = if path.get("type").is_some() { how(path) } else { How::Prefix };
        one.path = Some((how, text(path, "value").unwrap_or_else(|| "/".to_owned())));
    }
    if is_grpc {
        one.path = item.get("method").and_then(grpc_path);
        one.method = one.path.is_some().then(|| "POST".to_owned());
    } else {
        one.method = text(item, "method");
    }
    for (field, conditions) in [("headers", &mut one.headers), ("queryParams", &mut one.query)] {
        for condition in item.list(&[field]) {
            let (name, value) = (text(condition, "name")?, text(condition, "value").unwrap_or_default());
            conditions.push(Condition { name, how: how(condition), value });
        }
    }
    match one.try_out() {
        Ok(()) => {
            ledger.kept(item, "an entry of the route's `match`");
            Some(one)
        }
        Err(why) => {
            ledger.dropped(item, format!("this entry is left out, so that no other request meets it: {why}"));
            None
        }
    }
}

/// gRPC asks for `/service/method`.
fn grpc_path(method: &Item) -> Option<(How, String)> {
    let text = |field: &str| method.get(field).and_then(Item::text).filter(|text| !text.is_empty());
    let is_pattern = text("type") == Some("RegularExpression");
    match (text("service"), text("method"), is_pattern) {
        (None, None, _) => None,
        (Some(service), Some(method), false) => Some((How::Exact, format!("/{service}/{method}"))),
        (Some(service), None, false) => Some((How::Prefix, format!("/{service}"))),
        (None, Some(method), false) => Some((How::Regex, format!("/[^/]+/{}", regex::escape(method)))),
        (service, method, true) => {
            let any = "[^/]+";
            Some((How::Regex, format!("/(?:{})/(?:{})", service.unwrap_or(any), method.unwrap_or(any))))
        }
    }
}

/// What the services of a route are named after, and where.
#[derive(Clone, Copy)]
struct Of<'a> {
    name: &'a str,
    namespace: Option<&'a str>,
    is_grpc: bool,
}

/// The service of a rule; the same backends with the same weights are one service.
fn service(
    rule: &Item,
    of: Of<'_>,
    known: &mut Vec<(Vec<String>, String)>,
    draft: &mut Draft,
    objects: &Objects,
    ledger: &mut Ledger,
) -> Option<String> {
    let name = unused_name(of.name, &draft.services);
    let (mut legs, mut key) = (Vec::new(), Vec::new());
    for (index, reference) in rule.list(&["backendRefs"]).iter().enumerate() {
        let kind = reference.get("kind").and_then(Item::text).unwrap_or("Service");
        if kind != "Service" {
            ledger.dropped(reference, "a backend that is no Service has no address");
            continue;
        }
        let leg = leg(reference, &name, index, of, objects, ledger);
        key.push(format!("{:?} {:?}", leg.backend, leg.weight_at.and_then(whole)));
        legs.push(leg);
    }
    let sticky = session(rule, ledger);
    if let (Some((_, service)), None) = (known.iter().find(|(other, _)| *other == key), &sticky) {
        for leg in &legs {
            ledger.kept(leg.item, format!("as in the service `{service}`"));
        }
        return Some(service.clone());
    }
    let mut service = weighted::service(name.clone(), legs, ledger)?;
    if sticky.is_none() {
        known.push((key, name.clone()));
    }
    service.sticky = sticky;
    draft.services.push(service);
    Some(name)
}

fn leg<'a>(
    reference: &'a Item,
    service: &str,
    index: usize,
    of: Of<'_>,
    objects: &Objects,
    ledger: &mut Ledger,
) -> Leg<'a> {
    for field in ["kind", "group"] {
        if let Some(item) = reference.get(field) {
            ledger.kept(item, "says that it is a Service");
        }
    }
    if let Some(item) = reference.get("namespace") {
        ledger.kept(item, "part of the endpoint's host name");
    }
    let port_at = reference.get("port");
    if let Some(item) = port_at.filter(|item| port(item).is_some()) {
        ledger.kept(item, "the port of the endpoint");
    }
    let namespace = reference.get("namespace").and_then(Item::text).or(of.namespace);
    let version = format!("v{}", index + 1);
    let place = Place {
        namespace,
        port: port_at.and_then(port).unwrap_or(80),
        fallback: (&format!("{service}-{}", index + 1), &version),
    };
    // A number that is written goes before that of a Service.
    let none = Objects::default();
    let known = if port_at.and_then(port).is_some() { &none } else { objects };
    let mut backend: Backend = backend(reference.get("name"), place, known, ledger);
    if of.is_grpc && backend.set("http", "h2".to_owned()).is_err() {
        ledger.dropped(reference, "cannot be reached by HTTP/2");
    }
    gateway_filters::of_backend(reference.list(&["filters"]), &mut backend, ledger);
    Leg { backend, item: reference, weight_at: reference.get("weight"), default: 1 }
}

fn timeouts(rule: &Item, route: &mut Route, ledger: &mut Ledger) {
    for (field, ours) in [("request", "request"), ("backendRequest", "attempt")] {
        let Some(item) = rule.at(&["timeouts", field]) else { continue };
        let Some(time) = item.text().and_then(go_duration).filter(|time| WAITS.contains(time)) else {
            ledger.dropped(
                item,
                "not a duration from 1ms to 1h; in Gateway API 0s is no limit, which Serin does not have",
            );
            continue;
        };
        if ours == "request" {
            route.request_timeout = Some(time);
        } else {
            route.attempt_timeout = Some(time);
        }
        ledger.kept(item, format!("`timeouts.{ours}`"));
    }
}

fn retry(rule: &Item, route: &mut Route, ledger: &mut Ledger) {
    let Some(retry) = rule.get("retry") else { return };
    let attempts_at = retry.get("attempts");
    let attempts = attempts_at.map_or(Some(1), whole).unwrap_or(1).min(10);
    let codes: Vec<String> = retry.list(&["codes"]).iter().filter_map(Item::text).map(scalar).collect();
    let text = format!("{{ retries: {attempts}, statuses: [{}] }}", codes.join(", "));
    let text = if codes.is_empty() { format!("{{ retries: {attempts} }}") } else { text };
    match trial::route(&format!("service: a, retry: {text}")) {
        Ok(()) => {
            route.retry = Some(text);
            for item in [attempts_at, retry.get("codes")].into_iter().flatten() {
                ledger.approximated(item, "`retry`: at the same version, statuses only for idempotent requests");
            }
        }
        Err(why) => ledger.dropped(retry, why),
    }
}

fn session(rule: &Item, ledger: &mut Ledger) -> Option<Sticky> {
    let session = rule.get("sessionPersistence")?;
    let is_cookie = session.get("type").is_none_or(|kind| kind.text() == Some("Cookie"));
    let name = session.get("sessionName").filter(|name| is_cookie && name.text().is_some_and(is_token))?;
    let age_at = session.get("absoluteTimeout");
    let ages = Duration::from_secs(1)..=Duration::from_hours(366 * 24);
    let age = age_at.and_then(Item::text).and_then(go_duration).filter(|age| ages.contains(age));
    ledger.approximated(name, "`assign.sticky`: pins a client to a version, not to an endpoint");
    if let Some(kind) = session.get("type") {
        ledger.kept(kind, "`by: cookie`");
    }
    if let Some(item) = age_at.filter(|_| age.is_some()) {
        ledger.kept(item, "`ttl` of the cookie");
    }
    Some(Sticky { cookie: name.text().unwrap_or_default().to_owned(), ttl: age })
}

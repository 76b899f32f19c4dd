//! Istio: the HTTP routes of VirtualServices with their weighted destinations, and what DestinationRules say of them.
//! Serin picks no pods by labels, so each subset needs a Service of its own; its address is a guess that is said aloud.
//! In Istio the first route in the list is taken, here the nearest: `matching::first_wins` makes them the same.

use super::{
    Importer,
    backend::Backend,
    draft::{Draft, service_name, unused_name},
    istio_http::{self, without_port},
    istio_policy,
    ledger::Ledger,
    manifest::{Item, Object, Objects},
    matching::{MATCHES_MAX, Match, Ordered, first_wins},
    route::Route,
    smi::hosts_of,
    value::{port, scalar, whole},
    weighted::{self, Leg},
};

pub(super) const IMPORTER: Importer = Importer {
    word: "istio",
    reads: &["VirtualService", "DestinationRule", "Service"],
    wants: "VirtualService with HTTP routes",
    reasons: REASONS,
    draft,
};

const LABELS: &str = "Serin picks no pods by labels: give each subset a Service of its own";
const MIRROR: &str = "waits for mirroring";

const REASONS: &[(&str, &str, &str)] = &[
    ("VirtualService", "spec.gateways", "Serin listens by itself: see `listen`"),
    ("VirtualService", "spec.tcp", "Serin carries HTTP only"),
    ("VirtualService", "spec.tls", "Serin carries HTTP only"),
    ("VirtualService", "spec.exportTo", "there is no mesh to export to"),
    ("VirtualService", "spec.http[].name", "a route is named after its service"),
    ("VirtualService", "spec.http[].mirror", MIRROR),
    ("VirtualService", "spec.http[].mirrors", MIRROR),
    ("VirtualService", "spec.http[].mirrorPercentage", MIRROR),
    ("VirtualService", "spec.http[].fault", "Serin injects no faults"),
    ("VirtualService", "spec.http[].delegate", "write the delegate's routes into these files, and import them"),
    ("VirtualService", "spec.http[].directResponse", "Serin answers nothing by itself"),
    ("DestinationRule", "spec.host", "no destination of an imported route has this host"),
    ("DestinationRule", "spec.subsets", LABELS),
    ("DestinationRule", "spec.trafficPolicy", "no version of the config is reached by it"),
    ("DestinationRule", "spec.exportTo", "there is no mesh to export to"),
];

fn draft(objects: &Objects, ledger: &mut Ledger) -> Option<Draft> {
    let mut draft = Draft::empty();
    let all: Vec<&Object> = objects.all("VirtualService").collect();
    for object in &all {
        virtual_service(object, all.len() > 1, &mut draft, objects, ledger);
    }
    draft.remark_splits();
    (!draft.services.is_empty()).then_some(draft)
}

/// A rule that can be said.
struct Rule<'a> {
    item: &'a Item,
    matches: Vec<Match>,
}

fn virtual_service(object: &Object, has_others: bool, draft: &mut Draft, objects: &Objects, ledger: &mut Ledger) {
    let namespace = object.namespace(ledger);
    let name = service_name(object, ledger);
    let name = &*name;
    let hosts = hosts(object, namespace, has_others, ledger);
    let mut rules = Vec::new();
    for item in object.item.list(&["spec", "http"]) {
        match istio_http::matches(item.list(&["match"]), ledger) {
            Some(matches) if matches.is_empty() => rules.push(Rule { item, matches: vec![Match::default()] }),
            Some(matches) => rules.push(Rule { item, matches }),
            None => ledger.retracted(item, "no entry of its `match` can be said, and it must not take other requests"),
        }
    }
    let of = |rule: &Rule<'_>| Ordered {
        matches: rule.matches.clone(),
        is_bound: rule.item.at(&["rewrite", "uri"]).is_some(),
    };
    let listed: Vec<Ordered> = rules.iter().map(of).collect();
    let (listed, is_exact) = first_wins(&listed);
    if !is_exact {
        draft.remark(
            "Istio takes the first route of its list and Serin the nearest; for some requests they differ: see `match`",
        );
    }
    let mut known: Vec<(Vec<String>, String)> = Vec::new();
    for (rule, matches) in rules.into_iter().zip(listed) {
        let at_host = |one: &Match| -> Vec<Match> {
            // A match has its own host, or else those of the whole.
            let own = one.host.is_some();
            let of = |host: &Option<String>| Match { host: host.clone(), ..one.clone() };
            if own { vec![one.clone()] } else { hosts.iter().map(of).collect() }
        };
        let matches: Vec<Match> = matches.iter().flat_map(at_host).take(MATCHES_MAX).collect();
        let mut route = Route { from: ledger.place(rule.item), matches, ..Route::default() };
        if let Some(redirect) = rule.item.get("redirect") {
            self::redirect(redirect, &mut route, ledger);
        } else {
            let place = Place { name, namespace };
            let Some(service) = service(rule.item, place, &mut known, draft, objects, ledger) else { continue };
            route.service = Some(service);
            istio_http::actions(rule.item, &mut route, ledger);
        }
        if route.service.is_some() || !route.filters.is_empty() {
            draft.routes.push(route);
        }
    }
}

/// Hosts of the world are compared; those of the cluster only where they tell several services apart.
fn hosts(object: &Object, namespace: Option<&str>, has_others: bool, ledger: &mut Ledger) -> Vec<Option<String>> {
    let mut all = Vec::new();
    for item in object.item.list(&["spec", "hosts"]) {
        let host = item.text().map(without_port).unwrap_or_default();
        let is_of_cluster = !host.contains('.') || host.ends_with(".svc.cluster.local");
        if host == "*" || (is_of_cluster && !has_others) {
            ledger.approximated(item, "every host is answered where Serin listens");
            all.push(None);
            continue;
        }
        let said = if is_of_cluster { hosts_of(host, namespace) } else { hosts_of(host, None) };
        if said.is_empty() {
            ledger.dropped(item, "cannot be a host of a route");
        } else {
            ledger.kept(item, "`host` of the route's `match`");
            all.extend(said.into_iter().map(Some));
        }
    }
    if all.contains(&None) || all.is_empty() { vec![None] } else { all }
}

/// What the services of a VirtualService are named after, and where.
#[derive(Clone, Copy)]
struct Place<'a> {
    name: &'a str,
    namespace: Option<&'a str>,
}

/// The service of a route's destinations; the same destinations with the same weights are one service.
fn service(
    route: &Item,
    Place { name, namespace }: Place<'_>,
    known: &mut Vec<(Vec<String>, String)>,
    draft: &mut Draft,
    objects: &Objects,
    ledger: &mut Ledger,
) -> Option<String> {
    let destinations = route.list(&["route"]);
    let single = destinations.len() == 1;
    let mut legs = Vec::new();
    let mut key = Vec::new();
    for (index, item) in destinations.iter().enumerate() {
        let mut backend = destination(item, index, namespace, objects, ledger);
        if let Some(headers) = item.get("headers") {
            version_headers(headers, &mut backend, ledger);
        }
        istio_policy::apply(item, &mut backend, objects, ledger);
        key.push(format!("{backend:?} {:?}", item.get("weight").and_then(whole)));
        legs.push(Leg { backend, item, weight_at: item.get("weight"), default: u64::from(single) });
    }
    if let Some((_, service)) = known.iter().find(|(other, _)| *other == key) {
        for weight in destinations.iter().filter_map(|item| item.get("weight")) {
            ledger.kept(weight, format!("as in the service `{service}`"));
        }
        return Some(service.clone());
    }
    let mut service = weighted::service(unused_name(name, &draft.services), legs, ledger)?;
    service.sticky = istio_policy::sticky(destinations, objects, ledger);
    let name = service.name.clone();
    draft.services.push(service);
    known.push((key, name.clone()));
    Some(name)
}

fn version_headers(headers: &Item, backend: &mut Backend, ledger: &mut Ledger) {
    let mut parts = Vec::new();
    for (side, field) in [("request", "requestHeaders"), ("response", "responseHeaders")] {
        if let Some(edits) = headers.get(side) {
            parts.push(format!("{field}: {}", istio_http::header_edits(edits, ledger)));
        }
    }
    match backend.set("filters", format!("{{ {} }}", parts.join(", "))) {
        Ok(()) => ledger.kept(headers, "`filters` of the version"),
        Err(why) => ledger.dropped(headers, why),
    }
}

fn redirect(item: &Item, route: &mut Route, ledger: &mut Ledger) {
    let text = |field: &str| item.get(field).and_then(Item::text);
    let mut parts = vec![format!("status: {}", text("redirectCode").map_or_else(|| "301".to_owned(), scalar))];
    for (theirs, ours) in [("scheme", "scheme"), ("port", "port")] {
        parts.extend(text(theirs).map(|value| format!("{ours}: {}", scalar(value))));
    }
    parts.extend(text("authority").map(|host| format!("host: {}", scalar(without_port(host)))));
    parts.extend(text("uri").map(|path| format!("path: {{ full: {} }}", scalar(path))));
    let done = route.filter("redirect", format!("{{ {} }}", parts.join(", ")));
    istio_http::decide(item, done, "redirect", ledger);
}

/// The version of a destination: named after the subset, or else after the host.
fn destination(item: &Item, index: usize, namespace: Option<&str>, objects: &Objects, ledger: &mut Ledger) -> Backend {
    let host_at = item.at(&["destination", "host"]);
    let subset_at = item.at(&["destination", "subset"]);
    let port_at = item.at(&["destination", "port", "number"]);
    let host = host_at.and_then(Item::text).unwrap_or_default();
    let subset = subset_at.and_then(Item::text);
    let (first, rest) = host.split_once('.').map_or((host, None), |(first, rest)| (first, Some(rest)));
    let version = subset.unwrap_or(first);
    let name = subset.map_or_else(|| first.to_owned(), |subset| format!("{first}-{subset}"));
    let address = rest.or(namespace).map_or_else(|| name.clone(), |rest| format!("{name}.{rest}"));
    let of_service = objects.port(&name, ledger);
    let number = port_at.and_then(port).or(of_service).unwrap_or(80);
    let fallback = format!("v{}", index + 1);
    let backend = Backend::new(version, &address, number)
        .or_else(|| Backend::new(&name, &address, number))
        .or_else(|| Backend::new(&fallback, &address, number))
        .unwrap_or_else(|| Backend::unknown(&fallback));
    let is_named = backend.version == version;
    if let Some(host_at) = host_at {
        ledger.approximated(host_at, format!("the endpoint `{}` is derived from it", backend.url));
    }
    if let Some(subset_at) = subset_at {
        if is_named {
            let how = format!("a version of that name; the subset needs a Service of its own at `{}`", backend.url);
            ledger.approximated(subset_at, how);
        } else {
            ledger.dropped(subset_at, format!("cannot be a version's name here; it is called `{}`", backend.version));
        }
    }
    if let Some(port_at) = port_at {
        match port(port_at) {
            Some(_) => ledger.kept(port_at, "the port of the endpoint"),
            None => ledger.dropped(port_at, "not a port"),
        }
    }
    backend
}

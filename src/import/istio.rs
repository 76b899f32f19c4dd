//! Istio: the weighted destinations of a VirtualService's HTTP route, with subsets as versions.
//! Serin picks no pods by labels, so each subset needs a Service of its own; its address is a guess that is said aloud.

use super::{
    Importer,
    draft::{Backend, Draft, service_name},
    ledger::Ledger,
    manifest::{Item, Objects},
    value::{WAITS, go_duration, port},
    weighted::{self, Leg},
};

pub(super) const IMPORTER: Importer = Importer {
    word: "istio",
    reads: &["VirtualService", "DestinationRule", "Service"],
    wants: "VirtualService with HTTP routes",
    reasons: REASONS,
    draft,
};

const MATCH: &str = "waits for `routes[].match`: every request goes to the service";
const LABELS: &str = "Serin picks no pods by labels: give each subset a Service of its own";

const REASONS: &[(&str, &str, &str)] = &[
    ("VirtualService", "spec.hosts", MATCH),
    ("VirtualService", "spec.gateways", "Serin listens by itself: see `listen`"),
    ("VirtualService", "spec.tcp", "Serin carries HTTP only"),
    ("VirtualService", "spec.tls", "Serin carries HTTP only"),
    ("VirtualService", "spec.exportTo", "there is no mesh to export to"),
    ("VirtualService", "spec.http", "waits for `routes[]`: one route for now, the first with several destinations"),
    ("VirtualService", "spec.http[].match", MATCH),
    ("VirtualService", "spec.http[].retries", "waits for `routes[].retry`"),
    ("VirtualService", "spec.http[].rewrite", "waits for `routes[].filters`"),
    ("VirtualService", "spec.http[].headers", "waits for `routes[].filters`"),
    ("VirtualService", "spec.http[].corsPolicy", "waits for `routes[].filters`"),
    ("VirtualService", "spec.http[].mirror", "waits for mirroring"),
    ("VirtualService", "spec.http[].mirrors", "waits for mirroring"),
    ("VirtualService", "spec.http[].mirrorPercentage", "waits for mirroring"),
    ("VirtualService", "spec.http[].fault", "Serin injects no faults"),
    ("VirtualService", "spec.http[].route[].headers", "waits for `versions.<name>.filters`"),
    ("DestinationRule", "spec.host", "the endpoints are named after the VirtualService's destinations"),
    ("DestinationRule", "spec.subsets", LABELS),
    (
        "DestinationRule",
        "spec.trafficPolicy",
        "waits for `versions.<name>`: `tls`, `loadBalancing`, `ejection`, `limits`",
    ),
    ("DestinationRule", "spec.exportTo", "there is no mesh to export to"),
];

fn draft(objects: &Objects, ledger: &mut Ledger) -> Option<Draft> {
    let service_at = objects.only("VirtualService", ledger)?;
    let routes = service_at.item.list(&["spec", "http"]);
    let count = |route: &&Item| route.list(&["route"]).len();
    let route =
        routes.iter().find(|route| count(route) > 1).or_else(|| routes.iter().find(|route| count(route) > 0))?;
    let service = service_name(service_at, ledger);
    let namespace = service_at.namespace(ledger);
    let single = count(&route) == 1;
    let mut legs = Vec::new();
    for (index, item) in route.list(&["route"]).iter().enumerate() {
        let backend = destination(item, index, namespace, objects, ledger);
        legs.push(Leg { backend, item, weight_at: item.get("weight"), default: u64::from(single) });
    }
    let mut draft = weighted::draft(service, legs, ledger)?;
    if let Some(item) = route.get("timeout") {
        match item.text().and_then(go_duration).filter(|time| WAITS.contains(time)) {
            Some(time) => {
                draft.request_timeout = Some(time);
                ledger.kept(item, "`timeouts.request`");
            }
            None => ledger.dropped(item, "not a duration from 1ms to 1h"),
        }
    }
    Some(draft)
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

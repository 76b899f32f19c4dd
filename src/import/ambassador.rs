//! Ambassador, Emissary: two Mappings of one prefix, of which one has a weight in percent and is the canary.

use std::time::Duration;

use super::{
    Importer,
    draft::{Backend, Draft},
    ledger::Ledger,
    manifest::{Item, ONE_SERVICE, Object, Objects},
    value::{WAITS, whole},
};
use crate::engine::{names::VersionName, weight::Weight};

pub(super) const IMPORTER: Importer = Importer {
    word: "ambassador",
    reads: &["Mapping"],
    wants: "Mapping with a `weight`",
    reasons: &[
        ("Mapping", "spec.hostname", ROUTES),
        ("Mapping", "spec.host", ROUTES),
        ("Mapping", "spec.prefix", ROUTES),
        ("Mapping", "spec.method", ROUTES),
        ("Mapping", "spec.headers", ROUTES),
        ("Mapping", "spec.rewrite", "rewriting is for `routes[].filters.rewrite`"),
        ("Mapping", "spec.retry_policy", "retries are for `routes[].retry`"),
        ("Mapping", "spec.shadow", "mirroring is for `routes[].filters.mirror`"),
    ],
    draft,
};

const ROUTES: &str = "which requests it is about is for `routes[].match`: every request goes to the service";

fn draft(objects: &Objects, ledger: &mut Ledger) -> Option<Draft> {
    let canary = objects.all("Mapping").find(|mapping| mapping.spec(&["weight"]).is_some())?;
    let stable = partner(canary, objects)?;
    for other in objects.all("Mapping") {
        if !std::ptr::eq(other, canary) && !std::ptr::eq(other, stable) {
            ledger.dropped(&other.item, ONE_SERVICE);
        }
    }
    let weight_at = canary.spec(&["weight"])?;
    let share =
        whole(weight_at).filter(|weight| *weight <= 100).and_then(|weight| format!("{weight}%").parse::<Weight>().ok());
    match share {
        Some(share) => ledger.kept(weight_at, format!("`setWeight: {share}`")),
        None => ledger.dropped(weight_at, "not a whole number from 0 to 100; the canary gets no share"),
    }
    let of_stable = side(stable, "v1", ledger);
    let of_canary = side(canary, "v2", ledger);
    let service = Some(&stable.name).filter(|name| VersionName::new(name).is_ok());
    if service.is_some() {
        ledger.kept_field(stable, &["metadata", "name"], "the service's name");
    }
    ledger.kept_field(canary, &["metadata", "name"], "the canary's Mapping");
    let mut draft = Draft::new(service.map_or("app", |name| name).to_owned(), of_stable, Some(of_canary));
    draft.hold_at(share.unwrap_or(Weight::ZERO), ledger.place(weight_at));
    if let Some(item) = stable.spec(&["timeout_ms"]) {
        match whole(item).map(Duration::from_millis).filter(|time| WAITS.contains(time)) {
            Some(time) => {
                draft.request_timeout = Some(time);
                ledger.approximated(item, "`timeouts.request`, which ends with the response head");
            }
            None => ledger.dropped(item, "not from 1ms to 1h"),
        }
    }
    Some(draft)
}

/// The Mapping without a weight that takes what the canary does not: of the same prefix, or else the first.
fn partner<'o>(canary: &Object, objects: &'o Objects) -> Option<&'o Object> {
    let prefix = |mapping: &Object| mapping.spec(&["prefix"]).and_then(Item::text).map(str::to_owned);
    let others: Vec<&Object> = objects.all("Mapping").filter(|mapping| mapping.spec(&["weight"]).is_none()).collect();
    let wanted = prefix(canary);
    others.iter().find(|mapping| prefix(mapping) == wanted).or(others.first()).copied()
}

/// `service: [http://]name[.namespace][:port]`.
fn side(mapping: &Object, fallback: &str, ledger: &mut Ledger) -> Backend {
    let namespace = mapping.namespace(ledger);
    let Some(item) = mapping.spec(&["service"]) else { return Backend::unknown(fallback) };
    let text = item.text().unwrap_or_default();
    let (scheme, rest) = text.split_once("://").unwrap_or(("http", text));
    let (host, port) = rest.split_once(':').unwrap_or((rest, "80"));
    let (first, has_namespace) = host.split_once('.').map_or((host, false), |(first, _)| (first, true));
    let address = match namespace {
        Some(namespace) if !has_namespace => format!("{host}.{namespace}"),
        _ => host.to_owned(),
    };
    let number = port.parse().ok().filter(|port: &u16| *port > 0);
    let read = number
        .filter(|_| scheme == "http")
        .and_then(|port| Backend::new(first, &address, port).or_else(|| Backend::new(fallback, &address, port)));
    let Some(backend) = read else {
        ledger.dropped(item, format!("not `name:port` by HTTP; write where `{fallback}` answers"));
        return Backend::unknown(fallback);
    };
    ledger.approximated(item, format!("the version `{}` at `{}`, derived from it", backend.version, backend.url));
    backend
}

//! ingress-nginx: an Ingress and the Ingress beside it that is annotated as its canary.
//! Takes one pair of backends: routing by host and path comes later.

use std::time::Duration;

use super::{
    Importer,
    draft::{Backend, Draft, Place, Sticky, backend, service_name},
    ledger::Ledger,
    manifest::{Item, ONE_SERVICE, Object, Objects},
    value::{is_token, port, whole},
};
use crate::engine::weight::Weight;

pub(super) const IMPORTER: Importer = Importer {
    word: "nginx",
    reads: &["Ingress", "Service"],
    wants: "Ingress with `nginx.ingress.kubernetes.io/canary: \"true\"`",
    reasons: REASONS,
    draft,
};

const PREFIX: &str = "nginx.ingress.kubernetes.io/";
const ROUTES: &str = "waits for `routes[].match`: every request goes to the service";

const REASONS: &[(&str, &str, &str)] = &[
    ("Ingress", "spec.ingressClassName", "Serin listens by itself: see `listen`"),
    ("Ingress", "spec.rules", ROUTES),
    ("Ingress", "spec.defaultBackend", ROUTES),
    ("Ingress", "spec.tls", "waits for `listeners[].tls`"),
    ("Ingress", "metadata.annotations", "this annotation has nothing that corresponds to it"),
];

fn draft(objects: &Objects, ledger: &mut Ledger) -> Option<Draft> {
    let is_canary = |object: &&Object| annotation(object, "canary").is_some_and(Item::is_true);
    let canary = objects.all("Ingress").find(is_canary)?;
    let stable = partner(canary, objects)?;
    ledger.kept_field(canary, &["metadata", "name"], "the canary's Ingress");
    for other in objects.all("Ingress") {
        if !std::ptr::eq(other, canary) && !std::ptr::eq(other, stable) {
            ledger.dropped(&other.item, ONE_SERVICE);
        }
    }
    let service = service_name(stable, ledger);
    let mut sides = Vec::new();
    for (object, role, version) in [(stable, "stable", "v1"), (canary, "canary", "v2")] {
        sides.push(side(object, (&format!("{service}-{role}"), version), objects, ledger));
    }
    let wanted = sides.pop();
    let mut draft = Draft::new(service, sides.pop()?, wanted);
    if let Some(item) = annotation(canary, "canary") {
        ledger.kept(item, "`canary`");
    }
    weight(canary, &mut draft, ledger);
    headers(canary, &mut draft, ledger);
    affinity(stable, canary, &mut draft, ledger);
    Some(draft)
}

fn annotation<'a>(object: &'a Object, name: &str) -> Option<&'a Item> {
    object.item.at(&["metadata", "annotations", &format!("{PREFIX}{name}")])
}

/// The Ingress that the canary belongs to: the first with a host and path of it, or else the first that is none.
fn partner<'o>(canary: &Object, objects: &'o Objects) -> Option<&'o Object> {
    let places = places(canary);
    let is_stable = |other: &&Object| !annotation(other, "canary").is_some_and(Item::is_true);
    let others: Vec<&Object> = objects.all("Ingress").filter(is_stable).collect();
    let shares_place = |other: &&&Object| self::places(other).iter().any(|place| places.contains(place));
    others.iter().find(shares_place).or(others.first()).copied()
}

/// Host and path of each rule.
fn places(object: &Object) -> Vec<(&str, &str)> {
    let rules = object.item.list(&["spec", "rules"]);
    let of = |rule| {
        let host = Item::get(rule, "host").and_then(Item::text).unwrap_or_default();
        let paths = rule.list(&["http", "paths"]).iter();
        paths.map(move |path| (host, path.get("path").and_then(Item::text).unwrap_or("/"))).collect::<Vec<_>>()
    };
    rules.iter().flat_map(of).collect()
}

/// The backend of the first path, or the default backend.
fn side(object: &Object, fallback: (&str, &str), objects: &Objects, ledger: &mut Ledger) -> Backend {
    let namespace = object.namespace(ledger);
    let mut paths = object.item.list(&["spec", "rules"]).iter().flat_map(|rule| rule.list(&["http", "paths"]));
    let found = paths.find_map(|path| path.get("backend")).or_else(|| object.spec(&["defaultBackend"]));
    let service = found.and_then(|backend| backend.get("service"));
    let number_at = service.and_then(|service| service.at(&["port", "number"]));
    if let Some(item) = number_at {
        match port(item) {
            Some(_) => ledger.kept(item, "the port of the endpoint"),
            None => ledger.dropped(item, "not a port; 80 is taken"),
        }
    }
    if let Some(item) = service.and_then(|service| service.at(&["port", "name"])) {
        ledger.approximated(
            item,
            "a port's name says no number: that of the Service in these files, or else 80, is taken",
        );
    }
    let place = Place { namespace, port: number_at.and_then(port).unwrap_or(80), fallback };
    let name = service.and_then(|service| service.get("name"));
    // A number that is written goes before that of a Service.
    let none = Objects::default();
    backend(name, place, if number_at.is_some() { &none } else { objects }, ledger)
}

fn weight(canary: &Object, draft: &mut Draft, ledger: &mut Ledger) {
    let weight_at = annotation(canary, "canary-weight");
    let total_at = annotation(canary, "canary-weight-total");
    let total = total_at.and_then(whole).filter(|total| (1..=1_000_000_000).contains(total));
    if let Some(item) = total_at {
        match total {
            Some(_) => ledger.kept(item, "what the weight is a part of"),
            None => ledger.dropped(item, "not a whole number above 0; 100 is taken"),
        }
    }
    let total = total.unwrap_or(100);
    let weight = weight_at.and_then(whole).filter(|weight| *weight <= total);
    let parts = weight.map_or(0, |weight| (weight * 1_000_000 + total / 2) / total);
    let share = u32::try_from(parts).ok().and_then(|ppm| Weight::from_ppm(ppm).ok()).unwrap_or(Weight::ZERO);
    if let Some(item) = weight_at {
        match weight {
            Some(weight) if (weight * 1_000_000).is_multiple_of(total) => {
                ledger.kept(item, format!("`setWeight: {share}`"));
            }
            Some(_) => ledger.approximated(item, format!("`setWeight: {share}`, to a part per million")),
            None => ledger.dropped(item, format!("not a whole number from 0 to {total}; the canary gets no share")),
        }
    }
    draft.hold_at(share, weight_at.map(|item| ledger.place(item)).unwrap_or_default());
}

/// Header, then cookie, then weight, as in ingress-nginx.
fn headers(canary: &Object, draft: &mut Draft, ledger: &mut Ledger) {
    let later = "waits for `assign.cohorts`: only the values `always` and `never` are understood now";
    let header_at = annotation(canary, "canary-by-header");
    let mut is_special = false;
    for name in ["canary-by-header-value", "canary-by-header-pattern"] {
        if let Some(item) = annotation(canary, name) {
            ledger.dropped(item, later);
            is_special = true;
        }
    }
    if let Some(item) = header_at {
        match item.text().filter(|header| is_token(header)) {
            Some(_) if is_special => ledger.dropped(item, later),
            Some(header) => {
                draft.force_header = Some(header.to_owned());
                draft.is_running = true;
                ledger.kept(item, "`assign.force.header`: `always` and `never` mean the same");
            }
            None => ledger.dropped(item, "cannot be a header's name"),
        }
    }
    if let Some(item) = annotation(canary, "canary-by-cookie") {
        ledger.dropped(item, "waits for `assign.force.cookie`");
    }
}

fn affinity(stable: &Object, canary: &Object, draft: &mut Draft, ledger: &mut Ledger) {
    let behavior =
        annotation(canary, "affinity-canary-behavior").or_else(|| annotation(stable, "affinity-canary-behavior"));
    let Some(affinity) = annotation(stable, "affinity") else { return };
    if affinity.text() != Some("cookie") || behavior.is_some_and(|behavior| behavior.text() == Some("legacy")) {
        return;
    }
    let name_at = annotation(stable, "session-cookie-name");
    let name = name_at.and_then(Item::text).filter(|name| is_token(name));
    let age_at = annotation(stable, "session-cookie-max-age");
    let age = age_at.and_then(whole).filter(|age| (1..=31_536_000).contains(age));
    // What ingress-nginx calls it without a name.
    let cookie = name.unwrap_or("INGRESSCOOKIE").to_owned();
    draft.sticky = Some(Sticky { cookie, ttl: age.map(Duration::from_secs) });
    ledger.approximated(affinity, "`assign.sticky`: pins a client to a version, not to a pod");
    if let Some(item) = name_at.filter(|_| name.is_some()) {
        ledger.kept(item, "the cookie's name; clients get a new cookie under it");
    }
    if let Some(item) = age_at.filter(|_| age.is_some()) {
        ledger.kept(item, "`ttl` of the cookie");
    }
    if let Some(item) = behavior {
        ledger.kept(item, "clients stay with the version that they had");
    }
}

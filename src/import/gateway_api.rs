//! Gateway API: the weighted backends of an HTTPRoute's rule. Weights are proportions, not percent; none is 1.
//! Takes one rule: routing between services comes later.

use std::time::Duration;

use super::{
    Importer,
    draft::{Draft, Place, Sticky, backend, service_name},
    ledger::Ledger,
    manifest::{Item, Objects},
    value::{WAITS, go_duration, is_token, port},
    weighted::{self, Leg},
};

pub(super) const IMPORTER: Importer = Importer {
    word: "gateway-api",
    reads: &["HTTPRoute", "Service"],
    wants: "HTTPRoute with backends",
    reasons: REASONS,
    draft,
};

const MATCH: &str = "waits for `routes[].match`: every request goes to the service";

const REASONS: &[(&str, &str, &str)] = &[
    ("HTTPRoute", "spec.parentRefs", "Serin listens by itself: see `listen`"),
    ("HTTPRoute", "spec.hostnames", MATCH),
    ("HTTPRoute", "spec.rules", "waits for `routes[]`: one rule for now, the first with several backends"),
    ("HTTPRoute", "spec.rules[].matches", MATCH),
    ("HTTPRoute", "spec.rules[].filters", "waits for `routes[].filters`"),
    ("HTTPRoute", "spec.rules[].retry", "waits for `routes[].retry`"),
    ("HTTPRoute", "spec.rules[].sessionPersistence", "only a cookie with a name and a lifetime is taken over"),
    ("HTTPRoute", "spec.rules[].backendRefs[].filters", "waits for `versions.<name>.filters`"),
];

fn draft(objects: &Objects, ledger: &mut Ledger) -> Option<Draft> {
    let route = objects.only("HTTPRoute", ledger)?;
    let rules = route.item.list(&["spec", "rules"]);
    let backends = |rule: &&Item| rule.list(&["backendRefs"]).len();
    let rule = rules.iter().find(|rule| backends(rule) > 1).or_else(|| rules.iter().find(|rule| backends(rule) > 0))?;
    let service = service_name(route, ledger);
    let namespace = route.namespace(ledger);
    let mut legs = Vec::new();
    for (index, reference) in rule.list(&["backendRefs"]).iter().enumerate() {
        let kind = reference.get("kind").and_then(Item::text).unwrap_or("Service");
        if kind != "Service" {
            ledger.dropped(reference, "a backend that is no Service has no address");
            continue;
        }
        legs.push(leg(reference, &service, index, namespace, objects, ledger));
    }
    let mut draft = weighted::draft(service, legs, ledger)?;
    timeouts(rule, &mut draft, ledger);
    session(rule, &mut draft, ledger);
    Some(draft)
}

fn leg<'a>(
    reference: &'a Item,
    service: &str,
    index: usize,
    namespace: Option<&str>,
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
    let namespace = reference.get("namespace").and_then(Item::text).or(namespace);
    let version = format!("v{}", index + 1);
    let place = Place {
        namespace,
        port: port_at.and_then(port).unwrap_or(80),
        fallback: (&format!("{service}-{}", index + 1), &version),
    };
    let backend = backend(reference.get("name"), place, objects, ledger);
    Leg { backend, item: reference, weight_at: reference.get("weight"), default: 1 }
}

fn timeouts(rule: &Item, draft: &mut Draft, ledger: &mut Ledger) {
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
            draft.request_timeout = Some(time);
        } else {
            draft.attempt_timeout = Some(time);
        }
        ledger.kept(item, format!("`timeouts.{ours}`"));
    }
}

fn session(rule: &Item, draft: &mut Draft, ledger: &mut Ledger) {
    let Some(session) = rule.get("sessionPersistence") else { return };
    let is_cookie = session.get("type").is_none_or(|kind| kind.text() == Some("Cookie"));
    let Some(name) = session.get("sessionName").filter(|name| is_cookie && name.text().is_some_and(is_token)) else {
        return;
    };
    let age_at = session.get("absoluteTimeout");
    let ages = Duration::from_secs(1)..=Duration::from_hours(366 * 24);
    let age = age_at.and_then(Item::text).and_then(go_duration).filter(|age| ages.contains(age));
    draft.sticky = Some(Sticky { cookie: name.text().unwrap_or_default().to_owned(), ttl: age });
    ledger.approximated(name, "`assign.sticky`: pins a client to a version, not to an endpoint");
    if let Some(kind) = session.get("type") {
        ledger.kept(kind, "`by: cookie`");
    }
    if let Some(item) = age_at.filter(|_| age.is_some()) {
        ledger.kept(item, "`ttl` of the cookie");
    }
}

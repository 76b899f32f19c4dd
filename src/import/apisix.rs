//! Apache APISIX: the weighted backends of an ApisixRoute's rule. Weights are proportions; none is 100.

use super::{
    Importer,
    draft::{Draft, Place, backend, service_name},
    ledger::Ledger,
    manifest::{Item, Objects},
    value::{WAITS, go_duration, port},
    weighted::{self, Leg},
};

pub(super) const IMPORTER: Importer = Importer {
    word: "apisix",
    reads: &["ApisixRoute", "Service"],
    wants: "ApisixRoute with HTTP backends",
    reasons: &[
        ("ApisixRoute", "spec.http", "one rule is read: the first with several backends"),
        (
            "ApisixRoute",
            "spec.http[].match",
            "which requests it is about is for `routes[].match`: every request goes to the service",
        ),
        ("ApisixRoute", "spec.http[].plugins", "plugins have nothing that corresponds to them"),
        ("ApisixRoute", "spec.http[].backends[].resolveGranularity", "Serin resolves names to all their addresses"),
        ("ApisixRoute", "spec.stream", "Serin carries HTTP only"),
    ],
    draft,
};

fn draft(objects: &Objects, ledger: &mut Ledger) -> Option<Draft> {
    let route = objects.only("ApisixRoute", ledger)?;
    let rules = route.item.list(&["spec", "http"]);
    let backends = |rule: &&Item| rule.list(&["backends"]).len();
    let rule = rules.iter().find(|rule| backends(rule) > 1).or_else(|| rules.iter().find(|rule| backends(rule) > 0))?;
    let service = service_name(route, ledger);
    let namespace = route.namespace(ledger);
    let mut legs = Vec::new();
    for (index, item) in rule.list(&["backends"]).iter().enumerate() {
        let number = item.get("servicePort").and_then(port);
        if let Some(port_at) = item.get("servicePort") {
            match number {
                Some(_) => ledger.kept(port_at, "the port of the endpoint"),
                None => ledger.dropped(port_at, "a port's name says no number: that of the Service, or 80, is taken"),
            }
        }
        let fallback = (&*format!("{service}-{}", index + 1), &*format!("v{}", index + 1));
        let place = Place { namespace, port: number.unwrap_or(80), fallback };
        // A number that is written goes before that of a Service.
        let none = Objects::default();
        let known = if number.is_some() { &none } else { objects };
        let backend = backend(item.get("serviceName"), place, known, ledger);
        legs.push(Leg { backend, item, weight_at: item.get("weight"), default: 100 });
    }
    let mut draft = weighted::draft(service, legs, ledger)?;
    if let Some(item) = rule.at(&["timeout", "read"]) {
        match item.text().and_then(go_duration).filter(|time| WAITS.contains(time)) {
            Some(time) => {
                draft.request_timeout = Some(time);
                ledger.approximated(item, "`timeouts.request`, which ends with the response head");
            }
            None => ledger.dropped(item, "not a duration from 1ms to 1h"),
        }
    }
    Some(draft)
}

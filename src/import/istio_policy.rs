//! DestinationRules of Istio: how the endpoints of a host are chosen and limited, for all of them and for a subset.

use std::time::Duration;

use super::{
    backend::Backend,
    draft::Sticky,
    ledger::Ledger,
    manifest::{Item, Objects},
    value::{go_duration, is_token, whole},
};

/// The policies of a destination: of the whole host, then of the subset, which goes before it.
fn policies<'o>(destination: &Item, objects: &'o Objects, ledger: &mut Ledger) -> Vec<&'o Item> {
    let host = destination.at(&["destination", "host"]).and_then(Item::text).unwrap_or_default();
    let subset = destination.at(&["destination", "subset"]).and_then(Item::text);
    let first = |host: &str| host.split('.').next().unwrap_or_default().to_owned();
    let mut found = Vec::new();
    for rule in objects.all("DestinationRule") {
        let of = rule.spec(&["host"]).and_then(Item::text).unwrap_or_default();
        if of != host && (first(of) != first(host) || (of.contains('.') && host.contains('.'))) {
            continue;
        }
        ledger.kept_field(rule, &["spec", "host"], "the versions at this host");
        found.extend(rule.spec(&["trafficPolicy"]));
        let subsets = rule.item.list(&["spec", "subsets"]).iter();
        let mut own = subsets.filter(|item| subset.is_some() && item.get("name").and_then(Item::text) == subset);
        if let Some(own) = own.next() {
            if let Some(name) = own.get("name") {
                ledger.kept(name, "the version of that name");
            }
            found.extend(own.get("trafficPolicy"));
        }
    }
    found
}

/// Puts them into a version.
pub(super) fn apply(destination: &Item, backend: &mut Backend, objects: &Objects, ledger: &mut Ledger) {
    for policy in policies(destination, objects, ledger) {
        if let Some(simple) = policy.at(&["loadBalancer", "simple"]) {
            let ours = match simple.text() {
                Some("ROUND_ROBIN") => Some("roundRobin"),
                Some("LEAST_REQUEST" | "LEAST_CONN" | "UNSPECIFIED") => Some("leastRequest"),
                Some("RANDOM") => Some("random"),
                _ => None,
            };
            match ours.map(|ours| backend.set("loadBalancing", ours.to_owned())) {
                Some(Ok(())) => ledger.kept(simple, "`loadBalancing` of the version"),
                _ => ledger.dropped(simple, "Serin chooses by leastRequest, roundRobin, random or ringHash"),
            }
        }
        let pool = [
            ("connections", policy.at(&["connectionPool", "tcp", "maxConnections"])),
            ("pending", policy.at(&["connectionPool", "http", "http1MaxPendingRequests"])),
        ];
        let limits: Vec<(&str, u64, &Item)> =
            pool.iter().filter_map(|(field, item)| Some((*field, item.and_then(whole)?, (*item)?))).collect();
        if !limits.is_empty() {
            let text: Vec<String> = limits.iter().map(|(field, limit, _)| format!("{field}: {limit}")).collect();
            let done = backend.set("limits", format!("{{ {} }}", text.join(", ")));
            for (field, _, item) in limits {
                match &done {
                    Ok(()) => ledger.approximated(item, format!("`limits.{field}`, of each address")),
                    Err(why) => ledger.dropped(item, why),
                }
            }
        }
        for (field, why) in [
            ("connectionPool", "only `maxConnections` and `http1MaxPendingRequests` are limits of a version"),
            ("outlierDetection", "waits for `ejection`"),
            ("tls", "the endpoints are derived as `http://`; write `https://…` and `tls` of the version"),
            ("portLevelSettings", "a version has one port"),
        ] {
            if let Some(item) = policy.get(field) {
                ledger.dropped(item, why);
            }
        }
    }
}

/// Consistent hashing by a cookie keeps clients at an endpoint; here it keeps them on their version as well.
pub(super) fn sticky(destinations: &[Item], objects: &Objects, ledger: &mut Ledger) -> Option<Sticky> {
    let mut found = None;
    for destination in destinations {
        for policy in policies(destination, objects, ledger) {
            let Some(hash) = policy.at(&["loadBalancer", "consistentHash"]) else { continue };
            let name_at = hash.at(&["httpCookie", "name"]);
            let Some(name) = name_at.and_then(Item::text).filter(|name| is_token(name)) else {
                ledger.dropped(hash, "only hashing by a cookie is taken over; see `assign.sticky` for other keys");
                continue;
            };
            let ttl_at = hash.at(&["httpCookie", "ttl"]);
            let ages = Duration::from_secs(1)..=Duration::from_hours(366 * 24);
            let ttl = ttl_at.and_then(Item::text).and_then(go_duration).filter(|age| ages.contains(age));
            ledger.approximated(
                hash,
                "`assign.sticky`: a cookie of Serin's own pins a client to a version, not to a pod",
            );
            found.get_or_insert(Sticky { cookie: name.to_owned(), ttl });
        }
    }
    found
}

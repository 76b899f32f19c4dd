//! AWS Load Balancer Controller: the weighted target groups of an Ingress's `actions.NAME` annotation, which is JSON in a
//! text. The annotation is one value, so it is kept or approximated whole, and the remarks say what of it was left.

use std::time::Duration;

use serde::Deserialize;

use super::{
    Importer,
    draft::{Backend, Draft, Sticky, service_name},
    ledger::Ledger,
    manifest::{Item, ONE_SERVICE, Object, Objects},
};

pub(super) const IMPORTER: Importer = Importer {
    word: "alb",
    reads: &["Ingress", "Service"],
    wants: "Ingress with a weighted `alb.ingress.kubernetes.io/actions.NAME`",
    reasons: &[
        ("Ingress", "spec.ingressClassName", "Serin listens by itself: see `listen`"),
        (
            "Ingress",
            "spec.rules",
            "which requests it is about is for `routes[].match`: every request goes to the service",
        ),
        ("Ingress", "spec.defaultBackend", "every request goes to the service"),
        ("Ingress", "spec.tls", "certificates are for `listeners[].tls`"),
        ("Ingress", "metadata.annotations", "this annotation is about the load balancer of AWS"),
    ],
    draft,
};

const PREFIX: &str = "alb.ingress.kubernetes.io/actions.";

/// The action, as far as it is about weights. What is unknown is left alone.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Action {
    forward_config: Forward,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Forward {
    target_groups: Vec<Group>,
    target_group_stickiness_config: Option<Stickiness>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Group {
    service_name: Option<String>,
    service_port: Option<serde_json::Value>,
    weight: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Stickiness {
    #[serde(default)]
    enabled: bool,
    duration_seconds: Option<u64>,
}

/// An Ingress with the action that splits.
struct Found<'o> {
    ingress: &'o Object,
    item: &'o Item,
    action: Action,
}

fn draft(objects: &Objects, ledger: &mut Ledger) -> Option<Draft> {
    let Found { ingress, item, action } = objects.all("Ingress").find_map(weighted_action)?;
    for other in objects.all("Ingress").filter(|other| !std::ptr::eq(*other, ingress)) {
        ledger.dropped(&other.item, ONE_SERVICE);
    }
    let service = service_name(ingress, ledger);
    let namespace = ingress.namespace(ledger);
    let mut groups = action.forward_config.target_groups;
    // By weight here already: the entries have no places of their own in the file.
    groups.sort_by_key(|group| std::cmp::Reverse(group.weight.unwrap_or(0)));
    let left_out =
        groups.len().saturating_sub(2) + groups.iter().take(2).filter(|group| group.service_name.is_none()).count();
    groups.truncate(2);
    let [stable, canary] = <[Group; 2]>::try_from(groups).ok()?;
    let total = stable.weight.unwrap_or(0).checked_add(canary.weight.unwrap_or(0))?.max(1);
    let parts = (u128::from(canary.weight.unwrap_or(0)) * 1_000_000 + u128::from(total) / 2) / u128::from(total);
    let share = crate::engine::weight::Weight::from_ppm(u32::try_from(parts).ok()?).ok()?;
    let mut side = |group: &Group, fallback: &str| {
        let name = group.service_name.as_deref().unwrap_or(fallback);
        let port = group.service_port.as_ref().and_then(port_of).or_else(|| objects.port(name, ledger)).unwrap_or(80);
        Backend::of_service(name, namespace, port).unwrap_or_else(|| Backend::unknown(fallback))
    };
    let (stable, canary) = (side(&stable, "v1"), side(&canary, "v2"));
    ledger.approximated(
        item,
        format!("{share} of the requests go to `{}`, the others to `{}`", canary.version, stable.version),
    );
    let mut draft = Draft::new(service, stable, Some(canary));
    draft.hold_at(share, ledger.place(item));
    if left_out > 0 {
        draft.remarks.push("a target group without a Service, or beyond the two largest, was left out".to_owned());
    }
    if let Some(sticky) = action.forward_config.target_group_stickiness_config.filter(|sticky| sticky.enabled) {
        let ttl = sticky.duration_seconds.filter(|seconds| (1..=604_800).contains(seconds)).map(Duration::from_secs);
        draft.sticky = Some(Sticky { cookie: "serin".to_owned(), ttl });
    }
    Some(draft)
}

fn weighted_action(ingress: &Object) -> Option<Found<'_>> {
    let annotations = ingress.item.at(&["metadata", "annotations"])?.fields();
    annotations.iter().filter(|(name, _)| name.starts_with(PREFIX)).find_map(|(_, item)| {
        let action: Action = serde_json::from_str(item.text()?).ok()?;
        (action.forward_config.target_groups.len() > 1).then_some(Found { ingress, item, action })
    })
}

/// A number, or a number in quotes; the name of a port says no number.
fn port_of(value: &serde_json::Value) -> Option<u16> {
    let number = value.as_u64().or_else(|| value.as_str()?.parse().ok())?;
    u16::try_from(number).ok().filter(|port| *port > 0)
}

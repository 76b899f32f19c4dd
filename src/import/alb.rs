//! AWS Load Balancer Controller: Ingresses with actions in annotations, which are JSON in a text. A forward action with
//! weighted target groups is a service, a redirect a route without one. An annotation is one value, so it is kept or
//! approximated whole, and the remarks say what of it was left.

use std::time::Duration;

use serde::Deserialize;

use super::{
    Importer, alb_conditions,
    backend::{Backend, Place, backend},
    draft::{Draft, Service, Sticky, service_name, unused_name},
    ledger::Ledger,
    manifest::{Item, Object, Objects},
    matching::{How, MATCHES_MAX, Match},
    route::Route,
    value::{port, scalar},
};
use crate::engine::weight::Weight;

pub(super) const IMPORTER: Importer = Importer {
    word: "alb",
    reads: &["Ingress", "Service"],
    wants: "Ingress with a weighted `alb.ingress.kubernetes.io/actions.NAME`",
    reasons: &[
        ("Ingress", "spec.ingressClassName", "Serin listens by itself: see `listen`"),
        ("Ingress", "spec.rules", "no route leads to it"),
        ("Ingress", "spec.tls", "certificates are files here: write `listeners[].tls`"),
        ("Ingress", "metadata.annotations", "this annotation is about the load balancer of AWS"),
    ],
    draft,
};

const PREFIX: &str = "alb.ingress.kubernetes.io/";

/// An action, as far as it is about weights and redirects. What is unknown is left alone.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Action {
    forward_config: Option<Forward>,
    redirect_config: Option<Redirect>,
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

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Redirect {
    host: Option<String>,
    path: Option<String>,
    port: Option<String>,
    protocol: Option<String>,
    status_code: Option<String>,
}

fn draft(objects: &Objects, ledger: &mut Ledger) -> Option<Draft> {
    let mut draft = Draft::empty();
    for ingress in objects.all("Ingress") {
        // Without one that splits, there is nothing to import in it.
        if actions(ingress).iter().any(|(_, _, action)| is_split(action)) {
            one_ingress(ingress, &mut draft, objects, ledger);
        }
    }
    draft.remark_splits();
    (!draft.services.is_empty()).then_some(draft)
}

fn actions(ingress: &Object) -> Vec<(&str, &Item, Action)> {
    let annotations = ingress.item.at(&["metadata", "annotations"]).map_or(&[][..], Item::fields);
    let action = |(name, item): &'_ (String, Item)| {
        serde_json::from_str::<Action>(item.text()?).ok().map(|read| (name.len(), read))
    };
    annotations
        .iter()
        .filter_map(|field| {
            let name = field.0.strip_prefix(PREFIX)?.strip_prefix("actions.")?;
            action(field).map(|(_, read)| (name, &field.1, read))
        })
        .collect()
}

fn is_split(action: &Action) -> bool {
    action.forward_config.as_ref().is_some_and(|forward| forward.target_groups.len() > 1)
}

fn one_ingress(ingress: &Object, draft: &mut Draft, objects: &Objects, ledger: &mut Ledger) {
    let namespace = ingress.namespace(ledger);
    let name = service_name(ingress, ledger);
    let name = &*name;
    let of = Of { name, namespace };
    let mut is_routed = false;
    let mut made: Vec<(String, Route)> = Vec::new();
    let all = actions(ingress);
    for rule in ingress.item.list(&["spec", "rules"]) {
        for path in rule.list(&["http", "paths"]) {
            let service = path.at(&["backend", "service"]);
            let called = service.and_then(|service| service.get("name")).and_then(Item::text).unwrap_or_default();
            let Some(matches) = matches(rule, path, called, ingress, ledger) else { continue };
            is_routed = true;
            if let Some((_, route)) = made.iter_mut().find(|(other, _)| other == called) {
                route.matches.extend(matches);
                route.matches.truncate(MATCHES_MAX);
                ledger.kept(path, "as the other paths of this action");
                continue;
            }
            let mut route = Route { from: ledger.place(path), matches, ..Route::default() };
            let is_action = service
                .is_some_and(|service| service.at(&["port", "name"]).and_then(Item::text) == Some("use-annotation"));
            let done = match all.iter().find(|(action, _, _)| is_action && *action == called) {
                Some((_, item, action)) => act(item, action, &mut route, of, draft, objects, ledger),
                None if is_action => None,
                None => plain(service, &mut route, of, draft, objects, ledger),
            };
            match done {
                Some(()) => {
                    ledger.kept(path, "a route of the config");
                    made.push((called.to_owned(), route));
                }
                None => {
                    ledger.dropped(path, "its action is not taken over: it neither forwards by weight nor redirects");
                }
            }
        }
    }
    draft.routes.extend(made.into_iter().map(|(_, route)| route));
    if is_routed {
        return;
    }
    // No rule names it: the action that splits takes every request.
    if let Some((_, item, action)) = all.iter().find(|(_, _, action)| is_split(action)) {
        let mut route = Route::default();
        if act(item, action, &mut route, of, draft, objects, ledger).is_some() {
            draft.routes.push(route);
        }
    }
}

/// What services are named after, and where.
#[derive(Clone, Copy)]
struct Of<'a> {
    name: &'a str,
    namespace: Option<&'a str>,
}

/// Host, path and the conditions beside them; none when they cannot be said.
fn matches(rule: &Item, path: &Item, called: &str, ingress: &Object, ledger: &mut Ledger) -> Option<Vec<Match>> {
    let text = |item: &Item, field: &str| item.get(field).and_then(Item::text).map(str::to_owned);
    let written = text(path, "path").unwrap_or_else(|| "/".to_owned());
    let found = match (text(path, "pathType").as_deref(), written.as_str()) {
        (Some("Exact"), _) => Some((How::Exact, written)),
        (Some("Prefix"), _) => Some((How::Prefix, written)),
        (_, "/*" | "/") => None,
        (_, other) => Some(alb_conditions::pattern(other)),
    };
    let one = Match { host: text(rule, "host"), path: found.filter(|(_, path)| path != "/"), ..Match::default() };
    let annotation = format!("{PREFIX}conditions.{called}");
    let more = ingress.item.at(&["metadata", "annotations", &annotation]);
    let all = match more.and_then(Item::text) {
        Some(conditions) => alb_conditions::with(&one, conditions),
        None => Ok(vec![one]),
    };
    let all = all.and_then(|all| all.iter().try_for_each(Match::try_out).map(|()| all));
    for item in rule.get("host").into_iter().chain(more) {
        match &all {
            Ok(_) => ledger.kept(item, "`match` of the route"),
            Err(why) => ledger.dropped(item, why),
        }
    }
    if let Err(why) = &all {
        ledger.dropped(path, format!("this path is left out, so that no other request meets it: {why}"));
    }
    all.ok()
}

/// What an action does.
fn act(
    item: &Item,
    action: &Action,
    route: &mut Route,
    of: Of<'_>,
    draft: &mut Draft,
    objects: &Objects,
    ledger: &mut Ledger,
) -> Option<()> {
    if let Some(redirect) = &action.redirect_config {
        return match route.filter("redirect", redirected(redirect)) {
            Ok(()) => {
                ledger.kept(item, "`filters.redirect`");
                Some(())
            }
            Err(why) => {
                ledger.dropped(item, why);
                None
            }
        };
    }
    let forward = action.forward_config.as_ref()?;
    let mut groups: Vec<&Group> = forward.target_groups.iter().collect();
    let weight = |group: &Group| group.weight.unwrap_or(0);
    // By weight here already: the entries have no places of their own in the file.
    groups.sort_by_key(|group| std::cmp::Reverse(weight(group)));
    let is_canary = |group: &Group| group.service_name.as_ref().is_some_and(|name| name.contains("canary"));
    if let [first, second, ..] = groups[..]
        && is_canary(first)
        && !is_canary(second)
    {
        groups.swap(0, 1);
    }
    let left_out =
        groups.len().saturating_sub(2) + groups.iter().take(2).filter(|group| group.service_name.is_none()).count();
    let mut side = |group: &Group, fallback: &str| {
        let name = group.service_name.as_deref().unwrap_or(fallback);
        let port = group.service_port.as_ref().and_then(port_of).or_else(|| objects.port(name, ledger)).unwrap_or(80);
        Backend::of_service(name, of.namespace, port).unwrap_or_else(|| Backend::unknown(fallback))
    };
    let name = unused_name(of.name, &draft.services);
    let stable = side(groups.first()?, "v1");
    let mut service = if let Some(group) = groups.get(1) {
        let canary = side(group, "v2");
        let total = weight(groups[0]).checked_add(weight(group))?.max(1);
        let parts = (u128::from(weight(group)) * 1_000_000 + u128::from(total) / 2) / u128::from(total);
        let share = Weight::from_ppm(u32::try_from(parts).ok()?).ok()?;
        let how = format!("{share} of the requests go to `{}`, the others to `{}`", canary.version, stable.version);
        ledger.approximated(item, how);
        let mut service = Service::new(name.clone(), stable, Some(canary));
        service.hold_at(share, ledger.place(item));
        service
    } else {
        ledger.approximated(item, format!("all requests go to `{}`", stable.version));
        Service::new(name.clone(), stable, None)
    };
    if left_out > 0 {
        draft.remark("a target group without a Service, or beyond the two largest, was left out");
    }
    if let Some(sticky) = forward.target_group_stickiness_config.as_ref().filter(|sticky| sticky.enabled) {
        let ttl = sticky.duration_seconds.filter(|seconds| (1..=604_800).contains(seconds)).map(Duration::from_secs);
        service.sticky = Some(Sticky { cookie: "serin".to_owned(), ttl });
    }
    draft.services.push(service);
    route.service = Some(name);
    Some(())
}

fn redirected(redirect: &Redirect) -> String {
    // `#{host}` and the like stand for what the request has.
    let own = |text: &Option<String>| text.clone().filter(|text| !text.contains("#{"));
    let mut parts = Vec::new();
    parts.extend(own(&redirect.protocol).map(|protocol| format!("scheme: {}", scalar(&protocol.to_ascii_lowercase()))));
    parts.extend(own(&redirect.host).map(|host| format!("host: {}", scalar(&host))));
    parts.extend(own(&redirect.port).map(|port| format!("port: {}", scalar(&port))));
    parts.extend(own(&redirect.path).map(|path| format!("path: {{ full: {} }}", scalar(&path))));
    let status = redirect.status_code.as_deref().unwrap_or("HTTP_302").trim_start_matches("HTTP_");
    parts.push(format!("status: {}", scalar(status)));
    format!("{{ {} }}", parts.join(", "))
}

/// A Service that a path names itself.
fn plain(
    service: Option<&Item>,
    route: &mut Route,
    of: Of<'_>,
    draft: &mut Draft,
    objects: &Objects,
    ledger: &mut Ledger,
) -> Option<()> {
    let service = service?;
    let number = service.at(&["port", "number"]).and_then(port);
    let place = Place { namespace: of.namespace, port: number.unwrap_or(80), fallback: ("v1", "v1") };
    let none = Objects::default();
    let backend = backend(service.get("name"), place, if number.is_some() { &none } else { objects }, ledger);
    let name = unused_name(&backend.version, &draft.services);
    draft.services.push(Service::new(name.clone(), backend, None));
    route.service = Some(name);
    Some(())
}

/// A number, or a number in quotes; the name of a port says no number.
fn port_of(value: &serde_json::Value) -> Option<u16> {
    let number = value.as_u64().or_else(|| value.as_str()?.parse().ok())?;
    u16::try_from(number).ok().filter(|port| *port > 0)
}

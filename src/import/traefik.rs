//! Traefik: routers and weighted services, of a dynamic file or as IngressRoute and TraefikService. No weight is 1.
//! In Traefik the longest rule goes first unless a priority is given; `matching::first_wins` makes that the nearest.

use std::time::Duration;

use super::{
    Importer,
    draft::{Draft, Sticky, unused_name},
    ledger::Ledger,
    manifest::{Item, Objects},
    matching::{How, MATCHES_MAX, Match, Ordered, first_wins},
    route::Route,
    traefik_middleware,
    traefik_mirror::{self, Mirroring},
    traefik_rule,
    traefik_servers::{bare, file_legs, file_services, object_legs, servers},
    value::{is_token, whole},
    weighted,
};
use crate::engine::names::VersionName;

pub(super) const IMPORTER: Importer = Importer {
    word: "traefik",
    reads: &["TraefikService", "IngressRoute", "Middleware", "Service"],
    wants: "weighted service",
    reasons: REASONS,
    draft,
};

const LISTENERS: &str = "Serin listens by itself: see `listen`";
const FILES: &str = "certificates are files here: write `listeners[].tls`";
const UNUSED: &str = "no route of the config leads to it";

const REASONS: &[(&str, &str, &str)] = &[
    ("", "http.routers", "this router is left out"),
    ("", "http.routers[].entryPoints", LISTENERS),
    ("", "http.middlewares", "no router of the config uses it"),
    ("", "http.services", UNUSED),
    ("", "http.serversTransports", "write `tls` of the version"),
    ("", "tcp", "Serin carries HTTP only"),
    ("", "udp", "Serin carries HTTP only"),
    ("", "tls", FILES),
    ("", "entryPoints", LISTENERS),
    ("IngressRoute", "spec.entryPoints", LISTENERS),
    ("IngressRoute", "spec.tls", FILES),
    ("Middleware", "spec", "no route of the config uses it"),
    ("TraefikService", "spec.mirroring", UNUSED),
    ("TraefikService", "spec.weighted", UNUSED),
    ("TraefikService", "spec.weighted.sticky", "only a cookie's name and its lifetime are taken over"),
];

/// A router of the file, or a route of an IngressRoute.
struct Router<'o> {
    item: &'o Item,
    rule: &'o Item,
    /// A name, or the services of an IngressRoute.
    service: &'o Item,
    namespace: Option<&'o str>,
    /// Of the IngressRoute.
    name: &'o str,
}

fn draft(objects: &Objects, ledger: &mut Ledger) -> Option<Draft> {
    let mut routers = Vec::new();
    for object in objects.all("") {
        for (name, item) in object.item.at(&["http", "routers"]).map_or(&[][..], Item::fields) {
            let (Some(rule), Some(service)) = (item.get("rule"), item.get("service")) else { continue };
            routers.push(Router { item, rule, service, namespace: None, name });
        }
    }
    for object in objects.all("IngressRoute") {
        let namespace = object.namespace(ledger);
        for item in object.item.list(&["spec", "routes"]) {
            let (Some(rule), Some(service)) = (item.get("match"), item.get("services")) else { continue };
            routers.push(Router { item, rule, service, namespace, name: &object.name });
        }
    }
    let mut draft = Draft::empty();
    if routers.is_empty() {
        alone(&mut draft, objects, ledger)?;
    } else {
        routed(routers, &mut draft, objects, ledger);
    }
    if objects.all("TraefikService").next().is_none() && objects.all("IngressRoute").next().is_none() {
        draft.remarks.retain(|remark| !remark.contains("Kubernetes"));
    }
    draft.remark_splits();
    (!draft.services.is_empty()).then_some(draft)
}

/// Without routers: the first weighted service takes every request.
fn alone(draft: &mut Draft, objects: &Objects, ledger: &mut Ledger) -> Option<()> {
    let in_file = file_services(objects).into_iter().find(|(_, item)| item.get("weighted").is_some());
    let found = if let Some((name, _)) = in_file {
        named(traefik_mirror::over(name, objects).unwrap_or(name), None, draft, objects, ledger)?
    } else {
        let object = objects.all("TraefikService").find(|object| object.spec(&["weighted"]).is_some())?;
        let name = traefik_mirror::over(&object.name, objects).unwrap_or(&object.name);
        named(name, object.namespace(ledger), draft, objects, ledger)?
    };
    let mut route = Route { service: Some(found.service), ..Route::default() };
    if let Some(mirroring) = found.mirroring {
        mirroring.apply(&mut route, objects, ledger);
    }
    draft.routes.push(route);
    Some(())
}

fn routed(mut routers: Vec<Router<'_>>, draft: &mut Draft, objects: &Objects, ledger: &mut Ledger) {
    let priority = |router: &Router<'_>| {
        let written = router.item.get("priority").and_then(whole).filter(|priority| *priority > 0);
        let length = router.rule.text().map_or(0, |rule| u64::try_from(rule.len()).unwrap_or(u64::MAX));
        written.unwrap_or(length)
    };
    routers.sort_by_key(|router| std::cmp::Reverse(priority(router)));
    let mut readable = Vec::new();
    for router in routers {
        let read = traefik_rule::parse(router.rule.text().unwrap_or_default());
        match read.and_then(|all| all.iter().try_for_each(Match::try_out).map(|()| all)) {
            Ok(all) => readable.push((router, all)),
            Err(why) => {
                ledger.retracted(router.item, &format!("its rule cannot be said, and it must not take others: {why}"));
            }
        }
    }
    // A middleware may take the prefix away.
    let of = |(router, all): &(Router<'_>, Vec<Match>)| Ordered {
        matches: all.clone(),
        is_bound: !router.item.list(&["middlewares"]).is_empty(),
    };
    let listed: Vec<Ordered> = readable.iter().map(of).collect();
    let (listed, is_exact) = first_wins(&listed);
    if !is_exact {
        draft
            .remark("Traefik takes the longest rule and Serin the nearest; for some requests they differ: see `match`");
    }
    for ((router, own), mut matches) in readable.into_iter().zip(listed) {
        matches.truncate(MATCHES_MAX);
        let Some(found) = service(&router, draft, objects, ledger) else {
            ledger.retracted(router.item, "its service has no server that is in these files");
            continue;
        };
        let is_prefix = own.iter().any(|one| matches!(&one.path, Some((How::Prefix, path)) if path != "/"));
        if is_prefix {
            ledger.approximated(
                router.rule,
                "`match` of the route, where a prefix ends with a segment: `/a` is not `/ab`",
            );
        } else {
            ledger.kept(router.rule, "`match` of the route");
        }
        if let Some(item) = router.item.get("priority") {
            ledger.kept(item, "which route goes before which");
        }
        if let Some(kind) = router.item.get("kind") {
            ledger.kept(kind, "says that it is a rule");
        }
        let service = Some(found.service);
        let mut route = Route { from: ledger.place(router.rule), matches, service, ..Route::default() };
        traefik_middleware::apply(router.item.list(&["middlewares"]), &mut route, objects, ledger);
        if let Some(mirroring) = found.mirroring {
            mirroring.apply(&mut route, objects, ledger);
        }
        draft.routes.push(route);
    }
}

/// A service of the config, and who gets copies of its requests.
struct Found<'o> {
    service: String,
    mirroring: Option<Mirroring<'o>>,
}

/// The service of a router.
fn service<'o>(router: &Router<'_>, draft: &mut Draft, objects: &'o Objects, ledger: &mut Ledger) -> Option<Found<'o>> {
    if let Some(name) = router.service.text() {
        let found = named(name, None, draft, objects, ledger)?;
        ledger.kept(router.service, format!("the service `{}`", found.service));
        return Some(found);
    }
    let items = router.service.items();
    if let [one] = items
        && one.get("kind").and_then(Item::text) == Some("TraefikService")
    {
        let name_at = one.get("name")?;
        let found = named(name_at.text()?, router.namespace, draft, objects, ledger)?;
        ledger.kept(one, format!("the service `{}`", found.service));
        return Some(found);
    }
    let name = if VersionName::new(router.name).is_ok() { router.name } else { "app" };
    let name = unused_name(name, &draft.services);
    let legs = object_legs(items, &name, router.namespace, objects, ledger);
    draft.services.push(weighted::service(name.clone(), legs, ledger)?);
    Some(Found { service: name, mirroring: None })
}

/// A service by its name, or the one whose requests are copied under that name.
fn named<'o>(
    name: &str,
    namespace: Option<&str>,
    draft: &mut Draft,
    objects: &'o Objects,
    ledger: &mut Ledger,
) -> Option<Found<'o>> {
    let Some(mirroring) = traefik_mirror::named(bare(name), objects) else {
        return Some(Found { service: made(name, namespace, draft, objects, ledger)?, mirroring: None });
    };
    let main_at = mirroring.service()?;
    let service = if mirroring.is_nested() {
        let main = bare(main_at.text()?);
        if traefik_mirror::named(main, objects).is_some() {
            ledger.dropped(mirroring.item(), "copies of copies are not made");
            return None;
        }
        made(main, namespace, draft, objects, ledger)?
    } else {
        let is_named = VersionName::new(bare(name)).is_ok();
        let main = if is_named { bare(name).to_owned() } else { unused_name("app", &draft.services) };
        // Made once, as the others.
        if !draft.services.iter().any(|service| service.name == main) {
            let legs = object_legs(std::slice::from_ref(mirroring.item()), &main, namespace, objects, ledger);
            draft.services.push(weighted::service(main.clone(), legs, ledger)?);
        }
        main
    };
    for item in [Some(main_at), mirroring.item().get("kind")].into_iter().flatten() {
        ledger.kept(item, "whose requests are copied");
    }
    if let Mirroring::Of(object, _) = mirroring {
        ledger.kept_field(object, &["metadata", "name"], "what the copied service is called");
        object.namespace(ledger);
    }
    Some(Found { service, mirroring: Some(mirroring) })
}

/// A service by its name, made once.
fn made(
    name: &str,
    namespace: Option<&str>,
    draft: &mut Draft,
    objects: &Objects,
    ledger: &mut Ledger,
) -> Option<String> {
    let bare = bare(name);
    let ours = if VersionName::new(bare).is_ok() { bare } else { "app" };
    if ours == bare && draft.services.iter().any(|service| service.name == ours) {
        return Some(ours.to_owned());
    }
    let ours = unused_name(ours, &draft.services);
    let in_file = file_services(objects).into_iter().find(|(other, _)| *other == bare);
    let (legs, weighted) = if let Some((_, item)) = in_file {
        let Some(weighted) = item.get("weighted") else {
            let backend = servers(bare, "v1", item, ledger)?;
            draft.services.push(super::draft::Service::new(ours.clone(), backend, None));
            return Some(ours);
        };
        (file_legs(weighted, objects, ledger), weighted)
    } else {
        let object = objects.named("TraefikService", bare)?;
        let weighted = object.spec(&["weighted"])?;
        ledger.kept_field(object, &["metadata", "name"], "the service's name");
        let namespace = object.namespace(ledger).or(namespace);
        (object_legs(weighted.list(&["services"]), &ours, namespace, objects, ledger), weighted)
    };
    let mut service = weighted::service(ours.clone(), legs, ledger)?;
    service.sticky = sticky(weighted, ledger);
    if let Some(item) = weighted.get("healthCheck") {
        ledger.dropped(item, "each version has `health` of its own");
    }
    draft.services.push(service);
    Some(ours)
}

fn sticky(weighted: &Item, ledger: &mut Ledger) -> Option<Sticky> {
    let cookie = weighted.at(&["sticky", "cookie"])?;
    let name_at = cookie.get("name");
    let name = name_at.and_then(Item::text).filter(|name| is_token(name));
    let age_at = cookie.get("maxAge");
    let age = age_at.and_then(whole).filter(|age| (1..=31_536_000).contains(age));
    if let Some(item) = name_at {
        match name {
            Some(_) => ledger.approximated(
                item,
                "`assign.sticky`: the cookie carries no version, so an abort moves everybody at once",
            ),
            None => ledger.dropped(item, "cannot be a cookie's name; it is called `serin`"),
        }
    }
    if let Some(item) = age_at.filter(|_| age.is_some()) {
        ledger.kept(item, "`ttl` of the cookie");
    }
    ledger.dropped(cookie, "the cookie of Serin is host-only, HttpOnly and SameSite=Lax");
    Some(Sticky { cookie: name.unwrap_or("serin").to_owned(), ttl: age.map(Duration::from_secs) })
}

//! Traefik: routers and weighted services, of a dynamic file or as IngressRoute and TraefikService. No weight is 1.
//! In Traefik the longest rule goes first unless a priority is given; `matching::first_wins` makes that the nearest.

use std::time::Duration;

use super::{
    Importer,
    backend::{Backend, Place, backend},
    draft::{Draft, Sticky, unused_name},
    ledger::Ledger,
    manifest::{Item, Objects},
    matching::{How, MATCHES_MAX, Match, Ordered, first_wins},
    route::Route,
    traefik_middleware, traefik_rule,
    value::{is_token, port, whole},
    weighted::{self, Leg},
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
    ("TraefikService", "spec.mirroring", "waits for mirroring"),
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
    let name = if let Some((name, _)) = in_file {
        named(name, None, draft, objects, ledger)?
    } else {
        let object = objects.all("TraefikService").find(|object| object.spec(&["weighted"]).is_some())?;
        named(&object.name, object.namespace(ledger), draft, objects, ledger)?
    };
    draft.routes.push(Route { service: Some(name), ..Route::default() });
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
        let Some(service) = service(&router, draft, objects, ledger) else {
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
        let mut route = Route { from: ledger.place(router.rule), matches, service: Some(service), ..Route::default() };
        traefik_middleware::apply(router.item.list(&["middlewares"]), &mut route, objects, ledger);
        draft.routes.push(route);
    }
}

/// The service of a router.
fn service(router: &Router<'_>, draft: &mut Draft, objects: &Objects, ledger: &mut Ledger) -> Option<String> {
    if let Some(name) = router.service.text() {
        let found = named(name, None, draft, objects, ledger)?;
        ledger.kept(router.service, format!("the service `{found}`"));
        return Some(found);
    }
    let items = router.service.items();
    if let [one] = items
        && one.get("kind").and_then(Item::text) == Some("TraefikService")
    {
        let name_at = one.get("name")?;
        let found = named(name_at.text()?, router.namespace, draft, objects, ledger)?;
        ledger.kept(one, format!("the service `{found}`"));
        return Some(found);
    }
    let name = if VersionName::new(router.name).is_ok() { router.name } else { "app" };
    let name = unused_name(name, &draft.services);
    let legs = object_legs(items, &name, router.namespace, objects, ledger);
    draft.services.push(weighted::service(name.clone(), legs, ledger)?);
    Some(name)
}

fn file_services(objects: &Objects) -> Vec<(&str, &Item)> {
    let services = objects.all("").filter_map(|object| object.item.at(&["http", "services"]));
    services.flat_map(Item::fields).map(|(name, item)| (&**name, item)).collect()
}

/// A service by its name, made once.
fn named(
    name: &str,
    namespace: Option<&str>,
    draft: &mut Draft,
    objects: &Objects,
    ledger: &mut Ledger,
) -> Option<String> {
    let bare = name.split_once('@').map_or(name, |(name, _)| name);
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
    draft.services.push(service);
    Some(ours)
}

fn file_legs<'a>(weighted: &'a Item, objects: &Objects, ledger: &mut Ledger) -> Vec<Leg<'a>> {
    let all = file_services(objects);
    let mut legs = Vec::new();
    for (index, item) in weighted.list(&["services"]).iter().enumerate() {
        let name_at = item.get("name");
        let name = name_at.and_then(Item::text).unwrap_or_default();
        let name = name.split_once('@').map_or(name, |(name, _)| name);
        let found = all.iter().find(|(other, _)| *other == name);
        let Some(backend) = found.and_then(|(_, found)| servers(name, &format!("v{}", index + 1), found, ledger))
        else {
            ledger.dropped(item, "no server `http://host:port` of that service is in these files");
            continue;
        };
        if let Some(item) = name_at {
            if backend.version == name {
                ledger.kept(item, "a version of that name");
            } else {
                ledger.dropped(item, "cannot be a version's name here");
            }
        }
        legs.push(Leg { backend, item, weight_at: item.get("weight"), default: 1 });
    }
    legs
}

/// A version at the servers of a service.
fn servers(name: &str, fallback: &str, service: &Item, ledger: &mut Ledger) -> Option<Backend> {
    let mut found: Option<Backend> = None;
    for item in service.list(&["loadBalancer", "servers"]).iter().filter_map(|server| server.get("url")) {
        let read = item.text().and_then(address).and_then(|(is_secure, host, port)| {
            let mut read = Backend::new(name, host, port).or_else(|| Backend::new(fallback, host, port))?;
            if is_secure {
                read.secure();
            }
            Some(read)
        });
        match (read, &mut found) {
            (None, _) => ledger.dropped(item, "not `http://host:port` with nothing after it"),
            (Some(read), None) => {
                ledger.kept(item, "an endpoint of the version");
                found = Some(read);
            }
            (Some(read), Some(first)) => {
                if first.url.starts_with("https") != read.url.starts_with("https") {
                    ledger.dropped(item, "the endpoints of a version are either all `https://` or none");
                } else if first.url == read.url || first.more.contains(&read.url) || first.more.len() > 200 {
                    ledger.dropped(item, "is in the list already, or one too many");
                } else {
                    ledger.kept(item, "an endpoint of the version");
                    first.more.push(read.url);
                }
            }
        }
    }
    found
}

/// `http://host:port/` as whether it is TLS, host and port.
fn address(url: &str) -> Option<(bool, &str, u16)> {
    let (scheme, rest) = url.split_once("://")?;
    let (is_secure, port) = match scheme {
        "http" | "h2c" => (false, 80),
        "https" => (true, 443),
        _ => return None,
    };
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    let Some((host, port)) = rest.split_once(':') else { return Some((is_secure, rest, port)) };
    let is_number = port.bytes().all(|byte| byte.is_ascii_digit());
    Some((is_secure, host, port.parse().ok().filter(|port: &u16| is_number && *port > 0)?))
}

/// The Services of a TraefikService or of an IngressRoute.
fn object_legs<'a>(
    items: &'a [Item],
    service: &str,
    namespace: Option<&str>,
    objects: &Objects,
    ledger: &mut Ledger,
) -> Vec<Leg<'a>> {
    let mut legs = Vec::new();
    for (index, item) in items.iter().enumerate() {
        if item.get("kind").is_some_and(|kind| kind.text() != Some("Service")) {
            ledger.dropped(item, "a service of services is not supported");
            continue;
        }
        for (field, how) in [("kind", "says that it is a Service"), ("namespace", "part of the endpoint's host name")] {
            if let Some(item) = item.get(field) {
                ledger.kept(item, how);
            }
        }
        let number = item.get("port").and_then(port);
        if let Some(item) = item.get("port") {
            match number {
                Some(_) => ledger.kept(item, "the port of the endpoint"),
                None => ledger.dropped(item, "a port's name says no number; 80 is taken"),
            }
        }
        let place = Place {
            namespace: item.get("namespace").and_then(Item::text).or(namespace),
            port: number.unwrap_or(80),
            fallback: (&format!("{service}-{}", index + 1), &format!("v{}", index + 1)),
        };
        let none = Objects::default();
        let known = if number.is_some() { &none } else { objects };
        let mut backend = backend(item.get("name"), place, known, ledger);
        match item.get("scheme").and_then(Item::text) {
            Some("https") => backend.secure(),
            Some("h2c") if backend.set("http", "h2".to_owned()).is_err() => {}
            _ => {}
        }
        if let Some(item) = item.get("scheme") {
            ledger.kept(item, "how the endpoint is spoken to");
        }
        legs.push(Leg { backend, item, weight_at: item.get("weight"), default: 1 });
    }
    legs
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

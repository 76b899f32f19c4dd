//! Traefik: a weighted service of the dynamic file, or a TraefikService. No weight is 1.
//! Takes one weighted service: routing between services comes later.

use std::time::Duration;

use super::{
    Importer,
    draft::{Backend, Draft, Place, Sticky, backend, service_name},
    ledger::Ledger,
    manifest::{Item, Objects},
    value::{is_token, port, whole},
    weighted::{self, Leg},
};
use crate::engine::names::VersionName;

pub(super) const IMPORTER: Importer = Importer {
    word: "traefik",
    reads: &["TraefikService", "Service"],
    wants: "weighted service",
    reasons: REASONS,
    draft,
};

const LISTENERS: &str = "Serin listens by itself: see `listen`";

const REASONS: &[(&str, &str, &str)] = &[
    ("", "http.routers", "waits for `routes[].match`: every request goes to the service"),
    ("", "http.middlewares", "waits for `routes[].filters`"),
    ("", "http.services", "only the weighted service and its servers are taken over"),
    ("", "http.serversTransports", "waits for `versions.<name>.tls`"),
    ("", "tcp", "Serin carries HTTP only"),
    ("", "udp", "Serin carries HTTP only"),
    ("", "tls", "waits for `listeners[].tls`"),
    ("", "entryPoints", LISTENERS),
    ("TraefikService", "spec.mirroring", "waits for mirroring"),
    ("TraefikService", "spec.weighted.sticky", "only a cookie's name and its lifetime are taken over"),
];

fn draft(objects: &Objects, ledger: &mut Ledger) -> Option<Draft> {
    from_file(objects, ledger).or_else(|| from_object(objects, ledger))
}

/// `http.services.NAME.weighted`.
fn from_file(objects: &Objects, ledger: &mut Ledger) -> Option<Draft> {
    let services = objects.all("").filter_map(|object| object.item.at(&["http", "services"]));
    let all: Vec<&(String, Item)> = services.flat_map(Item::fields).collect();
    let (name, weighted) = all.iter().find_map(|(name, item)| Some((name, item.get("weighted")?)))?;
    let mut legs = Vec::new();
    for (index, item) in weighted.list(&["services"]).iter().enumerate() {
        let name_at = item.get("name");
        let name = name_at.and_then(Item::text).unwrap_or_default();
        let name = name.split_once('@').map_or(name, |(name, _)| name);
        let servers =
            all.iter().find(|(other, _)| other == name).map(|(_, item)| item.list(&["loadBalancer", "servers"]));
        let urls: Vec<&Item> = servers.unwrap_or_default().iter().filter_map(|server| server.get("url")).collect();
        let Some(backend) = servers_of(name, &format!("v{}", index + 1), &urls, ledger) else {
            ledger.dropped(item, "no server `http://host:port` of that service is in these files");
            continue;
        };
        if let Some(item) = name_at {
            let is_same = backend.version == name;
            if is_same {
                ledger.kept(item, "a version of that name");
            } else {
                ledger.dropped(item, "cannot be a version's name here");
            }
        }
        legs.push(Leg { backend, item, weight_at: item.get("weight"), default: 1 });
    }
    let service = if VersionName::new(name).is_ok() { name.clone() } else { "app".to_owned() };
    let mut draft = weighted::draft(service, legs, ledger)?;
    draft.remarks.retain(|remark| !remark.contains("Kubernetes"));
    sticky(weighted, &mut draft, ledger);
    Some(draft)
}

/// A version at the servers of a service.
fn servers_of(name: &str, fallback: &str, urls: &[&Item], ledger: &mut Ledger) -> Option<Backend> {
    let mut found: Option<Backend> = None;
    for item in urls {
        let read = item
            .text()
            .and_then(address)
            .and_then(|(host, port)| Backend::new(name, host, port).or_else(|| Backend::new(fallback, host, port)));
        match (read, &mut found) {
            (None, _) => {
                ledger.dropped(item, "not `http://host:port` with nothing after it; TLS to upstreams comes later");
            }
            (Some(read), None) => {
                ledger.kept(item, "an endpoint of the version");
                found = Some(read);
            }
            (Some(read), Some(first)) => {
                if first.url == read.url || first.more.contains(&read.url) || first.more.len() > 200 {
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

/// `http://host:port/` as host and port.
fn address(url: &str) -> Option<(&str, u16)> {
    let rest = url.strip_prefix("http://")?;
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    let Some((host, port)) = rest.split_once(':') else { return Some((rest, 80)) };
    let is_number = port.bytes().all(|byte| byte.is_ascii_digit());
    Some((host, port.parse().ok().filter(|port: &u16| is_number && *port > 0)?))
}

/// A TraefikService.
fn from_object(objects: &Objects, ledger: &mut Ledger) -> Option<Draft> {
    let object = objects.all("TraefikService").find(|object| object.spec(&["weighted"]).is_some())?;
    let weighted = object.spec(&["weighted"])?;
    let service = service_name(object, ledger);
    let namespace = object.namespace(ledger);
    let mut legs = Vec::new();
    for (index, item) in weighted.list(&["services"]).iter().enumerate() {
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
        let backend = backend(item.get("name"), place, objects, ledger);
        legs.push(Leg { backend, item, weight_at: item.get("weight"), default: 1 });
    }
    let mut draft = weighted::draft(service, legs, ledger)?;
    sticky(weighted, &mut draft, ledger);
    for other in objects.all("TraefikService").filter(|other| !std::ptr::eq(*other, object)) {
        ledger.dropped(&other.item, super::manifest::ONE_SERVICE);
    }
    Some(draft)
}

fn sticky(weighted: &Item, draft: &mut Draft, ledger: &mut Ledger) {
    let Some(cookie) = weighted.at(&["sticky", "cookie"]) else { return };
    let name_at = cookie.get("name");
    let name = name_at.and_then(Item::text).filter(|name| is_token(name));
    let age_at = cookie.get("maxAge");
    let age = age_at.and_then(whole).filter(|age| (1..=31_536_000).contains(age));
    draft.sticky = Some(Sticky { cookie: name.unwrap_or("serin").to_owned(), ttl: age.map(Duration::from_secs) });
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
}

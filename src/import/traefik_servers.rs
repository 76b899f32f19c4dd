//! What answers behind a service of Traefik: servers of a dynamic file, or Services of Kubernetes, and how they are checked.

use std::time::Duration;

use super::{
    backend::{Backend, Place, backend},
    ledger::Ledger,
    manifest::{Item, Objects},
    value::port,
    watch::{self, Ejection, Health, Watch, seconds_or_go},
    weighted::Leg,
};

/// A name without the provider behind it.
pub(super) fn bare(name: &str) -> &str {
    name.split_once('@').map_or(name, |(name, _)| name)
}

pub(super) fn file_services(objects: &Objects) -> Vec<(&str, &Item)> {
    let services = objects.all("").filter_map(|object| object.item.at(&["http", "services"]));
    services.flat_map(Item::fields).map(|(name, item)| (&**name, item)).collect()
}

pub(super) fn file_legs<'a>(weighted: &'a Item, objects: &Objects, ledger: &mut Ledger) -> Vec<Leg<'a>> {
    let all = file_services(objects);
    let mut legs = Vec::new();
    for (index, item) in weighted.list(&["services"]).iter().enumerate() {
        let name_at = item.get("name");
        let name = name_at.and_then(Item::text).unwrap_or_default();
        let name = bare(name);
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
pub(super) fn servers(name: &str, fallback: &str, service: &Item, ledger: &mut Ledger) -> Option<Backend> {
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
    if let (Some(backend), Some(balancer)) = (&mut found, service.get("loadBalancer")) {
        checks(balancer, backend, ledger);
        ledger.dropped(balancer, "of a service its servers and its checks are taken over");
    }
    found
}

/// Its health checks: by default each 30 s, 5 s long, and one answer decides.
fn checks(service: &Item, backend: &mut Backend, ledger: &mut Ledger) {
    if let Some(check) = service.get("healthCheck") {
        let is_grpc = check.get("mode").and_then(Item::text) == Some("grpc");
        if let Some(mode) = check.get("mode") {
            if is_grpc {
                ledger.dropped(mode, "asked by connection: Serin asks no gRPC health service");
            } else {
                ledger.kept(mode, "a check by GET");
            }
        }
        let interval = watch::interval(check.get("interval"), seconds_or_go, "health.interval", ledger);
        let interval = interval.or(Some(Duration::from_secs(30)));
        let timeout = watch::timeout(check.get("timeout"), seconds_or_go, interval, ledger);
        let health = Health {
            path: watch::path(check.get("path").filter(|_| !is_grpc), ledger),
            interval,
            timeout: timeout.or(Some(Duration::from_secs(5))),
            healthy: Some(1),
            unhealthy: Some(1),
        };
        Watch { health: Some(health), ejection: None }.apply(backend, check, ledger);
        ledger.dropped(check, "of a check path, interval and timeout are taken over");
    }
    if let Some(check) = service.get("passiveHealthCheck") {
        let base = watch::interval(check.get("failureWindow"), seconds_or_go, "ejection.base", ledger);
        // Of Traefik one failure is enough.
        let errors = watch::count(check.get("maxFailedAttempts"), "ejection.consecutiveErrors", ledger);
        let ejection = Ejection { errors: errors.or(Some(1)), base, max_share: None };
        Watch { health: None, ejection: Some(ejection) }.apply(backend, check, ledger);
        ledger.kept(check, "`ejection` after one error");
    }
}

/// `http://host:port/` as whether it is TLS, host and port.
pub(super) fn address(url: &str) -> Option<(bool, &str, u16)> {
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
pub(super) fn object_legs<'a>(
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
        checks(item, &mut backend, ledger);
        legs.push(Leg { backend, item, weight_at: item.get("weight"), default: 1 });
    }
    legs
}

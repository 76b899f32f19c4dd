//! Annotations of ingress-nginx that change requests and answers on their way.

use std::time::Duration;

use super::{
    backend::Backend,
    istio_http::words,
    ledger::Ledger,
    manifest::{Item, Object},
    mirror::{self, Mirror},
    nginx::annotation,
    route::Route,
    traefik_servers::address,
    value::{WAITS, scalar, whole},
};

/// What CORS allows in ingress-nginx where nothing is said.
const METHODS: &str = "GET, PUT, POST, DELETE, PATCH, OPTIONS";
const HEADERS: &str = "DNT,Keep-Alive,User-Agent,X-Requested-With,If-Modified-Since,Cache-Control,Content-Type,Range,\
                       Authorization";

/// Puts them into a route.
pub(super) fn apply(ingress: &Object, route: &mut Route, ledger: &mut Ledger) {
    rewrite(ingress, route, ledger);
    if let Some(item) = annotation(ingress, "x-forwarded-prefix") {
        let set = format!("{{ set: {{ x-forwarded-prefix: {} }} }}", scalar(item.text().unwrap_or_default()));
        say(item, route.filter("requestHeaders", set), "`filters.requestHeaders`", ledger);
    }
    if annotation(ingress, "enable-cors").is_some_and(Item::is_true) {
        cors(ingress, route, ledger);
    }
    if let Some(item) = annotation(ingress, "proxy-read-timeout") {
        match item.text().and_then(|text| text.trim_end_matches('s').parse().ok()).map(Duration::from_secs) {
            Some(time) if WAITS.contains(&time) => {
                route.request_timeout = Some(time);
                ledger.approximated(item, "`timeouts.request`, which ends with the response head");
            }
            _ => ledger.dropped(item, "not from 1 to 3600 seconds"),
        }
    }
    if let Some(item) = annotation(ingress, "proxy-next-upstream-tries") {
        match whole(item).filter(|tries| (1..=11).contains(tries)) {
            Some(tries) => {
                route.retry = Some(format!("{{ retries: {} }}", tries - 1));
                ledger.approximated(item, "`retry.retries`: tries after the first, at the same version");
            }
            None => ledger.dropped(item, "not from 1 to 11 tries"),
        }
    }
    for name in ["ssl-redirect", "force-ssl-redirect"] {
        if let Some(item) = annotation(ingress, name) {
            ledger.dropped(item, "write a route with `match: [{ scheme: http }]` and `redirect: { scheme: https }` once there is a listener with TLS");
        }
    }
}

fn rewrite(ingress: &Object, route: &mut Route, ledger: &mut Ledger) {
    let mut parts = Vec::new();
    let mut from = Vec::new();
    if let Some(item) = annotation(ingress, "upstream-vhost") {
        parts.push(format!("host: {}", scalar(item.text().unwrap_or_default())));
        from.push(item);
    }
    if let Some(item) = annotation(ingress, "rewrite-target") {
        let target = item.text().unwrap_or_default();
        if target.contains('$') {
            ledger.dropped(item, "what a pattern caught is not put into paths; a prefix is replaced by `rewrite`");
        } else {
            parts.push(format!("path: {{ full: {} }}", scalar(target)));
            from.push(item);
        }
    }
    if from.is_empty() {
        return;
    }
    let done = route.filter("rewrite", format!("{{ {} }}", parts.join(", ")));
    for item in from {
        say(item, done.clone(), "`filters.rewrite`", ledger);
    }
}

fn cors(ingress: &Object, route: &mut Route, ledger: &mut Ledger) {
    let text = |name: &str| annotation(ingress, name).and_then(Item::text);
    let list = |text: &str, field: &str| {
        words(text.split(',').map(str::trim).filter(|word| !word.is_empty()), field).join(", ")
    };
    let origins = text("cors-allow-origin").unwrap_or("*");
    // For every origin ingress-nginx sends the asking one with credentials; that is refused here.
    let credentials = text("cors-allow-credentials") != Some("false") && origins.trim() != "*";
    let mut parts = vec![
        format!("origins: [{}]", list(origins, "origins")),
        format!("methods: [{}]", list(text("cors-allow-methods").unwrap_or(METHODS), "methods")),
        format!("headers: [{}]", list(text("cors-allow-headers").unwrap_or(HEADERS), "headers")),
        format!("credentials: {credentials}"),
    ];
    if let Some(headers) = text("cors-expose-headers") {
        parts.push(format!("exposeHeaders: [{}]", list(headers, "exposeHeaders")));
    }
    if let Some(age) = annotation(ingress, "cors-max-age").and_then(whole) {
        parts.push(format!("maxAge: {}s", age.min(86_400)));
    }
    let done = route.filter("cors", format!("{{ {} }}", parts.join(", ")));
    let names = ["allow-origin", "allow-methods", "allow-headers", "allow-credentials", "expose-headers", "max-age"];
    let names = names.map(|name| format!("cors-{name}"));
    for item in names.iter().map(|name| &**name).chain(["enable-cors"]).filter_map(|name| annotation(ingress, name)) {
        match &done {
            Ok(()) => {
                ledger.approximated(item, "`filters.cors`; credentials never for every origin, at most a day old");
            }
            Err(why) => ledger.dropped(item, why),
        }
    }
}

/// `mirror-target`, as far as it is another server at the same path.
pub(super) fn mirror(ingress: &Object, route: &mut Route, ledger: &mut Ledger) {
    let Some(target) = annotation(ingress, "mirror-target") else { return };
    let url = target.text().map(|url| url.strip_suffix("$request_uri").unwrap_or(url));
    let read = url.and_then(address).and_then(|(is_secure, host, port)| {
        let mut backend = Backend::new("mirror", host, port)?;
        if is_secure {
            backend.secure();
        }
        Some(backend)
    });
    let Some(backend) = read else {
        return ledger.dropped(target, "not `http://host:port$request_uri`, so nothing is copied");
    };
    if let Some(body) = annotation(ingress, "mirror-request-body") {
        ledger.approximated(body, "bodies go along with copies of the methods that have any");
    }
    if let Some(host) = annotation(ingress, "mirror-host") {
        ledger.dropped(host, "copies have the host of their request");
    }
    Mirror::new(backend, mirror::EVERYTHING).apply(target, route, ledger);
}

/// How the endpoint is spoken to.
pub(super) fn protocol(ingress: &Object, backend: &mut Backend, ledger: &mut Ledger) {
    let Some(item) = annotation(ingress, "backend-protocol") else { return };
    match item.text() {
        Some("HTTP" | "AUTO_HTTP") => ledger.kept(item, "the endpoint is `http://`"),
        Some("GRPC") => match backend.set("http", "h2".to_owned()) {
            Ok(()) => ledger.kept(item, "`http: h2` of the version"),
            Err(why) => ledger.dropped(item, why),
        },
        Some("HTTPS" | "GRPCS") => {
            backend.secure();
            ledger.approximated(item, "the endpoint is `https://`, and its certificate is checked: see `tls`");
        }
        _ => ledger.dropped(item, "Serin speaks HTTP to its endpoints"),
    }
}

fn say(item: &Item, done: Result<(), String>, how: &str, ledger: &mut Ledger) {
    match done {
        Ok(()) => ledger.kept(item, how),
        Err(why) => ledger.dropped(item, why),
    }
}

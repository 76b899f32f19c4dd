//! Middlewares of Traefik that have filters of the same meaning. Others are left out of the route, and said.

use super::{
    istio_http::{decide, words},
    ledger::Ledger,
    manifest::{Item, Objects},
    route::Route,
    secret,
    value::{scalar, whole},
};

/// Puts the middlewares that a router names into its route.
pub(super) fn apply(names: &[Item], route: &mut Route, objects: &Objects, ledger: &mut Ledger) {
    for name_at in names {
        let item = name_at.get("name").unwrap_or(name_at);
        let name = item.text().unwrap_or_default();
        let name = name.split_once('@').map_or(name, |(name, _)| name);
        let in_file = objects.all("").find_map(|object| object.item.at(&["http", "middlewares", name]));
        let found = in_file.or_else(|| objects.named("Middleware", name)?.item.get("spec"));
        let Some(found) = found else {
            ledger.dropped(name_at, "there is no middleware of that name in these files");
            continue;
        };
        ledger.kept(name_at, "its middleware is taken over as far as it can be");
        for (kind, body) in found.fields() {
            one(kind, body, route, ledger);
        }
    }
}

fn one(kind: &str, body: &Item, route: &mut Route, ledger: &mut Ledger) {
    let text = |field: &str| body.get(field).and_then(Item::text);
    match kind {
        "stripPrefix" => {
            let prefixes: Vec<&str> = body.list(&["prefixes"]).iter().filter_map(Item::text).collect();
            let is_matched = route
                .matches
                .iter()
                .all(|one| one.path.as_ref().is_some_and(|(_, path)| prefixes.iter().any(|prefix| path == prefix)));
            if is_matched {
                decide(body, route.filter("rewrite", "{ path: { prefix: / } }".to_owned()), "rewrite", ledger);
            } else {
                ledger.dropped(body, "a prefix is taken away only where it is the route's whole `path: { prefix }`");
            }
        }
        "replacePath" => {
            let path = scalar(text("path").unwrap_or("/"));
            decide(body, route.filter("rewrite", format!("{{ path: {{ full: {path} }} }}")), "rewrite", ledger);
        }
        "redirectScheme" => {
            let status = if body.get("permanent").is_some_and(Item::is_true) { 301 } else { 302 };
            let port = text("port").map(|port| format!(", port: {}", scalar(port))).unwrap_or_default();
            let scheme = scalar(text("scheme").unwrap_or("https"));
            let service = route.service.clone();
            let done = route.filter("redirect", format!("{{ scheme: {scheme}{port}, status: {status} }}"));
            if done.is_err() {
                route.service = service;
            }
            decide(body, done, "redirect", ledger);
        }
        "headers" => headers(body, route, ledger),
        "retry" => {
            let attempts = text("attempts").and_then(|_| body.get("attempts").and_then(whole)).unwrap_or(1);
            route.retry = Some(format!("{{ retries: {} }}", attempts.saturating_sub(1).min(10)));
            ledger.approximated(body, "`retry.retries`: attempts after the first, at the same version");
        }
        _ => ledger.dropped(body, "this middleware has nothing that corresponds to it"),
    }
}

/// Custom headers, where an empty value removes, and CORS.
fn headers(body: &Item, route: &mut Route, ledger: &mut Ledger) {
    for (theirs, ours) in [("customRequestHeaders", "requestHeaders"), ("customResponseHeaders", "responseHeaders")] {
        let Some(item) = body.get(theirs) else { continue };
        let (mut set, mut remove) = (Vec::new(), Vec::new());
        for (name, value) in item.fields() {
            if value.text().is_none_or(str::is_empty) {
                remove.push(scalar(name));
            } else {
                set.push((name.clone(), secret::header(name, value, ledger)));
            }
        }
        let mut parts = Vec::new();
        if !set.is_empty() {
            parts.push(format!("set: {}", secret::mapping(&set)));
        }
        if !remove.is_empty() {
            parts.push(format!("remove: [{}]", remove.join(", ")));
        }
        decide(item, route.filter(ours, format!("{{ {} }}", parts.join(", "))), ours, ledger);
    }
    let list =
        |theirs: &str, ours: &str| -> Vec<String> { words(body.list(&[theirs]).iter().filter_map(Item::text), ours) };
    let origins = list("accessControlAllowOriginList", "origins");
    if origins.is_empty() {
        return ledger.dropped(body, "only custom headers and CORS are taken over");
    }
    let mut parts = vec![format!("origins: [{}]", origins.join(", "))];
    for (theirs, ours) in [
        ("accessControlAllowMethods", "methods"),
        ("accessControlAllowHeaders", "headers"),
        ("accessControlExposeHeaders", "exposeHeaders"),
    ] {
        let all = list(theirs, ours);
        if !all.is_empty() {
            parts.push(format!("{ours}: [{}]", all.join(", ")));
        }
    }
    if body.get("accessControlAllowCredentials").is_some_and(Item::is_true) {
        parts.push("credentials: true".to_owned());
    }
    parts.extend(body.get("accessControlMaxAge").and_then(whole).map(|age| format!("maxAge: {}s", age.min(86_400))));
    let done = route.filter("cors", format!("{{ {} }}", parts.join(", ")));
    for (name, item) in body.fields().iter().filter(|(name, _)| name.starts_with("accessControl")) {
        let is_read = !matches!(&**name, "accessControlAllowOriginListRegex");
        match &done {
            Ok(()) if is_read => ledger.kept(item, "`filters.cors`"),
            Ok(()) => ledger.dropped(item, "origins are compared whole, or below `https://*.`"),
            Err(why) => ledger.dropped(item, why),
        }
    }
    ledger.dropped(body, "only custom headers and CORS are taken over");
}

//! Filters of Gateway API, on rules and on backends. The same names mean the same in Serin.

use super::{
    backend::Backend,
    istio_http::{decide, words},
    ledger::Ledger,
    manifest::Item,
    route::Route,
    secret,
    value::scalar,
};

/// The filters of a rule.
pub(super) fn apply(filters: &[Item], route: &mut Route, ledger: &mut Ledger) {
    for filter in filters {
        let kind = filter.get("type").and_then(Item::text).unwrap_or_default();
        let body = |field: &str| filter.get(field);
        let (field, text) = match kind {
            "RequestHeaderModifier" => ("requestHeaders", body("requestHeaderModifier").map(|at| edits(at, ledger))),
            "ResponseHeaderModifier" => ("responseHeaders", body("responseHeaderModifier").map(|at| edits(at, ledger))),
            "RequestRedirect" => ("redirect", body("requestRedirect").map(redirect)),
            "URLRewrite" => ("rewrite", body("urlRewrite").map(rewrite)),
            "CORS" => ("cors", body("cors").map(cors)),
            "RequestMirror" => {
                ledger.dropped(filter, "waits for mirroring");
                continue;
            }
            _ => {
                ledger.dropped(filter, "an extension has nothing that corresponds to it");
                continue;
            }
        };
        match text {
            Some(text) => decide(filter, route.filter(field, text), field, ledger),
            None => ledger.dropped(filter, "the filter says nothing"),
        }
    }
}

/// The filters of a backend, which are those of a version.
pub(super) fn of_backend(filters: &[Item], backend: &mut Backend, ledger: &mut Ledger) {
    let mut parts: Vec<String> = Vec::new();
    for filter in filters {
        let (field, edits_at) = match filter.get("type").and_then(Item::text) {
            Some("RequestHeaderModifier") => ("requestHeaders", filter.get("requestHeaderModifier")),
            Some("ResponseHeaderModifier") => ("responseHeaders", filter.get("responseHeaderModifier")),
            _ => {
                ledger.dropped(filter, "a version has only `requestHeaders` and `responseHeaders`");
                continue;
            }
        };
        let Some(edits_at) = edits_at else {
            ledger.dropped(filter, "the filter says nothing");
            continue;
        };
        let mut with = parts.clone();
        with.push(format!("{field}: {}", edits(edits_at, ledger)));
        match backend.set("filters", format!("{{ {} }}", with.join(", "))) {
            Ok(()) => {
                ledger.kept(filter, format!("`filters.{field}` of the version"));
                parts = with;
            }
            Err(why) => ledger.dropped(filter, why),
        }
    }
}

/// `{ set, add, remove }`, of which the first two are lists of names and values.
fn edits(item: &Item, ledger: &mut Ledger) -> String {
    let mut parts = Vec::new();
    for field in ["set", "add"] {
        let mut entries: Vec<(String, String)> = Vec::new();
        for entry in item.list(&[field]) {
            let Some(name) = entry.get("name").and_then(Item::text) else { continue };
            let value = entry.get("value").map_or_else(|| scalar(""), |value| secret::header(name, value, ledger));
            // Of several of one name the first counts, as in Gateway API.
            if !entries.iter().any(|(other, _)| other.eq_ignore_ascii_case(name)) {
                entries.push((name.to_owned(), value));
            }
        }
        if !entries.is_empty() {
            parts.push(format!("{field}: {}", secret::mapping(&entries)));
        }
    }
    let removed: Vec<String> = item.list(&["remove"]).iter().filter_map(Item::text).map(scalar).collect();
    if !removed.is_empty() {
        parts.push(format!("remove: [{}]", removed.join(", ")));
    }
    format!("{{ {} }}", parts.join(", "))
}

fn path(item: &Item) -> Option<String> {
    let path = item.get("path")?;
    let text = |field: &str| path.get(field).and_then(Item::text);
    let prefix = text("replacePrefixMatch").map(|path| ("prefix", path));
    let (how, path) = prefix.or_else(|| text("replaceFullPath").map(|path| ("full", path)))?;
    // Nothing in place of a prefix is the root.
    Some(format!("path: {{ {how}: {} }}", scalar(if path.is_empty() { "/" } else { path })))
}

fn redirect(item: &Item) -> String {
    let text = |field: &str| item.get(field).and_then(Item::text);
    let mut parts = Vec::new();
    for (theirs, ours) in [("scheme", "scheme"), ("hostname", "host"), ("port", "port"), ("statusCode", "status")] {
        parts.extend(text(theirs).map(|value| format!("{ours}: {}", scalar(value))));
    }
    parts.extend(path(item));
    format!("{{ {} }}", parts.join(", "))
}

fn rewrite(item: &Item) -> String {
    let host = item.get("hostname").and_then(Item::text).map(|host| format!("host: {}", scalar(host)));
    let parts: Vec<String> = host.into_iter().chain(path(item)).collect();
    format!("{{ {} }}", parts.join(", "))
}

fn cors(item: &Item) -> String {
    let mut parts = Vec::new();
    for (theirs, ours) in [
        ("allowOrigins", "origins"),
        ("allowMethods", "methods"),
        ("allowHeaders", "headers"),
        ("exposeHeaders", "exposeHeaders"),
    ] {
        let all = words(item.list(&[theirs]).iter().filter_map(Item::text), ours);
        if !all.is_empty() {
            parts.push(format!("{ours}: [{}]", all.join(", ")));
        }
    }
    if item.get("allowCredentials").is_some_and(Item::is_true) {
        parts.push("credentials: true".to_owned());
    }
    parts.extend(item.get("maxAge").and_then(Item::text).map(|age| format!("maxAge: {}s", age.trim_end_matches('s'))));
    format!("{{ {} }}", parts.join(", "))
}

//! Filters of Gateway API, on rules and on backends. The same names mean the same in Serin.

use super::{
    backend::Backend,
    gateway_api::{Of, leg},
    istio_http::{decide, words},
    ledger::Ledger,
    manifest::{Item, Objects},
    mirror::{self, Mirror, ONE_MIRROR},
    route::Route,
    secret,
    value::{scalar, whole},
};
use crate::engine::weight::Weight;

/// Largest denominator of a fraction that is read.
const WHOLE_MAX: u64 = 1_000_000_000;

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
            // After the others: see `mirror`.
            "RequestMirror" => continue,
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

/// The first filter of type RequestMirror.
pub(super) fn mirror(filters: &[Item], of: Of<'_>, route: &mut Route, objects: &Objects, ledger: &mut Ledger) {
    let is_mirror = |filter: &&Item| filter.get("type").and_then(Item::text) == Some("RequestMirror");
    let mut filters = filters.iter().filter(is_mirror);
    let Some(filter) = filters.next() else { return };
    for other in filters {
        ledger.dropped(other, ONE_MIRROR);
    }
    if route.service.is_none() {
        return ledger.dropped(filter, "a redirect is answered at once, and nothing is copied");
    }
    let settings = filter.get("requestMirror");
    let reference = settings.and_then(|settings| settings.get("backendRef"));
    let (Some(settings), Some(reference)) = (settings, reference.filter(|to| to.at(&["name"]).is_some())) else {
        return ledger.dropped(filter, "the filter says nothing");
    };
    if reference.get("kind").is_some_and(|kind| kind.text() != Some("Service")) {
        return ledger.dropped(filter, "a backend that is no Service has no address");
    }
    let share = match (settings.get("fraction"), settings.get("percent")) {
        (Some(fraction), _) => part(fraction, ledger),
        (None, Some(percent)) => mirror::share(percent, ledger),
        (None, None) => Some(mirror::EVERYTHING),
    };
    let Some(share) = share else {
        return ledger.dropped(filter, "how much is to be copied cannot be said; nothing is copied");
    };
    let backend = leg(reference, "mirror", 0, of, objects, ledger).backend;
    if let Some(kind) = filter.get("type") {
        ledger.kept(kind, "`filters.mirror`");
    }
    Mirror::new(backend, share).apply(filter, route, ledger);
}

/// `{ numerator, denominator }`, the latter 100 where it is not written.
fn part(fraction: &Item, ledger: &mut Ledger) -> Option<Weight> {
    let total = fraction.get("denominator").map_or(Some(100), whole).filter(|total| (1..=WHOLE_MAX).contains(total));
    let part = fraction.get("numerator").and_then(whole).zip(total).filter(|(part, total)| part <= total);
    let ppm = part.and_then(|(part, total)| u32::try_from((part * 1_000_000 + total / 2) / total).ok());
    let share = ppm.and_then(|ppm| Weight::from_ppm(ppm).ok());
    match (share, part) {
        (Some(_), Some((part, total))) if (part * 1_000_000).is_multiple_of(total) => {
            ledger.kept(fraction, "`percentage` of the mirror");
        }
        (Some(share), _) => ledger.approximated(fraction, format!("{share} of the requests, to a part per million")),
        (None, _) => ledger.dropped(fraction, "not a part of a whole; nothing is copied"),
    }
    share
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

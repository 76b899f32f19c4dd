//! Ambassador, Emissary: Mappings. Those with the same conditions are one service, and of them the one with a weight in
//! percent is the canary. Without `rewrite` a prefix is taken away there, so the routes say it.

use std::time::Duration;

use super::{
    Importer,
    backend::Backend,
    draft::{Draft, Service, Sticky, service_name, unused_name},
    istio_http::{decide, retry_on, retry_text, words},
    ledger::Ledger,
    manifest::{Item, Object, Objects},
    matching::{Condition, How, Match},
    mirror::{self, Mirror},
    route::Route,
    secret, trial,
    value::{WAITS, go_duration, is_token, scalar, whole},
    watch::{self, Health, Watch, by_go},
};
use crate::engine::weight::Weight;

pub(super) const IMPORTER: Importer = Importer {
    word: "ambassador",
    reads: &["Mapping"],
    wants: "Mapping with a `weight`",
    reasons: &[
        ("Mapping", "spec.health_checks", "of the first one path, interval, timeout and thresholds are taken over"),
        ("Mapping", "spec.docs", "there is no portal of documents"),
        ("Mapping", "spec.ambassador_id", "Serin listens by itself"),
        ("Mapping", "spec.bypass_auth", "Serin asks nobody whether a request may pass"),
        ("Mapping", "spec.load_balancer", "only a cookie's name and its lifetime are taken over"),
    ],
    draft,
};

/// Fields that say which requests a Mapping takes. Serin has a word for each but the last ones.
const CONDITIONS: [&str; 14] = [
    "hostname",
    "host",
    "host_regex",
    "prefix",
    "prefix_regex",
    "prefix_exact",
    "method",
    "method_regex",
    "headers",
    "regex_headers",
    "query_parameters",
    "regex_query_parameters",
    "case_sensitive",
    "precedence",
];

fn draft(objects: &Objects, ledger: &mut Ledger) -> Option<Draft> {
    let is_shadow = |mapping: &&Object| mapping.spec(&["shadow"]).is_some_and(Item::is_true);
    let has_weight = |mapping: &&Object| mapping.spec(&["weight"]).is_some();
    let (mut shadows, all): (Vec<&Object>, Vec<&Object>) = objects.all("Mapping").partition(is_shadow);
    all.iter().find(|mapping| has_weight(mapping))?;
    let mut draft = Draft::empty();
    let (canaries, stables): (Vec<&Object>, Vec<&Object>) = all.into_iter().partition(has_weight);
    let mut taken: Vec<&Object> = Vec::new();
    for stable in stables {
        let matched = match matched(stable) {
            Ok(matched) => matched,
            Err(why) => {
                ledger.retracted(
                    &stable.item,
                    &format!("its conditions cannot be said, and it must not take others: {why}"),
                );
                continue;
            }
        };
        let same = |canary: &&&Object| self::matched(canary).as_ref() == Ok(&matched);
        let canary = canaries.iter().find(same).copied();
        taken.extend(canary);
        // Of a Mapping's requests one other gets copies.
        let shadow = shadows.iter().position(|shadow| self::matched(shadow).as_ref() == Ok(&matched));
        let shadow = shadow.map(|nth| shadows.remove(nth));
        mapping(stable, canary, shadow, matched, &mut draft, ledger);
    }
    for canary in canaries.iter().filter(|canary| !taken.iter().any(|other| std::ptr::eq(*other, **canary))) {
        ledger.dropped(
            &canary.item,
            "there is no Mapping without a weight that has the same conditions, or it has a canary already",
        );
    }
    for shadow in shadows {
        ledger.dropped(&shadow.item, "no other Mapping has the same conditions, or its requests are copied already");
    }
    draft.remark_splits();
    (!draft.services.is_empty()).then_some(draft)
}

/// Which requests a Mapping takes.
fn matched(mapping: &Object) -> Result<Match, String> {
    let text = |field: &str| mapping.spec(&[field]).and_then(Item::text).map(str::to_owned);
    let is_true = |field: &str| mapping.spec(&[field]).is_some_and(Item::is_true);
    for field in ["host_regex", "method_regex"] {
        if is_true(field) {
            return Err(format!("`{field}`: hosts and methods are compared whole"));
        }
    }
    if mapping.spec(&["case_sensitive"]).is_some_and(|item| item.text() == Some("false")) {
        return Err("paths are compared in their case".to_owned());
    }
    let how = match (is_true("prefix_regex"), is_true("prefix_exact")) {
        (true, _) => How::Regex,
        (_, true) => How::Exact,
        _ => How::Prefix,
    };
    let mut one = Match {
        host: text("hostname").or_else(|| text("host")).filter(|host| host != "*"),
        path: text("prefix").map(|path| (how, path)).filter(|(how, path)| *how != How::Prefix || path != "/"),
        method: text("method"),
        ..Match::default()
    };
    for (field, how) in [
        ("headers", How::Exact),
        ("regex_headers", How::Regex),
        ("query_parameters", How::Exact),
        ("regex_query_parameters", How::Regex),
    ] {
        for (name, value) in mapping.spec(&[field]).map_or(&[][..], Item::fields) {
            // `true` asks only that it is there.
            let (how, value) =
                if value.is_true() { (How::Regex, ".*") } else { (how, value.text().unwrap_or_default()) };
            let conditions = if field.ends_with("headers") { &mut one.headers } else { &mut one.query };
            conditions.push(Condition::new(name, how, value));
        }
    }
    one.try_out().map(|()| one)
}

fn mapping(
    stable: &Object,
    canary: Option<&Object>,
    shadow: Option<&Object>,
    matched: Match,
    draft: &mut Draft,
    ledger: &mut Ledger,
) {
    let mut of_stable = side(stable, "v1", ledger);
    health(stable, &mut of_stable, ledger);
    let of_canary = canary.map(|canary| {
        let mut backend = side(canary, "v2", ledger);
        health(canary, &mut backend, ledger);
        backend
    });
    let name = service_name(stable, ledger);
    let name = unused_name(&name, &draft.services);
    let mut service = Service::new(name.clone(), of_stable, of_canary);
    for object in std::iter::once(stable).chain(canary) {
        for item in CONDITIONS.iter().filter_map(|field| object.spec(&[field])) {
            ledger.kept(item, "`match` of the route");
        }
    }
    if let Some((canary, weight_at)) = canary.and_then(|canary| Some((canary, canary.spec(&["weight"])?))) {
        ledger.kept_field(canary, &["metadata", "name"], "the canary's Mapping");
        let weight = whole(weight_at).filter(|weight| *weight <= 100);
        let share = weight.and_then(|weight| format!("{weight}%").parse::<Weight>().ok());
        match share {
            Some(share) => ledger.kept(weight_at, format!("`setWeight: {share}`")),
            None => ledger.dropped(weight_at, "not a whole number from 0 to 100; the canary gets no share"),
        }
        service.hold_at(share.unwrap_or(Weight::ZERO), ledger.place(weight_at));
    }
    service.sticky = sticky(stable, ledger);
    draft.services.push(service);
    let from = stable.spec(&["prefix"]).map(|item| ledger.place(item)).unwrap_or_default();
    let mut route = Route { from, matches: vec![matched], service: Some(name), ..Route::default() };
    rewrite(stable, &mut route, ledger);
    headers(stable, &mut route, ledger);
    limits(stable, &mut route, ledger);
    cors(stable, &mut route, ledger);
    if let Some(shadow) = shadow {
        copies(shadow, &mut route, ledger);
    }
    draft.routes.push(route);
}

/// The first of `health_checks`: by default each 5 s, 3 s long, 1 good and 2 bad answers.
fn health(mapping: &Object, backend: &mut Backend, ledger: &mut Ledger) {
    let Some(check) = mapping.item.list(&["spec", "health_checks"]).first() else { return };
    if let Some(item) = check.at(&["health_check", "grpc"]) {
        ledger.dropped(item, "asked by connection: Serin asks no gRPC health service");
    }
    let interval = watch::interval(check.get("interval"), by_go, "health.interval", ledger);
    let interval = interval.or(Some(Duration::from_secs(5)));
    let health = Health {
        path: watch::path(check.at(&["health_check", "http", "path"]), ledger),
        interval,
        timeout: watch::timeout(check.get("timeout"), by_go, interval, ledger).or(Some(Duration::from_secs(3))),
        healthy: watch::count(check.get("healthy_threshold"), "health.healthy", ledger).or(Some(1)),
        unhealthy: watch::count(check.get("unhealthy_threshold"), "health.unhealthy", ledger).or(Some(2)),
    };
    Watch { health: Some(health), ejection: None }.apply(backend, check, ledger);
}

/// Copies to the Mapping's service: of so many percent as its weight says, or else of all.
fn copies(shadow: &Object, route: &mut Route, ledger: &mut Ledger) {
    let share = shadow.spec(&["weight"]).map_or(Some(mirror::EVERYTHING), |item| mirror::share(item, ledger));
    let Some(share) = share else {
        return ledger.dropped(&shadow.item, "how much is to be copied cannot be said; nothing is copied");
    };
    let backend = side(shadow, "mirror", ledger);
    ledger.kept_field(shadow, &["metadata", "name"], "the Mapping that gets copies");
    for item in CONDITIONS.iter().filter_map(|field| shadow.spec(&[field])) {
        ledger.kept(item, "says whose requests are copied");
    }
    if let Some(item) = shadow.spec(&["shadow"]) {
        Mirror::new(backend, share).apply(item, route, ledger);
    }
}

/// `service: [http[s]://]name[.namespace][:port]`.
fn side(mapping: &Object, fallback: &str, ledger: &mut Ledger) -> Backend {
    let namespace = mapping.namespace(ledger);
    let Some(item) = mapping.spec(&["service"]) else { return Backend::unknown(fallback) };
    let text = item.text().unwrap_or_default();
    let (scheme, rest) = text.split_once("://").unwrap_or(("http", text));
    let (host, port) = rest.split_once(':').unwrap_or((rest, if scheme == "https" { "443" } else { "80" }));
    let (first, has_namespace) = host.split_once('.').map_or((host, false), |(first, _)| (first, true));
    let address = match namespace {
        Some(namespace) if !has_namespace => format!("{host}.{namespace}"),
        _ => host.to_owned(),
    };
    let number = port.parse().ok().filter(|port: &u16| *port > 0);
    let read = number
        .filter(|_| matches!(scheme, "http" | "https"))
        .and_then(|port| Backend::new(first, &address, port).or_else(|| Backend::new(fallback, &address, port)));
    let Some(mut backend) = read else {
        ledger.dropped(item, format!("not `name:port` by HTTP; write where `{fallback}` answers"));
        return Backend::unknown(fallback);
    };
    if scheme == "https" {
        backend.secure();
    }
    if let Some(grpc) = mapping.spec(&["grpc"]) {
        match if grpc.is_true() { backend.set("http", "h2".to_owned()) } else { Ok(()) } {
            Ok(()) => ledger.kept(grpc, "`http` of the version"),
            Err(why) => ledger.dropped(grpc, why),
        }
    }
    ledger.approximated(item, format!("the version `{}` at `{}`, derived from it", backend.version, backend.url));
    backend
}

/// Without a word a prefix becomes `/`; an empty text leaves it.
fn rewrite(mapping: &Object, route: &mut Route, ledger: &mut Ledger) {
    let mut parts = Vec::new();
    let host_at = mapping.spec(&["host_rewrite"]);
    parts.extend(host_at.and_then(Item::text).map(|host| format!("host: {}", scalar(host))));
    let path_at = mapping.spec(&["rewrite"]);
    let prefix = route.matches.iter().find_map(|one| one.path.clone()).filter(|(how, _)| *how == How::Prefix);
    let target = path_at.map_or(Some("/"), Item::text).filter(|target| !target.is_empty());
    if let (Some(target), Some((_, prefix))) = (target, &prefix)
        && target != prefix
    {
        parts.push(format!("path: {{ prefix: {} }}", scalar(target)));
    }
    let done = if parts.is_empty() { Ok(()) } else { route.filter("rewrite", format!("{{ {} }}", parts.join(", "))) };
    for item in [host_at, path_at].into_iter().flatten() {
        decide(item, done.clone(), "rewrite", ledger);
    }
    if let Some(item) = mapping.spec(&["regex_rewrite"]) {
        ledger.dropped(item, "paths are not rewritten by patterns");
    }
}

fn headers(mapping: &Object, route: &mut Route, ledger: &mut Ledger) {
    for (side, field) in [("request", "requestHeaders"), ("response", "responseHeaders")] {
        let (mut set, mut add, mut parts) = (Vec::new(), Vec::new(), Vec::new());
        let add_at = mapping.spec(&[&format!("add_{side}_headers")]);
        for (name, item) in add_at.map_or(&[][..], Item::fields) {
            // A text is added; a mapping says whether.
            let value = item.get("value").unwrap_or(item);
            let is_added = item.get("append").is_none_or(Item::is_true);
            let entry = (name.clone(), secret::header(name, value, ledger));
            if is_added { add.push(entry) } else { set.push(entry) }
        }
        for (word, entries) in [("set", &set), ("add", &add)] {
            if !entries.is_empty() {
                parts.push(format!("{word}: {}", secret::mapping(entries)));
            }
        }
        let remove_at = mapping.spec(&[&format!("remove_{side}_headers")]);
        let removed: Vec<String> =
            remove_at.map_or(&[][..], Item::items).iter().filter_map(Item::text).map(scalar).collect();
        if !removed.is_empty() {
            parts.push(format!("remove: [{}]", removed.join(", ")));
        }
        if parts.is_empty() {
            continue;
        }
        let done = route.filter(field, format!("{{ {} }}", parts.join(", ")));
        for item in [add_at, remove_at].into_iter().flatten() {
            decide(item, done.clone(), field, ledger);
        }
    }
}

fn limits(mapping: &Object, route: &mut Route, ledger: &mut Ledger) {
    if let Some(item) = mapping.spec(&["timeout_ms"]) {
        match whole(item).map(Duration::from_millis).filter(|time| WAITS.contains(time)) {
            Some(time) => {
                route.request_timeout = Some(time);
                ledger.approximated(item, "`timeouts.request`, which ends with the response head");
            }
            None => ledger.dropped(item, "not from 1ms to 1h"),
        }
    }
    let Some(policy) = mapping.spec(&["retry_policy"]) else { return };
    let (conditions, statuses, _) = retry_on(policy.get("retry_on").and_then(Item::text).unwrap_or_default());
    let retries = policy.get("num_retries").and_then(whole).unwrap_or(1).min(10);
    let text = retry_text(retries, &conditions, &statuses);
    match trial::route(&format!("service: a, retry: {text}")) {
        Ok(()) => {
            route.retry = Some(text);
            for item in ["retry_on", "num_retries"].iter().filter_map(|field| policy.get(field)) {
                ledger.approximated(
                    item,
                    "`retry`: at the same version; reset, timeout and 5xx only for idempotent requests",
                );
            }
        }
        Err(why) => ledger.dropped(policy, why),
    }
    if let Some(item) = policy.get("per_try_timeout") {
        match item.text().and_then(go_duration).filter(|time| WAITS.contains(time)) {
            Some(time) => {
                route.attempt_timeout = Some(time);
                ledger.kept(item, "`timeouts.attempt`");
            }
            None => ledger.dropped(item, "not a duration from 1ms to 1h"),
        }
    }
}

fn cors(mapping: &Object, route: &mut Route, ledger: &mut Ledger) {
    let Some(item) = mapping.spec(&["cors"]) else { return };
    let mut parts = Vec::new();
    for (theirs, ours) in
        [("origins", "origins"), ("methods", "methods"), ("headers", "headers"), ("exposed_headers", "exposeHeaders")]
    {
        let Some(list) = item.get(theirs) else { continue };
        // A list, or a text with commas.
        let text = list.text().unwrap_or_default().split(',').map(str::trim).filter(|word| !word.is_empty());
        let all = words(list.items().iter().filter_map(Item::text).chain(text), ours);
        if !all.is_empty() {
            parts.push(format!("{ours}: [{}]", all.join(", ")));
        }
    }
    if item.get("credentials").is_some_and(Item::is_true) {
        parts.push("credentials: true".to_owned());
    }
    parts.extend(item.get("max_age").and_then(whole).map(|age| format!("maxAge: {}s", age.min(86_400))));
    decide(item, route.filter("cors", format!("{{ {} }}", parts.join(", "))), "cors", ledger);
}

fn sticky(mapping: &Object, ledger: &mut Ledger) -> Option<Sticky> {
    let cookie = mapping.spec(&["load_balancer", "cookie"])?;
    let name_at = cookie.get("name")?;
    let name = name_at.text().filter(|name| is_token(name))?;
    let ttl_at = cookie.get("ttl");
    let ages = Duration::from_secs(1)..=Duration::from_hours(366 * 24);
    let ttl = ttl_at.and_then(Item::text).and_then(go_duration).filter(|age| ages.contains(age));
    ledger.approximated(name_at, "`assign.sticky`: pins a client to a version, not to a pod");
    if let Some(item) = ttl_at.filter(|_| ttl.is_some()) {
        ledger.kept(item, "`ttl` of the cookie");
    }
    Some(Sticky { cookie: name.to_owned(), ttl })
}

//! HTTP routes as Istio writes them, which Flagger took over: matches, rewrites, header edits, retries, CORS, time limits.
//! Refuses to widen a match: one condition that cannot be said leaves out the whole entry.

use super::{
    ledger::Ledger,
    manifest::Item,
    matching::{Condition, How, Match},
    route::Route,
    secret, trial,
    value::{WAITS, go_duration, scalar, shown, whole},
};

/// `match`: any of the entries. None when there are some and not one can be said: nothing may be sent there then.
pub(super) fn matches(items: &[Item], ledger: &mut Ledger) -> Option<Vec<Match>> {
    let read: Vec<Match> = items.iter().flat_map(|item| entry(item, ledger)).collect();
    (items.is_empty() || !read.is_empty()).then_some(read)
}

fn entry(item: &Item, ledger: &mut Ledger) -> Vec<Match> {
    let read = match of_entry(item) {
        Ok(all) => all.iter().try_for_each(Match::try_out).map(|()| all),
        Err(why) => Err(why),
    };
    match read {
        Ok(all) => {
            if let Some(gateways) = item.get("gateways") {
                ledger.approximated(gateways, "Serin is the only gateway");
            }
            if let Some(prefix) = item.at(&["uri", "prefix"]).filter(|prefix| prefix.text() != Some("/")) {
                ledger.approximated(prefix, "`path: { prefix: … }`, which ends with a segment: `/a` is not `/ab`");
            }
            ledger.kept(item, "an entry of the route's `match`");
            all
        }
        Err(why) => {
            ledger.dropped(item, format!("this entry is left out, so that no other request meets it: {why}"));
            Vec::new()
        }
    }
}

fn of_entry(item: &Item) -> Result<Vec<Match>, String> {
    let mut one = Match::default();
    let mut methods = vec![None];
    for (field, value) in item.fields() {
        match &**field {
            "name" | "statPrefix" | "gateways" => {}
            "uri" => one.path = Some(condition(value)?),
            "authority" => match condition(value)? {
                (How::Exact, host) => one.host = Some(without_port(&host).to_owned()),
                _ => return Err("hosts are compared whole, or below `*.`".to_owned()),
            },
            "method" => match condition(value)? {
                (How::Exact, method) => methods = vec![Some(method)],
                (How::Regex, pattern) if pattern.bytes().all(|b| b.is_ascii_uppercase() || b == b'|') => {
                    methods = pattern.split('|').map(|method| Some(method.to_owned())).collect();
                }
                _ => return Err("methods are compared whole".to_owned()),
            },
            "headers" | "queryParams" => {
                for (name, value) in value.fields() {
                    let (how, text) = if value.fields().is_empty() && value.text().is_none() {
                        // Only that it is there.
                        (How::Regex, ".*".to_owned())
                    } else {
                        condition(value)?
                    };
                    let conditions = if field == "headers" { &mut one.headers } else { &mut one.query };
                    conditions.push(Condition { name: name.clone(), how, value: text });
                }
            }
            "ignoreUriCase" if !value.is_true() => {}
            other => return Err(format!("`{other}` is no condition of Serin")),
        }
    }
    Ok(methods.into_iter().map(|method| Match { method, ..one.clone() }).collect())
}

/// `{ exact | prefix | regex: text }`.
pub(super) fn condition(item: &Item) -> Result<(How, String), String> {
    let [(how, value)] = item.fields() else {
        return Err("a condition is one of `exact`, `prefix` and `regex`".to_owned());
    };
    let how = match &**how {
        "exact" => How::Exact,
        "prefix" => How::Prefix,
        "regex" => How::Regex,
        other => return Err(format!("`{other}` is no way to compare")),
    };
    Ok((how, value.text().unwrap_or_default().to_owned()))
}

/// A host without the port that Istio allows behind it.
pub(super) fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

/// What a route does besides choosing a service.
pub(super) fn actions(item: &Item, route: &mut Route, ledger: &mut Ledger) {
    timeout(item.get("timeout"), route, ledger);
    retries(item.get("retries"), route, ledger);
    rewrite(item.get("rewrite"), route, ledger);
    if let Some(headers) = item.get("headers") {
        for (side, field) in [("request", "requestHeaders"), ("response", "responseHeaders")] {
            let Some(edits) = headers.get(side) else { continue };
            let text = header_edits(edits, ledger);
            decide(edits, route.filter(field, text), field, ledger);
        }
    }
    if let Some(policy) = item.get("corsPolicy") {
        match cors(policy) {
            Ok(text) => decide(policy, route.filter("cors", text), "cors", ledger),
            Err(why) => ledger.dropped(policy, why),
        }
    }
}

/// Says of an item that it became a filter, or why it did not.
pub(super) fn decide(item: &Item, done: Result<(), String>, field: &str, ledger: &mut Ledger) {
    match done {
        Ok(()) => ledger.kept(item, format!("`filters.{field}`")),
        Err(why) => ledger.dropped(item, why),
    }
}

/// `timeout` of a route.
pub(super) fn timeout(item: Option<&Item>, route: &mut Route, ledger: &mut Ledger) {
    let Some(item) = item else { return };
    match item.text().and_then(go_duration).filter(|time| WAITS.contains(time)) {
        Some(time) => {
            route.request_timeout = Some(time);
            ledger.kept(item, "`timeouts.request`");
        }
        None => ledger.dropped(item, "not a duration from 1ms to 1h; 0s is no limit, which Serin does not have"),
    }
}

fn retries(item: Option<&Item>, route: &mut Route, ledger: &mut Ledger) {
    let Some(item) = item else { return };
    let attempts_at = item.get("attempts");
    let Some(attempts) = attempts_at.and_then(whole) else {
        return ledger.dropped(item, "without a whole number of `attempts` nothing is tried again");
    };
    let (conditions, statuses, left) = retry_on(item.get("retryOn").and_then(Item::text).unwrap_or_default());
    let text = retry_text(attempts.min(10), &conditions, &statuses);
    if let Err(why) = trial::route(&format!("service: a, retry: {text}")) {
        return ledger.dropped(item, why);
    }
    route.retry = Some(text);
    if let Some(at) = attempts_at {
        if attempts > 10 {
            ledger.approximated(at, "at most 10 retries");
        } else {
            ledger.kept(at, "`retry.retries`, at the same version");
        }
    }
    if let Some(at) = item.get("perTryTimeout") {
        match at.text().and_then(go_duration).filter(|time| WAITS.contains(time)) {
            Some(time) => {
                route.attempt_timeout = Some(time);
                ledger.kept(at, "`timeouts.attempt`");
            }
            None => ledger.dropped(at, "not a duration from 1ms to 1h"),
        }
    }
    if let Some(at) = item.get("retryOn") {
        let unknown = if left.is_empty() { String::new() } else { format!("; left out: {}", left.join(", ")) };
        let how = format!("`retry`: reset, timeout, 5xx and statuses only for idempotent requests{unknown}");
        ledger.approximated(at, how);
    }
}

/// The value of `retry`.
pub(super) fn retry_text(retries: u64, conditions: &[&str], statuses: &[String]) -> String {
    let mut parts = vec![format!("retries: {retries}")];
    if !conditions.is_empty() {
        parts.push(format!("conditions: [{}]", conditions.join(", ")));
    }
    if !statuses.is_empty() {
        parts.push(format!("statuses: [{}]", statuses.join(", ")));
    }
    format!("{{ {} }}", parts.join(", "))
}

/// `retryOn` of Envoy as conditions and statuses, and what is neither.
pub(super) fn retry_on(text: &str) -> (Vec<&'static str>, Vec<String>, Vec<String>) {
    let (mut conditions, mut statuses, mut left) = (Vec::new(), Vec::new(), Vec::new());
    for word in text.split([',', ' ']).map(str::trim).filter(|word| !word.is_empty()) {
        let known: &[&str] = match word {
            "5xx" => &["5xx", "connect-failure", "refused-stream", "reset", "timeout"],
            "connect-failure" => &["connect-failure"],
            "refused-stream" => &["refused-stream"],
            "reset" | "reset-before-request" => &["reset"],
            "gateway-error" => &[],
            _ if word.len() == 3 && word.parse::<u16>().is_ok_and(|status| (400..600).contains(&status)) => {
                statuses.push(word.to_owned());
                &[]
            }
            _ => {
                left.push(word.to_owned());
                &[]
            }
        };
        if word == "gateway-error" {
            statuses.push("502-504".to_owned());
        }
        for condition in known {
            if !conditions.contains(condition) {
                conditions.push(*condition);
            }
        }
    }
    statuses.dedup();
    (conditions, statuses, left)
}

fn rewrite(item: Option<&Item>, route: &mut Route, ledger: &mut Ledger) {
    let Some(item) = item else { return };
    let is_prefix = |one: &Match| one.path.as_ref().is_none_or(|(how, _)| *how == How::Prefix);
    let kind = if route.matches.iter().all(is_prefix) { "prefix" } else { "full" };
    let text = |field: &str| item.get(field).and_then(Item::text);
    let mut parts = Vec::new();
    if let Some(host) = text("authority") {
        parts.push(format!("host: {}", scalar(host)));
    }
    if let Some(path) = text("uri") {
        parts.push(format!("path: {{ {kind}: {} }}", scalar(path)));
    }
    if parts.is_empty() {
        return ledger.dropped(item, "only a path and a host can be rewritten");
    }
    let done = route.filter("rewrite", format!("{{ {} }}", parts.join(", ")));
    if let (Ok(()), Some(regex)) = (&done, item.get("uriRegexRewrite")) {
        ledger.dropped(regex, "paths are not rewritten by patterns");
    }
    decide(item, done, "rewrite", ledger);
}

/// `{ set, add, remove }`.
pub(super) fn header_edits(edits: &Item, ledger: &mut Ledger) -> String {
    let mut parts = Vec::new();
    for field in ["set", "add"] {
        let entries = edits.get(field).map_or(&[][..], Item::fields);
        let entries: Vec<(String, String)> =
            entries.iter().map(|(name, item)| (name.clone(), secret::header(name, item, ledger))).collect();
        if !entries.is_empty() {
            parts.push(format!("{field}: {}", secret::mapping(&entries)));
        }
    }
    let removed: Vec<String> = edits.list(&["remove"]).iter().filter_map(Item::text).map(scalar).collect();
    if !removed.is_empty() {
        parts.push(format!("remove: [{}]", removed.join(", ")));
    }
    format!("{{ {} }}", parts.join(", "))
}

fn cors(policy: &Item) -> Result<String, String> {
    let mut origins = Vec::new();
    for origin in policy.list(&["allowOrigins"]) {
        match condition(origin)? {
            (How::Exact, origin) => origins.push(scalar(&origin)),
            (How::Regex, pattern) if pattern == ".*" => origins.push(scalar("*")),
            _ => return Err("origins are compared whole, or below `https://*.`".to_owned()),
        }
    }
    // What it was called before.
    origins.extend(policy.list(&["allowOrigin"]).iter().filter_map(Item::text).map(scalar));
    let mut parts = vec![format!("origins: [{}]", origins.join(", "))];
    for (theirs, ours) in [("allowMethods", "methods"), ("allowHeaders", "headers"), ("exposeHeaders", "exposeHeaders")]
    {
        let all = words(policy.list(&[theirs]).iter().filter_map(Item::text), ours);
        if !all.is_empty() {
            parts.push(format!("{ours}: [{}]", all.join(", ")));
        }
    }
    if policy.get("allowCredentials").is_some_and(Item::is_true) {
        parts.push("credentials: true".to_owned());
    }
    if let Some(age) = policy.get("maxAge").and_then(Item::text).and_then(go_duration) {
        parts.push(format!("maxAge: {}", shown(age)));
    }
    Ok(format!("{{ {} }}", parts.join(", ")))
}

/// Entries of a list of CORS, ready to be written. In Serin `*` as a method is a method of that name.
pub(super) fn words<'a>(list: impl Iterator<Item = &'a str>, field: &str) -> Vec<String> {
    let every = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
    let of = |word: &'a str| if field == "methods" && word == "*" { every.to_vec() } else { vec![word] };
    list.flat_map(of).map(scalar).collect()
}

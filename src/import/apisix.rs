//! Apache APISIX: the HTTP rules of ApisixRoutes with their weighted backends. Weights are proportions; none is 100.
//! A higher priority goes first; `matching::first_wins` makes that the nearest.

use super::{
    Importer,
    backend::{Place, backend},
    draft::{Draft, service_name, unused_name},
    istio_http::{decide, words},
    ledger::Ledger,
    manifest::{Item, Object, Objects},
    matching::{Condition, How, MATCHES_MAX, Match, Ordered, first_wins},
    route::Route,
    secret,
    value::{WAITS, go_duration, port, scalar},
    weighted::{self, Leg},
};

pub(super) const IMPORTER: Importer = Importer {
    word: "apisix",
    reads: &["ApisixRoute", "Service"],
    wants: "ApisixRoute with HTTP backends",
    reasons: &[
        ("ApisixRoute", "spec.http[].name", "a route is named after its service"),
        ("ApisixRoute", "spec.http[].plugins", "this plugin has nothing that corresponds to it"),
        ("ApisixRoute", "spec.http[].backends[].resolveGranularity", "Serin resolves names to all their addresses"),
        ("ApisixRoute", "spec.http[].websocket", "upgraded connections are carried anyway"),
        ("ApisixRoute", "spec.http[].timeout", "`timeouts` has one limit for the whole request"),
        ("ApisixRoute", "spec.stream", "Serin carries HTTP only"),
    ],
    draft,
};

fn draft(objects: &Objects, ledger: &mut Ledger) -> Option<Draft> {
    let mut draft = Draft::empty();
    for object in objects.all("ApisixRoute") {
        one_route(object, &mut draft, objects, ledger);
    }
    draft.remark_splits();
    (!draft.services.is_empty()).then_some(draft)
}

fn one_route(object: &Object, draft: &mut Draft, objects: &Objects, ledger: &mut Ledger) {
    let namespace = object.namespace(ledger);
    let name = service_name(object, ledger);
    let name = &*name;
    let mut rules: Vec<(&Item, Vec<Match>)> = Vec::new();
    for item in object.item.list(&["spec", "http"]) {
        let read = item.get("match").map_or_else(|| Ok(vec![Match::default()]), matches);
        match read.and_then(|all| all.iter().try_for_each(Match::try_out).map(|()| all)) {
            Ok(all) => rules.push((item, all)),
            Err(why) => {
                ledger.retracted(item, &format!("its match cannot be said, and it must not take others: {why}"));
            }
        }
    }
    let priority = |item: &Item| item.get("priority").and_then(Item::text).and_then(|text| text.parse::<i64>().ok());
    rules.sort_by_key(|(item, _)| std::cmp::Reverse(priority(item).unwrap_or(0)));
    // Without priorities the nearest goes first in both.
    let has_order = rules.iter().any(|(item, _)| priority(item).is_some_and(|priority| priority != 0));
    let (listed, is_exact) = if has_order {
        let of = |(_, all): &(&Item, Vec<Match>)| Ordered { matches: all.clone(), is_bound: false };
        first_wins(&rules.iter().map(of).collect::<Vec<_>>())
    } else {
        (rules.iter().map(|(_, all)| all.clone()).collect(), true)
    };
    if !is_exact {
        draft.remark("APISIX goes by priority and Serin by the nearest match; for some requests they differ");
    }
    for ((item, _), matches) in rules.into_iter().zip(listed) {
        let service_name = unused_name(name, &draft.services);
        let legs = legs(item, &service_name, namespace, objects, ledger);
        let mut route = Route { from: ledger.place(item), matches, ..Route::default() };
        let has_redirect = plugins(item, &mut route, ledger);
        if !has_redirect {
            let Some(service) = weighted::service(service_name.clone(), legs, ledger) else {
                ledger.retracted(item, "it has no backend");
                continue;
            };
            route.service = Some(service_name);
            draft.services.push(service);
            plugins_of_service(item, &mut route, ledger);
        }
        if let Some(at) = item.get("match") {
            ledger.kept(at, "`match` of the route");
        }
        if let Some(at) = item.get("priority") {
            ledger.kept(at, "which route goes before which");
        }
        timeout(item, &mut route, ledger);
        draft.routes.push(route);
    }
}

/// Each host with each path and method, and all the expressions.
fn matches(item: &Item) -> Result<Vec<Match>, String> {
    let texts = |field: &str| -> Vec<Option<String>> {
        let all: Vec<_> = item.list(&[field]).iter().map(|item| item.text().map(str::to_owned)).collect();
        if all.is_empty() { vec![None] } else { all }
    };
    if let Some((other, _)) =
        item.fields().iter().find(|(name, _)| !matches!(&**name, "hosts" | "paths" | "methods" | "exprs"))
    {
        return Err(format!("`{other}` is no condition of a route"));
    }
    let mut base = vec![Match::default()];
    for expression in item.list(&["exprs"]) {
        let conditions = expression_of(expression)?;
        let with = |one: &Match| {
            let is_query = expression.at(&["subject", "scope"]).and_then(Item::text) == Some("Query");
            let of = |condition: &Condition| {
                let mut one = one.clone();
                if is_query {
                    one.query.push(condition.clone());
                } else {
                    one.headers.push(condition.clone());
                }
                one
            };
            conditions.iter().map(of).collect::<Vec<_>>()
        };
        base = base.iter().flat_map(with).collect();
    }
    let mut all = Vec::new();
    for one in &base {
        for host in texts("hosts") {
            for path in texts("paths") {
                for method in texts("methods") {
                    let path = path.as_deref().map(|path| match path.strip_suffix('*') {
                        Some(prefix) if prefix.ends_with('/') => (How::Prefix, prefix.to_owned()),
                        Some(prefix) => (How::Regex, format!("{}.*", regex::escape(prefix))),
                        None => (How::Exact, path.to_owned()),
                    });
                    all.push(Match { host: host.clone(), path, method, ..one.clone() });
                }
            }
        }
    }
    if all.len() > MATCHES_MAX { Err("it has too many alternatives".to_owned()) } else { Ok(all) }
}

/// Alternatives of `{ subject, op, value | set }`.
fn expression_of(item: &Item) -> Result<Vec<Condition>, String> {
    let text = |path: &[&str]| item.at(path).and_then(Item::text).unwrap_or_default();
    let (scope, name) = (text(&["subject", "scope"]), text(&["subject", "name"]));
    let name = match scope {
        "Header" | "Query" => name,
        "Cookie" => return cookie(name, text(&["op"]), text(&["value"])),
        other => return Err(format!("`{other}` is not compared by routes")),
    };
    match text(&["op"]) {
        "Equal" => Ok(vec![Condition::new(name, How::Exact, text(&["value"]))]),
        "In" => {
            let set = item.list(&["set"]).iter().filter_map(Item::text);
            Ok(set.map(|value| Condition::new(name, How::Exact, value)).collect())
        }
        "RegexMatch" => Ok(vec![Condition::new(name, How::Regex, &format!(".*(?:{}).*", text(&["value"])))]),
        "RegexMatchCaseInsensitive" => {
            Ok(vec![Condition::new(name, How::Regex, &format!(".*(?i:{}).*", text(&["value"])))])
        }
        other => Err(format!("`{other}` is no way to compare")),
    }
}

fn cookie(name: &str, op: &str, value: &str) -> Result<Vec<Condition>, String> {
    if op != "Equal" {
        return Err("cookies are compared whole".to_owned());
    }
    let pattern = format!("(?:.*; *)?{}={}(?:;.*)?", regex::escape(name), regex::escape(value));
    Ok(vec![Condition::new("cookie", How::Regex, &pattern)])
}

fn legs<'a>(
    rule: &'a Item,
    service: &str,
    namespace: Option<&str>,
    objects: &Objects,
    ledger: &mut Ledger,
) -> Vec<Leg<'a>> {
    let mut legs = Vec::new();
    for (index, item) in rule.list(&["backends"]).iter().enumerate() {
        let number = item.get("servicePort").and_then(port);
        if let Some(port_at) = item.get("servicePort") {
            match number {
                Some(_) => ledger.kept(port_at, "the port of the endpoint"),
                None => ledger.dropped(port_at, "a port's name says no number: that of the Service, or 80, is taken"),
            }
        }
        let fallback = (&*format!("{service}-{}", index + 1), &*format!("v{}", index + 1));
        let place = Place { namespace, port: number.unwrap_or(80), fallback };
        // A number that is written goes before that of a Service.
        let none = Objects::default();
        let known = if number.is_some() { &none } else { objects };
        let backend = backend(item.get("serviceName"), place, known, ledger);
        legs.push(Leg { backend, item, weight_at: item.get("weight"), default: 100 });
    }
    legs
}

fn enabled<'a>(rule: &'a Item, name: &str) -> Option<&'a Item> {
    let mut all = rule.list(&["plugins"]).iter();
    let is_on = |item: &&Item| item.get("enable").is_none_or(Item::is_true);
    all.find(|item| item.get("name").and_then(Item::text) == Some(name) && is_on(item))
}

/// Whether the rule redirects.
fn plugins(rule: &Item, route: &mut Route, ledger: &mut Ledger) -> bool {
    let Some(item) = enabled(rule, "redirect") else { return false };
    let text = |field: &str| item.at(&["config", field]).and_then(Item::text);
    let body = if text("http_to_https") == Some("true") {
        "{ scheme: https, status: 301 }".to_owned()
    } else {
        let status = text("ret_code").unwrap_or("302");
        format!("{{ path: {{ full: {} }}, status: {} }}", scalar(text("uri").unwrap_or_default()), scalar(status))
    };
    let done = route.filter("redirect", body);
    let is_done = done.is_ok();
    decide(item, done, "redirect", ledger);
    is_done
}

fn plugins_of_service(rule: &Item, route: &mut Route, ledger: &mut Ledger) {
    if let Some(item) = enabled(rule, "proxy-rewrite") {
        let text = |field: &str| item.at(&["config", field]).and_then(Item::text);
        let mut parts = Vec::new();
        parts.extend(text("host").map(|host| format!("host: {}", scalar(host))));
        // A path with `$` puts something of the request in.
        let path = text("uri").filter(|path| !path.contains('$'));
        parts.extend(path.map(|path| format!("path: {{ full: {} }}", scalar(path))));
        if !parts.is_empty() {
            let done = route.filter("rewrite", format!("{{ {} }}", parts.join(", ")));
            for field in ["host", "uri"].iter().filter_map(|field| item.at(&["config", field])) {
                if !field.text().is_some_and(|text| text.contains('$')) {
                    decide(field, done.clone(), "rewrite", ledger);
                }
            }
        }
        let headers = item.at(&["config", "headers"]);
        let set = headers.and_then(|headers| headers.get("set")).or(headers);
        let all: Vec<(String, String)> = set
            .map_or(&[][..], Item::fields)
            .iter()
            .filter(|(_, value)| value.text().is_some_and(|text| !text.contains('$')))
            .map(|(name, value)| (name.clone(), secret::header(name, value, ledger)))
            .collect();
        if let (Some(set), false) = (set, all.is_empty()) {
            let done = route.filter("requestHeaders", format!("{{ set: {} }}", secret::mapping(&all)));
            decide(set, done, "requestHeaders", ledger);
        }
        if let Some(name) = item.get("name") {
            ledger.kept(name, "a plugin with a filter of the same meaning");
        }
    }
    if let Some(item) = enabled(rule, "cors") {
        let list = |field: &str, ours: &str| {
            let text = item.at(&["config", field]).and_then(Item::text).unwrap_or("*");
            words(text.split(',').map(str::trim).filter(|word| !word.is_empty() && *word != "**"), ours).join(", ")
        };
        let body = format!(
            "{{ origins: [{}], methods: [{}], headers: [{}] }}",
            list("allow_origins", "origins"),
            list("allow_methods", "methods"),
            list("allow_headers", "headers")
        );
        decide(item, route.filter("cors", body), "cors", ledger);
    }
}

fn timeout(rule: &Item, route: &mut Route, ledger: &mut Ledger) {
    let Some(item) = rule.at(&["timeout", "read"]) else { return };
    match item.text().and_then(go_duration).filter(|time| WAITS.contains(time)) {
        Some(time) => {
            route.request_timeout = Some(time);
            ledger.approximated(item, "`timeouts.request`, which ends with the response head");
        }
        None => ledger.dropped(item, "not a duration from 1ms to 1h"),
    }
}

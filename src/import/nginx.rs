//! ingress-nginx: Ingresses, and those beside them that are annotated as their canaries. Each backend of a stable Ingress
//! is a service; a canary Ingress belongs to the services with which it shares a host and path.

use std::time::Duration;

use super::{
    Importer,
    backend::{Backend, Place, backend},
    draft::{Draft, Service, Step, Sticky, service_name, unused_name},
    ledger::Ledger,
    manifest::{Item, Object, Objects},
    matching::{How, MATCHES_MAX, Match},
    nginx_filters,
    route::Route,
    secret, trial,
    value::{is_token, port, scalar, whole},
};
use crate::engine::weight::Weight;

pub(super) const IMPORTER: Importer = Importer {
    word: "nginx",
    reads: &["Ingress", "Service"],
    wants: "Ingress with `nginx.ingress.kubernetes.io/canary: \"true\"`",
    reasons: REASONS,
    draft,
};

const PREFIX: &str = "nginx.ingress.kubernetes.io/";

const REASONS: &[(&str, &str, &str)] = &[
    ("Ingress", "spec.ingressClassName", "Serin listens by itself: see `listen`"),
    ("Ingress", "spec.tls", "certificates are files here: write `listeners[].tls`"),
    ("Ingress", "metadata.annotations", "this annotation has nothing that corresponds to it"),
];

pub(super) fn annotation<'a>(object: &'a Object, name: &str) -> Option<&'a Item> {
    object.item.at(&["metadata", "annotations", &format!("{PREFIX}{name}")])
}

fn is_canary(object: &Object) -> bool {
    annotation(object, "canary").is_some_and(Item::is_true)
}

/// A path of an Ingress, or its default backend.
struct Rule<'o> {
    ingress: &'o Object,
    /// Host, path and its type as items; none of a default backend.
    host: Option<&'o Item>,
    path: Option<&'o Item>,
    backend: &'o Item,
}

impl<'o> Rule<'o> {
    /// What requests it takes, as it is written.
    fn place(&self) -> (&'o str, &'o str) {
        let path = self.path.and_then(|path| path.get("path")).and_then(Item::text);
        (self.host.and_then(Item::text).unwrap_or_default(), path.unwrap_or("/"))
    }

    fn is_same_backend(&self, other: &Self) -> bool {
        let what = |rule: &Self| {
            let service = rule.backend.get("service").unwrap_or(rule.backend);
            let text = |path: &[&str]| service.at(path).and_then(Item::text).map(str::to_owned);
            [text(&["name"]), text(&["port", "number"]), text(&["port", "name"])]
        };
        std::ptr::eq(self.ingress, other.ingress) && what(self) == what(other)
    }
}

fn rules(ingress: &Object) -> Vec<Rule<'_>> {
    let mut all = Vec::new();
    for rule in ingress.item.list(&["spec", "rules"]) {
        for path in rule.list(&["http", "paths"]) {
            if let Some(backend) = path.get("backend") {
                all.push(Rule { ingress, host: rule.get("host"), path: Some(path), backend });
            }
        }
    }
    all.extend(ingress.spec(&["defaultBackend"]).map(|backend| Rule { ingress, host: None, path: None, backend }));
    all
}

fn draft(objects: &Objects, ledger: &mut Ledger) -> Option<Draft> {
    let canaries: Vec<&Object> = objects.all("Ingress").filter(|object| is_canary(object)).collect();
    let stables: Vec<Rule<'_>> = objects.all("Ingress").filter(|object| !is_canary(object)).flat_map(rules).collect();
    if canaries.is_empty() || stables.is_empty() {
        return None;
    }
    let mut draft = Draft::empty();
    let mut used: Vec<&Object> = Vec::new();
    // Paths with one backend and one canary are one service.
    let mut groups: Vec<(Option<&Object>, Vec<Rule<'_>>)> = Vec::new();
    let is_alone = stables.iter().all(|rule| rule.is_same_backend(&stables[0]));
    for rule in stables {
        let shares = |canary: &&&Object| rules(canary).iter().any(|other| other.place() == rule.place());
        // The only canary of the only backend belongs to it, whatever its paths are.
        let only = canaries.first().filter(|_| is_alone && canaries.len() == 1);
        let canary = canaries.iter().find(shares).or(only).copied();
        let same = |(of, rules): &&mut (Option<&Object>, Vec<Rule<'_>>)| {
            of.map(std::ptr::from_ref) == canary.map(std::ptr::from_ref) && rules[0].is_same_backend(&rule)
        };
        match groups.iter_mut().find(same) {
            Some((_, rules)) => rules.push(rule),
            None => groups.push((canary, vec![rule])),
        }
    }
    for (canary, rules) in &groups {
        used.extend(canary);
        group(*canary, rules, &mut draft, objects, ledger);
    }
    for canary in canaries.iter().filter(|canary| !used.iter().any(|other| std::ptr::eq(*other, **canary))) {
        ledger.dropped(&canary.item, "no other Ingress in these files has one of its hosts and paths");
    }
    draft.remark_splits();
    (!draft.services.is_empty()).then_some(draft)
}

fn group(canary: Option<&Object>, rules: &[Rule<'_>], draft: &mut Draft, objects: &Objects, ledger: &mut Ledger) {
    let stable = rules[0].ingress;
    let name = service_name(stable, ledger);
    let name = unused_name(&name, &draft.services);
    let of_stable = side(&rules[0], (&format!("{name}-stable"), "v1"), objects, ledger);
    for rule in &rules[1..] {
        ledger.approximated(rule.backend, format!("the service `{name}`"));
    }
    let of_canary = canary.and_then(|canary| {
        ledger.kept_field(canary, &["metadata", "name"], "the canary's Ingress");
        let theirs = self::rules(canary);
        let first = theirs.iter().find(|other| rules.iter().any(|rule| rule.place() == other.place()));
        let first = first.or(theirs.first())?;
        for other in &theirs {
            let matched = [other.host, other.path.and_then(|path| path.get("path"))];
            for item in matched.into_iter().flatten() {
                ledger.kept(item, "says to which Ingress the canary belongs");
            }
            if let Some(kind) = other.path.and_then(|path| path.get("pathType")) {
                ledger.kept(kind, "says to which Ingress the canary belongs");
            }
        }
        Some(side(first, (&format!("{name}-canary"), "v2"), objects, ledger))
    });
    let mut service = Service::new(name.clone(), of_stable, of_canary);
    if let Some(canary) = canary.filter(|_| service.canary.is_some()) {
        if let Some(item) = annotation(canary, "canary") {
            ledger.kept(item, "`canary`");
        }
        headers(canary, &mut service, ledger);
        weight(canary, &mut service, ledger);
        affinity(stable, canary, &mut service, ledger);
    }
    let mut route = Route { service: Some(name), ..Route::default() };
    for rule in rules.iter().take(MATCHES_MAX) {
        route.matches.extend(matched(rule, ledger));
    }
    if route.matches.is_empty() {
        return ledger.retracted(&stable.item, "none of its hosts and paths can be said, and it must not take others");
    }
    nginx_filters::apply(stable, &mut route, ledger);
    draft.routes.push(route);
    draft.services.push(service);
}

/// Host and path; none when they cannot be said.
fn matched(rule: &Rule<'_>, ledger: &mut Ledger) -> Option<Match> {
    let kind_at = rule.path.and_then(|path| path.get("pathType"));
    let path_at = rule.path.and_then(|path| path.get("path"));
    let (host, path) = rule.place();
    let is_pattern = annotation(rule.ingress, "use-regex").is_some_and(Item::is_true);
    let kind = kind_at.and_then(Item::text).unwrap_or("ImplementationSpecific");
    let (how, path) = match kind {
        "Exact" => (How::Exact, path.to_owned()),
        _ if is_pattern => (How::Regex, format!("(?i:{path}).*")),
        _ => (How::Prefix, path.to_owned()),
    };
    let one = Match {
        host: Some(host.to_owned()).filter(|host| !host.is_empty()),
        path: Some((how, path)).filter(|(how, path)| *how != How::Prefix || path != "/"),
        ..Match::default()
    };
    let done = one.try_out();
    for item in [rule.host, path_at, kind_at].into_iter().flatten() {
        match &done {
            Err(why) => ledger.dropped(item, why),
            Ok(()) if is_pattern && how != How::Exact => {
                ledger.approximated(item, "a pattern of the route's `match`, in any case, and whatever follows");
            }
            Ok(()) if host.starts_with('*') => {
                ledger.approximated(item, "`match` of the route, where `*.` is one label or several");
            }
            Ok(()) => ledger.kept(item, "`match` of the route"),
        }
    }
    done.is_ok().then_some(one)
}

/// The version behind a rule.
fn side(rule: &Rule<'_>, fallback: (&str, &str), objects: &Objects, ledger: &mut Ledger) -> Backend {
    let namespace = rule.ingress.namespace(ledger);
    let service = rule.backend.get("service");
    let number_at = service.and_then(|service| service.at(&["port", "number"]));
    if let Some(item) = number_at {
        match port(item) {
            Some(_) => ledger.kept(item, "the port of the endpoint"),
            None => ledger.dropped(item, "not a port; 80 is taken"),
        }
    }
    if let Some(item) = service.and_then(|service| service.at(&["port", "name"])) {
        ledger.approximated(
            item,
            "a port's name says no number: that of the Service in these files, or else 80, is taken",
        );
    }
    let place = Place { namespace, port: number_at.and_then(port).unwrap_or(80), fallback };
    let name = service.and_then(|service| service.get("name"));
    // A number that is written goes before that of a Service.
    let none = Objects::default();
    let mut backend = backend(name, place, if number_at.is_some() { &none } else { objects }, ledger);
    nginx_filters::protocol(rule.ingress, &mut backend, ledger);
    backend
}

fn weight(canary: &Object, service: &mut Service, ledger: &mut Ledger) {
    let weight_at = annotation(canary, "canary-weight");
    let total_at = annotation(canary, "canary-weight-total");
    let written = total_at.and_then(whole).filter(|total| *total <= 1_000_000_000);
    let total = written.unwrap_or(100).max(100);
    if let Some(item) = total_at {
        match written {
            Some(written) if written == total => ledger.kept(item, "what the weight is a part of"),
            Some(_) => ledger.approximated(item, "ingress-nginx takes a total of less than 100 for 100"),
            None => ledger.dropped(item, "not a whole number; 100 is taken"),
        }
    }
    let written = weight_at.and_then(whole);
    let weight = written.map(|weight| weight.min(total));
    let parts = weight.map_or(0, |weight| (weight * 1_000_000 + total / 2) / total);
    let share = u32::try_from(parts).ok().and_then(|ppm| Weight::from_ppm(ppm).ok()).unwrap_or(Weight::ZERO);
    if let Some(item) = weight_at {
        match weight {
            None => ledger.dropped(item, "not a whole number; the canary gets no share"),
            Some(weight) if written != Some(weight) => {
                ledger.approximated(item, format!("`setWeight: {share}`: more than {total} is everything"));
            }
            Some(weight) if (weight * 1_000_000).is_multiple_of(total) => {
                ledger.kept(item, format!("`setWeight: {share}`"));
            }
            Some(_) => ledger.approximated(item, format!("`setWeight: {share}`, to a part per million")),
        }
    }
    service.hold_at(share, weight_at.map(|item| ledger.place(item)).unwrap_or_default());
}

/// Header, then cookie, then weight, as in ingress-nginx.
fn headers(canary: &Object, service: &mut Service, ledger: &mut Ledger) {
    let named = |name: &str| annotation(canary, name).filter(|item| item.text().is_some_and(is_token));
    let header_at = named("canary-by-header");
    let value_at =
        annotation(canary, "canary-by-header-value").filter(|item| item.text().is_some_and(|t| !t.is_empty()));
    let pattern_at = annotation(canary, "canary-by-header-pattern").filter(|_| value_at.is_none());
    let cookie_at = named("canary-by-cookie");
    let behind = if cookie_at.is_some() { "; the cookie goes before it" } else { "" };
    for (name, found) in [("canary-by-header", header_at), ("canary-by-cookie", cookie_at)] {
        if let (Some(item), None) = (annotation(canary, name), found) {
            ledger.dropped(item, "cannot be a name");
        }
    }
    if let Some(header) = header_at.and_then(Item::text) {
        let how = match (value_at, pattern_at) {
            (Some(value), _) => {
                let text = value.text().unwrap_or_default();
                let done = trial::service(&format!(
                    "    assign: {{ cohorts: [{{ header: {}, values: [{}], to: canary }}] }}\n",
                    scalar(header),
                    scalar(text)
                ));
                let how = done.map(|()| format!("`assign.cohorts`: who has this value goes to the canary{behind}"));
                if how.is_ok() {
                    service.cohorts.push((header.to_owned(), text.to_owned()));
                    if secret::is_secret(header) {
                        ledger.approximated(
                            value,
                            "copied as it is, though it may be a password: whoever has it is told apart by it",
                        );
                    }
                }
                how
            }
            (None, Some(pattern)) => header_route(header, pattern, service)
                .map(|()| format!("`setHeaderRoute`: the pattern may stand anywhere in the value{behind}")),
            (None, None) => {
                service.force_header = Some(header.to_owned());
                Ok("`assign.force.header`: `always` and `never` mean the same".to_owned())
            }
        };
        service.is_running |= how.is_ok();
        for item in [header_at, value_at, pattern_at].into_iter().flatten() {
            match &how {
                Ok(how) if behind.is_empty() || (value_at.is_none() && pattern_at.is_none()) => ledger.kept(item, how),
                Ok(how) => ledger.approximated(item, how),
                Err(why) => ledger.dropped(item, why),
            }
        }
    }
    if let (Some(_), Some(item)) = (value_at, annotation(canary, "canary-by-header-pattern")) {
        ledger.dropped(item, "`canary-by-header-value` takes its place");
    }
    if let Some(item) = cookie_at {
        service.force_cookie = item.text().map(str::to_owned);
        service.is_running = true;
        ledger.kept(item, "`assign.force.cookie`: `always` and `never` mean the same");
    }
}

/// A header that a pattern is found in: a step before the weight.
fn header_route(header: &str, pattern: &Item, service: &mut Service) -> Result<(), String> {
    let text = format!(".*(?:{}).*", pattern.text().unwrap_or_default());
    let (header, text) = (scalar(header), scalar(&text));
    let route = format!(
        "{{ name: canary-by-header-pattern, match: [{{ headerName: {header}, headerValue: {{ regex: {text} }} }}] }}"
    );
    trial::service(&format!(
        "    strategy: {{ canary: {{ steps: [{{ setHeaderRoute: {route} }}, {{ setWeight: 1 }}] }} }}\n"
    ))?;
    service.steps.push(Step::HeaderRoute(route), "canary-by-header-pattern");
    Ok(())
}

fn affinity(stable: &Object, canary: &Object, service: &mut Service, ledger: &mut Ledger) {
    let behavior =
        annotation(canary, "affinity-canary-behavior").or_else(|| annotation(stable, "affinity-canary-behavior"));
    let Some(affinity) = annotation(stable, "affinity") else { return };
    if affinity.text() != Some("cookie") || behavior.is_some_and(|behavior| behavior.text() == Some("legacy")) {
        return;
    }
    let name_at = annotation(stable, "session-cookie-name");
    let name = name_at.and_then(Item::text).filter(|name| is_token(name));
    let age_at = annotation(stable, "session-cookie-max-age");
    let age = age_at.and_then(whole).filter(|age| (1..=31_536_000).contains(age));
    // What ingress-nginx calls it without a name.
    let cookie = name.unwrap_or("INGRESSCOOKIE").to_owned();
    service.sticky = Some(Sticky { cookie, ttl: age.map(Duration::from_secs) });
    ledger.approximated(affinity, "`assign.sticky`: pins a client to a version, not to a pod");
    if let Some(item) = name_at.filter(|_| name.is_some()) {
        ledger.kept(item, "the cookie's name; clients get a new cookie under it");
    }
    if let Some(item) = age_at.filter(|_| age.is_some()) {
        ledger.kept(item, "`ttl` of the cookie");
    }
    if let Some(item) = behavior {
        ledger
            .approximated(item, "clients move to the canary as its weight grows, and all leave it when it is aborted");
    }
}

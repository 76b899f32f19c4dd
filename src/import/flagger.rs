//! Flagger: Canaries with their MetricTemplates. Weights and interval become steps, the built-in metrics the guard, queries
//! an analysis beside the steps, webhooks gates. A gate that cannot be asked is not left out: a wait for a person stands in its place.

use std::time::Duration;

use super::{
    Importer,
    backend::{Backend, Place, backend},
    draft::{Draft, Service, Step, Sticky, service_name, unused_name},
    flagger_gates, flagger_metrics, flagger_tell, istio_http,
    ledger::Ledger,
    manifest::{Item, Object, Objects},
    matching::{Condition, Match},
    route::Route,
    smi::hosts_of,
    trial,
    value::{HOLDS, WAITS, WINDOWS, go_duration, is_token, percent_ppm, port, shown, whole, within},
};
use crate::engine::weight::Weight;

pub(super) const IMPORTER: Importer = Importer {
    word: "flagger",
    reads: &["Canary", "MetricTemplate", "AlertProvider", "Service"],
    wants: "Canary",
    reasons: REASONS,
    draft,
};

const PODS: &str = "Serin starts and scales no pods; whoever runs them keeps this";
const ROUTER: &str = "Serin is the router itself; no mesh or ingress is told";

const READY: &str =
    "write `versions.<name>.health`, and `minHealthy` for more than one endpoint that must be well for weight to rise";

const REASONS: &[(&str, &str, &str)] = &[
    ("Canary", "spec.provider", ROUTER),
    ("Canary", "spec.metricsServer", "Serin measures by itself"),
    ("Canary", "spec.targetRef", PODS),
    ("Canary", "spec.autoscalerRef", PODS),
    ("Canary", "spec.ingressRef", ROUTER),
    ("Canary", "spec.routeRef", ROUTER),
    ("Canary", "spec.upstreamRef", ROUTER),
    (
        "Canary",
        "spec.progressDeadlineSeconds",
        "write `versions.<name>.health`: weight rises once the canary is well; see `deadline`",
    ),
    ("Canary", "spec.suspend", "say `serin pause` to hold a running rollout"),
    ("Canary", "spec.revertOnDeletion", "Serin changes no objects of the cluster, so there is nothing to put back"),
    ("Canary", "spec.service", ROUTER),
    ("Canary", "spec.service.mirror", "write `routes[].filters.mirror` for copies to another service"),
    ("Canary", "spec.analysis.mirror", "an A/B test and a skipped analysis copy nothing"),
    ("Canary", "spec.analysis.mirrorWeight", "nothing is mirrored"),
    (
        "Canary",
        "spec.analysis.stepWeightPromotion",
        "Serin promotes by changing roles, so nothing has to be moved back",
    ),
    ("Canary", "spec.analysis.primaryReadyThreshold", READY),
    ("Canary", "spec.analysis.canaryReadyThreshold", READY),
    ("Canary", "spec.analysis.sessionAffinity", "the cookie of Serin is host-only, HttpOnly and SameSite=Lax"),
    ("Canary", "spec.analysis.webhooks", "the analysis is skipped, and its webhooks with it"),
    ("Canary", "spec.analysis.match", "it is for `iterations`, in which only those who meet it see the canary"),
    ("MetricTemplate", "spec", "no metric that is watched names this template"),
    ("AlertProvider", "spec", "only its type and address are read, where an alert of a Canary names it"),
];

/// The mirror route's name.
const MIRROR: &str = "mirror";

/// As Flagger has it.
const INTERVAL: Duration = Duration::from_mins(1);
const INTERVAL_MIN: Duration = Duration::from_secs(10);

fn draft(objects: &Objects, ledger: &mut Ledger) -> Option<Draft> {
    let all: Vec<&Object> = objects.all("Canary").collect();
    let mut draft = Draft::empty();
    for canary in &all {
        one_canary(canary, all.len() > 1, &mut draft, objects, ledger);
    }
    draft.remark(
        "Flagger starts a rollout by a changed Deployment; in Serin the line `canary` does, so it is a comment",
    );
    (!draft.services.is_empty()).then_some(draft)
}

fn one_canary(canary: &Object, has_others: bool, draft: &mut Draft, objects: &Objects, ledger: &mut Ledger) {
    let mut service = versions(canary, draft, objects, ledger);
    let Some(route) = route(canary, &service, has_others, ledger) else {
        return ledger.retracted(&canary.item, "none of its `match` can be said, and it must not take other requests");
    };
    let skip = canary.spec(&["skipAnalysis"]);
    if let Some(skip) = skip.filter(|skip| skip.is_true()) {
        service.steps.push(Step::Weight("100%".to_owned()), "skipAnalysis: true");
        ledger.approximated(skip, "one step of 100%, and with it the canary is promoted");
    }
    // `canaryAnalysis` is what it was called before.
    let analysis = canary.spec(&["analysis"]).or_else(|| canary.spec(&["canaryAnalysis"]));
    if let Some(analysis) = analysis {
        if service.steps.is_empty() {
            steps(analysis, &mut service, draft, ledger);
        }
        metrics(analysis, &mut service, ledger);
        flagger_metrics::read(canary, analysis, &mut service, draft, objects, ledger);
        threshold(analysis, &service, ledger);
        service.sticky = affinity(analysis, ledger);
        flagger_tell::read(analysis, draft, objects, ledger);
        for name in ["interval", "stepWeight", "stepWeights", "maxWeight", "iterations"] {
            if let (Some(item), true) = (analysis.get(name), skip.is_some_and(Item::is_true)) {
                ledger.dropped(item, "the analysis is skipped");
            }
        }
    }
    if let Some(skip) = skip {
        ledger.kept(skip, "the analysis is not skipped");
    }
    if !service.steps.has_weight() {
        service.steps.push_person("Flagger has no weights here, and would never move");
    }
    draft.routes.push(route);
    draft.services.push(service);
}

/// Which requests the service takes, and what is done to them; none when not one of the matches can be said.
fn route(canary: &Object, service: &Service, has_others: bool, ledger: &mut Ledger) -> Option<Route> {
    let of_service = canary.spec(&["service"]);
    let mut route = Route { service: Some(service.name.clone()), ..Route::default() };
    let Some(item) = of_service else { return Some(route) };
    route.matches = istio_http::matches(item.list(&["match"]), ledger)?;
    let namespace = canary.item.at(&["metadata", "namespace"]).and_then(Item::text);
    let mut hosts = Vec::new();
    for host in item.list(&["hosts"]) {
        let name = host.text().map(istio_http::without_port).unwrap_or_default();
        let found = hosts_of(name, None);
        if found.is_empty() || !has_others {
            let how = if found.is_empty() {
                "cannot be a host of a route"
            } else {
                "every host is answered where Serin listens"
            };
            ledger.dropped(host, how);
        } else {
            ledger.kept(host, "`host` of the route's `match`");
        }
        hosts.extend(found);
    }
    if has_others {
        // Clients in the cluster ask for the Service that Flagger makes.
        let apex = ["service", "targetRef"].iter().find_map(|of| canary.spec(&[of, "name"]));
        hosts.extend(hosts_of(apex.and_then(Item::text).unwrap_or(&canary.name), namespace));
        if route.matches.is_empty() {
            route.matches.push(Match::default());
        }
        let at = |one: &Match| -> Vec<Match> {
            if one.host.is_some() {
                return vec![one.clone()];
            }
            hosts.iter().map(|host| Match { host: Some(host.clone()), ..one.clone() }).collect()
        };
        route.matches = route.matches.iter().flat_map(at).collect();
        if route.matches.is_empty() {
            return None;
        }
    }
    istio_http::actions(item, &mut route, ledger);
    Some(route)
}

/// Flagger makes the Services `NAME-primary` and `NAME-canary`.
fn versions(canary: &Object, draft: &Draft, objects: &Objects, ledger: &mut Ledger) -> Service {
    let name = service_name(canary, ledger);
    let service = unused_name(&name, &draft.services);
    let namespace = canary.namespace(ledger);
    let named = canary.spec(&["service", "name"]).or_else(|| canary.spec(&["targetRef", "name"]));
    let port_at = canary.spec(&["service", "port"]);
    let number = port_at.and_then(port);
    if let Some(item) = port_at {
        match number {
            Some(_) => ledger.kept(item, "the port of the endpoints"),
            None => ledger.dropped(item, "not a port; 80 is taken"),
        }
    }
    let base = named.and_then(Item::text).unwrap_or(&service).to_owned();
    let port = number.unwrap_or(80);
    let [stable, wanted] = [("primary", "v1"), ("canary", "v2")].map(|(role, version)| {
        let fallback = (&*format!("{base}-{role}"), version);
        backend(None, Place { namespace, port, fallback }, objects, ledger)
    });
    if let Some(item) = named {
        let Backend { url, .. } = &stable;
        ledger.approximated(
            item,
            format!("Flagger names its Services after it; the endpoint `{url}` is derived from it"),
        );
    }
    Service::new(service, stable, Some(wanted))
}

fn steps(analysis: &Item, service: &mut Service, draft: &mut Draft, ledger: &mut Ledger) {
    let hold = interval(analysis, ledger);
    let gates = flagger_gates::read(analysis, service, ledger);
    if gates.start {
        service.steps.push_person("stands for the webhooks before the start, which cannot be asked");
    }
    let weights = weights(analysis, ledger);
    if let Some((route, place)) = mirror(analysis, ledger) {
        service.steps.push(Step::MirrorRoute(route), place);
        if !weights.is_empty() {
            service.steps.push(Step::Hold(hold), "");
            service.steps.push(Step::MirrorRoute(format!("{{ name: {MIRROR} }}")), "");
        }
    }
    for (weight, place) in weights {
        if gates.increase {
            service.steps.push_person("stands for confirm-traffic-increase, which cannot be asked");
        }
        // A gate, a weight and its hold, and one more gate at the end.
        if !service.steps.has_room() {
            service.steps.push_person("the weights after this one are more than a config may have");
            draft.remark("not all weights fit into the 100 steps of a config");
            break;
        }
        service.steps.push(Step::Weight(format!("{weight}%")), place);
        service.steps.push(Step::Hold(hold), "");
    }
    if !service.steps.has_weight() || analysis.get("iterations").is_some() {
        iterations(analysis, service, hold, ledger);
    }
    if gates.end {
        service.steps.push_person("stands for confirm-promotion, which cannot be asked");
    }
}

/// Copies for one interval before the first weight, or for as long as there is none: the value of the step, and from where.
fn mirror(analysis: &Item, ledger: &mut Ledger) -> Option<(String, String)> {
    let mirror_at = analysis.get("mirror").filter(|_| analysis.list(&["match"]).is_empty())?;
    if !mirror_at.is_true() {
        ledger.kept(mirror_at, "nothing is mirrored");
        return None;
    }
    let weight_at = analysis.get("mirrorWeight");
    let percent = weight_at.and_then(whole).filter(|percent| (1..=100).contains(percent));
    if let Some(item) = weight_at {
        match percent {
            Some(_) => ledger.kept(item, "`percentage` of the mirror route"),
            None => ledger.dropped(item, "not a number from 1 to 100; everything is copied"),
        }
    }
    ledger.approximated(
        mirror_at,
        "a `setMirrorRoute` before the first weight: of GET, HEAD and OPTIONS only; what copies are answered is no evidence",
    );
    let percent = percent.unwrap_or(100);
    let route = format!("{{ name: {MIRROR}, percentage: {percent}, match: [{{ path: {{ prefix: / }} }}] }}");
    Some((route, ledger.place(mirror_at)))
}

fn interval(analysis: &Item, ledger: &mut Ledger) -> Duration {
    let Some(item) = analysis.get("interval") else { return INTERVAL };
    let Some(written) = item.text().and_then(go_duration) else {
        ledger.dropped(item, "not a duration; each weight is held for 1m");
        return INTERVAL;
    };
    let (hold, moved) = within(written.max(INTERVAL_MIN), &HOLDS);
    if moved || written < INTERVAL_MIN {
        ledger.approximated(item, format!("each weight is held for {}, as Flagger would", shown(hold)));
    } else {
        ledger
            .approximated(item, format!("each weight is held for {}; the guard looks ten times a second", shown(hold)));
    }
    hold
}

/// The weights in percent, each with where it is from.
fn weights(analysis: &Item, ledger: &mut Ledger) -> Vec<(u64, String)> {
    let max_at = analysis.get("maxWeight");
    let max = max_at.and_then(whole).filter(|max| (1..=100).contains(max));
    if let Some(list) = analysis.get("stepWeights") {
        let mut weights = Vec::new();
        for item in list.items() {
            match whole(item).filter(|weight| (1..=100).contains(weight)) {
                Some(weight) => {
                    ledger.kept(item, "a `setWeight` of the same percentage");
                    weights.push((weight, ledger.place(item)));
                }
                None => ledger.dropped(item, "not a weight from 1 to 100"),
            }
        }
        for name in ["stepWeight", "maxWeight"] {
            if let Some(item) = analysis.get(name) {
                ledger.dropped(item, "`stepWeights` takes its place");
            }
        }
        return weights;
    }
    let step_at = analysis.get("stepWeight");
    let step = step_at.and_then(whole).filter(|step| (1..=100).contains(step));
    if let Some(item) = max_at {
        match (max, step) {
            (Some(_), Some(_)) => ledger.kept(item, "the last `setWeight`; then the canary is promoted"),
            (None, _) => ledger.dropped(item, "not a weight from 1 to 100; 100 is taken"),
            (_, None) => ledger.dropped(item, "without `stepWeight` it is never reached"),
        }
    }
    let (Some(item), Some(step)) = (step_at, step) else {
        if let Some(item) = step_at {
            ledger.dropped(item, "not a weight from 1 to 100");
        }
        return Vec::new();
    };
    let max = max.unwrap_or(100);
    let place = ledger.place(item);
    let mut weights: Vec<(u64, String)> = Vec::new();
    let mut weight = 0;
    while weight < max {
        weight = (weight + step).min(max);
        weights.push((weight, place.clone()));
    }
    if max.is_multiple_of(step) {
        ledger.kept(item, "one `setWeight` for each multiple");
    } else {
        ledger.approximated(
            item,
            format!("one `setWeight` for each multiple; the last is {max}, where Flagger goes past it"),
        );
    }
    weights
}

/// Blue-green and A/B tests give the canary no share: a person looks at it, then all traffic goes over.
fn iterations(analysis: &Item, service: &mut Service, hold: Duration, ledger: &mut Ledger) {
    let Some(item) = analysis.get("iterations") else { return };
    if service.steps.has_weight() && analysis.get("match").is_none() && analysis.get("stepWeight").is_some() {
        ledger.dropped(item, "the weights take its place");
        return;
    }
    let shown_to = audience(analysis, service, ledger);
    service.steps.push_person("stands for the iterations, in which the canary gets no share");
    service.steps.push(Step::Weight("100%".to_owned()), ledger.place(item));
    service.steps.push(Step::Hold(hold), "");
    let meanwhile = if shown_to { "only those who meet `match` see the canary" } else { "the canary gets no share" };
    let how =
        format!("a person is waited for while {meanwhile}, then all traffic goes over and is watched for one interval");
    ledger.approximated(item, how);
}

/// Header routes of an A/B test: any entry of `match`, all of one. What is chosen by clients is no evidence, so a person
/// decides. Whether anybody is sent.
fn audience(analysis: &Item, service: &mut Service, ledger: &mut Ledger) -> bool {
    let mut is_sent = false;
    for (nth, item) in analysis.list(&["match"]).iter().enumerate() {
        let read = istio_http::matches(std::slice::from_ref(item), ledger).unwrap_or_default();
        let [Match { host: None, path: None, method: None, headers, query }] = &read[..] else {
            ledger.retracted(item, "only headers decide who sees the canary");
            continue;
        };
        let conditions: Vec<String> = headers.iter().map(Condition::as_header_route).collect();
        let text = format!("{{ name: ab-{}, all: [{}] }}", nth + 1, conditions.join(", "));
        let steps = format!("[{{ setHeaderRoute: {text} }}, {{ setWeight: 1 }}]");
        let done = trial::service(&format!("    strategy: {{ canary: {{ steps: {steps} }} }}\n"));
        match done {
            Ok(()) if query.is_empty() && service.steps.has_room() => {
                service.steps.push(Step::HeaderRoute(text), ledger.place(item));
                is_sent = true;
            }
            Ok(()) => ledger.retracted(item, "only headers decide who sees the canary"),
            Err(why) => ledger.retracted(item, &why),
        }
    }
    is_sent
}

fn metrics(analysis: &Item, service: &mut Service, ledger: &mut Ledger) {
    for metric in analysis.list(&["metrics"]) {
        let name = metric.get("name").and_then(Item::text).unwrap_or_default();
        let is_query = metric.get("templateRef").is_some() || metric.get("query").is_some();
        match name {
            _ if is_query => {}
            "request-success-rate" => success_rate(metric, service, ledger),
            "request-duration" => request_duration(metric, service, ledger),
            _ => ledger.dropped(metric, "no metric that is built into Flagger, and without a query"),
        }
    }
}

fn threshold(analysis: &Item, service: &Service, ledger: &mut Ledger) {
    let Some(item) = analysis.get("threshold") else { return };
    let has_guard = service.error_rate.is_some() || service.p99.is_some();
    match (has_guard, service.policy.iter().any(|(field, _)| *field == "analysis")) {
        (true, false) => {
            let how = "the guard reverts at the first breach over its window, and needs no number of failed checks";
            ledger.approximated(item, how);
        }
        (_, true) => ledger.approximated(item, "`failureLimit` of each query is one less; the guard needs no number"),
        (false, false) => {
            ledger.dropped(item, "there is no limit that could be breached; the share test is in force all the same");
        }
    }
}

/// The window of a metric.
fn window(metric: &Item, ledger: &mut Ledger) -> Duration {
    let Some(item) = metric.get("interval") else { return INTERVAL };
    let written = item.text().and_then(go_duration);
    let (window, moved) = within(written.unwrap_or(INTERVAL), &WINDOWS);
    if moved || written.is_none() {
        ledger.approximated(item, format!("the window of the limit is {}", shown(window)));
    } else {
        ledger.kept(item, "the window of the limit");
    }
    window
}

fn success_rate(metric: &Item, service: &mut Service, ledger: &mut Ledger) {
    let limit = metric.at(&["thresholdRange", "min"]).or_else(|| metric.get("threshold"));
    let max = limit.and_then(Item::text).and_then(percent_ppm).and_then(|ppm| Weight::from_ppm(1_000_000 - ppm).ok());
    let (Some(limit), Some(max)) = (limit, max.filter(|max| *max < Weight::FULL)) else {
        return ledger.dropped(metric, "without a minimum above 0 and up to 100 percent it can never fail");
    };
    if service.error_rate.is_some() {
        return ledger.dropped(metric, "the guard has an error rate already");
    }
    service.error_rate = Some((max, window(metric, ledger)));
    ledger.kept(limit, format!("`errorRate: {max}`, which is what is missing to it"));
    if let Some(name) = metric.get("name") {
        ledger.approximated(
            name,
            "`guard.errorRate`, from 50 requests on: 5xx, failed connections, resets and timeouts are errors",
        );
    }
    ledger.dropped(metric, "only the minimum means something for a success rate");
}

fn request_duration(metric: &Item, service: &mut Service, ledger: &mut Ledger) {
    let limit = metric.at(&["thresholdRange", "max"]).or_else(|| metric.get("threshold"));
    let millis = limit.and_then(Item::text).and_then(|text| go_duration(&format!("{text}ms")));
    let (Some(limit), Some(max)) = (limit, millis.filter(|max| WAITS.contains(max))) else {
        return ledger.dropped(metric, "without a maximum from 1 to 3600000 milliseconds it can never fail");
    };
    if service.p99.is_some() {
        return ledger.dropped(metric, "the guard has a limit for the 99th percentile already");
    }
    service.p99 = Some((max, window(metric, ledger)));
    ledger.kept(limit, format!("`latency` with `max: {}`", shown(max)));
    if let Some(name) = metric.get("name") {
        ledger.approximated(
            name,
            "`guard.latency` of the 99th percentile, from 200 requests on, up to the head of the response",
        );
    }
    ledger.dropped(metric, "only the maximum means something for a duration");
}

fn affinity(analysis: &Item, ledger: &mut Ledger) -> Option<Sticky> {
    let cookie_at = analysis.at(&["sessionAffinity", "cookieName"])?;
    let Some(cookie) = cookie_at.text().filter(|cookie| is_token(cookie)) else {
        ledger.dropped(cookie_at, "cannot be a cookie's name");
        return None;
    };
    let age_at = analysis.at(&["sessionAffinity", "maxAge"]);
    let age = age_at.map_or(Some(86_400), whole).filter(|age| (1..=31_536_000).contains(age));
    let how = "`assign.sticky`: the cookie carries no version, and users of stable move with the weight, not with each answer";
    ledger.approximated(cookie_at, how);
    if let Some(age_at) = age_at {
        match age {
            Some(_) => ledger.kept(age_at, "`ttl` of the cookie"),
            None => ledger.dropped(age_at, "not a number of seconds from 1 to a year"),
        }
    }
    Some(Sticky { cookie: cookie.to_owned(), ttl: age.map(Duration::from_secs) })
}

//! Flagger: a Canary with its MetricTemplates. Weights and interval become steps, the built-in metrics become the guard.
//! A gate that cannot be asked is not left out: a wait for a person stands in its place.

use std::time::Duration;

use super::{
    Importer,
    draft::{Backend, Draft, Place, Step, Sticky, backend, service_name},
    ledger::Ledger,
    manifest::{Item, Object, Objects},
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
const FILTERS: &str = "waits for `routes[].filters`";

const REASONS: &[(&str, &str, &str)] = &[
    ("Canary", "spec.provider", ROUTER),
    ("Canary", "spec.metricsServer", "Serin measures by itself"),
    ("Canary", "spec.targetRef", PODS),
    ("Canary", "spec.autoscalerRef", PODS),
    ("Canary", "spec.ingressRef", ROUTER),
    ("Canary", "spec.routeRef", ROUTER),
    ("Canary", "spec.upstreamRef", ROUTER),
    ("Canary", "spec.progressDeadlineSeconds", "waits for health checks of versions (`health`)"),
    ("Canary", "spec.suspend", "say `serin pause` to hold a running rollout"),
    ("Canary", "spec.revertOnDeletion", "Serin changes no objects of the cluster, so there is nothing to put back"),
    ("Canary", "spec.service", ROUTER),
    ("Canary", "spec.service.rewrite", FILTERS),
    ("Canary", "spec.service.headers", FILTERS),
    ("Canary", "spec.service.corsPolicy", FILTERS),
    ("Canary", "spec.service.retries", "waits for `routes[].retry`"),
    ("Canary", "spec.service.match", "waits for `routes[].match`"),
    ("Canary", "spec.service.mirror", "waits for mirroring"),
    (
        "Canary",
        "spec.analysis.match",
        "waits for `assign.cohorts` and `setHeaderRoute`; nobody is sent to the canary by it",
    ),
    ("Canary", "spec.analysis.mirror", "waits for `setMirrorRoute`"),
    ("Canary", "spec.analysis.mirrorWeight", "waits for `setMirrorRoute`"),
    ("Canary", "spec.analysis.alerts", "waits for `notify`"),
    (
        "Canary",
        "spec.analysis.stepWeightPromotion",
        "Serin promotes by changing roles, so nothing has to be moved back",
    ),
    ("Canary", "spec.analysis.primaryReadyThreshold", "waits for health checks of versions (`health`)"),
    ("Canary", "spec.analysis.canaryReadyThreshold", "waits for health checks of versions (`health`)"),
    ("Canary", "spec.analysis.sessionAffinity", "the cookie of Serin is host-only, HttpOnly and SameSite=Lax"),
    ("Canary", "spec.analysis.webhooks", "waits for `gates`"),
    ("MetricTemplate", "spec", "waits for providers other than `serin`: this is not watched"),
    ("AlertProvider", "spec", "waits for `notify`"),
];

const NOT_WATCHED: &str = "waits for providers other than `serin`: this metric is not watched";
/// As Flagger has it.
const INTERVAL: Duration = Duration::from_mins(1);
const INTERVAL_MIN: Duration = Duration::from_secs(10);

fn draft(objects: &Objects, ledger: &mut Ledger) -> Option<Draft> {
    let canary = objects.only("Canary", ledger)?;
    let mut draft = versions(canary, objects, ledger);
    let remark =
        "Flagger starts a rollout by a changed Deployment; in Serin the line `canary` does, so it is a comment";
    draft.remarks.push(remark.to_owned());
    if let Some(item) = canary.spec(&["service", "timeout"]) {
        timeout(item, &mut draft, ledger);
    }
    let skip = canary.spec(&["skipAnalysis"]);
    if let Some(skip) = skip.filter(|skip| skip.is_true()) {
        draft.steps.push(Step::Weight("100%".to_owned()), "skipAnalysis: true");
        ledger.approximated(skip, "one step of 100%, and with it the canary is promoted");
    }
    // `canaryAnalysis` is what it was called before.
    let analysis = canary.spec(&["analysis"]).or_else(|| canary.spec(&["canaryAnalysis"]));
    if let Some(analysis) = analysis {
        if draft.steps.is_empty() {
            steps(analysis, &mut draft, ledger);
        }
        metrics(analysis, &mut draft, ledger);
        affinity(analysis, &mut draft, ledger);
        for name in ["interval", "stepWeight", "stepWeights", "maxWeight", "iterations"] {
            if let (Some(item), true) = (analysis.get(name), skip.is_some_and(Item::is_true)) {
                ledger.dropped(item, "the analysis is skipped");
            }
        }
    }
    if let Some(skip) = skip {
        ledger.kept(skip, "the analysis is not skipped");
    }
    if draft.steps.is_empty() {
        draft.steps.push_person("Flagger has no weights here, and would never move");
    }
    Some(draft)
}

/// Flagger makes the Services `NAME-primary` and `NAME-canary`.
fn versions(canary: &Object, objects: &Objects, ledger: &mut Ledger) -> Draft {
    let service = service_name(canary, ledger);
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
    Draft::new(service, stable, Some(wanted))
}

fn timeout(item: &Item, draft: &mut Draft, ledger: &mut Ledger) {
    match item.text().and_then(go_duration).filter(|timeout| WAITS.contains(timeout)) {
        Some(timeout) => {
            draft.request_timeout = Some(timeout);
            ledger.kept(item, "`timeouts.request`");
        }
        None => ledger.dropped(item, "not a duration from 1ms to 1h"),
    }
}

fn steps(analysis: &Item, draft: &mut Draft, ledger: &mut Ledger) {
    let hold = interval(analysis, ledger);
    let gates = Gates::read(analysis, ledger);
    if gates.start {
        draft.steps.push_person("stands for the webhooks before the start, which cannot be asked yet");
    }
    let weights = weights(analysis, ledger);
    for (weight, place) in weights {
        if gates.increase {
            draft.steps.push_person("stands for confirm-traffic-increase, which cannot be asked yet");
        }
        // A gate, a weight and its hold, and one more gate at the end.
        if !draft.steps.has_room() {
            draft.steps.push_person("the weights after this one are more than a config may have");
            draft.remarks.push("not all weights fit into the 100 steps of a config".to_owned());
            break;
        }
        draft.steps.push(Step::Weight(format!("{weight}%")), place);
        draft.steps.push(Step::Hold(hold), "");
    }
    if draft.steps.is_empty() || analysis.get("iterations").is_some() {
        iterations(analysis, draft, hold, ledger);
    }
    if gates.end {
        draft.steps.push_person("stands for confirm-promotion, which cannot be asked yet");
    }
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
fn iterations(analysis: &Item, draft: &mut Draft, hold: Duration, ledger: &mut Ledger) {
    let Some(item) = analysis.get("iterations") else { return };
    if !draft.steps.is_empty() && analysis.get("match").is_none() && analysis.get("stepWeight").is_some() {
        ledger.dropped(item, "the weights take its place");
        return;
    }
    draft.steps.push_person("stands for the iterations, in which the canary gets no share");
    draft.steps.push(Step::Weight("100%".to_owned()), ledger.place(item));
    draft.steps.push(Step::Hold(hold), "");
    let how = "a person is waited for while the canary gets no share, then all traffic goes over and is watched for one interval";
    ledger.approximated(item, how);
}

/// Which webhooks would hold the rollout, and where.
#[derive(Default)]
struct Gates {
    start: bool,
    increase: bool,
    end: bool,
}

impl Gates {
    fn read(analysis: &Item, ledger: &mut Ledger) -> Self {
        let mut gates = Self::default();
        for hook in analysis.list(&["webhooks"]) {
            let place = match hook.get("type").and_then(Item::text) {
                Some("confirm-rollout" | "pre-rollout") => {
                    gates.start = true;
                    "before the first step"
                }
                Some("confirm-traffic-increase") => {
                    gates.increase = true;
                    "before each weight"
                }
                Some("confirm-promotion") => {
                    gates.end = true;
                    "at the end"
                }
                _ => continue,
            };
            ledger.dropped(hook, format!("waits for `gates`; a wait for a person stands {place}"));
        }
        gates
    }
}

fn metrics(analysis: &Item, draft: &mut Draft, ledger: &mut Ledger) {
    for metric in analysis.list(&["metrics"]) {
        let name = metric.get("name").and_then(Item::text).unwrap_or_default();
        let is_query = metric.get("templateRef").is_some() || metric.get("query").is_some();
        match name {
            _ if is_query => ledger.dropped(metric, NOT_WATCHED),
            "request-success-rate" => success_rate(metric, draft, ledger),
            "request-duration" => request_duration(metric, draft, ledger),
            _ => ledger.dropped(metric, "no metric that is built into Flagger, and without a query"),
        }
    }
    if let Some(item) = analysis.get("threshold") {
        if draft.error_rate.is_some() || draft.p99.is_some() {
            let how = "the guard reverts at the first breach over its window, and needs no number of failed checks";
            ledger.approximated(item, how);
        } else {
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

fn success_rate(metric: &Item, draft: &mut Draft, ledger: &mut Ledger) {
    let limit = metric.at(&["thresholdRange", "min"]).or_else(|| metric.get("threshold"));
    let max = limit.and_then(Item::text).and_then(percent_ppm).and_then(|ppm| Weight::from_ppm(1_000_000 - ppm).ok());
    let (Some(limit), Some(max)) = (limit, max.filter(|max| *max < Weight::FULL)) else {
        return ledger.dropped(metric, "without a minimum above 0 and up to 100 percent it can never fail");
    };
    if draft.error_rate.is_some() {
        return ledger.dropped(metric, "the guard has an error rate already");
    }
    draft.error_rate = Some((max, window(metric, ledger)));
    ledger.kept(limit, format!("`errorRate: {max}`, which is what is missing to it"));
    if let Some(name) = metric.get("name") {
        ledger.approximated(
            name,
            "`guard.errorRate`, from 50 requests on: 5xx, failed connections, resets and timeouts are errors",
        );
    }
    ledger.dropped(metric, "only the minimum means something for a success rate");
}

fn request_duration(metric: &Item, draft: &mut Draft, ledger: &mut Ledger) {
    let limit = metric.at(&["thresholdRange", "max"]).or_else(|| metric.get("threshold"));
    let millis = limit.and_then(Item::text).and_then(|text| go_duration(&format!("{text}ms")));
    let (Some(limit), Some(max)) = (limit, millis.filter(|max| WAITS.contains(max))) else {
        return ledger.dropped(metric, "without a maximum from 1 to 3600000 milliseconds it can never fail");
    };
    if draft.p99.is_some() {
        return ledger.dropped(metric, "the guard has a limit for the 99th percentile already");
    }
    draft.p99 = Some((max, window(metric, ledger)));
    ledger.kept(limit, format!("`latency` with `max: {}`", shown(max)));
    if let Some(name) = metric.get("name") {
        ledger.approximated(
            name,
            "`guard.latency` of the 99th percentile, from 200 requests on, up to the head of the response",
        );
    }
    ledger.dropped(metric, "only the maximum means something for a duration");
}

fn affinity(analysis: &Item, draft: &mut Draft, ledger: &mut Ledger) {
    let Some(cookie_at) = analysis.at(&["sessionAffinity", "cookieName"]) else { return };
    let Some(cookie) = cookie_at.text().filter(|cookie| is_token(cookie)) else {
        return ledger.dropped(cookie_at, "cannot be a cookie's name");
    };
    let age_at = analysis.at(&["sessionAffinity", "maxAge"]);
    let age = age_at.map_or(Some(86_400), whole).filter(|age| (1..=31_536_000).contains(age));
    draft.sticky = Some(Sticky { cookie: cookie.to_owned(), ttl: age.map(Duration::from_secs) });
    let how = "`assign.sticky`: the cookie carries no version, and users of stable move with the weight, not with each answer";
    ledger.approximated(cookie_at, how);
    if let Some(age_at) = age_at {
        match age {
            Some(_) => ledger.kept(age_at, "`ttl` of the cookie"),
            None => ledger.dropped(age_at, "not a number of seconds from 1 to a year"),
        }
    }
}

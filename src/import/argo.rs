//! Argo Rollouts: Rollouts with their AnalysisTemplates. The words are the same here, so most of it is taken over as it is.
//! A step that would hold the rollout and cannot be asked is not left out: a wait for a person stands in its place.

use super::{
    Importer,
    analysis::{self, Context, Outcome},
    argo_blue_green as blue_green, argo_experiment as experiment, argo_routing as routing,
    backend::{Place, backend},
    draft::{Draft, Service, Step, service_name, unused_name},
    ledger::Ledger,
    manifest::{Item, Object, Objects},
    matching::Match,
    mirror,
    route::Route,
    smi::hosts_of,
    template::TemplateDraft,
    value::{HOLDS, argo_duration, shown, whole, within},
};

pub(super) const IMPORTER: Importer = Importer {
    word: "argo",
    reads: &["Rollout", "AnalysisTemplate", "ClusterAnalysisTemplate", "Service"],
    wants: "Rollout",
    reasons: REASONS,
    draft,
};

const PODS: &str = "Serin starts and scales no pods; whoever runs them keeps this";
const ROUTER: &str = "Serin is the router itself; no mesh or ingress is told";
const HISTORY: &str = "Serin keeps its history in the state folder";
const ENOUGH: &str = "with `versions.<name>.health`, `minHealthy: 90%` waits for so many of the canary's addresses";
const HEALTH: &str = "write `versions.<name>.health`: weight rises once the canary is well; see `deadline`";

const REASONS: &[(&str, &str, &str)] = &[
    ("Rollout", "spec.replicas", PODS),
    ("Rollout", "spec.selector", PODS),
    ("Rollout", "spec.template", PODS),
    ("Rollout", "spec.workloadRef", PODS),
    (
        "Rollout",
        "spec.minReadySeconds",
        "`versions.<name>.health` says when weight may rise: after how many good answers",
    ),
    ("Rollout", "spec.revisionHistoryLimit", HISTORY),
    ("Rollout", "spec.rollbackWindow", "not a number of revisions that `rollbackWindow` takes"),
    ("Rollout", "spec.paused", "say `serin pause` to hold a running rollout"),
    ("Rollout", "spec.progressDeadlineSeconds", HEALTH),
    ("Rollout", "spec.progressDeadlineAbort", HEALTH),
    ("Rollout", "spec.restartAt", PODS),
    ("Rollout", "spec.analysis", "of each service the latest five good runs and five others are kept"),
    ("Rollout", "spec.strategy.canary.trafficRouting", ROUTER),
    ("Rollout", "spec.strategy.canary.maxSurge", PODS),
    ("Rollout", "spec.strategy.canary.maxUnavailable", PODS),
    ("Rollout", "spec.strategy.canary.antiAffinity", PODS),
    ("Rollout", "spec.strategy.canary.canaryMetadata", PODS),
    ("Rollout", "spec.strategy.canary.stableMetadata", PODS),
    ("Rollout", "spec.strategy.canary.dynamicStableScale", PODS),
    ("Rollout", "spec.strategy.canary.minPodsPerReplicaSet", ENOUGH),
    ("Rollout", "spec.strategy.canary.replicaProgressThreshold", ENOUGH),
    ("Rollout", "spec.strategy.canary.pingPong", "in Serin versions stay what they are, and roles move"),
    ("Rollout", "spec.strategy.canary.scaleDownDelayRevisionLimit", PODS),
    ("Rollout", "spec.strategy.canary.analysis.analysisRunMetadata", HISTORY),
    ("Rollout", "spec.strategy.canary.steps[].analysis.analysisRunMetadata", HISTORY),
    ("Rollout", "spec.strategy.canary.steps[].setCanaryScale", PODS),
    ("Rollout", "spec.strategy.blueGreen.previewReplicaCount", PODS),
    ("Rollout", "spec.strategy.blueGreen.antiAffinity", PODS),
    ("Rollout", "spec.strategy.blueGreen.maxUnavailable", PODS),
    ("Rollout", "spec.strategy.blueGreen.activeMetadata", PODS),
    ("Rollout", "spec.strategy.blueGreen.previewMetadata", PODS),
    ("Rollout", "spec.strategy.blueGreen.scaleDownDelayRevisionLimit", PODS),
];

/// The step kinds of Argo Rollouts.
const KINDS: [&str; 8] =
    ["setWeight", "pause", "analysis", "experiment", "plugin", "setHeaderRoute", "setMirrorRoute", "setCanaryScale"];

fn draft(objects: &Objects, ledger: &mut Ledger) -> Option<Draft> {
    let all: Vec<&Object> = objects.all("Rollout").collect();
    let mut draft = Draft::empty();
    for rollout in &all {
        one_rollout(rollout, all.len() > 1, &mut draft, objects, ledger);
    }
    draft.remark(
        "Argo Rollouts starts a rollout by a new pod template; in Serin the line `canary` does, so it is a comment",
    );
    retract_unused(&draft, objects, ledger);
    (!draft.services.is_empty()).then_some(draft)
}

fn one_rollout(rollout: &Object, has_others: bool, draft: &mut Draft, objects: &Objects, ledger: &mut Ledger) {
    let name = service_name(rollout, ledger);
    let name = unused_name(&name, &draft.services);
    let green = rollout.spec(&["strategy", "blueGreen"]);
    let canary = rollout.spec(&["strategy", "canary"]).unwrap_or(&rollout.item);
    let service = if let Some(green) = green {
        let mut service = versions(name, rollout, green, ["activeService", "previewService"], objects, ledger);
        blue_green::read(green, rollout, &mut service, draft, objects, ledger);
        service
    } else {
        let pair = canary.get("pingPong").filter(|_| canary.get("stableService").is_none());
        let mut service = match pair {
            Some(pair) => versions(name, rollout, pair, ["pingService", "pongService"], objects, ledger),
            None => versions(name, rollout, canary, ["stableService", "canaryService"], objects, ledger),
        };
        policy(rollout, canary, &mut service, ledger);
        routing::read(canary, &mut service, ledger);
        steps(canary, rollout, &mut service, draft, objects, ledger);
        service
    };
    let mut route = Route { service: Some(service.name.clone()), ..Route::default() };
    if has_others {
        // Several services are told apart by what clients ask for, which is the stable Service.
        let namespace = rollout.item.at(&["metadata", "namespace"]).and_then(Item::text);
        let at = |host: String| Match { host: Some(host), ..Match::default() };
        route.matches = hosts_of(&service.stable.version, namespace).into_iter().map(at).collect();
        draft.remark("there are several services: each is found by the host of its stable Service; see `routes`");
    }
    draft.routes.push(route);
    draft.services.push(service);
}

fn versions(
    name: String,
    rollout: &Object,
    strategy: &Item,
    names: [&str; 2],
    objects: &Objects,
    ledger: &mut Ledger,
) -> Service {
    let namespace = rollout.namespace(ledger);
    let [stable, canary] = [(names[0], "stable", "v1"), (names[1], "canary", "v2")].map(|(field, role, version)| {
        let fallback = (&*format!("{name}-{role}"), version);
        backend(strategy.get(field), Place { namespace, port: 80, fallback }, objects, ledger)
    });
    Service::new(name, stable, Some(canary))
}

fn policy(rollout: &Object, canary: &Item, service: &mut Service, ledger: &mut Ledger) {
    if let Some(item) = canary.at(&["trafficRouting", "maxTrafficWeight"]) {
        match whole(item).filter(|max| (1..=1_000_000).contains(max)) {
            Some(max) => {
                service.max_weight = max;
                ledger.kept(item, "`maxTrafficWeight`");
            }
            None => ledger.dropped(item, "not a whole number from 1 to 1000000; 100 is taken"),
        }
    }
    if let Some(item) = canary.get("scaleDownDelaySeconds") {
        let delay = item.text().and_then(argo_duration);
        let done = delay.map(|delay| service.set("scaleDownDelay", shown(delay)));
        match done {
            Some(Ok(())) => {
                ledger.kept(item, "`scaleDownDelay`: then `scaleDown` is told, and the version may be stopped");
            }
            Some(Err(why)) => ledger.dropped(item, why),
            None => ledger.dropped(item, "not a number of seconds"),
        }
    }
    if let Some(item) = canary.get("abortScaleDownDelaySeconds") {
        let delay = item.text().and_then(argo_duration);
        let text = delay.map(|delay| if delay.is_zero() { "never".to_owned() } else { shown(delay) });
        match text.map(|text| service.set("abort", format!("{{ scaleDownDelay: {text} }}"))) {
            Some(Ok(())) => ledger.kept(item, "`abort.scaleDownDelay`: when `scaleDown` is told of an aborted canary"),
            Some(Err(why)) => ledger.dropped(item, why),
            None => ledger.dropped(item, "not a number of seconds"),
        }
    }
    if let Some(item) = rollout.spec(&["rollbackWindow", "revisions"])
        && let Some(Ok(())) = whole(item).map(|revisions| service.set("rollbackWindow", revisions.to_string()))
    {
        ledger.kept(item, "`rollbackWindow`: `serin undo` to one of so many is at once");
    }
}

fn steps(
    canary: &Item,
    rollout: &Object,
    service: &mut Service,
    draft: &mut Draft,
    objects: &Objects,
    ledger: &mut Ledger,
) {
    let context = Context { objects, owner: rollout, background: None };
    let mut is_cut = false;
    // How many steps there are before each step of the source.
    let mut before = Vec::new();
    for item in canary.list(&["steps"]) {
        before.push(service.steps.len());
        if service.steps.has_room() && !is_cut {
            step(item, service, draft, context, ledger);
        } else {
            ledger.dropped(item, "a config has at most 100 steps; a person is waited for instead");
            if !is_cut {
                service.steps.push_person("the steps after this one are more than a config may have");
            }
            is_cut = true;
        }
    }
    if service.steps.is_empty() {
        service.steps.push(Step::Weight("100%".to_owned()), "without steps Argo Rollouts goes straight to all");
        if let Some(item) = canary.get("steps") {
            ledger.approximated(item, "without steps all traffic goes over at once: one step of 100%");
        }
    }
    if let Some(analysis) = canary.get("analysis") {
        background(analysis, &before, context, service, draft, ledger);
    }
}

/// The analysis beside the steps.
fn background(
    item: &Item,
    before: &[usize],
    context: Context<'_>,
    service: &mut Service,
    draft: &mut Draft,
    ledger: &mut Ledger,
) {
    let step_at = item.get("startingStep");
    let written = step_at.and_then(whole).and_then(|step| usize::try_from(step).ok()).unwrap_or(0);
    let last = service.steps.len().saturating_sub(1);
    let starts = before.get(written).copied().unwrap_or(last).min(last);
    let context = Context { background: Some(starts), ..context };
    let Outcome { text, is_partial, templates } = analysis::analysis(item, context, &draft.templates, ledger);
    let is_there = text.is_some();
    keep(templates, draft);
    if let Some(text) = text {
        service.policy.push(("analysis", text));
        if let Some(step) = step_at {
            ledger.kept(step, format!("`startingStep`: after {starts} steps, as not every step is one here"));
        }
    }
    if is_partial || !is_there {
        draft.remark(
            "a part of the background analysis cannot be asked: write limits into `guard`, which is always in force",
        );
    }
}

fn step(item: &Item, service: &mut Service, draft: &mut Draft, context: Context<'_>, ledger: &mut Ledger) {
    let place = ledger.place(item);
    let found = KINDS.iter().find_map(|name| Some((*name, item.get(name)?)));
    match found {
        Some(("setWeight", weight)) => match whole(weight).filter(|weight| *weight <= service.max_weight) {
            Some(number) => {
                service.steps.push(Step::Weight(number.to_string()), place);
                ledger.kept(weight, "a `setWeight` of the same number");
            }
            None => ledger.dropped(weight, format!("not a whole number from 0 to {}", service.max_weight)),
        },
        Some(("pause", pause)) => self::pause(pause, &place, service, ledger),
        Some(("analysis", analysis)) => gate(analysis, &place, service, draft, context, ledger),
        Some(("setHeaderRoute", header_route)) => routing::step(header_route, &place, context.owner, service, ledger),
        Some(("setMirrorRoute", mirror_route)) => mirror::step(mirror_route, &place, service, ledger),
        Some(("experiment", item)) => experiment::step(item, &place, service, draft, context, ledger),
        Some(("plugin", plugin)) => {
            let why = "Serin has no step plugins; see `gates`; a wait for a person stands in its place";
            ledger.dropped(plugin, why);
            service.steps.push_person(format!("{place}: stands for the step `plugin`"));
        }
        // The others hold nothing, and the table of reasons knows them.
        Some(_) => {}
        None => ledger.dropped(item, "this importer does not know such a step"),
    }
    if let Some((name, _)) = found {
        for (_, other) in item.fields().iter().filter(|(key, _)| key != name && KINDS.contains(&&**key)) {
            ledger.dropped(other, format!("a step does one thing, here `{name}`"));
        }
    }
}

fn pause(item: &Item, place: &str, service: &mut Service, ledger: &mut Ledger) {
    let Some(duration) = item.get("duration") else {
        service.steps.push(Step::Person, place);
        ledger.kept(item, "waits for `serin promote`");
        return;
    };
    let Some(time) = duration.text().and_then(argo_duration) else {
        service.steps.push_person(format!("{place}: stands for a pause of unknown length"));
        ledger.dropped(duration, "not a duration; a wait for a person stands in its place");
        return;
    };
    if time < *HOLDS.start() {
        ledger.approximated(duration, "a pause of less than a second is none, as in Argo Rollouts");
        return;
    }
    let (time, moved) = within(time, &HOLDS);
    service.steps.push(Step::Hold(time), place);
    if moved {
        ledger.approximated(duration, "a step holds at most 30 days");
    } else {
        ledger
            .kept(duration, format!("holds for {}; the clock stops while the rollout is paused by hand", shown(time)));
    }
}

/// An analysis that blocks. What of it cannot be asked is decided by a person.
fn gate(item: &Item, place: &str, service: &mut Service, draft: &mut Draft, context: Context<'_>, ledger: &mut Ledger) {
    let Outcome { text, is_partial, templates } = analysis::analysis(item, context, &draft.templates, ledger);
    keep(templates, draft);
    if let Some(text) = text {
        service.steps.push(Step::Analysis(text), place);
    }
    if is_partial {
        service.steps.push_person(format!("{place}: stands for an analysis that cannot be asked as it is"));
        draft.remark(PARTIAL);
    }
}

/// What is said where a gate is not the whole gate.
pub(super) const PARTIAL: &str = "an analysis could not be taken over as it is: a wait for a person stands in its place, so that nobody passes a gate \
     that was not asked";

/// Takes over the templates of an analysis.
pub(super) fn keep(templates: Vec<TemplateDraft>, draft: &mut Draft) {
    for template in templates {
        if !draft.templates.contains(&template) {
            draft.templates.push(template);
        }
    }
}

/// What was said of templates holds only if an analysis uses them.
fn retract_unused(draft: &Draft, objects: &Objects, ledger: &mut Ledger) {
    for kind in ["AnalysisTemplate", "ClusterAnalysisTemplate"] {
        for object in objects.all(kind) {
            let is_first = objects.named(kind, &object.name).is_some_and(|first| std::ptr::eq(first, object));
            if !is_first || !draft.templates.iter().any(|template| template.name == object.name) {
                ledger.retracted(&object.item, "nothing in the config uses this template");
            }
        }
    }
}

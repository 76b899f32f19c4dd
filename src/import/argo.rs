//! Argo Rollouts: a Rollout with its AnalysisTemplates. Canary steps become steps, blue-green becomes a wait and a switch.
//! A step that would hold the rollout and cannot be asked is not left out: a wait for a person stands in its place.

use super::{
    Importer,
    analysis::{self, Outcome},
    draft::{Draft, Place, Step, backend, service_name},
    ledger::Ledger,
    manifest::{Item, Object, Objects},
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
const DRY: &str = "a dry run decides nothing, and Serin has none yet";
const HISTORY: &str = "Serin keeps its history in the state folder";
const DELAY: &str = "waits for `scaleDownDelay`; until then keep the old version running yourself";

const REASONS: &[(&str, &str, &str)] = &[
    ("Rollout", "spec.replicas", PODS),
    ("Rollout", "spec.selector", PODS),
    ("Rollout", "spec.template", PODS),
    ("Rollout", "spec.workloadRef", PODS),
    ("Rollout", "spec.minReadySeconds", "waits for health checks of versions (`health`)"),
    ("Rollout", "spec.revisionHistoryLimit", HISTORY),
    ("Rollout", "spec.rollbackWindow", "waits for `rollbackWindow`"),
    ("Rollout", "spec.paused", "say `serin pause` to hold a running rollout"),
    ("Rollout", "spec.progressDeadlineSeconds", "waits for health checks of versions (`health`)"),
    ("Rollout", "spec.progressDeadlineAbort", "waits for health checks of versions (`health`)"),
    ("Rollout", "spec.restartAt", PODS),
    ("Rollout", "spec.analysis", HISTORY),
    ("Rollout", "spec.strategy.canary.trafficRouting", ROUTER),
    ("Rollout", "spec.strategy.canary.trafficRouting.managedRoutes", "waits for `setHeaderRoute` and `setMirrorRoute`"),
    ("Rollout", "spec.strategy.canary.trafficRouting.alb.stickinessConfig", "write `assign.sticky` for sticky clients"),
    ("Rollout", "spec.strategy.canary.maxSurge", PODS),
    ("Rollout", "spec.strategy.canary.maxUnavailable", PODS),
    ("Rollout", "spec.strategy.canary.antiAffinity", PODS),
    ("Rollout", "spec.strategy.canary.canaryMetadata", PODS),
    ("Rollout", "spec.strategy.canary.stableMetadata", PODS),
    ("Rollout", "spec.strategy.canary.dynamicStableScale", PODS),
    ("Rollout", "spec.strategy.canary.minPodsPerReplicaSet", PODS),
    ("Rollout", "spec.strategy.canary.replicaProgressThreshold", PODS),
    ("Rollout", "spec.strategy.canary.pingPong", "in Serin versions stay what they are, and roles move"),
    ("Rollout", "spec.strategy.canary.scaleDownDelaySeconds", DELAY),
    ("Rollout", "spec.strategy.canary.scaleDownDelayRevisionLimit", PODS),
    ("Rollout", "spec.strategy.canary.abortScaleDownDelaySeconds", DELAY),
    ("Rollout", "spec.strategy.canary.analysis", BACKGROUND),
    ("Rollout", "spec.strategy.canary.steps[].setHeaderRoute", "waits for `setHeaderRoute`"),
    ("Rollout", "spec.strategy.canary.steps[].setMirrorRoute", "waits for `setMirrorRoute`"),
    ("Rollout", "spec.strategy.canary.steps[].setCanaryScale", PODS),
    ("Rollout", "spec.strategy.blueGreen", "waits for `strategy.blueGreen`"),
    ("Rollout", "spec.strategy.blueGreen.previewReplicaCount", PODS),
    ("Rollout", "spec.strategy.blueGreen.antiAffinity", PODS),
    ("Rollout", "spec.strategy.blueGreen.maxUnavailable", PODS),
    ("Rollout", "spec.strategy.blueGreen.scaleDownDelaySeconds", DELAY),
    ("Rollout", "spec.strategy.blueGreen.abortScaleDownDelaySeconds", DELAY),
    ("Rollout", "spec.strategy.canary.steps[].analysis.dryRun", DRY),
    ("Rollout", "spec.strategy.canary.steps[].analysis.measurementRetention", HISTORY),
    ("Rollout", "spec.strategy.canary.steps[].analysis.analysisRunMetadata", HISTORY),
    ("AnalysisTemplate", "spec.dryRun", DRY),
    ("ClusterAnalysisTemplate", "spec.dryRun", DRY),
    ("AnalysisTemplate", "spec.measurementRetention", HISTORY),
    ("ClusterAnalysisTemplate", "spec.measurementRetention", HISTORY),
    ("AnalysisTemplate", "spec.templates", "templates in templates are not supported yet: name both in the step"),
    (
        "ClusterAnalysisTemplate",
        "spec.templates",
        "templates in templates are not supported yet: name both in the step",
    ),
];

const BACKGROUND: &str = "waits for `strategy.canary.analysis`: nothing is analysed in the background, so write limits into \
                          `guard`, which is always in force";

fn draft(objects: &Objects, ledger: &mut Ledger) -> Option<Draft> {
    let rollout = objects.only("Rollout", ledger)?;
    let service = service_name(rollout, ledger);
    let mut draft = if let Some(green) = rollout.spec(&["strategy", "blueGreen"]) {
        let mut draft = versions(service, rollout, green, ["activeService", "previewService"], objects, ledger);
        blue_green(green, &mut draft, objects, ledger);
        draft
    } else {
        let canary = rollout.spec(&["strategy", "canary"]).unwrap_or(&rollout.item);
        let mut draft = versions(service, rollout, canary, ["stableService", "canaryService"], objects, ledger);
        steps(canary, &mut draft, objects, ledger);
        if canary.get("analysis").is_some() {
            draft.remarks.push(format!("the background analysis {BACKGROUND}"));
        }
        draft
    };
    let remark =
        "Argo Rollouts starts a rollout by a new pod template; in Serin the line `canary` does, so it is a comment";
    draft.remarks.push(remark.to_owned());
    retract_unused(&draft, rollout, objects, ledger);
    Some(draft)
}

fn versions(
    service: String,
    rollout: &Object,
    strategy: &Item,
    names: [&str; 2],
    objects: &Objects,
    ledger: &mut Ledger,
) -> Draft {
    let namespace = rollout.namespace(ledger);
    let [stable, canary] = [(names[0], "stable", "v1"), (names[1], "canary", "v2")].map(|(field, role, version)| {
        let fallback = (&*format!("{service}-{role}"), version);
        backend(strategy.get(field), Place { namespace, port: 80, fallback }, objects, ledger)
    });
    Draft::new(service, stable, Some(canary))
}

fn steps(canary: &Item, draft: &mut Draft, objects: &Objects, ledger: &mut Ledger) {
    if let Some(item) = canary.at(&["trafficRouting", "maxTrafficWeight"]) {
        match whole(item).filter(|max| (1..=1_000_000).contains(max)) {
            Some(max) => {
                draft.max_weight = max;
                ledger.kept(item, "`maxTrafficWeight`");
            }
            None => ledger.dropped(item, "not a whole number from 1 to 1000000; 100 is taken"),
        }
    }
    let mut is_cut = false;
    for item in canary.list(&["steps"]) {
        if draft.steps.has_room() && !is_cut {
            step(item, draft, objects, ledger);
        } else {
            ledger.dropped(item, "a config has at most 100 steps; a person is waited for instead");
            if !is_cut {
                draft.steps.push_person("the steps after this one are more than a config may have");
            }
            is_cut = true;
        }
    }
    if draft.steps.is_empty() {
        draft.steps.push(Step::Weight("100%".to_owned()), "without steps Argo Rollouts goes straight to all");
        if let Some(item) = canary.get("steps") {
            ledger.approximated(item, "without steps all traffic goes over at once: one step of 100%");
        }
    }
}

fn step(item: &Item, draft: &mut Draft, objects: &Objects, ledger: &mut Ledger) {
    let place = ledger.place(item);
    let known = [
        "setWeight",
        "pause",
        "analysis",
        "experiment",
        "plugin",
        "setHeaderRoute",
        "setMirrorRoute",
        "setCanaryScale",
    ];
    let found = known.iter().find_map(|name| Some((*name, item.get(name)?)));
    match found {
        Some(("setWeight", weight)) => match whole(weight).filter(|weight| *weight <= draft.max_weight) {
            Some(number) => {
                draft.steps.push(Step::Weight(number.to_string()), place);
                ledger.kept(weight, "a `setWeight` of the same number");
            }
            None => ledger.dropped(weight, format!("not a whole number from 0 to {}", draft.max_weight)),
        },
        Some(("pause", pause)) => self::pause(pause, &place, draft, ledger),
        Some(("analysis", analysis)) => gate(analysis, &place, draft, objects, ledger),
        Some((name @ ("experiment" | "plugin"), gate)) => {
            let later =
                if name == "experiment" { "waits for `experiment`" } else { "Serin has no step plugins; see `gates`" };
            ledger.dropped(gate, format!("{later}; a wait for a person stands in its place"));
            draft.steps.push_person(format!("{place}: stands for the step `{name}`, which is not supported yet"));
        }
        // The others hold nothing, and the table of reasons knows them.
        Some(_) => {}
        None => ledger.dropped(item, "this importer does not know such a step"),
    }
    if let Some((name, _)) = found {
        for (_, other) in item.fields().iter().filter(|(key, _)| key != name && known.contains(&&**key)) {
            ledger.dropped(other, format!("a step does one thing, here `{name}`"));
        }
    }
}

fn pause(item: &Item, place: &str, draft: &mut Draft, ledger: &mut Ledger) {
    let Some(duration) = item.get("duration") else {
        draft.steps.push(Step::Person, place);
        ledger.kept(item, "waits for `serin promote`");
        return;
    };
    let Some(time) = duration.text().and_then(argo_duration) else {
        draft.steps.push_person(format!("{place}: stands for a pause of unknown length"));
        ledger.dropped(duration, "not a duration; a wait for a person stands in its place");
        return;
    };
    if time < *HOLDS.start() {
        ledger.approximated(duration, "a pause of less than a second is none, as in Argo Rollouts");
        return;
    }
    let (time, moved) = within(time, &HOLDS);
    draft.steps.push(Step::Hold(time), place);
    if moved {
        ledger.approximated(duration, "a step holds at most 30 days");
    } else {
        ledger
            .kept(duration, format!("holds for {}; the clock stops while the rollout is paused by hand", shown(time)));
    }
}

/// An analysis that blocks. What of it cannot be asked is decided by a person.
fn gate(item: &Item, place: &str, draft: &mut Draft, objects: &Objects, ledger: &mut Ledger) {
    let Outcome { step, is_partial, templates } = analysis::analysis(item, objects, &draft.templates, ledger);
    for template in templates {
        if !draft.templates.contains(&template) {
            draft.templates.push(template);
        }
    }
    if let Some(step) = step {
        draft.steps.push(step, place);
    }
    if is_partial {
        draft.steps.push_person(format!("{place}: stands for an analysis that cannot be asked yet"));
        let remark = "an analysis could not be taken over as it is: `pause: {}` stands in its place, so that nobody passes \
                      a gate that was not asked";
        if !draft.remarks.iter().any(|known| known == remark) {
            draft.remarks.push(remark.to_owned());
        }
    }
}

fn blue_green(green: &Item, draft: &mut Draft, objects: &Objects, ledger: &mut Ledger) {
    draft
        .remarks
        .push("blue-green is approximated: nothing reaches the new version until the switch to 100%".to_owned());
    if let Some(analysis) = green.get("prePromotionAnalysis") {
        gate(analysis, &ledger.place(analysis), draft, objects, ledger);
    }
    let auto = green.get("autoPromotionEnabled");
    let seconds = green.get("autoPromotionSeconds");
    let after = seconds.and_then(whole).and_then(|seconds| argo_duration(&seconds.to_string()));
    if auto.is_some_and(|auto| auto.text() == Some("false")) {
        draft.steps.push_person("autoPromotionEnabled: false");
        if let Some(seconds) = seconds {
            ledger.dropped(seconds, "a person is waited for, with no end");
        }
    } else if let (Some(item), Some(after)) = (seconds, after.filter(|after| HOLDS.contains(after))) {
        draft.steps.push(Step::Hold(after), ledger.place(item));
        ledger.approximated(item, "held for so long before the switch");
    }
    if let Some(auto) = auto {
        let how =
            if auto.text() == Some("false") { "`pause: {}` before the switch" } else { "no person is waited for" };
        ledger.approximated(auto, how);
    }
    draft.steps.push(Step::Weight("100%".to_owned()), "the switch");
    if let Some(analysis) = green.get("postPromotionAnalysis") {
        gate(analysis, &ledger.place(analysis), draft, objects, ledger);
    }
}

/// What was said of templates holds only if a step uses them.
fn retract_unused(draft: &Draft, rollout: &Object, objects: &Objects, ledger: &mut Ledger) {
    let background = rollout.spec(&["strategy", "canary", "analysis", "templates"]).map_or(&[][..], Item::items);
    let is_background =
        |name: &str| background.iter().any(|item| item.get("templateName").and_then(Item::text) == Some(name));
    for kind in ["AnalysisTemplate", "ClusterAnalysisTemplate"] {
        for object in objects.all(kind) {
            let is_first = objects.named(kind, &object.name).is_some_and(|first| std::ptr::eq(first, object));
            if is_first && draft.templates.iter().any(|template| template.name == object.name) {
                continue;
            }
            let why = if is_background(&object.name) {
                "only the background analysis uses it, which waits for `strategy.canary.analysis`"
            } else {
                "no step of the config uses this template"
            };
            ledger.retracted(&object.item, why);
        }
    }
}

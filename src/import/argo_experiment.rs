//! Experiments of Argo Rollouts: each template is a version of its own, which whoever runs pods must start.

use super::{
    analysis::{self, Context, Outcome},
    argo::{PARTIAL, keep},
    backend::Backend,
    draft::{Draft, Service, Step},
    ledger::Ledger,
    manifest::Item,
    template::TemplateDraft,
    value::{HOLDS, argo_duration, scalar, shown, whole, within},
};

/// Most versions of an experiment.
const ARMS_MAX: usize = 10;

/// Takes an experiment over as far as stable's share goes; without anything to compare a person is waited for.
pub(super) fn step(
    item: &Item,
    place: &str,
    service: &mut Service,
    draft: &mut Draft,
    context: Context<'_>,
    ledger: &mut Ledger,
) {
    let arms = arms(item, service, ledger);
    let (analyses, metrics, is_partial) = analyses(item, draft, context, ledger);
    let duration = item.get("duration").and_then(Item::text).and_then(argo_duration).map(|time| within(time, &HOLDS));
    if arms.is_empty() || (duration.is_none() && analyses.is_empty()) || !service.steps.has_room() {
        ledger.retracted(
            item,
            "nothing of this experiment can be compared here; a wait for a person stands in its place",
        );
        service.steps.push_person(format!("{place}: stands for an experiment that cannot be made here"));
        return;
    }
    if let (Some(item), Some((time, moved))) = (item.get("duration"), duration) {
        let how = format!("it takes {}", shown(time));
        if moved { ledger.approximated(item, how) } else { ledger.kept(item, how) }
    }
    let duration = duration.map(|(time, _)| format!("duration: {}, ", shown(time))).unwrap_or_default();
    let rules: Vec<&Item> = item.list(&["dryRun"]).iter().collect();
    let names: Vec<&str> = metrics.iter().map(String::as_str).collect();
    let dry = analysis::dry_run(&rules, &names, ledger).map(|dry| format!(", {dry}")).unwrap_or_default();
    let analyses = if analyses.is_empty() { String::new() } else { format!(", analyses: [{}]", analyses.join(", ")) };
    let text = format!("{{ {duration}templates: [{}]{analyses}{dry} }}", arms.join(", "));
    service.steps.push(Step::Experiment(text), place);
    if is_partial {
        service.steps.push_person(format!("{place}: stands for an analysis of the experiment that cannot be asked"));
        draft.remark(PARTIAL);
    }
}

fn arms(item: &Item, service: &mut Service, ledger: &mut Ledger) -> Vec<String> {
    let mut left = service.steps.weight().map_or(0, |canary| service.max_weight.saturating_sub(canary));
    let mut arms = Vec::new();
    for template in item.list(&["templates"]) {
        let name = template.get("name").and_then(Item::text).unwrap_or_default();
        let weight = template.get("weight").and_then(whole).filter(|weight| (1..=left).contains(weight));
        let is_taken = service.stable.version == name || service.canary.as_ref().is_some_and(|it| it.version == name);
        let is_there = arms.iter().any(|(other, _)| *other == name);
        let backend = Backend::new(name, name, 80).filter(|_| !is_taken && !is_there && arms.len() < ARMS_MAX);
        let (Some(backend), Some(weight)) = (backend, weight) else {
            ledger.dropped(template, "a version of an experiment needs a name of its own and a weight that stable has");
            continue;
        };
        left -= weight;
        for (field, how) in [
            ("name", format!("a version of that name; start it, and correct its address `{}`", backend.url)),
            ("weight", "its share, out of stable's".to_owned()),
        ] {
            if let Some(item) = template.get(field) {
                ledger.approximated(item, how);
            }
        }
        ledger.dropped(template, "Serin starts no pods: whoever does takes that image");
        let text = scalar(name);
        arms.push((name, format!("{{ name: {text}, version: {text}, weight: {weight} }}")));
        if !service.others.contains(&backend) {
            service.others.push(backend);
        }
    }
    arms.into_iter().map(|(_, text)| text).collect()
}

/// The analyses that can be asked, the names of their metrics, and whether something was left out.
fn analyses(
    item: &Item,
    draft: &mut Draft,
    context: Context<'_>,
    ledger: &mut Ledger,
) -> (Vec<String>, Vec<String>, bool) {
    let all = item.list(&["analyses"]);
    let ends = |item: &Item| item.get("requiredForCompletion").is_some_and(Item::is_true);
    let required = all.first().is_some_and(ends);
    let (mut texts, mut metrics, mut is_partial) = (Vec::new(), Vec::new(), false);
    for item in all {
        let Outcome { text, is_partial: partly, templates } = analysis::one(item, context, &draft.templates, ledger);
        let has_metric =
            |name: &str| draft.templates.iter().flat_map(TemplateDraft::metric_names).any(|other| other == name);
        let clashes = !texts.is_empty() && templates.iter().flat_map(TemplateDraft::metric_names).any(has_metric);
        match text {
            Some(text) if !clashes => {
                let end = if required { ", requiredForCompletion: true }" } else { " }" };
                texts.push(text.strip_suffix(" }").map_or_else(|| text.clone(), |text| format!("{text}{end}")));
                metrics.extend(templates.iter().flat_map(TemplateDraft::metric_names).map(str::to_owned));
                keep(templates, draft);
                is_partial |= partly || ends(item) != required;
            }
            _ => {
                ledger.retracted(item, "this analysis of the experiment cannot be asked");
                is_partial = true;
            }
        }
    }
    (texts, metrics, is_partial)
}

//! Experiments: `experiment: { duration, templates, analyses }`. Refuses one that would never end, one that needs more than
//! stable has, and analyses of which some end it and some do not.

use super::{
    diagnostic::Code,
    report::{At, Report},
    service, shape, strategy,
    template::Templates,
    yaml::Value,
};
use crate::engine::{
    names::VersionName,
    plan::{Arm, Experiment, Step},
    weight::Weight,
};

/// Most versions of an experiment.
const ARMS_MAX: usize = 10;

/// An experiment, whose versions without a weight have none yet: see [`fill_in`].
pub fn step(at: &At<'_>, max: u64, templates: &Templates<'_>, versions: &[&str], report: &mut Report) -> Option<Step> {
    let fields = report.fields(at, &shape::EXPERIMENT)?;
    let duration = fields.get("duration").map(|at| report.duration(&at, strategy::HOLDS));
    let help = "name a version to compare with: `templates: [{ name: baseline, version: baseline }]`";
    let arms = fields.need(report, "templates", help)?;
    let arms = report.items(&arms, ARMS_MAX)?;
    let read: Vec<Arm> = arms.iter().filter_map(|at| arm(at, max, versions, report)).collect();
    for (index, arm) in read.iter().enumerate() {
        if read.iter().take(index).any(|other| other.version == arm.version || other.name == arm.name) {
            let message = format!("`{}` takes part twice", arm.version);
            report.error(Code::Conflict, &arms[index].span(), message).help("name each version and each part once");
        }
    }
    let analyses =
        fields.get("analyses").filter(|at| !matches!(&at.node.value, Value::List(items) if items.is_empty()));
    let (analyses, ends_with_analyses) = match &analyses {
        Some(at) => templates.of_experiment(at, &fields, versions, report)?,
        None => (Vec::new(), false),
    };
    if let (Some(dry), true) = (fields.get("dryRun"), analyses.is_empty()) {
        report
            .error(Code::Conflict, &dry.key_span, "`dryRun` is about the metrics of `analyses`, and there are none")
            .help("add `analyses`, or remove it");
    }
    let ends_with_analyses = ends_with_analyses || (duration.is_none() && !analyses.is_empty());
    if duration.is_none() && analyses.is_empty() {
        report
            .error(Code::MissingField, &at.key_span, "this experiment would never end")
            .help("give it a `duration`, or `analyses` with whose success it ends");
        return None;
    }
    let duration = duration.map_or(Some(None), |duration| duration.map(Some))?;
    (read.len() == arms.len()).then_some(Step::Experiment(Experiment {
        duration,
        arms: read,
        analyses,
        ends_with_analyses,
    }))
}

/// Gives versions without a weight the canary's, so that both are compared on as much; reports what does not fit.
pub fn fill_in(steps: &mut [Step], items: &[At<'_>], report: &mut Report) {
    let mut canary = Weight::ZERO;
    for (step, at) in steps.iter_mut().zip(items) {
        match step {
            Step::SetWeight(weight) => canary = *weight,
            Step::Experiment(experiment) => {
                for arm in experiment.arms.iter_mut().filter(|arm| arm.weight == Weight::ZERO) {
                    arm.weight = canary;
                }
                let all: u64 = experiment.arms.iter().map(|arm| u64::from(arm.weight.ppm())).sum();
                let of_stable = canary.rest();
                if experiment.arms.iter().any(|arm| arm.weight == Weight::ZERO) {
                    report.error(Code::MissingField, &at.span(), "a version of this experiment has no weight").help(
                        "without one it has as much as the canary, which has nothing at this step: write `weight: 5`",
                    );
                } else if all > u64::from(of_stable.ppm()) {
                    let message =
                        format!("this experiment needs more than the {of_stable} that stable has at this step");
                    report
                        .error(Code::BadValue, &at.span(), message)
                        .help("its versions take their weights out of stable's share; give them less");
                }
            }
            Step::SetHeaderRoute { .. } | Step::SetMirrorRoute { .. } | Step::Pause(_) | Step::Analysis(_) => {}
        }
    }
}

fn arm(at: &At<'_>, max: u64, versions: &[&str], report: &mut Report) -> Option<Arm> {
    let fields = report.fields(at, &shape::EXPERIMENT_ARM)?;
    let name = fields.need(report, "name", "name the part: `name: baseline`").and_then(|at| service::name(&at, report));
    let version = fields.need(report, "version", "say which version: `version: baseline`")?;
    let text = report.filled(&version, "the name of a version")?;
    // With a broken `versions` every reference would look wrong.
    if !versions.is_empty() && !versions.contains(&&*text) {
        service::unknown(&version, "version", versions.iter().copied(), report);
        return None;
    }
    let weight = fields.get("weight").map_or(Some(Weight::ZERO), |at| {
        let weight = strategy::set_weight(&at, max, report)?;
        if weight == Weight::ZERO {
            report
                .error(Code::BadValue, &at.span(), "a version without traffic cannot be compared")
                .help("give it some");
        }
        Some(weight)
    });
    Some(Arm { name: name?, version: VersionName::new(&text).ok()?, weight: weight? })
}

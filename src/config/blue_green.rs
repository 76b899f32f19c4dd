//! Blue-green: the new version is looked at without traffic, then takes all of it at once, and the old one is kept.
//! It is written as the steps of a canary that goes from nothing to everything, so that every promise of a canary holds
//! for it: abort before and after the switch, restarts, gates.

use std::time::Duration;

use super::{
    header_route, policy,
    report::{At, Report},
    shape, strategy,
    template::Templates,
};
use crate::engine::{
    plan::{Guard, Pause, Step, Strategy},
    weight::Weight,
};

/// The steps of `strategy.blueGreen`.
pub fn strategy(at: &At<'_>, templates: &Templates<'_>, versions: &[&str], report: &mut Report) -> Option<Strategy> {
    let fields = report.fields(at, &shape::BLUE_GREEN)?;
    let mut steps = Vec::new();
    let mut complete = true;
    let analysis = |name: &str, steps: &mut Vec<Step>, report: &mut Report| {
        let Some(at) = fields.get(name) else { return true };
        let read = templates.analysis(&at, versions, report).map(Step::Analysis);
        let is_right = read.is_some();
        steps.extend(read);
        is_right
    };
    if let Some(at) = fields.get("preview") {
        let read = header_route::preview(&at, report);
        complete &= read.is_some();
        steps.extend(read);
    }
    complete &= analysis("prePromotionAnalysis", &mut steps, report);
    let words = [("true", true), ("false", false)];
    let enabled = fields.get("autoPromotionEnabled").map_or(Some(true), |at| report.word(&at, &words));
    let seconds = fields.get("autoPromotionSeconds").map_or(Some(0), |at| report.whole(&at, 0..=30 * 86_400));
    let (enabled, seconds) = (enabled?, seconds?);
    if seconds > 0 {
        steps.push(Step::Pause(Pause::For(Duration::from_secs(seconds))));
    } else if !enabled {
        steps.push(Step::Pause(Pause::Person));
    }
    steps.push(Step::SetWeight(Weight::FULL));
    complete &= analysis("postPromotionAnalysis", &mut steps, report);
    let mut read = strategy::with_defaults(steps, Guard::default());
    if let Some(at) = fields.get("scaleDownDelaySeconds") {
        read.policy.scale_down_delay = policy::delay_seconds(&at, report)?;
        read.policy.abort_scale_down_delay = Some(read.policy.scale_down_delay);
    }
    if let Some(at) = fields.get("abortScaleDownDelaySeconds") {
        read.policy.abort_scale_down_delay = policy::abort_delay_seconds(&at, report).ok()?;
    }
    complete.then_some(read)
}

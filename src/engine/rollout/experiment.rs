//! Experiments: other versions beside stable and canary for the length of a step. Their buckets are the highest, so that no
//! client of the canary moves; what they have is taken out of stable's share and goes back to it in the same swap that
//! ends the step, aborts, or pauses for anything else than a person's `pause`.

use super::{
    machine::StepState,
    state::{Log, Phase, Service},
};
use crate::engine::{
    event::Cause,
    memory::PauseKind,
    names::VersionName,
    plan::{Experiment, Step},
    weight::Weight,
};

impl Service {
    /// The versions of the running experiment with their shares; none without one.
    pub(super) fn aside(&self) -> Vec<(&VersionName, Weight)> {
        let rollout = match &self.phase {
            Phase::Progressing(rollout) | Phase::Paused { rollout, kind: PauseKind::Command, .. } => rollout,
            Phase::Paused { .. } | Phase::Healthy | Phase::Degraded { .. } => return Vec::new(),
        };
        let Some(Step::Experiment(experiment)) = self.plan.strategy.steps.get(rollout.step) else { return Vec::new() };
        if !rollout.begun {
            return Vec::new();
        }
        let mut left = rollout.weight.rest();
        let mut all: Vec<(&VersionName, Weight)> = Vec::new();
        for arm in &experiment.arms {
            let has_a_role = arm.version == self.standing.stable.version || arm.version == rollout.target.version;
            let is_known = self.plan.version(&arm.version).is_some();
            // A changed file or weight leaves no room at times.
            let Some(rest) = left.ppm().checked_sub(arm.weight.ppm()).and_then(|ppm| Weight::from_ppm(ppm).ok()) else {
                continue;
            };
            if !has_a_role && is_known && all.iter().all(|(version, _)| **version != arm.version) {
                left = rest;
                all.push((&arm.version, arm.weight));
            }
        }
        all
    }

    /// What they have together.
    pub(super) fn aside_weight(&self) -> Weight {
        let ppm = self.aside().iter().map(|(_, weight)| weight.ppm()).sum();
        Weight::from_ppm(ppm).unwrap_or(Weight::FULL)
    }

    /// Over after its time, or with its analyses; what is Failed or Inconclusive there does to the rollout what an
    /// analysis step would.
    pub(super) fn experiment(&mut self, experiment: &Experiment, log: &mut Log<'_>) -> StepState {
        if !experiment.analyses.is_empty() {
            match self.analyse(log) {
                StepState::Done(cause) if experiment.ends_with_analyses => return StepState::Done(cause),
                StepState::Done(_) | StepState::Holds => {}
                bad => return bad,
            }
        }
        let Some(rollout) = self.rollout() else { return StepState::Holds };
        let held = log.now.since(rollout.since);
        let is_over = experiment.duration.is_some_and(|duration| held >= duration);
        if !is_over || self.traffic.is_warming(log.now) {
            return StepState::Holds;
        }
        if self.lacks().is_some() { self.lacking(log.now) } else { StepState::Done(Cause::Plan) }
    }
}

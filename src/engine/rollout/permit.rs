//! What holds back a step although it has come: for a rise of the canary's weight a turn among other rollouts and a window
//! of the day, and for it, the first step and the promotion a gate. Looks and judges; `machine` acts. Falling weights and
//! aborts are never held.

use super::state::{Rollout, Service};
use crate::engine::{plan::Step, time::Timestamp, view::Waiting, weight::Weight};

impl Step {
    /// Takes no time by itself: what it says is in force when it is entered.
    pub(super) const fn is_instant(&self) -> bool {
        matches!(self, Self::SetWeight(_) | Self::SetHeaderRoute { .. } | Self::SetMirrorRoute { .. })
    }
}

impl Service {
    /// Why the step at `at` may not begin yet: it would take the canary's weight up, or a gate stands before it.
    pub(super) fn held(&self, at: usize, now: Timestamp) -> Option<Waiting> {
        self.rise_held(at, now).or_else(|| self.gate_before(at, now))
    }

    /// Whether the step at `at` gives the canary more.
    pub(super) fn rises(&self, at: usize) -> bool {
        let to = match self.plan.strategy.steps.get(at) {
            Some(Step::SetWeight(weight)) => *weight,
            // All steps are done: the promotion gives the canary everything.
            None => Weight::FULL,
            Some(_) => return false,
        };
        self.rollout().is_some_and(|rollout| to > rollout.weight)
    }

    /// What else than a gate keeps the step at `at` from giving the canary more.
    pub(super) fn rise_held(&self, at: usize, now: Timestamp) -> Option<Waiting> {
        let rollout = self.rollout().filter(|_| self.rises(at))?;
        let limit = self.plan.strategy.policy.concurrent;
        if !rollout.admitted {
            let others = if limit == 1 {
                "another rollout to end".to_owned()
            } else {
                format!("one of {limit} rollouts to end")
            };
            return Some(Waiting::Permit { what: format!("{others} (concurrentRollouts: {limit})"), left: None });
        }
        let policy = &self.plan.strategy.policy;
        if policy.may_rise(now) {
            let canary = &rollout.target.version;
            let what = || self.unready_words(canary);
            return (!self.is_ready(canary)).then(|| Waiting::Permit { what: what(), left: None });
        }
        let opens = policy.opens(now);
        let when = opens.map_or_else(|| "which never comes".to_owned(), |opens| opens.to_string());
        let what = format!("the next window in which weight may rise, {when}");
        Some(Waiting::Permit { what, left: opens.map(|opens| opens.since(now)) })
    }

    /// Notes since when a rise waits for nothing but a canary that is well: that the plan's deadline counts.
    pub(super) fn note_unready(&mut self, now: Timestamp) {
        let Some(rollout) = self.rollout() else { return };
        let let_through = rollout.admitted && self.plan.strategy.policy.may_rise(now);
        let is_unready =
            let_through && !self.is_ready(&rollout.target.version) && self.held(rollout.step, now).is_some();
        if let Some(rollout) = self.rollout_mut() {
            rollout.unready_since = is_unready.then(|| rollout.unready_since.unwrap_or(now));
        }
    }

    /// The step that comes next: the present one, if it has not been let through yet.
    pub(super) fn next_step(&self) -> usize {
        let Some(rollout) = self.rollout() else { return 0 };
        if self.stands_before(rollout) { rollout.step } else { rollout.step + 1 }
    }

    /// The present step has come but is not in force: something holds it.
    pub(super) fn stands_before(&self, rollout: &Rollout) -> bool {
        !rollout.begun || self.plan.strategy.steps.get(rollout.step).is_none_or(Step::is_instant)
    }

    /// When what holds the present step ends by itself.
    pub(super) fn held_until(&self, rollout: &Rollout) -> Option<Timestamp> {
        let waits = rollout.admitted && self.stands_before(rollout);
        waits.then(|| self.plan.strategy.policy.opens(rollout.since)).flatten()
    }

    /// Whether a rollout goes on here, paused or not, that counts among those at once.
    pub(in crate::engine) fn takes_turn(&self) -> bool {
        self.rollout().is_some_and(|rollout| rollout.admitted)
    }

    /// Since when a rollout waits for its turn.
    pub(in crate::engine) fn waits_for_turn(&self) -> Option<Timestamp> {
        self.rollout().filter(|rollout| !rollout.admitted).map(|rollout| rollout.started)
    }

    /// Most rollouts at once; zero is no limit.
    pub(in crate::engine) const fn turns(&self) -> usize {
        self.plan.strategy.policy.concurrent
    }

    /// The rollout's turn has come.
    pub(in crate::engine) fn admit(&mut self) {
        if let Some(rollout) = self.rollout_mut() {
            rollout.admitted = true;
        }
    }
}

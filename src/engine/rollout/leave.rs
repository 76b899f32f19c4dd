//! How versions leave: a withdrawn canary, at once or down a ramp, and what may be stopped once it has served no longer
//! for as long as was asked for. A stable version that cannot take the traffic yet is waited for, if that was asked for,
//! but not for long. A crash on a ramp ends it: the way down is a comfort, not a decision to be kept.

use super::state::{Log, Phase, Ramp, Service};
use crate::engine::{
    event::{Cause, EventKind},
    names::VersionName,
    time::Timestamp,
    weight::Weight,
};

/// Into how many falls of the weight a ramp is cut.
const RAMP_STEPS: u32 = 20;
/// Versions whose end is still to be told; the oldest is told at once when there are more.
const LEAVING_MAX: usize = 16;

impl Service {
    /// The canary gets nothing more, and is not tried again by itself.
    pub(super) fn withdraw(&mut self, cause: Cause, reason: String, log: &mut Log<'_>) {
        let Some(rollout) = self.rollout() else { return };
        let policy = &self.plan.strategy.policy;
        let (target, from, over) = (rollout.target.clone(), rollout.weight, policy.abort_ramp);
        let guard = policy.capacity_guard.filter(|_| !self.has_capacity());
        let waits_until = guard.map(|guard| log.now + guard.deadline);
        self.standing.refuse(&target);
        self.end_runs(log.now);
        let about = target.version.clone();
        let ramp = Ramp { weight: from, from, began: log.now, over, waits_until };
        let takes_time = waits_until.is_some() || !over.is_zero();
        let ramp = Some(ramp).filter(|_| from > Weight::ZERO && takes_time);
        self.phase = Phase::Degraded { target, reason, ramp };
        self.traffic.forget_strata();
        self.traffic.cut(log.now, log.generation, self.canary_weight());
        if ramp.is_none() {
            self.leaves_aborted(about.clone(), log.now);
        }
        self.note(EventKind::Aborted, cause, Some(about), log);
    }

    /// What time alone does to what has served: the next fall of a ramp, and versions that may be stopped.
    pub(super) fn let_go(&mut self, log: &mut Log<'_>) {
        self.go_down(log);
        while let Some(version) = self.due_to_stop(log.now) {
            self.note(EventKind::ScaleDown, Cause::Plan, Some(version), log);
        }
    }

    /// What was stable serves no longer from now on.
    pub(super) fn leaves(&mut self, version: VersionName, now: Timestamp) {
        self.stays(&version);
        let at = now + self.plan.strategy.policy.scale_down_delay;
        self.standing.leaving.push((version, at));
    }

    /// Nor does a canary that was given up, which may have to stay for a look at it.
    fn leaves_aborted(&mut self, version: VersionName, now: Timestamp) {
        self.stays(&version);
        let delay = self.plan.strategy.policy.abort_scale_down_delay;
        self.standing.leaving.extend(delay.map(|delay| (version, now + delay)));
    }

    /// A version serves again, or may have to: nobody may stop it.
    pub(super) fn stays(&mut self, version: &VersionName) {
        self.standing.leaving.retain(|(leaving, _)| leaving != version);
    }

    /// When time alone changes something next.
    pub(super) fn next_departure(&self) -> Option<Timestamp> {
        let stop = self.standing.leaving.iter().map(|(_, at)| *at).min();
        let fall = match &self.phase {
            Phase::Degraded { ramp: Some(Ramp { waits_until: Some(until), .. }), .. } => Some(*until),
            Phase::Degraded { ramp: Some(ramp), .. } => {
                let done = ramp.steps_done(ramp.weight);
                Some(ramp.began + ramp.over * (done + 1) / RAMP_STEPS)
            }
            _ => None,
        };
        [stop, fall].into_iter().flatten().min()
    }

    fn go_down(&mut self, log: &mut Log<'_>) {
        let has_capacity = self.has_capacity();
        let Phase::Degraded { target, ramp: Some(ramp), .. } = &mut self.phase else { return };
        if let Some(until) = ramp.waits_until {
            if log.now < until && !has_capacity {
                return;
            }
            (ramp.waits_until, ramp.began) = (None, log.now);
        }
        let weight = ramp.at(log.now);
        if weight == ramp.weight {
            return;
        }
        ramp.weight = weight;
        let version = target.version.clone();
        if weight == Weight::ZERO {
            self.end_ramp();
        }
        self.traffic.cut(log.now, log.generation, weight);
        if weight == Weight::ZERO {
            self.leaves_aborted(version.clone(), log.now);
            self.note(EventKind::WeightChanged, Cause::Plan, Some(version), log);
        }
    }

    /// What is left of a canary on its way down is taken from it at once.
    pub(super) fn end_ramp(&mut self) {
        if let Phase::Degraded { ramp, .. } = &mut self.phase {
            *ramp = None;
        }
    }

    fn due_to_stop(&mut self, now: Timestamp) -> Option<VersionName> {
        let crowded = self.standing.leaving.len() > LEAVING_MAX;
        let due = self.standing.leaving.iter().position(|(_, at)| crowded || *at <= now)?;
        Some(self.standing.leaving.remove(due).0)
    }
}

impl Ramp {
    /// The weight at a time: an even stair from what it was to nothing.
    fn at(&self, now: Timestamp) -> Weight {
        if self.over.is_zero() {
            return Weight::ZERO;
        }
        let passed = now.since(self.began).as_millis() * u128::from(RAMP_STEPS) / self.over.as_millis().max(1);
        let left = RAMP_STEPS.saturating_sub(u32::try_from(passed).unwrap_or(RAMP_STEPS));
        let ppm = u64::from(self.from.ppm()) * u64::from(left) / u64::from(RAMP_STEPS);
        u32::try_from(ppm).ok().and_then(|ppm| Weight::from_ppm(ppm).ok()).unwrap_or_default()
    }

    fn steps_done(&self, weight: Weight) -> u32 {
        let left = u64::from(weight.ppm()) * u64::from(RAMP_STEPS) / u64::from(self.from.ppm()).max(1);
        RAMP_STEPS.saturating_sub(u32::try_from(left).unwrap_or(RAMP_STEPS))
    }
}

//! Ending a hold early: once the canary is proven good enough for the next weight. Judges with the safe test; `machine` acts.

use std::time::Duration;

use super::state::{Rollout, Service};
use crate::engine::{
    event::Cause,
    plan::{Pause, Step},
    stats::safe_test::{Margin, SafeTest},
    time::Timestamp,
    weight::Weight,
};

/// No hold ends sooner: what is slow to fail must have had the time.
const AT_LEAST: Duration = Duration::from_secs(10);

impl Service {
    /// A fresh test for the hold of `step`, where the plan lets it end early. There is none without the share test, whose
    /// tolerance and thresholds it takes.
    pub(super) fn safe_test(&self, step: usize) -> Option<SafeTest> {
        let strategy = &self.plan.strategy;
        let (early, share) = (strategy.policy.promote_early?, strategy.guard.share_test?);
        let holds = matches!(strategy.steps.get(step), Some(Step::Pause(Pause::For(_))));
        let margin = Margin {
            alpha: early.alpha,
            relative: share.relative,
            absolute: early.blast_radius / self.next_weight(step).ratio(),
            latency: share.latency.is_some(),
        };
        holds.then(|| SafeTest::new(margin))
    }

    /// Why the hold may end now: everything is proven, and little speaks against the canary.
    pub(super) fn proven(&self, rollout: &Rollout, now: Timestamp) -> Option<Cause> {
        let (safe, share) = (rollout.safe.as_ref()?, &rollout.test.as_ref()?.test);
        let may_end = safe.is_proven()
            && now.since(rollout.since) >= AT_LEAST
            && share.log_e() < share.threshold() / 2.0
            && self.lacks().is_none();
        may_end.then(|| Cause::Proven {
            alpha: safe.margin().alpha,
            margin: safe.margin().absolute,
            requests: self.traffic.since_cut(&rollout.target.version).requests,
        })
    }

    /// The weight that a hold leads to; all of the traffic after the last one. Never zero.
    fn next_weight(&self, step: usize) -> Weight {
        let weight = self.plan.strategy.steps.iter().skip(step).find_map(|step| match step {
            Step::SetWeight(weight) => Some(*weight),
            _ => None,
        });
        weight.filter(|weight| *weight > Weight::ZERO).unwrap_or(Weight::FULL)
    }
}

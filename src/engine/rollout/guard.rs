//! The guard: what would end a rollout at any moment, and what a hold still needs before it may end.
//! Looks and judges; `machine` acts.

use std::time::Duration;

use super::state::Service;
use crate::engine::{
    analysis::template::Arm,
    event::Cause,
    minimum::{SHARE_TEST_REQUESTS, quantile_name},
    names::VersionName,
    plan::{ErrorRateLimit, LatencyLimit},
    samples::Counts,
    stats::window::Summary,
    time::Timestamp,
    view::{CheckView, Unit, Verdict},
};

/// A check that has not had its minimum of requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Lack {
    pub(super) check: String,
    pub(super) have: u64,
    pub(super) need: u64,
}

impl Service {
    /// The first breach, if any. Errors in a row come first, since they need no window.
    pub(super) fn breach(&self, now: Timestamp) -> Option<Cause> {
        let rollout = self.rollout()?;
        let canary = &rollout.target.version;
        let guard = &self.plan.strategy.guard;
        let errors = self.traffic.longest_error_run();
        if guard.consecutive_errors > 0 && errors >= guard.consecutive_errors {
            return Some(Cause::ConsecutiveErrors { errors, limit: guard.consecutive_errors });
        }
        let watched = rollout.test.as_ref().zip(guard.share_test);
        if let Some((watched, plan)) = watched.filter(|(watched, _)| watched.test.reverts()) {
            let weightiest = watched.test.weightiest();
            return Some(Cause::ShareTest {
                alpha: plan.alpha,
                log_e: watched.test.log_e_max(),
                metric: weightiest.metric,
                slower_than: weightiest.slower_than,
                canary: weightiest.canary,
                stable: weightiest.stable,
            });
        }
        let too_many = guard.error_rate.and_then(|limit| self.error_breach(limit, canary, now));
        too_many.or_else(|| guard.latency.iter().find_map(|limit| self.latency_breach(*limit, canary, now)))
    }

    /// The check that lacks the most requests since the last weight change, if one does. A canary without weight needs none.
    pub(super) fn lacks(&self) -> Option<Lack> {
        let rollout = self.rollout().filter(|rollout| rollout.weight.ppm() > 0)?;
        let have = self.traffic.since_cut(&rollout.target.version).requests;
        let lacking = self.plan.strategy.guard.minimums().filter(|(_, need)| have < *need);
        let most = lacking.max_by_key(|(_, need)| *need);
        most.map(|(check, need)| Lack { check, have, need })
    }

    /// Every check with where it stands.
    pub(super) fn checks(&self, now: Timestamp) -> Vec<CheckView> {
        let Some(rollout) = self.rollout() else { return Vec::new() };
        let canary = &rollout.target.version;
        let guard = &self.plan.strategy.guard;
        let mut checks = Vec::new();
        checks.extend(guard.error_rate.map(|limit| self.error_check(limit, canary, now)));
        checks.extend(guard.latency.iter().map(|limit| self.latency_check(*limit, canary, now)));
        checks.extend(self.share_check());
        if guard.consecutive_errors > 0 {
            checks.push(self.run_check(guard.consecutive_errors, self.traffic.since_cut(canary).requests));
        }
        checks
    }

    /// What a version did over a window, for analysis.
    pub(super) fn arm_summary(&self, arm: &Arm, canary: &VersionName, now: Timestamp, window: Duration) -> Summary {
        let version = match arm {
            Arm::Canary => canary,
            Arm::Stable => &self.standing.stable.version,
            Arm::Named(version) => version,
        };
        self.traffic.summary(version, now, window, 0)
    }

    fn error_breach(&self, limit: ErrorRateLimit, canary: &VersionName, now: Timestamp) -> Option<Cause> {
        let seen = self.traffic.summary(canary, now, limit.window, limit.min_requests);
        let enough = seen.counts.requests >= limit.min_requests.max(1);
        let breached = enough && seen.counts.error_rate().is_some_and(|rate| rate > limit.max);
        breached.then(|| Cause::ErrorRate {
            max: limit.max,
            window: seen.span,
            canary: seen.counts,
            stable: self.stable_beside(&seen, now, limit.window).counts,
        })
    }

    fn latency_breach(&self, limit: LatencyLimit, canary: &VersionName, now: Timestamp) -> Option<Cause> {
        let seen = self.traffic.summary(canary, now, limit.window, limit.min_requests);
        let enough = seen.counts.requests >= limit.min_requests.max(1);
        let value = Some(&seen).filter(|_| enough)?.quantile(limit.quantile)?;
        (value > limit.max).then(|| Cause::Latency {
            quantile: limit.quantile,
            max: limit.max,
            value,
            requests: seen.counts.requests,
            stable: self.stable_beside(&seen, now, limit.window).quantile(limit.quantile),
        })
    }

    /// The canary's window, and stable over the same time.
    fn both(&self, canary: &VersionName, now: Timestamp, window: Duration, at_least: u64) -> (Summary, Summary) {
        let seen = self.traffic.summary(canary, now, window, at_least);
        let stable = self.stable_beside(&seen, now, window);
        (seen, stable)
    }

    /// Stable over the time of the canary's window: asked for only where it is shown, since every look costs.
    fn stable_beside(&self, seen: &Summary, now: Timestamp, window: Duration) -> Summary {
        self.traffic.summary(&self.standing.stable.version, now, seen.span.max(window), 0)
    }

    fn error_check(&self, limit: ErrorRateLimit, canary: &VersionName, now: Timestamp) -> CheckView {
        let (seen, stable) = self.both(canary, now, limit.window, limit.min_requests);
        CheckView {
            name: "errorRate".to_owned(),
            verdict: verdict(seen.counts, limit.min_requests, seen.counts.error_rate().map(|rate| rate > limit.max)),
            value: seen.counts.error_rate(),
            limit: limit.max,
            unit: Unit::Ratio,
            requests: seen.counts.requests,
            min_requests: limit.min_requests,
            stable: stable.counts.error_rate(),
        }
    }

    fn latency_check(&self, limit: LatencyLimit, canary: &VersionName, now: Timestamp) -> CheckView {
        let (seen, stable) = self.both(canary, now, limit.window, limit.min_requests);
        let value = seen.quantile(limit.quantile);
        CheckView {
            name: quantile_name(limit.quantile),
            verdict: verdict(seen.counts, limit.min_requests, value.map(|value| value > limit.max)),
            value: value.map(|value| value.as_secs_f64()),
            limit: limit.max.as_secs_f64(),
            unit: Unit::Seconds,
            requests: seen.counts.requests,
            min_requests: limit.min_requests,
            stable: stable.quantile(limit.quantile).map(|value| value.as_secs_f64()),
        }
    }

    fn share_check(&self) -> Option<CheckView> {
        let watched = self.rollout()?.test.as_ref()?;
        let plan = self.plan.strategy.guard.share_test?;
        let (canary, stable) = watched.test.counts();
        let seen = canary.requests > 0 && stable.requests > 0;
        let enough = seen && canary.requests >= SHARE_TEST_REQUESTS;
        Some(CheckView {
            name: "versusStable".to_owned(),
            verdict: match (watched.test.reverts(), enough) {
                (true, _) => Verdict::Fail,
                (false, true) => Verdict::Pass,
                (false, false) => Verdict::NoData,
            },
            value: seen.then(|| watched.test.log_e()),
            limit: (1.0 / plan.alpha).ln(),
            unit: Unit::LogEvidence,
            requests: canary.requests,
            min_requests: SHARE_TEST_REQUESTS,
            stable: None,
        })
    }

    fn run_check(&self, limit: u64, requests: u64) -> CheckView {
        let errors = self.traffic.longest_error_run();
        CheckView {
            name: "consecutiveErrors".to_owned(),
            verdict: match () {
                () if errors >= limit => Verdict::Fail,
                // Fewer than could ever be too many say nothing yet.
                () if requests >= limit => Verdict::Pass,
                () => Verdict::NoData,
            },
            value: Some(count(errors)),
            limit: count(limit),
            unit: Unit::Count,
            requests,
            min_requests: limit,
            stable: None,
        }
    }
}

fn verdict(counts: Counts, min_requests: u64, over: Option<bool>) -> Verdict {
    match over {
        Some(true) if counts.requests >= min_requests.max(1) => Verdict::Fail,
        Some(false) if counts.requests >= min_requests.max(1) => Verdict::Pass,
        _ => Verdict::NoData,
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^53")]
const fn count(number: u64) -> f64 {
    number as f64
}

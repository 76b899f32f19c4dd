//! The one place that says when a metric is measured next. Judges nothing.
//! Measurements keep to the schedule that begins with the run, so slow or late ones do not push the later ones back.

use std::time::Duration;

use super::{
    measurement::Verdict,
    template::{MetricPlan, Provider},
};
use crate::engine::time::Timestamp;

/// How long after an error or a measurement without requests the next one is tried, unless the interval is shorter. Who
/// is asked outside gets all of it after an error, however short the interval: an outage must not use up the patience
/// with it faster than in Argo Rollouts.
pub const RETRY: Duration = Duration::from_secs(10);
/// Intervals below this would measure the same traffic again and again.
const INTERVAL_MIN: Duration = Duration::from_millis(100);

/// The latest measurement of a metric, as far as the next one depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Latest {
    /// When it was due.
    pub(super) due: Timestamp,
    /// What came of it.
    pub(super) verdict: Verdict,
}

/// When a metric that is not over is due: now when not after now.
pub(super) fn due(plan: &MetricPlan, run_started: Timestamp, latest: Option<Latest>) -> Timestamp {
    match latest {
        None => run_started + plan.initial_delay,
        Some(Latest { due, verdict }) => due + pace(plan, verdict),
    }
}

/// What is remembered of a measurement that was due at `due` and was taken at `now`. Missed measurements are left out,
/// not caught up with.
pub(super) fn taken(plan: &MetricPlan, due: Timestamp, now: Timestamp, verdict: Verdict) -> Latest {
    let pace = u64::try_from(pace(plan, verdict).as_millis()).unwrap_or(u64::MAX).max(1);
    let late = u64::try_from(now.since(due).as_millis()).unwrap_or(u64::MAX);
    Latest { due: due + Duration::from_millis(late - late % pace), verdict }
}

/// From the start of a run that goes on from another one to its first measurement.
pub(super) fn pace_after(plan: &MetricPlan) -> Duration {
    pace(plan, Verdict::Successful)
}

fn pace(plan: &MetricPlan, verdict: Verdict) -> Duration {
    let interval = plan.interval.unwrap_or(RETRY).max(INTERVAL_MIN);
    match (verdict, &plan.provider) {
        (Verdict::Error, Provider::Outside { .. }) => RETRY,
        (Verdict::Error | Verdict::NoData, _) => interval.min(RETRY),
        (Verdict::Successful | Verdict::Failed | Verdict::Inconclusive, _) => interval,
    }
}

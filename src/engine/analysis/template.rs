//! What is to be measured and how it is judged. Checked when parsed; nothing here can fail later.

use std::time::Duration;

use super::{
    ask::{Ask, Text},
    condition::Condition,
    run::AnalysisPhase,
};
use crate::engine::names::VersionName;

/// An AnalysisTemplate with its arguments filled in.
#[derive(Debug, Clone, PartialEq)]
pub struct Template {
    /// Its name.
    pub name: String,
    /// The arguments, in scope of conditions as `args`; built-in names in them are filled in at each measurement.
    pub args: Vec<(String, Text)>,
    /// At least one; names unique.
    pub metrics: Vec<MetricPlan>,
    /// How long the record of a run stays after its end.
    pub ttl: TimeToLive,
}

/// `ttlStrategy`: how long the record of a run stays after its end. Without a word of it the record stays until newer ones
/// take its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TimeToLive {
    /// However it ended, unless one of the others says it.
    pub after_completion: Option<Duration>,
    /// When it was Successful.
    pub after_success: Option<Duration>,
    /// When it Failed.
    pub after_failure: Option<Duration>,
}

impl TimeToLive {
    /// For a run that ended so: the specific goes before the general, as in Argo Rollouts.
    #[must_use]
    pub fn after(self, phase: AnalysisPhase) -> Option<Duration> {
        let specific = match phase {
            AnalysisPhase::Successful => self.after_success,
            AnalysisPhase::Failed => self.after_failure,
            _ => None,
        };
        specific.or(self.after_completion)
    }
}

/// One metric. Defaults and verdicts as in Argo Rollouts, save that no data is its own answer.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricPlan {
    /// Its name.
    pub name: String,
    /// Between measurements, from schedule; one measurement without.
    pub interval: Option<Duration>,
    /// From the run's start to the first measurement.
    pub initial_delay: Duration,
    /// Measurements that are not Error; endless with an interval and no count, one without both.
    pub count: Option<u32>,
    /// A measurement is Successful when this is true.
    pub success: Option<Condition>,
    /// A measurement is Failed when this is true.
    pub failure: Option<Condition>,
    /// Failed when more failures than this; none: failures alone never decide.
    pub failure_limit: Option<u32>,
    /// Failed when more failures in a row than this; none: a row is no matter.
    pub consecutive_failure_limit: Option<u32>,
    /// Inconclusive when more inconclusive ones than this.
    pub inconclusive_limit: u32,
    /// Error when more errors in a row than this.
    pub consecutive_error_limit: u32,
    /// Successful at so many successes in a row; zero is off.
    pub consecutive_success_limit: u32,
    /// Measured and shown, but decides nothing.
    pub dry_run: bool,
    /// So many measurements are kept.
    pub retention: usize,
    /// Whom to ask.
    pub provider: Provider,
}

/// Who answers.
#[derive(Debug, Clone, PartialEq)]
pub enum Provider {
    /// Serin's own measurements.
    Serin {
        /// Of which version.
        version: Arm,
        /// Over this time, never past the last weight change.
        window: Duration,
    },
    /// Somebody else.
    Outside {
        /// Whom and what.
        ask: Box<Ask>,
        /// How long an answer is waited for.
        timeout: Duration,
    },
}

/// A version by role or name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Arm {
    /// The canary.
    Canary,
    /// The stable version.
    Stable,
    /// A version by name.
    Named(VersionName),
}

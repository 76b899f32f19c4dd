//! What is to be measured and how it is judged. Checked when parsed; nothing here can fail later.

use std::time::Duration;

use super::{
    ask::{Ask, Text},
    condition::Condition,
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

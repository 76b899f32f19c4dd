//! One AnalysisRun: its measurements, its counts, its verdict.

use super::template::{Arm, Template};
use crate::engine::{stats::window::Summary, time::Timestamp};
use std::time::Duration;

/// Where a run, a metric or a measurement stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AnalysisPhase {
    /// Still measuring.
    Running,
    /// Judged good.
    Successful,
    /// Judged bad.
    Failed,
    /// Could not be measured or judged.
    Error,
    /// Neither good nor bad.
    Inconclusive,
}

/// A run of one or more templates.
#[derive(Debug, Clone, PartialEq)]
pub struct AnalysisRun {}

impl AnalysisRun {
    /// Starts a run at `now`.
    #[must_use]
    pub fn start(_templates: &[Template], _now: Timestamp) -> Self {
        todo!()
    }

    /// Takes all measurements that are due. `read` gives a version's summary over a window (an empty one without traffic).
    pub fn advance(&mut self, _now: Timestamp, _read: &dyn Fn(&Arm, Duration) -> Summary) {
        todo!()
    }

    /// Where the run stands.
    #[must_use]
    pub fn phase(&self) -> AnalysisPhase {
        todo!()
    }

    /// When the next measurement is due; none when the run is over.
    #[must_use]
    pub fn deadline(&self) -> Option<Timestamp> {
        todo!()
    }

    /// The metric that decided a Failed, Error or Inconclusive run, and why in words with value and sample size.
    #[must_use]
    pub fn deciding(&self) -> Option<(String, String)> {
        todo!()
    }

    /// Each metric with where it stands, in words, e.g. `2 of 3 measured, last 184 ms: Successful` or `no requests yet`.
    #[must_use]
    pub fn progress(&self) -> Vec<(String, String)> {
        todo!()
    }
}

//! One AnalysisRun: its metrics, its verdict. Measures when told the time, and knows nothing of rollouts.

use std::{collections::VecDeque, time::Duration};

use super::{
    measurement::Measurement,
    metric::Metric,
    template::{Arm, Template},
};
use crate::engine::{stats::window::Summary, time::Timestamp};

/// Where a run or a metric stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AnalysisPhase {
    /// Still measuring, or waiting for requests.
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
///
/// Running until every metric is over, but as soon as one is Failed, Error or Inconclusive the run ends with it:
/// metrics that broke no limit so far are Successful then, and those never measured are left out.
#[derive(Debug, Clone, PartialEq)]
pub struct AnalysisRun {
    started: Timestamp,
    metrics: Vec<Metric>,
}

impl AnalysisPhase {
    /// The word for messages.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "Running",
            Self::Successful => "Successful",
            Self::Failed => "Failed",
            Self::Error => "Error",
            Self::Inconclusive => "Inconclusive",
        }
    }

    /// The worst of several is the one with the largest number; as in Argo, going on is worse than having passed.
    const fn badness(self) -> u8 {
        match self {
            Self::Successful => 0,
            Self::Running => 1,
            Self::Inconclusive => 2,
            Self::Error => 3,
            Self::Failed => 4,
        }
    }

    const fn is_bad(self) -> bool {
        self.badness() > Self::Running.badness()
    }
}

impl AnalysisRun {
    /// Starts a run at `now`.
    #[must_use]
    pub fn start(templates: &[Template], now: Timestamp) -> Self {
        let metrics = templates
            .iter()
            .flat_map(|template| template.metrics.iter().map(|plan| Metric::new(plan.clone(), template.args.clone())));
        Self { started: now, metrics: metrics.collect() }
    }

    /// Takes all measurements that are due. `read` gives a version's summary over a window (an empty one without traffic).
    pub fn advance(&mut self, now: Timestamp, read: &dyn Fn(&Arm, Duration) -> Summary) {
        if self.phase() != AnalysisPhase::Running {
            return;
        }
        for metric in &mut self.metrics {
            if let Some(due) = metric.due(self.started).filter(|due| *due <= now) {
                metric.take(due, now, read);
            }
        }
        if self.metrics.iter().any(|metric| metric.phase().is_bad()) {
            self.metrics.retain_mut(Metric::wind_down);
        }
    }

    /// Where the run stands.
    #[must_use]
    pub fn phase(&self) -> AnalysisPhase {
        let phases = self.metrics.iter().map(Metric::phase);
        phases.max_by_key(|phase| phase.badness()).unwrap_or(AnalysisPhase::Successful)
    }

    /// When the next measurement is due, which may be past; none when the run is over.
    #[must_use]
    pub fn deadline(&self) -> Option<Timestamp> {
        self.metrics.iter().filter_map(|metric| metric.due(self.started)).min()
    }

    /// Since when at least one metric has been waiting for requests; none when each got some at its latest measurement.
    #[must_use]
    pub fn waiting_since(&self) -> Option<Timestamp> {
        self.metrics.iter().filter_map(Metric::waiting_since).min()
    }

    /// The metric that decided a Failed, Error or Inconclusive run, and why in words with value and sample size.
    #[must_use]
    pub fn deciding(&self) -> Option<(String, String)> {
        let phase = Some(self.phase()).filter(|phase| phase.is_bad())?;
        let metric = self.metrics.iter().find(|metric| metric.phase() == phase)?;
        Some((metric.name().to_owned(), metric.message().to_owned()))
    }

    /// Each metric with where it stands, in words, e.g. `2 of 3 measured, last result.p95 = 184.0 ms: Successful` or
    /// `0 of 3 measured, waiting: no canary requests yet`.
    #[must_use]
    pub fn progress(&self) -> Vec<(String, String)> {
        self.metrics.iter().map(|metric| (metric.name().to_owned(), metric.progress())).collect()
    }

    /// Each metric with its latest measurements, oldest first, at most
    /// [`MEASUREMENTS_KEPT`](super::MEASUREMENTS_KEPT) of each.
    pub fn measurements(&self) -> impl Iterator<Item = (&str, &VecDeque<Measurement>)> {
        self.metrics.iter().map(|metric| (metric.name(), metric.recent()))
    }
}

#[cfg(test)]
mod tests;

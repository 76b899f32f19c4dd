//! What a version did lately: sub-windows of samples in a ring, summed on demand. Cut at weight changes by its owner.

use std::time::Duration;

use crate::engine::{samples::Counts, stats::latency::LatencyCounts, time::Timestamp};

/// The latest samples of one version, in sub-windows of a second, bounded.
#[derive(Debug, Clone, Default)]
pub struct Windows {}

/// What happened in a window.
#[derive(Debug, Clone)]
pub struct Summary {
    /// Finished requests and errors.
    pub counts: Counts,
    /// How far back it reaches.
    pub span: Duration,
}

impl Windows {
    /// Adds what was drained at `at`. Times never run backwards.
    pub fn add(&mut self, _at: Timestamp, _counts: Counts, _latency: &LatencyCounts) {
        todo!()
    }

    /// Forgets everything: the weight has changed.
    pub fn clear(&mut self, _now: Timestamp) {
        todo!()
    }

    /// Sums what lies within `window` before `now`, or reaches further back until there are `at_least` requests.
    #[must_use]
    pub fn last(&self, _now: Timestamp, _window: Duration, _at_least: u64) -> Summary {
        todo!()
    }
}

impl Summary {
    /// The latency that this share of requests did not exceed; none without requests.
    #[must_use]
    pub fn quantile(&self, _share: f64) -> Option<Duration> {
        todo!()
    }

    /// Mean latency; none without requests.
    #[must_use]
    pub fn mean(&self) -> Option<Duration> {
        todo!()
    }

    /// Largest latency; none without requests.
    #[must_use]
    pub fn max(&self) -> Option<Duration> {
        todo!()
    }

    /// Requests a second over the span; 0 for an empty span.
    #[must_use]
    pub fn rps(&self) -> f64 {
        todo!()
    }
}

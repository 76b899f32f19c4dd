//! Facts about traffic, as `measure` drains them: what was added since the last drain, never totals.

use std::{sync::Arc, time::Duration};

use super::{
    endpoint::Instance,
    names::{Generation, ServiceName, VersionName},
    split::Bucket,
    stats::latency::LatencyCounts,
};

/// Everything that was measured since the last drain.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Samples {
    /// One entry for each version and weight generation with news.
    pub slots: Vec<SlotSamples>,
    /// One entry for each version whose endpoints are watched.
    pub endpoints: Vec<EndpointSamples>,
}

/// The endpoints of one version, and what was seen of them since the last drain.
#[derive(Debug, Clone, PartialEq)]
pub struct EndpointSamples {
    /// Whose.
    pub service: ServiceName,
    /// Which version.
    pub version: VersionName,
    /// All that are known now: what the names' addresses are. The same object while nothing changes.
    pub known: Arc<[Instance]>,
    /// Those of them with news.
    pub news: Vec<InstanceSamples>,
}

/// What was seen of one instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstanceSamples {
    /// Which.
    pub instance: Instance,
    /// How its health checks ended, in order; why, where they failed.
    pub checks: Vec<Result<(), Arc<str>>>,
    /// How often it failed as many requests in a row as `ejection` names.
    pub error_runs: u64,
    /// How the last of them failed, as a word of `measure`.
    pub last_error: &'static str,
}

/// What one version did in one weight generation since the last drain, over all workers.
/// A request belongs to the generation in which it was routed, whenever it ends.
#[derive(Debug, Clone, PartialEq)]
pub struct SlotSamples {
    /// Whose.
    pub service: ServiceName,
    /// Which version.
    pub version: VersionName,
    /// The weight generation at routing.
    pub weight_generation: Generation,
    /// Finished requests that were routed by an independent draw.
    pub sampled: Counts,
    /// Finished requests that were routed by a sticky bucket.
    pub sticky: Counts,
    /// The buckets of sticky requests that failed, in any order, one for each failure.
    pub sticky_failed: FailedBuckets,
    /// Latencies of both, to the response head. Requests without a response count at the time they were given up.
    pub latency: LatencyCounts,
    /// The longest run of errors that any one worker has seen in this slot, since the slot began.
    pub longest_error_run: u64,
    /// How long the slowest of its new failures took, rounded up by at most half; zero where none took longer than a
    /// second.
    pub slowest_failure: Duration,
}

/// Whose sticky requests failed: what a client that keeps failing amounts to is one failure, not many.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FailedBuckets {
    /// One for each failure that was kept.
    pub buckets: Vec<Bucket>,
    /// Whether there were more failures than are kept between two drains.
    pub is_incomplete: bool,
}

/// Finished requests and the bad ones among them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Finished and counted.
    pub requests: u64,
    /// The version's failures among them; never more than `requests`.
    pub errors: u64,
}

impl Counts {
    /// Share of errors; none without requests.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^53")]
    pub fn error_rate(self) -> Option<f64> {
        (self.requests > 0).then(|| self.errors as f64 / self.requests as f64)
    }
}

impl std::ops::Add for Counts {
    type Output = Self;
    /// Saturates: counts come from outside.
    fn add(self, other: Self) -> Self {
        Self {
            requests: self.requests.saturating_add(other.requests),
            errors: self.errors.saturating_add(other.errors),
        }
    }
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

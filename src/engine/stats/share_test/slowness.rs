//! What "slow" means: thresholds from stable's own latencies, five of them, and the counting of requests beyond them.
//! Refuses to guess: a level without enough of stable's requests has no threshold, and gives no evidence.

use std::time::Duration;

use crate::engine::{
    plan::LatencyTolerance,
    samples::Counts,
    stats::{
        latency::{LatencyCounts, bucket_of, upper_edge},
        window::Summary,
    },
};

/// Number of thresholds.
pub const LEVELS: usize = 5;

/// One threshold: which of stable's quantiles, times what, and what it is called.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Level {
    /// As words and labels have it.
    pub name: &'static str,
    quantile: f64,
    factor: u32,
    /// The share of stable's requests that is beyond it by its definition.
    pub(in crate::engine::stats) nominal: f64,
    /// How many of stable's requests it takes to know the quantile.
    requests: u64,
    /// How many tolerances a canary that is promoted early may be slower by: the far tail takes too many requests to prove.
    margin: u32,
}

/// The five: from the everyday request to the one that hangs.
pub const ALL: [Level; LEVELS] = [
    Level { name: "p50", quantile: 0.5, factor: 1, nominal: 0.5, requests: 200, margin: 1 },
    Level { name: "p90", quantile: 0.9, factor: 1, nominal: 0.1, requests: 200, margin: 1 },
    Level { name: "p95", quantile: 0.95, factor: 1, nominal: 0.05, requests: 1_000, margin: 1 },
    Level { name: "p99", quantile: 0.99, factor: 1, nominal: 0.01, requests: 1_000, margin: 2 },
    Level { name: "2xp99", quantile: 0.99, factor: 2, nominal: 0.001, requests: 1_000, margin: 2 },
];

/// Beyond what a request is slow, by level; known before the requests that are judged by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Thresholds([Option<Edges>; LEVELS]);

/// Slow is a latency in a bucket above these: stable's, and the canary's. The canary's edge is rounded up where harm is
/// asked about, and down where safety is, so that tolerance is never less than asked there, and never more here. For safety
/// both edges lie a bucket lower: a service that always takes equally long must have requests that are slow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Edges {
    harm: (usize, usize),
    safety: (usize, usize),
}

impl Thresholds {
    /// From stable's latencies of late. A level that they do not suffice for keeps its former threshold: any threshold
    /// that was fixed before is valid, a fresh one is sharper.
    #[must_use]
    pub fn renewed(self, stable: &Summary, tolerance: LatencyTolerance) -> Self {
        let mut renewed = self;
        for (edges, level) in renewed.0.iter_mut().zip(&ALL) {
            let quantile = Some(stable).filter(|seen| seen.counts.requests >= level.requests);
            let Some(quantile) = quantile.and_then(|seen| seen.quantile(level.quantile)) else { continue };
            let at = quantile * level.factor;
            let tolerated = |at: Duration| at.mul_f64(tolerance.relative).saturating_add(tolerance.absolute);
            let bucket = bucket_of(at);
            let below = bucket.saturating_sub(1);
            let margin = tolerated(upper_edge(below)) * level.margin;
            *edges = Some(Edges {
                harm: (bucket, bucket_of(at.saturating_add(tolerated(at)))),
                safety: (below, bucket_of(upper_edge(below).saturating_add(margin)).saturating_sub(1)),
            });
        }
        renewed
    }

    /// Beyond what a canary request is slow at this level; none while it is not known.
    #[must_use]
    pub fn of_canary(&self, level: usize) -> Option<Duration> {
        Some(upper_edge((*self.0.get(level)?)?.harm.1))
    }

    /// Requests and the slow ones among them at this level, the canary's and stable's; none while it is not known.
    #[must_use]
    pub fn count(&self, level: usize, canary: &LatencyCounts, stable: &LatencyCounts) -> Option<(Counts, Counts)> {
        let (of_stable, of_canary) = (*self.0.get(level)?)?.harm;
        Some((beyond(of_canary, canary), beyond(of_stable, stable)))
    }

    /// The same for the question whether the canary is safe.
    #[must_use]
    pub fn count_for_safety(
        &self,
        level: usize,
        canary: &LatencyCounts,
        stable: &LatencyCounts,
    ) -> Option<(Counts, Counts)> {
        let (of_stable, of_canary) = (*self.0.get(level)?)?.safety;
        Some((beyond(of_canary, canary), beyond(of_stable, stable)))
    }
}

fn beyond(edge: usize, latencies: &LatencyCounts) -> Counts {
    let mut counts = Counts::default();
    for &(bucket, count) in &latencies.0 {
        let is_slow = usize::from(bucket) > edge;
        counts += Counts { requests: count, errors: if is_slow { count } else { 0 } };
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn milliseconds(ms: u64, times: u64) -> (u16, u64) {
        (u16::try_from(bucket_of(Duration::from_millis(ms))).unwrap(), times)
    }

    fn stable(requests: u64) -> Summary {
        let latency = LatencyCounts(vec![milliseconds(10, requests * 98 / 100), milliseconds(100, requests * 2 / 100)]);
        Summary::new(Counts { requests, errors: 0 }, Duration::from_mins(1), latency)
    }

    const TOLERANCE: LatencyTolerance = LatencyTolerance { relative: 0.2, absolute: Duration::from_millis(10) };

    #[test]
    fn a_level_is_known_only_from_enough_of_stables_requests_and_then_kept() {
        let none = Thresholds::default();
        assert_eq!(none.renewed(&stable(100), TOLERANCE), none);
        let some = none.renewed(&stable(200), TOLERANCE);
        assert!(some.of_canary(0).is_some() && some.of_canary(1).is_some());
        assert!(some.of_canary(2).is_none() && some.of_canary(4).is_none());
        let all = some.renewed(&stable(1_000), TOLERANCE);
        assert!((0..LEVELS).all(|level| all.of_canary(level).is_some()));
        assert_eq!(all.renewed(&stable(0), TOLERANCE), all);
        assert!(all.of_canary(LEVELS).is_none());
    }

    #[test]
    fn the_canary_may_be_slower_by_the_tolerance_and_never_by_less() {
        let thresholds = Thresholds::default().renewed(&stable(1_000), TOLERANCE);
        let canary = LatencyCounts(vec![milliseconds(22, 7), milliseconds(24, 5), milliseconds(300, 1)]);
        let (canary, stable) =
            thresholds.count(0, &canary, &LatencyCounts(vec![milliseconds(10, 9), milliseconds(11, 4)])).unwrap();
        assert_eq!(canary, Counts { requests: 13, errors: 6 }, "22 ms is 10 ms and a fifth and 10 ms");
        assert_eq!(stable, Counts { requests: 13, errors: 4 });
    }
}

//! Latency buckets: 32 to the octave over 1 µs to 134 s, so a bucket is at most 3.2 % wide.
//! Workers count in them, the engine turns them into hdrhistogram for quantiles.

use std::time::Duration;

/// Buckets below this value are one microsecond wide.
const LINEAR: u64 = 64;
/// Sub-buckets to the octave above.
const SUB: u64 = 32;
/// Number of buckets.
pub const BUCKETS: usize = 736;

/// Added counts by bucket, sparse, in rising order of bucket.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LatencyCounts(pub Vec<(u16, u64)>);

impl LatencyCounts {
    /// One for each of these buckets, which are sorted on the way.
    #[must_use]
    pub fn of(buckets: &mut [u16]) -> Self {
        buckets.sort_unstable();
        let runs = buckets.chunk_by(PartialEq::eq);
        Self(runs.filter_map(|run| run.first().map(|bucket| (*bucket, run.len() as u64))).collect())
    }
}

/// The bucket of a latency; all beyond the last one fall into the last one.
#[must_use]
#[expect(clippy::cast_possible_truncation, reason = "bounded by BUCKETS")]
pub fn bucket_of(latency: Duration) -> usize {
    let us = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
    if us < LINEAR {
        return us as usize;
    }
    let shift = u64::from(us.ilog2()) - 5;
    let bucket = shift * SUB + (us >> shift);
    (bucket as usize).min(BUCKETS - 1)
}

/// The largest latency that falls into a bucket.
#[must_use]
pub fn upper_edge(bucket: usize) -> Duration {
    let bucket = bucket as u64;
    if bucket < LINEAR {
        return Duration::from_micros(bucket);
    }
    let shift = bucket / SUB - 1;
    let sub = bucket % SUB + SUB;
    Duration::from_micros(((sub + 1) << shift) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_latency_is_within_its_bucket_and_at_most_a_32nd_below_its_edge() {
        for us in (0..5_000).chain((5_000..120_000_000).step_by(977)) {
            let bucket = bucket_of(Duration::from_micros(us));
            let edge = u64::try_from(upper_edge(bucket).as_micros()).unwrap();
            assert!(edge >= us, "{us} in {bucket} ends at {edge}");
            assert!(edge - us <= us / 32, "{us} in {bucket} ends at {edge}");
            if bucket > 0 {
                assert!(upper_edge(bucket - 1) < Duration::from_micros(us));
            }
        }
    }

    #[test]
    fn beyond_the_last_bucket_nothing_is_lost() {
        assert_eq!(bucket_of(Duration::MAX), BUCKETS - 1);
        assert!(upper_edge(BUCKETS - 1) > Duration::from_mins(2));
    }
}

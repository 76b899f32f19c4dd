//! Whose sticky requests failed, from one worker to the reader: the latest few, in a ring with one writer.
//! No lock and no read-modify-write; what does not fit is said to be missing, never made up.

use std::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

use crate::engine::{samples::FailedBuckets, split::Bucket};

/// Failures that are kept between two drains. A service that fails more in a tenth of a second is seen by other means.
const KEPT: usize = 128;

/// The ring. Only the owning worker may add.
#[derive(Debug)]
pub struct FailedRing {
    buckets: Box<[AtomicU32; KEPT]>,
    written: AtomicU64,
}

impl Default for FailedRing {
    fn default() -> Self {
        Self { buckets: Box::new(std::array::from_fn(|_| AtomicU32::new(0))), written: AtomicU64::new(0) }
    }
}

impl FailedRing {
    /// Keeps one more failure, in place of the oldest one. Only the owning worker may call this.
    pub fn add(&self, bucket: Bucket) {
        let written = self.written.load(Relaxed);
        self.cell(written).store(bucket.number(), Relaxed);
        self.written.store(written.wrapping_add(1), Release);
    }

    /// All additions so far.
    pub fn total(&self) -> u64 {
        self.written.load(Acquire)
    }

    /// What was added since `seen` additions, which is brought up to date.
    pub fn since(&self, seen: &mut u64) -> FailedBuckets {
        let written = self.written.load(Acquire);
        let news = written.wrapping_sub(*seen);
        let kept = news.min(KEPT as u64);
        let first = written.wrapping_sub(kept);
        *seen = written;
        let numbers = (0..kept).map(|at| self.cell(first.wrapping_add(at)).load(Relaxed));
        // A cell that is written over while it is read gives a later failure, which is then seen twice: harmless, since one
        // client counts once.
        FailedBuckets { buckets: numbers.filter_map(Bucket::new).collect(), is_incomplete: news > kept }
    }

    #[expect(clippy::cast_possible_truncation, reason = "the remainder is under KEPT")]
    fn cell(&self, at: u64) -> &AtomicU32 {
        &self.buckets[(at % KEPT as u64) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(failed: &FailedBuckets) -> Vec<u32> {
        failed.buckets.iter().map(|bucket| bucket.number()).collect()
    }

    #[test]
    fn each_failure_is_told_once_and_too_many_are_owned_up_to() {
        let ring = FailedRing::default();
        let mut seen = 0;
        assert_eq!(ring.since(&mut seen), FailedBuckets::default());
        for number in [7, 7, 999_999] {
            ring.add(Bucket::new(number).unwrap());
        }
        let failed = ring.since(&mut seen);
        assert_eq!((numbers(&failed), failed.is_incomplete), (vec![7, 7, 999_999], false));
        assert!(ring.since(&mut seen).buckets.is_empty());
        for number in 0..300 {
            ring.add(Bucket::new(number).unwrap());
        }
        let failed = ring.since(&mut seen);
        assert!(failed.is_incomplete);
        assert_eq!(numbers(&failed), (172..300).collect::<Vec<_>>(), "the latest are kept");
    }
}

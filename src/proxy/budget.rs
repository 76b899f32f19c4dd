//! How many retries a version's requests may cause on one worker: a share of the requests of a second, so that a
//! version that fails everything is not sent a multiple of its traffic; a few are always allowed.

use std::cell::Cell;

use super::deadline::Coarse;
use crate::engine::weight::Weight;

/// Retries a second that need no share.
const ALWAYS: u64 = 10;
/// One second, in the milliseconds of the coarse clock.
const WINDOW: std::time::Duration = std::time::Duration::from_secs(1);

/// A version's requests and retries of late.
#[derive(Debug)]
pub(super) struct Budget {
    until: Cell<Coarse>,
    requests: Cell<u64>,
    requests_before: Cell<u64>,
    retries: Cell<u64>,
}

impl Budget {
    pub(super) fn new(now: Coarse) -> Self {
        Self {
            until: Cell::new(now.after(WINDOW)),
            requests: Cell::default(),
            requests_before: Cell::default(),
            retries: Cell::default(),
        }
    }

    /// Counts a request.
    pub(super) fn request(&self, now: Coarse) {
        self.turn(now);
        self.requests.set(self.requests.get() + 1);
    }

    /// Whether one more retry is within `share` of the requests; if so, it is counted.
    pub(super) fn retry(&self, share: Weight, now: Coarse) -> bool {
        self.turn(now);
        let requests = self.requests.get().max(self.requests_before.get());
        let allowed = requests.saturating_mul(u64::from(share.ppm())) / u64::from(Weight::FULL.ppm());
        let is_within = self.retries.get() < allowed.max(ALWAYS);
        if is_within {
            self.retries.set(self.retries.get() + 1);
        }
        is_within
    }

    fn turn(&self, now: Coarse) {
        if now >= self.until.get() {
            // Of a second that is over for long nothing is known.
            let is_next = now < self.until.get().after(WINDOW);
            self.requests_before.set(if is_next { self.requests.get() } else { 0 });
            self.requests.set(0);
            self.retries.set(0);
            self.until.set(now.after(WINDOW));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Coarse = Coarse::ZERO;

    fn at(millis: u64) -> Coarse {
        START.after(std::time::Duration::from_millis(millis))
    }

    #[test]
    fn a_version_that_fails_everything_gets_a_fifth_more_and_no_multiple() {
        let budget = Budget::new(START);
        let fifth = Weight::from_ppm(200_000).unwrap();
        let mut retries = 0;
        for millis in (0..10_000).step_by(2) {
            budget.request(at(millis));
            retries += (0..3).filter(|_| budget.retry(fifth, at(millis))).count();
        }
        assert!((900..=1_000).contains(&retries), "{retries} retries of 5,000 requests");
    }

    #[test]
    fn where_there_is_little_traffic_a_few_are_allowed_all_the_same() {
        let budget = Budget::new(START);
        budget.request(START);
        assert_eq!((0..100).filter(|_| budget.retry(Weight::ZERO, START)).count(), 10);
        assert!(budget.retry(Weight::ZERO, at(1_000)), "and again in the next second");
    }
}

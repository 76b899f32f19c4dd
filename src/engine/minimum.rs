//! How many canary requests each check needs before it can tell anything, and so how long a plan takes at a given traffic.

use std::time::Duration;

use super::{
    plan::{Guard, Pause, Step, Strategy},
    weight::Weight,
};

/// Requests without which the share test has not had its chance: three errors of twenty already tell at small shares,
/// and none of none tells nothing.
pub const SHARE_TEST_REQUESTS: u64 = 20;

/// The hold that needs the most traffic to end when its time is over.
#[derive(Debug, Clone, PartialEq)]
pub struct SlowHold {
    /// Which step, as people count them.
    pub step: usize,
    /// The canary's share in it.
    pub weight: Weight,
    /// How long it holds at least.
    pub hold: Duration,
    /// Who needs the most requests, e.g. `p99`.
    pub check: String,
    /// So many of the canary.
    pub requests: u64,
}

impl Guard {
    /// Each check with the canary requests it needs.
    pub fn minimums(&self) -> impl Iterator<Item = (String, u64)> {
        let errors = self.error_rate.iter().map(|limit| ("errorRate".to_owned(), limit.min_requests));
        let latency = self.latency.iter().map(|limit| (quantile_name(limit.quantile), limit.min_requests));
        let shares = self.share_test.iter().map(|_| ("versusStable".to_owned(), SHARE_TEST_REQUESTS));
        let run = Some(self.consecutive_errors).filter(|limit| *limit > 0);
        let run = run.map(|limit| ("consecutiveErrors".to_owned(), limit));
        // Of several that need as many, the last one is named: the one that says the most.
        errors.chain(latency).chain(run).chain(shares)
    }
}

impl Strategy {
    /// The hold that is the first to last longer than its time when traffic is low; none where nothing is waited for.
    #[must_use]
    pub fn slow_hold(&self) -> Option<SlowHold> {
        let (check, requests) = self.guard.minimums().max_by_key(|(_, need)| *need)?;
        let mut weight = Weight::ZERO;
        let mut slow: Option<SlowHold> = None;
        for (at, step) in self.steps.iter().enumerate() {
            match step {
                Step::SetWeight(set) => weight = *set,
                Step::Pause(Pause::For(hold)) if weight > Weight::ZERO => {
                    let check = check.clone();
                    let one = SlowHold { step: self.number(at), weight, hold: *hold, check, requests };
                    if slow.as_ref().is_none_or(|slow| one.rate() > slow.rate()) {
                        slow = Some(one);
                    }
                }
                _ => {}
            }
        }
        slow
    }
}

impl SlowHold {
    /// Below so many requests a second, both versions together, it lasts longer than its time.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.of_all() / self.hold.as_secs_f64()
    }

    /// How long it lasts at so many requests a second.
    #[must_use]
    pub fn takes(&self, rate: f64) -> Duration {
        Duration::try_from_secs_f64(self.of_all() / rate).unwrap_or(Duration::MAX).max(self.hold)
    }

    /// Requests of both versions until the canary has had its own.
    #[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^53")]
    fn of_all(&self) -> f64 {
        self.requests as f64 / self.weight.ratio()
    }
}

/// `p99` for 0.99, `p999` for 0.999, as the short form writes them.
#[must_use]
pub fn quantile_name(quantile: f64) -> String {
    let digits = format!("{quantile:.6}");
    let digits = digits.trim_start_matches("0.").trim_end_matches('0');
    format!("p{digits:0<2}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_named_as_people_say_them() {
        for (quantile, name) in [(0.5, "p50"), (0.9, "p90"), (0.95, "p95"), (0.99, "p99"), (0.999, "p999")] {
            assert_eq!(quantile_name(quantile), name);
        }
    }

    #[test]
    fn the_smallest_weight_with_the_shortest_hold_needs_the_most_traffic() {
        let hold = SlowHold {
            step: 1,
            weight: Weight::from_ppm(10_000).unwrap(),
            hold: Duration::from_mins(2),
            check: "p99".to_owned(),
            requests: 200,
        };
        assert!((hold.rate() - 166.666).abs() < 0.001, "{}", hold.rate());
        assert_eq!(hold.takes(10.0), Duration::from_secs(2_000));
        assert_eq!(hold.takes(1_000.0), hold.hold, "never shorter than its time");
        assert_eq!(hold.takes(0.0), Duration::MAX);
    }
}

//! Is the canary proven good enough for the next weight? The share test turned around: evidence that it is *within* a
//! margin, for errors and for three levels of slowness, all of which must be proven (an intersection-union test, so none
//! pays for the others). One for each step; no restarts, no cap. Whether a step then ends early is decided elsewhere.

use super::share_test::{
    News,
    bet::{self, Bet, Kind, SAFE_BETS, Seen, log_sum_exp},
    slowness::{ALL, Thresholds},
};

/// The levels that must be proven: the middle, the slow tenth, the slowest hundredth.
const LEVELS: [usize; 3] = [0, 1, 3];

/// What is to be proven in one step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Margin {
    /// Bound on the probability that a canary beyond the margin passes.
    pub alpha: f64,
    /// Tolerated ratio of error rates, at least 1.
    pub relative: f64,
    /// Tolerated difference of error rates.
    pub absolute: f64,
    /// Whether latency is to be proven too.
    pub latency: bool,
}

/// Evidence for the canary in one step.
#[derive(Debug, Clone, PartialEq)]
pub struct SafeTest {
    margin: Margin,
    errors: Evidence,
    slow: [Evidence; LEVELS.len()],
}

#[derive(Debug, Clone, PartialEq)]
struct Evidence {
    bets: [Bet; SAFE_BETS],
    values: [f64; SAFE_BETS],
}

impl SafeTest {
    /// At the beginning of a step.
    #[must_use]
    pub fn new(margin: Margin) -> Self {
        Self { margin, errors: Evidence::new(), slow: std::array::from_fn(|_| Evidence::new()) }
    }

    /// Adds finished requests of one canary share; slow is what `thresholds` said before they came.
    pub fn add(&mut self, news: &News, thresholds: &Thresholds) {
        let News { w, canary, stable, latency } = news;
        if !(*w > 0.0 && *w < 1.0) {
            return;
        }
        let Margin { relative, absolute, .. } = self.margin;
        self.errors.add(Kind::Share { relative, absolute }, &Seen { w: *w, canary: *canary, stable: *stable });
        let Some((canary, stable)) = latency.as_ref() else { return };
        for (evidence, at) in self.slow.iter_mut().zip(LEVELS) {
            let Some((canary, stable)) = thresholds.count_for_safety(at, canary, stable) else { continue };
            evidence.add(Kind::Odds { nominal: ALL[at].nominal }, &Seen { w: *w, canary, stable });
        }
    }

    /// The least evidence of all that must be proven, as a natural logarithm.
    #[must_use]
    pub fn log_e(&self) -> f64 {
        let slow = self.slow.iter().filter(|_| self.margin.latency).map(Evidence::log_e);
        slow.fold(self.errors.log_e(), f64::min)
    }

    /// What is to be proven.
    #[must_use]
    pub const fn margin(&self) -> &Margin {
        &self.margin
    }

    /// `ln(1/alpha)`.
    #[must_use]
    pub fn threshold(&self) -> f64 {
        -self.margin.alpha.ln()
    }

    /// Whether all is proven.
    #[must_use]
    pub fn is_proven(&self) -> bool {
        self.log_e() >= self.threshold()
    }
}

impl Evidence {
    fn new() -> Self {
        Self { bets: bet::safe(), values: [0.0; SAFE_BETS] }
    }

    fn add(&mut self, kind: Kind, seen: &Seen) {
        for (value, bet) in self.values.iter_mut().zip(&self.bets) {
            // A bet that has lost everything stays lost: minus infinity and anything is minus infinity.
            if *value > f64::NEG_INFINITY {
                *value += bet.factors(kind, seen.w).log_factor(seen.canary, seen.stable);
            }
        }
    }

    fn log_e(&self) -> f64 {
        let values: [f64; SAFE_BETS] = std::array::from_fn(|at| self.bets[at].log_prior + self.values[at]);
        log_sum_exp(&values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::samples::Counts;

    fn counts(requests: u64, errors: u64) -> Counts {
        Counts { requests, errors }
    }

    fn errors_only(absolute: f64) -> SafeTest {
        SafeTest::new(Margin { alpha: 0.05, relative: 1.25, absolute, latency: false })
    }

    fn news(canary: Counts, stable: Counts) -> News {
        News { w: 0.05, canary, stable, latency: None }
    }

    #[test]
    fn a_spotless_canary_is_proven_by_requests_alone_and_a_smaller_margin_takes_more() {
        let requests = |absolute| {
            let mut test = errors_only(absolute);
            let mut requests = 0;
            while !test.is_proven() {
                test.add(&news(counts(1, 0), counts(19, 0)), &Thresholds::default());
                requests += 1;
            }
            requests
        };
        let (wide, narrow) = (requests(0.02), requests(0.002));
        assert!((150..=230).contains(&wide), "{wide}");
        assert!((9 * wide..=11 * wide).contains(&narrow), "{narrow}");
    }

    #[test]
    fn a_canary_beyond_the_margin_is_not_proven() {
        let mut test = errors_only(0.002);
        for _ in 0..100 {
            test.add(&news(counts(100, 3), counts(1_900, 19)), &Thresholds::default());
        }
        assert!(!test.is_proven(), "{}", test.log_e());
        assert!(test.log_e() < 0.0 && !test.log_e().is_nan());
    }

    #[test]
    fn without_knowing_what_slow_is_nothing_is_proven_about_latency() {
        let mut test = SafeTest::new(Margin { alpha: 0.05, relative: 1.25, absolute: 0.02, latency: true });
        test.add(&news(counts(100_000, 0), counts(1_900_000, 0)), &Thresholds::default());
        assert!(!test.is_proven());
    }
}

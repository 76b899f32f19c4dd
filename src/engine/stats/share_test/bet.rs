//! The bets: how much each multiplies its value when bad requests come, and how much prior mass it has.
//! Pure arithmetic on counts; knows no time, and no rollout.

use crate::engine::samples::Counts;

/// Number of bets on harm.
pub(in crate::engine::stats) const BETS: usize = 22;
/// Number of bets on safety: the same grid downwards, and one on a canary without any bad request.
pub(in crate::engine::stats) const SAFE_BETS: usize = BETS + 1;
/// Bets are on a canary that is `2^exponent` times as bad (or as good) as tolerated.
const EXPONENTS: [f64; BETS] =
    [0.125, 0.25, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 5.5, 6.0, 6.5, 7.0, 7.5, 8.0, 8.5, 9.0, 9.5, 10.0];
/// The prior mass of the bet on a canary without any bad request.
const SPOTLESS: f64 = 0.2;

/// What "bad" means, and what is tolerated of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::engine::stats) enum Kind {
    /// The canary may have `relative` times stable's share of bad requests, plus `absolute`.
    Share {
        /// At least 1.
        relative: f64,
        /// At least 0.
        absolute: f64,
    },
    /// The canary may have as many bad requests as stable. Both labels count, so that nothing is lost where about
    /// `nominal` of the requests are bad anyway; a wrong `nominal` costs power, never validity.
    Odds {
        /// In `0.0..1.0`.
        nominal: f64,
    },
}

/// The requests of one tick and one canary share `w`, strictly between 0 and 1; `errors` are the bad ones, never more than
/// the requests.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::engine::stats) struct Seen {
    pub(in crate::engine::stats) w: f64,
    pub(in crate::engine::stats) canary: Counts,
    pub(in crate::engine::stats) stable: Counts,
}

/// One bet: that the canary is `theta` times as bad as tolerated.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::engine::stats) struct Bet {
    theta: f64,
    pub(in crate::engine::stats) log_prior: f64,
}

/// What one request of each kind adds to the logarithm of a bet's value, for one kind of metric and one share.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::engine::stats) struct Factors {
    bad_canary: f64,
    bad_stable: f64,
    good_canary: f64,
    good_stable: f64,
}

impl Bet {
    /// Its factors. Negative infinity only for a bad canary request and the bet on a spotless canary.
    ///
    /// With the fair share `phi = w rho / (w rho + 1 - w)` and `x = (1-phi)(theta-1)/(1+phi(theta-1))` a bad canary
    /// request multiplies by `theta/(1+phi(theta-1)) = 1+x`, a bad stable one by `1/(1+phi(theta-1)) = 1+y`, and each
    /// canary request by `exp(-delta x)`. Since `w rho x + (1-w) y = 0`, under `p_c <= rho p_s + delta` one request's
    /// expected factor is at most `w (1 + rho p_s x) + (1-w)(1 + p_s y) = 1`. Odds are a bet on both labels at once,
    /// bad by `psi/(1+p(psi-1))` and good by `1/(1+p(psi-1))`, each fair by the same argument.
    pub(in crate::engine::stats) fn factors(&self, kind: Kind, w: f64) -> Factors {
        match kind {
            Kind::Share { relative, absolute } => {
                let fair = w * relative / (w * relative + 1.0 - w);
                let excess = fair * (self.theta - 1.0);
                let tolerated = absolute * (1.0 - fair) * (self.theta - 1.0) / (1.0 + excess);
                let (bad_canary, bad_stable) = label(self.theta, fair);
                Factors { bad_canary: bad_canary - tolerated, bad_stable, good_canary: -tolerated, good_stable: 0.0 }
            }
            Kind::Odds { nominal } => {
                let norm = 1.0 + nominal * (self.theta - 1.0);
                let (bad_canary, bad_stable) = label(self.theta / norm, w);
                let (good_canary, good_stable) = label(1.0 / norm, w);
                Factors { bad_canary, bad_stable, good_canary, good_stable }
            }
        }
    }
}

impl Factors {
    /// Natural logarithm of the factor for what was seen.
    pub(in crate::engine::stats) fn log_factor(&self, canary: Counts, stable: Counts) -> f64 {
        // 0 times infinity is 0 here: the bet on none is not lost while there is none.
        let times = |of: u64, factor: f64| if of > 0 { count(of) * factor } else { 0.0 };
        times(canary.errors, self.bad_canary)
            + times(stable.errors, self.bad_stable)
            + times(canary.requests - canary.errors, self.good_canary)
            + times(stable.requests - stable.errors, self.good_stable)
    }
}

/// What a label adds for one request of the canary that has it, and for one of stable.
fn label(theta: f64, fair: f64) -> (f64, f64) {
    let both = -(fair * (theta - 1.0)).ln_1p();
    (theta.ln() + both, both)
}

/// Bets on harm with their prior, a bell over the exponents around 2 (four times as bad) on their uneven grid.
pub(in crate::engine::stats) fn harm() -> [Bet; BETS] {
    let weights = EXPONENTS.map(|exponent| spacing(exponent) * bell((exponent - 2.0) / 2.5));
    let total: f64 = weights.iter().sum();
    std::array::from_fn(|at| Bet { theta: EXPONENTS[at].exp2(), log_prior: (weights[at] / total).ln() })
}

/// Bets on safety, a bell around half as bad, and last the one on a canary without any bad request.
pub(in crate::engine::stats) fn safe() -> [Bet; SAFE_BETS] {
    let weights = EXPONENTS.map(|exponent| spacing(exponent) * bell((exponent - 1.0) / 2.0));
    let total: f64 = weights.iter().sum::<f64>() / (1.0 - SPOTLESS);
    std::array::from_fn(|at| match EXPONENTS.get(at) {
        Some(exponent) => Bet { theta: (-exponent).exp2(), log_prior: (weights[at] / total).ln() },
        None => Bet { theta: 0.0, log_prior: SPOTLESS.ln() },
    })
}

fn spacing(exponent: f64) -> f64 {
    match exponent {
        small if small < 0.2 => 0.25,
        small if small < 0.3 => 0.375,
        _ => 1.0,
    }
}

fn bell(off: f64) -> f64 {
    (-off * off / 2.0).exp()
}

#[expect(clippy::cast_precision_loss, reason = "a relative error of 1e-16 in a count changes no decision")]
pub(in crate::engine::stats) fn count(of: u64) -> f64 {
    of as f64
}

/// `ln(e^a + e^b)`, also for negative infinity.
pub(in crate::engine::stats) fn log_add_exp(a: f64, b: f64) -> f64 {
    let (large, small) = if a >= b { (a, b) } else { (b, a) };
    if large == f64::NEG_INFINITY { large } else { large + (small - large).exp().ln_1p() }
}

/// `ln` of the sum of `e^value`; negative infinity for none.
pub(in crate::engine::stats) fn log_sum_exp(values: &[f64]) -> f64 {
    let max = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if max == f64::NEG_INFINITY {
        return max;
    }
    max + values.iter().map(|value| (value - max).exp()).sum::<f64>().ln()
}

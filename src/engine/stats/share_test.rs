//! The share test: is the canary getting more than its fair share of the errors? Always valid under continuous looking.
//! Knows no time and no rollout: its owner ends ticks and begins epochs; what a revert does is decided elsewhere.
//!
//! The proxy itself draws who gets a request, so under a canary within tolerance the label of each bad request is a
//! coin of known bias, whatever else goes on: incidents, seasons and bursts that hit both versions cancel. Each *bet*
//! multiplies its value with a factor whose expectation is at most 1 given the past. A mixture of such bets, restarted
//! each epoch with weights that sum to 1, is a nonnegative supermartingale that starts at 1, so by Ville's inequality
//! it ever reaches `1/alpha` with probability at most alpha.

use crate::engine::{plan::ShareTestPlan, samples::Counts};

/// Number of bets in the mixture.
const BETS: usize = 22;
/// Bets are on a canary that is `2^exponent` times as bad as tolerated.
const EXPONENTS: [f64; BETS] =
    [0.125, 0.25, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 5.5, 6.0, 6.5, 7.0, 7.5, 8.0, 8.5, 9.0, 9.5, 10.0];
/// Log values are kept within plus and minus this: far beyond every threshold, and never infinite.
const LOG_VALUE_MAX: f64 = 1e6;

/// The harm process of one rollout: a mixture of bets, restarted with falling weights, capped by the second.
///
/// Never NaN, whatever is added. Small and flat: cloning and comparing are cheap.
#[derive(Debug, Clone, PartialEq)]
pub struct ShareTest {
    plan: ShareTestPlan,
    bets: [Bet; BETS],
    epoch: u64,
    committed: [f64; BETS],
    tick: [f64; BETS],
    log_e_max: f64,
    canary: Counts,
    stable: Counts,
}

/// All that survives a restart of the process.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ShareTestState {
    /// The number of the epoch, from 1.
    pub epoch: u64,
    /// Each bet's committed log value.
    pub log_values: Vec<f64>,
    /// The largest log evidence so far: a revert is latched.
    pub log_e_max: f64,
    /// The canary's sampled requests in this rollout.
    pub canary: Counts,
    /// Stable's.
    pub stable: Counts,
}

impl ShareTest {
    /// A fresh test.
    #[must_use]
    pub fn new(plan: ShareTestPlan) -> Self {
        Self {
            plan,
            bets: bets(),
            epoch: 1,
            // Half of the prior mass is staked in the first epoch, 1/(j(j+1)) in each later one.
            committed: [-std::f64::consts::LN_2; BETS],
            tick: [0.0; BETS],
            log_e_max: 0.0,
            canary: Counts::default(),
            stable: Counts::default(),
        }
    }

    /// Goes on from a saved state; a state that does not fit (number of bets, not finite) is a fresh start.
    #[must_use]
    pub fn resume(plan: ShareTestPlan, state: ShareTestState) -> Self {
        let fresh = Self::new(plan);
        let Ok(committed) = <[f64; BETS]>::try_from(state.log_values) else { return fresh };
        let fits = committed.iter().all(|value| value.abs() <= LOG_VALUE_MAX);
        if !fits || state.epoch == 0 || !state.log_e_max.is_finite() {
            return fresh;
        }
        Self {
            epoch: state.epoch,
            committed,
            log_e_max: state.log_e_max,
            canary: state.canary,
            stable: state.stable,
            ..fresh
        }
    }

    /// Changes tolerance or alpha, keeping the evidence.
    pub fn reconfigure(&mut self, plan: ShareTestPlan) {
        self.plan = plan;
    }

    /// Adds finished requests that were routed while the canary's share of both was `w`. Counts in the present tick.
    /// A share of 0 or 1 says nothing and is skipped. Errors beyond the requests are not believed.
    ///
    /// Both versions' requests of one `w` belong into one call: the evidence is looked at after each.
    pub fn add(&mut self, w: f64, canary: Counts, stable: Counts) {
        if !(w > 0.0 && w < 1.0) {
            return;
        }
        let (canary, stable) = (believable(canary), believable(stable));
        for (sum, bet) in self.tick.iter_mut().zip(&self.bets) {
            *sum += bet.log_factor(&self.plan, w, canary, stable);
        }
        self.canary += canary;
        self.stable += stable;
        self.log_e_max = self.log_e_max.max(self.log_e());
    }

    /// Ends the present tick (each second).
    pub fn end_tick(&mut self) {
        let cap = self.cap();
        for (value, sum) in self.committed.iter_mut().zip(&mut self.tick) {
            *value = after(*value, *sum, cap);
            *sum = 0.0;
        }
    }

    /// Starts a new epoch (each 60 s and at each weight change); ends the present tick first.
    pub fn new_epoch(&mut self) {
        self.end_tick();
        self.epoch = self.epoch.saturating_add(1);
        let stake = -(count(self.epoch).ln() + (count(self.epoch) + 1.0).ln());
        for value in &mut self.committed {
            *value = log_add_exp(*value, stake);
        }
    }

    /// Natural logarithm of the evidence now, the present tick included.
    #[must_use]
    pub fn log_e(&self) -> f64 {
        let cap = self.cap();
        let mut values = [0.0; BETS];
        for (((out, bet), committed), sum) in values.iter_mut().zip(&self.bets).zip(&self.committed).zip(&self.tick) {
            *out = bet.log_prior + after(*committed, *sum, cap);
        }
        // What is not staked yet is still in hand: 1 - sum of 1/(i(i+1)) up to j is 1/(j+1).
        log_add_exp(log_sum_exp(&values), -(count(self.epoch) + 1.0).ln())
    }

    /// Whether the evidence ever reached `ln(1/alpha)`.
    #[must_use]
    pub fn reverts(&self) -> bool {
        self.log_e_max >= self.threshold()
    }

    /// The largest evidence so far; a revert is at [`threshold`](Self::threshold).
    #[must_use]
    pub const fn log_e_max(&self) -> f64 {
        self.log_e_max
    }

    /// `ln(1/alpha)`.
    #[must_use]
    pub fn threshold(&self) -> f64 {
        -self.plan.alpha.ln()
    }

    /// What was added so far, the present tick included: the canary's and stable's.
    #[must_use]
    pub const fn counts(&self) -> (Counts, Counts) {
        (self.canary, self.stable)
    }

    /// What to remember. The values are those of the last ended tick: a restart loses a second's evidence at most,
    /// and a second never counts twice against the guard for bursts. The counts include the present tick.
    #[must_use]
    pub fn state(&self) -> ShareTestState {
        ShareTestState {
            epoch: self.epoch,
            log_values: self.committed.to_vec(),
            log_e_max: self.log_e_max,
            canary: self.canary,
            stable: self.stable,
        }
    }

    /// The most that one second may add to a bet, so that a revert needs more than `min_bad_seconds` bad seconds:
    /// `min(factor, e^cap)` is concave in the running product, so the bound on false reverts is untouched.
    fn cap(&self) -> f64 {
        match self.plan.min_bad_seconds {
            0 => f64::INFINITY,
            seconds => self.threshold() / f64::from(seconds),
        }
    }
}

/// One bet: that the canary is `theta` times as bad as tolerated.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Bet {
    log_theta: f64,
    theta_minus_1: f64,
    log_prior: f64,
}

impl Bet {
    /// Natural logarithm of the factor for requests of one tick and one share.
    ///
    /// With the fair share `phi = w rho / (w rho + 1 - w)` and `x = (1-phi)(theta-1)/(1+phi(theta-1))` a bad canary
    /// request multiplies by `theta/(1+phi(theta-1)) = 1+x`, a bad stable one by `1/(1+phi(theta-1)) = 1+y`, and each
    /// canary request by `exp(-delta x)`. Since `w rho x + (1-w) y = 0`, under `p_c <= rho p_s + delta` one request's
    /// expected factor is at most `w (1 + rho p_s x) + (1-w)(1 + p_s y) = 1`.
    fn log_factor(&self, plan: &ShareTestPlan, w: f64, canary: Counts, stable: Counts) -> f64 {
        let fair = w * plan.relative / (w * plan.relative + 1.0 - w);
        let (bad_canary, bad_stable) = (count(canary.errors), count(stable.errors));
        let excess = fair * self.theta_minus_1;
        let tolerated = plan.absolute * count(canary.requests) * (1.0 - fair) * self.theta_minus_1 / (1.0 + excess);
        bad_canary * self.log_theta - (bad_canary + bad_stable) * excess.ln_1p() - tolerated
    }
}

/// The bets with their prior, a bell over the exponents around 2 (four times as bad) on their uneven grid.
fn bets() -> [Bet; BETS] {
    let weight = |exponent: f64| {
        let spacing = if exponent < 0.2 {
            0.25
        } else if exponent < 0.3 {
            0.375
        } else {
            1.0
        };
        let off = (exponent - 2.0) / 2.5;
        spacing * (-off * off / 2.0).exp()
    };
    let total: f64 = EXPONENTS.iter().copied().map(weight).sum();
    EXPONENTS.map(|exponent| Bet {
        log_theta: exponent * std::f64::consts::LN_2,
        theta_minus_1: exponent.exp2() - 1.0,
        log_prior: (weight(exponent) / total).ln(),
    })
}

fn after(committed: f64, sum: f64, cap: f64) -> f64 {
    (committed + sum.min(cap)).clamp(-LOG_VALUE_MAX, LOG_VALUE_MAX)
}

fn believable(counts: Counts) -> Counts {
    Counts { errors: counts.errors.min(counts.requests), ..counts }
}

#[expect(clippy::cast_precision_loss, reason = "a relative error of 1e-16 in a count changes no decision")]
fn count(of: u64) -> f64 {
    of as f64
}

fn log_add_exp(a: f64, b: f64) -> f64 {
    let (large, small) = if a >= b { (a, b) } else { (b, a) };
    large + (small - large).exp().ln_1p()
}

fn log_sum_exp(values: &[f64; BETS]) -> f64 {
    let max = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    max + values.iter().map(|value| (value - max).exp()).sum::<f64>().ln()
}

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;

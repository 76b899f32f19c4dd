//! One metric's harm process: a mixture of bets, restarted each epoch with falling stakes, capped by the second.
//! Its owner ends ticks and begins epochs, and decides what the evidence means.

use super::bet::{self, BETS, Bet, Factors, Kind, Seen, count, log_add_exp, log_sum_exp};

/// Log values are kept within plus and minus this: far beyond every threshold, and never infinite.
pub(super) const LOG_VALUE_MAX: f64 = 1e6;

/// The bets' values: committed, and of the tick that is going on.
#[derive(Debug, Clone)]
pub(super) struct Process {
    bets: [Bet; BETS],
    committed: [f64; BETS],
    tick: [f64; BETS],
    factors: Option<Prepared>,
}

/// The bets' factors for the latest kind and share, which change only with the weight.
#[derive(Debug, Clone)]
struct Prepared {
    kind: Kind,
    w: f64,
    factors: [Factors; BETS],
}

impl PartialEq for Process {
    /// Whether the evidence is the same; what was prepared says nothing about it.
    fn eq(&self, other: &Self) -> bool {
        self.committed == other.committed && self.tick == other.tick
    }
}

impl Process {
    /// In its first epoch: half of the prior mass is staked, `1/(j(j+1))` follows in each later one.
    pub(super) fn new() -> Self {
        Self { bets: bet::harm(), committed: [-std::f64::consts::LN_2; BETS], tick: [0.0; BETS], factors: None }
    }

    /// Goes on from saved values; none if they do not fit.
    pub(super) fn resume(values: &[f64]) -> Option<Self> {
        let committed = <[f64; BETS]>::try_from(values).ok()?;
        committed.iter().all(|value| value.abs() <= LOG_VALUE_MAX).then(|| Self { committed, ..Self::new() })
    }

    /// Adds to the present tick.
    pub(super) fn add(&mut self, kind: Kind, seen: &Seen) {
        let is_prepared = self.factors.as_ref().is_some_and(|of| of.kind == kind && of.w.to_bits() == seen.w.to_bits());
        let bets = &self.bets;
        let prepare = || Prepared { kind, w: seen.w, factors: bets.map(|bet| bet.factors(kind, seen.w)) };
        if !is_prepared {
            self.factors = None;
        }
        let prepared = self.factors.get_or_insert_with(prepare);
        for (sum, factors) in self.tick.iter_mut().zip(&prepared.factors) {
            *sum += factors.log_factor(seen.canary, seen.stable);
        }
    }

    /// Ends the present tick, which adds at most `cap` to each bet.
    pub(super) fn end_tick(&mut self, cap: f64) {
        for (value, sum) in self.committed.iter_mut().zip(&mut self.tick) {
            *value = after(*value, *sum, cap);
            *sum = 0.0;
        }
    }

    /// Begins epoch number `epoch`, from 2, between two ticks.
    pub(super) fn restart(&mut self, epoch: u64) {
        let stake = -(count(epoch).ln() + (count(epoch) + 1.0).ln());
        for value in &mut self.committed {
            *value = log_add_exp(*value, stake);
        }
    }

    /// Natural logarithm of the evidence in epoch `epoch`, the present tick included.
    pub(super) fn log_e(&self, epoch: u64, cap: f64) -> f64 {
        let mut values = [0.0; BETS];
        for (((out, bet), committed), sum) in values.iter_mut().zip(&self.bets).zip(&self.committed).zip(&self.tick) {
            *out = bet.log_prior + after(*committed, *sum, cap);
        }
        // What is not staked yet is still in hand: 1 - sum of 1/(i(i+1)) up to j is 1/(j+1).
        log_add_exp(log_sum_exp(&values), -(count(epoch) + 1.0).ln())
    }

    /// The values after the last ended tick.
    pub(super) const fn committed(&self) -> &[f64; BETS] {
        &self.committed
    }
}

fn after(committed: f64, sum: f64, cap: f64) -> f64 {
    (committed + sum.min(cap)).clamp(-LOG_VALUE_MAX, LOG_VALUE_MAX)
}

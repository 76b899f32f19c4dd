//! The share test: is the canary getting more than its fair share of the errors? Always valid under continuous looking.

use crate::engine::{plan::ShareTestPlan, samples::Counts};

/// The harm process of one rollout: a mixture of bets, restarted with falling weights, capped by the second.
#[derive(Debug, Clone, PartialEq)]
pub struct ShareTest {}

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
    pub fn new(_plan: ShareTestPlan) -> Self {
        todo!()
    }

    /// Goes on from a saved state; a state that does not fit (number of bets, not finite) is a fresh start.
    #[must_use]
    pub fn resume(_plan: ShareTestPlan, _state: ShareTestState) -> Self {
        todo!()
    }

    /// Changes tolerance or alpha, keeping the evidence.
    pub fn reconfigure(&mut self, _plan: ShareTestPlan) {
        todo!()
    }

    /// Adds finished requests that were routed while the canary's share of both was `w`. Counts in the present tick.
    /// A share of 0 or 1 says nothing and is skipped.
    pub fn add(&mut self, _w: f64, _canary: Counts, _stable: Counts) {
        todo!()
    }

    /// Ends the present tick (each second).
    pub fn end_tick(&mut self) {
        todo!()
    }

    /// Starts a new epoch (each 60 s and at each weight change); ends the present tick first.
    pub fn new_epoch(&mut self) {
        todo!()
    }

    /// Natural logarithm of the evidence now, the present tick included.
    #[must_use]
    pub fn log_e(&self) -> f64 {
        todo!()
    }

    /// Whether the evidence ever reached `ln(1/alpha)`.
    #[must_use]
    pub fn reverts(&self) -> bool {
        todo!()
    }

    /// What to remember.
    #[must_use]
    pub fn state(&self) -> ShareTestState {
        todo!()
    }
}

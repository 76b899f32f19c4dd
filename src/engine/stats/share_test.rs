//! The share test: does the canary get more than its fair share of what is bad, errors and slow requests? Always valid
//! under continuous looking. Knows no time and no rollout: its owner ends ticks and begins epochs; what a revert does is
//! decided elsewhere.
//!
//! The proxy itself draws who gets a request, so under a canary within tolerance the label of each bad request is a
//! coin of known bias, whatever else goes on: incidents, seasons and bursts that hit both versions cancel. Each *bet*
//! multiplies its value with a factor whose expectation is at most 1 given the past. A mixture of such bets, restarted
//! each epoch with weights that sum to 1, is a nonnegative supermartingale that starts at 1, and so is the weighted mean
//! of several, however they depend on each other. By Ville's inequality it ever reaches `1/alpha` with probability at
//! most alpha.

pub(in crate::engine::stats) mod bet;
mod process;
pub mod slowness;

use std::time::Duration;

use bet::{Kind, Seen, log_sum_exp};
use process::Process;
use slowness::{ALL, LEVELS, Thresholds};

use crate::engine::{
    plan::ShareTestPlan,
    samples::Counts,
    stats::{latency::LatencyCounts, window::Summary},
};

/// The weight of errors in the mean, where slow requests are watched as well; each level has an equal part of the rest.
const ERRORS_WEIGHT: f64 = 0.5;
const LEVEL_WEIGHT: f64 = 0.1;

/// The test of one rollout.
///
/// Never NaN, whatever is added. Small and flat: cloning and comparing are cheap.
#[derive(Debug, Clone, PartialEq)]
pub struct ShareTest {
    plan: ShareTestPlan,
    epoch: u64,
    errors: Watched,
    slow: [Watched; LEVELS],
    thresholds: Thresholds,
    log_e_max: f64,
}

/// One metric: its process, and what was added.
#[derive(Debug, Clone, PartialEq)]
struct Watched {
    process: Process,
    canary: Counts,
    stable: Counts,
}

/// All that survives a restart of the process. Thresholds of slowness do not: they are learned anew.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ShareTestState {
    /// The number of the epoch, from 1.
    pub epoch: u64,
    /// Each error bet's committed log value.
    pub log_values: Vec<f64>,
    /// The largest log evidence so far: a revert is latched.
    pub log_e_max: f64,
    /// The canary's sampled requests in this rollout.
    pub canary: Counts,
    /// Stable's.
    pub stable: Counts,
    /// The levels of slowness, in their order; empty in states of before there were any.
    pub slow: Vec<SlowState>,
}

/// One level of slowness, remembered.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SlowState {
    /// Each bet's committed log value.
    pub log_values: Vec<f64>,
    /// The canary's requests that were judged at this level, the slow ones as errors.
    pub canary: Counts,
    /// Stable's.
    pub stable: Counts,
}

/// Newly finished requests that were routed while the canary's share of both was `w`.
#[derive(Debug, Clone, PartialEq)]
pub struct News {
    /// The canary's share; 0 and 1 say nothing, and are skipped.
    pub w: f64,
    /// The canary's requests and errors.
    pub canary: Counts,
    /// Stable's.
    pub stable: Counts,
    /// The latencies of the same requests, the canary's and stable's; none where they are not to be judged.
    pub latency: Option<(LatencyCounts, LatencyCounts)>,
}

/// How one metric stands: its evidence and what it rests on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Standing {
    /// `errors`, or the level of slowness.
    pub metric: &'static str,
    /// Natural logarithm of the evidence.
    pub log_e: f64,
    /// The canary's requests, and the bad ones.
    pub canary: Counts,
    /// Stable's.
    pub stable: Counts,
    /// Beyond what a canary request is slow now; none for errors, and while it is not known.
    pub slower_than: Option<Duration>,
}

impl ShareTest {
    /// A fresh test.
    #[must_use]
    pub fn new(plan: ShareTestPlan) -> Self {
        Self {
            plan,
            epoch: 1,
            errors: Watched::new(),
            slow: std::array::from_fn(|_| Watched::new()),
            thresholds: Thresholds::default(),
            log_e_max: 0.0,
        }
    }

    /// Goes on from a saved state; a state that does not fit (number of bets, not finite) is a fresh start.
    #[must_use]
    pub fn resume(plan: ShareTestPlan, state: ShareTestState) -> Self {
        let fresh = Self::new(plan);
        let ShareTestState { epoch, log_values, log_e_max, canary, stable, slow } = state;
        let Some(errors) = Watched::resume(&log_values, canary, stable) else { return fresh };
        if epoch == 0 || !log_e_max.is_finite() {
            return fresh;
        }
        // A level that was not saved begins now, which loses evidence and no validity.
        let level = |at: usize| {
            let saved = slow.get(at).and_then(|saved| Watched::resume(&saved.log_values, saved.canary, saved.stable));
            saved.unwrap_or_else(Watched::new)
        };
        Self { epoch, errors, slow: std::array::from_fn(level), log_e_max, ..fresh }
    }

    /// Changes tolerance or alpha, keeping the evidence.
    pub fn reconfigure(&mut self, plan: ShareTestPlan) {
        self.plan = plan;
    }

    /// Learns what is slow from stable's latencies of late, before the requests that are judged by it.
    pub fn learn(&mut self, stable: &Summary) {
        if let Some(tolerance) = self.plan.latency {
            self.thresholds = self.thresholds.renewed(stable, tolerance);
        }
    }

    /// Beyond what a request is slow now.
    #[must_use]
    pub const fn thresholds(&self) -> &Thresholds {
        &self.thresholds
    }

    /// Whether slow requests are judged.
    #[must_use]
    pub const fn judges_latency(&self) -> bool {
        self.plan.latency.is_some()
    }

    /// Adds finished requests. Counts in the present tick. Errors beyond the requests are not believed.
    ///
    /// Both versions' requests of one `w` belong into one call: the evidence is looked at after each.
    pub fn add(&mut self, news: &News) {
        let News { w, canary, stable, latency } = news;
        if !(*w > 0.0 && *w < 1.0) {
            return;
        }
        let seen = Seen { w: *w, canary: believable(*canary), stable: believable(*stable) };
        self.errors.add(Kind::Share { relative: self.plan.relative, absolute: self.plan.absolute }, seen);
        if let Some((canary, stable)) = latency.as_ref().filter(|_| self.plan.latency.is_some()) {
            for (at, level) in self.slow.iter_mut().enumerate() {
                let Some((canary, stable)) = self.thresholds.count(at, canary, stable) else { continue };
                level.add(Kind::Odds { nominal: ALL[at].nominal }, Seen { w: *w, canary, stable });
            }
        }
        self.log_e_max = self.log_e_max.max(self.log_e());
    }

    /// Ends the present tick (each second).
    pub fn end_tick(&mut self) {
        let (errors, slow) = (self.cap(self.errors_weight()), self.cap(LEVEL_WEIGHT));
        self.errors.process.end_tick(errors);
        for level in &mut self.slow {
            level.process.end_tick(slow);
        }
    }

    /// Starts a new epoch (each 60 s and at each weight change); ends the present tick first.
    pub fn new_epoch(&mut self) {
        self.end_tick();
        self.epoch = self.epoch.saturating_add(1);
        self.errors.process.restart(self.epoch);
        for level in &mut self.slow {
            level.process.restart(self.epoch);
        }
    }

    /// Natural logarithm of the evidence now, all metrics together, the present tick included.
    #[must_use]
    pub fn log_e(&self) -> f64 {
        let errors = self.log_e_of(&self.errors, self.errors_weight());
        if self.plan.latency.is_none() {
            return errors;
        }
        let mut values = [errors + ERRORS_WEIGHT.ln(); LEVELS + 1];
        for (value, level) in values.iter_mut().skip(1).zip(&self.slow) {
            *value = self.log_e_of(level, LEVEL_WEIGHT) + LEVEL_WEIGHT.ln();
        }
        log_sum_exp(&values)
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
        (self.errors.canary, self.errors.stable)
    }

    /// Each metric that is judged: errors first, then the levels of slowness that have a threshold or evidence.
    #[must_use]
    pub fn standings(&self) -> Vec<Standing> {
        let standing = |metric, watched: &Watched, weight, slower_than| Standing {
            metric,
            log_e: self.log_e_of(watched, weight),
            canary: watched.canary,
            stable: watched.stable,
            slower_than,
        };
        let mut all = vec![standing("errors", &self.errors, self.errors_weight(), None)];
        if self.plan.latency.is_some() {
            let levels = self.slow.iter().zip(&ALL).enumerate();
            let judged =
                levels.filter(|(at, (level, _))| self.thresholds.of_canary(*at).is_some() || level.canary.requests > 0);
            all.extend(
                judged.map(|(at, (level, named))| {
                    standing(named.name, level, LEVEL_WEIGHT, self.thresholds.of_canary(at))
                }),
            );
        }
        all
    }

    /// The metric that weighs most against the canary.
    #[must_use]
    pub fn weightiest(&self) -> Standing {
        let of_slow = |standing: &Standing| standing.log_e + LEVEL_WEIGHT.ln();
        let mut standings = self.standings().into_iter();
        let errors = standings.next().unwrap_or(Standing {
            metric: "errors",
            log_e: 0.0,
            canary: Counts::default(),
            stable: Counts::default(),
            slower_than: None,
        });
        let slowest = standings.max_by(|a, b| of_slow(a).total_cmp(&of_slow(b)));
        slowest.filter(|slow| of_slow(slow) > errors.log_e + self.errors_weight().ln()).unwrap_or(errors)
    }

    /// What to remember. The values are those of the last ended tick: a restart loses a second's evidence at most,
    /// and a second never counts twice against the guard for bursts. The counts include the present tick.
    #[must_use]
    pub fn state(&self) -> ShareTestState {
        let slow = |level: &Watched| SlowState {
            log_values: level.process.committed().to_vec(),
            canary: level.canary,
            stable: level.stable,
        };
        ShareTestState {
            epoch: self.epoch,
            log_values: self.errors.process.committed().to_vec(),
            log_e_max: self.log_e_max,
            canary: self.errors.canary,
            stable: self.errors.stable,
            slow: if self.plan.latency.is_some() { self.slow.iter().map(slow).collect() } else { Vec::new() },
        }
    }

    fn log_e_of(&self, watched: &Watched, weight: f64) -> f64 {
        watched.process.log_e(self.epoch, self.cap(weight))
    }

    fn errors_weight(&self) -> f64 {
        if self.plan.latency.is_some() { ERRORS_WEIGHT } else { 1.0 }
    }

    /// The most that one second may add to a bet of a metric of this weight, so that a revert by it alone needs more than
    /// `min_bad_seconds` bad seconds: `min(factor, e^cap)` is concave in the running product, so the bound on false
    /// reverts is untouched.
    fn cap(&self, weight: f64) -> f64 {
        match self.plan.min_bad_seconds {
            0 => f64::INFINITY,
            seconds => (self.threshold() - weight.ln()) / f64::from(seconds),
        }
    }
}

impl Watched {
    fn new() -> Self {
        Self { process: Process::new(), canary: Counts::default(), stable: Counts::default() }
    }

    fn resume(log_values: &[f64], canary: Counts, stable: Counts) -> Option<Self> {
        Process::resume(log_values).map(|process| Self { process, canary, stable })
    }

    fn add(&mut self, kind: Kind, seen: Seen) {
        self.process.add(kind, &seen);
        self.canary += seen.canary;
        self.stable += seen.stable;
    }
}

fn believable(counts: Counts) -> Counts {
    Counts { errors: counts.errors.min(counts.requests), ..counts }
}

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;

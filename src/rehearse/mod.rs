//! REHEARSE. A plan on virtual time through the real engine, against traffic models: what it would decide, when, on which
//! evidence, at how many failed requests, and which of its gates never fired. Touches no socket, file or clock.
//!
//! The loop is closed: requests arrive at random, each is split by its own draw as the published table says, ends after
//! its own latency, and is counted in the weight generation in which it was routed, as in the proxy. The same seed gives
//! the same report, on any number of processors.
//!
//! Time is coarser than in production in one way: the engine is told every 100 ms for ten seconds after each change, and
//! each second after that (longer in plans of more than a few hours; the report says so). A decision can be late by that much.

mod dice;
mod gate;
mod latencies;
mod model;
mod plan;
mod recording;
mod report;
mod rollout;
mod svg;
mod text;
mod traffic;

#[cfg(test)]
mod tests;

use std::{
    num::NonZero,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use crate::engine::plan::ServicePlan;

pub use dice::Dice;
pub use latencies::{Latencies, LogNormal};
pub use model::{MODELS, Model};
pub use plan::NoCanary;
pub use recording::{NoRecording, Recorded, Recorder, Recording};
pub use report::{Ended, Evidence, GateReport, GateState, ModelReport, Report, Spread};
pub use rollout::PERSON_AFTER;
pub use svg::picture;
pub use text::text;

use gate::Gate;
use model::Usual;
use plan::Script;
use rollout::{Course, Told};

/// Most rollouts of each model.
pub const RUNS_MAX: usize = 100_000;
/// Highest rate, in requests a second; the lowest is its inverse.
pub const RATE_MAX: f64 = 100_000.0;

/// Runs of each model in which a gate that never decided is tried alone.
const RUNS_ALONE: usize = 20;
/// Runs of each model that are drawn.
const RUNS_DRAWN: usize = 200;

/// What is to be rehearsed.
#[derive(Debug, Clone)]
pub struct Rehearsal<'a> {
    /// The service's plan. Without a wish for a version other than stable, the first other version is tried.
    pub plan: &'a ServicePlan,
    /// Requests a second over both versions, in `1 / RATE_MAX ..= RATE_MAX`; anything else is brought into it.
    pub rate: f64,
    /// Rollouts of each model, in `1..=RUNS_MAX`; anything else is brought into it.
    pub runs: usize,
    /// The same seed gives the same report.
    pub seed: u64,
    /// Names of models; unknown ones are left out, and none at all is every model.
    pub models: &'a [String],
    /// What a sound version and its traffic are like; made up without.
    pub recording: Option<&'a Recording>,
}

/// Rehearses. `progress` is told how many rollouts are done and how many there are as far as is known, from several
/// threads.
///
/// # Errors
/// When the service has one version only: there is nothing to try.
pub fn rehearse(wanted: &Rehearsal<'_>, progress: &(dyn Fn(usize, usize) + Sync)) -> Result<Report, NoCanary> {
    let rate = if wanted.rate.is_finite() { wanted.rate.clamp(1.0 / RATE_MAX, RATE_MAX) } else { 1.0 };
    let runs = wanted.runs.clamp(1, RUNS_MAX);
    let script = Script::new(wanted.plan, rate)?;
    let named = |model: &&Model| wanted.models.is_empty() || wanted.models.iter().any(|name| name == model.name);
    let models: Vec<&Model> = MODELS.iter().filter(named).collect();
    let gates = gate::gates(&script.plan);
    let recording = wanted.recording;
    let all = Batch { script: &script, plan: &script.plan, seed: wanted.seed, runs, drawn: RUNS_DRAWN, recording };
    let told = all.run(&models, progress);
    let report = Report::new(&script, wanted, &models, told, &gates);
    let silent: Vec<&Gate> =
        gates.iter().zip(&report.gates).filter(|(_, gate)| gate.decided == 0).map(|(gate, _)| gate).collect();
    let mut alone_in = Vec::new();
    for gate in silent {
        let plan = gate.alone(&script.plan);
        let alone = Batch { plan: &plan, runs: runs.min(RUNS_ALONE), drawn: 0, ..all };
        let told = alone.run(&models, progress);
        let fired = |told: &[Told]| {
            told.iter().any(|told| told.cause.as_ref().is_some_and(|(cause, step)| gate.decided(cause, *step)))
        };
        alone_in.push(models.iter().zip(&told).filter(|(_, told)| fired(told)).map(|(model, _)| model.name).collect());
    }
    Ok(report.with_gates_alone(alone_in))
}

/// Rollouts of one plan under several models.
#[derive(Debug, Clone, Copy)]
struct Batch<'a> {
    script: &'a Script,
    plan: &'a ServicePlan,
    seed: u64,
    runs: usize,
    drawn: usize,
    recording: Option<&'a Recording>,
}

impl Batch<'_> {
    /// What came of each run of each model, in order; spread over the processors.
    fn run(self, models: &[&Model], progress: &(dyn Fn(usize, usize) + Sync)) -> Vec<Vec<Told>> {
        let (usual, total) = (Usual::new(self.recording), models.len() * self.runs);
        let (taken, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let work = || {
            let mut told = Vec::new();
            loop {
                let at = taken.fetch_add(1, Ordering::Relaxed);
                let Some(model) = models.get(at / self.runs).filter(|_| at < total) else { return told };
                told.push((at, self.one(model, at % self.runs, &usual)));
                progress(done.fetch_add(1, Ordering::Relaxed) + 1, total);
            }
        };
        let threads = thread::available_parallelism().map_or(1, NonZero::get).min(total);
        let mut all: Vec<(usize, Told)> = thread::scope(|scope| {
            let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
            let mut all = work();
            for other in others {
                match other.join() {
                    Ok(told) => all.extend(told),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            all
        });
        all.sort_unstable_by_key(|(at, _)| *at);
        let mut told = all.into_iter().map(|(_, told)| told);
        models.iter().map(|_| told.by_ref().take(self.runs).collect()).collect()
    }

    /// A run's chance depends on the seed, the model and its number alone, whatever else is rehearsed.
    fn one(&self, model: &Model, run: usize, usual: &Usual<'_>) -> Told {
        let name = model.name.bytes().fold(0_u64, |sum, byte| sum.wrapping_mul(257).wrapping_add(u64::from(byte)));
        let mut dice = Dice::new(self.seed, name.wrapping_mul(1 << 20).wrapping_add(run as u64));
        let course = Course {
            plan: self.plan,
            kind: model.kind,
            rate: self.script.rate,
            times: self.script.times,
            usual,
            traced: run < self.drawn,
        };
        rollout::run(course, &mut dice)
    }
}

//! What came of a rehearsal, as numbers: the document of `--output json`. Says nothing in sentences; `text` does.

use std::time::Duration;

use serde::Serialize;

use super::{
    Rehearsal,
    gate::{self, Gate},
    model::{Model, USUAL_ERRORS, USUAL_MEDIAN_MS},
    plan::Script,
    recording::{Recorded, Recording},
    rollout::{Outcome, PERSON_AFTER, Told, Trace, millis},
};
use crate::engine::minimum::SlowHold;

/// A whole rehearsal. Durations are in milliseconds of virtual time, shares in `0..1`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Of which service.
    pub service: String,
    /// The stable version.
    pub stable: String,
    /// The version that was tried.
    pub canary: String,
    /// Requests a second over both versions.
    pub rate: f64,
    /// Rollouts of each model.
    pub runs: usize,
    /// What to say to get this report again.
    pub seed: u64,
    /// What the traffic was taken from; absent when it is made up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorded: Option<Recorded>,
    /// Share of requests that a sound version fails.
    pub usual_error_rate: f64,
    /// Median latency of a sound version.
    pub usual_median_ms: f64,
    /// How long the plan takes when nothing happens.
    pub planned_ms: u64,
    /// A rollout that is not over by then is `waiting`.
    pub horizon_ms: u64,
    /// Longest time between two looks of the engine; in production it is 100.
    pub tick_ms: u64,
    /// After so long a person was taken to say `promote`, where the plan waits for one; absent when it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub person_after_ms: Option<u64>,
    /// Each model.
    pub models: Vec<ModelReport>,
    /// Rollouts of sound releases.
    pub sound_runs: usize,
    /// How many of them were reverted or held for a person.
    pub sound_stopped: usize,
    /// Each gate of the plan.
    pub gates: Vec<GateReport>,
    #[serde(skip)]
    /// The hold that lasts longer than its time at this rate.
    pub(super) slow: Option<SlowHold>,
    #[serde(skip)]
    /// How long the canary's latencies are not counted at its start.
    pub(super) warmup: Duration,
}

/// What came of one model.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelReport {
    /// Its name.
    pub name: &'static str,
    /// What happens in it.
    pub says: &'static str,
    /// Whether the release is sound, so that a revert is a false one.
    pub sound: bool,
    /// The canary became stable.
    pub promoted: Ended,
    /// The canary was withdrawn.
    pub reverted: Ended,
    /// Stopped for a person because something was wrong. Its failed requests are those until then.
    pub held: Ended,
    /// Not over at the horizon.
    pub waiting: Ended,
    /// What reverted or held it, the most frequent first.
    pub evidence: Vec<Evidence>,
    /// Requests that the canary failed in one rollout.
    pub failed: Spread,
    #[serde(skip)]
    /// When each drawn rollout ended, and what it did until then.
    pub(super) traces: Vec<(u64, Trace)>,
}

/// Rollouts that ended in one way.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Ended {
    /// How many.
    pub runs: usize,
    /// Which share of all.
    pub share: f64,
    /// How long they took; absent when there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after_ms: Option<Spread>,
}

/// How a number is spread over the rollouts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Spread {
    /// Half of them are at most this.
    pub median: u64,
    /// Nine in ten are at most this.
    pub p90: u64,
}

/// What decided, and how often.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Evidence {
    /// The gate's name, or `noTraffic` or `deadline`.
    pub by: String,
    /// In so many rollouts.
    pub runs: usize,
}

/// One gate of the plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GateReport {
    /// Its name.
    pub name: String,
    /// When it fires, in words.
    pub limit: String,
    /// Rollouts that it decided.
    pub decided: usize,
    /// What to think of it.
    pub state: GateState,
    /// When it never decided: the models in which it fires once all other gates are off.
    pub alone_in: Vec<&'static str>,
}

/// What to think of a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum GateState {
    /// It decided something.
    Decides,
    /// It can fire, but others were always there first.
    Overtaken,
    /// It fires in no model, not even alone: nothing shows that it can fail a release.
    NeverFires,
}

impl Report {
    pub(super) fn new(
        script: &Script,
        wanted: &Rehearsal<'_>,
        models: &[&Model],
        told: Vec<Vec<Told>>,
        gates: &[Gate],
    ) -> Self {
        let decided = |gate: &Gate| {
            let causes = told.iter().flatten().filter_map(|told| told.cause.as_ref());
            causes.filter(|(cause, step)| gate.decided(cause, *step)).count()
        };
        let gates = gates.iter().map(|gate| GateReport {
            name: gate.name(),
            limit: gate.limit(),
            decided: decided(gate),
            state: if decided(gate) > 0 { GateState::Decides } else { GateState::NeverFires },
            alone_in: Vec::new(),
        });
        let gate_reports = gates.collect();
        let recording = wanted.recording;
        let runs = told.first().map_or(0, Vec::len);
        let all_gates = gate::gates(&script.plan);
        let models: Vec<ModelReport> =
            models.iter().zip(told).map(|(model, told)| ModelReport::new(model, told, &all_gates)).collect();
        let sound = || models.iter().filter(|model| model.sound);
        let undecided = models.iter().any(|model| model.waiting.runs > 0);
        let slow = script.plan.strategy.slow_hold().filter(|slow| undecided || slow.rate() > script.rate);
        Self {
            service: script.plan.name.to_string(),
            stable: script.plan.stable.to_string(),
            canary: script.canary.to_string(),
            rate: script.rate,
            runs,
            seed: wanted.seed,
            recorded: recording.map(Recording::summary),
            usual_error_rate: recording.map_or(USUAL_ERRORS, Recording::errors),
            usual_median_ms: recording.map_or(USUAL_MEDIAN_MS, Recording::median_ms),
            planned_ms: script.times.planned,
            horizon_ms: script.times.horizon,
            tick_ms: script.times.tick,
            person_after_ms: script.waits_for_person.then(|| millis(PERSON_AFTER)),
            sound_runs: sound().count() * runs,
            sound_stopped: sound().map(|model| model.reverted.runs + model.held.runs).sum(),
            models,
            gates: gate_reports,
            slow,
            warmup: script.plan.strategy.guard.warmup.latency,
        }
    }

    /// Adds in which models each gate that never decided fires alone, in the order of those gates.
    pub(super) fn with_gates_alone(mut self, fires: Vec<Vec<&'static str>>) -> Self {
        for (gate, alone_in) in self.gates.iter_mut().filter(|gate| gate.decided == 0).zip(fires) {
            gate.state = if alone_in.is_empty() { GateState::NeverFires } else { GateState::Overtaken };
            gate.alone_in = alone_in;
        }
        self
    }
}

impl ModelReport {
    fn new(model: &Model, told: Vec<Told>, gates: &[Gate]) -> Self {
        let ended = |outcome: Outcome| {
            let times: Vec<u64> = told.iter().filter(|told| told.outcome == outcome).map(|told| told.at).collect();
            Ended { runs: times.len(), share: share(times.len(), told.len()), after_ms: Spread::of(times) }
        };
        let mut evidence: Vec<Evidence> = Vec::new();
        for (cause, step) in told.iter().filter_map(|told| told.cause.as_ref()) {
            let by = gate::evidence(gates, cause, *step);
            match evidence.iter_mut().find(|known| known.by == by) {
                Some(known) => known.runs += 1,
                None => evidence.push(Evidence { by, runs: 1 }),
            }
        }
        evidence.sort_by(|one, other| other.runs.cmp(&one.runs).then_with(|| one.by.cmp(&other.by)));
        Self {
            name: model.name,
            says: model.says,
            sound: model.sound,
            promoted: ended(Outcome::Promoted),
            reverted: ended(Outcome::Reverted),
            held: ended(Outcome::Held),
            waiting: ended(Outcome::Waiting),
            evidence,
            failed: Spread::of(told.iter().map(|told| told.failed).collect()).unwrap_or(Spread { median: 0, p90: 0 }),
            traces: told
                .into_iter()
                .filter(|told| !told.trace.weights.is_empty())
                .map(|told| (told.at, told.trace))
                .collect(),
        }
    }
}

impl Spread {
    /// Nearest-rank quantiles; none of nothing.
    pub(super) fn of(mut values: Vec<u64>) -> Option<Self> {
        values.sort_unstable();
        let at = |percent: usize| values.get((values.len() * percent).div_ceil(100).saturating_sub(1)).copied();
        Some(Self { median: at(50)?, p90: at(90)? })
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of rollouts")]
fn share(part: usize, all: usize) -> f64 {
    if all == 0 { 0.0 } else { part as f64 / all as f64 }
}

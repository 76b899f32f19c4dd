//! One rollout of one service through the engine: requests are handed in as sums, and the published table says how the
//! next ones are shared.

use std::time::Duration;

use serin::engine::{
    Engine, Recovered,
    effect::Effect,
    event::EventKind,
    input::Input,
    names::{Generation, ServiceName, VersionName},
    plan::{Guard, ShareTestPlan, Step, Warmup},
    samples::{Counts, FailedBuckets, Samples, SlotSamples},
    stats::latency::LatencyCounts,
    time::Timestamp,
};

use crate::world::{plan, version};

/// When every rollout begins.
const START: u64 = 1_700_000_000_000;

/// The hardest guard to keep: no tolerance at all, no guard against bursts, no warm-up, and nothing but errors.
pub fn strict() -> ShareTestPlan {
    ShareTestPlan { alpha: 0.01, relative: 1.0, absolute: 0.0, min_bad_seconds: 0, latency: None }
}

/// What one version did since the last look.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    pub counts: Counts,
    pub latency: LatencyCounts,
    /// How long the slowest failure took.
    pub slowest_failure: Duration,
}

/// A rollout that is going on.
pub struct Trial {
    engine: Engine,
    service: ServiceName,
    versions: [VersionName; 2],
    /// The weight generation now.
    pub generation: Generation,
    /// The canary's share now.
    pub share: f64,
    /// When the weight last changed, in milliseconds after the start.
    pub changed: u64,
    pub reverted: bool,
    pub promoted: bool,
}

impl Trial {
    /// The share test alone guards it.
    pub fn new(steps: Vec<Step>, test: ShareTestPlan) -> Self {
        let warmup = Warmup { errors: Duration::ZERO, ..Warmup::default() };
        Self::guarded(steps, Guard { share_test: Some(test), consecutive_errors: 0, warmup, ..Guard::default() })
    }

    pub fn guarded(steps: Vec<Step>, guard: Guard) -> Self {
        let mut plan = plan(steps);
        plan.strategy.guard = guard;
        let mut trial = Self {
            engine: Engine::new(Recovered::default()),
            service: plan.name.clone(),
            versions: ["v1", "v2"].map(version),
            generation: Generation(0),
            share: 0.0,
            changed: 0,
            reverted: false,
            promoted: false,
        };
        trial.tell(Input::Configure(vec![plan].into()), 0);
        trial
    }

    /// Whether it is decided.
    pub const fn is_over(&self) -> bool {
        self.reverted || self.promoted
    }

    /// Tells the engine what was done since the last look, `elapsed` milliseconds after the start.
    pub fn look(&mut self, elapsed: u64, canary: Seen, stable: Seen) {
        self.look_at(elapsed, [(0, self.generation, stable), (1, self.generation, canary)]);
    }

    /// The same of stable (0) and the canary (1) in any weight generations.
    pub fn look_at(&mut self, elapsed: u64, done: impl IntoIterator<Item = (usize, Generation, Seen)>) {
        let slots = done.into_iter().map(|(at, weight_generation, seen)| SlotSamples {
            service: self.service.clone(),
            version: self.versions[at].clone(),
            weight_generation,
            sampled: seen.counts,
            sticky: Counts::default(),
            sticky_failed: FailedBuckets::default(),
            latency: seen.latency,
            longest_error_run: 0,
            slowest_failure: seen.slowest_failure,
        });
        let slots = slots.filter(|slot| slot.sampled.requests > 0).collect();
        self.tell(Input::Measured(Samples { slots, ..Samples::default() }), elapsed);
    }

    fn tell(&mut self, input: Input, elapsed: u64) {
        let mut effects = Vec::new();
        let now = Timestamp::from_millis(START + elapsed);
        self.engine.apply(input, now, &mut effects).expect("nothing that is said here can be refused");
        for effect in effects {
            match effect {
                Effect::Persist(decision) => {
                    self.reverted |= decision.event.kind == EventKind::Aborted;
                    self.promoted |= decision.event.kind == EventKind::Promoted;
                }
                Effect::Publish { table, .. } => {
                    let service = &table.services[0];
                    if service.weight_generation != self.generation {
                        self.changed = elapsed;
                    }
                    self.generation = service.weight_generation;
                    self.share = service.canary.map_or(0.0, |at| service.versions[at].weight.ratio());
                }
                Effect::Measure(_) | Effect::Consult(_) => {}
            }
        }
    }
}

/// `requests`, `errors` of them bad, whose latencies do not matter.
pub const fn seen(requests: u64, errors: u64) -> Seen {
    Seen { counts: Counts { requests, errors }, latency: LatencyCounts(Vec::new()), slowest_failure: Duration::ZERO }
}

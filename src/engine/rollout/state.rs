//! A service's state: who is stable, what was refused, and the phase, which holds only what is true in it.
//! Transitions are in `machine`; this file gives the types and their remembered form.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use super::{clients::Clients, gates::GateState, traffic::Traffic};
use crate::engine::{
    analysis::{record::RunRecord, run::AnalysisRun},
    effect::{Decision, Effect},
    endpoint::Site,
    event::{Cause, Event, EventKind},
    health::Health,
    memory::{EvidenceMemory, PauseKind, PhaseMemory, RolloutMemory, ServiceMemory},
    names::{Generation, Revision, VersionName},
    plan::{ServicePlan, Wish},
    stats::{safe_test::SafeTest, share_test::ShareTest},
    time::Timestamp,
    weight::Weight,
};

/// Refused wishes that are remembered; the oldest is forgotten first.
const REFUSED_MAX: usize = 64;
/// Earlier stables that are remembered; the oldest is forgotten first.
const EARLIER_MAX: usize = 16;

/// A service: what is wanted, who is stable, where things stand, what was seen.
#[derive(Debug, Clone)]
pub(in crate::engine) struct Service {
    pub(super) plan: ServicePlan,
    pub(super) standing: Standing,
    pub(super) phase: Phase,
    pub(super) traffic: Traffic,
    /// The endpoints of versions whose endpoints are watched.
    pub(super) health: Vec<(VersionName, Health)>,
    pub(super) last_event: Option<Event>,
    /// Analysis runs that ended; newest last, bounded.
    pub(super) runs: VecDeque<Arc<RunRecord>>,
    /// What a person has analysed now; a restart ends it.
    pub(super) by_hand: Option<AnalysisRun>,
}

/// What outlives every rollout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Standing {
    pub(super) stable: Wish,
    pub(super) stable_since: Revision,
    pub(super) seen: Option<Wish>,
    pub(super) refused: Vec<Wish>,
    pub(super) earlier: Vec<(Revision, Wish)>,
    pub(super) revision: Revision,
    /// Versions that serve no longer, with the time from which they may be stopped.
    pub(super) leaving: Vec<(VersionName, Timestamp)>,
    /// Versions that the file does not name.
    pub(super) added: Vec<(VersionName, Site)>,
}

/// Where a service stands.
#[derive(Debug, Clone)]
pub(super) enum Phase {
    Healthy,
    Progressing(Box<Rollout>),
    Paused { rollout: Box<Rollout>, kind: PauseKind, reason: String, at: Timestamp },
    Degraded { target: Wish, reason: String, ramp: Option<Ramp> },
}

/// A withdrawal that takes its time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ramp {
    /// The canary's weight now.
    pub(super) weight: Weight,
    /// The weight that it had.
    pub(super) from: Weight,
    pub(super) began: Timestamp,
    pub(super) over: Duration,
    /// Until when it does not begin, for a stable version that cannot take the traffic yet.
    pub(super) waits_until: Option<Timestamp>,
}

/// A running rollout.
#[derive(Debug, Clone)]
pub(super) struct Rollout {
    pub(super) target: Wish,
    /// Index of the present step; the number of steps while the promotion is due.
    pub(super) step: usize,
    pub(super) weight: Weight,
    pub(super) started: Timestamp,
    /// Entered the step then; moved forward by pauses.
    pub(super) since: Timestamp,
    /// Unpaused time of earlier steps.
    pub(super) spent: Duration,
    pub(super) test: Option<WatchedShares>,
    /// Whether the canary is good enough for the next weight, where the step may end early.
    pub(super) safe: Option<SafeTest>,
    /// Of the present step.
    pub(super) analysis: Option<AnalysisRun>,
    /// Beside the steps.
    pub(super) background: Option<AnalysisRun>,
    /// The next step has come, and the canary has not been well since then.
    pub(super) unready_since: Option<Timestamp>,
    /// The hold is over but the guard lacks requests since then.
    pub(super) lacking_since: Option<Timestamp>,
    /// Its turn among other rollouts has come.
    pub(super) admitted: bool,
    /// The gates before its first step let it begin.
    pub(super) begun: bool,
    /// Those that were asked in the present step.
    pub(super) gates: Vec<GateState>,
}

/// The share test with its seconds and epochs.
#[derive(Debug, Clone)]
pub(super) struct WatchedShares {
    pub(super) test: ShareTest,
    pub(super) tick_from: Timestamp,
    pub(super) epoch_from: Timestamp,
    pub(super) clients: Clients,
    /// When it last learned what is slow; the epoch of time if never.
    pub(super) learned_at: Timestamp,
}

impl WatchedShares {
    pub(super) fn new(test: ShareTest, now: Timestamp) -> Self {
        Self { test, tick_from: now, epoch_from: now, clients: Clients::default(), learned_at: Timestamp::default() }
    }
}

/// Where decisions of one `apply` go: numbered, and with the memory that belongs to each.
#[derive(Debug)]
pub(in crate::engine) struct Log<'a> {
    pub(in crate::engine) now: Timestamp,
    /// The generation of the table that these decisions will be published in.
    pub(in crate::engine) generation: Generation,
    pub(in crate::engine) sequence: &'a mut u64,
    pub(in crate::engine) effects: &'a mut Vec<Effect>,
}

impl Service {
    /// Writes down a decision. Call it after the state has changed; `about` is the version it is about.
    pub(super) fn note(&mut self, kind: EventKind, cause: Cause, about: Option<VersionName>, log: &mut Log<'_>) {
        *log.sequence += 1;
        let weight = if kind == EventKind::Promoted { Weight::FULL } else { self.canary_weight() };
        let event = Event {
            sequence: *log.sequence,
            at: log.now,
            service: self.plan.name.clone(),
            revision: self.standing.revision,
            kind,
            cause,
            stable: self.standing.stable.version.clone(),
            canary: about,
            weight,
            step: self.rollout().map(|rollout| self.plan.strategy.number(rollout.step)),
        };
        let canary = event.canary.clone();
        if kind.is_of_rollout() {
            self.last_event = Some(event.clone());
        }
        log.effects.push(Effect::Persist(Box::new(Decision { event, memory: self.memory() })));
        if let (EventKind::Promoted | EventKind::Aborted | EventKind::Superseded, Some(canary)) = (kind, canary) {
            self.tell_gates_the_end(kind, &canary, log);
        }
    }

    /// The running rollout, paused or not.
    pub(super) fn rollout(&self) -> Option<&Rollout> {
        match &self.phase {
            Phase::Progressing(rollout) | Phase::Paused { rollout, .. } => Some(rollout),
            Phase::Healthy | Phase::Degraded { .. } => None,
        }
    }

    pub(super) fn rollout_mut(&mut self) -> Option<&mut Rollout> {
        match &mut self.phase {
            Phase::Progressing(rollout) | Phase::Paused { rollout, .. } => Some(rollout),
            Phase::Healthy | Phase::Degraded { .. } => None,
        }
    }

    /// The share of the canary; nothing outside a rollout.
    pub(in crate::engine) fn canary_weight(&self) -> Weight {
        match &self.phase {
            Phase::Progressing(rollout) | Phase::Paused { rollout, .. } => rollout.weight,
            Phase::Degraded { ramp: Some(ramp), .. } => ramp.weight,
            Phase::Healthy | Phase::Degraded { ramp: None, .. } => Weight::ZERO,
        }
    }

    /// The service's name.
    pub(in crate::engine) fn name(&self) -> &crate::engine::names::ServiceName {
        &self.plan.name
    }

    /// What must survive.
    pub(in crate::engine) fn memory(&self) -> ServiceMemory {
        let standing = &self.standing;
        ServiceMemory {
            service: self.plan.name.clone(),
            stable: standing.stable.clone(),
            stable_since: standing.stable_since,
            seen: standing.seen.clone(),
            refused: standing.refused.clone(),
            earlier: standing.earlier.clone(),
            revision: standing.revision,
            leaving: standing.leaving.clone(),
            added: standing.added.clone(),
            phase: self.phase.memory(),
        }
    }

    /// The share test's state, while there is one.
    pub(in crate::engine) fn evidence(&self) -> Option<EvidenceMemory> {
        let watched = self.rollout()?.test.as_ref()?;
        Some(EvidenceMemory {
            service: self.plan.name.clone(),
            revision: self.standing.revision,
            share_test: watched.test.state(),
        })
    }
}

impl Standing {
    /// At the very first start.
    pub(super) fn first(stable: VersionName) -> Self {
        Self {
            stable: Wish { version: stable, revision: String::new() },
            stable_since: Revision(0),
            seen: None,
            refused: Vec::new(),
            earlier: Vec::new(),
            revision: Revision(0),
            leaving: Vec::new(),
            added: Vec::new(),
        }
    }

    /// As remembered.
    pub(super) fn recall(memory: &ServiceMemory) -> Self {
        Self {
            stable: memory.stable.clone(),
            stable_since: memory.stable_since,
            seen: memory.seen.clone(),
            refused: memory.refused.clone(),
            earlier: memory.earlier.clone(),
            revision: memory.revision,
            leaving: memory.leaving.clone(),
            added: memory.added.clone(),
        }
    }

    /// The wish starts no rollout by itself any more.
    pub(super) fn refuse(&mut self, wish: &Wish) {
        self.forgive(wish);
        self.refused.push(wish.clone());
        let surplus = self.refused.len().saturating_sub(REFUSED_MAX);
        self.refused.drain(..surplus);
    }

    /// The wish may start a rollout again.
    pub(super) fn forgive(&mut self, wish: &Wish) {
        self.refused.retain(|refused| refused != wish);
    }

    /// The wish is stable from revision `since` on; the present stable becomes an earlier one.
    pub(super) fn crown(&mut self, wish: Wish, since: Revision) {
        let former = std::mem::replace(&mut self.stable, wish);
        self.earlier.push((std::mem::replace(&mut self.stable_since, since), former));
        let surplus = self.earlier.len().saturating_sub(EARLIER_MAX);
        self.earlier.drain(..surplus);
    }
}

impl Phase {
    fn memory(&self) -> PhaseMemory {
        match self {
            Self::Healthy => PhaseMemory::Healthy,
            Self::Progressing(rollout) => PhaseMemory::Progressing(rollout.memory()),
            Self::Paused { rollout, kind, reason, at } => {
                PhaseMemory::Paused { rollout: rollout.memory(), kind: *kind, reason: reason.clone(), at: *at }
            }
            Self::Degraded { target, reason, .. } => {
                PhaseMemory::Degraded { target: target.clone(), reason: reason.clone() }
            }
        }
    }
}

impl Rollout {
    fn memory(&self) -> RolloutMemory {
        RolloutMemory {
            target: self.target.clone(),
            step: self.step,
            weight: self.weight,
            started: self.started,
            since: self.since,
            spent_ms: u64::try_from(self.spent.as_millis()).unwrap_or(u64::MAX),
            admitted: self.admitted,
            begun: self.begun,
            passed: self.gates.iter().filter_map(|gate| gate.passed(self.step)).collect(),
        }
    }

    /// A rollout before its first step.
    pub(super) fn waiting(target: Wish, now: Timestamp) -> Self {
        Self {
            target,
            step: 0,
            weight: Weight::ZERO,
            started: now,
            since: now,
            spent: Duration::ZERO,
            test: None,
            safe: None,
            analysis: None,
            background: None,
            unready_since: None,
            lacking_since: None,
            admitted: false,
            begun: false,
            gates: Vec::new(),
        }
    }

    /// A remembered rollout, with empty windows and no analysis measured yet.
    pub(super) fn recall(memory: &RolloutMemory) -> Self {
        Self {
            step: memory.step,
            weight: memory.weight,
            started: memory.started,
            spent: Duration::from_millis(memory.spent_ms),
            admitted: memory.admitted,
            begun: memory.begun,
            gates: memory.passed.iter().map(|name| GateState::recall(name, memory.step)).collect(),
            ..Self::waiting(memory.target.clone(), memory.since)
        }
    }

    /// Unpaused time since the start, while not paused.
    pub(super) fn running_for(&self, now: Timestamp) -> Duration {
        self.spent.saturating_add(now.since(self.since))
    }
}

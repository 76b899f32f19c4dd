//! The plain data that must survive a restart. `store` maps it to versioned records.

use super::{
    names::{Revision, ServiceName},
    plan::Wish,
    stats::share_test::ShareTestState,
    time::Timestamp,
    weight::Weight,
};

/// All that the engine remembers over a restart.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Memory {
    /// Number of the last event.
    pub sequence: u64,
    /// Each service that ever was configured.
    pub services: Vec<ServiceMemory>,
}

/// What must survive of one service.
#[derive(Debug, Clone, PartialEq)]
pub struct ServiceMemory {
    /// Its name.
    pub service: ServiceName,
    /// The stable version.
    pub stable: Wish,
    /// The wish last seen in the file or a command.
    pub seen: Option<Wish>,
    /// Wishes that were aborted or undone and start no rollout by themselves; newest last, bounded.
    pub refused: Vec<Wish>,
    /// Earlier stables with the revision that made them stable; newest last, bounded.
    pub earlier: Vec<(Revision, Wish)>,
    /// The present or last attempt.
    pub revision: Revision,
    /// Where things stand.
    pub phase: PhaseMemory,
}

/// A phase as it is remembered.
#[derive(Debug, Clone, PartialEq)]
pub enum PhaseMemory {
    /// No rollout.
    Healthy,
    /// A rollout goes on by itself.
    Progressing(RolloutMemory),
    /// A rollout waits for a person.
    Paused {
        /// The rollout.
        rollout: RolloutMemory,
        /// What it waits for, in words.
        reason: String,
    },
    /// The canary was withdrawn.
    Degraded {
        /// What was tried.
        target: Wish,
        /// Why it was withdrawn, in words.
        reason: String,
    },
}

/// A running rollout as it is remembered.
#[derive(Debug, Clone, PartialEq)]
pub struct RolloutMemory {
    /// What is tried.
    pub target: Wish,
    /// The step, from 0.
    pub step: usize,
    /// The canary's weight.
    pub weight: Weight,
    /// When the rollout started.
    pub started: Timestamp,
    /// When the step was entered; shifted by pauses, so that `at - since` is unpaused time.
    pub since: Timestamp,
    /// When this was written.
    pub written: Timestamp,
    /// Unpaused time of the whole rollout before `since`, in milliseconds.
    pub spent_ms: u64,
}

/// The share test's state of one running rollout. Saved each second, without fsync: losing it costs evidence, not safety.
#[derive(Debug, Clone, PartialEq)]
pub struct EvidenceMemory {
    /// Of which service.
    pub service: ServiceName,
    /// In which attempt; evidence of another one is ignored.
    pub revision: Revision,
    /// The state.
    pub share_test: ShareTestState,
}

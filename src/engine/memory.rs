//! The plain data that must survive a restart. `store` maps it to versioned records.

use super::{
    endpoint::Site,
    names::{Revision, ServiceName, VersionName},
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
    /// The revision that made it stable; 0 for the one the file named at the very first start.
    pub stable_since: Revision,
    /// The wish last seen in the file or a command.
    pub seen: Option<Wish>,
    /// Wishes that were aborted or undone and start no rollout by themselves; newest last, bounded.
    pub refused: Vec<Wish>,
    /// Stables before the present one, with the revision that made each stable; newest last, bounded.
    pub earlier: Vec<(Revision, Wish)>,
    /// The present or last attempt.
    pub revision: Revision,
    /// Versions that serve no longer, with the time from which they may be stopped; bounded.
    pub leaving: Vec<(VersionName, Timestamp)>,
    /// Versions that the file does not name, with where they answer; bounded.
    pub added: Vec<(VersionName, Site)>,
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
        /// What kind of pause it is, which decides how it ends.
        kind: PauseKind,
        /// What it waits for, in words.
        reason: String,
        /// When it began.
        at: Timestamp,
    },
    /// The canary was withdrawn.
    Degraded {
        /// What was tried.
        target: Wish,
        /// Why it was withdrawn, in words.
        reason: String,
    },
}

/// Why a rollout waits for a person. Decides what `resume` means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PauseKind {
    /// A pause step without an end; resume goes on with the next step.
    Step,
    /// A person said so; resume goes on where it stood.
    Command,
    /// A person set the weight; resume goes on with the next step above it.
    Weight,
    /// A person lets nobody new come to the canary; resume lets them come again.
    Drain,
    /// The guard was breached and is told to pause; resume goes on with fresh evidence.
    Guard,
    /// An analysis run was Inconclusive; resume runs it again.
    Inconclusive,
    /// Too little traffic to judge; resume waits again.
    NoTraffic,
    /// A gate gives no answer; resume asks it again, promote goes on without it.
    Gate,
    /// The state was lost, stale or could not be written: stable only. Ended by `start` or `abort`, not by resume.
    Untrusted,
}

impl PauseKind {
    /// All kinds.
    pub const ALL: [Self; 9] = [
        Self::Step,
        Self::Command,
        Self::Weight,
        Self::Drain,
        Self::Guard,
        Self::Inconclusive,
        Self::NoTraffic,
        Self::Gate,
        Self::Untrusted,
    ];

    /// The word for records.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Step => "step",
            Self::Command => "command",
            Self::Weight => "weight",
            Self::Drain => "drain",
            Self::Guard => "guard",
            Self::Inconclusive => "inconclusive",
            Self::NoTraffic => "noTraffic",
            Self::Gate => "gate",
            Self::Untrusted => "untrusted",
        }
    }
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
    /// Unpaused time of the whole rollout before `since`, in milliseconds.
    pub spent_ms: u64,
    /// Its turn among other rollouts has come.
    pub admitted: bool,
    /// The gates before its first step let it begin.
    pub begun: bool,
    /// Gates that said go in the present step, by name; bounded by the gates there are.
    pub passed: Vec<String>,
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

//! Gates: outside services that are asked whether a rollout may go on. Says who is asked what and what the answers mean;
//! when to ask is the rollout's business, how to ask and under which address is not known here.

use std::{sync::Arc, time::Duration};

use super::{
    names::{Revision, ServiceName, VersionName},
    time::Timestamp,
    view::PhaseView,
    weight::Weight,
};

/// Most gates of a service.
pub const GATES_MAX: usize = 32;

/// Where in a rollout a gate is asked; the words are those of Flagger's webhooks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GateKind {
    /// Before the first step.
    ConfirmRollout,
    /// Before the first step, once every `confirm-rollout` said go.
    PreRollout,
    /// In each step that takes time; the step does not end before it says go.
    Rollout,
    /// Before each step that gives the canary more.
    ConfirmTrafficIncrease,
    /// Before the canary becomes stable.
    ConfirmPromotion,
    /// Told how the rollout ended; the answer means nothing.
    PostRollout,
    /// Asked all along whether to give the canary up: go means yes.
    Rollback,
}

impl GateKind {
    /// All kinds, in the order in which a rollout meets them.
    pub const ALL: [Self; 7] = [
        Self::ConfirmRollout,
        Self::PreRollout,
        Self::Rollout,
        Self::ConfirmTrafficIncrease,
        Self::ConfirmPromotion,
        Self::PostRollout,
        Self::Rollback,
    ];

    /// The word, as in the file.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ConfirmRollout => "confirm-rollout",
            Self::PreRollout => "pre-rollout",
            Self::Rollout => "rollout",
            Self::ConfirmTrafficIncrease => "confirm-traffic-increase",
            Self::ConfirmPromotion => "confirm-promotion",
            Self::PostRollout => "post-rollout",
            Self::Rollback => "rollback",
        }
    }
}

/// A gate as the file wants it. Its address and secrets stay with whoever asks, found by service and name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GatePlan {
    /// Its name, unique in its service.
    pub name: Arc<str>,
    /// Where in a rollout it is asked.
    pub kind: GateKind,
    /// How long an answer is waited for.
    pub timeout: Duration,
}

/// Whose question it is: an answer to one that is no longer asked is dropped.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct GateTicket {
    /// Of which service.
    pub service: ServiceName,
    /// In which attempt.
    pub revision: Revision,
    /// Of which gate.
    pub gate: Arc<str>,
    /// For which step, from 0; the number of steps for the promotion.
    pub step: usize,
    /// When it was asked.
    pub asked: Timestamp,
}

/// A question that is on its way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GateQuestion {
    /// Whose question it is.
    pub ticket: GateTicket,
    /// For which step, as people count them.
    pub step: usize,
    /// What is asked.
    pub kind: GateKind,
    /// How long an answer is waited for.
    pub timeout: Duration,
    /// Where the rollout stands, or how it ended: Healthy is promoted, Degraded is given up.
    pub phase: PhaseView,
    /// Who is stable.
    pub stable: VersionName,
    /// What is tried.
    pub canary: VersionName,
    /// The canary's weight now.
    pub weight: Weight,
}

/// What a gate says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GateAnswer {
    /// Yes.
    Go,
    /// Not yet: ask again, after so long if it says so.
    Wait(Option<Duration>),
    /// No.
    Stop,
}

//! What was decided, with the numbers it was decided on. History, log, `why`, API and messages all show this.

use std::time::Duration;

use super::{
    gate::GateKind,
    names::{Revision, ServiceName, VersionName},
    samples::Counts,
    time::Timestamp,
    weight::Weight,
};

/// One decision. Events of a service are numbered without gaps.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// 1 for the first event of the state folder; one more for each further one, over all services.
    pub sequence: u64,
    /// When it was decided.
    pub at: Timestamp,
    /// Of which service.
    pub service: ServiceName,
    /// In which attempt.
    pub revision: Revision,
    /// What.
    pub kind: EventKind,
    /// Why.
    pub cause: Cause,
    /// The stable version after it.
    pub stable: VersionName,
    /// The version that the event is about: the canary, or what was the canary.
    pub canary: Option<VersionName>,
    /// The canary's weight after it.
    pub weight: Weight,
    /// The step after it, from 1; none outside a rollout.
    pub step: Option<usize>,
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// A state folder was used for the first time.
    Initialized,
    /// A rollout began.
    Started,
    /// The canary's weight changed by a step or a command.
    WeightChanged,
    /// A step ended and the next one began without a change of weight.
    StepChanged,
    /// A rollout waits for a person.
    Paused,
    /// It goes on.
    Resumed,
    /// The canary is stable now.
    Promoted,
    /// The canary was withdrawn.
    Aborted,
    /// A newer wish, or the removal of the wish, ended the rollout.
    Superseded,
    /// A changed file was applied to a running rollout.
    Reconfigured,
    /// A version serves no longer for as long as was asked for: it may be stopped.
    ScaleDown,
    /// A person ended the analyses that were running.
    Terminated,
    /// A person started an analysis.
    AnalysisStarted,
    /// A gate let the rollout go on.
    GatePassed,
    /// An endpoint of a version that serves is left out. One that comes and goes is told of once in a while.
    EndpointOut,
    /// An endpoint that was told to be out is back.
    EndpointBack,
}

impl EventKind {
    /// All kinds.
    pub const ALL: [Self; 16] = [
        Self::Initialized,
        Self::Started,
        Self::WeightChanged,
        Self::StepChanged,
        Self::Paused,
        Self::Resumed,
        Self::Promoted,
        Self::Aborted,
        Self::Superseded,
        Self::Reconfigured,
        Self::ScaleDown,
        Self::Terminated,
        Self::AnalysisStarted,
        Self::GatePassed,
        Self::EndpointOut,
        Self::EndpointBack,
    ];

    /// Whether it says where a rollout stands; endpoints come and go beside it, and so do analyses by hand.
    #[must_use]
    pub const fn is_of_rollout(self) -> bool {
        !matches!(self, Self::EndpointOut | Self::EndpointBack | Self::AnalysisStarted)
    }

    /// The word for records, API and logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Initialized => "initialized",
            Self::Started => "started",
            Self::WeightChanged => "weightChanged",
            Self::StepChanged => "stepChanged",
            Self::Paused => "paused",
            Self::Resumed => "resumed",
            Self::Promoted => "promoted",
            Self::Aborted => "aborted",
            Self::Superseded => "superseded",
            Self::Reconfigured => "reconfigured",
            Self::ScaleDown => "scaleDown",
            Self::Terminated => "terminated",
            Self::AnalysisStarted => "analysisStarted",
            Self::GatePassed => "gatePassed",
            Self::EndpointOut => "endpointOut",
            Self::EndpointBack => "endpointBack",
        }
    }
}

/// Why a decision was taken.
#[derive(Debug, Clone, PartialEq)]
pub enum Cause {
    /// The file wants it.
    File,
    /// A command.
    Person {
        /// The verb's word.
        verb: &'static str,
        /// Who.
        actor: String,
        /// Their reason; may be empty.
        reason: String,
    },
    /// The plan's next step was due.
    Plan,
    /// Too many errors.
    ErrorRate {
        /// Highest allowed share.
        max: f64,
        /// What was looked at.
        window: Duration,
        /// The canary in it.
        canary: Counts,
        /// Stable over the same time.
        stable: Counts,
    },
    /// Too slow.
    Latency {
        /// Which quantile.
        quantile: f64,
        /// Highest allowed.
        max: Duration,
        /// The canary's.
        value: Duration,
        /// Over so many canary requests.
        requests: u64,
        /// Stable's over the same time, if it had requests.
        stable: Option<Duration>,
    },
    /// The canary has more than its fair share of what is bad.
    ShareTest {
        /// The bound on false reverts.
        alpha: f64,
        /// Natural logarithm of the evidence; a revert is at `ln(1/alpha)`.
        log_e: f64,
        /// What weighed most: `errors`, or a level of slowness such as `p95`.
        metric: &'static str,
        /// Beyond what a request of the canary counts as bad, for a level of slowness.
        slower_than: Option<Duration>,
        /// The canary in this rollout, routed by draw, and its requests that are bad by that metric.
        canary: Counts,
        /// Stable over the same time.
        stable: Counts,
    },
    /// The canary was proven good enough for the next weight before the hold was over.
    Proven {
        /// Bound on the probability of this for a canary beyond the margin.
        alpha: f64,
        /// How much higher than stable's (times the tolerated ratio) its error rate may be.
        margin: f64,
        /// Canary requests since the last change of weight.
        requests: u64,
    },
    /// Too many errors in a row.
    ConsecutiveErrors {
        /// Seen.
        errors: u64,
        /// Allowed fewer than.
        limit: u64,
    },
    /// An analysis run ended in another phase than Successful.
    Analysis {
        /// The metric that decided.
        metric: String,
        /// `Failed`, `Error` or `Inconclusive`.
        phase: &'static str,
        /// Value, limit and sample sizes, in words.
        message: String,
    },
    /// A gate's answer, or that it gives none.
    Gate {
        /// The gate's name.
        gate: String,
        /// What it was asked.
        kind: GateKind,
        /// What it said.
        said: GateWord,
        /// Why there was no answer, in words; empty when there was one.
        message: String,
    },
    /// Too little traffic for `noTrafficFor`.
    NoTraffic {
        /// How long.
        waited: Duration,
    },
    /// What was seen of an endpoint.
    Endpoint {
        /// Which.
        endpoint: String,
        /// Why it is left out, in words; empty when it is back.
        why: String,
    },
    /// The rollout's deadline passed.
    Deadline {
        /// Of how long.
        deadline: Duration,
    },
    /// The state could not be written or read, or was too old.
    Storage(String),
}

/// What a gate said that decided something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GateWord {
    /// Go on.
    Go,
    /// Stop.
    Stop,
    /// Give the canary up.
    RollBack,
    /// Nothing that could be understood, several times in a row.
    Nothing,
}

impl GateWord {
    /// All words.
    pub const ALL: [Self; 4] = [Self::Go, Self::Stop, Self::RollBack, Self::Nothing];

    /// The word for records and the API.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Go => "go",
            Self::Stop => "stop",
            Self::RollBack => "rollBack",
            Self::Nothing => "nothing",
        }
    }
}

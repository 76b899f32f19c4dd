//! The one read model: status, why, API, metrics and dashboard all show this.

use std::{sync::Arc, time::Duration};

use super::{
    analysis::record::RunRecord,
    event::Event,
    health::EndpointView,
    names::{Generation, Revision, Role, ServiceName, VersionName},
    samples::Counts,
    time::Timestamp,
    weight::Weight,
};

/// All services at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct View {
    /// When this was true.
    pub at: Timestamp,
    /// The table in force.
    pub generation: Generation,
    /// Each service.
    pub services: Vec<ServiceView>,
}

/// One service.
#[derive(Debug, Clone, PartialEq)]
pub struct ServiceView {
    /// Its name.
    pub name: ServiceName,
    /// Where things stand.
    pub phase: PhaseView,
    /// Why it stands there, where that needs saying (paused, degraded).
    pub phase_reason: Option<String>,
    /// The present or last attempt.
    pub revision: Revision,
    /// The stable version.
    pub stable: VersionName,
    /// The canary, or the version that was withdrawn last.
    pub canary: Option<VersionName>,
    /// The running rollout.
    pub rollout: Option<RolloutView>,
    /// The earlier stable version that `undo` would go back to; none while a rollout runs.
    pub undo_to: Option<VersionName>,
    /// Each configured version.
    pub versions: Vec<VersionView>,
    /// The latest event but for those of endpoints.
    pub last_event: Option<Event>,
    /// Analysis runs since the start of the process, the latest last: those that ended (bounded), then those that go on.
    pub analysis_runs: Vec<Arc<RunRecord>>,
}

/// The four phases, as in Argo Rollouts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PhaseView {
    /// No rollout; stable serves.
    Healthy,
    /// A rollout goes on by itself.
    Progressing,
    /// A rollout waits for a person.
    Paused,
    /// The last rollout was aborted; stable serves.
    Degraded,
}

impl PhaseView {
    /// All phases.
    pub const ALL: [Self; 4] = [Self::Healthy, Self::Progressing, Self::Paused, Self::Degraded];

    /// The word, as Argo writes it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Healthy => "Healthy",
            Self::Progressing => "Progressing",
            Self::Paused => "Paused",
            Self::Degraded => "Degraded",
        }
    }
}

/// A running rollout.
#[derive(Debug, Clone, PartialEq)]
pub struct RolloutView {
    /// When it started.
    pub started: Timestamp,
    /// The present step, from 1.
    pub step: usize,
    /// All steps, in words, e.g. `setWeight 5%`.
    pub steps: Vec<String>,
    /// Unpaused time in the present step.
    pub in_step: Duration,
    /// What must still happen before the next step.
    pub waiting: Vec<Waiting>,
    /// What would end the rollout, with where it stands.
    pub checks: Vec<CheckView>,
    /// The header routes in force, by name: requests that meet one go to the canary, whatever its weight.
    pub header_routes: Vec<String>,
    /// The mirror routes in force: copies of requests that stable serves go to the canary.
    pub mirror_routes: Vec<MirrorView>,
    /// How soon the share test would see a bad canary at the present weight and traffic; none without either.
    pub forecast: Option<Forecast>,
}

/// A mirror route in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MirrorView {
    /// Its name.
    pub name: String,
    /// Of so many requests that meet it.
    pub share: Weight,
}

/// How soon a canary that fails a share of its requests would be seen: about, in the median.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Forecast {
    /// That share: twice stable's, and at least 1 %.
    pub error_rate: f64,
    /// Until it would be seen.
    pub about: Duration,
}

/// One thing that is awaited.
#[derive(Debug, Clone, PartialEq)]
pub enum Waiting {
    /// Time.
    Time {
        /// This much.
        left: Duration,
    },
    /// Canary requests.
    Requests {
        /// Who needs them, e.g. `errorRate`.
        check: String,
        /// Seen.
        have: u64,
        /// Needed.
        need: u64,
        /// How long it takes at the present rate, if there is one.
        about: Option<Duration>,
    },
    /// A person.
    Person,
    /// Something that lets the next step begin: a window of the day, another rollout's end, a gate.
    Permit {
        /// What, in words, e.g. `the next window in which weight may rise, 2026-09-21T07:00:00.000Z`.
        what: String,
        /// How long it takes, where that is known.
        left: Option<Duration>,
    },
    /// An analysis run.
    Analysis {
        /// Which metric.
        metric: String,
        /// Where it stands, in words.
        state: String,
    },
}

/// One guard or analysis check.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckView {
    /// e.g. `errorRate`, `p99`, `versusStable`, `consecutiveErrors`.
    pub name: String,
    /// What it says now.
    pub verdict: Verdict,
    /// The value, in the limit's unit; none without data.
    pub value: Option<f64>,
    /// The limit.
    pub limit: f64,
    /// Unit of both.
    pub unit: Unit,
    /// Canary requests behind it.
    pub requests: u64,
    /// Requests it needs.
    pub min_requests: u64,
    /// The same value of stable.
    pub stable: Option<f64>,
}

/// What a check says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// Within the limit.
    Pass,
    /// Over the limit.
    Fail,
    /// Too little data.
    NoData,
}

impl Verdict {
    /// The word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail => "fail",
            Self::NoData => "noData",
        }
    }
}

/// Unit of a check's value and limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Unit {
    /// A share in 0..1.
    Ratio,
    /// Seconds.
    Seconds,
    /// Natural logarithm of evidence.
    LogEvidence,
    /// A number.
    Count,
}

/// One version over the last minute at most, never past the last weight change.
#[derive(Debug, Clone, PartialEq)]
pub struct VersionView {
    /// Its name.
    pub name: VersionName,
    /// Where it answers, when the file does not name it.
    pub added_at: Option<String>,
    /// Its part now.
    pub role: Role,
    /// The share asked for.
    pub weight: Weight,
    /// The share it got of requests routed by draw or bucket; none without traffic.
    pub measured: Option<f64>,
    /// Over this time.
    pub window: Duration,
    /// Requests and errors in it.
    pub counts: Counts,
    /// Requests a second.
    pub rps: f64,
    /// Median latency.
    pub p50: Option<Duration>,
    /// 95th percentile.
    pub p95: Option<Duration>,
    /// 99th percentile.
    pub p99: Option<Duration>,
    /// Its endpoints, where they are watched.
    pub endpoints: Vec<EndpointView>,
}

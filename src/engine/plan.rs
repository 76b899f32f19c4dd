//! What is wanted of a service: the checked plan that `config` parses and the engine follows.
//! Everything here is already valid; the engine refuses nothing of it.

use std::{sync::Arc, time::Duration};

use super::{
    address::Network,
    analysis::Template,
    assign::{Cohort, ForceRule, HeaderRoute},
    endpoint::{Endpoint, Site, UpstreamHttp},
    failure::{FailurePlan, Retry},
    filter::BothWays,
    gate::GatePlan,
    mirror::MirrorRoute,
    names::{ServiceName, VersionName},
    numbering::Numbering,
    policy::Policy,
    route::Routes,
    sticky::StickyBy,
    table::Timeouts,
    upstream::UpstreamPlan,
    weight::Weight,
};

/// All that the file wants.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Plan {
    /// The services, in the order of the file.
    pub services: Vec<ServicePlan>,
    /// Which of them takes which request. Needed for more than one.
    pub routes: Arc<Routes>,
    /// Peers whose word about earlier hops is believed.
    pub trusted: Arc<[Network]>,
}

impl From<Vec<ServicePlan>> for Plan {
    /// Services without routes.
    fn from(services: Vec<ServicePlan>) -> Self {
        Self { services, ..Self::default() }
    }
}

/// A service as the file wants it.
#[derive(Debug, Clone, PartialEq)]
pub struct ServicePlan {
    /// Its name.
    pub name: ServiceName,
    /// Its versions, in file order; at least one.
    pub versions: Vec<VersionPlan>,
    /// Who is stable at the very first start; later the state knows.
    pub stable: VersionName,
    /// The wanted version, if one is named.
    pub wish: Option<Wish>,
    /// Who may force a version, and how.
    pub force: Option<ForceRule>,
    /// Groups of clients with a version of their own, in the order in which they are looked at.
    pub cohorts: Vec<Cohort>,
    /// What keeps clients on their version.
    pub sticky: Option<StickyPlan>,
    /// Limits on waiting, for routes that have none of their own.
    pub timeouts: Timeouts,
    /// Further attempts at a version.
    pub retry: Retry,
    /// What is an error, and who sees it.
    pub failure: FailurePlan,
    /// How a canary is tried.
    pub strategy: Strategy,
    /// Who outside is asked whether a rollout may go on; names unique.
    pub gates: Vec<GatePlan>,
    /// The file's templates, as a person may run them.
    pub by_hand: Vec<ByHand>,
}

/// A template with the templates in it and the arguments' defaults filled in.
#[derive(Debug, Clone, PartialEq)]
pub struct ByHand {
    /// Its name.
    pub name: String,
    /// What is run, or why it cannot be run by itself, in words.
    pub run: Result<Vec<Template>, String>,
}

/// One version as the file wants it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionPlan {
    /// Its name.
    pub name: VersionName,
    /// Where it answers; at least one.
    pub endpoints: Vec<Endpoint>,
    /// How HTTP is spoken to it.
    pub http: UpstreamHttp,
    /// How its endpoints are used.
    pub upstream: Arc<UpstreamPlan>,
    /// What is changed on the way to it and back.
    pub filters: Arc<BothWays>,
}

impl VersionPlan {
    /// A version of which only the address is known; all else is as by default.
    #[must_use]
    pub fn at(name: VersionName, site: &Site) -> Self {
        // Without TLS nothing is agreed on: that is HTTP/1.1 then.
        let http = if site.is_tls { UpstreamHttp::Auto } else { UpstreamHttp::H1 };
        let upstream = UpstreamPlan { tls: site.is_tls.then(Arc::default), ..UpstreamPlan::default() };
        Self {
            name,
            endpoints: vec![site.endpoint.clone()],
            http,
            upstream: Arc::new(upstream),
            filters: Arc::default(),
        }
    }
}

/// The wanted version: a rollout starts when this differs from the wish last seen.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Wish {
    /// Which version.
    pub version: VersionName,
    /// Another build under the same name; empty when none is given.
    pub revision: String,
}

/// What keeps clients on their version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StickyPlan {
    /// What they are known by.
    pub by: StickyBy,
    /// How long the client keeps a cookie; a session cookie without.
    pub ttl: Option<Duration>,
}

/// The canary strategy.
#[derive(Debug, Clone, PartialEq)]
pub struct Strategy {
    /// What happens in which order; after the last one the canary is promoted.
    pub steps: Vec<Step>,
    /// How people count them.
    pub numbering: Numbering,
    /// What is watched from the first canary request to the promotion.
    pub guard: Guard,
    /// What a hold does when it is over but the guard lacks requests.
    pub on_no_traffic: OnNoTraffic,
    /// How long a hold may lack requests before `on_no_traffic` acts.
    pub no_traffic_for: Duration,
    /// Unpaused time after which a rollout is aborted.
    pub deadline: Option<Duration>,
    /// The rules that are no steps.
    pub policy: Policy,
    /// What is analysed beside the steps.
    pub analysis: Option<BackgroundAnalysis>,
}

/// `analysis: { templates, startingStep }` beside the steps.
#[derive(Debug, Clone, PartialEq)]
pub struct BackgroundAnalysis {
    /// What is run.
    pub templates: Vec<Template>,
    /// From this step on, from 0: so many steps go before it, as in Argo Rollouts.
    pub starting_step: usize,
}

/// One step. Shown and addressed from 1.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Gives the canary this share.
    SetWeight(Weight),
    /// Sends requests with certain header fields to the canary, whatever its weight, until it is replaced or removed or
    /// the rollout ends.
    SetHeaderRoute {
        /// By which a later step replaces or removes it.
        name: Arc<str>,
        /// The route; none removes it.
        route: Option<HeaderRoute>,
    },
    /// Copies requests that stable serves to the canary, until it is replaced or removed or the rollout ends.
    SetMirrorRoute {
        /// By which a later step replaces or removes it.
        name: Arc<str>,
        /// The route; none removes it.
        route: Option<MirrorRoute>,
    },
    /// Holds.
    Pause(Pause),
    /// Runs an analysis and goes on when it is Successful.
    Analysis(Vec<Template>),
    /// Gives other versions a part of what is stable's, for as long as the step takes.
    Experiment(Experiment),
}

/// `experiment: { duration, templates, analyses }`. Has a duration, or analyses with whose success it ends.
#[derive(Debug, Clone, PartialEq)]
pub struct Experiment {
    /// How long it goes on.
    pub duration: Option<Duration>,
    /// Who takes part; together with the canary they have at most everything.
    pub arms: Vec<Arm>,
    /// What is judged meanwhile, in one run.
    pub analyses: Vec<Template>,
    /// It ends as soon as the run is Successful.
    pub ends_with_analyses: bool,
}

/// A version that takes part in an experiment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arm {
    /// What it is called in the experiment.
    pub name: String,
    /// Which version; one that is stable or the canary by then gets nothing by it.
    pub version: VersionName,
    /// Its share, taken out of stable's.
    pub weight: Weight,
}

impl Step {
    /// What is analysed in the step.
    #[must_use]
    pub fn analyses(&self) -> Option<&[Template]> {
        match self {
            Self::Analysis(templates) => Some(templates),
            Self::Experiment(experiment) if !experiment.analyses.is_empty() => Some(&experiment.analyses),
            Self::Experiment(_)
            | Self::SetWeight(_)
            | Self::SetHeaderRoute { .. }
            | Self::SetMirrorRoute { .. }
            | Self::Pause(_) => None,
        }
    }

    /// The same, to be changed.
    pub fn analyses_mut(&mut self) -> Option<&mut Vec<Template>> {
        match self {
            Self::Analysis(templates) => Some(templates),
            Self::Experiment(experiment) => Some(&mut experiment.analyses),
            Self::SetWeight(_) | Self::SetHeaderRoute { .. } | Self::SetMirrorRoute { .. } | Self::Pause(_) => None,
        }
    }
}

/// How long a pause step holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pause {
    /// This long, and until the guard has its minimum of requests.
    For(Duration),
    /// Until the canary answered so many requests since the weight change, and the guard has its minimum.
    Requests(u64),
    /// The watch at the end, over nearly all traffic: as `For`.
    Bake(Duration),
    /// Until a person says `promote` or `resume`.
    Person,
}

/// Thresholds and tests watched all the time.
#[derive(Debug, Clone, PartialEq)]
pub struct Guard {
    /// Highest share of errors.
    pub error_rate: Option<ErrorRateLimit>,
    /// Highest latencies.
    pub latency: Vec<LatencyLimit>,
    /// The share test; absent when switched off.
    pub share_test: Option<ShareTestPlan>,
    /// Errors in a row, as one worker sees them; zero switches it off.
    pub consecutive_errors: u64,
    /// What is not counted at the canary's start.
    pub warmup: Warmup,
    /// What a breach does.
    pub on_failure: OnFailure,
}

/// How long after its first weight in a rollout a canary is not judged yet: a cold process is truly slower.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Warmup {
    /// Its errors.
    pub errors: Duration,
    /// Its latencies.
    pub latency: Duration,
}

impl Default for Warmup {
    fn default() -> Self {
        Self { errors: Duration::ZERO, latency: Duration::from_secs(10) }
    }
}

/// `errorRate: { max, window, minRequests }`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ErrorRateLimit {
    /// Share in `0.0..=1.0`; a breach is above it.
    pub max: f64,
    /// How far back.
    pub window: Duration,
    /// Silent below so many canary requests.
    pub min_requests: u64,
}

/// `latency: [{ quantile, max, window, minRequests }]`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LatencyLimit {
    /// Share in `0.0..=1.0`.
    pub quantile: f64,
    /// A breach is above it.
    pub max: Duration,
    /// How far back.
    pub window: Duration,
    /// Silent below so many canary requests.
    pub min_requests: u64,
}

/// `versusStable`: the share test.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ShareTestPlan {
    /// Bound on the probability of ever reverting a canary within tolerance.
    pub alpha: f64,
    /// Tolerated ratio of error rates, at least 1.
    pub relative: f64,
    /// Tolerated difference of error rates, at least 0.
    pub absolute: f64,
    /// Evidence must come from more than so many different seconds; 0 switches this guard for bursts off.
    pub min_bad_seconds: u32,
    /// By how much the canary may be slower; absent when latency is not compared.
    pub latency: Option<LatencyTolerance>,
}

/// `versusStable.latency`: how much slower than stable the canary may be at each quantile.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LatencyTolerance {
    /// As a share of stable's latency, `0.0..=1.0`.
    pub relative: f64,
    /// And so much more.
    pub absolute: Duration,
}

/// What happens when the guard is breached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnFailure {
    /// Weight 0 at once.
    #[default]
    Abort,
    /// The weight stays, a person decides.
    Pause,
}

/// What happens when there is too little traffic to judge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnNoTraffic {
    /// The hold goes on.
    #[default]
    Wait,
    /// A person decides.
    Pause,
    /// Weight 0.
    Abort,
}

impl Default for ShareTestPlan {
    fn default() -> Self {
        let latency = Some(LatencyTolerance::default());
        Self { alpha: 0.01, relative: 1.25, absolute: 0.001, min_bad_seconds: 3, latency }
    }
}

impl Default for LatencyTolerance {
    fn default() -> Self {
        Self { relative: 0.2, absolute: Duration::from_millis(10) }
    }
}

impl Default for Guard {
    /// The share test and twenty errors in a row; thresholds only where written.
    fn default() -> Self {
        Self {
            error_rate: None,
            latency: Vec::new(),
            share_test: Some(ShareTestPlan::default()),
            consecutive_errors: 20,
            warmup: Warmup::default(),
            on_failure: OnFailure::Abort,
        }
    }
}

impl ServicePlan {
    /// The plan of a version, if it is configured.
    #[must_use]
    pub fn version(&self, name: &VersionName) -> Option<&VersionPlan> {
        self.versions.iter().find(|version| version.name == *name)
    }
}

//! What the data plane obeys: one immutable value, replaced whole.

use std::{sync::Arc, time::Duration};

use super::{
    address::Network,
    assign::{Cohort, ForceRule, HeaderRoute},
    endpoint::{Endpoint, InUse, UpstreamHttp},
    failure::{FailurePlan, Retry},
    filter::BothWays,
    mirror::MirrorRoute,
    names::{Generation, Role, ServiceName, VersionName},
    route::Routes,
    split::Split,
    sticky::StickyRule,
    upstream::UpstreamPlan,
    weight::Weight,
};

/// All that decides where requests go. Published whole, by one pointer swap.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// Orders tables; the data plane refuses an older one.
    pub generation: Generation,
    /// The services. Without routes there is one, and it takes every request.
    pub services: Vec<ServiceTable>,
    /// Which service takes which request, and what is changed on the way.
    pub routes: Arc<Routes>,
    /// Peers whose word about earlier hops is believed.
    pub trusted: Arc<[Network]>,
}

impl Table {
    /// A table without routes that trusts nobody.
    #[must_use]
    pub fn new(generation: Generation, services: Vec<ServiceTable>) -> Self {
        Self { generation, services, routes: Arc::default(), trusted: Arc::default() }
    }
}

/// One service, as the data plane needs it.
#[derive(Debug, Clone, PartialEq)]
pub struct ServiceTable {
    /// Its name.
    pub name: ServiceName,
    /// The table generation in which the weights last changed: the stratum to which a request routed now belongs.
    pub weight_generation: Generation,
    /// All configured versions, with or without weight.
    pub versions: Vec<VersionTable>,
    /// Index of the stable version.
    pub stable: usize,
    /// Index of the canary, while there is one.
    pub canary: Option<usize>,
    /// The split; sums to 1,000,000 by construction.
    pub split: Split,
    /// Who may force a version, and how.
    pub force: Option<ForceRule>,
    /// The rollout's header routes: what meets one goes to the canary. The first one that is met counts.
    pub header_routes: Vec<HeaderRoute>,
    /// The rollout's mirror routes: what meets one and goes to stable is copied to the canary.
    pub mirror_routes: Vec<MirrorRoute>,
    /// Groups of clients, in the order in which they are looked at.
    pub cohorts: Vec<Cohort>,
    /// How clients are kept on their version; absent: a draw per request.
    pub sticky: Option<StickyRule>,
    /// The canary takes nobody new: only clients whose bucket is its own, and who are forced there.
    pub draining: bool,
    /// How long what lives long at a version goes on after that has lost its part.
    pub drain_timeout: Duration,
    /// Limits on waiting, for routes that have none of their own.
    pub timeouts: Timeouts,
    /// Further attempts at a version.
    pub retry: Retry,
    /// What is an error, and who sees it.
    pub failure: FailurePlan,
}

/// One version, as the data plane needs it.
#[derive(Debug, Clone, PartialEq)]
pub struct VersionTable {
    /// Its name.
    pub name: VersionName,
    /// Its part now.
    pub role: Role,
    /// Its share now.
    pub weight: Weight,
    /// Where it answers; never empty.
    pub endpoints: Vec<Endpoint>,
    /// How HTTP is spoken to it.
    pub http: UpstreamHttp,
    /// How its endpoints are used.
    pub upstream: Arc<UpstreamPlan>,
    /// Which of its endpoints get requests now.
    pub in_use: InUse,
    /// What is changed on the way to it and back.
    pub filters: Arc<BothWays>,
}

/// How long the proxy waits for an upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// From the request head read to the response head, all attempts together.
    pub request: Duration,
    /// One attempt: from its start to its response head.
    pub attempt: Duration,
    /// Between two pieces of a body, in either direction.
    pub idle: Duration,
    /// Silence of a connection that has switched to another protocol, in both directions.
    pub upgraded: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            request: Duration::from_secs(30),
            attempt: Duration::from_secs(10),
            idle: Duration::from_mins(1),
            upgraded: Duration::from_hours(1),
        }
    }
}

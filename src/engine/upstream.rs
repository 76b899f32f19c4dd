//! How a version's endpoints are used: whose turn it is, how much each may be asked at once, and by which TLS.

use std::{path::PathBuf, sync::Arc, time::Duration};

use super::weight::Weight;

/// What a version says about its endpoints.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UpstreamPlan {
    /// Whose turn it is.
    pub balancing: Balancing,
    /// What each endpoint may be asked at once.
    pub limits: UpstreamLimits,
    /// How long a new endpoint takes until it has its full part; zero: at once.
    pub slow_start: Duration,
    /// TLS to all of its endpoints; plain without.
    pub tls: Option<Arc<UpstreamTls>>,
    /// How each endpoint is asked whether it is well; none is asked without.
    pub health: Option<HealthPlan>,
    /// When an endpoint is left out for what it does with requests; never without.
    pub ejection: Option<EjectionPlan>,
}

/// `health`: a question to each endpoint, beside the requests.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HealthPlan {
    /// What is asked for by GET; an answer from 200 to 399 is good. Without, a connection (with its TLS) is.
    pub path: Option<Arc<str>>,
    /// From one answer to the next question; a tenth more or less.
    pub interval: Duration,
    /// How long an answer may take; not longer than `interval`.
    pub timeout: Duration,
    /// Good answers in a row that bring it back; at least one.
    pub healthy: u32,
    /// Bad ones in a row that take it out; at least one.
    pub unhealthy: u32,
}

impl Default for HealthPlan {
    fn default() -> Self {
        Self { path: None, interval: Duration::from_secs(2), timeout: Duration::from_secs(1), healthy: 2, unhealthy: 3 }
    }
}

/// `ejection`: an endpoint that fails requests in a row is left out for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct EjectionPlan {
    /// So many errors in a row, over all workers; at least one.
    pub consecutive_errors: u32,
    /// How long the first time. Each further time lasts so much longer; what it served between them is taken off.
    pub base: Duration,
    /// Most of a version's endpoints that are left out at once; one always may be.
    pub max_share: Weight,
}

impl Default for EjectionPlan {
    fn default() -> Self {
        let max_share = Weight::from_ppm(500_000).unwrap_or(Weight::FULL);
        Self { consecutive_errors: 5, base: Duration::from_secs(10), max_share }
    }
}

/// `loadBalancing`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Balancing {
    /// The less busy one of two that chance names.
    #[default]
    LeastRequest,
    /// One after the other.
    RoundRobin,
    /// By chance.
    Random,
    /// A sticky client's requests stay at one endpoint, and few clients move when there is one more or less.
    RingHash,
}

/// `limits`: of each endpoint, over all workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct UpstreamLimits {
    /// Open connections.
    pub connections: u32,
    /// Requests that wait for one.
    pub pending: u32,
}

impl Default for UpstreamLimits {
    fn default() -> Self {
        Self { connections: 1024, pending: 1024 }
    }
}

/// `tls`. Paths are as written, or below the config file's folder.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct UpstreamTls {
    /// Authorities in PEM that are believed in place of the system's.
    pub ca: Option<PathBuf>,
    /// The name that is asked for and that the certificate must have; the endpoint's host without.
    pub sni: Option<Arc<str>>,
    /// A certificate of one's own, in PEM, and its key.
    pub identity: Option<(PathBuf, PathBuf)>,
}

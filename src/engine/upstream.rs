//! How a version's endpoints are used: whose turn it is, how much each may be asked at once, and by which TLS.

use std::{path::PathBuf, sync::Arc, time::Duration};

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

//! What the data plane obeys: one immutable value, replaced whole.

use std::time::Duration;

use super::{
    endpoint::{Endpoint, UpstreamHttp},
    names::{Generation, Role, ServiceName, VersionName},
    split::Split,
    sticky::StickyRule,
    weight::Weight,
};

/// All that decides where requests go. Published whole, by one pointer swap.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// Orders tables; the data plane refuses an older one.
    pub generation: Generation,
    /// The services. Without routes there is one, and it takes every request.
    pub services: Vec<ServiceTable>,
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
    /// The header that forces a version, in lower case.
    pub force_header: Option<String>,
    /// How clients are kept on their version; absent: a draw per request.
    pub sticky: Option<StickyRule>,
    /// Limits on waiting.
    pub timeouts: Timeouts,
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
}

impl Default for Timeouts {
    fn default() -> Self {
        Self { request: Duration::from_secs(30), attempt: Duration::from_secs(10), idle: Duration::from_mins(1) }
    }
}

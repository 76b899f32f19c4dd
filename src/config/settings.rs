//! What is wanted, as meant: every value checked, every default filled in.

use std::{fmt, net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use http::{HeaderName, Uri};

use super::{gate::GateAddress, notify::Receiver};
use crate::{
    engine::{
        address::Network,
        plan::{Plan, ServicePlan},
        route::Routes,
        weight::Weight,
    },
    tls::Protocols,
};

/// A whole checked file.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Where clients come in; at least one.
    pub listeners: Vec<Listener>,
    /// A line for each request; none: no line.
    pub access_log: Option<AccessLog>,
    /// Spans for a collector; none: no tracing.
    pub tracing: Option<Tracing>,
    /// Worker threads; `None` is one for each CPU that the process may use.
    pub workers: Option<usize>,
    /// Whether plain HTTP/1.1 requests that need nothing special are passed on without a map of their fields.
    pub fast_path: bool,
    /// A listener of its own for `/metrics`, `/healthz` and `/readyz`.
    pub metrics: Option<SocketAddr>,
    /// Under whose names the metrics are served as well, at `/metrics/compat`.
    pub compat: Vec<Compat>,
    /// Where people and scripts ask.
    pub admin: Admin,
    /// Where decisions are remembered.
    pub state: State,
    /// What is split; exactly one for now.
    pub services: Vec<ServicePlan>,
    /// Where the services' gates are asked.
    pub gates: Vec<GateAddress>,
    /// Which service takes which request.
    pub routes: Arc<Routes>,
    /// Who is told about rollouts.
    pub notify: Vec<Receiver>,
    /// Peers whose word about earlier hops is believed.
    pub trusted: Arc<[Network]>,
    /// Link-local and metadata addresses that providers and receivers of messages may have all the same.
    pub outbound: Arc<[Network]>,
}

impl Config {
    /// What of it the engine follows.
    #[must_use]
    pub fn plan(&self) -> Plan {
        let (routes, trusted) = (Arc::clone(&self.routes), Arc::clone(&self.trusted));
        Plan { services: self.services.clone(), routes, trusted }
    }
}

/// Another proxy, whose metrics people have queries for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compat {
    /// Istio.
    Istio,
    /// Linkerd.
    Linkerd,
    /// ingress-nginx.
    Nginx,
    /// Traefik.
    Traefik,
    /// Envoy.
    Envoy,
}

/// One listening socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listener {
    /// For logs and metrics.
    pub name: String,
    /// Its address.
    pub listen: SocketAddr,
    /// The versions of HTTP that it speaks.
    pub http: Protocols,
    /// Whether each connection begins with a PROXY header that says who the client is.
    pub proxy_protocol: bool,
    /// TLS; none is plain.
    pub tls: Option<Tls>,
    /// What one client may take.
    pub limits: Limits,
}

impl Listener {
    /// As the short form means it.
    #[must_use]
    pub fn at(listen: SocketAddr) -> Self {
        Self {
            name: "default".to_owned(),
            listen,
            http: Protocols::BOTH,
            proxy_protocol: false,
            tls: None,
            limits: Limits::default(),
        }
    }
}

/// How requests are logged, on standard output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AccessLog {
    /// One JSON object a line; otherwise the combined format.
    pub is_json: bool,
    /// The share of successes that is written; failures all are.
    pub sample_success: Weight,
}

/// Which requests are traced, and for whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tracing {
    /// The collector's whole address.
    pub otlp: Uri,
    /// The share of requests that are traced where nobody before has said whether.
    pub sample: Weight,
    /// Header fields for the collector.
    pub headers: Vec<(HeaderName, Secret)>,
}

/// The files of a listener's TLS; each was read and is sound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tls {
    /// At least one; the first is for clients that name no host.
    pub certificates: Vec<CertificateFiles>,
    /// Who says who a client is; none: nobody is asked.
    pub client_ca: Option<PathBuf>,
}

/// A certificate and its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The certificate with its chain.
    pub cert: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

/// Limits of a listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Largest request head.
    pub header_bytes: usize,
    /// Most header fields of a request.
    pub headers: usize,
    /// From the first byte awaited to a whole request head.
    pub header_timeout: Duration,
    /// Longest silence within a request body.
    pub body_timeout: Duration,
    /// Longest idle time of a kept-alive connection.
    pub idle_timeout: Duration,
    /// Open connections.
    pub connections: usize,
    /// Streams at once on one HTTP/2 connection.
    pub h2_streams: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            header_bytes: 64 * 1024,
            headers: 100,
            header_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(30),
            idle_timeout: Duration::from_mins(1),
            connections: 10_000,
            h2_streams: 128,
        }
    }
}

/// The admin listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admin {
    /// Where it is; loopback or a socket of this machine unless tokens are set.
    pub listen: AdminAddress,
    /// Needed for reads; unset: open on loopback.
    pub read_token: Option<Secret>,
    /// Needed for writes; unset: one is made in the state folder.
    pub write_token: Option<Secret>,
}

/// Where the admin listener is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AdminAddress {
    /// A port.
    Tcp(SocketAddr),
    /// A Unix socket at this absolute path, which only the user that runs Serin may open.
    Unix(PathBuf),
}

impl AdminAddress {
    /// The port, if it is one.
    #[must_use]
    pub const fn tcp(&self) -> Option<SocketAddr> {
        if let Self::Tcp(address) = self { Some(*address) } else { None }
    }
}

impl fmt::Display for AdminAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// The state folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    /// The folder; relative paths are relative to the config file's folder.
    pub dir: PathBuf,
    /// An unfinished rollout older than this is not gone on with.
    pub max_age: Duration,
}

/// A value that is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Takes the value over.
    #[must_use]
    pub const fn new(value: String) -> Self {
        Self(value)
    }

    /// The value, for the one place that needs it.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

//! What the data plane obeys beside the table: what a client may take, how it must come in. Replaced as a whole when the
//! file or a certificate changes; connections keep the settings that they came in under.

use std::{sync::Arc, time::Duration};

use http::{HeaderName, HeaderValue};

use crate::engine::weight::Weight;
use crate::tls::{Protocols, ServerTls};

/// All of it.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// Of each listener, in the order in which they were bound.
    pub listeners: Vec<ListenerSettings>,
    /// Who takes the traces of requests; none: nobody.
    pub collector: Option<Arc<Collector>>,
}

/// Where traces are sent, by OTLP over HTTP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collector {
    /// The whole address.
    pub url: http::Uri,
    /// Header fields; the values are secrets.
    pub headers: Vec<(HeaderName, HeaderValue)>,
}

/// How clients of one listener come in.
#[derive(Debug, Clone)]
pub struct ListenerSettings {
    /// What one client may take.
    pub limits: Limits,
    /// Which versions of HTTP are spoken.
    pub protocols: Protocols,
    /// Whether each connection begins with a PROXY header that says who the client is.
    pub proxy_protocol: bool,
    /// TLS; none is plain.
    pub tls: Option<ServerTls>,
    /// A line for each request; none: no line.
    pub access_log: Option<AccessLog>,
    /// The share of requests that are traced where nobody before has said whether; none: no tracing.
    pub tracing: Option<Weight>,
    /// Whether plain HTTP/1.1 requests that need nothing special are passed on without a map of their fields.
    pub fast_path: bool,
}

/// How requests are logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AccessLog {
    /// How a line is written.
    pub format: AccessLogFormat,
    /// The share of successes that is written; failures all are.
    pub sample_success: Weight,
}

/// How a line of the access log is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessLogFormat {
    /// One JSON object.
    Json,
    /// As web servers write it, with version and role behind it.
    Combined,
}

/// What one client may take. Deadlines hold to within half a second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Largest request head, in bytes.
    pub header_bytes: usize,
    /// Most header fields of a request.
    pub headers: usize,
    /// From the first byte awaited to a whole request head, with what comes before it: a PROXY header, a TLS handshake.
    pub header_timeout: Duration,
    /// Longest silence within a request body.
    pub body_timeout: Duration,
    /// Longest idle time of a kept-alive connection, and longest that a client may leave an answer lying.
    pub idle_timeout: Duration,
    /// Open connections.
    pub connections: usize,
    /// Streams at once on one HTTP/2 connection.
    pub h2_streams: u32,
}

//! What the proxy itself refused, by reason: counted per worker, never charged to a version.
//! A refusal is rare, so these are plain atomic additions; labels come from a closed set.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Why the proxy refused a request or a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RefusedReason {
    /// Not HTTP, or HTTP that may not be passed on. The client's fault.
    BadRequest,
    /// A request head over the listener's limits. The client's fault.
    HeaderTooLarge,
    /// No whole request head in time. The client's fault.
    HeaderTimeout,
    /// A request body with broken framing, or cut short. The client's fault.
    BrokenBody,
    /// A request body that stood still for too long. The client's fault.
    BodyTimeout,
    /// `CONNECT` or `TRACE`. The client's fault.
    UnsupportedMethod,
    /// No PROXY header where one has to come first. The fault of whoever connects.
    ProxyHeader,
    /// A TLS handshake that failed, or was not done in time. The client's fault.
    TlsHandshake,
    /// A request for a host that belongs to a connection made with another certificate. The client's fault.
    Misdirected,
    /// The listener's limit of open connections was reached.
    ConnectionLimit,
    /// The worker's limit of requests under way was reached.
    RequestLimit,
    /// No route takes it. The client's fault.
    NoRoute,
    /// There is no service to send it to.
    NoService,
    /// A fault in the proxy; the request got a 500, and a copy or a tunnel ended.
    Panic,
}

impl RefusedReason {
    /// All reasons, in the order of their cells.
    pub const ALL: [Self; 14] = [
        Self::BadRequest,
        Self::HeaderTooLarge,
        Self::HeaderTimeout,
        Self::BrokenBody,
        Self::BodyTimeout,
        Self::UnsupportedMethod,
        Self::ProxyHeader,
        Self::TlsHandshake,
        Self::Misdirected,
        Self::ConnectionLimit,
        Self::RequestLimit,
        Self::NoRoute,
        Self::NoService,
        Self::Panic,
    ];

    /// The word for labels and logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::BadRequest => "bad_request",
            Self::HeaderTooLarge => "header_too_large",
            Self::HeaderTimeout => "header_timeout",
            Self::BrokenBody => "broken_body",
            Self::BodyTimeout => "body_timeout",
            Self::UnsupportedMethod => "unsupported_method",
            Self::ProxyHeader => "proxy_header",
            Self::TlsHandshake => "tls_handshake",
            Self::Misdirected => "misdirected",
            Self::ConnectionLimit => "connection_limit",
            Self::RequestLimit => "request_limit",
            Self::NoRoute => "no_route",
            Self::NoService => "no_service",
            Self::Panic => "panic",
        }
    }
}

/// The counters of one worker; cumulative, never reset.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Refused([AtomicU64; RefusedReason::ALL.len()]);

impl Refused {
    /// Counts one.
    pub fn count(&self, reason: RefusedReason) {
        self.0[reason as usize].fetch_add(1, Relaxed);
    }

    /// So many so far.
    #[must_use]
    pub fn total(&self, reason: RefusedReason) -> u64 {
        self.0[reason as usize].load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_has_its_own_cell() {
        let refused = Refused::default();
        for (times, reason) in RefusedReason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, times, "ALL is in the order of the cells");
            (0..times).for_each(|_| refused.count(reason));
        }
        for (times, reason) in RefusedReason::ALL.into_iter().enumerate() {
            assert_eq!(refused.total(reason), times as u64);
        }
    }
}

//! Whose fault it was: refusals (the client's or the proxy's own) and failures (a version's), what the client is told,
//! and what the log says. A fault of a client must never look like one of a version.

use std::{cell::Cell, error::Error as StdError, fmt, io, rc::Rc};

use http::{HeaderName, HeaderValue, Response, StatusCode, header};

use super::{
    body::{ResponseBody, Text},
    connection::StreamGuard,
    deadline::{Coarse, Ticks},
    http1,
    upstream::UpstreamError,
};
use crate::{
    engine::{
        endpoint::Endpoint,
        failure::Condition,
        names::{ServiceName, VersionName},
    },
    measure::{RefusedReason, slot::Ending},
};

/// Says on an answer that the proxy itself made which reason it had: a word of [`RefusedReason`] or [`Ending`].
pub const REASON_HEADER: HeaderName = HeaderName::from_static("serin-error");

/// Lines a worker logs each second at most; the rest is counted and said with the next line.
const LOG_LINES_PER_SECOND: u32 = 10;

/// A request that the proxy does not serve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    pub(super) reason: RefusedReason,
    pub(super) text: &'static str,
}

impl Refusal {
    pub(super) const fn new(status: StatusCode, reason: RefusedReason, text: &'static str) -> Self {
        Self { status, reason, text }
    }

    pub(super) fn answer(self, stream: StreamGuard) -> Response<ResponseBody> {
        answer(self.status, self.reason.as_str(), self.text, stream)
    }
}

/// A version that failed a request.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) ending: Ending,
    pub(super) status: StatusCode,
    /// For the log.
    pub(super) cause: String,
}

impl Failure {
    pub(super) fn not_connected(cause: &io::Error) -> Self {
        let (ending, status) = match cause.kind() {
            io::ErrorKind::QuotaExceeded => (Ending::Overloaded, StatusCode::SERVICE_UNAVAILABLE),
            _ => (Ending::ConnectFailed, StatusCode::BAD_GATEWAY),
        };
        Self { ending, status, cause: cause.to_string() }
    }

    pub(super) fn no_connection_in_time() -> Self {
        Self {
            ending: Ending::ConnectFailed,
            status: StatusCode::GATEWAY_TIMEOUT,
            cause: "no connection in time".to_owned(),
        }
    }

    pub(super) fn no_head_in_time() -> Self {
        Self {
            ending: Ending::TimedOut,
            status: StatusCode::GATEWAY_TIMEOUT,
            cause: "no response head in time".to_owned(),
        }
    }

    pub(super) fn malformed(cause: &str) -> Self {
        Self { ending: Ending::Malformed, status: StatusCode::BAD_GATEWAY, cause: cause.to_owned() }
    }

    /// An attempt without a response head, the client's own faults apart.
    pub(super) fn of_attempt(error: &UpstreamError) -> Self {
        let malformed = match error {
            UpstreamError::Http1(error) => matches!(error, http1::Error::Malformed(_)),
            UpstreamError::Http2(error) => chain(error).any(|one| {
                one.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_parse)
                    || one.downcast_ref::<h2::Error>().is_some_and(|error| !error.is_remote() && !error.is_io())
            }),
        };
        let ending = if malformed { Ending::Malformed } else { Ending::Reset };
        Self { ending, status: StatusCode::BAD_GATEWAY, cause: Causes(error).to_string() }
    }

    pub(super) fn answer(&self, stream: StreamGuard) -> Response<ResponseBody> {
        answer(self.status, self.ending.as_str(), self.text(), stream)
    }

    /// What the client is told.
    pub(super) fn text(&self) -> &'static str {
        match self.ending {
            Ending::ConnectFailed => "the service could not be reached",
            Ending::Overloaded => "the service has more requests than it may be sent",
            Ending::TimedOut => "the service did not answer in time",
            Ending::Malformed => "the service's answer was not valid HTTP",
            _ => "the service ended the connection without an answer",
        }
    }
}

/// How an attempt without a response head failed.
pub(super) fn condition_of(error: &UpstreamError) -> Condition {
    let refused = match error {
        UpstreamError::Http1(_) => false,
        UpstreamError::Http2(error) => chain(error)
            .filter_map(|one| one.downcast_ref::<h2::Error>())
            .any(|one| one.is_remote() && (one.reason() == Some(h2::Reason::REFUSED_STREAM))),
    };
    if refused { Condition::RefusedStream } else { Condition::Reset }
}

/// Whether the request's body broke the attempt: hyper calls that a fault of its user, which hands it the body.
pub(super) fn is_bodys_fault(error: &UpstreamError) -> bool {
    match error {
        UpstreamError::Http1(error) => matches!(error, http1::Error::RequestBody),
        UpstreamError::Http2(error) => {
            chain(error).any(|one| one.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_user))
        }
    }
}

/// Whether the connection failed without an answer to this request, as one does that the upstream was closing
/// anyway. A stream that the upstream reset is an answer of a kind, unless it says that it did nothing (RFC 9113 8.7).
pub(super) fn is_stale_connection(error: &UpstreamError) -> bool {
    match error {
        UpstreamError::Http1(error) => matches!(error, http1::Error::Io(_) | http1::Error::Closed),
        UpstreamError::Http2(error) => !chain(error).any(|one| match one.downcast_ref::<h2::Error>() {
            Some(error) => error.is_reset() && error.reason() != Some(h2::Reason::REFUSED_STREAM),
            None => one.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_parse),
        }),
    }
}

fn answer(status: StatusCode, reason: &'static str, text: &'static str, stream: StreamGuard) -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::text(Text::Line(text), stream));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response.headers_mut().insert(REASON_HEADER, HeaderValue::from_static(reason));
    response
}

/// An error and its causes.
pub(super) fn chain<'e>(error: &'e (dyn StdError + 'static)) -> impl Iterator<Item = &'e (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |&error| error.source())
}

/// An error with its causes, in one line.
pub(super) struct Causes<'e>(pub(super) &'e (dyn StdError + 'static));

impl fmt::Display for Causes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (nth, error) in chain(self.0).enumerate() {
            write!(f, "{}{error}", if nth == 0 { "" } else { ": " })?;
        }
        Ok(())
    }
}

/// One worker's share of the log: so many lines a second, and a count of what was left out.
#[derive(Debug)]
pub(super) struct FaultLog {
    ticks: Rc<Ticks>,
    until: Cell<Coarse>,
    left: Cell<u32>,
    suppressed: Cell<u64>,
}

/// Where a fault happened.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) service: &'a ServiceName,
    pub(super) version: &'a VersionName,
    pub(super) endpoint: &'a Endpoint,
}

impl FaultLog {
    pub(super) fn new(ticks: &Rc<Ticks>) -> Self {
        Self { ticks: Rc::clone(ticks), until: Cell::new(ticks.now()), left: Cell::new(0), suppressed: Cell::new(0) }
    }

    /// A version failed a request.
    pub(super) fn upstream(&self, place: Place<'_>, ending: Ending, cause: &str) {
        let Some(suppressed) = self.admit() else { return };
        let Place { service, version, endpoint } = place;
        tracing::warn!(
            fault = "upstream", %service, %version, %endpoint, ending = ending.as_str(), cause = %Printable(cause),
            suppressed, "a version failed a request"
        );
    }

    /// The proxy did not serve something.
    pub(super) fn refused(&self, client: std::net::SocketAddr, reason: RefusedReason, cause: &str) {
        let Some(suppressed) = self.admit() else { return };
        let fault = match reason {
            RefusedReason::ConnectionLimit
            | RefusedReason::RequestLimit
            | RefusedReason::NoService
            | RefusedReason::Panic => "proxy",
            _ => "client",
        };
        tracing::info!(fault, %client, reason = reason.as_str(), cause = %Printable(cause), suppressed, "refused");
    }

    /// So many lines left out since the last one, if there may be another line now.
    fn admit(&self) -> Option<u64> {
        if self.ticks.now() >= self.until.get() {
            self.until.set(self.ticks.now().after(std::time::Duration::from_secs(1)));
            self.left.set(LOG_LINES_PER_SECOND);
        }
        if let Some(left) = self.left.get().checked_sub(1) {
            self.left.set(left);
            return Some(self.suppressed.take());
        }
        self.suppressed.set(self.suppressed.get() + 1);
        None
    }
}

/// Text for a log line: printable ASCII of bounded length, so that nobody forges lines.
struct Printable<'t>(&'t str);

impl fmt::Display for Printable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const LONGEST: usize = 300;
        for c in self.0.chars().take(LONGEST) {
            if c == ' ' || c.is_ascii_graphic() { write!(f, "{c}")? } else { write!(f, "{}", c.escape_default())? }
        }
        if self.0.chars().nth(LONGEST).is_some() { f.write_str("…") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_faults_makes_few_lines_and_a_count() {
        let ticks = Ticks::new();
        let log = FaultLog::new(&ticks);
        let admitted = (0..1_000).filter(|_| log.admit().is_some()).count();
        assert_eq!(admitted, LOG_LINES_PER_SECOND as usize);
        assert_eq!(log.suppressed.get(), 990);
    }

    #[test]
    fn nobody_forges_log_lines() {
        assert_eq!(Printable("a\r\nb\x1b[2J\"é").to_string(), "a\\r\\nb\\u{1b}[2J\"\\u{e9}");
        assert_eq!(Printable(&"x".repeat(1_000)).to_string().chars().count(), 301);
    }
}

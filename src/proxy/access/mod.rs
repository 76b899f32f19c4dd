//! The access log: what is noted of each request, and when its line is written; what a trace tells of it is the same. Costs
//! nothing where both are off, and never holds up a request: a line that the queue has no room for is dropped and counted.
//!
//! With it a request has an id: the client's `x-request-id` if that is one, else a new one; the upstream and the client
//! get it. The query is never written, nor any body.

mod line;
mod queue;
mod span;

use std::{
    cell::{Cell, RefCell},
    net::SocketAddr,
    rc::Rc,
    task::Poll,
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, header};

use http_body::{Body as _, Frame};

pub(super) use self::queue::Queue;
use super::{
    body::ResponseBody,
    connection::Conn,
    error::REASON_HEADER,
    routing::Choice,
    trace::{self, TRACEPARENT, Traced},
    worker::Worker,
};
use crate::{clock::Clock, engine::time::Timestamp, publish::AccessLog};

/// The field of a request's id.
pub(super) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Longest id of a client's that is taken over.
const ID_MAX: usize = 128;

/// Where lines go, and how they are written; of one connection.
#[derive(Debug, Clone)]
pub(super) struct Access {
    pub(super) log: AccessLog,
    pub(super) queue: Queue,
}

/// What is known of a request so far. Its line is written when the last of it is dropped: the answer's body has ended then.
#[derive(Debug)]
pub(super) struct Note {
    /// Where its line goes, if it has one.
    access: Option<Access>,
    /// Where its spans go, if it has some.
    traced: Option<(Rc<Traced>, Rc<Worker>)>,
    /// Below this a success is written.
    draw: u32,
    started: Instant,
    at: Timestamp,
    client: SocketAddr,
    scheme: &'static str,
    protocol: &'static str,
    method: http::Method,
    host: String,
    path: String,
    referer: Option<HeaderValue>,
    user_agent: Option<HeaderValue>,
    traceparent: Option<HeaderValue>,
    bytes_in: Option<u64>,
    id: HeaderValue,
    status: Cell<u16>,
    error: Cell<Option<&'static str>>,
    head_after: Cell<Option<Duration>>,
    first_byte_after: Cell<Option<Duration>>,
    bytes_out: Cell<u64>,
    ended: Cell<bool>,
    /// No line is written.
    withdrawn: Cell<bool>,
    routed: RefCell<Option<Routed>>,
}

/// What a note is made of.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked<'r> {
    pub(super) protocol: &'static str,
    pub(super) method: &'r http::Method,
    pub(super) host: &'r str,
    pub(super) path: &'r str,
    /// At least those that are [`is_logged`].
    pub(super) fields: &'r HeaderMap,
    /// Its `Content-Length`.
    pub(super) bytes_in: Option<u64>,
}

/// Where it went last.
#[derive(Debug)]
struct Routed {
    service: String,
    version: String,
    role: &'static str,
    reason: &'static str,
    upstream: String,
    trip: Trip,
}

/// What it took to get there.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Trip {
    /// How often a request was sent, or a connection tried for it.
    pub(super) attempts: u32,
    /// How long the last new connection took to open, if one was opened.
    pub(super) connect: Option<Duration>,
    /// Why the version that answered is another than the one that was chosen.
    pub(super) outcome: Option<&'static str>,
}

impl Note {
    /// Begins a note if there is a log or a trace, and gives the request its id and its context.
    pub(super) fn begin<B>(conn: &Conn, request: &mut Request<B>) -> Option<Rc<Self>> {
        let traced = trace::begin(conn, request.headers_mut());
        if conn.access().is_none() && traced.is_none() {
            return None;
        }
        let host = request.uri().authority().map(ToString::to_string);
        let field = || request.headers().get(header::HOST);
        let host = host.or_else(|| field().map(|host| String::from_utf8_lossy(host.as_bytes()).into_owned()));
        let length = request.headers().get(header::CONTENT_LENGTH);
        let asked = Asked {
            protocol: match request.version() {
                http::Version::HTTP_10 => "HTTP/1.0",
                http::Version::HTTP_2 => "HTTP/2.0",
                _ => "HTTP/1.1",
            },
            method: request.method(),
            host: &host.unwrap_or_default(),
            path: request.uri().path(),
            fields: request.headers(),
            bytes_in: length.and_then(|length| length.to_str().ok()?.parse().ok()),
        };
        let note = Self::new(conn, &asked, traced)?;
        if note.access.is_some() {
            request.headers_mut().insert(REQUEST_ID, note.id.clone());
        }
        Some(Rc::new(note))
    }

    /// The same of a request that gets its id by who asks, and is not traced.
    pub(super) fn of(conn: &Conn, asked: &Asked<'_>) -> Option<Rc<Self>> {
        conn.access()?;
        Self::new(conn, asked, None).map(Rc::new)
    }

    fn new(conn: &Conn, asked: &Asked<'_>, traced: Option<Rc<Traced>>) -> Option<Self> {
        let draws = [conn.worker().draw(), conn.worker().draw()];
        let field = |name: HeaderName| asked.fields.get(name).cloned();
        let id = field(REQUEST_ID).filter(|id| is_id(id.as_bytes()));
        let id = id.or_else(|| HeaderValue::from_str(&format!("{:016x}{:016x}", draws[0], draws[1])).ok())?;
        Some(Self {
            access: conn.access().cloned(),
            traced: traced.map(|traced| (traced, Rc::clone(conn.worker()))),
            draw: u32::try_from(conn.worker().draw() % 1_000_000).unwrap_or(0),
            started: Instant::now(),
            at: Clock::start(Timestamp::default()).now(),
            client: conn.peer(),
            scheme: conn.origin().scheme().as_str(),
            protocol: asked.protocol,
            method: asked.method.clone(),
            host: asked.host.to_owned(),
            path: asked.path.to_owned(),
            referer: field(header::REFERER),
            user_agent: field(header::USER_AGENT),
            traceparent: field(TRACEPARENT),
            bytes_in: asked.bytes_in,
            id,
            status: Cell::new(0),
            error: Cell::new(None),
            head_after: Cell::new(None),
            first_byte_after: Cell::new(None),
            bytes_out: Cell::new(0),
            ended: Cell::new(false),
            withdrawn: Cell::new(false),
            routed: RefCell::new(None),
        })
    }

    /// The request's id, which upstream and client get.
    pub(super) fn id(&self) -> &HeaderValue {
        &self.id
    }

    /// Its trace, if it is sampled.
    pub(super) fn trace(&self) -> Option<&Rc<Traced>> {
        self.traced.as_ref().map(|(traced, _)| traced)
    }

    /// Another note is begun of this request.
    pub(super) fn withdraw(&self) {
        self.withdrawn.set(true);
    }

    /// The version that it went to, the last of several.
    pub(super) fn routed(&self, choice: &Choice, trip: Trip) {
        let version = choice.version();
        *self.routed.borrow_mut() = Some(Routed {
            service: choice.service().name.to_string(),
            version: version.name.to_string(),
            role: version.role.as_str(),
            reason: choice.reason.as_str(),
            upstream: choice.endpoint().to_string(),
            trip,
        });
    }

    /// The head of the answer, which gets the id.
    pub(super) fn answered(&self, response: &mut Response<ResponseBody>) {
        self.told(response.status().as_u16(), response.headers().get(REASON_HEADER).map(HeaderValue::as_bytes));
        self.ended.set(response.body().is_end_stream());
        if self.access.is_some() {
            response.headers_mut().insert(REQUEST_ID, self.id.clone());
        }
    }

    /// The head of the answer, and what it gives as a reason.
    pub(super) fn told(&self, status: u16, reason: Option<&[u8]>) {
        self.status.set(status);
        self.head_after.set(Some(self.started.elapsed()));
        self.error.set(reason.and_then(|reason| std::str::from_utf8(reason).ok()).and_then(line::known_error));
    }

    /// So many bytes of the answer's body go to the client.
    pub(super) fn sent(&self, bytes: usize) {
        if bytes > 0 && self.first_byte_after.get().is_none() {
            self.first_byte_after.set(Some(self.started.elapsed()));
        }
        self.bytes_out.set(self.bytes_out.get() + bytes as u64);
    }

    /// The client has the whole answer.
    pub(super) fn ended(&self) {
        self.ended.set(true);
    }

    /// A piece of the answer's body has gone to the client, or its end.
    pub(super) fn passed<E>(&self, polled: &Poll<Option<Result<Frame<Bytes>, E>>>, has_ended: bool) {
        match polled {
            Poll::Ready(Some(Ok(frame))) => {
                self.sent(frame.data_ref().map_or(0, Bytes::len));
                self.ended.set(has_ended);
            }
            Poll::Ready(None) => self.ended.set(true),
            Poll::Ready(Some(Err(_))) | Poll::Pending => {}
        }
    }

    fn is_success(&self) -> bool {
        (100..500).contains(&self.status.get()) && self.error.get().is_none() && self.ended.get()
    }
}

impl Drop for Note {
    fn drop(&mut self) {
        if self.withdrawn.get() {
            return;
        }
        if let Some(Access { log, queue }) = &self.access
            && !(self.is_success() && self.draw >= log.sample_success.ppm())
        {
            queue.write(line::of(self, log.format));
        }
        if let Some((traced, worker)) = &self.traced {
            worker.traced(span::of(self, traced));
        }
    }
}

/// Whether the log tells of fields of this name, which is in lower case.
pub(super) fn is_logged(name: &[u8]) -> bool {
    matches!(name, b"x-request-id" | b"referer" | b"user-agent" | b"traceparent")
}

/// Whether a client's id may be taken over: into logs, and on to upstreams.
fn is_id(bytes: &[u8]) -> bool {
    (1..=ID_MAX).contains(&bytes.len()) && bytes.iter().all(|&b| b.is_ascii_alphanumeric() || b"-_.:/+=@".contains(&b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_plain_id_of_a_client_is_taken_over() {
        assert!(is_id(b"7f3a-22.b_c:d/e+f=@") && is_id(&[b'a'; ID_MAX]));
        for wrong in [&b""[..], b"a b", b"a\"b", b"a\x1b[2J", b"a,b", &[b'a'; ID_MAX + 1]] {
            assert!(!is_id(wrong), "{wrong:?}");
        }
    }
}

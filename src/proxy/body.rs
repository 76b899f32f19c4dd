//! Bodies on their way through: nothing is kept but the piece at hand, so whoever is slow slows the other side.
//! Each body watches who is waited for, and a broken body is told apart by who broke it.

use std::{
    cell::Cell,
    error::Error as StdError,
    fmt,
    pin::Pin,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, header};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use super::{
    client_io::Activity,
    connection::StreamGuard,
    deadline::{Coarse, Deadline},
    error::Causes,
    headers,
    long::Long,
    mirror::Copies,
    outcome::Outcome,
    replay,
    upstream::{UpstreamBody, UpstreamError},
};
use crate::measure::slot::Ending;

/// How long a body is held back for the upstream's `100 Continue` (RFC 9110 10.1.1: not indefinitely).
const CONTINUE_WAIT: Duration = Duration::from_secs(1);

/// How the client broke its request body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClientFault {
    /// Its framing is broken, or it was cut short.
    Broken,
    /// Nothing came for too long.
    Silent,
}

/// What ends a body early, for hyper, which passes it on as the end of the connection or stream.
#[derive(Debug)]
pub(super) enum BodyError {
    Client(ClientFault),
    /// None when nothing came for too long.
    Upstream(Option<UpstreamError>),
    /// Its version has lost its part, and the time to end with it.
    Drained,
}

impl fmt::Display for BodyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Client(ClientFault::Broken) => "the client broke its request body",
            Self::Client(ClientFault::Silent) => "the client's request body stood still for too long",
            Self::Upstream(Some(_)) => "the response body ended early",
            Self::Upstream(None) => "the response body stood still for too long",
            Self::Drained => "the version is drained",
        })
    }
}

impl StdError for BodyError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Upstream(Some(error)) => Some(error),
            _ => None,
        }
    }
}

/// What the request's body tells those who wait for the response.
#[derive(Debug)]
pub(super) struct Upload {
    ended: Cell<bool>,
    waits_for_client: Cell<bool>,
    last_piece: Cell<Coarse>,
    sent: Cell<Option<Instant>>,
    fault: Cell<Option<ClientFault>>,
}

impl Upload {
    /// All of it has been handed to the upstream.
    pub(super) fn has_ended(&self) -> bool {
        self.ended.get()
    }

    /// When it had.
    pub(super) fn sent(&self) -> Option<Instant> {
        self.sent.get()
    }

    pub(super) fn fault(&self) -> Option<ClientFault> {
        self.fault.get()
    }

    /// Since when the upstream alone is waited for; none while the client is.
    pub(super) fn upstream_has_it_since(&self) -> Option<Coarse> {
        (!self.waits_for_client.get()).then(|| self.last_piece.get())
    }
}

/// The body of a request on its way to an upstream.
#[derive(Debug)]
pub(super) enum RequestBody {
    None,
    /// Can be sent once.
    Stream(Box<Uploading>),
    /// Can be sent again.
    Kept(Box<replay::Sending>),
    /// Of a copy: it is all there.
    Copied(Box<Copied>),
}

/// What is left to send of a copy's body.
#[derive(Debug)]
pub(super) struct Copied {
    pub(super) bytes: Bytes,
    pub(super) trailers: Option<HeaderMap>,
}

/// A body that is there.
#[derive(Debug)]
pub(super) struct Uploading {
    incoming: Incoming,
    upload: Rc<Upload>,
    client: Arc<Activity>,
    silence: Deadline,
    silence_max: Duration,
    waits_for_continue: bool,
    copies: Option<Box<Copies>>,
}

impl RequestBody {
    pub(super) fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }

    /// Holds the body back until the upstream asks for it.
    pub(super) fn wait_for_continue(&mut self) {
        match self {
            Self::Stream(body) => body.wait_for_continue(),
            Self::Kept(body) if body.is_untouched() => body.with_body(Uploading::wait_for_continue),
            Self::None | Self::Kept(_) | Self::Copied(_) => {}
        }
    }

    /// The upstream asks for the body.
    pub(super) fn continues(&mut self) {
        match self {
            Self::None | Self::Copied(_) => {}
            Self::Stream(body) => body.continues(),
            Self::Kept(body) => body.with_body(Uploading::continues),
        }
    }

    pub(super) fn waits_for_continue(&self) -> bool {
        match self {
            Self::None | Self::Copied(_) => false,
            Self::Stream(body) => body.waits_for_continue,
            Self::Kept(body) => body.with_body(|body| body.waits_for_continue),
        }
    }
}

impl Uploading {
    /// A body that gives up when the client is silent for longer than `silence_max`.
    /// Copies of the request get its pieces, too.
    pub(super) fn new(
        incoming: Incoming,
        silence: Deadline,
        silence_max: Duration,
        client: &Arc<Activity>,
        copies: Option<Box<Copies>>,
    ) -> (Self, Rc<Upload>) {
        let upload = Rc::new(Upload {
            ended: Cell::new(false),
            waits_for_client: Cell::new(false),
            last_piece: Cell::new(silence.ticks().now()),
            sent: Cell::new(None),
            fault: Cell::new(None),
        });
        let (client, waits_for_continue) = (Arc::clone(client), false);
        let body =
            Self { incoming, upload: Rc::clone(&upload), client, silence, silence_max, waits_for_continue, copies };
        (body, upload)
    }

    fn wait_for_continue(&mut self) {
        self.silence.arm(CONTINUE_WAIT);
        self.waits_for_continue = true;
    }

    fn continues(&mut self) {
        if self.waits_for_continue {
            self.waits_for_continue = false;
            self.silence.disarm();
        }
    }

    /// A piece that the client had given before is handed to an upstream.
    pub(super) fn gave_again(&self) {
        self.upload.last_piece.set(self.silence.ticks().now());
    }

    pub(super) fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    pub(super) fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }

    pub(super) fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if self.waits_for_continue {
            if self.silence.poll_passed(cx).is_pending() {
                return Poll::Pending;
            }
            self.waits_for_continue = false;
            self.silence.disarm();
        }
        match Pin::new(&mut self.incoming).poll_frame(cx) {
            Poll::Ready(Some(Ok(mut frame))) => {
                self.client_gave();
                if let (Some(copies), Some(data)) = (&mut self.copies, frame.data_ref()) {
                    copies.keep(data);
                }
                if let Some(trailers) = frame.trailers_mut() {
                    headers::for_trailers(trailers);
                    if let Some(copies) = &mut self.copies {
                        copies.keep_trailers(trailers);
                    }
                }
                // Nobody asks for more after trailers.
                if frame.is_trailers() || self.incoming.is_end_stream() {
                    self.end();
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(None) => {
                self.client_gave();
                self.end();
                Poll::Ready(None)
            }
            Poll::Ready(Some(Err(_))) => self.fail(ClientFault::Broken),
            Poll::Pending => {
                if !self.upload.waits_for_client.replace(true) {
                    self.silence.arm(self.silence_max);
                }
                if self.silence.poll_passed(cx).is_ready() {
                    return self.fail(ClientFault::Silent);
                }
                Poll::Pending
            }
        }
    }

    fn client_gave(&self) {
        if self.upload.waits_for_client.replace(false) {
            self.silence.disarm();
        }
        self.upload.last_piece.set(self.silence.ticks().now());
    }

    fn end(&mut self) {
        if !self.upload.ended.replace(true) {
            self.upload.sent.set(Some(Instant::now()));
            self.client.request_is_whole();
        }
        if let Some(copies) = self.copies.take() {
            copies.send(true);
        }
    }

    fn fail(&self, fault: ClientFault) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        self.upload.fault.set(Some(fault));
        Poll::Ready(Some(Err(BodyError::Client(fault))))
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match self.get_mut() {
            Self::None => Poll::Ready(None),
            Self::Stream(body) => body.poll_piece(cx),
            Self::Kept(body) => body.poll_piece(cx),
            Self::Copied(left) if left.bytes.is_empty() => {
                Poll::Ready(left.trailers.take().map(|trailers| Ok(Frame::trailers(trailers))))
            }
            Self::Copied(left) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(&mut left.bytes))))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::None => true,
            Self::Stream(body) => body.is_end_stream(),
            Self::Kept(body) => body.is_end_stream(),
            Self::Copied(left) => left.bytes.is_empty() && left.trailers.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::None => SizeHint::with_exact(0),
            Self::Copied(left) => SizeHint::with_exact(left.bytes.len() as u64),
            Self::Stream(body) => body.size_hint(),
            Self::Kept(body) => body.size_hint(),
        }
    }
}

/// The body of an answer on its way to the client.
#[derive(Debug)]
pub(super) struct ResponseBody {
    kind: Kind,
    stream: StreamGuard,
}

#[derive(Debug)]
enum Kind {
    Text(Option<Bytes>),
    Relay(Box<Relay>),
}

impl Kind {
    fn has_ended(&self) -> bool {
        match self {
            Self::Text(text) => text.is_none(),
            Self::Relay(relay) => relay.incoming.is_end_stream(),
        }
    }
}

/// What the proxy says itself.
#[derive(Debug, Clone, Copy)]
pub(super) enum Text {
    /// Nothing.
    Empty,
    /// One line.
    Line(&'static str),
}

/// An upstream's body. Dropped early, the client has gone, and the upstream's connection with it.
#[derive(Debug)]
pub(super) struct Relay {
    pub(super) incoming: UpstreamBody,
    /// Why it ended early, until the client has been told.
    pub(super) broken: Option<UpstreamError>,
    pub(super) outcome: Option<Outcome>,
    /// Its trailers say how the call ended.
    pub(super) is_grpc: bool,
    /// Passes when the upstream has sent nothing for `silence_max`.
    pub(super) silence: Deadline,
    pub(super) silence_max: Duration,
    /// Silence ends it too, but is no fault.
    pub(super) may_be_silent: bool,
    /// It may be ended when its version loses its part.
    pub(super) long: Option<Long>,
    pub(super) upload: Option<Rc<Upload>>,
}

impl ResponseBody {
    pub(super) fn text(text: Text, stream: StreamGuard) -> Self {
        let bytes = match text {
            Text::Empty => None,
            Text::Line(line) => Some(Bytes::from(format!("{line}\n"))),
        };
        stream.waits_for_upstream(false);
        Self { kind: Kind::Text(bytes), stream }
    }

    pub(super) fn relay(mut relay: Relay, stream: StreamGuard) -> Self {
        relay.silence.disarm();
        if relay.incoming.is_end_stream() {
            relay.complete();
        }
        Self { kind: Kind::Relay(Box::new(relay)), stream }
    }
}

/// Leaves out what the proxy would say itself, but for its length: to HEAD there is no content (RFC 9110 9.3.2).
pub(super) fn without_content(response: &mut Response<ResponseBody>) {
    let Kind::Text(text) = &mut response.body_mut().kind else { return };
    if let Some(text) = text.take() {
        response.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(text.len()));
    }
}

impl Relay {
    fn poll_piece(
        &mut self,
        cx: &mut Context<'_>,
        stream: &StreamGuard,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if let Some(error) = self.broken.take() {
            return Poll::Ready(Some(Err(BodyError::Upstream(Some(error)))));
        }
        if self.long.as_ref().is_some_and(|long| long.poll_over(cx).is_ready()) {
            return self.end_early();
        }
        match self.incoming.poll_frame(cx) {
            Poll::Ready(Some(Ok(mut frame))) => {
                if stream.waits_for_upstream(false) {
                    self.silence.disarm();
                }
                if let Some(trailers) = frame.trailers_mut() {
                    headers::for_trailers(trailers);
                    if let Some(outcome) = self.outcome.as_mut().filter(|_| self.is_grpc) {
                        outcome.grpc(trailers);
                    }
                }
                if self.incoming.is_end_stream() {
                    self.complete();
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(None) => {
                self.complete();
                Poll::Ready(None)
            }
            Poll::Ready(Some(Err(error))) => {
                self.fail(&Causes(&error).to_string());
                // With the error hyper drops what it has not flushed: it gets a chance to, and the error after it.
                self.broken = Some(error);
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            Poll::Pending => {
                stream.waits_for_upstream(true);
                if !self.silence.is_armed() {
                    self.silence.arm(self.silence_max);
                }
                if self.silence.poll_passed(cx).is_ready() {
                    self.fail_by_silence();
                    return Poll::Ready(Some(Err(BodyError::Upstream(None))));
                }
                Poll::Pending
            }
        }
    }

    /// The body is whole. The connection may serve another request, unless it still sends this one.
    fn complete(&mut self) {
        if let Some(outcome) = self.outcome.take() {
            outcome.delivered();
        }
        let sent = self.upload.as_ref().is_none_or(|upload| upload.has_ended());
        if sent {
            self.incoming.give_back();
        }
    }

    /// Ends a stream whose version has lost its part: an event stream in order, so that the client asks again.
    fn end_early(&mut self) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        self.incoming.abandon();
        if let Some(outcome) = self.outcome.take() {
            outcome.delivered();
        }
        let is_open_ended = self.incoming.size_hint().exact().is_none() && !self.is_grpc;
        Poll::Ready(if is_open_ended { None } else { Some(Err(BodyError::Drained)) })
    }

    fn fail_by_silence(&mut self) {
        if let Some(outcome) = self.outcome.take_if(|_| self.may_be_silent) {
            outcome.delivered();
        }
        self.fail("the response body stood still for too long");
    }

    fn fail(&mut self, cause: &str) {
        self.incoming.abandon();
        let Some(outcome) = self.outcome.take() else { return };
        if self.upload.as_ref().is_some_and(|upload| upload.fault().is_some()) {
            return outcome.delivered();
        }
        outcome.choice().log_failure(Ending::Truncated, cause);
        outcome.failed(Ending::Truncated, 0);
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        let polled = match &mut this.kind {
            Kind::Text(text) => Poll::Ready(text.take().map(|text| Ok(Frame::data(text)))),
            Kind::Relay(relay) => relay.poll_piece(cx, &this.stream),
        };
        if let Some(note) = this.stream.note() {
            note.passed(&polled, this.kind.has_ended());
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.kind.has_ended()
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Text(text) => SizeHint::with_exact(text.as_ref().map_or(0, |text| text.len() as u64)),
            Kind::Relay(relay) => relay.incoming.size_hint(),
        }
    }
}

//! Our own HTTP/1.1 client: one request and one response at a time over a socket, driven by whoever waits for them.
//! No task, channel or timer; strict about what upstreams send. Which connection is used is the pool's business.

use std::{
    future::{Future, poll_fn},
    io,
    pin::pin,
    task::{Context, Poll},
};

use bytes::BytesMut;
use http::{Method, Response, StatusCode, request::Parts};
use tokio::io::AsyncReadExt;

mod decode;
mod incoming;
mod request;
mod response;
#[cfg(test)]
mod tests;

pub(super) use decode::{Chunk, Decoder};
pub(super) use incoming::{Incoming, Tunnel};
use request::Upload;
pub(super) use response::digits;

use super::{
    body::RequestBody,
    gate::Open,
    headers::Hop,
    socket::{ReadHalf, Socket, WriteHalf},
};
use crate::engine::endpoint::Endpoint;

/// Largest response head that is read, in bytes.
pub(super) const HEAD_MAX: usize = 256 * 1024;
/// Most informational answers to one request.
pub(super) const INFORMATIONAL_MAX: usize = 32;
/// How much is read at once at first. It doubles each time it was filled: a read that fills its buffer leaves it open
/// whether there is more, which costs another one to find out.
const READ_MIN: usize = 16 * 1024;
/// How much is read at once at most.
const READ_MAX: usize = 256 * 1024;

/// What was wrong with bytes from an upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct Malformed(&'static str);

impl Malformed {
    pub(super) const fn new(what: &'static str) -> Self {
        Self(what)
    }
}

/// How an exchange failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// The upstream does not speak HTTP/1.
    #[error("the upstream sent invalid HTTP")]
    Malformed(#[from] Malformed),
    #[error("the connection failed")]
    Io(#[from] io::Error),
    #[error("the upstream closed the connection")]
    Closed,
    /// The request's body failed, and with it the exchange.
    #[error("the request body ended early")]
    RequestBody,
}

/// A request without a response head.
#[derive(Debug)]
pub(super) struct Unanswered {
    pub(super) error: Error,
    /// The body, when not a byte of the request was taken by the connection.
    pub(super) unsent: Option<RequestBody>,
}

/// An open connection with nothing under way. Dropping it closes it. In boxes, as it is handed on several times a request.
#[derive(Debug)]
pub(super) struct Connection {
    reader: Box<Reader>,
    writer: Box<Writer>,
}

/// The half to write to, and room for heads and chunk lines to be used again.
#[derive(Debug)]
struct Writer {
    socket: WriteHalf,
    lines: Vec<u8>,
}

/// The half to read from, and what was read and not used yet.
#[derive(Debug)]
struct Reader {
    socket: ReadHalf,
    bytes: BytesMut,
    read_size: usize,
    /// How much of a head that is not whole has been looked at.
    looked_at: usize,
    places: Vec<response::Place>,
    /// Counts the connection as open.
    _open: Option<Open>,
}

/// A request head, and what is needed to write it for one upstream.
#[derive(Debug, Clone, Copy)]
pub(super) struct RequestHead<'r> {
    pub(super) head: &'r Parts,
    pub(super) hop: &'r Hop,
    pub(super) endpoint: &'r Endpoint,
}

impl Connection {
    /// `open` is kept for as long as the connection is open.
    pub(super) fn new(stream: Socket, open: Option<Open>) -> Self {
        let (socket, write) = stream.into_split();
        let reader = Box::new(Reader {
            socket,
            bytes: BytesMut::new(),
            read_size: READ_MIN,
            looked_at: 0,
            places: Vec::new(),
            _open: open,
        });
        Self { reader, writer: Box::new(Writer { socket: write, lines: Vec::new() }) }
    }

    /// Whether the upstream left the connection open and has sent nothing that it was not asked for, as far as the last
    /// look at the socket told: this costs no system call.
    pub(super) fn is_quiet(&mut self) -> bool {
        self.reader.bytes.is_empty() && self.reader.socket.is_quiet()
    }

    /// Whether the upstream has sent something on a connection that has not been asked anything yet: whatever it is, it
    /// answers no request (RFC 9112 9.2).
    pub(super) fn spoke_first(&mut self) -> bool {
        self.reader.socket.has_spoken()
    }

    /// The half to read from, for who reads what comes by himself.
    pub(super) fn reader(&mut self) -> &mut ReadHalf {
        &mut self.reader.socket
    }

    /// The half to write to.
    pub(super) fn writer(&mut self) -> &mut WriteHalf {
        &mut self.writer.socket
    }

    /// Sends a request and waits for the head of the response. It may come before the request's body has been sent;
    /// the rest of that is then sent on the side, as long as the response's body is kept.
    pub(super) async fn exchange(
        self,
        request: RequestHead<'_>,
        body: RequestBody,
    ) -> Result<Response<Incoming>, Unanswered> {
        let Self { mut reader, writer } = self;
        let to_head = request.head.method == Method::HEAD;
        let mut upload = Upload::new(writer, request, body);
        let mut sending = Sending::Now;
        let mut informational = 0;
        let answered = poll_fn(|cx| {
            loop {
                if let Sending::Now = sending {
                    match upload.poll(cx) {
                        Poll::Ready(Ok(())) => sending = Sending::Done,
                        Poll::Ready(Err(Error::Io(error))) if upload.has_begun() => sending = Sending::Failed(error),
                        Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                        Poll::Pending => {}
                    }
                }
                let head = match reader.poll_head(cx, to_head) {
                    Poll::Ready(Ok(head)) => head,
                    // Why it could not be sent says more than that there is no answer.
                    Poll::Ready(Err(error)) => match std::mem::replace(&mut sending, Sending::Done) {
                        Sending::Failed(cause) => return Poll::Ready(Err(cause.into())),
                        _ => return Poll::Ready(Err(error)),
                    },
                    Poll::Pending => return Poll::Pending,
                };
                let status = head.response.status();
                if !status.is_informational() || status == StatusCode::SWITCHING_PROTOCOLS {
                    return Poll::Ready(Ok(head));
                }
                if status == StatusCode::CONTINUE {
                    upload.continues();
                }
                informational += 1;
                if informational > INFORMATIONAL_MAX {
                    return Poll::Ready(Err(Malformed("too many informational answers").into()));
                }
            }
        })
        .await;
        match answered {
            Ok(head) => Ok(Incoming::over(reader, upload, &sending, head)),
            Err(error) => Err(Unanswered { error, unsent: upload.unsent() }),
        }
    }
}

/// How far the request has gone.
#[derive(Debug)]
enum Sending {
    Now,
    Done,
    /// The upstream takes no more of it; it may still answer.
    Failed(io::Error),
}

impl Reader {
    /// The next response head.
    fn poll_head(&mut self, cx: &mut Context<'_>, to_head: bool) -> Poll<Result<response::Head, Error>> {
        loop {
            if let Some(head) = self.parse_head(to_head, false)? {
                return Poll::Ready(Ok(head));
            }
            if self.bytes.len() >= HEAD_MAX {
                return Poll::Ready(Err(Malformed("the head is too large").into()));
            }
            match self.poll_read(cx) {
                Poll::Ready(Ok(0)) => return Poll::Ready(self.parse_head(to_head, true)?.ok_or(Error::Closed)),
                Poll::Ready(Ok(_)) => {}
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error.into())),
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// The head, if it is whole. One that comes in small parts is not parsed again for each of them.
    fn parse_head(&mut self, to_head: bool, at_end: bool) -> Result<Option<response::Head>, Malformed> {
        let before = std::mem::replace(&mut self.looked_at, self.bytes.len());
        let is_worth_it = before == 0 || at_end || may_end_after(&self.bytes, before);
        if self.bytes.is_empty() || !is_worth_it {
            return Ok(None);
        }
        let head = response::parse(&mut self.bytes, to_head, &mut self.places)?;
        if head.is_some() {
            self.looked_at = 0;
        }
        Ok(head)
    }

    /// Reads what is there; 0 at the end of the connection.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if self.bytes.capacity() - self.bytes.len() < self.read_size / 2 {
            self.bytes.reserve(self.read_size);
        }
        let room = self.bytes.capacity() - self.bytes.len();
        let read = pin!(self.socket.read_buf(&mut self.bytes)).poll(cx);
        if let Poll::Ready(Ok(n)) = read
            && n == room
        {
            self.read_size = (self.read_size * 2).min(READ_MAX);
        }
        read
    }

    /// Lets go of memory that one large body needed.
    fn shrink(&mut self) {
        if self.read_size > READ_MIN {
            self.read_size = READ_MIN;
            self.bytes = BytesMut::new();
        }
    }
}

/// Whether a head may end in what has come since.
pub(super) fn may_end_after(bytes: &[u8], since: usize) -> bool {
    let from = since.saturating_sub(3);
    bytes.get(from..).is_some_and(|new| new.windows(2).any(|two| two == b"\n\n" || two == b"\n\r"))
}

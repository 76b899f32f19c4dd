//! The upstream's side of one exchange: a request on its way over a connection, and what has come back.

use std::{
    future::Future,
    io,
    pin::{Pin, pin},
    rc::Rc,
    task::{Context, Poll},
};

use tokio::io::{AsyncReadExt, AsyncWrite};

use super::{
    super::{
        http1::{Connection, Decoder, Error, HEAD_MAX, INFORMATIONAL_MAX, Malformed, may_end_after},
        pool::{Lease, Pool},
        worker::Worker,
    },
    response::{self, Asked, Head},
    spare::{LARGE, SMALL},
};

/// An attempt that brought no response head.
#[derive(Debug)]
pub(super) struct Unanswered {
    pub(super) error: Error,
    /// The upstream cannot have seen anything of the request.
    pub(super) unsent: bool,
}

/// A connection that carries one exchange.
#[derive(Debug)]
pub(super) struct Link {
    pool: Rc<Pool>,
    /// Until it is given back.
    connection: Option<Connection>,
    pub(super) is_reused: bool,
    sent: usize,
    /// The upstream takes no more of the request; it may still answer.
    failed: Option<io::Error>,
    /// What was read and not used.
    pub(super) bytes: Vec<u8>,
    /// The buffer before a larger one was needed.
    small: Vec<u8>,
    looked_at: usize,
    informational: usize,
    reads_large: bool,
}

impl Link {
    /// None for a lease of something else than a connection of HTTP/1. `bytes` is room to read.
    pub(super) fn new(lease: Lease, bytes: &mut Vec<u8>) -> Option<Self> {
        let is_reused = lease.is_reused();
        let (pool, connection) = lease.into_connection()?;
        if bytes.capacity() == 0 {
            bytes.reserve(SMALL); // An attempt before took it along.
        }
        Some(Self {
            pool,
            connection: Some(connection),
            is_reused,
            sent: 0,
            failed: None,
            bytes: std::mem::take(bytes),
            small: Vec::new(),
            looked_at: 0,
            informational: 0,
            reads_large: false,
        })
    }

    /// Sends on, and reads the response head; the client's is written into `answer`.
    pub(super) fn poll_answer(
        &mut self,
        cx: &mut Context<'_>,
        worker: &Worker,
        request: &[u8],
        asked: Asked<'_>,
        answer: &mut Vec<u8>,
    ) -> Poll<Result<Head, Unanswered>> {
        if let Err(error) = self.send(cx, request) {
            return Poll::Ready(Err(Unanswered { error: error.into(), unsent: true }));
        }
        loop {
            match self.poll_read(cx, worker) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(self.unanswered(Error::Closed))),
                Poll::Ready(Ok(_)) => {}
                Poll::Ready(Err(error)) => return Poll::Ready(Err(self.unanswered(error.into()))),
                Poll::Pending => return Poll::Pending,
            }
            match self.head(asked, answer) {
                Ok(Some(head)) => return Poll::Ready(Ok(head)),
                Ok(None) => {}
                Err(malformed) => return Poll::Ready(Err(self.unanswered(malformed.into()))),
            }
        }
    }

    /// The response head, if it is whole; it is taken off the bytes. Informational ones before it are dropped, as nobody
    /// asked for any.
    fn head(&mut self, asked: Asked<'_>, answer: &mut Vec<u8>) -> Result<Option<Head>, Malformed> {
        loop {
            let before = std::mem::replace(&mut self.looked_at, self.bytes.len());
            if self.bytes.is_empty() || (before > 0 && !may_end_after(&self.bytes, before)) {
                break;
            }
            let Some(head) = response::rewrite(&mut self.bytes, asked, answer)? else { break };
            self.looked_at = 0;
            if head.status == 101 || head.status >= 200 {
                return Ok(Some(head));
            }
            self.bytes.drain(..head.length);
            self.informational += 1;
            if self.informational > INFORMATIONAL_MAX {
                return Err(Malformed::new("too many informational answers"));
            }
        }
        if self.bytes.len() >= HEAD_MAX {
            return Err(Malformed::new("the head is too large"));
        }
        Ok(None)
    }

    /// Why it could not be sent says more than that there is no answer.
    fn unanswered(&mut self, error: Error) -> Unanswered {
        Unanswered { error: self.failed.take().map_or(error, Error::Io), unsent: false }
    }

    /// Sends on what the socket takes now. An error when it took nothing at all.
    pub(super) fn send(&mut self, cx: &mut Context<'_>, request: &[u8]) -> io::Result<()> {
        let Some(connection) = &mut self.connection else { return Ok(()) };
        while self.sent < request.len() && self.failed.is_none() {
            let written = match Pin::new(connection.writer()).poll_write(cx, &request[self.sent..]) {
                Poll::Pending => break,
                Poll::Ready(Ok(0)) => Err(io::ErrorKind::WriteZero.into()),
                Poll::Ready(written) => written,
            };
            match written {
                Ok(n) => self.sent += n,
                Err(error) if self.sent > 0 => self.failed = Some(error),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reads what is there behind the bytes at hand; 0 at the end of the connection.
    pub(super) fn poll_read(&mut self, cx: &mut Context<'_>, worker: &Worker) -> Poll<io::Result<usize>> {
        let Some(connection) = &mut self.connection else { return Poll::Ready(Ok(0)) };
        if self.reads_large && self.bytes.is_empty() && self.bytes.capacity() < LARGE {
            self.small = std::mem::replace(&mut self.bytes, worker.spare.take_large());
        }
        let room = self.bytes.capacity() - self.bytes.len();
        let read = pin!(connection.reader().read_buf(&mut self.bytes)).poll(cx);
        if let Poll::Ready(Ok(n)) = &read {
            // A read that fills its buffer leaves it open whether there is more.
            self.reads_large |= *n == room && room >= SMALL / 2;
        }
        read
    }

    /// The buffer that it was given.
    pub(super) fn into_room(self, worker: &Worker) -> Vec<u8> {
        if self.small.capacity() == 0 {
            return self.bytes;
        }
        worker.spare.give_large(self.bytes);
        self.small
    }

    /// The response is whole: the connection may serve another request, if it `keeps_alive` and the upstream has the whole
    /// of this one.
    pub(super) fn give_back(&mut self, keeps_alive: bool, request: &[u8]) {
        let connection = self.connection.take();
        let is_done = keeps_alive && self.sent == request.len();
        if let Some(mut connection) = connection.filter(|_| is_done)
            && connection.is_quiet()
        {
            self.pool.put_back(connection);
        }
    }

    /// Nobody wants the rest of the response: if it is all there already, the connection may serve another request.
    pub(super) fn discard(&mut self, head: &Head, request: &[u8]) {
        let there = self.bytes.len() - head.length;
        let is_whole = matches!(head.body, Decoder::Length(length) if usize::try_from(length) == Ok(there));
        self.give_back(is_whole && head.keeps_alive, request);
    }

    /// Closes the connection.
    pub(super) fn abandon(&mut self) {
        self.connection = None;
    }
}

//! The client's side of a connection on the fast path: what came in and was not used, and whether the client is there.

use std::{
    future::{Future, poll_fn},
    io,
    pin::{Pin, pin},
    rc::Rc,
    task::{Context, Poll},
    time::Duration,
};

use tokio::io::{AsyncReadExt, AsyncWrite, ReadBuf};

use super::{
    super::{
        connection::{Conn, HALF_CLOSED},
        deadline::Deadline,
        transport::Transport,
    },
    spare::{Desk, SMALL},
};

/// How long the rest of a small body is waited for.
const PATIENCE: Duration = Duration::from_millis(100);

/// One client.
#[derive(Debug)]
pub(super) struct Client<'s> {
    pub(super) conn: &'s Rc<Conn>,
    stream: &'s mut Transport,
    /// Its buffers; none while nothing has come.
    pub(super) desk: Desk,
    /// How much of a head that is not whole has been looked at.
    pub(super) looked_at: usize,
    /// Whether the end of the client would be seen: not once it has sent something more.
    watches: bool,
    /// Passes when a client that has ended its side is taken to be gone.
    gone: Option<Deadline>,
}

impl<'s> Client<'s> {
    pub(super) fn new(conn: &'s Rc<Conn>, stream: &'s mut Transport, desk: Desk) -> Self {
        Self { conn, stream, desk, looked_at: 0, watches: false, gone: None }
    }

    /// Waits for bytes. False when none come: the client has ended, or nothing new is taken from it.
    pub(super) async fn more(&mut self) -> bool {
        poll_fn(|cx| self.poll_more(cx)).await
    }

    /// Waits a moment for bytes. False when none come.
    pub(super) async fn more_soon(&mut self) -> bool {
        let patience = Deadline::new(&self.conn.worker().ticks);
        patience.arm(PATIENCE);
        poll_fn(|cx| match self.poll_more(cx) {
            Poll::Ready(more) => Poll::Ready(more),
            Poll::Pending => patience.poll_passed(cx).map(|()| false),
        })
        .await
    }

    pub(super) fn has_room(&self) -> bool {
        self.desk.inbox.len() < SMALL
    }

    fn poll_more(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        let spare = &self.conn.worker().spare;
        if self.desk.inbox.capacity() == 0 {
            self.desk = spare.take();
        }
        match pin!(self.stream.read_buf(&mut self.desk.inbox)).poll(cx) {
            Poll::Ready(Ok(0) | Err(_)) => Poll::Ready(false),
            Poll::Ready(Ok(_)) => {
                self.conn.activity().note_read();
                Poll::Ready(true)
            }
            Poll::Pending => {
                if self.desk.inbox.is_empty() {
                    spare.give(std::mem::take(&mut self.desk));
                }
                Poll::Pending
            }
        }
    }

    /// Whether a request of so many bytes is all that came in; only then is the client's end looked for meanwhile.
    pub(super) fn watch_behind(&mut self, whole: usize) {
        self.watches = self.desk.inbox.len() == whole;
    }

    /// Ready when the client has gone. Costs no system call while nothing comes from it.
    pub(super) fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.watches {
            return Poll::Pending;
        }
        let seen = match &mut *self.stream {
            Transport::Plain(stream) => stream.poll_peek(cx, &mut ReadBuf::new(&mut [0])),
            // It has to be taken in to be seen.
            Transport::Tls(stream) => pin!(stream.read_buf(&mut self.desk.inbox)).poll(cx),
        };
        match seen {
            Poll::Ready(Ok(0)) => self.poll_half_closed(cx),
            Poll::Ready(Err(_)) => Poll::Ready(()),
            Poll::Ready(Ok(_)) => {
                self.watches = false; // The next request, before this one is answered.
                Poll::Pending
            }
            Poll::Pending => Poll::Pending,
        }
    }

    /// It has ended its side, and may still read.
    fn poll_half_closed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let ticks = &self.conn.worker().ticks;
        let gone = self.gone.get_or_insert_with(|| Deadline::new(ticks));
        if !gone.is_armed() {
            gone.arm(HALF_CLOSED);
        }
        gone.poll_passed(cx)
    }

    /// Writes some of the bytes, one part after the other.
    pub(super) fn poll_write(&mut self, cx: &mut Context<'_>, parts: [&[u8]; 3]) -> Poll<io::Result<usize>> {
        let writer = Pin::new(&mut *self.stream);
        let written = match parts {
            [one, [], []] => writer.poll_write(cx, one),
            parts => writer.poll_write_vectored(cx, &parts.map(io::IoSlice::new)),
        };
        match written {
            Poll::Ready(Ok(0)) => Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
            Poll::Ready(Ok(_)) => {
                self.conn.activity().note_wrote();
                if let Some(gone) = &self.gone {
                    gone.disarm();
                }
                written
            }
            written => written,
        }
    }

    /// Ready when all that was written is on its way; TLS may hold it back.
    pub(super) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self.stream {
            Transport::Plain(_) => Poll::Ready(Ok(())),
            Transport::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    /// Is done with a request of so many bytes.
    pub(super) fn consume(&mut self, whole: usize) {
        self.looked_at = 0;
        self.desk.inbox.drain(..whole);
    }
}

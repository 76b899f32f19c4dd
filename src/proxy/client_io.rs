//! A client's socket as hyper sees it: what was read to tell HTTP/1 from HTTP/2 is read again first, and it is noted
//! that bytes moved, so that the worker's sweep can tell a slow client from a silent one. The end of a client's side is held
//! back while its request is answered: the sweep says how long.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    task::{Context, Poll},
};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::transport::Transport;

/// Whether bytes have moved since the last look. Shared, as an upgraded connection must be `Send`; written by one thread.
#[derive(Debug, Default)]
pub(super) struct Activity {
    read: AtomicBool,
    wrote: AtomicBool,
    /// A request of HTTP/1 is under way.
    busy: AtomicBool,
    /// All of it is here.
    whole: AtomicBool,
    /// The client has ended its side meanwhile.
    ended: AtomicBool,
    /// That is not held back any longer.
    told: AtomicBool,
    /// The connection, once hyper has let go of it.
    left: Mutex<Option<Transport>>,
}

impl Activity {
    /// Bytes came in.
    pub(super) fn note_read(&self) {
        self.read.store(true, Relaxed);
    }

    /// Bytes went out.
    pub(super) fn note_wrote(&self) {
        self.wrote.store(true, Relaxed);
    }

    /// A request begins: from now on the end of the client's side is held back.
    pub(super) fn request_begins(&self) {
        self.busy.store(true, Relaxed);
    }

    /// All of the request is here: the end of the client's side is not the end of the client.
    pub(super) fn request_is_whole(&self) {
        self.whole.store(true, Relaxed);
    }

    /// The request is over, or no request at all.
    pub(super) fn request_ends(&self) {
        self.busy.store(false, Relaxed);
        self.whole.store(false, Relaxed);
    }

    /// Whether the client has ended its side within a request, and if so, whether all of that is here.
    pub(super) fn ended(&self) -> Option<bool> {
        self.ended.load(Relaxed).then(|| self.whole.load(Relaxed))
    }

    /// Lets whoever reads know of the end.
    pub(super) fn tell_end(&self) {
        self.told.store(true, Relaxed);
    }

    /// The connection, if hyper has let go of it.
    pub(super) fn take_connection(&self) -> Option<Transport> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn holds_end_back(&self) -> bool {
        self.busy.load(Relaxed) && !self.told.load(Relaxed)
    }

    /// Whether bytes came in since the last call.
    pub(super) fn take_read(&self) -> bool {
        take(&self.read)
    }

    /// Whether bytes went out since the last call.
    pub(super) fn take_wrote(&self) -> bool {
        take(&self.wrote)
    }
}

/// The socket.
#[derive(Debug)]
pub(super) struct ClientIo {
    /// Until this is dropped.
    stream: Option<Transport>,
    unread: BytesMut,
    activity: Arc<Activity>,
}

impl ClientIo {
    pub(super) fn new(stream: Transport, unread: BytesMut, activity: Arc<Activity>) -> Self {
        Self { stream: Some(stream), unread, activity }
    }

    fn stream(&mut self) -> io::Result<Pin<&mut Transport>> {
        self.stream.as_mut().map(Pin::new).ok_or_else(|| io::ErrorKind::NotConnected.into())
    }
}

impl Drop for ClientIo {
    fn drop(&mut self) {
        *self.activity.left.lock().unwrap_or_else(PoisonError::into_inner) = self.stream.take();
    }
}

impl AsyncRead for ClientIo {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.unread.has_remaining() {
            let n = this.unread.len().min(buf.remaining());
            buf.put_slice(&this.unread[..n]);
            this.unread.advance(n);
            if this.unread.is_empty() {
                this.unread = BytesMut::new();
            }
            return Poll::Ready(Ok(()));
        }
        let before = buf.filled().len();
        let polled = this.stream()?.poll_read(cx, buf);
        if buf.filled().len() > before {
            this.activity.read.store(true, Relaxed);
        } else if matches!(polled, Poll::Ready(Ok(()))) && this.activity.holds_end_back() {
            // Asked again behind the answer, or woken by the sweep.
            this.activity.ended.store(true, Relaxed);
            return Poll::Pending;
        }
        polled
    }
}

impl AsyncWrite for ClientIo {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = this.stream()?.poll_write(cx, buf);
        note(&this.activity, written)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = this.stream()?.poll_write_vectored(cx, bufs);
        note(&this.activity, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.as_ref().is_some_and(Transport::is_write_vectored)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().stream()?.poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().stream()?.poll_shutdown(cx)
    }
}

fn note(activity: &Activity, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
    if matches!(written, Poll::Ready(Ok(1..))) {
        activity.wrote.store(true, Relaxed);
    }
    written
}

/// A plain load and store: there is one writer on each side, and a flag that is set again at once loses nothing.
fn take(flag: &AtomicBool) -> bool {
    let was = flag.load(Relaxed);
    if was {
        flag.store(false, Relaxed);
    }
    was
}

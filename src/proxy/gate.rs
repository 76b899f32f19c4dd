//! How many connections one worker may have to one endpoint, and how many requests may wait for one. Who finds both
//! full is told at once.

use std::{cell::Cell, io, rc::Rc};

use tokio::sync::Notify;

use crate::engine::upstream::UpstreamLimits;

/// The connections of one pool.
#[derive(Debug)]
pub(super) struct Gate {
    limits: UpstreamLimits,
    open: Cell<u32>,
    waiting: Cell<u32>,
    freed: Notify,
}

/// An open connection, or one that is being opened.
#[derive(Debug)]
pub(super) struct Open(Rc<Gate>);

/// What came of asking for a connection.
#[derive(Debug)]
pub(super) enum Entry {
    /// One more may be opened.
    New(Open),
    /// One may have become free.
    Look,
}

impl Gate {
    /// `limits` are those of one worker.
    pub(super) fn new(limits: UpstreamLimits) -> Rc<Self> {
        Rc::new(Self { limits, open: Cell::default(), waiting: Cell::default(), freed: Notify::new() })
    }

    /// Connections that are open, whether in use or not.
    pub(super) fn open(&self) -> u32 {
        self.open.get()
    }

    /// Waits until another connection may be opened, or one may have become free.
    ///
    /// # Errors
    /// When too many wait already.
    pub(super) async fn enter(self: &Rc<Self>) -> io::Result<Entry> {
        if self.open.get() < self.limits.connections {
            self.open.set(self.open.get() + 1);
            return Ok(Entry::New(Open(Rc::clone(self))));
        }
        if self.waiting.get() >= self.limits.pending {
            return Err(io::Error::new(io::ErrorKind::QuotaExceeded, "too many requests wait for a connection"));
        }
        self.waiting.set(self.waiting.get() + 1);
        let _counted = Waiting(self);
        self.freed.notified().await;
        Ok(Entry::Look)
    }

    /// Something has become free.
    pub(super) fn freed(&self) {
        if self.waiting.get() > 0 {
            self.freed.notify_one();
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.open.set(self.0.open.get().saturating_sub(1));
        self.0.freed();
    }
}

struct Waiting<'g>(&'g Gate);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.set(self.0.waiting.get().saturating_sub(1));
    }
}

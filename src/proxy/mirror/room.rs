//! How much a worker does for copies at once: so many of them, and so much of bodies. Who asks for more is told no.

use std::{cell::Cell, rc::Rc};

use bytes::Bytes;
use http::HeaderMap;

use crate::{measure::copies::CopyEnd, proxy::worker::Worker};

/// Most copies of a worker, from the request's head to the end of the copy's answer.
const COPIES_MAX: usize = 256;
/// Largest body that is copied.
pub(super) const BODY_MAX: usize = 1024 * 1024;
/// Most that a worker keeps of all bodies together.
const BODIES_MAX: usize = 16 * 1024 * 1024;

/// How many copies a worker has under way, and how much of bodies for them.
#[derive(Debug, Default)]
pub(in crate::proxy) struct Mirrors {
    copies: Cell<usize>,
    bytes: Cell<usize>,
}

/// The right to have one copy under way.
#[derive(Debug)]
pub(super) struct Admitted(Rc<Worker>);

impl Admitted {
    pub(super) fn new(worker: &Rc<Worker>) -> Result<Self, CopyEnd> {
        let copies = &worker.mirrors.copies;
        if copies.get() >= COPIES_MAX {
            return Err(CopyEnd::Busy);
        }
        copies.set(copies.get() + 1);
        Ok(Self(Rc::clone(worker)))
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        let copies = &self.0.mirrors.copies;
        copies.set(copies.get().saturating_sub(1));
    }
}

/// What is kept of a body, in memory of its own: a piece as it came in may hold on to much more than its own bytes.
#[derive(Debug)]
pub(super) struct Kept {
    bytes: Vec<u8>,
    trailers: Option<HeaderMap>,
    room: Room,
}

/// A whole body.
#[derive(Debug)]
pub(super) struct Body {
    pub(super) bytes: Bytes,
    pub(super) trailers: Option<HeaderMap>,
    _room: Room,
}

/// Bytes that are counted while this lives.
#[derive(Debug)]
struct Room {
    worker: Rc<Worker>,
    bytes: usize,
}

impl Kept {
    pub(super) fn new(worker: &Rc<Worker>) -> Self {
        Self { bytes: Vec::new(), trailers: None, room: Room { worker: Rc::clone(worker), bytes: 0 } }
    }

    pub(super) fn add(&mut self, piece: &[u8]) -> Result<(), CopyEnd> {
        if self.bytes.len() + piece.len() > BODY_MAX {
            return Err(CopyEnd::TooLarge);
        }
        self.room.grow(piece.len())?;
        self.bytes.extend_from_slice(piece);
        Ok(())
    }

    pub(super) fn add_trailers(&mut self, trailers: &HeaderMap) -> Result<(), CopyEnd> {
        let size = trailers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
        if self.bytes.len() + size > BODY_MAX {
            return Err(CopyEnd::TooLarge);
        }
        self.room.grow(size)?;
        self.trailers = Some(trailers.clone()).filter(|trailers| !trailers.is_empty());
        Ok(())
    }

    pub(super) fn whole(self) -> Body {
        Body { bytes: Bytes::from(self.bytes.into_boxed_slice()), trailers: self.trailers, _room: self.room }
    }
}

impl Room {
    fn grow(&mut self, by: usize) -> Result<(), CopyEnd> {
        let all = &self.worker.mirrors.bytes;
        if all.get() + by > BODIES_MAX {
            return Err(CopyEnd::Busy);
        }
        all.set(all.get() + by);
        self.bytes += by;
        Ok(())
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let all = &self.worker.mirrors.bytes;
        all.set(all.get().saturating_sub(self.bytes));
    }
}

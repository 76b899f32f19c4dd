//! A request body that can be sent more than once: what has been read of it is kept as long as it is small. One that
//! grows too large for that is sent on all the same, but only once.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Frame, SizeHint};

use super::body::{BodyError, Uploading};

/// Most that is kept of one body.
const KEPT_MAX: usize = 64 * 1024;
/// Most that a worker keeps of all bodies together.
const KEPT_BY_WORKER_MAX: usize = 16 * 1024 * 1024;

/// What a worker keeps of bodies, in bytes.
#[derive(Debug, Default)]
pub(super) struct Room(Cell<usize>);

/// A body, and what has been read of it.
#[derive(Debug)]
pub(super) struct Replay(Rc<Shared>);

/// One sending of it. Only the latest one may read on.
#[derive(Debug)]
pub(super) struct Sending {
    shared: Rc<Shared>,
    number: usize,
    next: usize,
}

#[derive(Debug)]
struct Shared {
    room: Rc<Room>,
    latest: Cell<usize>,
    kept: RefCell<Kept>,
}

#[derive(Debug)]
struct Kept {
    body: Uploading,
    /// None when it has grown too large.
    pieces: Option<Vec<Piece>>,
    bytes: usize,
}

#[derive(Debug, Clone)]
enum Piece {
    Data(Bytes),
    Trailers(HeaderMap),
}

impl Replay {
    pub(super) fn new(body: Uploading, room: &Rc<Room>) -> Self {
        let kept = RefCell::new(Kept { body, pieces: Some(Vec::new()), bytes: 0 });
        Self(Rc::new(Shared { room: Rc::clone(room), latest: Cell::new(0), kept }))
    }

    /// The body from its beginning; none when that is gone. Former sendings come to nothing.
    pub(super) fn send(&self) -> Option<Sending> {
        self.0.kept.borrow().pieces.as_ref()?;
        let number = self.0.latest.get() + 1;
        self.0.latest.set(number);
        Some(Sending { shared: Rc::clone(&self.0), number, next: 0 })
    }

    /// Whether there is a beginning to send it from.
    pub(super) fn is_whole(&self) -> bool {
        self.0.kept.borrow().pieces.is_some()
    }
}

impl Drop for Replay {
    /// It will not be sent again; the last sending goes on without keeping anything.
    fn drop(&mut self) {
        self.0.kept.borrow_mut().let_go(&self.0.room);
    }
}

impl Sending {
    pub(super) fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let kept = &mut *self.shared.kept.borrow_mut();
        if self.number != self.shared.latest.get() {
            return Poll::Pending; // Whoever polls this has been given up.
        }
        if let Some(piece) = kept.pieces.as_ref().and_then(|pieces| pieces.get(self.next)).cloned() {
            self.next += 1;
            kept.body.gave_again();
            return Poll::Ready(Some(Ok(piece.into_frame())));
        }
        let Some(read) = ready!(kept.body.poll_piece(cx)) else { return Poll::Ready(None) };
        if let Ok(frame) = &read {
            kept.keep(frame, &self.shared.room);
            self.next += 1;
        }
        Poll::Ready(Some(read))
    }

    pub(super) fn is_end_stream(&self) -> bool {
        let kept = self.shared.kept.borrow();
        kept.left(self.next).is_empty() && kept.body.is_end_stream()
    }

    pub(super) fn size_hint(&self) -> SizeHint {
        let kept = self.shared.kept.borrow();
        let left: u64 = kept.left(self.next).iter().map(|piece| piece.len() as u64).sum();
        let rest = kept.body.size_hint();
        let mut hint = SizeHint::new();
        hint.set_lower(left + rest.lower());
        if let Some(upper) = rest.upper() {
            hint.set_upper(left + upper);
        }
        hint
    }

    pub(super) fn with_body<T>(&self, of: impl FnOnce(&mut Uploading) -> T) -> T {
        of(&mut self.shared.kept.borrow_mut().body)
    }

    /// Whether nothing has been read yet by any sending.
    pub(super) fn is_untouched(&self) -> bool {
        self.shared.kept.borrow().pieces.as_ref().is_some_and(Vec::is_empty)
    }
}

impl Kept {
    fn left(&self, next: usize) -> &[Piece] {
        self.pieces.as_deref().and_then(|pieces| pieces.get(next..)).unwrap_or_default()
    }

    fn keep(&mut self, frame: &Frame<Bytes>, room: &Room) {
        let Some(pieces) = &mut self.pieces else { return };
        let piece = match (frame.data_ref(), frame.trailers_ref()) {
            (Some(data), _) => Piece::Data(data.clone()),
            (None, Some(trailers)) => Piece::Trailers(trailers.clone()),
            (None, None) => return,
        };
        let (bytes, all) = (self.bytes + piece.len(), room.0.get() + piece.len());
        if bytes > KEPT_MAX || all > KEPT_BY_WORKER_MAX {
            return self.let_go(room);
        }
        pieces.push(piece);
        self.bytes = bytes;
        room.0.set(all);
    }

    fn let_go(&mut self, room: &Room) {
        self.pieces = None;
        room.0.set(room.0.get().saturating_sub(std::mem::take(&mut self.bytes)));
    }
}

impl Piece {
    /// What it is counted as: of trailers, more than most of them have.
    fn len(&self) -> usize {
        match self {
            Self::Data(data) => data.len(),
            Self::Trailers(_) => 1024,
        }
    }

    fn into_frame(self) -> Frame<Bytes> {
        match self {
            Self::Data(data) => Frame::data(data),
            Self::Trailers(trailers) => Frame::trailers(trailers),
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.kept.get_mut().let_go(&self.room);
    }
}

//! An answer on its way to the client: read and written in turn, so that whoever is slow slows the other side.

use std::{
    io::Write as _,
    ops::Range,
    task::{Context, Poll, ready},
    time::Duration,
};

use super::{
    super::{
        connection::StreamGuard,
        deadline::Deadline,
        error::Causes,
        headers::AnswerKind,
        http1::{self, Chunk, Decoder},
        long::Long,
        outcome::{GRPC_STATUS, Outcome},
        worker::Worker,
    },
    client::Client,
    link::Link,
    response::Head,
    scan,
};
use crate::measure::slot::Ending;

/// A piece up to this size is copied behind what is written anyway, since that costs less than a second part.
const COPIED_MAX: usize = 4 * 1024;

/// Why the client does not get all of an answer: it has to be told by the end of its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cut;

/// One answer.
#[derive(Debug)]
pub(super) struct Relay<'r> {
    pub(super) worker: &'r Worker,
    pub(super) link: &'r mut Link,
    pub(super) request: &'r [u8],
    pub(super) head: Head,
    /// Its silence is measured by this.
    pub(super) silence: &'r Deadline,
    /// How long it may last.
    pub(super) silence_max: Duration,
    pub(super) stream: &'r StreamGuard,
    pub(super) outcome: &'r mut Option<Outcome>,
    /// What is to be written from here: the client's head, and small pieces.
    pub(super) answer: &'r mut Vec<u8>,
    pub(super) written: usize,
    /// What is to be written of the link's bytes, behind the answer.
    pub(super) piece: Range<usize>,
    /// What is to be written behind the piece.
    pub(super) end: &'static [u8],
    /// Bytes of the link that are not used may hold more.
    pub(super) has_more: bool,
    /// How much of the link's bytes is done with, this piece included.
    pub(super) used: usize,
    /// Why it ends early, once what was read has been written.
    pub(super) broken: Option<http1::Error>,
    pub(super) is_whole: bool,
    /// It may be ended when its version loses its part.
    pub(super) long: Option<Long>,
}

impl Relay<'_> {
    /// Ready when the client has all of it, or can have no more.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, client: &mut Client<'_>) -> Poll<Result<(), Cut>> {
        loop {
            ready!(self.poll_write(cx, client))?;
            if self.is_whole {
                return Poll::Ready(Ok(()));
            }
            if let Some(error) = self.broken.take() {
                self.fail(&Causes(&error).to_string());
                return Poll::Ready(Err(Cut));
            }
            self.answer.clear();
            self.written = 0;
            self.link.bytes.drain(..self.used);
            (self.used, self.piece) = (0, 0..0);
            if std::mem::take(&mut self.has_more) {
                self.take();
            } else {
                ready!(self.poll_read(cx, client))?;
            }
        }
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, client: &mut Client<'_>) -> Poll<Result<(), Cut>> {
        while self.written < self.answer.len() || !self.piece.is_empty() || !self.end.is_empty() {
            let answer = &self.answer[self.written..];
            let piece = &self.link.bytes[self.piece.clone()];
            // A client that takes no more has gone.
            let written = ready!(client.poll_write(cx, [answer, piece, self.end]));
            let Ok(written) = written else { return Poll::Ready(Err(Cut)) };
            let of_answer = written.min(answer.len());
            let of_piece = (written - of_answer).min(piece.len());
            self.written += of_answer;
            self.piece.start += of_piece;
            self.end = &self.end[written - of_answer - of_piece..];
        }
        client.poll_flush(cx).map_err(|_| Cut)
    }

    /// Reads what comes next of the body, and makes it ready to be written.
    fn poll_read(&mut self, cx: &mut Context<'_>, client: &mut Client<'_>) -> Poll<Result<(), Cut>> {
        if self.long.as_ref().is_some_and(|long| long.poll_over(cx).is_ready()) {
            return Poll::Ready(self.end_early());
        }
        // What the upstream does not take of the request any more is its own affair: it has answered.
        let _refused = self.link.send(cx, self.request);
        match self.link.poll_read(cx, self.worker) {
            Poll::Ready(Ok(0)) if matches!(self.head.body, Decoder::UntilClose) => {
                self.head.body = Decoder::Length(0);
                self.end();
            }
            Poll::Ready(Ok(0)) => self.broken = Some(http1::Error::Closed),
            Poll::Ready(Ok(_)) => {
                if self.stream.waits_for_upstream(false) {
                    self.silence.disarm();
                }
                self.take();
            }
            Poll::Ready(Err(error)) => self.broken = Some(error.into()),
            Poll::Pending => {
                if self.is_silent(cx) || client.poll_gone(cx).is_ready() {
                    return Poll::Ready(Err(Cut));
                }
                return Poll::Pending;
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Whether the upstream, which is waited for, has sent nothing for too long.
    fn is_silent(&mut self, cx: &mut Context<'_>) -> bool {
        self.stream.waits_for_upstream(true);
        if !self.silence.is_armed() {
            self.silence.arm(self.silence_max);
        }
        if self.silence.poll_passed(cx).is_pending() {
            return false;
        }
        if let Some(outcome) = self.outcome.take_if(|_| self.head.kind != AnswerKind::Plain) {
            outcome.delivered();
        }
        self.fail("the response body stood still for too long");
        true
    }

    /// Makes ready to be written what there is of the body.
    pub(super) fn take(&mut self) {
        while !self.head.body.has_ended() {
            match self.head.body.next(&self.link.bytes[self.used..]) {
                Ok(Chunk::Piece { skip, length }) => {
                    let start = self.used + skip;
                    self.used = start + length;
                    if let Some(note) = self.stream.note() {
                        note.sent(length);
                    }
                    if length <= COPIED_MAX {
                        self.copy(start..self.used);
                        continue;
                    }
                    self.piece = start..self.used;
                    if self.head.chunks {
                        self.open_chunk(length);
                        self.end = b"\r\n";
                        self.has_more = true;
                        return;
                    }
                }
                // Nobody said that he would take trailers.
                Ok(Chunk::Trailers { skip, length }) => {
                    let start = self.used + skip;
                    self.used = start + length;
                    self.look_at_trailers(start..start + length);
                }
                Ok(Chunk::End { skip }) => self.used += skip,
                Ok(Chunk::More { skip }) => {
                    self.used += skip;
                    return;
                }
                Err(malformed) => {
                    self.broken = Some(malformed.into());
                    return;
                }
            }
        }
        self.end();
    }

    /// Of a gRPC answer they say how the call ended.
    fn look_at_trailers(&mut self, trailers: Range<usize>) {
        if self.head.kind != AnswerKind::Grpc {
            return;
        }
        let trailers = &mut self.link.bytes[trailers];
        trailers.make_ascii_lowercase();
        let status = scan::fields(trailers).find(|(name, _)| *name == GRPC_STATUS.as_bytes());
        if let (Some(outcome), Some((_, status))) = (&mut *self.outcome, status) {
            outcome.grpc_status(status);
        }
    }

    /// Copies a piece behind what is written from the answer.
    fn copy(&mut self, piece: Range<usize>) {
        if self.head.chunks {
            self.open_chunk(piece.len());
        }
        self.answer.extend_from_slice(&self.link.bytes[piece]);
        if self.head.chunks {
            self.answer.extend_from_slice(b"\r\n");
        }
    }

    fn open_chunk(&mut self, length: usize) {
        // Writing to a Vec does not fail.
        drop(write!(self.answer, "{length:x}\r\n"));
    }

    /// The body is whole. The connection may serve another request.
    fn end(&mut self) {
        if self.head.chunks {
            self.answer.extend_from_slice(b"0\r\n\r\n");
        }
        self.is_whole = true;
        if let Some(note) = self.stream.note() {
            note.ended();
        }
        if let Some(outcome) = self.outcome.take() {
            outcome.delivered();
        }
        let is_clean = self.used == self.link.bytes.len();
        self.link.give_back(is_clean && self.head.keeps_alive, self.request);
    }

    /// Ends a stream whose version has lost its part: in order, where its length was open.
    fn end_early(&mut self) -> Result<(), Cut> {
        self.link.abandon();
        if let Some(outcome) = self.outcome.take() {
            outcome.delivered();
        }
        if !self.head.chunks {
            return Err(Cut);
        }
        self.end();
        Ok(())
    }

    fn fail(&mut self, cause: &str) {
        self.link.abandon();
        if let Some(outcome) = self.outcome.take() {
            outcome.choice().log_failure(Ending::Truncated, cause);
            outcome.failed(Ending::Truncated, 0);
        }
    }
}

//! One attempt at one version, from the moment it is certain to go there until it has ended: recorded exactly once, in
//! the slot of the table that routed it. Who drops it says that the client has gone. The first attempt of a request is
//! what its version is judged by; what the client gets to see in the end is counted where the request was routed.

use std::time::{Duration, Instant};

use http::HeaderMap;

use super::{mirror::Answer, routing::Choice};
use crate::{
    engine::{failure::Next, split::Reason},
    measure::slot::{Ending, Finished},
};

/// The field in which a gRPC answer says how the call ended.
pub(super) const GRPC_STATUS: &str = "grpc-status";

/// An attempt that is not over.
#[derive(Debug)]
pub(super) struct Outcome {
    choice: Choice,
    /// Where the request was routed, if this is not its first attempt.
    routed: Option<Routed>,
    since: Instant,
    answered: Option<Head>,
    recorded: bool,
}

/// The choice that routed a request whose first attempt has been charged.
#[derive(Debug)]
pub(super) struct Routed(Box<Choice>);

#[derive(Debug, Clone, Copy)]
struct Head {
    status: u16,
    latency: Duration,
    is_error: bool,
}

impl Outcome {
    /// Counts the request as routed there.
    pub(super) fn begin(choice: Choice) -> Self {
        choice.slot().started();
        Self { choice, routed: None, since: Instant::now(), answered: None, recorded: false }
    }

    /// A further attempt at a request that was routed before.
    fn again(choice: Choice, routed: Routed) -> Self {
        Self { choice, routed: Some(routed), since: Instant::now(), answered: None, recorded: false }
    }

    pub(super) fn choice(&self) -> &Choice {
        &self.choice
    }

    /// The request is written from now on: latency counts from here.
    pub(super) fn sending(&mut self) {
        self.since = Instant::now();
    }

    /// What the response head said, for comparison with a copy's, once it is here.
    pub(super) fn answer(&self) -> Option<Answer> {
        self.answered.map(|head| Answer { status: head.status, latency: Some(head.latency) })
    }

    /// The response head is here. `sent` is when the request had been written, if it had a body.
    pub(super) fn answered(&mut self, status: u16, sent: Option<Instant>) {
        let since = sent.unwrap_or(self.since);
        let is_error = self.choice.service().failure.count_as_error.statuses.contains(status);
        self.answered = Some(Head { status, latency: since.elapsed(), is_error });
    }

    /// The head or the trailers of a gRPC answer, which say in a field of their own how the call ended.
    pub(super) fn grpc(&mut self, fields: &HeaderMap) {
        if let Some(status) = fields.get(GRPC_STATUS) {
            self.grpc_status(status.as_bytes());
        }
    }

    /// How a gRPC call ended.
    pub(super) fn grpc_status(&mut self, status: &[u8]) {
        let is_error = self.choice.service().failure.count_as_error.is_grpc_error(status);
        if let Some(head) = &mut self.answered {
            head.is_error |= is_error;
        }
    }

    /// The response has been passed on, as far as the client wanted it.
    pub(super) fn delivered(self) {
        drop(self);
    }

    /// The version failed; the client sees this status, unless it saw another one before.
    pub(super) fn failed(mut self, ending: Ending, status: u16) {
        self.record(ending, status);
    }

    /// The client broke its own request; it sees this status.
    pub(super) fn broken_by_client(mut self, status: u16) {
        self.record(Ending::ClientGone, status);
    }

    /// Another attempt follows, and the client sees nothing of this one: it ended so, or with its answer.
    pub(super) fn superseded(mut self, ending: Option<Ending>) -> Routed {
        let ending = ending.unwrap_or_else(|| self.answers_ending());
        self.recorded = true;
        self.choice.pool().ended(ending);
        let slot = self.choice.slot();
        if let Some(routed) = self.routed.take() {
            slot.attempted(ending);
            return routed;
        }
        let latency = self.answered.map_or_else(|| self.since.elapsed(), |head| head.latency);
        self.note_sticky(ending);
        slot.charged(self.choice.reason, ending, latency);
        Routed(Box::new(self.choice.clone()))
    }

    /// A sticky client whose request was bad is evidence for the share test by its bucket.
    fn note_sticky(&self, ending: Ending) {
        let sticky = self.choice.bucket.filter(|_| self.choice.reason == Reason::Sticky);
        if let Some(bucket) = sticky.filter(|_| ending.is_error()) {
            self.choice.slot().sticky_failed(bucket);
        }
    }

    fn answers_ending(&self) -> Ending {
        match self.answered {
            Some(head) if head.is_error => Ending::ErrorStatus,
            Some(_) => Ending::Answered,
            None => Ending::ClientGone,
        }
    }

    fn record(&mut self, ending: Ending, status: u16) {
        self.recorded = true;
        let (status, latency) = match self.answered {
            Some(head) => (head.status, head.latency),
            None => (status, self.since.elapsed()),
        };
        self.choice.pool().ended(ending);
        let slot = self.choice.slot();
        match &self.routed {
            None => {
                self.note_sticky(ending);
                slot.finished(Finished { reason: self.choice.reason, status, ending, latency });
            }
            Some(Routed(first)) => {
                slot.attempted(ending);
                first.slot().served(first.reason, status);
            }
        }
    }
}

impl Drop for Outcome {
    fn drop(&mut self) {
        if !self.recorded {
            self.record(self.answers_ending(), 0);
        }
    }
}

/// A choice whose connection is waited for. Dropped there, the client has gone while the version let it wait.
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) choice: Choice,
    routed: Option<Routed>,
    is_settled: bool,
}

impl Candidate {
    pub(super) fn new(choice: Choice) -> Self {
        Self { choice, routed: None, is_settled: false }
    }

    /// For a further attempt.
    pub(super) fn again(choice: Choice, routed: Routed) -> Self {
        Self { choice, routed: Some(routed), is_settled: false }
    }

    /// Counts why it is made, where the request was routed.
    pub(super) fn count(&self, next: Next) {
        let Some(Routed(first)) = &self.routed else { return };
        match next {
            Next::Rescue => first.slot().rescued(),
            Next::FallBack => first.slot().fell_back(),
            Next::Done | Next::Retry => {}
        }
    }

    /// Whether the request has been charged to a version before.
    pub(super) fn is_further(&self) -> bool {
        self.routed.is_some()
    }

    /// Nobody waits: the request is chosen for anew elsewhere.
    pub(super) fn withdraw(mut self) {
        self.is_settled = true;
    }

    /// The wait is over: the request goes there, or failed there.
    pub(super) fn settle(mut self) -> Outcome {
        self.take()
    }

    fn take(&mut self) -> Outcome {
        self.is_settled = true;
        match self.routed.take() {
            Some(routed) => Outcome::again(self.choice.clone(), routed),
            None => Outcome::begin(self.choice.clone()),
        }
    }
}

impl Drop for Candidate {
    fn drop(&mut self) {
        if !self.is_settled {
            drop(self.take());
        }
    }
}

//! One request at one version, from the moment it is certain to go there until it has ended: recorded exactly once,
//! in the slot of the table that routed it. Who drops it says that the client has gone.

use std::time::{Duration, Instant};

use super::routing::Choice;
use crate::{
    engine::split::Reason,
    measure::slot::{Ending, Finished},
};

/// An attempt that is not over.
#[derive(Debug)]
pub(super) struct Outcome {
    choice: Choice,
    since: Instant,
    answered: Option<Head>,
    recorded: bool,
}

#[derive(Debug, Clone, Copy)]
struct Head {
    status: u16,
    latency: Duration,
}

impl Outcome {
    /// Counts the request as routed there.
    pub(super) fn begin(choice: Choice) -> Self {
        choice.slot().started();
        Self { choice, since: Instant::now(), answered: None, recorded: false }
    }

    pub(super) fn choice(&self) -> &Choice {
        &self.choice
    }

    /// The request is written from now on: latency counts from here.
    pub(super) fn sending(&mut self) {
        self.since = Instant::now();
    }

    /// The response head is here. `sent` is when the request had been written, if it had a body.
    pub(super) fn answered(&mut self, status: u16, sent: Option<Instant>) {
        let since = sent.unwrap_or(self.since);
        self.answered = Some(Head { status, latency: since.elapsed() });
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

    fn record(&mut self, ending: Ending, status: u16) {
        let Head { status, latency } = self.answered.unwrap_or_else(|| Head { status, latency: self.since.elapsed() });
        let sticky = self.choice.bucket.filter(|_| self.choice.reason == Reason::Sticky);
        if let Some(bucket) = sticky.filter(|_| ending.is_error()) {
            self.choice.slot().sticky_failed(bucket);
        }
        self.choice.slot().finished(Finished { reason: self.choice.reason, status, ending, latency });
        self.recorded = true;
    }
}

/// A choice whose connection is waited for. Dropped there, the client has gone while the version let it wait.
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) choice: Choice,
    is_settled: bool,
}

impl Candidate {
    pub(super) fn new(choice: Choice) -> Self {
        Self { choice, is_settled: false }
    }

    /// Nobody waits: the request is chosen for anew elsewhere.
    pub(super) fn withdraw(mut self) {
        self.is_settled = true;
    }

    /// The wait is over: the request goes there, or failed there.
    pub(super) fn settle(mut self) -> Outcome {
        self.is_settled = true;
        Outcome::begin(self.choice.clone())
    }
}

impl Drop for Candidate {
    fn drop(&mut self) {
        if !self.is_settled {
            drop(Outcome::begin(self.choice.clone()));
        }
    }
}

impl Drop for Outcome {
    fn drop(&mut self) {
        if self.recorded {
            return;
        }
        match self.answered {
            Some(Head { status: 500.., .. }) => self.record(Ending::ErrorStatus, 0),
            Some(_) => self.record(Ending::Answered, 0),
            None => self.record(Ending::ClientGone, 0),
        }
    }
}

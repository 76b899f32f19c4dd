//! One request, from its choice to the last byte of its answer: what [`super::super::forward`] does, step by step, for a
//! request that is wholly there.

use std::{future::poll_fn, task::Poll};

use super::{
    super::{
        access::{Note, Trip},
        connection::StreamGuard,
        deadline::{Coarse, Deadline},
        error::{self, Failure, REASON_HEADER},
        headers::AnswerKind,
        journey::outcome_of,
        outcome::{Candidate, Outcome},
        routing::Choice,
        upstream::UpstreamError,
        way::Way,
        worker::Worker,
    },
    Next, Ready, Traits,
    client::Client,
    link::{Link, Unanswered},
    reach::{Connections, NoLink},
    relay::{Cut, Relay},
    response::{Asked, Head},
    scan::put,
    spare::Desk,
    withdraw_note,
};
use crate::engine::{
    failure::{self, Attempted, Condition, Trouble},
    names::Role,
    split::Claims,
    table::Timeouts,
};

/// Carries a request to its version, and the answer back.
pub(super) async fn carry(client: &mut Client<'_>, ready: Ready) -> Next {
    let Ready { stream, choice, way, claims, traits } = ready;
    let worker = &**client.conn.worker();
    let timeouts = way.timeouts(choice.service());
    let deadline = Deadline::new(&worker.ticks);
    let end = worker.ticks.in_future(timeouts.request);
    let Desk { request, response, answer, .. } = &mut client.desk;
    let [request, response, answer] = [request, response, answer].map(std::mem::take);
    let mut exchange = Exchange {
        worker,
        deadline,
        timeouts,
        end,
        way,
        claims,
        traits,
        request,
        response,
        answer,
        link: None,
        outcome: None,
        trip: Trip::default(),
    };
    let answered = exchange.run(client, choice, &stream).await;
    exchange.deadline.disarm();
    stream.waits_for_upstream(false);
    let delivered = match answered {
        Ok(head) => exchange.pass_on(client, head, &stream).await,
        Err(Stop::Failed(failure)) => exchange.tell(client, &failure, &stream).await,
        Err(Stop::Gone) => Err(Cut),
        Err(Stop::Leave) => {
            withdraw_note(&stream);
            return Next::Leave;
        }
    };
    let Exchange { traits, request, mut response, mut answer, .. } = exchange;
    let desk = &mut client.desk;
    response.clear();
    answer.clear();
    (desk.request, desk.response, desk.answer) = (request, response, answer);
    if delivered.is_err() || traits.closes {
        return Next::End;
    }
    client.consume(traits.whole);
    Next::Request
}

/// A request between its client and the version that will have it.
#[derive(Debug)]
pub(super) struct Exchange<'w> {
    pub(super) worker: &'w Worker,
    pub(super) deadline: Deadline,
    pub(super) timeouts: Timeouts,
    pub(super) end: Coarse,
    way: Way,
    pub(super) claims: Claims,
    traits: Traits,
    /// Head and body for the upstream.
    request: Vec<u8>,
    /// Room to read the response.
    pub(super) response: Vec<u8>,
    /// For the client.
    answer: Vec<u8>,
    /// Of the attempt under way: what it goes over, and what it is to the version. They stay here, since to hand them on
    /// costs more than to look for them.
    pub(super) link: Option<Link>,
    outcome: Option<Outcome>,
    /// For the access log.
    pub(super) trip: Trip,
}

/// Why there is none.
#[derive(Debug)]
enum Stop {
    Failed(Failure),
    /// The client has.
    Gone,
    /// The ordinary path has to serve it.
    Leave,
}

/// An attempt without a response head.
#[derive(Debug)]
struct Missed {
    failure: Failure,
    condition: Condition,
}

/// How the wait for a response head ended.
#[derive(Debug)]
enum Waited {
    Answered(Result<Head, Unanswered>),
    TooLong,
    Gone,
}

impl Exchange<'_> {
    /// Makes attempts until one is the answer: more of them at the same version, or one at stable in the canary's place.
    async fn run(&mut self, client: &mut Client<'_>, choice: Choice, stream: &StreamGuard) -> Result<Head, Stop> {
        choice.count_request();
        let mut candidate = Candidate::new(choice);
        let mut retries = 0;
        loop {
            self.trip.attempts += 1;
            let is_further = candidate.is_further();
            let reached = self.reach(client, &mut candidate.choice, Connections::Any, is_further).await;
            if matches!(reached, Err(NoLink::Leave)) && !is_further {
                candidate.withdraw();
                return Err(Stop::Leave);
            }
            if matches!(reached, Err(NoLink::Gone)) {
                return Err(Stop::Gone);
            }
            let outcome = self.outcome.insert(candidate.settle());
            let role = outcome.choice().version().role;
            let end = self.attempt(client, reached, stream).await?;
            let trouble = match &end {
                Ok(head) => Trouble::Answered(head.status),
                Err(missed) => Trouble::Missed(missed.condition),
            };
            let Some((next, choice)) = self.after(trouble, role, retries) else {
                return end.map_err(|missed| Stop::Failed(missed.failure));
            };
            retries = if next == failure::Next::Retry { retries + 1 } else { 0 };
            let Some(outcome) = self.outcome.take() else { return Err(Stop::Gone) };
            let ending = match end {
                Ok(head) => {
                    if let Some(link) = &mut self.link {
                        link.discard(&head, &self.request);
                    }
                    None
                }
                Err(Missed { failure, .. }) => {
                    outcome.choice().log_failure(failure.ending, &failure.cause);
                    Some(failure.ending)
                }
            };
            self.leave_link();
            candidate = Candidate::again(choice, outcome.superseded(ending));
            candidate.count(next);
            self.trip.outcome = outcome_of(next).or(self.trip.outcome);
        }
    }

    /// What follows an attempt, and where; none when it is the answer.
    fn after(&self, trouble: Trouble, role: Role, retries: u32) -> Option<(failure::Next, Choice)> {
        let choice = self.outcome.as_ref()?.choice();
        let service = choice.service();
        let attempted = Attempted {
            trouble,
            role,
            method: self.traits.method,
            can_repeat: self.worker.ticks.now() < self.end,
            retries,
            has_another_endpoint: choice.has_another_endpoint(),
        };
        let retry = self.way.retry(service);
        let next = failure::next(&service.failure, &retry, attempted, || choice.may_retry(retry.budget));
        let choice = match next {
            failure::Next::Done => None,
            failure::Next::Retry => Some(choice.elsewhere()),
            failure::Next::Rescue | failure::Next::FallBack => choice.of_stable(&self.worker.routing()),
        };
        choice.map(|choice| (next, choice))
    }

    /// Sends the request, and once more over a new connection if the first was a pooled one that the upstream had closed,
    /// and nothing can have been done twice: that is nobody's failure.
    async fn attempt(
        &mut self,
        client: &mut Client<'_>,
        mut reached: Result<(), NoLink>,
        stream: &StreamGuard,
    ) -> Result<Result<Head, Missed>, Stop> {
        let mut is_first = true;
        loop {
            match reached {
                Ok(()) => {}
                Err(NoLink::Failed(failure)) => return Ok(Err(Missed::connection(failure))),
                Err(NoLink::Leave) => {
                    let failure = Failure::malformed("the version is spoken to in another way now");
                    return Ok(Err(Missed::connection(failure)));
                }
                Err(NoLink::Gone) => return Err(Stop::Gone),
            }
            let waited = self.head(client, stream).await;
            let (Some(link), Some(outcome)) = (&self.link, &mut self.outcome) else { return Err(Stop::Gone) };
            let unanswered = match waited {
                Waited::Answered(Ok(head)) => {
                    outcome.answered(head.status, None);
                    if let Some(status) = head.grpc_status(&link.bytes) {
                        outcome.grpc_status(status);
                    }
                    return Ok(Ok(head));
                }
                Waited::Answered(Err(unanswered)) => unanswered,
                Waited::TooLong => {
                    let (failure, condition) = (Failure::no_head_in_time(), Condition::Timeout);
                    return Ok(Err(Missed { failure, condition }));
                }
                Waited::Gone => return Err(Stop::Gone),
            };
            let may_be_stale = link.is_reused && self.traits.method.is_some();
            let error = UpstreamError::Http1(unanswered.error);
            let failure = Failure::of_attempt(&error);
            let repeats = unanswered.unsent || (may_be_stale && error::is_stale_connection(&error));
            if !is_first || !repeats {
                return Ok(Err(Missed { failure, condition: error::condition_of(&error) }));
            }
            is_first = false;
            let mut choice = outcome.choice().clone();
            self.leave_link();
            reached = self.reach(client, &mut choice, Connections::New, true).await;
            let Some(mut outcome) = self.outcome.take() else { return Err(Stop::Gone) };
            if reached.is_ok() && !choice.is_same_as(outcome.choice()) {
                outcome = Candidate::again(choice, outcome.superseded(Some(failure.ending))).settle();
            }
            outcome.sending();
            self.outcome = Some(outcome);
        }
    }

    /// Lets go of the link, and takes back the buffer that it read into.
    fn leave_link(&mut self) {
        if let Some(link) = self.link.take() {
            self.response = link.into_room(self.worker);
            self.response.clear();
        }
    }

    /// Sends the request and waits for the response head.
    async fn head(&mut self, client: &mut Client<'_>, stream: &StreamGuard) -> Waited {
        let Self { worker, deadline, traits, way, request, answer, link, outcome, .. } = self;
        let (Some(link), Some(outcome)) = (link, outcome) else { return Waited::Gone };
        let choice = outcome.choice();
        let hand_out = choice.service().sticky.as_ref().zip(choice.hand_out);
        let edits = [way.edits(), Some(&*choice.version().filters)]
            .map(|edits| edits.map(|edits| &edits.response).filter(|edits| !edits.is_empty()));
        poll_fn(|cx| {
            let closes = traits.closes || client.conn.takes_no_more();
            let asked = Asked {
                by_head: traits.is_head,
                closes,
                now: worker.date.text(),
                hand_out,
                scheme: traits.scheme,
                edits,
                id: stream.note().map(Note::id),
            };
            if let Poll::Ready(answered) = link.poll_answer(cx, worker, request, asked, answer) {
                traits.closes = closes;
                return Poll::Ready(Waited::Answered(answered));
            }
            if deadline.poll_passed(cx).is_ready() {
                return Poll::Ready(Waited::TooLong);
            }
            client.poll_gone(cx).map(|()| Waited::Gone)
        })
        .await
    }

    /// The answer as the client gets it.
    async fn pass_on(&mut self, client: &mut Client<'_>, head: Head, stream: &StreamGuard) -> Result<(), Cut> {
        if head.status == 101 {
            let failure = Failure::malformed("101 to a request that asked for no upgrade");
            return self.tell(client, &failure, stream).await;
        }
        let Self { worker, request, deadline, timeouts, answer, link, outcome, .. } = self;
        let Some(link) = link else { return Err(Cut) };
        if let (Some(note), Some(outcome)) = (stream.note(), &outcome) {
            note.routed(outcome.choice(), self.trip);
            note.told(head.status, head.reason(&link.bytes));
        }

        let is_stream = head.kind != AnswerKind::Plain;
        let long = outcome.as_ref().filter(|_| is_stream).map(|outcome| worker.long_lived.enter(outcome.choice()));
        let mut relay = Relay {
            worker,
            request,
            used: head.length,
            link,
            head,
            silence: deadline,
            silence_max: timeouts.idle,
            stream,
            outcome,
            answer,
            written: 0,
            piece: 0..0,
            end: b"",
            has_more: false,
            broken: None,
            is_whole: false,
            long,
        };
        relay.take();
        let delivered = poll_fn(|cx| relay.poll(cx, client)).await;
        self.leave_link();
        delivered
    }

    /// Says that the version failed.
    async fn tell(&mut self, client: &mut Client<'_>, failure: &Failure, stream: &StreamGuard) -> Result<(), Cut> {
        self.leave_link();
        let Some(outcome) = self.outcome.take() else { return Err(Cut) };
        if let Some(note) = stream.note() {
            note.routed(outcome.choice(), self.trip);
            note.told(failure.status.as_u16(), Some(failure.ending.as_str().as_bytes()));
        }
        outcome.choice().log_failure(failure.ending, &failure.cause);
        outcome.failed(failure.ending, failure.status.as_u16());
        self.traits.closes |= client.conn.takes_no_more();
        let text = failure.text();
        let status = failure.status;
        let reason = status.canonical_reason().unwrap_or_default();
        let answer = &mut self.answer;
        answer.clear();
        put(answer, &[b"HTTP/1.1 ", status.as_str().as_bytes(), b" ", reason.as_bytes(), b"\r\n"]);
        put(answer, &[b"content-type: text/plain; charset=utf-8\r\ndate: ", &self.worker.date.text(), b"\r\n"]);
        put(answer, &[REASON_HEADER.as_str().as_bytes(), b": ", failure.ending.as_str().as_bytes()]);
        put(answer, &[b"\r\ncontent-length: ", (text.len() + 1).to_string().as_bytes(), b"\r\n"]);
        if let Some(note) = stream.note() {
            put(answer, &[b"x-request-id: ", note.id().as_bytes(), b"\r\n"]);
            note.sent(if self.traits.is_head { 0 } else { text.len() + 1 });
            note.ended();
        }
        put(answer, if self.traits.closes { &[b"connection: close\r\n\r\n"] } else { &[b"\r\n"] });
        if !self.traits.is_head {
            put(answer, &[text.as_bytes(), b"\n"]);
        }
        let mut written = 0;
        poll_fn(|cx| {
            while written < answer.len() {
                match client.poll_write(cx, [&answer[written..], b"", b""]) {
                    Poll::Ready(Ok(n)) => written += n,
                    Poll::Ready(Err(_)) => return Poll::Ready(Err(Cut)),
                    Poll::Pending => return Poll::Pending,
                }
            }
            client.poll_flush(cx).map_err(|_| Cut)
        })
        .await
    }
}

impl Missed {
    fn connection(failure: Failure) -> Self {
        Self { failure, condition: Condition::ConnectFailure }
    }
}

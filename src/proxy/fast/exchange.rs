//! One request, from its choice to the last byte of its answer: what [`super::super::forward`] does, step by step, for a
//! request that is wholly there.

use std::{future::poll_fn, task::Poll};

use super::{
    super::{
        access::Note,
        connection::StreamGuard,
        deadline::{Coarse, Deadline},
        error::{self, Failure, REASON_HEADER},
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
    let mut exchange = Exchange { worker, deadline, timeouts, end, way, claims, traits, request, response, answer };
    let answered = exchange.run(client, choice, &stream).await;
    exchange.deadline.disarm();
    stream.waits_for_upstream(false);
    let delivered = match answered {
        Ok(arrival) => exchange.pass_on(client, arrival, &stream).await,
        Err(Stop::Failed(outcome, failure)) => exchange.tell(client, outcome, &failure, &stream).await,
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
}

/// A response head, what it came over, and what it is to the version.
#[derive(Debug)]
struct Arrival {
    link: Link,
    head: Head,
    outcome: Outcome,
}

/// Why there is none.
#[derive(Debug)]
enum Stop {
    Failed(Outcome, Failure),
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
    async fn run(&mut self, client: &mut Client<'_>, choice: Choice, stream: &StreamGuard) -> Result<Arrival, Stop> {
        choice.count_request();
        let mut candidate = Candidate::new(choice);
        let mut retries = 0;
        loop {
            let is_further = candidate.is_further();
            let link = self.link(client, &mut candidate.choice, Connections::Any, is_further).await;
            if matches!(link, Err(NoLink::Leave)) && !is_further {
                candidate.withdraw();
                return Err(Stop::Leave);
            }
            if matches!(link, Err(NoLink::Gone)) {
                return Err(Stop::Gone);
            }
            let (outcome, end) = self.attempt(client, link, candidate.settle(), stream).await?;
            let trouble = match &end {
                Ok((_, head)) => Trouble::Answered(head.status),
                Err(missed) => Trouble::Missed(missed.condition),
            };
            let next = self.after(&outcome, trouble, retries);
            let choice = match next {
                failure::Next::Done => None,
                failure::Next::Retry => Some(outcome.choice().elsewhere()),
                failure::Next::Rescue | failure::Next::FallBack => outcome.choice().of_stable(&self.worker.routing()),
            };
            let Some(choice) = choice else {
                return match end {
                    Ok((link, head)) => Ok(Arrival { link, head, outcome }),
                    Err(missed) => Err(Stop::Failed(outcome, missed.failure)),
                };
            };
            retries = if next == failure::Next::Retry { retries + 1 } else { 0 };
            let routed = match end {
                Ok((mut link, head)) => {
                    link.discard(&head, &self.request);
                    self.take_room_of(link);
                    outcome.superseded(None)
                }
                Err(Missed { failure, .. }) => {
                    outcome.choice().log_failure(failure.ending, &failure.cause);
                    outcome.superseded(Some(failure.ending))
                }
            };
            candidate = Candidate::again(choice, routed);
            candidate.count(next);
        }
    }

    fn after(&self, outcome: &Outcome, trouble: Trouble, retries: u32) -> failure::Next {
        let choice = outcome.choice();
        let service = choice.service();
        let attempted = Attempted {
            trouble,
            role: choice.version().role,
            method: self.traits.method,
            can_repeat: self.worker.ticks.now() < self.end,
            retries,
            has_another_endpoint: choice.has_another_endpoint(),
        };
        let retry = self.way.retry(service);
        failure::next(&service.failure, &retry, attempted, || choice.may_retry(retry.budget))
    }

    /// Sends the request, and once more over a new connection if the first was a pooled one that the upstream had closed,
    /// and nothing can have been done twice: that is nobody's failure.
    async fn attempt(
        &mut self,
        client: &mut Client<'_>,
        mut link: Result<Link, NoLink>,
        mut outcome: Outcome,
        stream: &StreamGuard,
    ) -> Result<(Outcome, Result<(Link, Head), Missed>), Stop> {
        let mut is_first = true;
        loop {
            let mut sent = match link {
                Ok(link) => link,
                Err(NoLink::Failed(failure)) => return Ok((outcome, Err(Missed::connection(failure)))),
                Err(NoLink::Leave) => {
                    let failure = Failure::malformed("the version is spoken to in another way now");
                    return Ok((outcome, Err(Missed::connection(failure))));
                }
                Err(NoLink::Gone) => return Err(Stop::Gone),
            };
            let unanswered = match self.head(client, &mut sent, &outcome, stream).await {
                Waited::Answered(Ok(head)) => {
                    outcome.answered(head.status, None);
                    if let Some(status) = head.grpc_status(&sent.bytes) {
                        outcome.grpc_status(status);
                    }
                    return Ok((outcome, Ok((sent, head))));
                }
                Waited::Answered(Err(unanswered)) => unanswered,
                Waited::TooLong => {
                    let missed = Missed { failure: Failure::no_head_in_time(), condition: Condition::Timeout };
                    return Ok((outcome, Err(missed)));
                }
                Waited::Gone => return Err(Stop::Gone),
            };
            let may_be_stale = sent.is_reused && self.traits.method.is_some();
            self.take_room_of(sent);
            let error = UpstreamError::Http1(unanswered.error);
            let failure = Failure::of_attempt(&error);
            let repeats = unanswered.unsent || (may_be_stale && error::is_stale_connection(&error));
            if !is_first || !repeats {
                return Ok((outcome, Err(Missed { failure, condition: error::condition_of(&error) })));
            }
            is_first = false;
            let mut choice = outcome.choice().clone();
            link = self.link(client, &mut choice, Connections::New, true).await;
            if link.is_ok() && !choice.is_same_as(outcome.choice()) {
                let routed = outcome.superseded(Some(failure.ending));
                outcome = Candidate::again(choice, routed).settle();
            }
            outcome.sending();
        }
    }

    /// Takes the buffer back that a link read into.
    fn take_room_of(&mut self, link: Link) {
        self.response = link.into_room(self.worker);
        self.response.clear();
    }

    /// Sends the request and waits for the response head.
    async fn head(
        &mut self,
        client: &mut Client<'_>,
        link: &mut Link,
        outcome: &Outcome,
        stream: &StreamGuard,
    ) -> Waited {
        let Self { worker, deadline, traits, way, request, answer, .. } = self;
        let choice = outcome.choice();
        let hand_out = choice.service().sticky.as_ref().zip(choice.hand_out);
        let edits = [way.edits(), Some(&*choice.version().filters)]
            .map(|edits| edits.map(|edits| &edits.response).filter(|edits| !edits.is_empty()));
        poll_fn(|cx| {
            let closes = traits.closes || client.conn.takes_no_more();
            let asked = Asked {
                by_head: traits.is_head,
                closes,
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
    async fn pass_on(&mut self, client: &mut Client<'_>, arrival: Arrival, stream: &StreamGuard) -> Result<(), Cut> {
        let Arrival { link, head, outcome } = arrival;
        if head.status == 101 {
            self.response = link.into_room(self.worker);
            let failure = Failure::malformed("101 to a request that asked for no upgrade");
            return self.tell(client, outcome, &failure, stream).await;
        }
        if let Some(note) = stream.note() {
            note.routed(outcome.choice());
            note.told(head.status, head.reason(&link.bytes));
        }
        let mut relay = Relay {
            worker: self.worker,
            request: &self.request,
            used: head.length,
            link,
            head,
            silence: &self.deadline,
            silence_max: self.timeouts.idle,
            stream,
            outcome: Some(outcome),
            answer: std::mem::take(&mut self.answer),
            written: 0,
            piece: 0..0,
            end: b"",
            has_more: false,
            broken: None,
            is_whole: false,
        };
        relay.take();
        let delivered = poll_fn(|cx| relay.poll(cx, client)).await;
        let Relay { link, answer, .. } = relay;
        self.response = link.into_room(self.worker);
        self.answer = answer;
        delivered
    }

    /// Says that the version failed.
    async fn tell(
        &mut self,
        client: &mut Client<'_>,
        outcome: Outcome,
        failure: &Failure,
        stream: &StreamGuard,
    ) -> Result<(), Cut> {
        if let Some(note) = stream.note() {
            note.routed(outcome.choice());
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
        put(answer, &[b"content-type: text/plain; charset=utf-8\r\n"]);
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

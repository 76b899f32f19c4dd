//! One request, from its choice to the last byte of its answer: what [`super::super::forward`] does, step by step, for a
//! request that is wholly there.

use std::{future::poll_fn, rc::Rc, task::Poll};

use super::{
    super::{
        connection::StreamGuard,
        deadline::{Coarse, Deadline},
        error::{self, Failure, REASON_HEADER},
        outcome::{Candidate, Outcome},
        pool::Lease,
        routing::{Choice, Routing},
        upstream::UpstreamError,
        worker::Worker,
    },
    Next, Ready, Traits,
    client::Client,
    field::put,
    link::{Link, Unanswered},
    relay::{Cut, Relay},
    response::{Asked, Head},
    spare::Desk,
};
use crate::engine::{
    failure,
    split::{self, Claims, Reason},
    table::Timeouts,
};

/// Carries a request to its version, and the answer back.
pub(super) async fn carry(client: &mut Client<'_>, ready: Ready) -> Next {
    let Ready { stream, choice, claims, traits } = ready;
    let worker = &**client.conn.worker();
    let timeouts = choice.service().timeouts;
    let deadline = Deadline::new(&worker.ticks);
    let end = worker.ticks.in_future(timeouts.request);
    let Desk { request, response, answer, .. } = &mut client.desk;
    let [request, response, answer] = [request, response, answer].map(std::mem::take);
    let mut exchange = Exchange { worker, deadline, timeouts, end, claims, traits, request, response, answer };
    let answered = exchange.run(client, choice).await;
    exchange.deadline.disarm();
    stream.waits_for_upstream(false);
    let delivered = match answered {
        Ok(arrival) => exchange.pass_on(client, arrival, &stream).await,
        Err(Stop::Failed(outcome, failure)) => exchange.tell(client, outcome, &failure).await,
        Err(Stop::Gone) => Err(Cut),
        Err(Stop::Leave) => return Next::Leave,
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
struct Exchange<'w> {
    worker: &'w Worker,
    deadline: Deadline,
    timeouts: Timeouts,
    end: Coarse,
    claims: Claims,
    traits: Traits,
    /// Head and body for the upstream.
    request: Vec<u8>,
    /// Room to read the response.
    response: Vec<u8>,
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

/// Why there is no connection.
#[derive(Debug)]
enum NoLink {
    Failed(Failure),
    /// The time for it ran out.
    Late,
    Gone,
    Leave,
}

/// How the wait for a response head ended.
#[derive(Debug)]
enum Waited {
    Answered(Result<Head, Unanswered>),
    TooLong,
    Gone,
}

impl Exchange<'_> {
    /// Sends the request, and once more over a new connection if the first was a pooled one that the upstream had closed,
    /// and nothing can have been done twice.
    async fn run(&mut self, client: &mut Client<'_>, choice: Choice) -> Result<Arrival, Stop> {
        let mut candidate = Candidate::new(choice);
        let mut link = match self.pooled(&candidate.choice) {
            Some(link) => Ok(link),
            None => self.connect(client, &mut candidate.choice, true).await,
        };
        if matches!(link, Err(NoLink::Leave)) {
            candidate.withdraw();
            return Err(Stop::Leave);
        }
        if matches!(link, Err(NoLink::Gone)) {
            return Err(Stop::Gone);
        }
        let mut outcome = candidate.settle();
        let mut is_first = true;
        loop {
            let mut sent = match link {
                Ok(link) => link,
                Err(NoLink::Failed(failure)) => {
                    // Stable answers for a canary that cannot be connected to: nothing was sent.
                    let Some(stable) = outcome.choice().stand_in(&self.worker.routing()) else {
                        return Err(Stop::Failed(outcome, failure));
                    };
                    outcome.choice().log_failure(failure.ending, &failure.cause);
                    let mut candidate = Candidate::again(stable, outcome.superseded(Some(failure.ending)));
                    candidate.count(failure::Next::FallBack);
                    link = match self.pooled(&candidate.choice) {
                        Some(link) => Ok(link),
                        None => self.connect(client, &mut candidate.choice, true).await,
                    };
                    outcome = candidate.settle();
                    if matches!(link, Err(NoLink::Leave)) {
                        return Err(Stop::Failed(outcome, failure));
                    }
                    continue;
                }
                Err(NoLink::Gone | NoLink::Leave | NoLink::Late) => return Err(Stop::Gone),
            };
            let may_repeat = sent.is_reused && self.traits.is_idempotent;
            outcome.sending();
            let unanswered = match self.head(client, &mut sent, &outcome).await {
                Waited::Answered(Ok(head)) => {
                    outcome.answered(head.status, None);
                    return Ok(Arrival { link: sent, head, outcome });
                }
                Waited::Answered(Err(unanswered)) => unanswered,
                Waited::TooLong => return Err(Stop::Failed(outcome, Failure::no_head_in_time())),
                Waited::Gone => return Err(Stop::Gone),
            };
            self.response = sent.into_room(self.worker);
            self.response.clear();
            let error = UpstreamError::Http1(unanswered.error);
            let failure = Failure::of_attempt(&error);
            let repeats = unanswered.unsent || (may_repeat && error::is_stale_connection(&error));
            if !is_first || !repeats {
                return Err(Stop::Failed(outcome, failure));
            }
            is_first = false;
            let mut choice = outcome.choice().clone();
            link = self.connect(client, &mut choice, false).await;
            if matches!(link, Err(NoLink::Leave)) {
                return Err(Stop::Failed(outcome, failure));
            }
            if link.is_ok() && !choice.is_same_as(outcome.choice()) {
                outcome.failed(failure.ending, 0);
                outcome = Outcome::begin(choice);
            }
        }
    }

    /// A connection that is there, without waiting: the table that chose has been looked at just now.
    fn pooled(&mut self, choice: &Choice) -> Option<Link> {
        self.begin_attempt();
        choice.pool().checkout().and_then(|lease| Link::new(lease, &mut self.response))
    }

    /// A connection to the chosen version. The table may change while one is waited for: the choice is looked at again at
    /// the last moment, so that nothing reaches a version after its weight was taken away.
    async fn connect(&mut self, client: &mut Client<'_>, choice: &mut Choice, is_first: bool) -> Result<Link, NoLink> {
        self.begin_attempt();
        loop {
            let pooled = if is_first { choice.pool().checkout() } else { None };
            let lease = match pooled {
                Some(lease) => Ok(lease),
                None => self.open(client, choice).await,
            };
            let routing = self.worker.routing();
            if choice.holds_under(&routing) || matches!(lease, Err(NoLink::Gone)) {
                return lease.and_then(|lease| Link::new(lease, &mut self.response).ok_or(NoLink::Leave));
            }
            lease.map(Lease::give_back).unwrap_or_default();
            self.choose_again(choice, &routing)?;
            self.begin_attempt();
        }
    }

    async fn open(&self, client: &mut Client<'_>, choice: &mut Choice) -> Result<Lease, NoLink> {
        // In a box: connections are opened rarely, and every waiting task would have room for it.
        let mut opening = Box::pin(choice.connect());
        let opened = poll_fn(|cx| {
            if let Poll::Ready(opened) = opening.as_mut().poll(cx) {
                return Poll::Ready(opened.map_err(|error| NoLink::Failed(Failure::not_connected(&error))));
            }
            if self.deadline.poll_passed(cx).is_ready() {
                return Poll::Ready(Err(NoLink::Late));
            }
            client.poll_gone(cx).map(|()| Err(NoLink::Gone))
        })
        .await;
        drop(opening);
        if matches!(opened, Err(NoLink::Late)) {
            choice.gave_up_connecting();
            return Err(NoLink::Failed(Failure::no_connection_in_time()));
        }
        opened
    }

    /// Another choice under the table now in force. A client that was promised an id keeps it.
    fn choose_again(&mut self, choice: &mut Choice, routing: &Rc<Routing>) -> Result<(), NoLink> {
        let service = routing.service(0).filter(|_| routing.is_fast).ok_or(NoLink::Leave)?;
        self.claims.sticky = self.claims.sticky.or(choice.hand_out);
        let assignment = split::assign(service, &self.claims, || self.worker.draw());
        let mut again = Choice::new(routing, 0, assignment).ok_or(NoLink::Leave)?;
        again.hand_out = choice.hand_out.filter(|_| again.reason == Reason::Sticky);
        *choice = again;
        Ok(())
    }

    fn begin_attempt(&self) {
        let attempt = self.worker.ticks.in_future(self.timeouts.attempt);
        self.deadline.arm_at(attempt.min(self.end));
    }

    /// Sends the request and waits for the response head.
    async fn head(&mut self, client: &mut Client<'_>, link: &mut Link, outcome: &Outcome) -> Waited {
        let Self { worker, deadline, traits, request, answer, .. } = self;
        let choice = outcome.choice();
        let hand_out = choice.service().sticky.as_ref().zip(choice.hand_out);
        poll_fn(|cx| {
            let closes = traits.closes || client.conn.takes_no_more();
            let asked = Asked { by_head: traits.is_head, closes, now: worker.date.text(), hand_out };
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
            return self.tell(client, outcome, &failure).await;
        }
        let long = head.may_be_silent.then(|| self.worker.long_lived.enter(outcome.choice()));
        let mut relay = Relay {
            worker: self.worker,
            request: &self.request,
            used: head.length,
            link,
            head,
            silence: &self.deadline,
            stream,
            outcome: Some(outcome),
            answer: std::mem::take(&mut self.answer),
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
        let Relay { link, answer, .. } = relay;
        self.response = link.into_room(self.worker);
        self.answer = answer;
        delivered
    }

    /// Says that the version failed.
    async fn tell(&mut self, client: &mut Client<'_>, outcome: Outcome, failure: &Failure) -> Result<(), Cut> {
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
            Poll::Ready(Ok(()))
        })
        .await
    }
}

//! A request between its client and the version that will have it: attempts, one after the other, until one of them is
//! the answer. Which version is tried next `engine::failure` says; what the client gets is for `forward`.

use std::{borrow::Cow, pin::pin, rc::Rc, time::Instant};

use http::{Response, StatusCode, header, request::Parts};

use super::{
    access::Trip,
    body::{ClientFault, RequestBody, Upload},
    deadline::{Coarse, Deadline, TICK, Ticks},
    edit,
    error::{self, Failure, Refusal},
    headers::Hop,
    http1::RequestHead,
    outcome::{Candidate, Outcome},
    pool::Lease,
    replay::Replay,
    routing::{Choice, Routing},
    trace::Traced,
    upstream::{Unanswered, UpstreamBody},
    way::Way,
    worker::Worker,
};
use crate::{
    engine::{
        failure::{self, Attempted, Condition, IdempotentMethod, Next, Trouble},
        filter::Scheme,
        split::{self, Claims, Reason},
        table::{Timeouts, VersionTable},
    },
    measure::RefusedReason,
};

const BROKEN_BODY: Refusal = Refusal::new(StatusCode::BAD_REQUEST, RefusedReason::BrokenBody, "malformed request body");
/// Sent as what is left of it, the request would be an ordinary GET, with an answer that tells nobody what is wrong.
const NO_WEBSOCKET: Refusal = Refusal::new(
    StatusCode::NOT_IMPLEMENTED,
    RefusedReason::UnsupportedMethod,
    "this version of the service is asked in HTTP/2, over which no WebSocket passes",
);
const SILENT_BODY: Refusal =
    Refusal::new(StatusCode::REQUEST_TIMEOUT, RefusedReason::BodyTimeout, "the request body came too slowly");

/// The request, and what is known of its way so far.
#[derive(Debug)]
pub(super) struct Journey<'w> {
    pub(super) worker: &'w Worker,
    pub(super) way: Way,
    pub(super) claims: Claims,
    pub(super) head: Parts,
    pub(super) hop: Hop,
    /// How the client came in.
    pub(super) scheme: Scheme,
    /// If it is one that may be sent twice.
    pub(super) method: Option<IdempotentMethod>,
    pub(super) waiting: Waiting,
    pub(super) upload: Option<Rc<Upload>>,
    pub(super) replay: Option<Replay>,
    /// For the access log.
    pub(super) trip: Trip,
    /// If it is sampled.
    pub(super) trace: Option<Rc<Traced>>,
}

/// A response, and what it is to the version.
#[derive(Debug)]
pub(super) struct Arrival {
    pub(super) response: Response<UpstreamBody>,
    pub(super) outcome: Outcome,
}

/// Why there is none.
#[derive(Debug)]
pub(super) enum Stop {
    Failed(Outcome, Failure),
    Broken(Outcome, Refusal),
}

/// One attempt: a response head, or why there is none.
#[derive(Debug)]
struct Tried {
    outcome: Outcome,
    end: Result<Response<UpstreamBody>, Missed>,
}

/// An attempt without a response head.
#[derive(Debug)]
struct Missed {
    failure: Failure,
    condition: Condition,
    /// The request's body, if it was not touched.
    unsent: Option<RequestBody>,
}

/// Which connections will do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Connections {
    Any,
    New,
}

impl Journey<'_> {
    /// Makes attempts until one is the answer: more of them at the same version, or one at stable in the canary's place.
    pub(super) async fn run(&mut self, choice: Choice, mut body: RequestBody) -> Result<Arrival, Stop> {
        choice.count_request();
        let mut candidate = Candidate::new(choice);
        let mut retries = 0;
        loop {
            self.trip.attempts += 1;
            let Tried { outcome, end } = self.traced_attempt(candidate, body).await?;
            let (trouble, unsent) = match &end {
                Ok(response) => (Trouble::Answered(response.status().as_u16()), None),
                Err(missed) => (Trouble::Missed(missed.condition), missed.unsent.as_ref()),
            };
            let next = self.after(&outcome, trouble, unsent.is_some(), retries);
            let choice = match next {
                Next::Done => None,
                Next::Retry => Some(outcome.choice().elsewhere()),
                Next::Rescue | Next::FallBack => outcome.choice().of_stable(&self.worker.routing()),
            };
            let Some(choice) = choice else {
                return match end {
                    Ok(response) => Ok(Arrival { response, outcome }),
                    Err(missed) => Err(Stop::Failed(outcome, missed.failure)),
                };
            };
            retries = if next == Next::Retry { retries + 1 } else { 0 };
            let unsent = match end {
                Ok(response) => {
                    response.into_body().discard();
                    candidate = Candidate::again(choice, outcome.superseded(None));
                    None
                }
                Err(missed) => {
                    outcome.choice().log_failure(missed.failure.ending, &missed.failure.cause);
                    candidate = Candidate::again(choice, outcome.superseded(Some(missed.failure.ending)));
                    missed.unsent
                }
            };
            candidate.count(next);
            self.trip.outcome = outcome_of(next).or(self.trip.outcome);
            body = unsent.or_else(|| self.body_again()).unwrap_or(RequestBody::None);
        }
    }

    /// An attempt, with its span if the request is traced.
    async fn traced_attempt(&mut self, candidate: Candidate, body: RequestBody) -> Result<Tried, Stop> {
        if let Some(trace) = &self.trace {
            trace.tries(&candidate.choice, self.worker.draw(), &mut self.head.headers);
        }
        let tried = self.attempt(candidate, body).await;
        if let Some(trace) = &self.trace {
            match &tried {
                Ok(Tried { outcome, end: Ok(answer) }) => {
                    trace.tried(outcome.choice(), Some(answer.status().as_u16()), None);
                }
                Ok(Tried { outcome, end: Err(missed) }) => {
                    trace.tried(outcome.choice(), None, Some(missed.failure.ending.as_str()));
                }
                Err(Stop::Failed(outcome, failure)) => {
                    trace.tried(outcome.choice(), None, Some(failure.ending.as_str()));
                }
                Err(Stop::Broken(outcome, refusal)) => {
                    trace.tried(outcome.choice(), None, Some(refusal.reason.as_str()));
                }
            }
        }
        tried
    }

    fn after(&self, outcome: &Outcome, trouble: Trouble, is_unsent: bool, retries: u32) -> Next {
        let choice = outcome.choice();
        let service = choice.service();
        let attempted = Attempted {
            trouble,
            role: choice.version().role,
            method: self.method,
            can_repeat: (is_unsent || self.can_repeat()) && !self.waiting.is_over(),
            retries,
            has_another_endpoint: choice.has_another_endpoint(),
        };
        let retry = self.way.retry(service);
        failure::next(&service.failure, &retry, attempted, || choice.may_retry(retry.budget))
    }

    fn can_repeat(&self) -> bool {
        self.upload.is_none() || self.replay.as_ref().is_some_and(Replay::is_whole)
    }

    /// The body from its beginning, if it is still there.
    fn body_again(&self) -> Option<RequestBody> {
        match &self.upload {
            None => Some(RequestBody::None),
            Some(_) => self.replay.as_ref()?.send().map(|body| RequestBody::Kept(Box::new(body))),
        }
    }

    /// Sends the request, and once more over a new connection if the first was a pooled one that the upstream
    /// had closed, and nothing can have been done twice: that is nobody's failure.
    async fn attempt(&mut self, mut candidate: Candidate, mut body: RequestBody) -> Result<Tried, Stop> {
        let is_further = candidate.is_further();
        let lease = self.lease(&mut candidate.choice, Connections::Any, is_further).await;
        // Its clock starts here.
        let mut outcome = candidate.settle();
        let mut lease = match lease {
            Ok(lease) => lease,
            Err(failure) => return Ok(Tried::not_connected(outcome, failure, body)),
        };
        let mut is_first = true;
        loop {
            if !lease.can_upgrade() && self.hop.asks_for_websocket() {
                lease.give_back();
                return Err(Stop::Broken(outcome, NO_WEBSOCKET));
            }
            let may_be_stale = lease.is_reused() && self.method.is_some();
            let unanswered = match self.answer(lease, outcome.choice(), body).await {
                Some(Ok(response)) => {
                    let sent = self.upload.as_deref().and_then(Upload::sent);
                    outcome.answered(response.status().as_u16(), sent);
                    return Ok(Tried { outcome, end: Ok(response) });
                }
                Some(Err(unanswered)) => unanswered,
                None => return Ok(Tried::missed(outcome, Failure::no_head_in_time(), Condition::Timeout, None)),
            };
            if let Some(refusal) = self.clients_fault(&unanswered) {
                return Err(Stop::Broken(outcome, refusal));
            }
            let Unanswered { error, unsent } = unanswered;
            let was_stale = may_be_stale && error::is_stale_connection(&error);
            let again = if is_first && unsent.is_none() && was_stale { self.body_again() } else { unsent };
            let Some(again) = again.filter(|_| is_first) else {
                let condition = error::condition_of(&error);
                return Ok(Tried::missed(outcome, Failure::of_attempt(&error), condition, None));
            };
            body = again;
            is_first = false;
            let mut choice = outcome.choice().clone();
            lease = match self.lease(&mut choice, Connections::New, true).await {
                Ok(lease) => lease,
                Err(failure) => return Ok(Tried::not_connected(outcome, failure, body)),
            };
            if !choice.is_same_as(outcome.choice()) {
                let routed = outcome.superseded(Some(Failure::of_attempt(&error).ending));
                outcome = Candidate::again(choice, routed).settle();
            }
            outcome.sending();
        }
    }

    /// A connection to the chosen version. The table may change while one is waited for: the choice is looked at again
    /// at the last moment, so that nothing reaches a version after its weight was taken away. A request that was charged
    /// to a version already goes to stable then.
    async fn lease(
        &mut self,
        choice: &mut Choice,
        connections: Connections,
        is_further: bool,
    ) -> Result<Lease, Failure> {
        self.waiting.begin_attempt();
        loop {
            let pooled = if connections == Connections::Any { choice.pool().checkout() } else { None };
            let lease = match pooled {
                Some(lease) => Ok(lease),
                None => self.connect(choice).await,
            };
            let routing = self.worker.routing();
            if choice.holds_under(&routing) {
                return lease;
            }
            lease.map(Lease::give_back).unwrap_or_default();
            let again = if is_further { choice.of_stable(&routing) } else { self.choose_again(choice, &routing) };
            *choice = again.ok_or_else(|| Failure::malformed("the service is no longer configured"))?;
            self.waiting.begin_attempt();
        }
    }

    async fn connect(&mut self, choice: &mut Choice) -> Result<Lease, Failure> {
        let started = Instant::now();
        let Some(connected) = Ticks::until(&self.waiting.deadline, pin!(choice.connect())).await else {
            choice.gave_up_connecting();
            return Err(Failure::no_connection_in_time());
        };
        self.trip.connect = Some(started.elapsed());
        connected.map_err(|error| Failure::not_connected(&error))
    }

    /// A client that was promised an id keeps it.
    fn choose_again(&mut self, before: &Choice, routing: &Rc<Routing>) -> Option<Choice> {
        self.claims.sticky = self.claims.sticky.or(before.hand_out);
        let mut again = choose(self.worker, routing, before.service_under(routing)?, &self.claims)?;
        again.hand_out = before.hand_out.filter(|_| again.reason == Reason::Sticky);
        Some(again)
    }

    /// The response head; none when it did not come in time. While the client's body is what is waited for, time stands
    /// still, and each piece of it begins the wait anew.
    async fn answer(
        &self,
        lease: Lease,
        choice: &Choice,
        mut body: RequestBody,
    ) -> Option<Result<Response<UpstreamBody>, Unanswered>> {
        if lease.tells_to_continue() && self.head.headers.contains_key(header::EXPECT) {
            body.wait_for_continue();
        }
        let (head, endpoint) = (self.head_for(choice.version()), choice.endpoint());
        let mut answer = pin!(lease.send(RequestHead { head: &head, hop: &self.hop, endpoint }, body));
        loop {
            let answered = Ticks::until(&self.waiting.deadline, answer.as_mut()).await;
            if answered.is_some() || !self.waiting.goes_on(self.upload.as_deref()) {
                return answered;
            }
        }
    }

    /// The head with what is changed for that version alone.
    fn head_for(&self, version: &VersionTable) -> Cow<'_, Parts> {
        let edits = &version.filters.request;
        if edits.is_empty() {
            return Cow::Borrowed(&self.head);
        }
        let mut head = self.head.clone();
        edit::headers(&mut head.headers, edits);
        Cow::Owned(head)
    }

    fn clients_fault(&self, unanswered: &Unanswered) -> Option<Refusal> {
        match self.upload.as_deref().and_then(Upload::fault) {
            Some(ClientFault::Silent) => Some(SILENT_BODY),
            Some(ClientFault::Broken) => Some(BROKEN_BODY),
            None => error::is_bodys_fault(&unanswered.error).then_some(BROKEN_BODY),
        }
    }
}

impl Tried {
    fn missed(outcome: Outcome, failure: Failure, condition: Condition, unsent: Option<RequestBody>) -> Self {
        Self { outcome, end: Err(Missed { failure, condition, unsent }) }
    }

    fn not_connected(outcome: Outcome, failure: Failure, unsent: RequestBody) -> Self {
        Self::missed(outcome, failure, Condition::ConnectFailure, Some(unsent))
    }
}

/// How long one request waits for its upstream.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) deadline: Deadline,
    pub(super) timeouts: Timeouts,
    pub(super) end: Coarse,
}

impl Waiting {
    pub(super) fn begin(ticks: &Rc<Ticks>, timeouts: Timeouts) -> Self {
        Self { deadline: Deadline::new(ticks), timeouts, end: ticks.in_future(timeouts.request) }
    }

    fn begin_attempt(&self) {
        let attempt = self.deadline.ticks().in_future(self.timeouts.attempt);
        self.deadline.arm_at(attempt.min(self.end));
    }

    /// Whether there is no time left for another attempt.
    fn is_over(&self) -> bool {
        self.deadline.ticks().now() >= self.end
    }

    /// Whether there is a reason to wait longer than to the deadline: the upstream has not had the request for so long.
    fn goes_on(&self, upload: Option<&Upload>) -> bool {
        let Some(upload) = upload else { return false };
        let ticks = self.deadline.ticks();
        let at = upload.upstream_has_it_since().unwrap_or_else(|| ticks.now()).after(self.timeouts.attempt).after(TICK);
        self.deadline.arm_at(at);
        at > ticks.now()
    }
}

/// How a further attempt is called where it came to another version.
pub(super) fn outcome_of(next: Next) -> Option<&'static str> {
    match next {
        Next::Rescue => Some("rescue"),
        Next::FallBack => Some("fallback"),
        Next::Done | Next::Retry => None,
    }
}

/// The version of a service for a request, if the service has one that can be connected to.
pub(super) fn choose(worker: &Worker, routing: &Rc<Routing>, service: usize, claims: &Claims) -> Option<Choice> {
    Choice::new(routing, service, split::assign(routing.service(service)?, claims, || worker.draw()))
}

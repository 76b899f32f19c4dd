//! The life of a request, top to bottom: check it, read the table once, choose a version, get a connection,
//! look whether the choice still stands, send, and pass the answer on. Each step is a function with its own fault.

use std::{borrow::Cow, pin::pin, rc::Rc, time::Instant};

use http::{HeaderValue, Request, Response, StatusCode, Version, header, request::Parts};
use http_body::Body as _;
use hyper::{body::Incoming, upgrade::OnUpgrade};

use super::{
    access::Trip,
    believe,
    body::{ClientFault, Relay, RequestBody, ResponseBody, Text, Upload, Uploading},
    check,
    connection::{Conn, StreamGuard},
    cookie,
    deadline::{Coarse, Deadline, TICK, Ticks},
    edit,
    error::{self, Failure, Refusal},
    headers::{self, AnswerKind, Hop},
    http1::RequestHead,
    mirror::{self, Answer, Copies, Original, Wanted},
    outcome::{Candidate, Outcome},
    pool::Lease,
    replay::Replay,
    routing::{Choice, Routing},
    upgrade,
    upstream::{Unanswered, UpstreamBody},
    view,
    way::{OwnAnswer, Way},
    websocket,
    worker::Worker,
};
use crate::{
    engine::{
        address::Address,
        assign::ForceRule,
        endpoint::UpstreamHttp,
        failure::{self, Attempted, Condition, IdempotentMethod, Next, Trouble},
        filter::Scheme,
        split::{self, Claims, Reason},
        table::{ServiceTable, Timeouts, VersionTable},
    },
    measure::RefusedReason,
};

const NO_ROUTE: Refusal = Refusal::new(StatusCode::NOT_FOUND, RefusedReason::NoRoute, "no route takes this request");
const NO_SERVICE: Refusal =
    Refusal::new(StatusCode::SERVICE_UNAVAILABLE, RefusedReason::NoService, "no service is configured");
const TOO_MANY: Refusal =
    Refusal::new(StatusCode::SERVICE_UNAVAILABLE, RefusedReason::RequestLimit, "too many requests under way");
const MISDIRECTED: Refusal = Refusal::new(
    StatusCode::MISDIRECTED_REQUEST,
    RefusedReason::Misdirected,
    "this host belongs to a connection of its own",
);
const BROKEN_BODY: Refusal = Refusal::new(StatusCode::BAD_REQUEST, RefusedReason::BrokenBody, "malformed request body");
const SILENT_BODY: Refusal =
    Refusal::new(StatusCode::REQUEST_TIMEOUT, RefusedReason::BodyTimeout, "the request body came too slowly");

/// Serves one request. Dropped, the client has gone.
pub(super) async fn forward(conn: &Rc<Conn>, request: Request<Incoming>) -> Response<ResponseBody> {
    let (stream, has_room) = conn.begin_request();
    if !has_room {
        return refuse(conn, TOO_MANY, stream);
    }
    let (mut head, body) = request.into_parts();
    if let Err(refusal) = check::request(&head, conn.limits().headers) {
        return refuse(conn, refusal, stream);
    }
    if conn.origin().is_misdirected(view::of(&head, conn.address()).host) {
        return refuse(conn, MISDIRECTED, stream);
    }
    let worker = conn.worker();
    let socket = match websocket::as_upgrade(&mut head, || worker.draw()) {
        Ok(socket) => socket,
        Err(refusal) => return refuse(conn, refusal, stream),
    };
    let scheme = conn.origin().scheme();
    let whence = believe::whence(&head.headers, &worker.routing().table.trusted, conn.peer().ip(), scheme);
    let scheme = whence.as_ref().map_or(scheme, |whence| whence.scheme);
    let address = whence.as_ref().map_or(conn.address(), |whence| whence.client);
    let Routed { way, claims, choice, wanted } = match route(worker, &head, address, scheme) {
        Ok(routed) => routed,
        Err(Unrouted::Refused(refusal)) => return refuse(conn, refusal, stream),
        Err(Unrouted::Answered(answer)) => return answer_itself(answer, stream),
    };

    let on_upgrade = head.extensions.remove::<OnUpgrade>();
    head.extensions.clear();
    let mut hop = headers::for_upstreams(&mut head, conn.origin(), whence.as_ref());
    if socket.is_some() {
        hop.upgrade = Some(websocket::WEBSOCKET);
    }
    hide_secret(&mut head, choice.service());
    way.edit_request(&mut head);
    let method = IdempotentMethod::of(head.method.as_str());
    let may_repeat = method.is_some() || choice.version().http != UpstreamHttp::H1;
    let copies = wanted.and_then(|wanted| wanted.begin(worker, &head, &hop, body.size_hint().lower()));
    let original = copies.as_ref().map(|copies| Rc::clone(copies.original()));
    let (body, upload, replay) = request_body(conn, body, may_repeat, copies);
    if upload.is_none() {
        conn.activity().request_is_whole();
    }
    let waiting = Waiting::begin(&worker.ticks, way.timeouts(choice.service()));
    let (uploading, version) = (upload.clone(), head.version);
    let mut journey =
        Journey { worker, way, claims, head, hop, scheme, method, waiting, upload, replay, trip: Trip::default() };
    let end = journey.run(choice, body).await;
    if let Some(original) = original {
        tell(&original, &end);
    }
    let mut response = match end {
        Ok(arrival) if arrival.response.status() == StatusCode::SWITCHING_PROTOCOLS => {
            let asked_for = on_upgrade.filter(|_| journey.hop.upgrade.is_some());
            let asked_for = asked_for.map(|client| upgrade::Client { client, socket });
            switch_protocols(conn, asked_for, arrival, stream, &journey)
        }
        Ok(arrival) if socket.is_some() && arrival.response.status().is_success() => {
            note(&stream, &arrival.outcome, journey.trip);
            refuse(conn, websocket::NOT_OPENED, stream)
        }
        Ok(arrival) => pass_on(journey, arrival, stream),
        Err(Stop::Failed(outcome, failure)) => fail(outcome, &failure, stream, journey.trip),
        Err(Stop::Broken(outcome, refusal)) => {
            outcome.broken_by_client(refusal.status.as_u16());
            refuse(conn, refusal, stream)
        }
    };
    if uploading.is_some_and(|upload| !upload.has_ended()) {
        says_close(version, &mut response);
    }
    response
}

/// Answered before its body was here, a request of HTTP/1 may be the last: hyper closes unless the rest is on hand.
fn says_close(version: Version, response: &mut Response<ResponseBody>) {
    if version != Version::HTTP_2 && response.status() != StatusCode::SWITCHING_PROTOCOLS {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
}

/// Where a request goes.
#[derive(Debug)]
struct Routed {
    way: Way,
    claims: Claims,
    choice: Choice,
    /// Copies that it is to have.
    wanted: Option<Box<Wanted>>,
}

/// Why it goes nowhere.
#[derive(Debug)]
enum Unrouted {
    Refused(Refusal),
    Answered(OwnAnswer),
}

/// Finds the route, and has a version chosen. Reads the table once.
fn route(worker: &Worker, head: &Parts, client: Address, scheme: Scheme) -> Result<Routed, Unrouted> {
    let routing = worker.routing();
    let request = view::of(head, client);
    let (way, service) = routing.way(&request).ok_or(Unrouted::Refused(NO_ROUTE))?;
    if let Some(answer) = way.own_answer(head, &request, scheme) {
        return Err(Unrouted::Answered(answer));
    }
    let choice = service.and_then(|at| {
        let claims = Claims::of(routing.service(at)?, &request);
        let choice = choose(worker, &routing, at, &claims)?;
        Some((claims, choice))
    });
    let (claims, choice) = choice.ok_or(Unrouted::Refused(NO_SERVICE))?;
    let wanted = mirror::wanted(worker, &routing, &way, &choice, &request);
    Ok(Routed { way, claims, choice, wanted })
}

/// What forced a version by a secret is not for that version to know.
fn hide_secret(head: &mut Parts, service: &ServiceTable) {
    if let Some(ForceRule { header: Some(name), secret: Some(_), .. }) = &service.force {
        head.headers.remove(name);
    }
}

/// Asks the engine which version of the service it is, and takes the next of its endpoints.
fn choose(worker: &Worker, routing: &Rc<Routing>, service: usize, claims: &Claims) -> Option<Choice> {
    Choice::new(routing, service, split::assign(routing.service(service)?, claims, || worker.draw()))
}

/// The body, if there is one, what it tells about itself, and its beginning if it may be sent again.
fn request_body(
    conn: &Rc<Conn>,
    body: Incoming,
    may_repeat: bool,
    copies: Option<Box<Copies>>,
) -> (RequestBody, Option<Rc<Upload>>, Option<Replay>) {
    if body.is_end_stream() {
        if let Some(copies) = copies {
            copies.send(false);
        }
        return (RequestBody::None, None, None);
    }
    let silence = Deadline::new(&conn.worker().ticks);
    let (body, upload) = Uploading::new(body, silence, conn.limits().body_timeout, conn.activity(), copies);
    if !may_repeat {
        return (RequestBody::Stream(Box::new(body)), Some(upload), None);
    }
    let replay = Replay::new(body, &conn.worker().room);
    let body = replay.send().map_or(RequestBody::None, |body| RequestBody::Kept(Box::new(body)));
    (body, Some(upload), Some(replay))
}

/// A request between its client and the version that will have it.
#[derive(Debug)]
struct Journey<'w> {
    worker: &'w Worker,
    way: Way,
    claims: Claims,
    head: Parts,
    hop: Hop,
    /// How the client came in.
    scheme: Scheme,
    /// If it is one that may be sent twice.
    method: Option<IdempotentMethod>,
    waiting: Waiting,
    upload: Option<Rc<Upload>>,
    replay: Option<Replay>,
    /// For the access log.
    trip: Trip,
}

/// A response, and what it is to the version.
#[derive(Debug)]
struct Arrival {
    response: Response<UpstreamBody>,
    outcome: Outcome,
}

/// Why there is none.
#[derive(Debug)]
enum Stop {
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
    async fn run(&mut self, choice: Choice, mut body: RequestBody) -> Result<Arrival, Stop> {
        choice.count_request();
        let mut candidate = Candidate::new(choice);
        let mut retries = 0;
        loop {
            self.trip.attempts += 1;
            let Tried { outcome, end } = self.attempt(candidate, body).await?;
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
struct Waiting {
    deadline: Deadline,
    timeouts: Timeouts,
    end: Coarse,
}

impl Waiting {
    fn begin(ticks: &Rc<Ticks>, timeouts: Timeouts) -> Self {
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

/// The answer as the client gets it; its body streams.
fn pass_on(journey: Journey<'_>, arrival: Arrival, stream: StreamGuard) -> Response<ResponseBody> {
    let Arrival { response, mut outcome } = arrival;
    note(&stream, &outcome, journey.trip);
    let (mut head, incoming) = response.into_parts();
    headers::for_client(&mut head.headers);
    head.version = Version::HTTP_11;
    let kind = AnswerKind::of(&head.headers);
    if kind == AnswerKind::Grpc {
        outcome.grpc(&head.headers);
    }
    let choice = outcome.choice();
    journey.way.edit_response(&choice.version().filters, &mut head.headers);
    if let (Some(id), Some(rule)) = (choice.hand_out, &choice.service().sticky) {
        cookie::hand_out(rule, id, journey.scheme, &mut head.headers);
    }
    let is_stream = kind != AnswerKind::Plain;
    let relay = Relay {
        incoming,
        long: is_stream.then(|| journey.worker.long_lived.enter(choice)),
        broken: None,
        silence_max: journey.waiting.timeouts.idle,
        silence: journey.waiting.deadline,
        may_be_silent: is_stream,
        is_grpc: kind == AnswerKind::Grpc,
        upload: journey.upload,
        outcome: Some(outcome),
    };
    Response::from_parts(head, ResponseBody::relay(relay, stream))
}

/// A 101: a tunnel if it was asked for, and the version's fault if not.
fn switch_protocols(
    conn: &Rc<Conn>,
    asked_for: Option<upgrade::Client>,
    arrival: Arrival,
    stream: StreamGuard,
    journey: &Journey<'_>,
) -> Response<ResponseBody> {
    let Arrival { response, outcome } = arrival;
    let (head, body) = response.into_parts();
    let Some((client, upstream)) = asked_for.zip(body.into_tunnel()) else {
        let failure = Failure::malformed("101 to a request that asked for no upgrade");
        return fail(outcome, &failure, stream, journey.trip);
    };
    if !client.accepts(&head.headers) {
        let failure = Failure::malformed("101 with a wrong Sec-WebSocket-Accept");
        return fail(outcome, &failure, stream, journey.trip);
    }
    note(&stream, &outcome, journey.trip);
    let long = conn.worker().long_lived.enter(outcome.choice());
    // The head was the answer; how long the tunnel lives says nothing about the version.
    outcome.delivered();
    upgrade::tunnel(conn, client, Response::from_parts(head, upstream), stream, journey.waiting.timeouts.upgraded, long)
}

fn fail(outcome: Outcome, failure: &Failure, stream: StreamGuard, trip: Trip) -> Response<ResponseBody> {
    note(&stream, &outcome, trip);
    outcome.choice().log_failure(failure.ending, &failure.cause);
    outcome.failed(failure.ending, failure.status.as_u16());
    failure.answer(stream)
}

/// A redirect or a preflight's answer.
fn answer_itself(answer: OwnAnswer, stream: StreamGuard) -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::text(Text::Empty, stream));
    *response.status_mut() = answer.status;
    *response.headers_mut() = answer.headers;
    response
}

/// For the comparison with copies: how the request was answered, unless its client broke it.
fn tell(original: &Original, end: &Result<Arrival, Stop>) {
    let answer = match end {
        Ok(arrival) => arrival.outcome.answer(),
        Err(Stop::Failed(_, failure)) => Some(Answer { status: failure.status.as_u16(), latency: None }),
        Err(Stop::Broken(..)) => None,
    };
    if let Some(answer) = answer {
        original.answered(answer);
    }
}

/// For the access log: where the request went.
fn note(stream: &StreamGuard, outcome: &Outcome, trip: Trip) {
    if let Some(note) = stream.note() {
        note.routed(outcome.choice(), trip);
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

fn refuse(conn: &Conn, refusal: Refusal, stream: StreamGuard) -> Response<ResponseBody> {
    conn.refuse(refusal.reason, refusal.text);
    refusal.answer(stream)
}

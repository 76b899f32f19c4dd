//! The life of a request, top to bottom: check it, read the table once, choose a version, make attempts (`journey`),
//! and pass the answer on. Each step is a function with its own fault.

use std::rc::Rc;

use http::{HeaderValue, Request, Response, StatusCode, Version, header, request::Parts};
use http_body::Body as _;
use hyper::{body::Incoming, ext::ReasonPhrase, upgrade::OnUpgrade};

use super::{
    access::{Note, Trip},
    believe,
    body::{Relay, RequestBody, ResponseBody, Text, Upload, Uploading},
    check,
    connection::{Conn, StreamGuard},
    cookie,
    deadline::Deadline,
    error::{Failure, Refusal},
    headers::{self, AnswerKind},
    journey::{Arrival, Journey, Stop, Waiting, choose},
    mirror::{self, Answer, Copies, Original, Wanted},
    outcome::Outcome,
    replay::Replay,
    routing::Choice,
    upgrade, view,
    way::{OwnAnswer, Way},
    websocket,
    worker::Worker,
};
use crate::{
    engine::{
        address::Address, assign::ForceRule, endpoint::UpstreamHttp, failure::IdempotentMethod, filter::Scheme,
        split::Claims, table::ServiceTable,
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
    if conn.origin().is_misdirected(view::of(&head, conn.origin().scheme(), conn.address()).host) {
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
    let trace = stream.note().and_then(Note::trace).cloned();
    let trip = Trip::default();
    let mut journey = Journey { worker, way, claims, head, hop, scheme, method, waiting, upload, replay, trip, trace };
    let end = journey.run(choice, body).await;
    if let Some(original) = original {
        tell(&original, &end);
    }
    let mut response = answer(conn, journey, end, (on_upgrade, socket), stream);
    if uploading.is_some_and(|upload| !upload.has_ended()) {
        says_close(version, &mut response);
    }
    response
}

/// What became of the journey, as the client is told it. Both are there where it asked to be let through.
fn answer(
    conn: &Rc<Conn>,
    journey: Journey<'_>,
    end: Result<Arrival, Stop>,
    (on_upgrade, socket): (Option<OnUpgrade>, Option<websocket::Expected>),
    stream: StreamGuard,
) -> Response<ResponseBody> {
    match end {
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
    }
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
    let request = view::of(head, scheme, client);
    let (way, service) = routing.way(&request).ok_or(Unrouted::Refused(NO_ROUTE))?;
    if let Some(answer) = way.own_answer(head, &request) {
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

/// The answer as the client gets it; its body streams.
fn pass_on(journey: Journey<'_>, arrival: Arrival, stream: StreamGuard) -> Response<ResponseBody> {
    let Arrival { response, mut outcome } = arrival;
    note(&stream, &outcome, journey.trip);
    let (mut head, incoming) = response.into_parts();
    headers::for_client(&mut head.headers);
    head.version = Version::HTTP_11;
    if head.status.canonical_reason().is_none() {
        // Without it hyper would make one up.
        head.extensions.insert(ReasonPhrase::from_static(b""));
    }
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

/// For the access log and the trace: where the request went.
fn note(stream: &StreamGuard, outcome: &Outcome, trip: Trip) {
    if let Some(note) = stream.note() {
        note.routed(outcome.choice(), trip);
    }
}

fn refuse(conn: &Conn, refusal: Refusal, stream: StreamGuard) -> Response<ResponseBody> {
    conn.refuse(refusal.reason, refusal.text);
    refusal.answer(stream)
}

//! The fast path: HTTP/1.1 requests that need nothing special, in plain or within TLS, passed on head to head without a
//! map of their fields, with what the ordinary path ([`super::forward`]) records, chooses, waits for and answers. It begins
//! every connection and may leave it with its unread bytes at any request, but never once a version was drawn for it: a
//! second draw would make the shares wrong. A connection that it has left does not come back.

use std::rc::Rc;

use bytes::BytesMut;
use http::HeaderMap;

mod client;
mod exchange;
mod field;
mod link;
mod reach;
mod relay;
mod request;
mod response;
mod scan;
mod spare;
mod understand;

pub(super) use spare::Spare;
pub(super) use understand::{Scope, understands_listener};

use self::{
    client::Client,
    request::{Logged, Request},
    scan::put,
    spare::Desk,
};
use super::{
    access::Note,
    believe::{self, Whence},
    connection::{Conn, StreamGuard},
    http1::may_end_after,
    routing::{Choice, Routing},
    transport::Transport,
    way::Way,
};
use crate::{
    engine::{
        failure::IdempotentMethod,
        filter::Scheme,
        split::{self, Claims},
    },
    measure::FastPathOutcome,
};

/// How a connection ended here.
#[derive(Debug)]
pub(super) enum End {
    /// The ordinary path has to go on, with what was read and not used.
    Left(BytesMut),
    /// The client has ended it.
    Gone,
    /// It is for us to end it.
    Closed,
}

/// Serves a connection as far as it understands what comes.
pub(super) async fn serve(conn: &Rc<Conn>, stream: &mut Transport, first: BytesMut) -> End {
    let mut desk = conn.worker().spare.take();
    desk.inbox.extend_from_slice(&first);
    drop(first);
    let mut client = Client::new(conn, stream, desk);
    loop {
        let ready = match next_request(&mut client).await {
            Ok(Some(ready)) => ready,
            Ok(None) => return End::Gone,
            Err(why) => return End::Left(leave(client, why)),
        };
        match exchange::carry(&mut client, ready).await {
            Next::Request => conn.worker().count_fast_path(FastPathOutcome::Served),
            Next::End => {
                conn.worker().count_fast_path(FastPathOutcome::Served);
                return End::Closed;
            }
            Next::Leave => return End::Left(leave(client, FastPathOutcome::Table)),
        }
    }
}

/// What comes after a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Request,
    End,
    /// It has to be served by the ordinary path.
    Leave,
}

/// A request that is there, and goes somewhere.
#[derive(Debug)]
struct Ready {
    stream: StreamGuard,
    choice: Choice,
    way: Way,
    claims: Claims,
    traits: Traits,
}

/// What its way depends on.
#[derive(Debug, Clone, Copy)]
struct Traits {
    /// Bytes of it in the inbox.
    whole: usize,
    is_head: bool,
    /// If it is one that may be sent twice.
    method: Option<IdempotentMethod>,
    /// How the client came in.
    scheme: Scheme,
    closes: bool,
}

fn leave(client: Client<'_>, why: FastPathOutcome) -> BytesMut {
    client.conn.worker().count_fast_path(why);
    let unread = BytesMut::from(&client.desk.inbox[..]);
    client.conn.worker().spare.give(client.desk);
    unread
}

/// What there is of a request.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "it is taken apart at once")]
enum Read {
    /// All.
    Ready(Ready),
    /// The head, and not all of a small body.
    Head,
    /// Not even the head.
    Part,
}

/// Waits for a whole request. None when there comes none.
async fn next_request(client: &mut Client<'_>) -> Result<Option<Ready>, FastPathOutcome> {
    loop {
        let before = std::mem::replace(&mut client.looked_at, client.desk.inbox.len());
        let is_worth_it = before == 0 || may_end_after(&client.desk.inbox, before);
        let read = if is_worth_it { read_request(client)? } else { Read::Part };
        match read {
            Read::Ready(ready) => return Ok(Some(ready)),
            Read::Head => {
                client.looked_at = 0;
                // A body that takes its time, or never comes, is the ordinary path's business.
                if !client.more_soon().await {
                    return Err(FastPathOutcome::Body);
                }
            }
            Read::Part => {
                if !client.has_room() {
                    return Err(FastPathOutcome::Size);
                }
                if !client.more().await {
                    return Ok(None);
                }
            }
        }
    }
}

/// Takes a whole request in, and chooses where it goes.
fn read_request(client: &mut Client<'_>) -> Result<Read, FastPathOutcome> {
    let Desk { inbox, request: out, fields, .. } = &mut client.desk;
    if inbox.is_empty() {
        return Ok(Read::Part);
    }
    let conn = client.conn;
    let worker = conn.worker();
    let routing = worker.routing();
    let scope = &routing.fast;
    if scope.is_empty() {
        return Err(FastPathOutcome::Table);
    }
    out.clear();
    if !fields.is_empty() {
        fields.clear();
    }
    let log = if conn.access().is_some() { Logged::Yes } else { Logged::No };
    let Some(request) = request::read(inbox, conn.limits(), scope, log, fields, out, |_| false)? else {
        return Ok(Read::Part);
    };
    if inbox.len() < request.whole() {
        return Ok(Read::Head);
    }
    let Told { way, service: at, claims, believed, note } =
        if scope.is_plain() && log == Logged::No && !conn.origin().is_tls() {
            Told::default()
        } else {
            Told::of(conn, &routing, &request, inbox, fields)?
        };
    let service = routing.service(at).filter(|_| scope.has_service(at)).ok_or(FastPathOutcome::Table)?;
    if let Some(edits) = way.edits().map(|edits| &edits.request).filter(|edits| !edits.is_empty()) {
        request::read_edited(inbox, conn.limits(), log, edits, out)?;
    }
    if let Some(note) = &note {
        put(out, &[b"x-request-id: ", note.id().as_bytes(), b"\r\n"]);
    }
    request.finish(inbox, conn.origin(), believed.as_ref(), out);
    let scheme = believed.map_or(conn.origin().scheme(), |whence| whence.scheme);
    if note.is_some() {
        conn.note_next(note);
    }
    let (stream, has_room) = conn.begin_request();
    if !has_room {
        withdraw_note(&stream);
        return Err(FastPathOutcome::Busy);
    }
    let assignment = split::assign(service, &claims, || worker.draw());
    let choice = Choice::new(&routing, at, assignment).ok_or(FastPathOutcome::Table)?;
    let whole = request.whole();
    let (is_head, method, closes) = (request.is_head(), request.idempotent(), request.closes());
    out.extend_from_slice(&inbox[request.head..whole]);
    client.watch_behind(whole);
    let traits = Traits { whole, is_head, method, scheme, closes };
    Ok(Read::Ready(Ready { stream, choice, way, claims, traits }))
}

/// What a request told of itself.
#[derive(Debug, Default)]
struct Told {
    way: Way,
    /// Its index.
    service: usize,
    claims: Claims,
    /// Where it came from, if that is believed.
    believed: Option<Whence>,
    note: Option<Rc<Note>>,
}

impl Told {
    fn of(
        conn: &Conn,
        routing: &Routing,
        request: &Request,
        bytes: &[u8],
        fields: &HeaderMap,
    ) -> Result<Self, FastPathOutcome> {
        let origin = conn.origin();
        let believed = believe::whence(fields, &routing.table.trusted, origin.peer().ip(), origin.scheme());
        let address = believed.as_ref().map_or(origin.address(), |whence| whence.client);
        let scheme = believed.as_ref().map_or(origin.scheme(), |whence| whence.scheme);
        let view = request.view(bytes, fields, scheme, address);
        if origin.is_misdirected(view.host) {
            return Err(FastPathOutcome::Host);
        }
        // What no route takes is refused by the ordinary path.
        let (way, service) = routing.way(&view).ok_or(FastPathOutcome::Table)?;
        let understood = service.filter(|&at| routing.fast.has_service(at) && way.is_understood(&routing.fast));
        let service = understood.ok_or(FastPathOutcome::Table)?;
        let claims = Claims::of(routing.service(service).ok_or(FastPathOutcome::Table)?, &view);
        Ok(Self { way, service, claims, believed, note: request.note(conn, bytes, &view) })
    }
}

/// The ordinary path begins another one.
fn withdraw_note(stream: &StreamGuard) {
    if let Some(note) = stream.note() {
        note.withdraw();
    }
}

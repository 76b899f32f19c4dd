//! The fast path: HTTP/1.1 requests that need nothing special, passed on head to head without a map of their fields,
//! with what the ordinary path ([`super::forward`]) records, chooses, waits for and answers. It begins every connection
//! and may leave it with its unread bytes at any request, but never once a version was drawn for it: a second draw would
//! make the shares wrong. A connection that it has left does not come back.

use std::rc::Rc;

use bytes::BytesMut;
use tokio::net::TcpStream;

mod client;
mod exchange;
mod field;
mod link;
mod relay;
mod request;
mod response;
mod spare;
mod understand;

pub(super) use spare::Spare;
pub(super) use understand::{understands_listener, understands_table};

use self::{client::Client, request::Rules, spare::Desk};
use super::{
    connection::{Conn, StreamGuard},
    http1::may_end_after,
    routing::Choice,
};
use crate::{
    engine::split::{self, Claims},
    measure::FastPathOutcome,
};

/// Serves a connection as far as it understands what comes. Returns the unread bytes if the ordinary path has to go on.
pub(super) async fn serve(conn: &Rc<Conn>, stream: &mut TcpStream, first: &[u8]) -> Option<BytesMut> {
    let mut desk = conn.worker().spare.take();
    desk.inbox.extend_from_slice(first);
    let mut client = Client::new(conn, stream.split(), desk);
    loop {
        let ready = match next_request(&mut client).await {
            Ok(Some(ready)) => ready,
            Ok(None) => return None,
            Err(why) => return Some(leave(client, why)),
        };
        match exchange::carry(&mut client, ready).await {
            Next::Request => conn.worker().count_fast_path(FastPathOutcome::Served),
            Next::End => {
                conn.worker().count_fast_path(FastPathOutcome::Served);
                return None;
            }
            Next::Leave => return Some(leave(client, FastPathOutcome::Table)),
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
    claims: Claims,
    traits: Traits,
}

/// What its way depends on.
#[derive(Debug, Clone, Copy)]
struct Traits {
    /// Bytes of it in the inbox.
    whole: usize,
    is_head: bool,
    is_idempotent: bool,
    closes: bool,
}

fn leave(client: Client<'_>, why: FastPathOutcome) -> BytesMut {
    client.conn.worker().count_fast_path(why);
    let unread = BytesMut::from(&client.desk.inbox[..]);
    client.conn.worker().spare.give(client.desk);
    unread
}

/// Waits for a whole request. None when there comes none.
async fn next_request(client: &mut Client<'_>) -> Result<Option<Ready>, FastPathOutcome> {
    loop {
        let before = std::mem::replace(&mut client.looked_at, client.desk.inbox.len());
        let is_worth_it = before == 0 || may_end_after(&client.desk.inbox, before);
        if is_worth_it && let Some(ready) = read_request(client)? {
            return Ok(Some(ready));
        }
        if !client.has_room() {
            return Err(FastPathOutcome::Size);
        }
        if !client.more().await {
            return Ok(None);
        }
    }
}

/// Takes a whole request in, and chooses where it goes.
fn read_request(client: &mut Client<'_>) -> Result<Option<Ready>, FastPathOutcome> {
    let Desk { inbox, request: out, .. } = &mut client.desk;
    if inbox.is_empty() {
        return Ok(None);
    }
    let conn = client.conn;
    let worker = conn.worker();
    let routing = worker.routing();
    let Some(service) = routing.service(0).filter(|_| routing.is_fast) else { return Err(FastPathOutcome::Table) };
    let rules = Rules { service, limits: conn.limits(), origin: conn.origin(), address: conn.address() };
    out.clear();
    let Some(request) = request::rewrite(inbox, &rules, out)? else { return Ok(None) };
    let (stream, has_room) = conn.begin_request();
    if !has_room {
        return Err(FastPathOutcome::Busy);
    }
    let assignment = split::assign(service, &request.claims, || worker.draw());
    let choice = Choice::new(&routing, 0, assignment).ok_or(FastPathOutcome::Table)?;
    let whole = request.whole();
    let traits =
        Traits { whole, is_head: request.is_head, is_idempotent: request.is_idempotent, closes: request.closes };
    out.extend_from_slice(&inbox[request.head..whole]);
    client.watch_behind(whole);
    Ok(Some(Ready { stream, choice, claims: request.claims, traits }))
}

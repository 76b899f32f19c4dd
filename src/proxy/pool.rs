//! One worker's connections to the endpoints. HTTP/1: the one last used is used first, so that the rest age and close.
//! HTTP/2: shared up to the upstream's own limit of streams, so that no request waits inside a connection.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    future::poll_fn,
    io,
    pin::Pin,
    rc::Rc,
    time::Duration,
};

use http::{Request, Response};
use hyper::client::conn::http2;
use hyper_util::rt::TokioIo;
use tokio::{sync::Mutex, task::spawn_local};

use super::{
    body::RequestBody,
    connect::Connector,
    deadline::{Coarse, Ticks},
    headers,
    http1::{Connection, RequestHead},
    upstream::{Unanswered, UpstreamBody, UpstreamError},
    worker::LocalExec,
};
use crate::engine::endpoint::{Endpoint, UpstreamHttp};

/// How long an idle connection is kept: less than the 5 s after which Node.js and uvicorn close theirs,
/// so that the proxy is rarely the one surprised.
const IDLE_MAX: Duration = Duration::from_secs(4);
/// Idle HTTP/1 connections kept for one endpoint.
const IDLE_CONNECTIONS_MAX: usize = 256;
/// Streams on one connection, whatever more the upstream allows.
const STREAMS_MAX: usize = 100;

/// All pools of a worker.
#[derive(Debug)]
pub(super) struct Pools {
    ticks: Rc<Ticks>,
    by_endpoint: RefCell<HashMap<(Endpoint, UpstreamHttp), Rc<Pool>>>,
}

impl Pools {
    pub(super) fn new(ticks: &Rc<Ticks>) -> Self {
        Self { ticks: Rc::clone(ticks), by_endpoint: RefCell::default() }
    }

    pub(super) fn ticks(&self) -> &Rc<Ticks> {
        &self.ticks
    }

    /// The pool of an endpoint; it outlives tables.
    pub(super) fn of(&self, endpoint: &Endpoint, http: UpstreamHttp) -> Rc<Pool> {
        let make = || Rc::new(Pool::new(endpoint.clone(), http, &self.ticks));
        Rc::clone(self.by_endpoint.borrow_mut().entry((endpoint.clone(), http)).or_insert_with(make))
    }

    /// Closes what has been idle for too long, and forgets pools that no table names.
    pub(super) fn sweep(&self) {
        self.by_endpoint.borrow_mut().retain(|_, pool| {
            pool.sweep();
            Rc::strong_count(pool) > 1 || !pool.is_empty()
        });
    }
}

/// The connections to one endpoint.
#[derive(Debug)]
pub(super) struct Pool {
    connector: Connector,
    http: UpstreamHttp,
    ticks: Rc<Ticks>,
    idle: RefCell<Vec<Idle>>,
    shared: RefCell<Vec<Rc<SharedConnection>>>,
    connecting: Mutex<()>,
}

#[derive(Debug)]
struct Idle {
    connection: Connection,
    until: Coarse,
}

/// An HTTP/2 connection; it closes once nobody has it and its streams have ended.
#[derive(Debug)]
pub(super) struct SharedConnection {
    sender: http2::SendRequest<RequestBody>,
    streams: Cell<usize>,
    streams_max: Rc<Cell<usize>>,
    idle_until: Cell<Coarse>,
}

/// The right to send one request over a connection.
#[derive(Debug)]
pub(super) struct Lease {
    pool: Rc<Pool>,
    link: Link,
    reused: bool,
}

#[derive(Debug)]
enum Link {
    Own(Connection),
    Stream(Stream),
}

/// One stream of an HTTP/2 connection, from before its request until after its response.
#[derive(Debug)]
pub(super) struct Stream(Rc<SharedConnection>);

impl Drop for Stream {
    fn drop(&mut self) {
        self.0.streams.set(self.0.streams.get().saturating_sub(1));
    }
}

impl Pool {
    fn new(endpoint: Endpoint, http: UpstreamHttp, ticks: &Rc<Ticks>) -> Self {
        Self {
            connector: Connector::new(endpoint, ticks),
            http,
            ticks: Rc::clone(ticks),
            idle: RefCell::default(),
            shared: RefCell::default(),
            connecting: Mutex::new(()),
        }
    }

    /// A connection that is there and free, at once.
    pub(super) fn checkout(self: &Rc<Self>) -> Option<Lease> {
        match self.http {
            UpstreamHttp::H1 => {
                let connection = loop {
                    let Idle { connection, .. } = self.idle.borrow_mut().pop()?;
                    if connection.is_quiet() {
                        break connection;
                    }
                };
                Some(Lease { pool: Rc::clone(self), link: Link::Own(connection), reused: true })
            }
            UpstreamHttp::H2 => {
                let mut shared = self.shared.borrow_mut();
                shared.retain(|one| !one.sender.is_closed());
                let free = shared.iter().find(|one| one.streams.get() < one.streams_max.get().min(STREAMS_MAX))?;
                Some(self.lease_stream(free, true))
            }
        }
    }

    /// A new connection.
    pub(super) async fn connect(self: &Rc<Self>) -> io::Result<Lease> {
        match self.http {
            UpstreamHttp::H1 => self.connect_h1().await,
            UpstreamHttp::H2 => self.connect_h2().await,
        }
    }

    async fn connect_h1(self: &Rc<Self>) -> io::Result<Lease> {
        let link = Link::Own(Connection::new(self.connector.connect().await?));
        Ok(Lease { pool: Rc::clone(self), link, reused: false })
    }

    /// One at a time, so that a burst of requests shares the connection that the first one made.
    async fn connect_h2(self: &Rc<Self>) -> io::Result<Lease> {
        let _one_at_a_time = self.connecting.lock().await;
        if let Some(lease) = self.checkout() {
            return Ok(lease);
        }
        let io = TokioIo::new(self.connector.connect().await?);
        let (sender, mut connection) = http2::Builder::new(LocalExec)
            .initial_stream_window_size(256 * 1024)
            .initial_connection_window_size(4 * 1024 * 1024)
            .max_header_list_size(64 * 1024)
            .max_send_buf_size(64 * 1024)
            .handshake(io)
            .await
            .map_err(io::Error::other)?;
        let streams_max = Rc::new(Cell::new(STREAMS_MAX));
        let announced = Rc::clone(&streams_max);
        spawn_local(poll_fn(move |cx| {
            let polled = Pin::new(&mut connection).poll(cx);
            announced.set(connection.current_max_send_streams());
            polled.map(drop)
        }));
        let connection = Rc::new(SharedConnection {
            sender,
            streams: Cell::new(0),
            streams_max,
            idle_until: Cell::new(self.ticks.in_future(IDLE_MAX)),
        });
        let lease = self.lease_stream(&connection, false);
        self.shared.borrow_mut().push(connection);
        Ok(lease)
    }

    fn lease_stream(self: &Rc<Self>, connection: &Rc<SharedConnection>, reused: bool) -> Lease {
        connection.streams.set(connection.streams.get() + 1);
        connection.idle_until.set(self.ticks.in_future(IDLE_MAX));
        Lease { pool: Rc::clone(self), link: Link::Stream(Stream(Rc::clone(connection))), reused }
    }

    /// Keeps a connection for the next request.
    pub(super) fn put_back(&self, connection: Connection) {
        let mut idle = self.idle.borrow_mut();
        if idle.len() < IDLE_CONNECTIONS_MAX {
            idle.push(Idle { connection, until: self.ticks.in_future(IDLE_MAX) });
        }
    }

    fn sweep(&self) {
        let now = self.ticks.now();
        self.idle.borrow_mut().retain(|idle| idle.until > now && idle.connection.is_quiet());
        self.shared.borrow_mut().retain(|one| {
            if one.streams.get() > 0 {
                one.idle_until.set(self.ticks.in_future(IDLE_MAX));
            }
            one.idle_until.get() > now && !one.sender.is_closed()
        });
    }

    fn is_empty(&self) -> bool {
        self.idle.borrow().is_empty() && self.shared.borrow().is_empty()
    }
}

impl Lease {
    /// Whether the connection has been used before, so that the upstream may be closing it at this moment.
    pub(super) fn is_reused(&self) -> bool {
        self.reused
    }

    /// Whether the connection reports a `100 Continue`.
    pub(super) fn tells_to_continue(&self) -> bool {
        matches!(self.link, Link::Own(_))
    }

    /// Sends the request and waits for the head of the response.
    pub(super) async fn send(
        self,
        request: RequestHead<'_>,
        body: RequestBody,
    ) -> Result<Response<UpstreamBody>, Unanswered> {
        let Self { pool, link, .. } = self;
        match link {
            Link::Own(connection) => match connection.exchange(request, body).await {
                Ok(response) => Ok(response.map(|incoming| UpstreamBody::Http1 { incoming, pool })),
                Err(failed) => Err(Unanswered { error: UpstreamError::Http1(failed.error), unsent: failed.unsent }),
            },
            Link::Stream(stream) => {
                let head = headers::for_http2(request.head, request.hop, request.endpoint);
                match stream.0.sender.clone().try_send_request(Request::from_parts(head, body)).await {
                    Ok(response) => Ok(response.map(|incoming| UpstreamBody::Http2 { incoming, stream: Some(stream) })),
                    Err(mut failed) => {
                        let unsent = failed.take_message().map(Request::into_body);
                        Err(Unanswered { error: UpstreamError::Http2(failed.into_error()), unsent })
                    }
                }
            }
        }
    }

    /// The connection and the pool to give it back to; none if it is a stream of one.
    pub(super) fn into_connection(self) -> Option<(Rc<Pool>, Connection)> {
        match self.link {
            Link::Own(connection) => Some((self.pool, connection)),
            Link::Stream(_) => None,
        }
    }

    /// Nothing was sent: the connection may serve another request.
    pub(super) fn give_back(self) {
        if let Link::Own(connection) = self.link {
            self.pool.put_back(connection);
        }
    }
}

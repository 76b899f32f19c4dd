//! One worker's connections to the endpoints. HTTP/1: the one last used is used first, so that the rest age and close.
//! HTTP/2: shared up to the upstream's own limit of streams, so that no request waits inside a connection.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    future::poll_fn,
    hash::{DefaultHasher, Hash, Hasher},
    io,
    net::{IpAddr, SocketAddr},
    pin::Pin,
    rc::Rc,
    sync::Arc,
    time::Duration,
};

use http::{Request, Response};
use hyper::client::conn::http2;
use hyper_util::rt::TokioIo;
use tokio::{sync::Mutex, task::spawn_local};

use super::{
    body::RequestBody,
    connect::{Connector, Patience, Place},
    deadline::{Coarse, Ticks},
    gate::{Entry, Gate, Open},
    headers,
    http1::{Connection, RequestHead},
    resolver::{Name, Resolver},
    socket::Socket,
    upstream::{Unanswered, UpstreamBody, UpstreamError},
    upstream_tls::TlsClient,
    worker::LocalExec,
};
use crate::{
    engine::{
        address::Address,
        endpoint::{Endpoint, Instance, UpstreamHttp},
        names::{ServiceName, VersionName},
        table::VersionTable,
        upstream::{UpstreamLimits, UpstreamPlan, UpstreamTls},
    },
    measure::{
        Hub,
        endpoints::{Tally, TallyKey},
        slot::Ending,
    },
};

/// How long an idle connection is kept: less than the 5 s after which Node.js and uvicorn close theirs,
/// so that the proxy is rarely the one surprised.
const IDLE_MAX: Duration = Duration::from_secs(4);
/// Idle HTTP/1 connections kept for one endpoint.
const IDLE_CONNECTIONS_MAX: usize = 256;
/// Streams on one connection, whatever more the upstream allows.
const STREAMS_MAX: usize = 100;
/// How long an endpoint that could not be connected to is left out.
const SKIPPED_FOR: Duration = Duration::from_secs(1);

/// All pools of a worker.
#[derive(Debug)]
pub(super) struct Pools {
    ticks: Rc<Ticks>,
    resolver: Arc<Resolver>,
    /// Among which the limits of an endpoint are shared out.
    workers: u32,
    random: RefCell<fastrand::Rng>,
    hub: Arc<Hub>,
    by_place: RefCell<HashMap<PlaceKey, Rc<Pool>>>,
}

/// An endpoint, one of its addresses if it is a name's, and the rest.
type PlaceKey = (Endpoint, Option<SocketAddr>, PoolKey);

/// What connections are for. Copies have their own, so that no request ever waits for one that a copy holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Purpose {
    Requests,
    Copies,
}

/// What pools differ by beside the place.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct PoolKey {
    purpose: Purpose,
    http: UpstreamHttp,
    limits: UpstreamLimits,
    tls: Option<Arc<UpstreamTls>>,
    /// Whose errors in a row are counted, and how many of them are a run.
    tallied: Option<(ServiceName, VersionName, u32)>,
}

impl PoolKey {
    pub(super) fn of(service: &ServiceName, version: &VersionTable, purpose: Purpose) -> Self {
        let UpstreamPlan { limits, tls, ejection, .. } = &*version.upstream;
        // What becomes of copies says nothing about an endpoint.
        let tallied = ejection.filter(|_| purpose == Purpose::Requests);
        let tallied = tallied.map(|ejection| (service.clone(), version.name.clone(), ejection.consecutive_errors));
        Self { purpose, http: version.http, limits: *limits, tls: tls.clone(), tallied }
    }
}

impl Pools {
    pub(super) fn new(ticks: &Rc<Ticks>, resolver: &Arc<Resolver>, hub: &Arc<Hub>, workers: usize) -> Self {
        Self {
            hub: Arc::clone(hub),
            ticks: Rc::clone(ticks),
            resolver: Arc::clone(resolver),
            workers: u32::try_from(workers).unwrap_or(u32::MAX).max(1),
            random: RefCell::new(fastrand::Rng::new()),
            by_place: RefCell::default(),
        }
    }

    pub(super) fn ticks(&self) -> &Rc<Ticks> {
        &self.ticks
    }

    /// A name of an endpoint, which is kept up to date while somebody has it.
    pub(super) fn name(&self, host: &Arc<str>, port: u16) -> Arc<Name> {
        self.resolver.name(host, port)
    }

    /// Changes whenever the addresses of any name do.
    pub(super) fn name_changes(&self) -> u64 {
        self.resolver.changes()
    }

    /// A random number for the choice of an endpoint.
    pub(super) fn draw(&self) -> usize {
        self.random.borrow_mut().usize(..)
    }

    /// The pool of a place; it outlives tables.
    pub(super) fn of(&self, endpoint: &Endpoint, place: Place, key: &PoolKey) -> Rc<Pool> {
        let address = if let Place::Address(address) = &place { Some(*address) } else { None };
        let share = |of: u32| of.div_ceil(self.workers);
        let limits = UpstreamLimits { connections: share(key.limits.connections), pending: share(key.limits.pending) };
        let make = || {
            let tally = key.tallied.clone().map(|(service, version, run)| {
                let instance = instance(endpoint, address);
                self.hub.tally(TallyKey { service, version, instance, run })
            });
            let tls = key.tls.as_deref().map(|tls| TlsClient::new(tls, endpoint, key.http));
            let connector = Connector { place, tls, ticks: Rc::clone(&self.ticks) };
            Rc::new(Pool { tally, ..Pool::new(endpoint.clone(), connector, key.http, Gate::new(limits)) })
        };
        let mut pools = self.by_place.borrow_mut();
        Rc::clone(pools.entry((endpoint.clone(), address, key.clone())).or_insert_with(make))
    }

    /// A pool for what is to go nowhere.
    pub(super) fn nobody(&self, endpoint: &Endpoint, key: &PoolKey) -> Rc<Pool> {
        let connector = Connector { place: Place::Nobody, tls: None, ticks: Rc::clone(&self.ticks) };
        Rc::new(Pool::new(endpoint.clone(), connector, key.http, Gate::new(key.limits)))
    }

    /// Closes what has been idle for too long, and forgets pools that no table names.
    pub(super) fn sweep(&self) {
        self.by_place.borrow_mut().retain(|_, pool| {
            pool.sweep();
            Rc::strong_count(pool) > 1 || !pool.is_empty()
        });
    }
}

/// The connections to one place.
#[derive(Debug)]
pub(super) struct Pool {
    endpoint: Endpoint,
    connector: Connector,
    http: UpstreamHttp,
    ticks: Rc<Ticks>,
    gate: Rc<Gate>,
    idle: RefCell<Vec<Idle>>,
    shared: RefCell<Vec<Rc<SharedConnection>>>,
    connecting: Mutex<()>,
    /// What TLS agreed on last, where either version of HTTP will do.
    speaks_h1: Cell<bool>,
    since: Coarse,
    /// Until when it is left out.
    skipped_until: Cell<Coarse>,
    /// Why the last connection could not be opened, until one can.
    unreachable: RefCell<Option<Rc<str>>>,
    /// For the ranks of consistent hashing.
    hash: u64,
    /// Errors in a row, where they are counted.
    tally: Option<Arc<Tally>>,
}

/// What an address of an endpoint is to the engine.
pub(super) fn instance(endpoint: &Endpoint, address: Option<SocketAddr>) -> Instance {
    let is_name = matches!(endpoint, Endpoint::Tcp { host, .. } if host.parse::<IpAddr>().is_err());
    let address = address.filter(|_| is_name).map(|address| match address.ip() {
        IpAddr::V4(ip) => Address::v4(ip.octets()),
        IpAddr::V6(ip) => Address::v6(ip.octets()),
    });
    Instance { endpoint: endpoint.clone(), address }
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
    gate: Rc<Gate>,
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
        self.0.gate.freed();
    }
}

impl Pool {
    pub(super) fn new(endpoint: Endpoint, connector: Connector, http: UpstreamHttp, gate: Rc<Gate>) -> Self {
        let ticks = Rc::clone(&connector.ticks);
        let mut hasher = DefaultHasher::new();
        endpoint.hash(&mut hasher);
        if let Place::Address(address) = &connector.place {
            address.hash(&mut hasher);
        }
        Self {
            endpoint,
            connector,
            http,
            gate,
            idle: RefCell::default(),
            shared: RefCell::default(),
            connecting: Mutex::new(()),
            speaks_h1: Cell::default(),
            since: ticks.now(),
            ticks,
            skipped_until: Cell::new(Coarse::ZERO),
            unreachable: RefCell::default(),
            hash: hasher.finish(),
            tally: None,
        }
    }

    /// An attempt over one of its connections has ended so.
    pub(super) fn ended(&self, ending: Ending) {
        // A connection that could not be opened has been counted where it failed.
        if let Some(tally) = self.tally.as_ref().filter(|_| ending != Ending::ConnectFailed) {
            tally.ended(ending);
        }
    }

    /// Whether it leads nowhere.
    pub(super) fn is_nobody(&self) -> bool {
        matches!(self.connector.place, Place::Nobody)
    }

    /// Closes what nobody uses.
    pub(super) fn close_idle(&self) {
        self.idle.borrow_mut().clear();
        self.shared.borrow_mut().retain(|one| one.streams.get() > 0);
    }

    /// What it is to the engine.
    pub(super) fn instance(&self) -> Instance {
        let address = if let Place::Address(address) = &self.connector.place { Some(*address) } else { None };
        instance(&self.endpoint, address)
    }

    pub(super) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// How much it has to do, to compare with others: connections in use, and streams.
    pub(super) fn busy(&self) -> usize {
        let streams: usize = self.shared.borrow().iter().map(|one| one.streams.get()).sum();
        let own = (self.gate.open() as usize).saturating_sub(self.idle.borrow().len() + self.shared.borrow().len());
        own + streams
    }

    /// Its place in the order in which consistent hashing prefers endpoints for a bucket; higher is earlier.
    pub(super) fn rank_for(&self, bucket: u32) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.hash, bucket).hash(&mut hasher);
        hasher.finish()
    }

    /// How much of its turns it takes, in percent: all, once it has been there for `slow_start`.
    pub(super) fn warmth(&self, slow_start: Duration) -> u8 {
        let percent = |tenth: u32| self.since.after(slow_start * tenth / 10) <= self.ticks.now();
        if slow_start.is_zero() || self.since == Coarse::ZERO || percent(10) {
            return 100;
        }
        (1..10).rev().find(|&tenth| percent(tenth)).map_or(5, |tenth| u8::try_from(tenth * 10).unwrap_or(100))
    }

    /// Whether it is left out for now, since it could not be connected to.
    pub(super) fn is_skipped(&self) -> bool {
        self.skipped_until.get() > self.ticks.now()
    }

    /// Why it could not be connected to, while it is left out.
    pub(super) fn unreachable(&self) -> Option<Rc<str>> {
        self.unreachable.borrow().clone().filter(|_| self.is_skipped())
    }

    /// It could not be connected to: others are preferred for a moment.
    pub(super) fn mark_unreachable(&self, cause: &str) {
        self.skipped_until.set(self.ticks.in_future(SKIPPED_FOR));
        *self.unreachable.borrow_mut() = Some(cause.into());
        if let Some(tally) = &self.tally {
            tally.ended(Ending::ConnectFailed);
        }
    }

    /// A connection that is there and free, at once.
    pub(super) fn checkout(self: &Rc<Self>) -> Option<Lease> {
        match self.http {
            UpstreamHttp::H1 => self.checkout_h1(),
            UpstreamHttp::H2 => self.checkout_h2(),
            UpstreamHttp::Auto => self.checkout_h2().or_else(|| self.checkout_h1()),
        }
    }

    fn checkout_h1(self: &Rc<Self>) -> Option<Lease> {
        let connection = loop {
            let Idle { mut connection, .. } = self.idle.borrow_mut().pop()?;
            if connection.is_quiet() {
                break connection;
            }
        };
        Some(Lease { pool: Rc::clone(self), link: Link::Own(connection), reused: true })
    }

    fn checkout_h2(self: &Rc<Self>) -> Option<Lease> {
        let mut shared = self.shared.borrow_mut();
        shared.retain(|one| !one.sender.is_closed());
        let free = shared.iter().find(|one| one.streams.get() < one.streams_max.get().min(STREAMS_MAX))?;
        Some(self.lease_stream(free, true))
    }

    /// A new connection, or one that has become free while there may be no more of them. The patience is for the address
    /// alone: waiting for a free connection is not its silence.
    pub(super) async fn connect(self: &Rc<Self>, patience: Patience) -> io::Result<Lease> {
        // With HTTP/2 one at a time, so that a burst of requests shares the connection that the first one made.
        let shares = self.http == UpstreamHttp::H2 || (self.http == UpstreamHttp::Auto && !self.speaks_h1.get());
        let _one_at_a_time = if shares { Some(self.connecting.lock().await) } else { None };
        if let Some(lease) = self.checkout().filter(|_| shares) {
            return Ok(lease);
        }
        let open = loop {
            match self.gate.enter().await? {
                Entry::New(open) => break open,
                Entry::Look => {
                    if let Some(lease) = self.checkout() {
                        return Ok(lease);
                    }
                }
            }
        };
        if self.unreachable.borrow().is_some() {
            // One request at a time finds out whether it is there again.
            self.skipped_until.set(self.ticks.in_future(SKIPPED_FOR));
        }
        match self.open(open, patience).await {
            Ok(lease) => {
                self.skipped_until.set(Coarse::ZERO);
                *self.unreachable.borrow_mut() = None;
                Ok(lease)
            }
            Err(error) => {
                self.mark_unreachable(&error.to_string());
                Err(error)
            }
        }
    }

    async fn open(self: &Rc<Self>, open: Open, patience: Patience) -> io::Result<Lease> {
        let socket = self.connector.connect(patience).await?;
        let is_h2 = match self.http {
            UpstreamHttp::H1 => false,
            UpstreamHttp::H2 => true,
            UpstreamHttp::Auto => socket.agreed_on_h2(),
        };
        self.speaks_h1.set(!is_h2);
        if is_h2 {
            return self.open_h2(socket, open).await;
        }
        let mut connection = Connection::new(socket, Some(open));
        if connection.spoke_first() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the upstream sent an answer before it was asked"));
        }
        Ok(Lease { pool: Rc::clone(self), link: Link::Own(connection), reused: false })
    }

    async fn open_h2(self: &Rc<Self>, socket: Socket, open: Open) -> io::Result<Lease> {
        let (sender, mut connection) = http2::Builder::new(LocalExec)
            .initial_stream_window_size(256 * 1024)
            .initial_connection_window_size(4 * 1024 * 1024)
            .max_header_list_size(64 * 1024)
            .max_send_buf_size(64 * 1024)
            .handshake(TokioIo::new(socket))
            .await
            .map_err(io::Error::other)?;
        let streams_max = Rc::new(Cell::new(STREAMS_MAX));
        let announced = Rc::clone(&streams_max);
        spawn_local(async move {
            poll_fn(move |cx| {
                let polled = Pin::new(&mut connection).poll(cx);
                announced.set(connection.current_max_send_streams());
                polled.map(drop)
            })
            .await;
            drop(open);
        });
        let connection = Rc::new(SharedConnection {
            sender,
            streams: Cell::new(0),
            streams_max,
            gate: Rc::clone(&self.gate),
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
            self.gate.freed();
        }
    }

    fn sweep(&self) {
        let now = self.ticks.now();
        self.idle.borrow_mut().retain_mut(|idle| idle.until > now && idle.connection.is_quiet());
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

    /// Whether the connection can become a tunnel. One of HTTP/2 has no upgrade (RFC 9113 8.6).
    pub(super) fn can_upgrade(&self) -> bool {
        matches!(self.link, Link::Own(_))
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
                let head =
                    headers::for_http2(request.head, request.hop, request.endpoint, pool.connector.tls.is_some());
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

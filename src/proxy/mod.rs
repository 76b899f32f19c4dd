//! CARRY. Takes clients' requests and carries each to the version that the published table says, and the answer back;
//! what came of it goes to `measure`. Decides nothing, and never waits for the control plane.
//!
//! [`forward`](self) is the life of a request, top to bottom. What the proxy answers itself is one line of plain text
//! with a [`serin-error`](REASON_HEADER) field that holds the reason: a word of
//! [`RefusedReason`](crate::measure::RefusedReason) where it refused (400, 404, 408, 417, 421, 431, 501: the client's fault;
//! 500, 503: the proxy's own), or of [`Ending`](crate::measure::slot::Ending) where a version failed (502, 504).
//!
//! Every answer has a `Date`: the upstream's, or where it gave none the time at which it came (RFC 9110 6.6.1). A client that
//! ends its side of an HTTP/1 connection behind its request gets its answer if that begins soon.
//!
//! A WebSocket over HTTP/2 (RFC 8441) is asked of the upstream by HTTP/1.1's upgrade. Over HTTP/2 to an upstream
//! none passes: it is answered with 501, and is no evidence against the version.
//!
//! With tracing (`trace`) every request has a `traceparent`, and sampled ones leave a span of their own and one for each
//! attempt with [`measure::traces`](crate::measure::traces); listeners with it serve HTTP/1.1 by the ordinary path.
//!
//! Of informational answers only 100 and 101 pass; 103 is dropped, as hyper's server cannot send it.

use std::{
    fmt, io,
    net::{SocketAddr, TcpListener},
    sync::Arc,
    time::Duration,
};

use tokio::sync::{oneshot, watch};

pub use crate::publish::Limits;
use crate::{measure::Hub, publish::Publication};

mod access;
mod balance;
mod believe;
mod body;
mod budget;
mod check;
mod client_io;
mod connect;
mod connection;
mod cookie;
mod cors;
mod date;
mod deadline;
mod edit;
mod error;
mod fast;
mod forward;
mod gate;
mod headers;
mod http1;
mod journey;
mod linger;
mod listener;
mod long;
mod mirror;
mod opening;
mod origin;
mod outcome;
mod pool;
mod probe;
mod proxy_protocol;
mod replay;
mod resolver;
mod routing;
mod socket;
mod trace;
mod transport;
mod upgrade;
mod upstream;
mod upstream_tls;
mod view;
mod way;
mod websocket;
mod worker;

pub use error::REASON_HEADER;

/// One listening socket to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenerSpec {
    /// For logs and errors.
    pub name: String,
    /// Where it listens; port 0 takes a free one.
    pub addr: SocketAddr,
}

/// A bound listening socket that does not accept yet.
#[derive(Debug)]
pub struct Listening {
    spec: ListenerSpec,
    socket: TcpListener,
}

impl Listening {
    /// Binds the socket.
    ///
    /// # Errors
    /// When the address is taken or not allowed.
    pub fn bind(spec: ListenerSpec) -> io::Result<Self> {
        listener::bind(&spec, false).map(|socket| Self { spec, socket })
    }

    /// Binds the socket, if need be beside that of a process that is being replaced: new connections go to either.
    ///
    /// # Errors
    /// When the address is taken by anybody else, or not allowed.
    pub fn bind_beside(spec: ListenerSpec) -> io::Result<Self> {
        listener::bind(&spec, true).map(|socket| Self { spec, socket })
    }

    /// Takes a socket that was bound and handed over by whoever started the process.
    ///
    /// # Errors
    /// When it cannot be used.
    pub fn inherit(spec: ListenerSpec, socket: TcpListener) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        Ok(Self { spec, socket })
    }
}

/// The running data plane. Dropping it ends it at once, as a shutdown without grace does.
pub struct Proxy {
    local_addrs: Vec<SocketAddr>,
    stop_accepting: watch::Sender<bool>,
    acceptor: std::thread::JoinHandle<()>,
    workers: Vec<worker::WorkerHandle>,
    access_log: access::Queue,
    /// Ends when it is dropped.
    _prober: probe::Prober,
}

impl Proxy {
    /// Accepts on bound sockets with `workers` threads, at least one. `hub` has room for as many; `publication` has
    /// settings for each listener.
    ///
    /// # Errors
    /// When a thread cannot be started.
    pub fn start(
        listeners: Vec<Listening>,
        workers: usize,
        publication: Publication,
        hub: Arc<Hub>,
    ) -> io::Result<Self> {
        let listeners: Vec<_> = listeners.into_iter().map(|listening| (listening.spec, listening.socket)).collect();
        let local_addrs = listeners.iter().map(|(_, socket)| socket.local_addr()).collect::<io::Result<_>>()?;
        let resolver = resolver::Resolver::start()?;
        let count = workers.max(1);
        let workers = (0..count)
            .map(|index| worker::start(worker::Place { index, count }, &publication, &hub, &resolver))
            .collect::<io::Result<Vec<_>>>()?;
        let targets = workers
            .iter()
            .map(|worker| listener::Target { orders: worker.orders.downgrade(), load: Arc::clone(&worker.load) })
            .collect();
        let prober = probe::start(publication.clone(), Arc::clone(&hub), resolver)?;
        let access_log = access::Queue::new(Arc::clone(&hub));
        let (stop_accepting, stop) = watch::channel(false);
        let acceptor = listener::start(
            listeners,
            targets,
            listener::Shared { publication, hub, access_log: access_log.clone() },
            stop,
        )?;
        Ok(Self { local_addrs, stop_accepting, acceptor, workers, access_log, _prober: prober })
    }

    /// Where it listens, in the order of the listeners, with the ports that were taken for 0.
    #[must_use]
    pub fn local_addrs(&self) -> &[SocketAddr] {
        &self.local_addrs
    }

    /// Accepts no more, ends what is idle, tells the other clients to go (`Connection: close`, GOAWAY), waits up to
    /// `grace` for requests under way, and ends the rest. True when none had to be cut.
    pub async fn shutdown(self, grace: Duration) -> bool {
        self.stop_accepting.send_replace(true);
        // The acceptor only has to drop its sockets; whatever it still handed over comes before the next order.
        let acceptor_ended = self.acceptor.join().is_ok();
        let drained = self.workers.iter().map(|worker| {
            let (done, is_done) = oneshot::channel();
            drop(worker.orders.send(worker::Order::Drain(done)));
            is_done
        });
        let drained: Vec<_> = drained.collect();
        let all = async {
            let mut clean = true;
            for done in drained {
                clean &= done.await.is_ok();
            }
            clean
        };
        let clean = tokio::time::timeout(grace, all).await.unwrap_or(false);
        for worker in self.workers {
            drop(worker.orders);
            if worker.thread.join().is_err() {
                tracing::error!(fault = "proxy", "a worker died");
            }
        }
        self.access_log.finish();
        clean && acceptor_ended
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proxy")
            .field("local_addrs", &self.local_addrs)
            .field("workers", &self.workers.len())
            .finish_non_exhaustive()
    }
}

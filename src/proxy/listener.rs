//! Listening sockets and the one thread that accepts: each connection goes to the worker with the fewest.
//! Counts what is open, and refuses over the listener's limit.

use std::{
    io::{self, Write as _},
    net::{SocketAddr, TcpListener as StdListener, TcpStream as StdStream},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use socket2::{Domain, Protocol, Socket, Type};
use tokio::{
    net::TcpListener,
    runtime::Builder,
    sync::{mpsc, watch},
    task::JoinSet,
    time::sleep,
};

use super::{
    ListenerSpec,
    access::{Access, Queue},
    worker::Order,
};
use crate::{
    measure::{Hub, RefusedReason},
    publish::{ListenerSettings, Publication},
    telemetry::LogLimit,
};

/// Handshakes that the kernel holds for us.
const BACKLOG: i32 = 1024;
/// How long accepting pauses when the process has no more descriptors or memory.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(100);
/// How often that is logged: descriptors that come and go would be said ten times a second.
const EXHAUSTED_LOGGED: Duration = Duration::from_secs(5);
/// What a client over the limit is told.
const FULL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\ncontent-type: text/plain; \
charset=utf-8\r\nserin-error: connection_limit\r\ncontent-length: 21\r\n\r\ntoo many connections\n";

/// A client's connection on its way to a worker.
#[derive(Debug)]
pub(super) struct Accepted {
    pub(super) stream: StdStream,
    pub(super) peer: SocketAddr,
    pub(super) settings: ListenerSettings,
    pub(super) access: Option<Access>,
    pub(super) admission: Admission,
}

/// Counts a connection as open until it is dropped.
#[derive(Debug)]
pub(super) struct Admission([Arc<AtomicUsize>; 2]);

impl Admission {
    fn new(counters: [&Arc<AtomicUsize>; 2]) -> Self {
        Self(counters.map(|counter| {
            counter.fetch_add(1, Relaxed);
            Arc::clone(counter)
        }))
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        for counter in &self.0 {
            counter.fetch_sub(1, Relaxed);
        }
    }
}

/// A worker, as the acceptor sees it.
#[derive(Debug, Clone)]
pub(super) struct Target {
    /// Weak, so that the worker ends with the proxy.
    pub(super) orders: mpsc::WeakUnboundedSender<Order>,
    pub(super) load: Arc<AtomicUsize>,
}

/// Binds a listening socket, beside that of a predecessor if it may. The error names the address.
///
/// Whoever else holds the address is an error first: the kernel would share it between any two that allow it.
pub(super) fn bind(spec: &ListenerSpec, beside_predecessor: bool) -> io::Result<StdListener> {
    let bound = |shared: bool| {
        let socket = Socket::new(Domain::for_address(spec.addr), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_reuse_address(true)?;
        socket.set_reuse_port(shared)?;
        socket.bind(&spec.addr.into()).map(|()| socket)
    };
    let socket = match bound(false) {
        Err(error) if beside_predecessor && error.kind() == io::ErrorKind::AddrInUse => bound(true)?,
        bound => bound?,
    };
    // For a successor.
    socket.set_reuse_port(true)?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(StdListener::from(socket))
}

/// What all listeners look at.
#[derive(Debug, Clone)]
pub(super) struct Shared {
    pub(super) publication: Publication,
    pub(super) hub: Arc<Hub>,
    pub(super) access_log: Queue,
}

/// Starts the accepting thread. It ends, and its sockets close, once `stop` is dropped or set.
pub(super) fn start(
    listeners: Vec<(ListenerSpec, StdListener)>,
    workers: Vec<Target>,
    shared: Shared,
    stop: watch::Receiver<bool>,
) -> io::Result<thread::JoinHandle<()>> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    thread::Builder::new().name("acceptor".to_owned()).spawn(move || {
        runtime.block_on(async {
            let mut accepting = JoinSet::new();
            for (index, (spec, socket)) in listeners.into_iter().enumerate() {
                let (workers, shared, stop) = (workers.clone(), shared.clone(), stop.clone());
                accepting.spawn(async move {
                    if let Err(error) = accept_all(index, &spec, socket, &workers, &shared, stop).await {
                        tracing::error!(listener = spec.name, %error, "cannot accept");
                    }
                });
            }
            accepting.join_all().await;
        });
    })
}

/// Accepts until it is told to stop, and then what the kernel has accepted already: closed with the socket, those clients
/// would see a reset. An error when the socket cannot be used at all.
async fn accept_all(
    index: usize,
    spec: &ListenerSpec,
    socket: StdListener,
    workers: &[Target],
    shared: &Shared,
    mut stop: watch::Receiver<bool>,
) -> io::Result<()> {
    let listener = TcpListener::from_std(socket)?;
    let door = Door { index, workers, shared, open: Arc::default() };
    let limit = LogLimit::new(EXHAUSTED_LOGGED);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stop.wait_for(|stop| *stop) => break,
        };
        match accepted {
            Ok((stream, peer)) => {
                if let Ok(stream) = stream.into_std() {
                    door.admit(stream, peer);
                }
            }
            // The client left between the handshake and now.
            Err(error) if matches!(error.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::Interrupted) => {}
            Err(error) => {
                if let Some(suppressed) = limit.pass(Instant::now()) {
                    tracing::warn!(listener = spec.name, %error, suppressed, "cannot accept for now");
                }
                shared.hub.accept_failed();
                sleep(EXHAUSTED_PAUSE).await;
            }
        }
    }
    let socket = listener.into_std()?;
    while let Ok((stream, peer)) = socket.accept() {
        if stream.set_nonblocking(true).is_ok() {
            door.admit(stream, peer);
        }
    }
    Ok(())
}

/// Where the connections of one listener go.
#[derive(Debug)]
struct Door<'a> {
    index: usize,
    workers: &'a [Target],
    shared: &'a Shared,
    open: Arc<AtomicUsize>,
}

impl Door<'_> {
    fn admit(&self, stream: StdStream, peer: SocketAddr) {
        let Some(settings) = self.shared.publication.settings().listeners.get(self.index).cloned() else { return };
        if self.open.load(Relaxed) >= settings.limits.connections {
            self.shared.hub.refused(0, RefusedReason::ConnectionLimit);
            // As far as it goes at once: a client that does not read is none to wait for.
            if settings.tls.is_none() {
                let _short = (&stream).write(FULL);
            }
            return;
        }
        let Some((orders, load)) = least_loaded(self.workers) else { return };
        let admission = Admission::new([&self.open, load]);
        let access = settings.access_log.map(|log| Access { log, queue: self.shared.access_log.clone() });
        let accepted = Accepted { stream, peer, settings, access, admission };
        // A worker that goes at this moment drops it, and with it the connection.
        drop(orders.send(Order::Serve(Box::new(accepted))));
    }
}

/// The worker with the fewest connections, among those that live.
fn least_loaded(workers: &[Target]) -> Option<(mpsc::UnboundedSender<Order>, &Arc<AtomicUsize>)> {
    let living = |worker: &Target| worker.orders.upgrade().filter(|orders| !orders.is_closed());
    workers.iter().filter_map(|worker| Some((living(worker)?, &worker.load))).min_by_key(|(_, load)| load.load(Relaxed))
}

//! BUILD. Puts the rooms together and takes them down in order; the only file that knows every room.
//! Has no behaviour of its own.

use std::{
    fs, io,
    net::{SocketAddr, TcpListener},
    os::unix::{
        fs::{FileTypeExt as _, PermissionsExt as _},
        net::{UnixListener, UnixStream},
    },
    path::{Path, PathBuf},
    sync::Arc,
    thread::{self, JoinHandle},
    time::Duration,
};

use tokio::sync::watch;

pub use crate::control::source::Source;
use crate::{
    admin::{self, AdminState},
    config::{
        Config,
        settings::{AdminAddress, Compat, Secret},
    },
    control::{
        driver::{self, Driver, Start},
        handle::Handle,
        notify::Delivery,
        standby::Standby,
    },
    measure::{
        self, Hub, Reader,
        compat::{self, Dialect},
        export,
    },
    outbound::Reach,
    proxy::{self, Proxy},
    publish::Publication,
    store::{OpenError, Store},
    trace,
};

/// How often, and at which pace, listeners of a process that is ending are tried.
const HELD_LOOKS: u32 = 600;
const HELD_PAUSE: Duration = Duration::from_millis(50);

/// A running Serin.
#[derive(Debug)]
pub struct Server {
    proxy: Proxy,
    admin: AdminAddress,
    handle: Handle,
    stop: watch::Sender<bool>,
    control: Option<JoinHandle<()>>,
    /// Sends traces to a collector.
    exporter: Option<JoinHandle<()>>,
}

/// Why Serin does not start. Each message says what to do.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A port is taken, or may not be used.
    #[error("cannot listen on {address} ({what}): {cause}{}", advice(.cause))]
    Listen {
        /// Where.
        address: AdminAddress,
        /// For what.
        what: String,
        /// What the system says.
        cause: io::Error,
    },
    /// The state folder cannot be used.
    #[error(transparent)]
    State(#[from] OpenError),
    /// The control plane does not start.
    #[error(transparent)]
    Control(#[from] driver::StartError),
    /// No thread, no memory.
    #[error("the system does not give what is needed: {0}")]
    System(#[from] io::Error),
}

impl Server {
    /// Binds the sockets, recovers the state, decides where things stand, and only then serves.
    ///
    /// # Errors
    /// See [`StartError`]; nothing is left running.
    pub fn start(source: Source) -> Result<Self, StartError> {
        let config = &source.config;
        let workers = config.workers.unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from));
        let hub = Hub::new(workers);
        let reader = hub.reader().ok_or_else(|| io::Error::other("the measurements have a reader already"))?;
        let (store, recovered) = match Store::open(&config.state.dir) {
            Ok(opened) => opened,
            Err(OpenError::InUse { pid, dir }) => {
                tracing::warn!(
                    "serving beside {}, which uses the state folder {}: deciding nothing until it has ended; stop this one \
                     if no replacement was meant, or give it a `state.dir` and ports of its own",
                    pid.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}")),
                    dir.display()
                );
                return Self::start_beside(source, workers, &hub, reader);
            }
            Err(other) => return Err(other.into()),
        };
        let listening = bind_all(config, proxy::Listening::bind)?;
        let doors = Doors::bind(config)?;
        let tokens = Tokens::of(config, &store)?;
        let (compat, reach) = (config.compat.clone(), driver::reach(config));
        let (driver, handle, publication) = Driver::start(Start { source, store, recovered, reader })?;
        let proxy = Proxy::start(listening, workers, publication.clone(), Arc::clone(&hub))?;
        let state = tokens.state(handle.clone(), Pages::of(&compat, &hub, &publication, &handle));
        let admin = doors.admin.address()?;
        let (stop, stopped) = watch::channel(false);
        let exporter = exporter(reach, &hub, publication, stopped.clone())?;
        let control = thread::Builder::new()
            .name("control".to_owned())
            .spawn(move || run_control(stopped, async move |stopped| decide(driver, doors, state, stopped).await))?;
        Ok(Self { proxy, admin, handle, stop, control: Some(control), exporter })
    }

    /// The same beside a process that has not ended yet: the admin listeners are bound once it has.
    fn start_beside(source: Source, workers: usize, hub: &Arc<Hub>, reader: Reader) -> Result<Self, StartError> {
        let listening = bind_all(&source.config, proxy::Listening::bind_beside)?;
        let config = source.config.clone();
        let remembered = Store::peek(&config.state.dir)?;
        let mut standby = Standby::start(source, remembered)?;
        let (handle, publication) = (standby.handle().clone(), standby.publication().clone());
        let proxy = Proxy::start(listening, workers, publication.clone(), Arc::clone(hub))?;
        let pages = Pages::of(&config.compat, hub, &publication, &handle);
        let (stop, stopped) = watch::channel(false);
        let exporter = exporter(driver::reach(&config), hub, publication, stopped.clone())?;
        let admin = config.admin.listen.clone();
        let shown = handle.clone();
        let turn = async move |stopped: watch::Receiver<bool>| {
            let (store, recovered) = tokio::select! {
                opened = standby.turn() => opened,
                () = until(stopped.clone()) => return,
            };
            let doors = Doors::bind_soon(&config).await;
            let tokens = Tokens::of(&config, &store);
            match (doors, tokens, Driver::take_over(standby, (store, recovered), reader)) {
                (Ok(doors), Ok(tokens), Ok(driver)) => {
                    decide(driver, doors, tokens.state(shown, pages), stopped).await;
                }
                (Err(error), ..) => tracing::error!("serving on without deciding: {error}"),
                (_, Err(error), _) => tracing::error!("serving on without deciding: {error}"),
                (.., Err(error)) => tracing::error!("serving on without deciding: {error}"),
            }
        };
        let control = thread::Builder::new().name("control".to_owned()).spawn(move || run_control(stopped, turn))?;
        Ok(Self { proxy, admin, handle, stop, control: Some(control), exporter })
    }

    /// Where clients are served, in the order of the file.
    #[must_use]
    pub fn addresses(&self) -> &[SocketAddr] {
        self.proxy.local_addrs()
    }

    /// Where the admin API answers.
    #[must_use]
    pub const fn admin(&self) -> &AdminAddress {
        &self.admin
    }

    /// A handle on the control plane.
    #[must_use]
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Takes no new connections, lets running requests end for `grace`, then stops deciding and saves.
    pub fn shutdown(mut self, grace: Duration) {
        match tokio::runtime::Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => {
                if !runtime.block_on(self.proxy.shutdown(grace)) {
                    tracing::warn!("requests that did not end within {} s were cut", grace.as_secs());
                }
            }
            Err(error) => tracing::error!("running requests are cut, since their end cannot be waited for: {error}"),
        }
        self.stop.send_replace(true);
        if let Some(exporter) = self.exporter.take() {
            // One that panicked has said so on its way down.
            let _panicked = exporter.join();
        }
        if let Some(control) = self.control.take() {
            // A control thread that panicked has said so on its way down.
            let _panicked = control.join();
        }
    }
}

fn bind_all(
    config: &Config,
    bind: impl Fn(proxy::ListenerSpec) -> io::Result<proxy::Listening>,
) -> Result<Vec<proxy::Listening>, StartError> {
    let mut inherited = inherited();
    let bound: Result<Vec<_>, _> = config
        .listeners
        .iter()
        .map(|listener| {
            let spec = proxy::ListenerSpec { name: listener.name.clone(), addr: listener.listen };
            let (address, what) = (spec.addr, format!("listener `{}`", spec.name));
            let same = inherited.iter().position(|socket| socket.local_addr().is_ok_and(|at| at == address));
            let listening = match same {
                Some(index) => proxy::Listening::inherit(spec, inherited.swap_remove(index)),
                None => bind(spec),
            };
            listening.map_err(|cause| StartError::Listen { address: AdminAddress::Tcp(address), what, cause })
        })
        .collect();
    for socket in inherited {
        let address = socket.local_addr().map_or_else(|_| "unknown".to_owned(), |at| at.to_string());
        tracing::warn!(address, "a socket was handed over that no listener is for; it is closed");
    }
    bound
}

/// Sockets that whoever started this process has bound for it, as systemd does (`LISTEN_FDS`).
fn inherited() -> Vec<TcpListener> {
    let mut handed_over = listenfd::ListenFd::from_env();
    (0..handed_over.len()).filter_map(|index| handed_over.take_tcp_listener(index).ok().flatten()).collect()
}

/// Where people and scripts come in.
#[derive(Debug)]
struct Doors {
    admin: AdminDoor,
    metrics: Option<TcpListener>,
}

/// The admin listener, bound.
#[derive(Debug)]
enum AdminDoor {
    Tcp(TcpListener),
    Unix(UnixListener, PathBuf),
}

impl AdminDoor {
    fn bind(address: &AdminAddress) -> Result<Self, StartError> {
        match address {
            AdminAddress::Tcp(address) => bind(*address, "admin").map(Self::Tcp),
            AdminAddress::Unix(path) => {
                let bound = bind_socket(path).map(|listener| Self::Unix(listener, path.clone()));
                bound.map_err(|cause| StartError::Listen { address: address.clone(), what: "admin".to_owned(), cause })
            }
        }
    }

    fn address(&self) -> io::Result<AdminAddress> {
        match self {
            Self::Tcp(listener) => listener.local_addr().map(AdminAddress::Tcp),
            Self::Unix(_, path) => Ok(AdminAddress::Unix(path.clone())),
        }
    }

    fn open(self) -> io::Result<admin::Door> {
        match self {
            Self::Tcp(listener) => tokio::net::TcpListener::from_std(listener).map(admin::Door::Tcp),
            Self::Unix(listener, _) => tokio::net::UnixListener::from_std(listener).map(admin::Door::Unix),
        }
    }
}

/// Binds a socket that only this user may open. It is made beside its place and moved there: nobody finds it before it is
/// closed to others, and one that a dead process left is replaced. A socket that somebody answers at is not, and nothing
/// that is no socket.
fn bind_socket(path: &Path) -> io::Result<UnixListener> {
    match fs::symlink_metadata(path) {
        Ok(found) if !found.file_type().is_socket() => {
            return Err(io::Error::new(
                io::ErrorKind::AlreadyExists,
                "there is a file of that name, which is no socket",
            ));
        }
        Ok(_) if UnixStream::connect(path).is_ok() => return Err(io::ErrorKind::AddrInUse.into()),
        _ => {}
    }
    let mut made = path.as_os_str().to_owned();
    made.push(".new");
    let made = PathBuf::from(made);
    // What an attempt that broke off left.
    let _ = fs::remove_file(&made);
    let listener = UnixListener::bind(&made)?;
    fs::set_permissions(&made, fs::Permissions::from_mode(0o600))?;
    listener.set_nonblocking(true)?;
    fs::rename(&made, path)?;
    Ok(listener)
}

impl Doors {
    fn bind(config: &Config) -> Result<Self, StartError> {
        let admin = AdminDoor::bind(&config.admin.listen)?;
        let metrics = config.metrics.map(|address| bind(address, "metrics")).transpose()?;
        Ok(Self { admin, metrics })
    }

    /// With patience: a process that is just ending may still hold them.
    async fn bind_soon(config: &Config) -> Result<Self, StartError> {
        for _ in 0..HELD_LOOKS {
            if let Ok(doors) = Self::bind(config) {
                return Ok(doors);
            }
            tokio::time::sleep(HELD_PAUSE).await;
        }
        Self::bind(config)
    }
}

/// What opens them.
struct Tokens {
    read: Option<Secret>,
    write: Secret,
}

impl Tokens {
    fn of(config: &Config, store: &Store) -> io::Result<Self> {
        let write = match &config.admin.write_token {
            Some(token) => token.clone(),
            None => Secret::new(store.write_token()?),
        };
        Ok(Self { read: config.admin.read_token.clone(), write })
    }

    fn state(self, handle: Handle, pages: Pages) -> AdminState {
        let Pages { metrics, compat, publication } = pages;
        AdminState { handle, read_token: self.read, write_token: self.write, publication, metrics, compat }
    }
}

fn bind(address: SocketAddr, what: &str) -> Result<TcpListener, StartError> {
    let bound = TcpListener::bind(address).and_then(|listener| listener.set_nonblocking(true).map(|()| listener));
    bound.map_err(|cause| StartError::Listen { address: AdminAddress::Tcp(address), what: what.to_owned(), cause })
}

fn advice(cause: &io::Error) -> &'static str {
    match cause.kind() {
        io::ErrorKind::AddrInUse => "; stop what listens there, or choose another port in the file",
        io::ErrorKind::PermissionDenied => "; ports under 1024 need the right to bind them, so choose a higher one",
        io::ErrorKind::AddrNotAvailable => "; this machine has no such address",
        _ => "",
    }
}

fn page(hub: Arc<Hub>, publication: Publication, handle: Handle) -> Page {
    let started = handle.view().at;
    Arc::new(move || {
        let config = handle.config();
        export::encode(export::ExportInput {
            totals: hub.totals(),
            table: publication.current(),
            view: handle.view(),
            reloads: export::Reloads {
                in_force: config.error.is_none(),
                loaded: config.loaded,
                loads: config.loads,
                failures: config.failures,
                state_writable: handle.state_writable(),
            },
            notify: handle.deliveries().into_iter().map(totals_of).collect(),
            started,
            process: measure::process::ProcessFacts::read(),
        })
    })
}

type Page = Arc<dyn Fn() -> String + Send + Sync>;

/// What is read of the measurements.
struct Pages {
    metrics: Page,
    compat: Option<Page>,
    publication: Publication,
}

impl Pages {
    fn of(compat: &[Compat], hub: &Arc<Hub>, publication: &Publication, handle: &Handle) -> Self {
        let dialects = compat.iter().map(|of| dialect(*of)).collect();
        Self {
            metrics: page(Arc::clone(hub), publication.clone(), handle.clone()),
            compat: compat_page(dialects, hub, publication),
            publication: publication.clone(),
        }
    }
}

fn compat_page(dialects: Vec<Dialect>, hub: &Arc<Hub>, publication: &Publication) -> Option<Page> {
    let (hub, publication) = (Arc::clone(hub), publication.clone());
    let page = !dialects.is_empty();
    page.then(|| -> Page { Arc::new(move || compat::encode(&dialects, hub.totals(), &publication.current())) })
}

const fn dialect(of: Compat) -> Dialect {
    match of {
        Compat::Istio => Dialect::Istio,
        Compat::Linkerd => Dialect::Linkerd,
        Compat::Nginx => Dialect::Nginx,
        Compat::Traefik => Dialect::Traefik,
        Compat::Envoy => Dialect::Envoy,
    }
}

fn totals_of(delivery: Delivery) -> export::ReceiverTotals {
    let Delivery { receiver, pending, delivered, failures } = delivery;
    export::ReceiverTotals { receiver, pending, delivered, failures }
}

/// The thread that sends traces to the collector of the settings in force; none where another has it.
fn exporter(
    reach: Reach,
    hub: &Arc<Hub>,
    publication: Publication,
    stopped: watch::Receiver<bool>,
) -> io::Result<Option<JoinHandle<()>>> {
    let Some(inbox) = hub.traces().inbox() else { return Ok(None) };
    trace::start(trace::Exporter { inbox, hub: Arc::clone(hub), publication, reach }, until(stopped)).map(Some)
}

/// The control plane's thread.
fn run_control(stopped: watch::Receiver<bool>, run: impl AsyncFnOnce(watch::Receiver<bool>)) {
    match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime.block_on(run(stopped)),
        Err(error) => tracing::error!("the control plane does not start: {error}"),
    }
}

/// The driver, and the admin listeners beside it.
async fn decide(driver: Driver, doors: Doors, state: AdminState, stopped: watch::Receiver<bool>) {
    let Doors { admin, metrics } = doors;
    if let Some(metrics) = metrics {
        let (state, stop) = (state.clone(), until(stopped.clone()));
        tokio::spawn(async move { say(admin::serve_metrics(tokio_listener(metrics)?, state, stop).await) });
    }
    let stop = until(stopped.clone());
    tokio::spawn(async move { say(admin::serve(say(admin.open())?, state, stop).await) });
    driver.run(until(stopped)).await;
}

async fn until(mut stopped: watch::Receiver<bool>) {
    // A dropped sender means that the server is gone.
    let _gone = stopped.wait_for(|stop| *stop).await;
}

fn tokio_listener(bound: TcpListener) -> io::Result<tokio::net::TcpListener> {
    say(tokio::net::TcpListener::from_std(bound))
}

fn say<T>(outcome: io::Result<T>) -> io::Result<T> {
    outcome.inspect_err(|error| tracing::error!("an admin listener does not serve: {error}"))
}

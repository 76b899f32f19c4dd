//! BUILD. Puts the rooms together and takes them down in order; the only file that knows every room.
//! Has no behaviour of its own.

use std::{
    io,
    net::{SocketAddr, TcpListener},
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
        settings::{Compat, Secret},
    },
    control::{
        driver::{self, Driver, Start},
        handle::Handle,
        notify::Delivery,
    },
    measure::{
        self, Hub,
        compat::{self, Dialect},
        export,
    },
    proxy::{self, Proxy},
    publish::Publication,
    store::{OpenError, Store},
};

/// A running Serin.
#[derive(Debug)]
pub struct Server {
    proxy: Proxy,
    admin: SocketAddr,
    handle: Handle,
    stop: watch::Sender<bool>,
    control: Option<JoinHandle<()>>,
}

/// Why Serin does not start. Each message says what to do.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A port is taken, or may not be used.
    #[error("cannot listen on {address} ({what}): {cause}{}", advice(.cause))]
    Listen {
        /// Where.
        address: SocketAddr,
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
        let listening = bind_all(config)?;
        let admin = bind(config.admin.listen, "admin")?;
        let metrics = config.metrics.map(|address| bind(address, "metrics")).transpose()?;
        let (store, recovered) = Store::open(&config.state.dir)?;
        let write_token = match &config.admin.write_token {
            Some(token) => token.clone(),
            None => Secret::new(store.write_token()?),
        };
        let read_token = config.admin.read_token.clone();
        let compat = config.compat.iter().map(|of| dialect(*of)).collect();
        let hub = Hub::new(workers);
        let reader = hub.reader().ok_or_else(|| io::Error::other("the measurements have a reader already"))?;
        let (driver, handle, publication) = Driver::start(Start { source, store, recovered, reader })?;
        let proxy = Proxy::start(listening, workers, publication.clone(), Arc::clone(&hub))?;
        let compat = compat_page(compat, &hub, &publication);
        let metrics_page = page(hub, publication, handle.clone());
        let state = AdminState { handle: handle.clone(), read_token, write_token, metrics: metrics_page, compat };
        let address = admin.local_addr()?;
        let (stop, stopped) = watch::channel(false);
        let control = thread::Builder::new()
            .name("control".to_owned())
            .spawn(move || run_control(driver, admin, metrics, state, stopped))?;
        Ok(Self { proxy, admin: address, handle, stop, control: Some(control) })
    }

    /// Where clients are served, in the order of the file.
    #[must_use]
    pub fn addresses(&self) -> &[SocketAddr] {
        self.proxy.local_addrs()
    }

    /// Where the admin API answers.
    #[must_use]
    pub const fn admin(&self) -> SocketAddr {
        self.admin
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
        if let Some(control) = self.control.take() {
            // A control thread that panicked has said so on its way down.
            let _panicked = control.join();
        }
    }
}

fn bind_all(config: &Config) -> Result<Vec<proxy::Listening>, StartError> {
    let specs = config.listeners.iter().map(|listener| {
        let spec = proxy::ListenerSpec { name: listener.name.clone(), addr: listener.listen };
        let (address, what) = (spec.addr, format!("listener `{}`", spec.name));
        proxy::Listening::bind(spec).map_err(|cause| StartError::Listen { address, what, cause })
    });
    specs.collect()
}

fn bind(address: SocketAddr, what: &str) -> Result<TcpListener, StartError> {
    let bound = TcpListener::bind(address).and_then(|listener| listener.set_nonblocking(true).map(|()| listener));
    bound.map_err(|cause| StartError::Listen { address, what: what.to_owned(), cause })
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
            },
            notify: handle.deliveries().into_iter().map(totals_of).collect(),
            started,
            process: measure::process::ProcessFacts::read(),
        })
    })
}

type Page = Arc<dyn Fn() -> String + Send + Sync>;

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

/// The control plane's thread: the driver, and the admin listeners beside it.
fn run_control(
    driver: Driver,
    admin: TcpListener,
    metrics: Option<TcpListener>,
    state: AdminState,
    stopped: watch::Receiver<bool>,
) {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return tracing::error!("the control plane does not start: {error}"),
    };
    runtime.block_on(async {
        let until = |mut stopped: watch::Receiver<bool>| async move {
            // A dropped sender means that the server is gone.
            let _gone = stopped.wait_for(|stop| *stop).await;
        };
        if let Some(metrics) = metrics {
            let (state, stop) = (state.clone(), until(stopped.clone()));
            tokio::spawn(async move { say(admin::serve_metrics(tokio_listener(metrics)?, state, stop).await) });
        }
        let stop = until(stopped.clone());
        tokio::spawn(async move { say(admin::serve(tokio_listener(admin)?, state, stop).await) });
        driver.run(until(stopped)).await;
    });
}

fn tokio_listener(bound: TcpListener) -> io::Result<tokio::net::TcpListener> {
    say(tokio::net::TcpListener::from_std(bound))
}

fn say<T>(outcome: io::Result<T>) -> io::Result<T> {
    outcome.inspect_err(|error| tracing::error!("an admin listener does not serve: {error}"))
}

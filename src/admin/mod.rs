//! ANSWER. The dashboard, the HTTP API, metrics and health on the admin listener. Reads the view, passes commands on, decides nothing;
//! never reaches into the engine.
//!
//! Who may ask: reads are open unless a read token is set (start-up sees to it that one is, off loopback); every write
//! needs `Authorization: Bearer` with the write token, or a form of a session that was begun with it. Nothing changes by GET.

mod act;
mod answer;
mod dashboard;
mod explain;
mod failures;
mod gate;
mod idempotency;
mod probes;
mod read;
mod server;
mod session;
mod stream;

use std::{fmt, future::Future, sync::Arc};

use axum::{
    Router, middleware,
    routing::{get, post},
};
use tokio::{net::TcpListener, sync::watch};

pub use server::Door;

use crate::{config::settings::Secret, control::handle::Handle, publish::Publication};

/// Largest request body.
pub const BODY_BYTES_MAX: usize = 64 * 1024;
/// Open connections of one listener.
pub const CONNECTIONS_MAX: usize = 256;
/// Event streams at once.
pub const STREAMS_MAX: usize = 64;

/// All that the admin listener answers from.
#[derive(Clone)]
pub struct AdminState {
    /// The control plane.
    pub handle: Handle,
    /// Needed for reads, if set.
    pub read_token: Option<Secret>,
    /// Needed for writes.
    pub write_token: Secret,
    /// The table in force.
    pub publication: Publication,
    /// The metrics page, OpenMetrics text.
    pub metrics: Arc<dyn Fn() -> String + Send + Sync>,
    /// The same under other proxies' names, Prometheus' text; none where no such names are wanted.
    pub compat: Option<Arc<dyn Fn() -> String + Send + Sync>>,
}

impl fmt::Debug for AdminState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdminState").finish_non_exhaustive()
    }
}

/// Serves the whole admin API until `shutdown` is ready; then running answers are finished and streams ended.
///
/// # Errors
/// When the listener's own address cannot be read.
pub async fn serve(door: Door, state: AdminState, shutdown: impl Future<Output = ()> + Send) -> std::io::Result<()> {
    let (going_down, closing) = watch::channel(false);
    let own = match &door {
        Door::Tcp(listener) => Some(listener.local_addr()?),
        Door::Unix(_) => None,
    };
    let gate = gate::Gate::new(own, &state).map_err(|error| std::io::Error::other(error.to_string()))?;
    let router = full(state, Arc::new(gate), closing.clone());
    server::serve(door, router, shutdown, going_down, closing).await
}

/// Serves only `/metrics`, `/healthz` and `/readyz`, to everybody who can connect, until `shutdown` is ready.
///
/// # Errors
/// As [`serve`].
pub async fn serve_metrics(
    listener: TcpListener,
    state: AdminState,
    shutdown: impl Future<Output = ()> + Send,
) -> std::io::Result<()> {
    let (going_down, closing) = watch::channel(false);
    let router = finish(probes::routes().with_state(state));
    server::serve(Door::Tcp(listener), router, shutdown, going_down, closing).await
}

/// The state as the handlers see it.
struct Inside {
    outside: AdminState,
    gate: Arc<gate::Gate>,
    closing: watch::Receiver<bool>,
    streams: Arc<tokio::sync::Semaphore>,
    replies: idempotency::Replies,
}

impl Inside {
    fn new(outside: AdminState, gate: Arc<gate::Gate>, closing: watch::Receiver<bool>) -> Self {
        let streams = Arc::new(tokio::sync::Semaphore::new(STREAMS_MAX));
        Self { outside, gate, closing, streams, replies: idempotency::Replies::default() }
    }
}

fn full(state: AdminState, gate: Arc<gate::Gate>, closing: watch::Receiver<bool>) -> Router {
    let probes = probes::routes().with_state(state.clone());
    let api = Router::new()
        .route("/services", get(read::services))
        .route("/services/{service}", get(read::service))
        .route("/services/{service}/why", get(read::why))
        .route("/services/{service}/history", get(read::history))
        .route("/services/{service}/{verb}", post(act::command))
        .route("/history", get(read::history_of_all))
        .route("/events", get(stream::events))
        .route("/config", get(read::config))
        .route("/openapi.json", get(read::openapi))
        .route("/explain-request", post(explain::request))
        .route("/reload", post(act::reload));
    let router = Router::new()
        .nest("/api/v1", api)
        .merge(dashboard::routes())
        .with_state(Arc::new(Inside::new(state, Arc::clone(&gate), closing)))
        .merge(probes);
    finish(router).layer(middleware::from_fn_with_state(gate, gate::check))
}

/// JSON for what no route answers, and the headers that every answer has.
fn finish(router: Router) -> Router {
    router
        .fallback(answer::not_found)
        .method_not_allowed_fallback(answer::method_not_allowed)
        .layer(middleware::map_response(answer::with_headers))
}

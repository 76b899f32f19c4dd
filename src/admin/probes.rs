//! `/metrics`, `/metrics/compat`, `/healthz` and `/readyz`: for machines, in few words.

use axum::{
    Router,
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};

use super::{AdminState, answer::Problem};
use crate::measure;

/// The routes.
pub(super) fn routes() -> Router<AdminState> {
    Router::new()
        .route("/metrics", get(metrics))
        .route("/metrics/compat", get(compat))
        .route("/healthz", get(healthy))
        .route("/readyz", get(ready))
}

async fn metrics(State(state): State<AdminState>) -> Response {
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], (state.metrics)()).into_response()
}

async fn compat(State(state): State<AdminState>) -> Result<Response, Problem> {
    let page = state.compat.ok_or_else(|| {
        Problem::new(StatusCode::NOT_FOUND, "notFound", "no other proxy's names are wanted")
            .with_help("name some in `metrics.compat`, e.g. `compat: [istio]`")
    })?;
    Ok(([(header::CONTENT_TYPE, measure::compat::CONTENT_TYPE)], page()).into_response())
}

/// The process answers.
async fn healthy() -> &'static str {
    "ok\n"
}

/// It serves, whatever is behind it: while all endpoints are bad, nobody else would answer better. A refused file leaves the
/// last good one in force, so that is said but is no reason to take traffic away.
async fn ready(State(state): State<AdminState>) -> String {
    match state.handle.config().error {
        None => "ready\n".to_owned(),
        Some(_) => "ready, but the config file was refused; the last good one stays in force\n".to_owned(),
    }
}

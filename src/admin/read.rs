//! What can be looked at: services, one service, why, history, config, and a front page.

use std::{fmt::Write as _, sync::Arc};

use axum::{
    extract::{Path, Query, State},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Deserialize;

use super::{
    Inside,
    answer::{Problem, document},
};
use crate::{
    api,
    control::handle::{self, HISTORY_MAX},
    engine::{event::Event, view::ServiceView},
    words,
};

/// `GET services`
pub(super) async fn services(State(inside): State<Arc<Inside>>) -> Response {
    let view = inside.outside.handle.view();
    let history = inside.outside.handle.history();
    document(api::ServiceList {
        at: view.at,
        generation: view.generation.0,
        config: config_status(&inside.outside.handle.config()),
        services: view.services.iter().map(|service| wire(service, &history)).collect(),
    })
}

/// `GET services/{service}`
pub(super) async fn service(State(inside): State<Arc<Inside>>, Path(name): Path<String>) -> Result<Response, Problem> {
    Ok(document(status(&inside, &name)?.0))
}

/// `GET services/{service}/why`
pub(super) async fn why(State(inside): State<Arc<Inside>>, Path(name): Path<String>) -> Result<Response, Problem> {
    let (status, service) = status(&inside, &name)?;
    let history = inside.outside.handle.history();
    let because = words::deciding_event(&history, &service);
    let told = because.map(|event| (event, words::weight_before(&history, event)));
    let text = words::why(status.at, &service, told, words::Style::PLAIN);
    let because = because.map(|event| wire_event(event, &history));
    Ok(document(api::Why { text, because, status }))
}

/// What part of the history is wanted.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HistoryQuery {
    limit: Option<usize>,
}

/// `GET services/{service}/history?limit=`
pub(super) async fn history(
    State(inside): State<Arc<Inside>>,
    Path(name): Path<String>,
    query: Result<Query<HistoryQuery>, axum::extract::rejection::QueryRejection>,
) -> Result<Response, Problem> {
    let service = find(&inside, &name)?;
    Ok(document(newest(&inside, Some(&service), limit(query)?)))
}

/// `GET history?limit=`
pub(super) async fn history_of_all(
    State(inside): State<Arc<Inside>>,
    query: Result<Query<HistoryQuery>, axum::extract::rejection::QueryRejection>,
) -> Result<Response, Problem> {
    Ok(document(newest(&inside, None, limit(query)?)))
}

/// `GET config`
pub(super) async fn config(State(inside): State<Arc<Inside>>) -> Response {
    document(config_status(&inside.outside.handle.config()))
}

/// `GET openapi.json`: all of this as OpenAPI describes it.
pub(super) async fn openapi() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], include_str!("openapi.json")).into_response()
}

/// `GET /` as text.
pub(super) fn front_page(inside: &Inside) -> Response {
    let view = inside.outside.handle.view();
    let mut page = String::from("Serin admin; a browser shows the dashboard here\n\n");
    for service in &view.services {
        let canary = service.canary.as_ref().filter(|_| service.rollout.is_some());
        let canary = canary.map_or_else(String::new, |canary| format!(", canary {canary}"));
        let _ = writeln!(page, "{}: {}, stable {}{canary}", service.name, service.phase.as_str(), service.stable);
    }
    page += FRONT_PAGE;
    ([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], page).into_response()
}

const FRONT_PAGE: &str = "
From a terminal:  serin status -w, serin why, serin history, serin events -f

GET   /api/v1/services
GET   /api/v1/services/{service}
GET   /api/v1/services/{service}/why
GET   /api/v1/services/{service}/history?limit=
GET   /api/v1/history?limit=
GET   /api/v1/events?service=                      (server-sent events)
GET   /api/v1/config
GET   /api/v1/openapi.json                          (what each takes and gives)
POST  /api/v1/services/{service}/{start|promote|pause|resume|abort|retry|undo|set-weight|terminate|analyze}
POST  /api/v1/reload
GET   /metrics, /metrics/compat, /healthz, /readyz

POST needs `Authorization: Bearer TOKEN`.
";

/// The config status on the wire.
pub(super) fn config_status(status: &handle::ConfigStatus) -> api::ConfigStatus {
    let handle::ConfigStatus { path, loaded, loads, failures, error, needs_restart } = status.clone();
    let needs_restart = needs_restart.into_iter().map(str::to_owned).collect();
    api::ConfigStatus { path, loaded, loads, failures, error, needs_restart }
}

/// An event on the wire, with its sentence.
pub(super) fn wire_event(event: &Event, history: &[Event]) -> api::Event {
    let before = words::weight_before(history, event);
    api::Event::new(event, before, words::sentence(event, before))
}

/// The service of that name, as it is now.
pub(super) fn find(inside: &Inside, name: &str) -> Result<ServiceView, Problem> {
    let view = inside.outside.handle.view();
    view.services.iter().find(|service| service.name.as_str() == name).cloned().ok_or_else(|| {
        let known: Vec<_> = view.services.iter().map(|service| format!("`{}`", service.name)).collect();
        Problem::unknown_service(name, &known.join(", "))
    })
}

fn status(inside: &Inside, name: &str) -> Result<(api::ServiceStatus, ServiceView), Problem> {
    let service = find(inside, name)?;
    let handle = &inside.outside.handle;
    let (at, config) = (handle.view().at, config_status(&handle.config()));
    Ok((api::ServiceStatus { at, config, service: wire(&service, &handle.history()) }, service))
}

fn wire(service: &ServiceView, history: &[Event]) -> api::Service {
    api::Service::new(service, |event| wire_event(event, history))
}

fn limit(query: Result<Query<HistoryQuery>, axum::extract::rejection::QueryRejection>) -> Result<usize, Problem> {
    match query {
        Ok(Query(query)) => Ok(query.limit.unwrap_or(HISTORY_MAX).min(HISTORY_MAX)),
        Err(rejection) => Err(Problem::new(StatusCode::BAD_REQUEST, "badQuery", rejection.body_text())
            .with_help(format!("`?limit=` takes a number up to {HISTORY_MAX}"))),
    }
}

fn newest(inside: &Inside, service: Option<&ServiceView>, limit: usize) -> api::History {
    let history = inside.outside.handle.history();
    let name = service.map(|service| &service.name);
    let events: Vec<&Event> = history.iter().filter(|event| name.is_none_or(|name| event.service == *name)).collect();
    let events = events[events.len().saturating_sub(limit)..].iter().map(|event| wire_event(event, &history)).collect();
    api::History { service: name.cloned(), events }
}

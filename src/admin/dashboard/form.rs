//! Forms: log in and out, ask before something is done, and do it. Each form carries its session's token.

use std::{sync::Arc, time::Duration};

use axum::{
    Extension, Form,
    extract::{FromRequest as _, Path, Query, Request, State, rejection::QueryRejection},
    http::{HeaderMap, HeaderName, StatusCode, header},
    response::{IntoResponse as _, Redirect, Response},
};
use serde::{Deserialize, de::DeserializeOwned};

use super::{Inside, html, look::Moment, offer::offer, page};
use crate::{
    admin::{act, failures::Peer, gate::is_own_form, session::Session},
    api::CommandRequest,
    engine::names::ServiceName,
};

/// A form that does not come in this time is not waited for.
const FORM_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Credentials {
    token: String,
    #[serde(default)]
    actor: String,
    #[serde(default)]
    next: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Deed {
    form: String,
    revision: u64,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    full: bool,
    /// Of `set-weight`.
    weight: Option<String>,
    /// Of `start`.
    to: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Farewell {
    form: String,
}

/// How the page that asks was reached.
#[derive(Deserialize, Default)]
pub(super) struct Asked {
    #[serde(default)]
    full: bool,
}

/// Where to go after the login.
#[derive(Deserialize, Default)]
pub(super) struct Next {
    #[serde(default)]
    next: String,
}

/// `GET /login`
pub(super) async fn login(query: Result<Query<Next>, QueryRejection>) -> Response {
    let next = query.map(|Query(next)| next.next).unwrap_or_default();
    html(StatusCode::OK, page::login(own_path(&next), None))
}

/// `POST /login`
pub(super) async fn log_in(
    State(inside): State<Arc<Inside>>,
    Extension(peer): Extension<Peer>,
    request: Request,
) -> Response {
    let form: Credentials = match fields(request).await {
        Ok(form) => form,
        Err(response) => return *response,
    };
    let next = own_path(&form.next);
    match inside.gate.log_in(form.token.trim(), act::clean_actor(&form.actor), peer) {
        Ok(cookie) => ([(header::SET_COOKIE, cookie)], Redirect::to(next)).into_response(),
        Err(problem) => html(problem.status, page::login(next, Some(&capital(&problem.message)))),
    }
}

/// `POST /logout`
pub(super) async fn log_out(State(inside): State<Arc<Inside>>, request: Request) -> Response {
    let headers = request.headers().clone();
    let form: Farewell = match fields(request).await {
        Ok(form) => form,
        Err(response) => return *response,
    };
    match own_session(&inside, &headers, &form.form) {
        Some(_) => ([(header::SET_COOKIE, inside.gate.sessions.end(&headers))], Redirect::to("/")).into_response(),
        None => foreign_form(),
    }
}

/// `GET /services/{service}/{verb}`: shall it be done?
pub(super) async fn ask(
    State(inside): State<Arc<Inside>>,
    Path((name, verb)): Path<(String, String)>,
    query: Result<Query<Asked>, QueryRejection>,
    headers: HeaderMap,
) -> Response {
    let moment = Moment::now(&inside.outside.handle);
    let full = query.is_ok_and(|Query(asked)| asked.full);
    let Some(service) = moment.view.services.iter().find(|service| service.name.as_str() == name) else {
        return html(StatusCode::NOT_FOUND, page::sorry("There is no such service.", None));
    };
    let Some(session) = inside.gate.sessions.of(&headers).filter(|session| session.may_write) else {
        let verb: String = verb.chars().filter(|c| c.is_ascii_lowercase() || *c == '-').take(20).collect();
        let query = if full { "%3Ffull=true" } else { "" };
        return Redirect::to(&format!("/login?next=/services/{}/{verb}{query}", service.name)).into_response();
    };
    let Some(offer) = offer(service, &verb, full) else {
        let message = format!("This cannot be done now: {} is {}.", service.name, service.phase.as_str());
        return html(StatusCode::CONFLICT, page::sorry(&message, None));
    };
    html(StatusCode::OK, page::ask(service, &offer, &session, moment.view.at))
}

/// `POST /services/{service}/{verb}`: does it.
pub(super) async fn carry_out(
    State(inside): State<Arc<Inside>>,
    Extension(peer): Extension<Peer>,
    Path((name, verb)): Path<(String, String)>,
    request: Request,
) -> Response {
    let headers = request.headers().clone();
    let form: Deed = match fields(request).await {
        Ok(form) => form,
        Err(response) => return *response,
    };
    let Some(session) = own_session(&inside, &headers, &form.form) else { return foreign_form() };
    if !session.may_write {
        let help = Some("Log in with the write token.");
        return html(StatusCode::FORBIDDEN, page::sorry("You may look, and change nothing.", help));
    }
    let Ok(service) = ServiceName::new(&name) else {
        return html(StatusCode::NOT_FOUND, page::sorry("There is no such service.", None));
    };
    let actor = if session.actor.is_empty() { "dashboard".to_owned() } else { session.actor };
    let reason = Some(form.reason).filter(|reason| !reason.trim().is_empty());
    let Deed { full, weight, to, .. } = form;
    let expect_revision = Some(form.revision);
    let wanted = CommandRequest { reason, expect_revision, to, weight, full, ..CommandRequest::default() };
    let command = match wanted.into_command(service, &verb, actor, crate::config::site) {
        Ok(command) => command,
        Err(bad) => return html(StatusCode::UNPROCESSABLE_ENTITY, page::sorry(&capital(&bad.to_string()), None)),
    };
    // In a task of its own: a browser that goes away must not break off what it asked for.
    let work = tokio::spawn(async move { act::command_by(&inside, command, peer).await });
    match work.await {
        Ok(Ok(_)) => see(&name),
        Ok(Err(problem)) => html(problem.status, page::sorry(&capital(&problem.message), problem.help.as_deref())),
        Err(error) => html(StatusCode::INTERNAL_SERVER_ERROR, page::sorry(&format!("It broke off: {error}"), None)),
    }
}

/// The service's page, to be fetched by GET.
fn see(service: &str) -> Response {
    let at: (HeaderName, String) = (header::LOCATION, format!("/services/{service}"));
    (StatusCode::SEE_OTHER, [at]).into_response()
}

/// The session, if the form was made for it.
fn own_session(inside: &Inside, headers: &HeaderMap, token: &str) -> Option<Session> {
    inside.gate.sessions.of(headers).filter(|session| is_own_form(&inside.gate.sessions, session, token))
}

fn foreign_form() -> Response {
    let help = "Go back, load the page again, and try once more.";
    html(StatusCode::FORBIDDEN, page::sorry("The form is not from this session.", Some(help)))
}

async fn fields<T: DeserializeOwned>(request: Request) -> Result<T, Box<Response>> {
    let sorry = |status, message: &str| Box::new(html(status, page::sorry(message, None)));
    match tokio::time::timeout(FORM_TIMEOUT, Form::<T>::from_request(request, &())).await {
        Ok(Ok(Form(fields))) => Ok(fields),
        Ok(Err(rejection)) => Err(sorry(rejection.status(), "The form is not what it should be.")),
        Err(_) => Err(sorry(StatusCode::REQUEST_TIMEOUT, "The form did not come in time.")),
    }
}

/// A path of ours, or the front page: a login must not send anybody elsewhere.
fn own_path(next: &str) -> &str {
    let is_own = next.starts_with('/')
        && !next.starts_with("//")
        && next.chars().all(|c| c.is_ascii_alphanumeric() || "/-_.?=".contains(c));
    if is_own { next } else { "/" }
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default() + letters.as_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_leads_nowhere_else() {
        for (next, path) in [
            ("/services/web/abort", "/services/web/abort"),
            ("/services/web/promote?full=true", "/services/web/promote?full=true"),
            ("//evil.example/", "/"),
            ("/\\evil.example", "/"),
            ("https://evil.example", "/"),
            ("javascript:alert(1)", "/"),
            ("/a\r\nset-cookie: x", "/"),
            ("", "/"),
        ] {
            assert_eq!(own_path(next), path, "{next:?}");
        }
    }
}

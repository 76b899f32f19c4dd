//! What can be done: the verbs and `reload`. Each becomes one command; the answer comes once it is in force.

use std::{sync::Arc, time::Duration};

use axum::{
    Extension,
    body::{Body, Bytes},
    extract::{Path, State},
    http::{HeaderMap, StatusCode, Uri, header},
    response::{IntoResponse, Response},
};
use http_body_util::{BodyExt as _, Collected, LengthLimitError, Limited};
use tracing::{info, warn};

use super::{
    BODY_BYTES_MAX, Inside,
    answer::{self, Problem},
    failures::Peer,
    idempotency::{self, Reply},
    read,
};
use crate::{
    api,
    control::handle::{Handle, ReloadError},
    engine::{event::Event, input::Command, names::ServiceName},
};

/// A body that does not come in this time is not waited for.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest name of who asks, in characters.
const ACTOR_MAX: usize = 128;

/// `POST services/{service}/{verb}`
pub(super) async fn command(
    State(inside): State<Arc<Inside>>,
    Extension(peer): Extension<Peer>,
    Path((service, verb)): Path<(String, String)>,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let body = read_body(&headers, body).await?;
    let (command, is_dry) = parse(&inside, &service, &verb, &headers, &body)?;
    if is_dry {
        return Ok(answer::document(rehearsed(&inside, command).await?));
    }
    let place = inside.replies.place(&headers, uri.path(), &body)?;
    // In a task of its own: a client that goes away must not leave a command half remembered.
    let work = tokio::spawn(async move {
        match place {
            Some(place) => idempotency::once(&place, || carry_out(inside, command, peer)).await,
            None => carry_out(inside, command, peer).await,
        }
    });
    let reply = work.await.map_err(|error| {
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", format!("the command broke off: {error}"))
    })?;
    Ok((reply.status, [(header::CONTENT_TYPE, "application/json")], reply.body).into_response())
}

/// `POST reload`
pub(super) async fn reload(
    State(inside): State<Arc<Inside>>,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let body = read_body(&headers, body).await?;
    if !body.is_empty() && serde_json::from_slice::<serde_json::Map<_, _>>(&body).is_ok_and(|map| !map.is_empty()) {
        let message = "`reload` takes no fields";
        return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "badRequest", message));
    }
    info!(actor = actor(&headers), source = %peer, "a reload was asked for");
    match inside.outside.handle.reload().await {
        Ok(()) => {
            let config = read::config_status(&inside.outside.handle.config());
            let later = match &config.needs_restart[..] {
                [] => String::new(),
                waiting => format!("; after a restart only: {}", waiting.join(", ")),
            };
            let message = format!("{} is in force{later}", config.path);
            Ok(answer::document(api::ReloadReply { config, message }))
        }
        Err(ReloadError::Refused(diagnostics)) => {
            Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "configInvalid", diagnostics)
                .with_help("nothing has changed: the last good config stays in force"))
        }
        Err(error @ ReloadError::Busy) => Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "busy", error.to_string())),
    }
}

fn parse(
    inside: &Inside,
    service: &str,
    verb: &str,
    headers: &HeaderMap,
    body: &[u8],
) -> Result<(Command, bool), Problem> {
    let request: api::CommandRequest = if body.is_empty() {
        api::CommandRequest::default()
    } else {
        let bad = |problem: &str| {
            Problem::new(StatusCode::BAD_REQUEST, "badJson", format!("the body is not what it should be: {problem}"))
        };
        // serde would take an array for the fields in order.
        if body.trim_ascii_start().first() != Some(&b'{') {
            return Err(bad("it must be a JSON object"));
        }
        serde_json::from_slice(body).map_err(|error| bad(&error.to_string()))?
    };
    let name = ServiceName::new(service).map_err(|_| unknown(inside, service))?;
    let is_dry = request.dry_run;
    let command = request.into_command(name, verb, actor(headers), crate::config::site)?;
    read::find(inside, service)?;
    Ok((command, is_dry))
}

fn unknown(inside: &Inside, service: &str) -> Problem {
    read::find(inside, service).err().unwrap_or_else(|| Problem::unknown_service(service, "no such service"))
}

/// Carries a command out, and writes into the log who wanted what from where and what came of it.
///
/// # Errors
/// When it was refused or could not be remembered.
pub(super) async fn command_by(inside: &Inside, command: Command, peer: Peer) -> Result<api::CommandReply, Problem> {
    let (service, verb) = (command.service.clone(), command.verb.as_str());
    let (actor, reason) = (command.actor.clone(), command.reason.clone());
    let handle = &inside.outside.handle;
    let outcome = handle.command(command).await;
    match &outcome {
        Ok(_) => info!(%service, verb, actor, reason, source = %peer, "a command was carried out"),
        Err(error) => warn!(%service, verb, actor, reason, source = %peer, %error, "a command was refused"),
    }
    Ok(reply(outcome?, handle))
}

/// What a command would do; it changes nothing, so it is not in the log.
async fn rehearsed(inside: &Inside, command: Command) -> Result<api::CommandReply, Problem> {
    let handle = &inside.outside.handle;
    Ok(reply(handle.rehearse(command).await?, handle))
}

fn reply(decided: Option<Event>, handle: &Handle) -> api::CommandReply {
    let event = decided.map(|event| read::wire_event(&event, &handle.history()));
    let message = event.as_ref().map_or_else(|| "nothing to do".to_owned(), |event| event.message.clone());
    api::CommandReply { event, message }
}

async fn carry_out(inside: Arc<Inside>, command: Command, peer: Peer) -> Reply {
    let (status, response) = match command_by(&inside, command, peer).await {
        Ok(reply) => (StatusCode::OK, answer::document(reply)),
        Err(problem) => (problem.status, problem.into_response()),
    };
    let body = response.into_body().collect().await.map(Collected::to_bytes).unwrap_or_default();
    Reply { status, body }
}

pub(super) async fn read_body(headers: &HeaderMap, body: Body) -> Result<Bytes, Problem> {
    let collected = tokio::time::timeout(BODY_TIMEOUT, Limited::new(body, BODY_BYTES_MAX).collect()).await;
    let bytes = match collected {
        Ok(Ok(collected)) => collected.to_bytes(),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            let message = format!("a body has at most {} KiB", BODY_BYTES_MAX / 1024);
            return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "tooLarge", message));
        }
        Ok(Err(error)) => {
            return Err(Problem::new(StatusCode::BAD_REQUEST, "badBody", format!("the body broke off: {error}")));
        }
        Err(_) => {
            let message = format!("the body did not come within {}", crate::words::duration(BODY_TIMEOUT));
            return Err(Problem::new(StatusCode::REQUEST_TIMEOUT, "bodyTimeout", message));
        }
    };
    if !bytes.is_empty() && !is_json(headers) {
        return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "notJson", "the body must be JSON")
            .with_help("send `Content-Type: application/json`"));
    }
    Ok(bytes)
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
}

/// Who asks, as they say themselves: for the history, cut to one short line.
fn actor(headers: &HeaderMap) -> String {
    let said = headers.get("x-serin-actor").and_then(|actor| std::str::from_utf8(actor.as_bytes()).ok());
    let clean = clean_actor(said.unwrap_or_default());
    if clean.is_empty() { "api".to_owned() } else { clean }
}

/// A name as one short line.
pub(super) fn clean_actor(said: &str) -> String {
    let clean: String = said.chars().filter(|c| !c.is_control()).take(ACTOR_MAX).collect();
    clean.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_actor_is_one_short_line() {
        let named = |value: &[u8]| {
            let mut headers = HeaderMap::new();
            headers.insert("x-serin-actor", http::HeaderValue::from_bytes(value).unwrap());
            actor(&headers)
        };
        assert_eq!(actor(&HeaderMap::new()), "api");
        assert_eq!(named(b"  ann@ci  "), "ann@ci");
        assert_eq!(named("zoë".as_bytes()), "zoë");
        assert_eq!(named("a\u{9b}2Jb".as_bytes()), "a2Jb");
        assert_eq!(named(b"\xff\xfe"), "api");
        assert_eq!(named(&[b'x'; 500]).len(), ACTOR_MAX);
    }
}

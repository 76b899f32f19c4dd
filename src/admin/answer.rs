//! How answers look: JSON with `apiVersion`, errors with a word, a message and what to do.

use axum::{
    body::Body,
    http::{HeaderValue, Method, StatusCode, Uri, header},
    response::{IntoResponse, Response},
};
use serde::Serialize;

use crate::{
    api::{BadRequest, Document, ErrorBody, ErrorDetail},
    control::handle::CommandError,
    engine::input::Refusal,
};

/// An answer that is not a success.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Problem {
    pub(super) status: StatusCode,
    code: &'static str,
    pub(super) message: String,
    pub(super) help: Option<String>,
}

impl Problem {
    pub(super) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), help: None }
    }

    pub(super) fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    pub(super) fn unknown_service(name: &str, known: &str) -> Self {
        let name: String = name.chars().filter(|c| !c.is_control()).take(80).collect();
        Self::new(StatusCode::NOT_FOUND, "unknownService", format!("there is no service `{name}`"))
            .with_help(format!("the config file has {known}"))
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let detail = ErrorDetail { code: self.code.to_owned(), message: self.message, help: self.help };
        let mut response = json(self.status, &Document::new(ErrorBody { error: detail }));
        let headers = response.headers_mut();
        match self.status {
            StatusCode::UNAUTHORIZED => {
                headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"serin\""));
            }
            StatusCode::TOO_MANY_REQUESTS => {
                headers.insert(header::RETRY_AFTER, HeaderValue::from_static("6"));
            }
            StatusCode::SERVICE_UNAVAILABLE => {
                headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
            }
            _ => {}
        }
        response
    }
}

impl From<CommandError> for Problem {
    fn from(error: CommandError) -> Self {
        let message = error.to_string();
        match error {
            CommandError::Refused(refusal) => refusal.into(),
            CommandError::Storage(_) => Self::new(StatusCode::INTERNAL_SERVER_ERROR, "storage", message)
                .with_help("look at the state folder: is the disk full, may serin write there?"),
            CommandError::Busy => Self::new(StatusCode::SERVICE_UNAVAILABLE, "busy", message),
        }
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let message = refusal.to_string();
        match refusal {
            Refusal::UnknownService(_) => Self::new(StatusCode::NOT_FOUND, "unknownService", message),
            Refusal::UnknownVersion { .. } => Self::new(StatusCode::UNPROCESSABLE_ENTITY, "unknownVersion", message),
            Refusal::OtherRevision { .. } => Self::new(StatusCode::CONFLICT, "otherRevision", message),
            Refusal::NotNow(_) => Self::new(StatusCode::CONFLICT, "notNow", message),
        }
    }
}

impl From<BadRequest> for Problem {
    fn from(bad: BadRequest) -> Self {
        let message = bad.to_string();
        match bad {
            BadRequest::UnknownVerb(_) => Self::new(StatusCode::NOT_FOUND, "unknownVerb", message),
            _ => Self::new(StatusCode::UNPROCESSABLE_ENTITY, "badRequest", message),
        }
    }
}

/// A JSON answer.
pub(super) fn json<T: Serialize>(status: StatusCode, body: &T) -> Response {
    match serde_json::to_vec(body) {
        Ok(mut bytes) => {
            bytes.push(b'\n');
            (status, [(header::CONTENT_TYPE, "application/json")], bytes).into_response()
        }
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

/// A successful document.
pub(super) fn document<T: Serialize>(body: T) -> Response {
    json(StatusCode::OK, &Document::new(body))
}

/// No such path.
pub(super) async fn not_found(uri: Uri) -> Problem {
    Problem::new(StatusCode::NOT_FOUND, "notFound", format!("there is nothing at {}", uri.path()))
        .with_help("GET / lists what there is")
}

/// The path exists, the method does not. axum adds `Allow`.
pub(super) async fn method_not_allowed(method: Method, uri: Uri) -> Problem {
    let message = format!("{method} is not possible at {}", uri.path());
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "methodNotAllowed", message)
        .with_help("state is read by GET and changed by POST")
}

/// What every answer carries: nothing is cached, guessed, framed or loaded from elsewhere.
pub(super) async fn with_headers(mut response: Response<Body>) -> Response<Body> {
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    // `same-origin`, not `no-referrer`: that would make browsers send their own forms with `Origin: null`.
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    headers.insert("cross-origin-resource-policy", HeaderValue::from_static("same-origin"));
    headers.insert("cross-origin-opener-policy", HeaderValue::from_static("same-origin"));
    // The dashboard has its own.
    headers.entry(header::CONTENT_SECURITY_POLICY).or_insert(HeaderValue::from_static(
        "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    ));
    response
}

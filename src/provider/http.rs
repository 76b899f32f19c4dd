//! What the providers have in common over HTTP: whom to believe, who we are, how values are written into URLs, and what
//! counts as an answer.

use std::{
    collections::HashMap,
    fmt::Write as _,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::{HeaderValue, Request, Response, header};

use super::secret::Secrets;
use crate::{
    engine::analysis::ask::{Auth, Http},
    outbound::{Client, Limits, Reach, Trust},
};

/// The question's own timeout ends before these; an answer larger than this is none that a condition could mean.
const LIMITS: Limits = Limits { connect: Duration::from_secs(10), total: Duration::from_mins(10), body_bytes: 2 << 20 };
/// Most characters of an error's body that are told.
const BODY_SHOWN_MAX: usize = 200;
/// Different ideas of whom to believe that are kept with their connections.
const CLIENTS_MAX: usize = 64;

/// One client for each idea of whom to believe.
#[derive(Debug)]
pub(super) struct Clients {
    reach: Reach,
    known: Mutex<HashMap<Trust, Client>>,
}

/// What is sent.
pub(super) struct Sent {
    pub(super) method: &'static str,
    pub(super) url: String,
    /// Before the user's own fields, which go before these.
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) body: String,
}

impl Clients {
    pub(super) fn new(reach: Reach) -> Self {
        Self { reach, known: Mutex::default() }
    }

    fn of(&self, http: &Http) -> Result<Client, String> {
        let trust = Trust { ca: http.ca.as_ref().map(Into::into), insecure: http.insecure };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = known.get(&trust) {
            return Ok(client.clone());
        }
        let client = Client::trusting(LIMITS, self.reach.clone(), &trust).map_err(|error| error.to_string())?;
        if known.len() >= CLIENTS_MAX {
            known.clear();
        }
        known.insert(trust, client.clone());
        Ok(client)
    }

    /// Sends, and takes any answer.
    pub(super) async fn send(&self, sent: Sent, http: &Http, secrets: &mut Secrets) -> Result<Response<Bytes>, String> {
        let mut request = Request::builder().method(sent.method).uri(&sent.url).header(header::USER_AGENT, "serin");
        for (name, value) in &sent.headers {
            if !http.headers.iter().any(|(own, _)| own.eq_ignore_ascii_case(name)) {
                request = request.header(*name, sensitive(value)?);
            }
        }
        for (name, text) in &http.headers {
            request = request.header(name.as_str(), sensitive(&secrets.text(text)?)?);
        }
        match &http.auth {
            Some(Auth::Bearer(token)) => {
                let value = format!("Bearer {}", secrets.text(token)?);
                request = request.header(header::AUTHORIZATION, sensitive(&value)?);
            }
            Some(Auth::Basic { username, password }) => {
                let pair = format!("{}:{}", secrets.text(username)?, secrets.text(password)?);
                request =
                    request.header(header::AUTHORIZATION, sensitive(&format!("Basic {}", STANDARD.encode(pair)))?);
            }
            None => {}
        }
        let request = request.body(Bytes::from(sent.body)).map_err(|error| format!("cannot be asked: {error}"))?;
        self.of(http)?.request(request).await.map_err(|error| error.to_string())
    }

    /// Sends, and takes the body of an answer whose status is 2xx.
    pub(super) async fn ask(&self, sent: Sent, http: &Http, secrets: &mut Secrets) -> Result<Bytes, String> {
        let answer = self.send(sent, http, secrets).await?;
        if answer.status().is_success() {
            return Ok(answer.into_body());
        }
        Err(format!("it answered {}{}", answer.status(), excerpt(answer.body())))
    }
}

/// A field's value that no log shows.
fn sensitive(value: &str) -> Result<HeaderValue, String> {
    let mut value = HeaderValue::from_str(value).map_err(|_| "a header field cannot have this value".to_owned())?;
    value.set_sensitive(true);
    Ok(value)
}

/// The beginning of a body in one line, behind a colon; nothing of an empty one.
pub(super) fn excerpt(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(&body[..body.len().min(4 * BODY_SHOWN_MAX)]);
    let words: Vec<&str> = text.split_whitespace().collect();
    let line: String = words.join(" ").chars().filter(|c| !c.is_control()).take(BODY_SHOWN_MAX).collect();
    if line.is_empty() { line } else { format!(": {line}") }
}

/// `a=b&c=d`, with everything escaped that could mean something else.
pub(super) fn form<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let mut text = String::new();
    for (name, value) in pairs {
        if !text.is_empty() {
            text.push('&');
        }
        escape(name, &mut text);
        text.push('=');
        escape(value, &mut text);
    }
    text
}

fn escape(text: &str, into: &mut String) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            into.push(char::from(byte));
        } else {
            // Writing into a string cannot fail.
            let _ = write!(into, "%{byte:02X}");
        }
    }
}

/// An address with a path behind it.
pub(super) fn below(address: &str, path: &str) -> String {
    format!("{}{path}", address.trim_end_matches('/'))
}

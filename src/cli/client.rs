//! The admin API's client: where the process answers, with which token, and what its answers mean for the exit code.

use std::{
    net::{Ipv4Addr, Ipv6Addr},
    path::Path,
    time::Duration,
};

use bytes::Bytes;
use http::{Method, Request, StatusCode, Uri, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use serde::{Serialize, de::DeserializeOwned};

use super::{Global, exit::Exit, output::Trouble};
use crate::api::{Document, ErrorBody, ErrorDetail, ServiceList};
use crate::config;

const DEFAULT_ADMIN: &str = "http://127.0.0.1:9900";
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// From the request to the end of its answer. A command is answered after its fsync.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// Largest answer that is taken.
const ANSWER_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Where and as whom we ask.
#[derive(Clone)]
struct Target {
    base: Uri,
    token: Option<String>,
}

/// A client for one verb.
pub(super) struct Client {
    target: Target,
    runtime: tokio::runtime::Runtime,
}

/// Finds the running process: `--admin` and `SERIN_TOKEN`, else through the config file.
fn locate(global: &Global) -> Result<Target, Trouble> {
    let token =
        std::env::var("SERIN_TOKEN").ok().map(|token| token.trim().to_owned()).filter(|token| !token.is_empty());
    if let Some(admin) = &global.admin {
        return Ok(Target { base: parse_url(admin)?, token });
    }
    let environment = config::process_environment;
    let file = config::locate(global.config.as_deref(), Path::new(""), &environment);
    let found = file.ok().and_then(|file| config::reach(&file, &environment));
    let Some((admin, state)) = found else { return Ok(Target { base: parse_url(DEFAULT_ADMIN)?, token }) };
    let mut address = admin.listen;
    if address.ip().is_unspecified() {
        address.set_ip(if address.is_ipv4() { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() });
    }
    let written = admin.write_token.map(|token| token.reveal().to_owned());
    let token = token.or(written).or_else(|| token_in(&state.dir));
    Ok(Target { base: parse_url(&format!("http://{address}"))?, token })
}

/// The token that a running process made in its state folder.
fn token_in(folder: &Path) -> Option<String> {
    let token = std::fs::read_to_string(folder.join("write-token")).ok()?;
    Some(token.trim().to_owned()).filter(|token| !token.is_empty())
}

impl Client {
    /// A client for the process that the global options name.
    pub(super) fn new(global: &Global) -> Result<Self, Trouble> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Trouble::new(Exit::Failed, format!("no async runtime: {error}")))?;
        Ok(Self { target: locate(global)?, runtime })
    }

    /// Reads a document.
    pub(super) fn get<T: DeserializeOwned>(&self, path: &str) -> Result<Document<T>, Trouble> {
        let (status, body) = self.ask(Method::GET, path, Bytes::new())?;
        self.read(status, &body)
    }

    /// Asks for a change.
    pub(super) fn post<B: Serialize, T: DeserializeOwned>(&self, path: &str, body: &B) -> Result<Document<T>, Trouble> {
        let body = serde_json::to_vec(body).map_err(|error| Trouble::new(Exit::Failed, error.to_string()))?;
        let (status, body) = self.ask(Method::POST, path, body.into())?;
        self.read(status, &body)
    }

    /// Status and text of a plain page.
    pub(super) fn page(&self, url: Option<&str>, path: &str) -> Result<(StatusCode, String), Trouble> {
        let (target, path) = match url {
            Some(url) => {
                let base = parse_url(url)?;
                let path = base.path_and_query().map_or("/", |path| path.as_str()).to_owned();
                (Target { base, token: None }, path)
            }
            None => (self.target.clone(), path.to_owned()),
        };
        let (status, body) = self.runtime.block_on(whole(&target, Method::GET, &path, Bytes::new()))?;
        Ok((status, String::from_utf8_lossy(&body).into_owned()))
    }

    /// Follows the event stream after an event, until it ends or `each` says no. Gives the data of each event and
    /// whether it is a note of lag.
    pub(super) fn follow(
        &self,
        path: &str,
        after: u64,
        mut each: impl FnMut(bool, &str) -> Result<(), Trouble>,
    ) -> Result<(), Trouble> {
        self.runtime.block_on(async {
            let head = request(&self.target, Method::GET, path, Bytes::new(), Some(after))?;
            let response = tokio::time::timeout(ANSWER_TIMEOUT, send(&self.target, head))
                .await
                .map_err(|_| unreachable(&self.target, "no answer"))??;
            let status = response.status();
            let mut body = response.into_body();
            if !status.is_success() {
                let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
                let body = body.map(http_body_util::Collected::to_bytes).unwrap_or_default();
                return Err(self.problem(status, &body));
            }
            let mut lines = SseLines::default();
            while let Some(frame) = body.frame().await {
                let frame = frame.map_err(|error| unreachable(&self.target, &error.to_string()))?;
                for (kind, data) in lines.feed(frame.data_ref().map_or(&[][..], |data| data)) {
                    each(kind == "lag", &data)?;
                }
            }
            Ok(())
        })
    }

    /// The named service, or the only one there is.
    pub(super) fn service(&self, name: Option<&str>) -> Result<String, Trouble> {
        if let Some(name) = name {
            return Ok(name.to_owned());
        }
        let list: Document<ServiceList> = self.get("/api/v1/services")?;
        let names: Vec<_> = list.body.services.iter().map(|service| service.name.to_string()).collect();
        match &names[..] {
            [only] => Ok(only.clone()),
            [] => Err(Trouble::new(Exit::Usage, "there is no service")),
            _ => Err(Trouble::new(Exit::Usage, format!("which service? There are {}", names.join(", ")))),
        }
    }

    fn ask(&self, method: Method, path: &str, body: Bytes) -> Result<(StatusCode, Bytes), Trouble> {
        self.runtime.block_on(whole(&self.target, method, path, body))
    }

    fn read<T: DeserializeOwned>(&self, status: StatusCode, body: &[u8]) -> Result<T, Trouble> {
        if !status.is_success() {
            return Err(self.problem(status, body));
        }
        serde_json::from_slice(body).map_err(|error| {
            let base = &self.target.base;
            let message = format!("what answers at {base} speaks another version of Serin's API: {error}");
            Trouble::new(Exit::Failed, message)
        })
    }

    /// What an answer that is no success means.
    fn problem(&self, status: StatusCode, body: &[u8]) -> Trouble {
        let Ok(Document::<ErrorBody> { body: ErrorBody { error }, .. }) = serde_json::from_slice(body) else {
            let message = format!("what answers at {} is not Serin ({status})", self.target.base);
            return Trouble::new(Exit::Failed, message);
        };
        let ErrorDetail { code, mut message, help } = error;
        let exit = match (code.as_str(), status.as_u16()) {
            ("configInvalid", _) => Exit::ConfigInvalid,
            ("badToken" | "foreignOrigin", _) => Exit::NotAllowed,
            (_, 409) => Exit::Refused,
            (_, 400..500) => Exit::Usage,
            _ => Exit::Failed,
        };
        if code == "badToken" {
            message = match &self.target.token {
                Some(_) => format!("{message}: set SERIN_TOKEN, or name the process's own config file with --config"),
                None => format!("{message}: set SERIN_TOKEN, or name the config file with --config"),
            };
        } else if let Some(help) = help {
            message = format!("{message}\n  {help}");
        }
        Trouble::new(exit, message)
    }
}

/// One request and its whole answer.
async fn whole(target: &Target, method: Method, path: &str, body: Bytes) -> Result<(StatusCode, Bytes), Trouble> {
    let head = request(target, method, path, body, None)?;
    let answer = async {
        let response = send(target, head).await?;
        let status = response.status();
        let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
        let body = body.map_err(|error| unreachable(target, &error.to_string()))?;
        Ok((status, body.to_bytes()))
    };
    let limit = crate::words::duration(ANSWER_TIMEOUT);
    tokio::time::timeout(ANSWER_TIMEOUT, answer)
        .await
        .unwrap_or_else(|_| Err(unreachable(target, &format!("no answer within {limit}"))))
}

fn request(
    target: &Target,
    method: Method,
    path: &str,
    body: Bytes,
    after: Option<u64>,
) -> Result<Request<Full<Bytes>>, Trouble> {
    let authority = target.base.authority().map_or("", |authority| authority.as_str());
    let mut request = Request::builder()
        .method(method)
        .uri(path)
        .header(header::HOST, authority)
        .header(header::USER_AGENT, concat!("serin/", env!("CARGO_PKG_VERSION")))
        .header("x-serin-actor", actor());
    if !body.is_empty() {
        request = request.header(header::CONTENT_TYPE, "application/json");
    }
    if let Some(token) = &target.token {
        request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
    }
    if let Some(after) = after {
        request = request.header("last-event-id", after);
    }
    request.body(Full::new(body)).map_err(|error| {
        Trouble::new(Exit::Usage, format!("this makes no request (is the token or a name malformed?): {error}"))
    })
}

/// One request on a connection of its own. The one place that opens a socket.
async fn send(target: &Target, request: Request<Full<Bytes>>) -> Result<http::Response<Incoming>, Trouble> {
    let host = target.base.host().unwrap_or_default().trim_matches(['[', ']']);
    let port = target.base.port_u16().unwrap_or(80);
    let failed = |error: &dyn std::fmt::Display| unreachable(target, &error.to_string());
    let stream = tokio::time::timeout(CONNECT_TIMEOUT, tokio::net::TcpStream::connect((host, port)))
        .await
        .map_err(|_| failed(&"no connection in time"))?
        .map_err(|error| failed(&error))?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|error| failed(&error))?;
    // Its end is seen by whoever reads the answer.
    tokio::spawn(async move {
        let _ = connection.await;
    });
    sender.send_request(request).await.map_err(|error| failed(&error))
}

fn unreachable(target: &Target, problem: &str) -> Trouble {
    let at = target.base.authority().map_or("", |authority| authority.as_str());
    let message = format!(
        "no Serin answers at {at} ({problem}): is `serin run` running? (--admin URL or --config FILE choose another)"
    );
    Trouble::new(Exit::Unreachable, message)
}

fn parse_url(text: &str) -> Result<Uri, Trouble> {
    let bad = |problem: &str| Trouble::new(Exit::Usage, format!("`{text}` is no address of an admin API: {problem}"));
    let with_scheme = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    let uri: Uri = with_scheme.parse().map_err(|error: http::uri::InvalidUri| bad(&error.to_string()))?;
    match uri.scheme_str() {
        Some("http") if uri.authority().is_some_and(|authority| !authority.as_str().contains('@')) => Ok(uri),
        Some("http") => Err(bad("write it as http://HOST:PORT")),
        _ => Err(bad("only http:// is spoken; reach a remote one through a tunnel")),
    }
}

/// Who we are, for the history.
fn actor() -> String {
    let name = ["USER", "LOGNAME", "USERNAME"].iter().find_map(|name| std::env::var(name).ok());
    let clean: String = name.unwrap_or_default().chars().filter(char::is_ascii_graphic).take(64).collect();
    if clean.is_empty() { "cli".to_owned() } else { clean }
}

/// The lines of a server-sent event stream, put together to events.
#[derive(Debug, Default)]
struct SseLines {
    line: Vec<u8>,
    kind: String,
    data: String,
}

impl SseLines {
    fn feed(&mut self, bytes: &[u8]) -> Vec<(String, String)> {
        let mut events = Vec::new();
        for byte in bytes {
            if *byte != b'\n' {
                // A line longer than any answer is cut, and then fails to parse.
                if self.line.len() < ANSWER_BYTES_MAX {
                    self.line.push(*byte);
                }
                continue;
            }
            let line = String::from_utf8_lossy(&std::mem::take(&mut self.line)).into_owned();
            let line = line.trim_end_matches('\r');
            if line.is_empty() {
                let (kind, data) = (std::mem::take(&mut self.kind), std::mem::take(&mut self.data));
                if !data.is_empty() {
                    events.push((kind, data));
                }
            } else if let Some(data) = line.strip_prefix("data:") {
                self.data.push_str(data.trim_start());
            } else if let Some(kind) = line.strip_prefix("event:") {
                kind.trim().clone_into(&mut self.kind);
            }
        }
        events
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_put_together_from_any_pieces() {
        let stream = b": hello\n\nid: 7\ndata: {\"a\":1}\n\nevent: lag\r\ndata: {\"missed\":3}\r\n\r\n:\n\n";
        let wanted = [(String::new(), "{\"a\":1}".to_owned()), ("lag".to_owned(), "{\"missed\":3}".to_owned())];
        for size in [1, 2, 7, stream.len()] {
            let mut lines = SseLines::default();
            let events: Vec<_> = stream.chunks(size).flat_map(|piece| lines.feed(piece)).collect();
            assert_eq!(events, wanted, "in pieces of {size}");
        }
    }

    #[test]
    fn an_admin_url_may_lack_its_scheme_but_not_its_sense() {
        assert_eq!(parse_url("127.0.0.1:9900").unwrap().port_u16(), Some(9900));
        assert_eq!(parse_url("http://serin:9900/").unwrap().host(), Some("serin"));
        for bad in ["https://serin:9900", "http://", "http://user@serin", "a b"] {
            assert_eq!(parse_url(bad).unwrap_err().exit, Exit::Usage, "{bad}");
        }
    }
}

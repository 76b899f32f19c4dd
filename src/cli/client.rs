//! The admin API's client: where the process answers, with which token, and what its answers mean for the exit code.

use std::{
    net::{Ipv4Addr, Ipv6Addr},
    path::{Path, PathBuf},
    time::Duration,
};

use bytes::Bytes;
use http::{Method, Request, StatusCode, Uri, header};
use serde::{Serialize, de::DeserializeOwned};

use super::{Global, exit::Exit, output::Trouble};
use crate::{
    api::{Document, ErrorBody, ErrorDetail, ServiceList},
    config::{self, settings::AdminAddress},
    outbound::{self, Limits, Reach},
};

const DEFAULT_ADMIN: &str = "http://127.0.0.1:9900";
/// What a Unix socket is asked as.
const LOCAL: &str = "http://localhost";
/// A command is answered after its fsync, so an answer may take a while on a busy disk.
const LIMITS: Limits =
    Limits { connect: Duration::from_secs(5), total: Duration::from_secs(30), body_bytes: 16 * 1024 * 1024 };

/// Where and as whom we ask.
#[derive(Clone)]
struct Target {
    base: Uri,
    /// It answers here, and `base` is but a name.
    socket: Option<PathBuf>,
    token: Option<String>,
    /// Why there is none although there should be.
    no_token: Option<String>,
}

/// A client for one verb.
pub(super) struct Client {
    target: Target,
    runtime: tokio::runtime::Runtime,
    http: outbound::Client,
}

impl Target {
    /// For messages.
    fn shown(&self) -> String {
        match &self.socket {
            Some(socket) => format!("unix:{}", socket.display()),
            None => self.base.authority().map_or_else(String::new, ToString::to_string),
        }
    }
}

/// Finds the running process: `--admin` and `SERIN_TOKEN`, else through the config file.
fn locate(global: &Global) -> Result<Target, Trouble> {
    let token =
        std::env::var("SERIN_TOKEN").ok().map(|token| token.trim().to_owned()).filter(|token| !token.is_empty());
    if let Some(admin) = &global.admin {
        let socket = admin.strip_prefix("unix:").map(PathBuf::from);
        let base = if socket.is_some() { Uri::from_static(LOCAL) } else { parse_url(admin)? };
        return Ok(Target { base, socket, token, no_token: None });
    }
    let environment = config::process_environment;
    let file = config::locate(global.config.as_deref(), Path::new(""), &environment);
    let found = file.ok().and_then(|file| config::reach(&file, &environment));
    let Some((admin, state)) = found else {
        return Ok(Target { base: parse_url(DEFAULT_ADMIN)?, socket: None, token, no_token: None });
    };
    let (base, socket) = match admin.listen {
        AdminAddress::Unix(path) => (Uri::from_static(LOCAL), Some(path)),
        AdminAddress::Tcp(mut address) => {
            if address.ip().is_unspecified() {
                address.set_ip(if address.is_ipv4() { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() });
            }
            (parse_url(&format!("http://{address}"))?, None)
        }
    };
    let written = admin.write_token.map(|token| token.reveal().to_owned());
    let (token, no_token) = match token.or(written).map_or_else(|| token_in(&state.dir), Ok) {
        Ok(token) => (Some(token), None),
        Err(why) => (None, Some(why)),
    };
    Ok(Target { base, socket, token, no_token })
}

/// The token that a running process made in its state folder.
fn token_in(folder: &Path) -> Result<String, String> {
    let file = folder.join("write-token");
    let token = std::fs::read_to_string(&file).map(|token| token.trim().to_owned());
    token.map_err(|error| format!("{} cannot be read ({error})", file.display()))
}

impl Client {
    /// A client for the process that the global options name.
    pub(super) fn new(global: &Global) -> Result<Self, Trouble> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Trouble::new(Exit::Failed, format!("no async runtime: {error}")))?;
        let target = locate(global)?;
        let http = match &target.socket {
            Some(socket) => outbound::Client::over(socket, LIMITS),
            None => outbound::Client::new(LIMITS, Reach::anywhere()),
        };
        Ok(Self { target, runtime, http })
    }

    /// Reads a document.
    pub(super) fn get<T: DeserializeOwned>(&self, path: &str) -> Result<Document<T>, Trouble> {
        let (status, body) = self.ask(&self.target, Method::GET, path, Bytes::new())?;
        self.read(status, &body)
    }

    /// Asks for a change.
    pub(super) fn post<B: Serialize, T: DeserializeOwned>(&self, path: &str, body: &B) -> Result<Document<T>, Trouble> {
        let body = serde_json::to_vec(body).map_err(|error| Trouble::new(Exit::Failed, error.to_string()))?;
        let (status, body) = self.ask(&self.target, Method::POST, path, body.into())?;
        self.read(status, &body)
    }

    /// Status and text of a plain page.
    pub(super) fn page(&self, url: Option<&str>, path: &str) -> Result<(StatusCode, String), Trouble> {
        let (target, path) = match url {
            Some(url) => {
                let base = parse_url(url)?;
                let path = base.path_and_query().map_or("/", |path| path.as_str()).to_owned();
                (Target { base, socket: None, token: None, no_token: None }, path)
            }
            None => (self.target.clone(), path.to_owned()),
        };
        let (status, body) = self.ask(&target, Method::GET, &path, Bytes::new())?;
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
        let broken = |error| unreachable(&self.target, &error);
        let request = request(&self.target, Method::GET, path, Bytes::new(), Some(after))?;
        self.runtime.block_on(async {
            let (head, mut lines) = self.http.stream(request).await.map_err(broken)?.into_parts();
            let mut event = StreamEvent::default();
            let mut refusal = String::new();
            while let Some(line) = lines.next().await.map_err(broken)? {
                if !head.status.is_success() {
                    refusal.push_str(&line);
                } else if let Some((kind, data)) = event.feed(&line) {
                    each(kind == "lag", &data)?;
                }
            }
            if head.status.is_success() { Ok(()) } else { Err(self.problem(head.status, refusal.as_bytes())) }
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

    /// One request and its whole answer.
    fn ask(&self, target: &Target, method: Method, path: &str, body: Bytes) -> Result<(StatusCode, Bytes), Trouble> {
        let request = request(target, method, path, body, None)?;
        // Another one is not behind our own socket.
        let other = (target.socket != self.target.socket).then(|| outbound::Client::new(LIMITS, Reach::anywhere()));
        let http = other.as_ref().unwrap_or(&self.http);
        let answer = self.runtime.block_on(http.request(request)).map_err(|error| unreachable(target, &error))?;
        let (head, body) = answer.into_parts();
        Ok((head.status, body))
    }

    fn read<T: DeserializeOwned>(&self, status: StatusCode, body: &[u8]) -> Result<T, Trouble> {
        if !status.is_success() {
            return Err(self.problem(status, body));
        }
        serde_json::from_slice(body).map_err(|error| {
            let base = self.target.shown();
            let message = format!("what answers at {base} speaks another version of Serin's API: {error}");
            Trouble::new(Exit::Failed, message)
        })
    }

    /// What an answer that is no success means.
    fn problem(&self, status: StatusCode, body: &[u8]) -> Trouble {
        let Ok(Document::<ErrorBody> { body: ErrorBody { error }, .. }) = serde_json::from_slice(body) else {
            let message = format!("what answers at {} is not Serin ({status})", self.target.shown());
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
            message = match (&self.target.token, &self.target.no_token) {
                (None, Some(why)) => {
                    format!("{message}: {why}; run this as the user that runs serin, or set SERIN_TOKEN")
                }
                (Some(_), _) => {
                    format!("{message}: set SERIN_TOKEN, or name the process's own config file with --config")
                }
                (None, None) => format!("{message}: set SERIN_TOKEN, or name the config file with --config"),
            };
        } else if let Some(help) = help {
            message = format!("{message}\n  {help}");
        }
        Trouble::new(exit, message)
    }
}

fn request(
    target: &Target,
    method: Method,
    path: &str,
    body: Bytes,
    after: Option<u64>,
) -> Result<Request<Bytes>, Trouble> {
    let authority = target.base.authority().map_or("", |authority| authority.as_str());
    let mut request = Request::builder()
        .method(method)
        .uri(format!("http://{authority}{path}"))
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
    request.body(body).map_err(|error| {
        Trouble::new(Exit::Usage, format!("this makes no request (is the token or a name malformed?): {error}"))
    })
}

fn unreachable(target: &Target, error: &outbound::Error) -> Trouble {
    let at = target.shown();
    let message = format!(
        "no Serin answers at {at} ({error}): is `serin run` running? (--admin URL or --config FILE choose another)"
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

/// One event of a server-sent event stream, put together from its lines.
#[derive(Debug, Default)]
struct StreamEvent {
    kind: String,
    data: String,
}

impl StreamEvent {
    /// Takes a line; gives kind and data when it ended an event.
    fn feed(&mut self, line: &str) -> Option<(String, String)> {
        if line.is_empty() {
            let (kind, data) = (std::mem::take(&mut self.kind), std::mem::take(&mut self.data));
            return (!data.is_empty()).then_some((kind, data));
        }
        if let Some(data) = line.strip_prefix("data:") {
            self.data.push_str(data.trim_start());
        } else if let Some(kind) = line.strip_prefix("event:") {
            kind.trim().clone_into(&mut self.kind);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_put_together_from_their_lines() {
        let stream = ": hello\n\nid: 7\ndata: {\"a\":1}\n\nevent: lag\ndata: {\"missed\":3}\n\n:\n\n";
        let mut event = StreamEvent::default();
        let events: Vec<_> = stream.lines().filter_map(|line| event.feed(line)).collect();
        let wanted = [(String::new(), "{\"a\":1}".to_owned()), ("lag".to_owned(), "{\"missed\":3}".to_owned())];
        assert_eq!(events, wanted);
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

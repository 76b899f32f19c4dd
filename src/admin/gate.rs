//! Who may ask what: Host and Origin against other people's web pages, tokens and sessions against everybody else.
//! Looks at nothing but the request head; what a form carries is looked at where it is read.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Instant,
};

use axum::{
    extract::{Request, State},
    http::{HeaderMap, Method, StatusCode, Uri, header, uri::Authority},
    middleware::Next,
    response::{IntoResponse as _, Redirect, Response},
};

use super::{
    AdminState,
    answer::Problem,
    failures::{Failures, Peer},
    session::{Session, Sessions},
};
use crate::config::settings::Secret;

/// What a browser needs to show the way in; nothing of it says anything about services.
const OPEN_PATHS: [&str; 6] = ["/healthz", "/readyz", "/login", "/style.css", "/live.js", "/icon.svg"];

/// The rules of one listener.
#[derive(Debug)]
pub(super) struct Gate {
    /// The listener's address; none of a Unix socket, which no browser reaches.
    own: Option<SocketAddr>,
    read_token: Option<Secret>,
    write_token: Secret,
    pub(super) sessions: Sessions,
    failures: Failures,
}

/// What a request wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wants {
    /// Whether the process lives, or the way in: for everybody.
    Open,
    Read,
    Write,
    /// A form of the dashboard: for a session, and its handler looks at the form's own token.
    Form,
}

/// Lets a request through, or answers it.
pub(super) async fn check(State(gate): State<Arc<Gate>>, request: Request, next: Next) -> Response {
    let peer = request.extensions().get::<Peer>().copied().unwrap_or(Peer::Local);
    match gate.admit(request.method(), request.uri(), request.headers(), peer) {
        Ok(()) => next.run(request).await,
        Err(problem) if problem.status == StatusCode::UNAUTHORIZED && is_page(&request) => {
            let login = format!("/login?next={}", request.uri().path());
            super::answer::with_headers(Redirect::to(&login).into_response()).await
        }
        Err(problem) => super::answer::with_headers(problem.into_response()).await,
    }
}

/// Whether a person looks at the answer.
fn is_page(request: &Request) -> bool {
    !request.uri().path().starts_with("/api/") && wants_html(request.headers())
}

/// Whether the client would rather have a page than text.
pub(super) fn wants_html(headers: &HeaderMap) -> bool {
    headers
        .get(header::ACCEPT)
        .and_then(|accept| accept.to_str().ok())
        .is_some_and(|accept| accept.contains("text/html"))
}

impl Gate {
    /// # Errors
    /// When the system gives no random numbers.
    pub(super) fn new(own: Option<SocketAddr>, state: &AdminState) -> Result<Self, ring::error::Unspecified> {
        let (read_token, write_token) = (state.read_token.clone(), state.write_token.clone());
        let sessions = Sessions::new(own.map_or(0, |own| own.port()))?;
        Ok(Self { own, read_token, write_token, sessions, failures: Failures::default() })
    }

    /// Begins a session for whoever has a token; gives the `Set-Cookie`.
    ///
    /// # Errors
    /// When the token is neither of the two, or too many wrong ones came before.
    pub(super) fn log_in(&self, token: &str, actor: String, peer: Peer) -> Result<String, Problem> {
        self.may_try(peer)?;
        let is = |wanted: &Secret| self.sessions.is_same(token, wanted.reveal());
        let may_write = is(&self.write_token);
        if !may_write && !self.read_token.as_ref().is_some_and(is) {
            return Err(self.refuse(peer, Problem::new(StatusCode::UNAUTHORIZED, "badToken", "this is not the token")));
        }
        let begun = self.sessions.begin(may_write, actor);
        begun.map_err(|error| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", error.to_string()))
    }

    fn admit(&self, method: &Method, uri: &Uri, headers: &HeaderMap, peer: Peer) -> Result<(), Problem> {
        let host = host(uri, headers)?;
        self.check_host(&host)?;
        check_origin(&host, headers)?;
        let wants = match *method {
            Method::GET | Method::HEAD if OPEN_PATHS.contains(&uri.path()) => Wants::Open,
            Method::GET | Method::HEAD => Wants::Read,
            Method::POST if uri.path() == "/login" => Wants::Open,
            Method::POST if uri.path().starts_with("/services/") || uri.path() == "/logout" => Wants::Form,
            _ => Wants::Write,
        };
        self.check_token(wants, headers, peer)
    }

    /// A page of another site can make a browser ask us by giving its own name our address (DNS rebinding); such a request
    /// carries that name. Where every request needs a token that page cannot help itself, so any name will do.
    /// The port is left alone: tunnels and published ports change it.
    fn check_host(&self, host: &Authority) -> Result<(), Problem> {
        if self.read_token.is_some() {
            return Ok(());
        }
        let name = host.host();
        let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
        let is_own = match bare.parse::<IpAddr>() {
            Ok(ip) => ip.is_loopback() || self.own.is_some_and(|own| ip == own.ip() || own.ip().is_unspecified()),
            Err(_) => name.eq_ignore_ascii_case("localhost"),
        };
        if is_own {
            return Ok(());
        }
        Err(Problem::new(StatusCode::MISDIRECTED_REQUEST, "foreignHost", format!("this is not `{name}`")).with_help(
            match self.own {
                Some(own) => {
                    format!("ask by address ({own}) or as localhost; with admin.readToken set, any name is accepted")
                }
                None => "ask as localhost; with admin.readToken set, any name is accepted".to_owned(),
            },
        ))
    }

    fn check_token(&self, wants: Wants, headers: &HeaderMap, peer: Peer) -> Result<(), Problem> {
        let session = || self.sessions.of(headers);
        let allowed = match (wants, &self.read_token) {
            (Wants::Open, _) | (Wants::Read, None) => true,
            (Wants::Read, Some(_)) | (Wants::Form, _) => session().is_some(),
            (Wants::Write, _) => false,
        };
        if allowed || wants == Wants::Form {
            return if allowed { Ok(()) } else { Err(no_session()) };
        }
        let (which, setting) = match wants {
            Wants::Write => ("write", "admin.writeToken, or the file `write-token` in the state folder"),
            _ => ("read", "admin.readToken"),
        };
        let help = format!("send `Authorization: Bearer TOKEN` with the value of {setting}");
        let problem = |message| Problem::new(StatusCode::UNAUTHORIZED, "badToken", message).with_help(help);
        let Some(given) = bearer(headers) else { return Err(problem(format!("this needs the {which} token"))) };
        self.may_try(peer)?;
        let is = |token: &Secret| self.sessions.is_same(given, token.reveal());
        if is(&self.write_token) || (wants == Wants::Read && self.read_token.as_ref().is_some_and(is)) {
            return Ok(());
        }
        Err(self.refuse(peer, problem(format!("this is not the {which} token"))))
    }

    fn may_try(&self, peer: Peer) -> Result<(), Problem> {
        let Some(wait) = self.failures.wait(peer, Instant::now()) else { return Ok(()) };
        let message = format!("too many wrong tokens came from {peer}; wait {}", crate::words::duration(wait));
        Err(Problem::new(StatusCode::TOO_MANY_REQUESTS, "tooManyFailures", message))
    }

    fn refuse(&self, peer: Peer, problem: Problem) -> Problem {
        self.failures.add(peer, Instant::now());
        tracing::warn!(source = %peer, "a wrong token was refused on the admin listener");
        problem
    }
}

fn no_session() -> Problem {
    Problem::new(StatusCode::UNAUTHORIZED, "noSession", "log in first").with_help("GET /login has the form")
}

/// Whether a form was made for this session.
pub(super) fn is_own_form(sessions: &Sessions, session: &Session, token: &str) -> bool {
    sessions.is_same(token, &session.form_token)
}

/// The one host that the request is for.
fn host(uri: &Uri, headers: &HeaderMap) -> Result<Authority, Problem> {
    let bad = |message: &str| Problem::new(StatusCode::BAD_REQUEST, "badHost", message);
    let mut fields = headers.get_all(header::HOST).iter();
    let field = fields.next().ok_or_else(|| bad("the request has no Host"))?;
    if fields.next().is_some() {
        return Err(bad("the request has more than one Host"));
    }
    let host = field
        .to_str()
        .ok()
        .and_then(|host| host.parse::<Authority>().ok())
        .filter(|host| !host.as_str().contains('@'))
        .ok_or_else(|| bad("the Host is malformed"))?;
    if uri.authority().is_some_and(|target| *target != host) {
        return Err(bad("the request's target and Host differ"));
    }
    Ok(host)
}

/// A browser says where a request comes from; it must come from here.
fn check_origin(host: &Authority, headers: &HeaderMap) -> Result<(), Problem> {
    for origin in headers.get_all(header::ORIGIN) {
        let authority = origin.to_str().ok().and_then(|origin| origin.split_once("://")).map(|(_, rest)| rest);
        if !authority.is_some_and(|authority| authority.eq_ignore_ascii_case(host.as_str())) {
            return Err(Problem::new(StatusCode::FORBIDDEN, "foreignOrigin", "the request comes from another site"));
        }
    }
    Ok(())
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gate(read_token: Option<&str>) -> Gate {
        Gate {
            own: Some("127.0.0.1:9900".parse().unwrap()),
            read_token: read_token.map(|token| Secret::new(token.to_owned())),
            write_token: Secret::new("write".to_owned()),
            sessions: Sessions::new(9900).unwrap(),
            failures: Failures::default(),
        }
    }

    fn ask(gate: &Gate, method: &str, path: &str, fields: &[(&'static str, &str)]) -> u16 {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(*name, value.parse().unwrap());
        }
        match gate.admit(&method.parse().unwrap(), &path.parse().unwrap(), &headers, Peer::Local) {
            Ok(()) => 200,
            Err(problem) => problem.status.as_u16(),
        }
    }

    #[test]
    fn reads_are_open_until_a_read_token_is_set_and_writes_never_are() {
        let host = ("host", "127.0.0.1:9900");
        let with = |token| [host, ("authorization", token)];
        let (open, closed) = (gate(None), gate(Some("read")));
        assert_eq!(ask(&open, "GET", "/api/v1/services", &[host]), 200);
        assert_eq!(ask(&open, "POST", "/api/v1/reload", &[host]), 401);
        assert_eq!(ask(&open, "POST", "/api/v1/reload", &with("Bearer wrong")), 401);
        assert_eq!(ask(&open, "POST", "/api/v1/reload", &with("Basic write")), 401);
        assert_eq!(ask(&open, "POST", "/api/v1/reload", &with("bearer write")), 200);
        assert_eq!(ask(&closed, "GET", "/metrics", &[host]), 401);
        assert_eq!(ask(&closed, "GET", "/metrics", &with("Bearer read")), 200);
        assert_eq!(ask(&closed, "GET", "/metrics", &with("Bearer write")), 200);
        assert_eq!(ask(&closed, "POST", "/api/v1/reload", &with("Bearer read")), 401);
        assert_eq!(ask(&closed, "GET", "/healthz", &[host]), 200);
        assert_eq!(ask(&closed, "DELETE", "/healthz", &[host]), 401);
    }

    #[test]
    fn another_sites_page_gets_nothing() {
        let open = gate(None);
        for (host, status) in [
            ("127.0.0.1:9900", 200),
            ("127.0.0.1", 200),
            ("localhost:19900", 200),
            ("LOCALHOST", 200),
            ("[::1]:9900", 200),
            ("evil.example:9900", 421),
            ("localhost.evil.example", 421),
            ("10.0.0.1:9900", 421),
            ("user@localhost", 400),
            ("a b", 400),
        ] {
            assert_eq!(ask(&open, "GET", "/", &[("host", host)]), status, "{host}");
        }
        assert_eq!(ask(&open, "GET", "/", &[]), 400);
        assert_eq!(ask(&open, "GET", "/", &[("host", "localhost"), ("host", "localhost")]), 400);
        assert_eq!(ask(&open, "GET", "http://evil.example/", &[("host", "localhost")]), 400);
        assert_eq!(ask(&gate(Some("read")), "GET", "/healthz", &[("host", "serin:9900")]), 200);
        for (origin, status) in
            [("http://localhost:9900", 200), ("http://localhost", 403), ("http://evil.example", 403), ("null", 403)]
        {
            assert_eq!(ask(&open, "GET", "/", &[("host", "localhost:9900"), ("origin", origin)]), status, "{origin}");
        }
    }
}

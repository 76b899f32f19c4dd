//! Who may ask what: Host and Origin against other people's web pages, tokens against everybody else.
//! Looks at nothing but the request head.

use std::{
    hint::black_box,
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use axum::{
    extract::{Request, State},
    http::{HeaderMap, Method, StatusCode, Uri, header, uri::Authority},
    middleware::Next,
    response::{IntoResponse as _, Response},
};

use super::{AdminState, answer::Problem};
use crate::config::settings::Secret;

/// The rules of one listener.
#[derive(Debug)]
pub(super) struct Gate {
    own: SocketAddr,
    read_token: Option<Secret>,
    write_token: Secret,
}

/// What a request wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wants {
    /// To know whether the process lives: for everybody.
    Health,
    Read,
    Write,
}

/// Lets a request through, or answers it.
pub(super) async fn check(State(gate): State<Arc<Gate>>, request: Request, next: Next) -> Response {
    match gate.admit(request.method(), request.uri(), request.headers()) {
        Ok(()) => next.run(request).await,
        Err(problem) => super::answer::with_headers(problem.into_response()).await,
    }
}

impl Gate {
    pub(super) fn new(own: SocketAddr, state: &AdminState) -> Self {
        Self { own, read_token: state.read_token.clone(), write_token: state.write_token.clone() }
    }

    fn admit(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> Result<(), Problem> {
        let host = host(uri, headers)?;
        self.check_host(&host)?;
        check_origin(&host, headers)?;
        let wants = match *method {
            Method::GET | Method::HEAD if matches!(uri.path(), "/healthz" | "/readyz") => Wants::Health,
            Method::GET | Method::HEAD => Wants::Read,
            _ => Wants::Write,
        };
        self.check_token(wants, headers)
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
            Ok(ip) => ip == self.own.ip() || ip.is_loopback() || self.own.ip().is_unspecified(),
            Err(_) => name.eq_ignore_ascii_case("localhost"),
        };
        if is_own {
            return Ok(());
        }
        Err(Problem::new(StatusCode::MISDIRECTED_REQUEST, "foreignHost", format!("this is not `{name}`")).with_help(
            format!("ask by address ({}) or as localhost; with admin.readToken set, any name is accepted", self.own),
        ))
    }

    fn check_token(&self, wants: Wants, headers: &HeaderMap) -> Result<(), Problem> {
        let given = bearer(headers);
        let is = |token: &Secret| given.is_some_and(|given| same(given.as_bytes(), token.reveal().as_bytes()));
        let allowed = match (wants, &self.read_token) {
            (Wants::Health, _) | (Wants::Read, None) => true,
            (Wants::Read, Some(read)) => is(read) || is(&self.write_token),
            (Wants::Write, _) => is(&self.write_token),
        };
        if allowed {
            return Ok(());
        }
        let (which, setting) = match wants {
            Wants::Write => ("write", "admin.writeToken, or the file `write-token` in the state folder"),
            _ => ("read", "admin.readToken"),
        };
        let message = match given {
            Some(_) => format!("this is not the {which} token"),
            None => format!("this needs the {which} token"),
        };
        Err(Problem::new(StatusCode::UNAUTHORIZED, "badToken", message)
            .with_help(format!("send `Authorization: Bearer TOKEN` with the value of {setting}")))
    }
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

/// Compares in a time that depends on the length given alone.
fn same(given: &[u8], wanted: &[u8]) -> bool {
    if wanted.is_empty() {
        return false;
    }
    let mut difference = u8::from(given.len() != wanted.len());
    for (index, byte) in given.iter().enumerate() {
        difference |= black_box(byte ^ wanted[index % wanted.len()]);
    }
    black_box(difference) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gate(read_token: Option<&str>) -> Gate {
        Gate {
            own: "127.0.0.1:9900".parse().unwrap(),
            read_token: read_token.map(|token| Secret::new(token.to_owned())),
            write_token: Secret::new("write".to_owned()),
        }
    }

    fn ask(gate: &Gate, method: &str, path: &str, fields: &[(&'static str, &str)]) -> u16 {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(*name, value.parse().unwrap());
        }
        match gate.admit(&method.parse().unwrap(), &path.parse().unwrap(), &headers) {
            Ok(()) => 200,
            Err(problem) => problem.status.as_u16(),
        }
    }

    #[test]
    fn tokens_are_compared_whole() {
        for (given, wanted, is) in [
            ("abc", "abc", true),
            ("abd", "abc", false),
            ("ab", "abc", false),
            ("abcabc", "abc", false),
            ("", "abc", false),
            ("", "", false),
            ("a", "", false),
        ] {
            assert_eq!(same(given.as_bytes(), wanted.as_bytes()), is, "{given} {wanted}");
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

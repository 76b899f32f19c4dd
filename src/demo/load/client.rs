//! One client with one connection, kept alive, and its cookies.

use std::{rc::Rc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response, header};
use http_body_util::{BodyExt, Empty};
use hyper::{
    body::Incoming,
    client::conn::http1::{self, SendRequest},
};
use hyper_util::rt::TokioIo;
use tokio::{net::TcpStream, time};

use super::LoadSpec;

/// Cookies a client keeps; more are not taken.
const COOKIES_MAX: usize = 32;
/// Longest cookie it takes, name and value.
const COOKIE_BYTES_MAX: usize = 4_096;

/// Between two tries of a patient client.
const AGAIN: Duration = Duration::from_millis(50);

/// What a request came to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// A whole answer.
    Answered {
        /// Its status.
        status: u16,
        /// Its `x-version`.
        version: Option<HeaderValue>,
    },
    /// An answer that broke off, or none: no connection, or it broke.
    Broken,
    /// Neither in time.
    TimedOut,
}

pub(super) struct Client {
    spec: Rc<LoadSpec>,
    connection: Option<SendRequest<Empty<Bytes>>>,
    cookies: Vec<(String, String)>,
}

impl Client {
    pub(super) fn new(spec: Rc<LoadSpec>) -> Self {
        Self { spec, connection: None, cookies: Vec::new() }
    }

    pub(super) async fn get(&mut self) -> Outcome {
        let limit = self.spec.timeout;
        let outcome = time::timeout(limit, self.exchange()).await;
        // The connection was taken out for the exchange, so one that broke or hangs is closed by now.
        outcome.map_or(Outcome::TimedOut, |done| done.unwrap_or(Outcome::Broken))
    }

    async fn exchange(&mut self) -> Option<Outcome> {
        let (answer, mut connection) = loop {
            match self.answer().await {
                Some(answered) => break answered,
                None if self.spec.reconnect => time::sleep(AGAIN).await,
                None => return None,
            }
        };
        let (head, mut body) = answer.into_parts();
        while let Some(frame) = body.frame().await {
            frame.ok()?;
        }
        if self.spec.cookies {
            self.keep_cookies(&head.headers);
        }
        if connection.ready().await.is_ok() {
            self.connection = Some(connection);
        }
        Some(Outcome::Answered { status: head.status.as_u16(), version: head.headers.get("x-version").cloned() })
    }

    /// The head of the answer, and the connection on which its body comes.
    async fn answer(&mut self) -> Option<(Response<Incoming>, SendRequest<Empty<Bytes>>)> {
        let mut connection = match self.connection.take().filter(|connection| !connection.is_closed()) {
            Some(open) => open,
            None => self.connect().await?,
        };
        let answer = match connection.try_send_request(self.request()?).await {
            Ok(answer) => answer,
            // Handed back unsent: the server had closed the idle connection, which is nobody's failure.
            Err(mut error) => {
                let unsent = error.take_message()?;
                connection = self.connect().await?;
                connection.send_request(unsent).await.ok()?
            }
        };
        Some((answer, connection))
    }

    async fn connect(&self) -> Option<SendRequest<Empty<Bytes>>> {
        let host = self.spec.url.host()?.trim_start_matches('[').trim_end_matches(']');
        let stream = TcpStream::connect((host, self.spec.url.port_u16().unwrap_or(80))).await.ok()?;
        stream.set_nodelay(true).ok()?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.ok()?;
        tokio::task::spawn_local(connection);
        Some(sender)
    }

    fn request(&self) -> Option<Request<Empty<Bytes>>> {
        let url = &self.spec.url;
        let path = url.path_and_query().map_or("/", |path| path.as_str());
        // Without a user's name and password, which the URL may hold and a Host field may not.
        let host = url.authority()?.as_str().rsplit('@').next()?;
        let mut request = Request::get(path).header(header::HOST, host).body(Empty::new()).ok()?;
        if !self.cookies.is_empty() {
            let pairs: Vec<_> = self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
            request.headers_mut().insert(header::COOKIE, HeaderValue::from_str(&pairs.join("; ")).ok()?);
        }
        Some(request)
    }

    /// As a browser does for one site and path, without their rules: a new value replaces, `Max-Age=0` removes.
    fn keep_cookies(&mut self, headers: &HeaderMap) {
        for field in headers.get_all(header::SET_COOKIE).iter().filter_map(|field| field.to_str().ok()) {
            let mut parts = field.split(';').map(str::trim);
            let Some((name, value)) = parts.next().and_then(|pair| pair.split_once('=')) else { continue };
            self.cookies.retain(|(kept, _)| kept != name);
            let removed = parts.any(|attribute| attribute.eq_ignore_ascii_case("max-age=0"));
            let fits = name.len() + value.len() <= COOKIE_BYTES_MAX && self.cookies.len() < COOKIES_MAX;
            if !removed && fits {
                self.cookies.push((name.to_owned(), value.to_owned()));
            }
        }
    }
}

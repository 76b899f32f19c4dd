//! The one HTTP client for questions of our own: limits on waiting and size, errors that say what happened.
//! HTTP/1.1 with or without TLS; retries nothing, follows no redirect, knows no product word, and asks no address that
//! `reach` refuses.

mod connect;
mod lines;
mod reach;
mod trust;

use std::{
    error::Error as StdError,
    io,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::{Request, Response, Uri};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper_util::{client::legacy::Client as Pooled, rt::TokioExecutor};

use connect::{Connector, Refused};
pub use lines::Lines;
pub use reach::Reach;
pub use trust::{Trust, TrustError};

/// How long is waited for, and how much is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Until a TCP connection stands, once the name is resolved.
    pub connect: Duration,
    /// From the call to the whole answer; for a stream, to its head.
    pub total: Duration,
    /// Largest body of an answer; for a stream, its longest line.
    pub body_bytes: usize,
}

impl Default for Limits {
    /// 5 s, 30 s, 8 MiB.
    fn default() -> Self {
        Self { connect: Duration::from_secs(5), total: Duration::from_secs(30), body_bytes: 8 << 20 }
    }
}

/// Why there is no answer. `address` is host and port, as asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Not an address that this client can ask.
    #[error("`{url}` cannot be asked: {cause}")]
    Url {
        /// What was given.
        url: String,
        /// What is wrong with it.
        cause: &'static str,
    },
    /// No connection: refused, no route, or no such name.
    #[error("cannot reach {address}: {cause}")]
    Unreachable {
        /// Whom.
        address: String,
        /// The operating system's words.
        cause: String,
    },
    /// A connection stands, but TLS does not: the server is not who it should be, or speaks no TLS.
    #[error("no TLS with {address}: {cause}")]
    Tls {
        /// With whom.
        address: String,
        /// What is wrong, e.g. with the certificate.
        cause: String,
    },
    /// Nothing, or not all, in time.
    #[error("no answer from {address} within {limit:?}")]
    TimedOut {
        /// From whom.
        address: String,
        /// The limit that passed.
        limit: Duration,
    },
    /// The body, or one line of it, is over the limit.
    #[error("the answer of {address} is larger than the limit of {limit} bytes")]
    TooLarge {
        /// Whose.
        address: String,
        /// The limit.
        limit: usize,
    },
    /// The connection broke, or what came over it is not HTTP.
    #[error("no valid answer from {address}: {cause}")]
    Protocol {
        /// From whom.
        address: String,
        /// What was wrong.
        cause: String,
    },
}

/// A client with its kept-alive connections. Cloning shares them. Needs a tokio runtime with I/O and time.
#[derive(Debug, Clone)]
pub struct Client {
    pooled: Pooled<Connector, Full<Bytes>>,
    limits: Limits,
}

impl Client {
    /// A client without connections yet, which asks whom `reach` lets it and believes whom the system believes.
    #[must_use]
    pub fn new(limits: Limits, reach: Reach) -> Self {
        Self::with(limits, trust::system(), reach)
    }

    /// A client that asks everything of what listens on a Unix socket, whatever host a URL names.
    #[must_use]
    pub fn over(socket: &Path, limits: Limits) -> Self {
        let connector = Connector::new(limits.connect, trust::system(), Reach::anywhere()).over(socket);
        Self { pooled: pool(connector), limits }
    }

    /// The same, with its own idea of whom to believe.
    ///
    /// # Errors
    /// When the authorities cannot be read.
    pub fn trusting(limits: Limits, reach: Reach, trust: &Trust) -> Result<Self, TrustError> {
        Ok(Self::with(limits, trust.config()?, reach))
    }

    fn with(limits: Limits, tls: Arc<rustls::ClientConfig>, reach: Reach) -> Self {
        let connector = Connector::new(limits.connect, tls, reach);
        Self { pooled: pool(connector), limits }
    }

    /// The same client and connections under another limit on the whole answer.
    #[must_use]
    pub fn within(&self, total: Duration) -> Self {
        let limits = Limits { total, ..self.limits };
        Self { pooled: self.pooled.clone(), limits }
    }

    /// Asks, and takes the whole answer. Any status is an answer. The request's URI is absolute: `http://host:port/…`
    /// or `https://…`.
    pub async fn request(&self, request: Request<Bytes>) -> Result<Response<Bytes>, Error> {
        let asked = Asked::of(&request, self.limits)?;
        let whole = async {
            let (head, body) = self.head(request, &asked).await?.into_parts();
            let body = Limited::new(body, self.limits.body_bytes).collect().await;
            let body = body.map_err(|error| asked.body_error(error.as_ref()))?;
            Ok(Response::from_parts(head, body.to_bytes()))
        };
        tokio::time::timeout(self.limits.total, whole).await.map_err(|_| asked.timed_out(self.limits.total))?
    }

    /// Asks, and reads the answer line by line as it comes, for as long as it lasts (server-sent events).
    pub async fn stream(&self, request: Request<Bytes>) -> Result<Response<Lines>, Error> {
        let asked = Asked::of(&request, self.limits)?;
        let head = tokio::time::timeout(self.limits.total, self.head(request, &asked)).await;
        let answer = head.map_err(|_| asked.timed_out(self.limits.total))??;
        Ok(answer.map(|body| Lines::new(body, asked)))
    }

    async fn head(&self, request: Request<Bytes>, asked: &Asked) -> Result<Response<Incoming>, Error> {
        let started = Instant::now();
        let answer = self.pooled.request(request.map(Full::new)).await;
        answer.map_err(|error| {
            let cause = root_cause(&error);
            if connect::refused(&error).is_some_and(Refused::is_tls) {
                return Error::Tls { address: asked.address.clone(), cause };
            }
            // The connector's own limit has no kind of its own that could be told apart without it.
            if error.is_connect() && started.elapsed() >= self.limits.connect {
                asked.timed_out(self.limits.connect)
            } else if error.is_connect() {
                Error::Unreachable { address: asked.address.clone(), cause }
            } else {
                asked.broken(cause)
            }
        })
    }
}

fn pool(connector: Connector) -> Pooled<Connector, Full<Bytes>> {
    Pooled::builder(TokioExecutor::new()).pool_max_idle_per_host(4).build(connector)
}

/// Who was asked, for messages.
#[derive(Debug)]
struct Asked {
    address: String,
    limits: Limits,
}

impl Asked {
    fn of(request: &Request<Bytes>, limits: Limits) -> Result<Self, Error> {
        let uri = request.uri();
        let wrong = |cause| Err(Error::Url { url: without_secrets(uri), cause });
        let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
            return wrong("write it as http://host:port/path or https://host/path");
        };
        let port = match scheme {
            "http" => 80,
            "https" => 443,
            _ => return wrong("only http:// and https:// are spoken here"),
        };
        let address = format!("{}:{}", authority.host(), authority.port_u16().unwrap_or(port));
        Ok(Self { address, limits })
    }

    fn timed_out(&self, limit: Duration) -> Error {
        Error::TimedOut { address: self.address.clone(), limit }
    }

    fn too_large(&self) -> Error {
        Error::TooLarge { address: self.address.clone(), limit: self.limits.body_bytes }
    }

    fn broken(&self, cause: String) -> Error {
        Error::Protocol { address: self.address.clone(), cause }
    }

    fn body_error(&self, error: &(dyn StdError + Send + Sync + 'static)) -> Error {
        if error.is::<LengthLimitError>() { self.too_large() } else { self.broken(root_cause(error)) }
    }
}

/// The innermost reason; the layers around it only repeat which layer they are.
fn root_cause(error: &(dyn StdError + 'static)) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    if let Some(code) = innermost.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error) {
        return innermost.to_string().replace(&format!(" (os error {code})"), "").to_lowercase();
    }
    innermost.to_string()
}

/// A URI may hold a password or, in its query, a key; a message must not.
fn without_secrets(uri: &Uri) -> String {
    let text = uri.to_string();
    let text = text.split_once('?').map_or_else(|| text.clone(), |(before, _)| format!("{before}?…"));
    match text.split_once('@') {
        Some((before, after)) => format!("{}…@{after}", before.split_inclusive("//").next().unwrap_or_default()),
        None => text,
    }
}

#[cfg(test)]
mod tests;

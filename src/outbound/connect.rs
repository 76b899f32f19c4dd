//! Connections for the pool: TCP, and TLS on it where the URL says `https`; or one Unix socket for all.

use std::{
    error::Error as StdError,
    io,
    path::Path,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use http::Uri;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::{
    client::legacy::connect::{Connected, Connection, HttpConnector},
    rt::TokioIo,
};
use rustls::{ClientConfig, pki_types::ServerName};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::{TlsConnector, client::TlsStream};
use tower_service::Service;

use super::reach::{Reach, Resolver};

/// Makes connections. Cloning is cheap.
#[derive(Clone)]
pub(super) struct Connector {
    tcp: HttpConnector<Resolver>,
    tls: TlsConnector,
    reach: Reach,
    /// Everything is asked over this socket, whatever the URL says.
    socket: Option<Arc<Path>>,
}

impl std::fmt::Debug for Connector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Connector")
    }
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refused {
    #[error(transparent)]
    Tcp(Box<dyn StdError + Send + Sync>),
    #[error("TLS")]
    Tls(#[source] io::Error),
}

/// Plain, a socket of this machine, or TLS.
pub(super) enum Stream {
    Plain(TokioIo<TcpStream>),
    Unix(TokioIo<UnixStream>),
    Tls(Box<TokioIo<TlsStream<TcpStream>>>),
}

impl Refused {
    pub(super) const fn is_tls(&self) -> bool {
        matches!(self, Self::Tls(_))
    }
}

/// The connector's own error in those that the pool wraps around it.
pub(super) fn refused<'e>(error: &'e (dyn StdError + 'static)) -> Option<&'e Refused> {
    let mut error = Some(error);
    while let Some(layer) = error {
        if let Some(refused) = layer.downcast_ref::<Refused>() {
            return Some(refused);
        }
        error = layer.source();
    }
    None
}

impl Connector {
    pub(super) fn new(timeout: Duration, tls: Arc<ClientConfig>, reach: Reach) -> Self {
        let mut tcp = HttpConnector::new_with_resolver(Resolver::new(reach.clone()));
        tcp.set_connect_timeout(Some(timeout));
        tcp.set_nodelay(true);
        tcp.enforce_http(false);
        Self { tcp, tls: TlsConnector::from(tls), reach, socket: None }
    }

    pub(super) fn over(mut self, socket: &Path) -> Self {
        self.socket = Some(socket.into());
        self
    }
}

impl Service<Uri> for Connector {
    type Response = Stream;
    type Error = Refused;
    type Future = Pin<Box<dyn Future<Output = Result<Stream, Refused>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Refused>> {
        self.tcp.poll_ready(context).map_err(|error| Refused::Tcp(error.into()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        if let Some(socket) = self.socket.clone() {
            return Box::pin(async move {
                let stream = UnixStream::connect(&socket).await.map_err(|error| Refused::Tcp(error.into()))?;
                Ok(Stream::Unix(TokioIo::new(stream)))
            });
        }
        let tls = (uri.scheme_str() == Some("https")).then(|| self.tls.clone());
        let name = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']').to_owned();
        // An address is not resolved, so nobody else looks at it.
        if let Some(Err(why)) = name.parse().ok().map(|address| self.reach.check(address)) {
            return Box::pin(async move { Err(Refused::Tcp(why.into())) });
        }
        let tcp = self.tcp.call(uri);
        Box::pin(async move {
            let stream = tcp.await.map_err(|error| Refused::Tcp(error.into()))?;
            let Some(tls) = tls else { return Ok(Stream::Plain(stream)) };
            let name = ServerName::try_from(name).map_err(|error| Refused::Tls(io::Error::other(error)))?;
            let stream = tls.connect(name, stream.into_inner()).await.map_err(Refused::Tls)?;
            Ok(Stream::Tls(Box::new(TokioIo::new(stream))))
        })
    }
}

impl Connection for Stream {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl Read for Stream {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buf: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(context, buf),
            Self::Unix(stream) => Pin::new(stream).poll_read(context, buf),
            Self::Tls(stream) => Pin::new(stream.as_mut()).poll_read(context, buf),
        }
    }
}

impl Write for Stream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Unix(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Tls(stream) => Pin::new(stream.as_mut()).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(context),
            Self::Unix(stream) => Pin::new(stream).poll_flush(context),
            Self::Tls(stream) => Pin::new(stream.as_mut()).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Unix(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Tls(stream) => Pin::new(stream.as_mut()).poll_shutdown(context),
        }
    }
}

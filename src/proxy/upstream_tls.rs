//! TLS to one endpoint. Its files were checked with the config; one that has broken since makes connections fail, with
//! its reason.

use std::{fmt, io};

use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::{
    engine::{
        endpoint::{Endpoint, UpstreamHttp},
        upstream::UpstreamTls,
    },
    tls,
};

/// Opens TLS to one endpoint.
#[derive(Debug)]
pub(super) struct TlsClient(Result<Ready, String>);

struct Ready {
    connector: TlsConnector,
    name: ServerName<'static>,
}

impl TlsClient {
    pub(super) fn new(tls: &UpstreamTls, endpoint: &Endpoint, http: UpstreamHttp) -> Self {
        let ready = prepare(tls, endpoint, http);
        if let Err(error) = &ready {
            tracing::error!(%endpoint, %error, "TLS to an endpoint cannot be used");
        }
        Self(ready)
    }

    /// Shakes hands over a connected socket.
    pub(super) async fn connect(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        let Ready { connector, name } = self.0.as_ref().map_err(|error| io::Error::other(error.clone()))?;
        connector.connect(name.clone(), stream).await
    }
}

fn prepare(tls: &UpstreamTls, endpoint: &Endpoint, http: UpstreamHttp) -> Result<Ready, String> {
    let host = match (&tls.sni, endpoint) {
        (Some(sni), _) => sni.to_string(),
        (None, Endpoint::Tcp { host, .. }) => host.trim_end_matches('.').to_owned(),
        (None, Endpoint::Unix { .. }) => return Err("TLS over a Unix socket is not spoken".to_owned()),
    };
    let name = ServerName::try_from(host).map_err(|error| error.to_string())?;
    let protocols: &[&[u8]] = match http {
        UpstreamHttp::H1 => &[b"http/1.1"],
        UpstreamHttp::H2 => &[b"h2"],
        UpstreamHttp::Auto => &[b"h2", b"http/1.1"],
    };
    let identity = tls.identity.as_ref().map(|(cert, key)| (&**cert, &**key));
    let config = tls::client(tls.ca.as_deref(), identity, protocols).map_err(|fault| fault.message)?;
    Ok(Ready { connector: TlsConnector::from(config), name })
}

impl fmt::Debug for Ready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ready").field("name", &self.name).finish_non_exhaustive()
    }
}

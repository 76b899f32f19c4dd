//! Where a pool's connections lead, and how one is opened.

use std::{io, net::SocketAddr, sync::Arc};

use tokio::net::{TcpStream, UnixStream};

use super::{resolver::Name, socket::Socket, upstream_tls::TlsClient};

/// Where connections lead.
#[derive(Debug)]
pub(super) enum Place {
    Address(SocketAddr),
    Unix(Arc<str>),
    /// Until there is a first answer, to any of the addresses in it.
    Name(Arc<Name>),
    /// Nowhere: none of a dead canary's endpoints is to be used.
    Nobody,
}

/// Opens connections to one place.
#[derive(Debug)]
pub(super) struct Connector {
    pub(super) place: Place,
    pub(super) tls: Option<TlsClient>,
}

impl Connector {
    pub(super) async fn connect(&self) -> io::Result<Socket> {
        let stream = match &self.place {
            Place::Unix(path) => return Ok(Socket::Unix(UnixStream::connect(&**path).await?)),
            Place::Address(address) => TcpStream::connect(address).await?,
            Place::Nobody => return Err(io::Error::other("all its endpoints are ejected or fail their health checks")),
            Place::Name(name) => any_of(&name.first().await?).await?,
        };
        stream.set_nodelay(true)?;
        match &self.tls {
            None => Ok(Socket::Tcp(stream)),
            Some(tls) => Ok(Socket::Tls(Box::new(tls.connect(stream).await?))),
        }
    }
}

async fn any_of(addresses: &[SocketAddr]) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in addresses {
        match TcpStream::connect(address).await {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

//! Where a connection comes from, and how: the client's address, and what its TLS handshake said.
//! Knows nothing of what clients claim in header fields.

use std::net::SocketAddr;

use http::HeaderValue;

use super::view;
use crate::{
    engine::{address::Address, filter::Scheme},
    tls::ServerTls,
};

/// Of one connection.
#[derive(Debug)]
pub(super) struct Origin {
    peer: SocketAddr,
    /// The client's address without a port, for header fields.
    client: HeaderValue,
    address: Address,
    tls: Option<Secured>,
}

/// What a handshake agreed on.
#[derive(Debug)]
pub(super) struct Secured {
    /// By whose certificates.
    pub(super) tls: ServerTls,
    /// The host that the client named.
    pub(super) sni: Option<Box<str>>,
}

impl Origin {
    /// A connection without TLS.
    pub(super) fn plain(peer: SocketAddr) -> Self {
        Self::new(peer, None)
    }

    pub(super) fn new(peer: SocketAddr, tls: Option<Secured>) -> Self {
        let ip = peer.ip().to_canonical().to_string();
        let client = HeaderValue::from_str(&ip).unwrap_or_else(|_| HeaderValue::from_static("unknown"));
        Self { peer, client, address: view::address(peer.ip()), tls }
    }

    pub(super) fn peer(&self) -> SocketAddr {
        self.peer
    }

    pub(super) fn client(&self) -> &HeaderValue {
        &self.client
    }

    /// The client's address, as a number.
    pub(super) fn address(&self) -> Address {
        self.address
    }

    pub(super) fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    pub(super) fn scheme(&self) -> Scheme {
        if self.tls.is_some() { Scheme::Https } else { Scheme::Http }
    }

    /// Whether a request's host belongs to a connection with another certificate.
    pub(super) fn is_misdirected(&self, host: &str) -> bool {
        let Some(Secured { tls, sni: Some(sni) }) = &self.tls else { return false };
        tls.is_misdirected(sni, host)
    }
}

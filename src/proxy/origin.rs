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
    /// What every request of the connection says of it, up to its host.
    said: Box<[u8]>,
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
        let mut origin = Self { peer, client, said: Box::default(), address: view::address(peer.ip()), tls };
        origin.said = said(&origin.client, origin.scheme()).concat().into();
        origin
    }

    pub(super) fn peer(&self) -> SocketAddr {
        self.peer
    }

    pub(super) fn client(&self) -> &HeaderValue {
        &self.client
    }

    /// The field lines that tell an upstream where its requests come from, if nobody before is believed.
    pub(super) fn said(&self) -> &[u8] {
        &self.said
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

/// The field lines that tell an upstream where a request comes from; the last one wants the host.
pub(super) fn said(chain: &HeaderValue, scheme: Scheme) -> [&[u8]; 5] {
    let scheme = scheme.as_str().as_bytes();
    [b"x-forwarded-for: ", chain.as_bytes(), b"\r\nx-forwarded-proto: ", scheme, b"\r\nx-forwarded-host: "]
}

//! What comes before HTTP: a PROXY header, the TLS handshake, and the first bytes that tell HTTP/1 from HTTP/2 where the handshake did not.
//! Runs within the listener's header timeout, which the connection's sweep keeps.

use std::{
    future::poll_fn,
    io,
    mem::MaybeUninit,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Poll, ready},
};

use bytes::BytesMut;
use tokio::{
    io::{AsyncRead, ReadBuf},
    net::TcpStream,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use super::{
    connection::Conn,
    origin::{Origin, Secured},
    proxy_protocol,
    transport::Transport,
};
use crate::{measure::RefusedReason, tls::ServerTls};

/// What an HTTP/2 client sends first (RFC 9113 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Enough for most request heads to come in with the first read.
const FIRST_READ: usize = 4 * 1024;

/// A connection on which HTTP can begin.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) transport: Transport,
    /// What was read already.
    pub(super) unread: BytesMut,
    pub(super) is_http2: bool,
}

/// Opens a connection; none when the client left, or was refused.
pub(super) async fn open(conn: &Conn, mut stream: TcpStream) -> Option<Opened> {
    let peer =
        if conn.settings().proxy_protocol { Box::pin(introduced(conn, &mut stream)).await? } else { conn.peer() };
    let Some(tls) = conn.settings().tls.clone() else {
        conn.comes_from(Origin::plain(peer));
        return told_apart(conn, Transport::Plain(stream)).await;
    };
    // Boxed: plain connections must not be as large as a handshake.
    let stream = Box::pin(shake_hands(conn, &tls, stream)).await?;
    let session = stream.get_ref().1;
    let agreed = session.alpn_protocol().map(|protocol| protocol == b"h2");
    let sni = session.server_name().map(Box::from);
    conn.comes_from(Origin::new(peer, Some(Secured { tls, sni })));
    let transport = Transport::Tls(Box::new(stream));
    match agreed {
        Some(is_http2) => Some(Opened { transport, unread: BytesMut::new(), is_http2 }),
        None => told_apart(conn, transport).await,
    }
}

/// Who the client is, as the balancer in front says; the balancer itself where it speaks for itself.
async fn introduced(conn: &Conn, stream: &mut TcpStream) -> Option<SocketAddr> {
    match proxy_protocol::read(stream).await {
        Ok(client) => Some(client.unwrap_or_else(|| conn.peer())),
        Err(error) if error.kind() != io::ErrorKind::InvalidData => None,
        Err(error) => {
            conn.refuse(RefusedReason::ProxyHeader, &error.to_string());
            None
        }
    }
}

async fn shake_hands(conn: &Conn, tls: &ServerTls, stream: TcpStream) -> Option<TlsStream<TcpStream>> {
    conn.is_in_handshake(true);
    let shaken = TlsAcceptor::from(Arc::clone(tls.config())).accept(stream).await;
    conn.is_in_handshake(false);
    match shaken {
        Ok(stream) => Some(stream),
        // It left, as a probe of the port does.
        Err(error) if error.kind() != io::ErrorKind::InvalidData => None,
        Err(error) => {
            conn.refuse(RefusedReason::TlsHandshake, &error.to_string());
            None
        }
    }
}

/// Told by the first bytes, where the listener speaks both versions.
async fn told_apart(conn: &Conn, mut transport: Transport) -> Option<Opened> {
    let mut unread = BytesMut::new();
    let is_http2 = sniff(&mut transport, &mut unread).await.ok().flatten()?;
    let spoken = conn.settings().protocols;
    if if is_http2 { spoken.h2 } else { spoken.h1 } {
        return Some(Opened { transport, unread, is_http2 });
    }
    conn.refuse(RefusedReason::BadRequest, "a version of HTTP that this listener does not speak");
    None
}

/// Reads over the stack: what is kept of it is as long as what came, since a buffer for more, freed once the connection goes
/// on, leaves a hole beside everything that the connection keeps.
async fn first_read(stream: &mut (impl AsyncRead + Unpin), into: &mut BytesMut) -> io::Result<usize> {
    poll_fn(|cx| {
        let mut room = [const { MaybeUninit::uninit() }; FIRST_READ];
        let mut read = ReadBuf::uninit(&mut room);
        ready!(Pin::new(&mut *stream).poll_read(cx, &mut read))?;
        into.extend_from_slice(read.filled());
        Poll::Ready(Ok(read.filled().len()))
    })
    .await
}

/// Whether this is HTTP/2; none when the client left without a word.
async fn sniff(stream: &mut (impl AsyncRead + Unpin), unread: &mut BytesMut) -> io::Result<Option<bool>> {
    loop {
        if first_read(stream, unread).await? == 0 {
            return Ok(None);
        }
        let known = unread.len().min(PREFACE.len());
        if unread[..known] != PREFACE[..known] {
            return Ok(Some(false));
        }
        if known == PREFACE.len() {
            return Ok(Some(true));
        }
    }
}

//! Tunnels after a 101: bytes both ways until either side ends, is silent for too long, its version is drained, or the proxy
//! stops. Only what was forwarded as an upgrade becomes one, and only after the upstream's 101.

use std::{
    cell::Cell,
    io,
    pin::{Pin, pin},
    rc::Rc,
    task::{Context, Poll},
    time::Duration,
};

use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf, copy_bidirectional};

use super::{
    body::{ResponseBody, Text},
    connection::{Conn, StreamGuard},
    deadline::{Deadline, Ticks},
    headers, http1,
    long::Long,
    websocket::{self, Expected},
};

/// The client's side of a tunnel to be.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) client: OnUpgrade,
    /// It is a stream of HTTP/2, and a WebSocket.
    pub(super) socket: Option<Expected>,
}

impl Client {
    /// Whether the upstream's answer opens it.
    pub(super) fn accepts(&self, answer: &HeaderMap) -> bool {
        self.socket.as_ref().is_none_or(|expected| expected.is_met(answer))
    }
}

/// Passes the 101 on and joins both sides once hyper has let go of them.
pub(super) fn tunnel(
    conn: &Rc<Conn>,
    client: Client,
    mut response: Response<http1::Tunnel>,
    stream: StreamGuard,
    idle: Duration,
    long: Long,
) -> Response<ResponseBody> {
    let protocol = response.headers().get(header::UPGRADE).cloned();
    let mut answer = Response::new(ResponseBody::text(Text::Empty, stream));
    std::mem::swap(answer.headers_mut(), response.headers_mut());
    headers::for_client(answer.headers_mut());
    let upstream = response.into_body();
    let Client { client, socket } = client;
    if socket.is_some() {
        answer.headers_mut().remove(websocket::ACCEPT);
        join_stream(conn, client, upstream, idle, long);
        return answer;
    }
    *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    if let Some(protocol) = protocol {
        answer.headers_mut().insert(header::UPGRADE, protocol);
    }
    join_connection(conn, client, upstream, idle, long);
    answer
}

/// A connection of HTTP/1 that is a tunnel from now on: the sweep of connections sees its silence.
fn join_connection(conn: &Rc<Conn>, client: OnUpgrade, mut upstream: http1::Tunnel, idle: Duration, long: Long) {
    let tunnel = conn.begin_tunnel(idle);
    let owner = Rc::clone(conn);
    conn.worker().spawn_beside("a tunnel", async move {
        // hyper's own task listens for orders until it has let go.
        if let Ok(client) = client.await {
            let mut client = TokioIo::new(client);
            let joined = async {
                tokio::select! {
                    // How a tunnel ends is nobody's fault: its protocol is not ours.
                    _ended = copy_bidirectional(&mut client, &mut upstream) => {}
                    () = long.over() => {}
                }
            };
            let _ended = owner.unless_ended(pin!(joined)).await;
        }
        drop(tunnel);
    });
}

/// One stream of an HTTP/2 connection: it ends with that, or by its own silence.
fn join_stream(conn: &Rc<Conn>, client: OnUpgrade, mut upstream: http1::Tunnel, idle: Duration, long: Long) {
    let (stream, _) = conn.begin_request();
    let silence = Deadline::new(&conn.worker().ticks);
    conn.worker().spawn_beside("a tunnel", async move {
        if let Ok(client) = client.await {
            let moved = Rc::<Cell<bool>>::default();
            let mut client = Noted { io: TokioIo::new(client), moved: Rc::clone(&moved) };
            tokio::select! {
                _ended = copy_bidirectional(&mut client, &mut upstream) => {}
                () = long.over() => {}
                () = is_silent(&silence, idle, &moved) => {}
            }
        }
        drop(stream);
    });
}

/// Waits until nothing has moved for so long; seen up to twice as late.
async fn is_silent(silence: &Deadline, idle: Duration, moved: &Cell<bool>) {
    loop {
        silence.arm(idle);
        if Ticks::until(silence, pin!(std::future::pending::<()>())).await.is_none() && !moved.replace(false) {
            return;
        }
    }
}

/// A side that says when bytes have passed.
struct Noted {
    io: TokioIo<Upgraded>,
    moved: Rc<Cell<bool>>,
}

impl AsyncRead for Noted {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.io).poll_read(cx, buf);
        this.moved.set(this.moved.get() || polled.is_ready());
        polled
    }
}

impl AsyncWrite for Noted {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.io).poll_write(cx, buf);
        this.moved.set(this.moved.get() || polled.is_ready());
        polled
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_shutdown(cx)
    }
}

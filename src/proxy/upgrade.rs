//! Tunnels after a 101: bytes both ways until either side ends, is silent for too long, or the proxy stops.
//! Only what was forwarded as an upgrade becomes one, and only after the upstream's 101.

use std::{pin::pin, rc::Rc, time::Duration};

use http::{HeaderValue, Response, StatusCode, header};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::{io::copy_bidirectional, task::spawn_local};

use super::{
    body::{ResponseBody, Text},
    connection::{Conn, StreamGuard},
    headers, http1,
};

/// Passes the 101 on and joins both sides once hyper has let go of them.
pub(super) fn tunnel(
    conn: &Rc<Conn>,
    client: OnUpgrade,
    mut response: Response<http1::Tunnel>,
    stream: StreamGuard,
    idle: Duration,
) -> Response<ResponseBody> {
    let protocol = response.headers().get(header::UPGRADE).cloned();
    let mut answer = Response::new(ResponseBody::text(Text::Empty, stream));
    *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    std::mem::swap(answer.headers_mut(), response.headers_mut());
    headers::for_client(answer.headers_mut());
    answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    if let Some(protocol) = protocol {
        answer.headers_mut().insert(header::UPGRADE, protocol);
    }
    let mut upstream = response.into_body();
    let tunnel = conn.begin_tunnel(idle);
    let owner = Rc::clone(conn);
    spawn_local(async move {
        // hyper's own task listens for orders until it has let go.
        if let Ok(client) = client.await {
            let mut client = TokioIo::new(client);
            // How a tunnel ends is nobody's fault: its protocol is not ours.
            let _ended = owner.unless_ended(pin!(copy_bidirectional(&mut client, &mut upstream))).await;
        }
        drop(tunnel);
    });
    answer
}

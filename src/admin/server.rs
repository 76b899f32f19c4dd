//! Connections of the admin listener: bounded in number and in how long they may dawdle. Knows no route.

use std::{future::Future, net::IpAddr, sync::Arc, time::Duration};

use axum::Router;
use hyper::{
    Request,
    body::Incoming,
    server::conn::http1,
    service::{Service as _, service_fn},
};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream, UnixListener, UnixStream},
    sync::{Semaphore, watch},
};

use super::{CONNECTIONS_MAX, failures::Peer};

/// From the first awaited byte to a whole request head.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// How long answers in progress may take once the process goes down.
const FAREWELL: Duration = Duration::from_secs(5);
/// After a failed accept (no file descriptors left), so that the loop does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Where connections come in.
#[derive(Debug)]
pub enum Door {
    /// By a port.
    Tcp(TcpListener),
    /// By a Unix socket: whoever may open it.
    Unix(UnixListener),
}

/// What came in.
enum Came {
    Tcp(TcpStream, IpAddr),
    Unix(UnixStream),
}

impl Door {
    async fn accept(&self) -> std::io::Result<Came> {
        match self {
            Self::Tcp(listener) => {
                let (stream, from) = listener.accept().await?;
                // Small answers must not wait for the peer's acknowledgement; a socket that cannot do it still works.
                let _ = stream.set_nodelay(true);
                Ok(Came::Tcp(stream, from.ip()))
            }
            Self::Unix(listener) => Ok(Came::Unix(listener.accept().await?.0)),
        }
    }
}

pub(super) async fn serve(
    door: Door,
    router: Router,
    shutdown: impl Future<Output = ()> + Send,
    going_down: watch::Sender<bool>,
    closing: watch::Receiver<bool>,
) -> std::io::Result<()> {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut shutdown = std::pin::pin!(shutdown);
    loop {
        let accepted = async {
            // A place first: when all are taken, newcomers wait in the kernel's queue.
            let place = Arc::clone(&places).acquire_owned().await;
            (door.accept().await, place)
        };
        let (accepted, place) = tokio::select! {
            accepted = accepted => accepted,
            () = &mut shutdown => break,
        };
        match accepted {
            Ok(came) => {
                let (router, closing) = (router.clone(), closing.clone());
                tokio::spawn(async move {
                    match came {
                        Came::Tcp(stream, from) => connection(stream, Peer::Ip(from), router, closing).await,
                        Came::Unix(stream) => connection(stream, Peer::Local, router, closing).await,
                    }
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "the admin listener could not accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(door);
    going_down.send_replace(true);
    let all = u32::try_from(CONNECTIONS_MAX).unwrap_or(u32::MAX);
    // Whoever is not done by then is cut off with the process.
    let _ = tokio::time::timeout(FAREWELL, places.acquire_many(all)).await;
    Ok(())
}

async fn connection(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    peer: Peer,
    router: Router,
    mut closing: watch::Receiver<bool>,
) {
    let answers = TowerToHyperService::new(router);
    let answers = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(peer);
        answers.call(request)
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(64 * 1024)
        .serve_connection(TokioIo::new(stream), answers);
    let mut served = std::pin::pin!(served);
    // How a client's connection ended is the client's business.
    tokio::select! {
        _ = &mut served => {}
        () = closed(&mut closing) => {
            served.as_mut().graceful_shutdown();
            let _ = served.await;
        }
    }
}

/// Ready once the process goes down.
pub(super) async fn closed(closing: &mut watch::Receiver<bool>) {
    // Without a sender there is nobody left to wait for.
    let _ = closing.wait_for(|closing| *closing).await;
}

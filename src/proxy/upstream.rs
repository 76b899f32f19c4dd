//! A response body over either protocol, with what it came over: the end of the body gives the connection back to its
//! pool, anything else closes it. Also how an attempt at an upstream fails.

use std::{
    error::Error as StdError,
    fmt,
    future::poll_fn,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http_body::{Body as _, Frame, SizeHint};
use tokio::{task::spawn_local, time::timeout};

use super::{
    body::RequestBody,
    http1,
    pool::{Pool, Stream},
};

/// An upstream that did not do its part.
#[derive(Debug)]
pub(super) enum UpstreamError {
    Http1(http1::Error),
    Http2(hyper::Error),
}

impl fmt::Display for UpstreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Http1(error) => error.fmt(f),
            Self::Http2(error) => error.fmt(f),
        }
    }
}

impl StdError for UpstreamError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Http1(error) => error.source(),
            Self::Http2(error) => error.source(),
        }
    }
}

/// An attempt without a response head.
#[derive(Debug)]
pub(super) struct Unanswered {
    pub(super) error: UpstreamError,
    /// The request's body, when the upstream cannot have seen anything of the request.
    pub(super) unsent: Option<RequestBody>,
}

/// A response body.
#[derive(Debug)]
pub(super) enum UpstreamBody {
    Http1 { incoming: http1::Incoming, pool: Rc<Pool> },
    Http2 { incoming: hyper::body::Incoming, stream: Option<Stream> },
}

impl UpstreamBody {
    /// The next piece or the trailers; none at the end.
    pub(super) fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, UpstreamError>>> {
        match self {
            Self::Http1 { incoming, .. } => incoming.poll_frame(cx).map_err(UpstreamError::Http1),
            Self::Http2 { incoming, .. } => Pin::new(incoming).poll_frame(cx).map_err(UpstreamError::Http2),
        }
    }

    /// Whether the body is whole: nothing comes any more.
    pub(super) fn is_end_stream(&self) -> bool {
        match self {
            Self::Http1 { incoming, .. } => incoming.is_end_stream(),
            Self::Http2 { incoming, .. } => incoming.is_end_stream(),
        }
    }

    pub(super) fn size_hint(&self) -> SizeHint {
        match self {
            Self::Http1 { incoming, .. } => incoming.size_hint(),
            Self::Http2 { incoming, .. } => incoming.size_hint(),
        }
    }

    /// The body has ended: what it came over may serve another request, if it can.
    pub(super) fn give_back(&mut self) {
        match self {
            Self::Http1 { incoming, pool } => {
                if let Some(connection) = incoming.take_connection() {
                    pool.put_back(connection);
                }
            }
            Self::Http2 { stream, .. } => *stream = None,
        }
    }

    /// The body is not wanted any more.
    pub(super) fn abandon(&mut self) {
        match self {
            Self::Http1 { incoming, .. } => incoming.abandon(),
            Self::Http2 { stream, .. } => *stream = None,
        }
    }

    /// The body is wanted by nobody: if it is here already, or comes soon and is small, the connection is kept.
    pub(super) fn discard(mut self) {
        const SMALL: u64 = 64 * 1024;
        if self.is_end_stream() {
            return self.give_back();
        }
        if self.size_hint().upper().is_none_or(|bytes| bytes > SMALL) {
            return self.abandon();
        }
        spawn_local(async move {
            let whole = async { while let Some(Ok(_)) = poll_fn(|cx| self.poll_frame(cx)).await {} };
            if timeout(Duration::from_secs(1), whole).await.is_ok() && self.is_end_stream() {
                self.give_back();
            }
        });
    }

    /// The bare socket after a 101; none where there is no such thing.
    pub(super) fn into_tunnel(self) -> Option<http1::Tunnel> {
        match self {
            Self::Http1 { incoming, .. } => incoming.into_tunnel(),
            Self::Http2 { .. } => None,
        }
    }
}

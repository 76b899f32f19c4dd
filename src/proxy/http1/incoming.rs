//! A response body as it comes from the socket, read by whoever wants its next piece. It owns the connection until it has
//! ended; what is still to be written of the request goes out on the side.

use std::{
    cell::{Cell, RefCell},
    future::poll_fn,
    io::Cursor,
    rc::Rc,
    task::{Context, Poll, Waker},
};

use bytes::{Bytes, BytesMut};
use http::Response;
use http_body::{Frame, SizeHint};
use tokio::{
    io::{AsyncReadExt, Chain, Join, join},
    task::{AbortHandle, spawn_local},
};

use super::{
    super::socket::{ReadHalf, WriteHalf},
    Connection, Error, Reader, Sending, Writer,
    decode::{Decoder, Step},
    request::Upload,
    response::Head,
};

/// Both halves of a socket, with what was read already.
pub(in crate::proxy) type Tunnel = Join<Chain<Cursor<BytesMut>, ReadHalf>, WriteHalf>;

/// A response body.
#[derive(Debug)]
pub(in crate::proxy) struct Incoming {
    body: Decoder,
    keeps_alive: bool,
    /// Until the body has ended, one way or the other.
    link: Option<Link>,
}

#[derive(Debug)]
struct Link {
    reader: Box<Reader>,
    request: Request,
}

/// The request that this is the response to.
#[derive(Debug)]
enum Request {
    /// The socket is kept open for writing even if nothing more is written: to some servers its end is the client's.
    Held {
        writer: Box<Writer>,
        is_whole: bool,
    },
    OnTheSide(Aside),
}

/// A task that writes the rest of a request whose response came early. Dropping this ends it.
#[derive(Debug)]
struct Aside {
    shared: Rc<Shared>,
    task: AbortHandle,
}

#[derive(Debug, Default)]
struct Shared {
    written: RefCell<Option<Box<Writer>>>,
    /// The request's body failed.
    failed: Cell<bool>,
    waiting: RefCell<Option<Waker>>,
}

impl Drop for Aside {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Incoming {
    pub(super) fn over(reader: Box<Reader>, upload: Upload, sending: &Sending, head: Head) -> Response<Self> {
        let request = match sending {
            Sending::Done => Request::Held { writer: upload.into_writer(), is_whole: true },
            Sending::Failed(_) => Request::Held { writer: upload.into_writer(), is_whole: false },
            // The upstream has answered without the body that it could have asked for.
            Sending::Now if upload.waits_for_continue() => {
                Request::Held { writer: upload.into_writer(), is_whole: false }
            }
            Sending::Now => Request::OnTheSide(Aside::spawn(upload)),
        };
        let Head { response, body, keeps_alive } = head;
        response.map(|()| Self { body, keeps_alive, link: Some(Link { reader, request }) })
    }

    /// The next piece or the trailers; none at the end.
    pub(in crate::proxy) fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let Some(link) = &mut self.link else { return Poll::Ready(None) };
        loop {
            match self.body.step(&mut link.reader.bytes) {
                Ok(Step::Piece(piece)) => return Poll::Ready(Some(Ok(Frame::data(piece)))),
                Ok(Step::Trailers(trailers)) => return Poll::Ready(Some(Ok(Frame::trailers(trailers)))),
                Ok(Step::End) => return Poll::Ready(None),
                Ok(Step::More) => {}
                Err(malformed) => return self.fail(malformed.into()),
            }
            if let Request::OnTheSide(aside) = &link.request
                && aside.has_failed(cx)
            {
                return self.fail(Error::RequestBody);
            }
            match link.reader.poll_read(cx) {
                Poll::Ready(Ok(0)) if matches!(self.body, Decoder::UntilClose) => {
                    self.body = Decoder::Length(0);
                    return Poll::Ready(None);
                }
                Poll::Ready(Ok(0)) => return self.fail(Error::Closed),
                Poll::Ready(Ok(_)) => {}
                Poll::Ready(Err(error)) => return self.fail(error.into()),
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// Nothing more comes of it.
    fn fail(&mut self, error: Error) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        self.link = None;
        Poll::Ready(Some(Err(error)))
    }

    /// Whether the body is whole: nothing comes any more.
    pub(in crate::proxy) fn is_end_stream(&self) -> bool {
        self.body.has_ended()
    }

    pub(in crate::proxy) fn size_hint(&self) -> SizeHint {
        match self.body {
            Decoder::Length(left) => SizeHint::with_exact(left),
            Decoder::Chunked(_) | Decoder::UntilClose => SizeHint::default(),
        }
    }

    /// The connection, if it may serve another request: both messages have ended where they said, and both sides want it.
    pub(in crate::proxy) fn take_connection(&mut self) -> Option<Connection> {
        if !self.body.has_ended() {
            return None;
        }
        let Link { mut reader, request } = self.link.take()?;
        let writer = match request {
            Request::Held { writer, is_whole: true } => writer,
            Request::Held { .. } => return None,
            Request::OnTheSide(aside) => aside.shared.written.take()?,
        };
        reader.shrink();
        let mut connection = Connection { reader, writer };
        (self.keeps_alive && connection.is_quiet()).then_some(connection)
    }

    /// The bare socket after a 101; none if the request was not whole.
    pub(in crate::proxy) fn into_tunnel(self) -> Option<Tunnel> {
        let Link { reader, request } = self.link?;
        let Request::Held { writer, is_whole: true } = request else { return None };
        Some(join(Cursor::new(reader.bytes).chain(reader.socket), writer.socket))
    }

    /// Gives up, and closes the connection.
    pub(in crate::proxy) fn abandon(&mut self) {
        self.link = None;
    }
}

impl Aside {
    fn spawn(mut upload: Upload) -> Self {
        let shared = Rc::<Shared>::default();
        let told = Rc::clone(&shared);
        let task = spawn_local(async move {
            match poll_fn(|cx| upload.poll(cx)).await {
                Ok(()) => *told.written.borrow_mut() = Some(upload.into_writer()),
                Err(Error::RequestBody) => {
                    told.failed.set(true);
                    told.waiting.take().map(Waker::wake).unwrap_or_default();
                }
                // The upstream takes no more of it, and may go on answering.
                Err(_) => {}
            }
        });
        Self { shared, task: task.abort_handle() }
    }

    /// Whether the request's body failed; the task is woken when it does.
    fn has_failed(&self, cx: &Context<'_>) -> bool {
        let waiting = &mut *self.shared.waiting.borrow_mut();
        if !waiting.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            *waiting = Some(cx.waker().clone());
        }
        self.shared.failed.get()
    }
}

//! A socket to an upstream: TCP, a Unix socket, or TLS over TCP, whole or as two halves.

use std::{
    fmt,
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll, Waker},
};

use tokio::{
    io::{self as tokio_io, AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpStream, UnixStream, tcp, unix},
};
use tokio_rustls::client::TlsStream;

/// A connected socket.
#[derive(Debug)]
pub(super) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// The half to read from.
pub(in crate::proxy) enum ReadHalf {
    Tcp(tcp::OwnedReadHalf),
    Unix(unix::OwnedReadHalf),
    Tls(tokio_io::ReadHalf<Box<TlsStream<TcpStream>>>),
}

/// The half to write to.
pub(in crate::proxy) enum WriteHalf {
    Tcp(tcp::OwnedWriteHalf),
    Unix(unix::OwnedWriteHalf),
    Tls(tokio_io::WriteHalf<Box<TlsStream<TcpStream>>>),
}

impl Socket {
    /// Whether TLS agreed on HTTP/2.
    pub(super) fn agreed_on_h2(&self) -> bool {
        match self {
            Self::Tcp(_) | Self::Unix(_) => false,
            Self::Tls(stream) => stream.get_ref().1.alpn_protocol() == Some(b"h2"),
        }
    }

    pub(super) fn into_split(self) -> (ReadHalf, WriteHalf) {
        match self {
            Self::Tcp(stream) => {
                let (read, write) = stream.into_split();
                (ReadHalf::Tcp(read), WriteHalf::Tcp(write))
            }
            Self::Unix(stream) => {
                let (read, write) = stream.into_split();
                (ReadHalf::Unix(read), WriteHalf::Unix(write))
            }
            Self::Tls(stream) => {
                let (read, write) = tokio_io::split(stream);
                (ReadHalf::Tls(read), WriteHalf::Tls(write))
            }
        }
    }
}

impl ReadHalf {
    /// Whether the other side left it open and sent nothing, as far as the last look at the socket told: this costs no
    /// system call. What TLS sends for itself, such as tickets, is taken in.
    pub(super) fn is_quiet(&mut self) -> bool {
        self.take_one().is_none()
    }

    /// Whether the other side has sent something, looked at as for [`Self::is_quiet`].
    pub(super) fn has_spoken(&mut self) -> bool {
        matches!(self.take_one(), Some(Ok(1..)))
    }

    /// Reads a byte, which is lost: 0 at the end, none if there is nothing.
    fn take_one(&mut self) -> Option<io::Result<usize>> {
        let mut byte = [0];
        let read = match self {
            Self::Tcp(socket) => socket.try_read(&mut byte),
            Self::Unix(socket) => socket.try_read(&mut byte),
            Self::Tls(socket) => {
                // Whoever waits for it next says so again.
                let mut cx = Context::from_waker(Waker::noop());
                let mut to = ReadBuf::new(&mut byte);
                return match Pin::new(socket).poll_read(&mut cx, &mut to) {
                    Poll::Pending => None,
                    Poll::Ready(read) => Some(read.map(|()| to.filled().len())),
                };
            }
        };
        Some(read).filter(|read| !read.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock))
    }
}

impl fmt::Debug for ReadHalf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadHalf").finish_non_exhaustive()
    }
}

impl fmt::Debug for WriteHalf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriteHalf").finish_non_exhaustive()
    }
}

macro_rules! each {
    ($self:expr, $socket:ident => $call:expr) => {
        match $self.get_mut() {
            Self::Tcp($socket) => $call,
            Self::Unix($socket) => $call,
            Self::Tls($socket) => $call,
        }
    };
}

macro_rules! reads {
    ($($kind:ty),+) => {$(
        impl AsyncRead for $kind {
            fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, to: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
                each!(self, socket => Pin::new(socket).poll_read(cx, to))
            }
        }
    )+};
}

macro_rules! writes {
    ($($kind:ty),+) => {$(
        impl AsyncWrite for $kind {
            fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
                each!(self, socket => Pin::new(socket).poll_write(cx, bytes))
            }

            fn poll_write_vectored(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                pieces: &[IoSlice<'_>],
            ) -> Poll<io::Result<usize>> {
                each!(self, socket => Pin::new(socket).poll_write_vectored(cx, pieces))
            }

            fn is_write_vectored(&self) -> bool {
                match self {
                    Self::Tcp(socket) => socket.is_write_vectored(),
                    Self::Unix(socket) => socket.is_write_vectored(),
                    Self::Tls(socket) => socket.is_write_vectored(),
                }
            }

            fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                each!(self, socket => Pin::new(socket).poll_flush(cx))
            }

            fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                each!(self, socket => Pin::new(socket).poll_shutdown(cx))
            }
        }
    )+};
}

reads!(Socket, ReadHalf);
writes!(Socket, WriteHalf);

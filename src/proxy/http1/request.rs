//! A request on its way out (RFC 9112 3, 6, 7): the head and the first piece of the body leave in one write, the rest
//! as it comes and as fast as the socket takes it. Framing is made here, and nothing else says it.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::{Buf, Bytes};
use http::{HeaderMap, header, request::Parts};
use http_body::Body as _;
use tokio::io::AsyncWrite;

use super::{super::body::RequestBody, Error, RequestHead, Writer};

const CHUNK_END: &[u8] = b"\r\n";
const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// How the body says where it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Framing {
    None,
    /// So many bytes are still to be written.
    Length(u64),
    Chunked,
}

/// A request that is being written.
#[derive(Debug)]
pub(super) struct Upload {
    writer: Box<Writer>,
    /// How much of the writer's lines has been written.
    lines_written: usize,
    piece: Bytes,
    /// What follows the piece.
    end: &'static [u8],
    body: RequestBody,
    framing: Framing,
    stage: Stage,
    has_begun: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Nothing has been taken from the body.
    Untouched,
    Body,
    /// All of the body is in the buffers.
    Whole,
}

impl Upload {
    pub(super) fn new(mut writer: Box<Writer>, request: RequestHead<'_>, body: RequestBody) -> Self {
        let framing = framing(request.head, &body);
        writer.lines.clear();
        write_head(&mut writer.lines, request, framing);
        let stage = if framing == Framing::None { Stage::Whole } else { Stage::Untouched };
        let (piece, end) = (Bytes::new(), &b""[..]);
        Self { writer, lines_written: 0, piece, end, body, framing, stage, has_begun: false }
    }

    /// Whether the socket has taken anything.
    pub(super) fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// The upstream asks for the body.
    pub(super) fn continues(&mut self) {
        self.body.continues();
    }

    pub(super) fn waits_for_continue(&self) -> bool {
        self.body.waits_for_continue()
    }

    /// The body, if nothing has been taken from it and nothing has been written.
    pub(super) fn unsent(self) -> Option<RequestBody> {
        let untouched = self.stage == Stage::Untouched || self.framing == Framing::None;
        (untouched && !self.has_begun).then_some(self.body)
    }

    /// The half to write to, once all has been written.
    #[expect(clippy::unnecessary_box_returns, reason = "it came in that box")]
    pub(super) fn into_writer(self) -> Box<Writer> {
        self.writer
    }

    /// Writes on; ready when all has been written.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        loop {
            while self.stage != Stage::Whole && self.piece.is_empty() && self.end.is_empty() {
                match Pin::new(&mut self.body).poll_frame(cx) {
                    Poll::Ready(Some(Ok(frame))) => {
                        self.stage = Stage::Body;
                        match frame.into_data() {
                            Ok(data) => self.queue(data)?,
                            Err(frame) => self.finish(frame.into_trailers().ok())?,
                        }
                    }
                    Poll::Ready(Some(Err(_))) => return Poll::Ready(Err(Error::RequestBody)),
                    Poll::Ready(None) => self.finish(None)?,
                    Poll::Pending => break,
                }
            }
            if self.is_flushed() {
                return if self.stage == Stage::Whole { Poll::Ready(Ok(())) } else { Poll::Pending };
            }
            ready!(self.poll_write(cx))?;
        }
    }

    fn queue(&mut self, data: Bytes) -> Result<(), Error> {
        if data.is_empty() {
            return Ok(()); // As a chunk it would be the end.
        }
        match &mut self.framing {
            Framing::None => return Err(Error::RequestBody),
            Framing::Length(left) => {
                // hyper and h2 hold clients to their lengths; a piece too much would be the next request.
                *left = left.checked_sub(data.len() as u64).ok_or(Error::RequestBody)?;
            }
            Framing::Chunked => {
                self.drop_written_lines();
                write_chunk_size(&mut self.writer.lines, data.len());
                self.end = CHUNK_END;
            }
        }
        self.piece = data;
        Ok(())
    }

    fn finish(&mut self, trailers: Option<HeaderMap>) -> Result<(), Error> {
        self.stage = Stage::Whole;
        match self.framing {
            Framing::None | Framing::Length(0) => {}
            Framing::Length(_) => return Err(Error::RequestBody),
            Framing::Chunked => {
                let Some(trailers) = trailers.filter(|trailers| !trailers.is_empty()) else {
                    self.end = LAST_CHUNK;
                    return Ok(());
                };
                self.drop_written_lines();
                self.writer.lines.extend_from_slice(b"0\r\n");
                for (name, value) in &trailers {
                    write_field(&mut self.writer.lines, name.as_str().as_bytes(), value.as_bytes());
                }
                self.writer.lines.extend_from_slice(b"\r\n");
            }
        }
        Ok(())
    }

    fn drop_written_lines(&mut self) {
        if self.lines_written == self.writer.lines.len() {
            self.writer.lines.clear();
            self.lines_written = 0;
        }
    }

    fn is_flushed(&self) -> bool {
        self.lines_written == self.writer.lines.len() && self.piece.is_empty() && self.end.is_empty()
    }

    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let lines = self.writer.lines.get(self.lines_written..).unwrap_or_default();
        let socket = Pin::new(&mut self.writer.socket);
        let mut written = if self.piece.is_empty() && self.end.is_empty() {
            ready!(socket.poll_write(cx, lines))?
        } else {
            let buffers = [IoSlice::new(lines), IoSlice::new(&self.piece), IoSlice::new(self.end)];
            ready!(socket.poll_write_vectored(cx, &buffers))?
        };
        if written == 0 {
            return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
        }
        self.has_begun = true;
        let of_lines = written.min(lines.len());
        self.lines_written += of_lines;
        written -= of_lines;
        let of_piece = written.min(self.piece.len());
        if of_piece == self.piece.len() {
            self.piece = Bytes::new(); // Whoever made it may use its memory again.
        } else {
            self.piece.advance(of_piece);
        }
        self.end = self.end.get(written - of_piece..).unwrap_or_default();
        Poll::Ready(Ok(()))
    }
}

/// What the head says about the body: the client's length if there is one, which hyper and h2 have checked.
fn framing(head: &Parts, body: &RequestBody) -> Framing {
    if body.is_none() {
        return Framing::None;
    }
    let length = head.headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    length.map_or(Framing::Chunked, Framing::Length)
}

fn write_head(out: &mut Vec<u8>, request: RequestHead<'_>, framing: Framing) {
    let RequestHead { head, hop, endpoint } = request;
    out.extend_from_slice(head.method.as_str().as_bytes());
    out.push(b' ');
    let target = head.uri.path_and_query().map_or("/", |target| target.as_str());
    if !target.starts_with(['/', '*']) {
        out.push(b'/');
    }
    out.extend_from_slice(target.as_bytes());
    out.extend_from_slice(b" HTTP/1.1\r\n");
    let mut has_host = false;
    for (name, value) in &head.headers {
        match *name {
            header::CONTENT_LENGTH | header::TRANSFER_ENCODING => continue,
            header::EXPECT if framing == Framing::None => continue,
            header::HOST => has_host = true,
            _ => {}
        }
        write_field(out, name.as_str().as_bytes(), value.as_bytes());
    }
    // Only a client of HTTP/1.0 comes without.
    if !has_host {
        write_field(out, b"host", endpoint.authority().as_bytes());
    }
    if hop.takes_trailers {
        write_field(out, b"te", b"trailers");
    }
    if let Some(protocol) = &hop.upgrade {
        write_field(out, b"upgrade", protocol.as_bytes());
        write_field(out, b"connection", b"upgrade");
    } else if hop.takes_trailers {
        write_field(out, b"connection", b"te");
    }
    match framing {
        Framing::None if head.headers.contains_key(header::CONTENT_LENGTH) => {
            write_field(out, b"content-length", b"0");
        }
        Framing::None => {}
        Framing::Length(length) => write_field(out, b"content-length", length.to_string().as_bytes()),
        Framing::Chunked => write_field(out, b"transfer-encoding", b"chunked"),
    }
    out.extend_from_slice(b"\r\n");
}

fn write_field(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

fn write_chunk_size(out: &mut Vec<u8>, size: usize) {
    use io::Write as _;
    // Writing to a Vec does not fail.
    drop(write!(out, "{size:x}\r\n"));
}

#[cfg(test)]
mod tests {
    use http::{HeaderValue, Request};

    use super::*;
    use crate::{engine::endpoint::Endpoint, proxy::headers::Hop};

    fn written(method: &str, uri: &str, fields: &[(&str, &str)], hop: &Hop, framing: Framing) -> String {
        let mut request = Request::builder().method(method).uri(uri);
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        let (head, ()) = request.body(()).unwrap().into_parts();
        let endpoint = Endpoint::tcp("::1", 80);
        let mut out = Vec::new();
        write_head(&mut out, RequestHead { head: &head, hop, endpoint: &endpoint }, framing);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_head_says_its_framing_once_and_as_we_mean_it() {
        let host = ("host", "a.example");
        let none = Hop::default();
        let both = [host, ("content-length", "007"), ("transfer-encoding", "gzip"), ("expect", "100-continue")];
        assert_eq!(
            written("PUT", "/p?q", &both, &none, Framing::Length(7)),
            "PUT /p?q HTTP/1.1\r\nhost: a.example\r\nexpect: 100-continue\r\ncontent-length: 7\r\n\r\n"
        );
        assert_eq!(
            written("PUT", "/", &both[..1], &none, Framing::Chunked),
            "PUT / HTTP/1.1\r\nhost: a.example\r\ntransfer-encoding: chunked\r\n\r\n"
        );
        assert_eq!(
            written("POST", "/", &both, &none, Framing::None),
            "POST / HTTP/1.1\r\nhost: a.example\r\ncontent-length: 0\r\n\r\n"
        );
        assert_eq!(written("GET", "/", &[host], &none, Framing::None), "GET / HTTP/1.1\r\nhost: a.example\r\n\r\n");
    }

    #[test]
    fn the_target_is_origin_form_and_the_hop_is_our_own() {
        let none = Hop::default();
        for (uri, target) in [("*", "*"), ("/", "/"), ("http://b.example", "/"), ("http://b.example?q", "/?q")] {
            let head = written("OPTIONS", uri, &[], &none, Framing::None);
            assert_eq!(head, format!("OPTIONS {target} HTTP/1.1\r\nhost: [::1]:80\r\n\r\n"));
        }
        let te = Hop { upgrade: None, takes_trailers: true };
        let head = written("GET", "/", &[("host", "a")], &te, Framing::None);
        assert_eq!(head, "GET / HTTP/1.1\r\nhost: a\r\nte: trailers\r\nconnection: te\r\n\r\n");
        let upgrade = Hop { upgrade: Some(HeaderValue::from_static("websocket")), takes_trailers: false };
        let head = written("GET", "/", &[("host", "a")], &upgrade, Framing::None);
        assert_eq!(head, "GET / HTTP/1.1\r\nhost: a\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n");
    }
}

//! A request head in, the head for the upstream out, in one pass over its fields and without a map of them. Says what the
//! ordinary path would say, field by field, or leaves the request to it: never refuses, never repairs.

use std::{io::Write as _, rc::Rc};

use http::{HeaderMap, HeaderName, HeaderValue, Method};

use super::{
    super::{
        Limits,
        access::{self, Asked, Note, REQUEST_ID},
        believe::Whence,
        check,
        connection::Conn,
        edit, headers, http1,
        origin::{self, Origin},
        view,
    },
    field::{self, Part},
    scan::{self, Field, Passage, Step, Value, line_end, put, write_own},
    spare::SMALL,
    understand::Scope,
};
use crate::{
    engine::{
        address::Address,
        failure::IdempotentMethod,
        filter::{HeaderEdits, Scheme},
        request::RequestView,
    },
    measure::FastPathOutcome,
};

/// Most fields of a head; as in the ordinary path.
const FIELDS_MAX: usize = 100;

/// Whether requests are logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Logged {
    Yes,
    No,
}

/// A request whose head is whole, and what it asks beside being passed on.
#[derive(Debug)]
pub(super) struct Request {
    /// Bytes of its head.
    pub(super) head: usize,
    /// Bytes of its body, behind the head.
    pub(super) body: usize,
    line: FirstLine,
    seen: Seen,
}

impl Request {
    /// All its bytes.
    pub(super) fn whole(&self) -> usize {
        self.head + self.body
    }

    pub(super) fn is_head(&self) -> bool {
        self.line.method == Method::HEAD
    }

    /// If it is one that may be sent twice.
    pub(super) fn idempotent(&self) -> Option<IdempotentMethod> {
        self.line.idempotent
    }

    /// Whether the client takes no further answer on this connection.
    pub(super) fn closes(&self) -> bool {
        self.seen.closes
    }

    /// The request as rules look at it, with the fields that they look at.
    pub(super) fn view<'r>(
        &'r self,
        bytes: &'r [u8],
        fields: &'r HeaderMap,
        scheme: Scheme,
        client: Address,
    ) -> RequestView<'r> {
        let text = |bytes| std::str::from_utf8(bytes).unwrap_or_default();
        let target = text(&bytes[self.line.target.0..self.line.target.1]);
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let (host, port) = view::host_and_port(text(self.host(bytes)));
        RequestView { scheme, method: &self.line.method, host, port, path, query, headers: fields, client }
    }

    fn host<'b>(&self, bytes: &'b [u8]) -> &'b [u8] {
        self.seen.host.map(|host| host.of(bytes)).unwrap_or_default()
    }

    /// A note for the access log, if there is one.
    pub(super) fn note(&self, conn: &Conn, bytes: &[u8], view: &RequestView<'_>) -> Option<Rc<Note>> {
        let host = std::str::from_utf8(self.host(bytes)).unwrap_or_default();
        let (path, fields, bytes_in) = (view.path, view.headers, self.seen.length);
        Note::of(conn, &Asked { protocol: "HTTP/1.1", method: view.method, host, path, fields, bytes_in })
    }

    /// Writes what the proxy says itself, and the end.
    pub(super) fn finish(&self, bytes: &[u8], origin: &Origin, believed: Option<&Whence>, out: &mut Vec<u8>) {
        let host = believed.and_then(|whence| whence.host.as_ref()).map_or(self.host(bytes), HeaderValue::as_bytes);
        match believed {
            Some(Whence { chain, scheme, .. }) => put(out, &origin::said(chain, *scheme)),
            None => put(out, &[origin.said()]),
        }
        put(out, &[host, b"\r\nvia: 1.1 serin\r\n"]);
        if let Some(length) = self.seen.length {
            // Writing to a Vec does not fail.
            drop(write!(out, "content-length: {length}\r\n"));
        }
        put(out, &[b"\r\n"]);
    }
}

/// Reads the request at the front of `bytes` and writes what passes of its head into `out`; the fields that rules look at
/// go into `fields` as well. Hidden are fields that mean nothing to the proxy. None while its head is not whole; its body may not be. The names of its fields are left in lower
/// case.
///
/// # Errors
/// Why it is left to the ordinary path.
pub(super) fn read(
    bytes: &mut [u8],
    limits: &Limits,
    scope: &Scope,
    log: Logged,
    fields: &mut HeaderMap,
    out: &mut Vec<u8>,
    is_hidden: impl Fn(&[u8]) -> bool,
) -> Result<Option<Request>, FastPathOutcome> {
    let Some(line) = first_line(bytes)? else { return Ok(None) };
    let mut seen = Seen::default();
    let mut passage = Passage::new(0);
    let (mut at, mut count) = (line.length, 0);
    let head = loop {
        let field = match scan::step(bytes, at) {
            Step::Field(field) => field,
            Step::End(end) => break end,
            Step::Partial => return Ok(None),
            Step::Malformed => return Err(FastPathOutcome::Malformed),
        };
        at = field.end();
        count += 1;
        if count > limits.headers.min(FIELDS_MAX) {
            return Err(FastPathOutcome::Size);
        }
        let name = field.name(bytes);
        let is_logged = log == Logged::Yes && access::is_logged(name);
        if is_logged || scope.looks_at(name) {
            let (name, value) = (HeaderName::from_bytes(name), HeaderValue::from_bytes(field.value().of(bytes)));
            let (Ok(name), Ok(value)) = (name, value) else { return Err(FastPathOutcome::Malformed) };
            fields.append(name, value);
        }
        // The upstream gets an id that we say.
        let is_said = is_logged && name == REQUEST_ID.as_str().as_bytes();
        let part = field::part_of(name);
        if is_said || is_hidden(name) {
            passage.leave(out, bytes, field);
        } else if part == Part::Field || seen.takes(part, bytes, field)? {
            passage.pass(out, bytes, field);
        } else {
            passage.leave(out, bytes, field);
        }
    };
    if head > limits.header_bytes {
        return Err(FastPathOutcome::Size);
    }
    if seen.host.is_none() {
        return Err(FastPathOutcome::Host);
    }
    passage.end(out, bytes, at);
    let body = usize::try_from(seen.length.unwrap_or(0)).map_err(|_| FastPathOutcome::Body)?;
    if head + body.min(SMALL) > SMALL {
        return Err(FastPathOutcome::Body);
    }
    Ok(Some(Request { head, body, line, seen }))
}

/// Writes what passes of a head that was read into `out` anew, with these changes.
///
/// # Errors
/// Those of [`read`].
pub(super) fn read_edited(
    bytes: &mut [u8],
    limits: &Limits,
    log: Logged,
    edits: &HeaderEdits,
    out: &mut Vec<u8>,
) -> Result<(), FastPathOutcome> {
    out.clear();
    let is_hidden = |name: &[u8]| edit::replaces(edits, name);
    read(bytes, limits, &Scope::default(), log, &mut HeaderMap::new(), out, is_hidden)?;
    write_own([edits], out);
    Ok(())
}

/// What the first line of a request says that matters here.
#[derive(Debug)]
struct FirstLine {
    length: usize,
    method: Method,
    target: (usize, usize),
    idempotent: Option<IdempotentMethod>,
}

/// Reads the first line. None while it is not whole.
fn first_line(bytes: &[u8]) -> Result<Option<FirstLine>, FastPathOutcome> {
    static METHODS: [(&[u8], Method, Option<IdempotentMethod>); 7] = [
        (b"GET ", Method::GET, Some(IdempotentMethod::Get)),
        (b"POST ", Method::POST, None),
        (b"PUT ", Method::PUT, Some(IdempotentMethod::Put)),
        (b"HEAD ", Method::HEAD, Some(IdempotentMethod::Head)),
        (b"DELETE ", Method::DELETE, Some(IdempotentMethod::Delete)),
        (b"PATCH ", Method::PATCH, None),
        (b"OPTIONS ", Method::OPTIONS, Some(IdempotentMethod::Options)),
    ];
    const VERSION: &[u8] = b" HTTP/1.1";
    let Some((word, method, idempotent)) = METHODS.iter().find(|(word, ..)| bytes.starts_with(word)) else {
        // Empty lines before a head are the ordinary path's business.
        let may_become = METHODS.iter().any(|(word, ..)| word.starts_with(bytes));
        let is_word = bytes.first().is_some_and(u8::is_ascii_uppercase);
        return match () {
            () if may_become => Ok(None),
            () if is_word => Err(FastPathOutcome::Method),
            () => Err(FastPathOutcome::Malformed),
        };
    };
    let start = word.len();
    let Some(length) = bytes[start..].iter().position(|&byte| !PLAIN[usize::from(byte)]) else { return Ok(None) };
    let end = start + length;
    let behind = &bytes[end..];
    if bytes[end] != b' ' || bytes[start] != b'/' {
        return Err(FastPathOutcome::Target);
    }
    if !behind.starts_with(VERSION) {
        return match behind.strip_prefix(b" HTTP/1.") {
            _ if VERSION.starts_with(behind) => Ok(None),
            Some([b'0', ..]) => Err(FastPathOutcome::Version),
            _ => Err(FastPathOutcome::Malformed),
        };
    }
    match line_end(bytes, end + VERSION.len()) {
        Ok(length) if length == end + VERSION.len() + 2 => {
            let (method, idempotent) = (method.clone(), *idempotent);
            Ok(Some(FirstLine { length, method, target: (start, end), idempotent }))
        }
        Err(Step::Partial) => Ok(None),
        // Also a line end that is not ours: the line goes on as it came.
        _ => Err(FastPathOutcome::Malformed),
    }
}

/// What of the fields was about more than being passed on.
#[derive(Debug, Default)]
struct Seen {
    host: Option<Value>,
    length: Option<u64>,
    closes: bool,
    has_cookie: bool,
}

impl Seen {
    /// Notes what a field says; whether it passes as it is.
    fn takes(&mut self, part: Part, bytes: &[u8], field: Field) -> Result<bool, FastPathOutcome> {
        let value = field.value().of(bytes);
        match part {
            Part::Field | Part::Trailer | Part::Kind | Part::Caching | Part::CallEnd | Part::Date => {}
            Part::Host => self.note_host(bytes, field)?,
            Part::Cookie => {
                if std::mem::replace(&mut self.has_cookie, true) {
                    return Err(FastPathOutcome::Cookies);
                }
            }
            Part::Connection => {
                for option in value.split(|&b| b == b',').map(<[u8]>::trim_ascii).filter(|option| !option.is_empty()) {
                    if option.eq_ignore_ascii_case(b"close") {
                        self.closes = true;
                    } else if !option.eq_ignore_ascii_case(b"keep-alive") {
                        return Err(FastPathOutcome::Hop);
                    }
                }
                return Ok(false);
            }
            Part::Hop => return Ok(false),
            Part::Settle => return Err(FastPathOutcome::Hop),
            Part::Length => {
                // Said anew behind all fields.
                let length = http1::digits(value).filter(|_| self.length.is_none());
                self.length = Some(length.ok_or(FastPathOutcome::Framing)?);
                return Ok(false);
            }
            Part::Coding => return Err(FastPathOutcome::Framing),
            Part::Claim => return Ok(!headers::is_claim(field.name(bytes))),
        }
        Ok(true)
    }

    /// One host, and a valid one.
    fn note_host(&mut self, bytes: &[u8], field: Field) -> Result<(), FastPathOutcome> {
        let is_first = self.host.replace(field.value()).is_none();
        if is_first && check::is_host(field.value().of(bytes)) { Ok(()) } else { Err(FastPathOutcome::Host) }
    }
}

/// Bytes of a path and a query that no reader takes for anything else (RFC 3986 3.3, 3.4, and the brackets that forms
/// send).
const PLAIN: [bool; 256] = {
    let mut plain = [false; 256];
    let bytes = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~!$&'()*+,;=:@%/?[]|";
    let mut at = 0;
    while at < bytes.len() {
        plain[bytes[at] as usize] = true;
        at += 1;
    }
    plain
};

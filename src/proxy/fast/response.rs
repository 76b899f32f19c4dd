//! A response head in, the head for the client out, without a map of its fields. Frames a body exactly as the ordinary
//! path does (RFC 9112 6.3), and refuses what it refuses.

use std::io::Write as _;

use http::{HeaderValue, StatusCode};

use super::{
    super::{
        access::REQUEST_ID,
        cookie, date, edit,
        error::REASON_HEADER,
        headers,
        http1::{self, Decoder, Malformed},
    },
    field::{self, Part},
    scan::{self, Field, Passage, Step, Value, line_end, put, write_own},
};
use crate::engine::{
    filter::{HeaderEdits, Scheme},
    sticky::{StickyId, StickyRule},
};

/// Most fields of a head; as in the ordinary path.
const FIELDS_MAX: usize = 100;

/// What the request and its routing say about the answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked<'r> {
    /// By HEAD: the answer has no body, whatever it says.
    pub(super) by_head: bool,
    /// Nothing more is answered on this connection.
    pub(super) closes: bool,
    /// For an answer that tells no time.
    pub(super) now: date::Text,
    /// A new client's id, to be handed out.
    pub(super) hand_out: Option<(&'r StickyRule, StickyId)>,
    /// How the client came in.
    pub(super) scheme: Scheme,
    /// What is changed, one after the other.
    pub(super) edits: [Option<&'r HeaderEdits>; 2],
    /// The request's id, where it has one.
    pub(super) id: Option<&'r HeaderValue>,
}

impl Asked<'_> {
    fn replaces(&self, name: &[u8]) -> bool {
        let is_said = self.id.is_some() && name == REQUEST_ID.as_str().as_bytes();
        is_said || self.edits.iter().flatten().any(|edits| edit::replaces(edits, name))
    }
}

/// A response head that was whole.
#[derive(Debug)]
pub(super) struct Head {
    /// Its bytes.
    pub(super) length: usize,
    pub(super) status: u16,
    pub(super) body: Decoder,
    /// The client gets the body in chunks.
    pub(super) chunks: bool,
    /// The upstream's connection may serve another request.
    pub(super) keeps_alive: bool,
    pub(super) kind: headers::AnswerKind,
    grpc_status: Option<Value>,
    reason: Option<Value>,
}

impl Head {
    /// The reason that another proxy of ours gives, if it made the answer.
    pub(super) fn reason<'b>(&self, bytes: &'b [u8]) -> Option<&'b [u8]> {
        self.reason.map(|reason| reason.of(bytes))
    }

    /// How the call ended, if the head of a gRPC answer says that.
    pub(super) fn grpc_status<'b>(&self, bytes: &'b [u8]) -> Option<&'b [u8]> {
        self.grpc_status.filter(|_| self.kind == headers::AnswerKind::Grpc).map(|status| status.of(bytes))
    }
}

/// Reads the head at the front of `bytes` and writes the client's into `out`, in place of what is there. None while it is
/// not whole. The names of its fields are left in lower case.
pub(super) fn rewrite(bytes: &mut [u8], asked: Asked<'_>, out: &mut Vec<u8>) -> Result<Option<Head>, Malformed> {
    let Some(line) = status_line(bytes)? else { return Ok(None) };
    let status = StatusCode::from_u16(line.status).map_err(|_| Malformed::new("the status is out of range"))?;
    out.clear();
    write_status(status, out);
    let can_chunk = !asked.by_head && !matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    let start = out.len();
    let Some((mut facts, length)) = pass_fields(bytes, line.length, can_chunk, out, |name| asked.replaces(name))?
    else {
        return Ok(None);
    };
    if facts.nominates {
        out.truncate(start);
        let said = bytes[line.length..length].to_vec();
        pass_fields(bytes, line.length, can_chunk, out, |name| asked.replaces(name) || is_nominated(name, &said))?;
    }
    let fields = &bytes[line.length..length];
    let (body, keeps_alive) = facts.frame(bytes, fields, status, line.is_http_11, asked.by_head)?;
    let framed = Framed { status, facts: &facts, bytes, asked, body: &body, can_chunk };
    framed.write_end(out);
    Ok(Some(Head {
        length,
        status: status.as_u16(),
        chunks: !matches!(body, Decoder::Length(_)),
        body,
        keeps_alive,
        kind: facts.kind.unwrap_or(headers::AnswerKind::Plain),
        grpc_status: facts.grpc_status,
        reason: facts.reason,
    }))
}

/// The first line of an answer. Its reason phrase says nothing (RFC 9112 4).
struct StatusLine {
    length: usize,
    status: u16,
    is_http_11: bool,
}

/// Reads the first line. None while it is not whole.
fn status_line(bytes: &[u8]) -> Result<Option<StatusLine>, Malformed> {
    const START: &[u8] = b"HTTP/1.";
    let malformed = Malformed::new("no HTTP/1 status line");
    let Some(&[minor, b' ', hundreds, tens, ones, behind]) =
        bytes.strip_prefix(START).and_then(|rest| rest.first_chunk::<6>())
    else {
        let pattern = |at: usize, byte: u8| match at {
            0..7 => byte == START[at],
            7 => matches!(byte, b'0' | b'1'),
            8 => byte == b' ',
            _ => byte.is_ascii_digit(),
        };
        let is_start = bytes.len() < 13 && bytes.iter().enumerate().all(|(at, &byte)| pattern(at, byte));
        return if is_start { Ok(None) } else { Err(malformed) };
    };
    let code = [hundreds, tens, ones];
    if !matches!(minor, b'0' | b'1') || !code.iter().all(u8::is_ascii_digit) {
        return Err(malformed);
    }
    let status = code.iter().fold(0, |status, digit| status * 10 + u16::from(digit - b'0'));
    let at = match behind {
        b' ' => scan::text_end(bytes, 13),
        b'\r' | b'\n' => Some(12),
        _ => return Err(malformed),
    };
    let Some(at) = at else { return Ok(None) };
    match line_end(bytes, at) {
        Ok(length) => Ok(Some(StatusLine { length, status, is_http_11: minor == b'1' })),
        Err(Step::Partial) => Ok(None),
        Err(_) => Err(Malformed::new("malformed header fields")),
    }
}

/// Looks at every field from `at` on, and writes those that pass as they are, without the hidden ones. Also says how long
/// the head is. None while it is not whole.
fn pass_fields(
    bytes: &mut [u8],
    mut at: usize,
    can_chunk: bool,
    out: &mut Vec<u8>,
    is_hidden: impl Fn(&[u8]) -> bool,
) -> Result<Option<(Facts, usize)>, Malformed> {
    let first = at;
    let mut facts = Facts::default();
    let mut passage = Passage::new(at);
    let mut count = 0;
    loop {
        let field = match scan::step(bytes, at) {
            Step::Field(field) => field,
            Step::End(length) => {
                passage.end(out, bytes, at);
                if let Some(place) = facts.trailer_at {
                    drop(out.splice(place..place, trailer_names(&bytes[first..length])));
                }
                return Ok(Some((facts, length)));
            }
            Step::Partial => return Ok(None),
            Step::Malformed => return Err(Malformed::new("malformed header fields")),
        };
        at = field.end();
        count += 1;
        if count > FIELDS_MAX {
            return Err(Malformed::new("too many header fields"));
        }
        let name = field.name(bytes);
        let part = field::part_of(name);
        if is_hidden(name) {
            passage.leave(out, bytes, field);
            continue;
        }
        if part != Part::Field {
            facts.note(part, bytes, field);
        }
        match part {
            Part::Field
            | Part::Host
            | Part::Cookie
            | Part::Claim
            | Part::Kind
            | Part::Caching
            | Part::CallEnd
            | Part::Date => {
                passage.pass(out, bytes, field);
            }
            _ => passage.leave(out, bytes, field),
        }
        if part == Part::Trailer && can_chunk && facts.trailer_at.is_none() {
            facts.trailer_at = Some(out.len());
        }
    }
}

/// What the fields of a head say together.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is what one field says, independent of the others")]
struct Facts {
    lengths: usize,
    first_length: Option<Value>,
    /// The length, where one is said.
    length: Option<u64>,
    codings: usize,
    is_chunked: bool,
    closes: bool,
    keeps_alive: bool,
    /// `Connection` names fields that are about this hop.
    nominates: bool,
    kind: Option<headers::AnswerKind>,
    grpc_status: Option<Value>,
    reason: Option<Value>,
    is_shared: bool,
    /// Where in what is written the names of trailers belong.
    trailer_at: Option<usize>,
    tells_time: bool,
}

impl Facts {
    fn note(&mut self, part: Part, bytes: &[u8], field: Field) {
        let value = field.value().of(bytes);
        match part {
            Part::Claim if field.name(bytes) == REASON_HEADER.as_str().as_bytes() => {
                self.reason.get_or_insert(field.value());
            }
            Part::Field | Part::Hop | Part::Settle | Part::Host | Part::Cookie | Part::Trailer | Part::Claim => {}
            Part::Connection => {
                for option in tokens(value) {
                    if option.eq_ignore_ascii_case(b"close") {
                        self.closes = true;
                    } else if option.eq_ignore_ascii_case(b"keep-alive") {
                        self.keeps_alive = true;
                    } else {
                        self.nominates = true;
                    }
                }
            }
            Part::Coding => {
                self.codings += 1;
                self.is_chunked = self.codings == 1 && value.eq_ignore_ascii_case(b"chunked");
            }
            Part::Length => {
                self.first_length.get_or_insert(field.value());
                self.lengths += 1;
            }
            Part::Kind => {
                self.kind.get_or_insert_with(|| headers::AnswerKind::of_type(value));
            }
            Part::CallEnd => {
                self.grpc_status.get_or_insert(field.value());
            }
            Part::Date => self.tells_time = true,
            Part::Caching => self.is_shared |= cookie::is_for_shared_caches(value),
        }
    }

    /// How the body is delimited, and whether the connection goes on after it (RFC 9112 6.3, 9.3).
    fn frame(
        &mut self,
        bytes: &[u8],
        fields: &[u8],
        status: StatusCode,
        is_http_11: bool,
        by_head: bool,
    ) -> Result<(Decoder, bool), Malformed> {
        if self.lengths > 0 {
            self.length = Some(self.one_length(bytes, fields)?);
        }
        let keeps_alive = !self.closes && (is_http_11 || self.keeps_alive);
        if status.is_informational() || status == StatusCode::NO_CONTENT {
            return Ok((Decoder::Length(0), keeps_alive && status != StatusCode::SWITCHING_PROTOCOLS));
        }
        if by_head || status == StatusCode::NOT_MODIFIED {
            return Ok((Decoder::Length(0), keeps_alive));
        }
        if self.codings > 0 {
            if !is_http_11 {
                return Err(Malformed::new("HTTP/1.0 with Transfer-Encoding"));
            }
            if !self.is_chunked {
                return Err(Malformed::new("a transfer coding other than chunked"));
            }
            // Both: chunked decides, and whoever wrote that is not to be trusted with another request (6.1).
            return Ok((Decoder::chunked(), keeps_alive && self.lengths == 0));
        }
        Ok(self.length.map_or((Decoder::UntilClose, false), |length| (Decoder::Length(length), keeps_alive)))
    }

    /// The length: digits, and the same wherever it is repeated (RFC 9110 8.6).
    fn one_length(&self, bytes: &[u8], fields: &[u8]) -> Result<u64, Malformed> {
        let malformed = Malformed::new("malformed Content-Length");
        if self.lengths == 1
            && let Some(length) = self.said_length(bytes).and_then(http1::digits)
        {
            return Ok(length);
        }
        let mut all = named(fields, b"content-length").flat_map(tokens).map(http1::digits);
        let first = all.next().flatten().ok_or(malformed)?;
        if all.all(|other| other == Some(first)) { Ok(first) } else { Err(malformed) }
    }

    /// The length as it was said first.
    fn said_length<'b>(&self, bytes: &'b [u8]) -> Option<&'b [u8]> {
        self.first_length.map(|length| length.of(bytes))
    }
}

fn write_status(status: StatusCode, out: &mut Vec<u8>) {
    if status == StatusCode::OK {
        put(out, &[b"HTTP/1.1 200 OK\r\n"]);
    } else {
        // The blank stays without a reason (RFC 9112 4).
        let reason = status.canonical_reason().unwrap_or_default();
        put(out, &[b"HTTP/1.1 ", status.as_str().as_bytes(), b" ", reason.as_bytes(), b"\r\n"]);
    }
}

/// What the head says last.
struct Framed<'w> {
    status: StatusCode,
    facts: &'w Facts,
    /// The head that came.
    bytes: &'w [u8],
    asked: Asked<'w>,
    body: &'w Decoder,
    can_chunk: bool,
}

impl Framed<'_> {
    fn write_end(&self, out: &mut Vec<u8>) {
        self.framing(out);
        if let Some(id) = self.asked.id {
            put(out, &[b"x-request-id: ", id.as_bytes(), b"\r\n"]);
        }
        if !self.facts.tells_time {
            put(out, &[b"date: ", &self.asked.now, b"\r\n"]);
        }
        if self.asked.edits != [None; 2] {
            write_own(self.asked.edits.into_iter().flatten(), out);
        }
        if let Some((rule, id)) = self.asked.hand_out.filter(|_| !self.facts.is_shared)
            && let Some(cookie) = cookie::to_hand_out(rule, id, self.asked.scheme)
        {
            put(out, &[b"set-cookie: ", cookie.as_bytes(), b"\r\n"]);
        }
        put(out, if self.asked.closes { &[b"connection: close\r\n\r\n"] } else { &[b"\r\n"] });
    }

    fn framing(&self, out: &mut Vec<u8>) {
        // Said as it came where it was said once; what was said twice is said once.
        let said = |out: &mut Vec<u8>| match (self.facts.length, self.facts.said_length(self.bytes)) {
            (Some(_), Some(said)) if self.facts.lengths == 1 && http1::digits(said).is_some() => {
                put(out, &[b"content-length: ", said, b"\r\n"]);
            }
            // Writing to a Vec does not fail.
            (Some(length), _) => drop(write!(out, "content-length: {length}\r\n")),
            (None, _) => {}
        };
        match self.body {
            // A length beside a coding was a lie, and of an answer without content it says nothing.
            Decoder::Length(_) if self.asked.by_head => {
                if self.facts.codings == 0 && self.status != StatusCode::NO_CONTENT {
                    said(out);
                }
            }
            Decoder::Length(_) if !self.can_chunk => {}
            Decoder::Length(0) => put(out, &[b"content-length: 0\r\n"]),
            Decoder::Length(_) => said(out),
            Decoder::Chunked(_) | Decoder::UntilClose => put(out, &[b"transfer-encoding: chunked\r\n"]),
        }
    }
}

/// Whether `Connection` among these fields names this one, which then was for the proxy alone. Framing is beyond its reach.
fn is_nominated(name: &[u8], fields: &[u8]) -> bool {
    if name == b"host" || name == b"content-length" {
        return false;
    }
    named(fields, b"connection").flat_map(tokens).any(|token| token.eq_ignore_ascii_case(name))
}

/// All trailers that are announced, in one field.
fn trailer_names(fields: &[u8]) -> Vec<u8> {
    let announced: Vec<_> = named(fields, b"trailer").collect();
    [b"trailer: ", &announced.join(&b", "[..])[..], b"\r\n"].concat()
}

/// The values of the fields of this name.
fn named<'f>(fields: &'f [u8], name: &'f [u8]) -> impl Iterator<Item = &'f [u8]> {
    scan::fields(fields).filter(move |field| field.0 == name).map(|(_, value)| value)
}

fn tokens(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&b| b == b',').map(<[u8]>::trim_ascii).filter(|token| !token.is_empty())
}

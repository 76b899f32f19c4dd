//! A response head in, the head for the client out, without a map of its fields. Frames a body exactly as the ordinary
//! path does (RFC 9112 6.3), and refuses what it refuses.

use std::{io::Write as _, mem::MaybeUninit};

use http::StatusCode;

use super::{
    super::{
        cookie, date, headers,
        http1::{self, Decoder, Malformed},
    },
    field::{self, Part, put},
};
use crate::engine::{
    filter::Scheme,
    sticky::{StickyId, StickyRule},
};

/// Most fields of a head, all on the stack while it is parsed; as in the ordinary path.
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
    /// A stream that may say nothing for as long as nothing happens.
    pub(super) may_be_silent: bool,
}

/// Reads the head at the front of `bytes` and writes the client's into `out`, in place of what is there. None while it is
/// not whole.
pub(super) fn rewrite(bytes: &[u8], asked: Asked<'_>, out: &mut Vec<u8>) -> Result<Option<Head>, Malformed> {
    let mut fields = [const { MaybeUninit::uninit() }; FIELDS_MAX];
    let mut parsed = httparse::Response::new(&mut []);
    let Some(length) = http1::split_head(bytes, &mut parsed, &mut fields)? else { return Ok(None) };
    let status = StatusCode::from_u16(parsed.code.unwrap_or_default())
        .map_err(|_| Malformed::new("the status is out of range"))?;
    out.clear();
    write_status(status, out);
    let fields = &*parsed.headers;
    let can_chunk = !asked.by_head && !matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    let start = out.len();
    let mut facts = Facts::all(bytes, fields, can_chunk, out);
    if facts.nominates {
        out.truncate(start);
        let others: Vec<_> = fields.iter().filter(|field| !is_nominated(field.name, fields)).copied().collect();
        let _same = Facts::all(bytes, &others, can_chunk, out);
    }
    let (body, keeps_alive) = facts.frame(fields, status, parsed.version != Some(0), asked.by_head)?;
    let framed = Framed { status, facts: &facts, asked, body: &body, can_chunk };
    framed.write_end(out);
    Ok(Some(Head {
        length,
        status: status.as_u16(),
        chunks: !matches!(body, Decoder::Length(_)),
        body,
        keeps_alive,
        may_be_silent: facts.may_be_silent,
    }))
}

/// What the fields of a head say together.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is what one field says, independent of the others")]
struct Facts<'b> {
    lengths: usize,
    first_length: &'b [u8],
    /// The length, where one is said.
    length: Option<u64>,
    codings: usize,
    is_chunked: bool,
    closes: bool,
    keeps_alive: bool,
    /// `Connection` names fields that are about this hop.
    nominates: bool,
    kinds: usize,
    may_be_silent: bool,
    is_shared: bool,
    tells_time: bool,
}

impl<'b> Facts<'b> {
    /// Looks at every field, and writes those that pass as they are.
    fn all(bytes: &[u8], fields: &[httparse::Header<'b>], can_chunk: bool, out: &mut Vec<u8>) -> Self {
        let mut facts = Self::default();
        let mut has_trailer = false;
        for field in fields {
            let start = out.len();
            let part = field::write(out, bytes, field);
            if part == Part::Field {
                continue;
            }
            facts.note(part, field.value);
            let passes =
                matches!(part, Part::Host | Part::Cookie | Part::Claim | Part::Kind | Part::Caching | Part::Date);
            if !passes {
                out.truncate(start);
            }
            if part == Part::Trailer && can_chunk && !std::mem::replace(&mut has_trailer, true) {
                write_trailer_names(fields, out);
            }
        }
        facts
    }

    fn note(&mut self, part: Part, value: &'b [u8]) {
        match part {
            Part::Field | Part::Hop | Part::Settle | Part::Host | Part::Cookie | Part::Claim | Part::Trailer => {}
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
                if self.lengths == 0 {
                    self.first_length = value;
                }
                self.lengths += 1;
            }
            Part::Kind => {
                if self.kinds == 0 {
                    self.may_be_silent = headers::AnswerKind::of_type(value) != headers::AnswerKind::Plain;
                }
                self.kinds += 1;
            }
            Part::Date => self.tells_time = true,
            Part::Caching => self.is_shared |= cookie::is_for_shared_caches(value),
        }
    }

    /// How the body is delimited, and whether the connection goes on after it (RFC 9112 6.3, 9.3).
    fn frame(
        &mut self,
        fields: &[httparse::Header<'_>],
        status: StatusCode,
        is_http_11: bool,
        by_head: bool,
    ) -> Result<(Decoder, bool), Malformed> {
        if self.lengths > 0 {
            self.length = Some(self.one_length(fields)?);
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
    fn one_length(&self, fields: &[httparse::Header<'_>]) -> Result<u64, Malformed> {
        let malformed = Malformed::new("malformed Content-Length");
        if self.lengths == 1
            && let Some(length) = http1::digits(self.first_length)
        {
            return Ok(length);
        }
        let lengths = fields.iter().filter(|field| is_named(field, "content-length"));
        let mut all = lengths.flat_map(|field| tokens(field.value)).map(http1::digits);
        let first = all.next().flatten().ok_or(malformed)?;
        if all.all(|other| other == Some(first)) { Ok(first) } else { Err(malformed) }
    }
}

fn write_status(status: StatusCode, out: &mut Vec<u8>) {
    if status == StatusCode::OK {
        put(out, &[b"HTTP/1.1 200 OK\r\n"]);
    } else {
        let reason = status.canonical_reason().unwrap_or("<none>");
        put(out, &[b"HTTP/1.1 ", status.as_str().as_bytes(), b" ", reason.as_bytes(), b"\r\n"]);
    }
}

/// What the head says last.
struct Framed<'w> {
    status: StatusCode,
    facts: &'w Facts<'w>,
    asked: Asked<'w>,
    body: &'w Decoder,
    can_chunk: bool,
}

impl Framed<'_> {
    fn write_end(&self, out: &mut Vec<u8>) {
        self.framing(out);
        if !self.facts.tells_time {
            put(out, &[b"date: ", &self.asked.now, b"\r\n"]);
        }
        if let Some((rule, id)) = self.asked.hand_out.filter(|_| !self.facts.is_shared)
            && let Some(cookie) = cookie::to_hand_out(rule, id, Scheme::Http)
        {
            put(out, &[b"set-cookie: ", cookie.as_bytes(), b"\r\n"]);
        }
        put(out, if self.asked.closes { &[b"connection: close\r\n\r\n"] } else { &[b"\r\n"] });
    }

    fn framing(&self, out: &mut Vec<u8>) {
        // Said as it came where it was said once; what was said twice is said once.
        let said = |out: &mut Vec<u8>| match self.facts.length {
            Some(_) if self.facts.lengths == 1 && http1::digits(self.facts.first_length).is_some() => {
                put(out, &[b"content-length: ", self.facts.first_length, b"\r\n"]);
            }
            // Writing to a Vec does not fail.
            Some(length) => drop(write!(out, "content-length: {length}\r\n")),
            None => {}
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

/// Whether `Connection` names this field, which then was for the proxy alone. Framing is beyond its reach.
fn is_nominated(name: &str, fields: &[httparse::Header<'_>]) -> bool {
    if name.eq_ignore_ascii_case("host") || name.eq_ignore_ascii_case("content-length") {
        return false;
    }
    let connections = fields.iter().filter(|field| is_named(field, "connection"));
    connections.flat_map(|field| tokens(field.value)).any(|token| token.eq_ignore_ascii_case(name.as_bytes()))
}

/// All that is announced, in one field.
fn write_trailer_names(fields: &[httparse::Header<'_>], out: &mut Vec<u8>) {
    let announced = fields.iter().filter(|field| is_named(field, "trailer"));
    for (nth, field) in announced.enumerate() {
        put(out, &[if nth == 0 { b"trailer: " } else { b", " }, field.value]);
    }
    put(out, &[b"\r\n"]);
}

fn is_named(field: &httparse::Header<'_>, name: &str) -> bool {
    field.name.eq_ignore_ascii_case(name)
}

fn tokens(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&b| b == b',').map(<[u8]>::trim_ascii).filter(|token| !token.is_empty())
}

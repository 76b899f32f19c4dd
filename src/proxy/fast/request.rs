//! A request head in, the head for the upstream out, in one pass over its fields and without a map of them. Says what the
//! ordinary path would say, field by field, or leaves the request to it: never refuses, never repairs.

use std::{io::Write as _, mem::MaybeUninit};

use super::{
    super::{Limits, check, headers, http1, origin::Origin},
    field::{self, Part, put},
};
use crate::{
    engine::{
        address::Address,
        request::cookies_in,
        split::Claims,
        sticky::{StickyBy, StickyId},
        table::ServiceTable,
    },
    measure::FastPathOutcome,
};

/// Most fields of a head, all on the stack while it is parsed; as in the ordinary path.
const FIELDS_MAX: usize = 100;

/// What is needed to make a head for an upstream out of a client's.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rules<'r> {
    pub(super) service: &'r ServiceTable,
    pub(super) limits: &'r Limits,
    pub(super) origin: &'r Origin,
    pub(super) address: Address,
}

/// A request that is wholly there, and what it asks beside being passed on.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Request {
    /// Bytes of its head.
    pub(super) head: usize,
    /// Bytes of its body, behind the head.
    pub(super) body: usize,
    pub(super) is_head: bool,
    /// Sent twice it does no more than sent once.
    pub(super) is_idempotent: bool,
    /// The client takes no further answer on this connection.
    pub(super) closes: bool,
    pub(super) claims: Claims,
}

impl Request {
    /// All its bytes.
    pub(super) fn whole(&self) -> usize {
        self.head + self.body
    }
}

/// Reads the request at the front of `bytes` and writes its head for the upstream into `out`. None while its head is
/// not whole.
///
/// # Errors
/// Why it is left to the ordinary path.
pub(super) fn rewrite(bytes: &[u8], rules: &Rules<'_>, out: &mut Vec<u8>) -> Result<Option<Request>, FastPathOutcome> {
    // httparse skips empty lines before a head; so does the ordinary path, which may have them.
    if !bytes.first().is_some_and(u8::is_ascii_uppercase) {
        return if bytes.is_empty() { Ok(None) } else { Err(FastPathOutcome::Malformed) };
    }
    let mut fields = [const { MaybeUninit::uninit() }; FIELDS_MAX];
    let mut parsed = httparse::Request::new(&mut []);
    let head = match parsed.parse_with_uninit_headers(bytes, &mut fields) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => return Err(FastPathOutcome::Size),
        Err(_) => return Err(FastPathOutcome::Malformed),
    };
    if head > rules.limits.header_bytes || parsed.headers.len() > rules.limits.headers {
        return Err(FastPathOutcome::Size);
    }
    let (Some(method), Some(target), Some(version)) = (parsed.method, parsed.path, parsed.version) else {
        return Err(FastPathOutcome::Malformed);
    };
    if version != 1 {
        return Err(FastPathOutcome::Version);
    }
    let is_idempotent = match method {
        "GET" | "HEAD" | "PUT" | "DELETE" | "OPTIONS" => true,
        "POST" | "PATCH" => false,
        _ => return Err(FastPathOutcome::Method),
    };
    if !is_plain_target(target.as_bytes()) {
        return Err(FastPathOutcome::Target);
    }
    put(out, &[method.as_bytes(), b" ", target.as_bytes(), b" HTTP/1.1\r\n"]);
    let seen = Seen::all(bytes, parsed.headers, rules.service, out)?;
    let body = seen.finish(rules.origin, out)?;
    let body = usize::try_from(body).map_err(|_| FastPathOutcome::Body)?;
    if bytes.len() - head < body {
        return Err(FastPathOutcome::Body);
    }
    Ok(Some(Request {
        head,
        body,
        is_head: method == "HEAD",
        is_idempotent,
        closes: seen.closes,
        claims: seen.claims(rules),
    }))
}

/// What of the fields was about more than being passed on.
#[derive(Debug, Default)]
struct Seen<'b> {
    host: Option<&'b [u8]>,
    length: Option<u64>,
    closes: bool,
    has_cookie: bool,
    force: Option<&'b [u8]>,
    sticky: Option<StickyId>,
}

impl<'b> Seen<'b> {
    /// Looks at every field, and writes those that pass.
    fn all(
        bytes: &[u8],
        fields: &[httparse::Header<'b>],
        service: &ServiceTable,
        out: &mut Vec<u8>,
    ) -> Result<Self, FastPathOutcome> {
        let mut seen = Self::default();
        let force = service.force.as_ref().and_then(|rule| rule.header.as_ref()).map(|name| name.as_str().as_bytes());
        for field in fields {
            let start = out.len();
            let part = field::write(out, bytes, field);
            let is_forcing = force.is_some_and(|force| out[start..].get(..field.name.len()) == Some(force));
            if is_forcing && seen.force.is_none() {
                seen.force = Some(field.value);
            }
            if part != Part::Field && !seen.takes(part, field, service)? {
                out.truncate(start);
            }
        }
        Ok(seen)
    }

    /// Notes what a field says; whether it passes as it is.
    fn takes(
        &mut self,
        part: Part,
        field: &httparse::Header<'b>,
        service: &ServiceTable,
    ) -> Result<bool, FastPathOutcome> {
        let value = field.value;
        match part {
            Part::Field | Part::Trailer | Part::Kind | Part::Caching | Part::Date => {}
            Part::Host => self.note_host(value)?,
            Part::Cookie => {
                if std::mem::replace(&mut self.has_cookie, true) {
                    return Err(FastPathOutcome::Cookies);
                }
                if let Some(StickyBy::Cookie(name)) = service.sticky.as_ref().map(|rule| &rule.by) {
                    self.sticky = cookies_in(value, name).find_map(StickyId::parse);
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
            Part::Claim => return Ok(!headers::is_claim(field.name.as_bytes())),
        }
        Ok(true)
    }

    /// One host, and a valid one.
    fn note_host(&mut self, value: &'b [u8]) -> Result<(), FastPathOutcome> {
        let is_first = self.host.replace(value).is_none();
        if is_first && check::is_host(value) { Ok(()) } else { Err(FastPathOutcome::Host) }
    }

    fn claims(&self, rules: &Rules<'_>) -> Claims {
        let force = rules.service.force.as_ref();
        let word = force.and_then(|rule| rule.admitted(self.force, rules.address));
        Claims::of_word(rules.service, word, self.sticky)
    }

    /// Writes what the proxy says itself, and the end. Returns how many bytes of body follow.
    fn finish(&self, origin: &Origin, out: &mut Vec<u8>) -> Result<u64, FastPathOutcome> {
        let host = self.host.ok_or(FastPathOutcome::Host)?;
        put(out, &[b"x-forwarded-for: ", origin.client().as_bytes()]);
        put(out, &[b"\r\nx-forwarded-proto: ", origin.scheme().as_str().as_bytes(), b"\r\nx-forwarded-host: ", host]);
        put(out, &[b"\r\nvia: 1.1 serin\r\n"]);
        if let Some(length) = self.length {
            // Writing to a Vec does not fail.
            drop(write!(out, "content-length: {length}\r\n"));
        }
        put(out, &[b"\r\n"]);
        Ok(self.length.unwrap_or(0))
    }
}

/// A path with or without query, of bytes that no reader takes for anything else (RFC 3986 3.3, 3.4, and the brackets
/// that forms send).
fn is_plain_target(target: &[u8]) -> bool {
    target.first() == Some(&b'/') && target.iter().all(|&byte| PLAIN[usize::from(byte)])
}

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

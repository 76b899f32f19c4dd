//! Traces of requests: whose trace a request belongs to (W3C Trace Context), whether it is one that is exported, and what
//! is known of its attempts. Refuses to wait for the exporter, which is elsewhere, and costs nothing where tracing is off.
//!
//! A client's `traceparent` is taken over, with its sampled flag as far as the client is trusted; without one, or with one
//! that is none, a trace begins here and the configured share of them is sampled. Each attempt gets the `traceparent` of its
//! own span. What is not sampled has no spans of ours, and passes with the context that it came with or was given.

use std::{
    cell::RefCell,
    rc::Rc,
    time::{Duration, Instant, SystemTime},
};

use http::{HeaderMap, HeaderName, HeaderValue};

use super::{connection::Conn, routing::Choice, view};
use crate::measure::{slot::Ending, traces::Attempt};

/// The field of the context.
pub(super) const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");
/// Attempts of one request that are told of.
const ATTEMPTS_MAX: usize = 16;
/// Longest `tracestate` that is exported (W3C Trace Context 3.3.1.5).
const STATE_MAX: usize = 512;

/// A sampled request's place in its trace.
#[derive(Debug)]
pub(super) struct Traced {
    pub(super) id: [u8; 16],
    pub(super) span: [u8; 8],
    pub(super) parent: Option<[u8; 8]>,
    pub(super) state: Option<String>,
    /// Since 1970.
    pub(super) started: Duration,
    since: Instant,
    /// The attempt that is under way.
    trying: RefCell<Option<Attempt>>,
    attempts: RefCell<Vec<Attempt>>,
}

/// What a `traceparent` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Context {
    id: [u8; 16],
    span: [u8; 8],
    sampled: bool,
}

/// Sees to a request's context, if its listener has tracing. Some if it is sampled.
pub(super) fn begin(conn: &Conn, fields: &mut HeaderMap) -> Option<Rc<Traced>> {
    let sample = conn.settings().tracing?;
    let draw = || conn.worker().draw();
    let context = context_of(fields);
    let chosen = || draw() % 1_000_000 < u64::from(sample.ppm());
    let sampled = match context {
        Some(context) => context.sampled && (may_sample(conn) || chosen()),
        None => chosen(),
    };
    match context {
        // What is said beside a context that is none says nothing (W3C Trace Context 3.2.2.5).
        None => drop(fields.remove(TRACESTATE)),
        Some(context) if !sampled => {
            if context.sampled {
                fields.insert(TRACEPARENT, field(context.id, context.span, false)?);
            }
            return None;
        }
        Some(_) => {}
    }
    let id = context.map_or_else(|| id_of([draw(), draw()]), |context| context.id);
    let span = span_of(draw());
    fields.insert(TRACEPARENT, field(id, span, sampled)?);
    let state = fields.get(TRACESTATE).and_then(|state| state.to_str().ok()).filter(|state| state.len() <= STATE_MAX);
    sampled.then(|| {
        Rc::new(Traced {
            id,
            span,
            parent: context.map(|context| context.span),
            state: state.map(str::to_owned),
            started: SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default(),
            since: Instant::now(),
            trying: RefCell::default(),
            attempts: RefCell::default(),
        })
    })
}

/// Whether the peer may decide that a request is traced: everybody, unless it is said who is trusted.
fn may_sample(conn: &Conn) -> bool {
    let routing = conn.worker().routing();
    let (trusted, peer) = (&routing.table.trusted, view::address(conn.peer().ip()));
    trusted.is_empty() || trusted.iter().any(|network| network.contains(peer))
}

impl Traced {
    /// An attempt at this version begins: the request tells the upstream of the attempt's span, unless a filter took the context away.
    pub(super) fn tries(&self, choice: &Choice, draw: u64, fields: &mut HeaderMap) {
        let span = span_of(draw);
        let started = self.started + self.since.elapsed();
        *self.trying.borrow_mut() = Some(attempt(choice, span, started));
        if let (Some(told), Some(context)) = (fields.get_mut(TRACEPARENT), field(self.id, span, true)) {
            *told = context;
        }
    }

    /// It has ended: with this answer, or so. While its connection was waited for its version may have become another.
    pub(super) fn tried(&self, choice: &Choice, status: Option<u16>, error: Option<&'static str>) {
        let Some(begun) = self.trying.take() else { return };
        self.keep(Attempt { status, error, ..attempt(choice, begun.span, begun.started) });
    }

    fn keep(&self, attempt: Attempt) {
        let took = (self.started + self.since.elapsed()).saturating_sub(attempt.started);
        let attempts = &mut *self.attempts.borrow_mut();
        if attempts.len() < ATTEMPTS_MAX {
            attempts.push(Attempt { took, ..attempt });
        }
    }

    /// How long the request has taken so far.
    pub(super) fn took(&self) -> Duration {
        self.since.elapsed()
    }

    /// The attempts, the request having ended: one that is still under way has lost its client.
    pub(super) fn attempts(&self) -> Vec<Attempt> {
        if let Some(left) = self.trying.take() {
            self.keep(Attempt { error: Some(Ending::ClientGone.as_str()), ..left });
        }
        self.attempts.take()
    }
}

fn attempt(choice: &Choice, span: [u8; 8], started: Duration) -> Attempt {
    let version = choice.version();
    Attempt {
        span,
        started,
        took: Duration::ZERO,
        version: version.name.to_string(),
        role: version.role.as_str(),
        endpoint: choice.endpoint().to_string(),
        status: None,
        error: None,
    }
}

/// The one context that a request names.
fn context_of(fields: &HeaderMap) -> Option<Context> {
    let mut all = fields.get_all(TRACEPARENT).iter();
    let only = all.next().filter(|_| all.next().is_none())?;
    parse(only.as_bytes())
}

fn parse(text: &[u8]) -> Option<Context> {
    let [version, id, span, flags] = [text.get(..2)?, text.get(3..35)?, text.get(36..52)?, text.get(53..55)?];
    let dashes = [text[2], text[35], text[52]] == *b"---";
    let version: [u8; 1] = bytes_of(version)?;
    // Versions to come may have more behind (3.2.4).
    let ends = text.len() == 55 || (version != [0] && text.get(55) == Some(&b'-'));
    let (id, span, [flags]) = (bytes_of(id)?, bytes_of(span)?, bytes_of(flags)?);
    let fine = dashes && ends && version != [0xff] && id != [0; 16] && span != [0; 8];
    fine.then_some(Context { id, span, sampled: flags & 1 == 1 })
}

/// Of hexadecimal digits in lower case.
fn bytes_of<const N: usize>(hex: &[u8]) -> Option<[u8; N]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(hex.chunks(2)) {
        *byte = digit(pair[0])? << 4 | digit(*pair.get(1)?)?;
    }
    Some(bytes)
}

fn field(id: [u8; 16], span: [u8; 8], sampled: bool) -> Option<HeaderValue> {
    let (id, span, flags) = (u128::from_be_bytes(id), u64::from_be_bytes(span), u8::from(sampled));
    HeaderValue::from_str(&format!("00-{id:032x}-{span:016x}-{flags:02x}")).ok()
}

/// Nobody's id is zero.
fn id_of([high, low]: [u64; 2]) -> [u8; 16] {
    (u128::from(high) << 64 | u128::from(low)).max(1).to_be_bytes()
}

fn span_of(draw: u64) -> [u8; 8] {
    draw.max(1).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_context_is_taken_over_only_if_it_is_one() {
        let context = parse(GOOD.as_bytes()).unwrap();
        assert!(context.sampled);
        assert_eq!(field(context.id, context.span, true).unwrap(), GOOD);
        assert!(!parse(GOOD.replace("-01", "-00").as_bytes()).unwrap().sampled);
        assert!(parse(format!("01{}-more", &GOOD[2..]).as_bytes()).is_some(), "a version to come");
        for wrong in [
            "",
            "00",
            &GOOD[..54],
            &format!("{GOOD}-more"),
            &format!("01{}x", &GOOD[2..]),
            &format!("ff{}", &GOOD[2..]),
            &GOOD.to_uppercase(),
            &GOOD.replace("0af7651916cd43dd8448eb211c80319c", &"0".repeat(32)),
            &GOOD.replace("b7ad6b7169203331", &"0".repeat(16)),
            &GOOD.replace("-b7", "_b7"),
            &GOOD.replace("-01", "-0g"),
        ] {
            assert_eq!(parse(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn two_contexts_are_none() {
        let mut fields = HeaderMap::new();
        fields.append(TRACEPARENT, HeaderValue::from_static(GOOD));
        assert!(context_of(&fields).is_some());
        fields.append(TRACEPARENT, HeaderValue::from_static(GOOD));
        assert!(context_of(&fields).is_none());
    }
}

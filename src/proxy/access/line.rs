//! How a line is written: JSON with snake_case keys and seconds, or the combined format with version and role behind it.
//! Whatever a client sent is escaped, so that nobody forges lines.

use std::fmt::Write as _;

use http::HeaderValue;
use serde_json::json;

use super::Note;
use crate::{
    measure::{RefusedReason, slot::Ending},
    publish::AccessLogFormat,
};

/// Longest path, host or field in a line, in characters.
const TEXT_MAX: usize = 1024;

/// A word of the error field as it lives for ever; none for what an upstream made up.
pub(super) fn known_error(word: &str) -> Option<&'static str> {
    let refused = RefusedReason::ALL.iter().map(|reason| reason.as_str());
    refused.chain(Ending::ALL.iter().map(|ending| ending.as_str())).find(|known| *known == word)
}

/// The line of a request, with its line end.
pub(super) fn of(note: &Note, format: AccessLogFormat) -> String {
    match format {
        AccessLogFormat::Json => json_line(note),
        AccessLogFormat::Combined => combined_line(note),
    }
}

fn json_line(note: &Note) -> String {
    let routed = note.routed.borrow();
    let routed = routed.as_ref();
    let field =
        |value: &Option<HeaderValue>| value.as_ref().map(|value| cut(&String::from_utf8_lossy(value.as_bytes())));
    let line = json!({
        "time": wall(note).strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string(),
        "request_id": field(&Some(note.id.clone())),
        "client": note.client.ip().to_canonical().to_string(),
        "client_port": note.client.port(),
        "scheme": note.scheme,
        "protocol": note.protocol,
        "method": cut(note.method.as_str()),
        "host": cut(&note.host),
        "path": cut(&note.path),
        "status": note.status.get(),
        "error": note.error.get(),
        "complete": note.ended.get(),
        "service": routed.map(|routed| &routed.service),
        "version": routed.map(|routed| &routed.version),
        "role": routed.map(|routed| routed.role),
        "reason": routed.map(|routed| routed.reason),
        "outcome": routed.and_then(|routed| routed.trip.outcome),
        "upstream": routed.map(|routed| &routed.upstream),
        "attempts": routed.map_or(0, |routed| routed.trip.attempts),
        "upstream_connect": routed.and_then(|routed| routed.trip.connect).map(seconds),
        "duration": seconds(note.started.elapsed()),
        "time_to_head": note.head_after.get().map(seconds),
        "time_to_first_byte": note.first_byte_after.get().map(seconds),
        "bytes_in": note.bytes_in,
        "bytes_out": note.bytes_out.get(),
        "user_agent": field(&note.user_agent),
        "traceparent": field(&note.traceparent),
    });
    format!("{line}\n")
}

fn combined_line(note: &Note) -> String {
    let routed = note.routed.borrow();
    let (version, role) = routed.as_ref().map_or(("-", "-"), |routed| (&*routed.version, routed.role));
    let field = |value: &Option<HeaderValue>| {
        value.as_ref().map_or_else(|| "-".to_owned(), |value| quoted(&String::from_utf8_lossy(value.as_bytes())))
    };
    let bytes = note.bytes_out.get();
    format!(
        "{} - - [{}] \"{} {} {}\" {} {} \"{}\" \"{}\" version={version} role={role}\n",
        note.client.ip().to_canonical(),
        wall(note).strftime("%d/%b/%Y:%H:%M:%S +0000"),
        quoted(note.method.as_str()),
        quoted(&note.path),
        note.protocol,
        note.status.get(),
        if bytes == 0 { "-".to_owned() } else { bytes.to_string() },
        field(&note.referer),
        field(&note.user_agent),
    )
}

fn wall(note: &Note) -> jiff::Timestamp {
    i64::try_from(note.at.as_millis())
        .ok()
        .and_then(|at| jiff::Timestamp::from_millisecond(at).ok())
        .unwrap_or_default()
}

fn seconds(of: std::time::Duration) -> f64 {
    // Microseconds are exact enough, and short.
    f64::from(u32::try_from(of.as_micros()).unwrap_or(u32::MAX)) / 1e6
}

/// No longer than it may be; JSON escapes the rest.
pub(super) fn cut(text: &str) -> String {
    text.chars().take(TEXT_MAX).collect()
}

/// As it may stand between quotes: printable ASCII, the rest as `\xHH`.
fn quoted(text: &str) -> String {
    let mut out = String::new();
    for byte in cut(text).bytes() {
        match byte {
            b'"' | b'\\' => {
                out.push('\\');
                out.push(char::from(byte));
            }
            b' '..=b'~' => out.push(char::from(byte)),
            // Writing into a String cannot fail.
            _ => drop(write!(out, "\\x{byte:02x}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_forges_a_line() {
        assert_eq!(quoted("a\"b\\c\r\nd\x1b[2Jé"), "a\\\"b\\\\c\\x0d\\x0ad\\x1b[2J\\xc3\\xa9");
        assert_eq!(cut(&"x".repeat(100_000)).len(), TEXT_MAX);
    }

    #[test]
    fn only_our_own_words_are_errors() {
        assert_eq!(known_error("header_too_large"), Some("header_too_large"));
        assert_eq!(known_error("made up"), None);
    }
}

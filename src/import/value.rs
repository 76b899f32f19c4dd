//! Single values: as other tools write them, and as our file wants them. Refuses what it cannot read exactly.

use std::{fmt::Write as _, ops::RangeInclusive, time::Duration};

use super::manifest::{Content, Item};

/// How long a step may hold.
pub(super) const HOLDS: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_hours(30 * 24);
/// How long a window of the guard may be.
pub(super) const WINDOWS: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_hours(1);
/// How long a request may take, and how slow is too slow.
pub(super) const WAITS: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_hours(1);

const YEAR: Duration = Duration::from_hours(366 * 24);

/// A duration as Go's `time.ParseDuration` reads it (`1h30m`, `1.5h`, `500ms`), rounded down to milliseconds; none over
/// a year, where our file ends.
pub(super) fn go_duration(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut nanos: u128 = 0;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, tail) = rest.split_at(end);
        let end = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(end);
        let size: u128 = match unit {
            "h" => 3_600_000_000_000,
            "m" => 60_000_000_000,
            "s" => 1_000_000_000,
            "ms" => 1_000_000,
            "us" | "µs" | "μs" => 1_000,
            "ns" => 1,
            _ => return None,
        };
        let (whole, part) = number.split_once('.').unwrap_or((number, ""));
        let digits = |text: &str| if text.is_empty() { Some(0) } else { text.parse::<u32>().ok().map(u128::from) };
        let scale = 10_u128.checked_pow(u32::try_from(part.len()).ok()?)?;
        if whole.is_empty() && part.is_empty() {
            return None;
        }
        nanos = nanos.checked_add(digits(whole)? * size + digits(part)? * size / scale)?;
        rest = tail;
    }
    let millis = u64::try_from(nanos / 1_000_000).ok().filter(|_| !text.is_empty())?;
    Some(Duration::from_millis(millis)).filter(|duration| *duration <= YEAR)
}

/// A duration as Argo's `DurationFromInt` reads it: a bare number is seconds.
pub(super) fn argo_duration(text: &str) -> Option<Duration> {
    let seconds = text.parse::<u32>().ok().map(|seconds| Duration::from_secs(seconds.into()));
    seconds.filter(|duration| *duration <= YEAR).or_else(|| go_duration(text))
}

/// Into a range, and whether it had to be moved.
pub(super) fn within(duration: Duration, range: &RangeInclusive<Duration>) -> (Duration, bool) {
    let moved = duration.clamp(*range.start(), *range.end());
    (moved, moved != duration)
}

/// A duration exactly as our file reads it: `1h30m`, `90s` as `1m30s`, `1500ms` as `1s500ms`.
pub(super) fn shown(duration: Duration) -> String {
    let mut rest = duration.as_millis();
    let mut text = String::new();
    for (unit, size) in [("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)] {
        if rest >= size {
            let _ = write!(text, "{}{unit}", rest / size);
            rest %= size;
        }
    }
    if text.is_empty() { "0s".to_owned() } else { text }
}

/// A whole number.
pub(super) fn whole(item: &Item) -> Option<u64> {
    let text = item.text()?;
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

/// A port of an object.
pub(super) fn port(item: &Item) -> Option<u16> {
    whole(item).and_then(|port| u16::try_from(port).ok()).filter(|port| *port > 0)
}

/// A share of percent as parts per million: `99.5` is 995,000. None outside 0 to 100, or finer than a part per million.
pub(super) fn percent_ppm(text: &str) -> Option<u32> {
    let percent: crate::engine::weight::Weight = format!("{text}%").parse().ok()?;
    Some(percent.ppm())
}

/// Whether this can be the name of a header or cookie: a token of RFC 9110, 5.6.2.
pub(super) fn is_token(text: &str) -> bool {
    let fine = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    (1..=128).contains(&text.len()) && text.bytes().all(fine)
}

/// A text as a scalar of our file, in which a dollar would begin a reference to the environment.
pub(super) fn scalar(text: &str) -> String {
    if is_plain(text) {
        return text.to_owned();
    }
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '$' => quoted.push_str("$$"),
            '\n' => quoted.push_str("\\n"),
            // What a YAML reader may refuse or take for the end of a line.
            _ if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}') => {
                let _ = write!(quoted, "\\u{:04x}", u32::from(c));
            }
            _ => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// A tree on one line.
pub(super) fn flow(item: &Item) -> String {
    match &item.content {
        Content::Null => "null".to_owned(),
        Content::Text(text) => scalar(text),
        Content::List(items) => format!("[{}]", items.iter().map(flow).collect::<Vec<_>>().join(", ")),
        Content::Map(fields) if fields.is_empty() => "{}".to_owned(),
        Content::Map(fields) => {
            let field = |(key, item): &(String, Item)| format!("{}: {}", key_of(key), flow(item));
            format!("{{ {} }}", fields.iter().map(field).collect::<Vec<_>>().join(", "))
        }
    }
}

/// A key of our file. In keys a dollar is a dollar.
pub(super) fn key_of(text: &str) -> String {
    scalar(text).replace("$$", "$")
}

/// Text that needs no quotes anywhere in YAML.
fn is_plain(text: &str) -> bool {
    let fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/');
    let words = ["null", "true", "false", "yes", "no", "on", "off", "y", "n"];
    text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '/')
        && text.chars().all(fine)
        && !words.iter().any(|word| text.eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_of_go_are_read_exactly() {
        for (text, shows) in [
            ("1h30m", "1h30m"),
            ("1.5h", "1h30m"),
            ("90s", "1m30s"),
            ("1m30.5s", "1m30s500ms"),
            ("500ms", "500ms"),
            ("1500us", "1ms"),
            ("100ns", "0s"),
            (".5m", "30s"),
        ] {
            assert_eq!(go_duration(text).map(shown).as_deref(), Some(shows), "{text}");
        }
        for text in ["", "5", "5x", "-5s", "s", ".s", "1d", "99999999h", "5 s", "1e3s"] {
            assert_eq!(go_duration(text), None, "{text}");
        }
        assert_eq!(argo_duration("90"), Some(Duration::from_secs(90)));
        assert_eq!(argo_duration("4294967295"), None);
    }

    #[test]
    fn scalars_are_read_back_as_they_were() {
        for text in ["web", "0.95", "a b", "null", "${HOME}", "x$$", "\"\\", "a: b # c", "\u{7}\n\u{2028}ö", "", "- x"]
        {
            let read = crate::config::documents(&format!("a: {}\n", scalar(text)), std::path::Path::new("x")).unwrap();
            let crate::config::yaml::Value::Map(fields) = &read[0].value else { panic!("a mapping") };
            let crate::config::yaml::Value::Scalar(scalar) = &fields[0].node.value else { panic!("{text:?}") };
            assert_eq!(scalar.text, text.replace('$', "$$"));
        }
    }
}

//! Single values: durations, shares, sizes, whole numbers, addresses, URLs.
//! Refuses bare numbers where a unit is meant, and everything out of range.

use std::{net::SocketAddr, ops::RangeInclusive, str::FromStr, time::Duration};

use super::{
    diagnostic::Code,
    report::{At, Problem, Report},
};
use crate::engine::{
    endpoint::{Endpoint, Site},
    weight::{Weight, WeightError},
};

/// Longest duration in a file.
const DURATION_MAX: Duration = Duration::from_hours(366 * 24);
const DURATION_HELP: &str = "write a duration with its unit, as `800ms`, `30s`, `5m` or `1h30m`";
const SHARE_HELP: &str = "write a share with its unit, as `5%`, `0.25%` or `2500ppm`";

impl Report {
    /// A duration within bounds.
    pub fn duration(&mut self, at: &At<'_>, range: RangeInclusive<Duration>) -> Option<Duration> {
        self.scalar(at, "a duration such as `30s`", |text| {
            let value = duration(text).map_err(|problem| problem.fix(with_unit(text, &range)))?;
            if value < *range.start() {
                return Err(Problem::new(format!("must be at least {}", human(*range.start())), DURATION_HELP));
            }
            if value > *range.end() {
                return Err(Problem::new(format!("must be at most {}", human(*range.end())), DURATION_HELP));
            }
            Ok(value)
        })
    }

    /// A share of traffic or of requests.
    pub fn share(&mut self, at: &At<'_>) -> Option<Weight> {
        self.scalar(at, "a share such as `5%`", share)
    }

    /// The same where none at all would make no sense, for the reason `none_means`.
    pub fn share_of_some(&mut self, at: &At<'_>, none_means: &str, help: &str) -> Option<Weight> {
        let share = self.share(at)?;
        if share == Weight::ZERO {
            self.error(Code::BadValue, &at.span(), none_means).help(help);
            return None;
        }
        Some(share)
    }

    /// A whole number within bounds.
    pub fn whole(&mut self, at: &At<'_>, range: RangeInclusive<u64>) -> Option<u64> {
        self.scalar(at, "a whole number", |text| {
            let help = format!("write a whole number from {} to {}", range.start(), range.end());
            let value: u64 = digits(text).ok_or_else(|| Problem::new("must be a whole number", &help))?;
            if range.contains(&value) { Ok(value) } else { Err(Problem::new("is out of range", &help)) }
        })
    }

    /// A finite number of at least `min`.
    pub fn number(&mut self, at: &At<'_>, min: f64) -> Option<f64> {
        self.scalar(at, "a number", |text| {
            let value = text.parse::<f64>().ok().filter(|value| value.is_finite() && *value >= min);
            value.ok_or_else(|| {
                Problem::new(format!("must be a number of at least {min}"), format!("write, say, `{}`", min + 0.25))
            })
        })
    }

    /// A size in bytes within bounds.
    pub fn size(&mut self, at: &At<'_>, range: RangeInclusive<u64>) -> Option<usize> {
        let help = format!("write a size from {}KiB to {}KiB, as `64KiB`", range.start() >> 10, range.end() >> 10);
        self.scalar(at, "a size such as `64KiB`", |text| {
            let bytes = size(text).ok_or_else(|| Problem::new("is not a size", &help))?;
            let bytes = Some(bytes)
                .filter(|bytes| range.contains(bytes))
                .ok_or_else(|| Problem::new("is out of range", &help))?;
            usize::try_from(bytes).map_err(|_| Problem::new("is out of range", &help))
        })
    }

    /// An address to listen on.
    pub fn address(&mut self, at: &At<'_>) -> Option<SocketAddr> {
        self.scalar(at, "an address such as `0.0.0.0:8080`", address)
    }

    /// Where a version answers.
    pub fn endpoint(&mut self, at: &At<'_>) -> Option<Site> {
        self.scalar(at, "a URL such as `http://app:8000`", endpoint)
    }
}

/// Reads where a version answers, as it is written in a file.
///
/// # Errors
/// What is wrong with it, and how it is written.
pub fn site(text: &str) -> Result<Site, String> {
    endpoint(text).map_err(|problem| format!("{}; {}", problem.message, problem.fix.unwrap_or(problem.help)))
}

/// A duration as people write it: `1h30m`, `30s`, `800ms`, `1500ms`.
#[must_use]
pub fn human(duration: Duration) -> String {
    let millis = duration.as_millis();
    if millis == 0 {
        return "0s".to_owned();
    }
    let mut rest = millis;
    let mut text = String::new();
    for (unit, size) in UNITS {
        if rest >= size {
            text += &(rest / size).to_string();
            text += unit;
            rest %= size;
        }
    }
    text
}

const UNITS: [(&str, u128); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// Reads a duration as it is written anywhere in a file.
#[must_use]
pub fn span(text: &str) -> Option<Duration> {
    duration(text).ok()
}

/// Digits only: `+5` is a number to Rust, but not to people.
fn digits<T: FromStr>(text: &str) -> Option<T> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

/// Reads `1h30m`, `1.5s`, `800ms`; units from large to small, each once; no finer than a millisecond.
fn duration(text: &str) -> Result<Duration, Problem> {
    if text.parse::<f64>().is_ok() {
        return Err(Problem::new("is a duration and needs a unit", DURATION_HELP));
    }
    let bad = || Problem::new("is not a duration", DURATION_HELP);
    let mut rest = text;
    let mut total: u128 = 0;
    let mut units = UNITS.iter();
    while !rest.is_empty() {
        let end = rest.find(|c: char| c.is_ascii_alphabetic()).ok_or_else(bad)?;
        let (number, tail) = rest.split_at(end);
        let end = tail.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(end);
        let (_, size) = units.find(|(name, _)| *name == unit).ok_or_else(bad)?;
        total = total.saturating_add(millis(number, *size).ok_or_else(bad)?);
        rest = tail;
    }
    let value = u64::try_from(total).map_or(Duration::MAX, Duration::from_millis);
    if text.is_empty() {
        Err(bad())
    } else if value > DURATION_MAX {
        Err(Problem::new("must be at most a year", DURATION_HELP))
    } else {
        Ok(value)
    }
}

/// A bare number with the units that would make it fit.
fn with_unit(text: &str, range: &RangeInclusive<Duration>) -> Option<String> {
    let number: u64 = digits(text)?;
    let fits = |size: u128| {
        let millis = u64::try_from(size).ok().and_then(|size| number.checked_mul(size));
        millis.is_some_and(|millis| range.contains(&Duration::from_millis(millis)))
    };
    let near = UNITS.iter().rev().filter(|(_, size)| fits(*size)).map(|(unit, _)| format!("`{text}{unit}`"));
    Some(near.take(2).collect::<Vec<_>>().join(" or ")).filter(|fix| !fix.is_empty())
}

/// So many units of `size` milliseconds, exactly.
fn millis(number: &str, size: u128) -> Option<u128> {
    let (whole, part) = number.split_once('.').unwrap_or((number, "0"));
    let scale = 10_u128.checked_pow(u32::try_from(part.len()).ok()?)?;
    let part = u128::from(digits::<u32>(part)?) * size;
    part.is_multiple_of(scale).then_some(u128::from(digits::<u32>(whole)?) * size + part / scale)
}

fn share(text: &str) -> Result<Weight, Problem> {
    if text.parse::<f64>().is_ok() {
        return Err(Problem::new("is a share and needs a unit", SHARE_HELP).fix(in_percent(text)));
    }
    text.parse().map_err(|error| match error {
        WeightError::Form => Problem::new("is not a share", SHARE_HELP),
        WeightError::TooLarge | WeightError::TooFine => Problem::new(format!("is out of range: {error}"), SHARE_HELP),
    })
}

/// A bare number in percent; below 1 it may be meant as a part of 1 as well.
fn in_percent(text: &str) -> Option<String> {
    let number = text.parse::<f64>().ok().filter(|number| (0.0..=100.0).contains(number))?;
    let as_part = format!("{:.4}", number * 100.0);
    let as_part = as_part.trim_end_matches('0').trim_end_matches('.');
    Some(if number > 0.0 && number < 1.0 { format!("`{as_part}%` or `{text}%`") } else { format!("`{text}%`") })
}

fn size(text: &str) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let scale: u64 = match unit.trim_start() {
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(scale)
}

fn address(text: &str) -> Result<SocketAddr, Problem> {
    let help = "write an IP address and a port, as `0.0.0.0:8080`, `127.0.0.1:8080` or `[::]:8080`";
    text.parse().map_err(|_| {
        let port_after = |prefix| text.strip_prefix(prefix).filter(|port| digits::<u16>(port).is_some());
        let fix = port_after("localhost:").map(|port| format!("`127.0.0.1:{port}`"));
        let fix = fix.or_else(|| port_after("*:").map(|port| format!("`0.0.0.0:{port}`")));
        let fix = fix.or_else(|| {
            let port = port_after(":").or_else(|| port_after(""))?;
            Some(format!("`0.0.0.0:{port}` (all addresses) or `127.0.0.1:{port}` (this machine only)"))
        });
        Problem::new("is not an address to listen on", help).fix(fix)
    })
}

fn endpoint(text: &str) -> Result<Site, Problem> {
    let help = "write it as `http://host:port` or `https://host:port`, with nothing after the port, or as `unix:/path`";
    if let Some(path) = text.strip_prefix("unix:") {
        return unix(path);
    }
    let (rest, is_tls) = match (text.strip_prefix("http://"), text.strip_prefix("https://")) {
        (Some(rest), _) => (rest, false),
        (_, Some(rest)) => (rest, true),
        _ if text.contains("://") => {
            let message =
                if text.starts_with("://") { "has no scheme" } else { "has a scheme that Serin cannot speak" };
            return Err(Problem::new(message, help));
        }
        _ => {
            let fix = authority(text, 80).is_ok().then(|| format!("`http://{text}`"));
            return Err(Problem::new("must be a URL that begins with `http://` or `https://`", help).fix(fix));
        }
    };
    authority(rest.strip_suffix('/').unwrap_or(rest), if is_tls { 443 } else { 80 })
        .map(|endpoint| Site { endpoint, is_tls })
        .map_err(|message| Problem::new(message, help))
}

fn unix(path: &str) -> Result<Site, Problem> {
    // What the system takes, with its closing zero (unix(7)).
    const LONGEST: usize = 107;
    let help = "write the absolute path of the socket, as `unix:/run/app.sock`";
    if !path.starts_with('/') || path.starts_with("//") {
        let fix = path.strip_prefix("//").filter(|path| path.starts_with('/')).map(|path| format!("`unix:{path}`"));
        return Err(Problem::new("has no absolute path after `unix:`", help).fix(fix));
    }
    if path.len() > LONGEST || path.contains('\0') {
        return Err(Problem::new("has a path that is too long for a socket", help));
    }
    Ok(Site { endpoint: Endpoint::Unix { path: path.into() }, is_tls: false })
}

/// `host`, `host:port`, `[v6]:port`; the scheme's own port without one.
fn authority(text: &str, otherwise: u16) -> Result<Endpoint, &'static str> {
    if text.contains('@') {
        return Err("must not contain a user or password");
    }
    if text.contains(['?', '#']) {
        return Err("must not have a query or fragment");
    }
    if text.contains('/') {
        return Err("must not have a path: the request's own path is sent on");
    }
    let (host, port) = if let Some(bracketed) = text.strip_prefix('[') {
        let (host, port) = bracketed.split_once(']').ok_or("has a `[` without `]`")?;
        host.parse::<std::net::Ipv6Addr>().map_err(|_| "has no IPv6 address between `[` and `]`")?;
        (host, port)
    } else {
        let (host, port) = text.split_at(text.find(':').unwrap_or(text.len()));
        let label = |label: &str| {
            let fine = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
            (1..=63).contains(&label.len()) && label.bytes().all(fine)
        };
        let name = host.strip_suffix('.').unwrap_or(host);
        if host.len() > 253 || !name.split('.').all(label) {
            return Err("has no valid host name or address");
        }
        (host, port)
    };
    let port = match port.strip_prefix(':') {
        None if port.is_empty() => otherwise,
        None => return Err("has something other than a port after the host"),
        Some(port) => digits(port).filter(|port: &u16| *port > 0).ok_or("has no valid port (1 to 65535)")?,
    };
    Ok(Endpoint::tcp(host.to_ascii_lowercase(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_and_written_back() {
        for (text, millis, shown) in [
            ("800ms", 800, "800ms"),
            ("30s", 30_000, "30s"),
            ("90s", 90_000, "1m30s"),
            ("1.5s", 1_500, "1s500ms"),
            ("1h30m", 5_400_000, "1h30m"),
            ("1d", 86_400_000, "1d"),
            ("0s", 0, "0s"),
            ("0.5h", 1_800_000, "30m"),
        ] {
            let value = duration(text).unwrap();
            assert_eq!((value.as_millis(), &*human(value)), (millis, shown), "{text}");
        }
        for text in [
            "",
            "s",
            "5",
            "-5s",
            "+5s",
            "5 s",
            "5x",
            "5s5s",
            "5s1m",
            "1.2345s",
            "1e3s",
            "5sx",
            "५s",
            "400d",
            "99999999999d",
        ] {
            assert!(duration(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn urls_are_read_strictly() {
        for (text, host, port) in [
            ("http://app:8000", "app", 8000),
            ("http://App.example./", "app.example.", 80),
            ("http://127.0.0.1:1", "127.0.0.1", 1),
            ("http://[::1]:9", "::1", 9),
            ("http://[::1]", "::1", 80),
            ("http://app_v1-2", "app_v1-2", 80),
        ] {
            let read = endpoint(text).unwrap();
            assert_eq!(read, Site { endpoint: Endpoint::tcp(host, port), is_tls: false }, "{text}");
        }
        let tls = endpoint("https://app").unwrap();
        assert_eq!(tls, Site { endpoint: Endpoint::tcp("app", 443), is_tls: true });
        let unix = endpoint("unix:/run/app.sock").unwrap();
        assert_eq!(unix.endpoint, Endpoint::Unix { path: "/run/app.sock".into() });
        for text in [
            "",
            "http://",
            "http://:80",
            "http://a:0",
            "http://a:65536",
            "http://a:",
            "http://a:+1",
            "http://a/b",
            "http://a?b",
            "http://u@a",
            "http://a b",
            "http://[::1",
            "http://[a]:1",
            "http://[::1]x",
            "http://a..b",
            "http://::1:80",
            "https://",
            "https://a/b",
            "unix:a",
            "unix:",
            "unix://a",
            "unix:///a",
            "ftp://a",
            "://a",
            "app:8000",
            "app",
        ] {
            assert!(endpoint(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_fix_is_offered_for_what_people_write() {
        let fix = |result: Result<(), Problem>| result.unwrap_err().fix.unwrap_or_default();
        assert_eq!(fix(share("5").map(drop)), "`5%`");
        assert_eq!(fix(share("0.07").map(drop)), "`7%` or `0.07%`");
        assert_eq!(fix(address("localhost:80").map(drop)), "`127.0.0.1:80`");
        assert_eq!(fix(endpoint("app:8000").map(drop)), "`http://app:8000`");
        assert!(fix(address(":8080").map(drop)).starts_with("`0.0.0.0:8080`"));
    }

    #[test]
    fn a_bare_number_gets_the_units_that_fit() {
        let fix =
            |text: &str, from: u64, to: u64| with_unit(text, &(Duration::from_millis(from)..=Duration::from_secs(to)));
        assert_eq!(fix("30", 1_000, 3_600).as_deref(), Some("`30s` or `30m`"));
        assert_eq!(fix("800", 1, 3_600).as_deref(), Some("`800ms` or `800s`"));
        assert_eq!(fix("0", 1, 3_600), None);
        assert_eq!(fix("4294967295", 1, 1), None);
    }

    #[test]
    fn sizes_are_read() {
        assert_eq!(
            ["64KiB", "1MiB", "8192", "10 B", "1kb", "x"].map(size),
            [Some(65_536), Some(1 << 20), Some(8192), Some(10), None, None]
        );
    }
}

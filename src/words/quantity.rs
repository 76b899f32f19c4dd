//! Numbers as people read them. Rounds for the eye only; nothing here is parsed back.

use std::time::Duration;

/// A duration in at most two units: `350ms`, `1.1s`, `42s`, `1m12s`, `2h5m`, `3d4h`.
#[must_use]
pub fn duration(of: Duration) -> String {
    let ms = of.as_millis();
    let tenths = (ms + 50) / 100;
    if ms == 0 {
        return "0s".to_owned();
    }
    if ms < 1_000 {
        return format!("{ms}ms");
    }
    if tenths < 100 && !tenths.is_multiple_of(10) {
        return format!("{}.{}s", tenths / 10, tenths % 10);
    }
    // Under a minute to the nearest second; above, a unit that has not passed yet is not counted.
    let seconds = if ms < 59_500 { (ms + 500) / 1_000 } else { ms / 1_000 };
    let two = |(big, big_unit): (u128, &str), (small, small_unit): (u128, &str)| {
        if small == 0 { format!("{big}{big_unit}") } else { format!("{big}{big_unit}{small}{small_unit}") }
    };
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => two((seconds / 60, "m"), (seconds % 60, "s")),
        3_600..86_400 => two((seconds / 3_600, "h"), (seconds % 3_600 / 60, "m")),
        _ => two((seconds / 86_400, "d"), (seconds % 86_400 / 3_600, "h")),
    }
}

/// A latency with about three digits: `0.85 ms`, `1.2 ms`, `184 ms`, `1.25 s`.
#[must_use]
pub fn latency(of: Duration) -> String {
    let ms = of.as_secs_f64() * 1e3;
    match ms {
        _ if ms < 0.995 => format!("{ms:.2} ms"),
        _ if ms < 9.95 => format!("{} ms", trimmed(ms, 1)),
        _ if ms < 999.5 => format!("{ms:.0} ms"),
        _ if ms < 9_995.0 => format!("{} s", trimmed(ms / 1e3, 2)),
        _ => format!("{:.0} s", ms / 1e3),
    }
}

/// A measured share as percent: `0.0%`, `0.27%`, `4.97%`, `50.0%`, `100%`.
#[must_use]
pub fn share(of: f64) -> String {
    let percent = of * 100.0;
    match percent {
        _ if percent <= 0.0 => "0.0%".to_owned(),
        _ if percent < 0.005 => "<0.01%".to_owned(),
        _ if percent < 9.995 => format!("{percent:.2}%"),
        _ if percent < 99.95 => format!("{percent:.1}%"),
        _ if percent < 100.0 => ">99.9%".to_owned(),
        _ => format!("{percent:.0}%"),
    }
}

/// A share that somebody wrote, without needless zeros: `2%`, `0.5%`.
#[must_use]
pub fn limit(of: f64) -> String {
    format!("{}%", trimmed(of * 100.0, 4))
}

/// A rate a second: `0`, `0.35`, `3.8`, `76.2`, `1,234`.
#[must_use]
pub fn rate(of: f64) -> String {
    match of {
        _ if of <= 0.0 => "0".to_owned(),
        _ if of < 0.995 => format!("{of:.2}"),
        _ if of < 99.95 => format!("{of:.1}"),
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive; saturates")]
        _ => number(of.round() as u64),
    }
}

/// A whole number with separators: `1,234,567`.
#[must_use]
pub fn number(of: u64) -> String {
    let digits = of.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3 + 1);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number of things: `1 request`, `2 requests`.
#[must_use]
pub fn counted(of: u64, thing: &str) -> String {
    format!("{} {thing}{}", number(of), if of == 1 { "" } else { "s" })
}

/// A finite number without needless zeros.
pub(super) fn trimmed(of: f64, decimals: usize) -> String {
    let text = format!("{of:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// `p99` for 0.99, `p999` for 0.999.
#[must_use]
pub fn quantile(of: f64) -> String {
    format!("p{}", trimmed(of * 100.0, 4).replace('.', ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_at_most_two_units() {
        for (ms, shown) in [
            (0, "0s"),
            (350, "350ms"),
            (1_000, "1s"),
            (1_100, "1.1s"),
            (9_960, "10s"),
            (42_400, "42s"),
            (59_499, "59s"),
            (59_999, "59s"),
            (60_000, "1m"),
            (72_000, "1m12s"),
            (7_500_000, "2h5m"),
            (7_200_000, "2h"),
            (273_600_000, "3d4h"),
        ] {
            assert_eq!(duration(Duration::from_millis(ms)), shown, "{ms} ms");
        }
    }

    #[test]
    fn latencies_have_about_three_digits() {
        for (us, shown) in [
            (4, "0.00 ms"),
            (850, "0.85 ms"),
            (1_210, "1.2 ms"),
            (31_743, "32 ms"),
            (184_000, "184 ms"),
            (800_000, "800 ms"),
            (1_000_000, "1 s"),
            (1_250_000, "1.25 s"),
            (12_000_000, "12 s"),
        ] {
            assert_eq!(latency(Duration::from_micros(us)), shown, "{us} us");
        }
    }

    #[test]
    fn shares_rates_and_counts() {
        for (value, shown) in [
            (0.0, "0.0%"),
            (0.000_01, "<0.01%"),
            (0.0027, "0.27%"),
            (0.0497, "4.97%"),
            (0.5, "50.0%"),
            (0.9999, ">99.9%"),
            (1.0, "100%"),
        ] {
            assert_eq!(share(value), shown);
        }
        assert_eq!((limit(0.02), limit(0.005), limit(1.0)), ("2%".into(), "0.5%".into(), "100%".into()));
        assert_eq!([0.0, 0.35, 3.84, 76.2, 1234.4].map(rate), ["0", "0.35", "3.8", "76.2", "1,234"]);
        assert_eq!([0, 7, 999, 1_000, 1_234_567].map(number), ["0", "7", "999", "1,000", "1,234,567"]);
        assert_eq!((counted(1, "request"), counted(0, "error")), ("1 request".into(), "0 errors".into()));
        assert_eq!([0.5, 0.99, 0.999].map(quantile), ["p50", "p99", "p999"]);
    }
}

//! Values that several verbs take: durations and shares, read as the config file reads them.

use std::time::Duration;

/// Reads `20ms`, `30s`, `10m`, `1h30m`. Zero needs a unit too.
pub fn duration(text: &str) -> Result<Duration, String> {
    let parsed = text.parse::<jiff::SignedDuration>().ok().and_then(|signed| Duration::try_from(signed).ok());
    parsed.ok_or_else(|| "write a duration with its unit, as `20ms`, `30s`, `5m` or `1h30m`".to_owned())
}

/// Reads `50%` or `0.5%` as a share in `0.0..=1.0`.
pub fn share(text: &str) -> Result<f64, String> {
    let percent = text.strip_suffix('%').and_then(|number| number.trim_end().parse::<f64>().ok());
    let share = percent.map(|percent| percent / 100.0).filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| "write a share from `0%` to `100%`".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_a_unit() {
        for (text, ms) in [("20ms", 20), ("30s", 30_000), ("10m", 600_000), ("1h30m", 5_400_000), ("0s", 0)] {
            assert_eq!(duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for bad in ["", "5", "-5s", "5 parsecs", "s", "1d"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn shares_are_percent_and_no_more_than_all() {
        for (text, value) in [("50%", 0.5), ("0%", 0.0), ("100 %", 1.0), ("0.5%", 0.005)] {
            assert_eq!(share(text), Ok(value), "{text}");
        }
        for bad in ["", "50", "%", "101%", "-1%", "NaN%", "inf%"] {
            assert!(share(bad).is_err(), "{bad}");
        }
    }
}

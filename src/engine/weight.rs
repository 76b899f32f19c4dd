//! Weights in parts per million: exact, and they always sum to [`Weight::FULL`].

use std::{fmt, str::FromStr};

/// A share of traffic in parts of 1,000,000. Always in `0..=1_000_000`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Weight(u32);

/// Why a text or number is not a weight.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WeightError {
    /// Neither `5%` nor `50000ppm`.
    #[error("write a weight as `5%`, `0.25%` or `2500ppm`")]
    Form,
    /// Over 100 %.
    #[error("a weight is at most 100% (1000000ppm)")]
    TooLarge,
    /// Finer than one part per million.
    #[error("a weight is no finer than 0.0001% (1ppm)")]
    TooFine,
}

impl Weight {
    /// Nothing.
    pub const ZERO: Self = Self(0);
    /// All traffic.
    pub const FULL: Self = Self(1_000_000);

    /// A weight of so many parts per million.
    ///
    /// # Errors
    /// When over 1,000,000.
    pub const fn from_ppm(parts: u32) -> Result<Self, WeightError> {
        if parts > Self::FULL.0 { Err(WeightError::TooLarge) } else { Ok(Self(parts)) }
    }

    /// Parts per million.
    #[must_use]
    pub const fn ppm(self) -> u32 {
        self.0
    }

    /// As a share in `0.0..=1.0`.
    #[must_use]
    pub fn ratio(self) -> f64 {
        f64::from(self.0) / f64::from(Self::FULL.0)
    }

    /// What is left of all traffic.
    #[must_use]
    pub const fn rest(self) -> Self {
        Self(Self::FULL.0 - self.0)
    }
}

impl fmt::Display for Weight {
    /// As percent without needless zeros: `5%`, `0.25%`, `0.0001%`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, part) = (self.0 / 10_000, self.0 % 10_000);
        if part == 0 {
            return f.pad(&format!("{whole}%"));
        }
        let digits = format!("{part:04}");
        f.pad(&format!("{whole}.{}%", digits.trim_end_matches('0')))
    }
}

impl FromStr for Weight {
    type Err = WeightError;

    /// Reads `5%`, `0.25 %` or `2500ppm`.
    fn from_str(text: &str) -> Result<Self, WeightError> {
        if let Some(parts) = text.strip_suffix("ppm") {
            return Self::from_ppm(digits(parts.trim_end())?);
        }
        let percent = text.strip_suffix('%').ok_or(WeightError::Form)?.trim_end();
        let (whole, part) = percent.split_once('.').unwrap_or((percent, ""));
        let part = part.trim_end_matches('0');
        if part.len() > 4 {
            return if part.bytes().all(|b| b.is_ascii_digit()) {
                Err(WeightError::TooFine)
            } else {
                Err(WeightError::Form)
            };
        }
        let whole = digits(whole)?;
        let part = if part.is_empty() { 0 } else { digits(&format!("{part:0<4}"))? };
        if whole > 100 {
            return Err(WeightError::TooLarge);
        }
        Self::from_ppm(whole * 10_000 + part)
    }
}

fn digits(text: &str) -> Result<u32, WeightError> {
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(WeightError::Form);
    }
    text.parse().map_err(|_| WeightError::TooLarge)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_read_exactly_and_written_back() {
        for (text, ppm, shown) in [
            ("5%", 50_000, "5%"),
            ("0.25%", 2_500, "0.25%"),
            ("0.01 %", 100, "0.01%"),
            ("100%", 1_000_000, "100%"),
            ("0%", 0, "0%"),
            ("1ppm", 1, "0.0001%"),
            ("2500 ppm", 2_500, "0.25%"),
            ("33.3333%", 333_333, "33.3333%"),
            ("5.50000%", 55_000, "5.5%"),
        ] {
            let weight: Weight = text.parse().unwrap();
            assert_eq!(weight.ppm(), ppm, "{text}");
            assert_eq!(weight.to_string(), shown, "{text}");
        }
    }

    #[test]
    fn a_bad_weight_says_what_is_wrong() {
        for (text, error) in [
            ("5", WeightError::Form),
            ("", WeightError::Form),
            ("%", WeightError::Form),
            ("-5%", WeightError::Form),
            ("+5%", WeightError::Form),
            ("5.x%", WeightError::Form),
            ("101%", WeightError::TooLarge),
            ("100.0001%", WeightError::TooLarge),
            ("1000001ppm", WeightError::TooLarge),
            ("99999999999ppm", WeightError::TooLarge),
            ("0.00001%", WeightError::TooFine),
        ] {
            assert_eq!(text.parse::<Weight>().unwrap_err(), error, "{text}");
        }
    }
}

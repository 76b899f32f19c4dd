//! Numbers and words that JSON or a checked type would lose or refuse.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use super::RecordError;
use crate::engine::{
    names::{ServiceName, VersionName},
    samples::Counts,
    weight::Weight,
};

/// A float, exact to the last bit. Written as text, since JSON has no infinities and readers of JSON numbers round.
#[derive(Debug, Clone, Copy)]
pub struct Float(pub f64);

impl fmt::Display for Float {
    /// The shortest decimal that reads back the same; `inf`, `-inf`; `nan:` and the bits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_nan() { write!(f, "nan:{:016x}", self.0.to_bits()) } else { write!(f, "{:?}", self.0) }
    }
}

impl Serialize for Float {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Float {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let parsed = match text.strip_prefix("nan:") {
            Some(bits) => u64::from_str_radix(bits, 16).ok().map(f64::from_bits).filter(|value| value.is_nan()),
            None => text.parse::<f64>().ok().filter(|value| !value.is_nan()),
        };
        parsed.map(Self).ok_or_else(|| D::Error::custom("no such number"))
    }
}

/// Requests and errors.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CountsRecord {
    requests: u64,
    errors: u64,
}

impl From<Counts> for CountsRecord {
    fn from(Counts { requests, errors }: Counts) -> Self {
        Self { requests, errors }
    }
}

impl From<CountsRecord> for Counts {
    fn from(CountsRecord { requests, errors }: CountsRecord) -> Self {
        Self { requests, errors }
    }
}

pub fn service_name(text: &str) -> Result<ServiceName, RecordError> {
    ServiceName::new(text).map_err(|_| RecordError::Value(format!("`{text}` as the name of a service")))
}

pub fn version_name(text: &str) -> Result<VersionName, RecordError> {
    VersionName::new(text).map_err(|_| RecordError::Value(format!("`{text}` as the name of a version")))
}

pub fn weight(ppm: u32) -> Result<Weight, RecordError> {
    Weight::from_ppm(ppm).map_err(|_| RecordError::Value(format!("a weight of {ppm} ppm")))
}

/// The number of a step; the engine counts in the machine's word.
pub fn step(step: u64) -> Result<usize, RecordError> {
    usize::try_from(step).map_err(|_| RecordError::Value(format!("step {step}")))
}

/// The known word that reads the same.
pub fn word(known: &[&'static str], text: &str) -> Result<&'static str, RecordError> {
    known.iter().find(|word| **word == text).copied().ok_or_else(|| RecordError::Value(format!("the word `{text}`")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_float_keeps_every_bit(bits: u64) {
            let json = serde_json::to_string(&Float(f64::from_bits(bits))).unwrap();
            let back: Float = serde_json::from_str(&json).unwrap();
            prop_assert_eq!(back.0.to_bits(), bits);
        }
    }

    #[test]
    fn special_floats_are_written_as_people_would() {
        for (value, text) in
            [(f64::NEG_INFINITY, "-inf"), (f64::INFINITY, "inf"), (-0.0, "-0.0"), (0.01, "0.01"), (5e-324, "5e-324")]
        {
            let json = serde_json::to_string(&Float(value)).unwrap();
            assert_eq!(json, format!("\"{text}\""));
            assert_eq!(serde_json::from_str::<Float>(&json).unwrap().0.to_bits(), value.to_bits());
        }
        for bad in ["\"\"", "\"nan:0000000000000000\"", "\"NaN\"", "\"x\"", "1.5"] {
            assert!(serde_json::from_str::<Float>(bad).is_err(), "{bad}");
        }
    }
}

//! How single values are written and read. What is read is checked here, at the door, so that everything behind it
//! holds the engine's own types.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serializer};

use crate::engine::{
    analysis::{ask::RunKind, measurement, run::AnalysisPhase},
    event::EventKind,
    health::EndpointState,
    names::{Role, ServiceName, VersionName},
    time::Timestamp,
    view::{PhaseView, Unit, Verdict},
    weight::Weight,
};

/// A value that is a word on the wire.
pub(super) trait Word: Sized {
    fn show(&self) -> String;
    fn read(text: &str) -> Option<Self>;
}

/// `#[serde(with = "codec::word")]`
pub(super) mod word {
    use super::{Deserialize as _, Deserializer, Serializer, Word};

    pub fn serialize<T: Word, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&value.show())
    }

    pub fn deserialize<'de, T: Word, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
        super::parsed(&String::deserialize(deserializer)?)
    }
}

/// `#[serde(with = "codec::word_option", default, skip_serializing_if = "Option::is_none")]`
pub(super) mod word_option {
    use super::{Deserialize as _, Deserializer, Serializer, Word};

    #[expect(clippy::ref_option, reason = "serde calls it so")]
    pub fn serialize<T: Word, S: Serializer>(value: &Option<T>, serializer: S) -> Result<S::Ok, S::Error> {
        match value {
            Some(value) => serializer.serialize_some(&value.show()),
            None => serializer.serialize_none(),
        }
    }

    pub fn deserialize<'de, T: Word, D: Deserializer<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
        Option::<String>::deserialize(deserializer)?.map(|text| super::parsed(&text)).transpose()
    }
}

/// A duration as milliseconds, exact to the microsecond.
pub(super) mod millis {
    use super::{Deserialize as _, Deserializer, Duration, Serializer};

    pub fn serialize<S: Serializer>(value: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        if value.subsec_micros().is_multiple_of(1_000) {
            return serializer.serialize_u64(u64::try_from(value.as_millis()).unwrap_or(u64::MAX));
        }
        let micros = u32::try_from(value.as_micros()).map_or(value.as_secs_f64() * 1e6, f64::from);
        serializer.serialize_f64(micros / 1e3)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        super::from_millis(f64::deserialize(deserializer)?)
    }
}

/// The same, where there may be none.
pub(super) mod millis_option {
    use super::{Deserialize as _, Deserializer, Duration, Serializer};

    #[expect(clippy::ref_option, reason = "serde calls it so")]
    pub fn serialize<S: Serializer>(value: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
        match value {
            Some(value) => super::millis::serialize(value, serializer),
            None => serializer.serialize_none(),
        }
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
        Option::<f64>::deserialize(deserializer)?.map(super::from_millis).transpose()
    }
}

/// A weight as parts per million.
pub(super) mod ppm {
    use super::{Deserialize as _, Deserializer, Serializer, Weight};
    use serde::de::Error as _;

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
    pub fn serialize<S: Serializer>(value: &Weight, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u32(value.ppm())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Weight, D::Error> {
        Weight::from_ppm(u32::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

/// The same, where there may be none.
pub(super) mod ppm_option {
    use super::{Deserialize as _, Deserializer, Serializer, Weight};
    use serde::de::Error as _;

    #[expect(clippy::ref_option, clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
    pub fn serialize<S: Serializer>(value: &Option<Weight>, serializer: S) -> Result<S::Ok, S::Error> {
        match value {
            Some(value) => serializer.serialize_u32(value.ppm()),
            None => serializer.serialize_none(),
        }
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Weight>, D::Error> {
        Option::<u32>::deserialize(deserializer)?.map(Weight::from_ppm).transpose().map_err(D::Error::custom)
    }
}

fn parsed<T: Word, E: serde::de::Error>(text: &str) -> Result<T, E> {
    T::read(text).ok_or_else(|| E::custom(format_args!("`{text}` is not a word this version of serin knows here")))
}

fn from_millis<E: serde::de::Error>(ms: f64) -> Result<Duration, E> {
    Duration::try_from_secs_f64((ms * 1e3).round() / 1e6).map_err(E::custom)
}

impl Word for ServiceName {
    fn show(&self) -> String {
        self.to_string()
    }
    fn read(text: &str) -> Option<Self> {
        Self::new(text).ok()
    }
}

impl Word for VersionName {
    fn show(&self) -> String {
        self.to_string()
    }
    fn read(text: &str) -> Option<Self> {
        Self::new(text).ok()
    }
}

impl Word for Timestamp {
    fn show(&self) -> String {
        self.to_string()
    }
    fn read(text: &str) -> Option<Self> {
        let instant: jiff::Timestamp = text.parse().ok()?;
        u64::try_from(instant.as_millisecond()).ok().map(Self::from_millis)
    }
}

impl Word for PhaseView {
    fn show(&self) -> String {
        self.as_str().to_owned()
    }
    fn read(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.as_str() == text)
    }
}

impl Word for EventKind {
    fn show(&self) -> String {
        self.as_str().to_owned()
    }
    fn read(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.as_str() == text)
    }
}

impl Word for Role {
    fn show(&self) -> String {
        self.as_str().to_owned()
    }
    fn read(text: &str) -> Option<Self> {
        [Self::Stable, Self::Canary, Self::Other].into_iter().find(|known| known.as_str() == text)
    }
}

impl Word for Verdict {
    fn show(&self) -> String {
        self.as_str().to_owned()
    }
    fn read(text: &str) -> Option<Self> {
        [Self::Pass, Self::Fail, Self::NoData].into_iter().find(|known| known.as_str() == text)
    }
}

impl Word for EndpointState {
    fn show(&self) -> String {
        self.as_str().to_owned()
    }
    fn read(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.as_str() == text)
    }
}

impl Word for Unit {
    fn show(&self) -> String {
        match self {
            Self::Ratio => "ratio",
            Self::Seconds => "seconds",
            Self::LogEvidence => "logEvidence",
            Self::Count => "count",
        }
        .to_owned()
    }
    fn read(text: &str) -> Option<Self> {
        [Self::Ratio, Self::Seconds, Self::LogEvidence, Self::Count].into_iter().find(|known| known.show() == text)
    }
}

impl Word for RunKind {
    fn show(&self) -> String {
        self.as_str().to_owned()
    }
    fn read(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.as_str() == text)
    }
}

impl Word for AnalysisPhase {
    fn show(&self) -> String {
        self.as_str().to_owned()
    }
    fn read(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.as_str() == text)
    }
}

impl Word for measurement::Verdict {
    fn show(&self) -> String {
        self.as_str().to_owned()
    }
    fn read(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.as_str() == text)
    }
}

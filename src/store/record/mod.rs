//! What is written, and as what: own types with a version, mapped from the engine's and back without loss.
//! The engine's types are taken apart field by field, so that a new field cannot be forgotten here.

mod event;
mod memory;
mod scalar;

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use self::{
    event::EventRecord,
    memory::{EvidenceRecord, ServiceRecord},
};
use crate::engine::{
    effect::Decision,
    event::Event,
    memory::{EvidenceMemory, Memory},
    time::Timestamp,
};

/// The version that is written. Any change of a record's shape is a new version, with a reader for the old one.
///
/// Version 1 had no leaving versions and no turns, version 2 no gates and no added versions.
pub const VERSION: u32 = 3;

/// Why bytes with a good checksum are no record.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// A later Serin wrote it.
    #[error("it is of version {0}, this Serin reads up to version {VERSION}")]
    Newer(u32),
    /// It is not JSON of the expected shape.
    #[error("it is not a record: {0}")]
    Shape(#[from] serde_json::Error),
    /// A value is outside of what the engine allows.
    #[error("it holds {0}")]
    Value(String),
}

/// All that a journal's records amounted to.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Snapshot {
    /// Every service, and the number of the last event.
    pub memory: Memory,
    /// The latest events, oldest first.
    pub history: Vec<Event>,
    /// What was wrong with the files from which this was recovered; the memory is not to be trusted then.
    pub trouble: Option<String>,
}

/// The share tests' states at one moment.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Evidence {
    /// When they were saved.
    pub at: Timestamp,
    /// Each running rollout's.
    pub services: Vec<EvidenceMemory>,
}

/// A decision as JSON.
///
/// # Errors
/// When it could not be read back.
pub fn encode_decision(decision: &Decision) -> Result<Vec<u8>, RecordError> {
    let Decision { event, memory } = decision;
    let json = encode(&DecisionRecord { event: event.into(), memory: memory.into() })?;
    // Words that this room does not know (a new verb, say) must be noticed now, not after the next crash.
    decode_decision(&json)?;
    Ok(json)
}

/// The decision in a record.
///
/// # Errors
/// When it is of a later version, of another shape, or holds impossible values.
pub fn decode_decision(json: &[u8]) -> Result<Decision, RecordError> {
    let DecisionRecord { event, memory } = decode(json)?;
    Ok(Decision { event: event.try_into()?, memory: memory.try_into()? })
}

/// A snapshot as JSON.
///
/// # Errors
/// When a value cannot be written.
pub fn encode_snapshot(snapshot: &Snapshot) -> Result<Vec<u8>, RecordError> {
    let Snapshot { memory: Memory { sequence, services }, history, trouble } = snapshot;
    encode(&SnapshotRecord {
        sequence: *sequence,
        services: services.iter().map(ServiceRecord::from).collect(),
        history: history.iter().map(EventRecord::from).collect(),
        trouble: trouble.clone(),
    })
}

/// The snapshot in a record.
///
/// # Errors
/// When it is of a later version, of another shape, holds impossible values, or its history has a gap.
pub fn decode_snapshot(json: &[u8]) -> Result<Snapshot, RecordError> {
    let SnapshotRecord { sequence, services, history, trouble } = decode(json)?;
    let services = services.into_iter().map(TryInto::try_into).collect::<Result<_, _>>()?;
    let history = history.into_iter().map(TryInto::try_into).collect::<Result<Vec<Event>, _>>()?;
    let first = sequence.wrapping_sub(history.len() as u64);
    let gapless = (1..).zip(&history).all(|(place, event)| event.sequence == first.wrapping_add(place));
    if !gapless {
        return Err(RecordError::Value("a history with a gap".to_owned()));
    }
    Ok(Snapshot { memory: Memory { sequence, services }, history, trouble })
}

/// The evidence as JSON.
///
/// # Errors
/// When a value cannot be written.
pub fn encode_evidence(evidence: &Evidence) -> Result<Vec<u8>, RecordError> {
    let Evidence { at, services } = evidence;
    encode(&EvidenceSetRecord { at: at.as_millis(), services: services.iter().map(EvidenceRecord::from).collect() })
}

/// The evidence in a record.
///
/// # Errors
/// When it is of a later version, of another shape, or holds impossible values.
pub fn decode_evidence(json: &[u8]) -> Result<Evidence, RecordError> {
    let EvidenceSetRecord { at, services } = decode(json)?;
    let services = services.into_iter().map(TryInto::try_into).collect::<Result<_, _>>()?;
    Ok(Evidence { at: Timestamp::from_millis(at), services })
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct DecisionRecord {
    event: EventRecord,
    memory: ServiceRecord,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct SnapshotRecord {
    sequence: u64,
    services: Vec<ServiceRecord>,
    history: Vec<EventRecord>,
    trouble: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct EvidenceSetRecord {
    at: u64,
    services: Vec<EvidenceRecord>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Envelope<T> {
    version: u32,
    body: T,
}

/// Read first and alone: a later version may have any other shape.
#[derive(Deserialize)]
struct VersionOnly {
    version: u32,
}

fn encode<T: Serialize>(body: &T) -> Result<Vec<u8>, RecordError> {
    Ok(serde_json::to_vec(&Envelope { version: VERSION, body })?)
}

fn decode<T: DeserializeOwned>(json: &[u8]) -> Result<T, RecordError> {
    match serde_json::from_slice(json)? {
        // What earlier versions lack is filled in field by field.
        VersionOnly { version: 1..=VERSION } => Ok(serde_json::from_slice::<Envelope<T>>(json)?.body),
        VersionOnly { version: 0 } => Err(RecordError::Value("version 0, which never was".to_owned())),
        VersionOnly { version } => Err(RecordError::Newer(version)),
    }
}

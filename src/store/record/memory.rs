//! The engine's memory as records.

use serde::{Deserialize, Serialize};

use super::{
    RecordError,
    scalar::{self, CountsRecord, Float},
};
use crate::engine::{
    endpoint::{Endpoint, Site},
    memory::{EvidenceMemory, PauseKind, PhaseMemory, RolloutMemory, ServiceMemory},
    names::{Revision, VersionName},
    plan::Wish,
    stats::share_test::{ShareTestState, SlowState},
    time::Timestamp,
};

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ServiceRecord {
    service: String,
    stable: WishRecord,
    stable_since: u64,
    seen: Option<WishRecord>,
    refused: Vec<WishRecord>,
    earlier: Vec<EarlierRecord>,
    revision: u64,
    #[serde(default)]
    leaving: Vec<LeavingRecord>,
    #[serde(default)]
    added: Vec<AddedRecord>,
    phase: PhaseRecord,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct AddedRecord {
    version: String,
    at: EndpointRecord,
    tls: bool,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
enum EndpointRecord {
    Tcp { host: String, port: u16 },
    Unix { path: String },
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct LeavingRecord {
    version: String,
    at: u64,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WishRecord {
    version: String,
    revision: String,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct EarlierRecord {
    revision: u64,
    wish: WishRecord,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
enum PhaseRecord {
    Healthy,
    Progressing(RolloutRecord),
    Paused { rollout: RolloutRecord, kind: String, reason: String, at: u64 },
    Degraded { target: WishRecord, reason: String },
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RolloutRecord {
    target: WishRecord,
    step: u64,
    weight_ppm: u32,
    started: u64,
    since: u64,
    spent_ms: u64,
    #[serde(default = "yes")]
    admitted: bool,
    #[serde(default = "yes")]
    begun: bool,
    #[serde(default)]
    passed: Vec<String>,
}

/// Before there were turns and gates, every rollout had its turn and had begun.
const fn yes() -> bool {
    true
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EvidenceRecord {
    service: String,
    revision: u64,
    epoch: u64,
    log_values: Vec<Float>,
    log_e_max: Float,
    canary: CountsRecord,
    stable: CountsRecord,
    /// Absent in records of before latency was compared.
    #[serde(default)]
    slow: Vec<SlowRecord>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct SlowRecord {
    log_values: Vec<Float>,
    canary: CountsRecord,
    stable: CountsRecord,
}

impl From<&ServiceMemory> for ServiceRecord {
    fn from(memory: &ServiceMemory) -> Self {
        let ServiceMemory { service, stable, stable_since, seen, refused, earlier, revision, leaving, added, phase } =
            memory;
        let earlier_record =
            |(revision, wish): &(Revision, Wish)| EarlierRecord { revision: revision.0, wish: wish.into() };
        Self {
            service: service.to_string(),
            stable: stable.into(),
            stable_since: stable_since.0,
            seen: seen.as_ref().map(WishRecord::from),
            refused: refused.iter().map(WishRecord::from).collect(),
            earlier: earlier.iter().map(earlier_record).collect(),
            revision: revision.0,
            leaving: leaving
                .iter()
                .map(|(version, at)| LeavingRecord { version: version.to_string(), at: at.as_millis() })
                .collect(),
            added: added.iter().map(AddedRecord::from).collect(),
            phase: phase.into(),
        }
    }
}

impl From<&(VersionName, Site)> for AddedRecord {
    fn from((version, Site { endpoint, is_tls }): &(VersionName, Site)) -> Self {
        let at = match endpoint {
            Endpoint::Tcp { host, port } => EndpointRecord::Tcp { host: host.to_string(), port: *port },
            Endpoint::Unix { path } => EndpointRecord::Unix { path: path.to_string() },
        };
        Self { version: version.to_string(), at, tls: *is_tls }
    }
}

impl TryFrom<AddedRecord> for (VersionName, Site) {
    type Error = RecordError;

    fn try_from(AddedRecord { version, at, tls }: AddedRecord) -> Result<Self, RecordError> {
        let endpoint = match at {
            EndpointRecord::Tcp { host, port } => Endpoint::tcp(host, port),
            EndpointRecord::Unix { path } => Endpoint::Unix { path: path.into() },
        };
        Ok((scalar::version_name(&version)?, Site { endpoint, is_tls: tls }))
    }
}

impl TryFrom<ServiceRecord> for ServiceMemory {
    type Error = RecordError;

    fn try_from(record: ServiceRecord) -> Result<Self, RecordError> {
        let ServiceRecord { service, stable, stable_since, seen, refused, earlier, revision, leaving, added, phase } =
            record;
        let leaving_memory =
            |LeavingRecord { version, at }| Ok((scalar::version_name(&version)?, Timestamp::from_millis(at)));
        let earlier_memory = |EarlierRecord { revision, wish }| Ok((Revision(revision), Wish::try_from(wish)?));
        Ok(Self {
            service: scalar::service_name(&service)?,
            stable: stable.try_into()?,
            stable_since: Revision(stable_since),
            seen: seen.map(TryInto::try_into).transpose()?,
            refused: refused.into_iter().map(TryInto::try_into).collect::<Result<_, _>>()?,
            earlier: earlier.into_iter().map(earlier_memory).collect::<Result<_, RecordError>>()?,
            revision: Revision(revision),
            leaving: leaving.into_iter().map(leaving_memory).collect::<Result<_, RecordError>>()?,
            added: added.into_iter().map(TryInto::try_into).collect::<Result<_, RecordError>>()?,
            phase: phase.try_into()?,
        })
    }
}

impl From<&Wish> for WishRecord {
    fn from(Wish { version, revision }: &Wish) -> Self {
        Self { version: version.to_string(), revision: revision.clone() }
    }
}

impl TryFrom<WishRecord> for Wish {
    type Error = RecordError;

    fn try_from(WishRecord { version, revision }: WishRecord) -> Result<Self, RecordError> {
        Ok(Self { version: scalar::version_name(&version)?, revision })
    }
}

impl From<&PhaseMemory> for PhaseRecord {
    fn from(phase: &PhaseMemory) -> Self {
        match phase {
            PhaseMemory::Healthy => Self::Healthy,
            PhaseMemory::Progressing(rollout) => Self::Progressing(rollout.into()),
            PhaseMemory::Paused { rollout, kind, reason, at } => Self::Paused {
                rollout: rollout.into(),
                kind: kind.as_str().to_owned(),
                reason: reason.clone(),
                at: at.as_millis(),
            },
            PhaseMemory::Degraded { target, reason } => {
                Self::Degraded { target: target.into(), reason: reason.clone() }
            }
        }
    }
}

impl TryFrom<PhaseRecord> for PhaseMemory {
    type Error = RecordError;

    fn try_from(record: PhaseRecord) -> Result<Self, RecordError> {
        Ok(match record {
            PhaseRecord::Healthy => Self::Healthy,
            PhaseRecord::Progressing(rollout) => Self::Progressing(rollout.try_into()?),
            PhaseRecord::Paused { rollout, kind, reason, at } => Self::Paused {
                rollout: rollout.try_into()?,
                kind: pause_kind(&kind)?,
                reason,
                at: Timestamp::from_millis(at),
            },
            PhaseRecord::Degraded { target, reason } => Self::Degraded { target: target.try_into()?, reason },
        })
    }
}

impl From<&RolloutMemory> for RolloutRecord {
    fn from(rollout: &RolloutMemory) -> Self {
        let RolloutMemory { target, step, weight, started, since, spent_ms, admitted, begun, passed } = rollout;
        Self {
            target: target.into(),
            step: *step as u64,
            weight_ppm: weight.ppm(),
            started: started.as_millis(),
            since: since.as_millis(),
            spent_ms: *spent_ms,
            admitted: *admitted,
            begun: *begun,
            passed: passed.clone(),
        }
    }
}

impl TryFrom<RolloutRecord> for RolloutMemory {
    type Error = RecordError;

    fn try_from(record: RolloutRecord) -> Result<Self, RecordError> {
        let RolloutRecord { target, step, weight_ppm, started, since, spent_ms, admitted, begun, passed } = record;
        Ok(Self {
            target: target.try_into()?,
            step: scalar::step(step)?,
            weight: scalar::weight(weight_ppm)?,
            started: Timestamp::from_millis(started),
            since: Timestamp::from_millis(since),
            spent_ms,
            admitted,
            begun,
            passed,
        })
    }
}

impl From<&EvidenceMemory> for EvidenceRecord {
    fn from(evidence: &EvidenceMemory) -> Self {
        let EvidenceMemory { service, revision, share_test } = evidence;
        let ShareTestState { epoch, log_values, log_e_max, canary, stable, slow } = share_test;
        let slow_record = |SlowState { log_values, canary, stable }: &SlowState| SlowRecord {
            log_values: log_values.iter().copied().map(Float).collect(),
            canary: (*canary).into(),
            stable: (*stable).into(),
        };
        Self {
            service: service.to_string(),
            revision: revision.0,
            epoch: *epoch,
            log_values: log_values.iter().copied().map(Float).collect(),
            log_e_max: Float(*log_e_max),
            canary: (*canary).into(),
            stable: (*stable).into(),
            slow: slow.iter().map(slow_record).collect(),
        }
    }
}

impl TryFrom<EvidenceRecord> for EvidenceMemory {
    type Error = RecordError;

    fn try_from(record: EvidenceRecord) -> Result<Self, RecordError> {
        let EvidenceRecord { service, revision, epoch, log_values, log_e_max, canary, stable, slow } = record;
        let slow_state = |SlowRecord { log_values, canary, stable }| SlowState {
            log_values: log_values.into_iter().map(|Float(value)| value).collect(),
            canary: canary.into(),
            stable: stable.into(),
        };
        Ok(Self {
            service: scalar::service_name(&service)?,
            revision: Revision(revision),
            share_test: ShareTestState {
                epoch,
                log_values: log_values.into_iter().map(|Float(value)| value).collect(),
                log_e_max: log_e_max.0,
                canary: canary.into(),
                stable: stable.into(),
                slow: slow.into_iter().map(slow_state).collect(),
            },
        })
    }
}

fn pause_kind(word: &str) -> Result<PauseKind, RecordError> {
    let known = PauseKind::ALL.into_iter().find(|kind| kind.as_str() == word);
    known.ok_or_else(|| RecordError::Value(format!("the kind of pause `{word}`")))
}

//! Events and their causes as records.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{
    RecordError,
    scalar::{self, CountsRecord, Float},
};
use crate::engine::{
    event::{Cause, Event, EventKind, GateWord},
    gate::GateKind,
    names::Revision,
    stats::share_test::slowness,
    time::Timestamp,
};

/// The words of `Verb::as_str`.
const VERBS: [&str; 11] =
    ["start", "promote", "pause", "resume", "abort", "drain", "retry", "undo", "set-weight", "terminate", "analyze"];
/// The phases in which an analysis run can end or stand.
const ANALYSIS_PHASES: [&str; 8] =
    ["Pending", "Running", "Successful", "Failed", "Error", "Inconclusive", "NoData", "Terminated"];

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EventRecord {
    sequence: u64,
    at: u64,
    service: String,
    revision: u64,
    kind: String,
    cause: CauseRecord,
    stable: String,
    canary: Option<String>,
    weight_ppm: u32,
    step: Option<u64>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
enum CauseRecord {
    File,
    Person {
        verb: String,
        actor: String,
        reason: String,
    },
    Plan,
    ErrorRate {
        max: Float,
        window: Duration,
        canary: CountsRecord,
        stable: CountsRecord,
    },
    Latency {
        quantile: Float,
        max: Duration,
        value: Duration,
        requests: u64,
        stable: Option<Duration>,
    },
    ShareTest {
        alpha: Float,
        log_e: Float,
        #[serde(default = "errors")]
        metric: String,
        #[serde(default)]
        slower_than: Option<Duration>,
        canary: CountsRecord,
        stable: CountsRecord,
    },
    Proven {
        alpha: Float,
        margin: Float,
        requests: u64,
    },
    ConsecutiveErrors {
        errors: u64,
        limit: u64,
    },
    Analysis {
        metric: String,
        phase: String,
        message: String,
    },
    Gate {
        gate: String,
        kind: String,
        said: String,
        message: String,
    },
    NoTraffic {
        waited: Duration,
    },
    Endpoint {
        endpoint: String,
        why: String,
    },
    Deadline {
        deadline: Duration,
    },
    Storage {
        what: String,
    },
}

impl From<&Event> for EventRecord {
    fn from(event: &Event) -> Self {
        let Event { sequence, at, service, revision, kind, cause, stable, canary, weight, step } = event;
        Self {
            sequence: *sequence,
            at: at.as_millis(),
            service: service.to_string(),
            revision: revision.0,
            kind: kind.as_str().to_owned(),
            cause: cause.into(),
            stable: stable.to_string(),
            canary: canary.as_ref().map(ToString::to_string),
            weight_ppm: weight.ppm(),
            step: step.map(|step| step as u64),
        }
    }
}

impl TryFrom<EventRecord> for Event {
    type Error = RecordError;

    fn try_from(record: EventRecord) -> Result<Self, RecordError> {
        let EventRecord { sequence, at, service, revision, kind, cause, stable, canary, weight_ppm, step } = record;
        Ok(Self {
            sequence,
            at: Timestamp::from_millis(at),
            service: scalar::service_name(&service)?,
            revision: Revision(revision),
            kind: event_kind(&kind)?,
            cause: cause.try_into()?,
            stable: scalar::version_name(&stable)?,
            canary: canary.as_deref().map(scalar::version_name).transpose()?,
            weight: scalar::weight(weight_ppm)?,
            step: step.map(scalar::step).transpose()?,
        })
    }
}

fn metric_word(text: &str) -> Result<&'static str, RecordError> {
    let mut known = vec!["errors"];
    known.extend(slowness::ALL.iter().map(|level| level.name));
    scalar::word(&known, text)
}

/// What causes of before latency was compared were about.
fn errors() -> String {
    "errors".to_owned()
}

impl From<&Cause> for CauseRecord {
    fn from(cause: &Cause) -> Self {
        match cause {
            Cause::File => Self::File,
            Cause::Person { verb, actor, reason } => {
                Self::Person { verb: (*verb).to_owned(), actor: actor.clone(), reason: reason.clone() }
            }
            Cause::Plan => Self::Plan,
            Cause::ErrorRate { max, window, canary, stable } => Self::ErrorRate {
                max: Float(*max),
                window: *window,
                canary: (*canary).into(),
                stable: (*stable).into(),
            },
            Cause::Latency { quantile, max, value, requests, stable } => Self::Latency {
                quantile: Float(*quantile),
                max: *max,
                value: *value,
                requests: *requests,
                stable: *stable,
            },
            Cause::ShareTest { alpha, log_e, metric, slower_than, canary, stable } => Self::ShareTest {
                alpha: Float(*alpha),
                log_e: Float(*log_e),
                metric: (*metric).to_owned(),
                slower_than: *slower_than,
                canary: (*canary).into(),
                stable: (*stable).into(),
            },
            Cause::Proven { alpha, margin, requests } => {
                Self::Proven { alpha: Float(*alpha), margin: Float(*margin), requests: *requests }
            }
            Cause::ConsecutiveErrors { errors, limit } => Self::ConsecutiveErrors { errors: *errors, limit: *limit },
            Cause::Analysis { metric, phase, message } => {
                Self::Analysis { metric: metric.clone(), phase: (*phase).to_owned(), message: message.clone() }
            }
            Cause::Gate { gate, kind, said, message } => Self::Gate {
                gate: gate.clone(),
                kind: kind.as_str().to_owned(),
                said: said.as_str().to_owned(),
                message: message.clone(),
            },
            Cause::NoTraffic { waited } => Self::NoTraffic { waited: *waited },
            Cause::Endpoint { endpoint, why } => Self::Endpoint { endpoint: endpoint.clone(), why: why.clone() },
            Cause::Deadline { deadline } => Self::Deadline { deadline: *deadline },
            Cause::Storage(what) => Self::Storage { what: what.clone() },
        }
    }
}

impl TryFrom<CauseRecord> for Cause {
    type Error = RecordError;

    fn try_from(record: CauseRecord) -> Result<Self, RecordError> {
        Ok(match record {
            CauseRecord::File => Self::File,
            CauseRecord::Person { verb, actor, reason } => {
                Self::Person { verb: scalar::word(&VERBS, &verb)?, actor, reason }
            }
            CauseRecord::Plan => Self::Plan,
            CauseRecord::ErrorRate { max, window, canary, stable } => {
                Self::ErrorRate { max: max.0, window, canary: canary.into(), stable: stable.into() }
            }
            CauseRecord::Latency { quantile, max, value, requests, stable } => {
                Self::Latency { quantile: quantile.0, max, value, requests, stable }
            }
            CauseRecord::ShareTest { alpha, log_e, metric, slower_than, canary, stable } => {
                let metric = metric_word(&metric)?;
                let (alpha, log_e) = (alpha.0, log_e.0);
                Self::ShareTest { alpha, log_e, metric, slower_than, canary: canary.into(), stable: stable.into() }
            }
            CauseRecord::Proven { alpha, margin, requests } => {
                Self::Proven { alpha: alpha.0, margin: margin.0, requests }
            }
            CauseRecord::ConsecutiveErrors { errors, limit } => Self::ConsecutiveErrors { errors, limit },
            CauseRecord::Analysis { metric, phase, message } => {
                Self::Analysis { metric, phase: scalar::word(&ANALYSIS_PHASES, &phase)?, message }
            }
            CauseRecord::Gate { gate, kind, said, message } => {
                Self::Gate { gate, kind: gate_kind(&kind)?, said: gate_word(&said)?, message }
            }
            CauseRecord::NoTraffic { waited } => Self::NoTraffic { waited },
            CauseRecord::Endpoint { endpoint, why } => Self::Endpoint { endpoint, why },
            CauseRecord::Deadline { deadline } => Self::Deadline { deadline },
            CauseRecord::Storage { what } => Self::Storage(what),
        })
    }
}

fn event_kind(word: &str) -> Result<EventKind, RecordError> {
    let known = EventKind::ALL.into_iter().find(|kind| kind.as_str() == word);
    known.ok_or_else(|| RecordError::Value(format!("the kind of event `{word}`")))
}

fn gate_kind(word: &str) -> Result<GateKind, RecordError> {
    let known = GateKind::ALL.into_iter().find(|kind| kind.as_str() == word);
    known.ok_or_else(|| RecordError::Value(format!("the kind of gate `{word}`")))
}

fn gate_word(word: &str) -> Result<GateWord, RecordError> {
    let known = GateWord::ALL.into_iter().find(|said| said.as_str() == word);
    known.ok_or_else(|| RecordError::Value(format!("a gate's word `{word}`")))
}

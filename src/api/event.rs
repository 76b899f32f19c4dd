//! Events on the wire, with the numbers they were decided on.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::codec;
use crate::engine::{
    event::{self, EventKind, GateWord},
    gate::GateKind,
    names::{Revision, ServiceName, VersionName},
    samples,
    stats::share_test::slowness,
    time::Timestamp,
    weight::Weight,
};

/// `GET services/{s}/history`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct History {
    /// Whose; absent when it is that of all services.
    #[serde(with = "codec::word_option", default, skip_serializing_if = "Option::is_none")]
    pub service: Option<ServiceName>,
    /// Oldest first.
    pub events: Vec<Event>,
}

/// Told on the event stream when the listener was too slow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Lag {
    /// So many events were not sent; they are in the history.
    pub missed: u64,
}

/// One decision.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// Number of the event; no gaps.
    pub sequence: u64,
    /// When it was decided.
    #[serde(with = "codec::word")]
    pub at: Timestamp,
    /// The same as milliseconds since 1970.
    pub at_millis: u64,
    /// Of which service.
    #[serde(with = "codec::word")]
    pub service: ServiceName,
    /// In which attempt.
    pub revision: u64,
    /// What happened.
    #[serde(with = "codec::word")]
    pub kind: EventKind,
    /// It all in one sentence.
    pub message: String,
    /// Why.
    pub cause: Cause,
    /// The stable version after it.
    #[serde(with = "codec::word")]
    pub stable: VersionName,
    /// The version it is about.
    #[serde(with = "codec::word_option", default, skip_serializing_if = "Option::is_none")]
    pub canary: Option<VersionName>,
    /// The canary's weight after it, in parts per million.
    #[serde(with = "codec::ppm")]
    pub weight_ppm: Weight,
    /// The same as text.
    pub weight: String,
    /// The canary's weight before it, in parts per million, where it is still known.
    #[serde(with = "codec::ppm_option", default, skip_serializing_if = "Option::is_none")]
    pub weight_before_ppm: Option<Weight>,
    /// The step after it, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<usize>,
}

/// Requests and the bad ones among them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Counts {
    /// Finished and counted.
    pub requests: u64,
    /// Failures among them.
    pub errors: u64,
}

/// Why something was decided.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
#[expect(missing_docs, reason = "the fields are those of the engine's Cause and mean the same")]
pub enum Cause {
    /// The file wants it.
    File,
    /// A command.
    Person { verb: String, actor: String, reason: String },
    /// The plan's next step was due.
    Plan,
    /// Too many errors.
    ErrorRate {
        max: f64,
        #[serde(with = "codec::millis")]
        window_ms: Duration,
        canary: Counts,
        stable: Counts,
    },
    /// Too slow.
    Latency {
        quantile: f64,
        #[serde(with = "codec::millis")]
        max_ms: Duration,
        #[serde(with = "codec::millis")]
        value_ms: Duration,
        requests: u64,
        #[serde(with = "codec::millis_option", default, skip_serializing_if = "Option::is_none")]
        stable_ms: Option<Duration>,
    },
    /// More than its fair share of what is bad: of the errors, or of the requests slower than stable's p95, say.
    ShareTest {
        alpha: f64,
        log_e: f64,
        metric: String,
        #[serde(with = "codec::millis_option", default, skip_serializing_if = "Option::is_none")]
        slower_than_ms: Option<Duration>,
        canary: Counts,
        stable: Counts,
    },
    /// Proven good enough for the next weight, before the hold was over.
    Proven { alpha: f64, margin: f64, requests: u64 },
    /// Too many errors in a row.
    ConsecutiveErrors { errors: u64, limit: u64 },
    /// An analysis did not end well.
    Analysis { metric: String, phase: String, message: String },
    /// A gate's answer (`go`, `stop`, `rollBack`), or that it gives none (`nothing`).
    Gate { gate: String, kind: String, said: String, message: String },
    /// Too little traffic.
    NoTraffic {
        #[serde(with = "codec::millis")]
        waited_ms: Duration,
    },
    /// What was seen of an endpoint; `why` is empty when it is back.
    Endpoint { endpoint: String, why: String },
    /// The rollout's deadline passed.
    Deadline {
        #[serde(with = "codec::millis")]
        deadline_ms: Duration,
    },
    /// The state could not be written or read, or was too old.
    Storage { message: String },
}

impl Event {
    /// The wire form, with the canary's weight before it and the sentence that says it.
    #[must_use]
    pub fn new(event: &event::Event, before: Option<Weight>, message: String) -> Self {
        Self {
            sequence: event.sequence,
            at: event.at,
            at_millis: event.at.as_millis(),
            service: event.service.clone(),
            revision: event.revision.0,
            kind: event.kind,
            message,
            cause: Cause::from(&event.cause),
            stable: event.stable.clone(),
            canary: event.canary.clone(),
            weight_ppm: event.weight,
            weight: event.weight.to_string(),
            weight_before_ppm: before,
            step: event.step,
        }
    }
}

impl From<Event> for event::Event {
    fn from(event: Event) -> Self {
        Self {
            sequence: event.sequence,
            at: event.at,
            service: event.service,
            revision: Revision(event.revision),
            kind: event.kind,
            cause: event.cause.into(),
            stable: event.stable,
            canary: event.canary,
            weight: event.weight_ppm,
            step: event.step,
        }
    }
}

impl From<samples::Counts> for Counts {
    fn from(counts: samples::Counts) -> Self {
        Self { requests: counts.requests, errors: counts.errors }
    }
}

impl From<Counts> for samples::Counts {
    fn from(counts: Counts) -> Self {
        Self { requests: counts.requests, errors: counts.errors }
    }
}

impl From<&event::Cause> for Cause {
    fn from(cause: &event::Cause) -> Self {
        use event::Cause as From;
        match cause.clone() {
            From::File => Self::File,
            From::Person { verb, actor, reason } => Self::Person { verb: verb.to_owned(), actor, reason },
            From::Plan => Self::Plan,
            From::ErrorRate { max, window, canary, stable } => {
                Self::ErrorRate { max, window_ms: window, canary: canary.into(), stable: stable.into() }
            }
            From::Latency { quantile, max, value, requests, stable } => {
                Self::Latency { quantile, max_ms: max, value_ms: value, requests, stable_ms: stable }
            }
            From::ShareTest { alpha, log_e, metric, slower_than, canary, stable } => Self::ShareTest {
                alpha,
                log_e,
                metric: metric.to_owned(),
                slower_than_ms: slower_than,
                canary: canary.into(),
                stable: stable.into(),
            },
            From::Proven { alpha, margin, requests } => Self::Proven { alpha, margin, requests },
            From::ConsecutiveErrors { errors, limit } => Self::ConsecutiveErrors { errors, limit },
            From::Analysis { metric, phase, message } => Self::Analysis { metric, phase: phase.to_owned(), message },
            From::Gate { gate, kind, said, message } => {
                Self::Gate { gate, kind: kind.as_str().to_owned(), said: said.as_str().to_owned(), message }
            }
            From::NoTraffic { waited } => Self::NoTraffic { waited_ms: waited },
            From::Endpoint { endpoint, why } => Self::Endpoint { endpoint, why },
            From::Deadline { deadline } => Self::Deadline { deadline_ms: deadline },
            From::Storage(message) => Self::Storage { message },
        }
    }
}

impl From<Cause> for event::Cause {
    fn from(cause: Cause) -> Self {
        match cause {
            Cause::File => Self::File,
            Cause::Person { verb, actor, reason } => Self::Person { verb: verb_word(&verb), actor, reason },
            Cause::Plan => Self::Plan,
            Cause::ErrorRate { max, window_ms, canary, stable } => {
                Self::ErrorRate { max, window: window_ms, canary: canary.into(), stable: stable.into() }
            }
            Cause::Latency { quantile, max_ms, value_ms, requests, stable_ms } => {
                Self::Latency { quantile, max: max_ms, value: value_ms, requests, stable: stable_ms }
            }
            Cause::ShareTest { alpha, log_e, metric, slower_than_ms, canary, stable } => Self::ShareTest {
                alpha,
                log_e,
                metric: metric_word(&metric),
                slower_than: slower_than_ms,
                canary: canary.into(),
                stable: stable.into(),
            },
            Cause::Proven { alpha, margin, requests } => Self::Proven { alpha, margin, requests },
            Cause::ConsecutiveErrors { errors, limit } => Self::ConsecutiveErrors { errors, limit },
            Cause::Analysis { metric, phase, message } => {
                Self::Analysis { metric, phase: analysis_word(&phase), message }
            }
            Cause::Gate { gate, kind, said, message } => {
                Self::Gate { gate, kind: gate_kind(&kind), said: gate_word(&said), message }
            }
            Cause::NoTraffic { waited_ms } => Self::NoTraffic { waited: waited_ms },
            Cause::Endpoint { endpoint, why } => Self::Endpoint { endpoint, why },
            Cause::Deadline { deadline_ms } => Self::Deadline { deadline: deadline_ms },
            Cause::Storage { message } => Self::Storage(message),
        }
    }
}

/// A verb of a newer server is shown as `command`.
fn verb_word(text: &str) -> &'static str {
    let known = [
        "start",
        "promote",
        "pause",
        "resume",
        "abort",
        "drain",
        "retry",
        "undo",
        "set-weight",
        "terminate",
        "analyze",
    ];
    known.into_iter().find(|known| *known == text).unwrap_or("command")
}

fn analysis_word(text: &str) -> &'static str {
    ["Failed", "Error", "Inconclusive"].into_iter().find(|known| *known == text).unwrap_or("Error")
}

fn gate_kind(text: &str) -> GateKind {
    GateKind::ALL.into_iter().find(|known| known.as_str() == text).unwrap_or(GateKind::Rollout)
}

fn gate_word(text: &str) -> GateWord {
    GateWord::ALL.into_iter().find(|known| known.as_str() == text).unwrap_or(GateWord::Nothing)
}

fn metric_word(text: &str) -> &'static str {
    let levels = slowness::ALL.iter().map(|level| level.name);
    levels.into_iter().find(|known| *known == text).unwrap_or("errors")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn causes() -> Vec<event::Cause> {
        let counts = |requests, errors| samples::Counts { requests, errors };
        let s = Duration::from_secs;
        vec![
            event::Cause::File,
            event::Cause::Person { verb: "set-weight", actor: "ann".into(), reason: "look".into() },
            event::Cause::Plan,
            event::Cause::ErrorRate { max: 0.02, window: s(10), canary: counts(38, 19), stable: counts(722, 0) },
            event::Cause::Latency {
                quantile: 0.99,
                max: s(1),
                value: Duration::from_micros(1_234_567),
                requests: 300,
                stable: None,
            },
            event::Cause::ShareTest {
                alpha: 0.01,
                log_e: 4.7,
                metric: "p95",
                slower_than: Some(Duration::from_millis(130)),
                canary: counts(38, 19),
                stable: counts(722, 42),
            },
            event::Cause::ConsecutiveErrors { errors: 20, limit: 20 },
            event::Cause::Analysis { metric: "p95".into(), phase: "Failed", message: "3 > 2".into() },
            event::Cause::Gate {
                gate: "approve".into(),
                kind: GateKind::ConfirmPromotion,
                said: GateWord::Go,
                message: String::new(),
            },
            event::Cause::NoTraffic { waited: s(600) },
            event::Cause::Proven { alpha: 0.05, margin: 0.002, requests: 1_930 },
            event::Cause::Deadline { deadline: s(43_200) },
            event::Cause::Storage("disk full".into()),
        ]
    }

    #[test]
    fn every_event_comes_back_as_it_went() {
        for (kind, cause) in EventKind::ALL.into_iter().cycle().zip(causes()) {
            let event = event::Event {
                sequence: 9,
                at: Timestamp::from_millis(1_790_000_000_123),
                service: ServiceName::new("web").unwrap(),
                revision: Revision(2),
                kind,
                cause,
                stable: VersionName::new("v1").unwrap(),
                canary: Some(VersionName::new("v2").unwrap()),
                weight: "5%".parse().unwrap(),
                step: Some(3),
            };
            let json = serde_json::to_string(&super::super::Document::new(Event::new(
                &event,
                Some(Weight::ZERO),
                String::new(),
            )))
            .unwrap();
            let back: super::super::Document<Event> = serde_json::from_str(&json).unwrap();
            assert_eq!(event::Event::from(back.body), event, "{json}");
        }
    }
}

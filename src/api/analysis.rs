//! Analysis runs on the wire, with the names that Argo Rollouts gives them in the status of an AnalysisRun.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::codec;
use crate::engine::{
    analysis::{
        ask::RunKind,
        measurement::{self, Verdict},
        record::{self, Tally},
        run::AnalysisPhase,
    },
    names::Revision,
    time::Timestamp,
};

/// An analysis run as it stands or ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AnalysisRun {
    /// In which attempt.
    pub revision: u64,
    /// `step`, `background` or `manual`.
    #[serde(with = "codec::word")]
    pub kind: RunKind,
    /// The step in which it began, from 1.
    pub step: usize,
    /// The templates' names.
    pub templates: Vec<String>,
    /// `Running`, `Successful`, `Failed`, `Error`, `Inconclusive`, `NoData` or `Terminated`.
    #[serde(with = "codec::word")]
    pub phase: AnalysisPhase,
    /// What decided, with value, limit and sample sizes.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// When it began.
    #[serde(with = "codec::word")]
    pub started_at: Timestamp,
    /// When it ended.
    #[serde(with = "codec::word_option", default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Timestamp>,
    /// When this record is forgotten, where a template's `ttlStrategy` says so.
    #[serde(with = "codec::word_option", default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// Its metrics.
    pub metric_results: Vec<MetricResult>,
}

/// A metric of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MetricResult {
    /// Its name.
    pub name: String,
    /// Where it stands; `Pending` before the first measurement.
    #[serde(with = "codec::word")]
    pub phase: AnalysisPhase,
    /// Why it ended.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// It decides nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
    /// Measurements that were judged.
    pub count: u32,
    /// Good ones.
    pub successful: u32,
    /// Bad ones.
    pub failed: u32,
    /// Neither.
    pub inconclusive: u32,
    /// Not measured or not judged.
    pub error: u32,
    /// Nothing to judge.
    pub no_data: u32,
    /// Errors up to now without anything else between.
    pub consecutive_error: u32,
    /// Successes up to now without anything else between.
    pub consecutive_success: u32,
    /// The latest ones, oldest first.
    pub measurements: Vec<Measurement>,
}

/// One measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Measurement {
    /// `Successful`, `Failed`, `Inconclusive`, `Error` or `NoData`.
    #[serde(with = "codec::word")]
    pub phase: Verdict,
    /// When it was taken, or asked for.
    #[serde(with = "codec::word")]
    pub started_at: Timestamp,
    /// When it was judged.
    #[serde(with = "codec::word")]
    pub finished_at: Timestamp,
    /// The values that the conditions mention.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub value: String,
    /// Which condition decided, or what went wrong or is missing.
    pub message: String,
    /// Requests of both versions, and over what time.
    pub samples: String,
}

impl From<&record::RunRecord> for AnalysisRun {
    fn from(run: &record::RunRecord) -> Self {
        Self {
            revision: run.revision.0,
            kind: run.kind,
            step: run.step,
            templates: run.templates.clone(),
            phase: run.phase,
            message: run.message.clone(),
            started_at: run.started,
            completed_at: run.completed,
            expires_at: run.expires,
            metric_results: run.metrics.iter().map(MetricResult::from).collect(),
        }
    }
}

impl From<AnalysisRun> for record::RunRecord {
    fn from(run: AnalysisRun) -> Self {
        Self {
            revision: Revision(run.revision),
            kind: run.kind,
            step: run.step,
            templates: run.templates,
            phase: run.phase,
            message: run.message,
            started: run.started_at,
            completed: run.completed_at,
            expires: run.expires_at,
            metrics: run.metric_results.into_iter().map(Into::into).collect(),
        }
    }
}

impl From<&record::MetricRecord> for MetricResult {
    fn from(metric: &record::MetricRecord) -> Self {
        let tally = metric.tally;
        Self {
            name: metric.name.clone(),
            phase: metric.phase,
            message: metric.message.clone(),
            dry_run: metric.dry_run,
            count: tally.count,
            successful: tally.successful,
            failed: tally.failed,
            inconclusive: tally.inconclusive,
            error: tally.error,
            no_data: tally.no_data,
            consecutive_error: tally.consecutive_error,
            consecutive_success: tally.consecutive_success,
            measurements: metric.measurements.iter().map(|of| Measurement::from(&**of)).collect(),
        }
    }
}

impl From<MetricResult> for record::MetricRecord {
    fn from(metric: MetricResult) -> Self {
        Self {
            name: metric.name,
            phase: metric.phase,
            message: metric.message,
            dry_run: metric.dry_run,
            tally: Tally {
                count: metric.count,
                successful: metric.successful,
                failed: metric.failed,
                inconclusive: metric.inconclusive,
                error: metric.error,
                no_data: metric.no_data,
                consecutive_error: metric.consecutive_error,
                consecutive_success: metric.consecutive_success,
            },
            measurements: metric.measurements.into_iter().map(|of| Arc::new(of.into())).collect(),
        }
    }
}

impl From<&measurement::Measurement> for Measurement {
    fn from(of: &measurement::Measurement) -> Self {
        Self {
            phase: of.verdict,
            started_at: of.at,
            finished_at: of.finished,
            value: of.value.clone(),
            message: of.why.clone(),
            samples: of.samples.clone(),
        }
    }
}

impl From<Measurement> for measurement::Measurement {
    fn from(of: Measurement) -> Self {
        Self {
            at: of.started_at,
            finished: of.finished_at,
            verdict: of.phase,
            value: of.value,
            why: of.message,
            samples: of.samples,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run() -> record::RunRecord {
        let at = Timestamp::from_millis(1_790_000_000_123);
        let measurement = measurement::Measurement {
            at,
            finished: at,
            verdict: Verdict::Failed,
            value: "result = [0.5]".into(),
            why: "successCondition `result[0] >= 0.95` is false".into(),
            samples: "canary 3 requests (0 errors), stable 9 requests (0 errors) over 60s".into(),
        };
        let metric = record::MetricRecord {
            name: "rate".into(),
            phase: AnalysisPhase::Failed,
            message: "failed measurements: 1, allowed 0".into(),
            dry_run: true,
            tally: Tally { count: 1, failed: 1, no_data: 2, ..Tally::default() },
            measurements: vec![Arc::new(measurement)],
        };
        record::RunRecord {
            revision: Revision(7),
            kind: RunKind::Background,
            step: 2,
            templates: vec!["success-rate".into()],
            phase: AnalysisPhase::Failed,
            message: "rate: failed".into(),
            started: at,
            completed: Some(at),
            expires: Some(at),
            metrics: vec![metric],
        }
    }

    #[test]
    fn a_run_comes_back_as_it_went_under_argos_names() {
        let json = serde_json::to_value(AnalysisRun::from(&run())).unwrap();
        assert_eq!((&json["phase"], &json["kind"]), (&"Failed".into(), &"background".into()));
        let metric = &json["metricResults"][0];
        assert_eq!((&metric["failed"], &metric["dryRun"], &metric["noData"]), (&1.into(), &true.into(), &2.into()));
        assert_eq!(metric["measurements"][0]["phase"], "Failed");
        assert_eq!(metric["measurements"][0]["startedAt"], "2026-09-21T14:13:20.123Z");
        let back: AnalysisRun = serde_json::from_value(json).unwrap();
        assert_eq!(record::RunRecord::from(back), run());
    }
}

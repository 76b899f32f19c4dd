//! What is told of a run: its metrics, how often which verdict was given, and the latest measurements.

use std::sync::Arc;

use super::{ask::RunKind, measurement::Measurement, run::AnalysisPhase};
use crate::engine::{names::Revision, time::Timestamp};

/// Finished runs that are kept of each service: so many good ones and as many others, as in Argo Rollouts. Good runs
/// beside the steps come again and again, and must not push out the one that failed.
pub const RUNS_KEPT: usize = 5;

/// A run as it stands or ended.
#[derive(Debug, Clone, PartialEq)]
pub struct RunRecord {
    /// In which attempt.
    pub revision: Revision,
    /// Of a step, beside the steps, or by hand.
    pub kind: RunKind,
    /// The step in which it began, from 1.
    pub step: usize,
    /// The templates' names.
    pub templates: Vec<String>,
    /// Where it stands.
    pub phase: AnalysisPhase,
    /// What decided, with value, limit and sample sizes; empty while nothing has.
    pub message: String,
    /// When it began.
    pub started: Timestamp,
    /// When it ended.
    pub completed: Option<Timestamp>,
    /// When this record is forgotten, if the templates say so and newer runs do not take its place before.
    pub expires: Option<Timestamp>,
    /// Its metrics.
    pub metrics: Vec<MetricRecord>,
}

/// A metric of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricRecord {
    /// Its name.
    pub name: String,
    /// Where it stands.
    pub phase: AnalysisPhase,
    /// Why it ended; empty while it has not.
    pub message: String,
    /// It decides nothing.
    pub dry_run: bool,
    /// How often which verdict was given.
    pub tally: Tally,
    /// The latest measurements, oldest first.
    pub measurements: Vec<Arc<Measurement>>,
}

/// How often which verdict was given. `count` is of all that are neither Error nor without data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// All that were judged.
    pub count: u32,
    /// Good.
    pub successful: u32,
    /// Bad.
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
}

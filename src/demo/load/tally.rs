//! Counting a load's answers, and summing up.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use hdrhistogram::Histogram;
use serde::Serialize;

use super::client::Outcome;

/// Different versions that are told apart; answers of more are counted together.
const VERSIONS_MAX: usize = 64;
/// The name for answers that do not say their version.
const UNNAMED: &str = "-";
/// The name for answers of versions beyond [`VERSIONS_MAX`].
const OTHERS: &str = "(others)";
/// Longest latency that is told apart.
const LATENCY_MAX: Duration = Duration::from_mins(10);

/// What a load came to. In the end `due = answered + broken + timed_out + missed`; before, some are under way.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// Seconds from the start to now, or to the last answer.
    pub seconds: f64,
    /// Requests whose time has come.
    pub due: u64,
    /// Those for which there was no place: all connections busy, and as many requests waiting. Never sent.
    pub missed: u64,
    /// Whole answers, of any status.
    pub answered: u64,
    /// Requests without a whole answer: no connection, or a broken one.
    pub broken: u64,
    /// Requests given up after their timeout.
    pub timed_out: u64,
    /// Answers by status.
    pub statuses: BTreeMap<u16, u64>,
    /// Answers by `x-version`; `-` for those without.
    pub versions: BTreeMap<String, VersionCounts>,
    /// Latencies, from when a request was due to its whole answer or the giving up; broken ones left out.
    pub latency: Option<Latencies>,
}

/// Answers of one version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct VersionCounts {
    /// All.
    pub answered: u64,
    /// With a status of 500 or above.
    pub failed: u64,
}

/// Quantiles, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Latencies {
    /// Mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
    /// Longest.
    pub max: f64,
}

#[derive(Debug)]
pub(super) struct Tally {
    started: Instant,
    ended: Option<Instant>,
    due: u64,
    missed: u64,
    broken: u64,
    timed_out: u64,
    statuses: BTreeMap<u16, u64>,
    versions: BTreeMap<String, VersionCounts>,
    /// None if there is no memory for it.
    latency_us: Option<Histogram<u64>>,
}

impl Tally {
    pub(super) fn new(started: Instant) -> Self {
        let longest = u64::try_from(LATENCY_MAX.as_micros()).unwrap_or(u64::MAX);
        Self {
            started,
            ended: None,
            due: 0,
            missed: 0,
            broken: 0,
            timed_out: 0,
            statuses: BTreeMap::new(),
            versions: BTreeMap::new(),
            latency_us: Histogram::new_with_bounds(1, longest, 3).ok(),
        }
    }

    pub(super) fn due(&mut self, missed: bool) {
        self.due += 1;
        self.missed += u64::from(missed);
    }

    pub(super) fn done(&mut self, outcome: &Outcome, latency: Duration) {
        match outcome {
            Outcome::Answered { status, version } => {
                *self.statuses.entry(*status).or_default() += 1;
                let name = version.as_ref().map_or(UNNAMED, |value| value.to_str().unwrap_or(UNNAMED));
                let room = self.versions.len() < VERSIONS_MAX || self.versions.contains_key(name);
                let counts = self.versions.entry(if room { name } else { OTHERS }.to_owned()).or_default();
                counts.answered += 1;
                counts.failed += u64::from(*status >= 500);
            }
            Outcome::Broken => {
                self.broken += 1;
                return;
            }
            Outcome::TimedOut => self.timed_out += 1,
        }
        if let Some(histogram) = &mut self.latency_us {
            histogram.saturating_record(u64::try_from(latency.as_micros()).unwrap_or(u64::MAX));
        }
    }

    pub(super) fn end(&mut self, at: Instant) {
        self.ended = Some(at);
    }

    pub(super) fn summary(&self, now: Instant) -> Summary {
        Summary {
            seconds: self.ended.unwrap_or(now).saturating_duration_since(self.started).as_secs_f64(),
            due: self.due,
            missed: self.missed,
            answered: self.statuses.values().sum(),
            broken: self.broken,
            timed_out: self.timed_out,
            statuses: self.statuses.clone(),
            versions: self.versions.clone(),
            latency: self.latency_us.as_ref().filter(|histogram| !histogram.is_empty()).map(latencies),
        }
    }
}

fn latencies(us: &Histogram<u64>) -> Latencies {
    #[expect(clippy::cast_precision_loss, reason = "at most LATENCY_MAX")]
    let ms = |us: u64| us as f64 / 1e3;
    let at = |quantile| ms(us.value_at_quantile(quantile));
    Latencies { mean: us.mean() / 1e3, p50: at(0.5), p90: at(0.9), p99: at(0.99), p999: at(0.999), max: ms(us.max()) }
}

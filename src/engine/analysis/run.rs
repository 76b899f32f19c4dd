//! One AnalysisRun: its metrics, its verdict. Measures when told the time, says what others must be asked, and knows
//! nothing of rollouts.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use super::{
    answer::Reply,
    ask::RunKind,
    measurement::{Facts, Measurement},
    metric::Metric,
    record::RunRecord,
    template::{Template, TimeToLive},
};
use crate::engine::{names::Revision, time::Timestamp};

pub use super::metric::Wanted;

/// Where a run or a metric stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AnalysisPhase {
    /// Not measured yet.
    Pending,
    /// Still measuring, or waiting for requests.
    Running,
    /// Judged good.
    Successful,
    /// Judged bad.
    Failed,
    /// Could not be measured or judged.
    Error,
    /// Neither good nor bad.
    Inconclusive,
    /// Nothing to judge for longer than is waited for. Of a metric that is not over: nothing to judge up to now.
    NoData,
    /// Ended before it could say anything: by a person, with its rollout or step, or with the run.
    Terminated,
}

/// A run of one or more templates.
///
/// Running until every metric that is no dry run is over, but as soon as one of them is Failed, Error, Inconclusive or
/// without data the run ends with it: what was not over by then is Terminated, and metrics never measured are left out.
#[derive(Debug, Clone, PartialEq)]
pub struct AnalysisRun {
    started: Timestamp,
    ended: Option<Timestamp>,
    step: usize,
    templates: Vec<String>,
    metrics: Vec<Metric>,
    ttl: Vec<TimeToLive>,
}

impl AnalysisPhase {
    /// All phases.
    pub const ALL: [Self; 8] = [
        Self::Pending,
        Self::Running,
        Self::Successful,
        Self::Failed,
        Self::Error,
        Self::Inconclusive,
        Self::NoData,
        Self::Terminated,
    ];

    /// The word for messages.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Running => "Running",
            Self::Successful => "Successful",
            Self::Failed => "Failed",
            Self::Error => "Error",
            Self::Inconclusive => "Inconclusive",
            Self::NoData => "NoData",
            Self::Terminated => "Terminated",
        }
    }

    /// Whether nothing more comes of it.
    #[must_use]
    pub const fn is_over(self) -> bool {
        !matches!(self, Self::Pending | Self::Running)
    }

    /// The worst of several is the one with the largest number; as in Argo, going on is worse than having passed.
    const fn badness(self) -> u8 {
        match self {
            Self::Successful => 0,
            Self::Terminated => 1,
            Self::Running => 2,
            Self::Pending => 3,
            Self::NoData => 4,
            Self::Inconclusive => 5,
            Self::Error => 6,
            Self::Failed => 7,
        }
    }

    const fn is_bad(self) -> bool {
        self.badness() > Self::Pending.badness()
    }
}

impl AnalysisRun {
    /// Starts a run at `now`, in a step that people count from 1.
    #[must_use]
    pub fn start(templates: &[Template], step: usize, now: Timestamp) -> Self {
        let metrics = templates.iter().flat_map(|template| {
            let args: Arc<[_]> = template.args.clone().into();
            template.metrics.iter().map(move |plan| Metric::new(plan.clone(), Arc::clone(&args)))
        });
        let names = templates.iter().map(|template| template.name.clone()).collect();
        let ttl = templates.iter().map(|template| template.ttl).collect();
        Self { started: now, ended: None, step, templates: names, metrics: metrics.collect(), ttl }
    }

    /// Starts a run that goes on where another one of the same templates ended: first measured one interval later.
    #[must_use]
    pub fn go_on(templates: &[Template], step: usize, now: Timestamp) -> Self {
        let mut run = Self::start(templates, step, now);
        run.metrics = run.metrics.into_iter().map(Metric::after_another).collect();
        run
    }

    /// Takes all measurements that are due, and gives what others are to be asked now.
    pub fn advance(&mut self, now: Timestamp, facts: Facts<'_>) -> Vec<Wanted> {
        let mut wanted = Vec::new();
        if self.ended.is_some() {
            return wanted;
        }
        for metric in &mut self.metrics {
            if let Some(due) = metric.due(self.started).filter(|due| *due <= now) {
                wanted.extend(metric.take(due, now, facts));
            }
        }
        self.settle(now);
        // Who is asked for a run that has just ended need not be asked.
        if self.ended.is_some() { Vec::new() } else { wanted }
    }

    /// Takes an answer to what a metric asked at `asked`; one to anything else is dropped.
    pub fn answered(
        &mut self,
        metric: &str,
        asked: Timestamp,
        reply: &Result<Reply, String>,
        now: Timestamp,
        facts: Facts<'_>,
    ) {
        if self.ended.is_none() {
            self.metrics
                .iter_mut()
                .filter(|of| of.name() == metric)
                .for_each(|of| of.answered(asked, reply, now, facts));
            self.settle(now);
        }
    }

    /// Ends the run before its time. A verdict that was given already stays.
    pub fn terminate(&mut self, why: &str, now: Timestamp) {
        if self.ended.is_none() {
            self.metrics.iter_mut().for_each(|metric| metric.terminate(why));
            self.ended = Some(now);
        }
    }

    /// Ends the run as NoData if it waits for something to judge.
    pub fn give_up_without_data(&mut self, now: Timestamp) {
        if self.ended.is_none() {
            self.metrics.iter_mut().filter(|metric| !metric.is_dry()).for_each(Metric::give_up_without_data);
            self.settle(now);
        }
    }

    /// Where the run stands.
    #[must_use]
    pub fn phase(&self) -> AnalysisPhase {
        let phase = match self.verdict() {
            AnalysisPhase::Pending => AnalysisPhase::Running,
            phase => phase,
        };
        // A run of dry metrics alone has nothing to say, and says it when they are over.
        if phase == AnalysisPhase::Successful
            && self.ended.is_none()
            && self.metrics.iter().any(|of| !of.phase().is_over())
        {
            return AnalysisPhase::Running;
        }
        phase
    }

    /// When the next measurement is due, which may be past; none when the run is over.
    #[must_use]
    pub fn deadline(&self) -> Option<Timestamp> {
        if self.ended.is_some() {
            return None;
        }
        self.metrics.iter().filter_map(|metric| metric.due(self.started)).min()
    }

    /// Since when at least one metric has been waiting for something to judge; none when each got some at its latest
    /// measurement. Dry runs keep nobody waiting.
    #[must_use]
    pub fn waiting_since(&self) -> Option<Timestamp> {
        self.metrics.iter().filter(|metric| !metric.is_dry()).filter_map(Metric::waiting_since).min()
    }

    /// The metric that decided a run that ended badly, and why in words with value and sample size.
    #[must_use]
    pub fn deciding(&self) -> Option<(String, String)> {
        let phase = Some(self.phase()).filter(|phase| phase.is_bad())?;
        let metric = self.metrics.iter().find(|metric| !metric.is_dry() && metric.phase() == phase)?;
        Some((metric.name().to_owned(), metric.message().to_owned()))
    }

    /// Each metric with where it stands, in words, e.g. `2 of 3 measured, last result.p95 = 184.0 ms: Successful,` with the
    /// condition that judged it, or `0 of 3 measured, waiting: no canary requests yet`.
    #[must_use]
    pub fn progress(&self) -> Vec<(String, String)> {
        self.metrics.iter().map(|metric| (metric.name().to_owned(), metric.progress())).collect()
    }

    /// Each metric with its latest measurements, oldest first, as many as its retention says.
    pub fn measurements(&self) -> impl Iterator<Item = (String, VecDeque<Arc<Measurement>>)> {
        self.metrics.iter().map(|metric| (metric.name().to_owned(), metric.record().measurements.into()))
    }

    /// What is told of it.
    #[must_use]
    pub fn record(&self, revision: Revision, kind: RunKind) -> RunRecord {
        RunRecord {
            revision,
            kind,
            step: self.step,
            templates: self.templates.clone(),
            phase: self.phase(),
            message: self.deciding().map_or_else(String::new, |(metric, why)| format!("{metric}: {why}")),
            started: self.started,
            completed: self.ended,
            expires: self.ended.zip(self.kept_for()).map(|(ended, kept)| ended + kept),
            metrics: self.metrics.iter().map(Metric::record).collect(),
        }
    }

    /// How long its record stays after an end like the present phase: of templates that run together the longest time.
    fn kept_for(&self) -> Option<Duration> {
        let phase = self.phase();
        self.ttl.iter().filter_map(|ttl| ttl.after(phase)).max()
    }

    /// The worst of what decides.
    fn verdict(&self) -> AnalysisPhase {
        let phases = self.metrics.iter().filter(|metric| !metric.is_dry()).map(Metric::phase);
        phases.max_by_key(|phase| phase.badness()).unwrap_or(AnalysisPhase::Successful)
    }

    /// Ends the run when its verdict is given; dry runs end with it.
    fn settle(&mut self, now: Timestamp) {
        let verdict = self.verdict();
        let only_dry = self.metrics.iter().all(Metric::is_dry);
        if verdict.is_bad() {
            self.metrics.retain(|metric| metric.phase().is_over() || !metric.is_untouched());
        } else if !verdict.is_over() || (only_dry && self.metrics.iter().any(|metric| !metric.phase().is_over())) {
            return;
        }
        self.terminate("ended with the run", now);
    }
}

#[cfg(test)]
mod tests;

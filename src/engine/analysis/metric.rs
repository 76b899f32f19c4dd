//! One metric of a run: counts its measurements against its limits. Knows nothing of other metrics.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use super::{
    answer::Reply,
    ask::{Ask, Text},
    measurement::{Facts, Measurement, Verdict, judge_reply, measure},
    record::{MetricRecord, Tally},
    run::AnalysisPhase,
    schedule::{self, Latest},
    template::{MetricPlan, Provider},
};
use crate::engine::time::Timestamp;

/// Measurements kept of each metric unless something else is wanted, as in Argo Rollouts.
pub const RETENTION: usize = 10;
/// So long after its timeout an answer that never came is given up: who asks keeps the time, this is for when it fails.
const GRACE: Duration = Duration::from_secs(5);

/// A metric of a run.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Metric {
    plan: MetricPlan,
    args: Arc<[(String, Text)]>,
    phase: AnalysisPhase,
    tally: Tally,
    failures_in_a_row: u32,
    /// From the run's start to the first measurement, beside the plan's delay.
    head_start: Duration,
    latest: Option<Latest>,
    /// A question that is on its way.
    asking: Option<Asking>,
    recent: VecDeque<Arc<Measurement>>,
    waiting_since: Option<Timestamp>,
    /// Why it is over.
    message: String,
}

/// A question that is on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Asking {
    due: Timestamp,
    asked: Timestamp,
    given_up: Timestamp,
}

/// What a metric wants to know from somebody else.
#[derive(Debug, Clone, PartialEq)]
pub struct Wanted {
    /// Which metric.
    pub metric: String,
    /// Whom and what, with built-in names filled in.
    pub ask: Ask,
    /// How long an answer is waited for.
    pub timeout: Duration,
}

impl Metric {
    pub(super) fn new(plan: MetricPlan, args: Arc<[(String, Text)]>) -> Self {
        Self {
            plan,
            args,
            phase: AnalysisPhase::Pending,
            tally: Tally::default(),
            failures_in_a_row: 0,
            head_start: Duration::ZERO,
            latest: None,
            asking: None,
            recent: VecDeque::new(),
            waiting_since: None,
            message: String::new(),
        }
    }

    /// The same metric anew, one interval later: it goes on where another run ended.
    pub(super) fn after_another(mut self) -> Self {
        self.plan.initial_delay = Duration::ZERO;
        self.head_start = schedule::pace_after(&self.plan);
        self
    }

    pub(super) fn name(&self) -> &str {
        &self.plan.name
    }

    pub(super) const fn phase(&self) -> AnalysisPhase {
        self.phase
    }

    pub(super) const fn is_dry(&self) -> bool {
        self.plan.dry_run
    }

    pub(super) fn message(&self) -> &str {
        &self.message
    }

    /// Since when it waits for something to judge.
    pub(super) fn waiting_since(&self) -> Option<Timestamp> {
        self.waiting_since.filter(|_| !self.phase.is_over())
    }

    /// When it is due; none when it is over. While an answer is awaited: when it is given up.
    pub(super) fn due(&self, run_started: Timestamp) -> Option<Timestamp> {
        if self.phase.is_over() {
            return None;
        }
        let due = || schedule::due(&self.plan, run_started + self.head_start, self.latest);
        Some(self.asking.map_or_else(due, |asking| asking.given_up))
    }

    /// Measures now, which was due at `due`, or gives what is to be asked.
    pub(super) fn take(&mut self, due: Timestamp, now: Timestamp, facts: Facts<'_>) -> Option<Wanted> {
        self.phase = AnalysisPhase::Running;
        if let Some(asking) = self.asking.take() {
            self.judge(asking, &Err("no answer came in time".to_owned()), now, facts);
            return None;
        }
        match self.plan.provider.clone() {
            Provider::Serin { version, window } => {
                let measurement = measure(&self.plan, &version, window, &self.args, now, facts);
                self.count(due, measurement);
                None
            }
            Provider::Outside { ask, timeout } => {
                let mut ask = *ask;
                ask.texts_mut().into_iter().for_each(|text| text.fill(facts.known));
                self.asking = Some(Asking { due, asked: now, given_up: now + timeout + GRACE });
                Some(Wanted { metric: self.plan.name.clone(), ask, timeout })
            }
        }
    }

    /// Takes an answer to what was asked at `asked`; one to anything else is dropped.
    pub(super) fn answered(
        &mut self,
        asked: Timestamp,
        reply: &Result<Reply, String>,
        now: Timestamp,
        facts: Facts<'_>,
    ) {
        if let Some(asking) = self.asking.take_if(|asking| asking.asked == asked) {
            self.judge(asking, reply, now, facts);
        }
    }

    /// The run is over for another's sake, or was told to end: what was not over by itself is Terminated.
    pub(super) fn terminate(&mut self, why: &str) {
        self.asking = None;
        if !self.phase.is_over() {
            self.phase = AnalysisPhase::Terminated;
            why.clone_into(&mut self.message);
        }
    }

    /// Nothing to judge for too long.
    pub(super) fn give_up_without_data(&mut self) {
        if self.waiting_since().is_some() {
            self.asking = None;
            self.phase = AnalysisPhase::NoData;
            self.message = self.recent.back().map_or_else(String::new, |last| last.in_words());
        }
    }

    /// Whether anything was measured.
    pub(super) const fn is_untouched(&self) -> bool {
        self.tally.count == 0 && self.tally.error == 0
    }

    /// What is told of it.
    pub(super) fn record(&self) -> MetricRecord {
        MetricRecord {
            name: self.plan.name.clone(),
            phase: match self.phase {
                AnalysisPhase::Running if self.waiting_since.is_some() => AnalysisPhase::NoData,
                phase => phase,
            },
            message: self.message.clone(),
            dry_run: self.plan.dry_run,
            tally: self.tally,
            measurements: self.recent.iter().cloned().collect(),
        }
    }

    /// Where it stands, in words.
    pub(super) fn progress(&self) -> String {
        let dry = if self.plan.dry_run { " (dry run)" } else { "" };
        let Some(last) = self.recent.back() else {
            return if self.asking.is_some() {
                format!("asked, no answer yet{dry}")
            } else if self.plan.initial_delay.is_zero() {
                format!("not measured yet{dry}")
            } else {
                format!("first measured {:?} after the start{dry}", self.plan.initial_delay)
            };
        };
        let measured = match self.wanted() {
            Some(wanted) => format!("{} of {wanted} measured", self.tally.count),
            None => format!("{} measured", self.tally.count),
        };
        if !self.phase.is_over() && last.verdict == Verdict::NoData {
            return format!("{measured}, waiting: {}{dry}", last.why);
        }
        let value = if last.value.is_empty() { "" } else { &format!(" {}", last.value) };
        let phase = if self.phase.is_over() { format!("{}: ", self.phase.as_str()) } else { String::new() };
        let failed = match self.plan.failure_limit {
            Some(limit) if self.tally.failed > 0 => format!(", {} failed (allowed {limit})", self.tally.failed),
            _ => String::new(),
        };
        format!("{phase}{measured}{failed}, last{value}: {}, {}{dry}", last.verdict.as_str(), last.why)
    }

    fn judge(&mut self, asking: Asking, reply: &Result<Reply, String>, now: Timestamp, facts: Facts<'_>) {
        let measurement = judge_reply(&self.plan, &self.args, asking.asked, now, reply, facts);
        self.count(asking.due, measurement);
    }

    fn count(&mut self, due: Timestamp, measurement: Measurement) {
        self.latest = Some(schedule::taken(&self.plan, due, measurement.finished, measurement.verdict));
        self.tally.add(measurement.verdict);
        self.failures_in_a_row = match measurement.verdict {
            Verdict::Failed => self.failures_in_a_row.saturating_add(1),
            // Nothing was seen, so nothing was interrupted.
            Verdict::NoData => self.failures_in_a_row,
            Verdict::Successful | Verdict::Inconclusive | Verdict::Error => 0,
        };
        self.waiting_since = match measurement.verdict {
            Verdict::NoData => self.waiting_since.or(Some(measurement.finished)),
            _ => None,
        };
        if let Some((phase, why)) = self.assess() {
            self.phase = phase;
            self.message = format!("{why}; {}", measurement.in_words());
        }
        if self.recent.len() >= self.plan.retention.max(1) {
            self.recent.pop_front();
        }
        self.recent.push_back(Arc::new(measurement));
    }

    /// Measurements after which it is over; none when it is endless.
    fn wanted(&self) -> Option<u32> {
        match (self.plan.count, self.plan.interval) {
            (Some(count), _) if count > 0 => Some(count),
            (_, None) => Some(1),
            (_, Some(_)) => None,
        }
    }

    /// Whether it is over, how, and by which limit. Of several broken limits an Error is told before Inconclusive
    /// before Failed, as in Argo.
    fn assess(&self) -> Option<(AnalysisPhase, String)> {
        let (plan, tally) = (&self.plan, &self.tally);
        if tally.consecutive_error > plan.consecutive_error_limit {
            let why = format!("errors in a row: {}, allowed {}", tally.consecutive_error, plan.consecutive_error_limit);
            return Some((AnalysisPhase::Error, why));
        }
        if tally.inconclusive > plan.inconclusive_limit {
            let why = format!("inconclusive measurements: {}, allowed {}", tally.inconclusive, plan.inconclusive_limit);
            return Some((AnalysisPhase::Inconclusive, why));
        }
        if let Some(limit) = plan.failure_limit.filter(|limit| tally.failed > *limit) {
            let why = format!("failed measurements: {}, allowed {limit}", tally.failed);
            return Some((AnalysisPhase::Failed, why));
        }
        if let Some(limit) = plan.consecutive_failure_limit.filter(|limit| self.failures_in_a_row > *limit) {
            let why = format!("failures in a row: {}, allowed {limit}", self.failures_in_a_row);
            return Some((AnalysisPhase::Failed, why));
        }
        let streak = plan.consecutive_success_limit;
        if streak > 0 && tally.consecutive_success >= streak {
            return Some((AnalysisPhase::Successful, format!("{streak} successes in a row")));
        }
        let wanted = self.wanted().filter(|wanted| tally.count >= *wanted)?;
        let never = || format!("{wanted} measured, but never {streak} successes in a row");
        let may_fail = plan.failure_limit.or(plan.consecutive_failure_limit).is_some();
        Some(match (streak, may_fail) {
            (0, _) => (AnalysisPhase::Successful, format!("{wanted} measured within limits")),
            // Where failures alone never decide, only the streak can make it good.
            (_, false) => (AnalysisPhase::Failed, never()),
            (_, true) => (AnalysisPhase::Inconclusive, never()),
        })
    }
}

impl Tally {
    fn add(&mut self, verdict: Verdict) {
        let one_more = |count: &mut u32| *count = count.saturating_add(1);
        match verdict {
            Verdict::NoData => return one_more(&mut self.no_data),
            Verdict::Error => {
                one_more(&mut self.error);
                one_more(&mut self.consecutive_error);
                self.consecutive_success = 0;
                return;
            }
            Verdict::Successful => {
                one_more(&mut self.successful);
                one_more(&mut self.consecutive_success);
            }
            Verdict::Failed => one_more(&mut self.failed),
            Verdict::Inconclusive => one_more(&mut self.inconclusive),
        }
        one_more(&mut self.count);
        self.consecutive_error = 0;
        if verdict != Verdict::Successful {
            self.consecutive_success = 0;
        }
    }
}

//! One metric of a run: counts its measurements against its limits. Knows nothing of other metrics.

use std::collections::VecDeque;

use super::{
    measurement::{Measurement, Read, Verdict, measure},
    run::AnalysisPhase,
    schedule::{self, Latest},
    template::MetricPlan,
};
use crate::engine::time::Timestamp;

/// Measurements kept of each metric.
pub const MEASUREMENTS_KEPT: usize = 10;

/// A metric of a run.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Metric {
    plan: MetricPlan,
    args: Vec<(String, String)>,
    phase: AnalysisPhase,
    tally: Tally,
    latest: Option<Latest>,
    recent: VecDeque<Measurement>,
    waiting_since: Option<Timestamp>,
    /// Why it is over.
    message: String,
}

/// How often which verdict was given. A measurement without data is in none of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Tally {
    /// All that are not Error.
    measured: u32,
    failed: u32,
    inconclusive: u32,
    errors: u32,
    errors_in_a_row: u32,
    successes_in_a_row: u32,
}

impl Metric {
    pub(super) fn new(plan: MetricPlan, args: Vec<(String, String)>) -> Self {
        Self {
            plan,
            args,
            phase: AnalysisPhase::Running,
            tally: Tally::default(),
            latest: None,
            recent: VecDeque::new(),
            waiting_since: None,
            message: String::new(),
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.plan.name
    }

    pub(super) const fn phase(&self) -> AnalysisPhase {
        self.phase
    }

    pub(super) fn message(&self) -> &str {
        &self.message
    }

    /// Since when it waits for requests.
    pub(super) fn waiting_since(&self) -> Option<Timestamp> {
        self.waiting_since.filter(|_| self.phase == AnalysisPhase::Running)
    }

    /// The latest measurements, oldest first.
    pub(super) const fn recent(&self) -> &VecDeque<Measurement> {
        &self.recent
    }

    /// When it is due; none when it is over.
    pub(super) fn due(&self, run_started: Timestamp) -> Option<Timestamp> {
        (self.phase == AnalysisPhase::Running).then(|| schedule::due(&self.plan, run_started, self.latest))
    }

    /// Measures now, which was due at `due`.
    pub(super) fn take(&mut self, due: Timestamp, now: Timestamp, read: Read<'_>) {
        let measurement = measure(&self.plan, &self.args, now, read);
        self.latest = Some(schedule::taken(&self.plan, due, now, measurement.verdict));
        self.tally.count(measurement.verdict);
        self.waiting_since = match measurement.verdict {
            Verdict::NoData => self.waiting_since.or(Some(now)),
            _ => None,
        };
        if let Some((phase, why)) = self.assess() {
            self.phase = phase;
            self.message = format!("{why}; {}", measurement.in_words());
        }
        if self.recent.len() == MEASUREMENTS_KEPT {
            self.recent.pop_front();
        }
        self.recent.push_back(measurement);
    }

    /// The run is over for another metric's sake: what was measured without breaking a limit is good. False when nothing
    /// was measured, so that nothing can be said.
    pub(super) fn wind_down(&mut self) -> bool {
        if self.phase == AnalysisPhase::Running && (self.tally.measured > 0 || self.tally.errors > 0) {
            self.phase = AnalysisPhase::Successful;
            "ended with the run".clone_into(&mut self.message);
        }
        self.phase != AnalysisPhase::Running
    }

    /// Where it stands, in words.
    pub(super) fn progress(&self) -> String {
        let Some(last) = self.recent.back() else {
            return if self.plan.initial_delay.is_zero() {
                "not measured yet".to_owned()
            } else {
                format!("first measured {:?} after the start", self.plan.initial_delay)
            };
        };
        let measured = match self.wanted() {
            Some(wanted) => format!("{} of {wanted} measured", self.tally.measured),
            None => format!("{} measured", self.tally.measured),
        };
        if self.phase == AnalysisPhase::Running && last.verdict == Verdict::NoData {
            return format!("{measured}, waiting: {}", last.why);
        }
        let value = if last.value.is_empty() { "" } else { &format!(" {}", last.value) };
        let phase = match self.phase {
            AnalysisPhase::Running => String::new(),
            phase => format!("{}: ", phase.as_str()),
        };
        format!("{phase}{measured}, last{value}: {}", last.verdict.as_str())
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
        if tally.errors_in_a_row > plan.consecutive_error_limit {
            let why = format!("errors in a row: {}, allowed {}", tally.errors_in_a_row, plan.consecutive_error_limit);
            return Some((AnalysisPhase::Error, why));
        }
        if tally.inconclusive > plan.inconclusive_limit {
            let why = format!("inconclusive measurements: {}, allowed {}", tally.inconclusive, plan.inconclusive_limit);
            return Some((AnalysisPhase::Inconclusive, why));
        }
        if tally.failed > plan.failure_limit {
            let why = format!("failed measurements: {}, allowed {}", tally.failed, plan.failure_limit);
            return Some((AnalysisPhase::Failed, why));
        }
        let streak = plan.consecutive_success_limit;
        if streak > 0 && tally.successes_in_a_row >= streak {
            return Some((AnalysisPhase::Successful, format!("{streak} successes in a row")));
        }
        let wanted = self.wanted().filter(|wanted| tally.measured >= *wanted)?;
        Some(if streak > 0 {
            let why = format!("{wanted} measured, but never {streak} successes in a row");
            (AnalysisPhase::Inconclusive, why)
        } else {
            (AnalysisPhase::Successful, format!("{wanted} measured within limits"))
        })
    }
}

impl Tally {
    fn count(&mut self, verdict: Verdict) {
        let one_more = |count: &mut u32| *count = count.saturating_add(1);
        match verdict {
            Verdict::NoData => return,
            Verdict::Error => {
                one_more(&mut self.errors);
                one_more(&mut self.errors_in_a_row);
                self.successes_in_a_row = 0;
                return;
            }
            Verdict::Successful => one_more(&mut self.successes_in_a_row),
            Verdict::Failed => one_more(&mut self.failed),
            Verdict::Inconclusive => one_more(&mut self.inconclusive),
        }
        one_more(&mut self.measured);
        self.errors_in_a_row = 0;
        if verdict != Verdict::Successful {
            self.successes_in_a_row = 0;
        }
    }
}

//! One measurement: what was seen, what the conditions say of it, and why in words. Counts nothing.

use std::time::Duration;

use super::{
    condition::{Condition, ConditionError, Scope, Subject},
    template::{Arm, MetricPlan, Provider},
};
use crate::engine::{samples::Counts, stats::window::Summary, time::Timestamp};

/// Gives a version's summary over a window; an empty one without traffic.
pub type Read<'a> = &'a dyn Fn(&Arm, Duration) -> Summary;

/// What one measurement says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// Good.
    Successful,
    /// Bad.
    Failed,
    /// Neither.
    Inconclusive,
    /// A condition could not be evaluated.
    Error,
    /// There were no requests to judge. Does not count; waits.
    NoData,
}

/// A measurement as it is remembered.
#[derive(Debug, Clone, PartialEq)]
pub struct Measurement {
    /// When it was taken.
    pub at: Timestamp,
    /// What it says.
    pub verdict: Verdict,
    /// The values that the conditions mention, e.g. `result.p95 = 184.0 ms`; empty when they mention none.
    pub value: String,
    /// Which condition decided, or what went wrong or is missing.
    pub why: String,
    /// How many requests of both versions there were, and over what time.
    pub samples: String,
}

impl Verdict {
    /// The word for messages.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Successful => "Successful",
            Self::Failed => "Failed",
            Self::Inconclusive => "Inconclusive",
            Self::Error => "Error",
            Self::NoData => "NoData",
        }
    }
}

impl Measurement {
    /// Value, reason and sample sizes in one sentence.
    #[must_use]
    pub fn in_words(&self) -> String {
        let value = if self.value.is_empty() { String::new() } else { format!("{}; ", self.value) };
        format!("{value}{}; {}", self.why, self.samples)
    }
}

/// Measures and judges.
pub(super) fn measure(plan: &MetricPlan, args: &[(String, String)], now: Timestamp, read: Read<'_>) -> Measurement {
    let Provider::Serin { version, window } = &plan.provider;
    let (stable, canary) = (read(&Arm::Stable, *window), read(&Arm::Canary, *window));
    let named = match version {
        Arm::Named(_) => Some(read(version, *window)),
        Arm::Canary | Arm::Stable => None,
    };
    let result = named.as_ref().unwrap_or(if *version == Arm::Stable { &stable } else { &canary });
    let scope = Scope { result, stable: &stable, canary: &canary, args };
    let (verdict, why) = judge(plan, version, &scope);
    Measurement { at: now, verdict, value: values(plan, &scope), why, samples: samples(version, &scope) }
}

/// Both conditions are evaluated, and a fault in either is an Error even if the other one would decide; save that
/// nothing can be said of a version without requests, which is NoData.
fn judge(plan: &MetricPlan, version: &Arm, scope: &Scope<'_>) -> (Verdict, String) {
    if scope.result.counts.requests == 0 {
        return (Verdict::NoData, format!("no {} requests yet", name(version)));
    }
    let success = plan.success.as_ref().map(|condition| condition.evaluate(scope));
    let failure = plan.failure.as_ref().map(|condition| condition.evaluate(scope));
    match (verdict(success, failure), &plan.success, &plan.failure) {
        (Err((which, error)), success, failure) => {
            let condition = if which == "successCondition" { success } else { failure };
            let lacks = condition.iter().flat_map(Condition::subjects).find(|subject| lacks(scope, **subject));
            match lacks {
                Some(subject) => (Verdict::NoData, format!("no {} requests yet", subject.as_str())),
                None => (Verdict::Error, format!("{} failed: {error}", quoted(which, condition.as_ref()))),
            }
        }
        (Ok(verdict), None, None) => (verdict, "there is no condition".to_owned()),
        (Ok(Verdict::Failed), _, failure @ Some(_)) => {
            (Verdict::Failed, format!("{} is true", quoted("failureCondition", failure.as_ref())))
        }
        (Ok(Verdict::Failed), success, None) => {
            (Verdict::Failed, format!("{} is false", quoted("successCondition", success.as_ref())))
        }
        (Ok(Verdict::Inconclusive), ..) => {
            (Verdict::Inconclusive, "neither successCondition nor failureCondition is true".to_owned())
        }
        (Ok(verdict), success @ Some(_), _) => {
            (verdict, format!("{} is true", quoted("successCondition", success.as_ref())))
        }
        (Ok(verdict), None, failure) => (verdict, format!("{} is false", quoted("failureCondition", failure.as_ref()))),
    }
}

type Evaluated = Option<Result<bool, ConditionError>>;

/// Argo's table of verdicts.
fn verdict(success: Evaluated, failure: Evaluated) -> Result<Verdict, (&'static str, ConditionError)> {
    let success = success.transpose().map_err(|error| ("successCondition", error))?;
    let failure = failure.transpose().map_err(|error| ("failureCondition", error))?;
    Ok(match (success, failure) {
        (_, Some(true)) | (Some(false), None) => Verdict::Failed,
        (Some(false), Some(false)) => Verdict::Inconclusive,
        (Some(true) | None, Some(false) | None) => Verdict::Successful,
    })
}

fn lacks(scope: &Scope<'_>, subject: Subject) -> bool {
    scope.summary(subject).counts.requests == 0
}

fn values(plan: &MetricPlan, scope: &Scope<'_>) -> String {
    let mut values: Vec<String> = Vec::new();
    for value in plan.success.iter().chain(&plan.failure).flat_map(|condition| condition.values(scope)) {
        if !values.contains(&value) {
            values.push(value);
        }
    }
    values.join(", ")
}

fn samples(version: &Arm, scope: &Scope<'_>) -> String {
    let named = match version {
        Arm::Named(name) => format!("{name} {}, ", counts(scope.result.counts)),
        Arm::Canary | Arm::Stable => String::new(),
    };
    let (canary, stable) = (counts(scope.canary.counts), counts(scope.stable.counts));
    format!("{named}canary {canary}, stable {stable} over {:?}", scope.result.span)
}

fn counts(counts: Counts) -> String {
    let plural = |count: u64, one: &str| format!("{count} {one}{}", if count == 1 { "" } else { "s" });
    format!("{} ({})", plural(counts.requests, "request"), plural(counts.errors, "error"))
}

fn name(version: &Arm) -> &str {
    match version {
        Arm::Canary => "canary",
        Arm::Stable => "stable",
        Arm::Named(name) => name.as_str(),
    }
}

fn quoted(which: &str, condition: Option<&Condition>) -> String {
    condition.map_or_else(|| which.to_owned(), |condition| format!("{which} `{}`", condition.source()))
}

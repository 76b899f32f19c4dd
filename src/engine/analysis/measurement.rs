//! One measurement: what was seen, what the conditions say of it, and why in words. Counts nothing.

use std::time::Duration;

use super::{
    answer::{Answer, Reply},
    ask::{BuiltIn, Text},
    condition::{Condition, ConditionError, Scope, Seen, Subject},
    template::{Arm, MetricPlan},
};
use crate::engine::{samples::Counts, stats::window::Summary, time::Timestamp};

/// What `stable` and `canary` look back on where somebody else is asked about `result`.
const BESIDE: Duration = Duration::from_mins(1);

/// What is known at the moment of a measurement.
#[derive(Clone, Copy)]
pub struct Facts<'a> {
    /// Gives a version's summary over a window; an empty one without traffic.
    pub read: &'a dyn Fn(&Arm, Duration) -> Summary,
    /// Gives what stands for a built-in name now.
    pub known: &'a dyn Fn(BuiltIn) -> String,
}

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
    /// When it was taken; when the question was asked.
    pub at: Timestamp,
    /// When it was judged: later than `at` where somebody else was asked.
    pub finished: Timestamp,
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
    /// All verdicts.
    pub const ALL: [Self; 5] = [Self::Successful, Self::Failed, Self::Inconclusive, Self::Error, Self::NoData];

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

/// Looks at Serin's own measurements and judges.
pub(super) fn measure(
    plan: &MetricPlan,
    version: &Arm,
    window: Duration,
    args: &[(String, Text)],
    now: Timestamp,
    facts: Facts<'_>,
) -> Measurement {
    let (stable, canary) = ((facts.read)(&Arm::Stable, window), (facts.read)(&Arm::Canary, window));
    let named = match version {
        Arm::Named(_) => Some((facts.read)(version, window)),
        Arm::Canary | Arm::Stable => None,
    };
    let result = named.as_ref().unwrap_or(if *version == Arm::Stable { &stable } else { &canary });
    let args = plain(args, facts);
    let scope = Scope { result: Seen::Summary(result), stable: &stable, canary: &canary, args: &args };
    let (verdict, why) = match result.counts.requests {
        0 => (Verdict::NoData, format!("no {} requests yet", name(version))),
        _ => judge(plan, &scope),
    };
    let samples = samples(Some((version, result)), &scope, window);
    Measurement { at: now, finished: now, verdict, value: values(plan, &scope), why, samples }
}

/// Judges what somebody else answered.
pub(super) fn judge_reply(
    plan: &MetricPlan,
    args: &[(String, Text)],
    asked: Timestamp,
    now: Timestamp,
    reply: &Result<Reply, String>,
    facts: Facts<'_>,
) -> Measurement {
    let (stable, canary) = ((facts.read)(&Arm::Stable, BESIDE), (facts.read)(&Arm::Canary, BESIDE));
    let args = plain(args, facts);
    let nothing = Answer::Nil;
    let answer = if let Ok(Reply::Value(answer)) = reply { answer } else { &nothing };
    let scope = Scope { result: Seen::Answer(answer), stable: &stable, canary: &canary, args: &args };
    let (verdict, value, why) = match reply {
        Ok(Reply::Value(answer)) => {
            let (verdict, why) = judge_answer(plan, answer, &scope);
            (verdict, values(plan, &scope), why)
        }
        Ok(Reply::Failed(said)) => (Verdict::Failed, String::new(), said.clone()),
        Err(trouble) => (Verdict::Error, String::new(), trouble.clone()),
    };
    Measurement { at: asked, finished: now, verdict, value, why, samples: samples(None, &scope, BESIDE) }
}

/// As any measurement, save that nothing can be said of no answer at all, and nothing of a ratio of nothing to nothing
/// by a condition that does not look for it: both mean that there was no traffic.
fn judge_answer(plan: &MetricPlan, answer: &Answer, scope: &Scope<'_>) -> (Verdict, String) {
    let mut conditions = plan.success.iter().chain(&plan.failure);
    if answer.has_nan() && !conditions.any(Condition::expects_nan) {
        return (Verdict::NoData, "the answer is not a number (NaN), so there was nothing to measure".to_owned());
    }
    let (verdict, why) = judge(plan, scope);
    if verdict == Verdict::Error && answer.is_empty() {
        return (Verdict::NoData, "the answer is empty, so there was nothing to measure".to_owned());
    }
    (verdict, why)
}

/// Both conditions are evaluated, and a fault in either is an Error even if the other one would decide; save that
/// nothing can be said of a version without requests, which is NoData.
fn judge(plan: &MetricPlan, scope: &Scope<'_>) -> (Verdict, String) {
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

/// The arguments as conditions see them; secrets are none of their business.
fn plain(args: &[(String, Text)], facts: Facts<'_>) -> Vec<(String, String)> {
    let filled = args.iter().filter_map(|(name, text)| {
        let mut text = text.clone();
        text.fill(facts.known);
        Some((name.clone(), text.as_plain()?))
    });
    filled.collect()
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
    scope.summary(subject).is_some_and(|summary| summary.counts.requests == 0)
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

fn samples(of: Option<(&Arm, &Summary)>, scope: &Scope<'_>, window: Duration) -> String {
    let named = match of {
        Some((Arm::Named(name), result)) => format!("{name} {}, ", counts(result.counts)),
        _ => String::new(),
    };
    let (canary, stable) = (counts(scope.canary.counts), counts(scope.stable.counts));
    let span = of.map_or(scope.canary.span.min(window), |(_, result)| result.span);
    format!("{named}canary {canary}, stable {stable} over {span:?}")
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

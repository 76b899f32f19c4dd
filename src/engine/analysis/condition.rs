//! Conditions in expr-lang: bounded, tried when parsed, evaluated to true, false or an error.
//! Sees what was measured or answered and the template's arguments, and nothing else.

mod functions;
mod outline;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};

use expr::{Context, Program, Value};

use super::answer::Answer;
use crate::engine::{
    samples::Counts,
    stats::{latency::LatencyCounts, window::Summary},
};
use outline::Outline;

/// What is known of each version. Latencies are in milliseconds, rates are shares in `0.0..=1.0`; what needs a request
/// is nil without one.
pub const FIELDS: [&str; 13] =
    ["requests", "errors", "errorRate", "successRate", "rps", "p50", "p75", "p90", "p95", "p99", "p999", "max", "mean"];

/// A checked condition. Two are equal when their texts are.
#[derive(Debug, Clone)]
pub struct Condition {
    source: String,
    compiled: Arc<Compiled>,
}

#[derive(Debug)]
struct Compiled {
    program: Program,
    outline: Outline,
}

/// Why a text is not a condition, or gave no verdict.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConditionError(pub String);

/// A version that a condition can mention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// The version that the metric asks about.
    Result,
    /// The stable version.
    Stable,
    /// The canary.
    Canary,
}

/// What `result` can be, which decides how a condition is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Shape {
    /// Serin's own measurements of a version.
    Own,
    /// A number or a list of numbers, as metric stores give them.
    Numbers,
    /// Whatever JSON can say.
    Anything,
}

/// What `result` is.
#[derive(Debug, Clone, Copy)]
pub enum Seen<'a> {
    /// Serin's own measurements of a version.
    Summary(&'a Summary),
    /// Somebody's answer.
    Answer(&'a Answer),
}

/// What a condition is evaluated on.
#[derive(Debug, Clone, Copy)]
pub struct Scope<'a> {
    /// What the metric asks about.
    pub result: Seen<'a>,
    /// The stable version over the same time.
    pub stable: &'a Summary,
    /// The canary over the same time.
    pub canary: &'a Summary,
    /// The template's arguments.
    pub args: &'a [(String, String)],
}

impl Subject {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Result, Self::Stable, Self::Canary];

    /// The variable's name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Result => "result",
            Self::Stable => "stable",
            Self::Canary => "canary",
        }
    }
}

impl<'a> Scope<'a> {
    /// What is known of one of the versions; none of an answer.
    #[must_use]
    pub const fn summary(&self, of: Subject) -> Option<&'a Summary> {
        match (of, self.result) {
            (Subject::Result, Seen::Summary(summary)) => Some(summary),
            (Subject::Result, Seen::Answer(_)) => None,
            (Subject::Stable, _) => Some(self.stable),
            (Subject::Canary, _) => Some(self.canary),
        }
    }
}

impl Condition {
    /// Parses and tries a condition against typical results.
    ///
    /// # Errors
    /// When it is too large or nested too deeply, does not parse, or can never give a verdict.
    pub fn parse(source: &str, shape: Shape) -> Result<Self, ConditionError> {
        let outline = outline::read(source, shape)?;
        let program = guarded(|| expr::compile(source))?;
        let condition = Self { source: source.to_owned(), compiled: Arc::new(Compiled { program, outline }) };
        match shape {
            Shape::Own => condition.try_out()?,
            Shape::Numbers => condition.try_out_on(&numbers(), true)?,
            Shape::Anything => condition.try_out_on(&anything(), false)?,
        }
        Ok(condition)
    }

    /// As written.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The versions it mentions.
    #[must_use]
    pub fn subjects(&self) -> &[Subject] {
        &self.compiled.outline.subjects
    }

    /// The names of the arguments it mentions; an argument that is not there is nil.
    #[must_use]
    pub fn args(&self) -> &[String] {
        &self.compiled.outline.args
    }

    /// Whether it looks for NaN itself.
    #[must_use]
    pub fn expects_nan(&self) -> bool {
        self.compiled.outline.expects_nan
    }

    /// Whether it gives a verdict on a plain number and none on a list with one: written for the wrong one, as most
    /// queries give lists.
    #[must_use]
    pub fn wants_a_plain_number(&self) -> bool {
        let empty = Summary::empty();
        let args: Vec<_> = self.args().iter().map(|name| (name.clone(), "1".to_owned())).collect();
        let verdict = |answer: &Answer| {
            let scope = Scope { result: Seen::Answer(answer), stable: &empty, canary: &empty, args: &args };
            self.evaluate(&scope).is_ok()
        };
        verdict(&Answer::Number(0.97)) && !verdict(&Answer::numbers([0.97]))
    }

    /// The verdict.
    ///
    /// # Errors
    /// When it fails on these values, as a comparison with something that is not known does.
    pub fn evaluate(&self, scope: &Scope<'_>) -> Result<bool, ConditionError> {
        match self.run(&self.context(scope))? {
            Value::Bool(verdict) => Ok(verdict),
            value => Err(not_a_verdict(&value)),
        }
    }

    /// The values it was evaluated on, e.g. `result.p95 = 184.0 ms` and `stable.requests = 912`; none when it mentions none.
    #[must_use]
    pub fn values(&self, scope: &Scope<'_>) -> Vec<String> {
        let outline = &self.compiled.outline;
        let answer = match scope.result {
            Seen::Answer(answer) if outline.subjects.contains(&Subject::Result) => {
                Some(format!("result = {}", answer.in_words()))
            }
            _ => None,
        };
        let readings = outline.readings.iter().filter_map(|&(subject, field)| {
            let value = read(scope.summary(subject)?, field);
            Some(format!("{}.{field} = {}", subject.as_str(), in_words(field, &value)))
        });
        answer.into_iter().chain(readings).collect()
    }

    fn run(&self, context: &Context) -> Result<Value, ConditionError> {
        guarded(|| functions::ENVIRONMENT.run(&self.compiled.program, context))
    }

    fn context(&self, scope: &Scope<'_>) -> Context {
        let mut context = Context::default();
        for subject in self.subjects() {
            let value = match (subject, scope.result) {
                (Subject::Result, Seen::Answer(answer)) => answer.value(),
                _ => scope
                    .summary(*subject)
                    .map_or(Value::Nil, |summary| Value::from_iter(FIELDS.map(|field| (field, read(summary, field))))),
            };
            context.insert(subject.as_str(), value);
        }
        let args = scope.args.iter().map(|(name, value)| (name.clone(), Value::String(value.clone())));
        context.insert("args", args.collect::<Value>());
        context
    }

    /// Refuses what gives something else than a verdict on any result, or fails on every typical one.
    fn try_out(&self) -> Result<(), ConditionError> {
        let (typical, none) = (typical(), Summary::empty());
        let (mut failure, mut verdicts) = (None, 0);
        for text in ["1", "v1"] {
            let args: Vec<_> = self.args().iter().map(|name| (name.clone(), text.to_owned())).collect();
            for result in &typical {
                for stable in [&typical[0], &none] {
                    let scope = Scope { result: Seen::Summary(result), stable, canary: result, args: &args };
                    match self.run(&self.context(&scope)) {
                        Ok(Value::Bool(_)) => verdicts += 1,
                        Ok(value) => return Err(not_a_verdict(&value)),
                        Err(error) => failure = failure.or(Some(error)),
                    }
                }
            }
            for odd in [Value::Nil, f64::NAN.into(), f64::INFINITY.into(), f64::NEG_INFINITY.into(), i64::MAX.into()] {
                match self.run(&self.odd_context(&odd, &args)) {
                    Ok(Value::Bool(_)) | Err(_) => {}
                    Ok(value) => return Err(not_a_verdict(&value)),
                }
            }
        }
        match failure {
            Some(error) if verdicts == 0 => Err(ConditionError(format!("it fails on every typical result: {error}"))),
            _ => Ok(()),
        }
    }

    /// Refuses what can give no verdict on an answer: with `strict`, what gives something else on any, or fails on every
    /// one; without, since nobody knows what will be answered, only what gives something else and never a verdict.
    fn try_out_on(&self, answers: &[Answer], strict: bool) -> Result<(), ConditionError> {
        let typical = typical();
        let (mut failure, mut other, mut verdicts) = (None, None, 0);
        for text in ["1", "v1"] {
            let args: Vec<_> = self.args().iter().map(|name| (name.clone(), text.to_owned())).collect();
            for answer in answers {
                let scope =
                    Scope { result: Seen::Answer(answer), stable: &typical[0], canary: &typical[0], args: &args };
                match self.run(&self.context(&scope)) {
                    Ok(Value::Bool(_)) => verdicts += 1,
                    Ok(value) => other = other.or(Some(not_a_verdict(&value))),
                    Err(error) => failure = failure.or(Some(error)),
                }
            }
        }
        match (other, failure) {
            (Some(other), failure) if verdicts == 0 && (strict || failure.is_none()) => Err(other),
            (None, Some(error)) if verdicts == 0 && strict => {
                Err(ConditionError(format!("it fails on every typical result: {error}")))
            }
            _ => Ok(()),
        }
    }

    fn odd_context(&self, odd: &Value, args: &[(String, String)]) -> Context {
        let empty = Summary::empty();
        let result = Seen::Summary(&empty);
        let mut context = self.context(&Scope { result, stable: &empty, canary: &empty, args });
        for subject in self.subjects() {
            context.insert(subject.as_str(), Value::from_iter(FIELDS.map(|field| (field, odd.clone()))));
        }
        context
    }
}

impl PartialEq for Condition {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source
    }
}

impl Eq for Condition {}

/// A healthy, a sick and a hardly used version.
fn typical() -> [Summary; 3] {
    let minute = Duration::from_mins(1);
    let summary = |requests, errors, buckets: &[(u16, u64)]| {
        Summary::new(Counts { requests, errors }, minute, LatencyCounts(buckets.to_vec()))
    };
    [
        summary(1_000, 3, &[(300, 900), (400, 97), (500, 3)]),
        summary(1_000, 500, &[(300, 500), (600, 500)]),
        summary(1, 0, &[(350, 1)]),
    ]
}

/// What metric stores answer: one number, several, none, and what is no number.
fn numbers() -> Vec<Answer> {
    let one = [0.97, 0.0, 512.0, f64::NAN, f64::INFINITY].map(Answer::Number);
    let lists = [&[][..], &[0.97], &[0.0], &[512.0], &[f64::NAN], &[0.97, 0.4], &[0.97, 0.4, 512.0]];
    one.into_iter().chain(lists.map(|list| Answer::numbers(list.iter().copied()))).chain([Answer::Nil]).collect()
}

/// What JSON can be at its simplest.
fn anything() -> Vec<Answer> {
    let text = |text: &str| Answer::Text(text.to_owned());
    let others = [Answer::Bool(true), Answer::Integer(3), text(""), text("0.97"), text("ok"), Answer::Map(Vec::new())];
    numbers().into_iter().chain(others).chain([Answer::List(vec![text("ok")])]).collect()
}

#[expect(clippy::cast_precision_loss, reason = "microseconds of a latency stay far below 2^53")]
fn read(summary: &Summary, field: &str) -> Value {
    let integer = |count: u64| Value::Integer(i64::try_from(count).unwrap_or(i64::MAX));
    let float = |number: Option<f64>| number.map_or(Value::Nil, Value::Float);
    let millis = |latency: Option<Duration>| float(latency.map(|latency| latency.as_micros() as f64 / 1_000.0));
    match field {
        "requests" => integer(summary.counts.requests),
        "errors" => integer(summary.counts.errors),
        "errorRate" => float(summary.counts.error_rate()),
        "successRate" => float(summary.counts.error_rate().map(|rate| 1.0 - rate)),
        "rps" => Value::Float(summary.rps()),
        "p50" => millis(summary.quantile(0.5)),
        "p75" => millis(summary.quantile(0.75)),
        "p90" => millis(summary.quantile(0.9)),
        "p95" => millis(summary.quantile(0.95)),
        "p99" => millis(summary.quantile(0.99)),
        "p999" => millis(summary.quantile(0.999)),
        "max" => millis(summary.max()),
        "mean" => millis(summary.mean()),
        _ => Value::Nil,
    }
}

fn in_words(field: &str, value: &Value) -> String {
    match (field, value) {
        (_, Value::Nil) => "unknown".to_owned(),
        ("errorRate" | "successRate", Value::Float(share)) => format!("{:.2} %", share * 100.0),
        ("rps", Value::Float(rate)) => format!("{rate:.1}"),
        (_, Value::Float(millis)) => format!("{millis:.1} ms"),
        (_, value) => value.to_string(),
    }
}

fn not_a_verdict(value: &Value) -> ConditionError {
    ConditionError(format!("it gives {value}, not true or false: compare it with something, as in `result.p95 < 500`"))
}

/// The limits of `outline` leave no known way to make expr-lang panic; should there be one, it is this condition's fault
/// and not the end of the control plane.
fn guarded<T>(work: impl FnOnce() -> expr::Result<T>) -> Result<T, ConditionError> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(result) => result.map_err(|error| ConditionError(error.to_string())),
        Err(_) => Err(ConditionError("the evaluation itself broke down; please report this condition".to_owned())),
    }
}

#[cfg(test)]
mod argo;
#[cfg(test)]
mod tests;

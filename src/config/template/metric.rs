//! One metric of a template: when it is measured, how it is judged, and what can never be meant.

use std::{ops::RangeInclusive, time::Duration};

use super::TEMPLATES_MAX;
use crate::{
    config::{
        diagnostic::{Code, Span},
        provider::{Place, provider, result_shape},
        report::{At, Fields, Problem, Report},
        service, shape, suggest,
        yaml::Value,
    },
    engine::analysis::{
        RETENTION,
        ask::{Ask, Part, Text},
        condition::{Condition, Shape},
        template::{MetricPlan, Provider},
    },
};

const INTERVAL: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_hours(24);
const DELAY: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_hours(24);
/// As in Argo Rollouts.
const CONSECUTIVE_ERRORS: u32 = 4;

/// A metric and what can be checked only where it is used.
#[derive(Debug)]
pub(super) struct Metric<'a> {
    pub(super) plan: MetricPlan,
    pub(super) span: Span,
    /// Where a version is named.
    pub(super) version: Option<At<'a>>,
}

pub(super) fn metrics<'a>(at: &At<'a>, place: Place<'_>, report: &mut Report) -> Vec<Metric<'a>> {
    let mut read: Vec<Metric<'a>> = Vec::new();
    for item in report.items(at, TEMPLATES_MAX).unwrap_or_default() {
        let Some(metric) = metric(&item, place, report) else { continue };
        if let Some(first) = read.iter().find(|other| other.plan.name == metric.plan.name) {
            report
                .error(Code::Conflict, &metric.span, "two metrics of this template have the same name")
                .related(&first.span, "the first is here");
        }
        read.push(metric);
    }
    read
}

fn metric<'a>(at: &At<'a>, place: Place<'_>, report: &mut Report) -> Option<Metric<'a>> {
    let fields = report.fields(at, &shape::METRIC)?;
    let name_at = fields.need(report, "name", "name the metric: `name: p95`");
    let name = name_at.as_ref().and_then(|at| service::name(at, report));
    let interval = fields.get("interval").map_or(Some(None), |at| report.duration(&at, INTERVAL).map(Some));
    let initial_delay = fields.get("initialDelay").map_or(Some(Duration::ZERO), |at| report.duration(&at, DELAY));
    let limits = limits(&fields, report);
    let provider_at = fields.get("provider");
    let result = result_shape(provider_at.as_ref());
    let mut judged = |name: &str| {
        let at = fields.get(name);
        at.map_or(Some(None), |at| condition(&at, result, place.declared, report).map(Some))
    };
    let (success, failure) = (judged("successCondition"), judged("failureCondition"));
    // A command says by its exit code whether all is well.
    let is_exec = provider_at.as_ref().is_some_and(|at| at.has("exec"));
    if (&success, &failure) == (&Some(None), &Some(None)) && !is_exec {
        report.missing(
            at,
            "successCondition",
            "without `successCondition` or `failureCondition` every answer would pass",
        );
    }
    let help = "say whom to ask: `provider: { serin: { version: canary, window: 1m } }`";
    let provider = fields.need(report, "provider", help).and_then(|at| provider(&at, place, report));
    let (provider, version) = provider?;
    for (name, condition) in [("successCondition", &success), ("failureCondition", &failure)] {
        if let (Some(Some(condition)), Some(at)) = (condition, fields.get(name)) {
            warn_of_lists(&provider, condition, &at, report);
        }
    }
    let limits = limits?;
    Some(Metric {
        span: name_at.as_ref().map(At::span)?,
        version,
        plan: MetricPlan {
            name: name?,
            interval: interval?,
            initial_delay: initial_delay?,
            count: limits.count,
            success: success?,
            failure: failure?,
            failure_limit: limits.failure,
            inconclusive_limit: limits.inconclusive,
            consecutive_error_limit: limits.consecutive_errors,
            consecutive_success_limit: limits.consecutive_successes,
            consecutive_failure_limit: limits.consecutive_failures,
            dry_run: false,
            retention: RETENTION,
            provider,
        },
    })
}

struct Limits {
    count: Option<u32>,
    failure: Option<u32>,
    inconclusive: u32,
    consecutive_errors: u32,
    consecutive_successes: u32,
    consecutive_failures: Option<u32>,
}

fn limits(metric: &Fields<'_>, report: &mut Report) -> Option<Limits> {
    let count_at = metric.get("count");
    let count = count_at.as_ref().map_or(Some(None), |at| count(at, report).map(Some));
    let row_at = metric.get("consecutiveFailureLimit");
    let row = row_at.as_ref().map_or(Some(None), |at| limit(at, report).map(Some));
    let failure_at = metric.get("failureLimit");
    let failure = match &failure_at {
        // Who says how many in a row are too many does not mean that one is.
        None if row_at.is_some() => Some(None),
        None => Some(Some(0)),
        Some(at) if is_off(at) => Some(None),
        Some(at) => limit(at, report).map(Some),
    };
    let inconclusive = metric.get("inconclusiveLimit").map_or(Some(0), |at| limit(&at, report));
    let errors = metric.get("consecutiveErrorLimit").map_or(Some(CONSECUTIVE_ERRORS), |at| limit(&at, report));
    let successes_at = metric.get("consecutiveSuccessLimit");
    let successes = successes_at.as_ref().map_or(Some(0), |at| limit(at, report));
    let interval = metric.get("interval");
    let several = count.flatten().filter(|count| *count > 1);
    if let (Some(several), Some(at), None) = (several, &count_at, &interval) {
        report
            .error(Code::MissingField, &at.span(), format!("{several} measurements need an `interval`"))
            .help("say how far apart they are: `interval: 10s`");
    }
    // Without an interval there is one measurement; with one and without a count there is no end.
    let measured = match (count, &interval) {
        (Some(None), None) => Some(1),
        (count, _) => count.flatten(),
    };
    if let (Some(None), Some(None), Some(0), Some(at)) = (failure, row, successes, &failure_at) {
        report.error(Code::BadValue, &at.span(), "with `failureLimit: -1` this metric can never fail").help(
            "where failures alone never decide, say how many successes in a row do: `consecutiveSuccessLimit: 3`",
        );
    }
    for (limit, at) in [(failure, &failure_at), (row, &row_at)] {
        if let (Some(measured), Some(Some(limit)), Some(at)) = (measured, limit, at)
            && limit >= measured
        {
            report
                .error(Code::BadValue, &at.span(), format!("with `{}: {limit}` this metric can never fail", at.name))
                .help(format!("it fails at one failure more than the limit, and there {}", measurements(measured)));
        }
    }
    if let (Some(measured), Some(successes), Some(at)) = (measured, successes, &successes_at)
        && successes > measured
    {
        report
            .error(Code::BadValue, &at.span(), format!("{successes} successes in a row can never be reached"))
            .help(format!("there {}", measurements(measured)));
    }
    Some(Limits {
        count: count?,
        failure: failure?,
        inconclusive: inconclusive?,
        consecutive_errors: errors?,
        consecutive_successes: successes?,
        consecutive_failures: row?,
    })
}

/// Most queries give lists, of which a condition on a number says nothing.
fn warn_of_lists(provider: &Provider, condition: &Condition, at: &At<'_>, report: &mut Report) {
    let Provider::Outside { ask, .. } = provider else { return };
    let Ask::Prometheus { query, .. } = &**ask else { return };
    let gives_a_number = |part: &Part| matches!(part, Part::Plain(text) if text.contains("scalar("));
    if condition.wants_a_plain_number() && !query.0.iter().any(gives_a_number) {
        report
            .warning(&at.span(), format!("`{}` takes the answer for a number, and it will be a list", at.name))
            .help("write `result[0]`, or wrap the query into `scalar(…)`");
    }
}

fn measurements(n: u32) -> String {
    if n == 1 { "is one measurement".to_owned() } else { format!("are {n} measurements") }
}

fn count(at: &At<'_>, report: &mut Report) -> Option<u32> {
    if matches!(&at.node.value, Value::Scalar(scalar) if scalar.text == "0") {
        report
            .error(Code::BadValue, &at.span(), "`count: 0` would measure nothing")
            .help("remove the metric to skip it, or remove `count` to measure once or, with `interval`, without end");
        return None;
    }
    report.whole(at, 1..=1_000_000).and_then(|count| u32::try_from(count).ok())
}

fn limit(at: &At<'_>, report: &mut Report) -> Option<u32> {
    report.whole(at, 0..=1_000_000).and_then(|limit| u32::try_from(limit).ok())
}

/// Argo's -1: failures alone never decide.
fn is_off(at: &At<'_>) -> bool {
    matches!(&at.node.value, Value::Scalar(scalar) if scalar.text == "-1")
}

fn condition(at: &At<'_>, result: Shape, declared: &[&str], report: &mut Report) -> Option<Condition> {
    // The reason may repeat the text, which must not be shown if it is from the environment.
    let is_shown = matches!(&at.node.value, Value::Scalar(scalar) if !scalar.substituted);
    let condition = report.scalar(at, "a condition such as `result.p95 <= 500`", |text| {
        Condition::parse(text, result).map_err(|error| {
            let reason = if is_shown { format!(": {}", in_one_line(&error.to_string())) } else { String::new() };
            let help = match result {
                Shape::Own => "conditions are as in Argo Rollouts, as `result.p95 <= 500 && result.errorRate < 0.01`",
                _ => "conditions are as in Argo Rollouts, as `len(result) > 0 && result[0] >= 0.95`",
            };
            Problem::new(format!("is not a usable condition{reason}"), help)
        })
    })?;
    let is_declared = |name: &str| declared.contains(&name);
    for name in condition.args().iter().filter(|name| !is_declared(name)) {
        let near = suggest::closest(name, declared.iter().copied()).filter(|_| is_shown);
        let help = match near {
            Some(near) => format!("did you mean `args.{near}`?"),
            None => "add it to the template: `args: [{ name: …, value: … }]`".to_owned(),
        };
        let what = if is_shown { format!("`args.{name}`") } else { "an argument".to_owned() };
        let message = format!("`{}` uses {what}, which the template does not declare", at.name);
        report.error(Code::BadReference, &at.span(), message).help(help);
    }
    Some(condition)
}

/// A parser's report with an excerpt of its own as `at character 13: expected …`; anything else as it is.
fn in_one_line(error: &str) -> String {
    let place = error.split_once("--> ").and_then(|(_, rest)| rest.lines().next()?.split_once(':'));
    let cause = error.lines().rev().find_map(|line| line.trim_start().strip_prefix("= "));
    match (place, cause) {
        (Some(("1", column)), Some(cause)) => format!("at character {column}: {cause}"),
        (Some((line, column)), Some(cause)) => format!("at line {line}, character {column}: {cause}"),
        _ => error.replace('\n', " "),
    }
}

impl Metric<'_> {
    /// Reports conditions that look at a secret: what they say is shown.
    pub(super) fn check_secrets(&self, args: &[(String, Text)], at: &At<'_>, report: &mut Report) {
        let conditions = self.plan.success.iter().chain(&self.plan.failure);
        let mentioned = conditions.flat_map(Condition::args);
        let is_secret = |name: &&String| args.iter().any(|(arg, text)| arg == *name && text.is_secret());
        for name in mentioned.filter(is_secret) {
            let message = format!("a condition of `{}` uses the argument `{name}`, which is a secret", self.plan.name);
            report
                .error(Code::BadReference, &at.span(), message)
                .help("give it by `value`, or use it in the question to the provider only");
        }
    }
}

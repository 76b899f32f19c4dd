//! Analysis templates and the steps that use them.
//! Refuses metrics that could never fail or never end where Argo Rollouts accepts them, and arguments nobody declared.

use std::{cell::RefCell, collections::HashSet, ops::RangeInclusive, time::Duration};

use super::{
    diagnostic::{Code, Span},
    report::{At, Fields, Problem, Report},
    service, shape, suggest,
    yaml::Value,
};
use crate::engine::{
    analysis::{
        Template,
        condition::Condition,
        template::{Arm, MetricPlan, Provider},
    },
    names::VersionName,
};

/// Most templates of a file, metrics of a template, and arguments of either.
pub const TEMPLATES_MAX: usize = 100;

const INTERVAL: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_hours(24);
const DELAY: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_hours(24);
const WINDOW: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_hours(1);
const WINDOW_DEFAULT: Duration = Duration::from_mins(1);
/// As in Argo Rollouts.
const CONSECUTIVE_ERRORS: u32 = 4;

/// All templates of the file.
#[derive(Debug, Default)]
pub struct Templates<'a> {
    drafts: Vec<Draft<'a>>,
    /// A template that is wrong is reported once, not by each step that uses it.
    used: RefCell<HashSet<String>>,
}

/// A template before its arguments are known.
#[derive(Debug)]
struct Draft<'a> {
    at: At<'a>,
    /// Name and default.
    args: Vec<(String, Option<String>)>,
    metrics: Vec<Metric<'a>>,
}

/// A metric and what can be checked only where it is used.
#[derive(Debug)]
struct Metric<'a> {
    plan: MetricPlan,
    span: Span,
    /// Where a version is named.
    version: Option<At<'a>>,
}

/// Reads `analysisTemplates`.
pub fn templates<'a>(at: &At<'a>, report: &mut Report) -> Templates<'a> {
    let entries = report.entries(at).unwrap_or_default();
    if entries.len() > TEMPLATES_MAX {
        let message = format!("a file has at most {TEMPLATES_MAX} analysis templates; these are {}", entries.len());
        report.error(Code::TooLarge, &at.key_span, message);
    }
    let mut drafts = Vec::new();
    for field in entries.into_iter().take(TEMPLATES_MAX) {
        let entry = at.entry(field);
        service::key(&entry.name, &entry.key_span, report);
        let (args, metrics) = match report.fields(&entry, &shape::TEMPLATE) {
            None => (Vec::new(), Vec::new()),
            Some(fields) => {
                let args = fields.get("args").map(|at| args(&at, report)).unwrap_or_default();
                let metrics = fields.need(report, "metrics", "give the template at least one metric");
                let metrics = metrics.map(|at| metrics_of(&at, &args, report)).unwrap_or_default();
                (args, metrics)
            }
        };
        let args = args.into_iter().map(|arg| (arg.name, arg.value)).collect();
        drafts.push(Draft { at: entry, args, metrics });
    }
    Templates { drafts, used: RefCell::default() }
}

impl Templates<'_> {
    /// An analysis step: each template with its arguments filled in.
    pub fn analysis(&self, at: &At<'_>, versions: &[&str], report: &mut Report) -> Option<Vec<Template>> {
        let fields = report.fields(at, &shape::ANALYSIS)?;
        let mut given = fields.get("args").map(|at| args(&at, report)).unwrap_or_default();
        let help = "say which templates to run: `templates: [{ templateName: latency }]`";
        let list = fields.need(report, "templates", help)?;
        let mut drafts: Vec<(&Draft<'_>, At<'_>)> = Vec::new();
        for item in report.items(&list, TEMPLATES_MAX)? {
            let Some((draft, name)) = self.reference(&item, report) else { continue };
            if drafts.iter().any(|(other, _)| other.at.name == draft.at.name) {
                report
                    .error(Code::Conflict, &name.span(), "this template is in the list twice")
                    .help("keep one of them");
                continue;
            }
            drafts.push((draft, name));
        }
        check_given(&mut given, &drafts, report);
        unique_metrics(&drafts, report);
        let filled = drafts.iter().map(|(draft, name)| fill(draft, name, &given, versions, report)).collect();
        Some(filled)
    }

    /// Warns of templates that no step uses.
    pub fn report_unused(&self, report: &mut Report) {
        let used = self.used.borrow();
        for draft in self.drafts.iter().filter(|draft| !used.contains(&draft.at.name)) {
            report
                .warning(&draft.at.key_span, format!("no step uses the template `{}`", draft.at.name))
                .help(format!("add a step: `- analysis: {{ templates: [{{ templateName: {} }}] }}`", draft.at.name));
        }
    }

    fn reference<'s>(&'s self, item: &At<'s>, report: &mut Report) -> Option<(&'s Draft<'s>, At<'s>)> {
        let fields = report.fields(item, &shape::TEMPLATE_REF)?;
        let name = fields.need(report, "templateName", "name a template: `templateName: latency`")?;
        let text = report.filled(&name, "the name of a template")?;
        if let Some(draft) = self.drafts.iter().find(|draft| draft.at.name == text) {
            self.used.borrow_mut().insert(text);
            return Some((draft, name));
        }
        service::unknown(&name, "analysis template", self.drafts.iter().map(|draft| &*draft.at.name), report);
        None
    }
}

/// Reports arguments that no template declares, and those without a value. A misspelt one is read as what was meant.
fn check_given(given: &mut [Arg], drafts: &[(&Draft<'_>, At<'_>)], report: &mut Report) {
    let declared: Vec<&str> = drafts.iter().flat_map(|(draft, _)| draft.args.iter().map(|(name, _)| &**name)).collect();
    for arg in given {
        if arg.value.is_none() {
            report
                .error(Code::MissingField, &arg.span, format!("the argument `{}` has no value here", arg.name))
                .help("add `value: …`");
        }
        if drafts.is_empty() || declared.contains(&&*arg.name) {
            continue;
        }
        let near = suggest::closest(&arg.name, declared.iter().copied());
        let help = match near {
            Some(near) => format!("did you mean `{near}`?"),
            None if declared.is_empty() => "the templates of this step have no arguments".to_owned(),
            None => {
                format!("they take {}", declared.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", "))
            }
        };
        report
            .error(Code::BadReference, &arg.span, format!("no template of this step has an argument `{}`", arg.name))
            .help(help);
        if let Some(near) = near {
            near.clone_into(&mut arg.name);
        }
    }
}

/// Metrics of one run share a name space.
fn unique_metrics(drafts: &[(&Draft<'_>, At<'_>)], report: &mut Report) {
    let mut seen: HashSet<&str> = HashSet::new();
    for (draft, name) in drafts {
        let names: HashSet<&str> = draft.metrics.iter().map(|metric| &*metric.plan.name).collect();
        if let Some(twice) = names.iter().find(|name| seen.contains(*name)) {
            report
                .error(Code::Conflict, &name.span(), format!("two templates of this step have a metric `{twice}`"))
                .help("give the metrics different names, or run the templates in two steps");
        }
        seen.extend(names);
    }
}

fn fill(draft: &Draft<'_>, name: &At<'_>, given: &[Arg], versions: &[&str], report: &mut Report) -> Template {
    let mut args = Vec::new();
    for (arg, default) in &draft.args {
        let given = given.iter().find(|given| given.name == *arg);
        let value = given.map_or(default.clone(), |given| given.value.clone());
        if value.is_none() && given.is_none() {
            report
                .error(
                    Code::MissingField,
                    &name.span(),
                    format!("the argument `{arg}` of `{}` has no value", draft.at.name),
                )
                .help(format!("give it one: `args: [{{ name: {arg}, value: … }}]`"));
        }
        args.extend(value.map(|value| (arg.clone(), value)));
    }
    for metric in &draft.metrics {
        if let (Some(at), Provider::Serin { version: Arm::Named(named), .. }) = (&metric.version, &metric.plan.provider)
            && !versions.is_empty()
            && !versions.contains(&named.as_str())
        {
            service::unknown(at, "version", ["canary", "stable"].into_iter().chain(versions.iter().copied()), report);
        }
        if metric.plan.interval.is_some() && metric.plan.count.is_none() && metric.plan.consecutive_success_limit == 0 {
            report
                .warning(
                    &metric.span,
                    format!("the metric `{}` never ends, and so does the step that uses it", metric.plan.name),
                )
                .help("give it `count` or `consecutiveSuccessLimit`; without, the step ends by failure or by a person");
        }
    }
    Template {
        name: draft.at.name.clone(),
        args,
        metrics: draft.metrics.iter().map(|metric| metric.plan.clone()).collect(),
    }
}

/// An argument as written.
struct Arg {
    name: String,
    value: Option<String>,
    span: Span,
}

fn args(at: &At<'_>, report: &mut Report) -> Vec<Arg> {
    let mut read: Vec<Arg> = Vec::new();
    for item in report.items(at, TEMPLATES_MAX).unwrap_or_default() {
        let Some(fields) = report.fields(&item, &shape::ARG) else { continue };
        let Some(name_at) = fields.need(report, "name", "name the argument: `name: limit`") else { continue };
        let Some(name) = service::name(&name_at, report) else { continue };
        let value = fields.get("value").map(|at| report.scalar(&at, "a text", |text| Ok(text.to_owned())));
        if read.iter().any(|arg| arg.name == name) {
            report
                .error(Code::Conflict, &name_at.span(), "this argument is in the list twice")
                .help("keep one of them");
            continue;
        }
        // A value that is refused already must not be called missing as well.
        let value = value.map(Option::unwrap_or_default).or_else(|| item.has("valueFrom").then(String::new));
        read.push(Arg { name, value, span: name_at.span() });
    }
    read
}

fn metrics_of<'a>(at: &At<'a>, declared: &[Arg], report: &mut Report) -> Vec<Metric<'a>> {
    let mut read: Vec<Metric<'a>> = Vec::new();
    for item in report.items(at, TEMPLATES_MAX).unwrap_or_default() {
        let Some(metric) = metric(&item, declared, report) else { continue };
        if let Some(first) = read.iter().find(|other| other.plan.name == metric.plan.name) {
            report
                .error(Code::Conflict, &metric.span, "two metrics of this template have the same name")
                .related(&first.span, "the first is here");
        }
        read.push(metric);
    }
    read
}

fn metric<'a>(at: &At<'a>, declared: &[Arg], report: &mut Report) -> Option<Metric<'a>> {
    let fields = report.fields(at, &shape::METRIC)?;
    let name_at = fields.need(report, "name", "name the metric: `name: p95`");
    let name = name_at.as_ref().and_then(|at| service::name(at, report));
    let interval = fields.get("interval").map_or(Some(None), |at| report.duration(&at, INTERVAL).map(Some));
    let initial_delay = fields.get("initialDelay").map_or(Some(Duration::ZERO), |at| report.duration(&at, DELAY));
    let limits = limits(&fields, report);
    let success = fields.get("successCondition").map_or(Some(None), |at| condition(&at, declared, report).map(Some));
    let failure = fields.get("failureCondition").map_or(Some(None), |at| condition(&at, declared, report).map(Some));
    if (&success, &failure) == (&Some(None), &Some(None)) {
        report.missing(
            at,
            "successCondition",
            "without `successCondition` or `failureCondition` every answer would pass",
        );
    }
    let help = "say whom to ask: `provider: { serin: { version: canary, window: 1m } }`";
    let provider = fields.need(report, "provider", help).and_then(|at| provider(&at, report));
    let (provider, version) = provider?;
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
            provider,
        },
    })
}

struct Limits {
    count: Option<u32>,
    failure: u32,
    inconclusive: u32,
    consecutive_errors: u32,
    consecutive_successes: u32,
}

fn limits(metric: &Fields<'_>, report: &mut Report) -> Option<Limits> {
    let count_at = metric.get("count");
    let count = count_at.as_ref().map_or(Some(None), |at| count(at, report).map(Some));
    let failure_at = metric.get("failureLimit");
    let failure = failure_at.as_ref().map_or(Some(0), |at| limit(at, report));
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
    if let (Some(measured), Some(failure), Some(at)) = (measured, failure, &failure_at)
        && failure >= measured
    {
        report
            .error(Code::BadValue, &at.span(), format!("with `failureLimit: {failure}` this metric can never fail"))
            .help(format!("it fails at one failure more than the limit, and there {}", measurements(measured)));
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
    })
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

fn condition(at: &At<'_>, declared: &[Arg], report: &mut Report) -> Option<Condition> {
    // The reason may repeat the text, which must not be shown if it is from the environment.
    let is_shown = matches!(&at.node.value, Value::Scalar(scalar) if !scalar.substituted);
    let condition = report.scalar(at, "a condition such as `result.p95 <= 500`", |text| {
        Condition::parse(text).map_err(|error| {
            let reason = if is_shown { format!(": {}", in_one_line(&error.to_string())) } else { String::new() };
            let help = "conditions are as in Argo Rollouts, as `result.p95 <= 500 && result.errorRate < 0.01`";
            Problem::new(format!("is not a usable condition{reason}"), help)
        })
    })?;
    let is_declared = |name: &str| declared.iter().any(|arg| arg.name == name);
    for name in condition.args().iter().filter(|name| !is_declared(name)) {
        let near = suggest::closest(name, declared.iter().map(|arg| &*arg.name)).filter(|_| is_shown);
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

fn provider<'a>(at: &At<'a>, report: &mut Report) -> Option<(Provider, Option<At<'a>>)> {
    let fields = report.fields(at, &shape::PROVIDER)?;
    if fields.get("serin").is_none() && at.has_any() {
        // What is there instead is reported already.
        return None;
    }
    let serin = fields.need(report, "serin", "write `provider: { serin: { version: canary, window: 1m } }`")?;
    let fields = report.fields(&serin, &shape::SERIN)?;
    let window = fields.get("window").map_or(Some(WINDOW_DEFAULT), |at| report.duration(&at, WINDOW));
    let version_at = fields.get("version");
    let version = match &version_at {
        None => Some(Arm::Canary),
        Some(at) => service::name(at, report).and_then(|name| match &*name {
            "canary" => Some(Arm::Canary),
            "stable" => Some(Arm::Stable),
            name => VersionName::new(name).ok().map(Arm::Named),
        }),
    };
    Some((Provider::Serin { version: version?, window: window? }, version_at))
}

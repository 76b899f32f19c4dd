//! Where services stand, on one screen: a head in words, and a tree of versions, steps and checks with their numbers.

use std::{fmt::Write as _, sync::Arc};

use super::{
    endpoints::endpoints,
    event::sentence,
    quantity::{counted, duration, latency, limit, number, rate, share, trimmed},
    style::{Mark, Style, Tone},
    table::{Cell, render},
};
use crate::engine::{
    analysis::{
        ask::RunKind,
        record::{MetricRecord, RunRecord},
    },
    names::Role,
    time::Timestamp,
    view::{CheckView, PhaseView, RolloutView, ServiceView, Unit, Verdict, VersionView, Waiting},
    weight::Weight,
};

/// What the config file last said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConfigNote<'a> {
    /// The file.
    pub path: &'a str,
    /// When the settings in force were loaded.
    pub loaded: Timestamp,
    /// Why the file as it is now was refused.
    pub error: Option<&'a str>,
    /// What of it is in force only after a restart.
    pub needs_restart: &'a [String],
}

/// Steps shown before and after the present one.
const STEPS_AROUND: usize = 5;
const COLUMNS: [&str; 10] = ["NAME", "STATE", "WEIGHT", "MEASURED", "RPS", "ERR", "P50", "P95", "P99", "INFO"];
const NUMBERS: [usize; 7] = [2, 3, 4, 5, 6, 7, 8];

/// One service in full. `before` is the canary's weight before its last event, where known.
#[must_use]
pub fn status(
    at: Timestamp,
    service: &ServiceView,
    before: Option<Weight>,
    config: ConfigNote<'_>,
    style: Style,
) -> String {
    let mut text = String::new();
    let mut line = |label: &str, value: &str| {
        let _ = writeln!(text, "{}{value}", style.paint(Tone::Faint, &format!("{label:<11}")));
    };
    line("Service", service.name.as_str());
    line("Phase", &phase(service, style));
    for metric in going_on(service, RunKind::Manual) {
        line("By hand", &metric);
    }
    let canary = version(service, Role::Canary);
    if let Some(rollout) = &service.rollout {
        if !rollout.waiting.is_empty() {
            let waiting = rollout.waiting.iter().map(|waiting| awaited(waiting, canary));
            line("Waiting", &waiting.collect::<Vec<_>>().join("; "));
        }
        if let Some(canary) = canary {
            line("Weight", &asked_and_measured(canary));
        }
        if !rollout.checks.is_empty() {
            line("Stops if", &rollout.checks.iter().map(short_check).collect::<Vec<_>>().join(", "));
        }
        for metric in beside(service) {
            line("Analysis", &metric);
        }
        for route in routes(service, rollout) {
            line("In force", &route);
        }
        line("Revision", &revision(at, service, rollout, style));
    } else if let Some(event) = &service.last_event {
        line("Last", &format!("{}, {} ago", sentence(event, before), duration(at.since(event.at))));
    }
    for endpoints in endpoints(service) {
        line("Endpoints", &endpoints);
    }
    match service.phase {
        PhaseView::Paused | PhaseView::Degraded => line("Try", &format!("serin why {}", service.name)),
        PhaseView::Healthy | PhaseView::Progressing => {}
    }
    let _ = writeln!(text, "{}", config_note(at, config, style));
    text.push('\n');
    text.push_str(&tree(service, style));
    text
}

/// Several services, a row each.
#[must_use]
pub fn overview(at: Timestamp, services: &[ServiceView], config: ConfigNote<'_>, style: Style) -> String {
    let rows: Vec<Vec<Cell>> = services
        .iter()
        .map(|service| {
            let mark = Mark::from(service.phase);
            let canary = version(service, Role::Canary);
            let errors = |of: Option<&VersionView>| {
                of.and_then(|of| of.counts.error_rate()).map_or_else(|| "-".to_owned(), share)
            };
            let step = service.rollout.as_ref().map_or_else(String::new, step_of);
            let versions = match (&service.canary, service.rollout.is_some()) {
                (Some(canary), true) => format!("{} {} {canary}", service.stable, style.arrow()),
                _ => service.stable.to_string(),
            };
            vec![
                Cell::toned(Tone::Strong, service.name.as_str()),
                Cell::toned(mark.tone(), format!("{} {}", style.mark(mark), service.phase.as_str())),
                Cell::new(step),
                Cell::new(versions),
                Cell::new(canary.map_or_else(String::new, |canary| canary.weight.to_string())),
                Cell::new(canary.and_then(|canary| canary.measured).map_or_else(String::new, share)),
                Cell::new(rate(service.versions.iter().map(|version| version.rps).sum())),
                Cell::new(errors(version(service, Role::Stable))),
                Cell::new(if canary.is_some() { errors(canary) } else { String::new() }),
            ]
        })
        .collect();
    let heading = ["SERVICE", "PHASE", "STEP", "VERSIONS", "WEIGHT", "MEASURED", "RPS", "ERR STABLE", "ERR CANARY"];
    let mut text = render(&heading, &[4, 5, 6, 7, 8], &rows, style);
    let _ = writeln!(text, "\n{}", config_note(at, config, style));
    text
}

/// The config line; a refused file is loud and comes with its diagnostics.
#[must_use]
pub fn config_note(at: Timestamp, config: ConfigNote<'_>, style: Style) -> String {
    let loaded = duration(at.since(config.loaded));
    let label = style.paint(Tone::Faint, "Config     ");
    let Some(error) = config.error else {
        let later = match config.needs_restart {
            [] => String::new(),
            waiting => {
                format!("; {}", style.marked(Mark::Held, &format!("after a restart only: {}", waiting.join(", "))))
            }
        };
        return format!("{label}{}, loaded {loaded} ago{later}", config.path);
    };
    let head = format!("{} was refused; what was loaded {loaded} ago stays in force", config.path);
    let mut text = format!("{label}{}", style.marked(Mark::Bad, &head));
    for line in error.trim_end().lines() {
        let _ = write!(text, "\n{}", format!("  {line}").trim_end());
    }
    text
}

/// The version in a role.
pub(super) fn version(service: &ServiceView, role: Role) -> Option<&VersionView> {
    service.versions.iter().find(|version| version.role == role)
}

/// `step 3 of 6 (pause 2m)`.
pub(super) fn step_named(rollout: &RolloutView) -> String {
    match step_words(rollout, rollout.step) {
        Some(words) => format!("{} ({words})", step_of(rollout)),
        None => step_of(rollout),
    }
}

/// The words of a step, counted from 1.
pub(super) fn step_words(rollout: &RolloutView, step: usize) -> Option<&str> {
    step.checked_sub(1).and_then(|index| rollout.steps.get(index)).map(String::as_str)
}

/// One thing that is awaited, in a few words.
#[must_use]
pub fn waiting(waiting: &Waiting) -> String {
    awaited(waiting, None)
}

/// The same with the canary's rate.
pub(super) fn awaited(waiting: &Waiting, canary: Option<&VersionView>) -> String {
    match waiting {
        Waiting::Time { left } => format!("{} more", duration(*left)),
        Waiting::Requests { check, have, need, about } => {
            let more = counted(need.saturating_sub(*have), "more canary request");
            let seen = canary.filter(|canary| canary.rps > 0.0);
            let rate = seen.map_or_else(|| "rate".to_owned(), |canary| format!("{}/s", rate(canary.rps)));
            let about = about.map_or_else(
                || "no traffic at present".to_owned(),
                |about| format!("about {} at the present {rate}", duration(about)),
            );
            format!("{} needs {more} ({} of {}), {about}", check_name(check), number(*have), number(*need))
        }
        Waiting::Person => "a person".to_owned(),
        Waiting::Permit { what, left: Some(left) } => format!("{what}, in {}", duration(*left)),
        Waiting::Permit { what, left: None } => what.clone(),
        Waiting::Analysis { metric, state } => format!("analysis of {metric}: {state}"),
    }
}

/// What goes to the canary besides its weight: header and mirror routes in force, a sentence each.
#[must_use]
pub fn routes(service: &ServiceView, rollout: &RolloutView) -> Vec<String> {
    let canary = service.canary.as_ref().map_or("the canary", |canary| canary.as_str());
    let headers = rollout.header_routes.iter();
    let by_header =
        headers.map(|name| format!("header route {name}: requests that meet it go to {canary}, whatever its weight"));
    let mirrors = rollout.mirror_routes.iter().map(|route| {
        let (name, share, stable) = (&route.name, route.share, &service.stable);
        format!("mirror route {name}: of the requests that meet it and go to {stable}, {share} are copied to {canary}")
    });
    by_header.chain(mirrors).collect()
}

/// The analysis beside the steps, a sentence for each metric: its latest value, and what its condition said of it.
pub(super) fn beside(service: &ServiceView) -> Vec<String> {
    going_on(service, RunKind::Background)
}

/// The metrics of the run of a kind that goes on, a sentence for each.
fn going_on(service: &ServiceView, kind: RunKind) -> Vec<String> {
    let is_beside = |run: &&Arc<RunRecord>| run.kind == kind && run.completed.is_none();
    let metrics = service.analysis_runs.iter().filter(is_beside).flat_map(|run| &run.metrics);
    let sentence = |metric: &MetricRecord| {
        let dry = if metric.dry_run { " (dry run)" } else { "" };
        let Some(last) = metric.measurements.last() else { return format!("{}: not measured yet{dry}", metric.name) };
        let value = if last.value.is_empty() { String::new() } else { format!("{}: ", last.value) };
        format!("{}: {value}{}, {}{dry}", metric.name, last.verdict.as_str(), last.why)
    };
    metrics.map(sentence).collect()
}

/// A check's value or limit in its unit.
pub(super) fn amount(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Ratio => share(value),
        Unit::Seconds => std::time::Duration::try_from_secs_f64(value).map_or_else(|_| "endless".to_owned(), latency),
        Unit::LogEvidence | Unit::Count => trimmed(value, 2),
    }
}

/// The limit as somebody wrote it.
pub(super) fn bound(check: &CheckView) -> String {
    if check.unit == Unit::Ratio { limit(check.limit) } else { amount(check.limit, check.unit) }
}

/// The name of a check, for people.
pub(super) fn check_name(name: &str) -> &str {
    match name {
        "errorRate" => "error rate",
        "versusStable" => "share of the errors",
        "consecutiveErrors" => "errors in a row",
        other => other,
    }
}

/// Canary requests a second: as measured, or its share of what the service gets while none has come.
pub(super) fn canary_rate(service: &ServiceView) -> f64 {
    let all: f64 = service.versions.iter().map(|version| version.rps).sum();
    version(service, Role::Canary)
        .map_or(0.0, |canary| if canary.rps > 0.0 { canary.rps } else { all * canary.weight.ratio() })
}

/// That a check cannot tell yet: how many requests it has of those it needs, and about how long the rest take.
pub(super) fn too_few(check: &CheckView, rps: f64) -> Option<String> {
    let missing = check.min_requests.saturating_sub(check.requests);
    if missing == 0 || check.verdict == Verdict::Fail {
        return None;
    }
    #[expect(clippy::cast_precision_loss, reason = "for the eye")]
    let about = std::time::Duration::try_from_secs_f64(missing as f64 / rps);
    let about =
        about.map_or_else(|_| "no traffic at present".to_owned(), |about| format!("about {} more", duration(about)));
    Some(format!("{} of {}, {about}", number(check.requests), counted(check.min_requests, "request")))
}

/// How much of the evidence that reverts there is, in `0..=1`.
pub(super) fn evidence(check: &CheckView) -> f64 {
    check.value.map_or(0.0, |value| (value / check.limit).clamp(0.0, 1.0))
}

fn phase(service: &ServiceView, style: Style) -> String {
    let word = style.marked(service.phase.into(), service.phase.as_str());
    let detail = match (&service.rollout, &service.phase_reason) {
        (Some(rollout), None) => format!("{}, {} in it", step_named(rollout), duration(rollout.in_step)),
        (Some(rollout), Some(reason)) => format!("{}: {reason}", step_named(rollout)),
        (None, Some(reason)) => reason.clone(),
        (None, None) if service.phase == PhaseView::Healthy => format!("{} serves everything", service.stable),
        (None, None) => String::new(),
    };
    if detail.is_empty() { word } else { format!("{word}, {detail}") }
}

fn asked_and_measured(canary: &VersionView) -> String {
    let measured = canary.measured.map_or_else(
        || "no traffic yet".to_owned(),
        |measured| format!("{} measured over {}", share(measured), duration(canary.window)),
    );
    format!("{} {} asked, {measured}", canary.name, canary.weight)
}

fn short_check(check: &CheckView) -> String {
    let name = check_name(&check.name);
    match (check.unit, check.value) {
        (Unit::LogEvidence, _) => format!("{name} is unfair ({} of the evidence)", whole_percent(evidence(check))),
        (Unit::Count, Some(value)) => {
            format!("{} {name} (now {})", amount(check.limit, Unit::Count), amount(value, Unit::Count))
        }
        (Unit::Count, None) => format!("{} {name}", amount(check.limit, Unit::Count)),
        (_, Some(value)) => format!("{name} > {} (now {})", bound(check), amount(value, check.unit)),
        (_, None) => format!("{name} > {} (no data yet)", bound(check)),
    }
}

pub(super) fn whole_percent(share: f64) -> String {
    format!("{:.0}%", share * 100.0)
}

fn revision(at: Timestamp, service: &ServiceView, rollout: &RolloutView, style: Style) -> String {
    let to = service.canary.as_ref().map_or_else(String::new, |to| format!(" {} {to}", style.arrow()));
    let started = duration(at.since(rollout.started));
    format!("{}: {}{to}, started {started} ago", service.revision, service.stable)
}

fn step_of(rollout: &RolloutView) -> String {
    format!("step {} of {}", rollout.step, rollout.steps.len())
}

fn tree(service: &ServiceView, style: Style) -> String {
    let mark = Mark::from(service.phase);
    let mut rows = vec![vec![
        Cell::toned(Tone::Strong, service.name.as_str()),
        Cell::toned(mark.tone(), format!("{} {}", style.mark(mark), service.phase.as_str())),
        Cell::default(),
        Cell::default(),
        Cell::new(rate(service.versions.iter().map(|version| version.rps).sum())),
    ]];
    let [branch, last, _, gap] = style.tree();
    let versions = service.versions.len();
    for (index, version) in service.versions.iter().enumerate() {
        let is_last = index + 1 == versions && service.rollout.is_none();
        rows.push(version_row(if is_last { last } else { branch }, version));
    }
    if let Some(rollout) = &service.rollout {
        let to = service.canary.as_ref().map_or_else(String::new, |to| format!(" {} {to}", style.arrow()));
        let mut row = vec![Cell::default(); COLUMNS.len()];
        row[0] = Cell::new(format!("{last}revision {}", service.revision));
        row[1] = Cell::toned(mark.tone(), format!("{} {}", style.mark(mark), step_of(rollout)));
        row[9] = Cell::new(format!("{}{to}", service.stable));
        rows.push(row);
        let rps = canary_rate(service);
        rows.extend(step_rows(gap, rollout, mark, rps, style));
    }
    render(&COLUMNS, &NUMBERS, &rows, style)
}

fn version_row(branch: &str, version: &VersionView) -> Vec<Cell> {
    let tone = if version.role == Role::Other { Tone::Faint } else { Tone::Plain };
    let quantile = |of: Option<std::time::Duration>| Cell::toned(tone, of.map_or_else(String::new, latency));
    let counts = version.counts;
    let info = if counts.requests == 0 {
        "no requests".to_owned()
    } else {
        let (errors, requests) = (counted(counts.errors, "error"), counted(counts.requests, "request"));
        format!("{errors} in {requests}, last {}", duration(version.window))
    };
    vec![
        Cell::toned(tone, format!("{branch}{}", version.name)),
        Cell::toned(tone, version.role.as_str()),
        Cell::toned(tone, version.weight.to_string()),
        Cell::toned(tone, version.measured.map_or_else(String::new, share)),
        Cell::toned(tone, rate(version.rps)),
        match counts.error_rate() {
            Some(error_rate) => Cell::toned(if counts.errors > 0 { Tone::Bad } else { tone }, share(error_rate)),
            None => Cell::default(),
        },
        quantile(version.p50),
        quantile(version.p95),
        quantile(version.p99),
        Cell::toned(Tone::Faint, info),
    ]
}

fn step_rows(indent: &str, rollout: &RolloutView, present: Mark, rps: f64, style: Style) -> Vec<Vec<Cell>> {
    let [branch, last, trunk, gap] = style.tree();
    let all = rollout.steps.len();
    let from = rollout.step.saturating_sub(STEPS_AROUND + 1).min(all);
    let to = (rollout.step + STEPS_AROUND).min(all);
    let folded = |many: usize, branch: &str, state: &str| {
        let text = format!("{indent}{branch}... {}", counted(many as u64, "more step"));
        vec![Cell::toned(Tone::Faint, text), Cell::toned(Tone::Faint, state)]
    };
    let mut rows = Vec::new();
    if from > 0 {
        rows.push(folded(from, branch, "done"));
    }
    for (index, words) in rollout.steps.iter().enumerate().take(to).skip(from) {
        let number = index + 1;
        let (mark, state) = match number.cmp(&rollout.step) {
            std::cmp::Ordering::Less => (Mark::Good, "done"),
            std::cmp::Ordering::Equal => (present, "now"),
            std::cmp::Ordering::Greater if number == rollout.step + 1 => (Mark::Next, "next"),
            std::cmp::Ordering::Greater => (Mark::Next, ""),
        };
        let is_last = number == all;
        let name = format!("{indent}{}{number} {words}", if is_last { last } else { branch });
        rows.push(vec![
            Cell::toned(if state.is_empty() { Tone::Faint } else { Tone::Plain }, name),
            Cell::toned(mark.tone(), format!("{} {state}", style.mark(mark)).trim_end()),
        ]);
        if number == rollout.step {
            let indent = format!("{indent}{}", if is_last { gap } else { trunk });
            rows.extend(check_rows(&indent, &rollout.checks, rps, style));
        }
    }
    if all > to {
        rows.push(folded(all - to, last, ""));
    }
    rows
}

fn check_rows(indent: &str, checks: &[CheckView], rps: f64, style: Style) -> Vec<Vec<Cell>> {
    let [branch, last, ..] = style.tree();
    let rows = checks.iter().enumerate().map(|(index, check)| {
        let mark = Mark::from(check.verdict);
        let state = match check.verdict {
            Verdict::Pass => "pass",
            Verdict::Fail => "fail",
            Verdict::NoData => "too few",
        };
        let mut row = vec![Cell::default(); COLUMNS.len()];
        let branch = if index + 1 == checks.len() { last } else { branch };
        row[0] = Cell::new(format!("{indent}{branch}{}", check_name(&check.name)));
        row[1] = Cell::toned(mark.tone(), format!("{} {state}", style.mark(mark)));
        row[9] = Cell::new(check_info(check, rps));
        row
    });
    rows.collect()
}

/// Value, limit, stable's value, sample size.
fn check_info(check: &CheckView, rps: f64) -> String {
    if check.unit == Unit::LogEvidence {
        let requests = too_few(check, rps).unwrap_or_else(|| counted(check.requests, "canary request"));
        return format!("{} of the evidence that reverts, {requests}", whole_percent(evidence(check)));
    }
    let value = check.value.map_or_else(|| "none".to_owned(), |value| amount(value, check.unit));
    let stable = check.stable.map_or_else(String::new, |stable| format!(", stable {}", amount(stable, check.unit)));
    let requests = if let Some(too_few) = too_few(check, rps) {
        format!(", {too_few}")
    } else if check.requests > 0 {
        format!(", {}", counted(check.requests, "request"))
    } else {
        String::new()
    };
    format!("{value}, limit {}{stable}{requests}", bound(check))
}

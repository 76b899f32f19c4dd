//! What somebody woken at night asks, in this order: is it us, what changed and who did it, who is hurt, did it stop.
//! Says what the numbers say and no more; a question that cannot be answered yet is answered so.

use std::time::Duration;

use super::{
    event::{cause, sentence},
    quantity::{counted, duration, number, quantile, share},
    status::{amount, bound, check_name, evidence, step_named, version, whole_percent},
    style::Mark,
};
use crate::engine::{
    event::{Cause, Event, EventKind},
    names::Role,
    samples::Counts,
    time::Timestamp,
    view::{CheckView, PhaseView, ServiceView, Unit, Verdict, VersionView},
    weight::Weight,
};

/// After a promotion the new version is a suspect for so long.
const FRESH: Duration = Duration::from_hours(1);
/// A canary that fails so much more often than stable is pointed at before any limit is.
const TWICE: f64 = 2.0;
/// And by this share of its requests at least.
const VISIBLY: f64 = 0.01;

/// One answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// How it looks.
    pub mark: Mark,
    /// In a few words.
    pub short: String,
    /// With the numbers, a sentence each.
    pub detail: Vec<String>,
}

/// The three answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Night {
    /// Is it the rollout?
    pub is_it_us: Answer,
    /// What changed, and who changed it?
    pub changed: Answer,
    /// Who is hurt now?
    pub hurt: Answer,
    /// That the canary gets nothing any more, measured; only after it was withdrawn.
    pub stopped: Option<Answer>,
}

/// A check in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckWords {
    /// What is looked at.
    pub name: String,
    /// The canary's value.
    pub canary: String,
    /// Stable's.
    pub stable: String,
    /// The limit.
    pub limit: String,
    /// On how many requests, and how many are needed.
    pub requests: String,
    /// `within`, `over` or `too few requests`.
    pub verdict: &'static str,
}

/// The answers for a service; `history` holds its events in any order.
#[must_use]
pub fn night(at: Timestamp, service: &ServiceView, history: &[Event]) -> Night {
    Night {
        is_it_us: is_it_us(at, service),
        changed: changed(at, service, history),
        hurt: hurt(service),
        stopped: stopped(at, service, history),
    }
}

/// A check for a row of a table.
#[must_use]
pub fn check(check: &CheckView) -> CheckWords {
    let none = || "\u{2013}".to_owned();
    let is_test = check.unit == Unit::LogEvidence;
    let value = match check.value {
        _ if is_test => format!("{} of the evidence", whole_percent(evidence(check))),
        Some(value) => amount(value, check.unit),
        None => none(),
    };
    let requests = if check.requests < check.min_requests {
        format!("{} of {}", number(check.requests), number(check.min_requests))
    } else {
        number(check.requests)
    };
    CheckWords {
        name: check_name(&check.name).to_owned(),
        canary: value,
        stable: check.stable.map_or_else(none, |value| amount(value, check.unit)),
        limit: if is_test { "100%".to_owned() } else { bound(check) },
        requests: if check.unit == Unit::Count { none() } else { requests },
        verdict: match check.verdict {
            Verdict::Pass => "within",
            Verdict::Fail => "over",
            Verdict::NoData => "too few requests",
        },
    }
}

fn is_it_us(at: Timestamp, service: &ServiceView) -> Answer {
    match (&service.rollout, service.phase) {
        (Some(rollout), _) => suspect(service, &rollout.checks),
        (None, PhaseView::Degraded) => {
            let tried = canary_name(service);
            let last = service.last_event.as_ref();
            let ago = last.map_or_else(String::new, |event| format!(" {} ago", duration(at.since(event.at))));
            let why = last.map(|event| capital(&cause(&event.cause)));
            let person = last.is_some_and(|event| matches!(event.cause, Cause::Person { .. }));
            let short =
                if person { format!("{tried} was stopped{ago}") } else { format!("It was {tried}, stopped{ago}") };
            Answer { mark: Mark::Bad, short, detail: why.into_iter().map(full_stop).collect() }
        }
        (None, _) => {
            let promoted = service.last_event.as_ref().filter(|event| event.kind == EventKind::Promoted);
            match promoted.map(|event| at.since(event.at)).filter(|ago| *ago < FRESH) {
                Some(ago) => Answer {
                    mark: Mark::Unknown,
                    short: "Perhaps".to_owned(),
                    detail: vec![format!("{} became stable {} ago.", service.stable, duration(ago))],
                },
                None => Answer {
                    mark: Mark::Good,
                    short: "No rollout is running".to_owned(),
                    detail: vec![format!("{} serves everything.", service.stable)],
                },
            }
        }
    }
}

/// What the numbers of a running rollout say of its canary.
fn suspect(service: &ServiceView, checks: &[CheckView]) -> Answer {
    let canary = canary_name(service);
    let (seen, stable) = (version(service, Role::Canary), version(service, Role::Stable));
    let counts = |of: Option<&VersionView>| of.map_or_else(Counts::default, |of| of.counts);
    let (of_canary, of_stable) = (counts(seen), counts(stable));
    let rates = format!("{canary} fails {}, {} {}.", rate(of_canary), service.stable, rate(of_stable));
    if let Some(over) = checks.iter().find(|check| check.verdict == Verdict::Fail) {
        let words = check(over);
        let detail = vec![format!("{} {}, limit {}.", capital(&words.name), words.canary, words.limit), rates];
        return Answer { mark: Mark::Bad, short: format!("Yes: {canary} is over a limit"), detail };
    }
    let (Some(of_it), of_other) = (of_canary.error_rate(), of_stable.error_rate().unwrap_or(0.0)) else {
        let detail = vec![format!("{canary} has had no request since the last change of weight.")];
        return Answer { mark: Mark::Unknown, short: "Cannot be told yet".to_owned(), detail };
    };
    let open = checks.iter().filter(|check| check.verdict == Verdict::NoData).count();
    let judged = match open {
        0 => format!("All {} are within.", counted(checks.len() as u64, "limit")),
        _ => format!("{} of {} limits still lack requests.", open, checks.len()),
    };
    if of_it > of_other * TWICE + VISIBLY {
        return Answer { mark: Mark::Bad, short: format!("It looks like {canary}"), detail: vec![rates, judged] };
    }
    if of_other > VISIBLY && of_it > VISIBLY {
        let short = "Both versions fail alike".to_owned();
        let detail = vec![rates, "Look at what they share.".to_owned()];
        return Answer { mark: Mark::Unknown, short, detail };
    }
    let mark = if open == 0 { Mark::Good } else { Mark::Unknown };
    let short =
        if open == 0 { format!("Nothing points at {canary}") } else { format!("Nothing points at {canary} so far") };
    Answer { mark, short, detail: vec![rates, judged] }
}

fn changed(at: Timestamp, service: &ServiceView, history: &[Event]) -> Answer {
    let ago = |event: &Event| format!("{} ago", duration(at.since(event.at)));
    let mine = || history.iter().filter(|event| event.service == service.name);
    let latest = |kind: EventKind| mine().filter(|event| event.kind == kind).max_by_key(|event| event.sequence);
    let of_this = |event: &&Event| event.revision == service.revision;
    let begun = latest(EventKind::Started).filter(of_this);
    let mut detail = Vec::new();
    if let Some(begun) = begun {
        detail.push(format!("Started {} by {} (revision {}).", ago(begun), who(&begun.cause), begun.revision));
    }
    let last = service.last_event.as_ref().filter(|last| begun.is_none_or(|begun| begun.sequence != last.sequence));
    if let Some(last) = last {
        let before = super::weight_before(history, last);
        detail.push(full_stop(format!("{}, {}", capital(&sentence(last, before)), ago(last))));
    }
    if let Some(rollout) = &service.rollout {
        let weight = version(service, Role::Canary).map_or(Weight::ZERO, |canary| canary.weight);
        let short = format!("{} gets {weight}", canary_name(service));
        detail.insert(0, format!("{}, in it for {}.", capital(&step_named(rollout)), duration(rollout.in_step)));
        return Answer { mark: service.phase.into(), short, detail };
    }
    let short = match (service.phase, &service.last_event) {
        (PhaseView::Degraded, Some(event)) => format!("{} was withdrawn", named(event)),
        (_, Some(event)) if event.kind == EventKind::Promoted => format!("{} was promoted", named(event)),
        (_, Some(event)) => format!("Nothing for {}", duration(at.since(event.at))),
        (_, None) => "Nothing that is remembered".to_owned(),
    };
    Answer { mark: Mark::Next, short, detail }
}

fn hurt(service: &ServiceView) -> Answer {
    let all = service.versions.iter().fold(Counts::default(), |sum, version| sum + version.counts);
    let window = service.versions.iter().map(|version| version.window).max().unwrap_or_default();
    let detail: Vec<String> = service
        .versions
        .iter()
        .filter(|version| version.counts.requests > 0)
        .map(|version| {
            let slow =
                version.p99.map_or_else(String::new, |p99| format!(", {} {}", quantile(0.99), super::latency(p99)));
            let (errors, requests) = (number(version.counts.errors), counted(version.counts.requests, "request"));
            format!("{}: {errors} of {requests} failed{slow}.", version.name)
        })
        .collect();
    let Some(rate) = all.error_rate() else {
        let short = "Nobody: there are no requests".to_owned();
        return Answer { mark: Mark::Unknown, short, detail: vec![format!("Over the last {}.", duration(window))] };
    };
    let over = duration(window);
    let (mark, short) = if all.errors == 0 {
        (Mark::Good, format!("Nobody in the last {over}"))
    } else {
        let mark = if rate >= VISIBLY { Mark::Bad } else { Mark::Unknown };
        (mark, format!("{} of requests fail, {} in {over}", share(rate), number(all.errors)))
    };
    Answer { mark, short, detail }
}

fn stopped(at: Timestamp, service: &ServiceView, history: &[Event]) -> Option<Answer> {
    let withdrawn = service.phase == PhaseView::Degraded && service.rollout.is_none();
    let event = service.last_event.as_ref().filter(|event| withdrawn && event.kind == EventKind::Aborted)?;
    let of = |name| service.versions.iter().find(|version| Some(&version.name) == name);
    let canary = of(event.canary.as_ref())?;
    let all = service.versions.iter().fold(Counts::default(), |sum, version| sum + version.counts);
    let before = super::weight_before(history, event).map_or_else(String::new, |before| format!("{before} \u{2192} "));
    let short = format!("{}: {before}{}", canary.name, canary.weight);
    let window = duration(canary.window.min(at.since(event.at)));
    // The share of requests is reckoned like a share of errors.
    let part = Counts { requests: all.requests, errors: canary.counts.requests };
    let (mark, proof) = match part.error_rate() {
        None => (Mark::Unknown, format!("No request has come in the {window} since, so there is nothing to measure.")),
        Some(measured) => {
            let mark = if canary.counts.requests == 0 { Mark::Good } else { Mark::Bad };
            let (got, of) = (number(canary.counts.requests), counted(all.requests, "request"));
            (mark, format!("Measured share {}: {got} of {of} in the last {window}.", share(measured)))
        }
    };
    let when = format!("Withdrawn {} ago; {} serves everything.", duration(at.since(event.at)), service.stable);
    Some(Answer { mark, short, detail: vec![proof, when] })
}

fn who(cause: &Cause) -> String {
    match cause {
        Cause::Person { actor, reason, .. } if reason.is_empty() => actor.clone(),
        Cause::Person { actor, reason, .. } => format!("{actor}, \"{reason}\""),
        Cause::File => "the config file".to_owned(),
        other => super::cause(other),
    }
}

fn named(event: &Event) -> &str {
    event.canary.as_ref().unwrap_or(&event.stable).as_str()
}

fn canary_name(service: &ServiceView) -> &str {
    service.canary.as_ref().map_or("the canary", |canary| canary.as_str())
}

fn rate(counts: Counts) -> String {
    counts.error_rate().map_or_else(|| "nothing (no requests)".to_owned(), share)
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    // Names of versions are written as they are.
    if text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.split(' ').next().is_some_and(|word| word.chars().any(|c| c.is_ascii_digit()))
    {
        return text.to_owned();
    }
    first + letters.as_str()
}

fn full_stop(text: String) -> String {
    if text.ends_with('.') { text } else { text + "." }
}

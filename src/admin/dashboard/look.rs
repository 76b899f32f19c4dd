//! The pieces of a page of one service: each has a name, so that only what has changed is sent again.

use std::time::Duration;

use maud::{Markup, html};

use super::{
    chart::{Chart, Event as Change, Line, clock},
    offer::{Offer, offers},
};
use crate::{
    control::handle::{ConfigStatus, Handle},
    engine::{
        event::{Event, EventKind},
        names::Role,
        time::Timestamp,
        view::{CheckView, PhaseView, ServiceView, Unit, Verdict, VersionView, View},
        weight::Weight,
    },
    words::{self, Answer, Mark, Style},
};

/// The shortest and the longest look back of the curves.
const SPAN: (Duration, Duration) = (Duration::from_mins(2), Duration::from_hours(3));
/// Points of a curve.
const POINTS: u64 = 110;
/// What a point of a curve looks back on: as much as the guard on errors does unless told otherwise.
const WINDOW: Duration = Duration::from_secs(10);
/// Events shown.
const EVENTS_SHOWN: usize = 20;
/// Longest text of a refused file that is shown.
const DIAGNOSTICS_SHOWN: usize = 4_000;

/// Pieces by name, in the order in which they stand.
pub(super) type Pieces = Vec<(&'static str, Markup)>;

/// All that pages are made from, at one moment.
pub(super) struct Moment {
    pub(super) view: std::sync::Arc<View>,
    pub(super) history: Vec<Event>,
    pub(super) config: std::sync::Arc<ConfigStatus>,
}

impl Moment {
    pub(super) fn now(handle: &Handle) -> Self {
        Self { view: handle.view(), history: handle.history(), config: handle.config() }
    }
}

/// The pieces of a service's page.
pub(super) fn pieces(moment: &Moment, service: &ServiceView, handle: &Handle) -> Pieces {
    let at = moment.view.at;
    let night = words::night(at, service, &moment.history);
    let summary = html! { (service.phase.as_str()) ". " (night.changed.short) ". " (night.is_it_us.short) "." };
    vec![
        ("spoken", summary),
        ("banner", banner(at, &moment.config)),
        ("state", state(service, &night)),
        ("answers", answers(&night)),
        ("curves", curves(moment, service, handle)),
        ("checks", checks(service)),
        ("why", why(moment, service)),
        ("history", history(moment, service)),
    ]
}

/// The pieces of the page of all services.
pub(super) fn overview(moment: &Moment) -> Pieces {
    vec![("banner", banner(moment.view.at, &moment.config)), ("services", services(moment))]
}

/// Only what is wrong.
fn banner(at: Timestamp, config: &ConfigStatus) -> Markup {
    html! {
        @if let Some(error) = &config.error {
            div class="alarm" {
                p { b { (Style::PLAIN.mark(Mark::Bad)) " The config file was refused" } "; what was loaded "
                    (words::duration(at.since(config.loaded))) " ago stays in force." }
                pre { (clipped(error, DIAGNOSTICS_SHOWN)) }
            }
        } @else if !config.needs_restart.is_empty() {
            div class="note" { p { (Style::PLAIN.mark(Mark::Held)) " In force only after a restart: " (config.needs_restart.join(", ")) "." } }
        }
    }
}

fn state(service: &ServiceView, night: &words::Night) -> Markup {
    let canary = role(service, Role::Canary);
    let offers = offers(service);
    let (stop, others): (Vec<&Offer>, Vec<&Offer>) = offers.iter().partition(|offer| offer.verb == "abort");
    html! {
        div class="where" {
            span class={ "phase " (tone(service.phase.into())) } {
                span aria-hidden="true" { (Style::PLAIN.mark(service.phase.into())) } " " (service.phase.as_str())
            }
            span class="versions" {
                b class="stable" { (service.stable) }
                @if let Some(to) = &service.canary {
                    @if service.rollout.is_some() { span aria-label="to" { " \u{2192} " } b class="canary" { (to) } }
                }
            }
            @if let Some(reason) = &service.phase_reason { span class="reason" { (reason) } }
        }
        div class="stop" {
            @for offer in stop { (link(service, offer, "button danger")) }
            @if let Some(stopped) = &night.stopped { (proof(stopped)) }
        }
        @if service.rollout.is_some() {
            (split(service, canary))
            (plan(service))
        }
        @for line in words::endpoints(service) { p class="waiting" { "Out: " (line) } }
        @if !others.is_empty() {
            nav class="verbs" aria-label="What else can be done" {
                @for offer in others { (link(service, offer, "button")) }
            }
        }
    }
}

fn link(service: &ServiceView, offer: &Offer, class: &str) -> Markup {
    let key = (offer.verb == "abort").then_some("s");
    html! {
        a class=(class) id={ "do-" (offer.verb) (if offer.full { "-full" } else { "" }) } accesskey=[key]
            href={ "/services/" (service.name) "/" (offer.verb) (if offer.full { "?full=true" } else { "" }) } {
            (offer.label)
        }
    }
}

fn proof(stopped: &Answer) -> Markup {
    html! {
        div class={ "proof " (tone(stopped.mark)) } id="proof" {
            b { (Style::PLAIN.mark(stopped.mark)) " " (stopped.short) }
            @for line in &stopped.detail { span { (line) } }
        }
    }
}

/// What was asked for and what was measured, one bar above the other.
fn split(service: &ServiceView, canary: Option<&VersionView>) -> Markup {
    let asked = canary.map_or(0.0, |canary| canary.weight.ratio());
    let measured = canary.and_then(|canary| canary.measured);
    let weight = canary.map_or(Weight::ZERO, |canary| canary.weight);
    let name = service.canary.as_ref().map_or("canary", |canary| canary.as_str());
    let shown = measured.map_or_else(|| "no requests".to_owned(), words::share);
    html! {
        dl class="split" {
            dt { "asked" } dd class="bar" { (bar(asked)) } dd class="number" { (name) " " b { (weight) } }
            dt { "measured" } dd class="bar" { @if let Some(share) = measured { (bar(share)) } } dd class="number" { (name) " " b { (shown) } }
        }
    }
}

/// Stable's part from the left, the canary's from the right; a small part can still be seen.
fn bar(canary: f64) -> Markup {
    let part = if canary > 0.0 { (canary * 100.0).clamp(0.4, 100.0) } else { 0.0 };
    html! {
        svg class="share" aria-hidden="true" {
            rect class="stable" width={ (100.0 - part) "%" } height="100%" {}
            rect class="canary" x={ (100.0 - part) "%" } width={ (part) "%" } height="100%" {}
        }
    }
}

fn plan(service: &ServiceView) -> Markup {
    let Some(rollout) = &service.rollout else { return html! {} };
    let waiting: Vec<String> = rollout.waiting.iter().map(words::waiting).collect();
    html! {
        ol class="plan" aria-label={ "Plan, " (rollout.steps.len()) " steps" } {
            @for (index, step) in rollout.steps.iter().enumerate() {
                @let number = index + 1;
                @let class = match number.cmp(&rollout.step) {
                    std::cmp::Ordering::Less => "done",
                    std::cmp::Ordering::Equal => "now",
                    std::cmp::Ordering::Greater => "next",
                };
                li class=(class) aria-current=[(class == "now").then_some("step")] { (step) }
            }
        }
        p class="waiting" {
            "Step " (rollout.step) " of " (rollout.steps.len()) ", " (words::duration(rollout.in_step)) " in it. "
            @if waiting.is_empty() { "The next decision is due now." } @else { "Waits for: " b { (waiting.join("; ")) } "." }
        }
        @for route in words::routes(service, rollout) { p class="quiet" { "In force: " (route) "." } }
    }
}

fn answers(night: &words::Night) -> Markup {
    let all =
        [("Is it us?", &night.is_it_us), ("What changed, and who?", &night.changed), ("Who is hurt?", &night.hurt)];
    html! {
        @for (question, answer) in all {
            article class={ "answer " (tone(answer.mark)) } {
                h2 { (question) }
                p class="short" { span class="mark" aria-hidden="true" { (Style::PLAIN.mark(answer.mark)) } " " (answer.short) }
                @for line in &answer.detail { p { (line) } }
            }
        }
    }
}

fn curves(moment: &Moment, service: &ServiceView, handle: &Handle) -> Markup {
    let to = moment.view.at;
    let mine: Vec<&Event> = moment.history.iter().filter(|event| event.service == service.name).collect();
    // The rollout that runs or was last, with a little before it.
    let begun = mine.iter().rev().find(|event| event.kind == EventKind::Started).map(|event| event.at);
    let back = begun.map_or(SPAN.0, |begun| to.since(begun) * 11 / 10);
    let from = to - if back > SPAN.1 { SPAN.0 } else { back.max(SPAN.0) };
    let curves = handle.trail(|trail| trail.curves(&service.name, (from, to), WINDOW, POINTS));
    let changes = changes(&mine);
    let limit = |unit| service.rollout.iter().flat_map(|rollout| &rollout.checks).find(|check| check.unit == unit);
    let slow = limit(Unit::Seconds);
    let quantile = slow.and_then(|check| quantile_of(&check.name)).unwrap_or(0.99);
    let lines = |value: &dyn Fn(&crate::measure::trail::Point) -> Option<f64>| {
        let mut lines: Vec<Line> = curves
            .iter()
            .map(|curve| Line {
                class: class_of(service, curve.version.as_str()),
                name: curve.version.to_string(),
                points: curve.points.iter().filter_map(|point| Some((point.at, value(point)?))).collect(),
                width: curve.width,
            })
            .collect();
        // Stable below, the canary on top.
        lines.sort_by_key(|line| ["other", "stable", "canary"].iter().position(|class| *class == line.class));
        lines
    };
    let errors = lines(&|point| point.counts.error_rate());
    let latency = lines(&|point| Some(point.quantile(quantile)?.as_secs_f64()));
    let (errors_said, latency_said) = (said(&errors, written_share), said(&latency, written_latency));
    let name = format!("Latency, {}", words::quantile(quantile));
    html! {
        (Chart {
            title: "Errors", summary: &format!("Share of failed requests over time. {errors_said}"), from, to, lines: &errors,
            limit: limit(Unit::Ratio).map(|check| check.limit), events: &changes, write: written_share,
            at_least: 0.005, at_most: 1.0,
        }.draw())
        (Chart {
            title: &name, summary: &format!("{name} over time. {latency_said}"), from, to, lines: &latency,
            limit: slow.map(|check| check.limit), events: &changes, write: written_latency,
            at_least: 0.005, at_most: f64::MAX,
        }.draw())
    }
}

fn said(lines: &[Line], write: fn(f64) -> String) -> String {
    let latest = lines.iter().filter_map(|line| Some(format!("{}: {} now.", line.name, write(line.points.last()?.1))));
    latest.collect::<Vec<_>>().join(" ")
}

/// Moments at which the canary's weight became another.
fn changes(events: &[&Event]) -> Vec<Change> {
    let mut changes: Vec<Change> = Vec::new();
    let mut before = Weight::ZERO;
    for event in events {
        let class = match event.kind {
            EventKind::Aborted | EventKind::Superseded => "stop",
            EventKind::Promoted => "done",
            _ if event.weight > before => "up",
            _ if event.weight < before => "down",
            _ => continue,
        };
        let label = if class == "done" { "100%".to_owned() } else { event.weight.to_string() };
        changes.push(Change { at: event.at, class, label });
        before = event.weight;
    }
    changes
}

fn checks(service: &ServiceView) -> Markup {
    let Some(rollout) = service.rollout.as_ref().filter(|rollout| !rollout.checks.is_empty()) else {
        return html! {
            h2 { "What would stop it" }
            p class="quiet" { @if service.rollout.is_some() { "Nothing is watched: no limit is set." } @else { "No rollout is running." } }
        };
    };
    html! {
        h2 { "What would stop it" }
        @if let Some(test) = rollout.checks.iter().find(|check| check.unit == Unit::LogEvidence) { (evidence(service, test)) }
        table {
            thead { tr { th scope="col" { "check" } th scope="col" { "" } th scope="col" class="n" { "canary" } th scope="col" class="n" { "stable" }
                th scope="col" class="n" { "limit" } th scope="col" class="n" { "requests" } } }
            tbody {
                @for check in rollout.checks.iter().filter(|check| check.unit != Unit::LogEvidence) {
                    @let words = words::check(check);
                    tr {
                        th scope="row" { (words.name) (gauge(check)) }
                        td class={ "verdict " (tone(check.verdict.into())) } { (Style::PLAIN.mark(check.verdict.into())) " " (words.verdict) }
                        td class="n" { b { (words.canary) } }
                        td class="n" { (words.stable) }
                        td class="n" { (words.limit) }
                        td class="n" { (words.requests) }
                    }
                }
            }
        }
    }
}

/// The share test: how much of the evidence that reverts there is.
fn evidence(service: &ServiceView, check: &CheckView) -> Markup {
    let name = service.canary.as_ref().map_or("the canary", |canary| canary.as_str());
    html! {
        div class="evidence" {
            p { "Evidence that " (name) " has more than its share of the errors: " b { (words::check(check).canary.trim_end_matches(" of the evidence")) } }
            (gauge(check))
            p class="scale" { span { "none" } span { "withdrawn" } }
        }
    }
}

/// How near the value is to the limit.
fn gauge(check: &CheckView) -> Markup {
    let part =
        check.value.filter(|_| check.limit > 0.0).map_or(0.0, |value| (value / check.limit).clamp(0.0, 1.0) * 100.0);
    let class = if check.verdict == Verdict::Fail { "fill bad" } else { "fill" };
    html! {
        svg class=(if check.unit == Unit::LogEvidence { "gauge evidence" } else { "gauge" }) aria-hidden="true" {
            rect class="room" width="100%" height="100%" {}
            rect class=(class) width=(format!("{part:.1}%")) height="100%" {}
        }
    }
}

fn why(moment: &Moment, service: &ServiceView) -> Markup {
    let because = words::deciding_event(&moment.history, service);
    let told = because.map(|event| (event, words::weight_before(&moment.history, event)));
    let lines = words::why(moment.view.at, service, told, Style::PLAIN);
    html! {
        h2 { "Why it stands there" }
        div class="said" {
            @for line in lines {
                @let (class, text) = match line.strip_prefix("  ") {
                    Some(rest) if rest.starts_with("  ") => ("deep", rest.trim_start()),
                    Some(rest) => ("item", rest),
                    None => ("", line.as_str()),
                };
                p class=(class) { (text) }
            }
        }
    }
}

fn history(moment: &Moment, service: &ServiceView) -> Markup {
    let mine: Vec<&Event> = moment.history.iter().filter(|event| event.service == service.name).collect();
    html! {
        h2 { "What happened" }
        @if mine.is_empty() { p class="quiet" { "Nothing that is remembered." } }
        @else {
            ol class="events" {
                @for event in mine.iter().rev().take(EVENTS_SHOWN) {
                    @let sentence = words::sentence(event, words::weight_before(&moment.history, event));
                    li class=(event.kind.as_str()) {
                        time datetime=(event.at) title=(event.at) { (when(event.at, moment.view.at)) }
                        span class="revision" { "rev " (event.revision) }
                        span class="sentence" { (sentence) }
                    }
                }
            }
        }
    }
}

/// The clock for today, the date for earlier days.
fn when(at: Timestamp, now: Timestamp) -> String {
    let text = at.to_string();
    let is_near = now.since(at) < Duration::from_hours(20);
    if is_near { clock(at, true) } else { text.get(..16).unwrap_or_default().replace('T', " ") }
}

fn services(moment: &Moment) -> Markup {
    let mut all: Vec<&ServiceView> = moment.view.services.iter().collect();
    // What needs a look first.
    all.sort_by_key(|service| {
        [PhaseView::Degraded, PhaseView::Paused, PhaseView::Progressing]
            .iter()
            .position(|phase| *phase == service.phase)
            .unwrap_or(9)
    });
    html! {
        table class="services" {
            thead { tr {
                th scope="col" { "service" } th scope="col" { "phase" } th scope="col" { "versions" } th scope="col" { "step" }
                th scope="col" class="n" { "asked" } th scope="col" class="n" { "measured" } th scope="col" class="n" { "requests/s" }
                th scope="col" class="n" { "errors, stable" } th scope="col" class="n" { "errors, canary" } th scope="col" class="n" { "p99, canary" } th scope="col" { "" }
            } }
            tbody { @for service in all { (service_row(service)) } }
        }
    }
}

fn service_row(service: &ServiceView) -> Markup {
    let (stable, canary) = (role(service, Role::Stable), role(service, Role::Canary));
    let errors = |of: Option<&VersionView>| of.and_then(|of| of.counts.error_rate()).map_or_else(none, words::share);
    let mark = Mark::from(service.phase);
    html! {
        tr {
            th scope="row" { a href={ "/services/" (service.name) } { (service.name) } }
            td class={ "verdict " (tone(mark)) } { (Style::PLAIN.mark(mark)) " " (service.phase.as_str()) }
            td { (service.stable) @if service.rollout.is_some() { @if let Some(to) = &service.canary { " \u{2192} " (to) } } }
            td { @if let Some(rollout) = &service.rollout { (rollout.step) " of " (rollout.steps.len()) } @else { (none()) } }
            td class="n" { (canary.map_or_else(none, |canary| canary.weight.to_string())) }
            td class="n" { (canary.and_then(|canary| canary.measured).map_or_else(none, words::share)) }
            td class="n" { (words::rate(service.versions.iter().map(|version| version.rps).sum())) }
            td class="n" { (errors(stable)) }
            td class="n" { (errors(canary)) }
            td class="n" { (canary.and_then(|canary| canary.p99).map_or_else(none, words::latency)) }
            td { @for offer in offers(service).iter().filter(|offer| offer.verb == "abort") { (link(service, offer, "button danger small")) } }
        }
    }
}

fn none() -> String {
    "\u{2013}".to_owned()
}

fn role(service: &ServiceView, role: Role) -> Option<&VersionView> {
    service.versions.iter().find(|version| version.role == role)
}

/// The style of a version: after a withdrawal the former canary is still drawn as one.
fn class_of(service: &ServiceView, version: &str) -> &'static str {
    if service.stable.as_str() == version {
        "stable"
    } else if service.canary.as_ref().is_some_and(|canary| canary.as_str() == version) {
        "canary"
    } else {
        "other"
    }
}

fn quantile_of(check: &str) -> Option<f64> {
    let digits = check.strip_prefix('p').filter(|digits| !digits.is_empty() && digits.len() < 6)?;
    digits.chars().all(|c| c.is_ascii_digit()).then(|| format!("0.{digits}").parse().ok()).flatten()
}

pub(super) const fn tone(mark: Mark) -> &'static str {
    match mark {
        Mark::Good => "good",
        Mark::Busy => "busy",
        Mark::Held => "held",
        Mark::Bad => "bad",
        Mark::Unknown | Mark::Awaited => "unknown",
        Mark::Next => "plain",
    }
}

fn written_share(value: f64) -> String {
    let percent = value * 100.0;
    let decimals = if percent == 0.0 || percent >= 10.0 {
        0
    } else if percent >= 1.0 {
        1
    } else {
        2
    };
    let text = format!("{percent:.decimals$}");
    let short = if decimals > 0 { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{short}%")
}

fn written_latency(seconds: f64) -> String {
    if seconds <= 0.0 {
        "0".to_owned()
    } else {
        Duration::try_from_secs_f64(seconds).map_or_else(|_| none(), words::latency)
    }
}

fn clipped(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(text.len().min(most))]
}

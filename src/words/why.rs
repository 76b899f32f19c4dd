//! Why a service stands where it stands: what it waits for and how long, what would stop it, what brought it there,
//! and which command goes on.

use std::time::Duration;

use super::{
    endpoints::endpoint_items,
    event::{bad, cause, shares},
    quantity::{counted, duration, latency, limit, number, quantile, share},
    quiet::{LONG, waits_long},
    status::{
        amount, awaited, beside, bound, canary_rate, check_name, evidence, routes, step_named, step_words, too_few,
        version, whole_percent,
    },
    style::{Mark, Style, Tone},
};
use crate::engine::{
    event::{Cause, Event, EventKind},
    names::Role,
    samples::Counts,
    time::Timestamp,
    view::{CheckView, Forecast, PhaseView, RolloutView, ServiceView, Unit, Verdict, VersionView, Waiting},
    weight::Weight,
};

/// The event that brought a service where it stands, from the events before (in any order).
#[must_use]
pub fn deciding_event<'a>(history: impl IntoIterator<Item = &'a Event>, service: &ServiceView) -> Option<&'a Event> {
    let decides = |event: &Event| match service.phase {
        PhaseView::Healthy => {
            use EventKind::{Aborted, Initialized, Promoted, Superseded};
            matches!(event.kind, Initialized | Promoted | Superseded | Aborted)
        }
        PhaseView::Progressing => {
            use EventKind::{Resumed, Started, StepChanged, WeightChanged};
            matches!(event.kind, Started | WeightChanged | StepChanged | Resumed)
        }
        // `set-weight` pauses as well.
        PhaseView::Paused => match event.kind {
            EventKind::WeightChanged => matches!(event.cause, Cause::Person { .. }),
            kind => kind == EventKind::Paused,
        },
        PhaseView::Degraded => event.kind == EventKind::Aborted,
    };
    history
        .into_iter()
        .filter(|event| event.service == service.name && decides(event))
        .max_by_key(|event| event.sequence)
}

/// Why, a line each. `because` is the [`deciding_event`] with the canary's weight before it, as far as they are known.
#[must_use]
pub fn why(
    at: Timestamp,
    service: &ServiceView,
    because: Option<(&Event, Option<Weight>)>,
    style: Style,
) -> Vec<String> {
    let because = because.map(|(event, before)| Because { at, event, before });
    match (service.phase, &service.rollout) {
        (PhaseView::Progressing, Some(rollout)) => progressing(service, rollout, style),
        (PhaseView::Paused, Some(rollout)) => paused(service, rollout, because, style),
        (PhaseView::Paused, None) => paused_without_rollout(service, style),
        (PhaseView::Degraded, _) => degraded(service, because, style),
        (PhaseView::Healthy | PhaseView::Progressing, _) => healthy(service, because, style),
    }
}

#[derive(Clone, Copy)]
struct Because<'a> {
    at: Timestamp,
    event: &'a Event,
    before: Option<Weight>,
}

impl Because<'_> {
    fn sentence(self) -> String {
        super::sentence(self.event, self.before)
    }

    fn ago(self) -> String {
        format!("{} ago", duration(self.at.since(self.event.at)))
    }
}

fn progressing(service: &ServiceView, rollout: &RolloutView, style: Style) -> Vec<String> {
    let canary = version(service, Role::Canary);
    let weight = canary.map_or(Weight::ZERO, |canary| canary.weight);
    let name = &service.name;
    let head = format!("{name} stays at {weight}, {}, because it waits for:", step_named(rollout));
    let mut lines = vec![style.paint(Tone::Strong, &head)];
    if rollout.waiting.is_empty() {
        lines.push(item(style, Mark::Good, "nothing: the next decision is due now"));
    }
    for waiting in &rollout.waiting {
        lines.push(item(style, Mark::Awaited, &waiting_in_full(waiting, canary)));
    }
    lines.extend(rollout.waiting.iter().flat_map(|waiting| wait_less(service, waiting)));
    lines.extend(in_force(service, rollout, style));
    lines.extend(checks(service, rollout, style));
    lines.extend(analysed_beside(service, style));
    lines.extend(rollout.forecast.map(|Forecast { error_rate, about }| {
        let (rate, about) = (share(error_rate), duration(about));
        format!("At this traffic a canary with {rate} errors would be stopped in about {about}.")
    }));
    lines.extend(measured(service));
    lines.extend(endpoint_items(service, style));
    lines.push(next(rollout));
    lines.push(format!("Try:  serin promote {name} (next step now), serin pause {name}, serin abort {name}"));
    lines
}

fn paused(service: &ServiceView, rollout: &RolloutView, because: Option<Because<'_>>, style: Style) -> Vec<String> {
    let name = &service.name;
    let weight = version(service, Role::Canary).map_or(Weight::ZERO, |canary| canary.weight);
    let head = format!("{name} is paused at {weight}, {}:", step_named(rollout));
    let mut lines = vec![style.paint(Tone::Strong, &head)];
    match (&service.phase_reason, because) {
        (_, Some(because)) => {
            lines.push(item(style, Mark::Held, &format!("{}, {}", because.sentence(), because.ago())));
            lines.extend(evidence_lines(because.event));
        }
        (Some(reason), None) => lines.push(item(style, Mark::Held, reason)),
        (None, None) => lines.push(item(style, Mark::Held, "it waits for a person")),
    }
    lines.extend(in_force(service, rollout, style));
    lines.extend(checks(service, rollout, style));
    lines.extend(analysed_beside(service, style));
    lines.extend(measured(service));
    lines.extend(endpoint_items(service, style));
    lines.push("It goes nowhere by itself. To go on:".to_owned());
    // Where the rollout stood is not known then, so it cannot be gone on with.
    let untrusted = because.is_some_and(|because| matches!(because.event.cause, Cause::Storage(_)));
    match &service.canary {
        Some(canary) if untrusted => {
            lines.push(format!("  serin start {name} --to {canary}   begins it again from step 1"));
            lines.push(format!("  serin abort {name}   gives it up; {} serves all as it does now", service.stable));
        }
        _ => {
            lines.push(format!("  serin resume {name}   goes on with the plan from here"));
            lines.push(format!("  serin promote {name}  goes to the next step at once"));
            lines.push(format!("  serin abort {name}    gives all traffic to {}", service.stable));
        }
    }
    lines
}

fn paused_without_rollout(service: &ServiceView, style: Style) -> Vec<String> {
    let (name, stable) = (&service.name, &service.stable);
    let reason = service.phase_reason.as_deref().unwrap_or("it waits for a person");
    vec![
        style.paint(Tone::Strong, &format!("{name} is paused without a rollout; {stable} serves everything:")),
        item(style, Mark::Held, reason),
        "It starts nothing by itself. To go on:".to_owned(),
        format!("  serin start {name} --to VERSION"),
    ]
}

fn degraded(service: &ServiceView, because: Option<Because<'_>>, style: Style) -> Vec<String> {
    let (name, stable) = (&service.name, &service.stable);
    let tried = service.canary.as_ref().map_or_else(|| "the canary".to_owned(), ToString::to_string);
    let head = match because {
        Some(because) => {
            let at = because.before.map_or_else(String::new, |at| format!(" at {at}"));
            let (revision, ago) = (because.event.revision, because.ago());
            format!(
                "{name} is degraded: {tried} was aborted{at}, {ago} (revision {revision}); {stable} serves everything"
            )
        }
        None => format!("{name} is degraded: {tried} was aborted; {stable} serves everything"),
    };
    let mut lines = vec![style.paint(Tone::Strong, &head)];
    match (because, &service.phase_reason) {
        (Some(because), _) => {
            lines.push(item(style, Mark::Bad, &cause(&because.event.cause)));
            lines.extend(evidence_lines(because.event));
        }
        (None, Some(reason)) => lines.push(item(style, Mark::Bad, reason)),
        (None, None) => {}
    }
    let left = version(service, Role::Canary).filter(|canary| canary.weight > Weight::ZERO);
    if let Some((canary, reason)) = left.zip(service.phase_reason.as_ref()) {
        lines.push(item(style, Mark::Held, &format!("{tried} still has {}: {reason}", canary.weight)));
    }
    lines.extend(endpoint_items(service, style));
    lines.push(format!("{tried} is not tried again by itself. To go on:"));
    lines.push(format!("  serin retry {name}    tries {tried} again from step 1"));
    lines.push("  or name another version, or another `revision`, in the config file and save it".to_owned());
    lines
}

fn healthy(service: &ServiceView, because: Option<Because<'_>>, style: Style) -> Vec<String> {
    let (name, stable) = (&service.name, &service.stable);
    let mut lines = vec![style.paint(Tone::Strong, &format!("{name} is healthy: {stable} serves everything"))];
    if let Some(because) = because {
        let revision = because.event.revision;
        let told = format!("{} (revision {revision}, {})", because.sentence(), because.ago());
        lines.push(item(style, Mark::Good, &told));
    }
    lines.extend(measured(service));
    lines.extend(endpoint_items(service, style));
    lines.push("No rollout is running. To start one:".to_owned());
    lines.push(format!("  serin start {name} --to VERSION"));
    lines.push("  or name another version as `canary` in the config file and save it".to_owned());
    lines
}

/// What can be done where requests are waited for that take long to come.
fn wait_less(service: &ServiceView, waiting: &Waiting) -> Vec<String> {
    let canary = service.canary.as_ref().map_or("the canary", |canary| canary.as_str());
    let weight = version(service, Role::Canary).map_or(Weight::ZERO, |canary| canary.weight);
    match waiting {
        Waiting::Requests { check, about, .. } if check != "step" && about.is_none_or(|about| about >= LONG) => {
            waits_long(&service.name, (canary, weight), check)
        }
        _ => Vec::new(),
    }
}

fn waiting_in_full(waiting: &Waiting, canary: Option<&VersionView>) -> String {
    match waiting {
        Waiting::Time { left } => format!("time: {} left in this step", duration(*left)),
        Waiting::Person => "a person: `serin promote` or `serin resume`".to_owned(),
        _ => awaited(waiting, canary),
    }
}

/// The routes that steps have set; gone with the rollout.
fn in_force(service: &ServiceView, rollout: &RolloutView, style: Style) -> Vec<String> {
    let routes = routes(service, rollout);
    let head = (!routes.is_empty()).then(|| "Routes of earlier steps are in force:".to_owned());
    head.into_iter().chain(routes.iter().map(|route| item(style, Mark::Good, route))).collect()
}

/// The analysis that goes on beside the steps.
fn analysed_beside(service: &ServiceView, style: Style) -> Vec<String> {
    let metrics = beside(service);
    let head = (!metrics.is_empty()).then(|| "And if the analysis beside the steps fails:".to_owned());
    head.into_iter().chain(metrics.iter().map(|metric| item(style, Mark::Awaited, metric))).collect()
}

fn checks(service: &ServiceView, rollout: &RolloutView, style: Style) -> Vec<String> {
    if rollout.checks.is_empty() {
        return vec!["Nothing is watched: no limit is set and the share test is off.".to_owned()];
    }
    let canary = service.canary.as_ref().map_or("the canary", |canary| canary.as_str());
    let rps = canary_rate(service);
    let in_full = |check: &CheckView| item(style, check.verdict.into(), &check_in_full(check, canary, rps));
    let lines = rollout.checks.iter().map(in_full);
    std::iter::once("It is stopped at once if:".to_owned()).chain(lines).collect()
}

fn check_in_full(check: &CheckView, canary: &str, rps: f64) -> String {
    let name = check_name(&check.name);
    let rule = match check.unit {
        Unit::LogEvidence => format!("{canary} gets more than its fair share of the errors"),
        Unit::Count => format!("{canary} has {} {name}", amount(check.limit, Unit::Count)),
        Unit::Ratio | Unit::Seconds => format!("{name} of {canary} > {}", bound(check)),
    };
    let stable = check.stable.map_or_else(String::new, |stable| format!("; stable {}", amount(stable, check.unit)));
    let requests = counted(check.requests, "canary request");
    let stands = match (check.unit, check.verdict, check.value) {
        (Unit::LogEvidence, Verdict::Fail, _) => format!("it does, {requests}"),
        (Unit::LogEvidence, Verdict::NoData, _) => format!(
            "not enough evidence yet, {}; {} of the evidence so far",
            too_few(check, rps).unwrap_or_else(|| "no requests of both".to_owned()),
            whole_percent(evidence(check))
        ),
        (Unit::LogEvidence, ..) => {
            format!("{} of the evidence needed, {requests}", whole_percent(evidence(check)))
        }
        (_, Verdict::NoData, value) => {
            let value = value.map_or_else(|| "no data".to_owned(), |value| amount(value, check.unit));
            let few = too_few(check, rps).unwrap_or_else(|| counted(check.requests, "request"));
            format!("{value} so far; not enough evidence yet, {few}{stable}")
        }
        (Unit::Count, _, value) => format!("{} now", amount(value.unwrap_or(0.0), Unit::Count)),
        (_, _, Some(value)) => format!("{} now, {requests}{stable}", amount(value, check.unit)),
        (_, _, None) => format!("no value now{stable}"),
    };
    format!("{rule}: {stands}")
}

/// The samples of both versions.
fn measured(service: &ServiceView) -> Option<String> {
    let of = |role| {
        let version = version(service, role)?;
        let (errors, requests) = (version.counts.errors, version.counts.requests);
        Some((
            version.window,
            format!("{} {} in {}", version.name, counted(errors, "error"), counted(requests, "request")),
        ))
    };
    let (window, stable) = of(Role::Stable)?;
    let both = of(Role::Canary).map_or_else(|| stable.clone(), |(_, canary)| format!("{canary}; {stable}"));
    Some(format!("Measured over the last {}: {both}.", duration(window)))
}

fn next(rollout: &RolloutView) -> String {
    let next = match step_words(rollout, rollout.step + 1) {
        Some(words) => format!("step {} of {} ({words})", rollout.step + 1, rollout.steps.len()),
        None => "the promotion: the canary becomes stable".to_owned(),
    };
    let mut earliest = Duration::ZERO;
    for waiting in &rollout.waiting {
        match waiting {
            Waiting::Time { left } | Waiting::Permit { left: Some(left), .. } => earliest = earliest.max(*left),
            Waiting::Requests { about: Some(about), .. } => earliest = earliest.max(*about),
            Waiting::Requests { about: None, .. } => return format!("Next: {next}, when there is traffic"),
            Waiting::Person => return format!("Next: {next}, when a person says so"),
            Waiting::Analysis { .. } => return format!("Next: {next}, when the analysis is done"),
            Waiting::Permit { left: None, .. } => return format!("Next: {next}, when it is let through"),
        }
    }
    let when = if earliest.is_zero() { "now".to_owned() } else { format!("in {} at the earliest", duration(earliest)) };
    format!("Next: {next}, {when}")
}

/// The numbers behind an abort or pause, both versions side by side.
fn evidence_lines(event: &Event) -> Vec<String> {
    let canary = event.canary.as_ref().map_or("the canary", |canary| canary.as_str());
    let stable = event.stable.as_str();
    let rates = |window: String, of_canary: Counts, of_stable: Counts| {
        [(canary, "canary", of_canary), (stable, "stable", of_stable)]
            .map(|(name, role, counts)| {
                let rate = counts.error_rate().map_or_else(|| "no requests".to_owned(), share);
                let (errors, requests) = (counted(counts.errors, "error"), counted(counts.requests, "request"));
                format!("    {name} ({role}): {rate}, {errors} in {requests} {window}")
            })
            .to_vec()
    };
    match &event.cause {
        Cause::ErrorRate { max, window, canary, stable } => {
            let mut lines = rates(format!("within {}", duration(*window)), *canary, *stable);
            lines.push(format!("    limit: {}", limit(*max)));
            lines
        }
        Cause::ShareTest { alpha, metric, slower_than, canary, stable, .. } => {
            let mut lines = match slower_than {
                Some(than) => slow(*than, *canary, *stable),
                None => rates("of this rollout".to_owned(), *canary, *stable),
            };
            lines.extend(fair_share(*alpha, metric, *canary, *stable));
            lines
        }
        Cause::Latency { quantile: q, max, value, requests, stable: of_stable } => vec![
            format!("    {canary} (canary): {} {}, {}", quantile(*q), latency(*value), counted(*requests, "request")),
            format!(
                "    {stable} (stable): {}",
                of_stable
                    .map_or_else(|| "no requests".to_owned(), |value| format!("{} {}", quantile(*q), latency(value)))
            ),
            format!("    limit: {}", latency(*max)),
        ],
        _ => Vec::new(),
    }
}

/// The share test as one would say it to a colleague.
fn fair_share(alpha: f64, metric: &str, canary: Counts, stable: Counts) -> Option<String> {
    let (of_requests, of_bad) = shares(canary, stable)?;
    let (_, them) = bad(metric);
    let of_requests = share(of_requests);
    let one_in = if alpha > 0.0 { format!("1 of {:.0} rollouts", 1.0 / alpha) } else { "no rollout".to_owned() };
    Some(format!(
        "    The canary gets {of_requests} of the requests, so it should get about {of_requests} of {them}. It has {}. \
         If it were within tolerance, a split this lopsided would ever appear in at most {one_in}.",
        share(of_bad),
    ))
}

/// How many of each version's requests of this rollout were slow; what is slow for the canary includes the tolerance.
fn slow(than: Duration, canary: Counts, stable: Counts) -> Vec<String> {
    let line = |role: &str, counts: Counts, what: &str| {
        let rate = counts.error_rate().map_or_else(|| "no requests".to_owned(), share);
        format!(
            "    {role}: {rate} slow, {} of {} ({what})",
            number(counts.errors),
            counted(counts.requests, "request")
        )
    };
    let limit = format!("slower than {}, the tolerance included", latency(than));
    vec![line("canary", canary, &limit), line("stable", stable, "by its own measure")]
}

fn item(style: Style, mark: Mark, text: &str) -> String {
    format!("  {} {text}", style.paint(mark.tone(), style.mark(mark)))
}

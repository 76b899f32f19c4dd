//! Events as sentences: one line that says what happened and on which numbers. Plain ASCII save for names and reasons.

use super::{
    quantity::{counted, duration, latency, limit, number, quantile, share},
    style::{Mark, Style, Tone},
};
use crate::engine::{
    event::{Cause, Event, EventKind, GateWord},
    samples::Counts,
    weight::Weight,
};

/// An event in one sentence, without service and time. `before` is the canary's weight before it, where known:
/// an abort is told with the weight at which it struck.
#[must_use]
pub fn sentence(event: &Event, before: Option<Weight>) -> String {
    let who = event.canary.as_ref().unwrap_or(&event.stable);
    let (weight, stable) = (event.weight, &event.stable);
    let at_before = before.filter(|before| *before != Weight::ZERO).map_or_else(String::new, |at| format!(" at {at}"));
    let step = event.step.map_or_else(String::new, |step| format!(", step {step}"));
    let what = match event.kind {
        EventKind::Initialized => format!("{stable} is stable: nothing was known of {} before", event.service),
        EventKind::Started => format!("{who} started at {weight} (revision {}; {stable} is stable)", event.revision),
        EventKind::WeightChanged => match before {
            Some(before) if before > weight => format!("{who} goes back from {before} to {weight}{step}"),
            Some(before) if before < weight && before != Weight::ZERO => {
                format!("{who} goes from {before} to {weight}{step}")
            }
            _ => format!("{who} goes to {weight}{step}"),
        },
        EventKind::StepChanged => format!("{who} stays at {weight}{step} begins"),
        EventKind::Paused => format!("{who} paused at {weight}{step}"),
        EventKind::Resumed => format!("{who} goes on at {weight}{step}"),
        EventKind::Promoted => format!("{who} promoted, it serves everything now"),
        EventKind::Aborted => format!("{who} aborted{at_before}"),
        EventKind::Superseded => format!("{who} given up{at_before}, {stable} serves everything"),
        EventKind::ScaleDown => format!("{who} serves no longer and may be stopped"),
        EventKind::Terminated => format!("{who} stays at {weight}{step}: its analyses were ended"),
        EventKind::AnalysisStarted => format!("{who} is analysed by hand, which decides nothing"),
        EventKind::EndpointOut => format!("{who} loses an endpoint"),
        EventKind::EndpointBack => format!("{who} has an endpoint back"),
        EventKind::GatePassed => format!("{who} stays at {weight}{step}: a gate lets it go on"),
        EventKind::Reconfigured => format!("{who} stays at {weight}{step}: a changed config file applies"),
    };
    match cause_of(event) {
        Some(why) => format!("{what}: {why}"),
        None => what,
    }
}

/// Why something was decided, in words, with the numbers.
#[must_use]
pub fn cause(cause: &Cause) -> String {
    match cause {
        Cause::File => "the config file wants it".to_owned(),
        Cause::Person { verb, actor, reason } if reason.is_empty() => format!("{verb} by {actor}"),
        Cause::Person { verb, actor, reason } => format!("{verb} by {actor}, \"{reason}\""),
        Cause::Plan => "the plan's next step was due".to_owned(),
        Cause::ErrorRate { max, canary, stable, .. } => format!(
            "error rate {} > {} ({} of {}; {})",
            canary.error_rate().map_or_else(|| "unknown".to_owned(), share),
            limit(*max),
            number(canary.errors),
            counted(canary.requests, "canary request"),
            stable_rate(*stable),
        ),
        Cause::Latency { quantile: q, max, value, requests, stable } => format!(
            "{} {} > {} ({}; {})",
            quantile(*q),
            latency(*value),
            latency(*max),
            counted(*requests, "canary request"),
            stable.map_or_else(|| "stable had no requests".to_owned(), |stable| format!("stable {}", latency(stable))),
        ),
        Cause::ShareTest { metric, canary, stable, .. } => lopsided(metric, *canary, *stable),
        Cause::Proven { alpha, margin, requests } => format!(
            "proven within {} of stable by {}, at a risk of {}",
            limit(*margin),
            counted(*requests, "canary request"),
            limit(*alpha),
        ),
        Cause::ConsecutiveErrors { errors, limit } => {
            format!("{} in a row (the limit is {})", counted(*errors, "error"), number(*limit))
        }
        Cause::Analysis { metric, phase, message } => format!("analysis of {metric} ended {phase}: {message}"),
        Cause::Endpoint { endpoint, why } if why.is_empty() => endpoint.clone(),
        Cause::Endpoint { endpoint, why } => format!("{endpoint} ({why})"),
        Cause::Gate { gate, kind, said, message } => match said {
            GateWord::Go => format!("the gate {gate} ({}) says go", kind.as_str()),
            GateWord::Stop => format!("the gate {gate} ({}) says stop", kind.as_str()),
            GateWord::RollBack => format!("the gate {gate} ({}) wants it back", kind.as_str()),
            GateWord::Nothing => format!("the gate {gate} ({}) gives no answer: {message}", kind.as_str()),
        },
        Cause::NoTraffic { waited } => format!("too little traffic to judge it for {}", duration(*waited)),
        Cause::Deadline { deadline } => format!("not done within its deadline of {}", duration(*deadline)),
        Cause::Storage(problem) => format!("the state could not be used: {problem}"),
    }
}

/// One line of the history: time, revision, glyph and sentence.
#[must_use]
pub fn history_line(event: &Event, sentence: &str, style: Style) -> String {
    let mark = mark(event.kind);
    format!(
        "{}  {}  {}  {} {sentence}",
        style.paint(Tone::Faint, &event.at.to_string()),
        event.service,
        style.paint(Tone::Faint, &format!("rev {}", event.revision)),
        style.paint(mark.tone(), style.mark(mark)),
    )
}

/// The canary's weight before an event, from the events before it (in any order).
#[must_use]
pub fn weight_before<'a>(history: impl IntoIterator<Item = &'a Event>, event: &Event) -> Option<Weight> {
    history
        .into_iter()
        .filter(|earlier| earlier.service == event.service && earlier.sequence < event.sequence)
        .max_by_key(|earlier| earlier.sequence)
        .map(|earlier| earlier.weight)
}

/// What is bad by a metric of the share test: one, and all of them.
pub(super) fn bad(metric: &str) -> (&'static str, String) {
    match metric {
        "errors" => ("error", "the errors".to_owned()),
        "2xp99" => ("slow request", "the requests slower than twice stable's p99".to_owned()),
        level => ("slow request", format!("the requests slower than stable's {level}")),
    }
}

/// The share test's finding in numbers: shares of the requests and of what is bad.
fn lopsided(metric: &str, canary: Counts, stable: Counts) -> String {
    let all = canary + stable;
    let (one, them) = bad(metric);
    let Some((of_requests, of_bad)) = shares(canary, stable) else {
        return format!("more than its fair share of {them}");
    };
    format!(
        "it got {} of the requests but {} of {them} ({} of {}; {} of {})",
        share(of_requests),
        share(of_bad),
        number(canary.errors),
        counted(all.errors, one),
        number(canary.requests),
        counted(all.requests, "request"),
    )
}

/// The canary's shares of all requests and of all errors; none when there are no errors.
pub(super) fn shares(canary: Counts, stable: Counts) -> Option<(f64, f64)> {
    let all = canary + stable;
    let of_requests = Counts { requests: all.requests, errors: canary.requests }.error_rate()?;
    let of_errors = Counts { requests: all.errors, errors: canary.errors }.error_rate()?;
    Some((of_requests, of_errors))
}

fn stable_rate(stable: Counts) -> String {
    match stable.error_rate() {
        Some(rate) => format!("stable {} of {}", share(rate), number(stable.requests)),
        None => "stable had no requests".to_owned(),
    }
}

/// What a sentence adds after the colon: nothing where the kind has said it all.
fn cause_of(event: &Event) -> Option<String> {
    match (event.kind, &event.cause) {
        (EventKind::Initialized | EventKind::Reconfigured, Cause::File) | (EventKind::ScaleDown, Cause::Plan) => None,
        (EventKind::WeightChanged | EventKind::StepChanged | EventKind::Promoted | EventKind::Resumed, Cause::Plan) => {
            None
        }
        (EventKind::Paused, Cause::Plan) => Some("the plan waits for a person here".to_owned()),
        (EventKind::Superseded, Cause::File) => Some("the config file wants something else".to_owned()),
        (_, why) => Some(cause(why)),
    }
}

fn mark(kind: EventKind) -> Mark {
    match kind {
        EventKind::Initialized | EventKind::Promoted | EventKind::EndpointBack => Mark::Good,
        EventKind::Started
        | EventKind::WeightChanged
        | EventKind::StepChanged
        | EventKind::Resumed
        | EventKind::AnalysisStarted
        | EventKind::GatePassed => Mark::Busy,
        EventKind::Paused | EventKind::EndpointOut => Mark::Held,
        EventKind::Aborted => Mark::Bad,
        EventKind::Superseded | EventKind::Reconfigured | EventKind::ScaleDown | EventKind::Terminated => Mark::Next,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::engine::{
        gate::GateKind,
        names::{Revision, ServiceName, VersionName},
        time::Timestamp,
    };

    fn event(kind: EventKind, cause: Cause, weight: &str, step: Option<usize>) -> Event {
        Event {
            sequence: 9,
            at: Timestamp::from_millis(1_790_000_000_123),
            service: ServiceName::new("web").unwrap(),
            revision: Revision(2),
            kind,
            cause,
            stable: VersionName::new("v1").unwrap(),
            canary: Some(VersionName::new("v2").unwrap()),
            weight: weight.parse().unwrap(),
            step,
        }
    }

    fn counts(errors: u64, requests: u64) -> Counts {
        Counts { requests, errors }
    }

    fn aborted(cause: Cause) -> String {
        sentence(&event(EventKind::Aborted, cause, "0%", None), Some("5%".parse().unwrap()))
    }

    #[test]
    fn an_abort_has_value_limit_and_the_samples_of_both_versions() {
        let s = Duration::from_secs;
        let rows = [
            (
                Cause::ErrorRate { max: 0.02, window: s(10), canary: counts(19, 38), stable: counts(0, 722) },
                "v2 aborted at 5%: error rate 50.0% > 2% (19 of 38 canary requests; stable 0.0% of 722)",
            ),
            (
                Cause::ErrorRate { max: 0.5, window: s(10), canary: counts(1, 1), stable: counts(0, 0) },
                "v2 aborted at 5%: error rate 100% > 50% (1 of 1 canary request; stable had no requests)",
            ),
            (
                Cause::Latency {
                    quantile: 0.99,
                    max: Duration::from_millis(800),
                    value: Duration::from_millis(1_250),
                    requests: 1_300,
                    stable: Some(Duration::from_millis(171)),
                },
                "v2 aborted at 5%: p99 1.25 s > 800 ms (1,300 canary requests; stable 171 ms)",
            ),
            (
                Cause::ShareTest {
                    alpha: 0.01,
                    log_e: 4.7,
                    metric: "errors",
                    slower_than: None,
                    canary: counts(19, 38),
                    stable: counts(42, 722),
                },
                "v2 aborted at 5%: it got 5.00% of the requests but 31.1% of the errors (19 of 61 errors; 38 of 760 requests)",
            ),
            (
                Cause::ConsecutiveErrors { errors: 20, limit: 20 },
                "v2 aborted at 5%: 20 errors in a row (the limit is 20)",
            ),
            (
                Cause::Analysis { metric: "p95".into(), phase: "Failed", message: "612 >= 500".into() },
                "v2 aborted at 5%: analysis of p95 ended Failed: 612 >= 500",
            ),
            (
                Cause::Gate {
                    gate: "approve".into(),
                    kind: GateKind::ConfirmPromotion,
                    said: GateWord::Stop,
                    message: String::new(),
                },
                "v2 aborted at 5%: the gate approve (confirm-promotion) says stop",
            ),
            (Cause::NoTraffic { waited: s(600) }, "v2 aborted at 5%: too little traffic to judge it for 10m"),
            (
                Cause::Proven { alpha: 0.05, margin: 0.002, requests: 1_930 },
                "v2 aborted at 5%: proven within 0.2% of stable by 1,930 canary requests, at a risk of 5%",
            ),
            (Cause::Deadline { deadline: s(43_200) }, "v2 aborted at 5%: not done within its deadline of 12h"),
            (
                Cause::Person { verb: "abort", actor: "ann".into(), reason: "too slow".into() },
                "v2 aborted at 5%: abort by ann, \"too slow\"",
            ),
        ];
        for (cause, wanted) in rows {
            assert_eq!(aborted(cause), wanted);
        }
    }

    #[test]
    fn each_kind_has_its_sentence() {
        let person = |verb| Cause::Person { verb, actor: "ann".into(), reason: String::new() };
        let rows = [
            (EventKind::Initialized, Cause::File, "0%", None, "v1 is stable: nothing was known of web before"),
            (
                EventKind::Started,
                Cause::File,
                "1%",
                Some(1),
                "v2 started at 1% (revision 2; v1 is stable): the config file wants it",
            ),
            (EventKind::WeightChanged, Cause::Plan, "25%", Some(5), "v2 goes from 5% to 25%, step 5"),
            (
                EventKind::WeightChanged,
                person("set-weight"),
                "1%",
                Some(2),
                "v2 goes back from 5% to 1%, step 2: set-weight by ann",
            ),
            (EventKind::StepChanged, Cause::Plan, "5%", Some(4), "v2 stays at 5%, step 4 begins"),
            (
                EventKind::Paused,
                Cause::Plan,
                "5%",
                Some(4),
                "v2 paused at 5%, step 4: the plan waits for a person here",
            ),
            (EventKind::Resumed, person("resume"), "5%", Some(4), "v2 goes on at 5%, step 4: resume by ann"),
            (EventKind::Promoted, Cause::Plan, "0%", None, "v2 promoted, it serves everything now"),
            (EventKind::ScaleDown, Cause::Plan, "0%", None, "v2 serves no longer and may be stopped"),
            (
                EventKind::Superseded,
                Cause::File,
                "0%",
                None,
                "v2 given up at 5%, v1 serves everything: the config file wants something else",
            ),
            (
                EventKind::Reconfigured,
                Cause::File,
                "5%",
                Some(2),
                "v2 stays at 5%, step 2: a changed config file applies",
            ),
        ];
        for (kind, cause, weight, step, wanted) in rows {
            assert_eq!(sentence(&event(kind, cause, weight, step), Some("5%".parse().unwrap())), wanted);
        }
    }

    #[test]
    fn the_weight_before_an_event_is_that_of_the_services_event_before_it() {
        let mut earlier = event(EventKind::WeightChanged, Cause::Plan, "5%", Some(2));
        earlier.sequence = 7;
        let mut other = event(EventKind::WeightChanged, Cause::Plan, "50%", Some(2));
        (other.sequence, other.service) = (8, ServiceName::new("api").unwrap());
        let this = event(EventKind::Aborted, Cause::Plan, "0%", None);
        let history = [earlier, other, this.clone()];
        assert_eq!(weight_before(&history, &this), Some("5%".parse().unwrap()));
        assert_eq!(weight_before([], &this), None);
    }

    #[test]
    fn a_history_line_has_time_revision_and_glyph() {
        let event = event(EventKind::Aborted, Cause::Plan, "0%", None);
        assert_eq!(
            history_line(&event, "v2 aborted", Style::PLAIN),
            "2026-09-21T14:13:20.123Z  web  rev 2  ✖ v2 aborted"
        );
    }
}

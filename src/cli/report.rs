//! `serin report`: one rollout from start to end, for a ticket or a pull request.

use std::{fmt::Write as _, time::Duration};

use serde::Serialize;

use super::{
    Global,
    client::Client,
    exit::Exit,
    history,
    output::{self, Trouble},
};
use crate::{
    api::{Cause, Document, Event, ServiceStatus},
    engine::{event::EventKind, time::Timestamp},
    words::{self, Mark, Style},
};

/// Tells one rollout from its start to its end: what was tried, what came of it, on which numbers
///
/// Exit code 0 whatever came of it; `serin wait` is the verb whose exit code says that.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  serin report                         the latest rollout
  serin report web --revision 6
  serin report --markdown | gh pr comment 8123 --body-file -
  serin report --output json           with every number")]
pub(super) struct Args {
    /// Which service; may be left out when there is only one
    service: Option<String>,
    /// Which attempt [default: the latest]
    #[arg(long, value_name = "N")]
    revision: Option<u64>,
    /// As Markdown, for a pull request
    #[arg(long)]
    markdown: bool,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    service: String,
    revision: u64,
    /// `promoted`, `aborted`, `superseded` or `running`.
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    canary: Option<String>,
    started: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    ended: Option<String>,
    /// From the first event to the last, or to now while it runs.
    seconds: f64,
    /// Of these it waited for a person.
    paused_seconds: f64,
    /// Oldest first.
    events: Vec<Event>,
}

pub(super) fn run(args: &Args, global: &Global) -> Result<Exit, Trouble> {
    let client = Client::new(global)?;
    let service = client.service(args.service.as_deref())?;
    let events = history::fetch(&client, Some(&service), None)?.body.events;
    let status: Document<ServiceStatus> = client.get(&format!("/api/v1/services/{service}"))?;
    let report = report(service, events, args.revision, status.body.at)?;
    if args.markdown {
        output::print(&markdown(&report))?;
    } else {
        let document = Document::new(report);
        output::show(global, &document, |style| text(&document.body, style))?;
    }
    Ok(Exit::Done)
}

fn report(service: String, events: Vec<Event>, wanted: Option<u64>, now: Timestamp) -> Result<Report, Trouble> {
    let of_rollout = |event: &&Event| event.kind != EventKind::Initialized && event.kind.is_of_rollout();
    let rollouts = || events.iter().filter(of_rollout).map(|event| event.revision);
    let Some(revision) = wanted.or_else(|| rollouts().max()) else {
        return Err(Trouble::new(Exit::Refused, format!("{service} had no rollout yet")));
    };
    let known: Vec<String> = {
        let mut all: Vec<u64> = rollouts().collect();
        all.dedup();
        all.iter().map(u64::to_string).collect()
    };
    let events: Vec<Event> =
        events.into_iter().filter(|event| event.revision == revision && event.kind != EventKind::Initialized).collect();
    let Some(first) = events.iter().find(of_rollout) else {
        let message = format!("no revision {revision} of {service} is remembered; there is {}", known.join(", "));
        return Err(Trouble::new(Exit::Usage, message));
    };
    let ending = events.iter().rev().find(|event| outcome(event.kind) != "running");
    let end = ending.map_or(now, |event| event.at);
    Ok(Report {
        service,
        revision,
        outcome: ending.map_or("running", |event| outcome(event.kind)),
        canary: first.canary.as_ref().map(ToString::to_string),
        started: first.at.to_string(),
        ended: ending.map(|event| event.at.to_string()),
        seconds: end.since(first.at).as_secs_f64(),
        paused_seconds: paused(&events, end).as_secs_f64(),
        events,
    })
}

/// How long it was paused until then.
fn paused(events: &[Event], end: Timestamp) -> Duration {
    let (mut all, mut since) = (Duration::ZERO, None);
    for event in events.iter().filter(|event| event.kind.is_of_rollout() && event.at <= end) {
        let waits = matches!(&event.cause, Cause::Person { verb, .. } if verb == "set-weight");
        match event.kind {
            EventKind::WeightChanged if !waits => all += since.take().map_or(Duration::ZERO, |at| event.at.since(at)),
            EventKind::Paused | EventKind::WeightChanged => since = since.or(Some(event.at)),
            // What happens during a pause without ending it.
            EventKind::Reconfigured
            | EventKind::Terminated
            | EventKind::AnalysisStarted
            | EventKind::GatePassed
            | EventKind::ScaleDown => {}
            _ => all += since.take().map_or(Duration::ZERO, |at| event.at.since(at)),
        }
    }
    all + since.map_or(Duration::ZERO, |at| end.since(at))
}

const fn outcome(kind: EventKind) -> &'static str {
    match kind {
        EventKind::Promoted => "promoted",
        EventKind::Aborted => "aborted",
        EventKind::Superseded => "superseded",
        _ => "running",
    }
}

fn title(report: &Report) -> String {
    let canary = report.canary.as_deref().unwrap_or("the canary");
    format!("{canary} of {}: {}", report.service, report.outcome)
}

/// How long, and how much of it is nobody's but a person's.
fn took(report: &Report, so_far: &str) -> String {
    let text = |seconds| words::duration(Duration::from_secs_f64(seconds));
    let paused = Some(report.paused_seconds).filter(|seconds| *seconds > 0.0);
    let paused = paused.map(|seconds| format!(", {} of it paused", text(seconds))).unwrap_or_default();
    format!("{}{so_far}{paused}", text(report.seconds))
}

fn text(report: &Report, style: Style) -> String {
    let mark = match report.outcome {
        "promoted" => Mark::Good,
        "running" => Mark::Busy,
        _ => Mark::Bad,
    };
    let mut text = format!("{}\n", style.marked(mark, &title(report)));
    let so_far = if report.outcome == "running" { " so far" } else { " in all" };
    let _ = writeln!(text, "  revision {}, started {}, {}\n", report.revision, report.started, took(report, so_far));
    for event in &report.events {
        let _ = writeln!(text, "  {}", history::line(event, style).trim_end());
    }
    text
}

fn markdown(report: &Report) -> String {
    let glyph = match report.outcome {
        "promoted" => "✅",
        "running" => "⏳",
        _ => "❌",
    };
    let mut text = format!("### {glyph} {}\n\n", in_a_cell(&title(report)));
    let _ = writeln!(text, "Revision {}, started {}, took {}.\n", report.revision, report.started, took(report, ""));
    text += "| when | canary's share | what happened |\n|---|---:|---|\n";
    for event in &report.events {
        let _ = writeln!(text, "| {} | {} | {} |", event.at, event.weight, in_a_cell(&event.message));
    }
    text
}

/// Reasons are what somebody wrote: nothing of it may be markup.
fn in_a_cell(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '\\' | '|' | '*' | '_' | '`' | '[' | ']' | '#' | '~' | '!' => safe.extend(['\\', letter]),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '&' => safe.push_str("&amp;"),
            '@' => safe.push_str("&#64;"),
            '\n' | '\r' => safe.push(' '),
            _ => safe.push(letter),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{
        names::{ServiceName, VersionName},
        weight::Weight,
    };

    fn event(second: u64, kind: EventKind, verb: &str) -> Event {
        let at = Timestamp::from_millis(1_700_000_000_000) + Duration::from_secs(second);
        let cause = Cause::Person { verb: verb.to_owned(), actor: "ann".to_owned(), reason: String::new() };
        Event {
            sequence: second,
            at,
            at_millis: 0,
            service: ServiceName::new("web").unwrap(),
            revision: 1,
            kind,
            message: String::new(),
            cause: if verb.is_empty() { Cause::Plan } else { cause },
            stable: VersionName::new("v1").unwrap(),
            canary: None,
            weight_ppm: Weight::ZERO,
            weight: String::new(),
            weight_before_ppm: None,
            step: None,
        }
    }

    #[test]
    fn time_that_a_person_took_is_told_apart() {
        use EventKind::{Aborted, Paused, Reconfigured, Resumed, ScaleDown, Started, WeightChanged};
        let events = [
            event(0, Started, ""),
            event(10, WeightChanged, ""),
            event(20, Paused, "pause"),
            event(25, Reconfigured, ""),
            event(50, Resumed, "resume"),
            event(60, WeightChanged, "set-weight"),
            event(70, Resumed, "resume"),
            event(100, Paused, ""),
            event(160, Aborted, "abort"),
            event(190, ScaleDown, ""),
        ];
        assert_eq!(paused(&events, events[8].at), Duration::from_secs(30 + 10 + 60));
        assert_eq!(paused(&events[..8], events[7].at + Duration::from_secs(5)), Duration::from_secs(45), "it goes on");
        let report = report("web".to_owned(), events.to_vec(), None, events[9].at).unwrap();
        assert_eq!(took(&report, " in all"), "2m40s in all, 1m40s of it paused");
    }

    #[test]
    fn what_people_wrote_is_no_markup() {
        assert_eq!(in_a_cell("a|b <i> @ops [x](y)\n`c`"), "a\\|b &lt;i&gt; &#64;ops \\[x\\](y) \\`c\\`");
    }
}

//! `serin report`: one rollout from start to end, for a ticket or a pull request.

use std::fmt::Write as _;

use serde::Serialize;

use super::{
    Global,
    client::Client,
    exit::Exit,
    history,
    output::{self, Trouble},
};
use crate::{
    api::{Document, Event, ServiceStatus},
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
    Ok(Report {
        service,
        revision,
        outcome: ending.map_or("running", |event| outcome(event.kind)),
        canary: first.canary.as_ref().map(ToString::to_string),
        started: first.at.to_string(),
        ended: ending.map(|event| event.at.to_string()),
        seconds: ending.map_or(now, |event| event.at).since(first.at).as_secs_f64(),
        events,
    })
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

fn took(report: &Report) -> String {
    words::duration(std::time::Duration::from_secs_f64(report.seconds))
}

fn text(report: &Report, style: Style) -> String {
    let mark = match report.outcome {
        "promoted" => Mark::Good,
        "running" => Mark::Busy,
        _ => Mark::Bad,
    };
    let mut text = format!("{}\n", style.marked(mark, &title(report)));
    let so_far = if report.outcome == "running" { "so far" } else { "in all" };
    let _ = writeln!(text, "  revision {}, started {}, {} {so_far}\n", report.revision, report.started, took(report));
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
    let _ = writeln!(text, "Revision {}, started {}, took {}.\n", report.revision, report.started, took(report));
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

    #[test]
    fn what_people_wrote_is_no_markup() {
        assert_eq!(in_a_cell("a|b <i> @ops [x](y)\n`c`"), "a\\|b &lt;i&gt; &#64;ops \\[x\\](y) \\`c\\`");
    }
}

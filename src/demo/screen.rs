//! The live view: on a terminal one picture, redrawn in place; elsewhere, or with `--plain`, a line for each event.

use std::io::{self, IsTerminal, Write};

use super::stage::Stage;
use crate::{
    engine::{
        event::{Event, EventKind},
        names::Role,
        view::{ServiceView, VersionView},
    },
    words::{self, Style},
};

/// Cells of the bar of weights.
const BAR: u32 = 40;

/// Where the show is seen.
#[derive(Debug)]
pub struct Screen {
    live: bool,
    drawn: usize,
    style: Style,
    history: Vec<Event>,
}

impl Screen {
    /// A live picture if standard output is a terminal and `plain` does not forbid it.
    #[must_use]
    pub fn new(plain: bool) -> Self {
        let live = !plain && io::stdout().is_terminal();
        let color = live && std::env::var_os("NO_COLOR").is_none();
        Self { live, drawn: 0, style: Style { ascii: false, color }, history: Vec::new() }
    }

    /// A line that stays.
    pub fn say(&mut self, line: &str) {
        let wiped = self.wiped();
        show(&format!("{wiped}{line}\n"));
    }

    /// What is new on the stage, then the picture of the moment.
    pub fn follow(&mut self, stage: &mut Stage) {
        for event in stage.news() {
            self.tell(&event);
        }
        if let Some(service) = stage.service() {
            self.draw(&service);
        }
    }

    /// An event in words; stays.
    fn tell(&mut self, event: &Event) {
        if event.kind == EventKind::Initialized {
            // Every folder of the show is new.
            return;
        }
        let before = words::weight_before(&self.history, event);
        let line = format!("  {}", words::sentence(event, before));
        self.history.push(event.clone());
        self.say(&line);
    }

    /// The picture of the moment, in place of the last one. Nothing where lines are wanted.
    fn draw(&mut self, service: &ServiceView) {
        if !self.live {
            return;
        }
        let wiped = self.wiped();
        let picture = picture(service, self.style);
        self.drawn = picture.lines().count();
        // Long lines are cut by the terminal: a wrapped one would be a line more than is wiped.
        show(&format!("{wiped}\x1b[?7l{picture}\x1b[?7h"));
    }

    /// What takes the last picture away.
    fn wiped(&mut self) -> String {
        match std::mem::take(&mut self.drawn) {
            0 => String::new(),
            lines => format!("\x1b[{lines}A\x1b[J"),
        }
    }
}

/// In one write, so that an interrupt leaves the terminal as it was. A reader that has gone away misses the rest of the
/// show, which plays on to its end.
fn show(text: &str) {
    let mut stdout = io::stdout().lock();
    let _gone = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
}

/// Phase, a bar of the weights, and a row for each version with a part in it.
fn picture(service: &ServiceView, style: Style) -> String {
    let mut lines = vec![String::new(), format!("  {}", phase(service))];
    if let Some(rollout) = &service.rollout {
        let waiting: Vec<String> = rollout.waiting.iter().map(words::waiting).collect();
        lines.push(format!("  waits for: {}", waiting.join("; ")));
    }
    lines.push(format!("  {}", bar(service)));
    lines.push(String::new());
    lines.push("  VERSION   ROLE      ASKED  MEASURED      RPS      ERR      P50      P99".to_owned());
    let taking_part = service.versions.iter().filter(|version| version.role != Role::Other);
    lines.extend(taking_part.map(|version| row(version, style)));
    lines.push(String::new());
    lines.join("\n") + "\n"
}

fn phase(service: &ServiceView) -> String {
    match &service.rollout {
        Some(rollout) => format!(
            "{}: step {} of {}, {}",
            service.phase.as_str(),
            rollout.step.min(rollout.steps.len()),
            rollout.steps.len(),
            rollout.steps.get(rollout.step.saturating_sub(1)).map_or("promoting", String::as_str)
        ),
        None => format!("{}: {} serves all", service.phase.as_str(), service.stable),
    }
}

fn bar(service: &ServiceView) -> String {
    let canary = service.versions.iter().find(|version| version.role == Role::Canary);
    let share = canary.map_or(0, |version| version.weight.ppm());
    // A canary with any weight shows at least one cell.
    let cells = (share * BAR).div_ceil(1_000_000);
    let (canary, stable) = ("▒".repeat(cells as usize), "█".repeat((BAR - cells) as usize));
    format!("{stable}{canary}")
}

fn row(version: &VersionView, style: Style) -> String {
    let latency = |of: Option<std::time::Duration>| of.map_or_else(|| "-".to_owned(), words::latency);
    let errors = version.counts.error_rate();
    let tone = if errors.unwrap_or(0.0) > 0.02 { words::Tone::Bad } else { words::Tone::Plain };
    let error = format!("{:>7}", errors.map_or_else(|| "-".to_owned(), words::share));
    format!(
        "  {:<9} {:<8} {:>6} {:>9} {:>8} {}  {:>7}  {:>7}",
        version.name.as_str(),
        version.role.as_str(),
        version.weight.to_string(),
        version.measured.map_or_else(|| "-".to_owned(), words::share),
        words::rate(version.rps),
        style.paint(tone, &error),
        latency(version.p50),
        latency(version.p99),
    )
}

//! A rehearsal for people: one table, and what it shows in sentences. Leaves out what has nothing to say.

use std::{fmt::Write as _, time::Duration};

use super::{
    recording::Recorded,
    report::{Ended, GateReport, GateState, ModelReport, Report},
};
use crate::words::{self, Cell, Style, Tone};

/// The model whose remedy is a warm-up.
const SLOW_START: &str = "slow-start";
const HEADING: [&str; 9] = ["MODEL", "RELEASE", "PROMOTED", "REVERTED", "HELD", "WAITING", "AFTER", "BY", "FAILED"];
const NUMBERS: [usize; 6] = [2, 3, 4, 5, 6, 8];

/// The report as text.
#[must_use]
pub fn text(report: &Report, style: Style) -> String {
    let rows: Vec<Vec<Cell>> = report.models.iter().map(row).collect();
    let mut text = heading(report);
    text.push('\n');
    text += &words::columns(&HEADING, &NUMBERS, &rows, style);
    text += "\nAFTER: of the most frequent ending, median / 90th percentile. FAILED: requests that the canary failed in one\n\
             rollout, median / 90th percentile.\n\n";
    for (tone, line) in findings(report) {
        let _ = writeln!(text, "{}", style.paint(tone, &line));
    }
    text
}

fn heading(report: &Report) -> String {
    let Report { service, stable, canary, seed, .. } = report;
    let time = |ms| words::duration(Duration::from_millis(ms));
    let mut text = format!(
        "{service}: {canary} against {stable}, {} a second, {} of each model, seed {seed}\n",
        plural(&words::rate(report.rate), "request"),
        words::counted(report.runs as u64, "rollout"),
    );
    if let Some(Recorded { requests, skipped, span_ms }) = report.recorded {
        let _ = write!(text, "Traffic of {} over {}", words::counted(requests, "recorded request"), time(span_ms));
        if skipped > 0 {
            let _ = write!(text, " ({} of the log were none)", words::counted(skipped, "line"));
        }
    } else {
        text.push_str("Made-up traffic");
    }
    let _ = writeln!(
        text,
        ": a sound version fails {} and takes {} in the median. The plan takes {}; looked at for {}.",
        words::limit(report.usual_error_rate),
        words::latency(Duration::from_secs_f64(report.usual_median_ms / 1e3)),
        time(report.planned_ms),
        time(report.horizon_ms),
    );
    if let Some(after) = report.person_after_ms {
        let _ =
            writeln!(text, "Where the plan waits for a person, one was taken to say `promote` after {}.", time(after));
    }
    if report.tick_ms > 1_000 {
        let _ = writeln!(
            text,
            "A plan this long is looked at every {} between changes: short breaches of a limit may be missed.",
            time(report.tick_ms)
        );
    }
    text
}

fn row(model: &ModelReport) -> Vec<Cell> {
    let stops = if model.sound { Tone::Bad } else { Tone::Good };
    let passes = if model.sound { Tone::Good } else { Tone::Bad };
    let cell = |tone: Tone, ended: &Ended| match ended.runs {
        0 => Cell::new("-"),
        _ => Cell::toned(tone, percent(ended.share)),
    };
    let optional = |ended: &Ended| match ended.runs {
        0 => Cell::new(""),
        _ => Cell::toned(Tone::Held, percent(ended.share)),
    };
    let endings = [&model.promoted, &model.reverted, &model.held, &model.waiting];
    let most = endings.iter().max_by_key(|ended| ended.runs).and_then(|ended| ended.after_ms);
    let after = most.map_or_else(String::new, |after| {
        let time = |ms| words::duration(Duration::from_millis(ms));
        format!("{} / {}", time(after.median), time(after.p90))
    });
    let shown = model.evidence.iter().take(3).map(|evidence| match &model.evidence[..] {
        [_] => evidence.by.clone(),
        _ => format!("{} {}", evidence.by, words::number(evidence.runs as u64)),
    });
    vec![
        Cell::new(model.name),
        Cell::toned(Tone::Faint, if model.sound { "sound" } else { "bad" }),
        cell(passes, &model.promoted),
        cell(stops, &model.reverted),
        optional(&model.held),
        optional(&model.waiting),
        Cell::new(after),
        Cell::new(shown.collect::<Vec<_>>().join(", ")),
        Cell::new(format!("{} / {}", words::number(model.failed.median), words::number(model.failed.p90))),
    ]
}

/// What the numbers show, one sentence a line.
fn findings(report: &Report) -> Vec<(Tone, String)> {
    let mut lines = Vec::new();
    if report.sound_runs > 0 {
        let sound = words::number(report.sound_runs as u64);
        lines.push(match report.sound_stopped {
            0 => (Tone::Good, format!("Of {sound} rollouts of sound releases none was reverted or held.")),
            stopped => (
                Tone::Bad,
                format!(
                    "Of {sound} rollouts of sound releases {} were reverted or held:",
                    words::number(stopped as u64)
                ),
            ),
        });
        let stopped = report.models.iter().filter(|model| model.sound && model.reverted.runs + model.held.runs > 0);
        lines.extend(stopped.clone().map(|model| {
            let by: Vec<&str> = model.evidence.iter().map(|evidence| evidence.by.as_str()).collect();
            let share = percent(model.reverted.share + model.held.share);
            (Tone::Plain, format!("  {} in {share}, by {} ({})", model.name, by.join(", "), model.says))
        }));
        lines.extend(advice(report, &stopped.collect::<Vec<_>>()).into_iter().map(|line| (Tone::Plain, line)));
    }
    let passed: Vec<&ModelReport> =
        report.models.iter().filter(|model| !model.sound && model.promoted.runs > 0).collect();
    if passed.is_empty() && report.models.iter().any(|model| !model.sound) {
        lines.push((Tone::Good, "No bad release was promoted.".to_owned()));
    } else if !passed.is_empty() {
        lines.push((Tone::Bad, "Bad releases were promoted:".to_owned()));
        lines.extend(passed.iter().map(|model| {
            (Tone::Plain, format!("  {} in {} ({})", model.name, percent(model.promoted.share), model.says))
        }));
    }
    let stuck = report.models.iter().filter(|model| model.waiting.runs > 0);
    lines.extend(stuck.map(|model| {
        let line = format!("{} was not decided in {} ({})", model.name, percent(model.waiting.share), model.says);
        (Tone::Held, line)
    }));
    lines.extend(report.slow.as_ref().map(|slow| {
        let at = if slow.rate() > report.rate { report.rate } else { report.rate / 100.0 };
        let (said, help) = (words::slow_hold(slow, at), words::shorter(&slow.check));
        (Tone::Held, format!("{said}.\n  {help}"))
    }));
    lines.extend(gates(report));
    lines
}

/// Why sound releases were stopped, and what could be written instead.
fn advice(report: &Report, stopped: &[&ModelReport]) -> Vec<String> {
    let decided = |model: &&&ModelReport, is: &dyn Fn(&str) -> bool| model.evidence.iter().any(|one| is(&one.by));
    let is_latency = |by: &str| by.strip_prefix('p').is_some_and(|digits| digits.bytes().all(|b| b.is_ascii_digit()));
    let is_limit = |by: &str| by == "errorRate" || is_latency(by);
    let mut lines = Vec::new();
    if stopped.iter().filter(|model| model.name != SLOW_START).any(|model| decided(&model, &is_limit)) {
        lines.push(
            "  errorRate and latency limits look at the canary alone: what hits both versions trips them too, and at few requests\n  \
             chance does. versusStable compares with stable and lets such releases through; leave a limit out, or raise it."
                .to_owned(),
        );
    }
    let compares = |by: &str| by == "versusStable" || is_latency(by);
    if stopped.iter().filter(|model| model.name == SLOW_START).any(|model| decided(&model, &compares)) {
        lines.push(format!(
            "  A canary is given {} to warm up. One that is slow for longer at its start needs more, as 45 s:\n  \
             `strategy: {{ canary: {{ guard: {{ warmup: {{ latency: 45s }} }} }} }}`.",
            words::duration(report.warmup)
        ));
    }
    lines
}

fn gates(report: &Report) -> Vec<(Tone, String)> {
    if report.gates.is_empty() {
        return vec![(Tone::Bad, "This plan has no gate at all: nothing can fail a release.".to_owned())];
    }
    let quiet = report.gates.iter().filter(|gate| gate.state != GateState::Decides);
    let lines: Vec<(Tone, String)> = quiet.map(quiet_gate).collect();
    if lines.is_empty() { vec![(Tone::Good, "Every gate decided something.".to_owned())] } else { lines }
}

fn quiet_gate(gate: &GateReport) -> (Tone, String) {
    let GateReport { name, limit, alone_in, .. } = gate;
    if gate.state == GateState::NeverFires {
        let line = format!("{name} ({limit}) never fires in these models: nothing shows that it can fail a release.");
        return (Tone::Bad, line);
    }
    let models = alone_in.join(", ");
    (Tone::Plain, format!("{name} ({limit}) never decided, since others were faster; alone it fires in {models}."))
}

/// A share of rollouts: whole percent, save where that would say none or all and it is not so.
pub(super) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    match percent {
        _ if percent > 0.0 && percent < 1.0 || percent > 99.0 && percent < 100.0 => format!("{percent:.1}%"),
        _ => format!("{percent:.0}%"),
    }
}

fn plural(number: &str, thing: &str) -> String {
    if number == "1" { format!("1 {thing}") } else { format!("{number} {thing}s") }
}

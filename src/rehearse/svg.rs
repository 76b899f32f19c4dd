//! A rehearsal as one picture: for each model the canary's weight over time and the requests it failed, as medians.
//! Needs nothing from elsewhere: no script, no font, no image; readable on a light and a dark page.

use std::{fmt::Write as _, time::Duration};

use super::{
    report::{ModelReport, Report},
    rollout::Trace,
    text::percent,
};
use crate::words;

const PANEL: (u32, u32) = (420, 190);
/// Of the plot within its panel: left, top, width, height.
const PLOT: (f64, f64, f64, f64) = (52.0, 48.0, 316.0, 100.0);
const HEAD: u32 = 56;
const FOOT: u32 = 28;
/// Points of a line.
const POINTS: u32 = 160;

const STYLE: &str = "\
svg{--ink:#1f2328;--faint:#656d76;--line:#d0d7de;--page:#ffffff;--weight:#0969da;--failed:#cf222e;\
font:12px system-ui,sans-serif}\
@media (prefers-color-scheme:dark){svg{--ink:#e6edf3;--faint:#8d96a0;--line:#30363d;--page:#0d1117;--weight:#4493f8;\
--failed:#f85149}}\
text{fill:var(--ink)}.f{fill:var(--faint)}.h{font-size:15px;font-weight:600}.m{font-weight:600}\
.page{fill:var(--page)}.box{fill:none;stroke:var(--line)}.w{fill:none;stroke:var(--weight);stroke-width:2}\
.e{fill:none;stroke:var(--failed);stroke-width:2;stroke-dasharray:5 3}.wt{fill:var(--weight)}.et{fill:var(--failed)}";

/// The picture, as an SVG document of its own.
#[must_use]
pub fn picture(report: &Report) -> String {
    let rows = u32::try_from(report.models.len()).unwrap_or(u32::MAX).div_ceil(2);
    let (width, height) = (PANEL.0 * 2, HEAD + FOOT + PANEL.1.saturating_mul(rows));
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" role=\"img\">\n\
         <title>Rehearsal of {}</title>\n<style>{STYLE}</style>\n<rect class=\"page\" width=\"{width}\" height=\"{height}\"/>\n",
        escaped(&report.service)
    );
    let title = format!("{}: {} against {}", report.service, report.canary, report.stable);
    let about = format!(
        "{} requests a second, {} rollouts of each model, seed {}",
        words::rate(report.rate),
        words::number(report.runs as u64),
        report.seed
    );
    label(&mut svg, (16.0, 24.0), "h", &title);
    label(&mut svg, (16.0, 42.0), "f", &about);
    for (at, model) in (0_u32..).zip(&report.models) {
        let _ = writeln!(svg, "<g transform=\"translate({},{})\">", at % 2 * PANEL.0, HEAD + at / 2 * PANEL.1);
        panel(&mut svg, model);
        svg.push_str("</g>\n");
    }
    let foot = f64::from(height) - 10.0;
    label(&mut svg, (16.0, foot), "wt", "\u{2014} canary's weight, median");
    label(&mut svg, (200.0, foot), "et", "- - requests the canary failed, median");
    svg.push_str("</svg>\n");
    svg
}

fn panel(svg: &mut String, model: &ModelReport) {
    let (left, top, width, height) = PLOT;
    label(svg, (left, 18.0), "m", model.name);
    label(svg, (left, 36.0), "f", &endings(model));
    let _ = writeln!(svg, "<rect class=\"box\" x=\"{left}\" y=\"{top}\" width=\"{width}\" height=\"{height}\"/>");
    let end = model.traces.iter().map(|(at, _)| *at).max().unwrap_or(0).max(1);
    let times: Vec<u64> = (0..=POINTS).map(|point| end * u64::from(point) / u64::from(POINTS)).collect();
    let weights = medians(&times, &model.traces, |trace, at| u64::from(last(&trace.weights, at)));
    let failures = medians(&times, &model.traces, |trace, at| last(&trace.failures, at));
    let most = failures.iter().copied().max().unwrap_or(0).max(1);
    line(svg, "w", &weights, 1_000_000);
    line(svg, "e", &failures, most);
    let (right, bottom) = (left + width, top + height);
    mark(svg, (left - 6.0, top + 10.0), "wt", "end", "100%");
    mark(svg, (left - 6.0, bottom), "wt", "end", "0%");
    mark(svg, (right + 6.0, top + 10.0), "et", "start", &words::number(most));
    mark(svg, (right + 6.0, bottom), "et", "start", "0");
    label(svg, (left, bottom + 16.0), "f", "0");
    mark(svg, (right, bottom + 16.0), "f", "end", &words::duration(Duration::from_millis(end)));
}

/// The endings in words, as `reverted 98%, promoted 2%`.
fn endings(model: &ModelReport) -> String {
    let all = [
        ("promoted", &model.promoted),
        ("reverted", &model.reverted),
        ("held", &model.held),
        ("waiting", &model.waiting),
    ];
    let mut there: Vec<_> = all.into_iter().filter(|(_, ended)| ended.runs > 0).collect();
    there.sort_by_key(|(_, ended)| std::cmp::Reverse(ended.runs));
    let words: Vec<String> = there.iter().map(|(word, ended)| format!("{word} {}", percent(ended.share))).collect();
    format!("{} release: {}", if model.sound { "sound" } else { "bad" }, words.join(", "))
}

/// The median over the rollouts at each time; a rollout that is over keeps its last value.
fn medians(times: &[u64], traces: &[(u64, Trace)], value: impl Fn(&Trace, u64) -> u64) -> Vec<u64> {
    let at = |time: u64| {
        let mut values: Vec<u64> = traces.iter().map(|(_, trace)| value(trace, time)).collect();
        values.sort_unstable();
        values.get(values.len().saturating_sub(1) / 2).copied().unwrap_or(0)
    };
    times.iter().map(|time| at(*time)).collect()
}

/// What held at a time; nothing before the first entry.
fn last<T: Copy + Default>(of: &[(u64, T)], time: u64) -> T {
    let before = of.partition_point(|(at, _)| *at <= time);
    before.checked_sub(1).and_then(|at| of.get(at)).map_or_else(T::default, |(_, value)| *value)
}

#[expect(clippy::cast_precision_loss, reason = "a picture has fewer points")]
fn line(svg: &mut String, class: &str, values: &[u64], most: u64) {
    let (left, top, width, height) = PLOT;
    let _ = write!(svg, "<polyline class=\"{class}\" points=\"");
    for (point, value) in values.iter().enumerate() {
        let x = left + width * point as f64 / f64::from(POINTS);
        let y = top + height * (1.0 - *value as f64 / most as f64);
        let _ = write!(svg, "{x:.1},{y:.1} ");
    }
    svg.push_str("\"/>\n");
}

fn label(svg: &mut String, at: (f64, f64), class: &str, text: &str) {
    mark(svg, at, class, "start", text);
}

fn mark(svg: &mut String, (x, y): (f64, f64), class: &str, anchor: &str, text: &str) {
    let text = escaped(text);
    let _ = writeln!(svg, "<text class=\"{class}\" x=\"{x}\" y=\"{y}\" text-anchor=\"{anchor}\">{text}</text>");
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

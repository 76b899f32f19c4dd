//! Curves of both versions over time, as SVG in the page: weight changes and limits drawn in. Colours and fonts come
//! from the page's style sheet, so that it is light or dark with the page; a table of the latest values is its text form.

use std::{fmt::Write as _, time::Duration};

use maud::{Markup, html};

use crate::engine::time::Timestamp;

/// Size of the drawing in its own units.
const SIZE: (f64, f64) = (460.0, 190.0);
/// Of the plot within it: left, top, right, bottom.
const PLOT: (f64, f64, f64, f64) = (54.0, 22.0, 452.0, 166.0);
/// Marks nearer to each other than this have no label of their own.
const MARK_ROOM: f64 = 30.0;

/// One curve.
pub(super) struct Line {
    /// The style: `stable`, `canary` or `other`.
    pub(super) class: &'static str,
    /// Whose.
    pub(super) name: String,
    /// Middle of each piece of time, and the value there; rising in time.
    pub(super) points: Vec<(Timestamp, f64)>,
    /// Pieces of time farther apart than this are not joined.
    pub(super) width: Duration,
}

/// A moment at which something changed.
pub(super) struct Event {
    pub(super) at: Timestamp,
    /// The style: `up`, `down` or `stop`.
    pub(super) class: &'static str,
    /// A few letters, e.g. the new weight.
    pub(super) label: String,
}

/// All of one drawing.
pub(super) struct Chart<'a> {
    /// Its heading.
    pub(super) title: &'a str,
    /// What it says, for those who cannot see it.
    pub(super) summary: &'a str,
    pub(super) from: Timestamp,
    pub(super) to: Timestamp,
    pub(super) lines: &'a [Line],
    pub(super) limit: Option<f64>,
    pub(super) events: &'a [Event],
    /// How a value is written.
    pub(super) write: fn(f64) -> String,
    /// The vertical axis reaches at least this far.
    pub(super) at_least: f64,
    /// And never farther than this.
    pub(super) at_most: f64,
}

impl Chart<'_> {
    /// The figure: heading with the latest values, and the drawing.
    pub(super) fn draw(&self) -> Markup {
        let top = self.top();
        html! {
            figure class="chart" {
                figcaption {
                    span class="title" { (self.title) }
                    @for line in self.lines {
                        span class={ "key " (line.class) } {
                            (line.name) " "
                            b { (self.present(line).map_or_else(|| "\u{2013}".to_owned(), |value| self.text(value))) }
                        }
                    }
                    @if let Some(limit) = self.limit { span class="key limit" { "limit " b { (self.text(limit)) } } }
                }
                svg viewBox={ "0 0 " (SIZE.0) " " (SIZE.1) } role="img" aria-label=(self.summary) {
                    (self.grid(top))
                    (self.changes())
                    @if let Some(limit) = self.limit {
                        @let y = place(y(limit, top));
                        path class="limit" d={ "M" (PLOT.0) " " (y) "H" (PLOT.2) } {}
                    }
                    @for line in self.lines {
                        path class={ "line " (line.class) } d=(self.path(line, top)) {}
                    }
                    @if self.lines.iter().all(|line| line.points.is_empty()) {
                        text class="none" x=(f64::midpoint(PLOT.0, PLOT.2)) y=(f64::midpoint(PLOT.1, PLOT.3)) { "no requests yet" }
                    }
                }
            }
        }
    }

    /// The latest value, unless it is of the past.
    fn present(&self, line: &Line) -> Option<f64> {
        let (at, value) = line.points.last()?;
        (self.to.since(*at) <= line.width * 3).then_some(*value)
    }

    fn text(&self, value: f64) -> String {
        (self.write)(value)
    }

    fn grid(&self, top: f64) -> Markup {
        html! {
            @for part in 0..=2_u8 {
                @let value = top * f64::from(part) / 2.0;
                @let y = y(value, top);
                path class="grid" d={ "M" (PLOT.0) " " (place(y)) "H" (PLOT.2) } {}
                text class="y" x=(PLOT.0 - 6.0) y=(place(y + 4.0)) { (self.text(value)) }
            }
            @for (at, label) in self.times() {
                text class=(if at > PLOT.2 - 20.0 { "x end" } else if at < PLOT.0 + 20.0 { "x start" } else { "x" })
                    x=(place(at)) y=(SIZE.1 - 6.0) { (label) }
            }
        }
    }

    /// Changes of weight: a line through the plot, and the new weight above it where there is room.
    fn changes(&self) -> Markup {
        let mut free_from = f64::MIN;
        let within = self.events.iter().filter(|event| event.at >= self.from && event.at <= self.to);
        let placed: Vec<_> = within
            .map(|event| {
                let x = self.x(event.at);
                let has_room = x >= free_from;
                if has_room {
                    free_from = x + MARK_ROOM;
                }
                (x, has_room, event)
            })
            .collect();
        html! {
            @for (x, has_room, event) in placed {
                path class={ "change " (event.class) } d={ "M" (place(x)) " " (PLOT.1 - 6.0) "V" (PLOT.3) } {}
                @if has_room {
                    text class={ "change " (event.class) (if x > PLOT.2 - 40.0 { " end" } else { "" }) }
                        x=(place(if x > PLOT.2 - 40.0 { x - 3.0 } else { x + 3.0 })) y=(PLOT.1 - 10.0) { (event.label) }
                }
            }
        }
    }

    fn path(&self, line: &Line, top: f64) -> String {
        let mut path = String::new();
        let gap = line.width * 5 / 2;
        let mut before: Option<Timestamp> = None;
        for (at, value) in &line.points {
            let (x, y) = (place(self.x(*at)), place(y(value.min(top), top)));
            let joined = before.is_some_and(|before| at.since(before) <= gap);
            // A point alone is a dot: a line of no length with round ends.
            let _ = if joined { write!(path, "L{x} {y}") } else { write!(path, "M{x} {y}h0") };
            before = Some(*at);
        }
        path
    }

    fn top(&self) -> f64 {
        let seen = self.lines.iter().flat_map(|line| &line.points).map(|(_, value)| *value);
        let highest = seen.chain(self.limit).fold(self.at_least, f64::max);
        round_up(highest * 1.08).min(self.at_most)
    }

    fn x(&self, at: Timestamp) -> f64 {
        let span = self.to.since(self.from).as_secs_f64().max(1.0);
        let share = (at.since(self.from).as_secs_f64() / span).min(1.0);
        PLOT.0 + share * (PLOT.2 - PLOT.0)
    }

    /// Places and words of the times under the plot: UTC, at its start, middle and end.
    fn times(&self) -> Vec<(f64, String)> {
        let span = self.to.since(self.from);
        let with_seconds = span < Duration::from_mins(15);
        let moments = [self.from, self.from + span / 2, self.to];
        moments.into_iter().map(|at| (self.x(at), clock(at, with_seconds))).collect()
    }
}

/// `03:12` or `03:12:45`, UTC.
pub(super) fn clock(at: Timestamp, with_seconds: bool) -> String {
    let text = at.to_string();
    text.get(11..if with_seconds { 19 } else { 16 }).unwrap_or_default().to_owned()
}

fn y(value: f64, top: f64) -> f64 {
    PLOT.3 - (value / top).clamp(0.0, 1.0) * (PLOT.3 - PLOT.1)
}

/// One decimal is a twentieth of a pixel.
fn place(at: f64) -> String {
    let text = format!("{at:.1}");
    text.strip_suffix(".0").map(ToOwned::to_owned).unwrap_or(text)
}

/// The next of 1, 2, 2.5, 4, 5, 8, 10 times a power of ten: its half is as short to write.
fn round_up(value: f64) -> f64 {
    if value <= 0.0 {
        return 1.0;
    }
    let power = 10_f64.powf(value.log10().floor());
    let steps = [1.0, 2.0, 4.0, 5.0, 8.0, 10.0];
    let step = steps.into_iter().find(|step| step * power >= value * 0.999_999);
    step.unwrap_or(10.0) * power
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(1_790_000_000_000 + seconds * 1_000)
    }

    fn line(points: &[(u64, f64)]) -> Line {
        let points = points.iter().map(|(second, value)| (at(*second), *value)).collect();
        Line { class: "canary", name: "v2".into(), points, width: Duration::from_secs(1) }
    }

    fn chart<'a>(lines: &'a [Line], events: &'a [Event], limit: Option<f64>) -> Chart<'a> {
        let write = |value: f64| format!("{value}");
        Chart {
            title: "Errors",
            summary: "all",
            from: at(0),
            to: at(100),
            lines,
            limit,
            events,
            write,
            at_least: 0.01,
            at_most: 1.0,
        }
    }

    #[test]
    fn a_gap_is_not_joined_and_a_lone_point_is_a_dot() {
        let lines = [line(&[(0, 0.0), (1, 1.0), (50, 0.5)])];
        assert_eq!(chart(&lines, &[], None).path(&lines[0], 1.0), "M54 166h0L58 22M253 94h0");
    }

    #[test]
    fn the_axis_reaches_over_values_and_limit_and_no_farther_than_it_may() {
        for (value, limit, top) in [(0.0, None, 0.02), (0.03, None, 0.04), (0.0, Some(0.09), 0.1), (0.99, None, 1.0)] {
            let lines = [line(&[(1, value)])];
            let got = chart(&lines, &[], limit).top();
            assert!((got - top).abs() < 1e-9, "{value} {limit:?}: {got}");
        }
    }

    #[test]
    fn labels_of_changes_keep_their_distance_and_nothing_of_a_name_is_markup() {
        let event = |second, label: &str| Event { at: at(second), class: "up", label: label.into() };
        let events = [event(10, "1%"), event(12, "5%"), event(60, "<b>"), event(400, "later")];
        let drawn = chart(&[], &events, Some(0.5)).draw().into_string();
        assert!(drawn.contains(">1%<") && !drawn.contains(">5%<") && !drawn.contains("later"), "{drawn}");
        assert!(drawn.contains("&lt;b&gt;") && drawn.contains("no requests yet"));
        assert_eq!(drawn.matches("class=\"change up\" d=").count(), 3);
    }
}

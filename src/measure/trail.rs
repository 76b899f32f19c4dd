//! What each version did over the last hours, in bins of time: for curves on a screen, never for a decision.
//! Bounded: so many lines, so many bins each; the oldest go first.

use std::{collections::VecDeque, time::Duration};

use crate::engine::{
    names::{ServiceName, VersionName},
    samples::{Counts, Samples},
    stats::latency::{LatencyCounts, upper_edge},
    table::Table,
    time::Timestamp,
};

/// Width of the bins of the near past, and how many there are: ten minutes by the second.
const FINE: Resolution = Resolution { seconds: 1, bins: 600 };
/// The same of the far past: three hours by the quarter minute.
const COARSE: Resolution = Resolution { seconds: 15, bins: 720 };
/// Versions that are remembered, over all services.
const LINES_MAX: usize = 64;

#[derive(Debug, Clone, Copy)]
struct Resolution {
    seconds: u64,
    bins: usize,
}

/// The remembered past.
#[derive(Debug, Default)]
pub struct Trail {
    lines: VecDeque<Line>,
}

#[derive(Debug)]
struct Line {
    service: ServiceName,
    version: VersionName,
    fine: VecDeque<Bin>,
    coarse: VecDeque<Bin>,
}

/// What was counted in one piece of time.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Bin {
    /// The start, in widths since 1970.
    number: u64,
    counts: Counts,
    /// By bucket, in rising order.
    latency: Vec<(u16, u32)>,
}

/// One version's past, oldest first; pieces of time without a request are left out.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// Whose.
    pub version: VersionName,
    /// Width of each point.
    pub width: Duration,
    /// The points.
    pub points: Vec<Point>,
}

/// One version over one piece of time.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// The middle of it.
    pub at: Timestamp,
    /// Finished evidence.
    pub counts: Counts,
    latency: Vec<(u16, u32)>,
}

impl Point {
    /// A latency quantile (`q` in 0..=1), to the upper edge of its bucket; none without latencies.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "counts of one bin, far below 2^53"
    )]
    pub fn quantile(&self, q: f64) -> Option<Duration> {
        let all: u64 = self.latency.iter().map(|(_, count)| u64::from(*count)).sum();
        let rank = ((all as f64 * q).ceil() as u64).clamp(1, all.max(1));
        let mut seen = 0;
        self.latency.iter().find_map(|(bucket, count)| {
            seen += u64::from(*count);
            (seen >= rank).then(|| upper_edge(usize::from(*bucket)))
        })
    }
}

impl Trail {
    /// Takes in what was drained at this time, of all weight generations.
    pub fn add(&mut self, now: Timestamp, samples: &Samples) {
        for slot in &samples.slots {
            let at = self.line(&slot.service, &slot.version);
            let counts = slot.sampled + slot.sticky;
            for (bins, resolution) in [(&mut at.fine, FINE), (&mut at.coarse, COARSE)] {
                let bin = present(bins, now.as_millis() / 1_000 / resolution.seconds, resolution.bins);
                bin.counts += counts;
                add_latency(&mut bin.latency, &slot.latency);
            }
        }
    }

    /// Forgets versions that are no longer configured.
    pub fn forget_unconfigured(&mut self, table: &Table) {
        self.lines.retain(|line| {
            let mut services = table.services.iter().filter(|service| service.name == line.service);
            services.any(|service| service.versions.iter().any(|version| version.name == line.version))
        });
    }

    /// The curves of a service from `from` to `to` in about `points` points, as far as they are remembered. A point
    /// holds what came within `window` up to its end, so that a few requests a second make no saw.
    #[must_use]
    pub fn curves(
        &self,
        service: &ServiceName,
        (from, to): (Timestamp, Timestamp),
        window: Duration,
        points: u64,
    ) -> Vec<Curve> {
        let (from, span) = (from.as_millis() / 1_000, to.since(from).as_secs());
        let near = span <= FINE.seconds * FINE.bins as u64;
        let resolution = if near { FINE } else { COARSE };
        let factor = span.div_ceil(points.max(1)).div_ceil(resolution.seconds).max(1);
        let of_service = self.lines.iter().filter(|line| line.service == *service);
        let width = Duration::from_secs(resolution.seconds * factor);
        let curves = of_service.map(|line| {
            let points = merged(if near { &line.fine } else { &line.coarse }, resolution.seconds, factor, from);
            Curve { version: line.version.clone(), width, points: sliding(&points, window.saturating_sub(width)) }
        });
        curves.collect()
    }

    fn line(&mut self, service: &ServiceName, version: &VersionName) -> &mut Line {
        let found = self.lines.iter().position(|line| line.service == *service && line.version == *version);
        let index = found.unwrap_or_else(|| {
            if self.lines.len() >= LINES_MAX {
                self.lines.pop_front();
            }
            let (fine, coarse) = (VecDeque::new(), VecDeque::new());
            self.lines.push_back(Line { service: service.clone(), version: version.clone(), fine, coarse });
            self.lines.len() - 1
        });
        &mut self.lines[index]
    }
}

/// The bin of that number, which is the last one or a new one.
fn present(bins: &mut VecDeque<Bin>, number: u64, most: usize) -> &mut Bin {
    if bins.back().is_none_or(|last| last.number < number) {
        if bins.len() >= most {
            bins.pop_front();
        }
        bins.push_back(Bin { number, counts: Counts::default(), latency: Vec::new() });
    }
    let last = bins.len() - 1;
    &mut bins[last]
}

fn add_latency(to: &mut Vec<(u16, u32)>, news: &LatencyCounts) {
    for (bucket, count) in &news.0 {
        merge(to, *bucket, u32::try_from(*count).unwrap_or(u32::MAX));
    }
}

fn merge(to: &mut Vec<(u16, u32)>, bucket: u16, count: u32) {
    match to.binary_search_by_key(&bucket, |(bucket, _)| *bucket) {
        Ok(at) => to[at].1 = to[at].1.saturating_add(count),
        Err(at) => to.insert(at, (bucket, count)),
    }
}

/// Points of `factor` bins each, aligned to the clock so that they do not dance from one look to the next.
fn merged(bins: &VecDeque<Bin>, seconds: u64, factor: u64, from: u64) -> Vec<Point> {
    let mut points: Vec<Point> = Vec::new();
    let mut last = None;
    for bin in bins.iter().filter(|bin| bin.number * seconds >= from) {
        let number = bin.number / factor;
        if last != Some(number) {
            last = Some(number);
            let width = seconds * factor;
            let at = Timestamp::from_millis(number * width * 1_000 + width * 500);
            points.push(Point { at, counts: Counts::default(), latency: Vec::new() });
        }
        if let Some(point) = points.last_mut() {
            point.counts += bin.counts;
            for (bucket, count) in &bin.latency {
                merge(&mut point.latency, *bucket, *count);
            }
        }
    }
    points
}

/// Each point with those before it that are not farther back than `reach`.
fn sliding(points: &[Point], reach: Duration) -> Vec<Point> {
    let with_earlier = points.iter().enumerate().map(|(index, point)| {
        let mut sum = point.clone();
        for earlier in points[..index].iter().rev().take_while(|earlier| point.at.since(earlier.at) <= reach) {
            sum.counts += earlier.counts;
            for (bucket, count) in &earlier.latency {
                merge(&mut sum.latency, *bucket, *count);
            }
        }
        sum
    });
    with_earlier.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{
        names::Generation,
        samples::{FailedBuckets, SlotSamples},
        stats::latency::bucket_of,
    };

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(1_790_000_000_000 + seconds * 1_000)
    }

    fn seen(version: &str, requests: u64, errors: u64, latency_ms: u64) -> Samples {
        let bucket = u16::try_from(bucket_of(Duration::from_millis(latency_ms))).unwrap();
        Samples {
            slots: vec![SlotSamples {
                service: ServiceName::new("web").unwrap(),
                version: VersionName::new(version).unwrap(),
                weight_generation: Generation(1),
                sampled: Counts { requests, errors },
                sticky: Counts::default(),
                sticky_failed: FailedBuckets::default(),
                latency: LatencyCounts(vec![(bucket, requests)]),
                longest_error_run: 0,
                slowest_failure: Duration::ZERO,
            }],
            ..Samples::default()
        }
    }

    fn curves(trail: &Trail, from: u64, to: u64, points: u64) -> Vec<Curve> {
        trail.curves(&ServiceName::new("web").unwrap(), (at(from), at(to)), Duration::ZERO, points)
    }

    #[test]
    fn a_window_reaches_back_over_earlier_points() {
        let mut trail = Trail::default();
        for second in [0, 1, 2, 9] {
            trail.add(at(second), &seen("v2", 1, u64::from(second == 0), 20));
        }
        let web = ServiceName::new("web").unwrap();
        let [curve] = &trail.curves(&web, (at(0), at(20)), Duration::from_secs(3), 20)[..] else {
            panic!("one version")
        };
        let counts = curve.points.iter().map(|point| (point.counts.errors, point.counts.requests));
        assert_eq!(counts.collect::<Vec<_>>(), [(1, 1), (1, 2), (1, 3), (0, 1)]);
    }

    #[test]
    fn a_second_holds_what_was_drained_in_it() {
        let mut trail = Trail::default();
        trail.add(at(5), &seen("v2", 10, 1, 20));
        trail.add(at(5) + Duration::from_millis(900), &seen("v2", 30, 0, 200));
        trail.add(at(7), &seen("v2", 1, 0, 20));
        let [curve] = &curves(&trail, 0, 10, 100)[..] else { panic!("one version") };
        assert_eq!(curve.points.len(), 2, "a second without requests is no point");
        let first = &curve.points[0];
        assert_eq!((first.counts, first.at), (Counts { requests: 40, errors: 1 }, at(5) + Duration::from_millis(500)));
        let ms = |q| first.quantile(q).unwrap().as_millis();
        assert!((20..21).contains(&ms(0.25)) && (200..207).contains(&ms(0.99)), "{} {}", ms(0.25), ms(0.99));
    }

    #[test]
    fn a_longer_look_has_as_many_points_and_loses_nothing() {
        let mut trail = Trail::default();
        for second in 0..7_200 {
            trail.add(at(second), &seen("v1", 3, 1, 10));
        }
        for (from, to) in [(7_080, 7_200), (6_600, 7_200), (0, 7_200)] {
            let [curve] = &curves(&trail, from, to, 60)[..] else { panic!("one version") };
            assert!(curve.points.len() <= 62, "{}", curve.points.len());
            let all = curve.points.iter().fold(Counts::default(), |sum, point| sum + point.counts);
            assert!(all.requests.abs_diff((to - from) * 3) <= 3 * 15, "{from} {all:?}");
        }
    }

    #[test]
    fn it_does_not_grow_without_end() {
        let mut trail = Trail::default();
        for second in 0..2_000 {
            trail.add(at(second * 15), &seen("v1", 1, 0, 10));
        }
        for number in 0..100 {
            trail.add(at(40_000), &seen(&format!("v{number}"), 1, 0, 10));
        }
        assert_eq!(trail.lines.len(), LINES_MAX);
        assert!(trail.lines.iter().all(|line| line.fine.len() <= FINE.bins && line.coarse.len() <= COARSE.bins));
        assert!(curves(&trail, 40_000, 40_010, 0).iter().all(|curve| curve.points.len() == 1));
    }
}

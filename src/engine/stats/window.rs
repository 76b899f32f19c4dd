//! What a version did lately: sub-windows of samples in a ring, summed on demand. Cut at weight changes by its owner.
//! Judges nothing, and never remembers more than [`REACH`].

use std::{collections::VecDeque, sync::OnceLock, time::Duration};

use hdrhistogram::Histogram;

use crate::engine::{
    samples::Counts,
    stats::latency::{BUCKETS, LatencyCounts, upper_edge},
    time::Timestamp,
};

/// How far back a window can reach; what is older is forgotten.
pub const REACH: Duration = Duration::from_mins(15);
/// Length of a sub-window. A window begins with the sub-window in which it begins, so it is up to this much longer.
const SUB_WINDOW: Duration = Duration::from_secs(1);
/// Counts of a bucket are believed up to this, so that sums of all buckets stay exact in a float.
const COUNT_MAX: u64 = 1 << 43;
/// Two digits resolve 128 parts to the octave, four times finer than the buckets: their edges stay exact.
const DIGITS: u8 = 2;

/// The latest samples of one version, in sub-windows of a second, bounded.
#[derive(Debug, Clone, Default)]
pub struct Windows {
    /// Nothing is known of the time before; none before the first samples.
    since: Option<Timestamp>,
    /// Oldest first, at most one for each second of [`REACH`].
    ring: VecDeque<SubWindow>,
}

#[derive(Debug, Clone)]
struct SubWindow {
    start: Timestamp,
    counts: Counts,
    latency: LatencyCounts,
}

/// What happened in a window.
#[derive(Debug, Clone)]
pub struct Summary {
    /// Finished requests and errors.
    pub counts: Counts,
    /// How far back it reaches.
    pub span: Duration,
    latency: LatencyCounts,
    /// Filled at the first question about latency: most checks ask for errors alone.
    histogram: OnceLock<Histogram<u64>>,
}

impl Windows {
    /// Adds what was drained at `at`. Times never run backwards.
    pub fn add(&mut self, at: Timestamp, counts: Counts, latency: &LatencyCounts) {
        let start = sub_window(at);
        let since = *self.since.get_or_insert(start);
        // A time that runs backwards all the same is taken as the latest one.
        if self.ring.back().is_none_or(|newest| newest.start < start) {
            self.ring.push_back(SubWindow { start, counts: Counts::default(), latency: LatencyCounts::default() });
        }
        if let Some(newest) = self.ring.back_mut() {
            newest.counts += counts;
            merge(&mut newest.latency, latency);
        }
        let horizon = start - REACH + SUB_WINDOW;
        while self.ring.front().is_some_and(|oldest| oldest.start < horizon) {
            self.ring.pop_front();
        }
        self.since = Some(since.max(horizon));
    }

    /// Forgets everything: the weight has changed.
    pub fn clear(&mut self, now: Timestamp) {
        self.ring.clear();
        self.since = Some(now);
    }

    /// Sums what lies within `window` before `now`, or reaches further back until there are `at_least` requests.
    ///
    /// Never reaches past a [`clear`](Self::clear), the first samples, or [`REACH`]; `span` says how far it got. Costs a
    /// few steps for each second and latency bucket in the window: microseconds for a minute, a millisecond at most.
    #[must_use]
    pub fn last(&self, now: Timestamp, window: Duration, at_least: u64) -> Summary {
        let wanted = sub_window(now - window);
        let mut begin = wanted.min(now);
        let mut counts = Counts::default();
        let mut latency = Dense::default();
        for sub in self.ring.iter().rev() {
            if sub.start < wanted {
                if counts.requests >= at_least {
                    break;
                }
                begin = sub.start;
            }
            counts += sub.counts;
            latency.add(&sub.latency);
        }
        if counts.requests < at_least {
            begin = Timestamp::default();
        }
        let begin = begin.max(self.since.unwrap_or(now));
        Summary { counts, span: now.since(begin), latency: latency.into_sparse(), histogram: OnceLock::new() }
    }
}

impl Summary {
    /// Nothing happened, over no time.
    #[must_use]
    pub fn empty() -> Self {
        Self::new(Counts::default(), Duration::ZERO, LatencyCounts::default())
    }

    /// A summary of these counts and latencies over `span`.
    #[must_use]
    pub const fn new(counts: Counts, span: Duration, latency: LatencyCounts) -> Self {
        Self { counts, span, latency, histogram: OnceLock::new() }
    }

    /// The latency that this share of requests did not exceed, at most 3.2 % too high; none without requests.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        self.measured()
            .map(|histogram| Duration::from_micros(histogram.value_at_quantile(share.clamp(f64::MIN_POSITIVE, 1.0))))
    }

    /// Mean latency, within 3.2 %; none without requests.
    #[must_use]
    pub fn mean(&self) -> Option<Duration> {
        self.measured().map(|histogram| Duration::from_secs_f64(histogram.mean() / 1e6))
    }

    /// Largest latency, at most 3.2 % too high; none without requests.
    #[must_use]
    pub fn max(&self) -> Option<Duration> {
        self.measured().map(|histogram| Duration::from_micros(histogram.max()))
    }

    /// Requests a second over the span; 0 for an empty span.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a rate needs no more than 15 digits")]
    pub fn rps(&self) -> f64 {
        if self.span.is_zero() { 0.0 } else { self.counts.requests as f64 / self.span.as_secs_f64() }
    }

    fn measured(&self) -> Option<&Histogram<u64>> {
        let histogram = self.histogram.get_or_init(|| histogram(&self.latency));
        (!histogram.is_empty()).then_some(histogram)
    }
}

impl PartialEq for Summary {
    /// Whether the same happened; what was asked about it makes no difference.
    fn eq(&self, other: &Self) -> bool {
        self.counts == other.counts && self.span == other.span && self.latency == other.latency
    }
}

/// Latency counts by bucket, for summing many sparse ones.
struct Dense([u64; BUCKETS]);

impl Default for Dense {
    fn default() -> Self {
        Self([0; BUCKETS])
    }
}

impl Dense {
    fn add(&mut self, latency: &LatencyCounts) {
        for &(bucket, count) in &latency.0 {
            if let Some(sum) = self.0.get_mut(usize::from(bucket)) {
                *sum = sum.saturating_add(count);
            }
        }
    }

    fn into_sparse(self) -> LatencyCounts {
        let filled = (0_u16..).zip(self.0).filter(|&(_, count)| count > 0);
        LatencyCounts(filled.collect())
    }
}

fn merge(into: &mut LatencyCounts, latency: &LatencyCounts) {
    let last = u16::try_from(BUCKETS - 1).unwrap_or(u16::MAX);
    for &(bucket, count) in &latency.0 {
        let bucket = bucket.min(last);
        match into.0.binary_search_by_key(&bucket, |&(bucket, _)| bucket) {
            Ok(at) => into.0[at].1 = into.0[at].1.saturating_add(count),
            Err(at) => into.0.insert(at, (bucket, count)),
        }
    }
}

fn histogram(latency: &LatencyCounts) -> Histogram<u64> {
    let micros = |bucket: usize| u64::try_from(upper_edge(bucket).as_micros()).unwrap_or(u64::MAX);
    let mut histogram = Histogram::new_with_max(micros(BUCKETS - 1), DIGITS).expect("bounds and digits are constants");
    for &(bucket, count) in &latency.0 {
        histogram.saturating_record_n(micros(usize::from(bucket).min(BUCKETS - 1)), count.min(COUNT_MAX));
    }
    histogram
}

fn sub_window(at: Timestamp) -> Timestamp {
    Timestamp::from_millis(at.as_millis() - at.as_millis() % 1_000)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::engine::stats::latency::bucket_of;

    const START: u64 = 1_700_000_000_000;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(START + millis)
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn requests(requests: u64) -> Counts {
        Counts { requests, errors: 0 }
    }

    #[expect(clippy::cast_possible_truncation, reason = "there are 736 buckets")]
    fn latencies(all: &[Duration]) -> LatencyCounts {
        let mut counts = LatencyCounts::default();
        for latency in all {
            merge(&mut counts, &LatencyCounts(vec![(bucket_of(*latency) as u16, 1)]));
        }
        counts
    }

    /// Ten requests a second, ten drains a second.
    fn steady(from: u64, to: u64) -> Windows {
        let mut windows = Windows::default();
        windows.clear(at(from));
        for tick in (from..to).step_by(100) {
            windows.add(at(tick), requests(1), &LatencyCounts::default());
        }
        windows
    }

    #[test]
    fn a_window_sums_what_lies_within_it() {
        let windows = steady(0, 60_000);
        let summary = windows.last(at(60_000), seconds(10), 0);
        assert_eq!((summary.counts, summary.span), (requests(100), seconds(10)));
        assert!((summary.rps() - 10.0).abs() < 1e-9);
        let ragged = windows.last(at(60_500), seconds(10), 0);
        assert_eq!((ragged.counts, ragged.span), (requests(100), Duration::from_millis(10_500)));
    }

    #[test]
    fn a_window_reaches_back_for_requests_but_never_past_a_clear() {
        let mut windows = steady(0, 60_000);
        let summary = windows.last(at(60_000), seconds(10), 250);
        assert_eq!((summary.counts, summary.span), (requests(250), seconds(25)));
        let all = windows.last(at(60_000), seconds(10), 5_000);
        assert_eq!((all.counts, all.span), (requests(600), seconds(60)));
        windows.clear(at(60_250));
        windows.add(at(60_300), requests(7), &LatencyCounts::default());
        let cut = windows.last(at(61_250), seconds(10), 5_000);
        assert_eq!((cut.counts, cut.span), (requests(7), seconds(1)));
    }

    #[test]
    fn silence_counts_into_the_span_and_an_empty_window_has_no_latency() {
        let windows = steady(0, 1_000);
        let quiet = windows.last(at(30_000), seconds(10), 0);
        assert_eq!((quiet.counts, quiet.span), (Counts::default(), seconds(10)));
        assert_eq!((quiet.quantile(0.5), quiet.mean(), quiet.max()), (None, None, None));
        let fresh = Windows::default().last(at(5), seconds(10), 50);
        assert_eq!(fresh, Summary::empty());
        assert_eq!(fresh.rps().to_bits(), 0.0_f64.to_bits());
    }

    #[test]
    fn what_is_older_than_the_reach_is_forgotten() {
        let windows = steady(0, 2_000_000);
        assert_eq!(windows.ring.len(), 900);
        let all = windows.last(at(2_000_000), seconds(100_000), u64::MAX);
        assert_eq!((all.counts, all.span), (requests(9_000), seconds(900)));
    }

    #[test]
    fn a_clock_that_runs_backwards_and_a_wild_bucket_lose_nothing() {
        let mut windows = steady(0, 2_000);
        windows.add(at(500), requests(5), &LatencyCounts(vec![(u16::MAX, 5)]));
        let summary = windows.last(at(2_000), seconds(1), 0);
        assert_eq!(summary.counts, requests(15));
        assert_eq!(summary.max(), Some(upper_edge(BUCKETS - 1)));
    }

    #[test]
    fn questions_do_not_change_what_is_equal() {
        let one = Summary::new(requests(3), seconds(1), latencies(&[Duration::from_millis(3); 3]));
        let two = one.clone();
        assert!(one.quantile(0.5).is_some());
        assert_eq!(one, two);
    }

    #[test]
    fn neither_huge_counts_nor_odd_shares_break_a_quantile() {
        let summary =
            Summary::new(requests(u64::MAX), seconds(1), LatencyCounts(vec![(100, u64::MAX), (101, u64::MAX)]));
        for share in [f64::NAN, f64::NEG_INFINITY, -1.0, 0.0, 0.5] {
            assert_eq!(summary.quantile(share), Some(upper_edge(100)), "{share}");
        }
        for share in [0.500_001, 1.0, 2.0, f64::INFINITY] {
            assert_eq!(summary.quantile(share), Some(upper_edge(101)), "{share}");
        }
    }

    proptest! {
        #[test]
        fn sums_are_what_was_added(
            drains in prop::collection::vec((0..30_000_u64, 0..100_u64, 0..100_u64, 0..700_u16), 1..60),
            window in 1..40_u64,
        ) {
            let mut drains = drains;
            drains.sort_by_key(|drain| drain.0);
            let mut windows = Windows::default();
            windows.clear(at(0));
            for &(time, good, errors, bucket) in &drains {
                let counts = Counts { requests: good + errors, errors };
                windows.add(at(time), counts, &LatencyCounts(vec![(bucket, counts.requests)]));
            }
            let begin = 30_000_u64.saturating_sub(window * 1_000);
            let within = drains.iter().filter(|drain| drain.0 >= begin);
            let sum = within.fold(Counts::default(), |sum, &(_, good, errors, _)| sum + Counts { requests: good + errors, errors });
            let summary = windows.last(at(30_000), seconds(window), 0);
            prop_assert_eq!(summary.counts, sum);
            prop_assert_eq!(summary.latency.0.iter().map(|&(_, count)| count).sum::<u64>(), sum.requests);
        }

        #[test]
        fn latencies_are_at_most_a_32nd_too_high(
            micros in prop::collection::vec(1..100_000_000_u64, 1..200),
            share in 0.0..=1.0_f64,
        ) {
            let mut exact: Vec<Duration> = micros.iter().copied().map(Duration::from_micros).collect();
            exact.sort_unstable();
            let mut windows = Windows::default();
            windows.add(at(0), requests(micros.len() as u64), &latencies(&exact));
            let summary = windows.last(at(0), seconds(1), 0);
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "small")]
            let rank = ((share * exact.len() as f64).ceil() as usize).clamp(1, exact.len());
            let near = |got: Duration, exact: Duration| got >= exact && got <= exact + exact / 32;
            prop_assert!(near(summary.quantile(share).unwrap(), exact[rank - 1]));
            prop_assert!(near(summary.max().unwrap(), exact[exact.len() - 1]));
            let mean = exact.iter().sum::<Duration>() / u32::try_from(exact.len()).unwrap();
            let got = summary.mean().unwrap();
            prop_assert!(got + mean / 64 >= mean && got <= mean + mean / 30, "{:?}, not {:?}", got, mean);
        }
    }
}

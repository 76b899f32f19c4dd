//! What was seen of a service since the last weight change, and the strata of the running rollout.
//! Windows are cut at weight changes; a late request of an earlier generation counts in its own stratum only.

use std::{collections::VecDeque, time::Duration};

use crate::engine::{
    names::{Generation, VersionName},
    plan::Guard,
    samples::{Counts, SlotSamples},
    stats::{
        latency::LatencyCounts,
        share_test::News,
        window::{Summary, Windows},
    },
    time::Timestamp,
    weight::Weight,
};

/// Strata that late requests can still be counted in. Beyond it, a request has outlived so many weight changes
/// that dropping it costs a little evidence and no validity.
const STRATA_MAX: usize = 64;
/// For how long it is remembered that failures took long.
const SLOW_MEMORY: Duration = Duration::from_mins(10);

/// Windows by version, and the weights that were in force by generation.
#[derive(Debug, Clone)]
pub(super) struct Traffic {
    windows: Vec<(VersionName, Windows)>,
    generation: Generation,
    strata: VecDeque<Stratum>,
    cut_at: Timestamp,
    /// Finished evidence since the cut, by version.
    since_cut: Vec<(VersionName, Counts)>,
    longest_error_run: u64,
    /// When a version that is not the canary last failed slowly, and how long that took.
    slow_failure: Option<(Timestamp, Duration)>,
    /// While the canary is new: until when its errors, and until when its latencies are not counted.
    warming: Warming,
}

/// The weights of a generation.
#[derive(Debug, Clone, Copy)]
struct Stratum {
    generation: Generation,
    canary: Weight,
    /// What versions of an experiment have together.
    aside: Weight,
    /// From then on both sides' failures are in. Of what fails alike, but sooner at the canary, only the canary's would be
    /// counted at first.
    settled: Timestamp,
}

impl Stratum {
    /// The canary's share of what it and stable get.
    fn share(self) -> f64 {
        let both = self.aside.rest();
        if both == Weight::ZERO { 0.0 } else { f64::from(self.canary.ppm()) / f64::from(both.ppm()) }
    }
}

/// Where a canary's warm-up stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Warming {
    /// It had no weight yet in this rollout.
    Cold,
    /// Until then.
    Until { errors: Timestamp, latency: Timestamp, holds: Timestamp },
    /// It is judged.
    Over,
}

impl Traffic {
    pub(super) fn new(now: Timestamp) -> Self {
        Self {
            windows: Vec::new(),
            generation: Generation(0),
            strata: VecDeque::new(),
            cut_at: now,
            since_cut: Vec::new(),
            longest_error_run: 0,
            slow_failure: None,
            warming: Warming::Over,
        }
    }

    /// The weight changes with this generation: windows start empty, and a new stratum begins.
    pub(super) fn cut(&mut self, now: Timestamp, generation: Generation, weight: Weight) {
        self.cut_beside(now, generation, weight, Weight::ZERO);
    }

    /// The same while versions of an experiment have a share of their own.
    pub(super) fn cut_beside(&mut self, now: Timestamp, generation: Generation, canary: Weight, aside: Weight) {
        for (_, windows) in &mut self.windows {
            windows.clear(now);
        }
        self.since_cut.clear();
        self.cut_at = now;
        self.generation = generation;
        self.strata.retain(|stratum| stratum.generation != generation);
        let settled = now + self.settling(now);
        self.strata.push_back(Stratum { generation, canary, aside, settled });
        if self.strata.len() > STRATA_MAX {
            self.strata.pop_front();
        }
    }

    /// How long those failures took that others than the canary had of late.
    fn settling(&self, now: Timestamp) -> Duration {
        let recent = self.slow_failure.filter(|(at, _)| now.since(*at) <= SLOW_MEMORY);
        recent.map_or(Duration::ZERO, |(_, took)| took)
    }

    fn note_slow_failure(&mut self, now: Timestamp, took: Duration) {
        if took > Duration::ZERO && took >= self.settling(now) {
            self.slow_failure = Some((now, took));
        }
    }

    /// A new rollout: no earlier stratum is evidence in it.
    pub(super) fn forget_strata(&mut self) {
        self.strata.clear();
        self.longest_error_run = 0;
    }

    /// A new rollout: nothing before is evidence in it, and its canary is cold.
    pub(super) fn begin(&mut self) {
        self.forget_strata();
        self.warming = Warming::Cold;
    }

    /// The canary has weight now. The first time in a rollout, its warm-up begins.
    /// Holds wait for it only where a threshold does.
    pub(super) fn warm_up(&mut self, guard: &Guard, now: Timestamp) {
        if self.warming == Warming::Cold {
            let (errors, latency) = (now + guard.warmup.errors, now + guard.warmup.latency);
            let holds = if guard.latency.is_empty() { errors } else { errors.max(latency) };
            self.warming = Warming::Until { errors, latency, holds };
        }
    }

    /// Whether a hold waits for the canary to be warm.
    pub(super) fn is_warming(&self, now: Timestamp) -> bool {
        self.warm_at().is_some_and(|at| now < at)
    }

    /// When the canary is warm enough for holds to end, while it is not.
    pub(super) fn warm_at(&self) -> Option<Timestamp> {
        match self.warming {
            Warming::Until { holds, .. } => Some(holds),
            Warming::Cold | Warming::Over => None,
        }
    }

    /// Takes in what was drained of this service.
    pub(super) fn add(&mut self, now: Timestamp, slots: &[&SlotSamples], canary: Option<&VersionName>) {
        self.end_warm_up(now, canary);
        let nothing = LatencyCounts::default();
        for slot in slots {
            let is_canary = Some(&slot.version) == canary;
            let (errors_count, latency_counts) = if is_canary { self.counted(now) } else { (true, true) };
            if !is_canary {
                self.note_slow_failure(now, slot.slowest_failure);
            }
            let in_rollout = self.is_of_rollout(slot.weight_generation);
            if in_rollout && is_canary && errors_count {
                self.longest_error_run = self.longest_error_run.max(slot.longest_error_run);
            }
            if slot.weight_generation != self.generation || !errors_count {
                continue;
            }
            let counts = slot.sampled + slot.sticky;
            let latency = if latency_counts { &slot.latency } else { &nothing };
            windows_of(&mut self.windows, &slot.version).add(now, counts, latency);
            *entry(&mut self.since_cut, &slot.version) += counts;
        }
    }

    /// Whether the canary's errors count by now.
    pub(super) fn counts_errors(&self, now: Timestamp) -> bool {
        self.counted(now).0
    }

    /// Whether the canary's errors and latencies count.
    fn counted(&self, now: Timestamp) -> (bool, bool) {
        match self.warming {
            Warming::Until { errors, latency, .. } => (now >= errors, now >= latency),
            Warming::Cold | Warming::Over => (true, true),
        }
    }

    /// From here on the canary is judged like any other: what is required of it counts from now, too.
    fn end_warm_up(&mut self, now: Timestamp, canary: Option<&VersionName>) {
        let Warming::Until { errors, latency, holds } = self.warming else { return };
        let (end, canary) = (errors.max(latency), canary.cloned());
        if now < end {
            return;
        }
        self.warming = Warming::Over;
        if let Some(canary) = canary.filter(|_| holds > self.cut_at) {
            self.since_cut.retain(|(name, _)| *name != canary);
            windows_of(&mut self.windows, &canary).clear(now);
        }
    }

    /// What is news for the share test, by stratum of this rollout that has settled.
    pub(super) fn news(
        &self,
        now: Timestamp,
        slots: &[&SlotSamples],
        canary: &VersionName,
        stable: &VersionName,
    ) -> Vec<News> {
        let (_, latency_counts) = self.counted(now);
        let news = self.strata.iter().filter(|stratum| now >= stratum.settled).map(|stratum| {
            let of = |version| Drained::of(slots, stratum.generation, version);
            let (canary, stable) = (of(canary), of(stable));
            // Latencies of both kinds of routing are counted together: where some were sticky, none are by the draw alone.
            let by_draw = !canary.has_sticky && !stable.has_sticky;
            let latency = (latency_counts && by_draw).then_some((canary.latency, stable.latency));
            News { w: stratum.share(), canary: canary.sampled, stable: stable.sampled, latency }
        });
        news.filter(|news| news.canary.requests + news.stable.requests > 0).collect()
    }

    /// Whether requests of this weight generation belong to the running rollout.
    pub(super) fn is_of_rollout(&self, generation: Generation) -> bool {
        self.strata.iter().any(|stratum| stratum.generation == generation)
    }

    /// Whether they do, and what ended by now is evidence for the share test.
    pub(super) fn is_evidence(&self, generation: Generation, now: Timestamp) -> bool {
        self.strata.iter().any(|stratum| stratum.generation == generation && now >= stratum.settled)
    }

    pub(super) fn summary(&self, version: &VersionName, now: Timestamp, window: Duration, at_least: u64) -> Summary {
        let of = self.windows.iter().find(|(name, _)| name == version);
        of.map_or_else(
            || Windows::default().last(now, window, at_least),
            |(_, windows)| windows.last(now, window, at_least),
        )
    }

    /// Finished evidence of a version since the last weight change.
    pub(super) fn since_cut(&self, version: &VersionName) -> Counts {
        self.since_cut.iter().find(|(name, _)| name == version).map_or_else(Counts::default, |(_, counts)| *counts)
    }

    /// The weight generation in force.
    pub(super) const fn generation(&self) -> Generation {
        self.generation
    }

    /// When the weight last changed.
    pub(super) const fn cut_at(&self) -> Timestamp {
        self.cut_at
    }

    /// The canary's longest run of errors in this rollout.
    pub(super) const fn longest_error_run(&self) -> u64 {
        self.longest_error_run
    }

    /// Forgets versions that the file no longer names.
    pub(super) fn retain(&mut self, named: impl Fn(&VersionName) -> bool) {
        self.windows.retain(|(name, _)| named(name));
        self.since_cut.retain(|(name, _)| named(name));
    }
}

/// What was drained of one version and generation.
#[derive(Debug, Default)]
struct Drained {
    sampled: Counts,
    has_sticky: bool,
    latency: LatencyCounts,
}

impl Drained {
    fn of(slots: &[&SlotSamples], generation: Generation, version: &VersionName) -> Self {
        let of = |slot: &&&SlotSamples| slot.weight_generation == generation && slot.version == *version;
        slots.iter().filter(of).fold(Self::default(), |mut sum, slot| {
            sum.sampled += slot.sampled;
            sum.has_sticky |= slot.sticky.requests > 0;
            sum.latency.0.extend(&slot.latency.0);
            sum
        })
    }
}

fn windows_of<'a>(all: &'a mut Vec<(VersionName, Windows)>, version: &VersionName) -> &'a mut Windows {
    entry(all, version)
}

fn entry<'a, T: Default>(all: &'a mut Vec<(VersionName, T)>, version: &VersionName) -> &'a mut T {
    let index = all.iter().position(|(name, _)| name == version).unwrap_or_else(|| {
        all.push((version.clone(), T::default()));
        all.len() - 1
    });
    &mut all[index].1
}

//! Requests on virtual time: split as the published table says, each by its own draw, and counted when they end in the
//! slot of the weight generation in which they were routed. Decides nothing.

use std::{sync::Arc, time::Duration};

use super::{
    dice::Dice,
    latencies::{Latencies, MANY},
    model::{Paces, Weather},
};
use crate::engine::{
    endpoint::{Endpoint, Instance},
    names::Generation,
    samples::{Counts, EndpointSamples, FailedBuckets, InstanceSamples, Samples, SlotSamples},
    split::{BUCKETS, Bucket},
    stats::latency::{LatencyCounts, upper_edge},
    table::ServiceTable,
};

/// The requests under way, and the slots they are counted in.
#[derive(Debug, Default)]
pub(super) struct Traffic {
    under_way: Vec<Request>,
    slots: Vec<Slot>,
    /// Requests that the canary failed so far, counted when they were routed.
    pub(super) failed: u64,
}

/// A span of time, in milliseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    pub(super) from: u64,
    pub(super) until: u64,
}

#[derive(Debug, Clone, Copy)]
struct Request {
    ends: u64,
    slot: usize,
    client: Bucket,
    bucket: u16,
    is_error: bool,
}

/// Requests of one version that arrive in a span.
#[derive(Debug, Clone, Copy)]
struct Crowd<'a> {
    requests: u64,
    slot: usize,
    is_canary: bool,
    errors: f64,
    latencies: &'a Latencies,
}

/// As one worker counts.
#[derive(Debug)]
struct Slot {
    version: usize,
    generation: Generation,
    counts: Counts,
    failed: FailedBuckets,
    buckets: Vec<u16>,
    /// Latencies that were counted by the many.
    counted: Vec<(u16, u64)>,
    error_run: u64,
    longest_error_run: u64,
}

impl Traffic {
    /// Sends what arrives in the span under this table, and gives what ended in it, earlier requests included.
    pub(super) fn flow(
        &mut self,
        span: Span,
        rate: f64,
        weather: &Weather,
        table: &ServiceTable,
        paces: &Paces,
        dice: &mut Dice,
    ) -> Samples {
        self.finish(span.until);
        let of = [table.stable, table.canary.unwrap_or(table.stable)].map(|version| self.slot(version, table));
        let behaviours = [weather.stable, weather.canary];
        let latencies = behaviours.map(|behaviour| paces.of(behaviour.pace));
        let length = Duration::from_millis(span.until - span.from).as_secs_f64();
        let arrivals = dice.arrivals(rate * weather.rate * length);
        // Timeouts make errors of latencies; then each request is looked at.
        let in_time = latencies.iter().all(|of| of.longest() < table.timeouts.attempt);
        if arrivals >= MANY && in_time {
            let share = table.canary.map_or(0.0, |at| table.versions[at].weight.ratio());
            let of_canary = dice.successes(arrivals, share);
            for (arm, requests) in [arrivals - of_canary, of_canary].into_iter().enumerate() {
                let (errors, is_canary) = (behaviours[arm].errors, arm == 1);
                let crowd = Crowd { requests, slot: of[arm], is_canary, errors, latencies: latencies[arm] };
                self.crowd(span, crowd, table, dice);
            }
            return self.drain(table);
        }
        for _ in 0..arrivals {
            let client = Bucket::from_bits(dice.bits());
            let version = table.split.version_of(client);
            let arm = usize::from(table.canary == Some(version));
            let bucket = latencies[arm].draw(dice);
            let latency = upper_edge(usize::from(bucket));
            // A version that does not answer within the attempt's timeout has failed the request.
            let is_error = dice.chance(behaviours[arm].errors) || (latency >= table.timeouts.attempt);
            self.failed += u64::from(is_error && arm == 1);
            let length_ms = span.until - span.from;
            let arrives = Bucket::from_bits(dice.bits()).number();
            let arrives = span.from + u64::from(arrives) * length_ms / u64::from(BUCKETS);
            let taken = u64::try_from(latency.min(table.timeouts.attempt).as_millis()).unwrap_or(u64::MAX);
            // The other versions of an experiment behave as stable does, and are counted apart.
            let slot = if [table.stable, table.canary.unwrap_or(table.stable)].contains(&version) {
                of[arm]
            } else {
                self.slot(version, table)
            };
            let request = Request { ends: arrives.saturating_add(taken), slot, client, bucket, is_error };
            if request.ends < span.until {
                self.count(request);
            } else {
                self.under_way.push(request);
            }
        }
        self.drain(table)
    }

    /// The same for many requests at once: how many there are of each kind has the distribution that it would have if each
    /// were drawn. Only who is still under way at the end of the span is drawn one by one.
    fn crowd(&mut self, span: Span, crowd: Crowd<'_>, table: &ServiceTable, dice: &mut Dice) {
        let Crowd { requests, slot, is_canary, errors, latencies } = crowd;
        let length = span.until - span.from;
        let mut finished = Vec::new();
        for (bucket, count) in latencies.counts(requests, dice).0 {
            let taken = u64::try_from(upper_edge(usize::from(bucket)).as_millis()).unwrap_or(u64::MAX);
            // Who arrives in so many of the span's milliseconds, all alike, ends within it.
            let soon = length.saturating_sub(taken);
            let ended = dice.successes(count, ratio(soon, length));
            finished.push((bucket, ended));
            for _ in ended..count {
                let arrives = span.from + soon + below(length - soon, dice);
                let (client, is_error) = (client_of(is_canary, table, dice), dice.chance(errors));
                self.failed += u64::from(is_error && is_canary);
                self.under_way.push(Request { ends: arrives + taken, slot, client, bucket, is_error });
            }
        }
        let Some(counting) = self.slots.get_mut(slot) else { return };
        let mut left = finished.iter().map(|(_, count)| count).sum::<u64>();
        counting.counts.requests += left;
        counting.counted.extend(finished.into_iter().filter(|(_, count)| *count > 0));
        // In the order in which they end, which is any: from one error to the next.
        loop {
            let good = dice.until(errors);
            counting.error_run = if good.min(left) > 0 { 0 } else { counting.error_run };
            if good >= left {
                return;
            }
            left -= good + 1;
            counting.error_run += 1;
            counting.longest_error_run = counting.longest_error_run.max(counting.error_run);
            counting.counts.errors += 1;
            self.failed += u64::from(is_canary);
            if table.sticky.is_some() {
                counting.failed.buckets.push(client_of(is_canary, table, dice));
            }
        }
    }

    fn finish(&mut self, now: u64) {
        let mut at = 0;
        while let Some(request) = self.under_way.get(at).copied() {
            if request.ends < now {
                self.under_way.swap_remove(at);
                self.count(request);
            } else {
                at += 1;
            }
        }
    }

    fn slot(&mut self, version: usize, table: &ServiceTable) -> usize {
        let generation = table.weight_generation;
        let known = self.slots.iter().position(|slot| slot.version == version && slot.generation == generation);
        known.unwrap_or_else(|| {
            self.slots.push(Slot {
                version,
                generation,
                counts: Counts::default(),
                failed: FailedBuckets::default(),
                buckets: Vec::new(),
                counted: Vec::new(),
                error_run: 0,
                longest_error_run: 0,
            });
            self.slots.len() - 1
        })
    }

    fn count(&mut self, request: Request) {
        let Some(slot) = self.slots.get_mut(request.slot) else { return };
        slot.counts += Counts { requests: 1, errors: u64::from(request.is_error) };
        if request.is_error {
            slot.failed.buckets.push(request.client);
        }
        slot.buckets.push(request.bucket);
        slot.error_run = if request.is_error { slot.error_run + 1 } else { 0 };
        slot.longest_error_run = slot.longest_error_run.max(slot.error_run);
    }

    /// What was added since the last drain. With sticky clients every request is a sticky one.
    fn drain(&mut self, table: &ServiceTable) -> Samples {
        let mut slots = Vec::with_capacity(2);
        for slot in self.slots.iter_mut().filter(|slot| slot.counts.requests > 0) {
            let Some(version) = table.versions.get(slot.version) else { continue };
            let counts = std::mem::take(&mut slot.counts);
            let (sampled, sticky) = match table.sticky {
                None => (counts, Counts::default()),
                Some(_) => (Counts::default(), counts),
            };
            slots.push(SlotSamples {
                service: table.name.clone(),
                version: version.name.clone(),
                weight_generation: slot.generation,
                sampled,
                sticky,
                sticky_failed: std::mem::take(&mut slot.failed),
                latency: slot.latency(),
                longest_error_run: slot.longest_error_run,
                // Made-up requests end when they are made.
                slowest_failure: Duration::ZERO,
            });
        }
        Samples { slots, endpoints: well(table) }
    }
}

impl Slot {
    /// What was counted since the last time, in rising order of bucket.
    fn latency(&mut self) -> LatencyCounts {
        let LatencyCounts(mut counts) = LatencyCounts::of(&mut std::mem::take(&mut self.buckets));
        if !self.counted.is_empty() {
            counts.append(&mut self.counted);
            counts.sort_unstable_by_key(|(bucket, _)| *bucket);
            counts.dedup_by(|next, kept| {
                let same = next.0 == kept.0;
                kept.1 += if same { next.1 } else { 0 };
                same
            });
        }
        LatencyCounts(counts)
    }
}

/// A client that the split gives to this version: the canary has the lowest buckets.
fn client_of(is_canary: bool, table: &ServiceTable, dice: &mut Dice) -> Bucket {
    let weight = table.canary.map_or(0, |at| table.versions[at].weight.ppm());
    let (from, until) = if is_canary { (0, weight) } else { (weight, BUCKETS) };
    let number = u64::from(from) + below(u64::from(until - from), dice);
    u32::try_from(number).ok().and_then(Bucket::new).unwrap_or_else(|| Bucket::from_bits(0))
}

/// A number below `end`, all alike; 0 for 0.
fn below(end: u64, dice: &mut Dice) -> u64 {
    u64::try_from((u128::from(dice.bits()) * u128::from(end)) >> 64).unwrap_or(0)
}

#[expect(clippy::cast_precision_loss, reason = "milliseconds of a span")]
fn ratio(part: u64, all: u64) -> f64 {
    if all == 0 { 0.0 } else { part as f64 / all as f64 }
}

/// In a rehearsal every endpoint answers its health check.
fn well(table: &ServiceTable) -> Vec<EndpointSamples> {
    let asked = table.versions.iter().filter(|version| version.upstream.health.is_some());
    let seen = asked.map(|version| {
        let instance = |endpoint: &Endpoint| Instance { endpoint: endpoint.clone(), address: None };
        let known: Arc<[Instance]> = version.endpoints.iter().map(instance).collect();
        let news = known.iter().cloned().map(|instance| InstanceSamples {
            instance,
            checks: vec![Ok(())],
            error_runs: 0,
            last_error: "",
        });
        let news = news.collect();
        EndpointSamples { service: table.name.clone(), version: version.name.clone(), known, news }
    });
    seen.collect()
}

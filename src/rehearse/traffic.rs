//! Requests on virtual time: split as the published table says, each by its own draw, and counted when they end in the
//! slot of the weight generation in which they were routed. Decides nothing.

use std::{sync::Arc, time::Duration};

use super::{
    dice::Dice,
    model::{Paces, Weather},
};
use crate::engine::{
    endpoint::{Endpoint, Instance},
    names::Generation,
    samples::{Counts, EndpointSamples, FailedBuckets, InstanceSamples, Samples, SlotSamples},
    split::Bucket,
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

/// As one worker counts.
#[derive(Debug)]
struct Slot {
    version: usize,
    generation: Generation,
    counts: Counts,
    failed: FailedBuckets,
    buckets: Vec<u16>,
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
        for _ in 0..dice.arrivals(rate * weather.rate * length) {
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
            let arrives = span.from + u64::from(arrives) * length_ms / u64::from(crate::engine::split::BUCKETS);
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
                latency: sparse(&mut slot.buckets),
                longest_error_run: slot.longest_error_run,
            });
        }
        Samples { slots, endpoints: well(table) }
    }
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

/// Counts by bucket, in rising order; the list is empty afterwards.
fn sparse(buckets: &mut Vec<u16>) -> LatencyCounts {
    buckets.sort_unstable();
    let runs = buckets.chunk_by(PartialEq::eq);
    let counts = LatencyCounts(runs.filter_map(|run| run.first().map(|bucket| (*bucket, run.len() as u64))).collect());
    buckets.clear();
    counts
}

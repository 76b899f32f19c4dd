//! Where the workers' slots meet the control thread: recorders hand them in, the one reader takes differences,
//! a scrape takes totals. Workers are never stopped, and never wait for a reader.

use std::{
    collections::BTreeMap,
    mem,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use super::{
    refused::{Refused, RefusedReason},
    slot::{Slot, SlotKey},
    totals::Totals,
};
use crate::engine::{
    names::{Generation, ServiceName, VersionName},
    samples::{Counts, Samples, SlotSamples},
    stats::latency::{BUCKETS, LatencyCounts},
    table::Table,
};

/// All counters of the process.
#[derive(Debug)]
pub struct Hub {
    workers: Vec<PerWorker>,
    /// Readers alone take this lock.
    kept: Mutex<Kept>,
    reader_taken: AtomicBool,
}

#[derive(Debug, Default)]
struct PerWorker {
    /// New slots until the next read: a lock that is held for a push or a swap of one vector.
    fresh: Mutex<Vec<Arc<Slot>>>,
    refused: Refused,
}

/// One worker's way to its slots.
#[derive(Debug)]
pub struct Recorder {
    hub: Arc<Hub>,
    worker: usize,
    /// Weak, so that a slot nobody writes to any more can go.
    slots: Vec<Weak<Slot>>,
}

/// The way to the differences. There is one, for the control thread: each fact is handed out once.
#[derive(Debug)]
pub struct Reader {
    hub: Arc<Hub>,
}

impl Hub {
    /// A hub for so many workers.
    #[must_use]
    pub fn new(workers: usize) -> Arc<Self> {
        Arc::new(Self {
            workers: (0..workers).map(|_| PerWorker::default()).collect(),
            kept: Mutex::default(),
            reader_taken: AtomicBool::new(false),
        })
    }

    /// The recorder of a worker, to be used by that worker alone.
    ///
    /// # Panics
    /// When `worker` is not under the number that the hub was made for.
    #[must_use]
    pub fn recorder(self: &Arc<Self>, worker: usize) -> Recorder {
        assert!(worker < self.workers.len(), "worker {worker} of {}", self.workers.len());
        Recorder { hub: Arc::clone(self), worker, slots: Vec::new() }
    }

    /// The reader; none when it was taken before.
    #[must_use]
    pub fn reader(self: &Arc<Self>) -> Option<Reader> {
        (!self.reader_taken.swap(true, Relaxed)).then(|| Reader { hub: Arc::clone(self) })
    }

    /// Counts something that the proxy itself refused.
    ///
    /// # Panics
    /// When `worker` is not under the number that the hub was made for.
    pub fn refused(&self, worker: usize, reason: RefusedReason) {
        self.workers[worker].refused.count(reason);
    }

    /// Refusals since the process started, of all workers.
    #[must_use]
    pub fn refused_total(&self, reason: RefusedReason) -> u64 {
        self.workers.iter().map(|worker| worker.refused.total(reason)).sum()
    }

    /// The slots that were not let go yet. Holding one keeps it.
    #[must_use]
    pub fn slots(&self) -> Vec<Arc<Slot>> {
        self.lock_kept().live.iter().map(|live| Arc::clone(&live.slot)).collect()
    }

    /// What was counted since the process started. Takes nothing away from the reader; no counter goes back from one
    /// call to the next, except by [`Hub::forget_unconfigured`].
    #[must_use]
    pub fn totals(&self) -> Totals {
        let kept = self.lock_kept();
        let mut totals = kept.carried.clone();
        for live in &kept.live {
            totals.add(&live.slot);
        }
        totals.refused = RefusedReason::ALL.map(|reason| self.refused_total(reason));
        totals
    }

    /// To be called when another table is in force: forgets the totals of versions that are no longer configured, or
    /// a process that sees a new version every day would remember all of them. Slots that still have writers are
    /// read until those are done.
    pub fn forget_unconfigured(&self, table: &Table) {
        let configured = |service: &ServiceName, version: &VersionName| {
            let mut services = table.services.iter().filter(|s| s.name == *service);
            services.any(|s| s.versions.iter().any(|v| v.name == *version))
        };
        let mut kept = self.lock_kept();
        kept.carried.series.retain(|series, _| configured(&series.service, &series.version));
        for live in &mut kept.live {
            live.configured = configured(&live.slot.key().service, &live.slot.key().version);
        }
    }

    /// The slots, with those that were handed in since the last look.
    fn lock_kept(&self) -> MutexGuard<'_, Kept> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        for worker in &self.workers {
            let fresh = mem::take(&mut *worker.fresh.lock().unwrap_or_else(PoisonError::into_inner));
            kept.live.extend(fresh.into_iter().map(Live::new));
        }
        kept
    }
}

impl Recorder {
    /// This worker's slot for a key, found or made. Takes a lock only to make one; keep the result for as long as
    /// requests may be counted under the key.
    pub fn slot(&mut self, key: SlotKey) -> Arc<Slot> {
        self.slots.retain(|slot| slot.strong_count() > 0);
        if let Some(found) = self.slots.iter().filter_map(Weak::upgrade).find(|slot| *slot.key() == key) {
            return found;
        }
        let slot = Arc::new(Slot::new(key));
        self.slots.push(Arc::downgrade(&slot));
        let mut fresh = self.hub.workers[self.worker].fresh.lock().unwrap_or_else(PoisonError::into_inner);
        fresh.push(Arc::clone(&slot));
        slot
    }
}

impl Reader {
    /// What was counted since the last call, merged over workers: one entry for each version and weight generation
    /// with news, in rising order. Over all calls nothing is lost and nothing comes twice.
    ///
    /// Slots of older weight generations that nobody writes to any more are read a last time and let go.
    pub fn drain(&mut self) -> Samples {
        let mut kept = self.hub.lock_kept();
        let newest = newest_generations(&kept.live);
        let mut news = News::default();
        for mut live in mem::take(&mut kept.live) {
            let key = live.slot.key();
            let needed = live.configured && newest.get(&key.service) == Some(&key.weight_generation);
            // Succeeds only when no writer is left, and then none can come back: what is read after it is final.
            match if needed { Err(live.slot) } else { Arc::try_unwrap(live.slot) } {
                Ok(slot) => {
                    news.add(&slot, &mut live.seen);
                    if live.configured {
                        kept.carried.add(&slot);
                    }
                }
                Err(slot) => {
                    news.add(&slot, &mut live.seen);
                    live.slot = slot;
                    kept.live.push(live);
                }
            }
        }
        news.into_samples()
    }
}

/// What the reading side holds.
#[derive(Debug, Default)]
struct Kept {
    live: Vec<Live>,
    /// The totals of slots that were let go.
    carried: Totals,
}

/// A slot that may still be written to, and what of it was handed out already.
#[derive(Debug)]
struct Live {
    slot: Arc<Slot>,
    seen: Seen,
    configured: bool,
}

impl Live {
    fn new(slot: Arc<Slot>) -> Self {
        let seen = Seen { evidence: Default::default(), latency: Box::new([0; BUCKETS]) };
        Self { slot, seen, configured: true }
    }
}

#[derive(Debug)]
struct Seen {
    evidence: [Counts; 2],
    latency: Box<[u64; BUCKETS]>,
}

/// Differences, as they are merged over workers.
#[derive(Debug, Default)]
struct News(BTreeMap<(ServiceName, VersionName, Generation), Merged>);

#[derive(Debug, Default)]
struct Merged {
    evidence: [Counts; 2],
    latency: BTreeMap<u16, u64>,
    longest_error_run: u64,
}

impl News {
    fn add(&mut self, slot: &Slot, seen: &mut Seen) {
        let SlotKey { service, version, weight_generation, .. } = slot.key().clone();
        let merged = self.0.entry((service, version, weight_generation)).or_default();
        let totals = slot.evidence_totals();
        for ((merged, seen), (requests, errors)) in merged.evidence.iter_mut().zip(&mut seen.evidence).zip(totals) {
            *merged += Counts { requests: requests - seen.requests, errors: errors - seen.errors };
            *seen = Counts { requests, errors };
        }
        for (bucket, seen) in (0_u16..).zip(seen.latency.iter_mut()) {
            let total = slot.latency_total(usize::from(bucket));
            if total > *seen {
                *merged.latency.entry(bucket).or_default() += total - *seen;
                *seen = total;
            }
        }
        merged.longest_error_run = merged.longest_error_run.max(slot.longest_error_run());
    }

    fn into_samples(self) -> Samples {
        let changed =
            |merged: &Merged| merged.evidence.iter().any(|counts| counts.requests > 0) || !merged.latency.is_empty();
        let slots = self.0.into_iter().filter(|(_, merged)| changed(merged));
        let slots = slots.map(|((service, version, weight_generation), merged)| {
            let [sampled, sticky] = merged.evidence;
            SlotSamples {
                service,
                version,
                weight_generation,
                sampled,
                sticky,
                latency: LatencyCounts(merged.latency.into_iter().collect()),
                longest_error_run: merged.longest_error_run,
            }
        });
        Samples { slots: slots.collect() }
    }
}

fn newest_generations(live: &[Live]) -> BTreeMap<ServiceName, Generation> {
    let mut newest: BTreeMap<ServiceName, Generation> = BTreeMap::new();
    for key in live.iter().map(|live| live.slot.key()) {
        let generation = newest.entry(key.service.clone()).or_default();
        *generation = key.weight_generation.max(*generation);
    }
    newest
}

#[cfg(test)]
mod tests {
    use std::{thread, time::Duration};

    use super::*;
    use crate::{
        engine::{
            endpoint::{Endpoint, UpstreamHttp},
            names::Role,
            split::{Reason, Split},
            table::{ServiceTable, Timeouts, VersionTable},
            weight::Weight,
        },
        measure::slot::{Ending, Finished},
    };

    fn key(version: &str, generation: u64) -> SlotKey {
        SlotKey {
            service: ServiceName::new("web").unwrap(),
            version: VersionName::new(version).unwrap(),
            role: Role::Canary,
            weight_generation: Generation(generation),
        }
    }

    fn done(ending: Ending, reason: Reason, us: u64) -> Finished {
        let status = if ending == Ending::Answered { 200 } else { 500 };
        Finished { reason, status, ending, latency: Duration::from_micros(us) }
    }

    const GOOD: Finished =
        Finished { reason: Reason::Sampled, status: 200, ending: Ending::Answered, latency: Duration::from_millis(3) };
    const BAD: Finished = Finished {
        reason: Reason::Sampled,
        status: 500,
        ending: Ending::ErrorStatus,
        latency: Duration::from_millis(3),
    };

    fn requests(samples: &Samples) -> u64 {
        samples.slots.iter().map(|slot| slot.sampled.requests + slot.sticky.requests).sum()
    }

    fn requests_in_totals(totals: &Totals) -> u64 {
        totals.series.values().flat_map(|series| series.codes.values()).sum()
    }

    #[test]
    fn nothing_is_lost_and_nothing_comes_twice_while_workers_write() {
        const EACH: u64 = 40_000;
        let hub = Hub::new(2);
        let mut reader = hub.reader().unwrap();
        let writers: Vec<_> = (0..2)
            .map(|worker| {
                let mut recorder = hub.recorder(worker);
                thread::spawn(move || {
                    for n in 0..EACH {
                        // Ten weight generations, found again for each request, so that slots also go and come.
                        let slot = recorder.slot(key("v2", n / (EACH / 10)));
                        let ending = if n % 3 == 0 { Ending::Reset } else { Ending::Answered };
                        let reason = if n % 2 == 0 { Reason::Sampled } else { Reason::Sticky };
                        slot.finished(done(ending, reason, n));
                    }
                })
            })
            .collect();
        let (mut sampled, mut sticky, mut latencies) = (Counts::default(), Counts::default(), 0);
        let mut by_generation = BTreeMap::new();
        let mut last_total = 0;
        let mut take = |samples: Samples| {
            for slot in samples.slots {
                assert!(slot.sampled.errors <= slot.sampled.requests, "{slot:?}");
                assert!(slot.sticky.errors <= slot.sticky.requests, "{slot:?}");
                sampled += slot.sampled;
                sticky += slot.sticky;
                latencies += slot.latency.0.iter().map(|(_, count)| count).sum::<u64>();
                *by_generation.entry(slot.weight_generation).or_insert(0) +=
                    slot.sampled.requests + slot.sticky.requests;
            }
        };
        while !writers.iter().all(thread::JoinHandle::is_finished) {
            take(reader.drain());
            let total = requests_in_totals(&hub.totals());
            assert!(total >= last_total, "a scrape went back from {last_total} to {total}");
            last_total = total;
        }
        for writer in writers {
            writer.join().unwrap();
        }
        take(reader.drain());
        take(reader.drain());
        assert_eq!(sampled.requests + sticky.requests, 2 * EACH);
        assert_eq!(sampled.errors + sticky.errors, 2 * EACH.div_ceil(3));
        assert_eq!(sampled.requests, EACH);
        assert_eq!(latencies, 2 * EACH);
        assert!(by_generation.values().all(|count| *count == 2 * EACH / 10), "{by_generation:?}");
        assert_eq!(requests_in_totals(&hub.totals()), 2 * EACH);
    }

    #[test]
    fn workers_are_merged_and_the_longest_run_is_the_longest_of_one_worker() {
        let hub = Hub::new(2);
        let mut reader = hub.reader().unwrap();
        let (mut first, mut second) = (hub.recorder(0), hub.recorder(1));
        let (first, second) = (first.slot(key("v2", 7)), second.slot(key("v2", 7)));
        for _ in 0..3 {
            first.finished(BAD);
        }
        for _ in 0..5 {
            second.finished(BAD);
        }
        second.finished(GOOD);
        let samples = reader.drain();
        assert_eq!(samples.slots.len(), 1);
        assert_eq!(samples.slots[0].sampled, Counts { requests: 9, errors: 8 });
        assert_eq!(samples.slots[0].latency.0.len(), 1);
        assert_eq!(samples.slots[0].latency.0[0].1, 9);
        assert_eq!(samples.slots[0].longest_error_run, 5);
        assert_eq!(reader.drain(), Samples::default(), "no news, no entry");
        first.finished(done(Ending::Answered, Reason::Forced, 5));
        assert_eq!(reader.drain(), Samples::default(), "a forced request is no evidence");
    }

    #[test]
    fn a_late_finisher_arrives_under_the_generation_it_was_routed_in() {
        let hub = Hub::new(1);
        let mut reader = hub.reader().unwrap();
        let mut recorder = hub.recorder(0);
        let old = recorder.slot(key("v2", 1));
        reader.drain();
        let new = recorder.slot(key("v2", 2));
        new.finished(GOOD);
        reader.drain();
        old.finished(BAD);
        let late = reader.drain();
        assert_eq!(late.slots.len(), 1);
        assert_eq!(late.slots[0].weight_generation, Generation(1));
        assert_eq!(late.slots[0].sampled, Counts { requests: 1, errors: 1 });
        old.finished(GOOD);
        drop(old);
        assert_eq!(requests(&reader.drain()), 1, "the last read takes all");
    }

    #[test]
    fn slots_that_nobody_writes_to_go_and_their_totals_stay() {
        let hub = Hub::new(1);
        let mut reader = hub.reader().unwrap();
        let mut recorder = hub.recorder(0);
        for generation in 0..1_000 {
            recorder.slot(key("v2", generation)).finished(GOOD);
            assert_eq!(requests(&reader.drain()), 1);
            let live = hub.lock_kept().live.len();
            assert!(live <= 2, "{live} slots are kept");
        }
        assert!(recorder.slots.len() <= 2, "the recorder remembers {}", recorder.slots.len());
        let totals = hub.totals();
        assert_eq!(totals.series.len(), 1);
        assert_eq!(requests_in_totals(&totals), 1_000);
        let series = totals.series.values().next().unwrap();
        assert_eq!(series.latency_us, 3_000_000);
        assert_eq!(series.endings[Ending::Answered as usize], 1_000);
    }

    #[test]
    fn the_newest_generation_is_kept_and_found_again() {
        let hub = Hub::new(1);
        let mut reader = hub.reader().unwrap();
        let mut recorder = hub.recorder(0);
        recorder.slot(key("v2", 1)).finished(BAD);
        reader.drain();
        recorder.slot(key("v2", 1)).finished(BAD);
        assert_eq!(reader.drain().slots[0].longest_error_run, 2, "it is the same slot");
    }

    #[test]
    fn a_version_that_is_no_longer_configured_is_forgotten_once_its_writers_are_done() {
        let hub = Hub::new(1);
        let mut reader = hub.reader().unwrap();
        let mut recorder = hub.recorder(0);
        for version in ["v1", "v2"] {
            recorder.slot(key(version, 1)).finished(GOOD);
            recorder.slot(key(version, 2)).finished(GOOD);
        }
        let busy = recorder.slot(key("v1", 2));
        reader.drain();
        hub.forget_unconfigured(&table_of("v2"));
        busy.finished(GOOD);
        assert_eq!(requests(&reader.drain()), 1, "a writer is heard to the end");
        assert!(hub.totals().series.keys().any(|series| series.version.as_str() == "v1"));
        drop(busy);
        reader.drain();
        let totals = hub.totals();
        assert!(totals.series.keys().all(|series| series.version.as_str() == "v2"), "{:?}", totals.series.keys());
        assert_eq!(requests_in_totals(&totals), 2);
    }

    #[test]
    fn there_is_one_reader() {
        let hub = Hub::new(0);
        assert!(hub.reader().is_some());
        assert!(hub.reader().is_none());
    }

    fn table_of(version: &str) -> Table {
        let version = VersionTable {
            name: VersionName::new(version).unwrap(),
            role: Role::Stable,
            weight: Weight::FULL,
            endpoints: vec![Endpoint { host: "127.0.0.1".into(), port: 1 }],
            http: UpstreamHttp::H1,
        };
        let service = ServiceTable {
            name: ServiceName::new("web").unwrap(),
            weight_generation: Generation(2),
            versions: vec![version],
            stable: 0,
            canary: None,
            split: Split::new(&[(0, Weight::FULL)]).unwrap(),
            force_header: None,
            sticky: None,
            timeouts: Timeouts::default(),
        };
        Table { generation: Generation(2), services: vec![service] }
    }
}

//! Where the workers' slots meet the control thread: recorders hand them in, the one reader takes differences,
//! a scrape takes totals. Workers are never stopped, and never wait for a reader.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    mem,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use super::{
    endpoints::{Endpoints, Known, Tally, TallyKey},
    fast_path::{FastPath, FastPathOutcome},
    refused::{Refused, RefusedReason},
    slot::{Slot, SlotKey, SlowFailures, slowest},
    totals::Totals,
    traces::Traces,
};
use crate::engine::{
    endpoint::Instance,
    names::{Generation, ServiceName, VersionName},
    samples::{Counts, FailedBuckets, Samples, SlotSamples},
    stats::latency::{BUCKETS, LatencyCounts},
    table::{ServiceTable, Table},
};

/// All counters of the process.
#[derive(Debug)]
pub struct Hub {
    workers: Vec<PerWorker>,
    /// Readers alone take this lock.
    kept: Mutex<Kept>,
    endpoints: Endpoints,
    reader_taken: AtomicBool,
    access_log_dropped: AtomicU64,
    traces: Traces,
    accept_failures: AtomicU64,
}

#[derive(Debug, Default)]
struct PerWorker {
    /// New slots until the next read: a lock that is held for a push or a swap of one vector.
    fresh: Mutex<Vec<Arc<Slot>>>,
    refused: Refused,
    fast_path: FastPath,
}

/// One worker's way to its slots.
#[derive(Debug)]
pub struct Recorder {
    hub: Arc<Hub>,
    worker: usize,
    /// Weak, so that a slot nobody writes to any more can go.
    slots: HashMap<SlotKey, Weak<Slot>>,
    /// At so many of them those that went are looked for.
    tidied_at: usize,
}

/// Slots of a recorder among which those that went are looked for each time.
const FEW_SLOTS: usize = 64;

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
            endpoints: Endpoints::default(),
            reader_taken: AtomicBool::new(false),
            access_log_dropped: AtomicU64::new(0),
            traces: Traces::default(),
            accept_failures: AtomicU64::new(0),
        })
    }

    /// The recorder of a worker, to be used by that worker alone.
    ///
    /// # Panics
    /// When `worker` is not under the number that the hub was made for.
    #[must_use]
    pub fn recorder(self: &Arc<Self>, worker: usize) -> Recorder {
        assert!(worker < self.workers.len(), "worker {worker} of {}", self.workers.len());
        Recorder { hub: Arc::clone(self), worker, slots: HashMap::new(), tidied_at: 0 }
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

    /// The counter of an instance's errors in a row. Takes a lock: keep it for as long as attempts are made there.
    pub fn tally(&self, key: TallyKey) -> Arc<Tally> {
        self.endpoints.tally(key)
    }

    /// Says which endpoints there are of the versions whose endpoints are watched.
    pub fn known_endpoints(&self, known: Vec<Known>) {
        self.endpoints.known(known);
    }

    /// Says how a health check of an instance of a version ended; why, where it failed.
    pub fn checked(&self, whose: (ServiceName, VersionName, Instance), outcome: Result<(), Arc<str>>) {
        self.endpoints.checked(whose, outcome);
    }

    /// Counts a line of the access log that there was no room for.
    pub fn access_log_dropped(&self) {
        self.access_log_dropped.fetch_add(1, Relaxed);
    }

    /// The way of traces to their exporter.
    #[must_use]
    pub const fn traces(&self) -> &Traces {
        &self.traces
    }

    /// Counts a waiting connection that could not be accepted for now.
    pub fn accept_failed(&self) {
        self.accept_failures.fetch_add(1, Relaxed);
    }

    /// Refusals since the process started, of all workers.
    #[must_use]
    pub fn refused_total(&self, reason: RefusedReason) -> u64 {
        self.workers.iter().map(|worker| worker.refused.total(reason)).sum()
    }

    /// Counts what the fast path did with a request. For the worker's own thread alone.
    ///
    /// # Panics
    /// When `worker` is not under the number that the hub was made for.
    pub fn fast_path(&self, worker: usize, outcome: FastPathOutcome) {
        self.workers[worker].fast_path.count(outcome);
    }

    /// What the fast path did since the process started, over all workers.
    #[must_use]
    pub fn fast_path_total(&self, outcome: FastPathOutcome) -> u64 {
        self.workers.iter().map(|worker| worker.fast_path.total(outcome)).sum()
    }

    /// The slots that were not let go yet. Holding one keeps it.
    #[must_use]
    pub fn slots(&self) -> Vec<Arc<Slot>> {
        self.lock_kept().live.iter().map(|live| Arc::clone(&live.slot)).collect()
    }

    /// What was counted since the process started. Takes nothing away from the reader; no counter goes back from one
    /// call to the next, except by [`Reader::forget_unconfigured`].
    #[must_use]
    pub fn totals(&self) -> Totals {
        let kept = self.lock_kept();
        let mut totals = kept.carried.clone();
        for live in &kept.live {
            totals.add(&live.slot);
        }
        totals.refused = RefusedReason::ALL.map(|reason| self.refused_total(reason));
        totals.accept_failures = self.accept_failures.load(Relaxed);
        totals.access_log_dropped = self.access_log_dropped.load(Relaxed);
        [totals.traces_exported, totals.traces_dropped] = self.traces.totals();
        totals.fast_path = FastPathOutcome::ALL.map(|outcome| self.fast_path_total(outcome));
        totals
    }

    /// The slots, with those that were handed in since the last look.
    fn lock_kept(&self) -> MutexGuard<'_, Kept> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        for worker in &self.workers {
            let fresh = mem::take(&mut *worker.fresh.lock().unwrap_or_else(PoisonError::into_inner));
            for slot in fresh {
                kept.take_in(slot);
            }
        }
        kept
    }
}

impl Recorder {
    /// This worker's slot for a key, found or made. Takes a lock only to make one; keep the result for as long as
    /// requests may be counted under the key.
    pub fn slot(&mut self, key: SlotKey) -> Arc<Slot> {
        if let Some(found) = self.slots.get(&key).and_then(Weak::upgrade) {
            return found;
        }
        // What is weak still takes its memory.
        if self.slots.len() <= FEW_SLOTS || self.slots.len() >= self.tidied_at {
            self.slots.retain(|_, slot| slot.strong_count() > 0);
            self.tidied_at = 2 * self.slots.len();
        }
        let slot = Arc::new(Slot::new(key.clone()));
        self.slots.insert(key, Arc::downgrade(&slot));
        let mut fresh = self.hub.workers[self.worker].fresh.lock().unwrap_or_else(PoisonError::into_inner);
        fresh.push(Arc::clone(&slot));
        slot
    }
}

impl Reader {
    /// To be called when another table is in force: forgets the totals of versions that are no longer configured, or
    /// a process that sees a new version every day would remember all of them. Slots that still have writers are
    /// read until those are done.
    pub fn forget_unconfigured(&mut self, table: &Table) {
        let versions = |service: &ServiceTable| {
            service.versions.iter().map(|version| version.name.clone()).collect::<HashSet<_>>()
        };
        let known: HashMap<_, _> = table.services.iter().map(|service| (&service.name, versions(service))).collect();
        let configured = |service: &ServiceName, version: &VersionName| {
            known.get(service).is_some_and(|versions| versions.contains(version))
        };
        let mut kept = self.hub.lock_kept();
        kept.carried.series.retain(|series, _| configured(&series.service, &series.version));
        for live in &mut kept.live {
            live.configured = configured(&live.slot.key().service, &live.slot.key().version);
        }
    }

    /// What was counted since the last call, merged over workers: one entry for each version and weight generation
    /// with news, in rising order. Over all calls nothing is lost and nothing comes twice.
    ///
    /// Slots of older weight generations that nobody writes to any more are read a last time and let go.
    pub fn drain(&mut self) -> Samples {
        let mut kept = self.hub.lock_kept();
        let mut news = News::default();
        for mut live in mem::take(&mut kept.live) {
            let needed = live.configured && !live.is_outdated;
            // Succeeds only when no writer is left, and then none can come back: what is read after it is final.
            match if needed { Err(live.slot) } else { Arc::try_unwrap(live.slot) } {
                Ok(slot) => {
                    news.add_last(&slot, &mut live.seen);
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
        Samples { slots: news.into_slots(), endpoints: self.hub.endpoints.drain() }
    }
}

/// What the reading side holds.
#[derive(Debug, Default)]
struct Kept {
    live: Vec<Live>,
    /// The totals of slots that were let go.
    carried: Totals,
    /// The newest weight generation of each service that a slot was seen of.
    newest: HashMap<ServiceName, Generation>,
}

impl Kept {
    fn take_in(&mut self, slot: Arc<Slot>) {
        let SlotKey { service, weight_generation, .. } = slot.key();
        let newest = self.newest.entry(service.clone()).or_insert(*weight_generation);
        let is_outdated = *newest > *weight_generation;
        if *newest < *weight_generation {
            *newest = *weight_generation;
            for former in self.live.iter_mut().filter(|live| live.slot.key().service == *service) {
                former.is_outdated = true;
            }
        }
        self.live.push(Live::new(slot, is_outdated));
    }
}

/// A slot that may still be written to, and what of it was handed out already.
#[derive(Debug)]
struct Live {
    slot: Arc<Slot>,
    seen: Seen,
    configured: bool,
    /// Its service has a newer weight generation.
    is_outdated: bool,
}

impl Live {
    fn new(slot: Arc<Slot>, is_outdated: bool) -> Self {
        let latency = Box::new([0; BUCKETS]);
        let seen = Seen { evidence: Default::default(), latency, failed: 0, slow: SlowFailures::default() };
        Self { slot, seen, configured: true, is_outdated }
    }
}

#[derive(Debug)]
struct Seen {
    evidence: [Counts; 2],
    latency: Box<[u64; BUCKETS]>,
    failed: u64,
    slow: SlowFailures,
}

/// Differences, as they are merged over workers.
#[derive(Debug, Default)]
struct News(BTreeMap<(ServiceName, VersionName, Generation), Merged>);

#[derive(Debug, Default)]
struct Merged {
    evidence: [Counts; 2],
    latency: BTreeMap<u16, u64>,
    failed: FailedBuckets,
    longest_error_run: u64,
    slowest_failure: Duration,
}

impl News {
    /// What a slot counted since it was seen. Where no evidence came there is no more to be read: a request's
    /// latency is written before it is evidence.
    fn add(&mut self, slot: &Slot, seen: &mut Seen) {
        let totals = seen.evidence.map(|counts| (counts.requests, counts.errors));
        if slot.evidence_totals() != totals || slot.failed_total() != seen.failed {
            self.add_last(slot, seen);
        }
    }

    /// The same, whatever came.
    fn add_last(&mut self, slot: &Slot, seen: &mut Seen) {
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
        let failed = slot.failed_since(&mut seen.failed);
        merged.failed.buckets.extend(failed.buckets);
        merged.failed.is_incomplete |= failed.is_incomplete;
        merged.longest_error_run = merged.longest_error_run.max(slot.longest_error_run());
        let failures = slot.slow_failures();
        merged.slowest_failure = merged.slowest_failure.max(slowest(&seen.slow, &failures));
        seen.slow = failures;
    }

    fn into_slots(self) -> Vec<SlotSamples> {
        let changed = |merged: &Merged| {
            let counted = merged.evidence.iter().any(|counts| counts.requests > 0);
            counted || !merged.latency.is_empty() || merged.failed != FailedBuckets::default()
        };
        let slots = self.0.into_iter().filter(|(_, merged)| changed(merged));
        let slots = slots.map(|((service, version, weight_generation), merged)| {
            let [sampled, sticky] = merged.evidence;
            SlotSamples {
                service,
                version,
                weight_generation,
                sampled,
                sticky,
                sticky_failed: merged.failed,
                latency: LatencyCounts(merged.latency.into_iter().collect()),
                longest_error_run: merged.longest_error_run,
                slowest_failure: merged.slowest_failure,
            }
        });
        slots.collect()
    }
}

#[cfg(test)]
mod tests;

//! What is seen of endpoints: which there are, how their health checks ended, and runs of errors. A run is counted by
//! all workers together, and costs a good answer one look at a shared number. Decides nothing.

use std::{
    collections::VecDeque,
    mem,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed},
    },
};

use super::slot::Ending;
use crate::engine::{
    endpoint::Instance,
    names::{ServiceName, VersionName},
    samples::{EndpointSamples, InstanceSamples},
};

/// Ends of health checks that are kept until they are read; the oldest go first.
const CHECKS_MAX: usize = 4_096;

/// Whose errors in a row are counted.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TallyKey {
    /// Which service.
    pub service: ServiceName,
    /// Which version.
    pub version: VersionName,
    /// Which of its instances.
    pub instance: Instance,
    /// How many errors in a row make a run; at least one.
    pub run: u32,
}

/// The errors in a row of one instance.
#[derive(Debug)]
pub struct Tally {
    key: TallyKey,
    in_a_row: AtomicU32,
    runs: AtomicU64,
    last: AtomicU8,
}

impl Tally {
    /// Takes in how an attempt ended. What the client broke, and what the proxy's own limits refused, says nothing.
    pub fn ended(&self, ending: Ending) {
        match ending {
            Ending::ClientGone | Ending::Overloaded => {}
            Ending::Answered => {
                // Written only where there was an error: the number is shared by all workers.
                if self.in_a_row.load(Relaxed) != 0 {
                    self.in_a_row.store(0, Relaxed);
                }
            }
            _ => {
                self.last.store(ending as u8, Relaxed);
                if self.in_a_row.fetch_add(1, Relaxed) + 1 >= self.key.run {
                    self.in_a_row.store(0, Relaxed);
                    self.runs.fetch_add(1, Relaxed);
                }
            }
        }
    }
}

/// The endpoints of one version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// Which service.
    pub service: ServiceName,
    /// Which version.
    pub version: VersionName,
    /// All that are known now.
    pub instances: Arc<[Instance]>,
}

/// All of it, until the next read.
#[derive(Debug, Default)]
pub(super) struct Endpoints(Mutex<Seen>);

#[derive(Debug, Default)]
struct Seen {
    known: Vec<Known>,
    tallies: Vec<Arc<Tally>>,
    checks: VecDeque<Checked>,
}

#[derive(Debug)]
struct Checked {
    service: ServiceName,
    version: VersionName,
    instance: Instance,
    outcome: Result<(), Arc<str>>,
}

impl Endpoints {
    /// Counts errors in a row from now on; the same counter for whoever asks by the same key.
    pub(super) fn tally(&self, key: TallyKey) -> Arc<Tally> {
        let mut seen = self.lock();
        if let Some(known) = seen.tallies.iter().find(|tally| tally.key == key) {
            return Arc::clone(known);
        }
        let tally =
            Arc::new(Tally { key, in_a_row: AtomicU32::new(0), runs: AtomicU64::new(0), last: AtomicU8::new(0) });
        seen.tallies.push(Arc::clone(&tally));
        tally
    }

    /// These are all there are.
    pub(super) fn known(&self, known: Vec<Known>) {
        self.lock().known = known;
    }

    /// A health check ended.
    pub(super) fn checked(
        &self,
        (service, version, instance): (ServiceName, VersionName, Instance),
        outcome: Result<(), Arc<str>>,
    ) {
        let mut seen = self.lock();
        let surplus = (seen.checks.len() + 1).saturating_sub(CHECKS_MAX);
        seen.checks.drain(..surplus);
        seen.checks.push_back(Checked { service, version, instance, outcome });
    }

    /// What was seen since the last call; each check and each run once.
    pub(super) fn drain(&self) -> Vec<EndpointSamples> {
        let mut seen = self.lock();
        // Who holds a counter may still count. With no holder left none can come back.
        let (held, left): (Vec<_>, _) =
            mem::take(&mut seen.tallies).into_iter().partition(|one| Arc::strong_count(one) > 1);
        let runs: Vec<_> = held
            .iter()
            .chain(&left)
            .map(|tally| (&tally.key, tally.runs.swap(0, Relaxed), tally.last.load(Relaxed)))
            .filter(|(_, runs, _)| *runs > 0)
            .collect();
        let checks = mem::take(&mut seen.checks);
        let samples = seen.known.iter().map(|known| {
            let of =
                |service: &ServiceName, version: &VersionName| *service == known.service && *version == known.version;
            let mut news: Vec<InstanceSamples> = Vec::new();
            for Checked { instance, outcome, .. } in checks.iter().filter(|check| of(&check.service, &check.version)) {
                entry(&mut news, instance).checks.push(outcome.clone());
            }
            for (key, runs, last) in runs.iter().filter(|(key, ..)| of(&key.service, &key.version)) {
                let entry = entry(&mut news, &key.instance);
                entry.error_runs += runs;
                entry.last_error = Ending::ALL.get(usize::from(*last)).map_or("", |ending| ending.as_str());
            }
            let Known { service, version, instances } = known.clone();
            EndpointSamples { service, version, known: instances, news }
        });
        let samples = samples.collect();
        seen.tallies = held;
        samples
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn entry<'a>(news: &'a mut Vec<InstanceSamples>, instance: &Instance) -> &'a mut InstanceSamples {
    let at = news.iter().position(|of| of.instance == *instance).unwrap_or_else(|| {
        news.push(InstanceSamples { instance: instance.clone(), checks: Vec::new(), error_runs: 0, last_error: "" });
        news.len() - 1
    });
    &mut news[at]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::endpoint::Endpoint;

    fn key(run: u32) -> TallyKey {
        TallyKey {
            service: ServiceName::new("web").unwrap(),
            version: VersionName::new("v2").unwrap(),
            instance: Instance { endpoint: Endpoint::tcp("app", 80), address: None },
            run,
        }
    }

    fn watched(key: &TallyKey) -> Endpoints {
        let endpoints = Endpoints::default();
        let TallyKey { service, version, instance, .. } = key.clone();
        endpoints.known(vec![Known { service, version, instances: [instance].into() }]);
        endpoints
    }

    fn runs(endpoints: &Endpoints) -> u64 {
        endpoints.drain().iter().flat_map(|of| &of.news).map(|news| news.error_runs).sum()
    }

    #[test]
    fn a_good_answer_ends_a_run_and_what_is_nobodys_fault_does_not() {
        let key = key(3);
        let (endpoints, again) = (watched(&key), key.clone());
        let (one, other) = (endpoints.tally(key), endpoints.tally(again));
        for ending in [Ending::Reset, Ending::ErrorStatus, Ending::Answered, Ending::TimedOut, Ending::ClientGone] {
            one.ended(ending);
        }
        one.ended(Ending::Truncated);
        assert_eq!(runs(&endpoints), 0);
        other.ended(Ending::Overloaded);
        other.ended(Ending::ConnectFailed);
        let seen = endpoints.drain();
        assert_eq!((seen[0].news[0].error_runs, seen[0].news[0].last_error), (1, "connect_failed"));
        assert_eq!(runs(&endpoints), 0, "each run once");
    }

    #[test]
    fn a_run_that_nobody_counts_any_more_is_still_read_and_then_forgotten() {
        let key = key(1);
        let endpoints = watched(&key);
        let tally = endpoints.tally(key);
        tally.ended(Ending::Reset);
        drop(tally);
        assert_eq!(runs(&endpoints), 1);
        assert!(endpoints.lock().tallies.is_empty());
    }

    #[test]
    fn checks_that_nobody_reads_do_not_pile_up() {
        let TallyKey { service, version, instance, .. } = key(1);
        let endpoints = watched(&key(1));
        for _ in 0..2 * CHECKS_MAX {
            endpoints.checked((service.clone(), version.clone(), instance.clone()), Err("no".into()));
        }
        endpoints.checked((service, version, instance), Ok(()));
        let seen = endpoints.drain();
        assert_eq!((seen[0].news[0].checks.len(), seen[0].news[0].checks.last()), (CHECKS_MAX, Some(&Ok(()))));
    }
}

//! Where the workers' recorders meet: hands out slots and finds them again for the reader.
//! Nothing here runs per request.

use std::sync::{Arc, Mutex, PoisonError};

use super::{
    refused::{Refused, RefusedReason},
    slot::{Slot, SlotKey},
};

/// All counters of the process.
#[derive(Debug)]
pub struct Hub {
    workers: Vec<PerWorker>,
}

#[derive(Debug, Default)]
struct PerWorker {
    slots: Mutex<Vec<Arc<Slot>>>,
    refused: Refused,
}

impl Hub {
    /// Room for so many workers.
    #[must_use]
    pub fn new(workers: usize) -> Arc<Self> {
        Arc::new(Self { workers: (0..workers).map(|_| PerWorker::default()).collect() })
    }

    /// The recorder of one worker; one each.
    #[must_use]
    pub fn recorder(self: &Arc<Self>, worker: usize) -> Recorder {
        Recorder { hub: Arc::clone(self), worker }
    }

    /// Counts something that the proxy itself refused.
    pub fn refused(&self, worker: usize, reason: RefusedReason) {
        if let Some(of) = self.workers.get(worker) {
            of.refused.count(reason);
        }
    }

    /// Refusals so far, of all workers.
    #[must_use]
    pub fn refused_total(&self, reason: RefusedReason) -> u64 {
        self.workers.iter().map(|of| of.refused.total(reason)).sum()
    }

    /// All slots of all workers.
    #[must_use]
    pub fn slots(&self) -> Vec<Arc<Slot>> {
        self.workers.iter().flat_map(|of| of.slots.lock().unwrap_or_else(PoisonError::into_inner).clone()).collect()
    }
}

/// One worker's way to its slots.
#[derive(Debug)]
pub struct Recorder {
    hub: Arc<Hub>,
    worker: usize,
}

impl Recorder {
    /// The slot of a key, made when there is none yet. Off the request path: a lock and a search.
    pub fn slot(&mut self, key: SlotKey) -> Arc<Slot> {
        let Some(of) = self.hub.workers.get(self.worker) else { return Arc::new(Slot::new(key)) };
        let mut slots = of.slots.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = slots.iter().find(|slot| *slot.key() == key) {
            return Arc::clone(found);
        }
        let made = Arc::new(Slot::new(key));
        slots.push(Arc::clone(&made));
        made
    }
}

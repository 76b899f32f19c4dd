//! Carries out what the engine asks for: persist, then publish, then tell. A withdrawal of the canary does not wait
//! for the disk. A decision that could not be persisted is neither published nor told.

use std::{
    collections::VecDeque,
    sync::{Arc, PoisonError, atomic::Ordering::Relaxed},
};

use tracing::{error, info, warn};

use super::handle::{HISTORY_MAX, Shared};
use crate::{
    engine::{
        effect::{Decision, Effect},
        event::{Event, EventKind},
        memory::{EvidenceMemory, Memory},
        names::Generation,
        table::Table,
        time::Timestamp,
        weight::Weight,
    },
    publish::Publication,
    store::Store,
    words,
};

/// A decision could not be remembered: what the disk said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alarm(pub String);

/// Store, publication and listeners.
#[derive(Debug)]
pub struct Hands {
    store: Store,
    publication: Publication,
    shared: Arc<Shared>,
    /// Decided and in force, but not on disk yet, since the disk failed. One for each service at most: nothing else
    /// is decided without the disk.
    backlog: VecDeque<Decision>,
}

impl Hands {
    /// Hands that remember here, publish there and tell those.
    #[must_use]
    pub const fn new(store: Store, publication: Publication, shared: Arc<Shared>) -> Self {
        Self { store, publication, shared, backlog: VecDeque::new() }
    }

    /// Does everything in order and gives the last event of it.
    pub(super) fn carry_out(&mut self, effects: Vec<Effect>) -> Result<Option<Event>, Alarm> {
        let (decisions, tables) = sorted(effects);
        for (table, _) in tables.iter().filter(|(_, withdrawal)| *withdrawal) {
            self.publication.publish(Arc::clone(table));
        }
        if !decisions.is_empty() {
            self.flush().map_err(|error| Alarm(error.to_string()))?;
        }
        for (done, decision) in decisions.iter().enumerate() {
            if let Err(error) = self.store.append(decision) {
                // Those before it are remembered, so they belong to the history.
                self.tell(decisions[..done].to_vec());
                return Err(Alarm(error.to_string()));
            }
        }
        for (table, _) in tables {
            self.publication.publish(table);
        }
        Ok(self.tell(decisions))
    }

    /// What must be in force although the disk failed: published and told now, written when the disk allows.
    pub(super) fn carry_out_unremembered(&mut self, effects: Vec<Effect>) {
        let (decisions, tables) = sorted(effects);
        for (table, _) in tables {
            self.publication.publish(table);
        }
        self.backlog.extend(decisions.iter().cloned());
        self.tell(decisions);
    }

    /// Tries again to write what waits.
    pub(super) fn retry(&mut self) {
        let waiting = self.backlog.len();
        match self.flush() {
            Ok(()) if waiting > 0 => info!(decisions = waiting, "the state folder can be written again"),
            Ok(()) => {}
            Err(error) => error!(waiting, "the state folder still cannot be written: {error}"),
        }
    }

    /// Losing this costs evidence, not safety, so a failure is only logged. What was refused is taken off the disk.
    pub(super) fn save_evidence(&mut self, evidence: &[EvidenceMemory], now: Timestamp) {
        let saved = self.store.save_evidence(evidence, now);
        let mended = self.store.mend();
        let is_writable = saved.is_ok() && mended.is_ok() && self.backlog.is_empty();
        self.shared.state_writable.store(is_writable, Relaxed);
        if let Err(error) = mended {
            error!("what could not be remembered is still on the disk, and a restart would find it: {error}");
        }
        if let Err(error) = saved {
            warn!("the share test's state could not be saved: {error}");
        }
    }

    /// The memory as the disk has it, and what waits for the disk.
    pub(super) fn remembered(&self) -> Memory {
        let mut memory = self.store.memory().clone();
        for Decision { event, memory: of } in &self.backlog {
            memory.sequence = event.sequence;
            memory.services.retain(|known| known.service != of.service);
            memory.services.push(of.clone());
        }
        memory
    }

    /// The table in force.
    pub(super) fn generation(&self) -> Generation {
        self.publication.current().generation
    }

    fn flush(&mut self) -> std::io::Result<()> {
        while let Some(decision) = self.backlog.front() {
            self.store.append(decision)?;
            self.backlog.pop_front();
        }
        Ok(())
    }

    fn tell(&self, decisions: Vec<Decision>) -> Option<Event> {
        let mut last = None;
        for Decision { event, .. } in decisions {
            let mut history = self.shared.history.lock().unwrap_or_else(PoisonError::into_inner);
            log(&event, words::weight_before(history.iter(), &event));
            history.push_back(event.clone());
            let surplus = history.len().saturating_sub(HISTORY_MAX);
            history.drain(..surplus);
            drop(history);
            // Nobody listening is no failure.
            let _listeners = self.shared.events.send(event.clone());
            last = Some(event);
        }
        last
    }
}

type Tables = Vec<(Arc<Table>, bool)>;

fn sorted(effects: Vec<Effect>) -> (Vec<Decision>, Tables) {
    let (mut decisions, mut tables) = (Vec::new(), Vec::new());
    for effect in effects {
        match effect {
            Effect::Persist(decision) => decisions.push(*decision),
            Effect::Publish { table, withdrawal } => tables.push((table, withdrawal)),
            // Asked by the driver: nothing waits for it.
            Effect::Measure(_) | Effect::Consult(_) => {}
        }
    }
    (decisions, tables)
}

fn log(event: &Event, before: Option<Weight>) {
    let sentence = words::sentence(event, before);
    let (service, revision) = (&event.service, event.revision.0);
    if event.kind == EventKind::Aborted {
        warn!(%service, revision, "{sentence}");
    } else {
        info!(%service, revision, "{sentence}");
    }
}

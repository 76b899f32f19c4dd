//! Beside a process that is being replaced: what it decided is served as it stands on disk, and nothing is decided until
//! its lock on the state folder is free. Follows what it still decides, within a moment.

use std::{
    collections::VecDeque,
    path::Path,
    sync::{Arc, PoisonError},
    time::Duration,
};

use tokio::sync::mpsc;
use tracing::{error, info, warn};

use super::{
    driver::StartError,
    edge::Edge,
    handle::{ConfigStatus, Handle, Message, Shared},
    source::Source,
};
use crate::{
    clock::Clock,
    engine::{Engine, Recovered, event::Event, input::Input, memory::Memory, names::Generation, time::Timestamp},
    publish::Publication,
    store::{self, OpenError, Store},
};

/// How often the lock is tried, and the other's decisions are looked at.
const LOOK: Duration = Duration::from_millis(50);

/// What a driver that comes later takes over.
#[derive(Debug)]
pub(super) struct Stage {
    pub(super) publication: Publication,
    pub(super) edge: Edge,
    pub(super) handle: Handle,
    pub(super) shared: Arc<Shared>,
    pub(super) inbox: mpsc::Receiver<Message>,
}

impl Stage {
    /// With the first table in force.
    pub(super) fn new(
        source: &Source,
        engine: &Engine,
        now: Timestamp,
        history: VecDeque<Event>,
    ) -> Result<Self, StartError> {
        let publication = Publication::new(engine.table());
        let edge = Edge::start(&source.config, publication.clone()).map_err(StartError::Settings)?;
        let path = source.path.display().to_string();
        let status = ConfigStatus { path, loaded: now, loads: 1, failures: 0, error: None, needs_restart: Vec::new() };
        let (handle, shared, inbox) = Handle::new(engine.view(now), status, history);
        Ok(Self { publication, edge, handle, shared, inbox })
    }

    /// With the next table in force, and what has happened until then.
    pub(super) fn at(self, engine: &Engine, history: VecDeque<Event>) -> Self {
        // An equal table is as good.
        let _newer = self.publication.publish(engine.table());
        *self.shared.history.lock().unwrap_or_else(PoisonError::into_inner) = history;
        self
    }
}

/// A process that serves, and waits for its turn to decide.
#[derive(Debug)]
pub struct Standby {
    pub(super) source: Source,
    pub(super) stage: Stage,
    known: Memory,
}

impl Standby {
    /// Serves what is remembered in the folder.
    ///
    /// # Errors
    /// When the engine refuses the file as it is, or a certificate cannot be used.
    pub fn start(source: Source, remembered: store::Recovered) -> Result<Self, StartError> {
        let now = Clock::start(remembered.latest).now();
        let known = remembered.memory.clone();
        let engine = preview(&source, remembered.memory, Generation(0))?;
        let stage = Stage::new(&source, &engine, now, VecDeque::from(remembered.history))?;
        Ok(Self { source, stage, known })
    }

    /// Where the table is published.
    #[must_use]
    pub const fn publication(&self) -> &Publication {
        &self.stage.publication
    }

    /// A handle on the control plane to be; what is asked of it waits.
    #[must_use]
    pub const fn handle(&self) -> &Handle {
        &self.stage.handle
    }

    /// Waits until the folder is free, and opens it.
    pub async fn turn(&mut self) -> (Store, store::Recovered) {
        let dir = self.source.config.state.dir.clone();
        let mut complained = false;
        loop {
            match Store::open(&dir) {
                Ok(opened) => {
                    info!("the state folder is free: from now on this process decides");
                    return opened;
                }
                Err(OpenError::InUse { .. }) => self.follow(&dir),
                Err(other) if !complained => {
                    complained = true;
                    error!("serving on without deciding: {other}");
                }
                Err(_) => {}
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    fn follow(&mut self, dir: &Path) {
        let Ok(remembered) = Store::peek(dir) else { return };
        if remembered.memory == self.known {
            return;
        }
        self.known.clone_from(&remembered.memory);
        let generation = self.stage.publication.current().generation;
        match preview(&self.source, remembered.memory, generation) {
            Ok(engine) => drop(self.stage.publication.publish(engine.table())),
            Err(refused) => warn!("what the other process decided cannot be followed: {refused}"),
        }
    }
}

/// The engine as it would stand; what it would do is not done.
fn preview(source: &Source, memory: Memory, generation: Generation) -> Result<Engine, StartError> {
    let now = Clock::start(Timestamp::default()).now();
    let mut engine = Engine::new(Recovered { memory, evidence: Vec::new(), distrust: None, generation });
    engine.apply(Input::Configure(source.config.plan()), now, &mut Vec::new())?;
    Ok(engine)
}

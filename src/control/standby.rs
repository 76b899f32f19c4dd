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
    engine::{
        Engine, Recovered,
        event::Event,
        input::{Input, Refusal},
        memory::Memory,
        names::Generation,
        plan::Plan,
        time::Timestamp,
    },
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

/// What another process decided, as it stands on disk. Decides nothing itself.
#[derive(Debug)]
pub struct Shadow {
    known: Memory,
}

impl Shadow {
    /// What is remembered, and the engine as it stands by that.
    ///
    /// # Errors
    /// When the engine refuses the plan as it is.
    pub fn of(memory: Memory, plan: Plan, now: Timestamp) -> Result<(Self, Engine), Refusal> {
        let engine = preview(memory.clone(), plan, Generation(0), now)?;
        Ok((Self { known: memory }, engine))
    }

    /// Publishes what the other process has decided since.
    ///
    /// # Errors
    /// When the engine refuses the plan beside that.
    pub fn follow(
        &mut self,
        memory: Memory,
        plan: impl FnOnce() -> Plan,
        publication: &Publication,
        now: Timestamp,
    ) -> Result<(), Refusal> {
        if memory == self.known {
            return Ok(());
        }
        self.known.clone_from(&memory);
        let engine = preview(memory, plan(), publication.current().generation, now)?;
        publication.publish(engine.table());
        Ok(())
    }
}

/// A process that serves, and waits for its turn to decide.
#[derive(Debug)]
pub struct Standby {
    pub(super) source: Source,
    pub(super) stage: Stage,
    shadow: Shadow,
}

impl Standby {
    /// Serves what is remembered in the folder.
    ///
    /// # Errors
    /// When the engine refuses the file as it is, or a certificate cannot be used.
    pub fn start(source: Source, remembered: store::Recovered) -> Result<Self, StartError> {
        let now = Clock::start(remembered.latest).now();
        let (shadow, engine) = Shadow::of(remembered.memory, source.config.plan(), now)?;
        let stage = Stage::new(&source, &engine, now, VecDeque::from(remembered.history))?;
        Ok(Self { source, stage, shadow })
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
        let now = Clock::start(remembered.latest).now();
        let plan = || self.source.config.plan();
        if let Err(refused) = self.shadow.follow(remembered.memory, plan, &self.stage.publication, now) {
            warn!("what the other process decided cannot be followed: {refused}");
        }
    }
}

/// The engine as it would stand, had nothing come to the file since: a wish that the other process does not know is not followed
/// before its time.
fn preview(memory: Memory, mut plan: Plan, generation: Generation, now: Timestamp) -> Result<Engine, Refusal> {
    for service in &mut plan.services {
        let known = memory.services.iter().find(|known| known.service == service.name);
        service.wish = known.and_then(|known| known.seen.clone());
    }
    let mut engine = Engine::new(Recovered { memory, evidence: Vec::new(), distrust: None, generation });
    engine.apply(Input::Configure(plan), now, &mut Vec::new())?;
    Ok(engine)
}

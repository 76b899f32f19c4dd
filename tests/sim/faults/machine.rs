//! A machine: its disk, its clock, the file, and the process, while there is one. What a process does is done by the
//! product's own code; what is here kills it, cheats it, and remembers what it was seen to do.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use serin::{
    control::{
        decider::{Decider, Outcome},
        effects::Hands,
        handle::{CommandError, ConfigStatus, Handle},
    },
    engine::{
        Engine, Recovered,
        analysis::ask::Question,
        effect::Effect,
        event::Event,
        input::{Command, Input, Verb},
        names::{Generation, ServiceName},
        plan::ServicePlan,
        table::Table,
        time::Timestamp,
        weight::Weight,
    },
    publish::Publication,
};

use tokio::sync::broadcast;

use super::{
    checks::{Looked, Watch, canary_weight, only_takes},
    disk::Disk,
};
use crate::world::Dice;

/// A machine with several services on it.
pub struct Machine {
    pub disk: Disk,
    /// What the wall clock says, which people may set.
    pub wall: Timestamp,
    /// The file as it was last saved and not refused.
    pub file: Vec<ServicePlan>,
    pub process: Option<Process>,
    /// Everything that was ever told, as a listener heard it, as far as the disk had it.
    pub told: Vec<Event>,
    pub questions: Vec<Question>,
    /// The longest way down that any file has named.
    pub longest_ramp: Duration,
    pub watch: Watch,
}

/// A process of it.
pub struct Process {
    pub decider: Decider,
    publication: Publication,
    handle: Handle,
    listener: broadcast::Receiver<Event>,
    unwritten: Vec<Event>,
    /// As the product's clock: the wall's at the start, or the latest time that was remembered, and then steady.
    pub now: Timestamp,
    saved: Timestamp,
    /// Told and in force, but perhaps not on the disk: it failed in this life.
    pub disk_failed: bool,
}

/// When in the course of its effects a process is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kill {
    /// Not in this input.
    Never,
    /// Somewhere between its first effect and its last, drawn when it is known what they are.
    Amidst,
}

impl Machine {
    pub fn new(file: Vec<ServicePlan>) -> Self {
        let wall = Timestamp::from_millis(1_700_000_000_000);
        let longest_ramp = file.iter().map(|plan| plan.strategy.policy.abort_ramp).max().unwrap_or_default();
        let (told, questions, watch) = (Vec::new(), Vec::new(), Watch::default());
        Self { disk: Disk::new(), wall, file, process: None, told, questions, longest_ramp, watch }
    }

    /// Starts a process, if the disk lets it.
    pub fn start(&mut self) -> Option<()> {
        let before = self.disk.peek();
        let (store, recovered) = self.disk.open().ok()?;
        let now = self.wall.max(recovered.latest);
        let distrust = recovered.trouble.clone();
        let mut engine = Engine::new(Recovered {
            memory: recovered.memory,
            evidence: recovered.evidence,
            distrust,
            generation: Generation(0),
        });
        let mut effects = Vec::new();
        // A file that cannot be followed is said, and no process starts; nobody writes one here.
        engine.apply(Input::Configure(self.file.clone().into()), now, &mut effects).unwrap();
        let publication = Publication::new(engine.table());
        let path = String::new();
        let status = ConfigStatus { path, loaded: now, loads: 1, failures: 0, error: None, needs_restart: Vec::new() };
        let (handle, shared, _inbox) = Handle::new(engine.view(now), status, VecDeque::from(recovered.history));
        let listener = handle.subscribe();
        let hands = Hands::new(store, publication.clone(), shared);
        let decider = Decider::begin(engine, effects, hands, || self.file.clone().into(), now).ok()?;
        let process = Process {
            decider,
            publication,
            handle,
            listener,
            unwritten: Vec::new(),
            now,
            saved: now,
            disk_failed: false,
        };
        let first = process.publication.current();
        self.process = Some(process);
        let history = self.hear_all();
        self.watch = Watch::started(&history, &before, &self.told, &first);
        self.tell(history);
        Some(())
    }

    /// Kills the process where it stands.
    pub fn kill(&mut self) {
        self.process = None;
        self.questions.clear();
    }

    /// Time passes, for the wall and for the process.
    pub fn wait(&mut self, duration: Duration) {
        self.wall = self.wall + duration;
        if let Some(process) = &mut self.process {
            process.now = process.now + duration;
        }
    }

    /// The table that requests are routed by; none while nobody serves.
    pub fn table(&self) -> Option<Arc<Table>> {
        self.process.as_ref().map(|process| process.publication.current())
    }

    /// Hands an input in. Gives what was answered, or nothing when the process was killed amidst it; then `seen` is the
    /// last table that a request was routed by.
    pub fn apply(&mut self, input: Input, kill: Kill, dice: &mut Dice) -> Option<Result<(), CommandError>> {
        let process = self.process.as_mut()?;
        let now = process.now;
        let length = self.disk.journal_length();
        if kill == Kill::Amidst {
            let (mut engine, mut effects) = (process.decider.engine().clone(), Vec::new());
            if engine.apply(input.clone(), now, &mut effects).is_ok() && !effects.is_empty() {
                only_takes(&process.publication.current(), &effects);
                self.die_amidst(input, &effects, length, dice);
                return None;
            }
        }
        let (file, is_look) = (self.file.clone(), matches!(input, Input::Measured(_)));
        // Plans of this world have no gates.
        let Outcome { questions, gates: _, told } = process.decider.apply(input, now, || file.into());
        let disk_failed = matches!(told, Err(CommandError::Storage(_)));
        if disk_failed {
            process.disk_failed = true;
            let table = process.publication.current();
            let left = table.services.iter().find(|service| canary_weight(service) > Weight::ZERO);
            assert_eq!(left, None, "without a disk it is stable only");
        }
        self.questions.extend(questions);
        let heard = self.hear();
        let mut watch = std::mem::take(&mut self.watch);
        watch.check(self, &heard, Looked { at_time: is_look, at_runs: !disk_failed });
        self.watch = watch;
        self.tell(heard);
        Some(told.map(|_| ()))
    }

    /// All is carried out, and then taken back from the disk as far as it had not come: writes are appended one after the
    /// other, so any length between is one that a crash leaves. Nothing of it was told.
    fn die_amidst(&mut self, input: Input, effects: &[Effect], before: u64, dice: &mut Dice) {
        let Some(process) = self.process.as_mut() else { return };
        let (now, file) = (process.now, self.file.clone());
        process.decider.apply(input, now, || file.into());
        let after = self.disk.journal_length();
        let decides = effects.iter().any(|effect| matches!(effect, Effect::Persist(_)));
        self.kill();
        if decides && after > before {
            // Whole records as often as torn ones: their ends are where most can go wrong.
            let length = match dice.below(4) {
                0 => before,
                1 => after,
                _ => before + dice.below(after - before + 1),
            };
            self.disk.cut_journal(length);
        }
    }

    /// What a listener hears, who has been there since the start.
    fn hear(&mut self) -> Vec<Event> {
        let Some(process) = self.process.as_mut() else { return Vec::new() };
        std::iter::from_fn(|| process.listener.try_recv().ok()).collect()
    }

    /// What who comes now is told of the past.
    fn hear_all(&mut self) -> Vec<Event> {
        self.hear();
        self.process.as_ref().map(Process::history).unwrap_or_default()
    }

    /// People know it now. What is in force without a disk is told before it is written, and says so: nobody may rely on it.
    fn tell(&mut self, heard: Vec<Event>) {
        let Some(process) = self.process.as_mut() else { return };
        process.disk_failed |= self.disk.is_sick();
        let known = self.told.last().map_or(0, |event| event.sequence);
        process.unwritten.extend(heard.into_iter().filter(|event| event.sequence > known));
        if process.unwritten.is_empty() {
            return;
        }
        let written = if process.disk_failed { self.disk.peek().memory.sequence } else { u64::MAX };
        let is_written = |event: &Event| event.sequence <= written;
        let until = process.unwritten.iter().position(|event| !is_written(event)).unwrap_or(process.unwritten.len());
        self.told.extend(process.unwritten.drain(..until));
    }

    /// Each second, as the driver does.
    pub fn save(&mut self) {
        let Some(process) = self.process.as_mut() else { return };
        if process.now.since(process.saved) >= Duration::from_secs(1) {
            process.saved = process.now;
            self.disk.keep_evidence();
            process.decider.save(process.now);
        }
    }

    /// A person or a script asks for something.
    pub fn order(
        &mut self,
        service: &ServiceName,
        verb: Verb,
        kill: Kill,
        dice: &mut Dice,
    ) -> Option<Result<(), CommandError>> {
        let (service, actor, reason) = (service.clone(), "test".to_owned(), String::new());
        let command = Command { service, verb, actor, reason, expect_revision: None };
        self.apply(Input::Command(command), kill, dice)
    }

    /// The file is saved. A refused one stays what it is for the editor only.
    pub fn edit(&mut self, file: Vec<ServicePlan>, kill: Kill, dice: &mut Dice) {
        if self.process.is_none() {
            return;
        }
        let outcome = self.apply(Input::Configure(file.clone().into()), kill, dice);
        // Whoever is killed amidst it finds the new file at its next start.
        if !matches!(outcome, Some(Err(_))) {
            let longest = file.iter().map(|plan| plan.strategy.policy.abort_ramp).max();
            self.longest_ramp = self.longest_ramp.max(longest.unwrap_or_default());
            self.file = file;
        }
    }
}

impl Process {
    /// What a listener knows.
    pub fn history(&self) -> Vec<Event> {
        self.handle.history()
    }
}

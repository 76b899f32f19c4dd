//! A machine: its disk, its clock, the file, and the process, while there is one, with perhaps a second one that waits. What
//! a process does is done by the product's own code; what is here kills it, cheats it, and remembers what it was seen to do.

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
        event::Event,
        input::{Command, Input, Verb},
        names::{Generation, ServiceName},
        plan::ServicePlan,
        table::Table,
        time::Timestamp,
        weight::Weight,
    },
    publish::Publication,
    store::{Outbox, Recovered as Remembered},
};

use tokio::sync::broadcast;

use super::{
    beside::Beside,
    checks::{Looked, Watch, canary_weight, only_takes},
    clients::Clients,
    disk::{Death, Disk},
    messages::{Courier, Receiver, receivers},
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
    pub clients: Vec<Clients>,
    pub receivers: Vec<Receiver>,
    /// A second process on the folder.
    pub beside: Option<Beside>,
    /// Which is made once and never changes.
    token: Option<String>,
}

/// A process of it.
pub struct Process {
    pub decider: Decider,
    publication: Publication,
    handle: Handle,
    listener: broadcast::Receiver<Event>,
    outbox: Outbox,
    couriers: Vec<Courier>,
    token: String,
    /// Told, but nobody may rely on it yet.
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
    Amidst(Death),
}

/// A process that has begun, and what it began from.
struct Begun {
    process: Process,
    before: Remembered,
}

impl Machine {
    pub fn new(file: Vec<ServicePlan>, dice: &mut Dice) -> Self {
        let longest_ramp = file.iter().map(|plan| plan.strategy.policy.abort_ramp).max().unwrap_or_default();
        Self {
            disk: Disk::new(dice),
            wall: Timestamp::from_millis(1_700_000_000_000),
            clients: file.iter().map(|plan| Clients::of(plan.name.clone())).collect(),
            file,
            process: None,
            told: Vec::new(),
            questions: Vec::new(),
            longest_ramp,
            watch: Watch::default(),
            receivers: receivers(),
            beside: None,
            token: None,
        }
    }

    /// Starts a process, if the disk lets it; the one that waited, if there is one.
    pub fn start(&mut self, kill: Kill, dice: &mut Dice) -> Option<()> {
        let former = self.file.clone();
        let publication = self.beside.take().map(|beside| {
            self.save_file(beside.file);
            beside.publication
        });
        if let Kill::Amidst(death) = kill {
            self.disk.mark();
            drop(self.begin(publication));
            self.disk.die(death, dice);
            return None;
        }
        let Some(Begun { process, before }) = self.begin(publication) else {
            self.file = former;
            return None;
        };
        let first = process.publication.current();
        let token = self.token.get_or_insert_with(|| process.token.clone());
        assert_eq!(*token, process.token, "a token that was handed out is good for ever");
        self.process = Some(process);
        let history = self.hear_all();
        self.watch = Watch::started(&history, &before, &self.told, &first);
        // Without a fault everything is written before it is told.
        let sure = if self.disk.is_sick() { before.memory.sequence } else { u64::MAX };
        self.tell(history, sure);
        self.check_messages();
        Some(())
    }

    /// As the driver does.
    fn begin(&self, waited: Option<Publication>) -> Option<Begun> {
        let before = self.disk.peek();
        let (mut store, recovered) = self.disk.open().ok()?;
        assert_eq!((&recovered.memory, &recovered.history), (&before.memory, &before.history));
        assert_eq!(recovered.trouble, None, "no crash damages a file");
        let token = store.write_token().ok()?;
        let now = self.wall.max(recovered.latest);
        let generation = waited.as_ref().map_or(Generation(0), |waited| waited.current().generation);
        let (memory, evidence) = (recovered.memory, recovered.evidence);
        let mut engine = Engine::new(Recovered { memory, evidence, distrust: None, generation });
        let mut effects = Vec::new();
        // A file that cannot be followed is said, and no process starts; only who waited can have one here.
        let followed = engine.apply(Input::Configure(self.file.clone().into()), now, &mut effects);
        assert!(followed.is_ok() || waited.is_some(), "{followed:?}");
        followed.ok()?;
        let publication = waited.unwrap_or_else(|| Publication::new(engine.table()));
        publication.publish(engine.table());
        let path = String::new();
        let status = ConfigStatus { path, loaded: now, loads: 1, failures: 0, error: None, needs_restart: Vec::new() };
        let (handle, shared, _inbox) = Handle::new(engine.view(now), status, VecDeque::from(recovered.history));
        let listener = handle.subscribe();
        let names: Vec<String> = self.receivers.iter().map(|receiver| receiver.name.clone()).collect();
        let outbox = store.outbox(&names);
        let couriers = self.receivers.iter().map(|receiver| Courier::of(receiver, &outbox)).collect();
        let hands = Hands::new(store, publication.clone(), shared);
        let decider = Decider::begin(engine, effects, hands, || self.file.clone().into(), now).ok()?;
        let process = Process {
            decider,
            publication,
            handle,
            listener,
            outbox,
            couriers,
            token,
            unwritten: Vec::new(),
            now,
            saved: now,
            disk_failed: self.disk.is_sick(),
        };
        Some(Begun { process, before })
    }

    /// Kills the process where it stands, and with the machine whoever waits beside it.
    pub fn kill(&mut self, death: Death, dice: &mut Dice) {
        self.end(death);
        self.disk.die(death, dice);
    }

    fn end(&mut self, death: Death) {
        self.process = None;
        self.questions.clear();
        if death == Death::Machine {
            self.beside = None;
        }
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
        if let Kill::Amidst(death) = kill {
            let (mut engine, mut effects) = (process.decider.engine().clone(), Vec::new());
            if engine.apply(input.clone(), now, &mut effects).is_ok() && !effects.is_empty() {
                only_takes(&process.publication.current(), &effects);
                self.die_amidst(input, death, dice);
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
        // What was decided before it is on the disk too.
        let sure = told.as_ref().ok().and_then(Option::as_ref).map_or(0, |event| event.sequence);
        self.tell(heard, sure);
        Some(told.map(|_| ()))
    }

    /// All is carried out, and then taken back from the disk as far as it had not come. Nothing of it was told.
    fn die_amidst(&mut self, input: Input, death: Death, dice: &mut Dice) {
        let Some(process) = self.process.as_mut() else { return };
        let (now, file) = (process.now, self.file.clone());
        self.disk.mark();
        process.decider.apply(input, now, || file.into());
        self.kill(death, dice);
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

    /// People know it now. They rely on it up to the event that is surely written: what is in force without a disk is told
    /// before it is written, and says so.
    fn tell(&mut self, heard: Vec<Event>, sure: u64) {
        let Some(process) = self.process.as_mut() else { return };
        let known = self.told.last().map_or(0, |event| event.sequence);
        process.unwritten.extend(heard.into_iter().filter(|event| event.sequence > known));
        let is_written = |event: &Event| event.sequence <= sure;
        let until = process.unwritten.iter().position(|event| !is_written(event)).unwrap_or(process.unwritten.len());
        self.told.extend(process.unwritten.drain(..until));
    }

    /// Each second, as the driver does.
    pub fn save(&mut self, kill: Kill, dice: &mut Dice) {
        let Some(process) = self.process.as_mut() else { return };
        if process.now.since(process.saved) < Duration::from_secs(1) {
            return;
        }
        process.saved = process.now;
        if kill != Kill::Never {
            self.disk.mark();
        }
        process.decider.save(process.now);
        if let Kill::Amidst(death) = kill {
            self.kill(death, dice);
        } else if process.handle.state_writable() {
            self.tell(Vec::new(), u64::MAX);
        }
    }

    /// Messages go out; whether any did.
    pub fn deliver(&mut self, kill: Kill, dice: &mut Dice) -> bool {
        let Some(process) = self.process.as_mut() else { return false };
        let (history, now) = (process.history(), process.now);
        if kill != Kill::Never {
            self.disk.mark();
        }
        let mut any = false;
        for (courier, receiver) in process.couriers.iter_mut().zip(&mut self.receivers) {
            any |= courier.run(receiver, &process.outbox, (&history, &self.told), now, dice);
        }
        match kill {
            Kill::Amidst(death) if any => {
                self.receivers.iter_mut().for_each(Receiver::forget_what_was_just_settled);
                self.kill(death, dice);
            }
            _ => {
                self.disk.unmark();
                self.receivers.iter_mut().for_each(Receiver::settle);
            }
        }
        self.check_messages();
        any
    }

    /// Whether every receiver has everything that people rely on.
    pub fn has_told_all(&self) -> bool {
        self.receivers.iter().all(|receiver| receiver.has_all(&self.told))
    }

    fn check_messages(&self) {
        let Some(process) = &self.process else { return };
        let history = process.history();
        for (courier, receiver) in process.couriers.iter().zip(&self.receivers) {
            courier.check(receiver, &history, &self.told);
        }
    }

    /// Clients come, as the table has it.
    pub fn serve(&mut self, dice: &mut Dice) {
        let Some((process, table)) = self.process.as_ref().zip(self.table()) else { return };
        let memory = (!process.disk_failed).then(|| self.disk.peek().memory);
        for clients in &mut self.clients {
            let Some(service) = table.services.iter().find(|service| service.name == clients.service) else { continue };
            clients.come(service, self.watch.last(&clients.service), dice);
            let known = memory.iter().flat_map(|memory| &memory.services).find(|of| of.service == clients.service);
            if let Some(memory) = known {
                Clients::groups_are_where_they_belong(service, memory, dice);
            }
        }
    }

    /// Somebody starts a second process while the first one lives, with the file as it will be.
    pub fn start_beside(&mut self, file: Vec<ServicePlan>) {
        if let Some(process) = &self.process {
            self.beside = Beside::start(&self.disk, file, process.now);
        }
    }

    pub fn look_beside(&mut self) {
        if let (Some(beside), Some(process)) = (&mut self.beside, &self.process) {
            beside.follow(&self.disk, process.now);
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
            self.save_file(file);
        }
    }

    fn save_file(&mut self, file: Vec<ServicePlan>) {
        let longest = file.iter().map(|plan| plan.strategy.policy.abort_ramp).max();
        self.longest_ramp = self.longest_ramp.max(longest.unwrap_or_default());
        self.file = file;
    }
}

impl Process {
    /// What a listener knows.
    pub fn history(&self) -> Vec<Event> {
        self.handle.history()
    }
}

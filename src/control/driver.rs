//! The loop of the control plane: measurements every 100 ms, commands, changes of the file; each becomes an input
//! with the time, and the engine's effects are carried out in order. Decides nothing.

use std::{
    collections::VecDeque,
    io,
    net::IpAddr,
    sync::{Arc, PoisonError},
    time::Duration,
};

use http::HeaderName;
use tokio::sync::mpsc;
use tracing::{error, info, warn};

use super::{
    decider::{Decider, Outcome},
    edge::{Edge, same_places},
    effects::{Alarm, Hands},
    handle::{CommandError, ConfigStatus, HISTORY_MAX, Handle, Message, ReloadError, Shared},
    notify,
    source::Source,
    standby::{Stage, Standby},
};
use crate::{
    clock::Clock,
    config::{
        Config,
        gate::GateAddress,
        settings::Secret,
        watch::{Change, Watcher},
    },
    engine::{
        Engine, Recovered,
        address::Address,
        event::Event,
        gate::GateQuestion,
        input::{Input, Refusal},
        names::Generation,
        time::Timestamp,
    },
    measure::Reader,
    outbound::Reach,
    provider::{Answered, Call, Provider},
    publish::Publication,
    store::{self, Outbox, Store},
    words,
};

/// How often traffic is looked at.
const TICK: Duration = Duration::from_millis(100);
/// How often the share test's state is saved, and a failed write tried again.
const SAVE: Duration = Duration::from_secs(1);

/// The control plane, ready to run.
#[derive(Debug)]
pub struct Driver {
    decider: Decider,
    reader: Reader,
    clock: Clock,
    shared: Arc<Shared>,
    inbox: mpsc::Receiver<Message>,
    source: Source,
    /// Until the couriers take it.
    outbox: Option<Outbox>,
    watcher: Watcher,
    edge: Edge,
    provider: Provider,
    answers: mpsc::Receiver<Answered>,
    saved: Timestamp,
}

/// What the control plane starts from.
#[derive(Debug)]
pub struct Start {
    /// The file, which is watched and read again.
    pub source: Source,
    /// Where decisions go.
    pub store: Store,
    /// What was found there.
    pub recovered: store::Recovered,
    /// Where measurements come from.
    pub reader: Reader,
}

/// Why the control plane does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The file is sound in itself, but cannot be followed.
    #[error("the file cannot be followed: {0}")]
    Refused(#[from] Refusal),
    /// What was decided first could not be written.
    #[error("the state folder cannot be written: {0}")]
    Storage(String),
    /// A certificate, a key or an authority cannot be used.
    #[error("{0}")]
    Settings(String),
    /// No thread to watch the file, or to ask others.
    #[error("a thread of the control plane does not start: {0}")]
    Watch(#[from] io::Error),
}

impl Driver {
    /// Decides where things stand, remembers what is new, and gives the first table: no request may be served before.
    ///
    /// # Errors
    /// When the engine refuses the file as it is, the state folder cannot be written, or there is no thread to watch.
    pub fn start(start: Start) -> Result<(Self, Handle, Publication), StartError> {
        Self::begin(start, None)
    }

    /// The same for a process that has served already beside the one before.
    ///
    /// # Errors
    /// As [`Driver::start`].
    pub fn take_over(
        standby: Standby,
        (store, recovered): (Store, store::Recovered),
        reader: Reader,
    ) -> Result<Self, StartError> {
        let Standby { source, stage, .. } = standby;
        Self::begin(Start { source, store, recovered, reader }, Some(stage)).map(|(driver, ..)| driver)
    }

    fn begin(start: Start, stage: Option<Stage>) -> Result<(Self, Handle, Publication), StartError> {
        let Start { source, mut store, recovered, reader } = start;
        let watcher = Watcher::start(&source.path, source.text.as_bytes())?;
        let clock = Clock::start(recovered.latest);
        let now = clock.now();
        let distrust = recovered.trouble.clone().or_else(|| stale(&recovered, now, source.config.state.max_age));
        if let Some(trouble) = &distrust {
            error!("no rollout goes on by itself: {trouble}");
        }
        let mut engine = Engine::new(Recovered {
            memory: recovered.memory,
            evidence: recovered.evidence,
            distrust,
            generation: stage.as_ref().map_or(Generation(0), |stage| stage.publication.current().generation),
        });
        let mut effects = Vec::new();
        engine.apply(Input::Configure(source.config.plan()), now, &mut effects)?;
        let surplus = recovered.history.len().saturating_sub(HISTORY_MAX);
        let history: VecDeque<Event> = recovered.history.into_iter().skip(surplus).collect();
        let stage = match stage {
            Some(stage) => stage.at(&engine, history),
            None => Stage::new(&source, &engine, now, history)?,
        };
        let Stage { publication, edge, handle, shared, inbox } = stage;
        let receivers: Vec<String> = source.config.notify.iter().map(notify::key).collect();
        let outbox = (!receivers.is_empty()).then(|| store.outbox(&receivers));
        let hands = Hands::new(store, publication.clone(), Arc::clone(&shared));
        let decider = Decider::begin(engine, effects, hands, || source.config.plan(), now)
            .map_err(|Alarm(trouble)| StartError::Storage(trouble))?;
        let (provider, answers) = Provider::start(reach(&source.config))?;
        let driver = Self {
            decider,
            reader,
            clock,
            shared,
            inbox,
            source,
            outbox,
            watcher,
            edge,
            provider,
            answers,
            saved: now,
        };
        driver.show();
        Ok((driver, handle, publication))
    }

    /// Runs until `stop` is done, then saves what is still to be saved.
    pub async fn run(mut self, stop: impl Future<Output = ()>) {
        let mut stop = std::pin::pin!(stop);
        if let Some(outbox) = self.outbox.take() {
            notify::start(&self.source.config.notify, reach(&self.source.config), &outbox, &self.shared);
        }
        loop {
            let now = self.clock.now();
            let due =
                self.decider.engine().deadline().map_or(TICK, |at| at.since(now)).clamp(Duration::from_millis(1), TICK);
            tokio::select! {
                () = &mut stop => break,
                () = tokio::time::sleep(due) => self.tick(),
                Some(message) = self.inbox.recv() => self.answer(message),
                Some(answered) = self.answers.recv() => self.answered(answered),
                Some(change) = self.watcher.changed() => self.file_changed(change),
            }
        }
        self.tick();
        self.decider.save_evidence(self.clock.now());
    }

    fn tick(&mut self) {
        let now = self.clock.now();
        let samples = self.reader.drain();
        self.shared.trail.lock().unwrap_or_else(PoisonError::into_inner).add(now, &samples);
        // Measurements are never refused.
        let _never = self.apply(Input::Measured(samples), now);
        if now.since(self.saved) >= SAVE {
            self.saved = now;
            self.decider.save(now);
            self.look_at_certificates();
        }
        self.show();
    }

    fn answer(&mut self, message: Message) {
        match message {
            Message::Command(command, answer) => {
                let outcome = self.apply(Input::Command(command), self.clock.now());
                self.show();
                // A caller that has gone away has its answer in the history.
                let _gone = answer.send(outcome);
            }
            Message::Rehearse(command, answer) => {
                let _gone = answer.send(self.decider.rehearse(command, self.clock.now()));
            }
            Message::Reload(answer) => {
                let _gone = answer.send(self.reload().map_err(ReloadError::Refused));
            }
        }
    }

    fn answered(&mut self, answered: Answered) {
        let input = match answered {
            Answered::Question(ticket, reply) => {
                if let Err(trouble) = &reply {
                    warn!(service = %ticket.service, metric = ticket.metric, "not measured: {trouble}");
                }
                Input::Answered(ticket, reply)
            }
            Answered::Gate(ticket, answer) => {
                if let Err(trouble) = &answer {
                    warn!(service = %ticket.service, gate = &*ticket.gate, "no answer of a gate: {trouble}");
                }
                Input::GateAnswered(ticket, answer)
            }
        };
        // Answers are never refused.
        let _never = self.apply(input, self.clock.now());
        self.show();
    }

    fn file_changed(&mut self, change: Change) {
        match change {
            Change::Content(_) => {
                // Logged, and shown by status and metrics.
                let _shown = self.reload();
            }
            Change::Unreadable(cause) => self.loaded(Err(format!("the file cannot be read: {cause}"))),
            Change::NoticesFailed(cause) => {
                warn!("the file is looked at twice a second, since it cannot be watched: {cause}");
            }
        }
    }

    fn apply(&mut self, input: Input, now: Timestamp) -> Result<Option<Event>, CommandError> {
        let Outcome { questions, gates, told } = self.decider.apply(input, now, || self.source.config.plan());
        for question in questions {
            let metric = question.ticket.metric.clone();
            if !self.provider.ask(question) {
                warn!(metric, "not asked, since too many questions wait; it counts as an error");
            }
        }
        for question in gates {
            self.consult(question);
        }
        told
    }

    fn consult(&self, question: GateQuestion) {
        let ticket = &question.ticket;
        let is_it = |known: &&GateAddress| known.service == ticket.service && known.gate == ticket.gate;
        // Without an address the answer is missed, and the engine notices.
        let Some(address) = self.source.config.gates.iter().find(is_it) else { return };
        let revealed = |(name, value): &(HeaderName, Secret)| (name.to_string(), value.reveal().to_owned());
        let call = Call {
            url: address.url.reveal().to_owned(),
            headers: address.headers.iter().map(revealed).collect(),
            metadata: address.metadata.clone(),
            question,
        };
        if !self.provider.consult(call) {
            warn!(gate = &*address.gate, "not asked, since too many questions wait; it is asked again");
        }
    }

    /// New certificates are taken up without the file being saved.
    fn look_at_certificates(&mut self) {
        if !self.edge.files_changed() {
            return;
        }
        if self.shared.config.load().error.is_some() {
            // A file that was refused for its certificates may be right by now.
            let _shown = self.reload();
        } else {
            self.edge.read_again();
        }
    }

    /// Reads the file again. On refusal everything stays as it is, and the status says why.
    fn reload(&mut self) -> Result<(), String> {
        let outcome = self.try_reload();
        self.loaded(outcome.clone());
        outcome.map(|_| ())
    }

    /// Gives what of the file waits for a restart.
    fn try_reload(&mut self) -> Result<Vec<&'static str>, String> {
        let source = Source::read(&self.source.path).map_err(|diagnostics| diagnostics.to_string())?;
        let edge = self.edge.prepare(&source.config)?;
        let outcome = self.apply(Input::Configure(source.config.plan()), self.clock.now());
        outcome.map_err(|error| error.to_string())?;
        self.edge.put_in_force(edge);
        let later = needs_restart(&self.source.config, &source.config);
        if !later.is_empty() {
            warn!("a restart is needed before these changes are in force: {}", later.join(", "));
        }
        self.reader.forget_unconfigured(&self.decider.engine().table());
        self.shared
            .trail
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .forget_unconfigured(&self.decider.engine().table());
        self.source.text = source.text;
        self.source.config.services = source.config.services;
        self.source.config.gates = source.config.gates;
        self.source.config.routes = source.config.routes;
        self.source.config.trusted = source.config.trusted;
        Ok(later)
    }

    fn loaded(&self, outcome: Result<Vec<&'static str>, String>) {
        let mut status = ConfigStatus::clone(&self.shared.config.load());
        match outcome {
            Ok(later) => {
                status.needs_restart = later;
                status.loads += 1;
                status.loaded = self.clock.now();
                status.error = None;
                info!(file = %self.source.path.display(), "the file is in force");
            }
            Err(diagnostics) => {
                status.failures += 1;
                error!("the file was refused, the former settings stay in force:\n{diagnostics}");
                status.error = Some(diagnostics);
            }
        }
        self.shared.config.store(Arc::new(status));
        self.show();
    }

    fn show(&self) {
        self.shared.view.store(Arc::new(self.decider.engine().view(self.clock.now())));
    }
}

fn stale(recovered: &store::Recovered, now: Timestamp, max_age: Duration) -> Option<String> {
    let away = now.since(recovered.latest);
    (!recovered.first_start && away > max_age).then(|| {
        let (away, max_age) = (words::duration(away), words::duration(max_age));
        format!("the state is {away} old, and state.maxAge allows {max_age}")
    })
}

/// Whom questions of our own may reach.
pub fn reach(config: &Config) -> Reach {
    let allowed = Arc::clone(&config.outbound);
    Reach::guarded(move |address| {
        let address = match address {
            IpAddr::V4(address) => Address::v4(address.octets()),
            IpAddr::V6(address) => Address::v6(address.octets()),
        };
        allowed.iter().any(|network| network.contains(address))
    })
}

/// Settings that only a new process takes up.
fn needs_restart(before: &Config, after: &Config) -> Vec<&'static str> {
    let changes = [
        ("listeners", !same_places(&before.listeners, &after.listeners)),
        ("workers", before.workers != after.workers),
        ("metrics", (before.metrics, &before.compat) != (after.metrics, &after.compat)),
        ("admin", before.admin != after.admin),
        ("state", before.state != after.state),
        ("notify", before.notify != after.notify),
        ("outbound", before.outbound != after.outbound),
    ];
    changes.into_iter().filter(|(_, changed)| *changed).map(|(what, _)| what).collect()
}

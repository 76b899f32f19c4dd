//! An admin listener on a real socket with a control plane of canned views behind the real handle.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a scenario that cannot go on fails")]

use std::{
    collections::VecDeque,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    thread::JoinHandle,
    time::Duration,
};

use serin::{
    admin::{self, AdminState},
    config::settings::Secret,
    control::handle::{CommandError, ConfigStatus, Handle, LAG_MAX, Message, ReloadError, Shared},
    engine::{
        event::{Cause, Event, EventKind},
        input::{Command, Refusal, Verb},
        names::{Generation, Revision, Role, ServiceName, VersionName},
        samples::Counts,
        time::Timestamp,
        view::{
            CheckView, Forecast, MirrorView, PhaseView, RolloutView, ServiceView, Unit, Verdict, VersionView, View,
            Waiting,
        },
    },
};
use tokio::sync::{mpsc, oneshot};

/// The write token of every stage.
pub const WRITE: &str = "w-0123456789";
/// Long enough that only a hang runs into it.
pub const PATIENCE: Duration = Duration::from_secs(20);
/// The views' present: 2026-09-21 14:13:20 UTC.
pub const NOW: u64 = 1_790_000_000_000;

/// A running admin listener.
pub struct Stage {
    /// Where it listens.
    pub address: SocketAddr,
    /// The control plane's side.
    pub shared: Arc<Shared>,
    /// Commands that reached the control plane.
    pub commands: Arc<Mutex<Vec<Command>>>,
    /// Reloads that did.
    pub reloads: Arc<AtomicUsize>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// How a stage differs from the usual.
#[derive(Clone, Copy, Default)]
pub struct Setting {
    /// Needed for reads.
    pub read_token: Option<&'static str>,
    /// Only metrics and health.
    pub metrics_only: bool,
    /// Why the file was refused.
    pub config_error: Option<&'static str>,
}

impl Stage {
    /// A stage with these services, and history.
    pub fn new(services: Vec<ServiceView>, history: Vec<Event>, setting: Setting) -> Self {
        let Setting { read_token, metrics_only, config_error } = setting;
        let view = View { at: Timestamp::from_millis(NOW), generation: Generation(12), services };
        let config = ConfigStatus {
            path: "config/serin.yaml".to_owned(),
            loaded: Timestamp::from_millis(NOW - 754_000),
            loads: 3,
            failures: 1,
            error: config_error.map(ToOwned::to_owned),
            needs_restart: Vec::new(),
        };
        let (handle, shared, messages) = Handle::new(view, config, VecDeque::from(history));
        let (commands, reloads) = (Arc::default(), Arc::new(AtomicUsize::new(0)));
        let driver =
            Driver { shared: Arc::clone(&shared), commands: Arc::clone(&commands), reloads: Arc::clone(&reloads) };
        let state = AdminState {
            publication: serin::publish::Publication::new(Arc::new(serin::engine::table::Table::new(
                Generation(12),
                Vec::new(),
            ))),
            handle,
            read_token: read_token.map(|token| Secret::new(token.to_owned())),
            write_token: Secret::new(WRITE.to_owned()),
            metrics: Arc::new(|| "# EOF\n".to_owned()),
            compat: None,
        };
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let thread = std::thread::spawn(move || {
            runtime.block_on(async move {
                tokio::spawn(driver.run(messages));
                let listener = tokio::net::TcpListener::from_std(listener).unwrap();
                let stopped = async { drop(stopped.await) };
                if metrics_only {
                    admin::serve_metrics(listener, state, stopped).await.unwrap();
                } else {
                    admin::serve(admin::Door::Tcp(listener), state, stopped).await.unwrap();
                }
            });
        });
        Self { address, shared, commands, reloads, stop: Some(stop), thread: Some(thread) }
    }

    /// The usual one: a rollout under way.
    pub fn progressing() -> Self {
        Self::new(vec![progressing()], history(), Setting::default())
    }

    /// Sends a request and reads the whole answer.
    pub fn ask(&self, method: &str, path: &str, fields: &[(&str, &str)], body: &str) -> Answer {
        let mut request = format!("{method} {path} HTTP/1.1\r\nconnection: close\r\n");
        if !fields.iter().any(|(name, _)| *name == "host") {
            request.extend(["host: ", &self.address.to_string(), "\r\n"]);
        }
        for (name, value) in fields {
            request.extend([name, ": ", value, "\r\n"]);
        }
        if !body.is_empty() {
            request.extend(["content-length: ", &body.len().to_string(), "\r\n"]);
        }
        Answer::read(self.send(&format!("{request}\r\n{body}")))
    }

    /// Reads without a token.
    pub fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, &[], "")
    }

    /// Writes with the token.
    pub fn post(&self, path: &str, body: &str) -> Answer {
        self.ask(
            "POST",
            path,
            &[("authorization", &format!("Bearer {WRITE}")), ("content-type", "application/json")],
            body,
        )
    }

    /// Sends bytes and gives the connection.
    pub fn send(&self, request: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        stream
    }

    /// Lets the process go down and waits for it.
    pub fn shut_down(&mut self) {
        drop(self.stop.take());
        self.thread.take().map(JoinHandle::join).transpose().unwrap();
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.shut_down();
    }
}

/// A whole answer.
pub struct Answer {
    pub status: u16,
    /// In lower case.
    pub head: String,
    /// As it came.
    pub exact_head: String,
    pub body: String,
}

impl Answer {
    fn read(mut stream: TcpStream) -> Self {
        let mut bytes = Vec::new();
        // A server that answers before it has read everything may reset the connection after its answer.
        let _ = stream.read_to_end(&mut bytes);
        let text = String::from_utf8(bytes).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no whole answer: {text:?}"));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap();
        Self { status, head: head.to_ascii_lowercase(), exact_head: head.to_owned(), body: body.to_owned() }
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error} in {:?}", self.body))
    }

    pub fn code(&self) -> String {
        self.json()["error"]["code"].as_str().unwrap_or_default().to_owned()
    }
}

/// The other end of the handle.
struct Driver {
    shared: Arc<Shared>,
    commands: Arc<Mutex<Vec<Command>>>,
    reloads: Arc<AtomicUsize>,
}

impl Driver {
    async fn run(self, mut messages: mpsc::Receiver<Message>) {
        while let Some(message) = messages.recv().await {
            match message {
                Message::Command(command, answer) => {
                    self.commands.lock().unwrap().push(command.clone());
                    if command.verb == Verb::Retry {
                        // As a driver that dies in the middle of it.
                        drop(answer);
                    } else {
                        drop(answer.send(self.carry_out(&command)));
                    }
                }
                Message::Rehearse(command, answer) => drop(answer.send(self.carry_out(&command))),
                Message::Reload(answer) => {
                    self.reloads.fetch_add(1, SeqCst);
                    let error = self.shared.config.load().error.clone();
                    drop(answer.send(error.map_or(Ok(()), |text| Err(ReloadError::Refused(text)))));
                }
            }
        }
    }

    fn carry_out(&self, command: &Command) -> Result<Option<Event>, CommandError> {
        let present = Revision(7);
        if let Some(expected) = command.expect_revision.filter(|expected| *expected != present) {
            return Err(Refusal::OtherRevision { expected, present }.into());
        }
        let kind = match &command.verb {
            Verb::Start { to, .. } if *to == version("v9") => {
                let (service, known) = (command.service.clone(), "v1, v2".to_owned());
                return Err(Refusal::UnknownVersion { service, version: to.clone(), known }.into());
            }
            Verb::Resume => return Err(Refusal::NotNow("web is not paused; `serin promote web` goes on".into()).into()),
            Verb::SetWeight(_) => return Err(CommandError::Storage("no space left on device".into())),
            Verb::Undo { .. } => return Ok(None),
            Verb::Pause => {
                // More at once than a listener may lag behind.
                for _ in 0..LAG_MAX + 10 {
                    self.tell(EventKind::Paused, command);
                }
                EventKind::Paused
            }
            _ => EventKind::Aborted,
        };
        Ok(Some(self.tell(kind, command)))
    }

    fn tell(&self, kind: EventKind, command: &Command) -> Event {
        let mut history = self.shared.history.lock().unwrap();
        let sequence = history.back().map_or(1, |last| last.sequence + 1);
        let (actor, reason) = (command.actor.clone(), command.reason.clone());
        let cause = Cause::Person { verb: command.verb.as_str(), actor, reason };
        let event = Event { sequence, weight: "0%".parse().unwrap(), step: None, ..event(sequence, 0, kind, cause) };
        history.push_back(event.clone());
        drop(self.shared.events.send(event.clone()));
        event
    }
}

pub fn version(name: &str) -> VersionName {
    VersionName::new(name).unwrap()
}

pub fn counts(errors: u64, requests: u64) -> Counts {
    Counts { requests, errors }
}

/// An event of `web`, so many seconds before now.
pub fn event(sequence: u64, ago: u64, kind: EventKind, cause: Cause) -> Event {
    Event {
        sequence,
        at: Timestamp::from_millis(NOW - ago * 1_000),
        service: ServiceName::new("web").unwrap(),
        revision: Revision(7),
        kind,
        cause,
        stable: version("v1"),
        canary: Some(version("v2")),
        weight: "5%".parse().unwrap(),
        step: Some(3),
    }
}

/// A rollout that came to 5 %.
pub fn history() -> Vec<Event> {
    let with = |event: Event, weight: &str, step| Event { weight: weight.parse().unwrap(), step: Some(step), ..event };
    vec![
        Event {
            canary: None,
            step: None,
            weight: "0%".parse().unwrap(),
            revision: Revision(0),
            ..event(1, 90_000, EventKind::Initialized, Cause::File)
        },
        with(event(2, 691, EventKind::Started, Cause::File), "1%", 1),
        event(3, 48, EventKind::WeightChanged, Cause::Plan),
    ]
}

/// The same, and then it waits for a person.
pub fn paused_history() -> Vec<Event> {
    let paused = Event { step: Some(4), ..event(4, 40, EventKind::Paused, Cause::Plan) };
    history().into_iter().chain([paused]).collect()
}

/// The same, aborted on errors.
pub fn aborted_history() -> Vec<Event> {
    let cause =
        Cause::ErrorRate { max: 0.02, window: Duration::from_secs(10), canary: counts(19, 38), stable: counts(0, 722) };
    let aborted = Event { weight: "0%".parse().unwrap(), step: None, ..event(4, 12, EventKind::Aborted, cause) };
    history().into_iter().chain([aborted]).collect()
}

/// The same, aborted by the share test.
pub fn lopsided_history() -> Vec<Event> {
    let (canary, stable) = (counts(19, 38), counts(42, 722));
    let cause = Cause::ShareTest { alpha: 0.01, log_e: 4.8, metric: "errors", slower_than: None, canary, stable };
    let aborted = Event { weight: "0%".parse().unwrap(), step: None, ..event(4, 12, EventKind::Aborted, cause) };
    history().into_iter().chain([aborted]).collect()
}

fn version_view(name: &str, role: Role, weight: &str, counts: Counts) -> VersionView {
    let ms = Duration::from_millis;
    let busy = counts.requests > 0;
    VersionView {
        added_at: None,
        name: version(name),
        role,
        weight: weight.parse().unwrap(),
        measured: busy.then_some(match weight {
            "5%" => 0.0497,
            "95%" => 0.9503,
            "1%" => 0.01,
            "99%" => 0.99,
            _ => 1.0,
        }),
        window: Duration::from_secs(48),
        counts,
        rps: f64::from(u32::try_from(counts.requests).unwrap()) / 48.0,
        p50: busy.then_some(ms(31)),
        p95: busy.then_some(ms(92)),
        p99: busy.then_some(ms(184)),
        endpoints: Vec::new(),
    }
}

fn check(name: &str, verdict: Verdict, value: Option<f64>, limit: f64, unit: Unit) -> CheckView {
    let stable = value.filter(|_| matches!(unit, Unit::Ratio | Unit::Seconds)).map(|value| value * 0.9);
    CheckView { name: name.into(), verdict, value, limit, unit, requests: 371, min_requests: 50, stable }
}

/// `web` on its way from v1 to v2.
pub fn progressing() -> ServiceView {
    ServiceView {
        name: ServiceName::new("web").unwrap(),
        phase: PhaseView::Progressing,
        phase_reason: None,
        revision: Revision(7),
        stable: version("v1"),
        canary: Some(version("v2")),
        rollout: Some(RolloutView {
            started: Timestamp::from_millis(NOW - 691_000),
            step: 4,
            steps: ["setWeight 1%", "pause 2m", "setWeight 5%", "pause 2m", "setWeight 25%", "pause 2m"]
                .map(ToOwned::to_owned)
                .to_vec(),
            header_routes: Vec::new(),
            mirror_routes: Vec::new(),
            in_step: Duration::from_secs(48),
            waiting: vec![
                Waiting::Time { left: Duration::from_secs(72) },
                Waiting::Requests { check: "p99".into(), have: 371, need: 500, about: Some(Duration::from_secs(17)) },
            ],
            checks: vec![
                check("errorRate", Verdict::Pass, Some(0.0027), 0.02, Unit::Ratio),
                CheckView { min_requests: 500, ..check("p99", Verdict::NoData, Some(0.184), 0.8, Unit::Seconds) },
                check("versusStable", Verdict::Pass, Some(0.55), 100f64.ln(), Unit::LogEvidence),
                check("consecutiveErrors", Verdict::Pass, Some(1.0), 20.0, Unit::Count),
            ],
            forecast: Some(Forecast { error_rate: 0.01, about: Duration::from_secs(95) }),
        }),
        undo_to: None,
        versions: vec![
            version_view("v1", Role::Stable, "95%", counts(18, 7_022)),
            version_view("v2", Role::Canary, "5%", counts(1, 371)),
        ],
        last_event: history().pop(),
        analysis_runs: Vec::new(),
    }
}

/// A dead canary with so little traffic that nothing can tell yet.
pub fn quiet() -> ServiceView {
    let mut service = progressing();
    let few = |name: &str, need, value, limit, unit| CheckView {
        requests: 3,
        min_requests: need,
        stable: (unit == Unit::Ratio).then_some(0.0),
        ..check(name, Verdict::NoData, Some(value), limit, unit)
    };
    if let Some(rollout) = &mut service.rollout {
        (rollout.step, rollout.forecast) = (1, None);
        rollout.steps = ["weight 1%, hold 2m", "weight 5%, hold 2m"].map(ToOwned::to_owned).to_vec();
        let about = Some(Duration::from_secs(197 * 16));
        rollout.waiting = vec![Waiting::Requests { check: "p99".into(), have: 3, need: 200, about }];
        rollout.checks = vec![
            few("errorRate", 50, 1.0, 0.02, Unit::Ratio),
            few("p99", 200, 0.184, 0.8, Unit::Seconds),
            few("versusStable", 20, 3.1, 100f64.ln(), Unit::LogEvidence),
            few("consecutiveErrors", 20, 3.0, 20.0, Unit::Count),
        ];
    }
    service.versions = vec![
        version_view("v1", Role::Stable, "99%", counts(0, 297)),
        version_view("v2", Role::Canary, "1%", counts(3, 3)),
    ];
    service
}

/// The same, waiting for a person.
pub fn paused() -> ServiceView {
    let mut service = progressing();
    service.phase = PhaseView::Paused;
    service.phase_reason = Some("step 4 waits for a person".into());
    if let Some(rollout) = &mut service.rollout {
        rollout.waiting = vec![Waiting::Person];
        rollout.steps[3] = "pause until a person goes on".into();
        rollout.header_routes.push("staff".into());
        rollout.mirror_routes.push(MirrorView { name: "shadow".into(), share: "10%".parse().unwrap() });
    }
    service
}

/// After an abort.
pub fn degraded() -> ServiceView {
    ServiceView {
        phase: PhaseView::Degraded,
        phase_reason: Some("too many errors".into()),
        rollout: None,
        versions: vec![
            version_view("v1", Role::Stable, "100%", counts(0, 900)),
            version_view("v2", Role::Other, "0%", counts(0, 0)),
        ],
        last_event: aborted_history().pop(),
        ..progressing()
    }
}

/// Without any rollout so far.
pub fn healthy() -> ServiceView {
    ServiceView {
        phase: PhaseView::Healthy,
        phase_reason: None,
        undo_to: Some(version("v0")),
        revision: Revision(0),
        canary: None,
        last_event: history().into_iter().next(),
        ..degraded()
    }
}

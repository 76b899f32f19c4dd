//! One rollout on virtual time: the real engine, told the time and what made-up traffic did, until it decides.
//! Holds no rule about rollouts.

use std::{sync::Arc, time::Duration};

use super::{
    dice::Dice,
    model::{Kind, Moment, Usual},
    traffic::{Span, Traffic},
};
use crate::engine::{
    Engine, Recovered,
    effect::Effect,
    event::{Cause, EventKind},
    gate::{GateAnswer, GateKind, GateQuestion},
    input::{Command, Input, Verb},
    memory::{PauseKind, PhaseMemory},
    plan::ServicePlan,
    table::Table,
    time::Timestamp,
};

/// After so long a person says `promote` where the plan waits for one.
pub const PERSON_AFTER: Duration = Duration::from_mins(10);
/// The engine is told every 100 ms, as in production, so long after each change of weight or weather; then each tick.
const CLOSE_LOOK_MS: u64 = 10_000;
const CLOSE_TICK_MS: u64 = 100;
/// When all rollouts begin: a fixed time, so that nothing depends on today.
const START: Timestamp = Timestamp::from_millis(1_700_000_000_000);

/// What one rollout is run on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Course<'a> {
    pub(super) plan: &'a ServicePlan,
    pub(super) kind: Kind,
    /// Requests a second.
    pub(super) rate: f64,
    pub(super) times: Times,
    pub(super) usual: &'a Usual<'a>,
    /// Whether weights and failures are written down over time.
    pub(super) traced: bool,
}

/// How long things take, in milliseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    /// The plan, when nothing happens.
    pub(super) planned: u64,
    /// Nobody looks any longer than this.
    pub(super) horizon: u64,
    /// Between two looks of the engine while nothing changes.
    pub(super) tick: u64,
}

/// How a rollout ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Promoted,
    Reverted,
    /// Paused for a person because something was wrong.
    Held,
    /// Not over at the horizon.
    Waiting,
}

/// An ending: how, when in milliseconds after the start, and for reverted and held ones on what evidence in which step.
type Ending = (Outcome, u64, Option<(Cause, usize)>);

/// What came of a rollout.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Told {
    pub(super) outcome: Outcome,
    /// When, in milliseconds after the start.
    pub(super) at: u64,
    /// On what evidence, and in which step from 1; for reverted and held ones.
    pub(super) cause: Option<(Cause, usize)>,
    /// Requests that the canary failed.
    pub(super) failed: u64,
    pub(super) trace: Trace,
}

/// What is drawn.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Trace {
    /// Time, and the canary's weight in parts per million from then on.
    pub(super) weights: Vec<(u64, u32)>,
    /// Time, and the requests failed so far.
    pub(super) failures: Vec<(u64, u64)>,
}

/// Runs one rollout to its decision, or to the horizon.
pub(super) fn run(course: Course<'_>, dice: &mut Dice) -> Told {
    let mut stage = Stage::new(course);
    stage.tell(Input::Configure(vec![course.plan.clone()].into()));
    while stage.ended.is_none() && stage.elapsed < course.times.horizon {
        stage.next(dice);
    }
    let (outcome, at, cause) = stage.ended.unwrap_or((Outcome::Waiting, stage.elapsed, None));
    Told { outcome, at, cause, failed: stage.traffic.failed, trace: stage.trace }
}

struct Stage<'a> {
    course: Course<'a>,
    engine: Engine,
    table: Arc<Table>,
    elapsed: u64,
    /// When the weight last changed.
    changed: u64,
    /// When weight or weather last changed.
    disturbed: u64,
    person_from: Option<u64>,
    step: usize,
    traffic: Traffic,
    ended: Option<Ending>,
    trace: Trace,
}

impl<'a> Stage<'a> {
    fn new(course: Course<'a>) -> Self {
        let engine = Engine::new(Recovered::default());
        Self {
            course,
            table: engine.table(),
            engine,
            elapsed: 0,
            changed: 0,
            disturbed: 0,
            person_from: None,
            step: 1,
            traffic: Traffic::default(),
            ended: None,
            trace: Trace::default(),
        }
    }

    /// Lets traffic flow until something is due, and tells the engine.
    fn next(&mut self, dice: &mut Dice) {
        let at = self.moment();
        let weather = self.course.kind.weather(at);
        let until = self.due(at);
        let span = Span { from: self.elapsed, until };
        let table = Arc::clone(&self.table);
        let Some(service) = table.services.first() else { return };
        let before = self.traffic.failed;
        let usual = self.course.usual;
        let upon = usual.upon(weather, span.from, span.until);
        let samples = self.traffic.flow(span, self.course.rate, &upon, service, &usual.paces, dice);
        if self.course.traced && self.traffic.failed > before {
            self.trace.failures.push((until, self.traffic.failed));
        }
        self.elapsed = until;
        if self.course.kind.weather(self.moment()) != weather {
            self.disturbed = until;
        }
        self.tell(Input::Measured(samples));
        if self.person_from.is_some_and(|from| until >= from + millis(PERSON_AFTER)) {
            self.promote();
        }
    }

    fn moment(&self) -> Moment {
        let planned = self.course.times.planned;
        Moment { elapsed: self.elapsed, since_change: self.elapsed - self.changed, planned }
    }

    /// The next moment at which the engine must be told: the next tick, or sooner when something else is due.
    fn due(&self, at: Moment) -> u64 {
        let is_close = self.elapsed - self.disturbed < CLOSE_LOOK_MS;
        let tick = self.elapsed + if is_close { CLOSE_TICK_MS } else { self.course.times.tick };
        let engine = self.engine.deadline().map(|deadline| millis(deadline.since(START)));
        let person = self.person_from.map(|from| from + millis(PERSON_AFTER));
        let weather = self.course.kind.holds_for(at).map(|left| self.elapsed + left);
        let sooner = [engine, person, weather].into_iter().flatten().filter(|due| *due > self.elapsed);
        sooner.chain([tick, self.course.times.horizon]).min().unwrap_or(tick).max(self.elapsed + 1)
    }

    fn promote(&mut self) {
        self.person_from = None;
        let command = Command {
            service: self.course.plan.name.clone(),
            verb: Verb::Promote { full: false, force: false },
            actor: "rehearsal".to_owned(),
            reason: String::new(),
            expect_revision: None,
        };
        self.tell(Input::Command(command));
    }

    fn tell(&mut self, input: Input) {
        let now = START + Duration::from_millis(self.elapsed);
        let (mut effects, mut asked) = (Vec::new(), Vec::new());
        // Nothing that a rehearsal says can be refused; if it were, the rollout would be seen waiting.
        let _refused = self.engine.apply(input, now, &mut effects);
        for effect in effects {
            match effect {
                Effect::Persist(decision) => {
                    let kind = match decision.memory.phase {
                        PhaseMemory::Paused { kind, .. } => Some(kind),
                        _ => None,
                    };
                    let event = decision.event;
                    if self.course.traced {
                        self.trace.weights.push((self.elapsed, event.weight.ppm()));
                    }
                    self.step = event.step.unwrap_or(self.step);
                    self.decided(event.kind, event.cause, kind);
                }
                Effect::Publish { table, .. } => self.publish(table),
                // Nobody outside is asked in a rehearsal: `plan` leaves such metrics out.
                Effect::Measure(_) => {}
                Effect::Consult(question) => asked.push(*question),
            }
        }
        // Every gate lets it on, and none wants it back: what traffic shows is rehearsed.
        for GateQuestion { ticket, kind, .. } in asked {
            let answer = if kind == GateKind::Rollback { GateAnswer::Stop } else { GateAnswer::Go };
            self.tell(Input::GateAnswered(ticket, Ok(answer)));
        }
    }

    fn publish(&mut self, table: Arc<Table>) {
        let generation = |table: &Table| table.services.first().map(|service| service.weight_generation);
        if generation(&table) != generation(&self.table) {
            (self.changed, self.disturbed) = (self.elapsed, self.elapsed);
        }
        self.table = table;
    }

    fn decided(&mut self, kind: EventKind, cause: Cause, pause: Option<PauseKind>) {
        self.person_from = None;
        let outcome = match (kind, pause) {
            (EventKind::Promoted, _) => Outcome::Promoted,
            (EventKind::Aborted, _) => Outcome::Reverted,
            (EventKind::Paused, Some(PauseKind::Step)) => {
                self.person_from = Some(self.elapsed);
                return;
            }
            (EventKind::Paused, _) => Outcome::Held,
            _ => return,
        };
        let cause = Some((cause, self.step)).filter(|_| outcome != Outcome::Promoted);
        self.ended.get_or_insert((outcome, self.elapsed, cause));
    }
}

/// In whole milliseconds; saturates.
pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

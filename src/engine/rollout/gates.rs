//! The gates of a rollout: which are asked when, and what their answers do. Each is asked once a step unless it says wait;
//! one that gives no answer is asked again, a few times, and then a person is. A gate never hides a verdict: the guard
//! is looked at first, and again while a gate waits.

use std::{sync::Arc, time::Duration};

use super::state::{Log, Phase, Rollout, Service};
use crate::engine::{
    effect::Effect,
    event::{Cause, EventKind, GateWord},
    gate::{GateAnswer, GateKind, GatePlan, GateQuestion, GateTicket},
    memory::PauseKind,
    names::VersionName,
    time::Timestamp,
    view::{PhaseView, Waiting},
};

/// A gate that waits is asked again after this, unless it says when.
const ASK_AGAIN: Duration = Duration::from_secs(10);
/// The bounds of what it may say.
const AGAIN: (Duration, Duration) = (Duration::from_secs(1), Duration::from_hours(1));
/// More faults in a row than this, and a person is waited for; as with measurements of an analysis.
const FAULTS_MAX: u32 = 4;
/// An answer that is not there so long after the gate's timeout is lost.
const LOST: Duration = Duration::from_secs(5);

/// Where a gate stands in a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct GateState {
    name: Arc<str>,
    /// From 0; the number of steps for the promotion.
    step: usize,
    stands: Stands,
    /// Times in a row that no answer could be had.
    faults: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Stands {
    Asked(Timestamp),
    /// Asked again then; with what was the matter last time, in words.
    Waits {
        until: Timestamp,
        said: String,
    },
    Passed,
}

impl GateState {
    /// One that said go before the process was restarted.
    pub(super) fn recall(name: &str, step: usize) -> Self {
        Self { name: name.into(), step, stands: Stands::Passed, faults: 0 }
    }

    pub(super) const fn is_of(&self, step: usize) -> bool {
        self.step == step
    }

    /// Its last question found no answer.
    pub(super) const fn is_silent(&self) -> bool {
        self.faults > 0
    }

    /// Its name, if it said go in this step.
    pub(super) fn passed(&self, step: usize) -> Option<String> {
        (self.is_of(step) && self.stands == Stands::Passed).then(|| self.name.to_string())
    }
}

impl Service {
    /// The gate that keeps the step at `at` from beginning, if one does.
    pub(super) fn gate_before(&self, at: usize, now: Timestamp) -> Option<Waiting> {
        let rollout = self.rollout()?;
        self.gates_before(rollout, at).first().map(|gate| awaited(gate, find(rollout, gate, at), now))
    }

    /// The gate that keeps the present step from ending, if one does.
    pub(super) fn gate_within(&self, now: Timestamp) -> Option<Waiting> {
        let rollout = self.rollout().filter(|rollout| !self.stands_before(rollout))?;
        let gate = self.gates_open(rollout, GateKind::Rollout, rollout.step).next()?;
        Some(awaited(gate, find(rollout, gate, rollout.step), now))
    }

    /// Asks those whose turn it is.
    pub(super) fn consult(&mut self, log: &mut Log<'_>) {
        let Some(rollout) = self.rollout() else { return };
        let step = rollout.step;
        let wanted: Vec<GatePlan> = self.gates_now(rollout, log.now).into_iter().cloned().collect();
        for gate in wanted {
            let state = self.rollout().and_then(|rollout| find(rollout, &gate, step));
            match state.map(|state| &state.stands) {
                Some(Stands::Asked(at)) if log.now >= *at + gate.timeout + LOST => {
                    self.no_answer(&gate, step, "the question was lost", log);
                }
                Some(Stands::Waits { until, .. }) if log.now >= *until => self.ask(&gate, step, log),
                None => self.ask(&gate, step, log),
                Some(_) => {}
            }
        }
    }

    /// Takes an answer. One to a question that nobody has any more is dropped.
    pub(in crate::engine) fn gate_answered(
        &mut self,
        ticket: &GateTicket,
        answer: Result<GateAnswer, String>,
        log: &mut Log<'_>,
    ) {
        let is_asked = |state: &GateState| {
            state.name == ticket.gate && state.step == ticket.step && state.stands == Stands::Asked(ticket.asked)
        };
        let is_open = ticket.revision == self.standing.revision
            && self.rollout().is_some_and(|rollout| rollout.gates.iter().any(is_asked));
        let gate = self.plan.gates.iter().find(|gate| gate.name == ticket.gate).filter(|_| is_open).cloned();
        let Some(gate) = gate else { return };
        let (step, rolls_back) = (ticket.step, gate.kind == GateKind::Rollback);
        match answer {
            Ok(GateAnswer::Go) if rolls_back => self.gate_ends_it(&gate, GateWord::RollBack, log),
            Ok(GateAnswer::Stop) if !rolls_back => self.gate_ends_it(&gate, GateWord::Stop, log),
            Ok(GateAnswer::Go) => {
                self.stand(&gate, step, Stands::Passed, 0);
                let about = self.rollout().map(|rollout| rollout.target.version.clone());
                self.note(EventKind::GatePassed, cause(&gate, GateWord::Go, ""), about, log);
            }
            // It is not asked any more in this step.
            Ok(GateAnswer::Stop) => self.stand(&gate, step, Stands::Passed, 0),
            Ok(GateAnswer::Wait(after)) => {
                let until = log.now + after.unwrap_or(ASK_AGAIN).clamp(AGAIN.0, AGAIN.1);
                self.stand(&gate, step, Stands::Waits { until, said: "it says wait".to_owned() }, 0);
            }
            Err(why) => self.no_answer(&gate, step, &why, log),
        }
        self.advance(log);
    }

    /// Whether anybody must let a rollout begin.
    pub(super) fn has_gates_before_the_first_step(&self) -> bool {
        self.plan.gates.iter().any(|gate| matches!(gate.kind, GateKind::ConfirmRollout | GateKind::PreRollout))
    }

    /// Tells those who want to know how a rollout ended; what they answer means nothing.
    pub(super) fn tell_gates_the_end(&self, kind: EventKind, canary: &VersionName, log: &mut Log<'_>) {
        let phase = if kind == EventKind::Promoted { PhaseView::Healthy } else { PhaseView::Degraded };
        for gate in self.plan.gates.iter().filter(|gate| gate.kind == GateKind::PostRollout) {
            let question = self.question(gate, self.plan.strategy.steps.len(), phase, canary, log.now);
            log.effects.push(Effect::Consult(Box::new(question)));
        }
    }

    /// Those whose go is missing before the step at `at`: of the next kind only, since kinds are asked one after the other.
    fn gates_before(&self, rollout: &Rollout, at: usize) -> Vec<&GatePlan> {
        if !rollout.begun {
            for kind in [GateKind::ConfirmRollout, GateKind::PreRollout] {
                let open: Vec<_> = self.gates_open(rollout, kind, at).collect();
                if !open.is_empty() {
                    return open;
                }
            }
        }
        let kind = if at >= self.plan.strategy.steps.len() {
            GateKind::ConfirmPromotion
        } else if self.rises(at) {
            GateKind::ConfirmTrafficIncrease
        } else {
            return Vec::new();
        };
        self.gates_open(rollout, kind, at).collect()
    }

    /// The gates of a kind that have not said go for a step.
    fn gates_open<'a>(&'a self, rollout: &Rollout, kind: GateKind, step: usize) -> impl Iterator<Item = &'a GatePlan> {
        let passed: Vec<Arc<str>> = rollout
            .gates
            .iter()
            .filter(|state| state.step == step && state.stands == Stands::Passed)
            .map(|state| Arc::clone(&state.name))
            .collect();
        self.plan.gates.iter().filter(move |gate| gate.kind == kind && !passed.contains(&gate.name))
    }

    /// Those that have a word in what happens now.
    fn gates_now(&self, rollout: &Rollout, now: Timestamp) -> Vec<&GatePlan> {
        let mut gates = match &self.phase {
            Phase::Progressing(_) if !self.stands_before(rollout) => {
                self.gates_open(rollout, GateKind::Rollout, rollout.step).collect()
            }
            Phase::Progressing(_) if self.rise_held(rollout.step, now).is_none() => {
                self.gates_before(rollout, rollout.step)
            }
            Phase::Paused { kind: PauseKind::Untrusted, .. } => return Vec::new(),
            _ => Vec::new(),
        };
        if rollout.begun {
            gates.extend(self.gates_open(rollout, GateKind::Rollback, rollout.step));
        }
        gates
    }

    fn ask(&mut self, gate: &GatePlan, step: usize, log: &mut Log<'_>) {
        let Some(rollout) = self.rollout() else { return };
        let phase = if matches!(self.phase, Phase::Paused { .. }) { PhaseView::Paused } else { PhaseView::Progressing };
        let question = self.question(gate, step, phase, &rollout.target.version, log.now);
        let faults = find(rollout, gate, step).map_or(0, |state| state.faults);
        self.stand(gate, step, Stands::Asked(log.now), faults);
        log.effects.push(Effect::Consult(Box::new(question)));
    }

    fn question(
        &self,
        gate: &GatePlan,
        step: usize,
        phase: PhaseView,
        canary: &VersionName,
        now: Timestamp,
    ) -> GateQuestion {
        let (service, revision) = (self.plan.name.clone(), self.standing.revision);
        GateQuestion {
            ticket: GateTicket { service, revision, gate: Arc::clone(&gate.name), step, asked: now },
            step: self.plan.strategy.number(step),
            kind: gate.kind,
            timeout: gate.timeout,
            phase,
            stable: self.standing.stable.version.clone(),
            canary: canary.clone(),
            weight: self.canary_weight(),
        }
    }

    /// One more fault. Who may only roll back holds nothing up, and so needs nobody's attention.
    fn no_answer(&mut self, gate: &GatePlan, step: usize, why: &str, log: &mut Log<'_>) {
        let Some(rollout) = self.rollout() else { return };
        let faults = find(rollout, gate, step).map_or(0, |state| state.faults).saturating_add(1);
        let said = format!("{why} ({faults} in a row)");
        self.stand(gate, step, Stands::Waits { until: log.now + ASK_AGAIN, said }, faults);
        let is_too_much = faults > FAULTS_MAX && gate.kind != GateKind::Rollback;
        if is_too_much && matches!(self.phase, Phase::Progressing(_)) {
            let reason = format!("the gate `{}` gives no answer", gate.name);
            self.pause(PauseKind::Gate, reason, cause(gate, GateWord::Nothing, why), log);
        }
    }

    fn gate_ends_it(&mut self, gate: &GatePlan, said: GateWord, log: &mut Log<'_>) {
        let reason = format!("the gate `{}` stopped it", gate.name);
        self.withdraw(cause(gate, said, ""), reason, log);
    }

    fn stand(&mut self, gate: &GatePlan, step: usize, stands: Stands, faults: u32) {
        let Some(rollout) = self.rollout_mut() else { return };
        rollout.gates.retain(|state| state.name != gate.name || state.step != step);
        rollout.gates.push(GateState { name: Arc::clone(&gate.name), step, stands, faults });
    }
}

fn find<'a>(rollout: &'a Rollout, gate: &GatePlan, step: usize) -> Option<&'a GateState> {
    rollout.gates.iter().find(|state| state.name == gate.name && state.step == step)
}

fn cause(gate: &GatePlan, said: GateWord, message: &str) -> Cause {
    Cause::Gate { gate: gate.name.to_string(), kind: gate.kind, said, message: message.to_owned() }
}

fn awaited(gate: &GatePlan, state: Option<&GateState>, now: Timestamp) -> Waiting {
    let stands = match state.map(|state| &state.stands) {
        None => "not asked yet".to_owned(),
        Some(Stands::Asked(_)) => "asked, no answer yet".to_owned(),
        Some(Stands::Waits { until, said }) => {
            format!("{said}, asked again in {}s", until.since(now).as_millis().div_ceil(1_000))
        }
        // Not waited for any more.
        Some(Stands::Passed) => "it says go".to_owned(),
    };
    let what = format!("the gate `{}` ({}): {stands}", gate.name, gate.kind.as_str());
    Waiting::Permit { what, left: None }
}

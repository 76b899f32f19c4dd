//! What moves a rollout: start, steps, promotion, withdrawal, pauses. Each transition leaves a whole state,
//! cuts the windows if the weight changed, and writes one event with its cause.

use std::time::Duration;

use super::state::{Log, Phase, Rollout, Service, WatchedShares};
use crate::engine::{
    analysis::ask::RunKind,
    event::{Cause, EventKind},
    memory::PauseKind,
    names::VersionName,
    plan::{OnFailure, OnNoTraffic, Pause, Step, Wish},
    samples::SlotSamples,
    stats::share_test::{News, ShareTest},
    time::Timestamp,
    weight::Weight,
};

/// A tick of the share test (statistics: burst guard).
const TICK: Duration = Duration::from_secs(1);
/// An epoch of the share test (statistics: restarts).
const EPOCH: Duration = Duration::from_mins(1);
/// What is slow is read off stable's last minute, or off so many requests if that is longer.
const SLOW_WINDOW: Duration = Duration::from_mins(1);
const SLOW_REQUESTS: u64 = 1_000;
/// How often.
const LEARN: Duration = Duration::from_secs(10);

const TOO_FEW: &str = "too few requests to judge the canary";

/// What the present step says.
pub(super) enum StepState {
    /// Still going on.
    Holds,
    /// Over, for this reason.
    Done(Cause),
    /// Asks for something else than the next step.
    Interrupts(PauseKind, String, Cause),
    /// The canary is to be withdrawn.
    Withdraws(String, Cause),
}

impl Service {
    /// Starts a rollout at its first step. The former phase ends here; a running rollout must have been ended before.
    pub(super) fn start(&mut self, target: Wish, cause: Cause, log: &mut Log<'_>) {
        self.standing.revision.0 += 1;
        self.standing.forgive(&target);
        self.stays(&target.version);
        self.traffic.begin();
        let about = Some(target.version.clone());
        let mut rollout = Rollout::waiting(target, log.now);
        rollout.admitted = self.turns() == 0;
        self.phase = Phase::Progressing(Box::new(rollout));
        self.arm_share_test(log.now);
        self.traffic.cut(log.now, log.generation, Weight::ZERO);
        self.note(EventKind::Started, cause, about, log);
        self.enter(0, Cause::Plan, log);
    }

    /// Enters a step: takes its weight and that of every setWeight right behind it, and stops at the first step that
    /// takes time, or that something holds. Who says `promote` has looked, and is not held.
    pub(super) fn enter(&mut self, step: usize, cause: Cause, log: &mut Log<'_>) {
        let steps = self.plan.strategy.steps.clone();
        self.end_run(RunKind::Step, "ended with its step", log.now);
        let waited = self.rollout().is_some_and(|rollout| self.stands_before(rollout));
        let had_gates = self.has_gates_before_the_first_step();
        let aside_before = self.aside_weight();
        let Some(rollout) = self.rollout_mut() else { return };
        let (before, step_before) = (rollout.weight, rollout.step);
        // What was waited for is no time of the plan's own.
        if !waited {
            rollout.spent = rollout.running_for(log.now);
        }
        rollout.since = log.now;
        let let_through = matches!(cause, Cause::Person { verb: "promote", .. });
        let had_begun = rollout.begun;
        rollout.begun |= let_through;
        let at = self.walk(step, let_through, log.now);
        let is_held = !let_through && self.held(at, log.now).is_some();
        let Some(rollout) = self.rollout_mut() else { return };
        rollout.begun |= !is_held;
        // That the first step begins is to be remembered where gates stood before it.
        let begins = rollout.begun && !had_begun && at == step_before && had_gates;
        rollout.step = at;
        rollout.gates.retain(|gate| gate.is_of(at));
        rollout.lacking_since = None;
        let (weight, version) = (rollout.weight, rollout.target.version.clone());
        let safe = self.safe_test(at);
        if let Some(rollout) = self.rollout_mut() {
            rollout.safe = safe;
        }
        if weight != before || self.aside_weight() != aside_before {
            self.weight_changed(log);
        }
        if steps.get(at).is_some_and(|step| step.analyses().is_some()) && !is_held {
            self.start_step_run(log.now);
        }
        match steps.get(at) {
            None if !is_held => self.promote(cause, log),
            Some(Step::Pause(Pause::Person)) if !is_held => {
                let reason = format!("step {} waits for a person", self.plan.strategy.number(at));
                self.pause(PauseKind::Step, reason, cause, log);
            }
            _ if weight != before => self.note(EventKind::WeightChanged, cause, Some(version), log),
            _ if at != step_before || begins => self.note(EventKind::StepChanged, cause, Some(version), log),
            // Held where it stood: that it goes on is to be remembered all the same.
            _ if cause != Cause::Plan => self.note(EventKind::Resumed, cause, Some(version), log),
            _ => {}
        }
    }

    /// Takes what instant steps say from `step` on; gives the first that takes time or is held.
    fn walk(&mut self, step: usize, let_through: bool, now: Timestamp) -> usize {
        let mut at = step;
        while let Some(instant) = self.plan.strategy.steps.get(at).filter(|step| step.is_instant()) {
            let weight = match instant {
                Step::SetWeight(weight) => Some(*weight),
                _ => None,
            };
            if !let_through && self.held(at, now).is_some() {
                break;
            }
            if let Some(rollout) = self.rollout_mut() {
                rollout.weight = weight.unwrap_or(rollout.weight);
                rollout.begun = true;
            }
            at += 1;
        }
        at
    }

    /// Sets a weight by hand and waits there.
    pub(super) fn hold_at(&mut self, weight: Weight, cause: Cause, log: &mut Log<'_>) {
        let Some(rollout) = self.rollout_mut() else { return };
        rollout.weight = weight;
        rollout.begun = true;
        let version = rollout.target.version.clone();
        self.stop_clock(PauseKind::Weight, format!("the weight was set to {weight} by hand"), log.now);
        self.weight_changed(log);
        self.note(EventKind::WeightChanged, cause, Some(version), log);
    }

    /// The canary becomes stable and takes all.
    pub(super) fn promote(&mut self, cause: Cause, log: &mut Log<'_>) {
        self.end_runs(log.now);
        let phase = std::mem::replace(&mut self.phase, Phase::Healthy);
        let target = match phase {
            Phase::Progressing(rollout) | Phase::Paused { rollout, .. } => rollout.target,
            Phase::Degraded { target, .. } => target,
            Phase::Healthy => return,
        };
        self.crown(target, cause, log);
    }

    /// A version becomes stable at once: by promotion or by undo.
    pub(super) fn crown(&mut self, wish: Wish, cause: Cause, log: &mut Log<'_>) {
        self.phase = Phase::Healthy;
        self.standing.forgive(&wish);
        let about = Some(wish.version.clone());
        let former = self.standing.stable.version.clone();
        self.standing.crown(wish, self.standing.revision);
        self.leaves(former, log.now);
        let stable = self.standing.stable.version.clone();
        self.stays(&stable);
        self.traffic.forget_strata();
        self.traffic.cut(log.now, log.generation, Weight::ZERO);
        self.note(EventKind::Promoted, cause, about, log);
    }

    /// A running rollout ends because something else is wanted. It may be started again.
    pub(super) fn supersede(&mut self, cause: Cause, log: &mut Log<'_>) {
        let Some(target) = self.rollout().map(|rollout| rollout.target.version.clone()) else { return };
        self.end_runs(log.now);
        self.phase = Phase::Healthy;
        self.traffic.forget_strata();
        self.traffic.cut(log.now, log.generation, Weight::ZERO);
        self.note(EventKind::Superseded, cause, Some(target), log);
    }

    /// A running rollout waits for a person; the weight stays.
    pub(super) fn pause(&mut self, kind: PauseKind, reason: String, cause: Cause, log: &mut Log<'_>) {
        let about = self.rollout().map(|rollout| rollout.target.version.clone());
        let aside = self.aside_weight();
        self.stop_clock(kind, reason, log.now);
        if self.aside_weight() != aside {
            self.weight_changed(log);
        }
        self.note(EventKind::Paused, cause, about, log);
    }

    /// Nothing of the canary can be trusted: stable only, until a person starts or aborts.
    pub(super) fn distrust(&mut self, trouble: String, log: &mut Log<'_>) {
        self.end_runs(log.now);
        let Some(rollout) = self.rollout_mut() else { return };
        rollout.weight = Weight::ZERO;
        self.traffic.forget_strata();
        self.traffic.cut(log.now, log.generation, Weight::ZERO);
        self.pause(PauseKind::Untrusted, trouble.clone(), Cause::Storage(trouble), log);
    }

    /// Takes in what was measured, then does whatever is due now.
    pub(in crate::engine) fn measured(&mut self, slots: &[&SlotSamples], log: &mut Log<'_>) {
        let canary = self.rollout().map(|rollout| rollout.target.version.clone());
        self.turn_ticks(log.now);
        self.traffic.add(log.now, slots, canary.as_ref());
        if let Some(canary) = canary {
            if self.traffic.counts_errors(log.now) {
                let news = self.traffic.news(log.now, slots, &canary, &self.standing.stable.version);
                self.judge(&news, slots, &canary, log.now);
            }
            self.advance(log);
        }
        self.watch_by_hand(log);
        self.let_go(log);
        self.forget_runs(log.now);
    }

    /// The earliest time at which this service may change by itself.
    pub(in crate::engine) fn deadline(&self) -> Option<Timestamp> {
        let departure = [self.next_departure(), self.endpoint_due(), self.next_forgotten()].into_iter().flatten().min();
        let Phase::Progressing(rollout) = &self.phase else {
            return [departure, self.measurement_due()].into_iter().flatten().min();
        };
        let strategy = &self.plan.strategy;
        let hold = match strategy.steps.get(rollout.step) {
            Some(Step::Pause(Pause::For(duration) | Pause::Bake(duration))) => Some(rollout.since + *duration),
            Some(Step::Experiment(experiment)) => experiment.duration.map(|duration| rollout.since + duration),
            Some(Step::Analysis(_)) => None,
            _ => self.held_until(rollout),
        };
        // A hold that is over waits for the canary to be warm.
        let hold = hold.map(|at| self.traffic.warm_at().map_or(at, |warm| at.max(warm)));
        let lacking = rollout.lacking_since.map(|since| since + strategy.no_traffic_for);
        let end = strategy.deadline.map(|all| rollout.since + all.saturating_sub(rollout.spent));
        [lacking.or(hold), end, departure, self.measurement_due()].into_iter().flatten().min()
    }

    /// Guard first, then the analyses that go on whatever the step does, then the deadline, then the step.
    pub(super) fn advance(&mut self, log: &mut Log<'_>) {
        if let Some(breach) = self.breach(log.now) {
            return self.breached(breach, log);
        }
        if self.analysis_ended_it(log) {
            return;
        }
        self.consult(log);
        if !matches!(self.phase, Phase::Progressing(_)) {
            return;
        }
        self.note_unready(log.now);
        if let Some(deadline) = self.overdue(log.now) {
            let reason = "the rollout took longer than its deadline".to_owned();
            return self.withdraw(Cause::Deadline { deadline }, reason, log);
        }
        match self.step_state(log) {
            StepState::Holds => {}
            StepState::Done(cause) => {
                let next = self.next_step();
                self.enter(next, cause, log);
            }
            StepState::Interrupts(kind, reason, cause) => self.pause(kind, reason, cause, log),
            StepState::Withdraws(reason, cause) => self.withdraw(cause, reason, log),
        }
    }

    /// The run beside the steps goes on in every pause, and so does the step's in a pause by hand; either may end the
    /// rollout there, but only its verdict matters.
    fn analysis_ended_it(&mut self, log: &mut Log<'_>) -> bool {
        let pause = match &self.phase {
            Phase::Progressing(_) => None,
            Phase::Paused { kind, .. } => Some(*kind),
            Phase::Healthy | Phase::Degraded { .. } => return false,
        };
        let beside = match pause {
            Some(PauseKind::Untrusted | PauseKind::Inconclusive) => StepState::Holds,
            _ => self.watch_background(log),
        };
        let at_a_step = self.rollout().is_some_and(|rollout| rollout.analysis.is_some());
        let within = match (&beside, pause) {
            (StepState::Holds, Some(PauseKind::Command)) if at_a_step => self.analyse(log),
            _ => StepState::Holds,
        };
        for state in [beside, within] {
            match state {
                StepState::Withdraws(reason, cause) => {
                    self.withdraw(cause, reason, log);
                    return true;
                }
                StepState::Interrupts(kind, reason, cause) => {
                    self.pause(kind, reason, cause, log);
                    return true;
                }
                StepState::Holds | StepState::Done(_) => {}
            }
        }
        false
    }

    fn breached(&mut self, cause: Cause, log: &mut Log<'_>) {
        match (self.plan.strategy.guard.on_failure, &self.phase) {
            (OnFailure::Abort, _) => self.withdraw(cause, "the guard was breached".to_owned(), log),
            (OnFailure::Pause, Phase::Progressing(_)) => {
                self.pause(PauseKind::Guard, "the guard was breached".to_owned(), cause, log);
            }
            (OnFailure::Pause, _) => {}
        }
    }

    fn overdue(&self, now: Timestamp) -> Option<Duration> {
        let deadline = self.plan.strategy.deadline?;
        let rollout = self.rollout()?;
        let spent = match rollout.unready_since {
            Some(since) => rollout.spent.saturating_add(now.since(since)),
            None if self.stands_before(rollout) => return None,
            None => rollout.running_for(now),
        };
        (spent >= deadline).then_some(deadline)
    }

    fn step_state(&mut self, log: &mut Log<'_>) -> StepState {
        let now = log.now;
        let Some(rollout) = self.rollout() else { return StepState::Holds };
        if self.stands_before(rollout) {
            let is_held = self.held(rollout.step, now).is_some();
            return if is_held { StepState::Holds } else { StepState::Done(Cause::Plan) };
        }
        let gated = self.gate_within(now).is_some();
        match self.state_of_step(log) {
            StepState::Done(_) if gated => StepState::Holds,
            state => state,
        }
    }

    /// What a step that takes time says, gates apart.
    fn state_of_step(&mut self, log: &mut Log<'_>) -> StepState {
        let now = log.now;
        let Some(rollout) = self.rollout() else { return StepState::Holds };
        let canary = self.traffic.since_cut(&rollout.target.version).requests;
        let held = now.since(rollout.since);
        match self.plan.strategy.steps.get(rollout.step) {
            Some(Step::Pause(Pause::Person)) => StepState::Holds,
            Some(Step::Pause(Pause::For(duration) | Pause::Bake(duration))) if held < *duration => {
                let early = Some(now).filter(|now| !self.traffic.is_warming(*now));
                early.and_then(|now| self.proven(rollout, now)).map_or(StepState::Holds, StepState::Done)
            }
            Some(Step::Pause(_)) if self.traffic.is_warming(now) => StepState::Holds,
            Some(Step::Pause(Pause::Requests(needed))) if canary < *needed => self.lacking(now),
            Some(Step::Pause(_)) if self.lacks().is_some() => self.lacking(now),
            Some(Step::Analysis(_)) => self.analyse(log),
            Some(Step::Experiment(experiment)) => {
                let experiment = experiment.clone();
                self.experiment(&experiment, log)
            }
            None
            | Some(Step::SetWeight(_) | Step::SetHeaderRoute { .. } | Step::SetMirrorRoute { .. } | Step::Pause(_)) => {
                StepState::Done(Cause::Plan)
            }
        }
    }

    /// The hold would be over, but there were too few requests to judge.
    pub(super) fn lacking(&mut self, now: Timestamp) -> StepState {
        let (action, patience) = (self.plan.strategy.on_no_traffic, self.plan.strategy.no_traffic_for);
        let Some(rollout) = self.rollout_mut() else { return StepState::Holds };
        let waited = now.since(*rollout.lacking_since.get_or_insert(now));
        match action {
            OnNoTraffic::Wait => StepState::Holds,
            _ if waited < patience => StepState::Holds,
            OnNoTraffic::Pause => {
                StepState::Interrupts(PauseKind::NoTraffic, TOO_FEW.to_owned(), Cause::NoTraffic { waited })
            }
            OnNoTraffic::Abort => StepState::Withdraws(TOO_FEW.to_owned(), Cause::NoTraffic { waited }),
        }
    }

    fn stop_clock(&mut self, kind: PauseKind, reason: String, now: Timestamp) {
        self.phase = match std::mem::replace(&mut self.phase, Phase::Healthy) {
            Phase::Progressing(rollout) => Phase::Paused { rollout, kind, reason, at: now },
            // The clock has stopped already; it goes on counting from the first pause.
            Phase::Paused { rollout, at, .. } => Phase::Paused { rollout, kind, reason, at },
            other => other,
        };
    }

    pub(super) fn weight_changed(&mut self, log: &mut Log<'_>) {
        let weight = self.canary_weight();
        let aside = self.aside_weight();
        self.traffic.cut_beside(log.now, log.generation, weight, aside);
        if weight > Weight::ZERO {
            self.traffic.warm_up(&self.plan.strategy.guard, log.now);
        }
        if let Some(watched) = self.rollout_mut().and_then(|rollout| rollout.test.as_mut()) {
            watched.test.new_epoch();
            watched.clients.weight_changed();
            watched.tick_from = log.now;
            watched.epoch_from = log.now;
        }
    }

    fn turn_ticks(&mut self, now: Timestamp) {
        self.learn_what_is_slow(now);
        let Some(watched) = self.rollout_mut().and_then(|rollout| rollout.test.as_mut()) else { return };
        if now.since(watched.epoch_from) >= EPOCH {
            watched.test.new_epoch();
            watched.clients.new_epoch();
            (watched.tick_from, watched.epoch_from) = (now, now);
        } else if now.since(watched.tick_from) >= TICK {
            watched.test.end_tick();
            watched.tick_from = now;
        }
    }

    /// Hands the share test what is news to it: by the draw, and from sticky clients in portions.
    fn judge(&mut self, news: &[News], slots: &[&SlotSamples], canary: &VersionName, now: Timestamp) {
        let Self { phase, traffic, standing, .. } = self;
        let (Phase::Progressing(rollout) | Phase::Paused { rollout, .. }) = phase else { return };
        let Some(watched) = rollout.test.as_mut() else { return };
        let is_evidence = |generation| traffic.is_evidence(generation, now);
        let portions = watched.clients.add(slots, is_evidence, canary, &standing.stable.version);
        for news in news.iter().chain(&portions) {
            watched.test.add(news);
            if let Some(safe) = rollout.safe.as_mut() {
                safe.add(news, watched.test.thresholds());
            }
        }
    }

    /// From what was complete before the requests that will be judged by it.
    fn learn_what_is_slow(&mut self, now: Timestamp) {
        let due = |watched: &WatchedShares| watched.test.judges_latency() && now.since(watched.learned_at) >= LEARN;
        if !self.rollout().and_then(|rollout| rollout.test.as_ref()).is_some_and(due) {
            return;
        }
        let stable = self.traffic.summary(&self.standing.stable.version, now, SLOW_WINDOW, SLOW_REQUESTS);
        if let Some(watched) = self.rollout_mut().and_then(|rollout| rollout.test.as_mut()) {
            watched.test.learn(&stable);
            watched.learned_at = now;
        }
    }

    /// A fresh share test for the running rollout, as far as the plan wants one.
    pub(super) fn arm_share_test(&mut self, now: Timestamp) {
        let plan = self.plan.strategy.guard.share_test;
        if let Some(rollout) = self.rollout_mut() {
            rollout.test = plan.map(ShareTest::new).map(|test| WatchedShares::new(test, now));
        }
        self.learn_what_is_slow(now);
    }
}

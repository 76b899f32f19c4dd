//! A rollout's analyses: the step's run and the one beside the steps. Starts and ends runs, hands out questions, takes
//! answers, and keeps what ended. `run` judges; `machine` acts.

use std::sync::Arc;

use super::{
    machine::StepState,
    state::{Log, Phase, Service},
};
use crate::engine::{
    analysis::{
        answer::Reply,
        ask::{BuiltIn, Question, RunKind, Ticket},
        measurement::Facts,
        record::{RUNS_KEPT, RunRecord},
        run::{AnalysisPhase, AnalysisRun, Wanted},
        template::Arm,
    },
    effect::Effect,
    event::{Cause, EventKind},
    input::Refusal,
    memory::PauseKind,
    plan::{OnFailure, OnNoTraffic, Step},
    time::Timestamp,
};

impl Service {
    /// Takes an answer. One to a run that is over, or of another attempt, is dropped.
    pub(in crate::engine) fn answered(&mut self, ticket: &Ticket, reply: &Result<Reply, String>, log: &mut Log<'_>) {
        // What a person had analysed outlives rollouts.
        if ticket.run != RunKind::Manual && ticket.revision != self.standing.revision {
            return;
        }
        let Some(mut run) = self.take_run(ticket.run) else { return };
        self.with_facts(log.now, |facts| run.answered(&ticket.metric, ticket.asked, reply, log.now, facts));
        self.put_run(ticket.run, run, log.now);
        if ticket.run != RunKind::Manual {
            self.advance(log);
        }
    }

    /// The step's run: measured when due, judged when over.
    pub(super) fn analyse(&mut self, log: &mut Log<'_>) -> StepState {
        if self.rollout().is_some_and(|rollout| rollout.analysis.is_none()) {
            self.start_step_run(log.now);
        }
        let Some(phase) = self.drive(RunKind::Step, log) else { return StepState::Holds };
        match phase {
            AnalysisPhase::Successful | AnalysisPhase::Terminated => StepState::Done(Cause::Plan),
            AnalysisPhase::Pending | AnalysisPhase::Running => self.starved(log.now),
            AnalysisPhase::NoData => StepState::Holds,
            bad => self.ended_badly(RunKind::Step, bad),
        }
    }

    /// The run beside the steps: begins at its step, begins again when it ends well, and ends the rollout when it ends
    /// badly.
    pub(super) fn watch_background(&mut self, log: &mut Log<'_>) -> StepState {
        self.start_background(log.now);
        match self.drive(RunKind::Background, log) {
            None | Some(AnalysisPhase::Pending | AnalysisPhase::Running | AnalysisPhase::Terminated) => {}
            Some(AnalysisPhase::Successful | AnalysisPhase::NoData) => self.background_again(log.now),
            Some(bad) => return self.ended_badly(RunKind::Background, bad),
        }
        StepState::Holds
    }

    /// Ends runs that are still going on, since their rollout or step is over, and keeps what they found.
    pub(super) fn end_run(&mut self, kind: RunKind, why: &str, now: Timestamp) {
        if let Some(mut run) = self.take_run(kind) {
            let was_over = run.phase().is_over();
            run.terminate(why, now);
            if !was_over {
                self.keep(run.record(self.standing.revision, kind));
            }
        }
    }

    /// Both, since the rollout is over.
    pub(super) fn end_runs(&mut self, now: Timestamp) {
        self.end_run(RunKind::Step, "ended with the rollout", now);
        self.end_run(RunKind::Background, "ended with the rollout", now);
    }

    /// Ends what is being analysed by a person's wish: the step goes on, and the run beside the steps is over for good.
    pub(super) fn order_terminate(&mut self, cause: Cause, log: &mut Log<'_>) -> Result<(), Refusal> {
        let going_on = |run: &Option<AnalysisRun>| run.as_ref().is_some_and(|run| !run.phase().is_over());
        let any = self.rollout().is_some_and(|of| going_on(&of.analysis) || going_on(&of.background));
        let any = any || going_on(&self.by_hand);
        if !any {
            return Err(Refusal::NotNow(format!("no analysis of `{}` is running", self.plan.name)));
        }
        for kind in RunKind::ALL {
            if let Some(mut run) = self.take_run(kind) {
                run.terminate("terminated by a person", log.now);
                self.put_run(kind, run, log.now);
            }
        }
        let about = self.rollout().map(|rollout| rollout.target.version.clone());
        self.note(EventKind::Terminated, cause, about, log);
        Ok(())
    }

    /// All runs, the latest last: those that ended, and those that go on.
    pub(super) fn run_records(&self) -> Vec<Arc<RunRecord>> {
        let revision = self.standing.revision;
        let present = self
            .rollout()
            .into_iter()
            .flat_map(|rollout| [(RunKind::Background, &rollout.background), (RunKind::Step, &rollout.analysis)]);
        let present = present.chain([(RunKind::Manual, &self.by_hand)]);
        let going_on = present.filter_map(|(kind, run)| Some((kind, run.as_ref()?)));
        let going_on = going_on.filter(|(_, run)| !run.phase().is_over());
        self.runs.iter().cloned().chain(going_on.map(|(kind, run)| Arc::new(run.record(revision, kind)))).collect()
    }

    /// Forgets the runs whose time is over.
    pub(super) fn forget_runs(&mut self, now: Timestamp) {
        self.runs.retain(|run| run.expires.is_none_or(|at| now < at));
    }

    /// When the next run is forgotten.
    pub(super) fn next_forgotten(&self) -> Option<Timestamp> {
        self.runs.iter().filter_map(|run| run.expires).min()
    }

    /// When the next measurement is due.
    pub(super) fn measurement_due(&self) -> Option<Timestamp> {
        let is_paused = matches!(self.phase, Phase::Paused { .. });
        let step = self.rollout().and_then(|rollout| rollout.analysis.as_ref()).filter(|_| !is_paused);
        let background = self.rollout().and_then(|rollout| rollout.background.as_ref());
        let runs = [step, background, self.by_hand.as_ref()];
        runs.into_iter().flatten().filter_map(AnalysisRun::deadline).min()
    }

    /// Begins the step's run: at the step, and anew after a restart of the process or a resume.
    pub(super) fn start_step_run(&mut self, now: Timestamp) {
        let step = self.rollout().and_then(|of| self.plan.strategy.steps.get(of.step));
        let Some(templates) = step.and_then(Step::analyses) else { return };
        let run = AnalysisRun::start(templates, self.present_step(), now);
        if let Some(rollout) = self.rollout_mut() {
            rollout.analysis = Some(run);
        }
    }

    fn start_background(&mut self, now: Timestamp) {
        let Some((wanted, rollout)) = self.plan.strategy.analysis.as_ref().zip(self.rollout()) else { return };
        if rollout.background.is_some() || rollout.step < wanted.starting_step {
            return;
        }
        let run = AnalysisRun::start(&wanted.templates, self.present_step(), now);
        if let Some(rollout) = self.rollout_mut() {
            rollout.background = Some(run);
        }
    }

    fn background_again(&mut self, now: Timestamp) {
        let Some(wanted) = self.plan.strategy.analysis.as_ref() else { return };
        let run = AnalysisRun::go_on(&wanted.templates, self.present_step(), now);
        if let Some(rollout) = self.rollout_mut() {
            rollout.background = Some(run);
        }
    }

    /// Measures what is due and asks what must be asked; where the run stands then.
    pub(super) fn drive(&mut self, kind: RunKind, log: &mut Log<'_>) -> Option<AnalysisPhase> {
        let mut run = self.take_run(kind)?;
        let wanted = self.with_facts(log.now, |facts| run.advance(log.now, facts));
        for Wanted { metric, ask, timeout } in wanted {
            let (service, revision) = (self.plan.name.clone(), self.standing.revision);
            let ticket = Ticket { service, revision, run: kind, metric, asked: log.now };
            log.effects.push(Effect::Measure(Box::new(Question { ticket, ask, timeout })));
        }
        let phase = run.phase();
        self.put_run(kind, run, log.now);
        Some(phase)
    }

    /// What a run that ended badly does to the rollout.
    fn ended_badly(&self, kind: RunKind, phase: AnalysisPhase) -> StepState {
        let run = self.rollout().and_then(|rollout| match kind {
            RunKind::Step => rollout.analysis.as_ref(),
            RunKind::Background => rollout.background.as_ref(),
            RunKind::Manual => None,
        });
        let (metric, message) = run.and_then(AnalysisRun::deciding).unwrap_or_default();
        let cause = Cause::Analysis { metric, phase: phase.as_str(), message };
        let which = match kind {
            RunKind::Step => "the analysis",
            RunKind::Background => "the background analysis",
            RunKind::Manual => "the analysis by hand",
        };
        let reason = match phase {
            AnalysisPhase::Failed => format!("{which} failed"),
            AnalysisPhase::Error => format!("{which} ended in error"),
            _ => format!("{which} was inconclusive"),
        };
        let asks = phase == AnalysisPhase::Inconclusive || self.plan.strategy.guard.on_failure == OnFailure::Pause;
        if asks {
            StepState::Interrupts(PauseKind::Inconclusive, reason, cause)
        } else {
            StepState::Withdraws(reason, cause)
        }
    }

    /// A run that waits for something to judge for longer than a hold may.
    fn starved(&mut self, now: Timestamp) -> StepState {
        let (action, patience) = (self.plan.strategy.on_no_traffic, self.plan.strategy.no_traffic_for);
        let run = self.rollout().and_then(|rollout| rollout.analysis.as_ref());
        let waited = run.and_then(AnalysisRun::waiting_since).map(|since| now.since(since));
        let Some(waited) = waited.filter(|waited| *waited >= patience && action != OnNoTraffic::Wait) else {
            return StepState::Holds;
        };
        if let Some(mut run) = self.take_run(RunKind::Step) {
            run.give_up_without_data(now);
            self.put_run(RunKind::Step, run, now);
        }
        let (reason, cause) = ("the analysis got nothing to judge".to_owned(), Cause::NoTraffic { waited });
        match action {
            OnNoTraffic::Abort => StepState::Withdraws(reason, cause),
            _ => StepState::Interrupts(PauseKind::NoTraffic, reason, cause),
        }
    }

    fn with_facts<T>(&self, now: Timestamp, work: impl FnOnce(Facts<'_>) -> T) -> T {
        let canary = self.rollout().map_or(&self.standing.stable.version, |rollout| &rollout.target.version);
        let read = |arm: &Arm, window| self.arm_summary(arm, canary, now, window);
        let known = |name: BuiltIn| match name {
            BuiltIn::Service => self.plan.name.to_string(),
            BuiltIn::Stable => self.standing.stable.version.to_string(),
            BuiltIn::Canary => canary.to_string(),
            BuiltIn::Step => self.present_step().to_string(),
            BuiltIn::Weight => self.canary_weight().to_string().trim_end_matches('%').to_owned(),
        };
        work(Facts { read: &read, known: &known })
    }

    pub(super) fn present_step(&self) -> usize {
        self.rollout().map_or(0, |rollout| self.plan.strategy.number(rollout.step))
    }

    pub(super) fn take_run(&mut self, kind: RunKind) -> Option<AnalysisRun> {
        match kind {
            RunKind::Step => self.rollout_mut()?.analysis.take(),
            RunKind::Background => self.rollout_mut()?.background.take(),
            RunKind::Manual => self.by_hand.take(),
        }
    }

    /// Puts a run back, and keeps what it found when it ended just now.
    pub(super) fn put_run(&mut self, kind: RunKind, run: AnalysisRun, now: Timestamp) {
        let record = run.record(self.standing.revision, kind);
        if record.completed == Some(now) && self.runs.back().is_none_or(|last| **last != record) {
            self.keep(record);
        }
        match (kind, self.rollout_mut()) {
            (RunKind::Step, Some(rollout)) => rollout.analysis = Some(run),
            (RunKind::Background, Some(rollout)) => rollout.background = Some(run),
            (RunKind::Step | RunKind::Background, None) => {}
            // One that is over makes room for the next.
            (RunKind::Manual, _) => self.by_hand = Some(run).filter(|run| !run.phase().is_over()),
        }
    }

    fn keep(&mut self, record: RunRecord) {
        let is_alike = |run: &Arc<RunRecord>| is_good(run) == is_good(&record);
        if self.runs.iter().filter(|run| is_alike(run)).count() >= RUNS_KEPT {
            let oldest = self.runs.iter().position(is_alike);
            oldest.map(|at| self.runs.remove(at));
        }
        self.runs.push_back(Arc::new(record));
    }
}

fn is_good(run: &RunRecord) -> bool {
    run.phase == AnalysisPhase::Successful
}

//! What people and scripts may ask for, phase by phase. A refused command changes nothing and says what would be possible.

use super::state::{Log, Phase, Service};
use crate::engine::{
    endpoint::Site,
    event::{Cause, EventKind},
    input::{Command, Refusal, Verb},
    memory::PauseKind,
    names::{Revision, VersionName},
    plan::{Step, Wish},
    weight::Weight,
};

impl Service {
    /// Carries out a command, or refuses it.
    pub(in crate::engine) fn command(&mut self, command: &Command, log: &mut Log<'_>) -> Result<(), Refusal> {
        let present = self.standing.revision;
        if let Some(expected) = command.expect_revision.filter(|expected| *expected != present) {
            return Err(Refusal::OtherRevision { expected, present });
        }
        let cause =
            Cause::Person { verb: command.verb.as_str(), actor: command.actor.clone(), reason: command.reason.clone() };
        match &command.verb {
            Verb::Start { to, revision, site } => self.order_start(to, revision, site.as_ref(), cause, log),
            Verb::Promote { full, force } => self.order_promote(*full, *force, cause, log),
            Verb::Pause => self.order_pause(cause, log),
            Verb::Resume => self.order_resume(cause, log),
            Verb::Abort => self.order_abort(cause, log),
            Verb::Drain => self.order_drain(cause, log),
            Verb::Retry => self.order_retry(cause, log),
            Verb::Undo { to } => self.order_undo(*to, cause, log),
            Verb::SetWeight(weight) => self.order_weight(*weight, cause, log),
            Verb::Terminate => self.order_terminate(cause, log),
            Verb::Analyze { template } => self.order_analyze(template, cause, log),
        }
    }

    fn order_start(
        &mut self,
        to: &VersionName,
        revision: &str,
        site: Option<&Site>,
        cause: Cause,
        log: &mut Log<'_>,
    ) -> Result<(), Refusal> {
        if site.is_some() {
            self.may_add(to)?;
        } else if self.plan.version(to).is_none() {
            let known: Vec<_> = self.plan.versions.iter().map(|version| format!("`{}`", version.name)).collect();
            let service = self.plan.name.clone();
            return Err(Refusal::UnknownVersion { service, version: to.clone(), known: known.join(", ") });
        }
        if *to == self.standing.stable.version {
            return Err(not_now(format!("`{to}` is stable already")));
        }
        let target = Wish { version: to.clone(), revision: revision.to_owned() };
        let untrusted = matches!(self.phase, Phase::Paused { kind: PauseKind::Untrusted, .. });
        if !untrusted && self.rollout().is_some_and(|rollout| rollout.target == target) {
            return Err(not_now(format!("`{to}` is being rolled out already (revision {})", self.standing.revision)));
        }
        self.supersede(cause.clone(), log);
        if let Some(site) = site {
            self.add(to, site);
        }
        self.start(target, cause, log);
        Ok(())
    }

    fn order_promote(&mut self, full: bool, force: bool, cause: Cause, log: &mut Log<'_>) -> Result<(), Refusal> {
        match &self.phase {
            Phase::Healthy => Err(self.no_rollout("promote")),
            Phase::Degraded { target, .. } if full && force => {
                if self.plan.version(&target.version).is_none() {
                    return Err(not_now(format!("`{}` is no longer in the file", target.version)));
                }
                self.promote(cause, log);
                Ok(())
            }
            Phase::Degraded { target, .. } => Err(not_now(format!(
                "`{0}` was aborted: `retry` tries it again from step 1, `promote --full --force` takes it as it is",
                target.version
            ))),
            Phase::Paused { kind: PauseKind::Untrusted, .. } if !(full && force) => Err(self.untrusted()),
            Phase::Progressing(_) | Phase::Paused { .. } if full => {
                self.promote(cause, log);
                Ok(())
            }
            Phase::Paused { kind: PauseKind::Drain, .. } => Err(not_now(
                "the canary drains: `resume` lets clients come again, `abort` ends it, `promote --full` takes it"
                    .to_owned(),
            )),
            Phase::Paused { kind: PauseKind::Weight, .. } => {
                self.run_on(log);
                let steps = self.plan.strategy.steps.len();
                let next = self.step_above().unwrap_or(steps);
                self.enter(next, cause, log);
                Ok(())
            }
            Phase::Progressing(_) | Phase::Paused { .. } => {
                self.run_on(log);
                let next = self.next_step();
                self.enter(next, cause, log);
                Ok(())
            }
        }
    }

    fn order_pause(&mut self, cause: Cause, log: &mut Log<'_>) -> Result<(), Refusal> {
        match &self.phase {
            Phase::Progressing(_) => {
                self.pause(PauseKind::Command, "paused by hand".to_owned(), cause, log);
                Ok(())
            }
            Phase::Paused { reason, .. } => Err(not_now(format!("the rollout is paused already: {reason}"))),
            Phase::Healthy | Phase::Degraded { .. } => Err(self.no_rollout("pause")),
        }
    }

    fn order_resume(&mut self, cause: Cause, log: &mut Log<'_>) -> Result<(), Refusal> {
        let kind = match &self.phase {
            Phase::Paused { kind: PauseKind::Untrusted, .. } => return Err(self.untrusted()),
            Phase::Paused { kind, .. } => *kind,
            Phase::Progressing(_) => return Err(not_now("the rollout is not paused".to_owned())),
            Phase::Healthy | Phase::Degraded { .. } => return Err(self.no_rollout("resume")),
        };
        self.run_on(log);
        let about = self.rollout().map(|rollout| rollout.target.version.clone());
        match kind {
            PauseKind::Step => {
                let next = self.rollout().map_or(0, |rollout| rollout.step + 1);
                self.enter(next, cause, log);
            }
            PauseKind::Weight => match self.step_above() {
                Some(next) => self.enter(next, cause, log),
                None => self.resume_last_hold(cause, log),
            },
            PauseKind::Drain => {
                self.cut(log);
                self.note(EventKind::Resumed, cause, about, log);
            }
            PauseKind::Guard => {
                self.traffic.forget_strata();
                self.cut(log);
                self.arm_share_test(log.now);
                self.note(EventKind::Resumed, cause, about, log);
            }
            PauseKind::Command
            | PauseKind::Inconclusive
            | PauseKind::NoTraffic
            | PauseKind::Gate
            | PauseKind::Untrusted => {
                if let Some(rollout) = self.rollout_mut() {
                    rollout.lacking_since = None;
                    match kind {
                        PauseKind::Gate => rollout.gates.retain(|gate| !gate.is_silent()),
                        PauseKind::Inconclusive => (rollout.analysis, rollout.background) = (None, None),
                        PauseKind::NoTraffic => rollout.analysis = None,
                        _ => {}
                    }
                }
                self.note(EventKind::Resumed, cause, about, log);
            }
        }
        Ok(())
    }

    /// Asking twice is no mistake: an abort always ends with weight 0.
    fn order_abort(&mut self, cause: Cause, log: &mut Log<'_>) -> Result<(), Refusal> {
        match &self.phase {
            Phase::Progressing(_) | Phase::Paused { .. } => {
                self.withdraw(cause, "aborted by hand".to_owned(), log);
                Ok(())
            }
            Phase::Degraded { .. } => {
                // Who asks again while the weight is on its way down wants it gone now.
                self.end_ramp();
                Ok(())
            }
            Phase::Healthy => Err(self.no_rollout("abort")),
        }
    }

    /// The weight stays for clients whose bucket it holds; no draw goes to the canary, so nothing is drawn evidence now.
    fn order_drain(&mut self, cause: Cause, log: &mut Log<'_>) -> Result<(), Refusal> {
        match &self.phase {
            Phase::Paused { kind: PauseKind::Untrusted, .. } => Err(self.untrusted()),
            Phase::Paused { kind: PauseKind::Drain, .. } => Ok(()),
            Phase::Progressing(_) | Phase::Paused { .. } => {
                self.traffic.cut(log.now, log.generation, Weight::ZERO);
                self.pause(PauseKind::Drain, "draining: nobody new comes to the canary".to_owned(), cause, log);
                Ok(())
            }
            Phase::Healthy | Phase::Degraded { .. } => Err(self.no_rollout("drain")),
        }
    }

    fn order_retry(&mut self, cause: Cause, log: &mut Log<'_>) -> Result<(), Refusal> {
        match &self.phase {
            Phase::Degraded { target, .. } if self.plan.version(&target.version).is_some() => {
                let target = target.clone();
                self.start(target, cause, log);
                Ok(())
            }
            Phase::Degraded { target, .. } => Err(not_now(format!("`{}` is no longer in the file", target.version))),
            _ => Err(not_now("only an aborted rollout can be retried; `start --to VERSION` begins one".to_owned())),
        }
    }

    fn order_undo(&mut self, to: Option<Revision>, cause: Cause, log: &mut Log<'_>) -> Result<(), Refusal> {
        if self.rollout().is_some() {
            return Err(not_now(
                "a rollout is running: `abort` it first, which goes back to stable at once".to_owned(),
            ));
        }
        if to == Some(self.standing.stable_since) {
            return Err(not_now(format!(
                "`{}` of revision {} is stable already",
                self.standing.stable.version, self.standing.stable_since
            )));
        }
        let found = self.undoable().find(|(_, (of, _))| to.is_none_or(|revision| *of == revision));
        let found = found.map(|(back, (_, wish))| (back, wish.clone()));
        let Some((back, target)) = found else {
            let known: Vec<_> =
                self.standing.earlier.iter().map(|(of, wish)| format!("{of} ({})", wish.version)).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            return Err(not_now(format!("no such earlier stable version that the file still names; earlier: {known}")));
        };
        let undone = self.standing.stable.clone();
        self.standing.refuse(&undone);
        let (fit, known) = self.fit(&target.version);
        if back < self.plan.strategy.policy.rollback_window && (fit > 0 || known == 0) {
            self.crown(target, cause, log);
        } else {
            // Too long ago to be trusted with everything at once, or not well.
            self.start(target, cause, log);
        }
        Ok(())
    }

    /// Earlier stable versions that can be gone back to, the latest first, each with how many lie in between.
    fn undoable(&self) -> impl Iterator<Item = (usize, &(Revision, Wish))> {
        self.standing.earlier.iter().rev().enumerate().filter(|(_, (_, wish))| {
            wish.version != self.standing.stable.version && self.plan.version(&wish.version).is_some()
        })
    }

    /// What `undo` without a revision goes back to.
    pub(super) fn undo_target(&self) -> Option<VersionName> {
        self.undoable().next().map(|(_, (_, wish))| wish.version.clone())
    }

    fn order_weight(&mut self, weight: Weight, cause: Cause, log: &mut Log<'_>) -> Result<(), Refusal> {
        match &self.phase {
            Phase::Paused { kind: PauseKind::Untrusted, .. } => Err(self.untrusted()),
            Phase::Progressing(_) | Phase::Paused { .. } => {
                self.hold_at(weight, cause, log);
                Ok(())
            }
            Phase::Healthy | Phase::Degraded { .. } => Err(self.no_rollout("set-weight")),
        }
    }

    /// Ends a pause: the clock goes on where it stopped.
    fn run_on(&mut self, log: &mut Log<'_>) {
        let aside = self.aside_weight();
        self.phase = match std::mem::replace(&mut self.phase, Phase::Healthy) {
            Phase::Paused { mut rollout, at, .. } => {
                rollout.since = rollout.since + log.now.since(at);
                Phase::Progressing(rollout)
            }
            other => other,
        };
        if self.aside_weight() != aside {
            self.weight_changed(log);
        }
    }

    /// The first step above a weight that was set by hand.
    fn step_above(&self) -> Option<usize> {
        let present = self.canary_weight();
        let above = |step: &Step| matches!(step, Step::SetWeight(weight) if *weight > present);
        self.plan.strategy.steps.iter().position(above)
    }

    /// A weight by hand above every step: what comes after the last weight is held in full at the weight as it is. Going
    /// on is not promoting; who wants that says `promote`.
    fn resume_last_hold(&mut self, cause: Cause, log: &mut Log<'_>) {
        let steps = &self.plan.strategy.steps;
        let last_weight = steps.iter().rposition(|step| matches!(step, Step::SetWeight(_)));
        let hold = last_weight.map_or(0, |at| at + 1).min(steps.len().saturating_sub(1));
        let Some(rollout) = self.rollout_mut() else { return };
        rollout.spent = rollout.running_for(log.now);
        (rollout.step, rollout.since) = (hold, log.now);
        (rollout.lacking_since, rollout.analysis) = (None, None);
        let about = Some(rollout.target.version.clone());
        self.note(EventKind::Resumed, cause, about, log);
    }

    /// The windows and strata begin anew, at the weights as they are.
    fn cut(&mut self, log: &Log<'_>) {
        let (weight, aside) = (self.canary_weight(), self.aside_weight());
        self.traffic.cut_beside(log.now, log.generation, weight, aside);
    }

    fn no_rollout(&self, verb: &str) -> Refusal {
        let stable = &self.standing.stable.version;
        let degraded = match &self.phase {
            Phase::Degraded { target, .. } => format!("; `{}` was aborted, `retry` tries it again", target.version),
            _ => "; `start --to VERSION` begins one".to_owned(),
        };
        not_now(format!(
            "nothing to {verb}: no rollout of `{}` is running, `{stable}` serves all{degraded}",
            self.plan.name
        ))
    }

    fn untrusted(&self) -> Refusal {
        let target = self.rollout().map_or("VERSION", |rollout| rollout.target.version.as_str());
        not_now(format!(
            "where this rollout stood is not known for sure: `start --to {target}` begins it again, `abort` gives it up"
        ))
    }
}

const fn not_now(text: String) -> Refusal {
    Refusal::NotNow(text)
}

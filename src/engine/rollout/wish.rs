//! What the file wants, against where we are: what starts, ends and changes a rollout.
//! Saving a file without a new wish starts nothing.

use std::collections::VecDeque;

use super::{
    state::{Log, Phase, Rollout, Service, Standing, WatchedShares},
    traffic::Traffic,
};
use crate::engine::{
    event::{Cause, EventKind},
    input::Refusal,
    memory::{EvidenceMemory, PhaseMemory, ServiceMemory},
    names::VersionName,
    plan::{Pause, ServicePlan, Step, Wish},
    stats::share_test::ShareTest,
    weight::Weight,
};

/// What a start knows besides the file.
#[derive(Debug, Clone, Default)]
pub(in crate::engine) struct Recollection {
    /// The service as remembered.
    pub(in crate::engine) memory: Option<ServiceMemory>,
    /// Its share test.
    pub(in crate::engine) evidence: Option<EvidenceMemory>,
    /// Why a remembered or wanted rollout must not simply go on, in words.
    pub(in crate::engine) distrust: Option<String>,
}

impl Service {
    /// Takes up a service at the start of the process, or when the file names it for the first time.
    pub(in crate::engine) fn take_up(plan: ServicePlan, known: Recollection, log: &mut Log<'_>) -> Self {
        let Recollection { memory, evidence, distrust } = known;
        let mut standing = memory.as_ref().map_or_else(|| Standing::first(plan.stable.clone()), Standing::recall);
        standing.forget_named(&plan);
        let plan = standing.complete(plan);
        let mut service = Self {
            plan,
            standing,
            phase: Phase::Healthy,
            traffic: Traffic::new(log.now),
            health: Vec::new(),
            last_event: None,
            runs: VecDeque::new(),
            by_hand: None,
        };
        service.traffic.cut(log.now, log.generation, Weight::ZERO);
        if let Some(memory) = memory {
            service.recall(memory, evidence, log);
        } else {
            service.note(EventKind::Initialized, Cause::File, None, log);
        }
        service.must_exist(log);
        match distrust {
            Some(trouble) => service.hold_back(trouble, log),
            None => service.follow_wish(log),
        }
        service
    }

    /// Whether the plan may replace the present one while we run.
    pub(in crate::engine) fn accepts(&self, plan: &ServicePlan) -> Result<(), Refusal> {
        let stable = &self.standing.stable;
        let missing =
            |version: &VersionName| plan.version(version).is_none() && self.standing.added_at(version).is_none();
        if missing(&stable.version) {
            let version = &stable.version;
            return Err(Refusal::NotNow(format!(
                "version `{version}` of service `{}` is stable now and cannot be removed; promote another one first",
                plan.name
            )));
        }
        if let Some(target) = self.rollout().map(|rollout| &rollout.target.version).filter(|version| missing(version)) {
            return Err(Refusal::NotNow(format!(
                "version `{target}` of service `{}` is being rolled out and cannot be removed; abort it first",
                plan.name
            )));
        }
        let rebuilt = |wish: &&Wish| wish.version == stable.version && wish.revision != stable.revision;
        let unseen = plan.wish.as_ref().filter(|wish| self.standing.seen.as_ref() != Some(wish));
        match unseen.filter(rebuilt).filter(|wish| !wish.revision.is_empty()) {
            Some(wish) => Err(Refusal::NotNow(format!(
                "service `{}`: canary `{}` is the stable version; another build of it needs a version of its own, \
                 since both would be one upstream",
                plan.name, wish.version
            ))),
            None => Ok(()),
        }
    }

    /// Follows a changed plan. `accepts` has said yes.
    pub(in crate::engine) fn reconfigure(&mut self, plan: ServicePlan, log: &mut Log<'_>) {
        self.standing.forget_named(&plan);
        let plan = self.standing.complete(plan);
        // What a person might run by hand is no part of what is under way.
        self.plan.by_hand.clone_from(&plan.by_hand);
        if plan == self.plan {
            return;
        }
        let former = std::mem::replace(&mut self.plan, plan);
        let plan = &self.plan;
        self.traffic.retain(|version| plan.version(version).is_some());
        self.health.retain(|(version, _)| plan.version(version).is_some());
        let same_wish = former.wish == self.plan.wish;
        if self.rollout().is_some() && same_wish {
            let about = self.rollout().map(|rollout| rollout.target.version.clone());
            self.note(EventKind::Reconfigured, Cause::File, about, log);
            self.refit(&former, log);
        }
        self.follow_wish(log);
    }

    /// A new wish starts a rollout, a withdrawn one ends it, a known one does nothing.
    fn follow_wish(&mut self, log: &mut Log<'_>) {
        if self.plan.wish == self.standing.seen {
            return;
        }
        self.standing.seen = self.plan.wish.clone();
        let running = self.rollout().map(|rollout| rollout.target.clone());
        let wanted = self.plan.wish.clone().filter(|wish| wish.version != self.standing.stable.version);
        if running == wanted {
            return;
        }
        self.supersede(Cause::File, log);
        if let Some(target) = wanted.filter(|wish| !self.standing.refused.contains(wish)) {
            self.start(target, Cause::File, log);
        }
    }

    /// Thresholds apply at once and keep the evidence; an edited past starts over, an edited present is entered anew.
    fn refit(&mut self, former: &ServicePlan, log: &mut Log<'_>) {
        let guard = self.plan.strategy.guard.share_test;
        let steps = self.plan.strategy.steps.clone();
        let Some(rollout) = self.rollout_mut() else { return };
        match (guard, rollout.test.as_mut()) {
            (Some(plan), Some(watched)) => watched.test.reconfigure(plan),
            (None, _) => rollout.test = None,
            (Some(_), None) => self.arm_share_test(log.now),
        }
        let Some(step) = self.rollout().map(|rollout| rollout.step) else { return };
        let done = |steps: &[Step]| steps.get(..step).map(<[Step]>::to_vec);
        let running = matches!(self.phase, Phase::Progressing(_));
        if done(&steps) != done(&former.strategy.steps) {
            self.back_to_first_step(log);
        } else if running && !same_kind(steps.get(step), former.strategy.steps.get(step)) {
            self.enter(step, Cause::File, log);
        }
    }

    fn back_to_first_step(&mut self, log: &mut Log<'_>) {
        let phase = std::mem::replace(&mut self.phase, Phase::Healthy);
        self.phase = match phase {
            Phase::Progressing(rollout) | Phase::Paused { rollout, .. } => Phase::Progressing(rollout),
            other => other,
        };
        if let Some(rollout) = self.rollout_mut() {
            rollout.weight = Weight::ZERO;
        }
        self.enter(0, Cause::File, log);
    }

    fn recall(&mut self, memory: ServiceMemory, evidence: Option<EvidenceMemory>, log: &Log<'_>) {
        self.phase = match memory.phase {
            PhaseMemory::Healthy => Phase::Healthy,
            PhaseMemory::Progressing(rollout) => Phase::Progressing(Box::new(Rollout::recall(&rollout))),
            PhaseMemory::Paused { rollout, kind, reason, at } => {
                Phase::Paused { rollout: Box::new(Rollout::recall(&rollout)), kind, reason, at }
            }
            PhaseMemory::Degraded { target, reason } => Phase::Degraded { target, reason, ramp: None },
        };
        let revision = self.standing.revision;
        let plan = self.plan.strategy.guard.share_test;
        let steps = self.plan.strategy.steps.len();
        self.arm_share_test(log.now);
        let Some(rollout) = self.rollout_mut() else { return };
        rollout.step = rollout.step.min(steps);
        if let Some((plan, saved)) = plan.zip(evidence.filter(|saved| saved.revision == revision)) {
            let test = ShareTest::resume(plan, saved.share_test);
            rollout.test = Some(WatchedShares::new(test, log.now));
        }
        let weight = rollout.weight;
        let aside = self.aside_weight();
        self.traffic.cut_beside(log.now, log.generation, weight, aside);
    }

    /// A remembered version that the file has dropped while we were down cannot be served.
    fn must_exist(&mut self, log: &mut Log<'_>) {
        let target = self.rollout().map(|rollout| rollout.target.version.clone());
        if let Some(target) = target.filter(|target| self.plan.version(target).is_none()) {
            self.distrust(format!("version `{target}` was being rolled out and is no longer in the file"), log);
        }
        let stable = self.standing.stable.version.clone();
        if self.plan.version(&stable).is_none() {
            self.adopt(format!("version `{stable}` was stable and is no longer in the file"), log);
        }
    }

    /// What the file names as stable is stable: it cannot be on trial against itself, nor refused as a canary.
    fn adopt(&mut self, trouble: String, log: &mut Log<'_>) {
        let on_trial = match &self.phase {
            Phase::Progressing(rollout) | Phase::Paused { rollout, .. } => Some(&rollout.target),
            Phase::Degraded { target, .. } => Some(target),
            Phase::Healthy => None,
        };
        let cause = Cause::Storage(trouble.clone());
        if on_trial.is_some_and(|target| target.version == self.plan.stable) {
            self.promote(cause, log);
            return;
        }
        self.distrust(trouble, log);
        let fallback = Wish { version: self.plan.stable.clone(), revision: String::new() };
        self.standing.crown(fallback, self.standing.revision);
        self.note(EventKind::Promoted, cause, Some(self.plan.stable.clone()), log);
    }

    /// The state cannot be trusted: no rollout goes on or starts by itself.
    fn hold_back(&mut self, trouble: String, log: &mut Log<'_>) {
        self.standing.seen = self.plan.wish.clone();
        if self.rollout().is_none() {
            let wanted = self.plan.wish.clone().filter(|wish| wish.version != self.standing.stable.version);
            let Some(target) = wanted.filter(|wish| !self.standing.refused.contains(wish)) else { return };
            self.standing.revision.0 += 1;
            self.phase = Phase::Progressing(Box::new(Rollout::waiting(target, log.now)));
        }
        self.distrust(trouble, log);
    }
}

/// A hold that is only longer or shorter now is the same hold: its clock goes on.
fn same_kind(now: Option<&Step>, before: Option<&Step>) -> bool {
    let is_hold =
        |step: Option<&Step>| matches!(step, Some(Step::Pause(Pause::For(_) | Pause::Bake(_) | Pause::Requests(_))));
    now == before || (is_hold(now) && is_hold(before))
}

//! An analysis that a person starts, in a rollout or outside one: measured, recorded and told like the others. Decides
//! nothing, and refuses a second one at the same time.

use super::state::{Log, Service};
use crate::engine::{
    analysis::{
        ask::RunKind,
        run::{AnalysisPhase, AnalysisRun},
    },
    event::{Cause, EventKind},
    input::Refusal,
};

impl Service {
    /// Starts a template of the file, on the versions as they are: outside a rollout the canary is the stable version.
    pub(super) fn order_analyze(&mut self, template: &str, cause: Cause, log: &mut Log<'_>) -> Result<(), Refusal> {
        let Some(of_file) = self.plan.by_hand.iter().find(|of| of.name == template) else {
            let known: Vec<_> = self.plan.by_hand.iter().map(|of| format!("`{}`", of.name)).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            return Err(Refusal::NotNow(format!("the file has no analysis template `{template}`; it has {known}")));
        };
        let templates = of_file.run.as_ref().map_err(|why| {
            Refusal::NotNow(format!("{why}: only a template whose arguments all have a value is run by hand; write one that has this one in its `templates`, and give it the values"))
        })?;
        if let Some(running) = self.by_hand_name() {
            return Err(Refusal::NotNow(format!(
                "`{running}` is being analysed by hand already: wait for its end, or `terminate` it"
            )));
        }
        self.by_hand = Some(AnalysisRun::start(templates, self.present_step(), log.now));
        let judged = self.rollout().map_or(&self.standing.stable, |rollout| &rollout.target).version.clone();
        self.note(EventKind::AnalysisStarted, cause, Some(judged), log);
        Ok(())
    }

    /// Measures what is due. Who waits for requests that do not come is told so, and does not wait for ever.
    pub(super) fn watch_by_hand(&mut self, log: &mut Log<'_>) {
        if !matches!(self.drive(RunKind::Manual, log), Some(AnalysisPhase::Running)) {
            return;
        }
        let Some(mut run) = self.take_run(RunKind::Manual) else { return };
        let patience = self.plan.strategy.no_traffic_for;
        if run.waiting_since().is_some_and(|since| log.now.since(since) >= patience) {
            run.give_up_without_data(log.now);
        }
        self.put_run(RunKind::Manual, run, log.now);
    }

    fn by_hand_name(&self) -> Option<String> {
        let run = self.by_hand.as_ref()?.record(self.standing.revision, RunKind::Manual);
        run.templates.into_iter().next()
    }
}

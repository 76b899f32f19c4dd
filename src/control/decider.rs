//! The engine and its hands: an input goes in with the time, and what it decides is carried out, or taken back when the
//! disk fails. Knows no socket, clock or thread, so that a simulation drives what production drives.

use tracing::error;

use super::{
    effects::{Alarm, Hands},
    handle::CommandError,
};
use crate::engine::{
    Engine, Recovered,
    analysis::ask::Question,
    effect::Effect,
    event::Event,
    gate::GateQuestion,
    input::{Command, Input},
    memory::EvidenceMemory,
    plan::Plan,
    time::Timestamp,
};

/// A control plane at work.
#[derive(Debug)]
pub struct Decider {
    engine: Engine,
    hands: Hands,
}

/// What came of an input.
#[derive(Debug)]
pub struct Outcome {
    /// What is to be asked of others. Nothing waits for it.
    pub questions: Vec<Question>,
    /// Gates to be asked, once what asks them is in force: none when it is not.
    pub gates: Vec<GateQuestion>,
    /// The last event of it, if any, once all is persisted and published.
    pub told: Result<Option<Event>, CommandError>,
}

impl Decider {
    /// Begins with an engine that was told the file already, `effects` being what came of that.
    ///
    /// # Errors
    /// When nothing was remembered before and what was decided first could not be written.
    pub fn begin(
        engine: Engine,
        effects: Vec<Effect>,
        hands: Hands,
        plan: impl FnOnce() -> Plan,
        now: Timestamp,
    ) -> Result<Self, Alarm> {
        let remembers = hands.remembered().sequence > 0;
        let mut decider = Self { engine, hands };
        match decider.hands.carry_out(effects) {
            Ok(_) => {}
            // A full disk must not take down what is known to be stable.
            Err(Alarm(trouble)) if remembers => decider.fall_back(&trouble, plan(), now),
            Err(alarm) => return Err(alarm),
        }
        Ok(decider)
    }

    /// Takes an input in; `plan` is what the file in force says, for when the disk fails.
    pub fn apply(&mut self, input: Input, now: Timestamp, plan: impl FnOnce() -> Plan) -> Outcome {
        let mut effects = Vec::new();
        if let Err(refusal) = self.engine.apply(input, now, &mut effects) {
            return Outcome { questions: Vec::new(), gates: Vec::new(), told: Err(refusal.into()) };
        }
        let (mut questions, mut gates) = (Vec::new(), Vec::new());
        for effect in &effects {
            match effect {
                Effect::Measure(question) => questions.push(Question::clone(question)),
                Effect::Consult(question) => gates.push(GateQuestion::clone(question)),
                Effect::Persist(_) | Effect::Publish { .. } => {}
            }
        }
        let told = self.hands.carry_out(effects).map_err(|Alarm(trouble)| {
            self.fall_back(&trouble, plan(), now);
            // What is not in force is told to nobody.
            gates.clear();
            CommandError::Storage(trouble)
        });
        Outcome { questions, gates, told }
    }

    /// What a command would decide, tried on a copy.
    ///
    /// # Errors
    /// When it would be refused.
    pub fn rehearse(&self, command: Command, now: Timestamp) -> Result<Option<Event>, CommandError> {
        let mut effects = Vec::new();
        self.engine.clone().apply(Input::Command(command), now, &mut effects)?;
        let decided = effects.into_iter().filter_map(|effect| match effect {
            Effect::Persist(decision) => Some(decision.event),
            Effect::Publish { .. } | Effect::Measure(_) | Effect::Consult(_) => None,
        });
        Ok(decided.last())
    }

    /// Saves the share tests' state, and tries again to write what waits for the disk. Each second.
    pub fn save(&mut self, now: Timestamp) {
        self.save_evidence(now);
        self.hands.retry();
    }

    /// Saves the share tests' state.
    pub fn save_evidence(&mut self, now: Timestamp) {
        let evidence: Vec<EvidenceMemory> = self.engine.evidence();
        self.hands.save_evidence(&evidence, now);
    }

    /// The engine, to look at.
    #[must_use]
    pub const fn engine(&self) -> &Engine {
        &self.engine
    }

    /// A decision could not be remembered, so it is not in force. Back to what is remembered, with stable only.
    fn fall_back(&mut self, trouble: &str, plan: Plan, now: Timestamp) {
        self.engine = Engine::new(Recovered {
            memory: self.hands.remembered(),
            evidence: Vec::new(),
            distrust: Some(format!("the state folder cannot be written: {trouble}")),
            generation: self.hands.generation(),
        });
        let mut effects = Vec::new();
        if let Err(refusal) = self.engine.apply(Input::Configure(plan), now, &mut effects) {
            error!("the file is refused on falling back: {refusal}");
        }
        self.hands.carry_out_unremembered(effects);
    }
}

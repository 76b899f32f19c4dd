//! Gates on virtual time: who is asked when, what the answers do, and what a gate must never do.

use std::time::Duration;

use serin::engine::{
    event::{Cause, EventKind, GateWord},
    gate::{GateAnswer, GateKind, GatePlan, GateQuestion},
    input::{Input, Verb},
    memory::{PauseKind, PhaseMemory},
    plan::{ServicePlan, Step},
    view::PhaseView,
    weight::Weight,
};

use crate::world::{Dice, Traffic, World, hold, plan, weight, wish};

const GOOD: Traffic = Traffic { requests: 20, stable_errors: 1_000, canary_errors: 1_000 };
const DEAD: Traffic = Traffic { requests: 20, stable_errors: 0, canary_errors: 1_000_000 };
const GO: Result<GateAnswer, String> = Ok(GateAnswer::Go);

fn gated(steps: Vec<Step>, kinds: &[GateKind]) -> ServicePlan {
    let gate = |kind: &GateKind| GatePlan { name: kind.as_str().into(), kind: *kind, timeout: Duration::from_secs(10) };
    ServicePlan { gates: kinds.iter().map(gate).collect(), ..plan(steps) }
}

struct Gates {
    world: World,
    dice: Dice,
}

impl Gates {
    fn new(steps: Vec<Step>, kinds: &[GateKind]) -> Self {
        Self { world: World::new(gated(steps, kinds)), dice: Dice::new(1) }
    }

    fn run(&mut self, seconds: u64) {
        self.world.run(Duration::from_secs(seconds), GOOD, &mut self.dice);
    }

    /// What was asked since the last look: kind and step from 1.
    fn asked(&mut self) -> Vec<GateQuestion> {
        std::mem::take(&mut self.world.gates)
    }

    /// Answers everything that was asked, and says what that was.
    fn answer(&mut self, answer: &Result<GateAnswer, String>) -> Vec<(&'static str, usize)> {
        let asked = self.asked();
        for question in &asked {
            self.world.apply(Input::GateAnswered(question.ticket.clone(), answer.clone())).unwrap();
        }
        asked.iter().map(|question| (question.kind.as_str(), question.ticket.step + 1)).collect()
    }

    fn weight(&self) -> String {
        self.world.canary_weight().to_string()
    }

    fn waits_for(&self) -> String {
        format!("{:?}", self.world.engine.view(self.world.now).services[0].rollout.as_ref().unwrap().waiting)
    }

    fn is_paused(&self, wanted: PauseKind) -> bool {
        matches!(self.world.phase(), PhaseMemory::Paused { kind, .. } if *kind == wanted)
    }
}

#[test]
fn each_is_asked_where_its_kind_says_once_a_step() {
    use GateKind::{ConfirmPromotion, ConfirmRollout, ConfirmTrafficIncrease, PostRollout, PreRollout, Rollout};
    let kinds = [PostRollout, PreRollout, ConfirmRollout, Rollout, ConfirmTrafficIncrease, ConfirmPromotion];
    let mut at = Gates::new(vec![weight("5%"), hold(2), weight("50%"), hold(2)], &kinds);
    let mut told = Vec::new();
    for _ in 0..30 {
        at.run(1);
        told.extend(at.answer(&GO));
    }
    let wanted = [
        ("confirm-rollout", 1),
        ("pre-rollout", 1),
        ("confirm-traffic-increase", 1),
        ("rollout", 2),
        ("confirm-traffic-increase", 3),
        ("rollout", 4),
        ("confirm-promotion", 5),
        ("post-rollout", 5),
    ];
    assert_eq!(told, wanted);
    assert_eq!(at.world.service().versions[at.world.service().stable].name.as_str(), "v2");
    let passed = at.world.events.iter().filter(|event| event.kind == EventKind::GatePassed).count();
    assert_eq!(passed, 7, "each go is in the history");
}

#[test]
fn nothing_moves_while_a_gate_is_not_asked_twice_and_says_nothing() {
    let mut at = Gates::new(vec![weight("5%"), hold(2)], &[GateKind::ConfirmTrafficIncrease]);
    at.run(8);
    assert_eq!((at.weight(), at.asked().len()), ("0%".to_owned(), 1));
    assert!(at.waits_for().contains("asked, no answer yet"), "{}", at.waits_for());
}

#[test]
fn wait_asks_again_when_it_says_and_stop_aborts() {
    let mut at = Gates::new(vec![weight("5%"), hold(2)], &[GateKind::ConfirmRollout]);
    at.run(1);
    at.answer(&Ok(GateAnswer::Wait(Some(Duration::from_mins(1)))));
    at.run(50);
    assert_eq!(at.asked().len(), 0);
    assert!(at.waits_for().contains("it says wait, asked again in 1"), "{}", at.waits_for());
    at.run(11);
    assert_eq!(at.answer(&Ok(GateAnswer::Wait(None))), [("confirm-rollout", 1)]);
    at.run(11);
    assert_eq!(at.answer(&Ok(GateAnswer::Stop)), [("confirm-rollout", 1)]);
    let aborted = at.world.last(EventKind::Aborted).unwrap();
    assert!(matches!(&aborted.cause, Cause::Gate { said: GateWord::Stop, .. }), "{aborted:?}");
    assert!(at.world.disk.services[0].refused.contains(&wish("v2")), "it is not tried again by itself");
}

/// A gate that holds the traffic with failures beyond the limit behind it must not keep a dead canary in traffic.
#[test]
fn a_gate_that_holds_hides_no_verdict() {
    let mut at = Gates::new(vec![weight("5%"), hold(1), weight("50%"), hold(9)], &[GateKind::ConfirmTrafficIncrease]);
    at.run(1);
    at.answer(&GO);
    at.run(3);
    assert_eq!((at.weight(), at.answer(&Ok(GateAnswer::Wait(None))).len()), ("5%".to_owned(), 1));
    at.world.run(Duration::from_mins(1), DEAD, &mut at.dice);
    assert!(matches!(at.world.phase(), PhaseMemory::Degraded { .. }), "{:?}", at.world.phase());
    assert_eq!(at.world.canary_weight(), Weight::ZERO);
}

#[test]
fn one_that_cannot_be_asked_ends_with_a_person_and_never_with_an_abort() {
    let mut at = Gates::new(vec![weight("5%"), hold(2)], &[GateKind::ConfirmRollout]);
    let silent = Err("cannot reach hooks.example".to_owned());
    for fault in 1..=5 {
        assert!(!at.is_paused(PauseKind::Gate));
        at.run(11);
        assert_eq!(at.answer(&silent).len(), 1, "fault {fault}");
        if fault < 5 {
            let wanted = format!("cannot reach hooks.example ({fault} in a row), asked again in");
            assert!(at.waits_for().contains(&wanted), "{}", at.waits_for());
        }
    }
    assert!(at.is_paused(PauseKind::Gate), "{:?}", at.world.phase());
    at.run(30);
    assert_eq!(at.asked(), [], "a person is waited for");
    at.world.order(Verb::Resume).unwrap();
    at.run(1);
    assert_eq!(at.answer(&GO).len(), 1, "and resume asks again");
    assert_eq!(at.weight(), "5%");
}

#[test]
fn promote_goes_past_a_gate_and_an_answer_to_it_comes_too_late() {
    let mut at = Gates::new(vec![weight("5%"), hold(600)], &[GateKind::ConfirmRollout]);
    at.run(1);
    at.world.order(Verb::Promote { full: false, force: false }).unwrap();
    assert_eq!(at.weight(), "5%");
    at.answer(&Ok(GateAnswer::Stop));
    assert_eq!((at.weight(), at.world.last(EventKind::Aborted)), ("5%".to_owned(), None));
}

#[test]
fn a_first_step_without_weight_waits_for_its_gates_too() {
    let mut at = Gates::new(vec![hold(5), weight("5%"), hold(600)], &[GateKind::PreRollout]);
    at.run(12);
    assert_eq!(at.weight(), "0%");
    at.answer(&GO);
    at.run(4);
    assert_eq!(at.weight(), "0%", "its time counts from the go");
    at.world.crash(Duration::ZERO);
    at.run(2);
    assert_eq!((at.weight(), at.asked().len()), ("5%".to_owned(), 0));
}

/// An open gate of one run is none of the next, and a restart asks nothing again that was answered.
#[test]
fn a_go_survives_a_restart_and_not_its_rollout() {
    let kinds = [GateKind::ConfirmRollout, GateKind::ConfirmTrafficIncrease];
    let mut at = Gates::new(vec![weight("5%"), hold(600)], &kinds);
    at.run(1);
    at.answer(&GO);
    at.asked();
    at.world.crash(Duration::from_secs(1));
    at.run(1);
    assert_eq!(at.answer(&GO), [("confirm-traffic-increase", 1)], "the first gate is not asked again");
    assert_eq!(at.weight(), "5%");
    at.world.order(Verb::Abort).unwrap();
    at.world.order(Verb::Retry).unwrap();
    at.run(1);
    assert_eq!((at.weight(), at.answer(&GO)), ("0%".to_owned(), vec![("confirm-rollout", 1)]));
}

/// As in Flagger, a good answer of this one means: back.
#[test]
fn a_rollback_gate_says_go_to_give_the_canary_up_and_holds_nothing_else() {
    let mut at = Gates::new(vec![weight("5%"), hold(2), weight("50%"), hold(600)], &[GateKind::Rollback]);
    at.run(1);
    assert_eq!(at.answer(&Err("it answered 403 Forbidden".to_owned())), [("rollback", 2)]);
    for _ in 0..9 {
        at.run(11);
        at.answer(&Err("it answered 403 Forbidden".to_owned()));
    }
    assert_eq!((at.weight(), at.is_paused(PauseKind::Gate)), ("50%".to_owned(), false));
    at.world.order(Verb::Pause).unwrap();
    at.run(11);
    assert_eq!(at.answer(&GO), [("rollback", 4)], "it is asked in pauses as well");
    let aborted = at.world.last(EventKind::Aborted).unwrap();
    assert!(matches!(&aborted.cause, Cause::Gate { said: GateWord::RollBack, .. }), "{aborted:?}");
}

#[test]
fn after_the_end_it_is_told_how_it_ended_whatever_that_gate_answers() {
    let mut at = Gates::new(vec![weight("5%"), hold(600)], &[GateKind::PostRollout]);
    at.run(1);
    at.world.order(Verb::Abort).unwrap();
    let told = at.asked();
    assert_eq!((told.len(), told[0].phase), (1, PhaseView::Degraded));
    at.world.apply(Input::GateAnswered(told[0].ticket.clone(), Ok(GateAnswer::Stop))).unwrap();
    at.world.order(Verb::Retry).unwrap();
    at.world.order(Verb::Promote { full: true, force: false }).unwrap();
    assert_eq!(at.asked()[0].phase, PhaseView::Healthy);
}

#[test]
fn a_question_that_got_lost_is_asked_again() {
    let mut at = Gates::new(vec![weight("5%"), hold(2)], &[GateKind::ConfirmRollout]);
    at.run(1);
    let lost = at.asked();
    at.run(26);
    assert_eq!(at.asked().len(), 1);
    at.world.apply(Input::GateAnswered(lost[0].ticket.clone(), GO)).unwrap();
    assert_eq!(at.weight(), "0%", "the answer to the lost question counts no longer");
}

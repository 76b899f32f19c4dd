//! Analyses that a person starts, on virtual time: outside a rollout and in one, and that they decide nothing.

use std::time::Duration;

use serin::engine::{
    analysis::{
        answer::{Answer, Reply},
        ask::RunKind,
        run::AnalysisPhase,
        template::MetricPlan,
    },
    event::{Cause, EventKind},
    input::{Input, Verb},
    memory::PhaseMemory,
    plan::{ByHand, ServicePlan},
};
use serin::words::{self, ConfigNote, Style};

use crate::{
    analyses::{answer, judge, outside, runs, template, undecided, unguarded},
    world::{Dice, Traffic, World, hold, version, weight, wish},
};

const GOOD: Traffic = Traffic { requests: 20, stable_errors: 0, canary_errors: 0 };
const BAD: Traffic = Traffic { requests: 20, stable_errors: 0, canary_errors: 400_000 };
const BAD_STABLE: Traffic = Traffic { requests: 20, stable_errors: 400_000, canary_errors: 0 };
const NOBODY: Traffic = Traffic { requests: 0, stable_errors: 0, canary_errors: 0 };

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A service in a rollout whose file has this metric as the template `t`, three measurements of it.
fn with(metric: MetricPlan) -> ServicePlan {
    let run = Ok(template(MetricPlan { count: Some(3), interval: Some(secs(1)), ..metric }));
    let lacking = Err("the argument `limit` of `u` has no value".to_owned());
    ServicePlan {
        by_hand: vec![ByHand { name: "t".to_owned(), run }, ByHand { name: "u".to_owned(), run: lacking }],
        ..unguarded(vec![weight("20%"), hold(3_600)])
    }
}

/// The same outside a rollout.
fn at_rest(metric: MetricPlan) -> World {
    let mut world = World::new(ServicePlan { wish: None, ..with(metric) });
    world.run(secs(3), GOOD, &mut Dice::new(1));
    assert!(matches!(world.phase(), PhaseMemory::Healthy));
    world
}

fn analyze(world: &mut World, template: &str) -> Result<(), String> {
    world.order(Verb::Analyze { template: template.to_owned() }).map_err(|refusal| refusal.to_string())
}

/// In a rollout and outside one: what comes of it, with whose numbers, and that nothing else comes of it.
#[test]
fn an_analysis_by_hand_has_its_verdict_and_decides_nothing() {
    use AnalysisPhase::{Failed, Inconclusive, Successful};
    for (in_rollout, metric, traffic, phase) in [
        (true, judge(), GOOD, Successful),
        (true, judge(), BAD, Failed),
        (true, judge(), BAD_STABLE, Successful),
        (true, undecided(), BAD, Inconclusive),
        (false, judge(), GOOD, Successful),
        (false, judge(), BAD_STABLE, Failed),
    ] {
        let row = format!("{in_rollout} {phase:?}");
        let mut world = if in_rollout { World::new(with(metric)) } else { at_rest(metric) };
        let mut dice = Dice::new(50);
        world.run(secs(3), traffic, &mut dice);
        let (before, weight) = (world.phase().clone(), world.canary_weight());
        analyze(&mut world, "t").unwrap();
        let event = world.events.last().unwrap();
        let judged = version(if in_rollout { "v2" } else { "v1" });
        assert_eq!((event.kind, event.canary.as_ref()), (EventKind::AnalysisStarted, Some(&judged)), "{row}");
        assert!(matches!(&event.cause, Cause::Person { verb: "analyze", actor, .. } if actor == "test"), "{row}");
        let running = runs(&world).pop().unwrap();
        assert_eq!((running.kind, running.phase, running.completed), (RunKind::Manual, AnalysisPhase::Running, None));
        assert_eq!(running.started, event.at, "by which it is found: {row}");
        let config = ConfigNote { path: "serin.yaml", loaded: world.now, error: None, needs_restart: &[] };
        let service = world.engine.view(world.now).services.remove(0);
        let status = words::status(world.now, &service, None, config, Style::PLAIN);
        assert!(status.contains("By hand") && status.contains("rate: not measured yet"), "{status}");
        world.run(secs(5), traffic, &mut dice);
        let ended = runs(&world).pop().unwrap();
        assert_eq!((ended.kind, ended.phase, ended.completed.is_some()), (RunKind::Manual, phase, true), "{row}");
        assert_eq!((world.phase().clone(), world.canary_weight()), (before, weight), "{row}");
        assert_eq!(world.events.last().map(|event| event.kind), Some(EventKind::AnalysisStarted), "{row}");
        let stands = world.engine.view(world.now).services.remove(0).last_event;
        assert!(
            stands.is_none_or(|event| event.kind != EventKind::AnalysisStarted),
            "{row}: says nothing of a rollout"
        );
        analyze(&mut world, "t").unwrap();
    }
}

#[test]
fn one_runs_at_a_time_and_what_cannot_run_says_why() {
    let mut world = at_rest(MetricPlan { initial_delay: secs(60), ..judge() });
    analyze(&mut world, "t").unwrap();
    let second = analyze(&mut world, "t").unwrap_err();
    assert_eq!(second, "`t` is being analysed by hand already: wait for its end, or `terminate` it");
    world.order(Verb::Terminate).unwrap();
    let ended = runs(&world).pop().unwrap();
    assert_eq!((ended.kind, ended.phase, runs(&world).len()), (RunKind::Manual, AnalysisPhase::Terminated, 1));
    assert!(world.order(Verb::Terminate).is_err(), "nothing runs any more");
    analyze(&mut world, "t").unwrap();
    let unknown = analyze(&mut world, "x").unwrap_err();
    assert_eq!(unknown, "the file has no analysis template `x`; it has `t`, `u`");
    assert!(analyze(&mut world, "u").unwrap_err().starts_with("the argument `limit` of `u` has no value: "));
}

#[test]
fn it_outlives_the_end_and_the_start_of_rollouts_and_no_restart() {
    let mut world = World::new(with(outside()));
    let mut dice = Dice::new(51);
    world.run(secs(3), GOOD, &mut dice);
    analyze(&mut world, "t").unwrap();
    world.run(secs(1), GOOD, &mut dice);
    world.order(Verb::Abort).unwrap();
    let mut newer = world.plan.clone();
    newer.wish = Some(wish("v3"));
    world.configure(newer).unwrap();
    let up = Ok(Reply::Value(Answer::numbers([1.0])));
    assert_eq!(answer(&mut world, &up), 1, "asked before the abort, answered after it");
    for _ in 0..2 {
        world.run(secs(1), GOOD, &mut dice);
        answer(&mut world, &up);
    }
    let ended = runs(&world).pop().unwrap();
    assert_eq!((ended.phase, ended.metrics[0].tally.successful), (AnalysisPhase::Successful, 3));
    analyze(&mut world, "t").unwrap();
    world.run(secs(1), GOOD, &mut dice);
    let late = world.questions.clone();
    world.crash(secs(1));
    for question in late {
        world.apply(Input::Answered(question.ticket, up.clone())).unwrap();
    }
    world.run(secs(5), GOOD, &mut dice);
    assert!(runs(&world).iter().all(|run| run.kind != RunKind::Manual), "{:?}", runs(&world));
}

#[test]
fn it_does_not_wait_for_ever_for_requests_that_do_not_come() {
    let mut world = at_rest(judge());
    let patience = world.plan.strategy.no_traffic_for;
    world.run(secs(10), NOBODY, &mut Dice::new(52));
    analyze(&mut world, "t").unwrap();
    world.run(patience.checked_sub(secs(1)).unwrap(), NOBODY, &mut Dice::new(52));
    assert_eq!(runs(&world).pop().unwrap().phase, AnalysisPhase::Running);
    world.run(secs(2), NOBODY, &mut Dice::new(52));
    assert_eq!(runs(&world).pop().unwrap().phase, AnalysisPhase::NoData);
    assert!(matches!(world.phase(), PhaseMemory::Healthy));
}

/// Each edit of a template that nobody used told of a rollout that was reconfigured.
#[test]
fn an_edited_template_that_no_step_uses_reconfigured_the_rollout() {
    let mut world = World::new(with(judge()));
    let mut edited = world.plan.clone();
    edited.by_hand.remove(0);
    world.configure(edited).unwrap();
    assert_eq!(world.last(EventKind::Reconfigured), None);
    assert!(analyze(&mut world, "t").is_err(), "and yet it is taken up");
}

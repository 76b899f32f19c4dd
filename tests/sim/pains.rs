//! What users of other rollout controllers reported, as far as no other table has it: commands in every state, clients that
//! stop coming, a warm-up without weight.

use std::{sync::Arc, time::Duration};

use serin::engine::{
    analysis::answer::{Answer, Reply},
    event::EventKind,
    input::Verb,
    memory::{PauseKind, PhaseMemory},
    mirror::MirrorRoute,
    plan::{ErrorRateLimit, OnFailure, OnNoTraffic, Pause, Step},
    request::RequestMatch,
    weight::Weight,
};

use crate::{
    analyses::{answer, judge, outside, times, undecided},
    world::{Dice, Traffic, World, hold, plan, version, weight},
};

const GOOD: Traffic = Traffic { requests: 20, stable_errors: 0, canary_errors: 0 };
const BAD: Traffic = Traffic { requests: 20, stable_errors: 0, canary_errors: 400_000 };
const SILENCE: Traffic = Traffic { requests: 0, stable_errors: 0, canary_errors: 0 };

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn percent(text: &str) -> Weight {
    text.parse().unwrap()
}

fn stable(world: &World) -> &str {
    world.service().versions[world.service().stable].name.as_str()
}

/// A rollout of v2 in each state in which a rollout can be.
fn in_state(state: &str) -> World {
    let mut dice = Dice::new(50);
    let with =
        |steps: Vec<Step>| World::new(plan([vec![weight("20%")], steps, vec![weight("50%"), hold(60)]].concat()));
    match state {
        "holding" => with(vec![hold(60)]),
        "paused by hand" => {
            let mut world = with(vec![hold(60)]);
            world.order(Verb::Pause).unwrap();
            world
        }
        "at a pause without an end" => with(vec![Step::Pause(Pause::Person)]),
        "at a weight by hand" => {
            let mut world = with(vec![hold(60)]);
            world.order(Verb::SetWeight(percent("30%"))).unwrap();
            world
        }
        "draining" => {
            let mut world = with(vec![hold(60)]);
            world.order(Verb::Drain).unwrap();
            world
        }
        "analysing" => {
            let mut world = with(vec![times(90, judge())]);
            world.run(secs(3), GOOD, &mut dice);
            world
        }
        "inconclusive" => {
            let mut wanted = plan(vec![weight("20%"), times(90, undecided()), weight("50%"), hold(60)]);
            (wanted.strategy.guard.share_test, wanted.strategy.guard.consecutive_errors) = (None, 0);
            let mut world = World::new(wanted);
            world.run(secs(5), BAD, &mut dice);
            assert!(matches!(world.phase(), PhaseMemory::Paused { kind: PauseKind::Inconclusive, .. }));
            world
        }
        "paused by its guard" => {
            let mut wanted = plan(vec![weight("20%"), hold(60)]);
            wanted.strategy.guard.on_failure = OnFailure::Pause;
            let mut world = World::new(wanted);
            world.run(secs(20), BAD, &mut dice);
            assert!(matches!(world.phase(), PhaseMemory::Paused { kind: PauseKind::Guard, .. }));
            world
        }
        "paused without traffic" => {
            let mut wanted = plan(vec![weight("20%"), hold(1), weight("50%"), hold(60)]);
            (wanted.strategy.on_no_traffic, wanted.strategy.no_traffic_for) = (OnNoTraffic::Pause, secs(5));
            let mut world = World::new(wanted);
            world.run(secs(10), SILENCE, &mut dice);
            assert!(matches!(world.phase(), PhaseMemory::Paused { kind: PauseKind::NoTraffic, .. }));
            world
        }
        other => panic!("{other}"),
    }
}

const STATES: [&str; 9] = [
    "holding",
    "paused by hand",
    "at a pause without an end",
    "at a weight by hand",
    "draining",
    "analysing",
    "inconclusive",
    "paused by its guard",
    "paused without traffic",
];

/// Whatever a rollout is busy with: who aborts has stable only in the next table, and who promotes in full has the new version.
#[test]
fn abort_and_promote_in_full_have_one_result_in_every_state() {
    for state in STATES {
        let mut world = in_state(state);
        world.order(Verb::Abort).unwrap();
        assert_eq!((stable(&world), world.service().canary), ("v1", None), "{state}");
        assert!(world.withdrew && matches!(world.phase(), PhaseMemory::Degraded { .. }), "{state}: at once");
        world.order(Verb::Abort).expect("asking twice is no mistake");
        let events = world.events.len();
        for full in [false, true] {
            let refusal = world.order(Verb::Promote { full, force: false }).unwrap_err().to_string();
            assert!(refusal.contains("retry") && refusal.contains("--force"), "{state}: {refusal}");
        }
        assert_eq!(world.events.len(), events, "{state}: what is refused changes nothing");

        let mut world = in_state(state);
        world.order(Verb::Promote { full: true, force: false }).unwrap();
        assert_eq!((stable(&world), world.service().canary), ("v2", None), "{state}");
        assert_eq!(world.last(EventKind::Promoted).unwrap().canary, Some(version("v2")), "{state}");
        for verb in [Verb::Abort, Verb::Promote { full: true, force: true }] {
            assert!(world.order(verb).is_err(), "{state}: there is no rollout any more");
        }
    }
}

/// `promote` alone takes the next step, or says what to do instead.
#[test]
fn promote_takes_one_step_in_every_state() {
    for state in STATES {
        let mut world = in_state(state);
        match world.order(Verb::Promote { full: false, force: false }) {
            Ok(()) if state == "paused by its guard" => assert_eq!(stable(&world), "v2", "that was the last step"),
            Ok(()) => assert_eq!(world.canary_weight(), percent("50%"), "{state}"),
            Err(refusal) => {
                assert!(state == "draining" && refusal.to_string().contains("resume"), "{state}: {refusal}");
            }
        }
    }
}

/// Weight rises on what was seen at the present weight: once nobody comes any more, it goes no further than that.
#[test]
fn when_clients_stop_coming_weight_stays_where_evidence_ends() {
    for (seen, reached) in [(Duration::from_millis(500), "5%"), (secs(60), "20%")] {
        let mut wanted = plan(vec![weight("5%"), hold(90), weight("20%"), hold(90), weight("50%"), hold(90)]);
        wanted.strategy.guard.error_rate = Some(ErrorRateLimit { max: 0.02, window: secs(10), min_requests: 50 });
        let (mut world, mut dice) = (World::new(wanted), Dice::new(51));
        world.run(seen, GOOD, &mut dice);
        world.run(secs(3_600), SILENCE, &mut dice);
        assert_eq!((world.canary_weight(), world.last(EventKind::Aborted)), (percent(reached), None), "{seen:?}");
        let waiting = world.engine.view(world.now).services[0].rollout.clone().unwrap().waiting;
        assert!(format!("{waiting:?}").contains("errorRate"), "it says what it waits for: {waiting:?}");
    }
}

/// A step without weight: the canary gets copies, nobody's answer comes from it, and the clock alone ends the hold.
#[test]
fn a_canary_is_warmed_up_by_copies_before_it_has_any_weight() {
    let name: Arc<str> = "warm-up".into();
    let route = MirrorRoute { name: Arc::clone(&name), share: Weight::FULL, matches: vec![RequestMatch::default()] };
    let copies = |route| Step::SetMirrorRoute { name: Arc::clone(&name), route };
    let steps = vec![copies(Some(route)), hold(30), copies(None), weight("5%"), hold(600)];
    let (mut world, mut dice) = (World::new(plan(steps)), Dice::new(52));
    world.run(secs(29), GOOD, &mut dice);
    assert_eq!((world.service().mirror_routes.len(), world.canary_weight()), (1, Weight::ZERO));
    world.run(secs(2), GOOD, &mut dice);
    assert_eq!((world.service().mirror_routes.len(), world.canary_weight()), (0, percent("5%")));
}

/// Everything at once for who wants no analysis: the one step is the last one.
#[test]
fn one_step_of_everything_promotes_without_a_look() {
    let world = World::new(plan(vec![weight("100%")]));
    assert_eq!((stable(&world), world.service().canary), ("v2", None));
    assert!(world.last(EventKind::Promoted).is_some());
}

/// Failed checks in a row pause where that is asked for, and the reason has value, limit and sample sizes.
#[test]
fn failures_in_a_row_pause_with_value_limit_and_samples() {
    let mut metric = judge();
    (metric.failure_limit, metric.consecutive_failure_limit) = (None, Some(2));
    let mut wanted = plan(vec![weight("20%"), times(90, metric), weight("50%"), hold(60)]);
    wanted.strategy.guard.on_failure = OnFailure::Pause;
    (wanted.strategy.guard.share_test, wanted.strategy.guard.consecutive_errors) = (None, 0);
    let (mut world, mut dice) = (World::new(wanted), Dice::new(53));
    for (traffic, seconds) in [(BAD, 1), (GOOD, 7), (BAD, 1), (GOOD, 7)] {
        world.run(secs(seconds), traffic, &mut dice);
    }
    let failed = world.engine.view(world.now).services[0].analysis_runs[0].metrics[0].tally.failed;
    assert!(failed >= 2, "it failed now and then: {failed}");
    assert!(matches!(world.phase(), PhaseMemory::Progressing(_)), "never three in a row: {:?}", world.phase());
    world.run(secs(10), BAD, &mut dice);
    assert!(matches!(world.phase(), PhaseMemory::Paused { .. }), "{:?}", world.phase());
    let cause = format!("{:?}", world.last(EventKind::Paused).unwrap().cause);
    for part in ["failures in a row: 3, allowed 2", "result.errorRate = ", "< 0.01", " requests ("] {
        assert!(cause.contains(part), "{part} in {cause}");
    }
}

/// Wherever in the plan a verdict of Failed falls, it is acted on in the input that brings it.
#[test]
fn a_failed_verdict_aborts_at_whatever_step_it_falls() {
    for at in 1..=6 {
        let mut steps = vec![weight("5%"), hold(1), weight("20%"), hold(1), weight("50%"), hold(1)];
        steps.insert(at, times(3, outside()));
        let (mut world, mut dice) = (World::new(plan(steps)), Dice::new(54));
        for _ in 0..600 {
            if world.questions.is_empty() {
                world.tick(GOOD, &mut dice);
            }
        }
        let reached = world.engine.view(world.now).services[0].rollout.as_ref().unwrap().step;
        assert_eq!((reached, world.questions.len()), (at + 1, 1), "step {at}");
        answer(&mut world, &Ok(Reply::Value(Answer::numbers([0.0]))));
        assert!(matches!(world.phase(), PhaseMemory::Degraded { .. }), "step {at}: {:?}", world.phase());
        assert!(world.withdrew && world.service().canary.is_none(), "step {at}");
    }
}

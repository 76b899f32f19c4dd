//! What is known of endpoints, and what it does to a rollout: rises, aborts, ways back and the history.

use std::{sync::Arc, time::Duration};

use serin::engine::{
    endpoint::{InUse, Instance},
    event::{Cause, EventKind},
    health::EndpointState,
    input::Verb,
    memory::PhaseMemory,
    plan::{ServicePlan, Step},
    policy::CapacityGuard,
    samples::{EndpointSamples, InstanceSamples},
    table::VersionTable,
    upstream::{EjectionPlan, HealthPlan, UpstreamPlan},
    view::Waiting,
    weight::Weight,
};

use crate::world::{Dice, Traffic, World, hold, plan, version, weight};

const GOOD: Traffic = Traffic { requests: 20, stable_errors: 0, canary_errors: 0 };

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn percent(text: &str) -> Weight {
    text.parse().unwrap()
}

/// All versions have a health check, and endpoints that fail requests are ejected.
fn watched(steps: Vec<Step>) -> ServicePlan {
    let mut wanted = plan(steps);
    for version in &mut wanted.versions {
        version.upstream = Arc::new(UpstreamPlan {
            health: Some(HealthPlan { healthy: 1, unhealthy: 1, ..HealthPlan::default() }),
            ejection: Some(EjectionPlan::default()),
            ..UpstreamPlan::default()
        });
    }
    wanted
}

/// So many endpoints of a version, all but the first `well` of which fail their check.
fn seen(world: &World, name: &str, well: usize, all: usize) -> EndpointSamples {
    let endpoint = world.plan.version(&version(name)).unwrap().endpoints[0].clone();
    let instance = |number: usize| Instance {
        endpoint: endpoint.clone(),
        address: Some(serin::engine::address::Address::v4([10, 0, 0, u8::try_from(number).unwrap()])),
    };
    let news = (0..all).map(|number| InstanceSamples {
        instance: instance(number),
        checks: vec![if number < well { Ok(()) } else { Err("answered 503".into()) }],
        error_runs: 0,
        last_error: "",
    });
    EndpointSamples {
        service: world.plan.name.clone(),
        version: version(name),
        known: (0..all).map(instance).collect(),
        news: news.collect(),
    }
}

fn sees(world: &mut World, all: &[(&str, usize, usize)]) {
    world.endpoints = all.iter().map(|(name, well, all)| seen(world, name, *well, *all)).collect();
}

fn of<'w>(world: &'w World, name: &str) -> &'w VersionTable {
    world.service().versions.iter().find(|of| of.name == version(name)).unwrap()
}

#[test]
fn weight_does_not_rise_to_a_canary_that_is_not_ready_and_a_person_may_say_so() {
    let (mut world, mut dice) =
        (World::new(watched(vec![weight("5%"), hold(1), weight("50%"), hold(60)])), Dice::new(1));
    assert_eq!(world.canary_weight(), Weight::ZERO, "nothing is known of it yet");
    sees(&mut world, &[("v1", 2, 2), ("v2", 0, 1)]);
    world.run(secs(5), GOOD, &mut dice);
    assert_eq!(world.canary_weight(), Weight::ZERO);
    let waiting = world.engine.view(world.now).services[0].rollout.clone().unwrap().waiting;
    let awaited = Waiting::Permit { what: "an endpoint of v2 to pass its health check".into(), left: None };
    assert!(waiting.contains(&awaited), "{waiting:?}");
    sees(&mut world, &[("v1", 2, 2), ("v2", 1, 1)]);
    world.tick(GOOD, &mut dice);
    assert_eq!(world.canary_weight(), percent("5%"));
    // It fails later: it keeps what it has, is dead to the data plane, and rises no further.
    sees(&mut world, &[("v1", 2, 2), ("v2", 0, 1)]);
    world.run(secs(5), GOOD, &mut dice);
    assert_eq!((world.canary_weight(), &of(&world, "v2").in_use), (percent("5%"), &InUse::Nobody));
    world.order(Verb::Promote { full: false, force: false }).unwrap();
    assert_eq!(world.canary_weight(), percent("50%"));
}

#[test]
fn weight_waits_for_as_much_of_the_canary_as_was_asked_for() {
    let mut wanted = watched(vec![weight("5%"), hold(1), weight("50%"), hold(600)]);
    wanted.strategy.policy.min_healthy = percent("75%");
    let (mut world, mut dice) = (World::new(wanted), Dice::new(3));
    sees(&mut world, &[("v1", 4, 4), ("v2", 2, 4)]);
    world.run(secs(5), GOOD, &mut dice);
    assert_eq!(world.canary_weight(), Weight::ZERO, "one that is well is not enough");
    let waiting = world.engine.view(world.now).services[0].rollout.clone().unwrap().waiting;
    let what = "75% of the endpoints of v2 to pass their health check; 2 of 4 did";
    assert!(waiting.contains(&Waiting::Permit { what: what.into(), left: None }), "{waiting:?}");
    sees(&mut world, &[("v1", 4, 4), ("v2", 3, 4)]);
    world.tick(GOOD, &mut dice);
    assert_eq!(world.canary_weight(), percent("5%"));
    sees(&mut world, &[("v1", 4, 4), ("v2", 2, 4)]);
    world.run(secs(30), GOOD, &mut dice);
    assert_eq!(world.canary_weight(), percent("5%"), "it keeps what it has, and rises no further");
}

#[test]
fn a_dead_canary_is_promoted_by_nobody_but_a_person() {
    let (mut world, mut dice) = (World::new(watched(vec![weight("50%"), hold(1)])), Dice::new(2));
    sees(&mut world, &[("v1", 1, 1), ("v2", 1, 1)]);
    world.tick(GOOD, &mut dice);
    sees(&mut world, &[("v1", 1, 1), ("v2", 0, 1)]);
    world.run(secs(60), GOOD, &mut dice);
    assert!(matches!(world.phase(), PhaseMemory::Progressing(_)), "{:?}", world.phase());
    world.order(Verb::Promote { full: true, force: false }).unwrap();
    assert!(matches!(world.phase(), PhaseMemory::Healthy));
    // As stable it is used as it is: there is nobody else.
    assert_eq!(of(&world, "v2").in_use, InUse::All);
}

#[test]
fn who_goes_out_and_comes_back_is_in_the_history_if_the_version_serves() {
    let (mut world, mut dice) = (World::new(watched(vec![weight("5%"), hold(600)])), Dice::new(3));
    sees(&mut world, &[("v1", 2, 2), ("v2", 1, 1), ("v3", 0, 1)]);
    world.run(secs(1), GOOD, &mut dice);
    assert!(world.last(EventKind::EndpointOut).is_none(), "v3 may have been stopped long ago");
    sees(&mut world, &[("v1", 1, 2), ("v2", 1, 1), ("v3", 0, 1)]);
    world.tick(GOOD, &mut dice);
    let out = world.last(EventKind::EndpointOut).unwrap();
    let Cause::Endpoint { endpoint, why } = &out.cause else { panic!("{out:?}") };
    assert_eq!(
        (out.canary.as_ref(), endpoint.as_str(), why.as_str()),
        (Some(&version("v1")), "v1:80@10.0.0.1", "answered 503")
    );
    sees(&mut world, &[("v1", 2, 2), ("v2", 1, 1), ("v3", 0, 1)]);
    world.run(secs(5), GOOD, &mut dice);
    assert!(world.last(EventKind::EndpointBack).is_some());
    let told = world.events.len();
    for round in 0..100 {
        sees(&mut world, &[("v1", 1 + round % 2, 2), ("v2", 1, 1)]);
        world.run(secs(1), GOOD, &mut dice);
    }
    assert_eq!(world.events.len(), told, "one that comes and goes does not fill the history");
}

#[test]
fn a_restart_asks_anew_and_keeps_the_weight_meanwhile() {
    let (mut world, mut dice) =
        (World::new(watched(vec![weight("5%"), hold(1), weight("50%"), hold(600)])), Dice::new(4));
    sees(&mut world, &[("v1", 1, 2), ("v2", 1, 1)]);
    world.tick(GOOD, &mut dice);
    world.endpoints.clear();
    world.crash(secs(3));
    assert_eq!((world.canary_weight(), &of(&world, "v1").in_use), (percent("5%"), &InUse::All));
    world.run(secs(5), GOOD, &mut dice);
    assert_eq!(world.canary_weight(), percent("5%"), "it rises once the canary has passed again");
    sees(&mut world, &[("v1", 1, 2), ("v2", 1, 1)]);
    world.run(secs(2), GOOD, &mut dice);
    assert_eq!(world.canary_weight(), percent("50%"));
    assert!(matches!(of(&world, "v1").in_use, InUse::AllBut(_)));
}

/// At 50 %, with stable's endpoints as given.
fn guarded(well: usize, guard: Option<CapacityGuard>, ramp: Duration) -> (World, Dice) {
    let mut wanted = watched(vec![weight("50%"), hold(600)]);
    wanted.strategy.policy.capacity_guard = guard;
    wanted.strategy.policy.abort_ramp = ramp;
    let (mut world, mut dice) = (World::new(wanted), Dice::new(5));
    sees(&mut world, &[("v1", well, 4), ("v2", 1, 1)]);
    world.run(secs(1), GOOD, &mut dice);
    assert_eq!(world.canary_weight(), percent("50%"));
    (world, dice)
}

#[test]
fn an_abort_waits_for_stable_to_be_able_to_take_it_all_but_not_for_long() {
    let guard = Some(CapacityGuard { min_healthy: percent("50%"), deadline: secs(10) });
    let at_once = Duration::ZERO;
    for (what, well, guard, waits) in [
        ("without a guard", 0, None, false),
        ("enough are well", 2, guard, false),
        ("too few are", 1, guard, true),
        ("none is", 0, guard, true),
    ] {
        let (mut world, mut dice) = guarded(well, guard, at_once);
        world.order(Verb::Abort).unwrap();
        assert!(matches!(world.phase(), PhaseMemory::Degraded { .. }), "{what}");
        assert_eq!(world.canary_weight() == percent("50%"), waits, "{what}");
        let reason = world.engine.view(world.now).services[0].phase_reason.clone().unwrap();
        assert_eq!(reason.contains(&format!("{well} of 4 endpoints of v1 are well")), waits, "{what}: {reason}");
        world.run(Duration::from_millis(9_900), GOOD, &mut dice);
        assert_eq!(world.canary_weight() == percent("50%"), waits, "{what}");
        world.run(Duration::from_millis(100), GOOD, &mut dice);
        assert_eq!(world.canary_weight(), Weight::ZERO, "{what}");
    }
    // They come while it waits.
    let (mut world, mut dice) = guarded(1, guard, at_once);
    world.order(Verb::Abort).unwrap();
    world.run(secs(3), GOOD, &mut dice);
    sees(&mut world, &[("v1", 3, 4), ("v2", 1, 1)]);
    world.tick(GOOD, &mut dice);
    assert_eq!(world.canary_weight(), Weight::ZERO);
    assert!(world.withdrew, "nothing waits for the disk");
    // Asked for again it is at once; a crash ends the wait.
    let (mut world, _) = guarded(1, guard, at_once);
    world.order(Verb::Abort).unwrap();
    world.order(Verb::Abort).unwrap();
    assert_eq!(world.canary_weight(), Weight::ZERO);
    let (mut world, _) = guarded(1, guard, at_once);
    world.order(Verb::Abort).unwrap();
    world.crash(secs(1));
    assert_eq!(world.canary_weight(), Weight::ZERO);
}

#[test]
fn a_ramp_begins_when_the_wait_for_capacity_is_over() {
    let guard = Some(CapacityGuard { min_healthy: percent("50%"), deadline: secs(10) });
    let (mut world, mut dice) = guarded(0, guard, secs(20));
    world.order(Verb::Abort).unwrap();
    world.run(secs(10), GOOD, &mut dice);
    assert_eq!(world.canary_weight(), percent("50%"));
    world.run(secs(10), GOOD, &mut dice);
    assert_eq!(world.canary_weight(), percent("25%"));
    world.run(secs(10), GOOD, &mut dice);
    assert_eq!(world.canary_weight(), Weight::ZERO);
}

#[test]
fn a_breached_guard_waits_for_capacity_too() {
    let guard = Some(CapacityGuard { min_healthy: percent("50%"), deadline: secs(10) });
    let (mut world, mut dice) = guarded(0, guard, Duration::ZERO);
    world.run(secs(5), Traffic { requests: 20, stable_errors: 0, canary_errors: 1_000_000 }, &mut dice);
    assert!(world.last(EventKind::Aborted).is_some());
    assert_eq!(world.canary_weight(), percent("50%"));
    world.run(secs(10), GOOD, &mut dice);
    assert_eq!(world.canary_weight(), Weight::ZERO);
}

#[test]
fn undo_onto_a_version_that_is_not_well_takes_an_ordinary_rollout() {
    for (well, at_once) in [(1, true), (0, false)] {
        let (mut world, mut dice) = (World::new(watched(vec![weight("50%"), hold(1)])), Dice::new(6));
        sees(&mut world, &[("v1", 1, 1), ("v2", 1, 1)]);
        world.run(secs(3), GOOD, &mut dice);
        assert!(world.last(EventKind::Promoted).is_some());
        sees(&mut world, &[("v1", well, 1), ("v2", 1, 1)]);
        world.tick(GOOD, &mut dice);
        world.order(Verb::Undo { to: None }).unwrap();
        assert_eq!(matches!(world.phase(), PhaseMemory::Healthy), at_once, "{:?}", world.phase());
        assert_eq!(world.canary_weight(), Weight::ZERO, "nothing goes to a version that is known to be bad");
    }
}

#[test]
fn what_is_no_longer_asked_for_leaves_nobody_out() {
    let (mut world, mut dice) = (World::new(watched(vec![weight("5%"), hold(600)])), Dice::new(7));
    sees(&mut world, &[("v1", 1, 2), ("v2", 0, 1)]);
    world.run(secs(1), GOOD, &mut dice);
    let state = |world: &World| {
        let view = world.engine.view(world.now);
        let of = view.services[0].versions.iter().find(|of| of.name == version("v1")).unwrap();
        of.endpoints.iter().map(|endpoint| endpoint.state).collect::<Vec<_>>()
    };
    assert_eq!(state(&world), [EndpointState::Healthy, EndpointState::Unhealthy]);
    world.configure(plan(vec![weight("5%"), hold(600)])).unwrap();
    world.run(secs(1), GOOD, &mut dice);
    assert_eq!((&of(&world, "v1").in_use, &of(&world, "v2").in_use), (&InUse::All, &InUse::All));
    assert_eq!(state(&world), []);
}

#[test]
fn a_canary_that_never_gets_well_is_given_up_at_the_deadline() {
    let mut wanted = watched(vec![weight("5%"), hold(600)]);
    wanted.strategy.deadline = Some(secs(60));
    let (mut world, mut dice) = (World::new(wanted), Dice::new(8));
    sees(&mut world, &[("v1", 1, 1), ("v2", 0, 1)]);
    world.run(secs(59), GOOD, &mut dice);
    assert!(world.last(EventKind::Aborted).is_none());
    world.run(secs(2), GOOD, &mut dice);
    let event = world.last(EventKind::Aborted).unwrap();
    assert_eq!(event.cause, Cause::Deadline { deadline: secs(60) });
    assert_eq!(world.canary_weight(), Weight::ZERO);
}

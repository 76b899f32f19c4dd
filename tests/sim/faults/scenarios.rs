//! What the simulation has found, each as a story of its own.

use std::{sync::Arc, time::Duration};

use http::HeaderName;
use serin::{
    control::standby::Shadow,
    engine::{
        Engine, Recovered,
        assign::HeaderRoute,
        effect::{Decision, Effect},
        event::{Cause, EventKind},
        input::{Command, Input, Verb},
        memory::PhaseMemory,
        names::ServiceName,
        plan::{Guard, ServicePlan, Step, StickyPlan},
        request::{HeaderMatch, StringMatch},
        samples::Samples,
        split::{Claims, assign},
        sticky::{StickyBy, StickyId},
        table::{ServiceTable, Table},
        weight::Weight,
    },
};

use super::{
    checks::canary_weight,
    disk::{Death, Disk, Illness},
};
use crate::world::{Dice, Traffic, World, hold, plan, version, weight, wish};

/// The tables that an input leads to, with whether each goes out before the disk has the decision.
fn tables(world: &mut World, input: Input) -> Vec<(Arc<Table>, bool)> {
    let mut effects = Vec::new();
    world.engine.apply(input, world.now, &mut effects).unwrap();
    let published = effects.into_iter().filter_map(|effect| match effect {
        Effect::Publish { table, withdrawal } => Some((table, withdrawal)),
        _ => None,
    });
    published.collect()
}

/// A crash between the two would have undone a rollout that requests had met already.
#[test]
fn a_newer_wish_was_served_before_the_disk_had_it_since_it_withdrew_the_older_one() {
    let mut world = World::new(plan(vec![weight("50%"), hold(60)]));
    let mut newer = world.plan.clone();
    newer.wish = Some(wish("v3"));
    let told = tables(&mut world, Input::Configure(vec![newer].into()));
    let [(early, true), (late, false)] = &told[..] else { panic!("first what is taken, then all: {told:?}") };
    assert_eq!((early.services[0].canary, canary_weight(&late.services[0]).ppm()), (None, 500_000));
    assert!(early.generation < late.generation);
    assert_ne!(early.services[0].weight_generation, late.services[0].weight_generation, "nothing of it is evidence");
}

#[test]
fn a_step_of_one_service_rode_on_the_withdrawal_of_another() {
    let mut plans = ["a", "b"].map(|name| {
        let name = ServiceName::new(name).unwrap();
        let guard = Guard { share_test: None, consecutive_errors: 0, ..Default::default() };
        let mut plan = plan(vec![weight("5%"), hold(1), weight("50%"), hold(60)]);
        plan.strategy.guard = guard;
        ServicePlan { name, ..plan }
    });
    plans[0].strategy.deadline = Some(Duration::from_secs(1));
    let mut world = World::of(plans.to_vec());
    world.skip(Duration::from_secs(1));
    let told = tables(&mut world, Input::Measured(Samples::default()));
    let [(early, true), (late, false)] = &told[..] else { panic!("{told:?}") };
    let weights = |table: &Table| [0, 1].map(|at: usize| canary_weight(&table.services[at]).ppm());
    assert_eq!((weights(early), weights(late)), ([0, 50_000], [0, 500_000]));
}

/// Header routes ended with it, which was taken for a withdrawal.
#[test]
fn a_promotion_was_served_before_the_disk_had_it() {
    let mut steps = vec![weight("50%"), hold(60)];
    let field = HeaderMatch { name: HeaderName::from_static("x"), value: StringMatch::Exact("1".into()) };
    let route = HeaderRoute { name: "staff".into(), matches: vec![field], all: false };
    steps.insert(1, Step::SetHeaderRoute { name: "staff".into(), route: Some(route) });
    let mut world = World::new(plan(steps));
    let (service, actor, reason) = (world.plan.name.clone(), "test".to_owned(), String::new());
    let verb = Verb::Promote { full: true, force: false };
    let command = Command { service, verb, actor, reason, expect_revision: None };
    let told = tables(&mut world, Input::Command(command));
    let [(only, false)] = &told[..] else { panic!("{told:?}") };
    assert_eq!(only.services[0].canary, None);
}

#[test]
fn a_withdrawal_that_gives_nothing_is_one_table_and_does_not_wait() {
    let mut world = World::new(plan(vec![weight("50%"), hold(60)]));
    let (service, actor, reason) = (world.plan.name.clone(), "test".to_owned(), String::new());
    let command = Command { service, verb: Verb::Abort, actor, reason, expect_revision: None };
    let told = tables(&mut world, Input::Command(command));
    let [(only, true)] = &told[..] else { panic!("{told:?}") };
    assert_eq!(canary_weight(&only.services[0]), Weight::ZERO);
}

/// What a first start decides.
fn decisions() -> Vec<Decision> {
    let (plan, now) = (plan(vec![weight("50%"), hold(60)]), World::new(plan(Vec::new())).now);
    let mut effects = Vec::new();
    Engine::new(Recovered::default()).apply(Input::Configure(vec![plan].into()), now, &mut effects).unwrap();
    let decided = effects.into_iter().filter_map(|effect| match effect {
        Effect::Persist(decision) => Some(*decision),
        _ => None,
    });
    decided.collect()
}

/// The first process had never heard of it.
#[test]
fn a_process_that_waited_served_a_wish_that_nobody_had_followed_yet() {
    let wished = plan(vec![weight("50%"), hold(60)]);
    let world = World::new(ServicePlan { wish: None, ..wished.clone() });
    let (_, engine) = Shadow::of(world.disk.clone(), vec![wished].into(), world.now).unwrap();
    assert_eq!(engine.table().services[0].canary, None);
}

/// A receiver's place could not be written at the start; after a crash it began behind what it had not been told.
#[test]
fn a_place_that_no_disk_had_was_taken_for_one_behind_what_came_later() {
    let disk = Disk::new(&mut Dice::new(1));
    let (mut store, _) = disk.open().unwrap();
    let names = ["receiver".to_owned()];
    disk.fall_ill(Some(Illness::Names(100)));
    assert_eq!(store.outbox(&names).told("receiver"), 0);
    let decisions = decisions();
    store.append(&decisions[0]).unwrap_err();
    disk.fall_ill(None);
    store.append(&decisions[0]).unwrap();
    drop(store);
    assert_eq!(disk.open().unwrap().0.outbox(&names).told("receiver"), 0);
}

/// What was in force without a disk was told, and its number went to another event after a crash: that was told to nobody.
#[test]
fn a_place_was_kept_by_the_number_of_an_event_that_no_disk_had() {
    let disk = Disk::new(&mut Dice::new(1));
    let (mut store, _) = disk.open().unwrap();
    let (names, decisions) = (["receiver".to_owned()], decisions());
    let outbox = store.outbox(&names);
    store.append(&decisions[0]).unwrap();
    outbox.tell("receiver", 1).unwrap();
    outbox.tell("receiver", 2).unwrap();
    drop((store, outbox));
    let (mut store, _) = disk.open().unwrap();
    store.append(&decisions[1]).unwrap();
    let outbox = store.outbox(&names);
    assert_eq!(outbox.told("receiver"), 1);
    outbox.tell("receiver", 2).unwrap();
    assert_eq!(outbox.told("receiver"), 2, "the disk has it");
}

/// A place that could not be written was said to be on the disk the next time that it was to go there.
#[test]
fn a_place_that_no_disk_took_was_not_tried_again() {
    let disk = Disk::new(&mut Dice::new(1));
    let (mut store, _) = disk.open().unwrap();
    let (names, decisions) = (["receiver".to_owned()], decisions());
    let outbox = store.outbox(&names);
    store.append(&decisions[0]).unwrap();
    disk.fall_ill(Some(Illness::Names(100)));
    outbox.tell("receiver", 1).unwrap_err();
    outbox.tell("receiver", 2).unwrap_err();
    disk.fall_ill(None);
    outbox.tell("receiver", 2).unwrap();
    drop((store, outbox));
    assert_eq!(disk.open().unwrap().0.outbox(&names).told("receiver"), 1);
}

/// The bucket of each client was another one from the abort on.
#[test]
fn an_abort_with_a_ramp_brought_clients_of_stable_to_the_canary() {
    let mut plan = plan(vec![weight("50%"), hold(60)]);
    plan.sticky = Some(StickyPlan { by: StickyBy::Cookie("id".to_owned()), ttl: None });
    plan.strategy.policy.abort_ramp = Duration::from_secs(10);
    let mut world = World::new(plan);
    let is_on_canary = |service: &ServiceTable| -> Vec<bool> {
        let claims = |id: u64| Claims { sticky: Some(StickyId(id)), ..Claims::default() };
        (0..500).map(|id| Some(assign(service, &claims(id), || 0).version) == service.canary).collect()
    };
    let before = is_on_canary(world.service());
    world.order(Verb::Abort).unwrap();
    world.run(Duration::from_secs(5), Traffic { requests: 0, stable_errors: 0, canary_errors: 0 }, &mut Dice::new(1));
    assert!(world.canary_weight() > Weight::ZERO, "it is on its way down");
    let after = is_on_canary(world.service());
    assert!(after.contains(&true));
    assert!(before.iter().zip(&after).all(|(was, is)| *was || !is), "only they who were there before");
}

/// A sync failed, then the cut did, and the next process found the record in the cache: it went on from there, and the disk
/// had never got it.
#[test]
fn a_record_that_was_only_in_the_cache_was_taken_for_remembered() {
    for seed in 0..32 {
        let mut dice = Dice::new(seed);
        let disk = Disk::new(&mut dice);
        let decisions = decisions();
        let (mut store, _) = disk.open().unwrap();
        store.append(&decisions[0]).unwrap();
        disk.fall_ill(Some(Illness::Collapsing));
        store.append(&decisions[1]).unwrap_err();
        drop(store);
        disk.fall_ill(None);
        let found = disk.open().unwrap().1.memory.sequence;
        disk.die(Death::Machine, &mut dice);
        assert_eq!(disk.open().unwrap().1.memory.sequence, found, "seed {seed}");
    }
}

/// The disk failed in a sync and in the cut, and was well again; nothing else was decided, and a crash brought the refused back.
#[test]
fn a_decision_that_was_refused_was_in_force_after_a_crash() {
    let disk = Disk::new(&mut Dice::new(1));
    let decisions = decisions();
    let (mut store, _) = disk.open().unwrap();
    store.append(&decisions[0]).unwrap();
    disk.fall_ill(Some(Illness::Collapsing));
    store.append(&decisions[1]).unwrap_err();
    store.mend().unwrap_err();
    disk.fall_ill(None);
    store.mend().unwrap();
    assert_eq!(disk.peek().memory.sequence, 1);
    drop(store);
    assert_eq!(disk.open().unwrap().1.memory.sequence, 1);
}

/// The process starts again with a file that has dropped the stable v1 and names v2 in its place.
fn restart_without_v1(world: &mut World) {
    world.plan.stable = version("v2");
    world.plan.versions = world.plan.versions.iter().filter(|known| known.name != version("v1")).cloned().collect();
    world.crash(Duration::from_secs(1));
}

/// The rollout of v2 went on against itself, and its abort told of a canary that kept all traffic.
#[test]
fn a_file_without_the_stable_version_made_the_running_canary_its_own_rival() {
    let mut world = World::new(plan(vec![weight("50%"), hold(60)]));
    restart_without_v1(&mut world);
    let service = world.service();
    assert_eq!((service.versions[service.stable].name.clone(), service.canary), (version("v2"), None));
    assert_eq!(*world.phase(), PhaseMemory::Healthy);
    assert!(matches!(world.last(EventKind::Promoted).unwrap().cause, Cause::Storage(_)));
    assert!(world.order(Verb::Abort).is_err(), "nothing is on trial");
}

/// A version that was given up and then named as stable, the stable one being gone, stayed given up while it served.
#[test]
fn a_file_that_fell_back_on_a_refused_version_left_it_degraded() {
    let mut world = World::new(plan(vec![weight("50%"), hold(60)]));
    world.order(Verb::Abort).unwrap();
    world.plan.wish = None;
    restart_without_v1(&mut world);
    assert_eq!(*world.phase(), PhaseMemory::Healthy);
}

//! What the simulation has found, each as a story of its own.

use std::{sync::Arc, time::Duration};

use http::HeaderName;
use serin::engine::{
    assign::HeaderRoute,
    effect::Effect,
    input::{Command, Input, Verb},
    names::ServiceName,
    plan::{Guard, ServicePlan, Step},
    request::{HeaderMatch, StringMatch},
    samples::Samples,
    table::Table,
    weight::Weight,
};

use super::checks::canary_weight;
use crate::world::{World, hold, plan, weight, wish};

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

//! Experiments on virtual time: whose buckets they take, when they give them back, and what their verdict does.

use std::{sync::Arc, time::Duration};

use serin::engine::{
    analysis::{
        condition::{Condition, Shape},
        template::{Arm as Measured, MetricPlan, Provider, Template, TimeToLive},
    },
    event::EventKind,
    input::Verb,
    memory::{PauseKind, PhaseMemory},
    names::Role,
    plan::{Arm, Experiment, Step},
    samples::{Counts, FailedBuckets, Samples, SlotSamples},
    split::Bucket,
    stats::latency::LatencyCounts,
    weight::Weight,
};

use crate::world::{Dice, Traffic, World, hold, plan, version, weight};

const GOOD: Traffic = Traffic { requests: 20, stable_errors: 1_000, canary_errors: 1_000 };

fn percent(text: &str) -> Weight {
    text.parse().unwrap()
}

/// v3 beside v1 and v2, for ten seconds.
fn beside(weight: &str, analyses: Vec<Template>) -> Step {
    Step::Experiment(Experiment {
        duration: Some(Duration::from_secs(10)),
        arms: vec![Arm { name: "baseline".into(), version: version("v3"), weight: percent(weight) }],
        analyses,
        ends_with_analyses: false,
    })
}

/// Judges v3 by its own error rate.
fn judge(limit: &str) -> Vec<Template> {
    let metric = MetricPlan {
        name: "errors".into(),
        interval: Some(Duration::from_secs(1)),
        initial_delay: Duration::ZERO,
        count: None,
        success: Some(Condition::parse(&format!("result.errorRate <= {limit}"), Shape::Own).unwrap()),
        failure: None,
        failure_limit: Some(0),
        inconclusive_limit: 0,
        consecutive_error_limit: 4,
        consecutive_success_limit: 0,
        consecutive_failure_limit: None,
        dry_run: false,
        retention: 10,
        provider: Provider::Serin { version: Measured::Named(version("v3")), window: Duration::from_secs(10) },
    };
    vec![Template { name: "errors".into(), args: Vec::new(), metrics: vec![metric], ttl: TimeToLive::default() }]
}

fn weights(world: &World) -> [String; 3] {
    let of =
        |name: &str| world.service().versions.iter().find(|of| of.name.as_str() == name).unwrap().weight.to_string();
    ["v1", "v2", "v3"].map(of)
}

fn version_of(world: &World, bucket: u32) -> &str {
    let service = world.service();
    service.versions[service.split.version_of(Bucket::new(bucket).unwrap())].name.as_str()
}

/// 100 ms in which v3 answers as well.
fn tick(world: &mut World, errors_of_v3: u64) {
    world.now = world.now + Duration::from_millis(100);
    let service = world.service().clone();
    let slots = [("v1", 90, 0), ("v2", 5, 0), ("v3", 5, errors_of_v3)].map(|(name, requests, errors)| SlotSamples {
        service: service.name.clone(),
        version: version(name),
        weight_generation: service.weight_generation,
        sampled: Counts { requests, errors },
        sticky: Counts::default(),
        sticky_failed: FailedBuckets::default(),
        latency: LatencyCounts::default(),
        longest_error_run: 0,
        slowest_failure: Duration::ZERO,
    });
    world.apply(serin::engine::input::Input::Measured(Samples { slots: slots.into(), ..Samples::default() })).unwrap();
}

#[test]
fn it_takes_the_highest_buckets_out_of_stables_share_and_gives_them_back_when_it_ends() {
    let mut world = World::new(plan(vec![weight("5%"), beside("5%", Vec::new()), weight("50%"), hold(600)]));
    let mut dice = Dice::new(1);
    assert_eq!(weights(&world), ["90%", "5%", "5%"]);
    assert_eq!(world.service().versions[2].role, Role::Other, "it is no role that is promoted");
    let served = [0, 49_999, 50_000, 949_999, 950_000, 999_999].map(|bucket| version_of(&world, bucket));
    assert_eq!(served, ["v2", "v2", "v1", "v1", "v3", "v3"]);
    let generation = world.service().weight_generation;
    world.run(Duration::from_secs(9), GOOD, &mut dice);
    assert_eq!((world.service().weight_generation, weights(&world)[2].as_str()), (generation, "5%"));
    world.run(Duration::from_secs(15), GOOD, &mut dice);
    assert_eq!(weights(&world), ["50%", "50%", "0%"], "back in the swap of the next weight");
}

#[test]
fn an_abort_takes_both_from_traffic_at_once() {
    let mut world = World::new(plan(vec![weight("5%"), beside("5%", Vec::new()), hold(600)]));
    world.order(Verb::Abort).unwrap();
    assert_eq!((weights(&world), world.withdrew), (["100%".to_owned(), "0%".into(), "0%".into()], true));
}

#[test]
fn a_person_pauses_it_with_its_shares_and_a_weight_by_hand_ends_them() {
    let mut world = World::new(plan(vec![weight("5%"), beside("5%", Vec::new()), hold(600)]));
    world.order(Verb::Pause).unwrap();
    assert_eq!(weights(&world)[2], "5%");
    world.order(Verb::SetWeight(percent("20%"))).unwrap();
    assert_eq!(weights(&world), ["80%", "20%", "0%"]);
}

#[test]
fn a_restart_brings_it_back_as_it_was() {
    let mut world = World::new(plan(vec![weight("5%"), beside("5%", Vec::new()), hold(600)]));
    world.run(Duration::from_secs(4), GOOD, &mut Dice::new(2));
    world.crash(Duration::from_secs(1));
    assert_eq!(weights(&world), ["90%", "5%", "5%"]);
}

#[test]
fn a_version_that_is_stable_or_canary_by_then_gets_nothing_by_it() {
    let mut wanted = plan(vec![weight("5%"), beside("5%", Vec::new()), hold(600)]);
    let Step::Experiment(experiment) = &mut wanted.strategy.steps[1] else { panic!("an experiment") };
    experiment.arms[0].version = version("v1");
    assert_eq!(weights(&World::new(wanted)), ["95%", "5%", "0%"]);
}

#[test]
fn what_fails_in_it_aborts_the_rollout_and_what_passes_lets_it_go_on() {
    let steps = |limit: &str| vec![weight("5%"), beside("5%", judge(limit)), weight("50%"), hold(600)];
    let mut world = World::new(plan(steps("0.1")));
    (0..30).for_each(|_| tick(&mut world, 2));
    assert!(matches!(world.phase(), PhaseMemory::Degraded { .. }), "{:?}", world.phase());
    let mut world = World::new(plan(steps("0.5")));
    (0..300).for_each(|_| tick(&mut world, 2));
    assert_eq!(weights(&world), ["50%", "50%", "0%"]);
}

#[test]
fn what_is_dry_in_an_experiment_decides_nothing() {
    let mut analyses = judge("0.1");
    analyses[0].metrics[0].dry_run = true;
    let mut world = World::new(plan(vec![weight("5%"), beside("5%", analyses), weight("50%"), hold(600)]));
    (0..60).for_each(|_| tick(&mut world, 2));
    let record = world.engine.view(world.now).services[0].analysis_runs[0].clone();
    assert!(record.metrics[0].dry_run && record.metrics[0].tally.failed > 0, "it is measured: {record:?}");
    (0..300).for_each(|_| tick(&mut world, 2));
    assert_eq!(weights(&world), ["50%", "50%", "0%"]);
}

#[test]
fn an_inconclusive_one_pauses_without_its_shares_and_resume_tries_it_again() {
    let mut analyses = judge("0.1");
    analyses[0].metrics[0].failure = Some(Condition::parse("result.errorRate > 0.9", Shape::Own).unwrap());
    let mut world = World::new(plan(vec![weight("5%"), beside("5%", analyses), hold(600)]));
    (0..30).for_each(|_| tick(&mut world, 2));
    assert!(matches!(world.phase(), PhaseMemory::Paused { kind: PauseKind::Inconclusive, .. }), "{:?}", world.phase());
    assert_eq!(weights(&world), ["95%", "5%", "0%"]);
    world.order(Verb::Resume).unwrap();
    assert_eq!(weights(&world), ["90%", "5%", "5%"]);
}

/// The share test compares canary with stable, whose share of both is not what it is of everything.
#[test]
fn a_large_experiment_does_not_make_a_sound_canary_look_bad() {
    let mut wanted = plan(vec![weight("20%"), beside("60%", Vec::new()), hold(600)]);
    let Step::Experiment(experiment) = &mut wanted.strategy.steps[1] else { panic!("an experiment") };
    experiment.duration = Some(Duration::from_mins(50));
    let mut world = World::new(wanted);
    let service = Arc::new(world.service().clone());
    assert_eq!(weights(&world), ["20%", "20%", "60%"]);
    for _ in 0..6_000 {
        world.now = world.now + Duration::from_millis(100);
        // Half of the errors are the canary's, and so is half of what both get.
        let slots = ["v1", "v2"].map(|name| SlotSamples {
            service: service.name.clone(),
            version: version(name),
            weight_generation: service.weight_generation,
            sampled: Counts { requests: 20, errors: 1 },
            sticky: Counts::default(),
            sticky_failed: FailedBuckets::default(),
            latency: LatencyCounts::default(),
            longest_error_run: 0,
            slowest_failure: Duration::ZERO,
        });
        world
            .apply(serin::engine::input::Input::Measured(Samples { slots: slots.into(), ..Samples::default() }))
            .unwrap();
    }
    assert_eq!(world.last(EventKind::Aborted), None);
}

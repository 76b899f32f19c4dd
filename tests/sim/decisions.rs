//! Decision tables: in which situation which decision follows, with its cause. Each row is one sentence of the design.

use std::time::Duration;

use serin::engine::{
    event::{Cause, EventKind},
    input::{Refusal, Verb},
    memory::{PauseKind, PhaseMemory},
    names::Revision,
    plan::{ErrorRateLimit, Guard, OnFailure, OnNoTraffic, Pause, Step, Wish},
    policy::EarlyPromotion,
    view::{Verdict, Waiting},
    weight::Weight,
};

use crate::world::{Dice, Traffic, World, hold, plan, version, weight, wish};

const GOOD: Traffic = Traffic { requests: 20, stable_errors: 1_000, canary_errors: 1_000 };
const BAD: Traffic = Traffic { requests: 20, stable_errors: 0, canary_errors: 500_000 };
const SILENCE: Traffic = Traffic { requests: 0, stable_errors: 0, canary_errors: 0 };

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn percent(text: &str) -> Weight {
    text.parse().unwrap()
}

fn three_steps() -> Vec<Step> {
    vec![weight("5%"), hold(10), weight("25%"), hold(10), weight("50%"), hold(10)]
}

fn kinds(world: &World) -> Vec<EventKind> {
    world.events.iter().map(|event| event.kind).collect()
}

#[test]
fn a_healthy_canary_goes_through_all_steps_and_becomes_stable() {
    let (mut world, mut dice) = (World::new(plan(three_steps())), Dice::new(1));
    assert_eq!(world.canary_weight(), percent("5%"), "the first weight is in force at once");
    world.run(secs(10), GOOD, &mut dice);
    assert_eq!(world.canary_weight(), percent("25%"));
    world.run(secs(20), GOOD, &mut dice);
    assert_eq!(world.service().canary, None);
    assert_eq!(world.service().versions[world.service().stable].name, version("v2"));
    let weights = [EventKind::WeightChanged; 3];
    assert_eq!(
        kinds(&world),
        [&[EventKind::Initialized, EventKind::Started], &weights[..], &[EventKind::Promoted]].concat()
    );
    world.run(secs(29), GOOD, &mut dice);
    assert_eq!(world.events.len(), 6, "a promoted version starts nothing by itself");
}

#[test]
fn a_dead_canary_with_too_few_requests_passes_no_check() {
    let (mut world, mut dice) = (World::new(plan(vec![weight("1%"), hold(600)])), Dice::new(2));
    let dead = Traffic { requests: 2, stable_errors: 0, canary_errors: 1_000_000 };
    let mut seen = false;
    let checks = |world: &World| {
        let view = world.engine.view(world.now);
        view.services[0].rollout.as_ref().map_or_else(Vec::new, |rollout| rollout.checks.clone())
    };
    world.tick(Traffic { requests: 0, ..dead }, &mut dice);
    while checks(&world).iter().all(|check| check.requests == 0) {
        let waiting = world.engine.view(world.now).services[0].rollout.clone().unwrap().waiting;
        let about = |waiting: &Waiting| matches!(waiting, Waiting::Requests { about: Some(_), .. });
        assert_eq!(waiting.iter().any(about), seen, "{waiting:?}");
        world.tick(dead, &mut dice);
        seen = true;
    }
    assert!(seen);
    for check in checks(&world) {
        assert_eq!((check.verdict, check.min_requests), (Verdict::NoData, 20), "{check:?}");
    }
    // Enough of it tells, before the twenty that a healthy one would need.
    world.run(secs(600), dead, &mut dice);
    assert!(matches!(world.last(EventKind::Aborted).unwrap().cause, Cause::ShareTest { .. }));
}

#[test]
fn a_canary_that_fails_half_is_withdrawn_on_its_share_of_the_errors() {
    let (mut world, mut dice) = (World::new(plan(vec![weight("5%"), hold(600)])), Dice::new(2));
    world.run(secs(20), BAD, &mut dice);
    let event = world.last(EventKind::Aborted).expect("aborted");
    assert!(matches!(event.cause, Cause::ShareTest { .. }), "{:?}", event.cause);
    assert_eq!((event.weight, world.service().canary), (Weight::ZERO, None));
    assert!(matches!(world.phase(), PhaseMemory::Degraded { .. }));
}

#[test]
fn a_hold_ends_early_once_the_canary_is_proven_good_enough_for_the_next_weight() {
    let early = |blast_radius| {
        let mut wanted = plan(vec![weight("25%"), hold(3_600), weight("50%"), hold(3_600)]);
        wanted.strategy.policy.promote_early = Some(EarlyPromotion { alpha: 0.05, blast_radius });
        wanted
    };
    let clean = Traffic { requests: 20, stable_errors: 0, canary_errors: 0 };
    let (mut world, mut dice) = (World::new(early(0.01)), Dice::new(11));
    // 1 % of all traffic at 50 % is 2 points of the canary's: some 190 clean requests at 50 a second.
    world.run(secs(9), clean, &mut dice);
    assert_eq!(world.canary_weight(), percent("25%"), "what is slow to fail has had no time yet");
    world.run(secs(30), clean, &mut dice);
    let event = world.last(EventKind::WeightChanged).expect("on to the next step");
    let Cause::Proven { alpha, margin, requests } = event.cause else { panic!("{:?}", event.cause) };
    assert_eq!((event.weight, alpha), (percent("50%"), 0.05));
    assert!((margin - 0.02).abs() < 1e-12 && (150..2_000).contains(&requests), "{margin} {requests}");

    // Within the share test's patience, but not within the margin: the hold lasts.
    let worse = Traffic { requests: 20, stable_errors: 20_000, canary_errors: 26_000 };
    let (mut world, mut dice) = (World::new(early(0.000_1)), Dice::new(12));
    world.run(secs(600), worse, &mut dice);
    assert_eq!((world.canary_weight(), world.last(EventKind::Promoted)), (percent("25%"), None));
}

#[test]
fn an_incident_in_both_versions_reverts_nothing() {
    let both = Traffic { requests: 20, stable_errors: 300_000, canary_errors: 300_000 };
    let (mut world, mut dice) = (World::new(plan(vec![weight("25%"), hold(120)])), Dice::new(3));
    world.run(secs(100), both, &mut dice);
    assert_eq!(world.last(EventKind::Aborted), None);
}

#[test]
fn an_error_rate_over_its_limit_aborts_once_it_has_its_minimum_of_requests() {
    let mut wanted = plan(vec![weight("50%"), hold(600)]);
    wanted.strategy.guard.share_test = None;
    wanted.strategy.guard.error_rate = Some(ErrorRateLimit { max: 0.02, window: secs(10), min_requests: 50 });
    let (mut world, mut dice) = (World::new(wanted), Dice::new(4));
    world.run(Duration::from_millis(400), BAD, &mut dice);
    assert_eq!(world.last(EventKind::Aborted), None, "about 40 requests are too few to judge");
    world.run(secs(2), BAD, &mut dice);
    let cause = &world.last(EventKind::Aborted).expect("aborted").cause;
    assert!(matches!(cause, Cause::ErrorRate { canary, .. } if canary.requests >= 50), "{cause:?}");
}

#[test]
fn twenty_errors_in_a_row_abort() {
    let mut wanted = plan(vec![weight("100%"), hold(600)]);
    wanted.strategy.guard.share_test = None;
    let dead = Traffic { requests: 25, stable_errors: 0, canary_errors: 1_000_000 };
    let mut world = World::new(wanted);
    world.tick(dead, &mut Dice::new(5));
    let cause = &world.last(EventKind::Aborted).expect("aborted").cause;
    assert_eq!(*cause, Cause::ConsecutiveErrors { errors: 25, limit: 20 });
}

#[test]
fn on_failure_pause_keeps_the_weight_and_resume_starts_with_fresh_evidence() {
    let mut wanted = plan(vec![weight("5%"), hold(60)]);
    wanted.strategy.guard.on_failure = OnFailure::Pause;
    let (mut world, mut dice) = (World::new(wanted), Dice::new(6));
    world.run(secs(20), BAD, &mut dice);
    assert!(matches!(world.phase(), PhaseMemory::Paused { kind: PauseKind::Guard, .. }));
    assert_eq!(world.canary_weight(), percent("5%"));
    world.order(Verb::Resume).unwrap();
    world.run(secs(2), GOOD, &mut dice);
    assert!(matches!(world.phase(), PhaseMemory::Progressing(_)), "the old evidence is gone");
}

#[test]
fn an_aborted_version_is_not_tried_again_until_retry_or_another_revision() {
    let (mut world, mut dice) = (World::new(plan(three_steps())), Dice::new(7));
    world.order(Verb::Abort).unwrap();
    assert_eq!(world.service().canary, None);
    world.configure(world.plan.clone()).unwrap();
    let mut without = world.plan.clone();
    without.wish = None;
    let mut again = world.plan.clone();
    world.configure(without).unwrap();
    world.configure(again.clone()).unwrap();
    world.run(secs(5), GOOD, &mut dice);
    assert_eq!(world.service().canary, None, "naming the aborted version again starts nothing");
    again.wish = Some(Wish { version: version("v2"), revision: "b2".into() });
    world.configure(again).unwrap();
    assert_eq!(world.canary_weight(), percent("5%"), "another build is another wish");
    world.order(Verb::Abort).unwrap();
    world.order(Verb::Abort).expect("asking twice is no mistake");
    world.order(Verb::Retry).unwrap();
    assert_eq!(world.canary_weight(), percent("5%"));
}

#[test]
fn a_newer_wish_supersedes_and_starts_at_step_one() {
    let (mut world, mut dice) = (World::new(plan(three_steps())), Dice::new(8));
    world.run(secs(12), GOOD, &mut dice);
    let mut newer = world.plan.clone();
    newer.wish = Some(wish("v3"));
    world.configure(newer).unwrap();
    assert_eq!(world.canary_weight(), percent("5%"));
    assert_eq!(world.service().canary, Some(2));
    assert_eq!(world.last(EventKind::Superseded).unwrap().canary, Some(version("v2")));
}

#[test]
fn deleting_the_wish_ends_a_running_rollout_and_nothing_else() {
    let mut world = World::new(plan(three_steps()));
    let mut without = world.plan.clone();
    without.wish = None;
    world.configure(without.clone()).unwrap();
    assert_eq!(world.service().canary, None);
    assert_eq!(world.last(EventKind::Superseded).unwrap().kind, EventKind::Superseded);
    let events = world.events.len();
    world.configure(without).unwrap();
    assert_eq!(world.events.len(), events);
}

#[test]
fn a_version_in_use_cannot_be_removed_by_a_reload() {
    for in_use in ["v1", "v2"] {
        let mut world = World::new(plan(three_steps()));
        let mut without = world.plan.clone();
        without.versions.retain(|of| of.name != version(in_use));
        without.wish = (in_use == "v1").then(|| wish("v3"));
        without.stable = version("v3");
        let before = world.table.clone();
        assert!(matches!(world.configure(without), Err(Refusal::NotNow(_))), "{in_use}");
        assert_eq!(world.table, before);
    }
}

#[test]
fn another_build_of_the_stable_version_is_refused() {
    let mut world = World::new(plan(three_steps()));
    let mut wanted = world.plan.clone();
    wanted.wish = Some(Wish { version: version("v1"), revision: "b2".into() });
    assert!(matches!(world.configure(wanted), Err(Refusal::NotNow(_))));
}

#[test]
fn editing_steps_ahead_carries_on_and_editing_the_past_starts_over() {
    let (mut world, mut dice) = (World::new(plan(three_steps())), Dice::new(9));
    world.run(secs(11), GOOD, &mut dice);
    let mut ahead = world.plan.clone();
    ahead.strategy.steps.extend([weight("75%"), hold(5)]);
    world.configure(ahead).unwrap();
    assert_eq!(world.canary_weight(), percent("25%"));
    let mut past = world.plan.clone();
    past.strategy.steps[0] = weight("2%");
    world.configure(past).unwrap();
    assert_eq!(world.canary_weight(), percent("2%"));
}

#[test]
fn editing_thresholds_applies_at_once_and_keeps_step_and_weight() {
    let (mut world, mut dice) = (World::new(plan(three_steps())), Dice::new(10));
    world.run(secs(11), GOOD, &mut dice);
    let mut edited = world.plan.clone();
    edited.strategy.guard.error_rate = Some(ErrorRateLimit { max: 0.5, window: secs(10), min_requests: 5 });
    world.configure(edited).unwrap();
    assert_eq!(world.canary_weight(), percent("25%"));
    assert_eq!(world.events.last().unwrap().kind, EventKind::Reconfigured);
}

#[test]
fn a_hold_waits_for_the_minimum_of_requests_and_then_does_as_told() {
    for (action, phase) in
        [(OnNoTraffic::Wait, "waits"), (OnNoTraffic::Pause, "pauses"), (OnNoTraffic::Abort, "aborts")]
    {
        let mut wanted = plan(vec![weight("5%"), hold(1), weight("50%"), hold(1)]);
        wanted.strategy.guard.error_rate = Some(ErrorRateLimit { max: 0.02, window: secs(10), min_requests: 50 });
        (wanted.strategy.on_no_traffic, wanted.strategy.no_traffic_for) = (action, secs(30));
        let (mut world, mut dice) = (World::new(wanted), Dice::new(11));
        world.run(secs(29), SILENCE, &mut dice);
        assert!(matches!(world.phase(), PhaseMemory::Progressing(_)), "no data is no verdict");
        world.run(secs(60), SILENCE, &mut dice);
        let now = match world.phase() {
            PhaseMemory::Progressing(_) => "waits",
            PhaseMemory::Paused { kind: PauseKind::NoTraffic, .. } => "pauses",
            PhaseMemory::Degraded { .. } => "aborts",
            _ => "other",
        };
        assert_eq!(now, phase);
    }
}

#[test]
fn a_pause_by_requests_ends_with_them() {
    let steps = vec![weight("50%"), Step::Pause(Pause::Requests(100)), weight("60%"), hold(60)];
    let (mut world, mut dice) = (World::new(plan(steps)), Dice::new(12));
    world.run(Duration::from_millis(500), GOOD, &mut dice);
    assert_eq!(world.canary_weight(), percent("50%"));
    world.run(secs(2), GOOD, &mut dice);
    assert_eq!(world.canary_weight(), percent("60%"));
}

#[test]
fn a_pause_without_end_waits_for_a_person_and_promote_or_resume_goes_on() {
    for verb in [Verb::Resume, Verb::Promote { full: false, force: false }] {
        let steps = vec![weight("5%"), Step::Pause(Pause::Person), weight("50%"), hold(60)];
        let (mut world, mut dice) = (World::new(plan(steps)), Dice::new(13));
        world.run(secs(30), GOOD, &mut dice);
        assert!(matches!(world.phase(), PhaseMemory::Paused { kind: PauseKind::Step, .. }));
        world.order(verb).unwrap();
        assert_eq!(world.canary_weight(), percent("50%"));
    }
}

#[test]
fn a_manual_pause_stops_the_clock_and_a_restart_does_not_start_it_again() {
    let (mut world, mut dice) =
        (World::new(plan(vec![weight("5%"), hold(10), weight("50%"), hold(60)])), Dice::new(14));
    world.run(secs(4), GOOD, &mut dice);
    world.order(Verb::Pause).unwrap();
    world.run(secs(30), GOOD, &mut dice);
    world.crash(secs(5));
    assert_eq!(world.canary_weight(), percent("5%"));
    world.order(Verb::Resume).unwrap();
    world.run(secs(5), GOOD, &mut dice);
    assert_eq!(world.canary_weight(), percent("5%"), "six seconds were left");
    world.run(secs(2), GOOD, &mut dice);
    assert_eq!(world.canary_weight(), percent("50%"));
}

#[test]
fn a_guard_breach_aborts_a_paused_rollout_too() {
    let (mut world, mut dice) = (World::new(plan(vec![weight("5%"), hold(60)])), Dice::new(15));
    world.order(Verb::Pause).unwrap();
    world.run(secs(20), BAD, &mut dice);
    assert!(matches!(world.phase(), PhaseMemory::Degraded { .. }));
}

#[test]
fn a_weight_set_by_hand_pauses_and_resume_takes_the_next_step_above_it() {
    let mut world = World::new(plan(three_steps()));
    world.order(Verb::SetWeight(percent("30%"))).unwrap();
    assert_eq!(world.canary_weight(), percent("30%"));
    assert!(matches!(world.phase(), PhaseMemory::Paused { kind: PauseKind::Weight, .. }));
    world.order(Verb::Resume).unwrap();
    assert_eq!(world.canary_weight(), percent("50%"));
}

#[test]
fn promote_full_skips_all_and_an_aborted_version_needs_force() {
    let mut world = World::new(plan(three_steps()));
    world.order(Verb::Abort).unwrap();
    assert!(world.order(Verb::Promote { full: true, force: false }).is_err());
    world.order(Verb::Promote { full: true, force: true }).unwrap();
    assert_eq!(world.service().versions[world.service().stable].name, version("v2"));
}

#[test]
fn undo_goes_back_at_once_and_the_undone_version_does_not_come_back() {
    let mut world = World::new(plan(three_steps()));
    world.order(Verb::Promote { full: true, force: false }).unwrap();
    world.order(Verb::Undo { to: None }).unwrap();
    assert_eq!(world.service().versions[world.service().stable].name, version("v1"));
    world.configure(world.plan.clone()).unwrap();
    world.crash(secs(1));
    assert_eq!(world.service().canary, None);
    assert!(world.order(Verb::Undo { to: Some(Revision(9)) }).is_err());
}

#[test]
fn commands_that_make_no_sense_now_are_refused_and_say_what_would() {
    let mut wanted = plan(three_steps());
    wanted.wish = None;
    let mut world = World::new(wanted);
    let before = world.events.len();
    for verb in [
        Verb::Promote { full: false, force: false },
        Verb::Pause,
        Verb::Resume,
        Verb::Abort,
        Verb::Retry,
        Verb::Undo { to: None },
        Verb::SetWeight(percent("5%")),
        Verb::Start { to: version("v1"), revision: String::new(), site: None },
        Verb::Start { to: version("v9"), revision: String::new(), site: None },
    ] {
        assert!(world.order(verb.clone()).is_err(), "{verb:?}");
    }
    assert_eq!(world.events.len(), before);
    world.order(Verb::Start { to: version("v3"), revision: String::new(), site: None }).unwrap();
    assert_eq!(world.service().canary, Some(2));
}

#[test]
fn a_deadline_counts_unpaused_time_only() {
    let mut wanted = plan(vec![weight("5%"), hold(600)]);
    wanted.strategy.deadline = Some(secs(20));
    let (mut world, mut dice) = (World::new(wanted), Dice::new(16));
    world.run(secs(10), GOOD, &mut dice);
    world.order(Verb::Pause).unwrap();
    world.run(secs(60), GOOD, &mut dice);
    world.order(Verb::Resume).unwrap();
    world.run(secs(9), GOOD, &mut dice);
    assert!(matches!(world.phase(), PhaseMemory::Progressing(_)));
    world.run(secs(2), GOOD, &mut dice);
    assert!(matches!(world.last(EventKind::Aborted).unwrap().cause, Cause::Deadline { .. }));
}

/// Found by a stranger: without thresholds, a dead canary that nobody asked for anything was promoted after its holds.
#[test]
fn without_a_request_no_hold_ends_whatever_the_guard_is_made_of() {
    let (mut world, mut dice) = (World::new(plan(three_steps())), Dice::new(17));
    world.run(secs(120), SILENCE, &mut dice);
    assert_eq!(world.canary_weight(), percent("5%"), "the share test and errors in a row had no chance yet");
    world.run(secs(10), GOOD, &mut dice);
    assert_eq!(world.canary_weight(), percent("25%"));
}

/// `guard: off`: nobody looks, so the clock alone moves the steps, and a person may still stop it.
#[test]
fn without_a_guard_holds_go_by_the_clock_and_only_a_person_stops_a_bad_canary() {
    let nothing =
        Guard { error_rate: None, latency: Vec::new(), share_test: None, consecutive_errors: 0, ..Guard::default() };
    for traffic in [SILENCE, BAD] {
        let mut wanted = plan(three_steps());
        wanted.strategy.guard = nothing.clone();
        let (mut world, mut dice) = (World::new(wanted), Dice::new(20));
        world.run(secs(11), traffic, &mut dice);
        assert_eq!(world.canary_weight(), percent("25%"), "{traffic:?}");
        assert_eq!(world.engine.view(world.now).services[0].rollout.as_ref().unwrap().checks, []);
        world.order(Verb::Abort).unwrap();
        assert_eq!(world.canary_weight(), Weight::ZERO);
    }
}

/// Found by a stranger: `set-weight 50%` at the last step's weight and `resume` promoted at once.
#[test]
fn resume_after_a_weight_above_every_step_holds_and_does_not_promote() {
    for by_hand in ["50%", "100%"] {
        let (mut world, mut dice) = (World::new(plan(three_steps())), Dice::new(18));
        world.order(Verb::SetWeight(percent(by_hand))).unwrap();
        world.order(Verb::Resume).unwrap();
        assert_eq!(world.canary_weight(), percent(by_hand));
        world.run(secs(9), GOOD, &mut dice);
        assert!(matches!(world.phase(), PhaseMemory::Progressing(_)), "the last hold is held");
        world.run(secs(2), GOOD, &mut dice);
        assert!(matches!(world.phase(), PhaseMemory::Healthy));
    }
}

/// Found by a stranger: each save of a longer hold began it anew.
#[test]
fn a_longer_hold_is_the_same_hold() {
    let (mut world, mut dice) =
        (World::new(plan(vec![weight("5%"), hold(10), weight("50%"), hold(60)])), Dice::new(19));
    world.run(secs(8), GOOD, &mut dice);
    let mut longer = world.plan.clone();
    longer.strategy.steps[1] = hold(12);
    world.configure(longer).unwrap();
    world.run(secs(3), GOOD, &mut dice);
    assert_eq!(world.canary_weight(), percent("5%"));
    world.run(secs(2), GOOD, &mut dice);
    assert_eq!(world.canary_weight(), percent("50%"));
}

/// Found by a stranger: renaming the service in the file moved all traffic to the first version, silently.
#[test]
fn a_service_is_not_renamed_or_removed_by_a_reload() {
    let mut world = World::new(plan(three_steps()));
    world.order(Verb::Promote { full: true, force: false }).unwrap();
    let mut renamed = world.plan.clone();
    renamed.name = serin::engine::names::ServiceName::new("shop").unwrap();
    let before = world.table.clone();
    assert!(matches!(world.configure(renamed), Err(Refusal::NotNow(_))));
    assert_eq!(world.table, before);
}

#[test]
fn undo_to_what_is_stable_says_so() {
    let mut world = World::new(plan(three_steps()));
    world.order(Verb::Promote { full: true, force: false }).unwrap();
    world.order(Verb::Undo { to: Some(Revision(0)) }).unwrap();
    let refusal = world.order(Verb::Undo { to: Some(Revision(1)) }).unwrap_err();
    assert!(refusal.to_string().contains("stable already"), "{refusal}");
}

#[test]
fn while_it_drains_the_canary_keeps_its_weight_and_takes_nobody_new() {
    let mut world = World::new(plan(vec![weight("20%"), hold(60)]));
    world.order(Verb::Drain).unwrap();
    let table = world.engine.table();
    let service = &table.services[0];
    assert!(service.draining);
    assert_eq!(service.versions[1].weight.ppm(), 200_000, "who is kept on the canary stays");
    assert!(world.order(Verb::Promote { full: false, force: false }).is_err(), "a draining canary takes no step");
    world.order(Verb::Drain).unwrap();
    world.order(Verb::Resume).unwrap();
    assert!(!world.engine.table().services[0].draining);
    world.order(Verb::Drain).unwrap();
    world.order(Verb::Abort).unwrap();
    assert_eq!(world.engine.table().services[0].canary, None);
    assert!(world.order(Verb::Drain).is_err(), "there is nothing to drain");
}

/// Row C9 of the study.
#[test]
fn a_restart_within_a_hold_leaves_what_was_left_of_it() {
    let (mut world, mut dice) =
        (World::new(plan(vec![weight("5%"), hold(300), weight("25%"), hold(300)])), Dice::new(31));
    world.run(secs(180), GOOD, &mut dice);
    world.crash(secs(1));
    world.run(secs(100), GOOD, &mut dice);
    assert_eq!(world.canary_weight(), percent("5%"), "about twenty seconds are left");
    world.run(secs(30), GOOD, &mut dice);
    assert_eq!(world.canary_weight(), percent("25%"));
}

/// Row C16 of the study.
#[test]
fn before_the_first_weight_the_canary_has_none() {
    let mut world = World::new(plan(vec![Step::Pause(Pause::For(secs(30))), weight("25%"), hold(30)]));
    assert_eq!(world.canary_weight(), Weight::ZERO);
    world.run(secs(25), GOOD, &mut Dice::new(32));
    assert_eq!((world.canary_weight(), world.last(EventKind::Promoted)), (Weight::ZERO, None));
}

//! Strategies beyond weights and holds: when weight may rise, how a canary leaves, blue-green, turns among rollouts.

use std::{sync::Arc, time::Duration};

use http::HeaderName;

use serin::engine::{
    assign::HeaderRoute,
    endpoint::{Endpoint, Site},
    event::{Cause, EventKind},
    input::Verb,
    memory::{PauseKind, PhaseMemory},
    mirror::MirrorRoute,
    names::Revision,
    plan::{LatencyLimit, Pause, ServicePlan, Step, Warmup},
    policy::RiseWindow,
    request::{HeaderMatch, RequestMatch, StringMatch},
    weight::Weight,
};

use crate::analyses::{answer, outside, times};
use crate::world::{Dice, Traffic, World, hold, plan, version, weight, wish};
use serin::engine::analysis::answer::{Answer, Reply};

const GOOD: Traffic = Traffic { requests: 20, stable_errors: 1_000, canary_errors: 1_000 };
const BAD: Traffic = Traffic { requests: 20, stable_errors: 0, canary_errors: 500_000 };
const DEAD: Traffic = Traffic { requests: 20, stable_errors: 0, canary_errors: 1_000_000 };

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn percent(text: &str) -> Weight {
    text.parse().unwrap()
}

fn bake(seconds: u64) -> Step {
    Step::Pause(Pause::Bake(secs(seconds)))
}

fn stable(world: &World) -> &str {
    world.service().versions[world.service().stable].name.as_str()
}

/// The world's clock starts on a Tuesday at 22:13:20 UTC.
fn only_at_night() -> RiseWindow {
    RiseWindow { days: [true; 7], from: 23 * 60, to: 6 * 60, zone: jiff::tz::TimeZone::UTC }
}

fn windowed(steps: Vec<Step>) -> ServicePlan {
    let mut wanted = plan(steps);
    wanted.strategy.policy.windows = vec![only_at_night()];
    wanted
}

#[test]
fn weight_rises_only_within_its_windows_and_falls_at_any_time() {
    let (mut world, mut dice) =
        (World::new(windowed(vec![weight("5%"), hold(10), weight("25%"), hold(10)])), Dice::new(1));
    world.run(secs(60), GOOD, &mut dice);
    assert_eq!(world.canary_weight(), Weight::ZERO, "the first weight waits as well");
    assert!(matches!(world.phase(), PhaseMemory::Progressing(_)), "nobody has to do anything");
    world.skip(secs(46 * 60));
    world.tick(GOOD, &mut dice);
    assert_eq!(world.canary_weight(), percent("5%"));
    world.skip(secs(7 * 3600));
    world.run(secs(60), GOOD, &mut dice);
    assert_eq!(world.canary_weight(), percent("5%"), "the hold is long over, the window too");
    world.order(Verb::Abort).unwrap();
    assert_eq!(world.canary_weight(), Weight::ZERO);
}

#[test]
fn promote_goes_through_a_closed_window_and_loses_no_step() {
    let mut world = World::new(windowed(vec![weight("5%"), hold(10), weight("25%"), hold(10)]));
    let promote = || Verb::Promote { full: false, force: false };
    world.order(promote()).unwrap();
    assert_eq!(world.canary_weight(), percent("5%"), "who says promote has looked");
    world.order(promote()).unwrap();
    assert_eq!(world.canary_weight(), percent("25%"));
}

#[test]
fn a_closed_window_is_not_counted_against_the_deadline() {
    let mut wanted = windowed(vec![weight("5%"), hold(10)]);
    wanted.strategy.deadline = Some(secs(60));
    let (mut world, mut dice) = (World::new(wanted), Dice::new(2));
    world.run(secs(120), GOOD, &mut dice);
    world.skip(secs(46 * 60));
    world.run(secs(5), GOOD, &mut dice);
    assert_eq!(world.canary_weight(), percent("5%"));
    assert_eq!(world.last(EventKind::Aborted), None);
}

#[test]
fn the_promotion_is_a_rise_too() {
    let mut wanted = windowed(vec![weight("5%"), hold(50)]);
    wanted.strategy.policy.windows = vec![RiseWindow { from: 22 * 60, to: 22 * 60 + 14, ..only_at_night() }];
    let (mut world, mut dice) = (World::new(wanted), Dice::new(3));
    world.run(secs(10), GOOD, &mut dice);
    assert_eq!(world.canary_weight(), percent("5%"));
    world.skip(secs(60));
    world.run(secs(10), GOOD, &mut dice);
    assert_eq!((stable(&world), world.last(EventKind::Promoted)), ("v1", None), "the window closed at 22:14");
}

/// Errors that begin after the last weight flip everything back while the canary is still on trial.
#[test]
fn errors_in_the_bake_time_flip_back() {
    let steps = vec![weight("50%"), hold(2), weight("99%"), bake(60)];
    let (mut world, mut dice) = (World::new(plan(steps)), Dice::new(4));
    world.run(secs(30), GOOD, &mut dice);
    assert_eq!(world.canary_weight(), percent("99%"));
    world.run(secs(20), DEAD, &mut dice);
    assert!(matches!(world.phase(), PhaseMemory::Degraded { .. }), "{:?}", world.phase());
    assert_eq!((stable(&world), world.canary_weight()), ("v1", Weight::ZERO));
}

#[test]
fn a_ramp_takes_the_weight_down_evenly_and_a_second_abort_ends_it() {
    let mut wanted = plan(vec![weight("50%"), hold(60)]);
    wanted.strategy.policy.abort_ramp = secs(20);
    let (mut world, mut dice) = (World::new(wanted), Dice::new(5));
    world.order(Verb::Abort).unwrap();
    assert!(matches!(world.phase(), PhaseMemory::Degraded { .. }));
    let mut before = percent("50%");
    assert_eq!(world.canary_weight(), before);
    for second in 1..=20_u32 {
        world.run(secs(1), GOOD, &mut dice);
        assert_eq!(world.canary_weight().ppm(), 500_000 / 20 * (20 - second), "second {second}");
        assert!(world.canary_weight() < before);
        before = world.canary_weight();
    }
    assert_eq!(world.service().canary, None);
    world.order(Verb::Retry).unwrap();
    world.order(Verb::Abort).unwrap();
    world.run(secs(5), GOOD, &mut dice);
    world.order(Verb::Abort).unwrap();
    assert_eq!(world.canary_weight(), Weight::ZERO, "at once, when asked again");
}

#[test]
fn a_crash_on_the_ramp_comes_back_with_stable_only() {
    let mut wanted = plan(vec![weight("50%"), hold(60)]);
    wanted.strategy.policy.abort_ramp = secs(20);
    let (mut world, mut dice) = (World::new(wanted), Dice::new(6));
    world.order(Verb::Abort).unwrap();
    world.run(secs(5), GOOD, &mut dice);
    world.crash(secs(1));
    assert_eq!((stable(&world), world.canary_weight()), ("v1", Weight::ZERO));
}

#[test]
fn what_serves_no_longer_is_told_once_its_delay_is_over() {
    let mut world = World::new(plan(vec![weight("5%"), hold(60)]));
    let mut dice = Dice::new(7);
    world.order(Verb::Promote { full: true, force: false }).unwrap();
    world.run(secs(29), GOOD, &mut dice);
    assert_eq!(world.last(EventKind::ScaleDown), None);
    world.crash(secs(0));
    world.run(secs(2), GOOD, &mut dice);
    assert_eq!(world.last(EventKind::ScaleDown).unwrap().canary, Some(version("v1")));
    world.run(secs(60), GOOD, &mut dice);
    let told = world.events.iter().filter(|event| event.kind == EventKind::ScaleDown).count();
    assert_eq!(told, 1, "once");
}

#[test]
fn an_aborted_canary_may_be_stopped_after_a_delay_of_its_own_or_never() {
    for (delay, told_after) in [(Some(5), Some(6)), (Some(120), None), (None, None)] {
        let mut wanted = plan(vec![weight("5%"), hold(60)]);
        wanted.strategy.policy.abort_scale_down_delay = delay.map(secs);
        let (mut world, mut dice) = (World::new(wanted), Dice::new(16));
        world.order(Verb::Abort).unwrap();
        world.run(secs(4), GOOD, &mut dice);
        assert_eq!(world.last(EventKind::ScaleDown), None, "{delay:?}");
        world.crash(secs(0));
        world.run(secs(told_after.unwrap_or(90)), GOOD, &mut dice);
        let told = world.last(EventKind::ScaleDown).and_then(|event| event.canary.clone());
        assert_eq!(told, told_after.map(|_| version("v2")), "{delay:?}");
    }
}

#[test]
fn a_version_that_serves_again_is_not_told_to_be_stopped() {
    let mut world = World::new(plan(vec![weight("5%"), hold(600)]));
    let mut dice = Dice::new(8);
    world.order(Verb::Promote { full: true, force: false }).unwrap();
    world.order(Verb::Undo { to: None }).unwrap();
    world.run(secs(40), GOOD, &mut dice);
    assert_eq!(world.last(EventKind::ScaleDown).unwrap().canary, Some(version("v2")), "v1 serves");
    world.order(Verb::Start { to: version("v2"), revision: String::new(), site: None }).unwrap();
    world.order(Verb::Abort).unwrap();
    world.order(Verb::Retry).unwrap();
    let events = world.events.len();
    world.run(secs(40), GOOD, &mut dice);
    assert!(world.events[events..].iter().all(|event| event.kind != EventKind::ScaleDown), "it is being tried");
}

#[test]
fn undo_beyond_the_rollback_window_is_an_ordinary_rollout() {
    let mut wanted = plan(vec![weight("5%"), hold(60)]);
    wanted.strategy.policy.rollback_window = 1;
    let mut world = World::new(wanted);
    let full = || Verb::Promote { full: true, force: false };
    world.order(full()).unwrap();
    world.order(Verb::Start { to: version("v3"), revision: String::new(), site: None }).unwrap();
    world.order(full()).unwrap();
    world.order(Verb::Undo { to: Some(Revision(0)) }).unwrap();
    assert_eq!((stable(&world), world.canary_weight()), ("v3", percent("5%")), "v1 is tried like any other");
}

#[test]
fn a_cold_canary_is_judged_on_latency_only_when_it_is_warm() {
    let limit = LatencyLimit { quantile: 0.5, max: Duration::from_millis(1), window: secs(5), min_requests: 20 };
    for (warmup, aborted) in [(0, true), (10, false)] {
        let mut wanted = plan(vec![weight("50%"), hold(2), weight("60%"), hold(60)]);
        wanted.strategy.guard.latency = vec![limit];
        wanted.strategy.guard.warmup = Warmup { errors: Duration::ZERO, latency: secs(warmup) };
        let (mut world, mut dice) = (World::new(wanted), Dice::new(9));
        world.run(secs(9), GOOD, &mut dice);
        assert_eq!(world.last(EventKind::Aborted).is_some(), aborted, "warm-up {warmup} s");
        assert_ne!(world.canary_weight(), percent("60%"), "no hold ends before its checks had their chance");
        world.run(secs(3), GOOD, &mut dice);
        assert!(matches!(world.last(EventKind::Aborted).unwrap().cause, Cause::Latency { .. }));
    }
}

#[test]
fn errors_in_a_warm_up_of_errors_do_not_count() {
    let mut wanted = plan(vec![weight("50%"), hold(2), weight("60%"), hold(60)]);
    wanted.strategy.guard.warmup.errors = secs(10);
    let (mut world, mut dice) = (World::new(wanted), Dice::new(10));
    world.run(secs(9), DEAD, &mut dice);
    assert_eq!(world.last(EventKind::Aborted), None);
    world.run(secs(6), DEAD, &mut dice);
    assert!(world.last(EventKind::Aborted).is_some());
}

fn blue_green(auto: Option<Step>) -> ServicePlan {
    plan(auto.into_iter().chain([weight("100%"), hold(30)]).collect())
}

/// C20 and its like: before and after the switch an abort leaves the old version in charge of everything.
#[test]
fn blue_green_can_be_aborted_before_and_after_the_switch() {
    for after in [false, true] {
        let (mut world, mut dice) = (World::new(blue_green(Some(Step::Pause(Pause::Person)))), Dice::new(11));
        world.run(secs(5), GOOD, &mut dice);
        assert_eq!(world.canary_weight(), Weight::ZERO);
        assert!(matches!(world.phase(), PhaseMemory::Paused { kind: PauseKind::Step, .. }));
        if after {
            world.order(Verb::Promote { full: false, force: false }).unwrap();
            assert_eq!(world.canary_weight(), Weight::FULL);
        }
        world.order(Verb::Abort).unwrap();
        assert_eq!((stable(&world), world.canary_weight()), ("v1", Weight::ZERO));
    }
}

#[test]
fn blue_green_switches_by_itself_after_its_seconds_and_a_broken_version_switches_back() {
    let (mut world, mut dice) = (World::new(blue_green(Some(hold(5)))), Dice::new(12));
    world.run(secs(4), BAD, &mut dice);
    assert_eq!(world.canary_weight(), Weight::ZERO);
    world.run(secs(1), GOOD, &mut dice);
    assert_eq!(world.canary_weight(), Weight::FULL);
    world.run(secs(5), DEAD, &mut dice);
    assert_eq!((stable(&world), world.canary_weight()), ("v1", Weight::ZERO));
}

/// `autoPromotionSeconds` does not overrule `prePromotionAnalysis`: the seconds count from its success.
#[test]
fn blue_green_seconds_do_not_win_over_the_analysis_before_the_switch() {
    let steps = vec![times(1, outside()), hold(5), weight("100%"), hold(30)];
    let (mut world, mut dice) = (World::new(plan(steps)), Dice::new(14));
    world.run(secs(8), GOOD, &mut dice);
    assert_eq!(world.canary_weight(), Weight::ZERO, "not judged yet");
    assert_eq!(answer(&mut world, &Ok(Reply::Value(Answer::numbers([1.0])))), 1);
    world.run(secs(4), GOOD, &mut dice);
    assert_eq!(world.canary_weight(), Weight::ZERO, "the seconds begin with the success");
    world.run(secs(2), GOOD, &mut dice);
    assert_eq!(world.canary_weight(), Weight::FULL);
}

/// Many rollouts at once: those above the limit wait for their turn at nothing, the longest first.
#[test]
fn rollouts_above_the_limit_wait_for_their_turn() {
    let mut wanted = plan(vec![weight("5%"), hold(60)]);
    wanted.strategy.policy.concurrent = 1;
    let others = ["api", "img"]
        .map(|name| ServicePlan { name: serin::engine::names::ServiceName::new(name).unwrap(), ..wanted.clone() });
    let mut world = World::of([vec![wanted], others.into()].concat());
    let mut dice = Dice::new(13);
    world.run(secs(1), GOOD, &mut dice);
    let weights = |world: &World| -> Vec<u32> {
        let of = |service: &serin::engine::table::ServiceTable| {
            service.canary.map_or(0, |at| service.versions[at].weight.ppm() / 10_000)
        };
        world.table.services.iter().map(of).collect()
    };
    let begun: u32 = weights(&world).iter().sum();
    assert_eq!(begun, 5, "one of three: {:?}", weights(&world));
    for name in ["api", "img", "web"] {
        let at = ["web", "api", "img"].iter().position(|of| *of == name).unwrap();
        assert_eq!(weights(&world)[at], 5, "{name} has its turn");
        world.order_of(name, Verb::Abort).unwrap();
        world.run(secs(1), GOOD, &mut dice);
    }
    assert_eq!(weights(&world), [0, 0, 0]);
}

/// Seed 222: a weight set by hand where a window holds the step, then resumed, was still paused after a restart.
#[test]
fn going_on_into_a_closed_window_is_remembered() {
    let mut world = World::new(windowed(vec![weight("5%"), hold(10)]));
    world.order(Verb::SetWeight(percent("1%"))).unwrap();
    world.order(Verb::Resume).unwrap();
    assert!(matches!(world.phase(), PhaseMemory::Progressing(_)), "{:?}", world.phase());
    world.crash(secs(1));
    assert_eq!(world.canary_weight(), percent("1%"));
}

fn header_route(name: &str, value: &str) -> Step {
    let matches =
        vec![HeaderMatch { name: HeaderName::from_static("x-group"), value: StringMatch::Exact(value.to_owned()) }];
    let name: Arc<str> = name.into();
    Step::SetHeaderRoute { route: Some(HeaderRoute { name: Arc::clone(&name), matches, all: false }), name }
}

fn mirror_route(name: &str, share: &str) -> Step {
    let (name, matches): (Arc<str>, _) = (name.into(), vec![RequestMatch::default()]);
    Step::SetMirrorRoute { route: Some(MirrorRoute { name: Arc::clone(&name), share: percent(share), matches }), name }
}

fn routes(world: &World) -> Vec<String> {
    world.service().header_routes.iter().map(|route| route.name.to_string()).collect()
}

fn mirrors(world: &World) -> Vec<(String, Weight)> {
    world.service().mirror_routes.iter().map(|route| (route.name.to_string(), route.share)).collect()
}

/// Two routes on one header name and a weight: all three hold, until they are replaced, removed, or the rollout ends.
#[test]
fn header_routes_hold_beside_weights_and_each_other_and_over_a_restart() {
    let gone = Step::SetHeaderRoute { name: "staff".into(), route: None };
    let steps = vec![
        header_route("staff", "staff"),
        header_route("beta", "beta"),
        weight("5%"),
        hold(5),
        gone,
        weight("10%"),
        hold(600),
    ];
    let (mut world, mut dice) = (World::new(plan(steps)), Dice::new(15));
    assert_eq!((routes(&world), world.canary_weight()), (vec!["staff".to_owned(), "beta".to_owned()], percent("5%")));
    world.crash(secs(1));
    assert_eq!(routes(&world).len(), 2, "derived from the step, not from having passed it");
    world.run(secs(30), GOOD, &mut dice);
    assert_eq!((routes(&world), world.canary_weight()), (vec!["beta".to_owned()], percent("10%")));
}

/// After an abort, a promotion or a newer version there is no route left, in the same table that ends the rollout. A
/// promotion waits for the disk: a crash must not undo it once it was served.
#[test]
fn header_routes_end_with_the_rollout_in_one_swap() {
    for ending in ["abort", "promote", "supersede"] {
        let mut world = World::new(plan(vec![header_route("staff", "staff"), hold(600)]));
        assert_eq!((routes(&world).len(), world.canary_weight()), (1, Weight::ZERO), "{ending}");
        match ending {
            "abort" => world.order(Verb::Abort).unwrap(),
            "promote" => world.order(Verb::Promote { full: true, force: false }).unwrap(),
            _ => {
                let mut without = world.plan.clone();
                without.wish = None;
                world.configure(without).unwrap();
            }
        }
        assert_eq!((routes(&world).len(), world.published), (0, 1), "{ending}");
        let takes = ending != "promote";
        assert_eq!(world.withdrew, takes, "{ending}: what only takes is in force before the disk is waited for");
    }
}

/// Copies begin before the canary has any weight, are set anew and removed by name, and are there again after a crash.
#[test]
fn mirror_routes_hold_until_they_are_replaced_or_removed_and_over_a_restart() {
    let gone = Step::SetMirrorRoute { name: "shadow".into(), route: None };
    let steps = vec![
        mirror_route("shadow", "10%"),
        hold(5),
        mirror_route("writes", "1%"),
        mirror_route("shadow", "50%"),
        hold(5),
        gone,
        weight("10%"),
        hold(600),
    ];
    let named = |name: &str, share| (name.to_owned(), percent(share));
    let (mut world, mut dice) = (World::new(plan(steps)), Dice::new(15));
    assert_eq!((mirrors(&world), world.canary_weight()), (vec![named("shadow", "10%")], Weight::ZERO));
    let shown = world.engine.view(world.now).services[0].rollout.clone().unwrap();
    assert_eq!((&*shown.mirror_routes[0].name, shown.mirror_routes[0].share), ("shadow", percent("10%")));
    assert_eq!(&shown.steps[0], "setMirrorRoute shadow 10%");
    world.run(secs(7), GOOD, &mut dice);
    assert_eq!(mirrors(&world), [named("shadow", "50%"), named("writes", "1%")]);
    world.crash(secs(1));
    assert_eq!(mirrors(&world).len(), 2, "derived from the step, not from having passed it");
    world.run(secs(30), GOOD, &mut dice);
    assert_eq!((mirrors(&world), world.canary_weight()), (vec![named("writes", "1%")], percent("10%")));
}

/// As header routes do: in the same table that ends the rollout, or in one before that of a newer wish.
#[test]
fn mirror_routes_end_with_the_rollout_in_one_swap() {
    for ending in ["abort", "promote", "supersede", "newer"] {
        let mut world = World::new(plan(vec![mirror_route("shadow", "100%"), hold(600)]));
        assert_eq!((mirrors(&world).len(), world.canary_weight()), (1, Weight::ZERO), "{ending}");
        let mut other = world.plan.clone();
        match ending {
            "abort" => world.order(Verb::Abort).unwrap(),
            "promote" => world.order(Verb::Promote { full: true, force: false }).unwrap(),
            "supersede" => {
                other.wish = None;
                world.configure(other).unwrap();
            }
            _ => {
                other.wish = Some(wish("v3"));
                other.strategy.steps = vec![weight("1%"), hold(600)];
                world.configure(other).unwrap();
            }
        }
        let tables = if ending == "newer" { 2 } else { 1 };
        assert_eq!((mirrors(&world).len(), world.published), (0, tables), "{ending}");
        let takes = ending != "promote";
        assert_eq!(world.withdrew, takes, "{ending}: what only takes is in force before the disk is waited for");
    }
}

#[test]
fn a_newer_wish_on_the_ramp_of_the_one_before_takes_over_in_one_swap() {
    let mut wanted = plan(vec![weight("50%"), hold(60)]);
    wanted.strategy.policy.abort_ramp = secs(20);
    let (mut world, mut dice) = (World::new(wanted), Dice::new(14));
    world.order(Verb::Abort).unwrap();
    world.run(secs(5), GOOD, &mut dice);
    let mut newer = world.plan.clone();
    newer.wish = Some(wish("v3"));
    world.configure(newer).unwrap();
    assert_eq!(world.service().canary, Some(2));
    assert_eq!(world.service().versions[1].weight, Weight::ZERO, "two canaries at once there are none");
}

/// A version that only a command named is served, kept over a crash and a reload, and gone when nothing leads back to it.
#[test]
fn a_version_that_the_file_does_not_name_is_kept_in_the_state() {
    let site = |host: &str| Some(Site { endpoint: Endpoint::tcp(host, 80), is_tls: false });
    let start = |name: &str, host: &str| Verb::Start { to: version(name), revision: String::new(), site: site(host) };
    let endpoints = |world: &World, name: &str| {
        let of = world.service().versions.iter().find(|of| of.name.as_str() == name);
        of.map(|of| of.endpoints[0].to_string())
    };
    let mut world = World::new(plan(vec![weight("5%"), hold(600)]));
    assert!(world.order(start("v3", "elsewhere")).is_err(), "the file says where that answers");
    assert!(world.order(start("always", "elsewhere")).is_err());
    world.order(start("v9", "nine")).unwrap();
    assert_eq!((endpoints(&world, "v9").as_deref(), world.canary_weight()), (Some("nine:80"), percent("5%")));
    world.crash(secs(1));
    assert_eq!(endpoints(&world, "v9").as_deref(), Some("nine:80"), "the state knows");
    let mut edited = world.plan.clone();
    edited.strategy.deadline = Some(secs(3_600));
    world.configure(edited).unwrap();
    assert_eq!(endpoints(&world, "v9").as_deref(), Some("nine:80"), "a reload does not forget it");
    world.order(start("v10", "ten")).unwrap();
    assert_eq!((endpoints(&world, "v9"), endpoints(&world, "v10").as_deref()), (None, Some("ten:80")));
    world.order(Verb::Promote { full: true, force: false }).unwrap();
    assert_eq!(stable(&world), "v10");
    world.crash(secs(1));
    assert_eq!((stable(&world), endpoints(&world, "v10").as_deref()), ("v10", Some("ten:80")));
    world.order(start("v11", "eleven")).unwrap();
    assert!(endpoints(&world, "v10").is_some(), "stable stays");
}

#[test]
fn the_forecast_shortens_with_the_weight_and_needs_traffic() {
    let about = |steps: Vec<Step>| {
        let mut world = World::new(plan(steps));
        let none = world.engine.view(world.now).services[0].rollout.as_ref().unwrap().forecast;
        assert_eq!(none, None, "nothing is known without traffic");
        world.run(secs(30), GOOD, &mut Dice::new(7));
        let forecast = world.engine.view(world.now).services[0].rollout.as_ref().unwrap().forecast.unwrap();
        assert!(forecast.error_rate >= 0.01, "{forecast:?}");
        forecast.about
    };
    let (small, large) = (about(vec![weight("5%"), hold(600)]), about(vec![weight("50%"), hold(600)]));
    assert!(large < small && small < secs(600), "{small:?} {large:?}");
}

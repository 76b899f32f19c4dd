//! What a rehearsal must show, on small plans: the whole report of one, its honesty, that it repeats, and its picture.

use std::{fmt::Write as _, path::Path, time::Duration};

use proptest::prelude::*;

use super::*;
use crate::{
    config,
    engine::{
        plan::{Guard, OnFailure, OnNoTraffic, Pause, Step},
        weight::Weight,
    },
    words::Style,
};

/// Steps of a few seconds, so that a rollout is a few hundred looks.
const SMALL: &str = "strategy: { canary: { steps: [{ setWeight: 10 }, { pause: { duration: 12s } }, { setWeight: 50 }, \
     { pause: { duration: 8s } }], guard: { errorRate: { max: 10%, window: 5s, minRequests: 40 }, \
     latency: [{ quantile: 0.99, max: 800ms, window: 5s, minRequests: 30 }, { quantile: 0.5, max: 1m }] } } }";
const NO_GATES: &str = "strategy: { canary: { steps: [{ setWeight: 50 }, { pause: { duration: 3s } }], \
     guard: { versusStable: off, consecutiveErrors: 0 } } }";

fn plan(strategy: &str) -> ServicePlan {
    let text = format!(
        "listen: 127.0.0.1:1\nservices:\n  web:\n    versions: {{ v1: 'http://a', v2: 'http://b' }}\n    stable: v1\n    {strategy}\n"
    );
    let mut config = config::parse(&text, Path::new("serin.yaml"), &|_| None).unwrap_or_else(|found| panic!("{found}"));
    config.services.remove(0)
}

fn sample(name: &str) -> ServicePlan {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("config").join(name);
    config::load(&path, &|_| None).unwrap_or_else(|found| panic!("{found}")).services.remove(0)
}

fn report(plan: &ServicePlan, runs: usize, seed: u64, models: &[&str]) -> Report {
    let models: Vec<String> = models.iter().map(ToString::to_string).collect();
    let wanted = Rehearsal { plan, rate: 100.0, runs, seed, models: &models, recording: None };
    rehearse(&wanted, &|_, _| {}).unwrap()
}

fn of<'r>(report: &'r Report, model: &str) -> &'r ModelReport {
    report.models.iter().find(|of| of.name == model).unwrap()
}

/// Compares with `src/rehearse/tests/NAME`; `SERIN_BLESS=1` writes it anew.
fn golden(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/rehearse/tests").join(name);
    if std::env::var_os("SERIN_BLESS").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let wanted = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, wanted, "{name} differs; if that is meant, run with SERIN_BLESS=1\n{text}");
}

#[test]
fn the_report_of_a_small_plan() {
    let report = report(&plan(SMALL), 4, 1, &["healthy", "fails-5", "fails-all", "slower-20x", "incident"]);
    golden("small.txt", &text(&report, Style::PLAIN));
    golden("small.json", &(serde_json::to_string_pretty(&report).unwrap() + "\n"));
}

#[test]
fn a_plan_without_gates_says_so_and_promotes_whatever_comes() {
    let report = report(&plan(NO_GATES), 3, 1, &["fails-all", "slow-tail"]);
    assert_eq!(report.gates, []);
    assert!(report.models.iter().all(|model| model.promoted.runs == 3 && model.evidence.is_empty()), "{report:?}");
    let text = text(&report, Style::PLAIN);
    assert!(text.contains("This plan has no gate at all: nothing can fail a release."), "{text}");
    assert!(text.contains("Bad releases were promoted:\n  fails-all in 100%"), "{text}");
}

#[test]
fn a_gate_that_never_fires_is_told_from_one_that_others_overtake() {
    let quick = "strategy: { canary: { steps: [{ setWeight: 50 }, { pause: { duration: 10s } }], \
         guard: { consecutiveErrors: 5, latency: [{ quantile: 0.5, max: 1m, minRequests: 1 }] } } }";
    let report = report(&plan(quick), 2, 1, &["healthy", "fails-all"]);
    let state = |name: &str| report.gates.iter().find(|gate| gate.name == name).unwrap();
    assert_eq!(state("p50").state, GateState::NeverFires, "no request takes a minute");
    assert_eq!(state("versusStable").state, GateState::Overtaken, "it needs four bad seconds");
    assert_eq!(state("versusStable").alone_in, ["fails-all"]);
    assert_eq!(state("consecutiveErrors").state, GateState::Decides);
}

#[test]
fn an_analysis_is_a_gate_and_decides_in_its_step() {
    let mut analysed = sample("full.yaml");
    let Some(Step::Analysis(templates)) = analysed.strategy.steps.get(4).cloned() else { panic!("step 5 analyses") };
    analysed.strategy.steps = vec![Step::SetWeight("20%".parse().unwrap()), Step::Analysis(templates)];
    let report = report(&analysed, 2, 1, &["healthy", "slow-tail"]);
    assert_eq!(of(&report, "healthy").promoted.runs, 2);
    let gate = report.gates.iter().find(|gate| gate.name == "latency/success (step 2)").unwrap();
    assert_eq!((gate.state, report.gates.len()), (GateState::NeverFires, 6), "{:?}", report.gates);
}

#[test]
fn one_seed_is_one_report_and_a_model_is_the_same_in_any_company() {
    let small = plan(SMALL);
    let once = report(&small, 3, 5, &["fails-5", "bursts"]);
    assert_eq!(once, report(&small, 3, 5, &["fails-5", "bursts"]));
    assert_eq!(of(&once, "fails-5"), of(&report(&small, 3, 5, &["fails-5"]), "fails-5"));
    assert_ne!(of(&once, "fails-5"), of(&report(&small, 3, 6, &["fails-5"]), "fails-5"));
}

#[test]
fn a_person_is_taken_to_promote_and_the_report_says_so() {
    let waits = plan("strategy: { canary: { steps: [{ setWeight: 5 }, { pause: {} }], guard: { onFailure: pause } } }");
    let report = report(&waits, 1, 1, &["healthy", "fails-all"]);
    let after = of(&report, "healthy").promoted.after_ms;
    assert_eq!(after, Some(Spread { median: 600_000, p90: 600_000 }));
    assert!(text(&report, Style::PLAIN).contains("waits for a person, one was taken to say `promote` after 10m."));
    assert_eq!(of(&report, "fails-all").held.runs, 0, "a breach in a pause stops the clock no further");
}

#[test]
fn a_breach_that_pauses_is_held_for_a_person() {
    let pauses = plan(
        "strategy: { canary: { steps: [{ setWeight: 50 }, { pause: { duration: 20s } }], guard: { onFailure: pause } } }",
    );
    let report = report(&pauses, 2, 1, &["fails-all"]);
    assert_eq!(of(&report, "fails-all").held.runs, 2);
    assert_eq!(of(&report, "fails-all").evidence[0].by, "consecutiveErrors");
}

#[test]
fn too_little_traffic_is_seen_waiting() {
    let mut patient = plan(SMALL);
    patient.strategy.steps.truncate(2);
    let report = report(&patient, 1, 1, &["low-traffic"]);
    assert_eq!(of(&report, "low-traffic").waiting.runs, 1, "{report:?}");
    assert_eq!(of(&report, "low-traffic").waiting.after_ms.unwrap().median, report.horizon_ms);
    assert!(text(&report, Style::PLAIN).contains("low-traffic was not decided in 100%"));
}

#[test]
fn without_a_wish_the_other_version_is_tried_and_without_one_the_refusal_says_what_is_missing() {
    let mut alone = plan(NO_GATES);
    assert_eq!(report(&alone, 1, 1, &["healthy"]).canary, "v2");
    alone.versions.truncate(1);
    let wanted = Rehearsal { plan: &alone, rate: 1.0, runs: 1, seed: 1, models: &[], recording: None };
    let refused = rehearse(&wanted, &|_, _| {}).unwrap_err().to_string();
    assert!(refused.contains("one version only, `v1`") && refused.contains("`services.web.versions`"), "{refused}");
}

#[test]
fn the_picture_is_well_formed_and_needs_nothing_from_elsewhere() {
    let mut report = report(&plan(SMALL), 2, 1, &["healthy", "fails-50", "slow-tail"]);
    report.service = "<a & \"b\">".to_owned();
    let svg = picture(&report);
    let tags = well_formed(&svg);
    assert_eq!(tags.iter().filter(|tag| *tag == "polyline").count(), 6);
    assert!(!tags.iter().any(|tag| ["script", "image", "use", "a", "foreignObject"].contains(&tag.as_str())));
    assert!(svg.contains("prefers-color-scheme:dark") && svg.contains("&lt;a &amp; &quot;b&quot;&gt;"));
    assert_eq!(svg.matches("http").count(), 1, "the namespace alone");
}

/// Names of all elements of a document of elements, attributes, text and entities.
fn well_formed(xml: &str) -> Vec<String> {
    let (mut open, mut seen) = (Vec::new(), Vec::new());
    for part in xml.split('<').skip(1) {
        let (tag, text) = part.split_once('>').expect("a tag is closed");
        assert!(!text.contains('>'), "{text}");
        let entities = ["amp;", "lt;", "gt;", "quot;"];
        assert!(text.split('&').skip(1).all(|rest| entities.iter().any(|name| rest.starts_with(name))), "{text}");
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(name));
            continue;
        }
        let (tag, is_empty) = tag.strip_suffix('/').map_or((tag, false), |tag| (tag, true));
        let (name, attributes) = tag.split_once(' ').unwrap_or((tag, ""));
        assert!(name.bytes().all(|byte| byte.is_ascii_alphabetic()), "{name}");
        let values: Vec<&str> = attributes.split('"').collect();
        assert!(values.len() % 2 == 1 && values.last() == Some(&""), "{attributes}");
        assert!(values.chunks_exact(2).all(|pair| pair[0].ends_with('=')), "{attributes}");
        assert!(!open.is_empty() || seen.is_empty(), "one root");
        if !is_empty {
            open.push(name.to_owned());
        }
        seen.push(name.to_owned());
    }
    assert_eq!(open, [""; 0]);
    seen
}

#[test]
fn traffic_follows_the_table_and_a_late_request_counts_where_it_was_routed() {
    use crate::engine::{Engine, Recovered, input::Input, time::Timestamp};

    let mut engine = Engine::new(Recovered::default());
    let script = Script::new(&plan(NO_GATES), 1_000.0).unwrap();
    let (start, mut effects) = (Timestamp::from_millis(1_000_000), Vec::new());
    engine.apply(Input::Configure(vec![script.plan.clone()].into()), start, &mut effects).unwrap();
    let first = engine.table().services[0].clone();
    let (paces, mut dice, mut traffic) = (model::Paces::new(), Dice::new(1, 1), traffic::Traffic::default());
    let slow = model::Behaviour { errors: 0.5, pace: model::Pace::TwentyTimes };
    let weather = model::Weather { rate: 1.0, stable: slow, canary: slow };
    let span = |from| traffic::Span { from, until: from + 1_000 };
    let samples = traffic.flow(span(0), 1_000.0, &weather, &first, &paces, &mut dice);
    let requests: u64 = samples.slots.iter().map(|slot| slot.sampled.requests).sum();
    assert!((400..800).contains(&requests), "of about 1000 with a median of 400 ms so many end in time: {requests}");

    let mut later = first.clone();
    later.weight_generation.0 += 1;
    later.split = crate::engine::split::Split::all_to(later.stable);
    let samples = traffic.flow(span(1_000), 0.000_01, &weather, &later, &paces, &mut dice);
    assert!(samples.slots.iter().all(|slot| slot.weight_generation == first.weight_generation));
    assert_eq!(samples.slots.len(), 2);
    let samples = traffic.flow(span(2_000), 1_000.0, &weather, &later, &paces, &mut dice);
    let newest = samples.slots.iter().filter(|slot| slot.weight_generation == later.weight_generation);
    assert!(newest.clone().count() == 1 && newest.clone().all(|slot| slot.version == script.plan.stable));
}

/// Ten seconds at 10,000 a second, told each second as a crowd and ten times a second one by one, amount to the same.
#[test]
fn a_crowd_is_counted_as_its_requests_would_be() {
    use crate::engine::{Engine, Recovered, input::Input, samples::Counts, time::Timestamp};

    let mut engine = Engine::new(Recovered::default());
    let script = Script::new(&plan(NO_GATES), 10_000.0).unwrap();
    let (start, mut effects) = (Timestamp::from_millis(1_000_000), Vec::new());
    engine.apply(Input::Configure(vec![script.plan.clone()].into()), start, &mut effects).unwrap();
    let table = engine.table().services[0].clone();
    let paces = model::Paces::new();
    let behaviour = |errors| model::Behaviour { errors, pace: model::Pace::FourTimes };
    let weather = model::Weather { rate: 1.0, stable: behaviour(0.01), canary: behaviour(0.4) };
    let told = |step: usize, seed| {
        let (mut dice, mut traffic) = (Dice::new(seed, 1), traffic::Traffic::default());
        let mut sums = vec![(Counts::default(), 0_u64, 0_u64); 2];
        for from in (0..10_000_u64).step_by(step) {
            let span = traffic::Span { from, until: from + step as u64 };
            for slot in traffic.flow(span, 10_000.0, &weather, &table, &paces, &mut dice).slots {
                let sum = &mut sums[usize::from(slot.version.as_str() == "v2")];
                let buckets = slot.latency.0.iter().map(|(bucket, count)| u64::from(*bucket) * count).sum::<u64>();
                *sum = (sum.0 + slot.sampled, sum.1 + buckets, slot.longest_error_run);
                assert!(slot.latency.0.is_sorted() && slot.sampled.requests > 0);
            }
        }
        (sums, traffic.failed)
    };
    let ((crowd, failed_crowd), (single, failed_single)) = (told(1_000, 3), told(100, 4));
    let near = |one: u64, other: u64, spread: f64| {
        let off = f64::from(u32::try_from(one.abs_diff(other)).unwrap());
        assert!(off < 6.0 * spread, "{one} is not {other}");
    };
    for (crowd, single) in crowd.iter().zip(&single) {
        near(crowd.0.requests, single.0.requests, 320.0);
        near(crowd.0.errors, single.0.errors, 200.0);
        near(crowd.1 / crowd.0.requests, single.1 / single.0.requests, 0.5);
    }
    near(failed_crowd, failed_single, 200.0);
    assert!((7..=25).contains(&crowd[1].2) && (7..=25).contains(&single[1].2), "the longest of 20,000 at 40 %");
}

fn any_step() -> impl Strategy<Value = Step> {
    let weight = prop_oneof![1 => Just(0_u32), 9 => 500_000..=1_000_000_u32]
        .prop_map(|ppm| Step::SetWeight(Weight::from_ppm(ppm).unwrap()));
    prop_oneof![
        3 => weight,
        3 => (0..6_u64).prop_map(|seconds| Step::Pause(Pause::For(Duration::from_secs(seconds)))),
        1 => (1..50_u64).prop_map(|requests| Step::Pause(Pause::Requests(requests))),
        1 => Just(Step::Analysis(analysis())),
    ]
}

fn analysis() -> Vec<crate::engine::analysis::Template> {
    let steps = sample("full.yaml").strategy.steps;
    steps.into_iter().find_map(|step| if let Step::Analysis(all) = step { Some(all) } else { None }).unwrap()
}

#[test]
fn recorded_traffic_is_what_a_sound_version_is_like() {
    // Ten minutes at 50 a second, 2 % errors, with a shared incident in the third.
    let mut recorder = Recorder::default();
    for at in 0..600_u64 {
        for request in 0..50_u64 {
            let failed = if (120..180).contains(&at) { request % 3 == 0 } else { request == 0 };
            let (minute, second) = (at / 60, at % 60);
            let (status, head) =
                (if failed { 503 } else { 200 }, 0.004 + 0.000_1 * f64::from(u32::try_from(request).unwrap()));
            recorder.line(&format!(
                r#"{{"time":"2026-03-01T10:{minute:02}:{second:02}.{request:02}0Z","status":{status},"time_to_head":{head}}}"#
            ));
        }
    }
    let recording = recorder.finish().unwrap();
    assert!((recording.rate() - 50.0).abs() < 1e-9);
    let plan = plan("steps: [10%, 50%]\n    hold: 3m");
    let models = ["healthy", "fails-50"].map(str::to_owned);
    let wanted = Rehearsal {
        plan: &plan,
        rate: recording.rate(),
        runs: 20,
        seed: 1,
        models: &models,
        recording: Some(&recording),
    };
    let report = rehearse(&wanted, &|_, _| {}).unwrap();
    assert_eq!(report.models[0].promoted.runs, 20, "the incident hit both: {:?}", report.models[0].evidence);
    assert_eq!(report.models[1].reverted.runs, 20);
    assert!((report.usual_error_rate - recording.errors()).abs() < 1e-12);
    let shown = text(&report, Style::PLAIN);
    assert!(shown.contains("Traffic of 30,000 recorded requests over 10m: a sound version fails"), "{shown}");
}

#[test]
fn requests_that_never_come_do_not_make_a_plan_of_weeks() {
    let mut plan = sample("serin.yaml");
    plan.strategy.steps = vec![Step::SetWeight(Weight::ZERO), Step::Pause(Pause::Requests(10))];
    let script = Script::new(&plan, 100.0).unwrap();
    assert_eq!((script.times.planned, script.times.horizon), (0, 60_000));
}

fn any_plan() -> impl Strategy<Value = ServicePlan> {
    let guards = prop_oneof![
        Just(Guard::default()),
        Just(sample("serin.yaml").strategy.guard),
        Just(sample("full.yaml").strategy.guard),
        Just(plan(NO_GATES).strategy.guard),
    ];
    let no_traffic = prop_oneof![Just(OnNoTraffic::Wait), Just(OnNoTraffic::Pause), Just(OnNoTraffic::Abort)];
    let of = (prop::collection::vec(any_step(), 0..5), guards, no_traffic, any::<bool>(), prop::option::of(1..60_u64));
    of.prop_map(|(steps, guard, on_no_traffic, pauses, deadline)| {
        let mut plan = sample(if pauses { "full.yaml" } else { "serin.yaml" });
        let on_failure = if pauses { OnFailure::Pause } else { OnFailure::Abort };
        plan.strategy.steps = steps;
        plan.strategy.guard = Guard { on_failure, ..guard };
        plan.strategy.on_no_traffic = on_no_traffic;
        plan.strategy.no_traffic_for = Duration::from_secs(5);
        plan.strategy.deadline = deadline.map(Duration::from_secs);
        plan
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]

    #[test]
    fn any_plan_can_be_rehearsed(plan in any_plan(), at in 0..MODELS.len(), rate in 50.0..100.0_f64, seed in any::<u64>()) {
        let models = [MODELS[at].name.to_owned()];
        let wanted = Rehearsal { plan: &plan, rate, runs: 1, seed, models: &models, recording: None };
        let report = rehearse(&wanted, &|_, _| {}).unwrap();
        let model = &report.models[0];
        prop_assert_eq!(model.promoted.runs + model.reverted.runs + model.held.runs + model.waiting.runs, 1);
        let mut shown = text(&report, Style::PLAIN);
        write!(shown, "{}", serde_json::to_string(&report).unwrap()).unwrap();
        prop_assert!(!shown.contains("NaN"));
        well_formed(&picture(&report));
    }
}

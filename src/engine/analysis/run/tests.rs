//! The decision tables of analysis on virtual time: one measurement (E), one metric (M), several metrics (R), and the
//! own rules: no data waits, and measurements keep to the schedule.

mod outside;

use std::{cell::RefCell, collections::HashMap, time::Duration};

use proptest::prelude::*;

use super::*;
use crate::engine::{
    analysis::{
        RETENTION,
        ask::{BuiltIn, Text},
        condition::{Condition, Shape},
        measurement::Verdict,
        template::{Arm, MetricPlan, Provider},
    },
    names::VersionName,
    samples::Counts,
    stats::{latency::LatencyCounts, window::Summary},
};

const START: Timestamp = Timestamp::from_millis(1_700_000_000_000);

/// Successful at 0 to 10 % errors, Failed above 50 %, Inconclusive between, Error at 7 errors.
fn lettered(name: &str) -> MetricPlan {
    let condition = |text: &str| Some(Condition::parse(text, Shape::Own).unwrap());
    MetricPlan {
        name: name.to_owned(),
        interval: None,
        initial_delay: Duration::ZERO,
        count: None,
        success: condition("result.errors == 7 ? asInt('x') == 1 : result.errorRate <= 0.1"),
        failure: condition("result.errorRate > 0.5"),
        failure_limit: Some(0),
        inconclusive_limit: 0,
        consecutive_error_limit: 4,
        consecutive_success_limit: 0,
        consecutive_failure_limit: None,
        dry_run: false,
        retention: RETENTION,
        provider: Provider::Serin { version: named(name), window: seconds(60) },
    }
}

fn named(name: &str) -> Arm {
    Arm::Named(VersionName::new(name).unwrap())
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn traffic(requests: u64, errors: u64) -> Summary {
    Summary::new(Counts { requests, errors }, seconds(60), LatencyCounts(vec![(300, requests)]))
}

fn letter(letter: char) -> Summary {
    match letter {
        'S' => traffic(100, 0),
        'F' => traffic(100, 100),
        'I' => traffic(100, 30),
        'E' => traffic(100, 7),
        'N' => Summary::empty(),
        _ => panic!("{letter}"),
    }
}

fn template(metrics: Vec<MetricPlan>) -> Template {
    Template { name: "t".to_owned(), args: Vec::new(), metrics, ttl: TimeToLive::default() }
}

fn known(name: BuiltIn) -> String {
    format!("<{}>", name.as_str())
}

fn facts(read: &dyn Fn(&Arm, Duration) -> Summary) -> Facts<'_> {
    Facts { read, known: &known }
}

/// What was played to a run.
struct Played {
    run: AnalysisRun,
    /// Measurements of each metric, and when the run was over or the letters were used up.
    taken: HashMap<String, usize>,
    seconds: u64,
}

/// Plays a sequence of letters to each metric (the last one again and again where it ends in `…`), always at the deadline.
fn play(metrics: &[(MetricPlan, &str)]) -> Played {
    let plans = metrics.iter().map(|(plan, _)| plan.clone()).collect();
    let mut run = AnalysisRun::start(&[template(plans)], 1, START);
    let taken = RefCell::new(HashMap::new());
    let mut now = START;
    let read = |arm: &Arm, _: Duration| {
        let Arm::Named(name) = arm else { return traffic(1_000, 0) };
        let sequence = metrics.iter().find(|(plan, _)| plan.name == name.as_str()).unwrap().1;
        let mut taken = taken.borrow_mut();
        let count = taken.entry(name.as_str().to_owned()).or_insert(0);
        *count += 1;
        let letters: Vec<char> = sequence.chars().filter(|c| *c != ' ' && *c != '…').collect();
        let at = if sequence.ends_with('…') { (*count - 1).min(letters.len() - 1) } else { *count - 1 };
        letter(*letters.get(at).unwrap_or_else(|| panic!("{} measured more than {sequence}", name.as_str())))
    };
    for _ in 0..50 {
        run.advance(now, facts(&read));
        match run.deadline() {
            Some(deadline) => now = deadline,
            None => break,
        }
    }
    Played { run, taken: taken.into_inner(), seconds: now.since(START).as_secs() }
}

#[test]
fn one_metric_is_judged_as_in_table_m() {
    use AnalysisPhase::{Error, Failed, Inconclusive, Running, Successful};
    let with = |change: &dyn Fn(&mut MetricPlan)| {
        let mut plan = lettered("m");
        change(&mut plan);
        plan
    };
    let none = || lettered("m");
    let every = |interval: u64, count: Option<u32>| {
        with(&|plan| (plan.interval, plan.count) = (Some(seconds(interval)), count))
    };
    let limits = |count: Option<u32>, failures: u32, inconclusive: u32, streak: u32| {
        let mut plan = every(60, count);
        (plan.failure_limit, plan.inconclusive_limit, plan.consecutive_success_limit) =
            (Some(failures), inconclusive, streak);
        plan
    };
    for (id, plan, sequence, phase, measured, at) in [
        ("M1", none(), "S", Successful, 1, 0),
        ("M2", none(), "F", Failed, 1, 0),
        ("M3", none(), "I", Inconclusive, 1, 0),
        ("M4", none(), "E S", Successful, 2, 10),
        ("M5", none(), "E E E E E", Error, 5, 40),
        ("M6", every(300, Some(3)), "E E E E E", Error, 5, 40),
        ("M7", with(&|plan| plan.consecutive_error_limit = 0), "E", Error, 1, 0),
        ("M8", none(), "E E E E S", Successful, 5, 40),
        ("M9", every(60, Some(5)), "S S S S S", Successful, 5, 240),
        ("M10", limits(Some(5), 1, 0, 0), "F S F", Failed, 3, 120),
        ("M12", limits(Some(5), 3, 0, 0), "F F F S S", Successful, 5, 240),
        (
            "M13",
            with(&|plan| (plan.interval, plan.failure_limit) = (Some(seconds(300)), Some(3))),
            "F F F F",
            Failed,
            4,
            900,
        ),
        ("M14", every(60, Some(3)), "S E S E S", Successful, 5, 140),
        ("M16", every(60, Some(5)), "S I", Inconclusive, 2, 60),
        ("M17", limits(Some(5), 0, 1, 0), "S I S S S", Successful, 5, 240),
        ("M19", MetricPlan { failure_limit: None, ..limits(None, 0, 0, 3) }, "F F S S S", Successful, 5, 240),
        ("M21", limits(Some(6), 2, 0, 3), "F S S F S S", Inconclusive, 6, 300),
        ("M23", limits(Some(10), 0, 0, 2), "S S", Successful, 2, 60),
        ("M25", limits(None, 0, 5, 3), "S I S S S", Successful, 5, 240),
        ("M26", limits(Some(5), 5, 0, 0), "F F F F F", Successful, 5, 240),
        ("M27", with(&|plan| plan.count = Some(0)), "S", Successful, 1, 0),
        ("M28", every(60, Some(0)), "S…", Running, 50, 3_000),
        ("M29", every(60, None), "S…", Running, 50, 3_000),
        ("M30", with(&|plan| plan.initial_delay = seconds(120)), "S", Successful, 1, 120),
        ("a short interval is the retry's too", every(2, Some(2)), "S E S", Successful, 3, 4),
        ("an error breaks a streak", limits(None, 0, 0, 2), "S E S S", Successful, 4, 130),
        ("no data neither counts nor breaks a streak", limits(None, 0, 0, 2), "S N S", Successful, 3, 70),
        ("no data is no error", none(), "N N N N N N N N S", Successful, 9, 80),
        ("no data between errors", none(), "E E N E E N E", Error, 7, 60),
        ("no data for ever waits for ever", every(60, Some(1)), "N…", Running, 50, 500),
    ] {
        let played = play(&[(plan, sequence)]);
        assert_eq!(played.run.phase(), phase, "{id}");
        assert_eq!((played.taken["m"], played.seconds), (measured, at), "{id}");
        let is_bad = matches!(phase, Failed | Error | Inconclusive);
        assert_eq!(played.run.deciding().is_some(), is_bad, "{id}");
    }
}

#[test]
fn failures_in_a_row_are_counted_apart() {
    use AnalysisPhase::{Failed, Successful};
    for (id, count, limit, sequence, phase, measured) in [
        ("three failures in a row", None, 2, "F F S F F F", Failed, 6),
        ("no data breaks no row of failures, and errors do", None, 1, "F E F N F", Failed, 5),
        ("many failures, but few in a row", Some(6), 1, "F S F S F F", Failed, 6),
        ("few in a row to the end", Some(5), 1, "F S F S F", Successful, 5),
    ] {
        let plan = MetricPlan {
            interval: Some(seconds(60)),
            count,
            failure_limit: None,
            consecutive_failure_limit: Some(limit),
            ..lettered("m")
        };
        let played = play(&[(plan, sequence)]);
        assert_eq!((played.run.phase(), played.taken["m"]), (phase, measured), "{id}");
        let why = played.run.deciding().map_or_else(String::new, |(_, why)| why);
        assert_eq!(
            why.contains(&format!("failures in a row: {}, allowed {limit}", limit + 1)),
            phase == Failed,
            "{id}: {why}"
        );
    }
}

#[test]
fn several_metrics_are_judged_as_in_table_r() {
    use AnalysisPhase::{Error, Failed, Inconclusive, Successful};
    let metric = |name: &str, interval: Option<u64>, count: Option<u32>, delay: u64| {
        let interval = interval.map(seconds);
        MetricPlan { interval, count, initial_delay: seconds(delay), ..lettered(name) }
    };
    let impatient = |name: &str| MetricPlan { consecutive_error_limit: 0, ..lettered(name) };
    let dry = |name: &str, interval| MetricPlan { dry_run: true, ..metric(name, interval, None, 0) };
    for (id, metrics, phase, at, decided_by) in [
        (
            "R1",
            vec![(metric("a", Some(60), None, 0), "S S F"), (metric("b", Some(60), None, 0), "S S S")],
            Failed,
            120,
            "a",
        ),
        ("R3", vec![(lettered("a"), "S"), (metric("b", None, None, 300), "S")], Successful, 300, ""),
        ("R4", vec![(dry("a", None), "F"), (lettered("b"), "S")], Successful, 0, ""),
        ("R5: a dry one ends with the run", vec![(dry("a", Some(60)), "S…"), (lettered("b"), "S")], Successful, 0, ""),
        ("only dry ones say nothing", vec![(dry("a", None), "F")], Successful, 0, ""),
        ("R7", vec![(impatient("a"), "E"), (lettered("b"), "F")], Failed, 0, "b"),
        ("R9", vec![(lettered("a"), "S"), (lettered("b"), "I")], Inconclusive, 0, "b"),
        ("Error before Inconclusive", vec![(lettered("a"), "I"), (impatient("b"), "E")], Error, 0, "b"),
        ("a delayed one is left out", vec![(lettered("a"), "F"), (metric("b", None, None, 300), "")], Failed, 0, "a"),
        ("a waiting one is left out", vec![(lettered("a"), "F"), (lettered("b"), "N")], Failed, 0, "a"),
        (
            "a waiting one holds a good run open",
            vec![(lettered("a"), "S"), (lettered("b"), "N N S")],
            Successful,
            20,
            "",
        ),
    ] {
        let played = play(&metrics);
        assert_eq!((played.run.phase(), played.seconds), (phase, at), "{id}");
        assert_eq!(played.run.deciding().map_or(String::new(), |(metric, _)| metric), decided_by, "{id}");
        assert_eq!(played.run.deadline(), None, "{id}");
        let left = played.run.progress();
        let all = metrics.len() - usize::from(id.ends_with("left out"));
        assert_eq!(left.len(), all, "{id}");
    }
    let ended = play(&[(metric("a", Some(60), None, 0), "S S F"), (metric("b", Some(60), None, 0), "S S S")]);
    assert_eq!(
        ended.run.progress()[1].1,
        "Terminated: 3 measured, last result.errors = 0, result.errorRate = 0.00 %: Successful, \
         successCondition `result.errors == 7 ? asInt('x') == 1 : result.errorRate <= 0.1` is true"
    );
}

/// One measurement with these conditions (empty: none) on this traffic.
fn judged(success: &str, failure: &str, result: &Summary, stable: &Summary) -> (Verdict, String) {
    let condition = |text: &str| (!text.is_empty()).then(|| Condition::parse(text, Shape::Own).unwrap());
    let plan = MetricPlan {
        success: condition(success),
        failure: condition(failure),
        provider: Provider::Serin { version: Arm::Canary, window: seconds(60) },
        ..lettered("m")
    };
    let mut template = template(vec![plan]);
    template.args = vec![("bad".to_owned(), Text::plain("abc"))];
    let mut run = AnalysisRun::start(&[template], 1, START);
    run.advance(START, facts(&|arm, _| if *arm == Arm::Stable { stable.clone() } else { result.clone() }));
    let (_, measurements) = run.measurements().next().unwrap();
    let only = measurements.iter().next().unwrap();
    (only.verdict, only.in_words())
}

#[test]
fn one_measurement_is_judged_as_in_table_e() {
    use Verdict::{Error, Failed, Inconclusive, NoData, Successful};
    let good = ("result.successRate >= 0.95", "result.successRate >= 0.9");
    let none = Summary::empty();
    for (id, requests, errors, success, failure, verdict) in [
        ("E1", 100, 1, good.0, "", Successful),
        ("E2", 100, 10, good.0, "", Failed),
        ("E3", 100, 1, "", "result.errorRate > 0.05", Successful),
        ("E4", 100, 6, "", "result.errorRate > 0.05", Failed),
        ("E5", 100, 30, good.1, "result.successRate < 0.5", Inconclusive),
        ("E6", 100, 60, good.1, "result.successRate < 0.5", Failed),
        ("both true", 100, 1, good.0, "result.successRate > 0.5", Failed),
        ("E8", 100, 100, "", "", Successful),
        ("E9 to E13: never NaN, but no data", 0, 0, good.0, "", NoData),
        ("E10: no traffic does not pass", 0, 0, "", "result.errorRate > 0.05", NoData),
        ("no data even without a condition", 0, 0, "", "", NoData),
        ("E20", 100, 0, "result.p95 < asFloat(args.bad)", "", Error),
        ("a fault in one, though the other decides", 100, 100, "asInt(args.bad) == 1", "result.errorRate > 0.5", Error),
        ("a fault in the other", 100, 0, good.0, "asInt(args.bad) == 1", Error),
        ("an argument that is not there", 100, 0, "result.p95 < asFloat(args.absent)", "", Error),
    ] {
        let (got, words) = judged(success, failure, &traffic(requests, errors), &traffic(1_000, 0));
        assert_eq!(got, verdict, "{id}: {words}");
    }
    let (verdict, words) = judged("result.p95 <= 1.2 * stable.p95", "", &traffic(100, 0), &none);
    assert_eq!(verdict, NoData, "nothing to compare with: {words}");
    let (verdict, words) = judged("stable.p95 == nil || result.p95 <= stable.p95", "", &traffic(100, 0), &none);
    assert_eq!(verdict, Successful, "a condition may ask for it: {words}");
}

#[test]
fn the_reason_names_value_condition_and_sample_sizes() {
    let (_, words) = judged("", "result.p95 > 1.2 * stable.p95", &traffic(120, 1), &traffic(2_280, 9));
    assert_eq!(
        words,
        "result.p95 = 11.5 ms, stable.p95 = 11.5 ms; failureCondition `result.p95 > 1.2 * stable.p95` is false; \
         canary 120 requests (1 error), stable 2280 requests (9 errors) over 60s"
    );
    let (_, words) = judged("result.p95 < asFloat(args.bad)", "", &traffic(1, 0), &traffic(2, 0));
    assert!(
        words.contains("successCondition `result.p95 < asFloat(args.bad)` failed: asFloat() can make no number"),
        "{words}"
    );
    let decided = play(&[(
        MetricPlan { failure_limit: Some(1), count: Some(3), interval: Some(seconds(5)), ..lettered("m") },
        "F F",
    )]);
    let (metric, words) = decided.run.deciding().unwrap();
    assert_eq!(metric, "m");
    assert_eq!(
        words,
        "failed measurements: 2, allowed 1; result.errors = 100, result.errorRate = 100.00 %; failureCondition \
         `result.errorRate > 0.5` is true; m 100 requests (100 errors), canary 1000 requests (0 errors), stable 1000 \
         requests (0 errors) over 60s"
    );
}

#[test]
fn measurements_keep_to_the_schedule_and_missed_ones_are_left_out() {
    let plan = MetricPlan { interval: Some(seconds(10)), ..lettered("m") };
    let mut run = AnalysisRun::start(&[template(vec![plan])], 1, START);
    let read = |_: &Arm, _: Duration| letter('S');
    let next = |run: &AnalysisRun| run.deadline().unwrap().since(START).as_millis();
    for (at, due) in
        [(0, 10_000), (10_080, 20_000), (20_099, 30_000), (29_900, 30_000), (65_000, 70_000), (70_000, 80_000)]
    {
        run.advance(START + Duration::from_millis(at), facts(&read));
        assert_eq!(next(&run), due, "after {at}");
    }
    assert_eq!(run.measurements().next().unwrap().1.len(), 5);
}

#[test]
fn what_is_kept_and_told_is_bounded_and_says_what_it_waits_for() {
    let plan = MetricPlan { interval: Some(seconds(1)), count: Some(100), ..lettered("m") };
    let mut run = AnalysisRun::start(&[template(vec![plan])], 1, START);
    assert_eq!(run.progress(), [("m".to_owned(), "not measured yet".to_owned())]);
    run.advance(START, facts(&|_, _| Summary::empty()));
    assert_eq!(run.progress()[0].1, "0 of 100 measured, waiting: no m requests yet");
    assert_eq!(run.waiting_since(), Some(START));
    for second in 1..50 {
        run.advance(START + seconds(second), facts(&|_, _| letter('S')));
    }
    assert_eq!(run.waiting_since(), None);
    assert_eq!(run.measurements().next().unwrap().1.len(), RETENTION);
    assert_eq!(
        run.progress()[0].1,
        "49 of 100 measured, last result.errors = 0, result.errorRate = 0.00 %: Successful, \
         successCondition `result.errors == 7 ? asInt('x') == 1 : result.errorRate <= 0.1` is true"
    );
}

/// `measurementRetention`: the latest so many of each metric stay, and counts are of all that were taken.
#[test]
fn as_many_measurements_are_kept_as_each_metric_says() {
    let plan =
        |name: &str, retention| MetricPlan { interval: Some(seconds(1)), count: Some(20), retention, ..lettered(name) };
    let kept = [("one", 1), ("three", 3), ("all", 50), ("default", RETENTION)];
    let plans = kept.map(|(name, retention)| plan(name, retention));
    let mut run = AnalysisRun::start(&[template(plans.into())], 1, START);
    for second in 0..20 {
        run.advance(START + seconds(second), facts(&|_, _| letter('S')));
    }
    let record = run.record(Revision(1), RunKind::Step);
    for (metric, (name, retention)) in record.metrics.iter().zip(kept) {
        assert_eq!((metric.name.as_str(), metric.measurements.len()), (name, retention.min(20)));
        assert_eq!(metric.measurements.last().map(|of| of.at), Some(START + seconds(19)), "{name}: the latest");
        assert_eq!((metric.tally.count, metric.tally.successful), (20, 20), "{name}: of all");
    }
}

#[test]
fn a_run_without_metrics_is_successful_and_an_ended_one_measures_no_more() {
    let empty = AnalysisRun::start(&[], 1, START);
    assert_eq!((empty.phase(), empty.deadline(), empty.deciding()), (AnalysisPhase::Successful, None, None));
    let mut ended = play(&[(lettered("m"), "F")]).run;
    let before = ended.clone();
    ended.advance(START + seconds(1_000), facts(&|_, _| panic!("it is over")));
    assert_eq!(ended, before);
}

prop_compose! {
    fn any_plan()(
        interval in prop::option::of(0..90_u64),
        delay in 0..30_u64,
        count in prop::option::of(0..12_u32),
        limits in any::<[u8; 4]>(),
    ) -> MetricPlan {
        let [failure_limit, inconclusive_limit, consecutive_error_limit, consecutive_success_limit] =
            limits.map(|limit| u32::from(limit % 6));
        MetricPlan {
            interval: interval.map(seconds),
            initial_delay: seconds(delay),
            count,
            failure_limit: Some(failure_limit),
            inconclusive_limit,
            consecutive_error_limit,
            consecutive_success_limit,
            success: None,
            failure: None,
            ..lettered("m")
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn a_run_is_never_due_after_it_advanced_and_never_changes_its_mind(
        plans in prop::collection::vec(any_plan(), 1..4),
        steps in prop::collection::vec((0..40_000_u64, 0..5_usize), 1..60),
    ) {
        let conditions = lettered("m");
        let with_conditions = |plan: &MetricPlan| MetricPlan {
            success: conditions.success.clone(),
            failure: conditions.failure.clone(),
            ..plan.clone()
        };
        let mut run = AnalysisRun::start(&[template(plans.iter().map(with_conditions).collect())], 1, START);
        let (mut now, mut over) = (START, None);
        for (millis, traffic) in steps {
            now = now + Duration::from_millis(millis);
            run.advance(now, facts(&|_, _| letter(['S', 'F', 'I', 'E', 'N'][traffic])));
            prop_assert!(run.deadline().is_none_or(|deadline| deadline > now), "due {:?} at {now:?}", run.deadline());
            prop_assert_eq!(run.deadline().is_none(), run.phase() != AnalysisPhase::Running);
            prop_assert!(over.is_none_or(|phase| phase == run.phase()));
            over = Some(run.phase()).filter(|phase| *phase != AnalysisPhase::Running);
            prop_assert!(run.measurements().all(|(_, kept)| kept.len() <= RETENTION));
            prop_assert!(run.waiting_since().is_none() || run.phase() == AnalysisPhase::Running);
        }
    }
}

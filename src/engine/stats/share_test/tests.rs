//! The share test against its reference rows, its promises, and a seeded simulation.

use proptest::prelude::*;

use super::*;

const VECTORS: &str = include_str!("vectors.txt");

fn counts(requests: u64, errors: u64) -> Counts {
    Counts { requests, errors }
}

fn plan(relative: f64, absolute: f64, alpha: f64, min_bad_seconds: u32) -> ShareTestPlan {
    ShareTestPlan { alpha, relative, absolute, min_bad_seconds }
}

fn close(got: f64, wanted: f64) -> bool {
    (got - wanted).abs() <= 1e-9 * wanted.abs().max(1.0)
}

/// One `batch` or `process` of the reference rows.
struct Row<'a> {
    kind: &'a str,
    name: &'a str,
    setting: Vec<f64>,
    verdict: (f64, &'a str),
    lines: Vec<&'a str>,
}

fn rows() -> Vec<Row<'static>> {
    let mut rows: Vec<Row<'static>> = Vec::new();
    for line in VECTORS.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if line.starts_with(' ') {
            rows.last_mut().unwrap().lines.push(line.trim());
            continue;
        }
        let [head, setting, verdict] = line.split(" | ").collect::<Vec<_>>().try_into().unwrap();
        let (kind, name) = head.split_once(' ').unwrap();
        let (value, word) = verdict.split_once(' ').unwrap();
        let setting = setting.split(' ').map(|number| number.parse().unwrap()).collect();
        rows.push(Row { kind, name, setting, verdict: (value.parse().unwrap(), word), lines: Vec::new() });
    }
    rows
}

/// Share, canary, stable and, for a process, the evidence after the tick.
fn stratum(line: &str) -> (f64, Counts, Counts, Option<f64>) {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let number = |at: usize| fields[at].parse().unwrap();
    let after = fields.get(5).map(|text| text.parse().unwrap());
    (fields[0].parse().unwrap(), counts(number(1), number(2)), counts(number(3), number(4)), after)
}

#[test]
fn the_mixture_reproduces_the_reference_rows() {
    let rows: Vec<_> = rows().into_iter().filter(|row| row.kind == "batch").collect();
    assert_eq!(rows.len(), 18);
    for row in rows {
        let plan = plan(row.setting[0], row.setting[1], row.setting[2], 0);
        let mut values = bets().map(|bet| bet.log_prior);
        for (w, canary, stable, _) in row.lines.iter().map(|line| stratum(line)) {
            let says_something = w > 0.0 && w < 1.0;
            for (value, bet) in values.iter_mut().zip(&bets()).filter(|_| says_something) {
                *value += bet.log_factor(&plan, w, canary, stable);
            }
        }
        let log_e = log_sum_exp(&values);
        assert!(close(log_e, row.verdict.0), "{}: {log_e}, not {}", row.name, row.verdict.0);
        assert_eq!(log_e >= -plan.alpha.ln(), row.verdict.1 == "revert", "{}", row.name);
    }
}

#[test]
fn the_process_reproduces_the_reference_rows_tick_by_tick() {
    let rows: Vec<_> = rows().into_iter().filter(|row| row.kind == "process").collect();
    assert_eq!(rows.len(), 8);
    for row in rows {
        let guard = row.setting[3].to_string().parse().unwrap();
        let mut test = ShareTest::new(plan(row.setting[0], row.setting[1], row.setting[2], guard));
        let (mut tick, mut crossed) = (0, None);
        for line in &row.lines {
            if *line == "epoch" {
                test.new_epoch();
                continue;
            }
            let (w, canary, stable, after) = stratum(line);
            test.add(w, canary, stable);
            let within = test.log_e();
            test.end_tick();
            let (log_e, wanted) = (test.log_e(), after.unwrap());
            assert!(close(log_e, wanted), "{}, tick {tick}: {log_e}, not {wanted}", row.name);
            assert!(close(within, wanted), "{}, within tick {tick}: {within}, not {wanted}", row.name);
            crossed = crossed.or(test.reverts().then_some(tick));
            tick += 1;
        }
        assert!(close(test.log_e_max(), row.verdict.0), "{}: {}", row.name, test.log_e_max());
        assert_eq!(crossed.map_or("-".to_owned(), |tick| tick.to_string()), row.verdict.1, "{}", row.name);
    }
}

#[test]
fn a_saved_state_goes_on_bit_for_bit() {
    let mut test = ShareTest::new(ShareTestPlan::default());
    for second in 0..200 {
        if second % 60 == 59 {
            test.new_epoch();
        }
        test.add(0.05, counts(5, second % 3 / 2), counts(95, second % 7 / 3));
        test.end_tick();
        let resumed = ShareTest::resume(ShareTestPlan::default(), test.state());
        assert_eq!(resumed, test);
        assert_eq!(resumed.log_e().to_bits(), test.log_e().to_bits());
        test = resumed;
    }
}

#[test]
fn a_restart_within_a_second_loses_that_second_only() {
    let mut test = ShareTest::new(ShareTestPlan::default());
    test.add(0.05, counts(5, 1), counts(95, 0));
    test.end_tick();
    let before = test.log_e();
    test.add(0.05, counts(5, 5), counts(95, 0));
    let resumed = ShareTest::resume(ShareTestPlan::default(), test.state());
    assert_eq!(resumed.log_e().to_bits(), before.to_bits());
    assert_eq!(resumed.counts(), (counts(10, 6), counts(190, 0)));
}

#[test]
fn a_revert_is_latched_also_over_a_restart() {
    let mut test = ShareTest::new(ShareTestPlan::default());
    for _ in 0..5 {
        test.add(0.05, counts(5, 5), counts(95, 0));
        test.end_tick();
    }
    assert!(test.reverts());
    for _ in 0..20 {
        test.add(0.05, counts(50, 0), counts(950, 95));
        test.end_tick();
    }
    assert!(test.log_e() < 0.0);
    assert!(test.reverts());
    assert!(ShareTest::resume(ShareTestPlan::default(), test.state()).reverts());
}

#[test]
fn a_state_that_does_not_fit_is_a_fresh_start() {
    let fresh = ShareTest::new(ShareTestPlan::default());
    let good = fresh.state();
    for bad in [
        ShareTestState::default(),
        ShareTestState { epoch: 0, ..good.clone() },
        ShareTestState { log_values: vec![0.0; 21], ..good.clone() },
        ShareTestState { log_values: vec![f64::NAN; 22], ..good.clone() },
        ShareTestState { log_values: vec![f64::INFINITY; 22], ..good.clone() },
        ShareTestState { log_e_max: f64::INFINITY, ..good.clone() },
        ShareTestState { log_e_max: f64::NAN, ..good },
    ] {
        assert_eq!(ShareTest::resume(ShareTestPlan::default(), bad), fresh);
    }
}

#[test]
fn the_guard_for_bursts_wants_more_bad_seconds_than_it_says() {
    for seconds in 1..=10 {
        let mut test = ShareTest::new(plan(1.0, 0.0, 0.01, seconds));
        for _ in 0..seconds {
            test.add(0.05, counts(1_000_000, 1_000_000), counts(1_000_000, 0));
            test.end_tick();
        }
        assert!(!test.reverts(), "{seconds}");
        // Half of the evidence is not staked in the first epoch, so a long guard takes one second more.
        for _ in 0..2 {
            test.add(0.05, counts(1_000_000, 1_000_000), counts(1_000_000, 0));
            assert!(test.log_e() > 0.0);
            if test.reverts() {
                break;
            }
            test.end_tick();
        }
        assert!(test.reverts(), "{seconds}: within the second, not after it");
    }
}

#[test]
fn a_new_epoch_alone_changes_no_evidence_and_a_changed_plan_keeps_it() {
    let mut test = ShareTest::new(ShareTestPlan::default());
    test.add(0.05, counts(10, 3), counts(90, 1));
    for _ in 0..1_000 {
        let before = test.log_e();
        test.new_epoch();
        assert!(close(test.log_e(), before), "{} after {before}", test.log_e());
    }
    let before = test.log_e();
    test.reconfigure(plan(2.0, 0.01, 0.05, 5));
    assert_eq!(test.log_e().to_bits(), before.to_bits());
    assert!(close(test.threshold(), 20_f64.ln()));
}

proptest! {
    #[test]
    fn nothing_makes_it_infinite_or_not_a_number(
        relative in 1.0..100.0_f64,
        absolute in 0.0..1.0_f64,
        guard in 0..10_u32,
        adds in prop::collection::vec((any::<f64>(), 0.0..1.0_f64, any::<[u64; 4]>(), 0..63_u32, 0..3_u8), 1..40),
    ) {
        let mut test = ShareTest::new(plan(relative, absolute, 0.01, guard));
        for (wild, tame, numbers, shift, then) in adds {
            let [a, b, c, d] = numbers.map(|number| number >> shift);
            test.add(wild, counts(a, b), counts(c, d));
            test.add(tame, counts(a, b), counts(c, d));
            match then {
                0 => test.end_tick(),
                1 => test.new_epoch(),
                _ => {}
            }
            prop_assert!(test.log_e().is_finite());
            prop_assert!(test.log_e_max() >= test.log_e() - 1e-9);
            prop_assert!(test.state().log_values.iter().all(|value| value.is_finite()));
        }
    }

    #[test]
    fn a_tick_is_the_sum_of_its_parts(parts in prop::collection::vec((0..50_u64, 0..50_u64, 0..50_u64, 0..50_u64), 1..10)) {
        let (mut parted, mut whole) = (ShareTest::new(ShareTestPlan::default()), ShareTest::new(ShareTestPlan::default()));
        let mut sums = (Counts::default(), Counts::default());
        for (good, bad, stable_good, stable_bad) in parts {
            let part = (counts(good + bad, bad), counts(stable_good + stable_bad, stable_bad));
            parted.add(0.1, part.0, part.1);
            sums = (sums.0 + part.0, sums.1 + part.1);
        }
        whole.add(0.1, sums.0, sums.1);
        parted.end_tick();
        whole.end_tick();
        prop_assert!(close(parted.log_e(), whole.log_e()));
        prop_assert_eq!(parted.counts(), whole.counts());
    }
}

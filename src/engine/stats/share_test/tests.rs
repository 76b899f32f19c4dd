//! The share test against its reference rows, its promises, and a seeded simulation.

use proptest::prelude::*;

use super::{
    bet::{Bet, harm, safe},
    *,
};
use crate::engine::stats::forecast;

const VECTORS: &str = include_str!("vectors.txt");

fn counts(requests: u64, errors: u64) -> Counts {
    Counts { requests, errors }
}

fn news(w: f64, canary: Counts, stable: Counts) -> News {
    News { w, canary, stable, latency: None }
}

fn plan(relative: f64, absolute: f64, alpha: f64, min_bad_seconds: u32) -> ShareTestPlan {
    ShareTestPlan { alpha, relative, absolute, min_bad_seconds, latency: None }
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

/// The evidence of one mixture without restarts over all strata of a row.
fn batch(row: &Row<'_>, kind: Kind, bets: &[Bet]) -> f64 {
    let mut values: Vec<f64> = bets.iter().map(|bet| bet.log_prior).collect();
    for (w, canary, stable, _) in row.lines.iter().map(|line| stratum(line)) {
        let says_something = w > 0.0 && w < 1.0;
        for (value, bet) in values.iter_mut().zip(bets).filter(|_| says_something) {
            *value += bet.factors(kind, w).log_factor(canary, stable);
        }
    }
    log_sum_exp(&values)
}

#[test]
fn the_mixtures_reproduce_the_reference_rows() {
    for (name, number, reached) in
        [("batch", 18, "revert"), ("odds", 5, "revert"), ("safe", 6, "promote"), ("safeodds", 3, "promote")]
    {
        let rows: Vec<_> = rows().into_iter().filter(|row| row.kind == name).collect();
        assert_eq!(rows.len(), number, "{name}");
        for row in rows {
            let (kind, alpha) = match row.setting[..] {
                [relative, absolute, alpha] => (Kind::Share { relative, absolute }, alpha),
                [nominal, alpha] => (Kind::Odds { nominal }, alpha),
                _ => panic!("{}: {:?}", row.name, row.setting),
            };
            let log_e = if name.starts_with("safe") { batch(&row, kind, &safe()) } else { batch(&row, kind, &harm()) };
            assert!(close(log_e, row.verdict.0), "{}: {log_e}, not {}", row.name, row.verdict.0);
            assert_eq!(log_e >= -alpha.ln(), row.verdict.1 == reached, "{}", row.name);
        }
    }
}

#[test]
fn a_level_of_slowness_reproduces_its_reference_row_tick_by_tick() {
    let rows: Vec<_> = rows().into_iter().filter(|row| row.kind == "oddsprocess").collect();
    assert_eq!(rows.len(), 1);
    for row in rows {
        let (mut process, mut epoch) = (Process::new(), 1);
        let (mut tick, mut crossed, mut most) = (0, None, 0.0_f64);
        for line in &row.lines {
            if *line == "epoch" {
                epoch += 1;
                process.restart(epoch);
                continue;
            }
            let (w, canary, stable, after) = stratum(line);
            process.add(Kind::Odds { nominal: row.setting[0] }, &Seen { w, canary, stable });
            process.end_tick(f64::INFINITY);
            let log_e = process.log_e(epoch, f64::INFINITY);
            assert!(close(log_e, after.unwrap()), "{}, tick {tick}: {log_e}", row.name);
            crossed = crossed.or((log_e >= -row.setting[1].ln()).then_some(tick));
            most = most.max(log_e);
            tick += 1;
        }
        assert!(close(most, row.verdict.0), "{}: {most}", row.name);
        assert_eq!(crossed.map_or("-".to_owned(), |tick: i32| tick.to_string()), row.verdict.1, "{}", row.name);
    }
}

#[test]
fn means_ratios_and_forecasts_reproduce_the_reference_rows() {
    let mut seen = 0;
    for row in rows() {
        let numbers = |line: &&str| -> Vec<f64> { line.split_whitespace().map(|text| text.parse().unwrap()).collect() };
        match row.kind {
            "combine" => {
                let values: Vec<f64> = row.lines.iter().map(numbers).map(|line| line[0] + line[1].ln()).collect();
                let log_e = log_sum_exp(&values);
                assert!(close(log_e, row.verdict.0), "{}: {log_e}", row.name);
                assert_eq!(log_e >= -row.setting[0].ln(), row.verdict.1 == "revert", "{}", row.name);
            }
            "ratio" => {
                let strata: Vec<_> =
                    row.lines.iter().map(|line| stratum(line)).map(|(_, canary, stable, _)| (canary, stable)).collect();
                let ratio = forecast::ratio(&strata);
                assert!(ratio.map_or(row.verdict.0.is_nan(), |ratio| close(ratio, row.verdict.0)), "{}", row.name);
            }
            "plan" => {
                let [p_stable, p_canary, w, alpha] = row.setting[..] else { panic!("{:?}", row.setting) };
                assert!(close(forecast::information(p_stable, p_canary, w), row.verdict.0), "{}", row.name);
                let least = forecast::least_requests(p_stable, p_canary, w, alpha);
                assert!(close(least, row.verdict.1.parse().unwrap()), "{}: {least}", row.name);
            }
            _ => continue,
        }
        seen += 1;
    }
    assert_eq!(seen, 3 + 2 + 3);
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
            test.add(&news(w, canary, stable));
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
        test.add(&news(0.05, counts(5, second % 3 / 2), counts(95, second % 7 / 3)));
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
    test.add(&news(0.05, counts(5, 1), counts(95, 0)));
    test.end_tick();
    let before = test.log_e();
    test.add(&news(0.05, counts(5, 5), counts(95, 0)));
    let resumed = ShareTest::resume(ShareTestPlan::default(), test.state());
    assert_eq!(resumed.log_e().to_bits(), before.to_bits());
    assert_eq!(resumed.counts(), (counts(10, 6), counts(190, 0)));
}

#[test]
fn a_revert_is_latched_also_over_a_restart() {
    let mut test = ShareTest::new(ShareTestPlan::default());
    for _ in 0..5 {
        test.add(&news(0.05, counts(5, 5), counts(95, 0)));
        test.end_tick();
    }
    assert!(test.reverts());
    for _ in 0..20 {
        test.add(&news(0.05, counts(50, 0), counts(950, 95)));
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
            test.add(&news(0.05, counts(1_000_000, 1_000_000), counts(1_000_000, 0)));
            test.end_tick();
        }
        assert!(!test.reverts(), "{seconds}");
        // Half of the evidence is not staked in the first epoch, so a long guard takes one second more.
        for _ in 0..2 {
            test.add(&news(0.05, counts(1_000_000, 1_000_000), counts(1_000_000, 0)));
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
    let mut test = ShareTest::new(plan(1.25, 0.001, 0.01, 3));
    test.add(&news(0.05, counts(10, 3), counts(90, 1)));
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
            test.add(&news(wild, counts(a, b), counts(c, d)));
            test.add(&news(tame, counts(a, b), counts(c, d)));
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
            parted.add(&news(0.1, part.0, part.1));
            sums = (sums.0 + part.0, sums.1 + part.1);
        }
        whole.add(&news(0.1, sums.0, sums.1));
        parted.end_tick();
        whole.end_tick();
        prop_assert!(close(parted.log_e(), whole.log_e()));
        prop_assert_eq!(parted.counts(), whole.counts());
    }
}

/// The test's own weights and thresholds, fed by latencies.
mod slow {
    use super::*;
    use crate::engine::{plan::LatencyTolerance, stats::latency::bucket_of};

    fn latencies(of: &[(u64, u64)]) -> LatencyCounts {
        LatencyCounts(
            of.iter().map(|&(ms, n)| (u16::try_from(bucket_of(Duration::from_millis(ms))).unwrap(), n)).collect(),
        )
    }

    fn plan() -> ShareTestPlan {
        ShareTestPlan { latency: Some(LatencyTolerance::default()), ..ShareTestPlan::default() }
    }

    /// Knows stable as 80 % at 20 ms, 19 % at 60 ms and 1 % at 200 ms.
    fn learned() -> ShareTest {
        let mut test = ShareTest::new(plan());
        let latency = latencies(&[(20, 8_000), (60, 1_900), (200, 100)]);
        test.learn(&Summary::new(counts(10_000, 0), Duration::from_mins(1), latency));
        test
    }

    fn second(test: &mut ShareTest, canary: &[(u64, u64)], stable: &[(u64, u64)]) {
        let all = |of: &[(u64, u64)]| counts(of.iter().map(|(_, n)| n).sum(), 0);
        let latency = Some((latencies(canary), latencies(stable)));
        test.add(&News { w: 0.1, canary: all(canary), stable: all(stable), latency });
        test.end_tick();
    }

    #[test]
    fn a_canary_twice_as_slow_is_reverted_without_any_error_and_the_level_is_named() {
        let mut test = learned();
        let mut seconds = 0;
        while !test.reverts() {
            second(&mut test, &[(45, 8), (130, 2)], &[(20, 72), (60, 17), (200, 1)]);
            seconds += 1;
            assert!(seconds < 30, "{:?}", test.standings());
        }
        let weightiest = test.weightiest();
        assert_eq!(weightiest.metric, "p50");
        assert_eq!(weightiest.canary, counts(10 * seconds, 10 * seconds));
        assert!(weightiest.slower_than.unwrap() > Duration::from_millis(33), "20 ms and a fifth and 10 ms");
    }

    #[test]
    fn an_incident_that_slows_both_reverts_nobody() {
        let mut test = learned();
        for _ in 0..300 {
            second(&mut test, &[(900, 10)], &[(900, 90)]);
        }
        assert!(!test.reverts());
        assert!(test.log_e() < 0.0);
    }

    #[test]
    fn within_tolerance_is_not_slow() {
        let mut test = learned();
        for _ in 0..600 {
            second(&mut test, &[(30, 8), (75, 2)], &[(20, 72), (60, 18)]);
        }
        assert!(!test.reverts(), "{:?}", test.standings());
    }

    #[test]
    fn without_thresholds_or_with_latency_off_only_errors_count() {
        let mut unlearned = ShareTest::new(plan());
        let mut off = ShareTest::new(ShareTestPlan { latency: None, ..plan() });
        off.learn(&Summary::new(counts(2_000, 0), Duration::from_mins(1), latencies(&[(20, 2_000)])));
        for test in [&mut unlearned, &mut off] {
            for _ in 0..60 {
                second(test, &[(5_000, 10)], &[(20, 90)]);
            }
            assert!(test.log_e_max() <= 1e-9, "{:?}", test.standings());
            assert_eq!(test.standings().len(), 1);
        }
    }

    #[test]
    fn levels_survive_a_restart_bit_for_bit_and_states_of_before_them_are_read() {
        let mut test = learned();
        for _ in 0..3 {
            second(&mut test, &[(45, 9), (130, 1)], &[(20, 81), (60, 9)]);
        }
        let before = test.log_e();
        let resumed = ShareTest::resume(plan(), test.state());
        assert_eq!(resumed.log_e().to_bits(), before.to_bits());
        let former = ShareTestState { slow: Vec::new(), ..test.state() };
        assert_eq!(ShareTest::resume(plan(), former).counts(), test.counts());
    }
}

//! The share test through the whole engine on virtual time, at any scale: how often healthy rollouts are reverted, beside a
//! z-test repeated on the same requests, and how many requests it takes to revert a bad one, beside the least that any
//! test needs. A few rollouts here in the suite; at the scale of the promise, with the table of the manual renewed:
//!
//! `SERIN_BLESS=1 SIM_ROLLOUTS=10000 cargo test --profile sim --test sim -- --nocapture statistics`

mod detection;
mod healthy;
mod pooled;
mod settling;
mod trial;

use std::{
    fmt::Write as _,
    num::NonZero,
    path::Path,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

/// Rollouts of each group of the promise. A tenth of them for each change that is to be seen, at most.
const PROMISED: usize = 10_000;
/// And here, unless `SIM_ROLLOUTS` says another number.
const SMALL: usize = 30;

/// The page of the manual that holds the tables, between these lines.
const PAGE: &str = "src/guide/proof.md";
const BEGIN: &str = "<!-- renewed by tests/sim/statistics: -->\n";
const END: &str = "<!-- up to here -->\n";

fn rollouts() -> usize {
    std::env::var("SIM_ROLLOUTS").map_or(SMALL, |number| number.parse().expect("SIM_ROLLOUTS is a number"))
}

/// Runs `work` for each number below `all` on every processor; what came of each, in order.
fn spread<T: Send>(all: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let (taken, done) = (AtomicUsize::new(0), Mutex::new(Vec::with_capacity(all)));
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, NonZero::get) {
            scope.spawn(|| {
                loop {
                    let at = taken.fetch_add(1, Ordering::Relaxed);
                    if at >= all {
                        return;
                    }
                    let told = work(at);
                    done.lock().unwrap().push((at, told));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap();
    done.sort_unstable_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, told)| told).collect()
}

/// The least number of events that `trials` reach with a probability under one in a million when each happens with
/// `probability`: more is no bad luck.
fn beyond_chance(trials: usize, probability: f64) -> usize {
    let (mut mass, mut up_to) = ((1.0 - probability).powi(i32::try_from(trials).unwrap()), 0.0);
    for happened in 0..trials {
        up_to += mass;
        if 1.0 - up_to < 1e-6 {
            return happened + 1;
        }
        mass *= number(trials - happened) / number(happened + 1) * probability / (1.0 - probability);
    }
    trials + 1
}

#[expect(clippy::cast_precision_loss, reason = "counts of rollouts and requests")]
const fn number(of: usize) -> f64 {
    of as f64
}

fn percent(part: usize, all: usize) -> String {
    format!("{:.2} %", 100.0 * number(part) / number(all))
}

/// Prints the tables and, at the scale of the promise, writes them into the manual if that is asked for.
fn publish(tables: &str) {
    println!("{tables}");
    if std::env::var_os("SERIN_BLESS").is_none() || rollouts() < PROMISED {
        return;
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(PAGE);
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (_, after) = rest.split_once(END).unwrap();
    std::fs::write(&path, format!("{before}{BEGIN}\n{tables}\n{END}{after}")).unwrap();
}

#[test]
fn healthy_rollouts_are_hardly_ever_reverted_and_bad_ones_soon() {
    let healthy = healthy::all(rollouts());
    let found = detection::all(rollouts().div_ceil(10).max(20));
    let mut tables = String::new();
    write!(tables, "{}\n{}", healthy::table(&healthy), detection::table(&found)).unwrap();
    publish(&tables);
    healthy::judge(&healthy);
    detection::judge(&found);
}

#[test]
fn the_manual_states_each_number_that_is_promised_and_none_breaks_the_promise() {
    let page = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(PAGE)).unwrap();
    let rows = |name: &str| -> Vec<Vec<String>> {
        let lines = page.lines().filter(|line| line.starts_with(&format!("| {name}")));
        lines.map(|line| line.split('|').map(|cell| cell.trim().to_owned()).collect()).collect()
    };
    let value = |cell: &str| cell.trim_end_matches(" %").replace(',', "").parse::<f64>().unwrap();
    for group in healthy::GROUPS {
        let [row] = &rows(group.name)[..] else { panic!("{} has one row", group.name) };
        assert!(value(&row[2]) >= 10_000.0 && value(&row[3]) <= 1.0 && value(&row[5]) > 5.0, "{row:?}");
    }
    for change in detection::CHANGES {
        let name = change.name();
        let [row] = &rows(&name)[..] else { panic!("{name} has one row") };
        for cell in &row[2..6] {
            let (_, times) = cell.split_once('(').unwrap();
            assert!(value(times.trim_end_matches(" x)")) <= change.at_most, "{row:?}");
        }
    }
}

#[test]
fn more_than_chance_is_told_from_chance() {
    assert_eq!(beyond_chance(1, 0.01), 2, "one of one is one in a hundred");
    assert_eq!(beyond_chance(100, 0.01), 9);
    assert_eq!(beyond_chance(10_000, 0.01), 152);
}

//! The control plane as it runs in production (engine, hands and the store on real files) on virtual time, with everything
//! that goes wrong around it: the process is killed between any two of its effects and in the midst of a write, the disk
//! takes a part of a record and then no more, evidence is lost, clocks are set, files are edited at bad moments, people give
//! orders, and who is asked answers late, twice, wrongly or never. Checkers stand outside.
//!
//! `SIM_SEED=… cargo test --test sim faults` replays one seed; 100,000 of them, in some minutes:
//! `SIM_SEEDS=100000 cargo test --profile sim --test sim faults`

mod checks;
mod disk;
mod machine;
mod scenarios;
mod script;

use std::{
    num::NonZero,
    process::{Command, Stdio},
    thread,
};

/// Seeds in the suite.
const SEEDS: u64 = 100;
/// Tells a child which seeds are its own, as `FROM..TO`.
const CHILD: &str = "SERIN_TEST_FAULTS";
const NAME: &str = "faults::whatever_goes_wrong_no_promise_is_broken";

#[test]
fn whatever_goes_wrong_no_promise_is_broken() {
    if let Ok(mine) = std::env::var(CHILD) {
        let (from, to) = mine.split_once("..").unwrap();
        return play_all(from.parse().unwrap(), to.parse().unwrap());
    }
    let number = |name| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap_or_else(|_| panic!("{name}")));
    if let Some(seed) = number("SIM_SEED") {
        return with_limits(seed, seed + 1);
    }
    let (seeds, parts) =
        (number("SIM_SEEDS").unwrap_or(SEEDS), thread::available_parallelism().map_or(1, NonZero::get) as u64);
    thread::scope(|scope| {
        for part in 0..parts {
            scope.spawn(move || with_limits(1 + seeds * part / parts, 1 + seeds * (part + 1) / parts));
        }
    });
}

/// Plays seeds in a process of their own: the disk fails by a limit on the length of files, which holds for a whole process.
fn with_limits(from: u64, to: u64) {
    let ignoring = r#"trap "" XFSZ; exec "$0" --exact "$1" --nocapture"#;
    let child = Command::new("sh")
        .args(["-c", ignoring])
        .arg(std::env::current_exe().unwrap())
        .arg(NAME)
        .env(CHILD, format!("{from}..{to}"))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let (out, err) = (String::from_utf8_lossy(&child.stdout), String::from_utf8_lossy(&child.stderr));
    assert!(child.status.success(), "{out}{err}");
}

fn play_all(from: u64, to: u64) {
    let mut ended = script::Ended::default();
    for seed in from..to {
        let told = std::panic::catch_unwind(|| script::play(seed));
        let told = told.unwrap_or_else(|_| panic!("seed {seed} broke a promise; replay it with SIM_SEED={seed}"));
        if seed % 50 == 0 {
            assert_eq!(script::play(seed), told, "the same seed gives the same history (seed {seed})");
        }
        ended.add(&told);
    }
    if to - from >= 50 {
        ended.judge();
    }
}

//! The control plane as it runs in production (engine, hands, the store on real files, couriers' places) on virtual time, with
//! everything that goes wrong around it: the process is killed, or the machine loses its power, between any two calls of the
//! disk and amidst a write, also in a compaction and at a start; the disk fills up, fails in syncs, renames or at random;
//! clocks are set, files are edited at bad moments, people give orders, who is asked answers late, twice, wrongly or never,
//! receivers of messages are away, clients come again, and a second process waits on the same folder. Checkers stand outside.
//!
//! `SIM_SEED=… cargo test --test sim faults` replays one seed; 100,000 of them, in some minutes:
//! `SIM_SEEDS=100000 cargo test --profile sim --test sim faults`

mod beside;
mod checks;
mod clients;
mod disk;
mod machine;
mod messages;
mod platter;
mod scenarios;
mod script;

use std::{num::NonZero, thread};

/// Seeds in the suite.
const SEEDS: u64 = 100;

#[test]
fn whatever_goes_wrong_no_promise_is_broken() {
    let number = |name| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap_or_else(|_| panic!("{name}")));
    if let Some(seed) = number("SIM_SEED") {
        return play_all(seed, seed + 1);
    }
    let (seeds, parts) =
        (number("SIM_SEEDS").unwrap_or(SEEDS), thread::available_parallelism().map_or(1, NonZero::get) as u64);
    thread::scope(|scope| {
        for part in 0..parts {
            scope.spawn(move || play_all(1 + seeds * part / parts, 1 + seeds * (part + 1) / parts));
        }
    });
}

fn play_all(from: u64, to: u64) {
    let (mut ended, mut broken) = (script::Ended::default(), Vec::new());
    for seed in from..to {
        // What broke is printed by then.
        let Ok(told) = std::panic::catch_unwind(|| script::play(seed)) else {
            println!("seed {seed} broke a promise; replay it with SIM_SEED={seed}");
            broken.push(seed);
            continue;
        };
        if seed % 50 == 0 {
            assert_eq!(script::play(seed), told, "the same seed gives the same history (seed {seed})");
        }
        ended.add(&told);
    }
    assert_eq!(broken, [0; 0], "seeds that broke a promise");
    if to - from >= 50 {
        ended.judge();
    }
}

//! How soon a bad canary is gone, through the real proxy on real sockets, as the median of many runs. One run of each kind
//! in the suite, without judging the time of a busy machine; all that is promised, in about eleven minutes:
//!
//! `SERIN_RUNS=20 cargo test --test it -- --nocapture times::`

use std::{
    num::NonZeroU32,
    thread,
    time::{Duration, Instant},
};

use serin::demo::{
    load::{Load, LoadSpec},
    toy::{Failing, Toy, ToySpec},
};

use crate::harness::{Serin, eventually, pace};

/// Runs side by side.
const AT_ONCE: usize = 10;

/// A change that is to be seen at 5 %.
#[derive(Debug, Clone, Copy)]
struct Trial {
    name: &'static str,
    rate: f64,
    /// One in so many fails.
    stable: Option<u32>,
    canary: u32,
    guard: &'static str,
    /// So many of ten are gone within this, from the first request that the canary failed.
    of_ten: usize,
    within: Duration,
    in_suite: bool,
}

const TRIALS: [Trial; 3] = [
    Trial {
        name: "0 → 50 %, 100 a second, guard by default",
        rate: 100.0,
        stable: None,
        canary: 2,
        guard: "{}",
        of_ten: 5,
        within: Duration::from_secs(5),
        in_suite: true,
    },
    Trial {
        name: "1 → 10 %, 100 a second, no tolerance, one bad second is enough",
        rate: 100.0,
        stable: Some(100),
        canary: 10,
        guard: "{ versusStable: { errors: { relative: 1, absolute: 0pp }, minBadSeconds: 1 } }",
        of_ten: 5,
        within: Duration::from_secs(15),
        in_suite: true,
    },
    Trial {
        name: "0 → 50 %, 1 a second",
        rate: 1.0,
        stable: None,
        canary: 2,
        guard: "{}",
        of_ten: 9,
        within: Duration::from_mins(4),
        in_suite: false,
    },
];

fn toy(name: &str, one_in: Option<u32>) -> Toy {
    let failing = one_in.and_then(NonZeroU32::new).map_or(Failing::Never, Failing::Every);
    Toy::start(ToySpec { failing, ..ToySpec::new(name, "127.0.0.1:0".parse().unwrap()) }).unwrap()
}

fn stage(stable: &Toy, canary: &Toy, guard: &str, rate: f64) -> (Serin, Load) {
    let services = format!(
        "services:\n  web:\n    versions: {{ v1: \"http://{}\", v2: \"http://{}\" }}\n    stable: v1\n    canary: v2\n\
         \x20   strategy: {{ canary: {{ steps: [{{ setWeight: 5 }}, {{ pause: {{ duration: 2h }} }}], guard: {guard} }} }}\n",
        stable.address(),
        canary.address()
    );
    let serin = Serin::start(&services);
    let url = format!("http://127.0.0.1:{}/", serin.port);
    let load = Load::start(LoadSpec::new(url.parse().unwrap(), rate)).unwrap();
    (serin, load)
}

impl Trial {
    /// From the first request that the canary failed to its withdrawal; at most twice what is promised.
    fn run(self) -> Option<Duration> {
        let (stable, canary) = (toy("v1", self.stable), toy("v2", Some(self.canary)));
        let (serin, _load) = stage(&stable, &canary, self.guard, self.rate);
        let patience = self.within * 4;
        let first = until(patience, || canary.failures() > 0)?;
        until(patience, || serin.status()["phase"] == "Degraded")?;
        Some(first.elapsed())
    }

    fn run_all(self, runs: usize) -> Vec<Duration> {
        let mut times = Vec::new();
        while times.len() < runs {
            let these = AT_ONCE.min(runs - times.len());
            let running: Vec<_> = (0..these).map(|_| thread::spawn(move || self.run())).collect();
            times.extend(running.into_iter().map(|run| run.join().unwrap().unwrap_or(Duration::MAX)));
        }
        times.sort_unstable();
        times
    }
}

/// The moment at which this came true.
fn until(patience: Duration, mut look: impl FnMut() -> bool) -> Option<Instant> {
    let begin = Instant::now();
    while begin.elapsed() < patience {
        if look() {
            return Some(Instant::now());
        }
        pace();
    }
    None
}

fn runs() -> Option<usize> {
    std::env::var("SERIN_RUNS").ok().map(|number| number.parse().expect("SERIN_RUNS is a number"))
}

#[test]
fn a_bad_canary_is_gone_in_time() {
    let wanted = runs();
    let trials = TRIALS.into_iter().filter(|trial| trial.in_suite || wanted.is_some());
    for trial in trials {
        let times = trial.run_all(wanted.unwrap_or(1));
        let at = |of_ten: usize| times[(times.len() * of_ten).div_ceil(10).max(1) - 1];
        println!("{}: median {:.1?}, nine of ten {:.1?} of {} runs", trial.name, at(5), at(9), times.len());
        let bound = if wanted.is_some() { trial.within } else { Duration::MAX };
        assert!(at(trial.of_ten) <= bound && at(5) < Duration::MAX, "{}: {times:?}", trial.name);
    }
}

/// Two minutes with `SERIN_RUNS`, some seconds without; an hour of many more on virtual time is in `tests/sim/statistics`.
#[test]
fn a_sound_canary_is_left_alone() {
    let lasts = Duration::from_secs(if runs().is_some() { 120 } else { 5 });
    let (stable, canary) = (toy("v1", Some(100)), toy("v2", Some(100)));
    let (serin, _load) = stage(&stable, &canary, "{}", 200.0);
    eventually("traffic at the canary", || (canary.requests() > 10).then_some(()));
    assert_eq!(until(lasts, || serin.status()["phase"] != "Progressing"), None, "{}", serin.log());
}

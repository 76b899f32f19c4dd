//! Rollouts of canaries that are worse than stable: how many requests until the engine reverts them, beside the least that
//! any test of that level needs on average (the Kullback-Leibler bound).

use std::{fmt::Write as _, time::Duration};

use serin::{
    engine::{
        plan::{Pause, Step},
        stats::forecast::least_requests,
        weight::Weight,
    },
    rehearse::Dice,
};

use super::{
    PROMISED, number, rollouts, spread,
    trial::{Trial, seen, strict},
};

/// The canary's weights, in percent.
const WEIGHTS: [u32; 4] = [1, 5, 25, 50];
/// Looks within the bound, at least one request apart, and in the suite.
const LOOKS: f64 = 150.0;
const LOOKS_SMALL: f64 = 30.0;
/// Milliseconds between two requests.
const BETWEEN: u64 = 10;

/// A change that is to be seen.
#[derive(Debug, Clone, Copy)]
pub struct Change {
    stable: f64,
    canary: f64,
    /// The median may take so many times the bound.
    pub at_most: f64,
}

const fn change(stable: f64, canary: f64, at_most: f64) -> Change {
    Change { stable, canary, at_most }
}

/// All changes of the promise, and one between greater rates.
pub const CHANGES: [Change; 11] = [
    change(0.000_1, 0.000_2, 1.6),
    change(0.000_1, 0.000_5, 1.6),
    change(0.000_1, 0.001, 1.6),
    change(0.001, 0.002, 1.6),
    change(0.001, 0.005, 1.6),
    change(0.001, 0.01, 1.6),
    change(0.01, 0.02, 1.6),
    change(0.01, 0.05, 1.6),
    change(0.01, 0.1, 1.6),
    change(0.0, 0.5, 2.1),
    change(0.1, 0.2, 1.75),
];

/// What came of a change at each weight: the median of the requests, both versions together, and the bound.
#[derive(Debug)]
pub struct Came {
    change: Change,
    runs: usize,
    at: [(f64, f64); WEIGHTS.len()],
}

impl Change {
    /// As the table has it.
    pub fn name(&self) -> String {
        format!("{} % → {} %", percent(self.stable), percent(self.canary))
    }

    /// Requests until the revert.
    fn requests(&self, weight: u32, dice: &mut Dice) -> u64 {
        let steps = [
            Step::SetWeight(Weight::from_ppm(weight * 10_000).unwrap()),
            Step::Pause(Pause::For(Duration::from_hours(100_000))),
        ];
        let mut trial = Trial::new(steps.to_vec(), strict());
        let bound = least_requests(self.stable, self.canary, trial.share, 0.01);
        let looks = if rollouts() < PROMISED { LOOKS_SMALL } else { LOOKS };
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number of requests")]
        let apart = ((bound / looks) as u64).max(1);
        let mut requests = 0;
        while !trial.is_over() {
            requests += apart;
            let of_canary = dice.successes(apart, trial.share);
            let of_stable = apart - of_canary;
            let canary = seen(of_canary, dice.successes(of_canary, self.canary));
            let stable = seen(of_stable, dice.successes(of_stable, self.stable));
            trial.look(requests * BETWEEN, canary, stable);
        }
        assert!(trial.reverted, "nothing else ends it");
        requests
    }
}

pub fn all(runs: usize) -> Vec<Came> {
    let each = spread(CHANGES.len() * WEIGHTS.len(), |at| {
        let (change, weight) = (CHANGES[at / WEIGHTS.len()], WEIGHTS[at % WEIGHTS.len()]);
        let run = |run: usize| {
            let stream = u64::try_from((at + 1) * 1_000_000_000 + run).unwrap();
            change.requests(weight, &mut Dice::new(0x5E22, stream))
        };
        let mut requests: Vec<u64> = (0..runs).map(run).collect();
        requests.sort_unstable();
        let bound = least_requests(change.stable, change.canary, f64::from(weight) / 100.0, 0.01);
        (number(usize::try_from(requests[runs / 2]).unwrap()), bound)
    });
    let of = |at: usize| std::array::from_fn(|weight| each[at * WEIGHTS.len() + weight]);
    (0..CHANGES.len()).map(|at| Came { change: CHANGES[at], runs, at: of(at) }).collect()
}

pub fn table(changes: &[Came]) -> String {
    let runs = changes.first().map_or(0, |came| came.runs);
    let mut text = format!(
        "| Requests to a revert (times the bound), median of {runs} | at 1 % | at 5 % | at 25 % | at 50 % |\n|---|---|---|---|---|\n"
    );
    for Came { change, at, .. } in changes {
        write!(text, "| {} |", change.name()).unwrap();
        for (median, bound) in at {
            write!(text, " {} ({:.2} x) |", thousands(*median), median / bound).unwrap();
        }
        text.push('\n');
    }
    text
}

/// The median of a few runs is not that of many: its own spread is let out of the bound.
pub fn judge(changes: &[Came]) {
    for Came { change, runs, at } in changes {
        // Run lengths spread by about half their median; the median's deviation is 1.25 of that over the root of the runs.
        let luck = if *runs >= 400 { 0.0 } else { 4.0 * 1.25 * 0.5 / number(*runs).sqrt() };
        for ((median, bound), weight) in at.iter().zip(WEIGHTS) {
            let times = median / bound;
            assert!(times <= change.at_most + luck * times, "{} at {weight} %: {times:.2}", change.name());
        }
    }
}

fn percent(share: f64) -> f64 {
    (share * 1e6).round() / 1e4
}

fn thousands(number: f64) -> String {
    let digits = format!("{number:.0}");
    let from_end = |at: usize| digits.len() - at;
    let grouped = digits.char_indices().map(|(at, digit)| {
        if at > 0 && from_end(at).is_multiple_of(3) { format!(",{digit}") } else { digit.to_string() }
    });
    grouped.collect()
}

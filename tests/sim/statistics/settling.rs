//! Both versions fail one request in a hundred, the canary at once and stable after ten seconds: as long as none of stable's
//! failures since the last weight change is in, the canary has all of them.

use std::{collections::VecDeque, time::Duration};

use serin::{
    engine::{
        names::Generation,
        plan::{Pause, Step},
        weight::Weight,
    },
    rehearse::Dice,
};

use super::{
    beyond_chance, spread,
    trial::{Seen, Trial, seen, strict},
};

const ROLLOUTS: usize = 200;
/// Requests a second, and the share of them that fails.
const RATE: f64 = 400.0;
const FAILING: f64 = 0.01;
/// Seconds that stable's failures take.
const LATE: usize = 10;

#[test]
fn failures_that_stable_takes_its_time_for_are_waited_for() {
    let reverted = |is_told: bool| {
        let told = spread(ROLLOUTS, |at| rollout(is_told, &mut Dice::new(0x5E23, u64::try_from(at).unwrap())));
        told.into_iter().filter(|reverted| *reverted).count()
    };
    let (waiting, hasty) = (reverted(true), reverted(false));
    assert!(hasty * 2 > ROLLOUTS, "{hasty} of {ROLLOUTS}: the traffic is no trap");
    assert!(waiting < beyond_chance(ROLLOUTS, 0.01), "{waiting} of {ROLLOUTS} reverted");
}

/// Whether a canary is reverted that is neither better nor worse, over two weights. Only if `is_told` it is said how long
/// failures took.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole numbers of a few hundred")]
fn rollout(is_told: bool, dice: &mut Dice) -> bool {
    let hold = || Step::Pause(Pause::For(Duration::from_secs(40)));
    let [quarter, half] = [250_000, 500_000].map(|ppm| Step::SetWeight(Weight::from_ppm(ppm).unwrap()));
    let mut trial = Trial::new(vec![hold(), quarter, hold(), half, hold()], strict());
    // What stable got in which second, and fails in this one.
    let mut late: VecDeque<(Generation, u64)> = VecDeque::new();
    for second in 1..=160_u64 {
        let generation = trial.generation;
        let of_canary = (RATE * trial.share) as u64;
        let [of_stable, of_canary] =
            [RATE as u64 - of_canary, of_canary].map(|requests| (requests, dice.successes(requests, FAILING)));
        late.push_back((generation, of_stable.1));
        let mut done = vec![(0, generation, seen(of_stable.0 - of_stable.1, 0))];
        if of_canary.0 > 0 {
            done.push((1, generation, seen(of_canary.0, of_canary.1)));
        }
        if late.len() > LATE
            && let Some((generation, errors)) = late.pop_front()
        {
            let took = if is_told && errors > 0 { Duration::from_millis(11_314) } else { Duration::ZERO };
            done.push((0, generation, Seen { slowest_failure: took, ..seen(errors, errors) }));
        }
        trial.look_at(second * 1_000, done);
        if trial.is_over() {
            break;
        }
    }
    trial.reverted
}

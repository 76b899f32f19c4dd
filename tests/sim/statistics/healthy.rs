//! Rollouts of canaries that are exactly as good as stable, at 100 requests a second: who reverts them?

use std::{fmt::Write as _, time::Duration};

use serin::{
    engine::{
        plan::{Guard, Pause, ShareTestPlan, Step},
        samples::Counts,
        stats::latency::LatencyCounts,
        weight::Weight,
    },
    rehearse::{Dice, Latencies, LogNormal},
};

use super::{
    PROMISED, beyond_chance, number, percent,
    pooled::Pooled,
    rollouts, spread,
    trial::{Seen, Trial, seen, strict},
};

/// Error rates of both versions.
const BASES: [f64; 5] = [0.000_1, 0.001, 0.01, 0.1, 0.3];
/// Weights that are held, and the steps of stepped rollouts.
const WEIGHTS: [f64; 4] = [0.01, 0.05, 0.25, 0.5];
/// Milliseconds between two requests.
const BETWEEN: u64 = 10;
/// Bad requests after which a rollout that is looked at after each of them ends, and in the suite.
const BAD: u64 = 3_600;
const BAD_SMALL: u64 = 600;
/// An incident begins with each step, in both versions.
const INCIDENT: u64 = 90_000;
/// How much of what is good goes bad in it.
const INCIDENT_SHARE: f64 = 0.2;
/// How long each of the stepped weights is held where incidents come.
const HOLD: Duration = Duration::from_mins(5);

/// Rollouts of one kind.
#[derive(Debug, Clone, Copy)]
pub struct Group {
    /// As the table has it.
    pub name: &'static str,
    run: fn(usize, &mut Dice) -> Told,
    /// How many of its rollouts in a row differ in their settings.
    settings: usize,
}

/// All groups of the promise.
pub const GROUPS: [Group; 3] = [
    Group { name: "each bad request looked at; weights held, or stepped", run: every_bad_request, settings: 25 },
    Group { name: "stepped, 20 % fail in both for 90 s at each step", run: incidents, settings: 5 },
    Group { name: "the same as defaults judge it, and four times as slow", run: defaults, settings: 5 },
];

/// Who reverted a rollout.
#[derive(Debug, Clone, Copy, Default)]
struct Told {
    by_share_test: bool,
    by_pooling: bool,
}

/// What came of a group.
#[derive(Debug)]
pub struct Came {
    group: Group,
    told: Vec<Told>,
}

impl Came {
    fn reverted(&self) -> usize {
        self.told.iter().filter(|told| told.by_share_test).count()
    }

    fn pooled(&self) -> usize {
        self.told.iter().filter(|told| told.by_pooling).count()
    }

    /// The most reverts of one setting, and its rollouts.
    fn worst(&self) -> (usize, usize) {
        let of = |setting| self.told.iter().skip(setting).step_by(self.group.settings);
        let count = |setting| (of(setting).filter(|told| told.by_share_test).count(), of(setting).count());
        (0..self.group.settings).map(count).max_by(|a, b| a.0.cmp(&b.0)).unwrap_or_default()
    }
}

pub fn all(rollouts: usize) -> Vec<Came> {
    let run = |(stream, group): (usize, Group)| {
        let told = spread(rollouts, |at| {
            let stream = u64::try_from(stream * PROMISED * 100 + at).unwrap();
            (group.run)(at % group.settings, &mut Dice::new(0x5E21, stream))
        });
        Came { group, told }
    };
    GROUPS.into_iter().enumerate().map(run).collect()
}

pub fn table(groups: &[Came]) -> String {
    let mut text = "| Healthy rollouts at alpha 1 % | rollouts | reverted | worst setting | by a repeated z-test |\n\
                    |---|---|---|---|---|\n"
        .to_owned();
    for came in groups {
        let (all, (worst, of)) = (came.told.len(), came.worst());
        let (reverted, pooled) = (percent(came.reverted(), all), percent(came.pooled(), all));
        writeln!(text, "| {} | {all} | {reverted} | {} | {pooled} |", came.group.name, percent(worst, of)).unwrap();
    }
    text
}

pub fn judge(groups: &[Came]) {
    for came in groups {
        let (all, reverted, pooled) = (came.told.len(), came.reverted(), came.pooled());
        // At the scale of the promise to the letter, before that as far as chance allows.
        let bound = if all >= PROMISED { all / 100 + 1 } else { beyond_chance(all, 0.01) };
        assert!(reverted < bound, "{}: {reverted} of {all}", came.group.name);
        assert!(pooled * 20 > all, "{}: {pooled} of {all}, the traffic is no trap", came.group.name);
    }
}

fn hold(share: f64, duration: Duration) -> [Step; 2] {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of a million")]
    let ppm = (share * 1e6).round() as u32;
    [Step::SetWeight(Weight::from_ppm(ppm).unwrap()), Step::Pause(Pause::For(duration))]
}

/// A fifth of the settings are stepped, the rest hold one of four weights, over five error rates. Good requests alone
/// change no evidence without tolerance, so looking after each bad one is looking after each.
fn every_bad_request(setting: usize, dice: &mut Dice) -> Told {
    let base = BASES[setting % BASES.len()];
    let most = if rollouts() < PROMISED { BAD_SMALL } else { BAD };
    let length = number(usize::try_from(most * BETWEEN).unwrap()) / base / 1e3;
    let steps = WEIGHTS.get(setting / BASES.len()).map_or_else(
        || WEIGHTS.map(|share| hold(share, Duration::from_secs_f64(length / 4.0))).concat(),
        |share| hold(*share, Duration::from_secs_f64(length * 2.0)).to_vec(),
    );
    let (mut trial, mut pooled) = (Trial::new(steps, strict()), Pooled::default());
    let mut elapsed = 0;
    for _ in 0..most {
        let good = dice.until(base);
        elapsed += (good + 1) * BETWEEN;
        let of_canary = dice.successes(good, trial.share);
        let bad_canary = u64::from(dice.chance(trial.share));
        let canary = seen(of_canary + bad_canary, bad_canary);
        let stable = seen(good - of_canary + 1 - bad_canary, 1 - bad_canary);
        pooled.look(canary.counts, stable.counts);
        trial.look(elapsed, canary, stable);
        if trial.is_over() {
            break;
        }
    }
    Told { by_share_test: trial.reverted, by_pooling: pooled.reverted }
}

fn incidents(setting: usize, dice: &mut Dice) -> Told {
    stepped(BASES[setting % BASES.len()], strict(), None, dice)
}

/// Everything that is compared by default: errors and five quantiles of latency, with tolerance and guard for bursts.
fn defaults(setting: usize, dice: &mut Dice) -> Told {
    let usual = LogNormal { share: 1.0, median_ms: 20.0, sigma: 0.5 };
    let paces = [usual, LogNormal { median_ms: 80.0, ..usual }].map(|pace| Latencies::new(&[pace]));
    stepped(BASES[setting % BASES.len()], ShareTestPlan::default(), Some(&paces), dice)
}

/// Looked at each second, with an incident in both versions at the beginning of each step.
fn stepped(base: f64, test: ShareTestPlan, paces: Option<&[Latencies; 2]>, dice: &mut Dice) -> Told {
    let steps = WEIGHTS.map(|share| hold(share, HOLD)).concat();
    let (mut trial, mut pooled) = (Trial::new(steps, test), Pooled::default());
    let mut elapsed = 0;
    while !trial.is_over() {
        let hit = elapsed - trial.changed < INCIDENT;
        let bad = if hit { base + INCIDENT_SHARE * (1.0 - base) } else { base };
        elapsed += 1_000;
        let of_canary = dice.successes(1_000 / BETWEEN, trial.share);
        let [canary, stable] = [of_canary, 1_000 / BETWEEN - of_canary].map(|requests| {
            let counts = Counts { requests, errors: dice.successes(requests, bad) };
            let latency = paces.map(|paces| paces[usize::from(hit)].counts(requests, dice)).unwrap_or_default();
            Seen { counts, latency, slowest_failure: Duration::ZERO }
        });
        pooled.look(canary.counts, stable.counts);
        trial.look(elapsed, canary, stable);
    }
    Told { by_share_test: trial.reverted, by_pooling: pooled.reverted }
}

/// What is promised of the whole default guard, end to end in `tests/it/times.rs` for as long as a test may take.
#[test]
fn a_healthy_canary_at_five_percent_is_left_alone_for_an_hour() {
    const HOUR: u64 = 3_600_000;
    let hours = rollouts().div_ceil(10).max(20);
    let pace = Latencies::new(&[LogNormal { share: 1.0, median_ms: 20.0, sigma: 0.5 }]);
    let reverted = spread(hours, |at| {
        let dice = &mut Dice::new(0x5E23, u64::try_from(at).unwrap());
        let base = BASES[at % 3];
        let mut trial = Trial::guarded(hold(0.05, Duration::from_hours(2)).to_vec(), Guard::default());
        for elapsed in (1_000..=HOUR).step_by(1_000) {
            let of_canary = dice.successes(1_000 / BETWEEN, trial.share);
            let [canary, stable] = [of_canary, 1_000 / BETWEEN - of_canary].map(|requests| Seen {
                counts: Counts { requests, errors: dice.successes(requests, base) },
                latency: pace.counts(requests, dice),
                slowest_failure: Duration::ZERO,
            });
            trial.look(elapsed, canary, stable);
            if trial.is_over() {
                break;
            }
        }
        trial.reverted
    });
    let reverted = reverted.into_iter().filter(|reverted| *reverted).count();
    println!("an hour at 100 requests a second and 5 %: {reverted} of {hours} healthy canaries were reverted");
    let bound = if hours >= 1_000 { hours / 100 + 1 } else { 1 };
    assert!(reverted < bound, "{reverted} of {hours}");
}

#[test]
fn latencies_are_all_counted() {
    let usual = Latencies::new(&[LogNormal { share: 1.0, median_ms: 20.0, sigma: 0.5 }]);
    let LatencyCounts(counts) = usual.counts(1_000, &mut Dice::new(1, 1));
    assert_eq!(counts.iter().map(|(_, count)| count).sum::<u64>(), 1_000);
}

//! Seeded simulation of the share test: how often it reverts a healthy canary, and how soon a sick one.

use super::{bet::count, *};

/// xorshift64*, so that the same seed gives the same rollouts on every machine.
struct Draws(u64);

impl Draws {
    #[expect(clippy::cast_precision_loss, reason = "53 bits are asked for")]
    fn uniform(&mut self) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn happens(&mut self, probability: f64) -> bool {
        self.uniform() < probability
    }
}

/// How many of 100 requests are bad, by one draw from the distribution function.
struct Bad([f64; 101]);

impl Bad {
    fn with(probability: f64) -> Self {
        let mut term = (1.0 - probability).powi(100);
        let mut sum = term;
        let mut up_to = [sum; 101];
        for (count, slot) in (1_u32..).zip(up_to.iter_mut().skip(1)) {
            term *= probability / (1.0 - probability) * f64::from(101 - count) / f64::from(count);
            sum += term;
            *slot = sum;
        }
        Self(up_to)
    }

    fn draw(&self, draws: &mut Draws) -> u64 {
        let at = draws.uniform();
        self.0.iter().position(|up_to| at < *up_to).unwrap_or(100) as u64
    }
}

/// A test on all errors so far, looked at each second, as people do it by hand: one-sided at 1 %, pooled over weights.
#[derive(Default)]
struct Pooled {
    canary: [f64; 2],
    stable: [f64; 2],
}

impl Pooled {
    fn reverts(&mut self, w: f64, bad_canary: u64, bad_stable: u64) -> bool {
        for (arm, requests, bad) in
            [(&mut self.canary, 100.0 * w, bad_canary), (&mut self.stable, 100.0 * (1.0 - w), bad_stable)]
        {
            *arm = [arm[0] + requests, arm[1] + count(bad)];
        }
        let [[nc, c], [ns, s]] = [self.canary, self.stable];
        let p = (c + s) / (nc + ns);
        c + s >= 5.0 && (c / nc - s / ns) / (p * (1.0 - p) * (1.0 / nc + 1.0 / ns)).sqrt() > 2.326
    }
}

/// Healthy canaries at the very edge of no tolerance at all, 100 requests a second through four weights, with and
/// without an incident that hits both versions after each step of the weight, looked at each second.
#[test]
fn healthy_canaries_are_hardly_ever_reverted() {
    const ROLLOUTS: u32 = 3_000;
    const SECONDS_A_STEP: u32 = 25;
    let (calm, incident) = (Bad::with(0.01), Bad::with(0.2));
    let mut draws = Draws(0x5E21_2026);
    let (mut reverted, mut reverted_by_pooling) = (0, 0);
    for rollout in 0..ROLLOUTS {
        let plan = ShareTestPlan { alpha: 0.01, relative: 1.0, absolute: 0.0, min_bad_seconds: 0, latency: None };
        let (mut test, mut pooled, mut pooled_reverts) = (ShareTest::new(plan), Pooled::default(), false);
        for (step, w) in [0.01, 0.05, 0.25, 0.5].into_iter().enumerate() {
            if step > 0 {
                test.new_epoch();
            }
            for second in 0..SECONDS_A_STEP {
                let hit = rollout % 2 == 1 && second < 5;
                let bad = if hit { &incident } else { &calm }.draw(&mut draws);
                let bad_canary = (0..bad).map(|_| u64::from(draws.happens(w))).sum();
                let arm = |bad| Counts { requests: 100, errors: bad };
                if bad > 0 {
                    test.add(&News { w, canary: arm(bad_canary), stable: arm(bad - bad_canary), latency: None });
                    test.end_tick();
                }
                pooled_reverts |= pooled.reverts(w, bad_canary, bad - bad_canary);
            }
        }
        reverted += u32::from(test.reverts());
        reverted_by_pooling += u32::from(pooled_reverts);
    }
    let share = |of: u32| f64::from(of) / f64::from(ROLLOUTS);
    assert!(share(reverted) <= 0.013, "{reverted} of {ROLLOUTS}");
    assert!(share(reverted_by_pooling) >= 0.05, "the traffic is no trap for a naive test: {reverted_by_pooling}");
}

/// Seconds from the first failed response to the revert: a canary that fails every second request at 5 % of 100 requests
/// a second, stable without errors, drained each 100 ms, seconds that begin at any moment, standard tolerance and guard.
fn seconds_to_revert(draws: &mut Draws, plan: ShareTestPlan) -> f64 {
    let mut test = ShareTest::new(plan);
    let until_tick = (draws.uniform() * 10.0).ceil();
    let mut first_bad = None;
    for drain in 1..600_u32 {
        let (mut canary, mut stable) = (Counts::default(), Counts::default());
        for request in 0..10_u32 {
            if draws.happens(0.05) {
                let bad = draws.happens(0.5);
                canary += Counts { requests: 1, errors: u64::from(bad) };
                let at = f64::from(drain - 1) / 10.0 + f64::from(request) / 100.0;
                first_bad = first_bad.or(bad.then_some(at));
            } else {
                stable += Counts { requests: 1, errors: 0 };
            }
        }
        test.add(&News { w: 0.05, canary, stable, latency: None });
        if let Some(first_bad) = first_bad.filter(|_| test.reverts()) {
            return f64::from(drain) / 10.0 - first_bad;
        }
        if (f64::from(drain) - until_tick) % 10.0 == 0.0 {
            test.end_tick();
        }
    }
    f64::INFINITY
}

#[test]
fn a_canary_that_fails_every_second_request_is_reverted_within_seconds() {
    let mut draws = Draws(0x5E21_2027);
    let mut times: Vec<f64> = (0..1_000).map(|_| seconds_to_revert(&mut draws, ShareTestPlan::default())).collect();
    times.sort_by(f64::total_cmp);
    assert!(
        times[499] <= 3.5 && times[899] <= 4.5 && times[989] <= 6.0,
        "{} {} {}",
        times[499],
        times[899],
        times[989]
    );
    assert!(times[0] > 2.0, "the guard wants a fourth second: {}", times[0]);
}

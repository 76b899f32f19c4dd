//! Chance from a seed: a seed is a history. One draw stands for many events where that is exact. Not for secrets, and never seeded by anything but an argument.

/// A mean from which rejection is faster than one draw for each event.
const FEW: f64 = 10.0;

/// A small generator (SplitMix64; Steele, Lea and Flood, OOPSLA 2014). The same seed gives the same numbers in every
/// version of Serin, so that a report can be repeated.
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    /// The numbers of one run: different for each seed, and for each stream of a seed.
    #[must_use]
    pub fn new(seed: u64, stream: u64) -> Self {
        let mut dice = Self(seed ^ 0x5EB1_A5C0_77E5_71C5);
        let start = dice.bits() ^ stream.wrapping_mul(0xD6E8_FEB8_6659_FD93);
        Self(start)
    }

    /// 64 evenly spread bits.
    pub const fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number in `0.0..1.0`.
    #[expect(clippy::cast_precision_loss, reason = "53 bits are exact")]
    pub const fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// True in this share of cases.
    pub fn chance(&mut self, share: f64) -> bool {
        self.unit() < share
    }

    /// How many of independent events that each do not happen with probability `share` happen before the first that does.
    /// Never ends for a share of 0: the largest number then.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at least 0, and saturates")]
    pub fn until(&mut self, share: f64) -> u64 {
        match share {
            _ if share >= 1.0 => 0,
            _ if share > 0.0 => ((1.0 - self.unit()).ln() / (-share).ln_1p()) as u64,
            _ => u64::MAX,
        }
    }

    /// How many of `trials` independent events happen, each with probability `share`. Exact, and takes no longer for many.
    pub fn successes(&mut self, trials: u64, share: f64) -> u64 {
        if share > 0.5 {
            return trials - self.successes(trials, 1.0 - share);
        }
        if count(trials) * share >= FEW {
            return self.many_successes(trials, share);
        }
        let (mut done, mut happened) = (0_u64, 0);
        loop {
            done = done.saturating_add(self.until(share)).saturating_add(1);
            if done > trials {
                return happened;
            }
            happened += 1;
        }
    }

    /// Hörmann's transformed rejection BTRS ("The generation of binomial random variates", 1993); the mean is at least 10.
    #[expect(clippy::many_single_char_names, reason = "as the paper has them")]
    fn many_successes(&mut self, trials: u64, share: f64) -> u64 {
        let n = count(trials);
        let deviation = (n * share * (1.0 - share)).sqrt();
        let b = 2.53_f64.mul_add(deviation, 1.15);
        let a = 0.0248_f64.mul_add(b, 0.01_f64.mul_add(share, -0.0873));
        let alpha = (2.83 + 5.1 / b) * deviation;
        let (odds, mode) = (share / (1.0 - share), ((n + 1.0) * share).floor());
        loop {
            let (u, v) = (self.unit() - 0.5, self.unit());
            let us = 0.5 - u.abs();
            let k = ((2.0 * a / us + b) * u + n.mul_add(share, 0.5)).floor();
            if us >= 0.07 && v <= 0.92 - 4.2 / b {
                return whole(k);
            }
            if !(0.0..=n).contains(&k) {
                continue;
            }
            let density = (mode + 0.5) * ((mode + 1.0) / (odds * (n - mode + 1.0))).ln()
                + (n + 1.0) * ((n - mode + 1.0) / (n - k + 1.0)).ln()
                + (k + 0.5) * (odds * (n - k + 1.0) / (k + 1.0)).ln()
                + stirling_rest(mode)
                + stirling_rest(n - mode)
                - stirling_rest(k)
                - stirling_rest(n - k);
            if (v * alpha / (a / (us * us) + b)).ln() <= density {
                return whole(k);
            }
        }
    }

    /// How many of independent arrivals fall into a time in which `mean` are expected. Exact, and takes no longer for many.
    pub fn arrivals(&mut self, mean: f64) -> u64 {
        if mean >= FEW {
            return self.many_arrivals(mean);
        }
        // Knuth's product of units.
        let (limit, mut count) = ((-mean.max(0.0)).exp(), 0);
        let mut product = self.unit();
        while product > limit {
            count += 1;
            product *= self.unit();
        }
        count
    }

    /// Hörmann's transformed rejection PTRS ("The transformed rejection method for generating Poisson random variables",
    /// 1993).
    #[expect(clippy::many_single_char_names, reason = "as the paper has them")]
    fn many_arrivals(&mut self, mean: f64) -> u64 {
        let b = 2.53_f64.mul_add(mean.sqrt(), 0.931);
        let a = 0.024_83_f64.mul_add(b, -0.059);
        let inverse_alpha = 1.1239 + 1.1328 / (b - 3.4);
        loop {
            let (u, v) = (self.unit() - 0.5, self.unit());
            let us = 0.5 - u.abs();
            let k = ((2.0 * a / us + b) * u + mean + 0.43).floor();
            if us >= 0.07 && v <= 0.9277 - 3.6224 / (b - 2.0) {
                return whole(k);
            }
            if k < 0.0 || (us < 0.013 && v > us) {
                continue;
            }
            if (v * inverse_alpha / (a / (us * us) + b)).ln() <= k.mul_add(mean.ln(), -mean) - log_factorial(k) {
                return whole(k);
            }
        }
    }
}

/// `ln k!`.
fn log_factorial(k: f64) -> f64 {
    (k + 0.5) * (k + 1.0).ln() - (k + 1.0) + 0.5 * std::f64::consts::TAU.ln() + stirling_rest(k)
}

/// What Stirling's formula at `k + 1` leaves of `ln k!`.
fn stirling_rest(k: f64) -> f64 {
    const FIRST: [f64; 10] = [
        0.081_061_466_795_327_2,
        0.041_340_695_955_409_2,
        0.027_677_925_684_998_3,
        0.020_790_672_103_765_09,
        0.016_644_691_189_821_1,
        0.013_876_128_823_070_7,
        0.011_896_709_945_891_7,
        0.010_411_265_261_972_0,
        0.009_255_462_182_712_73,
        0.008_330_563_433_362_87,
    ];
    let square = (k + 1.0) * (k + 1.0);
    let series = || (1.0 / 12.0 - (1.0 / 360.0 - 1.0 / 1260.0 / square) / square) / (k + 1.0);
    FIRST.get(usize::try_from(whole(k)).unwrap_or(usize::MAX)).copied().unwrap_or_else(series)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at least 0, and saturates")]
const fn whole(number: f64) -> u64 {
    number as u64
}

#[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^53")]
const fn count(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_a_history_and_streams_differ() {
        let first = |seed, stream| Dice::new(seed, stream).bits();
        assert_eq!(first(1, 0), first(1, 0));
        assert_ne!(first(1, 0), first(1, 1));
        assert_ne!(first(1, 0), first(2, 0));
    }

    #[test]
    fn arrivals_have_their_mean_and_variance() {
        let mut dice = Dice::new(7, 0);
        for mean in [0.05, 3.0, 100.0] {
            let draws: Vec<f64> = (0..4_000).map(|_| f64::from(u32::try_from(dice.arrivals(mean)).unwrap())).collect();
            let average = draws.iter().sum::<f64>() / 4_000.0;
            let variance = draws.iter().map(|draw| (draw - average).powi(2)).sum::<f64>() / 4_000.0;
            assert!((average / mean - 1.0).abs() < 0.15 && (variance / mean - 1.0).abs() < 0.2, "{average} {variance}");
        }
    }

    /// Every count's share of the draws against its probability: a chi-square over the counts that are expected at all.
    fn fits(draws: &[u64], probability: impl Fn(u64) -> f64) {
        let all = count(draws.len() as u64);
        let (mut square, mut cells) = (0.0, 0.0_f64);
        for k in 0..=draws.iter().copied().max().unwrap() {
            let expected = all * probability(k);
            if expected >= 10.0 {
                let seen = count(draws.iter().filter(|draw| **draw == k).count() as u64);
                square += (seen - expected).powi(2) / expected;
                cells += 1.0;
            }
        }
        // The mean is the number of cells, its deviation the root of twice as much; six of them never happen.
        assert!(square < 6.0_f64.mul_add((2.0 * cells).sqrt(), cells), "{square} over {cells} cells");
    }

    #[test]
    fn few_and_many_successes_and_arrivals_have_their_distribution() {
        let mut dice = Dice::new(11, 0);
        for (n, p) in [(1_u64, 0.5), (20, 0.3), (20, 0.97), (400, 0.05), (100, 0.5), (3_000, 0.02), (90, 0.8)] {
            let draws: Vec<u64> = (0..40_000).map(|_| dice.successes(n, p)).collect();
            let choose = |k: u64| log_factorial(count(n)) - log_factorial(count(k)) - log_factorial(count(n - k));
            fits(&draws, |k| (choose(k) + count(k) * f64::ln(p) + count(n - k) * f64::ln(1.0 - p)).exp());
        }
        for mean in [0.3, 9.9, 10.0, 47.0, 300.0] {
            let draws: Vec<u64> = (0..40_000).map(|_| dice.arrivals(mean)).collect();
            fits(&draws, |k| (count(k) * f64::ln(mean) - mean - log_factorial(count(k))).exp());
        }
        let draws: Vec<u64> = (0..40_000).map(|_| dice.until(0.2)).collect();
        fits(&draws, |k| 0.2 * 0.8_f64.powf(count(k)));
    }

    #[test]
    fn what_never_or_always_happens_is_no_trap() {
        let mut dice = Dice::new(1, 1);
        assert_eq!(
            (dice.successes(0, 0.4), dice.successes(1 << 40, 0.0), dice.successes(1 << 40, 1.0)),
            (0, 0, 1 << 40)
        );
        assert_eq!((dice.until(1.0), dice.until(0.0) > 1 << 60, dice.arrivals(0.0)), (0, true, 0));
    }
}

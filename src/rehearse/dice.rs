//! Chance from a seed: a seed is a history. Not for secrets, and never seeded by anything but an argument.

use crate::engine::stats::latency::{BUCKETS, upper_edge};

/// A small generator (SplitMix64; Steele, Lea and Flood, OOPSLA 2014). The same seed gives the same numbers in every
/// version of Serin, so that a report can be repeated.
#[derive(Debug, Clone)]
pub struct Dice(u64);

/// A distribution of latencies over the engine's buckets, drawn from in constant time (Walker's alias method).
#[derive(Debug, Clone)]
pub struct Latencies(Vec<Column>);

/// One column of the alias table: this bucket below the bound, the other one above.
#[derive(Debug, Clone, Copy)]
struct Column {
    bound: f64,
    bucket: u16,
    other: u16,
}

/// A part of the requests with log-normal latencies.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LogNormal {
    /// Which part, in `0.0..=1.0`.
    pub share: f64,
    /// In milliseconds.
    pub median_ms: f64,
    /// Standard deviation of the logarithm.
    pub sigma: f64,
}

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

    /// How many of independent arrivals fall into a time in which `mean` are expected (Knuth's product of units, in
    /// parts, since `exp(-mean)` vanishes).
    pub fn arrivals(&mut self, mean: f64) -> u64 {
        let (mut left, mut count) = (mean, 0);
        while left > 0.0 {
            let limit = (-left.min(16.0)).exp();
            left -= 16.0;
            let mut product = self.unit();
            while product > limit {
                count += 1;
                product *= self.unit();
            }
        }
        count
    }
}

impl Latencies {
    /// A mixture; the shares are taken in proportion.
    #[must_use]
    pub fn new(parts: &[LogNormal]) -> Self {
        let masses: Vec<Vec<f64>> = parts.iter().map(LogNormal::masses).collect();
        let sum = |bucket: usize| parts.iter().zip(&masses).map(|(part, masses)| part.share * masses[bucket]).sum();
        Self(columns(&(0..BUCKETS).map(sum).collect::<Vec<f64>>()))
    }

    /// By the mass of each bucket; the masses are taken in proportion, and are not all zero.
    #[must_use]
    pub fn of_masses(masses: &[f64]) -> Self {
        Self(columns(masses))
    }

    /// The bucket of one request's latency.
    pub fn draw(&self, dice: &mut Dice) -> u16 {
        let place = dice.unit() * count(self.0.len());
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within the table")]
        let at = place as usize;
        self.0.get(at).map_or(0, |column| if place.fract() < column.bound { column.bucket } else { column.other })
    }
}

impl LogNormal {
    /// The share of its latencies in each bucket.
    #[must_use]
    pub fn masses(&self) -> Vec<f64> {
        let mut before = 0.0;
        let mass = |bucket: usize| {
            let upto = self.below(upper_edge(bucket).as_secs_f64() * 1e3).max(before);
            let mass = upto - before;
            before = upto;
            mass
        };
        (0..BUCKETS).map(mass).collect()
    }

    /// The share of latencies up to `ms`.
    fn below(&self, ms: f64) -> f64 {
        if ms <= 0.0 { 0.0 } else { normal((ms / self.median_ms).ln() / self.sigma) }
    }
}

/// Vose's construction: each column holds 1/n of the mass, from at most two buckets.
fn columns(masses: &[f64]) -> Vec<Column> {
    let scale = count(masses.len()) / masses.iter().sum::<f64>();
    let mut scaled: Vec<f64> = masses.iter().map(|mass| mass * scale).collect();
    let mut made: Vec<Column> =
        (0..).zip(masses).map(|(bucket, _)| Column { bound: 1.0, bucket, other: bucket }).collect();
    let (mut small, mut large): (Vec<usize>, Vec<usize>) = (0..masses.len()).partition(|&at| scaled[at] < 1.0);
    while let (Some(low), Some(&high)) = (small.pop(), large.last()) {
        made[low].bound = scaled[low];
        made[low].other = made[high].bucket;
        scaled[high] -= 1.0 - scaled[low];
        if scaled[high] < 1.0 {
            large.pop();
            small.push(high);
        }
    }
    made
}

/// The normal distribution function, within 1.5e-7 (Abramowitz and Stegun 7.1.26).
fn normal(x: f64) -> f64 {
    let z = x.abs() / std::f64::consts::SQRT_2;
    let t = 1.0 / 0.327_591_1_f64.mul_add(z, 1.0);
    let terms = [1.061_405_429, -1.453_152_027, 1.421_413_741, -0.284_496_736, 0.254_829_592];
    let tail = 0.5 * t * terms.iter().fold(0.0, |sum: f64, term| sum.mul_add(t, *term)) * (-z * z).exp();
    if x < 0.0 { tail } else { 1.0 - tail }
}

#[expect(clippy::cast_precision_loss, reason = "a few hundred")]
const fn count(number: usize) -> f64 {
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

    #[test]
    fn latencies_have_the_quantiles_of_their_distribution() {
        let usual = Latencies::new(&[LogNormal { share: 1.0, median_ms: 20.0, sigma: 0.5 }]);
        let mut dice = Dice::new(3, 0);
        let mut drawn: Vec<u16> = (0..20_000).map(|_| usual.draw(&mut dice)).collect();
        drawn.sort_unstable();
        for (at, ms) in [(0.5, 20.0), (0.9, 37.95), (0.99, 64.0), (0.999, 93.8)] {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small")]
            let got = upper_edge(usize::from(drawn[(at * 20_000.0) as usize])).as_secs_f64() * 1e3;
            assert!((got / ms - 1.0).abs() < 0.12, "{at}: {got} is not {ms}");
        }
    }
}

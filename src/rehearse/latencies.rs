//! Distributions of latencies over the engine's buckets: mixtures of log-normal parts, or as they were recorded.

use std::time::Duration;

use super::dice::Dice;
use crate::engine::stats::latency::{BUCKETS, LatencyCounts, upper_edge};

/// From so many requests on it is cheaper to draw each bucket's count than each request's bucket.
pub(super) const MANY: u64 = 2_000;

/// A distribution of latencies over the engine's buckets, drawn from in constant time (Walker's alias method), or for many
/// requests at once.
#[derive(Debug, Clone)]
pub struct Latencies {
    columns: Vec<Column>,
    /// Buckets that any latency falls into, each with its share of what falls into none before it.
    shares: Vec<(u16, f64)>,
}

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

impl Latencies {
    /// A mixture; the shares are taken in proportion.
    #[must_use]
    pub fn new(parts: &[LogNormal]) -> Self {
        let masses: Vec<Vec<f64>> = parts.iter().map(LogNormal::masses).collect();
        let sum = |bucket: usize| parts.iter().zip(&masses).map(|(part, masses)| part.share * masses[bucket]).sum();
        Self::of_masses(&(0..BUCKETS).map(sum).collect::<Vec<f64>>())
    }

    /// By the mass of each bucket; the masses are taken in proportion, and are not all zero.
    #[must_use]
    pub fn of_masses(masses: &[f64]) -> Self {
        let mut left = masses.iter().sum::<f64>();
        let mut shares: Vec<(u16, f64)> = (0..).zip(masses.iter().copied()).filter(|(_, mass)| *mass > 0.0).collect();
        for (_, share) in &mut shares {
            let mass = std::mem::replace(share, *share / left);
            left -= mass;
        }
        // Whatever rounding leaves, the last one takes all that is left.
        if let Some((_, share)) = shares.last_mut() {
            *share = 1.0;
        }
        Self { columns: columns(masses), shares }
    }

    /// The latencies of so many requests, counted: as if each were drawn, at a cost that many do not raise.
    pub fn counts(&self, requests: u64, dice: &mut Dice) -> LatencyCounts {
        if requests < MANY {
            let mut buckets: Vec<u16> = (0..requests).map(|_| self.draw(dice)).collect();
            return LatencyCounts::of(&mut buckets);
        }
        let mut left = requests;
        let counted = self.shares.iter().map(|&(bucket, share)| {
            let count = dice.successes(left, share);
            left -= count;
            (bucket, count)
        });
        LatencyCounts(counted.filter(|(_, count)| *count > 0).collect())
    }

    /// The longest latency that may be drawn.
    #[must_use]
    pub fn longest(&self) -> Duration {
        self.shares.last().map_or(Duration::ZERO, |(bucket, _)| upper_edge(usize::from(*bucket)))
    }

    /// The bucket of one request's latency.
    pub fn draw(&self, dice: &mut Dice) -> u16 {
        let place = dice.unit() * count(self.columns.len());
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within the table")]
        let at = place as usize;
        self.columns.get(at).map_or(0, |column| if place.fract() < column.bound { column.bucket } else { column.other })
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

    #[test]
    fn counts_of_many_are_as_if_each_were_drawn() {
        let usual = Latencies::new(&[
            LogNormal { share: 0.9, median_ms: 20.0, sigma: 0.5 },
            LogNormal { share: 0.1, median_ms: 900.0, sigma: 0.1 },
        ]);
        let mut dice = Dice::new(4, 0);
        let (mut one, mut all) = (vec![0.0; BUCKETS], vec![0.0; BUCKETS]);
        for _ in 0..50 {
            for (bucket, count) in usual.counts(MANY, &mut dice).0 {
                all[usize::from(bucket)] += f64::from(u32::try_from(count).unwrap());
            }
            (0..MANY).for_each(|_| one[usize::from(usual.draw(&mut dice))] += 1.0);
        }
        assert!((all.iter().sum::<f64>() - 100_000.0).abs() < 0.5);
        // Each difference is worth about one; the sum over some hundred buckets spreads by the root of twice as many.
        let pairs = one.iter().zip(&all).filter(|(one, all)| *one + *all >= 20.0);
        let (square, cells) =
            pairs.fold((0.0, 0.0_f64), |sum, (one, all)| (sum.0 + (one - all).powi(2) / (one + all), sum.1 + 1.0));
        assert!(cells > 50.0 && square < 6.0_f64.mul_add((2.0 * cells).sqrt(), cells), "{square} over {cells}");
    }
}

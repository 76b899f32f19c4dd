//! Distributions of latencies over the engine's buckets: mixtures of log-normal parts, or as they were recorded.

use super::dice::Dice;
use crate::engine::stats::latency::{BUCKETS, LatencyCounts, upper_edge};

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

    /// The latencies of so many requests, counted.
    pub fn counts(&self, requests: u64, dice: &mut Dice) -> LatencyCounts {
        let mut buckets: Vec<u16> = (0..requests).map(|_| self.draw(dice)).collect();
        LatencyCounts::of(&mut buckets)
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

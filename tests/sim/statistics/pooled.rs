//! What people do by hand: a z-test on all errors so far, pooled over the weights, at a nominal 1 % on one side, looked at
//! again and again.

use serin::engine::samples::Counts;

/// The normal quantile of 99 %.
const Z: f64 = 2.326_35;
/// Errors in all from which on it is looked at.
const ERRORS: u64 = 5;

/// All errors so far.
#[derive(Debug, Default)]
pub struct Pooled {
    canary: Counts,
    stable: Counts,
    pub reverted: bool,
}

impl Pooled {
    /// Looks at it with these requests as well.
    pub fn look(&mut self, canary: Counts, stable: Counts) {
        self.canary += canary;
        self.stable += stable;
        let [(nc, c), (ns, s)] = [self.canary, self.stable].map(|of| (count(of.requests), count(of.errors)));
        if self.canary.errors + self.stable.errors < ERRORS || nc == 0.0 || ns == 0.0 {
            return;
        }
        let p = (c + s) / (nc + ns);
        let deviation = (p * (1.0 - p) * (1.0 / nc + 1.0 / ns)).sqrt();
        self.reverted |= (c / nc - s / ns) / deviation > Z;
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^53")]
const fn count(of: u64) -> f64 {
    of as f64
}

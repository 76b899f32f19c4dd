//! How long until a change would be seen, and how much worse the canary looks: estimates for people, not for decisions.

use std::time::Duration;

use super::share_test::bet::count;
use crate::engine::samples::Counts;

/// Median requests of the share test over the least that any test needs on average.
const OVERHEAD: f64 = 1.3;

/// Information about a change in each request, in nats: stable is bad with probability `p_stable`, the canary with `p_canary`,
/// and gets a share `w`. The Kullback-Leibler divergence from the closest world in which both are alike.
#[must_use]
pub fn information(p_stable: f64, p_canary: f64, w: f64) -> f64 {
    let alike = w * p_canary + (1.0 - w) * p_stable;
    w * divergence(p_canary, alike) + (1.0 - w) * divergence(p_stable, alike)
}

/// The fewest requests, both versions together, after which a test of level `alpha` can see it on average.
#[must_use]
pub fn least_requests(p_stable: f64, p_canary: f64, w: f64, alpha: f64) -> f64 {
    -alpha.ln() / information(p_stable, p_canary, w)
}

/// About how long the share test takes in the median at `rps` requests a second, both versions together; none when it
/// never would.
#[must_use]
pub fn time_to_see(p_stable: f64, p_canary: f64, w: f64, alpha: f64, rps: f64) -> Option<Duration> {
    let seconds = OVERHEAD * least_requests(p_stable, p_canary, w, alpha) / rps;
    Duration::try_from_secs_f64(seconds).ok().filter(|_| seconds > 0.0)
}

/// How many times as bad the canary is over strata of (canary, stable): the Mantel-Haenszel ratio, which a change of weight
/// in a bad moment does not mislead. None where stable gives nothing to compare with.
#[must_use]
pub fn ratio(strata: &[(Counts, Counts)]) -> Option<f64> {
    let (mut above, mut below) = (0.0, 0.0);
    for (canary, stable) in strata {
        let all = count(canary.requests) + count(stable.requests);
        if all > 0.0 {
            above += count(canary.errors) * count(stable.requests) / all;
            below += count(stable.errors) * count(canary.requests) / all;
        }
    }
    (below > 0.0).then(|| above / below)
}

fn divergence(p: f64, q: f64) -> f64 {
    let part = |p: f64, q: f64| if p > 0.0 { p * (p / q).ln() } else { 0.0 };
    part(p, q) + part(1.0 - p, 1.0 - q)
}

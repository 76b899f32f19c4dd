//! Evidence from sticky clients: no coin is tossed for each of their requests, so shares are taken as they came, in portions,
//! and a client that keeps failing is one failure in an epoch. Judges nothing; `machine` hands what is due to the test.

use std::collections::HashSet;

use crate::engine::{
    names::{Generation, VersionName},
    samples::{Counts, SlotSamples},
    split::Bucket,
    stats::share_test::News,
};

/// A portion is closed at so many canary requests: a rule that looks at requests alone, never at how they ended.
const PORTION: u64 = 20;

/// The open portions of one rollout, and whose failure has counted in this epoch: at most each bucket once.
#[derive(Debug, Clone, Default)]
pub(super) struct Clients {
    open: Vec<Portion>,
    failed: HashSet<Bucket>,
}

/// What came in one weight generation since its last portion.
#[derive(Debug, Clone)]
struct Portion {
    generation: Generation,
    canary: Counts,
    stable: Counts,
    /// More of stable's failures than are kept: what is missing would speak against the canary.
    is_spoilt: bool,
}

impl Clients {
    /// A new epoch: each client may fail once more.
    pub(super) fn new_epoch(&mut self) {
        self.failed.clear();
    }

    /// Another weight: portions of before it are dropped, whatever they held.
    pub(super) fn weight_changed(&mut self) {
        self.open.clear();
        self.new_epoch();
    }

    /// Takes in what was drained in these generations, and gives the portions that it closed.
    pub(super) fn add(
        &mut self,
        slots: &[&SlotSamples],
        is_evidence: impl Fn(Generation) -> bool,
        canary: &VersionName,
        stable: &VersionName,
    ) -> Vec<News> {
        for slot in slots.iter().filter(|slot| slot.sticky.requests > 0 && is_evidence(slot.weight_generation)) {
            let is_canary = slot.version == *canary;
            if !is_canary && slot.version != *stable {
                continue;
            }
            let fresh = slot.sticky_failed.buckets.iter().filter(|bucket| self.failed.insert(**bucket)).count() as u64;
            let counts = Counts { requests: slot.sticky.requests, errors: fresh };
            let portion = open(&mut self.open, slot.weight_generation);
            *(if is_canary { &mut portion.canary } else { &mut portion.stable }) += counts;
            portion.is_spoilt |= !is_canary && slot.sticky_failed.is_incomplete;
        }
        let is_due = |portion: &mut Portion| portion.canary.requests >= PORTION;
        let due: Vec<Portion> = self.open.extract_if(.., is_due).collect();
        due.into_iter().filter(|portion| !portion.is_spoilt).map(|portion| portion.news()).collect()
    }
}

impl Portion {
    #[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^53")]
    fn news(&self) -> News {
        let (canary, stable) = (self.canary, self.stable);
        let w = canary.requests as f64 / (canary.requests + stable.requests) as f64;
        // A failure may be drained a moment before its request is counted.
        let within = |counts: Counts| Counts { errors: counts.errors.min(counts.requests), ..counts };
        News { w, canary: within(canary), stable: within(stable), latency: None }
    }
}

fn open(portions: &mut Vec<Portion>, generation: Generation) -> &mut Portion {
    let at = portions.iter().position(|portion| portion.generation == generation).unwrap_or_else(|| {
        let (canary, stable) = (Counts::default(), Counts::default());
        portions.push(Portion { generation, canary, stable, is_spoilt: false });
        portions.len() - 1
    });
    &mut portions[at]
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::engine::{
        names::ServiceName,
        plan::ShareTestPlan,
        samples::FailedBuckets,
        stats::{latency::LatencyCounts, share_test::ShareTest},
    };

    fn version(name: &str) -> VersionName {
        VersionName::new(name).unwrap()
    }

    fn slot(name: &str, requests: u64, failed: &[u32]) -> SlotSamples {
        let buckets = failed.iter().map(|number| Bucket::new(*number).unwrap()).collect();
        SlotSamples {
            service: ServiceName::new("web").unwrap(),
            version: version(name),
            weight_generation: Generation(1),
            sampled: Counts::default(),
            sticky: Counts { requests, errors: failed.len() as u64 },
            sticky_failed: FailedBuckets { buckets, is_incomplete: false },
            latency: LatencyCounts::default(),
            longest_error_run: 0,
            slowest_failure: Duration::ZERO,
        }
    }

    fn add(clients: &mut Clients, slots: &[SlotSamples]) -> Vec<News> {
        clients.add(&slots.iter().collect::<Vec<_>>(), |_| true, &version("v2"), &version("v1"))
    }

    #[test]
    fn a_portion_closes_by_canary_requests_and_its_share_is_what_came() {
        let mut clients = Clients::default();
        assert!(add(&mut clients, &[slot("v2", 19, &[3]), slot("v1", 81, &[])]).is_empty());
        let news = add(&mut clients, &[slot("v2", 1, &[]), slot("v1", 99, &[500_000])]);
        let counts = |requests, errors| Counts { requests, errors };
        assert_eq!(news, [News { w: 0.1, canary: counts(20, 1), stable: counts(180, 1), latency: None }]);
        assert!(add(&mut clients, &[slot("v1", 1_000, &[])]).is_empty(), "a new portion began");
    }

    #[test]
    fn a_client_that_keeps_failing_is_one_failure_until_the_next_epoch() {
        let mut clients = Clients::default();
        let errors = |news: Vec<News>| news.iter().map(|news| news.canary.errors).sum::<u64>();
        let failing = [slot("v2", 20, &[3, 3, 4, 3]), slot("v1", 80, &[])];
        assert_eq!(errors(add(&mut clients, &failing)), 2);
        assert_eq!(errors(add(&mut clients, &failing)), 0);
        clients.new_epoch();
        assert_eq!(errors(add(&mut clients, &failing)), 2);
    }

    #[test]
    fn a_portion_that_lost_failures_of_stable_is_no_evidence() {
        let mut clients = Clients::default();
        let mut stable = slot("v1", 80, &[9]);
        stable.sticky_failed.is_incomplete = true;
        assert!(add(&mut clients, &[slot("v2", 20, &[]), stable]).is_empty());
        assert_eq!(add(&mut clients, &[slot("v2", 20, &[]), slot("v1", 80, &[])]).len(), 1);
    }

    #[test]
    fn a_canary_that_fails_its_clients_is_reverted_and_a_few_broken_clients_revert_nobody() {
        let plan = ShareTestPlan { min_bad_seconds: 0, ..ShareTestPlan::default() };
        let (mut sick, mut sound) = (ShareTest::new(plan), ShareTest::new(plan));
        let (mut of_sick, mut of_sound) = (Clients::default(), Clients::default());
        for second in 0..60 {
            let other = |salt: u32| (second * 7_919 + salt * 104_729) % 100_000;
            let failed = [other(1), other(2), other(3)];
            for news in add(&mut of_sick, &[slot("v2", 10, &failed), slot("v1", 90, &[])]) {
                sick.add(&news);
            }
            // Two clients with a broken account happen to be the canary's, and ask all the time.
            for news in add(&mut of_sound, &[slot("v2", 10, &[17, 17, 18]), slot("v1", 90, &[])]) {
                sound.add(&news);
            }
        }
        assert!(sick.reverts());
        assert!(!sound.reverts(), "{}", sound.log_e_max());
    }
}

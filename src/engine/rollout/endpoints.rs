//! What the endpoints of a service's versions are known to do, and what that means for its rollout: a rise waits for a
//! canary that is ready, a withdrawal for a stable that can take the traffic.

use super::state::{Log, Service};
use crate::engine::{
    endpoint::InUse,
    event::{Cause, EventKind},
    health::{EndpointView, Health},
    names::{Role, VersionName},
    plan::VersionPlan,
    samples::EndpointSamples,
    time::Timestamp,
    weight::Weight,
};

impl Service {
    /// Takes in what was seen of endpoints. Who serves is told of; versions that only wait may have been stopped.
    pub(in crate::engine) fn look_at_endpoints(&mut self, seen: &[&EndpointSamples], log: &mut Log<'_>) {
        let mut turns = Vec::new();
        for plan in &self.plan.versions {
            let upstream = &plan.upstream;
            if upstream.health.is_none() && upstream.ejection.is_none() {
                self.health.retain(|(version, _)| *version != plan.name);
                continue;
            }
            let serves = plan.name == self.standing.stable.version || self.serving_canary() == Some(&plan.name);
            let at = self.health.iter().position(|(version, _)| *version == plan.name).unwrap_or_else(|| {
                self.health.push((plan.name.clone(), Health::default()));
                self.health.len() - 1
            });
            let seen = seen.iter().find(|seen| seen.version == plan.name).copied();
            let health = &mut self.health[at].1;
            health.measured(upstream, seen, log.now);
            if serves {
                turns.extend(health.turns(upstream, log.now).into_iter().map(|turn| (plan.name.clone(), turn)));
            }
        }
        for (version, turn) in turns {
            let endpoint = turn.instance.to_string();
            let (kind, why) = match turn.out {
                Some(why) => (EventKind::EndpointOut, why.to_string()),
                None => (EventKind::EndpointBack, String::new()),
            };
            self.note(kind, Cause::Endpoint { endpoint, why }, Some(version), log);
        }
    }

    /// Which of a version's endpoints get requests in this role.
    pub(super) fn in_use(&self, plan: &VersionPlan, role: Role) -> InUse {
        self.health_of(&plan.name).map_or(InUse::All, |health| health.in_use(&plan.upstream, role))
    }

    /// Whether as many endpoints of a version have passed their health check as `minHealthy` wants, and one in any case, if the
    /// version has such a check.
    pub(super) fn is_ready(&self, version: &VersionName) -> bool {
        let Some(plan) = self.plan.version(version).filter(|plan| plan.upstream.health.is_some()) else { return true };
        let (proven, all) = self.passed(plan);
        proven > 0 && is_share(proven, all, self.plan.strategy.policy.min_healthy)
    }

    /// What a version that is not ready waits for.
    pub(super) fn unready_words(&self, version: &VersionName) -> String {
        let wanted = self.plan.strategy.policy.min_healthy;
        let (proven, all) = self.plan.version(version).map_or((0, 0), |plan| self.passed(plan));
        if proven == 0 {
            return format!("an endpoint of {version} to pass its health check");
        }
        format!("{wanted} of the endpoints of {version} to pass their health check; {proven} of {all} did")
    }

    /// How many of a version's endpoints have passed their check, and how many are known at all.
    fn passed(&self, plan: &VersionPlan) -> (usize, usize) {
        self.health_of(&plan.name).map_or((0, 0), |health| health.proven(&plan.upstream))
    }

    /// How many of a version's endpoints are not known to be bad, and how many are known at all.
    pub(super) fn fit(&self, version: &VersionName) -> (usize, usize) {
        let known = self.health_of(version).zip(self.plan.version(version));
        known.map_or((0, 0), |(health, plan)| health.fit(&plan.upstream))
    }

    /// Whether stable can take all traffic, as far as `abort.capacityGuard` wants it to and its endpoints are known.
    pub(super) fn has_capacity(&self) -> bool {
        let Some(guard) = &self.plan.strategy.policy.capacity_guard else { return true };
        let (fit, all) = self.fit(&self.standing.stable.version);
        is_share(fit, all, guard.min_healthy)
    }

    /// When an endpoint comes back by time alone.
    pub(super) fn endpoint_due(&self) -> Option<Timestamp> {
        self.health.iter().filter_map(|(_, health)| health.deadline()).min()
    }

    /// The endpoints of a version, where they are watched.
    pub(super) fn endpoint_views(&self, version: &VersionName, now: Timestamp) -> Vec<EndpointView> {
        let known = self.health_of(version).zip(self.plan.version(version));
        known.map_or_else(Vec::new, |(health, plan)| health.views(&plan.upstream, now))
    }

    fn health_of(&self, version: &VersionName) -> Option<&Health> {
        self.health.iter().find(|(name, _)| name == version).map(|(_, health)| health)
    }
}

fn is_share(part: usize, all: usize, wanted: Weight) -> bool {
    part as u64 * 1_000_000 >= all as u64 * u64::from(wanted.ppm())
}

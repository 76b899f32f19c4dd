//! From a service's state to the table that the data plane obeys.

use std::sync::Arc;

use super::state::{Phase, Service};
use crate::engine::{
    assign::HeaderRoute,
    memory::PauseKind,
    mirror::MirrorRoute,
    names::{Role, VersionName},
    plan::{Step, VersionPlan},
    split::Split,
    sticky::{BucketKey, StickyRule},
    table::{ServiceTable, VersionTable},
    weight::Weight,
};

impl Service {
    /// The service as it is to be served now. The canary takes the lowest buckets, the versions of an
    /// experiment the highest, stable all others.
    pub(in crate::engine) fn table(&self) -> ServiceTable {
        let stable = self.index_of(&self.standing.stable.version).unwrap_or(0);
        let canary = self.serving_canary().and_then(|version| self.index_of(version)).filter(|&at| at != stable);
        let share = canary.map_or(Weight::ZERO, |_| self.canary_weight());
        let aside: Vec<(usize, Weight)> =
            self.aside().into_iter().filter_map(|(version, weight)| Some((self.index_of(version)?, weight))).collect();
        let taken: u32 = aside.iter().map(|(_, weight)| weight.ppm()).sum();
        let of_stable = Weight::from_ppm(share.rest().ppm().saturating_sub(taken)).unwrap_or_default();
        let mut weights = vec![(canary.unwrap_or(stable), share), (stable, of_stable)];
        weights.extend(&aside);
        // The weights sum to the whole by construction, so the fallback is never taken.
        let split = Split::new(&weights).unwrap_or_else(|| Split::all_to(stable));
        let part = |at: usize| {
            if at == stable {
                (Role::Stable, of_stable)
            } else if Some(at) == canary {
                (Role::Canary, share)
            } else {
                (Role::Other, aside.iter().find(|(of, _)| *of == at).map_or(Weight::ZERO, |(_, weight)| *weight))
            }
        };
        let version = |plan: &VersionPlan, (role, weight)| VersionTable {
            name: plan.name.clone(),
            role,
            weight,
            endpoints: plan.endpoints.clone(),
            http: plan.http,
            upstream: Arc::clone(&plan.upstream),
            in_use: self.in_use(plan, role),
            filters: Arc::clone(&plan.filters),
        };
        ServiceTable {
            name: self.plan.name.clone(),
            weight_generation: self.traffic.generation(),
            versions: self.plan.versions.iter().enumerate().map(|(at, plan)| version(plan, part(at))).collect(),
            stable,
            canary,
            split,
            force: self.plan.force.clone(),
            header_routes: canary.map(|_| self.header_routes()).unwrap_or_default(),
            mirror_routes: canary.map(|_| self.mirror_routes()).unwrap_or_default(),
            cohorts: self.plan.cohorts.clone(),
            sticky: self.sticky(),
            draining: matches!(self.phase, Phase::Paused { kind: PauseKind::Drain, .. }),
            drain_timeout: self.plan.strategy.policy.drain_timeout,
            timeouts: self.plan.timeouts,
            retry: self.plan.retry,
            failure: self.plan.failure,
        }
    }

    /// The header routes that steps have set and not removed; nothing without a rollout.
    fn header_routes(&self) -> Vec<HeaderRoute> {
        let steps = self.passed_steps().iter().filter_map(|step| match step {
            Step::SetHeaderRoute { name, route } => Some((name, route.as_ref())),
            _ => None,
        });
        left_of(steps)
    }

    /// The mirror routes likewise.
    fn mirror_routes(&self) -> Vec<MirrorRoute> {
        let steps = self.passed_steps().iter().filter_map(|step| match step {
            Step::SetMirrorRoute { name, route } => Some((name, route.as_ref())),
            _ => None,
        });
        left_of(steps)
    }

    /// The steps before the present one.
    fn passed_steps(&self) -> &[Step] {
        let steps = &self.plan.strategy.steps;
        &steps[..self.rollout().map_or(0, |rollout| rollout.step).min(steps.len())]
    }

    /// The canary, unless nothing may reach it: an untrusted state means stable only, for forced requests too.
    pub(super) fn serving_canary(&self) -> Option<&VersionName> {
        match &self.phase {
            Phase::Paused { kind: PauseKind::Untrusted, .. } | Phase::Healthy | Phase::Degraded { ramp: None, .. } => {
                None
            }
            Phase::Degraded { target, ramp: Some(_), .. } => Some(&target.version),
            Phase::Progressing(rollout) | Phase::Paused { rollout, .. } => Some(&rollout.target.version),
        }
    }

    fn index_of(&self, version: &VersionName) -> Option<usize> {
        self.plan.versions.iter().position(|plan| plan.name == *version)
    }

    /// Outside a rollout all buckets are stable's, so any key does; on the way down after an abort those of the canary are still
    /// its own, and nobody else comes to it.
    fn sticky(&self) -> Option<StickyRule> {
        let plan = self.plan.sticky.as_ref()?;
        let target = match &self.phase {
            Phase::Degraded { target, ramp: Some(_), .. } => target,
            _ => self.rollout().map_or(&self.standing.stable, |rollout| &rollout.target),
        };
        let key = BucketKey::of(&self.plan.name, &target.version, &target.revision);
        Some(StickyRule { by: plan.by.clone(), ttl: plan.ttl, key })
    }
}

/// What is left of routes that were set, replaced and removed by name, in the order in which the names came up.
fn left_of<'s, R: Clone + 's>(steps: impl Iterator<Item = (&'s Arc<str>, Option<&'s R>)>) -> Vec<R> {
    let mut left: Vec<(&Arc<str>, &R)> = Vec::new();
    for (name, route) in steps {
        match (left.iter().position(|(known, _)| *known == name), route) {
            (Some(at), Some(route)) => left[at].1 = route,
            (Some(at), None) => {
                left.remove(at);
            }
            (None, route) => left.extend(route.map(|route| (name, route))),
        }
    }
    left.into_iter().map(|(_, route)| route.clone()).collect()
}

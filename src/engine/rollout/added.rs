//! Versions that the file does not name: added by `start` with an endpoint, kept in the state, and gone once nothing can lead
//! back to them. What the file says of a version goes before.

use super::state::{Service, Standing};
use crate::engine::{
    endpoint::Site,
    input::Refusal,
    names::VersionName,
    plan::{ServicePlan, VersionPlan},
};

impl Standing {
    /// The file's plan with what was added to it.
    pub(super) fn complete(&self, mut plan: ServicePlan) -> ServicePlan {
        for (name, site) in &self.added {
            if plan.version(name).is_none() {
                plan.versions.push(VersionPlan::at(name.clone(), site));
            }
        }
        plan
    }

    /// Where a version was added.
    pub(super) fn added_at(&self, version: &VersionName) -> Option<&Site> {
        self.added.iter().find(|(name, _)| name == version).map(|(_, site)| site)
    }

    /// A version named by the file is none that was added.
    pub(super) fn forget_named(&mut self, plan: &ServicePlan) {
        self.added.retain(|(name, _)| plan.version(name).is_none());
    }
}

impl Service {
    /// Whether a version may be added, or another address given to one that was.
    pub(super) fn may_add(&self, version: &VersionName) -> Result<(), Refusal> {
        if matches!(version.as_str(), "always" | "never" | "stable" | "canary") {
            return Err(Refusal::NotNow(format!(
                "a version cannot be named `{version}`: that word has a meaning of its own"
            )));
        }
        if self.plan.version(version).is_some() && self.standing.added_at(version).is_none() {
            return Err(Refusal::NotNow(format!(
                "the file says already where `{version}` answers: start it without an endpoint, or change the file"
            )));
        }
        Ok(())
    }

    /// Adds a version. Those that nothing can lead back to go.
    pub(super) fn add(&mut self, version: &VersionName, site: &Site) {
        let Self { plan, standing, traffic, .. } = self;
        plan.versions.retain(|known| standing.added_at(&known.name).is_none());
        let leads_back = |name: &VersionName| {
            *name == standing.stable.version || standing.earlier.iter().any(|(_, wish)| wish.version == *name)
        };
        let mut added = standing.added.clone();
        added.retain(|(name, _)| name != version && leads_back(name));
        added.push((version.clone(), site.clone()));
        standing.added = added;
        *plan = standing.complete(plan.clone());
        traffic.retain(|name| plan.version(name).is_some());
    }
}

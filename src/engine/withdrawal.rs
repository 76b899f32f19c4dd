//! What may be in force before the disk has it: what takes from a canary and gives nothing to anybody, so that a crash
//! undoes nothing that a request has met. Decides no weight.

use super::{
    names::{Generation, Role, VersionName},
    split::Split,
    table::ServiceTable,
    weight::Weight,
};

/// Whether the canary of a former table has less weight now, or is no longer where header and mirror routes lead. One that
/// is stable now has lost nothing.
/// `at` is its place then, which seldom changes.
pub(super) fn takes_from_canary(before: &ServiceTable, at: usize, now: &[ServiceTable]) -> bool {
    let Some(canary) = before.canary.map(|at| &before.versions[at]) else { return false };
    let is_it = |service: &&ServiceTable| service.name == before.name;
    let service = now.get(at).filter(is_it).or_else(|| now.iter().find(is_it));
    let stable = service.and_then(|service| service.versions.get(service.stable));
    if stable.is_some_and(|stable| stable.name == canary.name) {
        return false;
    }
    let present = service.and_then(|service| service.canary.map(|at| &service.versions[at].name));
    let lost = present != Some(&canary.name);
    if lost && !(before.header_routes.is_empty() && before.mirror_routes.is_empty()) {
        return true;
    }
    service.map_or(Weight::ZERO, |service| weight_of(service, &canary.name)) < canary.weight
}

/// The services before, less what is taken from their canaries by now; none when that is all that is new.
pub(super) fn taken(
    before: &[ServiceTable],
    now: &[ServiceTable],
    generation: Generation,
) -> Option<Vec<ServiceTable>> {
    let same = |before: &ServiceTable| now.iter().find(|now| now.name == before.name);
    let is_all = before.len() == now.len() && before.iter().all(|of| same(of).is_some_and(|now| only_takes(of, now)));
    let part = |(at, of): (usize, &ServiceTable)| {
        if takes_from_canary(of, at, now) { without_canary(of, generation) } else { of.clone() }
    };
    (!is_all).then(|| before.iter().enumerate().map(part).collect())
}

fn only_takes(before: &ServiceTable, now: &ServiceTable) -> bool {
    let others = now.versions.iter().enumerate().filter(|(at, _)| *at != now.stable).map(|(_, version)| version);
    let stable = |of: &ServiceTable| of.versions.get(of.stable).map(|version| version.name.clone());
    stable(before) == stable(now)
        && others.into_iter().all(|version| version.weight <= weight_of(before, &version.name))
        && (now.header_routes.is_empty() || now.header_routes == before.header_routes)
        && (now.mirror_routes.is_empty() || now.mirror_routes == before.mirror_routes)
}

/// Everything to stable. In a weight generation of its own, so that nothing of it is taken for evidence.
fn without_canary(before: &ServiceTable, generation: Generation) -> ServiceTable {
    let mut after = before.clone();
    for (at, version) in after.versions.iter_mut().enumerate() {
        let is_stable = at == before.stable;
        version.weight = if is_stable { Weight::FULL } else { Weight::ZERO };
        version.role = if is_stable { Role::Stable } else { Role::Other };
    }
    after.split = Split::all_to(before.stable);
    (after.weight_generation, after.canary) = (generation, None);
    (after.header_routes, after.mirror_routes) = (Vec::new(), Vec::new());
    after
}

fn weight_of(service: &ServiceTable, version: &VersionName) -> Weight {
    let of = service.versions.iter().find(|of| of.name == *version);
    of.map_or(Weight::ZERO, |version| version.weight)
}

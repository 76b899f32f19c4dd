//! A split that somebody set by hand: two backends and their weights become one step and a wait for a person.
//! Refuses to move the split: what had a tenth of the traffic has a tenth until somebody says more.

use super::{
    backend::Backend,
    draft::{Draft, Service, Step},
    ledger::Ledger,
    manifest::Item,
    value::whole,
};
use crate::engine::weight::Weight;

/// One backend of a split.
pub(super) struct Leg<'a> {
    pub(super) backend: Backend,
    /// The whole entry.
    pub(super) item: &'a Item,
    pub(super) weight_at: Option<&'a Item>,
    /// What no weight means.
    pub(super) default: u64,
}

const WEIGHT_MAX: u64 = 1_000_000_000;

impl Leg<'_> {
    fn weight(&self) -> u64 {
        self.weight_at.and_then(whole).filter(|weight| *weight <= WEIGHT_MAX).unwrap_or(self.default)
    }

    fn is_called_canary(&self) -> bool {
        self.backend.version.contains("canary")
    }
}

/// The service of a split: the backend with the largest weight is stable and the next one is the canary, unless just one
/// of the two is called so.
pub(super) fn service(name: String, mut legs: Vec<Leg<'_>>, ledger: &mut Ledger) -> Option<Service> {
    for leg in &legs {
        if let Some(item) = leg.weight_at.filter(|item| whole(item).is_none_or(|weight| weight > WEIGHT_MAX)) {
            ledger.dropped(item, format!("not a weight from 0 to {WEIGHT_MAX}; {} is taken", leg.default));
        }
    }
    // The sort is stable: of two equal ones the first stays first.
    legs.sort_by_key(|leg| std::cmp::Reverse(leg.weight()));
    if let [first, second, ..] = &legs[..]
        && first.is_called_canary()
        && !second.is_called_canary()
    {
        legs.swap(0, 1);
    }
    let mut legs = legs.into_iter();
    let stable = legs.next()?;
    let Some(canary) = legs.next() else {
        if let Some(item) = stable.weight_at {
            ledger.kept(item, "the only version gets everything");
        }
        return Some(Service::new(name, stable.backend, None));
    };
    for leg in legs {
        ledger.retracted(leg.item, "a service has one canary at a time: the two largest weights are taken");
    }
    let (of_canary, total) = (u128::from(canary.weight()), u128::from(canary.weight() + stable.weight()).max(1));
    let parts = (of_canary * 1_000_000 + total / 2) / total;
    let is_exact = (of_canary * 1_000_000).is_multiple_of(total);
    let share = u32::try_from(parts).ok().and_then(|ppm| Weight::from_ppm(ppm).ok())?;
    for leg in [&stable, &canary] {
        let Some(item) = leg.weight_at else { continue };
        let how = format!("{share} of the requests go to the canary");
        if is_exact {
            ledger.kept(item, how);
        } else {
            ledger.approximated(item, format!("{how}, to a part per million"));
        }
    }
    let place = ledger.place(canary.weight_at.unwrap_or(canary.item));
    let mut service = Service::new(name, stable.backend, Some(canary.backend));
    service.hold_at(share, place);
    Some(service)
}

impl Service {
    /// A split that is in force: it stays until a person says more.
    pub(super) fn hold_at(&mut self, share: Weight, place: String) {
        self.is_running |= share > Weight::ZERO;
        if share > Weight::ZERO {
            self.steps.push(Step::Weight(share.to_string()), place);
        }
        self.steps.push_person("the split stays until somebody says `serin promote`");
    }
}

impl Draft {
    /// What is to be said of splits that were set by hand.
    pub(super) fn remark_splits(&mut self) {
        if self.services.iter().any(|service| service.canary.is_some()) {
            self.remark(
                "the share test is in force, which the source does not have: it takes the traffic from a canary that \
                 fails more than stable does",
            );
        } else {
            self.remark("no service has two versions: name another one as `canary` to start a rollout");
        }
    }
}

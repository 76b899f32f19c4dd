//! Which version serves a request: the order of precedence, and the exact split.
//! Chance comes in as an argument; nothing here remembers a request.

use std::sync::Arc;

use super::{
    assign::CohortTarget,
    request::RequestView,
    sticky::{StickyBy, StickyId, StickyRule},
    table::ServiceTable,
    weight::Weight,
};

/// Buckets in all: one for each part of a weight.
pub const BUCKETS: u32 = Weight::FULL.ppm();

/// Ids that are tried for a newcomer who must not come to the canary.
const IDS_TRIED_MAX: u64 = 64;

/// A place in `0..BUCKETS`. A request whose bucket is under the canary's weight goes to the canary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bucket(u32);

impl Bucket {
    /// Maps 64 evenly spread bits to a bucket by multiply and shift: no modulo, and a bias under 2⁻⁴⁴
    /// (Lemire, "Fast Random Integer Generation in an Interval", 2019).
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "the product's upper half is under BUCKETS")]
    pub const fn from_bits(bits: u64) -> Self {
        Self(((bits as u128 * BUCKETS as u128) >> 64) as u32)
    }

    /// The bucket of this number; none from [`BUCKETS`] on.
    #[must_use]
    pub const fn new(number: u32) -> Option<Self> {
        if number < BUCKETS { Some(Self(number)) } else { None }
    }

    /// The bucket's number.
    #[must_use]
    pub const fn number(self) -> u32 {
        self.0
    }
}

/// Why a request was routed as it was. A label of the metrics, fixed at routing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// By an independent draw. Evidence for the share test.
    Sampled,
    /// By the bucket of what keeps the client on its version. Evidence for thresholds.
    Sticky,
    /// By the force header or cookie. No evidence.
    Forced,
    /// By a header route of the rollout, or a cohort. No evidence.
    Cohort,
    /// A copy of another request; the client never sees its answer. No evidence.
    Mirror,
}

impl Reason {
    /// All reasons, in the order of their labels.
    pub const ALL: [Self; 5] = [Self::Sampled, Self::Sticky, Self::Forced, Self::Cohort, Self::Mirror];

    /// The word for labels and logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Sampled => "sampled",
            Self::Sticky => "sticky",
            Self::Forced => "forced",
            Self::Cohort => "cohort",
            Self::Mirror => "mirror",
        }
    }

    /// Whether the split chose, so that without weight the version gets no such request.
    #[must_use]
    pub const fn is_by_weight(self) -> bool {
        matches!(self, Self::Sampled | Self::Sticky)
    }
}

/// Cumulative upper bounds over the buckets; the versions with weight, canary first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Split {
    ranges: Vec<(u32, usize)>,
}

impl Split {
    /// Lays out versions (by index) from bucket 0 upwards; the first one keeps its buckets as its weight grows.
    ///
    /// Returns nothing unless the weights sum to exactly [`Weight::FULL`].
    #[must_use]
    pub fn new(weights: &[(usize, Weight)]) -> Option<Self> {
        let mut end = 0_u32;
        let mut ranges = Vec::with_capacity(weights.len());
        for &(version, weight) in weights {
            if weight > Weight::ZERO {
                end = end.checked_add(weight.ppm())?;
                ranges.push((end, version));
            }
        }
        (end == BUCKETS).then_some(Self { ranges })
    }

    /// Every bucket to one version.
    #[must_use]
    pub fn all_to(version: usize) -> Self {
        Self { ranges: vec![(BUCKETS, version)] }
    }

    /// The version whose range holds the bucket.
    #[must_use]
    pub fn version_of(&self, bucket: Bucket) -> usize {
        let within = |&&(end, _): &&(u32, usize)| bucket.0 < end;
        self.ranges.iter().find(within).or(self.ranges.last()).map_or(0, |&(_, version)| version)
    }
}

/// What a request brings to the choice of its version. Kept, so that the choice can be made again under another table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Claims {
    /// The version it is forced to.
    pub forced: Option<CohortTarget>,
    /// The first header route of the rollout that it meets.
    pub header_route: Option<Arc<str>>,
    /// Where the first cohort that it is in goes.
    pub cohort: Option<CohortTarget>,
    /// What its client is kept on a version by, if it brought any.
    pub sticky: Option<StickyId>,
}

impl Claims {
    /// Reads what the service's rules look at.
    #[must_use]
    pub fn of(service: &ServiceTable, request: &RequestView<'_>) -> Self {
        let word = service.force.as_ref().and_then(|rule| rule.word(request));
        let header_route = service.header_routes.iter().find(|route| route.is_met_by(request.headers));
        Self {
            forced: word.and_then(|word| target_of(service, word)),
            header_route: header_route.map(|route| Arc::clone(&route.name)),
            cohort: service.cohorts.iter().find(|one| one.is_met_by(request.headers)).map(|one| one.to.clone()),
            sticky: service.sticky.as_ref().and_then(|rule| rule.by.id(request)),
        }
    }
}

/// Where a request goes, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Assignment {
    /// Index into the service's versions.
    pub version: usize,
    /// What decided.
    pub reason: Reason,
    /// The bucket, where one decided.
    pub bucket: Option<Bucket>,
    /// A new client's id, to be handed out as a cookie.
    pub hand_out: Option<StickyId>,
}

/// Chooses a version: force, then header routes, then cohorts, then the sticky bucket, then a fresh independent draw.
///
/// `draw` gives 64 random bits and is called at most once.
pub fn assign(service: &ServiceTable, claims: &Claims, draw: impl FnOnce() -> u64) -> Assignment {
    let fixed = |version, reason| Assignment { version, reason, bucket: None, hand_out: None };
    if let Some(target) = &claims.forced {
        return fixed(place_of(service, target), Reason::Forced);
    }
    if let Some(canary) = service.canary.filter(|_| !service.draining) {
        let stands = |name: &Arc<str>| service.header_routes.iter().any(|route| route.name == *name);
        if claims.header_route.as_ref().is_some_and(stands) {
            return fixed(canary, Reason::Cohort);
        }
    }
    if let Some(target) = &claims.cohort {
        let place = place_of(service, target);
        let is_new = service.draining && Some(place) == service.canary;
        return fixed(if is_new { service.stable } else { place }, Reason::Cohort);
    }
    let Some(rule) = &service.sticky else { return sampled(service, draw()) };
    let id = match (claims.sticky, &rule.by) {
        (Some(id), _) => id,
        (None, StickyBy::Cookie(_)) => return newcomer(service, rule, draw()),
        (None, _) => return sampled(service, draw()),
    };
    let bucket = rule.key.bucket(id);
    let version = service.split.version_of(bucket);
    Assignment { version, reason: Reason::Sticky, bucket: Some(bucket), hand_out: None }
}

/// While the canary drains, no draw takes anybody there.
fn sampled(service: &ServiceTable, draw: u64) -> Assignment {
    let bucket = Bucket::from_bits(draw);
    let version = if service.draining { service.stable } else { service.split.version_of(bucket) };
    Assignment { version, reason: Reason::Sampled, bucket: Some(bucket), hand_out: None }
}

/// A client without an id gets one. While the canary drains it is one of stable's, so that the client stays there; where
/// none is found soon (the canary has nearly all buckets), the client goes to stable without one.
fn newcomer(service: &ServiceTable, rule: &StickyRule, draw: u64) -> Assignment {
    let ids = (0..=IDS_TRIED_MAX).map(|nth| StickyId(draw.wrapping_add(nth)));
    let place = |id: StickyId| (id, rule.key.bucket(id));
    let wanted =
        |&(_, bucket): &(StickyId, Bucket)| !service.draining || service.split.version_of(bucket) == service.stable;
    match ids.map(place).find(wanted) {
        Some((id, bucket)) => {
            let version = service.split.version_of(bucket);
            Assignment { version, reason: Reason::Sticky, bucket: Some(bucket), hand_out: Some(id) }
        }
        None => Assignment { version: service.stable, reason: Reason::Sticky, bucket: None, hand_out: None },
    }
}

/// `always` and `never` mean canary and stable; any other word means the version of that name, if there is one.
fn target_of(service: &ServiceTable, word: &str) -> Option<CohortTarget> {
    match word {
        "always" => Some(CohortTarget::Canary),
        "never" => Some(CohortTarget::Stable),
        name => {
            let named = service.versions.iter().find(|version| version.name.as_str() == name)?;
            Some(CohortTarget::Version(named.name.clone()))
        }
    }
}

/// Only stable and canary serve. After an abort there is no canary, so everything means stable.
fn place_of(service: &ServiceTable, target: &CohortTarget) -> usize {
    let canary = match target {
        CohortTarget::Canary => service.canary,
        CohortTarget::Stable => None,
        CohortTarget::Version(name) => service.canary.filter(|&canary| service.versions[canary].name == *name),
    };
    canary.unwrap_or(service.stable)
}

#[cfg(test)]
mod tests;

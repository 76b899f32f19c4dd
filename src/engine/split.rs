//! Which version serves a request: the order of precedence, and the exact split.
//! Chance comes in as an argument; nothing here remembers a request.

use super::{sticky, table::ServiceTable, weight::Weight};

/// Buckets in all: one for each part of a weight.
pub const BUCKETS: u32 = Weight::FULL.ppm();

/// A place in `0..BUCKETS`. A request whose bucket is under the canary's weight goes to the canary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bucket(u32);

impl Bucket {
    /// Maps 64 evenly spread bits to a bucket by multiply and shift: no modulo, and a bias under 2⁻⁴⁴
    /// (Lemire, "Fast Random Integer Generation in an Interval", 2019).
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "the product's upper half is under BUCKETS")]
    pub const fn from_bits(bits: u64) -> Self {
        Self(((bits as u128 * BUCKETS as u128) >> 64) as u32)
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
    /// By the bucket of the client's cookie. Evidence for thresholds.
    Sticky,
    /// By the force header. No evidence.
    Forced,
}

impl Reason {
    /// All reasons, in the order of their labels.
    pub const ALL: [Self; 3] = [Self::Sampled, Self::Sticky, Self::Forced];

    /// The word for labels and logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Sampled => "sampled",
            Self::Sticky => "sticky",
            Self::Forced => "forced",
        }
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

/// What a request brings to the choice of its version.
#[derive(Debug, Clone, Copy, Default)]
pub struct Claims<'r> {
    /// The value of the service's force header.
    pub force: Option<&'r str>,
    /// The id in the service's sticky cookie, if it was a valid one.
    pub sticky: Option<sticky::StickyId>,
}

/// Where a request goes, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Assignment {
    /// Index into the service's versions.
    pub version: usize,
    /// What decided.
    pub reason: Reason,
    /// A new client's id, to be handed out as a cookie.
    pub hand_out: Option<sticky::StickyId>,
}

/// Chooses a version: force header, then sticky bucket, then a fresh independent draw.
///
/// `draw` gives 64 random bits and is called at most once.
pub fn assign(service: &ServiceTable, claims: Claims<'_>, draw: impl FnOnce() -> u64) -> Assignment {
    if let Some(version) = claims.force.and_then(|value| forced(service, value)) {
        return Assignment { version, reason: Reason::Forced, hand_out: None };
    }
    let Some(rule) = &service.sticky else {
        let version = service.split.version_of(Bucket::from_bits(draw()));
        return Assignment { version, reason: Reason::Sampled, hand_out: None };
    };
    let (id, hand_out) = if let Some(id) = claims.sticky {
        (id, None)
    } else {
        let fresh = sticky::StickyId(draw());
        (fresh, Some(fresh))
    };
    let version = service.split.version_of(rule.key.bucket(id));
    Assignment { version, reason: Reason::Sticky, hand_out }
}

/// `always` and `never` mean canary and stable; a version's name means that version, if it is stable or canary now.
/// After an abort there is no canary, so all of them mean stable. Any other value is no claim.
fn forced(service: &ServiceTable, value: &str) -> Option<usize> {
    match value {
        "always" => Some(service.canary.unwrap_or(service.stable)),
        "never" => Some(service.stable),
        name => {
            let named = service.versions.iter().position(|version| version.name.as_str() == name)?;
            Some(if Some(named) == service.canary { named } else { service.stable })
        }
    }
}

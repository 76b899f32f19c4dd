//! Health checks and ejections as other tools write them, value by value. What is out of our range is moved into it and
//! said; what is not written is left to our defaults, unless the other tool's own are far from them.

use std::{ops::RangeInclusive, time::Duration};

use super::{
    backend::Backend,
    ledger::Ledger,
    manifest::Item,
    value::{go_duration, percent_ppm, scalar, shown, whole, within},
};
use crate::engine::weight::Weight;

const INTERVAL: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_hours(1);
const TIMEOUT_MIN: Duration = Duration::from_millis(10);
/// The interval where none is written.
const USUAL: Duration = Duration::from_secs(2);
const COUNT_MAX: u64 = 1_000;

/// What is watched of a version's endpoints.
#[derive(Debug, Default)]
pub(super) struct Watch {
    pub(super) health: Option<Health>,
    pub(super) ejection: Option<Ejection>,
}

/// `health`.
#[derive(Debug, Default)]
pub(super) struct Health {
    pub(super) path: Option<String>,
    pub(super) interval: Option<Duration>,
    pub(super) timeout: Option<Duration>,
    pub(super) healthy: Option<u64>,
    pub(super) unhealthy: Option<u64>,
}

/// `ejection`.
#[derive(Debug, Default)]
pub(super) struct Ejection {
    pub(super) errors: Option<u64>,
    pub(super) base: Option<Duration>,
    pub(super) max_share: Option<Weight>,
}

impl Watch {
    /// Puts them into a version; `item` is what is taken back should it not have them after all.
    pub(super) fn apply(&self, backend: &mut Backend, item: &Item, ledger: &mut Ledger) {
        let health = self.health.as_ref().map(|health| ("health", health.text()));
        let ejection = self.ejection.as_ref().map(|ejection| ("ejection", ejection.text()));
        for (field, text) in health.into_iter().chain(ejection) {
            if let Err(why) = backend.set(field, text) {
                ledger.retracted(item, &why);
            }
        }
    }
}

impl Health {
    fn text(&self) -> String {
        // The other tool's own default may be longer.
        let timeout = self.timeout.map(|timeout| timeout.min(self.interval.unwrap_or(USUAL)));
        let path = self.path.iter().map(|path| format!("path: {}", scalar(path)));
        let times = [("interval", self.interval), ("timeout", timeout)];
        let times = times.iter().filter_map(|(name, time)| Some(format!("{name}: {}", shown((*time)?))));
        let counts = [("healthy", self.healthy), ("unhealthy", self.unhealthy)];
        let counts = counts.iter().filter_map(|(name, count)| Some(format!("{name}: {}", (*count)?)));
        mapping(path.chain(times).chain(counts))
    }
}

impl Ejection {
    fn text(&self) -> String {
        let errors = self.errors.map(|errors| format!("consecutiveErrors: {errors}"));
        let base = self.base.map(|base| format!("base: {}", shown(base)));
        let share = self.max_share.map(|share| format!("maxShare: {share}"));
        mapping([errors, base, share].into_iter().flatten())
    }
}

fn mapping(fields: impl Iterator<Item = String>) -> String {
    let fields = fields.collect::<Vec<_>>().join(", ");
    if fields.is_empty() { "{}".to_owned() } else { format!("{{ {fields} }}") }
}

/// A time between two checks, or of an ejection.
pub(super) fn interval(
    item: Option<&Item>,
    read: impl Fn(&Item) -> Option<Duration>,
    field: &str,
    ledger: &mut Ledger,
) -> Option<Duration> {
    time(item?, read, (field, &INTERVAL), ledger)
}

/// How long a check may take: no longer than the time between two.
pub(super) fn timeout(
    item: Option<&Item>,
    read: impl Fn(&Item) -> Option<Duration>,
    interval: Option<Duration>,
    ledger: &mut Ledger,
) -> Option<Duration> {
    time(item?, read, ("health.timeout", &(TIMEOUT_MIN..=interval.unwrap_or(USUAL))), ledger)
}

fn time(
    item: &Item,
    read: impl Fn(&Item) -> Option<Duration>,
    (field, range): (&str, &RangeInclusive<Duration>),
    ledger: &mut Ledger,
) -> Option<Duration> {
    let Some(written) = read(item) else {
        ledger.dropped(item, "not a duration");
        return None;
    };
    let (time, is_moved) = within(written, range);
    if is_moved {
        ledger.approximated(item, format!("`{field}` of {}, the nearest that is possible", shown(time)));
    } else {
        ledger.kept(item, format!("`{field}`"));
    }
    Some(time)
}

/// So many in a row.
pub(super) fn count(item: Option<&Item>, field: &str, ledger: &mut Ledger) -> Option<u64> {
    let item = item?;
    let count = whole(item).filter(|count| (1..=COUNT_MAX).contains(count));
    match count {
        Some(_) => ledger.kept(item, format!("`{field}`")),
        None => ledger.dropped(item, format!("not from 1 to {COUNT_MAX}; our own default is in force")),
    }
    count
}

/// The path of a check.
pub(super) fn path(item: Option<&Item>, ledger: &mut Ledger) -> Option<String> {
    let item = item?;
    let path = item.text().filter(|path| path.starts_with('/') && path.parse::<http::uri::PathAndQuery>().is_ok());
    match path {
        Some(_) => ledger.kept(item, "`health.path`"),
        None => ledger.dropped(item, "not a path; a connection is enough for the check"),
    }
    path.map(str::to_owned)
}

/// A share in percent, above 0.
pub(super) fn share(item: Option<&Item>, field: &str, ledger: &mut Ledger) -> Option<Weight> {
    let item = item?;
    let ppm = item.text().and_then(percent_ppm).filter(|ppm| *ppm > 0);
    let share = ppm.and_then(|ppm| Weight::from_ppm(ppm).ok());
    match share {
        Some(_) => ledger.kept(item, format!("`{field}`")),
        None => ledger.dropped(item, "not a share above 0%; our own default is in force"),
    }
    share
}

/// Whole seconds.
pub(super) fn seconds(item: &Item) -> Option<Duration> {
    whole(item).map(Duration::from_secs)
}

/// As Go writes them.
pub(super) fn by_go(item: &Item) -> Option<Duration> {
    item.text().and_then(go_duration)
}

/// As Go writes them, or whole seconds.
pub(super) fn seconds_or_go(item: &Item) -> Option<Duration> {
    seconds(item).or_else(|| by_go(item))
}

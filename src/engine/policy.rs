//! What a strategy says beside its steps and its guard: when weight may rise, how a canary leaves, what is kept for a
//! way back. Everything here is already valid; nothing here looks at traffic.

use std::time::Duration;

use jiff::{civil, tz::TimeZone};

use super::{time::Timestamp, weight::Weight};

/// How long an old version is kept before it may be stopped, where nothing is written.
pub const SCALE_DOWN_DELAY: Duration = Duration::from_secs(30);
/// How long what lives long may go on at a version that serves no longer, where nothing is written.
pub const DRAIN_TIMEOUT: Duration = Duration::from_secs(30);
/// How many earlier stables can be gone back to at once, where nothing is written.
pub const ROLLBACK_WINDOW: usize = 3;

/// The rules of a strategy that are no steps.
#[derive(Debug, Clone, PartialEq)]
pub struct Policy {
    /// When the canary's weight may rise; always, when empty.
    pub windows: Vec<RiseWindow>,
    /// How long an abort takes to bring the canary's weight to nothing; zero is at once.
    pub abort_ramp: Duration,
    /// How long upgraded connections and streams of a version go on after it has lost its part.
    pub drain_timeout: Duration,
    /// What an abort waits for before it takes weight from the canary; nothing without.
    pub capacity_guard: Option<CapacityGuard>,
    /// After a promotion: when the version that serves no longer may be stopped.
    pub scale_down_delay: Duration,
    /// After an abort the same of the canary; none: never, so that somebody can look at it.
    pub abort_scale_down_delay: Option<Duration>,
    /// Weight rises only once this share of the canary's endpoints passed their health check, and one in any case.
    pub min_healthy: Weight,
    /// How many earlier stables `undo` may go back to at once; older ones take an ordinary rollout.
    pub rollback_window: usize,
    /// What must be proven for a hold to end early; absent when holds last as long as they say.
    pub promote_early: Option<EarlyPromotion>,
    /// Most rollouts of this process that go on at the same time, this one included; zero is no limit.
    pub concurrent: usize,
}

/// `abort.capacityGuard`: stable may have been scaled down while the canary had most of the traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CapacityGuard {
    /// This share of stable's endpoints must not be known to be bad.
    pub min_healthy: Weight,
    /// The weight goes back after so long in any case.
    pub deadline: Duration,
}

impl Default for CapacityGuard {
    fn default() -> Self {
        let min_healthy = Weight::from_ppm(500_000).unwrap_or(Weight::FULL);
        Self { min_healthy, deadline: Duration::from_secs(10) }
    }
}

/// `promoteEarly`: how sure one must be, and of what.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EarlyPromotion {
    /// Bound on the probability that a canary beyond the margin ends a hold early, for each step.
    pub alpha: f64,
    /// Failed requests more than stable's, as a share of all traffic at the next weight: the margin of a step is this over
    /// that weight.
    pub blast_radius: f64,
}

impl Default for EarlyPromotion {
    fn default() -> Self {
        Self { alpha: 0.05, blast_radius: 0.001 }
    }
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            windows: Vec::new(),
            abort_ramp: Duration::ZERO,
            drain_timeout: DRAIN_TIMEOUT,
            capacity_guard: None,
            scale_down_delay: SCALE_DOWN_DELAY,
            abort_scale_down_delay: Some(SCALE_DOWN_DELAY),
            min_healthy: Weight::ZERO,
            rollback_window: ROLLBACK_WINDOW,
            promote_early: None,
            concurrent: 0,
        }
    }
}

impl Policy {
    /// Whether weight may rise at this time.
    #[must_use]
    pub fn may_rise(&self, now: Timestamp) -> bool {
        self.windows.is_empty() || self.windows.iter().any(|window| window.is_open(now))
    }

    /// When weight may rise next; none when there are no windows, or when none will ever open.
    #[must_use]
    pub fn opens(&self, now: Timestamp) -> Option<Timestamp> {
        self.windows.iter().filter_map(|window| window.opens(now)).min()
    }
}

/// `{ days, from, to, zone }`: from `from` until just before `to`, on the days on which it opens. A `to` that is not
/// after `from` is that of the next day.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RiseWindow {
    /// On which days it opens, Monday first.
    pub days: [bool; 7],
    /// Minute of the day at which it opens, in `0..1440`.
    pub from: u16,
    /// Minute of the day at which it closes, in `1..=1440`.
    pub to: u16,
    /// Whose days and hours these are.
    pub zone: TimeZone,
}

impl RiseWindow {
    /// Whether it is open at this time.
    #[must_use]
    pub fn is_open(&self, now: Timestamp) -> bool {
        self.around(now, -1..=0).any(|(opens, closes)| opens <= now && now < closes)
    }

    /// When it opens next, after this time.
    #[must_use]
    pub fn opens(&self, now: Timestamp) -> Option<Timestamp> {
        // A time that a change to summer time skips can make one week's opening fall away, not two in a row.
        self.around(now, 0..=15).map(|(opens, _)| opens).find(|opens| *opens > now)
    }

    /// Opening and closing times on the days around a time.
    fn around(
        &self,
        now: Timestamp,
        days: std::ops::RangeInclusive<i64>,
    ) -> impl Iterator<Item = (Timestamp, Timestamp)> + '_ {
        let today = i64::try_from(now.as_millis())
            .ok()
            .and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok())
            .map(|at| self.zone.to_datetime(at).date());
        days.filter_map(move |day| {
            let date = today?.checked_add(jiff::Span::new().days(day)).ok()?;
            let monday_first = usize::try_from(date.weekday().to_monday_zero_offset()).ok()?;
            if !*self.days.get(monday_first)? {
                return None;
            }
            let closing = if self.to > self.from { date } else { date.tomorrow().ok()? };
            Some((self.at(date, self.from)?, self.at(closing, self.to)?))
        })
    }

    fn at(&self, date: civil::Date, minute: u16) -> Option<Timestamp> {
        let (date, minute) = if minute >= 1440 { (date.tomorrow().ok()?, minute - 1440) } else { (date, minute) };
        let (hour, minute) = (i8::try_from(minute / 60).ok()?, i8::try_from(minute % 60).ok()?);
        let instant = self.zone.to_timestamp(date.at(hour, minute, 0, 0)).ok()?;
        u64::try_from(instant.as_millisecond()).ok().map(Timestamp::from_millis)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        let instant: jiff::Timestamp = text.parse().unwrap();
        Timestamp::from_millis(u64::try_from(instant.as_millisecond()).unwrap())
    }

    fn window(days: [bool; 7], from: u16, to: u16) -> RiseWindow {
        RiseWindow { days, from, to, zone: TimeZone::get("Europe/Berlin").unwrap() }
    }

    const WORKING: [bool; 7] = [true, true, true, true, false, false, false];

    #[test]
    fn a_window_is_open_from_its_first_minute_until_just_before_its_last_in_its_own_zone() {
        let office = window(WORKING, 9 * 60, 16 * 60);
        // 2026-09-21 is a Monday; Berlin is two hours ahead of UTC then.
        for (time, open) in [
            ("2026-09-21T06:59:59.999Z", false),
            ("2026-09-21T07:00:00Z", true),
            ("2026-09-21T13:59:59.999Z", true),
            ("2026-09-21T14:00:00Z", false),
            ("2026-09-25T10:00:00Z", false),
            // In winter it is one hour.
            ("2026-12-07T07:30:00Z", false),
            ("2026-12-07T08:00:00Z", true),
        ] {
            assert_eq!(office.is_open(at(time)), open, "{time}");
        }
    }

    #[test]
    fn the_next_opening_is_after_the_weekend_and_after_the_present_one() {
        let office = window(WORKING, 9 * 60, 16 * 60);
        assert_eq!(office.opens(at("2026-09-24T15:00:00Z")), Some(at("2026-09-28T07:00:00Z")));
        assert_eq!(office.opens(at("2026-09-21T07:00:00Z")), Some(at("2026-09-22T07:00:00Z")));
        assert_eq!(window([false; 7], 0, 60).opens(at("2026-09-21T07:00:00Z")), None);
    }

    #[test]
    fn a_window_over_midnight_belongs_to_the_day_on_which_it_opens() {
        let night = window([false, false, false, false, true, false, false], 22 * 60, 6 * 60);
        assert!(night.is_open(at("2026-09-25T20:00:00Z")));
        assert!(night.is_open(at("2026-09-26T03:59:00Z")));
        assert!(!night.is_open(at("2026-09-26T20:00:00Z")));
    }

    #[test]
    fn a_whole_day_ends_with_the_next() {
        let all = window([true; 7], 0, 1440);
        assert!(all.is_open(at("2026-09-25T21:59:59Z")));
        // The night in which summer time ends has an hour more, and it is open in all of it.
        for time in ["2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z", "2026-10-25T22:59:00Z"] {
            assert!(all.is_open(at(time)), "{time}");
        }
    }

    #[test]
    fn without_windows_weight_may_rise_at_any_time() {
        assert!(Policy::default().may_rise(at("2026-09-26T03:00:00Z")));
        assert_eq!(Policy::default().opens(at("2026-09-26T03:00:00Z")), None);
    }
}

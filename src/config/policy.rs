//! The rules of a strategy that are no steps: windows, abort, bake, what is kept for a way back.
//! Refuses windows that never open and zones that nobody knows.

use std::{ops::RangeInclusive, time::Duration};

use jiff::tz::TimeZone;

use super::{
    diagnostic::Code,
    report::{At, Fields, Problem, Report},
    shape,
    yaml::Value,
};
use crate::engine::{
    plan::{Pause, Step},
    policy::{CapacityGuard, EarlyPromotion, Policy, RiseWindow},
    weight::Weight,
};

/// Most windows of a strategy.
pub const WINDOWS_MAX: usize = 32;

const MIN_HEALTHY_NONE: &str = "`minHealthy` of 0% waits for nothing";
/// What one may be waited for after a change of versions.
const DELAY: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_hours(7 * 24);
const RAMP: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_hours(1);
/// How long a canary that is to go may be kept: users meet it meanwhile.
const GUARD_DEADLINE: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_mins(10);
const BAKE: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_hours(30 * 24);
/// What stays on stable during a bake, where nothing is written: enough to compare with.
const BAKE_WEIGHT: u32 = 990_000;

/// The rules of `strategy.canary`, and the steps of its bake.
pub fn policy(canary: &Fields<'_>, report: &mut Report) -> Option<(Policy, Vec<Step>)> {
    let defaults = Policy::default();
    let windows = canary.get("windows").map_or(Some(Vec::new()), |at| windows(&at, report));
    let delay = canary.get("scaleDownDelay").map_or(Some(defaults.scale_down_delay), |at| report.duration(&at, DELAY));
    // A canary that was given up leaves as the old version does, where nothing else is written.
    let left = Policy { abort_scale_down_delay: delay, ..defaults.clone() };
    let abort = canary.get("abort").map_or(Some(left.clone()), |at| abort(&at, left, report));
    let min_healthy = canary.get("minHealthy").map_or(Some(defaults.min_healthy), |at| min_healthy(&at, report));
    let drain = canary.get("drainTimeout").map_or(Some(defaults.drain_timeout), |at| report.duration(&at, DELAY));
    let rollback = canary.get("rollbackWindow").map_or(Some(defaults.rollback_window), |at| rollback(&at, report));
    let bake = canary.get("bake").map_or(Some(Vec::new()), |at| bake(&at, report));
    let early = canary.get("promoteEarly").map_or(Ok(None), |at| promote_early(&at, report));
    let policy = Policy {
        promote_early: early.ok()?,
        windows: windows?,
        drain_timeout: drain?,
        scale_down_delay: delay?,
        rollback_window: rollback?,
        min_healthy: min_healthy?,
        ..abort?
    };
    Some((policy, bake?))
}

/// How long an old version is kept, in seconds as Argo Rollouts writes it.
pub fn delay_seconds(at: &At<'_>, report: &mut Report) -> Option<Duration> {
    report.whole(at, 0..=DELAY.end().as_secs()).map(Duration::from_secs)
}

/// The same of a canary that was given up: 0 is never, as in Argo Rollouts.
pub fn abort_delay_seconds(at: &At<'_>, report: &mut Report) -> Result<Option<Duration>, Refused> {
    delay_seconds(at, report).map(|delay| Some(delay).filter(|delay| !delay.is_zero())).ok_or(Refused)
}

/// Something is wrong, and reported.
pub struct Refused;

/// What must be proven for a hold to end early; none when `off`.
fn promote_early(at: &At<'_>, report: &mut Report) -> Result<Option<EarlyPromotion>, Refused> {
    let base = EarlyPromotion::default();
    if let Value::Scalar(_) = at.node.value {
        let on = Some(base);
        return report.word(at, &[("off", None), ("false", None), ("on", on), ("true", on)]).ok_or(Refused);
    }
    let fields = report.fields(at, &shape::PROMOTE_EARLY).ok_or(Refused)?;
    let alpha = fields.get("alpha").map_or(Some(base.alpha), |at| risk(&at, 0.5, report));
    let blast_radius = fields.get("blastRadius").map_or(Some(base.blast_radius), |at| risk(&at, 1.0, report));
    match (alpha, blast_radius) {
        (Some(alpha), Some(blast_radius)) => Ok(Some(EarlyPromotion { alpha, blast_radius })),
        _ => Err(Refused),
    }
}

fn risk(at: &At<'_>, max: f64, report: &mut Report) -> Option<f64> {
    let share = report.share(at)?.ratio();
    if share > 0.0 && share <= max {
        return Some(share);
    }
    report
        .error(Code::BadValue, &at.span(), format!("`{}` must be above 0% and at most {}%", at.name, max * 100.0))
        .help("nothing can be proven without any risk of being wrong, or of doing harm");
    None
}

fn rollback(at: &At<'_>, report: &mut Report) -> Option<usize> {
    report.whole(at, 0..=16).and_then(|window| usize::try_from(window).ok())
}

/// How long an abort takes, what it waits for before, and when the canary may be stopped after it; all else is as in `usual`.
fn abort(at: &At<'_>, usual: Policy, report: &mut Report) -> Option<Policy> {
    let fields = report.fields(at, &shape::ABORT)?;
    let abort_ramp = fields.get("ramp").map_or(Some(Duration::ZERO), |at| report.duration(&at, RAMP));
    let guard = fields.get("capacityGuard").map(|at| capacity_guard(&at, report));
    let delay = fields.get("scaleDownDelay").map_or(Ok(usual.abort_scale_down_delay), |at| stop_after(&at, report));
    Some(Policy {
        abort_ramp: abort_ramp?,
        capacity_guard: guard.map_or(Some(None), |guard| guard.map(Some))?,
        abort_scale_down_delay: delay.ok()?,
        ..usual
    })
}

/// A delay, or `never`.
fn stop_after(at: &At<'_>, report: &mut Report) -> Result<Option<Duration>, Refused> {
    match at.text() {
        Some("never") => return Ok(None),
        Some(text) if !text.starts_with(|first: char| first.is_ascii_digit()) => {
            report
                .error(Code::BadValue, &at.span(), format!("`{}` is neither a duration nor `never`", at.name))
                .help("write, say, `10m`, or `never`");
            return Err(Refused);
        }
        _ => {}
    }
    report.duration(at, DELAY).map(Some).ok_or(Refused)
}

fn min_healthy(at: &At<'_>, report: &mut Report) -> Option<Weight> {
    let help = "write, say, `minHealthy: 50%`, or remove it: then one address that is well is enough";
    report.share_of_some(at, MIN_HEALTHY_NONE, help)
}

fn capacity_guard(at: &At<'_>, report: &mut Report) -> Option<CapacityGuard> {
    let fields = report.fields(at, &shape::CAPACITY_GUARD)?;
    let usual = CapacityGuard::default();
    let help = "write, say, `minHealthy: 50%`, or remove `capacityGuard`";
    let min_healthy = fields
        .get("minHealthy")
        .map_or(Some(usual.min_healthy), |at| report.share_of_some(&at, MIN_HEALTHY_NONE, help));
    let deadline = fields.get("deadline").map_or(Some(usual.deadline), |at| report.duration(&at, GUARD_DEADLINE));
    Some(CapacityGuard { min_healthy: min_healthy?, deadline: deadline? })
}

fn bake(at: &At<'_>, report: &mut Report) -> Option<Vec<Step>> {
    let fields = report.fields(at, &shape::BAKE)?;
    let duration = fields.need(report, "duration", "say how long: `bake: { duration: 10m }`");
    let duration = duration.and_then(|at| report.duration(&at, BAKE));
    let weight = fields.get("weight").map_or(Weight::from_ppm(BAKE_WEIGHT).ok(), |at| {
        let help = "write, say, `weight: 99%`: what is left stays on stable, to compare with";
        report.share_of_some(&at, "a bake at 0% watches nothing", help)
    });
    Some(vec![Step::SetWeight(weight?), Step::Pause(Pause::Bake(duration?))])
}

fn windows(at: &At<'_>, report: &mut Report) -> Option<Vec<RiseWindow>> {
    let items = report.items(at, WINDOWS_MAX)?;
    if items.is_empty() {
        report
            .error(Code::BadValue, &at.span(), "with no window, weight may never rise")
            .help("add one, or remove `windows`: then weight may rise at any time");
    }
    let read: Vec<RiseWindow> = items.iter().filter_map(|at| window(at, report)).collect();
    (read.len() == items.len()).then_some(read)
}

fn window(at: &At<'_>, report: &mut Report) -> Option<RiseWindow> {
    let fields = report.fields(at, &shape::WINDOW)?;
    let days = fields.get("days").map_or(Some([true; 7]), |at| days(&at, report));
    let help = "write both ends: `{ from: \"09:00\", to: \"16:00\" }`";
    let from = fields.need(report, "from", help).and_then(|at| minute(&at, report));
    let to_at = fields.need(report, "to", help);
    let to = to_at.as_ref().and_then(|at| minute(at, report));
    if let (Some(from), Some(to), Some(at)) = (from, to, &to_at)
        && from == to
    {
        report
            .error(Code::BadValue, &at.span(), "a window that opens and closes at the same minute never opens")
            .help("for a whole day write `from: \"00:00\", to: \"24:00\"`");
        return None;
    }
    let zone = fields.get("zone").map_or(Some(TimeZone::UTC), |at| zone(&at, report));
    // Midnight at the end of a day is 24:00, at its beginning 00:00.
    let to = to.map(|to| if to == 0 { 1440 } else { to });
    let from = from.filter(|from| *from < 1440);
    Some(RiseWindow { days: days?, from: from?, to: to?, zone: zone? })
}

fn days(at: &At<'_>, report: &mut Report) -> Option<[bool; 7]> {
    const DAYS: [(&str, usize); 7] =
        [("mon", 0), ("tue", 1), ("wed", 2), ("thu", 3), ("fri", 4), ("sat", 5), ("sun", 6)];
    let items = report.items(at, 7)?;
    let mut open = [false; 7];
    for item in &items {
        open[report.word(item, &DAYS)?] = true;
    }
    if items.is_empty() {
        report.error(Code::BadValue, &at.span(), "a window without days never opens").help("write, say, `days: [mon]`");
        return None;
    }
    Some(open)
}

/// `"09:00"`: minutes since midnight, `24:00` included.
fn minute(at: &At<'_>, report: &mut Report) -> Option<u16> {
    if let Value::Scalar(scalar) = &at.node.value
        && !scalar.text.contains(':')
    {
        report
            .error(Code::BadValue, &at.span(), format!("`{}` is no time of the day", at.name))
            .help("write hours and minutes, in quotes: `\"09:00\"`");
        return None;
    }
    report.scalar(at, "a time of the day such as `\"09:00\"`", |text| {
        let problem = || Problem::new("is no time of the day", "write hours and minutes, in quotes: `\"09:00\"`");
        let (hours, minutes) = text.split_once(':').ok_or_else(problem)?;
        let number = |text: &str, max: u16| {
            let fine = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
            text.parse::<u16>().ok().filter(|number| fine && *number <= max)
        };
        let (hours, minutes) = number(hours, 24).zip(number(minutes, 59)).ok_or_else(problem)?;
        let minute = hours * 60 + minutes;
        if minute > 1440 { Err(problem()) } else { Ok(minute) }
    })
}

fn zone(at: &At<'_>, report: &mut Report) -> Option<TimeZone> {
    report.scalar(at, "a time zone such as `Europe/Berlin`", |text| {
        let help = "write its name in the tz database, as `Europe/Berlin`, or `UTC`";
        TimeZone::get(text).map_err(|_| Problem::new("is not a time zone that is known", help))
    })
}

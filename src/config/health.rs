//! When an endpoint is left out: `health` asks it, `ejection` looks at what it does with requests.
//! Refuses a check that could never pass or never end, and an ejection that could take nobody out.

use std::{ops::RangeInclusive, sync::Arc, time::Duration};

use super::{
    diagnostic::Code,
    report::{At, Problem, Report},
    scalar::human,
    shape,
};
use crate::engine::upstream::{EjectionPlan, HealthPlan};

const INTERVAL: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_hours(1);
const TIMEOUT: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_hours(1);
const BASE: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_hours(1);
/// Answers in a row that anybody could want.
const IN_A_ROW: RangeInclusive<u64> = 1..=1_000;

/// `health: { path, interval, timeout, healthy, unhealthy }`.
pub fn health(at: &At<'_>, report: &mut Report) -> Option<HealthPlan> {
    let fields = report.fields(at, &shape::HEALTH)?;
    let base = HealthPlan::default();
    let path = fields.get("path").map(|at| report.scalar(&at, "a path such as `/healthz`", path));
    let interval = fields.get("interval").map_or(Some(base.interval), |at| report.duration(&at, INTERVAL));
    let timeout_at = fields.get("timeout");
    // Where only the interval is written, it bounds what is not.
    let usual = base.timeout.min(interval.unwrap_or(base.interval));
    let timeout = timeout_at.as_ref().map_or(Some(usual), |at| report.duration(at, TIMEOUT));
    let healthy = fields.get("healthy").map_or(Some(base.healthy), |at| in_a_row(&at, report));
    let unhealthy = fields.get("unhealthy").map_or(Some(base.unhealthy), |at| in_a_row(&at, report));
    if let (Some(interval), Some(timeout), Some(at)) = (interval, timeout, &timeout_at)
        && timeout > interval
    {
        let (timeout, interval) = (human(timeout), human(interval));
        report
            .error(Code::Conflict, &at.span(), format!("`timeout` is {timeout}, longer than the `interval` of {interval}"))
            .help("an endpoint that does not answer would be asked less often than one that does; make the interval as long");
        return None;
    }
    let path = match path {
        None => None,
        Some(read) => Some(read?),
    };
    Some(HealthPlan { path, interval: interval?, timeout: timeout?, healthy: healthy?, unhealthy: unhealthy? })
}

/// `ejection: { consecutiveErrors, base, maxShare }`.
pub fn ejection(at: &At<'_>, report: &mut Report) -> Option<EjectionPlan> {
    let fields = report.fields(at, &shape::EJECTION)?;
    let usual = EjectionPlan::default();
    let errors = fields.get("consecutiveErrors").map_or(Some(usual.consecutive_errors), |at| in_a_row(&at, report));
    let base = fields.get("base").map_or(Some(usual.base), |at| report.duration(&at, BASE));
    let max_share = fields.get("maxShare").map_or(Some(usual.max_share), |at| {
        let help = "write, say, `maxShare: 50%`, or remove `ejection`";
        report.share_of_some(&at, "`maxShare` of 0% would leave out nobody", help)
    });
    Some(EjectionPlan { consecutive_errors: errors?, base: base?, max_share: max_share? })
}

fn in_a_row(at: &At<'_>, report: &mut Report) -> Option<u32> {
    report.whole(at, IN_A_ROW).and_then(|count| u32::try_from(count).ok())
}

fn path(text: &str) -> Result<Arc<str>, Problem> {
    let is_path = text.starts_with('/') && text.parse::<http::uri::PathAndQuery>().is_ok();
    let help = "write the path alone, as `/healthz`; the endpoints say where, without `path` a connection is enough";
    if is_path { Ok(text.into()) } else { Err(Problem::new("is no path", help)) }
}

//! What is watched all the time: thresholds, the share test, errors in a row; nothing when `off`.
//! Refuses limits that nothing could ever pass.

use std::{ops::RangeInclusive, time::Duration};

use super::{
    diagnostic::Code,
    report::{At, Problem, Report},
    shape,
    yaml::Value,
};
use crate::engine::{
    plan::{ErrorRateLimit, Guard, LatencyLimit, LatencyTolerance, OnFailure, ShareTestPlan, Warmup},
    weight::Weight,
};

/// Most latency limits of a guard.
pub const LATENCIES_MAX: usize = 16;

const QUANTILES: [(&str, f64); 6] =
    [("p50", 0.5), ("p75", 0.75), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99), ("p999", 0.999)];
const LATENCY: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_hours(1);
const WINDOW: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_hours(1);
const REQUESTS: RangeInclusive<u64> = 1..=1_000_000_000;

const ERROR_WINDOW: Duration = Duration::from_secs(10);
const ERROR_REQUESTS: u64 = 50;
const LATENCY_WINDOW: Duration = Duration::from_secs(30);
const LATENCY_REQUESTS: u64 = 200;

/// `abortWhen: { errorRate: 2%, p99: 800ms }`.
pub fn abort_when(at: &At<'_>, report: &mut Report) -> Option<Guard> {
    let fields = report.fields(at, &shape::ABORT_WHEN)?;
    let error_rate = fields.get("errorRate").map(|at| error_rate(&at, report));
    let mut latency = Vec::new();
    let mut complete = true;
    for (name, quantile) in QUANTILES {
        let Some(at) = fields.get(name) else { continue };
        let max = report.duration(&at, LATENCY);
        complete &= max.is_some();
        let limit = |max| LatencyLimit { quantile, max, window: LATENCY_WINDOW, min_requests: LATENCY_REQUESTS };
        latency.extend(max.map(limit));
    }
    let error_rate = error_rate.map_or(Some(None), |limit| limit.map(Some))?;
    complete.then_some(Guard { error_rate, latency, ..Guard::default() })
}

/// `guard`; nothing is watched when it is `off`.
pub fn guard(at: &At<'_>, report: &mut Report) -> Option<Guard> {
    if !matches!(at.node.value, Value::Map(_)) {
        return off(at, report);
    }
    let fields = report.fields(at, &shape::GUARD)?;
    let base = Guard::default();
    let error_rate = fields.get("errorRate").map(|at| error_rate(&at, report));
    let latency = fields.get("latency").map_or(Some(Vec::new()), |at| latencies(&at, report));
    let share_test = fields.get("versusStable").map_or(Ok(base.share_test), |at| versus_stable(&at, report));
    let consecutive =
        fields.get("consecutiveErrors").map_or(Some(base.consecutive_errors), |at| report.whole(&at, 0..=1_000_000));
    let warmup = fields.get("warmup").map_or(Some(base.warmup), |at| warmup(&at, report));
    let words = [("abort", OnFailure::Abort), ("pause", OnFailure::Pause)];
    let on_failure = fields.get("onFailure").map_or(Some(base.on_failure), |at| report.word(&at, &words));
    Some(Guard {
        error_rate: error_rate.map_or(Some(None), |limit| limit.map(Some))?,
        latency: latency?,
        share_test: share_test.ok()?,
        consecutive_errors: consecutive?,
        warmup: warmup?,
        on_failure: on_failure?,
    })
}

/// `off` and nothing else: who wants the usual guard writes none.
fn off(at: &At<'_>, report: &mut Report) -> Option<Guard> {
    report.scalar(at, "a mapping, or `off`", |text| match text {
        "off" | "false" => {
            Ok(Guard { error_rate: None, latency: Vec::new(), share_test: None, consecutive_errors: 0, ..Guard::default() })
        }
        _ => Err(Problem::new(
            "must be a mapping, or `off`",
            "write limits as `guard: { errorRate: 2% }`, or `guard: off` for none; without `guard` the share test and 20 \
             errors in a row are watched",
        )),
    })
}

fn warmup(at: &At<'_>, report: &mut Report) -> Option<Warmup> {
    let fields = report.fields(at, &shape::WARMUP)?;
    let base = Warmup::default();
    let range = Duration::ZERO..=Duration::from_hours(1);
    let errors = fields.get("errors").map_or(Some(base.errors), |at| report.duration(&at, range.clone()));
    let latency = fields.get("latency").map_or(Some(base.latency), |at| report.duration(&at, range.clone()));
    Some(Warmup { errors: errors?, latency: latency? })
}

/// `2%`, or the mapping with window and minimum.
fn error_rate(at: &At<'_>, report: &mut Report) -> Option<ErrorRateLimit> {
    let (max, window, min_requests) = if let Value::Map(_) = at.node.value {
        let fields = report.fields(at, &shape::ERROR_RATE)?;
        let max = fields.need(report, "max", "say how many errors are too many: `max: 2%`");
        let max = max.and_then(|at| error_share(&at, report));
        let window = fields.get("window").map_or(Some(ERROR_WINDOW), |at| report.duration(&at, WINDOW));
        let min = fields.get("minRequests").map_or(Some(ERROR_REQUESTS), |at| report.whole(&at, REQUESTS));
        (max?, window?, min?)
    } else {
        (error_share(at, report)?, ERROR_WINDOW, ERROR_REQUESTS)
    };
    Some(ErrorRateLimit { max: max.ratio(), window, min_requests })
}

fn error_share(at: &At<'_>, report: &mut Report) -> Option<Weight> {
    let max = report.share(at)?;
    if max < Weight::FULL {
        return Some(max);
    }
    report
        .error(Code::BadValue, &at.span(), format!("`{}` of 100% can never be passed", at.name))
        .help("a breach is above the limit; write less than 100%, or remove it");
    None
}

fn latencies(at: &At<'_>, report: &mut Report) -> Option<Vec<LatencyLimit>> {
    let items = report.items(at, LATENCIES_MAX)?;
    let read: Vec<LatencyLimit> = items.iter().filter_map(|at| latency(at, report)).collect();
    (read.len() == items.len()).then_some(read)
}

fn latency(at: &At<'_>, report: &mut Report) -> Option<LatencyLimit> {
    let fields = report.fields(at, &shape::LATENCY)?;
    let quantile = fields.need(report, "quantile", "say which: `quantile: 0.99`");
    let quantile = quantile.and_then(|at| {
        report.scalar(&at, "a number such as `0.99`", |text| {
            let percent = text.strip_prefix(['p', 'P']).unwrap_or(text).parse::<f64>().ok();
            let percent = percent.filter(|percent| *percent > 1.0 && *percent < 100.0);
            text.parse().ok().filter(|quantile| *quantile > 0.0 && *quantile < 1.0).ok_or_else(|| {
                let fix = percent.map(|percent| format!("`{}`", percent / 100.0));
                Problem::new("must be between 0 and 1", "write a number as `0.99`").fix(fix)
            })
        })
    });
    let max = fields.need(report, "max", "say how slow is too slow: `max: 800ms`");
    let max = max.and_then(|at| report.duration(&at, LATENCY));
    let window = fields.get("window").map_or(Some(LATENCY_WINDOW), |at| report.duration(&at, WINDOW));
    let min = fields.get("minRequests").map_or(Some(LATENCY_REQUESTS), |at| report.whole(&at, REQUESTS));
    Some(LatencyLimit { quantile: quantile?, max: max?, window: window?, min_requests: min? })
}

/// Something is wrong, and reported.
struct Refused;

/// The share test; none when `false` or `off` switches it off.
fn versus_stable(at: &At<'_>, report: &mut Report) -> Result<Option<ShareTestPlan>, Refused> {
    if let Value::Scalar(_) = at.node.value {
        let on = Some(ShareTestPlan::default());
        return report.word(at, &[("off", None), ("false", None), ("on", on), ("true", on)]).ok_or(Refused);
    }
    share_test(at, report).map(Some).ok_or(Refused)
}

fn share_test(at: &At<'_>, report: &mut Report) -> Option<ShareTestPlan> {
    let fields = report.fields(at, &shape::VERSUS_STABLE)?;
    let base = ShareTestPlan::default();
    let alpha = fields.get("alpha").map_or(Some(base.alpha), |at| alpha(&at, report));
    let tolerance = fields.get("errors").map_or(Some((base.relative, base.absolute)), |at| tolerance(&at, report));
    let seconds = fields.get("minBadSeconds").map_or(Some(base.min_bad_seconds), |at| {
        report.whole(&at, 1..=3_600).and_then(|seconds| u32::try_from(seconds).ok())
    });
    let latency = fields.get("latency").map_or(Ok(base.latency), |at| latency_tolerance(&at, report));
    let (relative, absolute) = tolerance?;
    Some(ShareTestPlan { alpha: alpha?, relative, absolute, min_bad_seconds: seconds?, latency: latency.ok()? })
}

/// How much slower the canary may be; none when `off` switches the comparison off.
fn latency_tolerance(at: &At<'_>, report: &mut Report) -> Result<Option<LatencyTolerance>, Refused> {
    let base = LatencyTolerance::default();
    if let Value::Scalar(_) = at.node.value {
        let on = Some(base);
        return report.word(at, &[("off", None), ("false", None), ("on", on), ("true", on)]).ok_or(Refused);
    }
    let fields = report.fields(at, &shape::LATENCY_TOLERANCE).ok_or(Refused)?;
    let share = |at: At<'_>, report: &mut Report| report.share(&at).map(Weight::ratio);
    let relative = fields.get("relative").map_or(Some(base.relative), |at| share(at, report));
    let absolute = fields
        .get("absolute")
        .map_or(Some(base.absolute), |at| report.duration(&at, Duration::ZERO..=Duration::from_mins(1)));
    match (relative, absolute) {
        (Some(relative), Some(absolute)) => Ok(Some(LatencyTolerance { relative, absolute })),
        _ => Err(Refused),
    }
}

fn alpha(at: &At<'_>, report: &mut Report) -> Option<f64> {
    let alpha = report.share(at)?.ratio();
    if alpha > 0.0 && alpha <= 0.5 {
        return Some(alpha);
    }
    report
        .error(Code::BadValue, &at.span(), "`alpha` must be above 0% and at most 50%")
        .help("it bounds how often a good canary is ever reverted; 1% is usual");
    None
}

fn tolerance(at: &At<'_>, report: &mut Report) -> Option<(f64, f64)> {
    let fields = report.fields(at, &shape::TOLERANCE)?;
    let base = ShareTestPlan::default();
    let relative = fields.get("relative").map_or(Some(base.relative), |at| report.number(&at, 1.0));
    let absolute = fields.get("absolute").map_or(Some(base.absolute), |at| {
        report.scalar(&at, "percentage points such as `0.1pp`", |text| {
            let points =
                text.strip_suffix("pp").and_then(|number| format!("{}%", number.trim_end()).parse::<Weight>().ok());
            let fix = text.trim_end_matches('%').parse::<f64>().ok().map(|number| format!("`{number}pp`"));
            points.map(Weight::ratio).ok_or_else(|| {
                Problem::new("is a difference of shares and is written in percentage points", "write it as `0.1pp`")
                    .fix(fix)
            })
        })
    });
    Some((relative?, absolute?))
}

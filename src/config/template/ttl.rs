//! `ttlStrategy`: how long the record of a run stays after its end. Refuses one that says nothing.

use std::time::Duration;

use crate::{
    config::{
        diagnostic::Code,
        report::{At, Report},
        shape,
    },
    engine::analysis::template::TimeToLive,
};

/// Longest time that can be written: a year.
const SECONDS_MAX: u64 = 31_536_000;

pub(super) fn ttl(at: &At<'_>, report: &mut Report) -> TimeToLive {
    let Some(fields) = report.fields(at, &shape::TTL) else { return TimeToLive::default() };
    if shape::TTL.fields.iter().all(|name| fields.get(name).is_none()) {
        report
            .error(Code::MissingField, &at.key_span, "`ttlStrategy` says no time")
            .help("write `ttlStrategy: { secondsAfterCompletion: 86400 }`, or remove it");
    }
    let mut seconds =
        |name: &str| fields.get(name).and_then(|at| report.whole(&at, 0..=SECONDS_MAX)).map(Duration::from_secs);
    TimeToLive {
        after_completion: seconds("secondsAfterCompletion"),
        after_success: seconds("secondsAfterSuccess"),
        after_failure: seconds("secondsAfterFailure"),
    }
}

//! `assign`: who may force a version, which groups have one of their own, and what keeps clients on theirs.
//! Refuses a limit on nothing, cohorts of versions that are not there, and names where none is used.

use std::time::Duration;

use super::{
    diagnostic::Code,
    message,
    report::{At, Problem, Report},
    service, shape,
};
use crate::engine::{
    assign::{Cohort, CohortTarget, ForceRule, ForceSecret},
    names::VersionName,
    plan::StickyPlan,
    sticky::StickyBy,
};

/// Most cohorts of a service, and most values of one.
const COHORTS_MAX: usize = 100;
/// Shortest secret, in characters.
const SECRET_MIN: usize = 12;

/// What `assign` says.
#[derive(Debug, Default)]
pub struct Assign {
    /// Who may force a version.
    pub force: Option<ForceRule>,
    /// Groups.
    pub cohorts: Vec<Cohort>,
    /// What keeps clients on their version.
    pub sticky: Option<StickyPlan>,
}

/// Reads it; `versions` are the names there are, none while they are not known.
pub fn assign(at: &At<'_>, versions: &[&str], report: &mut Report) -> Assign {
    let Some(fields) = report.fields(at, &shape::ASSIGN) else { return Assign::default() };
    let cohorts = fields.get("cohorts").and_then(|at| report.items(&at, COHORTS_MAX)).unwrap_or_default();
    Assign {
        force: fields.get("force").and_then(|at| force(&at, report)),
        cohorts: cohorts.iter().filter_map(|at| cohort(at, versions, report)).collect(),
        sticky: fields.get("sticky").and_then(|at| sticky(&at, report)),
    }
}

fn force(at: &At<'_>, report: &mut Report) -> Option<ForceRule> {
    let fields = report.fields(at, &shape::FORCE)?;
    let header = fields.get("header").map(|at| message::header_name(&at, report));
    let cookie = fields.get("cookie").map(|at| message::token(&at, "a cookie's name", report));
    if header.is_none() && cookie.is_none() {
        report.missing(at, "header", "name the header or the cookie: `force: { header: x-canary }`");
    }
    let from = fields.get("from").map(|at| message::networks(&at, report)).unwrap_or_default();
    let secret = fields.get("secret").and_then(|at| secret(&at, report));
    Some(ForceRule { header: header.flatten(), cookie: cookie.flatten(), from, secret })
}

/// Empty is unset.
fn secret(at: &At<'_>, report: &mut Report) -> Option<ForceSecret> {
    let fine = |b: u8| b.is_ascii_alphanumeric() || b"-._~".contains(&b);
    let text = report.scalar(at, "a secret", |text| {
        if text.is_empty() || ((SECRET_MIN..=256).contains(&text.len()) && text.bytes().all(fine)) {
            return Ok(text.to_owned());
        }
        let help =
            format!("use {SECRET_MIN} to 256 letters, digits, `-`, `.`, `_` or `~`, which fit a header and a cookie");
        Err(Problem::new("is not a possible secret", help))
    })?;
    (!text.is_empty()).then(|| ForceSecret::new(&text))
}

fn cohort(at: &At<'_>, versions: &[&str], report: &mut Report) -> Option<Cohort> {
    let fields = report.fields(at, &shape::COHORT)?;
    let header = fields.need(report, "header", "say which header tells: `header: x-group`");
    let header = header.and_then(|at| message::header_name(&at, report));
    let values = fields.need(report, "values", "say which values are in it: `values: [staff]`");
    let values = values
        .and_then(|at| report.items(&at, COHORTS_MAX))
        .map(|items| items.iter().filter_map(|item| report.filled(item, "a value")).collect::<Vec<String>>());
    let to = fields.need(report, "to", "say where they go: `to: canary`, `to: stable`, or a version's name");
    let to = to.and_then(|at| target(&at, versions, report));
    Some(Cohort { header: header?, values: values?, to: to? })
}

fn target(at: &At<'_>, versions: &[&str], report: &mut Report) -> Option<CohortTarget> {
    let text = report.filled(at, "`canary`, `stable` or the name of a version")?;
    match &*text {
        // A version of that name is meant by it.
        name if versions.contains(&name) => VersionName::new(name).ok().map(CohortTarget::Version),
        "canary" => Some(CohortTarget::Canary),
        "stable" => Some(CohortTarget::Stable),
        _ => {
            if !versions.is_empty() {
                service::unknown(at, "version", versions.iter().copied(), report);
            }
            None
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum By {
    Cookie,
    Header,
    Query,
    ClientIp,
}

fn sticky(at: &At<'_>, report: &mut Report) -> Option<StickyPlan> {
    let fields = report.fields(at, &shape::STICKY)?;
    let words = [("cookie", By::Cookie), ("header", By::Header), ("query", By::Query), ("clientIp", By::ClientIp)];
    let by_at = fields.need(report, "by", "say by what: `sticky: { by: cookie }`");
    let by = by_at.as_ref().and_then(|at| report.word(at, &words));
    let name = fields.get("name");
    let ttl = fields.get("ttl");
    if let (Some(by), Some(at)) = (by, &ttl)
        && by != By::Cookie
    {
        report.error(Code::Conflict, &at.key_span, "`ttl` is for cookies").help("remove it, or say `by: cookie`");
    }
    let ttl = ttl.map(|at| report.duration(&at, Duration::from_secs(1)..=Duration::from_hours(366 * 24)));
    let by = match by? {
        By::Cookie => StickyBy::Cookie(match name {
            Some(at) => message::token(&at, "a cookie's name", report)?,
            None => "serin".to_owned(),
        }),
        By::Header => {
            let at = name_of(name, at, "the header: `sticky: { by: header, name: x-user }`", report)?;
            StickyBy::Header(message::header_name(&at, report)?)
        }
        By::Query => {
            let at = name_of(name, at, "the parameter: `sticky: { by: query, name: user }`", report)?;
            StickyBy::Query(report.filled(&at, "the name of a parameter")?)
        }
        By::ClientIp => {
            if let Some(at) = name {
                report.error(Code::Conflict, &at.key_span, "an address has no name").help("remove `name`");
            }
            StickyBy::ClientIp
        }
    };
    Some(StickyPlan { by, ttl: ttl.flatten() })
}

fn name_of<'a>(name: Option<At<'a>>, sticky: &At<'_>, help: &str, report: &mut Report) -> Option<At<'a>> {
    if name.is_none() {
        report.missing(sticky, "name", format!("name {help}"));
    }
    name
}

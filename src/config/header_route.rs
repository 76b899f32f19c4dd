//! Header routes of a rollout: `setHeaderRoute` steps, and the preview of blue-green.
//! Refuses a route without a name and a value that is compared in two ways.

use std::sync::Arc;

use http::HeaderName;

use super::{
    diagnostic::Code,
    report::{At, Fields, Problem, Report},
    service, shape,
};
use crate::engine::{
    assign::HeaderRoute,
    plan::Step,
    request::{HeaderMatch, Pattern, StringMatch},
};

/// Most conditions of a route.
const MATCHES_MAX: usize = 32;
/// Longest pattern.
const PATTERN_BYTES_MAX: usize = 1_024;
/// The route of a preview.
const PREVIEW: &str = "preview";

/// `{ name, match: [ … ] }`, where any one is enough, or `{ name, all: [ … ] }`; with neither it is removed.
pub fn step(at: &At<'_>, report: &mut Report) -> Option<Step> {
    let fields = report.fields(at, &shape::HEADER_ROUTE)?;
    let help = "name it, so that a later step can replace or remove it: `name: staff`";
    let name = fields.need(report, "name", help).and_then(|at| service::name(&at, report));
    let (matches, all) = match (fields.get("match"), fields.get("all")) {
        (Some(any), Some(all)) => {
            report
                .error(Code::Conflict, &all.key_span, "`match` and `all` exclude each other")
                .related(&any.key_span, "the other is here")
                .help("of `match` any one is enough; of `all` every one is needed");
            (None, false)
        }
        (Some(any), None) => (matches(&any, report), false),
        (None, Some(all)) => (matches(&all, report), true),
        (None, None) => (Some(Vec::new()), false),
    };
    let (name, matches): (Arc<str>, _) = (name?.into(), matches?);
    let route = (!matches.is_empty()).then(|| HeaderRoute { name: Arc::clone(&name), matches, all });
    Some(Step::SetHeaderRoute { name, route })
}

/// `{ header: { name, exact } }`: who sees the new version before the switch.
pub fn preview(at: &At<'_>, report: &mut Report) -> Option<Step> {
    let fields = report.fields(at, &shape::PREVIEW)?;
    let header = fields.need(report, "header", "say who sees it: `header: { name: x-preview, exact: \"1\" }`")?;
    let fields = report.fields(&header, &shape::PREVIEW_HEADER)?;
    let name = fields.need(report, "name", "name the header: `name: x-preview`").and_then(|at| field_name(&at, report));
    let value = value(&fields, report);
    let matches = vec![HeaderMatch { name: name?, value: value? }];
    let name: Arc<str> = PREVIEW.into();
    Some(Step::SetHeaderRoute { route: Some(HeaderRoute { name: Arc::clone(&name), matches, all: false }), name })
}

fn matches(at: &At<'_>, report: &mut Report) -> Option<Vec<HeaderMatch>> {
    let items = report.items(at, MATCHES_MAX)?;
    let read: Vec<HeaderMatch> = items.iter().filter_map(|item| header(item, report)).collect();
    (read.len() == items.len()).then_some(read)
}

fn header(at: &At<'_>, report: &mut Report) -> Option<HeaderMatch> {
    let fields = report.fields(at, &shape::HEADER_ROUTE_MATCH)?;
    let name = fields.need(report, "headerName", "name the header: `headerName: x-group`");
    let name = name.and_then(|at| field_name(&at, report));
    let value_at = fields.need(report, "headerValue", "say what it must be: `headerValue: { exact: staff }`")?;
    let fields = report.fields(&value_at, &shape::HEADER_VALUE)?;
    let value = value(&fields, report);
    Some(HeaderMatch { name: name?, value: value? })
}

fn field_name(at: &At<'_>, report: &mut Report) -> Option<HeaderName> {
    report.scalar(at, "a header's name", |text| {
        HeaderName::from_bytes(text.as_bytes())
            .map_err(|_| Problem::new("is not the name of a header", "use letters, digits and `-`"))
    })
}

/// Exactly one of `exact`, `prefix` and `regex`.
fn value(fields: &Fields<'_>, report: &mut Report) -> Option<StringMatch> {
    let mut found = ["exact", "prefix", "regex"].iter().filter_map(|name| fields.get(name));
    let Some(first) = found.next() else {
        report.missing(fields.at(), "exact", "a value is compared by one of `exact`, `prefix` and `regex`");
        return None;
    };
    if let Some(second) = found.next() {
        report
            .error(
                Code::Conflict,
                &second.key_span,
                format!("`{}` and `{}` exclude each other", first.name, second.name),
            )
            .related(&first.key_span, "the other is here")
            .help("keep one of them");
        return None;
    }
    let text = report.filled(&first, "a text")?;
    match &*first.name {
        "exact" => Some(StringMatch::Exact(text)),
        "prefix" => Some(StringMatch::Prefix(text)),
        _ => report.scalar(&first, "a regular expression", |text| {
            if text.len() > PATTERN_BYTES_MAX {
                return Err(Problem::new("is too long for a pattern", format!("at most {PATTERN_BYTES_MAX} bytes")));
            }
            let wrong = |error: crate::engine::request::PatternError| error.to_string();
            Pattern::new(text).map(StringMatch::Regex).map_err(|error| {
                Problem::new("is not a regular expression", format!("{}; it must cover the whole value", wrong(error)))
            })
        }),
    }
}

//! `dryRun` and `measurementRetention`: rules that hit metrics by name or by a pattern with `*`.

use super::TEMPLATES_MAX;
use crate::{
    config::{
        diagnostic::{Code, Span},
        report::{At, Fields, Problem, Report},
        shape,
    },
    engine::analysis::template::MetricPlan,
};

/// Measurements of a metric that can be kept at most.
const RETENTION_MAX: u64 = 1_000;

#[derive(Debug, Default)]
pub(super) struct Rules {
    dry: Vec<Pattern>,
    retention: Vec<(Pattern, usize)>,
}

#[derive(Debug)]
struct Pattern {
    text: String,
    span: Span,
}

pub(super) fn rules(fields: &Fields<'_>, report: &mut Report) -> Rules {
    let mut rules = Rules::default();
    for item in fields.get("dryRun").and_then(|at| report.items(&at, TEMPLATES_MAX)).unwrap_or_default() {
        rules.dry.extend(report.fields(&item, &shape::DRY_RUN).and_then(|fields| pattern(&fields, report)));
    }
    let list = fields.get("measurementRetention").and_then(|at| report.items(&at, TEMPLATES_MAX));
    for item in list.unwrap_or_default() {
        let Some(fields) = report.fields(&item, &shape::RETENTION) else { continue };
        let pattern = pattern(&fields, report);
        let limit = fields.need(report, "limit", "say how many measurements are kept: `limit: 50`");
        let limit = limit.and_then(|at| report.whole(&at, 1..=RETENTION_MAX));
        rules.retention.extend(pattern.zip(limit.and_then(|limit| usize::try_from(limit).ok())));
    }
    rules
}

fn pattern(fields: &Fields<'_>, report: &mut Report) -> Option<Pattern> {
    let at: At<'_> = fields.need(report, "metricName", "name the metric: `metricName: latency`")?;
    let text = report.scalar(&at, "a metric's name, or a pattern with `*`", |text| {
        let fine = |c: char| c.is_ascii_alphanumeric() || "-_.*".contains(c);
        if !text.is_empty() && text.len() <= 128 && text.chars().all(fine) && !text.contains(".*") {
            return Ok(text.to_owned());
        }
        let help = "write the metric's whole name, or `*` for any part of it, as `latency-*`";
        let fix = (text.contains(".*")).then(|| format!("`{}`", text.replace(".*", "*")));
        Err(Problem::new("is not a name, and regular expressions are not taken", help).fix(fix))
    })?;
    Some(Pattern { text, span: at.span() })
}

impl Rules {
    /// Reports rules that hit none of these metrics.
    pub(super) fn check(&self, metrics: &[&str], report: &mut Report) {
        // With broken metrics every rule would look wrong.
        if metrics.is_empty() {
            return;
        }
        for pattern in self.dry.iter().chain(self.retention.iter().map(|(pattern, _)| pattern)) {
            if !metrics.iter().any(|name| pattern.hits(name)) {
                let known: Vec<String> = metrics.iter().map(|name| format!("`{name}`")).collect();
                report
                    .error(Code::BadReference, &pattern.span, "this rule hits no metric")
                    .help(format!("there is {}", known.join(", ")));
            }
        }
    }

    pub(super) fn apply(&self, plan: &mut MetricPlan) {
        plan.dry_run |= self.dry.iter().any(|pattern| pattern.hits(&plan.name));
        if let Some((_, limit)) = self.retention.iter().find(|(pattern, _)| pattern.hits(&plan.name)) {
            plan.retention = *limit;
        }
    }
}

impl Pattern {
    fn hits(&self, name: &str) -> bool {
        let mut parts = self.text.split('*');
        let Some(mut rest) = parts.next().and_then(|first| name.strip_prefix(first)) else { return false };
        if !self.text.contains('*') {
            return rest.is_empty();
        }
        let mut parts = parts.collect::<Vec<_>>();
        let last = parts.pop().unwrap_or_default();
        for part in parts {
            let Some(at) = rest.find(part) else { return false };
            rest = &rest[at + part.len()..];
        }
        rest.ends_with(last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_hit_whole_names() {
        for (text, name, hits) in [
            ("rate", "rate", true),
            ("rate", "error-rate", false),
            ("*rate", "error-rate", true),
            ("*", "anything", true),
            ("a*b*c", "a-b-c", true),
            ("a*b*c", "a-c", false),
            ("latency-*", "latency-p95", true),
            ("ab*bc", "abc", false),
        ] {
            assert_eq!(Pattern { text: text.to_owned(), span: 0..0 }.hits(name), hits, "{text} {name}");
        }
    }
}

//! Routes before they are text. Refuses filters that `config::check` would.

use std::{fmt::Write as _, time::Duration};

use super::{
    draft::behind,
    matching::Match,
    trial,
    value::{scalar, shown},
};

/// Which requests a service takes, and what is done to them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Route {
    /// Of the source, for the comment.
    pub(super) from: String,
    /// Any of them; none is every request.
    pub(super) matches: Vec<Match>,
    /// Fields of `filters`, values on one line.
    pub(super) filters: Vec<(&'static str, String)>,
    pub(super) request_timeout: Option<Duration>,
    pub(super) attempt_timeout: Option<Duration>,
    /// The value of `retry`.
    pub(super) retry: Option<String>,
    /// None where a filter redirects.
    pub(super) service: Option<String>,
}

impl Route {
    /// Adds a filter, if a route with these matches may have it.
    pub(super) fn filter(&mut self, field: &'static str, value: String) -> Result<(), String> {
        let mut with = self.clone();
        with.filters.retain(|(other, _)| *other != field);
        with.filters.push((field, value));
        with.service = (field != "redirect").then(|| "a".to_owned());
        trial::route(&with.fields().join(", "))?;
        self.filters = with.filters;
        if field == "redirect" {
            self.service = None;
        }
        Ok(())
    }

    /// Whether it says no more than that everything goes to a service.
    pub(super) fn is_plain(&self) -> bool {
        let Self { filters, request_timeout, attempt_timeout, retry, .. } = self;
        self.matches.iter().all(Match::is_everything)
            && filters.is_empty()
            && request_timeout.is_none()
            && attempt_timeout.is_none()
            && retry.is_none()
    }

    /// `name: value`, each on one line.
    fn fields(&self) -> Vec<String> {
        let mut fields = Vec::new();
        if !self.matches.iter().all(Match::is_everything) {
            let matches: Vec<String> = self.matches.iter().map(Match::text).collect();
            fields.push(format!("match: [{}]", matches.join(", ")));
        }
        if !self.filters.is_empty() {
            let filters: Vec<String> = self.filters.iter().map(|(field, value)| format!("{field}: {value}")).collect();
            fields.push(format!("filters: {{ {} }}", filters.join(", ")));
        }
        let timeouts = [("request", self.request_timeout), ("attempt", self.attempt_timeout)];
        let timeouts: Vec<String> =
            timeouts.iter().filter_map(|(name, value)| Some(format!("{name}: {}", shown((*value)?)))).collect();
        if !timeouts.is_empty() {
            fields.push(format!("timeouts: {{ {} }}", timeouts.join(", ")));
        }
        fields.extend(self.retry.as_ref().map(|retry| format!("retry: {retry}")));
        fields.extend(self.service.as_ref().map(|service| format!("service: {}", scalar(service))));
        fields
    }

    /// As an entry of `routes`.
    pub(super) fn write(&self, text: &mut String) {
        let mut lead = "-";
        for field in self.fields() {
            // Many matches are read more easily below each other.
            if let (true, Some(_)) = (self.matches.len() > 1, field.strip_prefix("match: ")) {
                let _ = writeln!(text, "  {lead} match:{}", behind(&self.from));
                for one in &self.matches {
                    let _ = writeln!(text, "      - {}", one.text());
                }
            } else {
                let from = if lead == "-" { behind(&self.from) } else { String::new() };
                let _ = writeln!(text, "  {lead} {field}{from}");
            }
            lead = " ";
        }
    }
}

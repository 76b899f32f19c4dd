//! Analysis templates of Argo Rollouts, taken over as they are where Serin can ask what they ask. Which providers those
//! are is asked of `config::check` itself. Refuses to copy passwords.

use std::fmt::Write as _;

use super::{
    ledger::Ledger,
    manifest::{Content, Item, Object},
    secret, trial,
    value::{go_duration, key_of, scalar, shown},
};
use crate::{config, engine::names::VersionName};

/// Longest time for which a record can be kept by the clock.
const TTL_SECONDS_MAX: u64 = 31_536_000;

/// A template of which at least one metric can be asked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct TemplateDraft {
    pub(super) name: String,
    /// Name, and `value: …` or `valueFrom: …` where there is a default.
    pub(super) args: Vec<(String, Option<String>)>,
    pub(super) metrics: Vec<MetricDraft>,
    /// Templates that run together with it.
    pub(super) nested: Vec<String>,
    /// How long the records of its runs stay: field and seconds.
    pub(super) ttl: Vec<(String, u64)>,
}

/// A metric: its fields in order, values ready to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MetricDraft {
    pub(super) name: String,
    pub(super) fields: Vec<(String, String)>,
}

/// Reads a template, and whether all of it can be asked; a dry metric that cannot be asked gates nothing.
pub(super) fn template(
    object: &Object,
    is_dry: &dyn Fn(&str) -> bool,
    ledger: &mut Ledger,
) -> Option<(TemplateDraft, bool)> {
    let spec = object.item.get("spec")?;
    let mut draft = TemplateDraft { name: object.name.clone(), args: args(spec, ledger), ..TemplateDraft::default() };
    let nested = spec.list(&["templates"]).iter();
    draft.nested = nested.filter_map(|item| item.get("templateName")?.text().map(str::to_owned)).collect();
    let mut is_whole = true;
    for metric in spec.list(&["metrics"]) {
        let name = metric.get("name").and_then(Item::text).unwrap_or_default();
        let is_dry = is_dry(name);
        // The rule that makes it dry names it.
        let is_nameable = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
        if is_dry && !is_nameable {
            ledger.dropped(metric, "it is dry, and its name does not fit into `dryRun`");
            continue;
        }
        let mut said = Vec::new();
        let fields = metric.fields().iter();
        let fields =
            fields.map(|(key, item)| (key_of(key), field(&draft.name, key, item, &mut said, ledger))).collect();
        let read = MetricDraft { name: name.to_owned(), fields };
        match draft.try_out(&read) {
            Ok(()) if draft.metrics.len() < config::TEMPLATES_MAX => {
                for (item, name) in said {
                    secret::reference(&name, item, ledger);
                }
                ledger.kept(metric, "a metric of the template");
                draft.metrics.push(read);
            }
            Ok(()) => {
                is_whole &= is_dry;
                ledger.dropped(metric, "a template has at most 100 metrics");
            }
            Err(why) => {
                is_whole &= is_dry;
                ledger.dropped(metric, why);
            }
        }
    }
    if draft.metrics.is_empty() && draft.nested.is_empty() {
        ledger.dropped(&object.item, "no metric of this template can be asked");
        return None;
    }
    for arg in spec.list(&["args"]) {
        if arg.get("name").and_then(Item::text).is_some_and(|name| draft.declares(name)) {
            ledger.kept(arg, "an argument of the template");
        } else {
            ledger.dropped(arg, "cannot be an argument's name here, or is in the list twice");
        }
    }
    if let Some(item) = spec.get("ttlStrategy") {
        draft.ttl = ttl(item, ledger);
    }
    ledger.kept_field(object, &["metadata", "name"], "the template's name");
    Some((draft, is_whole))
}

/// The times of a `ttlStrategy` that can be kept.
fn ttl(item: &Item, ledger: &mut Ledger) -> Vec<(String, u64)> {
    let mut read = Vec::new();
    for (key, item) in item.fields() {
        let known = ["secondsAfterCompletion", "secondsAfterSuccess", "secondsAfterFailure"].contains(&key.as_str());
        match item.text().and_then(|text| text.parse().ok()).filter(|seconds| known && *seconds <= TTL_SECONDS_MAX) {
            Some(seconds) => {
                ledger.kept(item, "how long the record of a run stays");
                read.push((key.clone(), seconds));
            }
            None => {
                ledger.dropped(item, "is no number of seconds up to a year after which a run's record is forgotten");
            }
        }
    }
    read
}

fn args(spec: &Item, ledger: &mut Ledger) -> Vec<(String, Option<String>)> {
    let mut read: Vec<(String, Option<String>)> = Vec::new();
    for arg in spec.list(&["args"]) {
        let name = arg.get("name").and_then(Item::text).unwrap_or_default();
        if VersionName::new(name).is_err() || read.iter().any(|(other, _)| other == name) {
            continue;
        }
        let literal = arg.get("value").and_then(|item| Some((item, item.text()?)));
        let value = match (literal, arg.get("valueFrom")) {
            (Some((item, text)), _) if secret::is_secret(name) && !text.is_empty() => {
                Some(format!("value: {}", secret::reference(&secret::environment(&[name]), item, ledger)))
            }
            (Some((_, text)), _) => Some(format!("value: {}", scalar(text))),
            (None, Some(from)) => secret_key(from, ledger),
            (None, None) => None,
        };
        read.push((name.to_owned(), value));
    }
    read
}

/// A key of a Secret becomes a name of the environment.
pub(super) fn secret_key(from: &Item, ledger: &mut Ledger) -> Option<String> {
    let of = from.get("secretKeyRef")?;
    let text = |field: &str| of.get(field).and_then(Item::text).unwrap_or_default();
    let name = secret::environment(&[text("name"), text("key")]);
    ledger.approximated(
        of,
        format!("`valueFrom: {{ env: {name} }}`: put the Secret's key into the environment by that name"),
    );
    Some(format!("valueFrom: {{ env: {name} }}"))
}

/// A field of a metric. Passwords that stand in it are told.
fn field<'i>(
    template: &str,
    key: &str,
    item: &'i Item,
    said: &mut Vec<(&'i Item, String)>,
    ledger: &mut Ledger,
) -> String {
    let duration = item.text().filter(|_| matches!(key, "interval" | "initialDelay")).and_then(go_duration);
    duration.map_or_else(|| tree(template, item, said, ledger), shown)
}

/// A tree on one line, with names of the environment in place of passwords.
fn tree<'i>(template: &str, item: &'i Item, said: &mut Vec<(&'i Item, String)>, ledger: &mut Ledger) -> String {
    let Content::Map(fields) = &item.content else {
        let Content::List(items) = &item.content else { return super::value::flow(item) };
        let items: Vec<String> = items.iter().map(|item| tree(template, item, said, ledger)).collect();
        return format!("[{}]", items.join(", "));
    };
    // A header is `{ key, value }`.
    let header = item.get("key").and_then(Item::text);
    let mut parts = Vec::new();
    for (key, item) in fields {
        let called = if key == "value" { header.unwrap_or(key) } else { key };
        let literal = item.text().filter(|text| !text.is_empty() && !text.contains("{{"));
        let is_seconds = key == "timeout" && literal.is_some_and(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
        let password = literal.filter(|_| secret::is_secret(called));
        let text = if let Some(password) = password {
            let name = ledger.secret(&secret::environment(&[template, called]), password);
            said.push((item, name.clone()));
            format!("\"${{{name}:-}}\"")
        } else if is_seconds {
            format!("{}s", literal.unwrap_or_default())
        } else {
            tree(template, item, said, ledger)
        };
        parts.push(format!("{}: {text}", key_of(key)));
    }
    if parts.is_empty() { "{}".to_owned() } else { format!("{{ {} }}", parts.join(", ")) }
}

/// Leaves out what others name and is not there.
pub(super) fn keep_nested(templates: &mut [TemplateDraft]) {
    let names: Vec<String> = templates.iter().map(|template| template.name.clone()).collect();
    for template in templates {
        template.nested.retain(|name| names.contains(name));
    }
}

impl TemplateDraft {
    pub(super) fn declares(&self, name: &str) -> bool {
        self.args.iter().any(|(declared, _)| declared == name)
    }

    pub(super) fn metric_names(&self) -> impl Iterator<Item = &str> {
        self.metrics.iter().map(|metric| &*metric.name)
    }

    /// Whether a template may have this metric; every argument has a value then.
    pub(super) fn try_out(&self, metric: &MetricDraft) -> Result<(), String> {
        let mut alone = Self { metrics: vec![metric.clone()], nested: Vec::new(), ..self.clone() };
        for (_, value) in &mut alone.args {
            value.get_or_insert_with(|| "value: \"0\"".to_owned());
        }
        let step = format!("- analysis: {{ templates: [{{ templateName: {} }}] }}", scalar(&alone.name));
        let mut text = format!("    strategy:\n      canary:\n        steps:\n          {step}\nanalysisTemplates:\n");
        alone.write(&mut text);
        trial::service(&text)
    }

    /// As an entry of `analysisTemplates`.
    pub(super) fn write(&self, text: &mut String) {
        let _ = writeln!(text, "  {}:", key_of(&self.name));
        if !self.args.is_empty() {
            text.push_str("    args:\n");
        }
        for (name, value) in &self.args {
            let value = value.as_ref().map(|value| format!(", {value}")).unwrap_or_default();
            let _ = writeln!(text, "      - {{ name: {}{value} }}", scalar(name));
        }
        if !self.nested.is_empty() {
            let nested: Vec<String> =
                self.nested.iter().map(|name| format!("{{ templateName: {} }}", scalar(name))).collect();
            let _ = writeln!(text, "    templates: [{}]", nested.join(", "));
        }
        if !self.ttl.is_empty() {
            let ttl: Vec<String> = self.ttl.iter().map(|(key, seconds)| format!("{key}: {seconds}")).collect();
            let _ = writeln!(text, "    ttlStrategy: {{ {} }}", ttl.join(", "));
        }
        if !self.metrics.is_empty() {
            text.push_str("    metrics:\n");
        }
        for metric in &self.metrics {
            for (index, (key, value)) in metric.fields.iter().enumerate() {
                let _ = writeln!(text, "      {} {key}: {value}", if index == 0 { '-' } else { ' ' });
            }
        }
    }
}

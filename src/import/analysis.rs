//! Analysis templates of Argo Rollouts and the steps that use them, taken over as they are where Serin can ask what they ask.
//! Which providers those are is asked of `config::check` itself. Refuses to turn a query into another question.

use std::{fmt::Write as _, path::Path};

use super::{
    draft::Step,
    ledger::Ledger,
    manifest::{Item, Object, Objects},
    value::{flow, go_duration, key_of, scalar, shown},
};
use crate::config::{self, Code, Severity};

/// A template of which at least one metric can be asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TemplateDraft {
    pub(super) name: String,
    /// Name and default.
    args: Vec<(String, Option<String>)>,
    /// Each its fields in order, values ready to be written.
    metrics: Vec<Vec<(String, String)>>,
}

/// What came of an analysis.
pub(super) struct Outcome {
    /// The step, if anything of it can be asked.
    pub(super) step: Option<Step>,
    /// Something was left out, so the step is no full gate.
    pub(super) is_partial: bool,
    /// What the step uses.
    pub(super) templates: Vec<TemplateDraft>,
}

/// Reads `{ templates, args, dryRun }` and the templates that it names; `known` are those of other steps.
pub(super) fn analysis(item: &Item, objects: &Objects, known: &[TemplateDraft], ledger: &mut Ledger) -> Outcome {
    let mut templates: Vec<TemplateDraft> = Vec::new();
    let mut is_partial = false;
    for reference in item.list(&["templates"]) {
        match referenced(reference, item, objects, &templates, ledger) {
            Some((template, _)) if known.iter().any(|other| other.name == template.name && *other != template) => {
                ledger.retracted(reference, "another step uses a template of this name in another way");
                is_partial = true;
            }
            Some(_) if known.len() + templates.len() >= config::TEMPLATES_MAX => {
                ledger.retracted(reference, "a config has at most 100 templates");
                is_partial = true;
            }
            Some((template, is_whole)) => {
                is_partial |= !is_whole;
                templates.push(template);
            }
            None => is_partial = true,
        }
    }
    let args = args(item, &templates, ledger);
    if templates.is_empty() {
        ledger.dropped(item, "nothing of this analysis can be asked yet");
        return Outcome { step: None, is_partial: true, templates };
    }
    let names: Vec<String> =
        templates.iter().map(|template| format!("{{ templateName: {} }}", scalar(&template.name))).collect();
    let mut text = format!("{{ templates: [{}]", names.join(", "));
    if !args.is_empty() {
        let args: Vec<String> = args
            .iter()
            .map(|(name, value)| format!("{{ name: {}, value: {} }}", scalar(name), scalar(value)))
            .collect();
        let _ = write!(text, ", args: [{}]", args.join(", "));
    }
    text += " }";
    // What only shows when everything is together: arguments without a value, metrics of one name.
    if let Err(why) = try_out(&templates, &text) {
        ledger.retracted(item, &why);
        return Outcome { step: None, is_partial: true, templates: Vec::new() };
    }
    Outcome { step: Some(Step::Analysis(text)), is_partial, templates }
}

/// The template that a reference names, and whether all of it can be asked.
fn referenced(
    reference: &Item,
    analysis: &Item,
    objects: &Objects,
    others: &[TemplateDraft],
    ledger: &mut Ledger,
) -> Option<(TemplateDraft, bool)> {
    let name_at = reference.get("templateName")?;
    let name = name_at.text()?;
    let is_cluster = reference.get("clusterScope").is_some_and(Item::is_true);
    let kind = if is_cluster { "ClusterAnalysisTemplate" } else { "AnalysisTemplate" };
    let Some(object) = objects.named(kind, name) else {
        ledger.dropped(reference, format!("there is no {kind} of that name in these files"));
        return None;
    };
    if others.iter().any(|other| other.name == name) {
        ledger.dropped(reference, "this template is in the list already");
        return None;
    }
    let read = template(object, analysis, ledger);
    if read.is_some() {
        ledger.kept(name_at, "runs the template of that name");
        if let Some(scope) = reference.get("clusterScope") {
            ledger.kept(scope, "a config has one kind of template");
        }
    } else {
        ledger.dropped(reference, "no metric of this template can be asked yet");
    }
    read
}

/// The arguments that go to the templates.
fn args(item: &Item, templates: &[TemplateDraft], ledger: &mut Ledger) -> Vec<(String, String)> {
    let mut read: Vec<(String, String)> = Vec::new();
    for arg in item.list(&["args"]) {
        let name = arg.get("name").and_then(Item::text).unwrap_or_default();
        let value = arg.get("value").and_then(Item::text);
        let is_declared = templates.iter().flat_map(|template| &template.args).any(|(declared, _)| declared == name);
        if let (true, Some(value), false) = (is_declared, value, read.iter().any(|(other, _)| other == name)) {
            ledger.kept(arg, "an argument of the analysis");
            read.push((name.to_owned(), value.to_owned()));
        } else if arg.get("valueFrom").is_some() {
            ledger.dropped(arg, "`valueFrom` of arguments is not supported yet");
        } else {
            ledger.dropped(arg, "no template of this analysis that can be run declares it");
        }
    }
    read
}

fn template(object: &Object, analysis: &Item, ledger: &mut Ledger) -> Option<(TemplateDraft, bool)> {
    let spec = object.item.get("spec")?;
    let mut draft = TemplateDraft { name: object.name.clone(), args: Vec::new(), metrics: Vec::new() };
    for arg in spec.list(&["args"]) {
        let name = arg.get("name").and_then(Item::text).unwrap_or_default();
        let is_new = !draft.args.iter().any(|(other, _)| other == name);
        if is_new && crate::engine::names::VersionName::new(name).is_ok() {
            draft.args.push((name.to_owned(), arg.get("value").and_then(Item::text).map(str::to_owned)));
        }
    }
    let dry: Vec<&str> = [spec, analysis]
        .iter()
        .flat_map(|item| item.list(&["dryRun"]))
        .filter_map(|dry| dry.get("metricName")?.text())
        .collect();
    let metrics = spec.list(&["metrics"]);
    let mut is_whole = true;
    for metric in metrics {
        let name = metric.get("name").and_then(Item::text).unwrap_or_default();
        if dry.iter().any(|pattern| may_match(pattern, name)) {
            ledger.dropped(metric, "a dry run decides nothing, and Serin has none yet");
            continue;
        }
        let fields: Vec<(String, String)> = metric.fields().iter().map(|(key, item)| field(key, item)).collect();
        let alone = TemplateDraft { metrics: vec![fields.clone()], ..draft.clone() }.with_defaults();
        match try_out(
            std::slice::from_ref(&alone),
            &format!("{{ templates: [{{ templateName: {} }}] }}", scalar(&alone.name)),
        ) {
            Ok(()) if draft.metrics.len() < config::TEMPLATES_MAX => {
                ledger.kept(metric, "a metric of the template");
                draft.metrics.push(fields);
            }
            Ok(()) => {
                is_whole = false;
                ledger.dropped(metric, "a template has at most 100 metrics");
            }
            Err(why) => {
                is_whole = false;
                ledger.dropped(metric, why);
            }
        }
    }
    if draft.metrics.is_empty() {
        ledger.dropped(&object.item, "no metric of this template can be asked yet");
        return None;
    }
    for arg in spec.list(&["args"]) {
        let is_kept =
            arg.get("name").and_then(Item::text).is_some_and(|name| draft.args.iter().any(|(a, _)| a == name));
        if !is_kept {
            ledger.dropped(arg, "cannot be an argument's name here");
        } else if let Some(from) = arg.get("valueFrom") {
            ledger.dropped(from, "`valueFrom` of arguments is not supported yet");
        }
        ledger.kept(arg, "an argument of the template");
    }
    ledger.kept_field(object, &["metadata", "name"], "the template's name");
    Some((draft, is_whole))
}

/// Whether the pattern of a dry run may mean this metric. It is a regular expression anywhere in the name; one that is
/// more than letters is taken to mean every metric: a metric too few is said aloud, a dry one that decides is not.
fn may_match(pattern: &str, name: &str) -> bool {
    let is_word = pattern.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
    !is_word || name.contains(pattern)
}

fn field(key: &str, item: &Item) -> (String, String) {
    let duration = item.text().filter(|_| matches!(key, "interval" | "initialDelay")).and_then(go_duration);
    (key_of(key), duration.map_or_else(|| flow(item), shown))
}

/// Whether a config with these templates and one step that uses them is right; else why not.
fn try_out(templates: &[TemplateDraft], analysis: &str) -> Result<(), String> {
    let mut text = "listen: 127.0.0.1:1\nservices:\n  a:\n    versions: { a: \"http://a\", b: \"http://b\" }\n    stable: a\n    strategy:\n      canary:\n        steps:\n"
        .to_owned();
    let _ = writeln!(text, "          - analysis: {analysis}\nanalysisTemplates:");
    for template in templates {
        template.write(&mut text);
    }
    let checked = config::check(&text, Path::new("serin.yaml"), &|_| None);
    let errors = || checked.diagnostics.items().iter().filter(|item| item.severity == Severity::Error);
    // A provider that is not there says more than a condition that does not fit the one that is.
    let later = errors().find(|error| error.code == Code::NotSupportedYet);
    later.or_else(|| errors().next()).map_or(Ok(()), |error| Err(error.message.clone()))
}

impl TemplateDraft {
    /// As it is tried out alone: every argument has a value.
    fn with_defaults(mut self) -> Self {
        for (_, value) in &mut self.args {
            value.get_or_insert_with(|| "0".to_owned());
        }
        self
    }

    /// As an entry of `analysisTemplates`.
    pub(super) fn write(&self, text: &mut String) {
        let _ = writeln!(text, "  {}:", key_of(&self.name));
        if !self.args.is_empty() {
            text.push_str("    args:\n");
        }
        for (name, value) in &self.args {
            let value = value.as_ref().map(|value| format!(", value: {}", scalar(value))).unwrap_or_default();
            let _ = writeln!(text, "      - {{ name: {}{value} }}", scalar(name));
        }
        text.push_str("    metrics:\n");
        for metric in &self.metrics {
            for (index, (key, value)) in metric.iter().enumerate() {
                let _ = writeln!(text, "      {} {key}: {value}", if index == 0 { '-' } else { ' ' });
            }
        }
    }
}

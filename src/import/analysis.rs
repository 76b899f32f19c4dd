//! Analyses of Argo Rollouts: which templates run with which arguments, what of it is dry, and what is kept.
//! Refuses to turn a query into another question.

use super::{
    ledger::Ledger,
    manifest::{Item, Object, Objects},
    secret,
    template::{self, TemplateDraft},
    trial,
    value::{scalar, whole},
};
use crate::{config, engine::request::Pattern};

/// What is known where an analysis is read.
#[derive(Clone, Copy)]
pub(super) struct Context<'a> {
    pub(super) objects: &'a Objects,
    /// Whose fields arguments may name.
    pub(super) owner: &'a Object,
    /// It runs beside the steps, from the step with this number on.
    pub(super) background: Option<usize>,
}

/// What came of an analysis.
pub(super) struct Outcome {
    /// Its text on one line, if anything of it can be asked.
    pub(super) text: Option<String>,
    /// Something was left out, so it is no full gate.
    pub(super) is_partial: bool,
    /// What it uses.
    pub(super) templates: Vec<TemplateDraft>,
}

/// Reads `{ templates, args, dryRun, measurementRetention }` and the templates that it names; `known` are those of others.
pub(super) fn analysis(item: &Item, context: Context<'_>, known: &[TemplateDraft], ledger: &mut Ledger) -> Outcome {
    read(item.list(&["templates"]), item, context, known, ledger)
}

/// Reads `{ templateName, args }`, as an experiment has it.
pub(super) fn one(item: &Item, context: Context<'_>, known: &[TemplateDraft], ledger: &mut Ledger) -> Outcome {
    let Outcome { text, is_partial, templates } = read(std::slice::from_ref(item), item, context, known, ledger);
    let name = scalar(item.get("templateName").and_then(Item::text).unwrap_or_default());
    let (list, alone) = (format!("templates: [{{ templateName: {name} }}]"), format!("templateName: {name}"));
    // What an experiment's analysis cannot say besides: what of it is dry, and what is kept.
    let text = text.filter(|text| !text.contains("dryRun:") && !text.contains("measurementRetention:"));
    Outcome {
        is_partial: is_partial || text.is_none(),
        text: text.map(|text| text.replacen(&list, &alone, 1)),
        templates,
    }
}

fn read(
    references: &[Item],
    item: &Item,
    context: Context<'_>,
    known: &[TemplateDraft],
    ledger: &mut Ledger,
) -> Outcome {
    let mut found: Vec<Found<'_>> = Vec::new();
    let mut is_partial = false;
    for reference in references {
        is_partial |= !collect(reference, true, context.objects, &mut found, ledger);
    }
    let rules: Vec<&Item> = found.iter().filter_map(|found| found.object.item.get("spec")).chain([item]).collect();
    let dry: Vec<&Item> = rules.iter().flat_map(|rules| rules.list(&["dryRun"])).collect();
    let mut templates: Vec<TemplateDraft> = Vec::new();
    let mut roots: Vec<&str> = Vec::new();
    for found in &found {
        let is_dry = |name: &str| dry.iter().any(|rule| hits(rule, name));
        let read = template::template(found.object, &is_dry, ledger);
        match read {
            Some((draft, _)) if known.iter().any(|other| other.name == draft.name && *other != draft) => {
                ledger.retracted(found.reference, "another analysis uses a template of this name in another way");
                is_partial = true;
            }
            Some(_) if known.len() + templates.len() >= config::TEMPLATES_MAX => {
                ledger.retracted(found.reference, "a config has at most 100 templates");
                is_partial = true;
            }
            Some((draft, is_whole)) => {
                is_partial |= !is_whole;
                ledger.kept(found.reference, "runs the template of that name");
                if found.is_root {
                    roots.push(&found.object.name);
                }
                templates.push(draft);
            }
            None => {
                ledger.dropped(found.reference, "no metric of this template can be asked");
                is_partial = true;
            }
        }
    }
    template::keep_nested(&mut templates);
    if roots.is_empty() {
        ledger.dropped(item, "nothing of this analysis can be asked");
        return Outcome { text: None, is_partial: true, templates: Vec::new() };
    }
    let names: Vec<String> = roots.iter().map(|name| format!("{{ templateName: {} }}", scalar(name))).collect();
    let mut parts = vec![format!("templates: [{}]", names.join(", "))];
    let args = args(item, context, &templates, ledger);
    if !args.is_empty() {
        parts.push(format!("args: [{}]", args.join(", ")));
    }
    let metrics: Vec<&str> = templates.iter().flat_map(TemplateDraft::metric_names).collect();
    parts.extend(dry_run(&dry, &metrics, ledger));
    parts.extend(retention(&rules, &metrics, ledger));
    parts.extend(context.background.filter(|step| *step > 0).map(|step| format!("startingStep: {step}")));
    let text = format!("{{ {} }}", parts.join(", "));
    // What only shows when everything is together: arguments without a value, metrics of one name.
    if let Err(why) = try_out(&templates, &text, context.background) {
        ledger.retracted(item, &why);
        return Outcome { text: None, is_partial: true, templates: Vec::new() };
    }
    Outcome { text: Some(text), is_partial, templates }
}

/// A template that is named, by an analysis or by another template.
struct Found<'o> {
    reference: &'o Item,
    object: &'o Object,
    is_root: bool,
}

/// Follows a reference, and those of its template; whether all of it is there.
fn collect<'o>(
    reference: &'o Item,
    is_root: bool,
    objects: &'o Objects,
    found: &mut Vec<Found<'o>>,
    ledger: &mut Ledger,
) -> bool {
    let name = reference.get("templateName").and_then(Item::text).unwrap_or_default();
    let is_cluster = reference.get("clusterScope").is_some_and(Item::is_true);
    let kind = if is_cluster { "ClusterAnalysisTemplate" } else { "AnalysisTemplate" };
    let Some(object) = objects.named(kind, name) else {
        ledger.dropped(reference, format!("there is no {kind} of that name in these files"));
        return false;
    };
    if let Some(other) = found.iter_mut().find(|other| other.object.name == name) {
        if std::ptr::eq(other.object, object) {
            other.is_root |= is_root;
            ledger.kept(reference, "this template is in the list already");
            return true;
        }
        ledger.dropped(reference, "a config has one kind of template, and there is one of that name");
        return false;
    }
    found.push(Found { reference, object, is_root });
    let mut is_whole = true;
    for nested in object.item.list(&["spec", "templates"]) {
        is_whole &= collect(nested, false, objects, found, ledger);
    }
    is_whole
}

/// Whether a rule hits a metric. It is a regular expression anywhere in the name; one that cannot be read is taken to hit
/// every metric: a metric too few is said aloud, a dry one that decides is not.
fn hits(rule: &Item, metric: &str) -> bool {
    let Some(pattern) = rule.get("metricName").and_then(Item::text) else { return false };
    Pattern::new(&format!(".*(?:{pattern}).*")).map_or(true, |pattern| pattern.covers(metric.as_bytes()))
}

pub(super) fn dry_run(rules: &[&Item], metrics: &[&str], ledger: &mut Ledger) -> Option<String> {
    let hit: Vec<&str> = metrics.iter().filter(|name| rules.iter().any(|rule| hits(rule, name))).copied().collect();
    for rule in rules {
        if metrics.iter().any(|name| hits(rule, name)) {
            ledger.kept(rule, "`dryRun` of the metrics that it hits, by their names");
        } else {
            ledger.dropped(rule, "it hits no metric that can be asked");
        }
    }
    let names: Vec<String> = hit.iter().map(|name| format!("{{ metricName: {} }}", scalar(name))).collect();
    (!names.is_empty()).then(|| format!("dryRun: [{}]", names.join(", ")))
}

fn retention(rules: &[&Item], metrics: &[&str], ledger: &mut Ledger) -> Option<String> {
    let mut entries: Vec<(&str, u64)> = Vec::new();
    for rule in rules.iter().flat_map(|rules| rules.list(&["measurementRetention"])) {
        let limit = rule.get("limit").and_then(whole).filter(|limit| (1..=1_000).contains(limit));
        let hit: Vec<&&str> = metrics.iter().filter(|name| hits(rule, name)).collect();
        let (Some(limit), false) = (limit, hit.is_empty()) else {
            ledger.dropped(rule, "it hits no metric that can be asked, or keeps none");
            continue;
        };
        ledger.kept(rule, "`measurementRetention` of the metrics that it hits, by their names");
        for name in hit {
            if !entries.iter().any(|(other, _)| other == name) {
                entries.push((name, limit));
            }
        }
    }
    let of = |(name, limit): &(&str, u64)| format!("{{ metricName: {}, limit: {limit} }}", scalar(name));
    let entries: Vec<String> = entries.iter().map(of).collect();
    (!entries.is_empty()).then(|| format!("measurementRetention: [{}]", entries.join(", ")))
}

/// The arguments that go to the templates; of several of one name the last counts, as in Argo Rollouts.
fn args(item: &Item, context: Context<'_>, templates: &[TemplateDraft], ledger: &mut Ledger) -> Vec<String> {
    let mut read: Vec<(&str, String)> = Vec::new();
    for arg in item.list(&["args"]) {
        let name = arg.get("name").and_then(Item::text).unwrap_or_default();
        if !templates.iter().any(|template| template.declares(name)) {
            ledger.dropped(arg, "no template of this analysis that can be run declares it");
            continue;
        }
        let Some(value) = value_of(name, arg, context, ledger) else { continue };
        ledger.kept(arg, "an argument of the analysis");
        read.retain(|(other, _)| *other != name);
        read.push((name, value));
    }
    read.into_iter().map(|(name, value)| format!("{{ name: {}, {value} }}", scalar(name))).collect()
}

/// `value: …` or `valueFrom: …`.
fn value_of(name: &str, arg: &Item, context: Context<'_>, ledger: &mut Ledger) -> Option<String> {
    if let Some(value) = arg.get("value") {
        let text = value.text().unwrap_or_default();
        let is_secret = secret::is_secret(name) && !text.is_empty();
        let written =
            if is_secret { secret::reference(&secret::environment(&[name]), value, ledger) } else { scalar(text) };
        return Some(format!("value: {written}"));
    }
    let from = arg.get("valueFrom")?;
    if let Some(hash) = from.get("podTemplateHashValue") {
        let word = hash.text().filter(|word| matches!(*word, "Latest" | "Stable"))?;
        ledger.approximated(hash, "the version's name, as versions have no hash of pods");
        return Some(format!("valueFrom: {{ podTemplateHashValue: {word} }}"));
    }
    if let Some(path_at) = from.at(&["fieldRef", "fieldPath"]) {
        let Some(value) = path_at.text().and_then(|path| field(&context.owner.item, path)) else {
            ledger.dropped(arg, "the Rollout in these files has no such field");
            return None;
        };
        ledger.approximated(path_at, "what the field holds in these files");
        return Some(format!("value: {}", scalar(value)));
    }
    if let Some(text) = template::secret_key(from, ledger) {
        return Some(text);
    }
    ledger.dropped(arg, "its value is found in no way that Serin knows");
    None
}

/// `metadata.labels['team']` and the like.
fn field<'a>(item: &'a Item, path: &str) -> Option<&'a str> {
    let plain = path.replace("['", ".\u{0}").replace("']", "\u{0}");
    let mut item = item;
    let mut rest = &*plain;
    while !rest.is_empty() {
        let (key, tail) = match rest.strip_prefix('\u{0}') {
            Some(quoted) => quoted.split_once('\u{0}')?,
            None => rest.split_at(rest.find('.').unwrap_or(rest.len())),
        };
        item = item.get(key)?;
        rest = tail.strip_prefix('.').unwrap_or(tail);
    }
    item.text()
}

/// Whether a config with these templates and this analysis is right; else why not.
fn try_out(templates: &[TemplateDraft], analysis: &str, background: Option<usize>) -> Result<(), String> {
    let canary = match background {
        None => format!("        steps:\n          - analysis: {analysis}\n"),
        // As many steps as the analysis begins after, and one more.
        Some(after) => {
            let steps = vec!["{ setWeight: 1 }"; after + 1].join(", ");
            format!("        steps: [{steps}]\n        analysis: {analysis}\n")
        }
    };
    let mut text = format!("    strategy:\n      canary:\n{canary}analysisTemplates:\n");
    for template in templates {
        template.write(&mut text);
    }
    trial::service(&text)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn field_paths_lead_into_the_object() {
        let text = "metadata: { name: web, labels: { app.io/team: shop } }\n";
        let roots = config::documents(text, Path::new("x")).unwrap();
        let mut ledger = Ledger::new(&[]);
        let mut objects = Objects::default();
        objects.add(&roots[0], 0, &mut ledger);
        let item = &objects.all("").next().unwrap().item;
        assert_eq!(field(item, "metadata.name"), Some("web"));
        assert_eq!(field(item, "metadata.labels['app.io/team']"), Some("shop"));
        assert_eq!(field(item, "metadata.labels['none']"), None);
        assert_eq!(field(item, "metadata.labels['"), None);
    }
}

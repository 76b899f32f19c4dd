//! Analysis templates, and the steps and backgrounds that use them.
//! Refuses metrics that could never fail or never end where Argo Rollouts accepts them, arguments nobody declared, and
//! rules that hit no metric.

mod args;
mod metric;
mod rules;
mod ttl;

use std::{cell::RefCell, collections::HashSet, path::Path};

use super::{
    diagnostic::{Code, Severity},
    provider::Place,
    report::{At, Fields, Report},
    service, shape,
};
use crate::engine::{
    analysis::{
        Template,
        ask::Text,
        template::{Arm, MetricPlan, Provider, TimeToLive},
    },
    plan::{BackgroundAnalysis, ByHand},
};
use args::Arg;
use metric::Metric;
use rules::Rules;

/// Most templates of a file, metrics of a template or of a run, and arguments of either.
pub const TEMPLATES_MAX: usize = 100;

/// All templates of the file.
#[derive(Debug, Default)]
pub struct Templates<'a> {
    drafts: Vec<Draft<'a>>,
    /// A template that is wrong is reported once, not by each step that uses it.
    used: RefCell<HashSet<String>>,
}

/// A template before its arguments are known.
#[derive(Debug)]
struct Draft<'a> {
    at: At<'a>,
    args: Vec<Arg>,
    metrics: Vec<Metric<'a>>,
    /// Where other templates are named.
    nested: Vec<(String, At<'a>)>,
    rules: Rules,
    ttl: TimeToLive,
}

/// Where templates are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use {
    Step,
    Background,
    ByHand,
}

/// Reads `analysisTemplates`; files named there are relative to `folder`.
pub fn templates<'a>(at: &At<'a>, folder: &Path, report: &mut Report) -> Templates<'a> {
    let entries = report.entries(at).unwrap_or_default();
    if entries.len() > TEMPLATES_MAX {
        let message = format!("a file has at most {TEMPLATES_MAX} analysis templates; these are {}", entries.len());
        report.error(Code::TooLarge, &at.key_span, message);
    }
    let drafts = entries.into_iter().take(TEMPLATES_MAX).map(|field| {
        let entry = at.entry(field);
        service::key(&entry.name, &entry.key_span, report);
        draft(entry, folder, report)
    });
    let templates = Templates { drafts: drafts.collect(), used: RefCell::default() };
    templates.check_nesting(report);
    templates
}

fn draft<'a>(at: At<'a>, folder: &Path, report: &mut Report) -> Draft<'a> {
    let none = |at| Draft {
        at,
        args: Vec::new(),
        metrics: Vec::new(),
        nested: Vec::new(),
        rules: Rules::default(),
        ttl: TimeToLive::default(),
    };
    let Some(fields) = report.fields(&at, &shape::TEMPLATE) else { return none(at) };
    let args = fields.get("args").map(|at| args::args(&at, folder, report)).unwrap_or_default();
    let names: Vec<&str> = args.iter().map(|arg| &*arg.name).collect();
    let place = Place { declared: &names, folder };
    let nested = fields.get("templates").map(|at| nested(&at, report)).unwrap_or_default();
    let metrics = if fields.get("metrics").is_none() && !nested.is_empty() {
        Vec::new()
    } else {
        let metrics = fields.need(report, "metrics", "give the template at least one metric");
        metrics.map(|at| metric::metrics(&at, place, report)).unwrap_or_default()
    };
    let rules = rules::rules(&fields, report);
    let ttl = fields.get("ttlStrategy").map(|at| ttl::ttl(&at, report)).unwrap_or_default();
    drop(names);
    Draft { at, args, metrics, nested, rules, ttl }
}

fn nested<'a>(at: &At<'a>, report: &mut Report) -> Vec<(String, At<'a>)> {
    let items = report.items(at, TEMPLATES_MAX).unwrap_or_default();
    let names = items.iter().filter_map(|item| {
        let fields = report.fields(item, &shape::TEMPLATE_REF)?;
        let name = fields.need(report, "templateName", "name a template: `templateName: latency`")?;
        Some((report.filled(&name, "the name of a template")?, name))
    });
    names.collect()
}

impl<'a> Templates<'a> {
    /// An analysis step: each template with its arguments filled in.
    pub fn analysis(&self, at: &At<'_>, versions: &[&str], report: &mut Report) -> Option<Vec<Template>> {
        let fields = report.fields(at, &shape::ANALYSIS)?;
        self.run(&fields, versions, Use::Step, report)
    }

    /// The analyses of an experiment, in one run, and whether the experiment ends with them; `experiment` says what is dry.
    pub fn of_experiment(
        &self,
        at: &At<'_>,
        experiment: &Fields<'_>,
        versions: &[&str],
        report: &mut Report,
    ) -> Option<(Vec<Template>, bool)> {
        let rules = rules::rules(experiment, report);
        let mut all: Vec<Template> = Vec::new();
        let mut ends = Vec::new();
        for item in report.items(at, TEMPLATES_MAX)? {
            let fields = report.fields(&item, &shape::EXPERIMENT_ANALYSIS)?;
            let given = fields.get("args").map(|at| args::args(&at, Path::new(""), report)).unwrap_or_default();
            let _for_people = fields.get("name").and_then(|at| service::name(&at, report));
            let help = "say which template to run: `templateName: latency`";
            let name = fields.need(report, "templateName", help)?;
            let text = report.filled(&name, "the name of a template")?;
            let Some(draft) = self.named(&text) else {
                service::unknown(&name, "analysis template", self.drafts.iter().map(|draft| &*draft.at.name), report);
                continue;
            };
            let mut drafts = Vec::new();
            self.add_with_nested(draft, &name, &mut drafts);
            let filled = fill(&drafts, given, &Rules::default(), (versions, Use::Step), report);
            let twice = filled.iter().flat_map(|template| &template.metrics).find(|metric| {
                all.iter().flat_map(|template| &template.metrics).any(|other| other.name == metric.name)
            });
            if let Some(twice) = twice {
                let message = format!("two analyses of this experiment have a metric `{}`", twice.name);
                report.error(Code::Conflict, &name.span(), message).help("give the metrics different names");
            }
            all.extend(filled);
            let words = [("true", true), ("false", false)];
            ends.push(fields.get("requiredForCompletion").map_or(Some(false), |at| report.word(&at, &words))?);
        }
        if ends.iter().any(|end| *end != ends[0]) {
            report
                .error(Code::Conflict, &at.key_span, "only some of these analyses are required for completion")
                .help("mark all of them `requiredForCompletion: true`, or none and give the experiment a `duration`");
        }
        let metrics: Vec<String> =
            all.iter().flat_map(|template| &template.metrics).map(|metric| metric.name.clone()).collect();
        rules.check(&metrics.iter().map(String::as_str).collect::<Vec<_>>(), report);
        all.iter_mut().flat_map(|template| &mut template.metrics).for_each(|metric| rules.apply(metric));
        Some((all, ends.first().copied().unwrap_or_default()))
    }

    /// The analysis beside `steps` steps.
    pub fn background(
        &self,
        at: &At<'_>,
        versions: &[&str],
        steps: usize,
        report: &mut Report,
    ) -> Option<BackgroundAnalysis> {
        let fields = report.fields(at, &shape::BACKGROUND)?;
        let templates = self.run(&fields, versions, Use::Background, report);
        let from = fields.get("startingStep").map_or(Some(0), |at| {
            let last = u64::try_from(steps.saturating_sub(1)).unwrap_or(u64::MAX);
            report.whole(&at, 0..=last)
        });
        Some(BackgroundAnalysis { templates: templates?, starting_step: usize::try_from(from?).ok()? })
    }

    /// Each template as a person may run it: with the values that the file gives.
    pub fn by_hand(&self, versions: &[&str]) -> Vec<ByHand> {
        let run = |draft: &Draft<'a>| {
            let mut all = Vec::new();
            collect(self, draft, &mut all);
            let all: Vec<(&Draft<'a>, At<'_>)> = all.into_iter().map(|draft| (draft, draft.at.clone())).collect();
            // What is wrong with it by itself is no fault of the file: steps may give it what it lacks.
            let mut aside = Report::default();
            let filled = fill(&all, Vec::new(), &Rules::default(), (versions, Use::ByHand), &mut aside);
            let fault = aside.into_found().into_iter().find(|found| found.severity == Severity::Error);
            fault.map_or(Ok(filled), |fault| Err(fault.message))
        };
        self.drafts.iter().map(|draft| ByHand { name: draft.at.name.clone(), run: run(draft) }).collect()
    }

    /// Warns of templates that no step uses.
    pub fn report_unused(&self, report: &mut Report) {
        let used = self.used.borrow();
        for draft in self.drafts.iter().filter(|draft| !used.contains(&draft.at.name)) {
            report
                .warning(&draft.at.key_span, format!("no step uses the template `{}`", draft.at.name))
                .help(format!(
                    "add a step: `- analysis: {{ templates: [{{ templateName: {0} }}] }}`; it may be there to be run by hand with `serin analyze {0}`",
                    draft.at.name
                ));
        }
    }

    fn run(&self, fields: &Fields<'_>, versions: &[&str], of: Use, report: &mut Report) -> Option<Vec<Template>> {
        let given = fields.get("args").map(|at| args::args(&at, Path::new(""), report)).unwrap_or_default();
        let rules = rules::rules(fields, report);
        let help = "say which templates to run: `templates: [{ templateName: latency }]`";
        let list = fields.need(report, "templates", help)?;
        let mut drafts: Vec<(&Draft<'a>, At<'_>)> = Vec::new();
        for item in report.items(&list, TEMPLATES_MAX)? {
            let Some((draft, name)) = self.reference(&item, report) else { continue };
            if drafts.iter().any(|(other, _)| other.at.name == draft.at.name) {
                report
                    .error(Code::Conflict, &name.span(), "this template is in the list twice")
                    .help("keep one of them");
                continue;
            }
            self.add_with_nested(draft, &name, &mut drafts);
        }
        Some(fill(&drafts, given, &rules, (versions, of), report))
    }

    fn reference<'s>(&'s self, item: &At<'s>, report: &mut Report) -> Option<(&'s Draft<'a>, At<'s>)> {
        let fields = report.fields(item, &shape::TEMPLATE_REF)?;
        let name = fields.need(report, "templateName", "name a template: `templateName: latency`")?;
        let text = report.filled(&name, "the name of a template")?;
        if let Some(draft) = self.named(&text) {
            return Some((draft, name));
        }
        service::unknown(&name, "analysis template", self.drafts.iter().map(|draft| &*draft.at.name), report);
        None
    }

    fn named(&self, name: &str) -> Option<&Draft<'a>> {
        self.drafts.iter().find(|draft| draft.at.name == name)
    }

    /// Each once, however often it is named.
    fn add_with_nested<'s>(&'s self, draft: &'s Draft<'a>, name: &At<'s>, into: &mut Vec<(&'s Draft<'a>, At<'s>)>) {
        if into.iter().any(|(known, _)| known.at.name == draft.at.name) {
            return;
        }
        self.used.borrow_mut().insert(draft.at.name.clone());
        into.push((draft, name.clone()));
        for (nested, _) in &draft.nested {
            if let Some(nested) = self.named(nested) {
                self.add_with_nested(nested, name, into);
            }
        }
    }

    /// Reports nested templates that are not there, and rules that hit nothing.
    fn check_nesting(&self, report: &mut Report) {
        for draft in &self.drafts {
            for (name, at) in &draft.nested {
                if *name == draft.at.name {
                    report
                        .error(Code::BadReference, &at.span(), "this template runs itself")
                        .help("name another one, or remove it");
                } else if self.named(name).is_none() {
                    let known = self.drafts.iter().map(|draft| &*draft.at.name);
                    service::unknown(at, "analysis template", known, report);
                }
            }
            let mut all = Vec::new();
            collect(self, draft, &mut all);
            let metrics: Vec<&str> = all.iter().flat_map(|draft| draft.names()).collect();
            draft.rules.check(&metrics, report);
        }
    }
}

fn collect<'s, 'a>(templates: &'s Templates<'a>, draft: &'s Draft<'a>, into: &mut Vec<&'s Draft<'a>>) {
    if into.iter().any(|known| known.at.name == draft.at.name) {
        return;
    }
    into.push(draft);
    for nested in draft.nested.iter().filter_map(|(name, _)| templates.named(name)) {
        collect(templates, nested, into);
    }
}

impl Draft<'_> {
    fn names(&self) -> impl Iterator<Item = &str> {
        self.metrics.iter().map(|metric| &*metric.plan.name)
    }

    fn fill(&self, name: &At<'_>, values: &args::Values, rules: &Rules, report: &mut Report) -> Template {
        for arg in self.args.iter().filter(|arg| !values.has(&arg.name)) {
            let message = format!("the argument `{}` of `{}` has no value", arg.name, self.at.name);
            report
                .error(Code::MissingField, &name.span(), message)
                .help(format!("give it one: `args: [{{ name: {}, value: … }}]`", arg.name));
        }
        let args: Vec<(String, Text)> =
            self.args.iter().filter_map(|arg| Some((arg.name.clone(), values.get(&arg.name)?))).collect();
        let metrics = self.metrics.iter().map(|metric| {
            let mut plan: MetricPlan = metric.plan.clone();
            if let Provider::Outside { ask, .. } = &mut plan.provider {
                ask.texts_mut().into_iter().for_each(|text| text.bind(&|name| values.get(name)));
            }
            for rules in [&self.rules, rules] {
                rules.apply(&mut plan);
            }
            plan
        });
        for metric in &self.metrics {
            metric.check_secrets(&args, name, report);
        }
        Template { name: self.at.name.clone(), args: args.clone(), metrics: metrics.collect(), ttl: self.ttl }
    }

    /// What depends on where the template is used.
    fn check_use(&self, name: &At<'_>, versions: &[&str], of: Use, report: &mut Report) {
        for metric in &self.metrics {
            if let (Some(at), Provider::Serin { version: Arm::Named(named), .. }) =
                (&metric.version, &metric.plan.provider)
                && !versions.is_empty()
                && !versions.contains(&named.as_str())
            {
                let known = ["canary", "stable"].into_iter().chain(versions.iter().copied());
                service::unknown(at, "version", known, report);
            }
            let plan = &metric.plan;
            let is_endless = plan.interval.is_some() && plan.count.is_none() && plan.consecutive_success_limit == 0;
            if of == Use::Background && plan.interval.is_none() {
                let message = format!("the metric `{}` of `{}` is measured only once", plan.name, self.at.name);
                report
                    .error(Code::MissingField, &name.span(), message)
                    .help("beside the steps it is measured again and again: give it an `interval`");
            } else if of == Use::Step && is_endless {
                report
                    .warning(
                        &metric.span,
                        format!("the metric `{}` never ends, and so does the step that uses it", plan.name),
                    )
                    .help(
                        "give it `count` or `consecutiveSuccessLimit`; without, the step ends by failure or by a person",
                    );
            }
        }
    }
}

/// Templates with their arguments, checked for where they are used.
fn fill(
    drafts: &[(&Draft<'_>, At<'_>)],
    mut given: Vec<Arg>,
    rules: &Rules,
    (versions, of): (&[&str], Use),
    report: &mut Report,
) -> Vec<Template> {
    let plain: Vec<&Draft<'_>> = drafts.iter().map(|(draft, _)| *draft).collect();
    let declared: Vec<&Arg> = plain.iter().flat_map(|draft| &draft.args).collect();
    args::check_given(&mut given, &declared, plain.is_empty(), report);
    unique_metrics(drafts, report);
    let metrics: Vec<&str> = plain.iter().flat_map(|draft| draft.names()).collect();
    rules.check(&metrics, report);
    let values = args::Values::of(&given, &declared, report);
    let filled = drafts.iter().map(|(draft, name)| draft.fill(name, &values, rules, report)).collect();
    for (draft, name) in drafts {
        draft.check_use(name, versions, of, report);
    }
    filled
}

/// Metrics of one run share a name space.
fn unique_metrics(drafts: &[(&Draft<'_>, At<'_>)], report: &mut Report) {
    let mut seen: HashSet<&str> = HashSet::new();
    let mut all = 0;
    for (draft, name) in drafts {
        let names: HashSet<&str> = draft.names().collect();
        all += names.len();
        if let Some(twice) = names.iter().find(|name| seen.contains(*name)) {
            report
                .error(Code::Conflict, &name.span(), format!("two templates of this step have a metric `{twice}`"))
                .help("give the metrics different names, or run the templates in two steps");
        }
        seen.extend(names);
    }
    if let (true, Some((_, name))) = (all > TEMPLATES_MAX, drafts.first()) {
        report.error(
            Code::TooLarge,
            &name.span(),
            format!("a run has at most {TEMPLATES_MAX} metrics; this has {all}"),
        );
    }
}

//! A config before it is text: what importers fill in, and how it is written, with comments on where it came from.
//! Holds only what `config::check` accepts; names and addresses are checked where they are made.

use std::{collections::HashSet, fmt::Write as _, time::Duration};

use super::{
    Input,
    backend::Backend,
    ledger::Ledger,
    manifest::Object,
    route::Route,
    template::TemplateDraft,
    trial,
    value::{key_of, scalar, shown},
};
use crate::{
    config::STEPS_MAX,
    engine::{names::VersionName, weight::Weight},
};

/// The file.
#[derive(Debug)]
pub(super) struct Draft {
    pub(super) services: Vec<Service>,
    /// In the order in which they are written.
    pub(super) routes: Vec<Route>,
    pub(super) templates: Vec<TemplateDraft>,
    /// Entries of `notify`, each on one line.
    pub(super) notify: Vec<String>,
    pub(super) remarks: Vec<String>,
}

/// One service and how its canary goes out.
#[derive(Debug)]
pub(super) struct Service {
    pub(super) name: String,
    pub(super) stable: Backend,
    pub(super) canary: Option<Backend>,
    /// Versions of experiments.
    pub(super) others: Vec<Backend>,
    /// Entries of `gates`, each on one line.
    pub(super) gates: Vec<String>,
    /// The canary gets traffic now, so it is wished for in the file.
    pub(super) is_running: bool,
    pub(super) force_header: Option<String>,
    pub(super) force_cookie: Option<String>,
    /// Header and value of groups that go to the canary.
    pub(super) cohorts: Vec<(String, String)>,
    pub(super) sticky: Option<Sticky>,
    /// What a bare weight is a part of.
    pub(super) max_weight: u64,
    pub(super) steps: Steps,
    /// Fields of `blueGreen` with comments, in place of steps.
    pub(super) blue_green: Vec<(&'static str, String, String)>,
    /// Further fields of `strategy.canary`, values on one line.
    pub(super) policy: Vec<(&'static str, String)>,
    pub(super) error_rate: Option<(Weight, Duration)>,
    pub(super) p99: Option<(Duration, Duration)>,
}

#[derive(Debug)]
pub(super) struct Sticky {
    pub(super) cookie: String,
    pub(super) ttl: Option<Duration>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// A bare integer, `5%` or `1000ppm`.
    Weight(String),
    Hold(Duration),
    /// Waits for a person.
    Person,
    /// The value of `analysis`, on one line.
    Analysis(String),
    /// The value of `experiment`, on one line.
    Experiment(String),
    /// The value of `setHeaderRoute`, on one line.
    HeaderRoute(String),
    /// The value of `setMirrorRoute`, on one line.
    MirrorRoute(String),
}

/// Steps with comments; never more than a config may have.
#[derive(Debug, Default)]
pub(super) struct Steps(Vec<(Step, String)>);

impl Steps {
    /// Adds a step, as long as one more would fit after it.
    pub(super) fn push(&mut self, step: Step, comment: impl Into<String>) {
        if self.0.len() + 1 < STEPS_MAX {
            self.0.push((step, comment.into()));
        }
    }

    /// Adds a wait for a person, unless one is there already. There is always room for it: no gate gets lost.
    pub(super) fn push_person(&mut self, comment: impl Into<String>) {
        if !matches!(self.0.last(), Some((Step::Person, _))) {
            self.0.push((Step::Person, comment.into()));
        }
    }

    /// Whether a step, a wait for a person and one more step fit.
    pub(super) const fn has_room(&self) -> bool {
        self.0.len() + 3 <= STEPS_MAX
    }

    /// The last weight, nothing before the first; none where it has a unit.
    pub(super) fn weight(&self) -> Option<u64> {
        let weights = self.0.iter().rev().map(|(step, _)| match step {
            Step::Weight(weight) => Some(weight.parse().ok()),
            _ => None,
        });
        weights.flatten().next().unwrap_or(Some(0))
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the canary ever gets a share.
    pub(super) fn has_weight(&self) -> bool {
        self.0.iter().any(|(step, _)| matches!(step, Step::Weight(_)))
    }

    pub(super) const fn len(&self) -> usize {
        self.0.len()
    }
}

/// The service's name; `app` when that of the object is impossible here.
pub(super) fn service_name(object: &Object, ledger: &mut Ledger) -> String {
    if VersionName::new(&object.name).is_ok() {
        ledger.kept_field(object, &["metadata", "name"], "the service's name");
        return object.name.clone();
    }
    if let Some(item) = object.item.at(&["metadata", "name"]) {
        ledger.dropped(item, "cannot be a service's name here; the service is called `app`");
    }
    "app".to_owned()
}

impl Service {
    /// A service without anything optional.
    pub(super) fn new(name: String, stable: Backend, canary: Option<Backend>) -> Self {
        // Two versions need two names.
        let canary = canary.map(|canary| {
            if canary.version != stable.version {
                return canary;
            }
            let suffix = if canary.version.ends_with('2') { '3' } else { '2' };
            Backend { version: format!("{}{suffix}", short(&canary.version)), ..canary }
        });
        Self {
            name,
            stable,
            canary,
            others: Vec::new(),
            gates: Vec::new(),
            is_running: false,
            force_header: None,
            force_cookie: None,
            cohorts: Vec::new(),
            sticky: None,
            max_weight: 100,
            steps: Steps::default(),
            blue_green: Vec::new(),
            policy: Vec::new(),
            error_rate: None,
            p99: None,
        }
    }

    /// Adds a field of the canary strategy, if it may have it.
    pub(super) fn set(&mut self, field: &'static str, value: String) -> Result<(), String> {
        trial::strategy(&format!("{field}: {value}"))?;
        self.policy.push((field, value));
        Ok(())
    }

    fn write(&self, text: &mut String) {
        let _ = writeln!(text, "  {}:\n    versions:", key_of(&self.name));
        for backend in [Some(&self.stable), self.canary.as_ref()].into_iter().flatten().chain(&self.others) {
            let _ = writeln!(text, "      {}: {}", key_of(&backend.version), backend.text());
        }
        let _ = writeln!(text, "    stable: {}", scalar(&self.stable.version));
        match &self.canary {
            Some(canary) if self.is_running => {
                let _ = writeln!(text, "    canary: {}", scalar(&canary.version));
            }
            Some(canary) => {
                let how = "without the first `#`, and saved, this starts a rollout";
                let _ = writeln!(text, "    # canary: {}    # {how}", scalar(&canary.version));
            }
            None => {}
        }
        self.write_assign(text);
        if !self.gates.is_empty() {
            text.push_str("    gates:\n");
        }
        for gate in &self.gates {
            let _ = writeln!(text, "      - {gate}");
        }
        if !self.blue_green.is_empty() {
            text.push_str("    strategy:\n      blueGreen:\n");
            for (field, value, from) in &self.blue_green {
                let _ = writeln!(text, "        {field}: {value}{}", behind(from));
            }
        } else if !self.steps.is_empty() {
            self.write_canary(text);
        }
    }

    fn write_assign(&self, text: &mut String) {
        let force: Vec<String> = [("header", &self.force_header), ("cookie", &self.force_cookie)]
            .into_iter()
            .filter_map(|(field, name)| Some(format!("{field}: {}", scalar(name.as_ref()?))))
            .collect();
        if force.is_empty() && self.cohorts.is_empty() && self.sticky.is_none() {
            return;
        }
        text.push_str("    assign:\n");
        if !force.is_empty() {
            let _ = writeln!(text, "      force: {{ {} }}", force.join(", "));
        }
        if !self.cohorts.is_empty() {
            text.push_str("      cohorts:\n");
        }
        for (header, value) in &self.cohorts {
            let (header, value) = (scalar(header), scalar(value));
            let _ = writeln!(text, "        - {{ header: {header}, values: [{value}], to: canary }}");
        }
        if let Some(sticky) = &self.sticky {
            let _ = writeln!(text, "      sticky: {}", sticky.text());
        }
    }

    fn write_canary(&self, text: &mut String) {
        text.push_str("    strategy:\n      canary:\n");
        if self.max_weight != 100 {
            let _ = writeln!(text, "        maxTrafficWeight: {}", self.max_weight);
        }
        text.push_str("        steps:\n");
        for (step, from) in &self.steps.0 {
            let _ = writeln!(text, "          - {}{}", step.text(), behind(from));
        }
        for (field, value) in &self.policy {
            let _ = writeln!(text, "        {field}: {value}");
        }
        if self.error_rate.is_none() && self.p99.is_none() {
            return;
        }
        text.push_str("        guard:\n");
        if let Some((max, window)) = &self.error_rate {
            let _ = writeln!(text, "          errorRate: {{ max: {max}, window: {} }}", shown(*window));
        }
        if let Some((max, window)) = self.p99 {
            let (max, window) = (shown(max), shown(window));
            let _ = writeln!(text, "          latency: [{{ quantile: 0.99, max: {max}, window: {window} }}]");
        }
    }
}

impl Sticky {
    fn text(&self) -> String {
        let ttl = self.ttl.map(|ttl| format!(", ttl: {}", shown(ttl))).unwrap_or_default();
        format!("{{ by: cookie, name: {}{ttl} }}", scalar(&self.cookie))
    }
}

impl Step {
    fn text(&self) -> String {
        match self {
            Self::Weight(weight) => format!("setWeight: {weight}"),
            Self::Hold(duration) => format!("pause: {{ duration: {} }}", shown(*duration)),
            Self::Person => "pause: {}".to_owned(),
            Self::Analysis(analysis) => format!("analysis: {analysis}"),
            Self::Experiment(experiment) => format!("experiment: {experiment}"),
            Self::HeaderRoute(route) => format!("setHeaderRoute: {route}"),
            Self::MirrorRoute(route) => format!("setMirrorRoute: {route}"),
        }
    }
}

impl Draft {
    /// A file of nothing yet.
    pub(super) fn empty() -> Self {
        let remark = "the endpoints are derived from names of Kubernetes Services: check that Serin reaches them";
        Self {
            services: Vec::new(),
            routes: Vec::new(),
            templates: Vec::new(),
            notify: Vec::new(),
            remarks: vec![remark.to_owned()],
        }
    }

    /// Says something of the whole, once.
    pub(super) fn remark(&mut self, remark: &str) {
        if !self.remarks.iter().any(|known| known == remark) {
            self.remarks.push(remark.to_owned());
        }
    }

    /// The file.
    pub(super) fn text(&self, word: &str, inputs: &[Input]) -> String {
        let files: Vec<String> = inputs.iter().map(|input| input.path.display().to_string()).collect();
        let mut text = String::new();
        comment(&mut text, &format!("Made by `serin import {word} {}`;", files.join(" ")));
        comment(&mut text, "with `--explain` it says what became of every value of those files.");
        for remark in &self.remarks {
            comment(&mut text, &format!("* {remark}"));
        }
        text += "listen: 0.0.0.0:8080\n";
        if self.services.len() > 1 || !self.routes.iter().all(Route::is_plain) {
            text += "routes:\n";
            self.routes.iter().for_each(|route| route.write(&mut text));
        }
        if !self.notify.is_empty() {
            text += "notify:\n";
            for receiver in &self.notify {
                let _ = writeln!(text, "  - {receiver}");
            }
        }
        text += "services:\n";
        self.services.iter().for_each(|service| service.write(&mut text));
        self.write_templates(&mut text);
        text
    }

    fn write_templates(&self, text: &mut String) {
        if self.templates.is_empty() {
            return;
        }
        text.push_str("analysisTemplates:\n");
        let mut written = HashSet::new();
        for template in self.templates.iter().filter(|template| written.insert(&template.name)) {
            template.write(text);
        }
    }
}

/// A name that no service has yet.
pub(super) fn unused_name(name: &str, services: &[Service]) -> String {
    let is_free = |name: &str| !services.iter().any(|service| service.name == name);
    let numbered = (2..).map(|n| format!("{}-{n}", name.get(..name.len().min(58)).unwrap_or(name)));
    std::iter::once(name.to_owned()).chain(numbered).find(|name| is_free(name)).unwrap_or_default()
}

/// As a comment behind a line.
pub(super) fn behind(from: &str) -> String {
    if from.is_empty() { String::new() } else { format!("    # {}", one_line(from)) }
}

fn comment(text: &mut String, line: &str) {
    let _ = writeln!(text, "# {}", one_line(line));
}

fn one_line(text: &str) -> String {
    text.replace(|c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}'), " ")
}

/// Leaves room for one more character; names are ASCII.
fn short(name: &str) -> &str {
    name.get(..name.len().min(62)).unwrap_or(name)
}

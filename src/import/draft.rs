//! A config before it is text: what importers fill in, and how it is written, with comments on where it came from.
//! Holds only what `config::check` accepts; names and addresses are checked where they are made.

use std::{collections::HashSet, fmt::Write as _, time::Duration};

use super::{
    Input,
    analysis::TemplateDraft,
    ledger::Ledger,
    manifest::{Item, Object, Objects},
    value::{key_of, scalar, shown},
};
use crate::{
    config::STEPS_MAX,
    engine::{names::VersionName, weight::Weight},
};

#[derive(Debug)]
pub(super) struct Draft {
    pub(super) service: String,
    pub(super) stable: Backend,
    pub(super) canary: Option<Backend>,
    /// The canary gets traffic now, so it is wished for in the file.
    pub(super) is_running: bool,
    pub(super) force_header: Option<String>,
    pub(super) sticky: Option<Sticky>,
    pub(super) request_timeout: Option<Duration>,
    pub(super) attempt_timeout: Option<Duration>,
    /// What a bare weight is a part of.
    pub(super) max_weight: u64,
    pub(super) steps: Steps,
    pub(super) error_rate: Option<(Weight, Duration)>,
    pub(super) p99: Option<(Duration, Duration)>,
    pub(super) templates: Vec<TemplateDraft>,
    pub(super) remarks: Vec<String>,
}

/// A version and where it answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Backend {
    pub(super) version: String,
    pub(super) url: String,
    /// Further addresses.
    pub(super) more: Vec<String>,
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

    pub(super) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Backend {
    /// A version at an address; none if either is impossible in a config.
    pub(super) fn new(version: &str, host: &str, port: u16) -> Option<Self> {
        // Words with meanings of their own in the force header and in templates.
        let is_taken = matches!(version, "always" | "never" | "stable" | "canary");
        let fine = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        let is_label = |label: &str| (1..=63).contains(&label.len()) && label.bytes().all(fine);
        if is_taken || VersionName::new(version).is_err() || host.len() > 253 || !host.split('.').all(is_label) {
            return None;
        }
        Some(Self { version: version.to_owned(), url: format!("http://{host}:{port}"), more: Vec::new() })
    }

    /// A version named after a Service, at the address that the name has in a cluster.
    pub(super) fn of_service(service: &str, namespace: Option<&str>, port: u16) -> Option<Self> {
        let host = namespace.map_or_else(|| service.to_owned(), |namespace| format!("{service}.{namespace}"));
        Self::new(service, &host, port)
    }

    /// A version where nothing better is known.
    pub(super) fn unknown(version: &str) -> Self {
        Self { version: version.to_owned(), url: format!("http://{version}:80"), more: Vec::new() }
    }
}

/// Where the port and the names around a backend come from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) namespace: Option<&'a str>,
    /// Unless a Service in the input says otherwise.
    pub(super) port: u16,
    /// The version's name when the Service's is absent or impossible, and when that is impossible too.
    pub(super) fallback: (&'a str, &'a str),
}

/// Makes the backend of the Service that an item names, and says so.
pub(super) fn backend(item: Option<&Item>, place: Place<'_>, objects: &Objects, ledger: &mut Ledger) -> Backend {
    let name = item.and_then(Item::text);
    let of = |name: &str, ledger: &mut Ledger| {
        let port = objects.port(name, ledger).unwrap_or(place.port);
        Backend::of_service(name, place.namespace, port)
    };
    let backend = name.and_then(|name| of(name, ledger));
    let backend = backend.or_else(|| of(place.fallback.0, ledger));
    let backend = backend.unwrap_or_else(|| Backend::unknown(place.fallback.1));
    if let Some(item) = item {
        if Some(&*backend.version) == name {
            let how = format!("a version of that name; its endpoint `{}` is derived from it", backend.url);
            ledger.approximated(item, how);
        } else {
            ledger.dropped(item, format!("cannot be a version's name here; it is called `{}`", backend.version));
        }
    }
    backend
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

impl Draft {
    /// A draft without anything optional.
    pub(super) fn new(service: String, stable: Backend, canary: Option<Backend>) -> Self {
        // Two versions need two names.
        let canary = canary.map(|canary| {
            if canary.version != stable.version {
                return canary;
            }
            let suffix = if canary.version.ends_with('2') { '3' } else { '2' };
            Backend { version: format!("{}{suffix}", short(&canary.version)), ..canary }
        });
        Self {
            service,
            stable,
            canary,
            is_running: false,
            force_header: None,
            sticky: None,
            request_timeout: None,
            attempt_timeout: None,
            max_weight: 100,
            steps: Steps::default(),
            error_rate: None,
            p99: None,
            templates: Vec::new(),
            remarks: vec![
                "the endpoints are derived from names of Kubernetes Services: check that Serin reaches them".to_owned(),
            ],
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
        self.write_routes(&mut text);
        let _ = writeln!(text, "services:\n  {}:\n    versions:", key_of(&self.service));
        for backend in [Some(&self.stable), self.canary.as_ref()].into_iter().flatten() {
            let urls: Vec<String> = std::iter::once(&backend.url).chain(&backend.more).map(|url| scalar(url)).collect();
            let one =
                if let [url] = &urls[..] { url.clone() } else { format!("{{ endpoints: [{}] }}", urls.join(", ")) };
            let _ = writeln!(text, "      {}: {one}", key_of(&backend.version));
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
        self.write_assign(&mut text);
        self.write_strategy(&mut text);
        self.write_templates(&mut text);
        text
    }

    fn write_routes(&self, text: &mut String) {
        let timeouts = [("request", self.request_timeout), ("attempt", self.attempt_timeout)];
        let written: Vec<String> =
            timeouts.iter().filter_map(|(name, value)| Some(format!("{name}: {}", shown((*value)?)))).collect();
        if !written.is_empty() {
            let service = scalar(&self.service);
            let _ = writeln!(text, "routes:\n  - service: {service}\n    timeouts: {{ {} }}", written.join(", "));
        }
    }

    fn write_assign(&self, text: &mut String) {
        if self.force_header.is_none() && self.sticky.is_none() {
            return;
        }
        text.push_str("    assign:\n");
        if let Some(header) = &self.force_header {
            let _ = writeln!(text, "      force: {{ header: {} }}", scalar(header));
        }
        if let Some(sticky) = &self.sticky {
            let ttl = sticky.ttl.map(|ttl| format!(", ttl: {}", shown(ttl))).unwrap_or_default();
            let _ = writeln!(text, "      sticky: {{ by: cookie, name: {}{ttl} }}", scalar(&sticky.cookie));
        }
    }

    fn write_strategy(&self, text: &mut String) {
        if self.steps.is_empty() {
            return;
        }
        text.push_str("    strategy:\n      canary:\n");
        if self.max_weight != 100 {
            let _ = writeln!(text, "        maxTrafficWeight: {}", self.max_weight);
        }
        text.push_str("        steps:\n");
        for (step, from) in &self.steps.0 {
            let step = match step {
                Step::Weight(weight) => format!("setWeight: {weight}"),
                Step::Hold(duration) => format!("pause: {{ duration: {} }}", shown(*duration)),
                Step::Person => "pause: {}".to_owned(),
                Step::Analysis(analysis) => format!("analysis: {analysis}"),
            };
            let from = if from.is_empty() { String::new() } else { format!("    # {}", one_line(from)) };
            let _ = writeln!(text, "          - {step}{from}");
        }
        if self.error_rate.is_none() && self.p99.is_none() {
            return;
        }
        text.push_str("        guard:\n");
        if let Some((max, window)) = &self.error_rate {
            let _ = writeln!(text, "          errorRate: {{ max: {max}, window: {} }}", shown(*window));
        }
        if let Some((max, window)) = self.p99 {
            let _ = writeln!(
                text,
                "          latency: [{{ quantile: 0.99, max: {}, window: {} }}]",
                shown(max),
                shown(window)
            );
        }
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

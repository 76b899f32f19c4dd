//! A service: its versions, who is stable, who is wanted, how clients are assigned.
//! Refuses references to versions that are not there and a wish that names the stable version.

use std::{collections::HashMap, path::Path, sync::Arc};

use super::{
    assign,
    diagnostic::{Code, Span},
    failure, filter,
    gate::{self, GateAddress},
    lint,
    report::{At, Fields, Problem, Report},
    shape, strategy, suggest,
    template::Templates,
    upstream::{self, Upstream},
    yaml::Value,
};
use crate::engine::{
    endpoint::Endpoint,
    failure::Retry,
    names::{ServiceName, VersionName},
    plan::{ServicePlan, VersionPlan, Wish},
    table::Timeouts,
};

/// Most versions of a service.
pub const VERSIONS_MAX: usize = 100;
/// Most services of a file.
const SERVICES_MAX: usize = 1_000;

/// All services; those that are wrong are reported and left out.
pub fn services(
    file: &Fields<'_>,
    templates: &Templates<'_>,
    folder: &Path,
    report: &mut Report,
) -> Vec<(ServicePlan, Vec<GateAddress>)> {
    let help = "name a service with its versions: `services: { web: { versions: …, stable: v1 } }`";
    let Some(at) = file.need(report, "services", help) else { return Vec::new() };
    let Some(entries) = report.entries(&at) else { return Vec::new() };
    if entries.is_empty() {
        report.error(Code::MissingField, &at.span(), "`services` names no service").help(help);
    }
    if entries.len() > SERVICES_MAX {
        let message = format!("a file has at most {SERVICES_MAX} services; these are {}", entries.len());
        report.error(Code::TooLarge, &at.key_span, message);
    }
    let mut plans = Vec::new();
    for field in entries.into_iter().take(SERVICES_MAX) {
        let entry = at.entry(field);
        let name = key(&entry.name, &entry.key_span, report);
        plans.extend(service(&entry, name.as_deref(), templates, folder, report));
    }
    templates.report_unused(report);
    plans
}

/// A name as a value, checked as names are.
pub fn name(at: &At<'_>, report: &mut Report) -> Option<String> {
    report.scalar(at, "a name", |text| {
        VersionName::new(text)
            .map(|name| name.to_string())
            .map_err(|error| Problem::new("is not a name", error.to_string()))
    })
}

/// A name as a key, checked as names are.
pub fn key(text: &str, span: &Span, report: &mut Report) -> Option<String> {
    match VersionName::new(text) {
        Ok(name) => Some(name.to_string()),
        Err(error) => {
            report.error(Code::BadValue, span, "this key is not a name").help(error.to_string());
            None
        }
    }
}

/// Reports a name that nothing has.
pub fn unknown<'a>(at: &At<'_>, what: &str, known: impl Iterator<Item = &'a str> + Clone, report: &mut Report) {
    let Value::Scalar(scalar) = &at.node.value else { return };
    let all = known.clone().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    // What came from the environment is not shown.
    let message = if scalar.substituted {
        format!("`{}` names no {what}", at.name)
    } else {
        format!("there is no {what} named `{}`", scalar.text)
    };
    // Of names as short as `v1` each is near to all others.
    let near = suggest::closest(&scalar.text, known).filter(|near| !scalar.substituted && near.len() > 3);
    let help = match near {
        Some(near) => format!("did you mean `{near}`?"),
        None if all.is_empty() => "this file has none".to_owned(),
        None => format!("there is {all}"),
    };
    report.error(Code::BadReference, &at.span(), message).help(help);
}

fn service(
    at: &At<'_>,
    name: Option<&str>,
    templates: &Templates<'_>,
    folder: &Path,
    report: &mut Report,
) -> Option<(ServicePlan, Vec<GateAddress>)> {
    let fields = report.fields(at, &shape::SERVICE)?;
    let help = "name each version and where it answers: `versions: { v1: http://host:port }`";
    let versions = fields.need(report, "versions", help).map(|at| versions(&at, folder, report)).unwrap_or_default();
    // With a broken `versions` every reference would look wrong.
    let known = Some(&versions).filter(|versions| !versions.is_empty());
    let stable_at = fields.need(report, "stable", "name the version that serves now: `stable: v1`");
    let stable = stable_at.as_ref().and_then(|at| version(at, known, report));
    let wish = wish(&fields, known, stable.as_ref(), report);
    let assign = fields.get("assign").map(|at| assign::assign(&at, &names(&versions), report)).unwrap_or_default();
    let failure = failure::failure(&fields, report);
    let strategy = strategy::strategy(&fields, templates, &names(&versions), report);
    let gates = fields.get("gates").map(|at| gate::gates(&at, name, report)).unwrap_or_default();
    let (gates, addresses) = gates.into_iter().unzip();
    let by_hand = templates.by_hand(&names(&versions));
    let plan = ServicePlan {
        name: ServiceName::new(name?).ok()?,
        versions: versions.into_iter().filter_map(|(_, plan)| plan).collect(),
        stable: stable?,
        wish,
        force: assign.force,
        cohorts: assign.cohorts,
        sticky: assign.sticky,
        timeouts: Timeouts::default(),
        retry: Retry::default(),
        failure: failure?,
        strategy: strategy?,
        gates,
        by_hand,
    };
    if !report.refused() {
        lint::service(&plan, &fields, report);
    }
    Some((plan, addresses))
}

/// Every version's name, with its plan if that is right.
type Versions = Vec<(String, Option<VersionPlan>)>;

fn names(versions: &Versions) -> Vec<&str> {
    versions.iter().map(|(name, _)| &**name).collect()
}

fn versions(at: &At<'_>, folder: &Path, report: &mut Report) -> Versions {
    let Some(entries) = report.entries(at) else { return Vec::new() };
    if entries.is_empty() {
        report
            .error(Code::MissingField, &at.span(), "`versions` names no version")
            .help("add one: `v1: http://host:port`");
    }
    if entries.len() > VERSIONS_MAX {
        let message = format!("a service has at most {VERSIONS_MAX} versions; these are {}", entries.len());
        report.error(Code::TooLarge, &at.key_span, message);
    }
    let mut seen: HashMap<Vec<Endpoint>, (String, Span)> = HashMap::new();
    let mut read = Vec::new();
    for field in entries.into_iter().take(VERSIONS_MAX) {
        let entry = at.entry(field);
        let Some(name) = key(&entry.name, &entry.key_span, report) else { continue };
        if matches!(&*name, "always" | "never") {
            report
                .error(Code::BadValue, &entry.key_span, format!("a version cannot be named `{name}`"))
                .help("that word has a meaning of its own in the force header");
        }
        let plan = version_plan(&entry, &name, folder, report);
        if let Some(plan) = &plan {
            let place = (name.clone(), entry.key_span.clone());
            let (other, span) = seen.entry(plan.endpoints.clone()).or_insert_with(|| place.clone());
            if *other != name {
                report
                    .warning(&entry.key_span, format!("`{name}` and `{other}` answer at the same address"))
                    .related(span, "the other is here")
                    .help("requests to both reach one upstream, so there is nothing to compare");
            }
        }
        read.push((name, plan));
    }
    read
}

fn version_plan(at: &At<'_>, name: &str, folder: &Path, report: &mut Report) -> Option<VersionPlan> {
    let name = VersionName::new(name).ok()?;
    let Upstream { endpoints, http, plan, filters } = match &at.node.value {
        Value::Scalar(_) => upstream::short(at, report)?,
        Value::Map(_) => {
            let fields = report.fields(at, &shape::VERSION)?;
            let filters = fields.get("filters").map(|at| filter::of_version(&at, report)).unwrap_or_default();
            Upstream { filters: Arc::new(filters), ..upstream::full(&fields, folder, report)? }
        }
        Value::List(_) => {
            report
                .error(Code::WrongType, &at.span(), format!("`{}` must be a URL or a mapping, not a list", at.name))
                .help("write several addresses as `{ endpoints: [http://a:80, http://b:80] }`");
            return None;
        }
        Value::Null | Value::Unresolved => {
            report.wrong_type(at, "a URL such as `http://app:8000`");
            return None;
        }
    };
    Some(VersionPlan { name, endpoints, http, upstream: Arc::new(plan), filters })
}

/// A reference to one of the known versions; unchecked while none is known.
fn version(at: &At<'_>, known: Option<&Versions>, report: &mut Report) -> Option<VersionName> {
    let text = report.filled(at, "the name of a version")?;
    let names = names(known?);
    if names.contains(&&*text) {
        return VersionName::new(&text).ok();
    }
    unknown(at, "version", names.into_iter(), report);
    None
}

fn wish(
    service: &Fields<'_>,
    known: Option<&Versions>,
    stable: Option<&VersionName>,
    report: &mut Report,
) -> Option<Wish> {
    let revision_at = service.get("revision");
    let revision = revision_at.as_ref().and_then(|at| revision(at, report)).unwrap_or_default();
    let canary_at = service.get("canary")?;
    // `canary: ${CANARY:-}` is how a pipeline says that nothing is wanted.
    if matches!(&canary_at.node.value, Value::Scalar(scalar) if scalar.text.is_empty()) {
        return None;
    }
    let canary = version(&canary_at, known, report)?;
    if Some(&canary) != stable {
        return Some(Wish { version: canary, revision });
    }
    // The state after a promotion, with the file brought up to date: nothing is wished.
    if let Some(at) = revision_at.filter(|_| !revision.is_empty()) {
        report
            .error(Code::Conflict, &canary_at.span(), "the canary is the stable version, with a revision of its own")
            .related(&at.key_span, "this asks for another build of it")
            .help("both would be one upstream; give the new build a version of its own, with its own address");
    }
    None
}

fn revision(at: &At<'_>, report: &mut Report) -> Option<String> {
    report.scalar(at, "a text", |text| {
        if text.len() <= 128 && !text.chars().any(char::is_control) {
            return Ok(text.to_owned());
        }
        Err(Problem::new("is not a revision", "a revision has at most 128 bytes on one line, as a commit hash"))
    })
}

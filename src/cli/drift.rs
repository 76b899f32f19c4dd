//! `serin drift`: where the config file and the running process disagree, and which line to edit.
//! Changes nothing: the file says what is wanted, the state says where things stand.

use std::path::Path;

use serde::Serialize;

use super::{
    Global,
    client::Client,
    exit::Exit,
    output::{self, Trouble},
};
use crate::{
    api::{Document, Phase, Service, ServiceList},
    config::{self, yaml},
    engine::names::VersionName,
    words::Mark,
};

/// Shows where the config file and the running process disagree; exit code 1 when they do
///
/// After a promotion the file still names the old version as stable. That changes nothing, but a reader of the file is misled, and an
/// empty state folder would begin with it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  serin drift
  serin drift --output json     for a pipeline that opens a pull request")]
pub(super) struct Args {}

/// One disagreement.
#[derive(Debug, Serialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
struct Drift {
    /// The path of the field.
    field: String,
    /// Where it is written, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<usize>,
    /// What the file says.
    file: String,
    /// What is in force.
    live: String,
    /// What to do.
    help: String,
}

#[derive(Debug, Serialize)]
struct Body {
    file: String,
    drift: Vec<Drift>,
}

pub(super) fn run(global: &Global) -> Result<Exit, Trouble> {
    let path = config::locate(global.config.as_deref(), Path::new(""), &config::process_environment)
        .map_err(|error| Trouble::new(Exit::Usage, error.to_string()))?;
    let invalid = |found: config::Diagnostics| Trouble::new(Exit::ConfigInvalid, found.to_string());
    let text = config::read(&path).map_err(invalid)?;
    let config = config::parse(&text, &path, &config::process_environment).map_err(invalid)?;
    let list: Document<ServiceList> = Client::new(global)?.get("/api/v1/services")?;
    let mut drift = Vec::new();
    if list.body.config.error.is_some() {
        let help = "see `serin status`, then `serin reload`".to_owned();
        let (file, live) = ("refused when it was read last".to_owned(), "what was loaded before".to_owned());
        drift.push(Drift { field: "the file".to_owned(), line: None, file, live, help });
    }
    for field in &list.body.config.needs_restart {
        let help = "restart Serin to take it up".to_owned();
        let (file, live) = ("changed".to_owned(), "what the process started with".to_owned());
        drift.push(Drift { field: field.clone(), line: line(&text, &path, &[field]), file, live, help });
    }
    for plan in &config.services {
        let Some(service) = list.body.services.iter().find(|service| service.name == plan.name) else { continue };
        let wish = plan.wish.as_ref().map(|wish| wish.version.as_str());
        let mut found = of_service(service, plan.stable.as_str(), wish);
        found.extend(service.versions.iter().filter_map(|version| {
            let (name, url) = (&version.name, version.added_at.as_ref()?);
            let help = format!("it was added by `serin start`; write `{name}: {url}` there to keep it in the file");
            Some(("versions", format!("no `{name}`"), format!("`{name}` at {url}"), help))
        }));
        drift.extend(found.into_iter().map(|(field, file, live, help)| Drift {
            line: line(&text, &path, &["services", plan.name.as_str(), field]),
            field: format!("services.{}.{field}", plan.name),
            file,
            live,
            help,
        }));
    }
    let exit = if drift.is_empty() { Exit::Done } else { Exit::Failed };
    let document = Document::new(Body { file: path.display().to_string(), drift });
    output::show(global, &document, |style| {
        let body = &document.body;
        if body.drift.is_empty() {
            return style.marked(Mark::Good, &format!("{} and what runs agree", body.file)) + "\n";
        }
        let told = |drift: &Drift| {
            let place = drift.line.map_or_else(|| body.file.clone(), |line| format!("{}:{line}", body.file));
            let head = style.marked(Mark::Held, &format!("{place}: {}", drift.field));
            format!("{head}\n  the file says  {}\n  in force is    {}\n  {}\n", drift.file, drift.live, drift.help)
        };
        body.drift.iter().map(told).collect()
    })?;
    Ok(exit)
}

/// Field, what the file says, what is in force, and what to do.
fn of_service(service: &Service, stable: &str, wish: Option<&str>) -> Vec<(&'static str, String, String, String)> {
    let mut found = Vec::new();
    let live = service.stable.as_str();
    if live != stable {
        let help = format!("write `stable: {live}`; it counts only when the state folder is empty");
        found.push(("stable", stable.to_owned(), live.to_owned(), help));
    }
    let running = service.rollout.as_ref().and(service.canary.as_ref()).map(VersionName::as_str);
    match (wish, running) {
        (Some(wish), Some(running)) if wish != running => {
            let help = "the running rollout was started by hand; the file's next new wish supersedes it".to_owned();
            found.push(("canary", wish.to_owned(), running.to_owned(), help));
        }
        (Some(wish), None) if service.phase == Phase::Degraded => {
            let help =
                format!("it was withdrawn; `serin retry {}` tries it again, or name another version", service.name);
            found.push(("canary", wish.to_owned(), format!("none, {live} serves everything"), help));
        }
        (None, Some(running)) => {
            let help = "the running rollout was started by hand".to_owned();
            found.push(("canary", "nothing".to_owned(), running.to_owned(), help));
        }
        _ => {}
    }
    found
}

/// The line of a field, or of the nearest field above it that is written.
fn line(text: &str, path: &Path, names: &[&str]) -> Option<usize> {
    let documents = config::documents(text, path).ok()?;
    let mut node = documents.first()?;
    let mut span = None;
    for name in names {
        let yaml::Value::Map(fields) = &node.value else { break };
        let Some(field) = fields.iter().find(|field| field.key == *name) else { break };
        span = Some(field.key_span.start);
        node = &field.node;
    }
    span.map(|at| text[..text.floor_char_boundary(at)].matches('\n').count() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_is_that_of_the_field_or_of_the_nearest_above() {
        let text = "listen: x\nservices:\n  web:\n    stable: v1\n";
        let at = |names: &[&str]| line(text, Path::new("x"), names);
        assert_eq!(at(&["services", "web", "stable"]), Some(4));
        assert_eq!(at(&["services", "web", "canary"]), Some(3));
        assert_eq!(at(&["metrics"]), None);
    }
}

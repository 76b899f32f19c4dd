//! Endpoints that are out, a line for each version that has some.

use super::{
    quantity::{counted, duration},
    style::{Mark, Style},
};
use crate::engine::{
    health::{EndpointState, EndpointView},
    names::Role,
    view::{ServiceView, VersionView},
};

/// Endpoints named in a line.
const NAMED: usize = 3;

/// Which endpoints of which versions are out, and why; nothing where all are well or none are watched.
#[must_use]
pub fn endpoints(service: &ServiceView) -> Vec<String> {
    service.versions.iter().filter_map(line).collect()
}

/// The same as items of a list with a heading.
pub(super) fn endpoint_items(service: &ServiceView, style: Style) -> Vec<String> {
    let lines = endpoints(service);
    let heading = (!lines.is_empty()).then(|| "Endpoints that are out:".to_owned());
    let item = |line: &String| format!("  {} {line}", style.paint(Mark::Held.tone(), style.mark(Mark::Held)));
    heading.into_iter().chain(lines.iter().map(item)).collect()
}

fn line(version: &VersionView) -> Option<String> {
    let out: Vec<&EndpointView> = version.endpoints.iter().filter(|endpoint| endpoint.state.is_out()).collect();
    if out.is_empty() {
        return None;
    }
    let (all, name) = (version.endpoints.len() as u64, &version.name);
    let head = match (out.len() as u64 == all, version.role) {
        (false, _) => format!("{} of {} of {name}", out.len(), counted(all, "endpoint")),
        (true, Role::Canary) => {
            format!("all of {name}, {}: what it should get counts as failed", counted(all, "endpoint"))
        }
        (true, Role::Stable | Role::Other) => {
            format!("all of {name}, {}, so they are used all the same", counted(all, "endpoint"))
        }
    };
    let named = out.iter().take(NAMED).map(|endpoint| one(endpoint)).collect::<Vec<_>>().join("; ");
    let more = out.len().saturating_sub(NAMED) as u64;
    let more = if more == 0 { String::new() } else { format!("; {more} more") };
    Some(format!("{head}: {named}{more}"))
}

fn one(endpoint: &EndpointView) -> String {
    let why = endpoint.why.as_ref().filter(|why| !why.is_empty()).map_or_else(String::new, |why| format!(" ({why})"));
    let state = match (endpoint.state, endpoint.back_in) {
        (EndpointState::Ejected, Some(left)) => format!("left out for {} more", duration(left)),
        (EndpointState::Ejected, None) => "left out".to_owned(),
        _ => "fails its health check".to_owned(),
    };
    format!("{} {state}{why}", endpoint.name)
}

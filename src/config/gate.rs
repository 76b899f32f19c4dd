//! Gates of a service: who outside is asked whether a rollout may go on. Refuses two gates of one name and kinds that nobody
//! asks. URLs and header fields are secrets: the engine knows a gate by its name.

use std::{collections::HashMap, ops::RangeInclusive, sync::Arc, time::Duration};

use http::{HeaderName, HeaderValue};

use super::{
    diagnostic::{Code, Span},
    message, notify,
    report::{At, Problem, Report},
    service,
    settings::Secret,
    shape, suggest,
};
use crate::engine::{
    gate::{GATES_MAX, GateKind, GatePlan},
    names::ServiceName,
};

const TIMEOUT: Duration = Duration::from_secs(10);
const TIMEOUTS: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_mins(5);
/// Longest `metadata`, in entries.
const METADATA_MAX: usize = 64;

/// Where and how a gate is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GateAddress {
    /// Of which service.
    pub service: ServiceName,
    /// The gate's name.
    pub gate: Arc<str>,
    /// Where to.
    pub url: Secret,
    /// Header fields.
    pub headers: Vec<(HeaderName, Secret)>,
    /// What it is told besides, as it stands.
    pub metadata: Vec<(String, String)>,
}

/// The gates of a service, and their addresses.
pub fn gates(at: &At<'_>, service: Option<&str>, report: &mut Report) -> Vec<(GatePlan, GateAddress)> {
    let items = report.items(at, GATES_MAX).unwrap_or_default();
    let mut names: HashMap<String, Span> = HashMap::new();
    let gates = items.iter().filter_map(|item| {
        let (plan, address) = gate(item, service, report)?;
        if let Some(first) = names.insert(plan.name.to_string(), item.span()) {
            report
                .error(Code::Conflict, &item.span(), format!("there are two gates named `{}`", plan.name))
                .related(&first, "the other is here")
                .help("give each its own name");
        }
        Some((plan, address))
    });
    gates.collect()
}

fn gate(at: &At<'_>, service: Option<&str>, report: &mut Report) -> Option<(GatePlan, GateAddress)> {
    let fields = report.fields(at, &shape::GATE)?;
    let name = fields.need(report, "name", "name it: `name: approve`").and_then(|at| service::name(&at, report));
    let kind = fields.need(report, "type", "say when it is asked: `type: confirm-promotion`");
    let kind = kind.and_then(|at| kind_of(&at, report));
    let url = fields.need(report, "url", "say whom to ask: `url: https://hooks.example/approve`");
    let url = url.and_then(|at| {
        let url = notify::url(&at, report)?;
        if url.is_empty() {
            report
                .error(Code::BadValue, &at.span(), "a gate without a URL cannot be asked")
                .help("give it one, or remove the gate: an absent gate lets everything through");
            return None;
        }
        Some(Secret::new(url))
    });
    let timeout = fields.get("timeout").map_or(Some(TIMEOUT), |at| report.duration(&at, TIMEOUTS));
    let headers = fields.get("headers").map(|at| headers(&at, report)).unwrap_or_default();
    let metadata = fields.get("metadata").map(|at| metadata(&at, report)).unwrap_or_default();
    let name: Arc<str> = name?.into();
    let address = GateAddress {
        service: ServiceName::new(service?).ok()?,
        gate: Arc::clone(&name),
        url: url?,
        headers,
        metadata,
    };
    Some((GatePlan { name, kind: kind?, timeout: timeout? }, address))
}

fn kind_of(at: &At<'_>, report: &mut Report) -> Option<GateKind> {
    let all = GateKind::ALL.map(|kind| format!("`{}`", kind.as_str())).join(", ");
    report.scalar(at, "the type of a gate", |text| {
        if text == "event" {
            let help = "events are told by `notify`: `notify: [{ webhook: https://hooks.example/serin }]`";
            return Err(Problem::new("is no question that could hold a rollout", help));
        }
        let known = GateKind::ALL.into_iter().find(|kind| kind.as_str() == text);
        known.ok_or_else(|| {
            let near = suggest::closest(text, GateKind::ALL.iter().map(|kind| kind.as_str()));
            Problem::new("is not a type of gate", format!("write one of {all}"))
                .fix(near.map(|word| format!("`{word}`")))
        })
    })
}

/// Header fields whose values are secrets.
pub(super) fn headers(at: &At<'_>, report: &mut Report) -> Vec<(HeaderName, Secret)> {
    let value = |at: &At<'_>, report: &mut Report| {
        report.scalar(at, "a header's value", |text| {
            HeaderValue::from_str(text)
                .map(|_| Secret::new(text.to_owned()))
                .map_err(|_| Problem::new("is not a header's value", "use printable text on one line"))
        })
    };
    message::by_header(at, report, value)
}

fn metadata(at: &At<'_>, report: &mut Report) -> Vec<(String, String)> {
    let entries = report.entries(at).unwrap_or_default();
    if entries.len() > METADATA_MAX {
        let message = format!("`metadata` has at most {METADATA_MAX} entries; these are {}", entries.len());
        report.error(Code::TooLarge, &at.key_span, message);
    }
    let texts = entries.into_iter().take(METADATA_MAX).filter_map(|field| {
        let entry = at.entry(field);
        let text = report.scalar(&entry, "a text", |text| Ok(text.to_owned()))?;
        Some((entry.name, text))
    });
    texts.collect()
}

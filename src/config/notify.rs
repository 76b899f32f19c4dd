//! Who is told about rollouts: `notify`. Refuses addresses that are none and events that nobody tells.
//! Every URL is a secret, since those of chat rooms are passwords.

use super::{
    diagnostic::Code,
    report::{At, Problem, Report},
    settings::Secret,
    shape,
};
use crate::engine::event::EventKind;

/// Most receivers.
pub const RECEIVERS_MAX: usize = 16;

/// What is told where nothing is said.
const EVENTS: [EventKind; 6] = [
    EventKind::Started,
    EventKind::Paused,
    EventKind::Promoted,
    EventKind::Aborted,
    EventKind::Superseded,
    EventKind::ScaleDown,
];

/// A receiver of messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receiver {
    /// Where to.
    pub url: Secret,
    /// In which form.
    pub format: Format,
    /// Signs each message.
    pub secret: Option<Secret>,
    /// About what.
    pub events: Vec<EventKind>,
}

/// The form of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// `{ "text": … }`, as Slack, Mattermost and others take it.
    Slack,
    /// A flat JSON object.
    Json,
    /// CloudEvents 1.0, structured.
    CloudEvents,
}

impl Format {
    /// The word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Slack => "slack",
            Self::Json => "json",
            Self::CloudEvents => "cloudevents",
        }
    }
}

/// The receivers; those with an empty URL are switched off.
pub fn receivers(at: &At<'_>, report: &mut Report) -> Vec<Receiver> {
    let items = report.items(at, RECEIVERS_MAX).unwrap_or_default();
    items.iter().filter_map(|item| receiver(item, report)).collect()
}

fn receiver(at: &At<'_>, report: &mut Report) -> Option<Receiver> {
    let fields = report.fields(at, &shape::NOTIFY)?;
    let (url, format) = match (fields.get("slack"), fields.get("webhook")) {
        (Some(slack), None) => {
            if let Some(format) = fields.get("format") {
                report
                    .error(Code::Conflict, &format.key_span, "`format` is for `webhook`: `slack` has its own")
                    .related(&slack.key_span, "this is in Slack's form")
                    .help("remove it");
            }
            (url(&slack, report), Some(Format::Slack))
        }
        (None, Some(webhook)) => {
            let words = [("json", Format::Json), ("cloudevents", Format::CloudEvents), ("slack", Format::Slack)];
            let format = fields.get("format").map_or(Some(Format::Json), |at| report.word(&at, &words));
            (url(&webhook, report), format)
        }
        (Some(slack), Some(webhook)) => {
            report
                .error(Code::Conflict, &webhook.key_span, "a receiver is either `slack` or `webhook`")
                .related(&slack.key_span, "the other is here")
                .help("write two receivers");
            (None, None)
        }
        (None, None) => {
            report.missing(at, "webhook", "say where to: `{ webhook: https://… }` or `{ slack: https://… }`");
            (None, None)
        }
    };
    let secret = fields.get("secret").and_then(|at| report.scalar(&at, "a text", |text| Ok(text.to_owned())));
    let events = fields.get("events").map_or(Some(EVENTS.to_vec()), |at| events(&at, report));
    Some(Receiver {
        url: url.filter(|url| !url.is_empty()).map(Secret::new)?,
        format: format?,
        secret: secret.filter(|text| !text.is_empty()).map(Secret::new),
        events: events?,
    })
}

/// As written; empty is off.
pub(super) fn url(at: &At<'_>, report: &mut Report) -> Option<String> {
    report.scalar(at, "a URL such as `https://hooks.example/serin`", |text| {
        if text.is_empty() {
            return Ok(String::new());
        }
        let uri = text.parse::<http::Uri>().ok();
        let fine = uri.is_some_and(|uri| {
            matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some_and(|host| !host.is_empty())
        });
        if fine && text.len() <= 2_048 {
            return Ok(text.to_owned());
        }
        Err(Problem::new("is not a URL", "write it in full, as `https://hooks.example/serin`"))
    })
}

fn events(at: &At<'_>, report: &mut Report) -> Option<Vec<EventKind>> {
    let words: Vec<(&str, EventKind)> = EventKind::ALL.iter().map(|kind| (kind.as_str(), *kind)).collect();
    let items = report.items(at, EventKind::ALL.len())?;
    let read: Vec<EventKind> = items.iter().filter_map(|item| report.word(item, &words)).collect();
    (read.len() == items.len()).then_some(read)
}

//! Commands on the wire: what a POST may carry for each verb, and the reply.

use serde::{Deserialize, Serialize};

use super::Event;
use crate::engine::{
    endpoint::Site,
    input::{Command, Verb},
    names::{Revision, ServiceName, VersionName},
};

/// Longest reason that is taken, in bytes.
pub const REASON_BYTES_MAX: usize = 1_000;
/// Longest wish revision that is taken, in bytes.
pub const REVISION_BYTES_MAX: usize = 200;

/// The body of `POST services/{s}/{verb}`. Unknown fields are refused: a mistyped `expectRevision` must not be lost.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct CommandRequest {
    /// Why, for the history.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Refuse unless this is the present revision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expect_revision: Option<u64>,
    /// Only say what would happen.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
    /// `start`: the wanted version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// `start`: another build under the same version name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// `start`: where the version answers, when the config file does not name it, e.g. `http://app:8000`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// `undo`: the revision whose result is wanted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to_revision: Option<u64>,
    /// `set-weight`: the canary's share, e.g. `5%` or `2500ppm`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<String>,
    /// `analyze`: the template that is run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    /// `promote`: skip all steps.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub full: bool,
    /// `promote` with `full`: also when the rollout was aborted.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub force: bool,
}

/// What came of a command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CommandReply {
    /// The last event of it, persisted and published; absent when there was nothing to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<Event>,
    /// The same as a sentence.
    pub message: String,
}

/// What came of a reload that was accepted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReloadReply {
    /// The file as it stands now.
    pub config: super::ConfigStatus,
    /// A sentence.
    pub message: String,
}

/// Why a request body makes no command.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadRequest {
    /// There is no such verb.
    #[error(
        "there is no verb `{0}`; there are start, promote, pause, resume, abort, drain, retry, undo, set-weight, terminate and analyze"
    )]
    UnknownVerb(String),
    /// The verb needs a field that is not there.
    #[error("`{verb}` needs `{field}`")]
    Missing {
        /// The verb.
        verb: &'static str,
        /// The field.
        field: &'static str,
    },
    /// The field belongs to another verb.
    #[error("`{field}` means nothing to `{verb}`")]
    Foreign {
        /// The verb.
        verb: &'static str,
        /// The field.
        field: &'static str,
    },
    /// The field's value is no good.
    #[error("`{field}`: {problem}")]
    Invalid {
        /// The field.
        field: &'static str,
        /// What is wrong with it.
        problem: String,
    },
}

impl CommandRequest {
    /// Checks the body against the verb and makes the engine's command of it; `site` reads an endpoint.
    ///
    /// # Errors
    /// When there is no such verb, a field is missing, belongs to another verb, is malformed or too long.
    pub fn into_command(
        self,
        service: ServiceName,
        verb: &str,
        actor: String,
        site: impl FnOnce(&str) -> Result<Site, String>,
    ) -> Result<Command, BadRequest> {
        let reason = self.reason.clone().unwrap_or_default();
        if reason.len() > REASON_BYTES_MAX {
            let problem = format!("a reason has at most {REASON_BYTES_MAX} bytes, this one has {}", reason.len());
            return Err(BadRequest::Invalid { field: "reason", problem });
        }
        let reason = one_line(&reason);
        let expect_revision = self.expect_revision.map(Revision);
        let verb = self.verb(verb, site)?;
        Ok(Command { service, verb, actor, reason, expect_revision })
    }

    fn verb(self, verb: &str, site: impl FnOnce(&str) -> Result<Site, String>) -> Result<Verb, BadRequest> {
        match verb {
            "start" => {
                self.only("start", &["to", "revision", "endpoint"])?;
                let site = self.endpoint.as_deref().map(site).transpose();
                let site = site.map_err(|problem| BadRequest::Invalid { field: "endpoint", problem })?;
                Ok(Verb::Start { to: wanted_version(self.to)?, revision: wish_revision(self.revision)?, site })
            }
            "promote" => {
                self.only("promote", &["full", "force"])?;
                if self.force && !self.full {
                    return Err(BadRequest::Missing { verb: "promote --force", field: "full" });
                }
                Ok(Verb::Promote { full: self.full, force: self.force })
            }
            "pause" => self.only("pause", &[]).map(|()| Verb::Pause),
            "resume" => self.only("resume", &[]).map(|()| Verb::Resume),
            "abort" => self.only("abort", &[]).map(|()| Verb::Abort),
            "drain" => self.only("drain", &[]).map(|()| Verb::Drain),
            "retry" => self.only("retry", &[]).map(|()| Verb::Retry),
            "terminate" => self.only("terminate", &[]).map(|()| Verb::Terminate),
            "analyze" => {
                self.only("analyze", &["template"])?;
                Ok(Verb::Analyze { template: template_name(self.template)? })
            }
            "undo" => {
                self.only("undo", &["toRevision"])?;
                Ok(Verb::Undo { to: self.to_revision.map(Revision) })
            }
            "set-weight" => {
                self.only("set-weight", &["weight"])?;
                let text = self.weight.ok_or(BadRequest::Missing { verb: "set-weight", field: "weight" })?;
                let weight = text.parse().map_err(|error| BadRequest::Invalid {
                    field: "weight",
                    problem: format!("`{}` is not a weight: {error}", shown(&text)),
                })?;
                Ok(Verb::SetWeight(weight))
            }
            other => Err(BadRequest::UnknownVerb(shown(other))),
        }
    }

    /// Refuses fields that the verb would silently ignore.
    fn only(&self, verb: &'static str, own: &[&str]) -> Result<(), BadRequest> {
        let given = [
            ("to", self.to.is_some()),
            ("revision", self.revision.is_some()),
            ("endpoint", self.endpoint.is_some()),
            ("toRevision", self.to_revision.is_some()),
            ("weight", self.weight.is_some()),
            ("template", self.template.is_some()),
            ("full", self.full),
            ("force", self.force),
        ];
        match given.into_iter().find(|(field, given)| *given && !own.contains(field)) {
            Some((field, _)) => Err(BadRequest::Foreign { verb, field }),
            None => Ok(()),
        }
    }
}

fn wanted_version(to: Option<String>) -> Result<VersionName, BadRequest> {
    let to = to.ok_or(BadRequest::Missing { verb: "start", field: "to" })?;
    VersionName::new(&to).map_err(|error| BadRequest::Invalid {
        field: "to",
        problem: format!("`{}` is not a version: {error}", shown(&to)),
    })
}

/// Templates are named as versions are.
fn template_name(name: Option<String>) -> Result<String, BadRequest> {
    let name = name.ok_or(BadRequest::Missing { verb: "analyze", field: "template" })?;
    match VersionName::new(&name) {
        Ok(_) => Ok(name),
        Err(error) => {
            let problem = format!("`{}` is not a template's name: {error}", shown(&name));
            Err(BadRequest::Invalid { field: "template", problem })
        }
    }
}

fn wish_revision(revision: Option<String>) -> Result<String, BadRequest> {
    let revision = revision.unwrap_or_default();
    if revision.len() > REVISION_BYTES_MAX || revision.chars().any(char::is_control) {
        let problem = format!("a revision has at most {REVISION_BYTES_MAX} bytes and no control characters");
        return Err(BadRequest::Invalid { field: "revision", problem });
    }
    Ok(revision)
}

/// A reason is shown in one line of logs and terminals: no control character gets that far.
fn one_line(text: &str) -> String {
    let printable: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    printable.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// What a message may repeat of outside text.
fn shown(text: &str) -> String {
    one_line(text).chars().take(80).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::endpoint::Endpoint;

    fn command(verb: &str, body: &str) -> Result<Command, String> {
        let request: CommandRequest = serde_json::from_str(body).map_err(|error| error.to_string())?;
        let web = ServiceName::new("web").unwrap();
        request
            .into_command(web, verb, "ann".to_owned(), |text| match text {
                "http://app:8000" => Ok(Site { endpoint: Endpoint::tcp("app", 8000), is_tls: false }),
                _ => Err("is no URL".to_owned()),
            })
            .map_err(|error| error.to_string())
    }

    #[test]
    fn each_verb_takes_its_own_fields() {
        let rows = [
            (
                "start",
                r#"{"to":"v2","revision":"abc"}"#,
                Verb::Start { to: VersionName::new("v2").unwrap(), revision: "abc".into(), site: None },
            ),
            (
                "start",
                r#"{"to":"v3","endpoint":"http://app:8000"}"#,
                Verb::Start {
                    to: VersionName::new("v3").unwrap(),
                    revision: String::new(),
                    site: Some(Site { endpoint: Endpoint::tcp("app", 8000), is_tls: false }),
                },
            ),
            ("promote", r#"{"full":true,"force":true}"#, Verb::Promote { full: true, force: true }),
            ("promote", "{}", Verb::Promote { full: false, force: false }),
            ("pause", "{}", Verb::Pause),
            ("resume", "{}", Verb::Resume),
            ("abort", "{}", Verb::Abort),
            ("drain", "{}", Verb::Drain),
            ("retry", "{}", Verb::Retry),
            ("terminate", "{}", Verb::Terminate),
            ("analyze", r#"{"template":"latency"}"#, Verb::Analyze { template: "latency".into() }),
            ("undo", "{}", Verb::Undo { to: None }),
            ("undo", r#"{"toRevision":3}"#, Verb::Undo { to: Some(Revision(3)) }),
            ("set-weight", r#"{"weight":"0.25%"}"#, Verb::SetWeight("2500ppm".parse().unwrap())),
        ];
        for (verb, body, wanted) in rows {
            assert_eq!(command(verb, body).unwrap().verb, wanted, "{verb} {body}");
        }
        let full = command("abort", r#"{"reason":" too\nslow\u001b[2J ","expectRevision":7}"#).unwrap();
        assert_eq!((full.reason.as_str(), full.expect_revision), ("too slow [2J", Some(Revision(7))));
    }

    #[test]
    fn a_field_that_would_be_ignored_is_refused() {
        for (verb, body, message) in [
            ("abort", r#"{"weight":"5%"}"#, "`weight` means nothing to `abort`"),
            ("set-weight", "{}", "`set-weight` needs `weight`"),
            (
                "set-weight",
                r#"{"weight":"5"}"#,
                "`weight`: `5` is not a weight: write a weight as `5%`, `0.25%` or `2500ppm`",
            ),
            ("start", "{}", "`start` needs `to`"),
            ("start", r#"{"to":"v2","endpoint":"app"}"#, "`endpoint`: is no URL"),
            ("analyze", "{}", "`analyze` needs `template`"),
            ("terminate", r#"{"template":"latency"}"#, "`template` means nothing to `terminate`"),
            ("retry", r#"{"endpoint":"http://a"}"#, "`endpoint` means nothing to `retry`"),
            ("promote", r#"{"force":true}"#, "`promote --force` needs `full`"),
        ] {
            assert_eq!(command(verb, body).unwrap_err(), message, "{verb} {body}");
        }
        assert!(command("abort", r#"{"expectRevison":7}"#).unwrap_err().starts_with("unknown field `expectRevison`"));
        assert!(command("explode", "{}").unwrap_err().starts_with("there is no verb `explode`"));
        let long = format!(r#"{{"reason":"{}"}}"#, "x".repeat(REASON_BYTES_MAX + 1));
        assert!(command("abort", &long).unwrap_err().contains("at most 1000 bytes"));
    }
}

//! THE CONTRACT. Wire types of the HTTP API, both directions. Never decides, never renders a sentence.
//!
//! Field names are camelCase. Times are RFC 3339 in UTC; durations are numbers of milliseconds in fields that end in
//! `Ms`; shares are in `0..1`; weights are parts per million beside their text. A client ignores fields it does not know.

mod analysis;
mod codec;
mod command;
mod config;
mod error;
mod event;
mod explain;
mod status;

use serde::{Deserialize, Serialize};

pub use analysis::{AnalysisRun, Measurement, MetricResult};
pub use command::{BadRequest, CommandReply, CommandRequest, REASON_BYTES_MAX, ReloadReply};
pub use config::ConfigStatus;
pub use error::{ErrorBody, ErrorDetail};
pub use event::{Cause, Counts, Event, History, Lag};
pub use explain::{Candidate, RequestAnswer, RequestQuestion};
pub use status::{Check, Rollout, Service, ServiceList, ServiceStatus, Version, Waiting, Why};

pub use crate::engine::view::PhaseView as Phase;

/// What `apiVersion` says in every document.
pub const API_VERSION: &str = "serin/v1";

/// A whole answer: `apiVersion` and the body's fields beside it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Document<T> {
    /// Always [`API_VERSION`].
    pub api_version: String,
    /// The rest.
    #[serde(flatten)]
    pub body: T,
}

impl<T> Document<T> {
    /// Wraps a body.
    #[must_use]
    pub fn new(body: T) -> Self {
        Self { api_version: API_VERSION.to_owned(), body }
    }
}

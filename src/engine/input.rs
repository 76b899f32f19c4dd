//! All that can happen to the control plane, on one screen.

use super::{
    analysis::{answer::Reply, ask::Ticket},
    endpoint::Site,
    gate::{GateAnswer, GateTicket},
    names::{Revision, ServiceName, VersionName},
    plan::Plan,
    samples::Samples,
    weight::Weight,
};

/// Something that happened. `Engine::apply` takes it with the time.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// The file says this now. Also the first input of every start.
    Configure(Plan),
    /// Traffic was measured; sent every 100 ms, also when empty, and drives all that depends on time.
    Measured(Samples),
    /// Somebody else answered what `Effect::Measure` asked, or no answer could be had, for the reason in words.
    Answered(Ticket, Result<Reply, String>),
    /// A gate answered what `Effect::Consult` asked, or no answer could be had, for the reason in words.
    GateAnswered(GateTicket, Result<GateAnswer, String>),
    /// A person or a script asks for something.
    Command(Command),
}

/// A request by a person or script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// Of which service.
    pub service: ServiceName,
    /// What.
    pub verb: Verb,
    /// Who asks, for the history.
    pub actor: String,
    /// Why, for the history; may be empty.
    pub reason: String,
    /// Refuse unless this is the present revision.
    pub expect_revision: Option<Revision>,
}

/// What can be asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verb {
    /// Starts a rollout to a version.
    Start {
        /// The wanted version.
        to: VersionName,
        /// Another build under the same name; may be empty.
        revision: String,
        /// Where it answers, for a version that the file does not name.
        site: Option<Site>,
    },
    /// Goes on with the next step now; with `full`, skips all that is left.
    Promote {
        /// Skip all steps.
        full: bool,
        /// Also when the rollout was aborted.
        force: bool,
    },
    /// Stops the clock where it is.
    Pause,
    /// Goes on after a pause.
    Resume,
    /// Weight 0 at once.
    Abort,
    /// Nobody new comes to the canary; clients who are kept on it stay.
    Drain,
    /// Tries an aborted version again, from step 1.
    Retry,
    /// Back to an earlier stable version.
    Undo {
        /// The revision whose result is wanted; the one before the present without.
        to: Option<Revision>,
    },
    /// Sets the canary's weight and pauses there.
    SetWeight(Weight),
    /// Ends the analyses that are running.
    Terminate,
    /// Runs a template of the file beside whatever goes on; its verdict decides nothing.
    Analyze {
        /// Which template.
        template: String,
    },
}

impl Verb {
    /// The verb's word.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Start { .. } => "start",
            Self::Promote { .. } => "promote",
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Abort => "abort",
            Self::Drain => "drain",
            Self::Retry => "retry",
            Self::Undo { .. } => "undo",
            Self::SetWeight(_) => "set-weight",
            Self::Terminate => "terminate",
            Self::Analyze { .. } => "analyze",
        }
    }
}

/// Why a command was not carried out. Nothing has changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The file names no such service.
    #[error("there is no service `{0}`")]
    UnknownService(ServiceName),
    /// The file names no such version.
    #[error("service `{service}` has no version `{version}`; it has {known}")]
    UnknownVersion {
        /// Of which service.
        service: ServiceName,
        /// What was asked for.
        version: VersionName,
        /// The versions there are.
        known: String,
    },
    /// Somebody else was faster.
    #[error("the present revision is {present}, not {expected}: look again before acting")]
    OtherRevision {
        /// What the caller thought.
        expected: Revision,
        /// What is.
        present: Revision,
    },
    /// The verb makes no sense in the present phase; the text says what would.
    #[error("{0}")]
    NotNow(String),
}

//! The exit codes that scripts rely on.

use std::process::ExitCode;

/// How a verb ended. The numbers are an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Done; for waiting verbs: the asked-for state was reached.
    Done = 0,
    /// An unexpected failure.
    Failed = 1,
    /// Wrong usage.
    Usage = 2,
    /// The config is invalid.
    ConfigInvalid = 3,
    /// The rollout was aborted.
    Aborted = 4,
    /// Time ran out.
    TimedOut = 5,
    /// Refused: the state changed, another revision, or the verb is not possible now; of `import`: `--strict` found
    /// something dropped, or the file to write exists.
    Refused = 6,
    /// The admin API cannot be reached.
    Unreachable = 7,
    /// The token is missing or wrong.
    NotAllowed = 8,
    /// Paused for a person.
    PausedForPerson = 9,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

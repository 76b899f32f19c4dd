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
    /// An analysis that was waited for did not end well.
    NotSuccessful = 10,
    /// Interrupted by Ctrl-C or SIGTERM before the end.
    Interrupted = 130,
}

impl Exit {
    /// Each with what it means, as the help and the manual say it.
    pub const ALL: [(Self, &str); 12] = [
        (Self::Done, "done"),
        (Self::Failed, "failed unexpectedly"),
        (Self::Usage, "wrong usage"),
        (Self::ConfigInvalid, "config invalid"),
        (Self::Aborted, "rollout aborted"),
        (Self::TimedOut, "time ran out"),
        (Self::Refused, "refused"),
        (Self::Unreachable, "admin API not reachable"),
        (Self::NotAllowed, "not allowed (token)"),
        (Self::PausedForPerson, "paused for a person"),
        (Self::NotSuccessful, "analysis not successful"),
        (Self::Interrupted, "interrupted"),
    ];
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guide::PAGES;

    /// The help of `serin` is compared where it is written.
    #[test]
    fn the_manual_has_every_code_and_no_other() {
        let page = PAGES.iter().find(|page| page.topic == "pipelines").unwrap().text;
        let rows: Vec<(u8, &str)> = page
            .lines()
            .filter_map(|line| line.strip_prefix("| ")?.split_once(" | "))
            .filter_map(|(code, meaning)| Some((code.parse().ok()?, meaning)))
            .collect();
        assert_eq!(rows.len(), Exit::ALL.len());
        for ((exit, meaning), (code, said)) in Exit::ALL.iter().zip(rows) {
            assert_eq!(*exit as u8, code);
            assert!(said.starts_with(meaning), "{code}: {said}");
        }
    }
}

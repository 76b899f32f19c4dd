//! The process's own log: to stderr, as text or JSON. Access logs and metrics are not here.

use std::{
    io::{self, IsTerminal},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use tracing_subscriber::{
    filter::{ParseError, Targets},
    fmt,
    layer::SubscriberExt,
    util::SubscriberInitExt,
};

/// The environment variable that says what is logged: `debug`, or by module as in `info,serin::proxy=trace`.
pub const LEVEL: &str = "SERIN_LOG";

/// How log lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogFormat {
    /// For people; in colour on a terminal, unless `NO_COLOR` is set.
    #[default]
    Text,
    /// One JSON object a line, the fields beside `timestamp`, `level`, `target` and `message`.
    Json,
}

/// Why the log could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// `SERIN_LOG` is wrong.
    #[error("{LEVEL}=`{value}` says no level ({source}): write error, warn, info, debug or trace")]
    Level {
        /// Its value.
        value: String,
        /// What is wrong with it.
        source: ParseError,
    },
    /// It was set up before.
    #[error("the log was set up twice in one process")]
    Twice,
}

/// Sets the process's log up, once: from here on `tracing`'s events of the level that `SERIN_LOG` says (`info` without)
/// go to stderr.
///
/// # Errors
/// When `SERIN_LOG` says no level, or at the second call.
pub fn start(format: LogFormat) -> Result<(), TelemetryError> {
    let level = std::env::var(LEVEL).unwrap_or_default();
    let filter = filter(&level)?;
    let lines = tracing_subscriber::registry().with(filter);
    match format {
        LogFormat::Text => {
            let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
            let colour = io::stderr().is_terminal() && !plain;
            lines.with(fmt::layer().with_writer(io::stderr).with_ansi(colour)).try_init()
        }
        LogFormat::Json => {
            let layer = fmt::layer().with_writer(io::stderr).json().flatten_event(true).with_current_span(false);
            lines.with(layer).try_init()
        }
    }
    .map_err(|_| TelemetryError::Twice)
}

/// Lets a log line through at most once in a while, and says how many were held back: for lines that clients or upstreams
/// can cause at any rate. One for each place that logs.
#[derive(Debug)]
pub struct LogLimit {
    every: Duration,
    state: Mutex<LimitState>,
}

#[derive(Debug)]
struct LimitState {
    last: Option<Instant>,
    held_back: u64,
}

impl LogLimit {
    /// At most one line in this time.
    #[must_use]
    pub const fn new(every: Duration) -> Self {
        Self { every, state: Mutex::new(LimitState { last: None, held_back: 0 }) }
    }

    /// Whether a line may be written now: then how many were held back since the one before. Never waits: while another
    /// thread asks, this line is held back uncounted.
    pub fn pass(&self, now: Instant) -> Option<u64> {
        let mut state = match self.state.try_lock() {
            Ok(state) => state,
            Err(std::sync::TryLockError::Poisoned(poisoned)) => PoisonError::into_inner(poisoned),
            Err(std::sync::TryLockError::WouldBlock) => return None,
        };
        if state.last.is_some_and(|last| now.saturating_duration_since(last) < self.every) {
            state.held_back += 1;
            return None;
        }
        state.last = Some(now);
        Some(std::mem::take(&mut state.held_back))
    }
}

fn filter(level: &str) -> Result<Targets, TelemetryError> {
    let wanted = if level.is_empty() { "info" } else { level };
    wanted.parse::<Targets>().map_err(|source| TelemetryError::Level { value: level.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    const CHILD: &str = "SERIN_TEST_LOG";
    const NAME: &str = "telemetry::tests::lines_go_to_stderr_in_the_asked_format_and_level";

    /// What a process of its own writes to stderr: there is one log in each.
    fn lines(format: &str, level: Option<&str>) -> String {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", NAME, "--nocapture"]).env(CHILD, format).env_remove(LEVEL);
        if let Some(level) = level {
            child.env(LEVEL, level);
        }
        let output = child.output().unwrap();
        assert!(output.status.success());
        assert!(!String::from_utf8(output.stdout).unwrap().contains("turned"));
        String::from_utf8(output.stderr).unwrap()
    }

    #[test]
    fn lines_go_to_stderr_in_the_asked_format_and_level() {
        if let Some(format) = std::env::var_os(CHILD) {
            start(if format == "json" { LogFormat::Json } else { LogFormat::Text }).unwrap();
            tracing::info!(service = "web", weight = 5, "turned");
            tracing::debug!("turned in detail");
            assert!(matches!(start(LogFormat::Text), Err(TelemetryError::Twice)));
            return;
        }
        let text = lines("text", None);
        assert!(text.trim_end().ends_with(r#"INFO serin::telemetry::tests: turned service="web" weight=5"#), "{text}");
        assert!(!text.contains('\x1b'), "no colour without a terminal: {text:?}");

        let json = lines("json", Some("debug"));
        let objects: Vec<serde_json::Value> = json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(objects.len(), 2);
        assert_eq!(objects[0]["message"], "turned");
        assert_eq!(objects[0]["service"], "web");
        assert_eq!(objects[1]["level"], "DEBUG");

        assert_eq!(lines("text", Some("serin=warn")), "");
    }

    #[test]
    fn a_wrong_level_is_explained() {
        for good in ["", "debug", "info,serin::proxy=trace"] {
            filter(good).unwrap();
        }
        let said = filter("serin=loud").unwrap_err().to_string();
        assert!(said.starts_with("SERIN_LOG=`serin=loud` says no level ("), "{said}");
        assert!(said.ends_with("write error, warn, info, debug or trace"), "{said}");
    }

    #[test]
    fn a_limit_lets_one_line_through_and_counts_the_others() {
        let limit = LogLimit::new(Duration::from_secs(1));
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        assert_eq!(limit.pass(at(0)), Some(0));
        assert_eq!(limit.pass(at(10)), None);
        assert_eq!(limit.pass(at(999)), None);
        assert_eq!(limit.pass(at(1_000)), Some(2));
        assert_eq!(limit.pass(at(1_500)), None);
        assert_eq!(limit.pass(at(5_000)), Some(1));
    }
}

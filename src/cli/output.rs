//! What goes to the terminal and how: format, colours, glyphs, and the end of a verb. Says nothing of its own.

use std::io::{ErrorKind, IsTerminal as _, Write as _};

use anstream::{AutoStream, ColorChoice};
use serde::Serialize;

use super::{Global, exit::Exit};
use crate::{api, words::Style};

/// How data is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Format {
    Table,
    Json,
    Yaml,
    /// For code hosts; of `check` alone, the others are not run with it
    #[value(hide = true)]
    Sarif,
}

/// Whether there are colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Color {
    Auto,
    Always,
    Never,
}

/// A verb that did not get what it wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Trouble {
    pub(super) exit: Exit,
    message: String,
}

impl Trouble {
    pub(super) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into() }
    }

    pub(super) fn message(&self) -> &str {
        &self.message
    }

    /// The reader of stdout went away: no reason to complain.
    fn reader_gone() -> Self {
        Self::new(Exit::Done, "")
    }
}

/// Says what went wrong, if anything, and gives the exit code.
pub(super) fn finish(result: Result<Exit, Trouble>) -> Exit {
    match result {
        Ok(exit) => exit,
        Err(trouble) => {
            note(&trouble.message);
            trouble.exit
        }
    }
}

/// A message on stderr, with `error:` in front unless it is a list of diagnostics, which says so itself;
/// nothing for an empty one.
pub(super) fn note(message: &str) {
    if !message.is_empty() {
        let front = if message.starts_with("error") { "" } else { "error: " };
        // Nowhere left to say that it cannot be said.
        let _ = writeln!(std::io::stderr(), "{front}{message}");
    }
}

/// A line on stderr that is no error.
pub(super) fn remark(line: &str) {
    // Nowhere left to say that it cannot be said.
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Writes data to stdout.
pub(super) fn print(text: &str) -> Result<(), Trouble> {
    let mut stdout = std::io::stdout().lock();
    let written = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
    written.map_err(|error| match error.kind() {
        ErrorKind::BrokenPipe => Trouble::reader_gone(),
        _ => Trouble::new(Exit::Failed, format!("stdout cannot be written: {error}")),
    })
}

/// A document as one line of JSON or as YAML; `text` is for people.
pub(super) fn show<T: Serialize>(
    global: &Global,
    document: &api::Document<T>,
    text: impl FnOnce(Style) -> String,
) -> Result<(), Trouble> {
    print(&rendered(global, document, text)?)
}

/// What [`show`] prints.
pub(super) fn rendered<T: Serialize>(
    global: &Global,
    document: &api::Document<T>,
    text: impl FnOnce(Style) -> String,
) -> Result<String, Trouble> {
    let failed = |error: String| Trouble::new(Exit::Failed, format!("the answer cannot be printed: {error}"));
    match global.output {
        Format::Table => Ok(text(style(global))),
        Format::Json | Format::Sarif => {
            let json = serde_json::to_string(document).map_err(|error| failed(error.to_string()))?;
            Ok(format!("{json}\n"))
        }
        Format::Yaml => {
            let yaml = serde_yaml::to_string(document).map_err(|error| failed(error.to_string()))?;
            Ok(format!("---\n{}\n", yaml.trim_end()))
        }
    }
}

/// Glyphs and colours for stdout.
pub(super) fn style(global: &Global) -> Style {
    let color = match global.color {
        Color::Always => true,
        Color::Never => false,
        Color::Auto => AutoStream::choice(&std::io::stdout()) != ColorChoice::Never,
    };
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    Style { ascii: global.ascii || dumb, color }
}

/// Glyphs and colours for stderr.
pub(super) fn style_of_stderr(global: &Global) -> Style {
    let color = match global.color {
        Color::Auto => AutoStream::choice(&std::io::stderr()) != ColorChoice::Never,
        Color::Always | Color::Never => style(global).color,
    };
    Style { color, ..style(global) }
}

/// Whether a person looks at stdout.
pub(super) fn is_live(global: &Global) -> bool {
    global.output == Format::Table && std::io::stdout().is_terminal()
}

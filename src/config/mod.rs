//! WHAT IS WANTED. YAML becomes [`Config`], or a list of diagnostics with file, line, column, excerpt and suggestion.
//! Refuses a file as a whole: what is applied was right in every part.

mod assign;
mod blue_green;
#[cfg(test)]
mod corpus;
mod diagnostic;
mod experiment;
mod failure;
mod file;
mod filter;
mod foreign;
pub mod gate;
mod guard;
mod header_route;
mod health;
mod lint;
mod listener;
pub mod manual;
mod mask;
mod message;
mod mirror;
pub mod notify;
mod policy;
mod provider;
mod report;
mod route;
mod sarif;
mod scalar;
mod service;
pub mod settings;
mod shape;
mod strategy;
mod substitute;
mod suggest;
mod summary;
mod template;
mod text;
mod tracing;
mod upstream;
pub mod watch;
#[cfg(test)]
mod whole;
#[cfg(test)]
mod with_conditions;
pub mod yaml;

use std::{
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
};

pub use diagnostic::{Code, Diagnostic, Diagnostics, Severity};
pub use scalar::site;
pub use settings::Config;
pub use strategy::STEPS_MAX;
pub use substitute::Environment;
pub use template::TEMPLATES_MAX;

use report::Report;

/// Largest file, in bytes.
pub const FILE_BYTES_MAX: usize = 8 << 20;

/// What came of a file.
#[derive(Debug, Clone, PartialEq)]
pub struct Checked {
    /// The file as meant; none when there is an error.
    pub config: Option<Config>,
    /// Errors and warnings; empty when all is well.
    pub diagnostics: Diagnostics,
}

/// Reads and checks a file. Warnings are dropped; see [`check`] for them.
///
/// # Errors
/// Everything that is wrong with it.
pub fn load(path: &Path, environment: &Environment<'_>) -> Result<Config, Diagnostics> {
    parse(&read(path)?, path, environment)
}

/// Checks a text as the content of `path`; relative folders in it are relative to that file's folder.
///
/// # Errors
/// Everything that is wrong with it.
pub fn parse(text: &str, path: &Path, environment: &Environment<'_>) -> Result<Config, Diagnostics> {
    let Checked { config, diagnostics } = check(text, path, environment);
    config.ok_or(diagnostics)
}

/// As [`parse`], with the warnings.
#[must_use]
pub fn check(text: &str, path: &Path, environment: &Environment<'_>) -> Checked {
    let shown = path.display().to_string();
    let refused = |masked: String, found: Diagnostic| Checked {
        config: None,
        diagnostics: Diagnostics::new(shown.clone(), masked, vec![found]),
    };
    if text.len() > FILE_BYTES_MAX {
        return refused(String::new(), Diagnostic::new(Severity::Error, Code::TooLarge, None, too_large()));
    }
    let mut root = match yaml::read(text) {
        Ok(root) => root,
        Err(found) => return refused(mask::by_line(text), found),
    };
    let mut report = Report::default();
    substitute::substitute(&mut root, environment, &mut report);
    let config = file::file(&root, path.parent().unwrap_or(Path::new("")), &mut report);
    let found = report.into_found();
    // Dear, and of use only to findings: most files have none.
    let masked = if found.is_empty() { String::new() } else { mask::by_tree(text, &root) };
    Checked { config, diagnostics: Diagnostics::new(shown, masked, found) }
}

/// Reads every YAML document of a text that is no config, such as manifests to import; spans are of the whole text.
/// Nothing is replaced from the environment.
///
/// # Errors
/// The first thing that is not YAML, or costs too much.
pub fn documents(text: &str, path: &Path) -> Result<Vec<yaml::Node>, Diagnostics> {
    yaml::documents(text)
        .map_err(|found| Diagnostics::new(path.display().to_string(), mask::by_line(text), vec![found]))
}

/// Where the process of this file answers and keeps its state; also from a file with errors elsewhere.
#[must_use]
pub fn reach(path: &Path, environment: &Environment<'_>) -> Option<(settings::Admin, settings::State)> {
    let mut root = yaml::read(&read(path).ok()?).ok()?;
    substitute::substitute(&mut root, environment, &mut Report::default());
    file::reach(&root, path.parent().unwrap_or(Path::new("")))
}

/// Reads a file's text, at most [`FILE_BYTES_MAX`].
///
/// # Errors
/// When it cannot be read, is too large, or is not UTF-8.
pub fn read(path: &Path) -> Result<String, Diagnostics> {
    let refused = |code: Code, message: String, help: &str| {
        let mut found = Diagnostic::new(Severity::Error, code, None, message);
        found.help(help);
        Diagnostics::new(path.display().to_string(), String::new(), vec![found])
    };
    let bytes = read_bytes(path).map_err(|error| {
        let help = match error.kind() {
            io::ErrorKind::NotFound => "check the path",
            io::ErrorKind::PermissionDenied => "give the user that runs Serin the right to read it",
            io::ErrorKind::IsADirectory => "name the file itself, not its folder",
            _ => "check the path and the disk",
        };
        refused(Code::Unreadable, format!("the file cannot be read: {error}"), help)
    })?;
    if bytes.len() > FILE_BYTES_MAX {
        return Err(refused(Code::TooLarge, too_large(), "split it, or remove what is not needed"));
    }
    String::from_utf8(bytes)
        .map_err(|_| refused(Code::Syntax, "the file is not UTF-8 text".to_owned(), "save it as UTF-8"))
}

/// One name of the process environment; what is not Unicode counts as unset.
#[must_use]
pub fn process_environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// The file that a verb works on: `explicit`, then `SERIN_CONFIG`, then `serin.yaml` and `config/serin.yaml` below
/// `folder`, the first that exists.
///
/// # Errors
/// When none is named and none is found.
pub fn locate(explicit: Option<&Path>, folder: &Path, environment: &Environment<'_>) -> Result<PathBuf, NotFound> {
    if let Some(path) = explicit {
        return Ok(path.to_owned());
    }
    if let Some(path) = environment("SERIN_CONFIG").filter(|path| !path.is_empty()) {
        return Ok(path.into());
    }
    let usual = ["serin.yaml", "config/serin.yaml"].map(|name| folder.join(name));
    usual.into_iter().find(|path| path.exists()).ok_or(NotFound)
}

/// No config file is named, and none is in the usual places.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no config file: name one with --config or SERIN_CONFIG, or put it at ./serin.yaml or ./config/serin.yaml")]
pub struct NotFound;

fn too_large() -> String {
    "the file is larger than 8 MiB".to_owned()
}

fn read_bytes(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // One byte over the limit is enough to know.
    File::open(path)?.take(FILE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

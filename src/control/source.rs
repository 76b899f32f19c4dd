//! The config file as it was read: its text, and what it means. Reading it is the same at start and at reload.

use std::path::{Path, PathBuf};

use crate::config::{self, Config, Diagnostics};

/// A file that was read and is sound.
#[derive(Debug, Clone, PartialEq)]
pub struct Source {
    /// Where it is.
    pub path: PathBuf,
    /// What it says, byte for byte, so that a later change can be told from none.
    pub text: String,
    /// What it means.
    pub config: Config,
}

impl Source {
    /// Reads and checks a file with the process's environment.
    ///
    /// # Errors
    /// All that is wrong with it.
    pub fn read(path: &Path) -> Result<Self, Diagnostics> {
        let text = config::read(path)?;
        let config = config::parse(&text, path, &config::process_environment)?;
        Ok(Self { path: path.to_owned(), text, config })
    }
}

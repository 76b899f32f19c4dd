//! Certificates, keys and authorities from files, checked before anything uses them, and what a listener does with them.
//! Knows neither the config file nor a socket; whoever asks says which files, and tells the people about the faults.

mod client;
mod files;
mod server;
#[cfg(test)]
mod tests;

use std::{fmt, sync::Arc, time::SystemTime};

use rustls::crypto::CryptoProvider;

pub use self::{
    client::client,
    files::{Authorities, Pair},
    server::{Protocols, ServerTls},
};

/// Largest certificate, key or CA file, in bytes.
pub const FILE_BYTES_MAX: usize = 1 << 20;

/// What is wrong with a file: a message that goes on after its name, and what to do. Neither repeats the path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Which of the files.
    pub part: Part,
    /// Goes on after the file's name: `cannot be read: …`.
    pub message: String,
    /// What to do.
    pub help: &'static str,
    /// There is no such file.
    pub is_absent: bool,
}

impl Fault {
    fn new(part: Part, message: impl Into<String>, help: &'static str) -> Self {
        Self { part, message: message.into(), help, is_absent: false }
    }
}

/// Which of the files that belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The certificate with its chain.
    Cert,
    /// Its private key.
    Key,
    /// The authorities that are believed.
    Ca,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.message, self.help)
    }
}

/// The algorithms of both sides: ring's.
#[must_use]
pub fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// Whether a certificate may be used at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Validity {
    /// It may.
    Valid,
    /// Only from then on.
    Begins(SystemTime),
    /// It ended then.
    Ended(SystemTime),
}

//! Names of services and versions, and the numbers that order attempts and tables.
//! A name is checked once, here; it is safe as a metric label, a header value and a file name.

use std::{fmt, sync::Arc};

/// Longest accepted name, in bytes. The limit is that of a DNS label, which names become in compose files.
pub const NAME_BYTES_MAX: usize = 63;

/// Why a text is not a name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a name has 1 to 63 letters, digits, '-', '_' or '.', and starts with a letter or digit")]
pub struct NameError;

macro_rules! name {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks and takes over a name.
            ///
            /// # Errors
            /// When the text is empty, too long, or has other characters than letters, digits, `-`, `_` and `.`.
            pub fn new(text: &str) -> Result<Self, NameError> {
                check(text).map(|()| Self(Arc::from(text)))
            }

            /// The name as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&*self.0, f)
            }
        }
    };
}

name!(
    /// A service: a named thing with versions.
    ServiceName
);
name!(
    /// A version: one release of a service. *Stable* and *canary* are roles, not versions.
    VersionName
);

/// Which attempt at a rollout of a service: 1 for the first, growing by one with each start. 0 before the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Revision(pub u64);

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// Orders published tables: a greater generation replaces a smaller one, never the other way round.
/// A service's weight generation is the generation of the table in which its weights last changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Generation(pub u64);

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// The part a version plays. `Other` is a configured version that is neither stable nor canary now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Serves all that the canary does not.
    Stable,
    /// Is being tried.
    Canary,
    /// Is configured, but takes no part.
    Other,
}

impl Role {
    /// The word for labels and messages.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stable => "stable",
            Self::Canary => "canary",
            Self::Other => "other",
        }
    }
}

fn check(text: &str) -> Result<(), NameError> {
    let starts_well = text.starts_with(|c: char| c.is_ascii_alphanumeric());
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if starts_well && text.len() <= NAME_BYTES_MAX && text.chars().all(allowed) { Ok(()) } else { Err(NameError) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_safe_as_labels_and_file_names() {
        for good in ["web", "v1", "v1.2.3-rc_4", "9", &"a".repeat(63)] {
            assert!(ServiceName::new(good).is_ok(), "{good}");
        }
        for bad in ["", "-a", ".a", "../x", "a b", "a/b", "ä", "a\n", &"a".repeat(64)] {
            assert!(VersionName::new(bad).is_err(), "{bad:?}");
        }
    }
}

//! What the fast path did: requests served, and connections left to the ordinary path with the reason. Counted per
//! worker, never charged to a version.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What the fast path did with a request. All but the first leave the connection to the ordinary path for good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FastPathOutcome {
    /// Passed on and answered, well or not.
    Served,
    /// The table in force asks for more than the fast path does.
    Table,
    /// The worker has too many requests under way.
    Busy,
    /// Not HTTP/1 by any reading; the ordinary path says so to the client.
    Malformed,
    /// A head that is large, has many fields, or does not come in one piece soon.
    Size,
    /// A method that is not one of the usual.
    Method,
    /// A target that is not a plain path with a query.
    Target,
    /// HTTP/1.0.
    Version,
    /// No host, more than one, or a strange one.
    Host,
    /// Something to settle for this hop: an upgrade, an expectation, trailers, connection options.
    Hop,
    /// A body that is framed by anything but one plain length.
    Framing,
    /// A body that did not come with its head.
    Body,
    /// Cookies in more than one field.
    Cookies,
}

impl FastPathOutcome {
    /// All outcomes, in the order of their cells.
    pub const ALL: [Self; 13] = [
        Self::Served,
        Self::Table,
        Self::Busy,
        Self::Malformed,
        Self::Size,
        Self::Method,
        Self::Target,
        Self::Version,
        Self::Host,
        Self::Hop,
        Self::Framing,
        Self::Body,
        Self::Cookies,
    ];

    /// The word for labels.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Served => "served",
            Self::Table => "table",
            Self::Busy => "busy",
            Self::Malformed => "malformed",
            Self::Size => "size",
            Self::Method => "method",
            Self::Target => "target",
            Self::Version => "version",
            Self::Host => "host",
            Self::Hop => "hop",
            Self::Framing => "framing",
            Self::Body => "body",
            Self::Cookies => "cookies",
        }
    }
}

/// The counters of one worker; cumulative, never reset, written by that worker alone.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct FastPath([AtomicU64; FastPathOutcome::ALL.len()]);

impl FastPath {
    /// Counts one. A plain load and store: there is one writer.
    pub fn count(&self, outcome: FastPathOutcome) {
        let cell = &self.0[outcome as usize];
        cell.store(cell.load(Relaxed).wrapping_add(1), Relaxed);
    }

    /// So many so far.
    #[must_use]
    pub fn total(&self, outcome: FastPathOutcome) -> u64 {
        self.0[outcome as usize].load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_outcome_has_its_own_cell() {
        let counters = FastPath::default();
        for (times, outcome) in FastPathOutcome::ALL.into_iter().enumerate() {
            assert_eq!(outcome as usize, times, "ALL is in the order of the cells");
            (0..times).for_each(|_| counters.count(outcome));
        }
        for (times, outcome) in FastPathOutcome::ALL.into_iter().enumerate() {
            assert_eq!(counters.total(outcome), times as u64);
        }
    }
}

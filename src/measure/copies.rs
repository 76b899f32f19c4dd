//! What became of copies of requests (mirroring). They count here alone: never as evidence, never as attempts.

use std::time::Duration;

/// How a copy ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CopyEnd {
    /// Sent, and there was an answer.
    Answered,
    /// No connection, or name not found.
    ConnectFailed,
    /// Sent or not, it took too long.
    TimedOut,
    /// The connection ended before a whole response head.
    Reset,
    /// Something that is not HTTP, or not allowed.
    Malformed,
    /// Not sent: as many copies, or as much of their bodies, were under way as may be.
    Busy,
    /// Not sent: the request's body is larger than what is kept of one.
    TooLarge,
    /// Not sent: the request's body did not come to its end.
    CutShort,
    /// Not sent: by then the table in force no longer asked for it.
    Withdrawn,
}

impl CopyEnd {
    /// All ends, in the order of their cells.
    pub const ALL: [Self; 9] = [
        Self::Answered,
        Self::ConnectFailed,
        Self::TimedOut,
        Self::Reset,
        Self::Malformed,
        Self::Busy,
        Self::TooLarge,
        Self::CutShort,
        Self::Withdrawn,
    ];

    /// The word for labels.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::ConnectFailed => "connect_failed",
            Self::TimedOut => "timed_out",
            Self::Reset => "reset",
            Self::Malformed => "malformed",
            Self::Busy => "dropped_busy",
            Self::TooLarge => "dropped_too_large",
            Self::CutShort => "dropped_cut_short",
            Self::Withdrawn => "dropped_withdrawn",
        }
    }

    /// Whether it was sent, or should have been; the others were dropped.
    #[must_use]
    pub const fn is_sent(self) -> bool {
        matches!(self, Self::Answered | Self::ConnectFailed | Self::TimedOut | Self::Reset | Self::Malformed)
    }
}

/// Totals of the copies that went to one version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CopyTotals {
    /// In the order of [`CopyEnd::ALL`].
    pub ends: [u64; CopyEnd::ALL.len()],
    /// Answers with a status of the same class (2xx, 3xx …) as the request's own.
    pub same: u64,
    /// Answers with another.
    pub other: u64,
    /// The latencies of requests of which both have one, in microseconds.
    pub original_us: u64,
    /// Those of their copies.
    pub copy_us: u64,
}

impl CopyTotals {
    /// Whether there was none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.iter().all(|ends| *ends == 0)
    }
}

impl std::ops::AddAssign for CopyTotals {
    fn add_assign(&mut self, other: Self) {
        for (all, one) in self.ends.iter_mut().zip(other.ends) {
            *all = all.saturating_add(one);
        }
        self.same = self.same.saturating_add(other.same);
        self.other = self.other.saturating_add(other.other);
        self.original_us = self.original_us.saturating_add(other.original_us);
        self.copy_us = self.copy_us.saturating_add(other.copy_us);
    }
}

/// In whole microseconds.
pub(super) fn micros(of: Duration) -> u64 {
    u64::try_from(of.as_micros()).unwrap_or(u64::MAX)
}

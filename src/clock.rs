//! The one place that reads clocks for the control plane: the wall clock at start plus the monotonic clock,
//! so time never runs backwards while the process lives.

use std::time::{Instant, SystemTime};

use crate::engine::time::Timestamp;

/// Wall-clock time that cannot be set back.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    started: Instant,
    wall: Timestamp,
}

impl Clock {
    /// Reads both clocks once. `not_before` is the latest time that the state remembers: a wall clock set back
    /// over a restart does not take time back.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the wall clock")]
    pub fn start(not_before: Timestamp) -> Self {
        let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let wall = Timestamp::from_millis(u64::try_from(since_epoch.as_millis()).unwrap_or(0));
        Self { started: Instant::now(), wall: wall.max(not_before) }
    }

    /// The time now.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.wall + self.started.elapsed()
    }
}

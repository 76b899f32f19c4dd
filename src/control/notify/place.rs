//! Where one receiver of messages stands among the events: what it is told next, and how long is waited after a failure.
//! Knows no clock, socket or disk, so that a simulation drives what production drives.

use std::time::Duration;

use crate::{
    engine::{
        event::{Event, EventKind},
        weight::Weight,
    },
    words,
};

/// After a first failure; each further one doubles it.
const FIRST_WAIT: Duration = Duration::from_millis(500);
/// Longest wait between two tries, also where the receiver asks for more.
const LONGEST_WAIT: Duration = Duration::from_mins(5);

/// A place among the events.
#[derive(Debug, Clone)]
pub struct Place {
    told: u64,
    wait: Duration,
}

/// What a receiver has still to be told.
#[derive(Debug, Clone, PartialEq)]
pub struct Pending {
    /// The oldest event of it, with the weight before it.
    pub next: Option<(Event, Option<Weight>)>,
    /// How many events.
    pub count: u64,
}

impl Place {
    /// After the event with this number.
    #[must_use]
    pub const fn after(told: u64) -> Self {
        Self { told, wait: FIRST_WAIT }
    }

    /// What of a history, oldest first, a receiver who wants these kinds was not told yet.
    #[must_use]
    pub fn pending<'h>(&self, history: impl Iterator<Item = &'h Event> + Clone, wants: &[EventKind]) -> Pending {
        let wanted = |event: &&Event| event.sequence > self.told && wants.contains(&event.kind);
        let mut pending = history.clone().filter(wanted);
        let next = pending.next().map(|event| (event.clone(), words::weight_before(history, event)));
        let count = pending.count() as u64 + u64::from(next.is_some());
        Pending { next, count }
    }

    /// The receiver has taken this event, and so everything before it.
    pub const fn taken(&mut self, event: &Event) {
        *self = Self::after(event.sequence);
    }

    /// It has not. Gives how long to wait before the next try; `asked` is what the receiver asked for.
    pub fn refused(&mut self, asked: Option<Duration>) -> Duration {
        let pause = asked.unwrap_or_default().max(self.wait).min(LONGEST_WAIT);
        self.wait = (self.wait * 2).min(LONGEST_WAIT);
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_a_limit_and_end_with_a_success() {
        let mut place = Place::after(0);
        assert_eq!(place.refused(None), FIRST_WAIT);
        assert_eq!(place.refused(None), FIRST_WAIT * 2);
        assert_eq!(place.refused(Some(Duration::from_secs(30))), Duration::from_secs(30));
        assert_eq!(place.refused(Some(Duration::from_hours(1))), LONGEST_WAIT);
        let longest = (0..20).map(|_| place.refused(None)).max();
        assert_eq!(longest, Some(LONGEST_WAIT));
    }
}

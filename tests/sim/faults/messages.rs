//! Receivers of messages, who are away, refuse, or take a message and are not heard. Each event that people rely on reaches
//! each receiver who wants it, in order, or is pending; once that it was taken is on the disk, it never comes again.

use std::{collections::HashSet, time::Duration};

use serin::{
    control::notify::place::{Pending, Place},
    engine::{
        event::{Event, EventKind},
        names::ServiceName,
        time::Timestamp,
    },
    store::Outbox,
};

use crate::world::Dice;

/// What messages are told apart by.
type Id = (ServiceName, u64, Timestamp);

/// Somebody who is told.
pub struct Receiver {
    pub name: String,
    wants: Vec<EventKind>,
    taken: HashSet<Id>,
    /// Taken, answered, and remembered as such by a disk.
    settled: HashSet<Id>,
    /// Said to be remembered just now, by a process that may turn out to have died before.
    just_settled: Vec<Id>,
    /// Until then it takes nothing.
    away: Timestamp,
}

/// How one message went.
enum Answer {
    Taken,
    TakenUnheard,
    Refused(Option<Duration>),
}

/// What a process knows of a receiver.
pub struct Courier {
    place: Place,
    due: Timestamp,
    /// Answered in this life.
    answered: HashSet<Id>,
}

pub fn receivers() -> Vec<Receiver> {
    let some = vec![EventKind::Started, EventKind::Promoted, EventKind::Aborted];
    let of = |name: &str, wants| Receiver {
        name: name.to_owned(),
        wants,
        taken: HashSet::new(),
        settled: HashSet::new(),
        just_settled: Vec::new(),
        away: Timestamp::default(),
    };
    vec![of("all", EventKind::ALL.to_vec()), of("some", some)]
}

fn id(event: &Event) -> Id {
    (event.service.clone(), event.sequence, event.at)
}

impl Courier {
    pub fn of(receiver: &Receiver, outbox: &Outbox) -> Self {
        let place = Place::after(outbox.told(&receiver.name));
        Self { place, due: Timestamp::default(), answered: HashSet::new() }
    }

    /// One try, if it is time for one; whether there was anything to tell.
    pub fn run(
        &mut self,
        receiver: &mut Receiver,
        outbox: &Outbox,
        (history, relied): (&[Event], &[Event]),
        now: Timestamp,
        dice: &mut Dice,
    ) -> bool {
        if now < self.due {
            return false;
        }
        let Pending { next: Some((event, _)), .. } = self.place.pending(history.iter(), &receiver.wants) else {
            return false;
        };
        assert!(!self.answered.contains(&id(&event)), "told again although it answered: {event:?}");
        match receiver.receive(&event, relied, now, dice) {
            Answer::Taken => {
                self.place.taken(&event);
                self.answered.insert(id(&event));
                // What was told without being remembered is decided anew after a restart, perhaps in the same millisecond.
                let is_remembered = relied.iter().any(|known| id(known) == id(&event));
                if outbox.tell(&receiver.name, event.sequence).is_ok() && is_remembered {
                    receiver.just_settled.push(id(&event));
                }
            }
            Answer::TakenUnheard => self.due = now + self.place.refused(None),
            Answer::Refused(asked) => self.due = now + self.place.refused(asked),
        }
        true
    }

    /// What people rely on was taken, or is pending.
    pub fn check(&self, receiver: &Receiver, history: &[Event], relied: &[Event]) {
        let Pending { next, count } = self.place.pending(history.iter(), &receiver.wants);
        let oldest = next.map_or(u64::MAX, |(event, _)| event.sequence);
        let missing: Vec<&Event> = receiver.missing(relied).collect();
        assert!(missing.len() as u64 <= count, "{} of {count} pending are missing", missing.len());
        for event in missing {
            assert!(event.sequence >= oldest, "neither taken nor pending: {event:?}");
        }
    }
}

impl Receiver {
    fn receive(&mut self, event: &Event, relied: &[Event], now: Timestamp, dice: &mut Dice) -> Answer {
        if dice.chance(3) {
            self.away = now + Duration::from_millis(dice.below(20_000));
        }
        if now < self.away || dice.chance(10) {
            return Answer::Refused(dice.chance(20).then(|| Duration::from_millis(dice.below(3_000))));
        }
        self.take(event, relied);
        if dice.chance(10) { Answer::TakenUnheard } else { Answer::Taken }
    }

    fn take(&mut self, event: &Event, relied: &[Event]) {
        assert!(!self.settled.contains(&id(event)), "told again although the disk knew better: {event:?}");
        let skipped = self.missing(relied).find(|missing| missing.sequence < event.sequence);
        assert_eq!(skipped, None, "skipped for {event:?}");
        self.taken.insert(id(event));
    }

    fn missing<'e>(&'e self, relied: &'e [Event]) -> impl Iterator<Item = &'e Event> {
        relied.iter().filter(|event| self.wants.contains(&event.kind) && !self.taken.contains(&id(event)))
    }

    /// Whoever told it lives.
    pub fn settle(&mut self) {
        self.settled.extend(self.just_settled.drain(..));
    }

    /// It died, at some call of the disk.
    pub fn forget_what_was_just_settled(&mut self) {
        self.just_settled.clear();
    }

    /// In the end everything was taken.
    pub fn has_all(&self, relied: &[Event]) -> bool {
        self.missing(relied).next().is_none()
    }

    /// From now on it is there.
    pub fn come_back(&mut self) {
        self.away = Timestamp::default();
    }
}

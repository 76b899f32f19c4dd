//! What each receiver of messages has been told: a place among the journal's events, moved forward only after a message
//! was taken. So a message is still pending after any crash; one that was taken at the moment of a crash may come twice,
//! with the same id.

use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use serde::{Deserialize, Serialize};

use super::{
    folder::Folder,
    frame::{self, Next, RECORD_BYTES_MAX},
};

/// Its name in the state folder.
pub const OUTBOX: &str = "outbox";
const VERSION: u32 = 1;

/// The places of all receivers; shared with the store, which remembers nothing new before they are on the disk.
#[derive(Debug, Clone)]
pub struct Outbox {
    places: Arc<Mutex<Places>>,
}

#[derive(Debug)]
struct Places {
    folder: Arc<Folder>,
    told: BTreeMap<String, u64>,
    /// The number of the last event that is on the disk. What is told beyond it may be decided otherwise after a crash, and
    /// another event then has its number.
    remembered: u64,
    is_saved: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    version: u32,
    told: BTreeMap<String, u64>,
}

impl Outbox {
    /// The places as remembered, of these receivers; one that is new begins after `latest`, the last event of the journal.
    /// A damaged file is as none: no receiver is told the whole history again.
    pub(super) fn open(folder: Arc<Folder>, receivers: &[String], latest: u64) -> Self {
        let bytes = folder.read(OUTBOX, RECORD_BYTES_MAX).ok().flatten().unwrap_or_default();
        let remembered = match frame::next(&bytes, RECORD_BYTES_MAX) {
            Next::Record { json, .. } => serde_json::from_slice::<Record>(json).ok(),
            Next::End | Next::Torn | Next::Bad(_) => None,
        };
        let remembered = remembered.filter(|record| record.version == VERSION).map(|record| record.told);
        let remembered = remembered.unwrap_or_default();
        // Events behind the journal's end were told, but never remembered: their numbers are given again.
        let place = |receiver: &String| remembered.get(receiver).map_or(latest, |told| latest.min(*told));
        let told: BTreeMap<String, u64> = receivers.iter().map(|name| (name.clone(), place(name))).collect();
        let mut places = Places { folder, is_saved: told == remembered, told, remembered: latest };
        if let Err(error) = places.secure() {
            tracing::warn!(%error, "who was told what cannot be remembered, and so nothing new can");
        }
        Self { places: Arc::new(Mutex::new(places)) }
    }

    /// The number of the last event that a receiver was told, or did not want.
    #[must_use]
    pub fn told(&self, receiver: &str) -> u64 {
        self.places().told.get(receiver).copied().unwrap_or_default()
    }

    /// An event is on the disk.
    pub(super) fn remembered(&self, event: u64) {
        self.places().remembered = event;
    }

    /// A receiver has taken everything up to this event; what of that is not on the disk itself may come again.
    ///
    /// # Errors
    /// When the disk fails: after a restart the message comes again.
    pub fn tell(&self, receiver: &str, event: u64) -> io::Result<()> {
        let mut places = self.places();
        let place = event.min(places.remembered);
        places.told.insert(receiver.to_owned(), place);
        places.save()
    }

    /// Makes sure that the places are on the disk as they were at the opening, or later. A place that is on none would be
    /// taken for one behind the events that are remembered from now on, and these would be told to nobody.
    pub(super) fn secure(&self) -> io::Result<()> {
        self.places().secure()
    }

    fn places(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Places {
    fn secure(&mut self) -> io::Result<()> {
        if self.is_saved { Ok(()) } else { self.save() }
    }

    fn save(&mut self) -> io::Result<()> {
        let record = Record { version: VERSION, told: self.told.clone() };
        let json = serde_json::to_vec(&record).map_err(io::Error::other)?;
        self.folder.replace_durably(OUTBOX, &frame::encode(&json))?;
        self.is_saved = true;
        Ok(())
    }
}

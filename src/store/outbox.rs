//! What each receiver of messages has been told: a place among the journal's events, moved forward only after a message
//! was taken. So a message is still pending after any crash; one that was taken at the moment of a crash may come twice,
//! with the same id.

use std::{collections::BTreeMap, io, sync::Arc};

use serde::{Deserialize, Serialize};

use super::{
    folder::Folder,
    frame::{self, Next, RECORD_BYTES_MAX},
};

/// Its name in the state folder.
pub const OUTBOX: &str = "outbox";
const VERSION: u32 = 1;

/// The places of all receivers.
#[derive(Debug)]
pub struct Outbox {
    folder: Arc<Folder>,
    told: BTreeMap<String, u64>,
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
        let outbox = Self { folder, told };
        if outbox.told != remembered
            && let Err(error) = outbox.save()
        {
            tracing::warn!(%error, "who was told what cannot be remembered; messages may come twice after a restart");
        }
        outbox
    }

    /// The number of the last event that a receiver was told, or did not want.
    #[must_use]
    pub fn told(&self, receiver: &str) -> u64 {
        self.told.get(receiver).copied().unwrap_or_default()
    }

    /// A receiver has taken everything up to this event.
    ///
    /// # Errors
    /// When the disk fails: after a restart the message comes again.
    pub fn tell(&mut self, receiver: &str, event: u64) -> io::Result<()> {
        self.told.insert(receiver.to_owned(), event);
        self.save()
    }

    fn save(&self) -> io::Result<()> {
        let record = Record { version: VERSION, told: self.told.clone() };
        let json = serde_json::to_vec(&record).map_err(io::Error::other)?;
        self.folder.replace_durably(OUTBOX, &frame::encode(&json))
    }
}

//! REMEMBER. Decisions survive any crash once acknowledged: a checksummed journal, compacted into snapshots.
//! Decides nothing, and knows of the engine's types only how to write them down and read them back.
//!
//! The state folder holds `lock` (who uses it), `journal` (a record for each decision since the snapshot), `snapshot`
//! (everything before), `evidence` (the share test, saved each second without waiting for the disk), `outbox`
//! (who was told what), `write-token`, and `*.corrupt-MILLIS` (damaged files, kept for a person to look at).

mod disk;
mod folder;
mod frame;
mod journal;
mod outbox;
mod record;
mod replay;
#[cfg(test)]
mod tests;

use std::{io, path::Path, sync::Arc};

use self::{
    disk::Disk,
    folder::Folder,
    frame::RECORD_BYTES_MAX,
    journal::{JOURNAL, JOURNAL_BYTES_MAX, Journal},
    record::{Evidence, Snapshot},
    replay::{EVIDENCE, EVIDENCE_BYTES_MAX, Newer, Replay, SNAPSHOT, SNAPSHOT_BYTES_MAX},
};
pub use self::{
    disk::{Call, Witness},
    folder::{OpenError, WRITE_TOKEN},
    outbox::Outbox,
    replay::HISTORY_MAX,
};
use crate::{
    clock::Clock,
    engine::{
        effect::Decision,
        event::Event,
        memory::{EvidenceMemory, Memory},
        time::Timestamp,
    },
};

/// When the journal is compacted.
const COMPACTION: Compaction = Compaction { records: 1_000, bytes: 4 * 1024 * 1024 };
/// Decisions after which a failed compaction is tried again.
const COMPACTION_RETRY: usize = 50;

/// Remembers decisions. One at a time has a state folder; it blocks on the disk, so it belongs on the control plane's thread.
#[derive(Debug)]
pub struct Store {
    folder: Arc<Folder>,
    journal: Journal,
    state: Snapshot,
    compaction: Compaction,
    /// Records in the journal at which a compaction that failed is tried again.
    retry_at: usize,
    /// Whose places come before anything new.
    outbox: Option<Outbox>,
}

/// What was remembered.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Recovered {
    /// Every service, after the last acknowledged decision.
    pub memory: Memory,
    /// The share tests' states, as far as they were readable.
    pub evidence: Vec<EvidenceMemory>,
    /// The latest [`HISTORY_MAX`] events, oldest first, numbered without gaps up to `memory.sequence`.
    pub history: Vec<Event>,
    /// The folder was never used: nothing was decided in it.
    pub first_start: bool,
    /// Damage, in words. `memory` is what was sound and may be out of date: stable only, until a person decides.
    /// Said at every start until something is decided.
    pub trouble: Option<String>,
    /// When something was last decided or evidence was last saved: until then the process lived at least. Time must not
    /// go back behind it.
    pub latest: Timestamp,
}

/// Bounds on the journal; beyond either it is compacted.
#[derive(Debug, Clone, Copy)]
struct Compaction {
    records: usize,
    bytes: u64,
}

impl Store {
    /// Opens a state folder, made if need be, for this process alone, and recovers what was remembered in it.
    ///
    /// A decision whose writing was cut short by a crash was never acknowledged and is dropped. A damaged file is copied
    /// aside, and what came before the damage is used and reported as [`Recovered::trouble`].
    ///
    /// # Errors
    /// When the folder cannot be made, written or read, is in use, or was written by a later version.
    pub fn open(dir: &Path) -> Result<(Self, Recovered), OpenError> {
        Self::open_on(Disk::new(dir, None), COMPACTION)
    }

    /// The same for a simulation: with a witness of each call that changes the folder, and a journal of so many records.
    ///
    /// # Errors
    /// As [`Store::open`], and when the witness lets a call fail.
    pub fn open_before(dir: &Path, witness: Witness, records: usize) -> Result<(Self, Recovered), OpenError> {
        Self::open_on(Disk::new(dir, Some(witness)), Compaction { records, ..COMPACTION })
    }

    fn open_on(disk: Disk, compaction: Compaction) -> Result<(Self, Recovered), OpenError> {
        let dir = disk.dir().to_owned();
        let folder = Folder::open(disk)?;
        let snapshot = folder.read(SNAPSHOT, SNAPSHOT_BYTES_MAX)?;
        let journal = folder.read(JOURNAL, JOURNAL_BYTES_MAX)?;
        let evidence = folder.read(EVIDENCE, EVIDENCE_BYTES_MAX).unwrap_or_default();
        let newer = |Newer { file, found }| OpenError::Newer { path: folder.path(file), found };
        let mut replay = replay::replay(snapshot.as_deref(), journal.as_deref()).map_err(newer)?;
        if !replay.faults.is_empty() {
            repair(&folder, &mut replay).map_err(|source| OpenError::NotWritable { path: dir.clone(), source })?;
        }
        let evidence = replay::read_evidence(evidence.as_deref());
        let Replay { state, journal_end, journal_records, .. } = replay;
        let sound = journal.as_deref().and_then(|journal| journal.get(..journal_end)).unwrap_or_default();
        let journal = Journal::open(&folder, sound, journal_records)
            .map_err(|source| OpenError::NotWritable { path: folder.path(JOURNAL), source })?;
        // Evidence is saved each second of a life that began with a decision.
        let lost = state.memory.sequence == 0 && state.trouble.is_none() && evidence.at != Timestamp::default();
        let lost = lost.then(|| {
            format!("nothing is remembered, although serin ran in {} before: its journal is gone", dir.display())
        });
        let recovered = Recovered {
            memory: state.memory.clone(),
            latest: state.latest().max(evidence.at),
            evidence: evidence.services,
            history: state.history.clone(),
            first_start: state.memory.sequence == 0 && state.trouble.is_none() && lost.is_none(),
            trouble: state.trouble.clone().or(lost),
        };
        Ok((Self { folder: Arc::new(folder), journal, state, compaction, retry_at: 0, outbox: None }, recovered))
    }

    /// What is remembered in a folder that another process uses. Changes nothing in it, and gives no evidence.
    ///
    /// # Errors
    /// When the folder cannot be read, or was written by a later version.
    pub fn peek(dir: &Path) -> Result<Recovered, OpenError> {
        // The journal first: a compaction between the two reads leaves records twice, never none.
        let journal = folder::read(&dir.join(JOURNAL), JOURNAL_BYTES_MAX)?;
        let snapshot = folder::read(&dir.join(SNAPSHOT), SNAPSHOT_BYTES_MAX)?;
        let newer = |Newer { file, found }| OpenError::Newer { path: dir.join(file), found };
        let state = replay::replay(snapshot.as_deref(), journal.as_deref()).map_err(newer)?.state;
        let latest = state.latest();
        Ok(Recovered { memory: state.memory, history: state.history, latest, ..Recovered::default() })
    }

    /// Remembers a decision. Once this returns, the decision survives any crash; after an error nothing of it is
    /// remembered, and the same decision may be tried again. Events come one by one: each number is the last plus one.
    ///
    /// # Errors
    /// When the disk fails, when the record is larger than 64 KiB, or when the event's number is not the next one.
    pub fn append(&mut self, decision: &Decision) -> io::Result<()> {
        let next = self.state.memory.sequence.saturating_add(1);
        if decision.event.sequence != next {
            let what = format!("event {} cannot be remembered, event {next} is next", decision.event.sequence);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        let json = record::encode_decision(decision).map_err(|error| {
            io::Error::new(io::ErrorKind::InvalidInput, format!("event {next} cannot be remembered: {error}"))
        })?;
        if json.len() > RECORD_BYTES_MAX {
            let what =
                format!("event {next} cannot be remembered: it takes {} bytes of {RECORD_BYTES_MAX}", json.len());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        self.outbox.as_ref().map_or(Ok(()), Outbox::secure)?;
        self.journal.append(&frame::encode(&json))?;
        self.state.remember(decision.clone());
        if let Some(outbox) = &self.outbox {
            outbox.remembered(next);
        }
        self.compact_when_due();
        Ok(())
    }

    /// Takes off the disk what could not be remembered, where even that has failed so far. Called each second.
    ///
    /// # Errors
    /// When the disk still fails: a crash now may bring back what was refused.
    pub fn mend(&mut self) -> io::Result<()> {
        self.journal.mend()
    }

    /// Everything as it was last remembered.
    #[must_use]
    pub const fn memory(&self) -> &Memory {
        &self.state.memory
    }

    /// Saves the share tests' states and the time, in place of those saved before. Called each second, also with nothing
    /// to save, so that the next start knows how long the process lived. Not waited for: a crash of the machine may lose it.
    ///
    /// # Errors
    /// When the disk fails; what was saved before is still there.
    pub fn save_evidence(&self, evidence: &[EvidenceMemory], now: Timestamp) -> io::Result<()> {
        let evidence = Evidence { at: now, services: evidence.to_vec() };
        let json = record::encode_evidence(&evidence).map_err(io::Error::other)?;
        if json.len() > EVIDENCE_BYTES_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the evidence is too large to be saved"));
        }
        self.folder.replace_loosely(EVIDENCE, &frame::encode(&json))
    }

    /// Which events these receivers of messages have been told.
    #[must_use]
    pub fn outbox(&mut self, receivers: &[String]) -> Outbox {
        let outbox = Outbox::open(Arc::clone(&self.folder), receivers, self.state.memory.sequence);
        self.outbox.insert(outbox).clone()
    }

    /// The token for writing by the admin API: 64 hexadecimal digits in the file [`WRITE_TOKEN`], made at the first call.
    ///
    /// # Errors
    /// When it cannot be made or read, or the file holds something else; the text says what to do.
    pub fn write_token(&self) -> io::Result<String> {
        self.folder.write_token()
    }

    /// The decision is safe in the journal already, so a failure here is only said and tried again later.
    fn compact_when_due(&mut self) {
        let (records, bytes) = (self.journal.records(), self.journal.bytes());
        let due = records >= self.compaction.records || bytes >= self.compaction.bytes;
        if !due || records < self.retry_at {
            return;
        }
        self.retry_at = 0;
        if let Err(error) = self.compact() {
            self.retry_at = self.journal.records() + COMPACTION_RETRY;
            tracing::warn!(%error, "the journal could not be compacted into a snapshot; tried again later");
        }
    }

    /// The snapshot is durable before the journal is cleared, so that a crash between leaves records twice, never none.
    fn compact(&mut self) -> io::Result<()> {
        write_snapshot(&self.folder, &self.state)?;
        self.journal.clear()
    }
}

/// Sets damaged files aside and makes what was sound the snapshot, before anything damaged is overwritten: a crash on
/// the way finds the damage again. The trouble is remembered with it until something is decided.
fn repair(folder: &Folder, replay: &mut Replay) -> io::Result<()> {
    let now = Clock::start(replay.state.latest()).now();
    let mut troubles = Vec::new();
    for fault in &replay.faults {
        let copy = folder.set_aside(fault.file, now)?;
        troubles.push(format!("the {} was damaged ({}) and is kept as {copy}", fault.file, fault.what));
    }
    let sequence = replay.state.memory.sequence;
    let left = match sequence {
        0 => "nothing of it could be used".to_owned(),
        _ => format!("what was decided up to event {sequence} is known"),
    };
    replay.state.trouble = Some(format!("{}; {left}", troubles.join("; ")));
    write_snapshot(folder, &replay.state)?;
    (replay.journal_end, replay.journal_records) = (0, 0);
    Ok(())
}

fn write_snapshot(folder: &Folder, state: &Snapshot) -> io::Result<()> {
    let json = record::encode_snapshot(state).map_err(io::Error::other)?;
    if json.len() > SNAPSHOT_BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "the snapshot is too large to be read back"));
    }
    folder.replace_durably(SNAPSHOT, &frame::encode(&json))
}

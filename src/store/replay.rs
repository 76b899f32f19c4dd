//! From the bytes of the files to what they amount to, and what is wrong with them. Pure: reads and writes no file.

use super::{
    frame::{self, Next, RECORD_BYTES_MAX},
    journal::{JOURNAL, JOURNAL_BYTES_MAX},
    record::{self, Evidence, RecordError, Snapshot},
};
use crate::engine::{effect::Decision, time::Timestamp};

/// The snapshot's name in the state folder.
pub const SNAPSHOT: &str = "snapshot";
/// Longest snapshot, in bytes.
pub const SNAPSHOT_BYTES_MAX: usize = 128 * 1024 * 1024;
/// The evidence's name in the state folder.
pub const EVIDENCE: &str = "evidence";
/// Longest evidence, in bytes.
pub const EVIDENCE_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Latest events that are kept.
pub const HISTORY_MAX: usize = 1_000;

/// What the files amount to.
#[derive(Debug, Default)]
pub struct Replay {
    /// Memory and history after the last sound record.
    pub state: Snapshot,
    /// Where the journal's sound part ends.
    pub journal_end: usize,
    /// Records in it.
    pub journal_records: usize,
    /// Damage, beyond a torn tail.
    pub faults: Vec<Fault>,
}

/// A damaged file.
#[derive(Debug, PartialEq, Eq)]
pub struct Fault {
    /// Its name.
    pub file: &'static str,
    /// What is wrong with it, in words.
    pub what: String,
}

/// A file that only a later Serin can read.
#[derive(Debug, PartialEq, Eq)]
pub struct Newer {
    /// Its name.
    pub file: &'static str,
    /// The version of its records.
    pub found: u32,
}

impl Snapshot {
    /// Takes a decision over. The caller has seen that its event is the next one.
    pub fn remember(&mut self, decision: Decision) {
        let Decision { event, memory } = decision;
        self.memory.sequence = event.sequence;
        match self.memory.services.iter_mut().find(|service| service.service == memory.service) {
            Some(service) => *service = memory,
            None => self.memory.services.push(memory),
        }
        self.history.push(event);
        let surplus = self.history.len().saturating_sub(HISTORY_MAX);
        self.history.drain(..surplus);
        // Whoever was told of the trouble has decided something since.
        self.trouble = None;
    }

    /// When the last decision was taken, as far as it is remembered.
    #[must_use]
    pub fn latest(&self) -> Timestamp {
        self.history.iter().map(|event| event.at).max().unwrap_or_default()
    }
}

/// Puts the snapshot and the journal after it together. Records that the snapshot holds already are skipped: a crash
/// between writing a snapshot and clearing the journal leaves them. At damage it stops, and gives what came before.
///
/// # Errors
/// When a later Serin wrote the files.
pub fn replay(snapshot: Option<&[u8]>, journal: Option<&[u8]>) -> Result<Replay, Newer> {
    let mut replay = Replay::default();
    // The number after which the journal must go on; unknown when the snapshot is lost.
    let mut last = Some(0);
    if let Some(bytes) = snapshot {
        match read_snapshot(bytes) {
            Ok(state) => {
                last = Some(state.memory.sequence);
                replay.state = state;
            }
            Err(Unsound::Newer(found)) => return Err(Newer { file: SNAPSHOT, found }),
            Err(Unsound::Damaged(what)) => {
                last = None;
                replay.faults.push(Fault { file: SNAPSHOT, what });
            }
        }
    }
    replay_journal(&mut replay, journal.unwrap_or_default(), last)?;
    Ok(replay)
}

/// The evidence, or none when it is absent or unreadable: losing it costs evidence, not safety.
#[must_use]
pub fn read_evidence(bytes: Option<&[u8]>) -> Evidence {
    let only = |bytes| only_record(bytes, EVIDENCE_BYTES_MAX).ok();
    bytes.and_then(only).and_then(|json| record::decode_evidence(json).ok()).unwrap_or_default()
}

fn replay_journal(replay: &mut Replay, journal: &[u8], mut last: Option<u64>) -> Result<(), Newer> {
    let skip_up_to = replay.state.memory.sequence;
    let mut previous = None;
    let mut left = journal;
    let fault = loop {
        let (json, rest) = match frame::next(left, RECORD_BYTES_MAX) {
            Next::Record { json, rest } => (json, rest),
            Next::End | Next::Torn => break None,
            Next::Bad(what) => break Some(what.to_owned()),
        };
        let decision = match record::decode_decision(json) {
            Ok(decision) => decision,
            Err(RecordError::Newer(found)) => return Err(Newer { file: JOURNAL, found }),
            Err(unsound) => break Some(unsound.to_string()),
        };
        let sequence = decision.event.sequence;
        let follows = previous.is_none_or(|previous: u64| previous.checked_add(1) == Some(sequence));
        let goes_on = last.is_none_or(|last| sequence <= last.saturating_add(1));
        if sequence == 0 || !follows || !goes_on {
            break Some(out_of_order(previous.or(last), sequence));
        }
        previous = Some(sequence);
        if sequence > skip_up_to {
            last = Some(sequence);
            replay.state.remember(decision);
        }
        left = rest;
        replay.journal_end = journal.len() - left.len();
        replay.journal_records += 1;
    };
    let too_long = journal.len() > JOURNAL_BYTES_MAX;
    let fault = fault.or_else(|| too_long.then(|| "it is longer than any that is written".to_owned()));
    if let Some(what) = fault {
        let what = format!("at byte {}: {what}", replay.journal_end);
        replay.faults.push(Fault { file: JOURNAL, what });
    }
    Ok(())
}

fn out_of_order(previous: Option<u64>, found: u64) -> String {
    format!("event {found} follows event {}", previous.unwrap_or(0))
}

enum Unsound {
    Newer(u32),
    Damaged(String),
}

fn read_snapshot(bytes: &[u8]) -> Result<Snapshot, Unsound> {
    let json = only_record(bytes, SNAPSHOT_BYTES_MAX).map_err(|what| Unsound::Damaged(what.to_owned()))?;
    record::decode_snapshot(json).map_err(|error| match error {
        RecordError::Newer(found) => Unsound::Newer(found),
        other => Unsound::Damaged(other.to_string()),
    })
}

/// The record of a file that holds exactly one. Such files are renamed into place, so a torn one is damaged.
fn only_record(bytes: &[u8], max: usize) -> Result<&[u8], &'static str> {
    match frame::next(bytes, max) {
        Next::Record { json, rest: [] } => Ok(json),
        Next::Record { .. } => Err("something follows its record"),
        Next::End => Err("it is empty"),
        Next::Torn => Err("it is cut short"),
        Next::Bad(what) => Err(what),
    }
}

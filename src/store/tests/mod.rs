//! Faults of every kind against a store on a real file system, and round trips of everything that is remembered.

mod faults;
mod folder;
mod round_trip;

use std::{fs, path::Path};

use super::{Compaction, Recovered, Store, journal::JOURNAL, replay::SNAPSHOT};
use crate::engine::{
    effect::Decision,
    event::{Cause, Event, EventKind},
    memory::{PhaseMemory, RolloutMemory, ServiceMemory},
    names::{Revision, ServiceName, VersionName},
    plan::Wish,
    time::Timestamp,
    weight::Weight,
};

fn wish(version: &str) -> Wish {
    Wish { version: VersionName::new(version).unwrap(), revision: String::new() }
}

/// The decision with this number, of one of three services; each one can be told from every other.
fn decision(sequence: u64) -> Decision {
    let service = ServiceName::new(["web", "shop", "api"][usize::try_from(sequence % 3).unwrap()]).unwrap();
    let at = Timestamp::from_millis(1_700_000_000_000 + sequence);
    let weight = Weight::from_ppm(u32::try_from(sequence % 1_000).unwrap()).unwrap();
    let event = Event {
        sequence,
        at,
        service: service.clone(),
        revision: Revision(1),
        kind: EventKind::WeightChanged,
        cause: Cause::Person { verb: "set-weight", actor: "ops".to_owned(), reason: format!("number {sequence}") },
        stable: VersionName::new("v1").unwrap(),
        canary: Some(VersionName::new("v2").unwrap()),
        weight,
        step: Some(1),
    };
    let target = wish("v2");
    let rollout = RolloutMemory {
        target,
        step: 0,
        weight,
        started: at,
        since: at,
        spent_ms: sequence,
        admitted: true,
        begun: true,
        passed: Vec::new(),
    };
    let memory = ServiceMemory {
        service,
        stable: wish("v1"),
        stable_since: Revision(0),
        seen: Some(wish("v2")),
        refused: vec![wish("v0")],
        earlier: vec![(Revision(0), wish("v0"))],
        revision: Revision(1),
        leaving: vec![(VersionName::new("v0").unwrap(), at)],
        added: Vec::new(),
        phase: PhaseMemory::Progressing(rollout),
    };
    Decision { event, memory }
}

/// What must be remembered after the first `count` decisions.
fn expected(count: u64) -> Recovered {
    let mut expected = Recovered { first_start: count == 0, ..Recovered::default() };
    expected.memory.sequence = count;
    for decision in (1..=count).map(decision) {
        expected.latest = decision.event.at;
        expected.history.push(decision.event);
        match expected.memory.services.iter_mut().find(|known| known.service == decision.memory.service) {
            Some(known) => *known = decision.memory,
            None => expected.memory.services.push(decision.memory),
        }
    }
    let surplus = expected.history.len().saturating_sub(super::HISTORY_MAX);
    expected.history.drain(..surplus);
    expected
}

/// Opens a store that compacts after so many records.
fn open(dir: &Path, records: usize) -> (Store, Recovered) {
    let (mut store, recovered) = Store::open(dir).unwrap();
    store.compaction = Compaction { records, bytes: u64::MAX };
    (store, recovered)
}

fn append(store: &mut Store, numbers: impl IntoIterator<Item = u64>) {
    for number in numbers {
        store.append(&decision(number)).unwrap();
    }
}

/// An empty folder, in memory where the system offers that: thousands of crashes would wait for the disk otherwise.
fn scratch() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory).unwrap() } else { tempfile::tempdir().unwrap() }
}

/// A folder in which so many decisions were remembered.
fn folder_with(decisions: u64, compact_after: usize) -> tempfile::TempDir {
    let dir = scratch();
    let (mut store, _) = open(dir.path(), compact_after);
    append(&mut store, 1..=decisions);
    dir
}

/// A new folder with these files.
fn folder_of(files: &[(&str, &[u8])]) -> tempfile::TempDir {
    let dir = scratch();
    for (name, bytes) in files {
        fs::write(dir.path().join(name), bytes).unwrap();
    }
    dir
}

fn read(dir: &tempfile::TempDir, name: &str) -> Vec<u8> {
    fs::read(dir.path().join(name)).unwrap()
}

#[test]
fn everything_is_there_again_and_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    for start in 0..6 {
        let (mut store, recovered) = open(dir.path(), 1_000);
        assert_eq!(recovered, expected(start * 4));
        append(&mut store, start * 4 + 1..=start * 4 + 4);
        assert_eq!(*store.memory(), expected(start * 4 + 4).memory);
    }
}

#[test]
fn snapshots_lose_nothing_and_keep_the_latest_thousand_events() {
    let dir = scratch();
    let mut number = 0;
    for _ in 0..4 {
        let (mut store, recovered) = open(dir.path(), 100);
        assert_eq!(recovered, expected(number));
        append(&mut store, number + 1..=number + 370);
        number += 370;
        assert!(store.journal.records() < 100);
    }
    let (_, recovered) = open(dir.path(), 100);
    assert_eq!(recovered, expected(number));
    assert_eq!(recovered.history.len(), super::HISTORY_MAX);
}

#[test]
fn the_journal_is_compacted_at_its_bound_in_bytes_too() {
    let dir = tempfile::tempdir().unwrap();
    let (mut store, _) = open(dir.path(), usize::MAX);
    store.compaction.bytes = 2_000;
    append(&mut store, 1..=20);
    assert!(store.journal.bytes() < 2_000);
    drop(store);
    assert_eq!(open(dir.path(), 100).1, expected(20));
}

#[test]
fn a_number_out_of_order_is_refused_and_changes_nothing() {
    let dir = folder_with(3, 100);
    let (mut store, _) = open(dir.path(), 100);
    for wrong in [0, 1, 3, 5, 1_000_000] {
        let error = store.append(&decision(wrong)).unwrap_err().to_string();
        assert_eq!(error, format!("event {wrong} cannot be remembered, event 4 is next"));
        assert_eq!(*store.memory(), expected(3).memory);
    }
    append(&mut store, [4]);
    drop(store);
    assert_eq!(open(dir.path(), 100).1, expected(4));
}

#[test]
fn what_could_not_be_read_back_is_refused_and_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (mut store, _) = open(dir.path(), 100);
    let mut unknown = decision(1);
    unknown.event.cause = Cause::Person { verb: "dance", actor: String::new(), reason: String::new() };
    assert_eq!(
        store.append(&unknown).unwrap_err().to_string(),
        "event 1 cannot be remembered: it holds the word `dance`"
    );
    let mut long = decision(1);
    long.event.cause = Cause::Storage("x".repeat(70_000));
    let error = store.append(&long).unwrap_err().to_string();
    assert!(error.ends_with("bytes of 65536"), "{error}");
    append(&mut store, [1]);
    drop(store);
    assert_eq!(open(dir.path(), 100).1, expected(1));
}

#[test]
fn the_journal_can_be_read_by_eye() {
    let dir = folder_with(1, 100);
    let text = String::from_utf8(read(&dir, JOURNAL)).unwrap();
    let (_, json) = text.split_once('{').unwrap();
    assert_eq!(text.lines().count(), 1);
    assert!(json.starts_with(r#""version":3,"body":{"event":{"sequence":1,"at":1700000000001,"service":"shop","#));
    assert!(!dir.path().join(SNAPSHOT).exists());
}

//! Crashes, damage and full disks. A crash is simulated by the files as it leaves them.

use std::{
    fs,
    io::{BufRead, BufReader},
    process::{Command, Stdio},
};

use super::{
    super::{Store, frame, replay::EVIDENCE},
    JOURNAL, Recovered, SNAPSHOT, append, decision, expected, folder_of, folder_with, open, read, scratch,
};
use crate::engine::{
    memory::EvidenceMemory,
    names::{Revision, ServiceName},
    stats::share_test::ShareTestState,
    time::Timestamp,
};

/// Where each frame of a file ends.
fn frame_ends(bytes: &[u8]) -> Vec<usize> {
    bytes.iter().enumerate().filter(|&(_, &byte)| byte == b'\n').map(|(at, _)| at + 1).collect()
}

fn files_aside(dir: &tempfile::TempDir) -> Vec<String> {
    let names = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.contains(".corrupt-")).collect()
}

#[test]
fn a_crash_at_any_byte_of_the_journal_keeps_all_that_was_acknowledged() {
    let dir = folder_with(3, 100);
    let journal = read(&dir, JOURNAL);
    let ends = frame_ends(&journal);
    for cut in 0..=journal.len() {
        let whole = ends.iter().filter(|&&end| end <= cut).count() as u64;
        let crashed = folder_of(&[(JOURNAL, &journal[..cut])]);
        let (mut store, recovered) = open(crashed.path(), 100);
        assert_eq!(recovered, expected(whole), "cut at {cut}");
        assert_eq!(read(&crashed, JOURNAL).len(), ends.iter().rfind(|&&end| end <= cut).copied().unwrap_or(0));
        append(&mut store, whole + 1..=4);
        drop(store);
        assert_eq!(open(crashed.path(), 100).1, expected(4), "cut at {cut}");
        assert!(files_aside(&crashed).is_empty());
    }
}

#[test]
fn a_tail_of_zeros_is_a_crash_too() {
    let dir = folder_with(4, 100);
    let mut journal = read(&dir, JOURNAL);
    journal.resize(journal.len() + 4_096, 0);
    let crashed = folder_of(&[(JOURNAL, &journal)]);
    assert_eq!(open(crashed.path(), 100).1, expected(4));
}

#[test]
fn a_flipped_bit_at_any_byte_of_the_journal_is_noticed_and_keeps_what_came_before() {
    let dir = folder_with(3, 100);
    let journal = read(&dir, JOURNAL);
    let ends = frame_ends(&journal);
    for at in 0..journal.len() {
        let mut damaged = journal.clone();
        damaged[at] ^= 1 << (at % 8);
        let damaged_dir = folder_of(&[(JOURNAL, &damaged)]);
        let before = ends.iter().filter(|&&end| end <= at).count() as u64;
        let (mut store, recovered) = open(damaged_dir.path(), 100);
        let trouble = recovered.trouble.clone().unwrap_or_else(|| panic!("byte {at} was changed in silence"));
        assert!(!recovered.first_start);
        assert_eq!((&recovered.memory, &recovered.history), (&expected(before).memory, &expected(before).history));

        let aside = files_aside(&damaged_dir);
        assert_eq!(aside.len(), 1);
        assert_eq!(read(&damaged_dir, &aside[0]), damaged, "kept for a person to look at");
        assert!(trouble.contains(&aside[0]), "{trouble}");

        append(&mut store, [before + 1]);
        drop(store);
        let (_, recovered) = open(damaged_dir.path(), 100);
        assert_eq!(recovered, expected(before + 1));
    }
}

#[test]
fn trouble_is_said_at_every_start_until_something_is_decided() {
    let dir = folder_with(4, 100);
    let mut journal = read(&dir, JOURNAL);
    let second = frame_ends(&journal)[0];
    journal[second + 40] ^= 1;
    let damaged = folder_of(&[(JOURNAL, &journal)]);
    let first = open(damaged.path(), 100).1;
    let aside = files_aside(&damaged);
    assert_eq!(
        first.trouble.as_deref(),
        Some(&*format!(
            "the journal was damaged (at byte {second}: the checksum of a record is wrong) and is kept as {}; \
             what was decided up to event 1 is known",
            aside[0]
        ))
    );
    assert_eq!(open(damaged.path(), 100).1, first, "nothing was decided yet");
    append(&mut open(damaged.path(), 100).0, [2]);
    assert_eq!(open(damaged.path(), 100).1, expected(2));
    assert_eq!(files_aside(&damaged), aside);
}

#[test]
fn a_cut_or_flipped_snapshot_is_noticed_and_the_journal_after_it_is_used() {
    let dir = folder_with(14, 10);
    let (snapshot, journal) = (read(&dir, SNAPSHOT), read(&dir, JOURNAL));
    assert_eq!(frame_ends(&journal).len(), 4);
    let cuts = (0..snapshot.len()).map(|cut| snapshot[..cut].to_vec());
    let flips = (0..snapshot.len()).map(|at| {
        let mut flipped = snapshot.clone();
        flipped[at] ^= 1 << (at % 8);
        flipped
    });
    // Every seventh, to be quick: the offsets fall on every part of the records all the same.
    for damaged in cuts.chain(flips).step_by(7) {
        let dir = folder_of(&[(SNAPSHOT, &damaged), (JOURNAL, &journal)]);
        let (_, recovered) = open(dir.path(), 10);
        let trouble = recovered.trouble.unwrap();
        assert!(
            trouble.starts_with("the snapshot was damaged (") && trouble.ends_with("event 14 is known"),
            "{trouble}"
        );
        assert_eq!(recovered.history[..], expected(14).history[10..]);
        assert_eq!(recovered.memory.sequence, 14);
        assert_eq!(recovered.memory.services.len(), 3);
        assert_eq!(read(&dir, &files_aside(&dir)[0]), damaged);
    }
}

#[test]
fn with_nothing_sound_left_it_is_no_first_start() {
    let dir = folder_of(&[(SNAPSHOT, b"garbage"), (JOURNAL, b"garbage\n")]);
    let (mut store, recovered) = open(dir.path(), 10);
    assert!(!recovered.first_start);
    assert!(recovered.trouble.unwrap().ends_with("; nothing of it could be used"));
    assert_eq!(files_aside(&dir).len(), 2);
    append(&mut store, [1]);
    drop(store);
    assert_eq!(open(dir.path(), 10).1, expected(1));
}

/// Found by a stranger: an emptied journal counted as a first start, and an aborted version was tried again.
#[test]
fn a_journal_that_is_gone_after_a_life_is_no_first_start() {
    let dir = folder_with(3, 10);
    open(dir.path(), 10).0.save_evidence(&[], Timestamp::from_millis(1_790_000_000_000)).unwrap();
    let evidence = read(&dir, EVIDENCE);
    for files in [&[(JOURNAL, &b""[..]), (EVIDENCE, &evidence)][..], &[(EVIDENCE, &evidence)]] {
        let (_store, recovered) = open(folder_of(files).path(), 10);
        assert!(!recovered.first_start);
        assert!(recovered.trouble.is_some_and(|trouble| trouble.contains("its journal is gone")));
    }
}

#[test]
fn a_missing_snapshot_or_a_missing_journal_record_is_noticed() {
    let dir = folder_with(14, 10);
    let journal = read(&dir, JOURNAL);
    let without_snapshot = folder_of(&[(JOURNAL, &journal)]);
    let trouble = open(without_snapshot.path(), 10).1.trouble.unwrap();
    assert!(trouble.contains("at byte 0: event 11 follows event 0"), "{trouble}");

    let ends = frame_ends(&journal);
    let holed = [&journal[..ends[0]], &journal[ends[1]..]].concat();
    let without_record = folder_of(&[(SNAPSHOT, &read(&dir, SNAPSHOT)), (JOURNAL, &holed)]);
    let recovered = open(without_record.path(), 10).1;
    assert!(recovered.trouble.unwrap().contains("event 13 follows event 11"));
    assert_eq!(recovered.memory, expected(11).memory);

    let doubled = [&journal[..ends[0]], &journal[..]].concat();
    let with_double = folder_of(&[(SNAPSHOT, &read(&dir, SNAPSHOT)), (JOURNAL, &doubled)]);
    assert!(open(with_double.path(), 10).1.trouble.unwrap().contains("event 11 follows event 11"));
}

#[test]
fn a_crash_at_any_step_of_a_compaction_recovers_the_same() {
    let before = folder_with(19, 10);
    let after = folder_with(20, 10);
    let (old_snapshot, new_snapshot) = (read(&before, SNAPSHOT), read(&after, SNAPSHOT));
    // The twentieth decision is acknowledged, then the journal is compacted.
    let twentieth = frame::encode(&super::super::record::encode_decision(&decision(20)).unwrap());
    let journal = [read(&before, JOURNAL), twentieth].concat();
    assert_eq!(read(&after, JOURNAL), b"");
    assert_ne!(old_snapshot, new_snapshot);

    let temporary = format!("{SNAPSHOT}.tmp");
    let mut crashes = vec![
        folder_of(&[(SNAPSHOT, &old_snapshot), (JOURNAL, &journal)]),
        folder_of(&[(SNAPSHOT, &new_snapshot), (JOURNAL, &journal)]),
        folder_of(&[(SNAPSHOT, &new_snapshot), (JOURNAL, b"")]),
    ];
    for cut in (0..=new_snapshot.len()).step_by(97) {
        let files: [(&str, &[u8]); 3] =
            [(SNAPSHOT, &old_snapshot), (&temporary, &new_snapshot[..cut]), (JOURNAL, &journal)];
        crashes.push(folder_of(&files));
    }
    for crashed in crashes {
        let (mut store, recovered) = open(crashed.path(), 10);
        assert_eq!(recovered, expected(20));
        append(&mut store, 21..=35);
        drop(store);
        assert_eq!(open(crashed.path(), 10).1, expected(35));
        assert!(files_aside(&crashed).is_empty());
        assert!(!crashed.path().join(&temporary).exists());
    }
}

/// The same for the snapshot that follows a damage: until it is in place, the next start finds the damage again.
#[test]
fn a_crash_in_a_repair_is_repaired_again() {
    let sound = folder_with(14, 10);
    let mut journal = read(&sound, JOURNAL);
    journal[frame_ends(&read(&sound, JOURNAL))[1] + 3] ^= 1;
    let snapshot = read(&sound, SNAPSHOT);
    let repaired = folder_of(&[(SNAPSHOT, &snapshot), (JOURNAL, &journal)]);
    let first = open(repaired.path(), 10).1;
    assert!(first.trouble.is_some());
    let crashes = [
        folder_of(&[(SNAPSHOT, &snapshot), (JOURNAL, &journal), ("journal.corrupt-1", &journal[..100])]),
        folder_of(&[(SNAPSHOT, &read(&repaired, SNAPSHOT)), (JOURNAL, &journal)]),
    ];
    for crashed in crashes {
        let recovered = open(crashed.path(), 10).1;
        assert!(recovered.trouble.is_some());
        assert_eq!((recovered.memory, recovered.history), (first.memory.clone(), first.history.clone()));
    }
}

/// A real process, killed at any moment of appending, compacting and saving evidence, and started again on what it left.
#[test]
fn kill_9_at_any_moment_loses_nothing_acknowledged() {
    const CHILD: &str = "SERIN_TEST_KILLED";
    if let Some(dir) = std::env::var_os(CHILD) {
        let (mut store, recovered) = open(dir.as_ref(), 5);
        for number in recovered.memory.sequence + 1.. {
            append(&mut store, [number]);
            println!("\nacknowledged {number}");
            store.save_evidence(&[], decision(number).event.at).unwrap();
        }
    }
    let dir = scratch();
    let mut acknowledged = 0;
    for round in 0..30_u64 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "store::tests::faults::kill_9_at_any_moment_loses_nothing_acknowledged", "--nocapture"])
            .env(CHILD, dir.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let mut numbers = lines.filter_map(|line| line.strip_prefix("acknowledged ")?.parse::<u64>().ok());
        // The child does not wait for its lines to be read, so it is killed wherever it happens to be.
        let wanted = usize::try_from(round * 7 % 11).unwrap();
        acknowledged = numbers.nth(wanted).unwrap_or_else(|| panic!("the child of round {round} failed"));
        child.kill().unwrap();
        child.wait().unwrap();
        acknowledged = numbers.last().unwrap_or(acknowledged);

        let recovered = open(dir.path(), 5).1;
        let last = recovered.memory.sequence;
        assert!(last == acknowledged || last == acknowledged + 1, "{last} after {acknowledged}");
        assert_eq!(Recovered { latest: expected(last).latest, ..recovered }, expected(last));
    }
    assert!(acknowledged > 30);
    assert!(files_aside(&dir).is_empty());
}

/// The disk takes a part of a record and then no more: the child's files may not grow beyond a limit.
#[test]
fn a_full_disk_leaves_no_torn_record_and_costs_only_what_was_not_acknowledged() {
    const CHILD: &str = "SERIN_TEST_FULL_DISK";
    if let Some(dir) = std::env::var_os(CHILD) {
        let (mut store, _) = Store::open(dir.as_ref()).unwrap();
        let failed = (1..100).find(|&number| store.append(&decision(number)).is_err()).unwrap();
        store.append(&decision(failed)).unwrap_err();
        println!("failed at {failed}");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let limited = r#"trap "" XFSZ; ulimit -f 8; exec "$0" --exact "$1" --nocapture"#;
    let name = "store::tests::faults::a_full_disk_leaves_no_torn_record_and_costs_only_what_was_not_acknowledged";
    let program = std::env::current_exe().unwrap();
    let child =
        Command::new("sh").args(["-c", limited]).arg(program).arg(name).env(CHILD, dir.path()).output().unwrap();
    let said = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success(), "{said}{}", String::from_utf8_lossy(&child.stderr));
    let (_, failed) = said.split_once("failed at ").unwrap();
    let acknowledged = failed.lines().next().unwrap().parse::<u64>().unwrap() - 1;
    assert!(acknowledged > 0);

    let length = read(&dir, JOURNAL).len();
    assert_eq!(frame_ends(&read(&dir, JOURNAL)).last(), Some(&length), "no torn record");
    let (mut store, recovered) = open(dir.path(), 1_000);
    assert_eq!(recovered, expected(acknowledged));
    append(&mut store, [acknowledged + 1]);
}

#[test]
fn a_compaction_that_fails_is_tried_again_and_harms_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (mut store, _) = open(dir.path(), 10);
    // A folder in the place of the temporary file stops every attempt at a snapshot.
    let obstacle = dir.path().join(format!("{SNAPSHOT}.tmp"));
    fs::create_dir(&obstacle).unwrap();
    append(&mut store, 1..=15);
    assert_eq!(store.journal.records(), 15);
    fs::remove_dir(&obstacle).unwrap();
    append(&mut store, 16..=62);
    assert!(store.journal.records() < 10, "{}", store.journal.records());
    drop(store);
    assert_eq!(open(dir.path(), 10).1, expected(62));
}

#[test]
fn evidence_is_saved_as_a_whole_and_ignored_when_unreadable() {
    let dir = folder_with(2, 100);
    let share_test = ShareTestState { log_values: vec![f64::NEG_INFINITY, 0.1 + 0.2], ..ShareTestState::default() };
    let evidence = [EvidenceMemory { service: ServiceName::new("web").unwrap(), revision: Revision(1), share_test }];
    let now = Timestamp::from_millis(1_800_000_000_000);
    let (store, _) = open(dir.path(), 100);
    store.save_evidence(&[], Timestamp::from_millis(1)).unwrap();
    store.save_evidence(&evidence, now).unwrap();
    drop(store);
    let recovered = open(dir.path(), 100).1;
    assert_eq!(recovered.evidence, evidence);
    assert_eq!(recovered.latest, now, "the process lived at least until then");

    let saved = read(&dir, EVIDENCE);
    for cut in 0..saved.len() {
        fs::write(dir.path().join(EVIDENCE), &saved[..cut]).unwrap();
        assert_eq!(open(dir.path(), 100).1, expected(2), "cut at {cut}");
    }
    // Not even a folder in its place stops a start.
    fs::remove_file(dir.path().join(EVIDENCE)).unwrap();
    fs::create_dir(dir.path().join(EVIDENCE)).unwrap();
    assert_eq!(open(dir.path(), 100).1, expected(2));
}

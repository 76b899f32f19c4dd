//! Who may use a state folder, and what is said when it cannot be used.

use std::{
    fs,
    io::{BufRead, BufReader, Read},
    path::Path,
    process::{Command, Stdio},
};

use super::{JOURNAL, Store, append, decision, expected, folder_of, open};
use crate::store::{OpenError, frame, record};

fn complaint(dir: &Path) -> String {
    Store::open(dir).unwrap_err().to_string()
}

#[test]
fn a_second_opening_is_refused_until_the_first_one_ends() {
    let dir = tempfile::tempdir().unwrap();
    let (store, _) = open(dir.path(), 100);
    assert_eq!(
        complaint(dir.path()),
        format!(
            "the state folder {} is in use by process {}: stop that one first, or name another folder in `state.dir`",
            dir.path().display(),
            std::process::id()
        )
    );
    drop(store);
    open(dir.path(), 100);
}

#[test]
fn a_process_that_is_killed_leaves_its_decisions_and_no_lock() {
    const CHILD: &str = "SERIN_TEST_LOCKED";
    if let Some(dir) = std::env::var_os(CHILD) {
        let (mut store, _) = open(dir.as_ref(), 100);
        append(&mut store, 1..=7);
        println!("\nlocked");
        // Until it is killed, or the test that started it is gone.
        std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "store::tests::folder::a_process_that_is_killed_leaves_its_decisions_and_no_lock"])
        .arg("--nocapture")
        .env(CHILD, dir.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.map(Result::unwrap).any(|line| line == "locked"), "the child ended early");
    let refused = Store::open(dir.path()).unwrap_err();
    assert!(matches!(refused, OpenError::InUse { pid: Some(pid), .. } if pid == child.id()), "{refused}");

    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(open(dir.path(), 100).1, expected(7));
}

/// Rights do not stop root, as whom tests may run, so the folder is put where nobody can make one.
#[test]
fn a_folder_that_cannot_be_made_is_explained() {
    let parent = folder_of(&[("file", b"")]);
    let below_a_file = parent.path().join("file/state");
    assert_eq!(
        complaint(&below_a_file),
        format!(
            "the state folder {} cannot be made (Not a directory (os error 20)): make it, owned by the user that runs \
             serin, or name another one in `state.dir`",
            below_a_file.display()
        )
    );
    let in_place_of_a_file = parent.path().join("file");
    assert!(complaint(&in_place_of_a_file).contains("cannot be made (File exists (os error 17))"));
}

#[test]
#[cfg(target_os = "linux")]
fn a_folder_that_cannot_be_written_is_explained() {
    let said = complaint(Path::new("/proc"));
    assert!(said.starts_with("nothing can be written to /proc/lock ("), "{said}");
    assert!(said.ends_with("neither full nor read-only, or name another folder in `state.dir`"), "{said}");
}

#[test]
fn a_file_that_cannot_be_read_is_explained() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join(JOURNAL)).unwrap();
    let said = complaint(dir.path());
    assert!(said.starts_with(&format!("{}/journal cannot be read (Is a directory", dir.path().display())), "{said}");
}

#[test]
fn what_a_later_version_wrote_is_left_alone() {
    let json = String::from_utf8(record::encode_decision(&decision(1)).unwrap()).unwrap();
    let later = frame::encode(json.replacen(r#""version":3"#, r#""version":4"#, 1).as_bytes());
    let dir = folder_of(&[(JOURNAL, &later)]);
    assert_eq!(
        complaint(dir.path()),
        format!(
            "{}/journal was written by a later version of serin (its records are of version 4): run that version, \
             or name another folder in `state.dir`, which starts anew",
            dir.path().display()
        )
    );
    assert_eq!(fs::read(dir.path().join(JOURNAL)).unwrap(), later);
}

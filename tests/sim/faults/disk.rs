//! The disk under the state folder: what a crash leaves of a write, and when it takes no more. Real files, in memory where
//! the machine has such a place.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serin::store::{OpenError, Recovered, Store};
use tempfile::TempDir;

use crate::world::Dice;

/// A folder whose writes can be cut short.
pub struct Disk {
    dir: TempDir,
    /// The evidence of a second ago, for a machine that lost the latest.
    former_evidence: Option<Vec<u8>>,
    sick: bool,
}

impl Disk {
    pub fn new() -> Self {
        let shared_memory = Path::new("/dev/shm");
        let dir = tempfile::Builder::new().prefix("serin-sim-").tempdir_in(shared_memory);
        Self { dir: dir.or_else(|_| TempDir::new()).unwrap(), former_evidence: None, sick: false }
    }

    pub fn open(&self) -> Result<(Store, Recovered), OpenError> {
        Store::open(self.dir.path())
    }

    /// What is remembered, as another process sees it.
    pub fn peek(&self) -> Recovered {
        Store::peek(self.dir.path()).unwrap_or_default()
    }

    fn path(&self, file: &str) -> PathBuf {
        self.dir.path().join(file)
    }

    pub fn journal_length(&self) -> u64 {
        fs::metadata(self.path("journal")).map_or(0, |journal| journal.len())
    }

    /// The crash came when the journal was still so long: what was written after it is gone.
    pub fn cut_journal(&self, length: u64) {
        let journal = fs::OpenOptions::new().write(true).open(self.path("journal")).unwrap();
        journal.set_len(length).unwrap();
    }

    /// From now on a file can only grow to the journal's length and so many bytes more; none: as it likes.
    pub fn limit(&mut self, room: Option<u64>) {
        self.sick = room.is_some();
        let Rlimit { maximum, .. } = getrlimit(Resource::Fsize);
        let current = room.map(|room| self.journal_length() + room).or(maximum);
        setrlimit(Resource::Fsize, Rlimit { current, maximum }).unwrap();
    }

    pub const fn is_sick(&self) -> bool {
        self.sick
    }

    /// Before evidence is saved anew.
    pub fn keep_evidence(&mut self) {
        self.former_evidence = fs::read(self.path("evidence")).ok();
    }

    /// Evidence is not waited for: a crash of the machine leaves the old one, a part, or none.
    pub fn lose_evidence(&self, dice: &mut Dice) {
        let path = self.path("evidence");
        let Ok(saved) = fs::read(&path) else { return };
        // A sick disk may refuse even this, which leaves a part or none.
        let _whatever_is_left: io::Result<()> = match (dice.below(4), &self.former_evidence) {
            (0, _) => fs::remove_file(&path),
            (1, _) => fs::write(&path, &saved[..usize::try_from(dice.below(saved.len() as u64)).unwrap()]),
            (_, Some(former)) => fs::write(&path, former),
            (_, None) => Ok(()),
        };
    }
}

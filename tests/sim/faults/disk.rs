//! The disk under the state folder, as the store's own calls reach it: each is written down before it is made, some fail, and
//! when a process or the machine dies the folder becomes what that leaves. Real files, in memory where the machine has such
//! a place.

use std::{
    fs, io,
    os::unix::fs::FileExt,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use serin::store::{Call, OpenError, Recovered, Store, Witness};
use tempfile::TempDir;

use super::platter::{Done, Files, Platter};
use crate::world::Dice;

/// Decisions after which the journal is compacted: often, so that crashes meet it.
const RECORDS: usize = 7;

/// How a disk fails.
#[derive(Debug, Clone, Copy)]
pub enum Illness {
    /// So many bytes more, and then none.
    Full(u64),
    /// Bytes are taken, and may not arrive: so many in a hundred syncs of a file fail.
    Syncs(u64),
    /// Likewise of the folder.
    Folder(u64),
    /// Likewise names that change.
    Names(u64),
    /// Any call may fail.
    Calls(u64),
    /// Remounted, so that nothing can be changed.
    ReadOnly,
    /// The next sync fails, and then it is remounted.
    Collapsing,
}

/// What else dies with the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Death {
    /// Nothing: the kernel has all that was written.
    Process,
    /// The power went.
    Machine,
}

/// A folder that remembers what was done to it.
pub struct Disk {
    dir: TempDir,
    state: Arc<Mutex<State>>,
}

struct State {
    platter: Platter,
    illness: Option<Illness>,
    dice: Dice,
    /// From a moment on, as it was then: what was done since.
    since: Option<(Platter, Vec<Done>)>,
}

impl Disk {
    pub fn new(dice: &mut Dice) -> Self {
        let shared_memory = Path::new("/dev/shm");
        let dir = tempfile::Builder::new().prefix("serin-sim-").tempdir_in(shared_memory);
        let state = State { platter: Platter::default(), illness: None, dice: Dice::new(dice.bits()), since: None };
        Self { dir: dir.or_else(|_| TempDir::new()).unwrap(), state: Arc::new(Mutex::new(state)) }
    }

    pub fn open(&self) -> Result<(Store, Recovered), OpenError> {
        Store::open_before(self.dir.path(), self.witness(), RECORDS)
    }

    /// What is remembered, as another process sees it.
    pub fn peek(&self) -> Recovered {
        Store::peek(self.dir.path()).unwrap_or_default()
    }

    pub fn fall_ill(&self, illness: Option<Illness>) {
        self.state().illness = illness;
    }

    pub fn is_sick(&self) -> bool {
        self.state().illness.is_some()
    }

    /// The kernel writes everything in its own time.
    pub fn settle(&self) {
        self.state().platter.settle();
    }

    /// From now on a death may be put anywhere, until it comes or is called off.
    pub fn mark(&self) {
        let mut state = self.state();
        state.since = Some((state.platter.clone(), Vec::new()));
    }

    pub fn unmark(&self) {
        self.state().since = None;
    }

    /// Death came before any of the calls since the mark, or amidst one, or after the last; without a mark it comes now.
    /// Whoever did them is gone already.
    pub fn die(&self, death: Death, dice: &mut Dice) {
        let mut state = self.state();
        if let Some((mut platter, calls)) = state.since.take() {
            let end = usize::try_from(dice.below(calls.len() as u64 + 1)).unwrap();
            calls[..end].iter().for_each(|done| platter.make(done, dice));
            if let Some(torn) = calls.get(end).and_then(|done| done.torn(dice)) {
                platter.make(&torn, dice);
            }
            state.platter = platter;
        }
        if death == Death::Machine {
            state.platter.lose_power(dice);
        }
        self.put(&state.platter.seen());
    }

    fn put(&self, files: &Files) {
        for entry in fs::read_dir(self.dir.path()).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            if name != "lock" && !files.contains_key(&name) {
                fs::remove_file(self.dir.path().join(name)).unwrap();
            }
        }
        for (name, bytes) in files {
            fs::write(self.dir.path().join(name), bytes).unwrap();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn witness(&self) -> Witness {
        let (state, dir) = (Arc::clone(&self.state), self.dir.path().to_owned());
        Arc::new(move |call: &Call<'_>| state.lock().unwrap_or_else(PoisonError::into_inner).see(call, &dir))
    }
}

impl State {
    fn see(&mut self, call: &Call<'_>, dir: &Path) -> io::Result<()> {
        let outcome = self.judge(call, dir);
        if outcome.is_ok() {
            self.note(Done::of(call));
        }
        outcome
    }

    fn note(&mut self, done: Done) {
        self.platter.make(&done, &mut self.dice);
        if let Some((_, calls)) = &mut self.since {
            calls.push(done);
        }
    }

    fn judge(&mut self, call: &Call<'_>, dir: &Path) -> io::Result<()> {
        let fails = match (self.illness, call) {
            (Some(Illness::Full(room)), Call::Write { file, at, bytes }) => {
                return self.fill(room, (file, *at, bytes), dir);
            }
            (Some(Illness::ReadOnly), _) => true,
            (Some(Illness::Collapsing), Call::Sync(_) | Call::SyncFolder) => {
                self.illness = Some(Illness::ReadOnly);
                true
            }
            (Some(Illness::Syncs(percent)), Call::Sync(_))
            | (Some(Illness::Folder(percent)), Call::SyncFolder)
            | (Some(Illness::Names(percent)), Call::Rename { .. } | Call::Create(_))
            | (Some(Illness::Calls(percent)), _) => self.dice.chance(percent),
            _ => false,
        };
        if !fails {
            return Ok(());
        }
        if let Call::Sync(file) = call {
            self.note(Done::SyncFailed((*file).to_owned()));
        }
        Err(io::Error::other("the simulated disk fails"))
    }

    /// Takes what there is room for; what is there already needs none.
    fn fill(&mut self, room: u64, (file, at, bytes): (&str, u64, &[u8]), dir: &Path) -> io::Result<()> {
        let there = (self.platter.length(file) as u64).saturating_sub(at).min(bytes.len() as u64);
        let new = (bytes.len() as u64 - there).min(room);
        self.illness = Some(Illness::Full(room - new));
        let taken = usize::try_from(there + new).unwrap();
        if taken == bytes.len() {
            return Ok(());
        }
        let bytes = &bytes[..taken];
        fs::OpenOptions::new().write(true).open(dir.join(file))?.write_all_at(bytes, at)?;
        self.note(Done::of(&Call::Write { file, at, bytes }));
        Err(io::ErrorKind::StorageFull.into())
    }
}

//! What a disk holds for certain, what lies in the cache above it, and what a machine that loses its power may find again: of
//! names a beginning of what was done since the folder was synced, of a file the same since the file was, the last write
//! torn, or its length without its bytes. What a failed sync left out may be gone for good, though it is still read.

use std::{collections::BTreeMap, sync::Arc};

use serin::store::Call;

use crate::world::Dice;

pub type Files = BTreeMap<String, Vec<u8>>;

/// A call that was made.
#[derive(Debug, Clone)]
pub enum Done {
    Create(String),
    Write { file: String, at: usize, bytes: Arc<[u8]> },
    Length { file: String, length: usize },
    Sync(String),
    SyncFailed(String),
    SyncFolder,
    Rename { from: String, to: String },
    Copy { from: String, to: String },
    Remove(String),
}

impl Done {
    pub fn of(call: &Call<'_>) -> Self {
        let size = |number: u64| usize::try_from(number).unwrap();
        match *call {
            Call::Create(file) => Self::Create(file.to_owned()),
            Call::Write { file, at, bytes } => Self::Write { file: file.to_owned(), at: size(at), bytes: bytes.into() },
            Call::Length { file, length } => Self::Length { file: file.to_owned(), length: size(length) },
            Call::Sync(file) => Self::Sync(file.to_owned()),
            Call::SyncFolder => Self::SyncFolder,
            Call::Rename { from, to } => Self::Rename { from: from.to_owned(), to: to.to_owned() },
            Call::Copy { from, to } => Self::Copy { from: from.to_owned(), to: to.to_owned() },
            Call::Remove(file) => Self::Remove(file.to_owned()),
        }
    }

    /// The beginning of a write; of anything else nothing.
    pub fn torn(&self, dice: &mut Dice) -> Option<Self> {
        let Self::Write { file, at, bytes } = self else { return None };
        let length = usize::try_from(dice.below(bytes.len() as u64 + 1)).unwrap();
        Some(Self::Write { file: file.clone(), at: *at, bytes: bytes[..length].into() })
    }
}

/// The disk under one folder.
#[derive(Debug, Clone, Default)]
pub struct Platter {
    files: Vec<Content>,
    /// Names, as a loss of power leaves them for certain.
    sure: BTreeMap<String, usize>,
    /// Names, as a process sees them.
    seen: BTreeMap<String, usize>,
    /// What was done to names since.
    moves: Vec<Move>,
}

#[derive(Debug, Clone, Default)]
struct Content {
    sure: Vec<u8>,
    seen: Vec<u8>,
    changes: Vec<Change>,
}

#[derive(Debug, Clone)]
enum Change {
    Write(usize, Arc<[u8]>),
    Length(usize),
}

#[derive(Debug, Clone)]
enum Move {
    Link(String, usize),
    Unlink(String),
    Rename(String, String),
}

impl Change {
    fn make(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::Write(at, new) => {
                let end = at + new.len();
                bytes.resize(bytes.len().max(end), 0);
                bytes[*at..end].copy_from_slice(new);
            }
            Self::Length(length) => bytes.resize(*length, 0),
        }
    }

    /// A write that was not finished.
    fn torn(&self, dice: &mut Dice) -> Option<Self> {
        let Self::Write(at, new) = self else { return None };
        let length = usize::try_from(dice.below(new.len() as u64 + 1)).unwrap();
        Some(Self::Write(*at, new[..length].into()))
    }

    fn end(&self) -> usize {
        match self {
            Self::Write(at, new) => at + new.len(),
            Self::Length(length) => *length,
        }
    }
}

impl Move {
    fn make(&self, names: &mut BTreeMap<String, usize>) {
        match self {
            Self::Link(name, file) => drop(names.insert(name.clone(), *file)),
            Self::Unlink(name) => drop(names.remove(name)),
            Self::Rename(from, to) => {
                if let Some(file) = names.remove(from) {
                    names.insert(to.clone(), file);
                }
            }
        }
    }
}

impl Platter {
    pub fn make(&mut self, done: &Done, dice: &mut Dice) {
        match done {
            Done::Create(name) => {
                if !self.seen.contains_key(name) {
                    self.link(name, Content::default());
                }
            }
            Done::Write { file, at, bytes } => self.change(file, Change::Write(*at, Arc::clone(bytes))),
            Done::Length { file, length } => self.change(file, Change::Length(*length)),
            Done::Sync(file) => self.content(file).settle(),
            Done::SyncFailed(file) => {
                let content = self.content(file);
                if dice.chance(50) {
                    // The kernel calls it clean now: no later sync writes it.
                    content.changes.retain(|change| matches!(change, Change::Length(_)));
                }
            }
            Done::SyncFolder => self.settle_names(),
            Done::Rename { from, to } => self.move_name(Move::Rename(from.clone(), to.clone())),
            Done::Copy { from, to } => {
                let bytes: Arc<[u8]> = self.content(from).seen.as_slice().into();
                self.link(to, Content::default());
                self.change(to, Change::Write(0, bytes));
            }
            Done::Remove(name) => self.move_name(Move::Unlink(name.clone())),
        }
    }

    /// Bytes of a file, as a process sees it.
    pub fn length(&self, name: &str) -> usize {
        self.seen.get(name).map_or(0, |file| self.files[*file].seen.len())
    }

    /// What the next process sees when only the process died.
    pub fn seen(&self) -> Files {
        self.seen.iter().map(|(name, file)| (name.clone(), self.files[*file].seen.clone())).collect()
    }

    /// The kernel has had time to write everything.
    pub fn settle(&mut self) {
        self.settle_names();
        for content in &mut self.files {
            content.settle();
        }
        self.forget_the_nameless();
    }

    /// The power goes, and comes back.
    pub fn lose_power(&mut self, dice: &mut Dice) {
        let kept = usize::try_from(dice.below(self.moves.len() as u64 + 1)).unwrap();
        let (sure, moves) = (&mut self.sure, std::mem::take(&mut self.moves));
        moves[..kept].iter().for_each(|done| done.make(sure));
        self.seen = self.sure.clone();
        self.forget_the_nameless();
        for content in &mut self.files {
            content.lose_power(dice);
        }
    }

    fn content(&mut self, name: &str) -> &mut Content {
        let file = self.seen[name];
        &mut self.files[file]
    }

    fn change(&mut self, name: &str, change: Change) {
        let content = self.content(name);
        change.make(&mut content.seen);
        content.changes.push(change);
    }

    fn link(&mut self, name: &str, content: Content) {
        self.files.push(content);
        self.move_name(Move::Link(name.to_owned(), self.files.len() - 1));
    }

    fn move_name(&mut self, done: Move) {
        done.make(&mut self.seen);
        self.moves.push(done);
    }

    fn settle_names(&mut self) {
        self.sure = self.seen.clone();
        self.moves.clear();
    }

    /// Only when no move is under way that could bring one back.
    fn forget_the_nameless(&mut self) {
        let former = std::mem::take(&mut self.files);
        for file in self.seen.values_mut() {
            self.files.push(former[*file].clone());
            *file = self.files.len() - 1;
        }
        self.sure = self.seen.clone();
    }
}

impl Content {
    fn settle(&mut self) {
        let sure = &mut self.sure;
        self.changes.drain(..).for_each(|change| change.make(sure));
    }

    fn lose_power(&mut self, dice: &mut Dice) {
        let kept = usize::try_from(dice.below(self.changes.len() as u64 + 1)).unwrap();
        let changes = std::mem::take(&mut self.changes);
        changes[..kept].iter().for_each(|change| change.make(&mut self.sure));
        if let Some(torn) = changes.get(kept).and_then(|change| change.torn(dice)) {
            if dice.chance(20) {
                // The length came before the bytes.
                self.sure.resize(self.sure.len().max(torn.end()), 0);
            } else {
                torn.make(&mut self.sure);
            }
        }
        self.seen = self.sure.clone();
    }
}

//! The calls that change the state folder, each made here and nowhere else, so that a simulation of disks sees every one
//! before it is made, and may let it fail. Knows nothing of what the files mean.

use std::{
    fmt,
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::Arc,
};

/// A call that is about to be made. Files are named as in the folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call<'c> {
    /// Makes an empty file where there is none.
    Create(&'c str),
    /// Writes into a file.
    Write {
        /// Which.
        file: &'c str,
        /// From this byte on.
        at: u64,
        /// These.
        bytes: &'c [u8],
    },
    /// Cuts a file, or lengthens it by zeros.
    Length {
        /// Which.
        file: &'c str,
        /// Its bytes afterwards.
        length: u64,
    },
    /// Makes the content of a file survive any crash.
    Sync(&'c str),
    /// Makes the names in the folder survive any crash.
    SyncFolder,
    /// Gives a file another name, in place of the file that had it.
    Rename {
        /// The former name.
        from: &'c str,
        /// The new one.
        to: &'c str,
    },
    /// Copies a file.
    Copy {
        /// Of which.
        from: &'c str,
        /// Named so.
        to: &'c str,
    },
    /// Takes a file away.
    Remove(&'c str),
}

/// Is asked before each call; on an error the call is not made and fails with it.
pub type Witness = Arc<dyn Fn(&Call<'_>) -> io::Result<()> + Send + Sync>;

/// The folder, as it can be changed.
#[derive(Clone)]
pub struct Disk {
    dir: PathBuf,
    witness: Option<Witness>,
}

impl fmt::Debug for Disk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Disk").field("dir", &self.dir).finish_non_exhaustive()
    }
}

impl Disk {
    /// The folder there, with a witness where it is tried.
    #[must_use]
    pub fn new(dir: &Path, witness: Option<Witness>) -> Self {
        Self { dir: dir.to_owned(), witness }
    }

    /// Where it is.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The path of a file in it.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// A file to write into, as it is, or a new one.
    pub fn open(&self, name: &str) -> io::Result<DiskFile> {
        self.ask(&Call::Create(name))?;
        let file = private().create(true).truncate(false).read(true).write(true).open(self.path(name))?;
        Ok(DiskFile { file, name: name.to_owned(), disk: self.clone() })
    }

    /// Gives a file another name, in place of what had it.
    pub fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.ask(&Call::Rename { from, to })?;
        fs::rename(self.path(from), self.path(to))
    }

    /// Copies a file, and waits until the disk has the copy.
    pub fn copy(&self, from: &str, to: &str) -> io::Result<()> {
        self.ask(&Call::Copy { from, to })?;
        fs::copy(self.path(from), self.path(to))?;
        self.ask(&Call::Sync(to))?;
        File::open(self.path(to))?.sync_all()
    }

    /// Takes a file away.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        self.ask(&Call::Remove(name))?;
        fs::remove_file(self.path(name))
    }

    /// Makes what was created or renamed in the folder survive a crash.
    pub fn sync(&self) -> io::Result<()> {
        self.ask(&Call::SyncFolder)?;
        File::open(&self.dir)?.sync_all()
    }

    fn ask(&self, call: &Call<'_>) -> io::Result<()> {
        self.witness.as_ref().map_or(Ok(()), |witness| witness(call))
    }
}

/// A file of the folder that is open for writing.
#[derive(Debug)]
pub struct DiskFile {
    file: File,
    name: String,
    disk: Disk,
}

impl DiskFile {
    /// Writes all of it from there on.
    pub fn write(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        self.disk.ask(&Call::Write { file: &self.name, at, bytes })?;
        self.file.write_all_at(bytes, at)
    }

    /// Makes it so long.
    pub fn set_length(&self, length: u64) -> io::Result<()> {
        self.disk.ask(&Call::Length { file: &self.name, length })?;
        self.file.set_len(length)
    }

    /// Waits until the disk has what was written.
    pub fn sync(&self) -> io::Result<()> {
        self.disk.ask(&Call::Sync(&self.name))?;
        self.file.sync_data()
    }
}

/// Opens files that only their owner may read or write.
pub fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(0o600);
    options
}

//! The state folder: who may use it, and how a file in it is replaced, set aside or made once.
//! Knows nothing of what the files mean.

use std::{
    fs::{self, DirBuilder, File, TryLockError},
    io::{self, Read, Write},
    os::unix::fs::{DirBuilderExt, PermissionsExt},
    path::{Path, PathBuf},
};

use super::disk::{Disk, DiskFile, private};
use crate::engine::time::Timestamp;

/// Held locked while the folder is in use; says by which process.
const LOCK: &str = "lock";
/// The token for writing by the admin API.
pub const WRITE_TOKEN: &str = "write-token";
/// Random bytes in the token; twice as many hexadecimal digits.
const TOKEN_BYTES: usize = 32;
/// Damaged files kept aside of each kind; beyond that the oldest goes.
const ASIDE_MAX: usize = 8;

/// Why a state folder cannot be used. The text says what to do.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process, or another part of this one, holds the lock.
    #[error(
        "the state folder {} is in use by {}: stop that one first, or name another folder in `state.dir`",
        dir.display(), user(*pid)
    )]
    InUse {
        /// Who, as far as it is known.
        pid: Option<u32>,
        /// The folder.
        dir: PathBuf,
    },
    /// It is not there and cannot be made.
    #[error(
        "the state folder {} cannot be made ({source}): make it, owned by the user that runs serin, \
         or name another one in `state.dir`",
        dir.display()
    )]
    Create {
        /// The folder.
        dir: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is there, but nothing can be written in it.
    #[error(
        "nothing can be written to {} ({source}): give the user that runs serin the right to write there, \
         make sure that the disk is neither full nor read-only, or name another folder in `state.dir`",
        path.display()
    )]
    NotWritable {
        /// The file that could not be written.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file is there, but cannot be read.
    #[error(
        "{} cannot be read ({source}): give the user that runs serin the right to read it; \
         should the disk be broken, move the file away and start again, which begins with stable only",
        path.display()
    )]
    NotReadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A later Serin wrote it.
    #[error(
        "{} was written by a later version of serin (its records are of version {found}): run that version, \
         or name another folder in `state.dir`, which starts anew",
        path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// The version of its records.
        found: u32,
    },
}

fn user(pid: Option<u32>) -> String {
    pid.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"))
}

/// An open state folder. The lock is held until this is dropped, or the process ends however it ends.
#[derive(Debug)]
pub struct Folder {
    disk: Disk,
    lock: File,
}

impl Folder {
    /// Makes the folder if need be (mode 0700), locks it, and tries whether it can be written.
    ///
    /// # Errors
    /// When it cannot be made or written, or is in use.
    pub fn open(disk: Disk) -> Result<Self, OpenError> {
        let dir = disk.dir().to_owned();
        create(&dir).map_err(|source| OpenError::Create { dir: dir.clone(), source })?;
        let folder = Self { disk, lock: lock(&dir)? };
        match folder.try_writing() {
            // What is remembered can still be read and served; the first decision says that it cannot be written.
            Err(error) if error.kind() == io::ErrorKind::StorageFull && folder.path(WRITE_TOKEN).exists() => {
                tracing::error!("{} cannot be written: {error}", dir.display());
            }
            tried => tried.map_err(|source| OpenError::NotWritable { path: dir, source })?,
        }
        Ok(folder)
    }

    /// The path of a file in it.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.disk.path(name)
    }

    /// A file of it to write into, as it is, or a new one.
    pub fn file(&self, name: &str) -> io::Result<DiskFile> {
        self.disk.open(name)
    }

    /// At most `max` bytes of a file and one more, so that the caller sees when it is too long; none when it is not there.
    pub fn read(&self, name: &str, max: usize) -> Result<Option<Vec<u8>>, OpenError> {
        read(&self.path(name), max)
    }

    /// Replaces a file as a whole; after this the new content survives any crash, and before it the old one does.
    /// (Temporary file, fsync, rename, fsync of the folder: Pillai et al., "All File Systems Are Not Created Equal", 2014.)
    pub fn replace_durably(&self, name: &str, content: &[u8]) -> io::Result<()> {
        self.write_temporary(name, content)?.sync()?;
        self.rename_temporary(name)?;
        self.sync()
    }

    /// Replaces a file as a whole; after a crash of the machine it may be the old or the new one, or damaged.
    pub fn replace_loosely(&self, name: &str, content: &[u8]) -> io::Result<()> {
        self.write_temporary(name, content)?;
        self.rename_temporary(name)
    }

    /// Makes what was created or renamed in the folder survive a crash.
    pub fn sync(&self) -> io::Result<()> {
        self.disk.sync()
    }

    /// Copies a damaged file to `NAME.corrupt-MILLIS`, for a person to look at, and returns the copy's name.
    /// A copy and no rename: until the sound state is written, the next start must find the damage again.
    pub fn set_aside(&self, name: &str, at: Timestamp) -> io::Result<String> {
        let free = |copy: &String| !self.path(copy).exists();
        let copies = (at.as_millis()..).map(|millis| format!("{name}.corrupt-{millis}"));
        let copy = copies.take(ASIDE_MAX * 2).find(free).ok_or(io::ErrorKind::AlreadyExists)?;
        self.disk.copy(name, &copy)?;
        self.forget_oldest_aside(name)?;
        Ok(copy)
    }

    /// The token for writing by the admin API: made once from the system's random numbers, readable by its owner only.
    ///
    /// # Errors
    /// When it cannot be made or read, or the file holds something else.
    pub fn write_token(&self) -> io::Result<String> {
        let path = self.path(WRITE_TOKEN);
        match fs::read_to_string(&path) {
            Ok(text) => {
                let token = text.trim_end();
                let sound = token.len() == 2 * TOKEN_BYTES && token.bytes().all(|byte| byte.is_ascii_hexdigit());
                if !sound {
                    let what = format!("{} holds no token: delete it, and a new one is made", path.display());
                    return Err(io::Error::new(io::ErrorKind::InvalidData, what));
                }
                fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
                Ok(token.to_owned())
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let token = fresh_token()?;
                self.replace_durably(WRITE_TOKEN, format!("{token}\n").as_bytes())?;
                Ok(token)
            }
            Err(error) => Err(error),
        }
    }

    fn write_temporary(&self, name: &str, content: &[u8]) -> io::Result<DiskFile> {
        let file = self.disk.open(&temporary(name))?;
        file.set_length(0)?;
        file.write(content, 0)?;
        Ok(file)
    }

    fn rename_temporary(&self, name: &str) -> io::Result<()> {
        self.disk.rename(&temporary(name), name)
    }

    fn try_writing(&self) -> io::Result<()> {
        self.write_temporary("probe", b"may this be written?\n")?.sync()?;
        self.disk.remove(&temporary("probe"))
    }

    fn forget_oldest_aside(&self, name: &str) -> io::Result<()> {
        let prefix = format!("{name}.corrupt-");
        let mut aside = Vec::new();
        for entry in fs::read_dir(self.disk.dir())? {
            let file_name = entry?.file_name();
            let millis = file_name.to_str().and_then(|text| text.strip_prefix(&prefix)?.parse::<u64>().ok());
            aside.extend(millis);
        }
        aside.sort_unstable();
        let surplus = aside.len().saturating_sub(ASIDE_MAX);
        aside[..surplus].iter().try_for_each(|millis| self.disk.remove(&format!("{prefix}{millis}")))
    }
}

impl Drop for Folder {
    /// Closing alone is not enough: a child that another thread is just starting holds the same open file until its exec.
    fn drop(&mut self) {
        // Should this fail, closing still does it.
        let _unlocked = self.lock.unlock();
    }
}

/// At most `max` bytes of a file and one more; none when it is not there.
pub fn read(path: &Path, max: usize) -> Result<Option<Vec<u8>>, OpenError> {
    let mut bytes = Vec::new();
    match File::open(path).and_then(|file| file.take(max as u64 + 1).read_to_end(&mut bytes)) {
        Ok(_) => Ok(Some(bytes)),
        Err(source) if source.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(OpenError::NotReadable { path: path.to_owned(), source }),
    }
}

/// Each file has one temporary name, so that what a crash left behind is overwritten and never piles up.
fn temporary(name: &str) -> String {
    format!("{name}.tmp")
}

fn create(dir: &Path) -> io::Result<()> {
    if dir.is_dir() {
        return Ok(());
    }
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(parent)?.sync_all()
}

fn lock(dir: &Path) -> Result<File, OpenError> {
    let path = dir.join(LOCK);
    let not_writable = |source| OpenError::NotWritable { path: path.clone(), source };
    // Never truncated on opening: until the lock is held, the number in it is somebody else's.
    let mut options = private();
    let opened = options.create(true).truncate(false).read(true).write(true).open(&path);
    let mut file = opened.map_err(not_writable)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut text = String::new();
            let read = (&mut file).take(32).read_to_string(&mut text);
            let pid = read.ok().and_then(|_| text.trim().parse().ok());
            return Err(OpenError::InUse { pid, dir: dir.to_owned() });
        }
        Err(TryLockError::Error(source)) => return Err(not_writable(source)),
    }
    let written = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
    written.map_err(not_writable)?;
    Ok(file)
}

fn fresh_token() -> io::Result<String> {
    let mut halves = [[0_u8; TOKEN_BYTES / 2]; 2];
    let mut random = File::open("/dev/urandom")?;
    halves.iter_mut().try_for_each(|half| random.read_exact(half))?;
    let [first, second] = halves.map(u128::from_be_bytes);
    Ok(format!("{first:032x}{second:032x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn folder_and_files_belong_to_their_owner_alone() {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().join("a/b");
        let folder = Folder::open(Disk::new(&dir, None)).unwrap();
        folder.replace_durably("file", b"x").unwrap();
        assert_eq!(mode(&dir), 0o700);
        assert_eq!(mode(&folder.path("file")), 0o600);
        assert_eq!(fs::read_to_string(folder.path(LOCK)).unwrap(), format!("{}\n", std::process::id()));
    }

    #[test]
    fn a_token_is_made_once_and_kept_private() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::open(Disk::new(dir.path(), None)).unwrap();
        let token = folder.write_token().unwrap();
        assert_eq!(token.len(), 64);
        fs::set_permissions(folder.path(WRITE_TOKEN), fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(folder.write_token().unwrap(), token);
        assert_eq!(mode(&folder.path(WRITE_TOKEN)), 0o600);

        let other = tempfile::tempdir().unwrap();
        assert_ne!(Folder::open(Disk::new(other.path(), None)).unwrap().write_token().unwrap(), token);

        fs::write(folder.path(WRITE_TOKEN), "\n").unwrap();
        let error = folder.write_token().unwrap_err().to_string();
        assert!(error.ends_with("holds no token: delete it, and a new one is made"), "{error}");
    }

    #[test]
    fn damaged_files_do_not_pile_up() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::open(Disk::new(dir.path(), None)).unwrap();
        for millis in 0..30 {
            fs::write(folder.path("journal"), format!("{millis}")).unwrap();
            folder.set_aside("journal", Timestamp::from_millis(1_000 + millis / 2)).unwrap();
        }
        let aside = fs::read_dir(dir.path()).unwrap();
        let aside = aside.filter(|entry| entry.as_ref().unwrap().path().to_str().unwrap().contains(".corrupt-"));
        assert_eq!(aside.count(), ASIDE_MAX);
    }

    #[test]
    fn a_file_is_read_no_further_than_the_limit() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::open(Disk::new(dir.path(), None)).unwrap();
        folder.replace_loosely("file", b"0123456789").unwrap();
        assert_eq!(folder.read("file", 4).unwrap().unwrap(), b"01234");
        assert_eq!(folder.read("absent", 4).unwrap(), None);
    }
}

//! The journal's file: frames are appended whole and durably, or not at all. Knows nothing of what they mean.

use std::{fs::File, io, os::unix::fs::FileExt};

use super::folder::{Folder, private};

/// Its name in the state folder.
pub const JOURNAL: &str = "journal";
/// Longest journal, in bytes. Snapshots keep it far shorter; it grows only while they fail.
pub const JOURNAL_BYTES_MAX: usize = 64 * 1024 * 1024;

/// A journal open for appending.
#[derive(Debug)]
pub struct Journal {
    file: File,
    /// Where the last durable frame ends.
    end: u64,
    records: usize,
    /// Something may lie after `end` that was refused.
    uncut: bool,
}

impl Journal {
    /// Opens the file, made if need be, at the end of its sound part of so many records; all after it is cut off.
    ///
    /// # Errors
    /// When it cannot be opened for writing, or not be cut.
    pub fn open(folder: &Folder, end: usize, records: usize) -> io::Result<Self> {
        let file = private().create(true).truncate(false).read(true).write(true).open(folder.path(JOURNAL))?;
        folder.sync()?;
        let mut journal = Self { file, end: end as u64, records, uncut: true };
        journal.cut()?;
        Ok(journal)
    }

    /// How long it is.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.end
    }

    /// Records in it.
    #[must_use]
    pub const fn records(&self) -> usize {
        self.records
    }

    /// Appends a frame and waits until the disk has it. After an error nothing of it is in the file; should even the
    /// cutting fail, it is tried again before the next frame, which is refused as long as it fails.
    pub fn append(&mut self, frame: &[u8]) -> io::Result<()> {
        if self.uncut {
            self.cut()?;
        }
        let end = self.end + frame.len() as u64;
        if end > JOURNAL_BYTES_MAX as u64 {
            let what = "the journal is full, since no snapshot could be written";
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, what));
        }
        let written = self.file.write_all_at(frame, self.end).and_then(|()| self.file.sync_data());
        if let Err(error) = written {
            self.uncut = self.cut().is_err();
            return Err(error);
        }
        self.end = end;
        self.records += 1;
        Ok(())
    }

    /// Begins anew: everything in it is in a snapshot now.
    pub fn clear(&mut self) -> io::Result<()> {
        (self.end, self.records, self.uncut) = (0, 0, true);
        self.cut()
    }

    fn cut(&mut self) -> io::Result<()> {
        self.uncut = true;
        self.file.set_len(self.end)?;
        self.file.sync_data()?;
        self.uncut = false;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, mem};

    #[test]
    fn a_journal_that_could_not_be_cut_refuses_until_it_can() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::open(dir.path()).unwrap();
        let mut journal = Journal::open(&folder, 0, 0).unwrap();
        journal.append(b"one\n").unwrap();

        // A handle without the right to write fails in every call, as a disk does that was remounted read-only.
        let working = mem::replace(&mut journal.file, File::open(folder.path(JOURNAL)).unwrap());
        assert!(journal.append(b"two\n").is_err());
        assert!(journal.uncut);
        // The torn beginning of a frame that the failing disk took after all.
        working.write_all_at(b"tw", 4).unwrap();
        assert!(journal.append(b"two\n").is_err());

        journal.file = working;
        journal.append(b"2\n").unwrap();
        assert_eq!(fs::read(folder.path(JOURNAL)).unwrap(), b"one\n2\n");
        assert_eq!((journal.bytes(), journal.records()), (6, 2));
    }

    #[test]
    fn the_journal_has_a_limit() {
        let dir = tempfile::tempdir().unwrap();
        let mut journal = Journal::open(&Folder::open(dir.path()).unwrap(), 0, 0).unwrap();
        journal.end = JOURNAL_BYTES_MAX as u64 - 3;
        let error = journal.append(b"four").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        journal.append(b"thr").unwrap();
    }
}

//! The journal's file: frames are appended whole and durably, or not at all. Knows nothing of what they mean.

use std::io;

use super::{disk::DiskFile, folder::Folder};

/// Its name in the state folder.
pub const JOURNAL: &str = "journal";
/// Longest journal, in bytes. Snapshots keep it far shorter; it grows only while they fail.
pub const JOURNAL_BYTES_MAX: usize = 64 * 1024 * 1024;

/// A journal open for appending.
#[derive(Debug)]
pub struct Journal {
    file: DiskFile,
    /// Where the last durable frame ends.
    end: u64,
    records: usize,
    /// Something may lie after `end` that was refused.
    uncut: bool,
}

impl Journal {
    /// Opens the file, made if need be, at the end of its sound part of so many records; all after it is cut off.
    ///
    /// The sound part is written once more: where a sync failed in an earlier life, it may have been read from the cache alone,
    /// which the system takes for written (Rebello et al., "Can Applications Recover from fsync Failures?", 2020).
    ///
    /// # Errors
    /// When it cannot be opened for writing, or not be cut.
    pub fn open(folder: &Folder, sound: &[u8], records: usize) -> io::Result<Self> {
        let file = folder.file(JOURNAL)?;
        folder.sync()?;
        match file.write(sound, 0) {
            // Where even the same bytes need room, what is remembered is served all the same.
            Err(error) if error.kind() == io::ErrorKind::StorageFull => {}
            written => written?,
        }
        let mut journal = Self { file, end: sound.len() as u64, records, uncut: true };
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
        self.mend()?;
        let end = self.end + frame.len() as u64;
        if end > JOURNAL_BYTES_MAX as u64 {
            let what = "the journal is full, since no snapshot could be written";
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, what));
        }
        let written = self.file.write(frame, self.end).and_then(|()| self.file.sync());
        if let Err(error) = written {
            self.uncut = self.cut().is_err();
            return Err(error);
        }
        self.end = end;
        self.records += 1;
        Ok(())
    }

    /// Cuts off what was refused, if that has failed so far: the next start would find it, and whoever looks on.
    pub fn mend(&mut self) -> io::Result<()> {
        if self.uncut { self.cut() } else { Ok(()) }
    }

    /// Begins anew: everything in it is in a snapshot now.
    pub fn clear(&mut self) -> io::Result<()> {
        (self.end, self.records, self.uncut) = (0, 0, true);
        self.cut()
    }

    fn cut(&mut self) -> io::Result<()> {
        self.uncut = true;
        self.file.set_length(self.end)?;
        self.file.sync()?;
        self.uncut = false;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{self, OpenOptions},
        io::Write,
        sync::{
            Arc,
            atomic::{AtomicBool, Ordering::Relaxed},
        },
    };

    use super::{
        super::disk::{Call, Disk},
        *,
    };

    #[test]
    fn a_journal_that_could_not_be_cut_refuses_until_it_can() {
        let dir = tempfile::tempdir().unwrap();
        let is_sick = Arc::new(AtomicBool::new(false));
        let sick = Arc::clone(&is_sick);
        // As a disk that was remounted read-only.
        let refuse =
            move |_: &Call<'_>| if sick.load(Relaxed) { Err(io::ErrorKind::ReadOnlyFilesystem.into()) } else { Ok(()) };
        let folder = Folder::open(Disk::new(dir.path(), Some(Arc::new(refuse)))).unwrap();
        let mut journal = Journal::open(&folder, b"", 0).unwrap();
        journal.append(b"one\n").unwrap();

        is_sick.store(true, Relaxed);
        assert!(journal.append(b"two\n").is_err());
        assert!(journal.uncut);
        // The torn beginning of a frame that the failing disk took after all.
        OpenOptions::new().append(true).open(folder.path(JOURNAL)).unwrap().write_all(b"tw").unwrap();
        assert!(journal.append(b"two\n").is_err());

        is_sick.store(false, Relaxed);
        journal.append(b"2\n").unwrap();
        assert_eq!(fs::read(folder.path(JOURNAL)).unwrap(), b"one\n2\n");
        assert_eq!((journal.bytes(), journal.records()), (6, 2));
    }

    #[test]
    fn the_journal_has_a_limit() {
        let dir = tempfile::tempdir().unwrap();
        let mut journal = Journal::open(&Folder::open(Disk::new(dir.path(), None)).unwrap(), b"", 0).unwrap();
        journal.end = JOURNAL_BYTES_MAX as u64 - 3;
        let error = journal.append(b"four").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        journal.append(b"thr").unwrap();
    }
}

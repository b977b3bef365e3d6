//! Room ahead in the journal: blocks that are on the disk before anything is written to them.
//!
//! fjall makes a journal long and empty. Where a write meets no block yet, the disk has to hold the block's
//! place as well as what is in it before an fsync is done, which takes half as long again. So zeros are written
//! ahead of the journal's end, where zeros would be read anyway.
//!
//! Nothing of a journal is changed by this, neither a byte of it nor its length: zeros go only where the file
//! system says that there is no data up to the end of the file, and where zeros are read. Only the writer's thread
//! may do it, since it alone writes to the journal, and between two batches, when all it has written is in the file.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;

use super::journal;

/// So much is made ready at once: the next fsync has to write it.
const CHUNK: usize = 1 << 20;

/// A look whether there is still room after so many bytes.
const LOOK_AFTER: usize = CHUNK / 4;

/// Larger batches gain nothing: finding their blocks takes little beside writing them, and zeros would have to be
/// written as fast as they are.
const LARGE: usize = 64 * 1024;

/// What is read to see whether the journal has come as far.
const SAMPLE: usize = 4096;

/// The room ahead of the journals in one folder of tables.
#[derive(Debug)]
pub(super) struct Ahead {
    tables: PathBuf,
    newest: Option<Newest>,
    /// Since the last look.
    bytes: usize,
    batches: usize,
    failed: bool,
}

/// The journal that is written to.
#[derive(Debug)]
struct Newest {
    number: u64,
    file: File,
    /// Up to where there are zeros.
    ready: u64,
}

impl Ahead {
    pub(super) fn new(tables: PathBuf) -> Self {
        Ahead { tables, newest: None, bytes: 0, batches: 0, failed: false }
    }

    /// A batch of about so many bytes is in the journal, and on the disk.
    pub(super) fn wrote(&mut self, bytes: usize) {
        self.bytes += bytes;
        self.batches += 1;
        if self.bytes < LOOK_AFTER || self.failed {
            return;
        }
        let small = self.bytes / self.batches < LARGE;
        (self.bytes, self.batches) = (0, 0);
        if let Err(error) = self.look(small) {
            // It was to make writing faster, and nothing else. What is wrong with the disk the next batch will tell.
            (self.failed, self.newest) = (true, None);
            tracing::warn!(%error, "no room is made ahead in the journal; writing goes on without");
        }
    }

    /// Finds the journal that is written to, and makes room in it for small batches.
    fn look(&mut self, small: bool) -> io::Result<()> {
        let number = newest_in(&self.tables)?;
        if self.newest.as_ref().map(|newest| newest.number) != number {
            // One that is no longer written to is let go, or it would stay on the disk when it is removed.
            self.newest =
                number.map(|number| Newest::open(&self.tables, number)).transpose()?.flatten();
        }
        match &mut self.newest {
            Some(newest) if small => newest.extend(),
            _ => Ok(()),
        }
    }
}

impl Newest {
    /// None if it is gone meanwhile.
    fn open(tables: &Path, number: u64) -> io::Result<Option<Self>> {
        match File::options().read(true).write(true).open(journal::path(tables, number)) {
            Ok(file) => Ok(Some(Newest { number, file, ready: 0 })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn extend(&mut self) -> io::Result<()> {
        if self.has_room()? {
            return Ok(());
        }
        let start = self.behind_all_data()?;
        let end = self.file.metadata()?.len().min(start + CHUNK as u64);
        let mut zeros = vec![0; end.saturating_sub(start) as usize];
        self.file.read_exact_at(&mut zeros, start)?;
        if zeros.iter().any(|byte| *byte != 0) {
            let text = "the file system says that there is no data where there is some";
            return Err(io::Error::other(text));
        }
        self.file.write_all_at(&zeros, start)?;
        self.ready = start.max(end);
        Ok(())
    }

    /// Whether the journal has not come to the middle of what was made ready last.
    fn has_room(&self) -> io::Result<bool> {
        let Some(middle) = self.ready.checked_sub(CHUNK as u64 / 2) else { return Ok(false) };
        let mut sample = [0; SAMPLE];
        self.file.read_exact_at(&mut sample, middle)?;
        Ok(sample == [0; SAMPLE])
    }

    /// From where on the file has no data.
    fn behind_all_data(&self) -> io::Result<u64> {
        let mut at = self.ready;
        loop {
            match seek(&self.file, SeekFrom::Data(at)) {
                Ok(data) => at = seek(&self.file, SeekFrom::Hole(data))?,
                Err(Errno::NXIO) => return Ok(at),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

fn newest_in(tables: &Path) -> io::Result<Option<u64>> {
    let mut newest = None;
    for file in std::fs::read_dir(tables)? {
        newest = newest.max(journal::number(&file?.path()));
    }
    Ok(newest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt as _;

    const LONG: u64 = 64 << 20;
    const SMALL: usize = 4096;

    struct Bed {
        folder: tempfile::TempDir,
        ahead: Ahead,
        journal: File,
        written: Vec<u8>,
    }

    fn bed(number: u64) -> Bed {
        let folder = tempfile::tempdir().unwrap();
        let ahead = Ahead::new(folder.path().to_path_buf());
        let journal = make(folder.path(), number);
        Bed { folder, ahead, journal, written: Vec::new() }
    }

    fn make(folder: &Path, number: u64) -> File {
        let file = File::options()
            .create_new(true)
            .read(true)
            .write(true)
            .open(journal::path(folder, number))
            .unwrap();
        file.set_len(LONG).unwrap();
        file
    }

    impl Bed {
        fn write(&mut self, bytes: usize) {
            let batch = vec![7; bytes];
            self.journal.write_all_at(&batch, self.written.len() as u64).unwrap();
            self.written.extend(batch);
            self.ahead.wrote(bytes);
        }

        fn write_all(&mut self, bytes: usize, each: usize) {
            (0..bytes / each).for_each(|_| self.write(each));
        }

        /// Bytes that are on the disk beyond what was written.
        fn room(&self) -> i64 {
            self.journal.sync_all().unwrap();
            self.journal.metadata().unwrap().blocks() as i64 * 512 - self.written.len() as i64
        }

        fn is_what_was_written(&self) -> bool {
            let mut held = vec![0; LONG as usize];
            self.journal.read_exact_at(&mut held, 0).unwrap();
            let (written, behind) = held.split_at(self.written.len());
            let length = self.journal.metadata().unwrap().len();
            length == LONG && written == self.written && behind.iter().all(|byte| *byte == 0)
        }
    }

    #[test]
    fn small_batches_have_room_ahead_of_them_and_the_journal_stays_as_it_was_written() {
        let mut bed = bed(0);
        for _ in 0..20 {
            bed.write_all(LOOK_AFTER, SMALL);
            let room = bed.room();
            assert!((CHUNK as i64 / 4..3 * CHUNK as i64).contains(&room), "{room}");
        }
        assert!(bed.is_what_was_written());
    }

    #[test]
    fn large_batches_write_no_zeros() {
        let mut bed = bed(0);
        bed.write_all(8 * CHUNK, 2 * LARGE);
        assert!(bed.room() < CHUNK as i64 / 4, "{}", bed.room());
        // They came past what had been made ready, and then small ones come again.
        bed.write_all(LOOK_AFTER, SMALL);
        bed.write_all(8 * CHUNK, 2 * LARGE);
        bed.write_all(LOOK_AFTER, SMALL);
        assert!(bed.room() > CHUNK as i64 / 4, "{}", bed.room());
        assert!(bed.is_what_was_written());
    }

    #[test]
    fn a_journal_does_not_grow_beyond_its_end() {
        let mut bed = bed(0);
        bed.write_all(LONG as usize, SMALL);
        assert!(bed.is_what_was_written());
        // As fjall leaves one that it has opened, and appends to: whatever came behind its end would stand between.
        let mut bed = self::bed(0);
        bed.journal.set_len(0).unwrap();
        bed.write_all(4 * LOOK_AFTER, SMALL);
        assert_eq!(bed.journal.metadata().unwrap().len(), 4 * LOOK_AFTER as u64);
        assert!(!bed.ahead.failed);
    }

    #[test]
    fn data_with_holes_in_it_is_left_alone() {
        let mut bed = bed(0);
        let far = 3 * CHUNK + 100;
        bed.journal.write_all_at(&[7; SMALL], far as u64).unwrap();
        bed.written = [vec![0; far], vec![7; SMALL]].concat();
        bed.write_all(4 * LOOK_AFTER, SMALL);
        assert!(bed.is_what_was_written());
    }

    #[test]
    fn the_next_journal_is_found() {
        let mut bed = bed(4);
        bed.write_all(4 * LOOK_AFTER, SMALL);
        // One came and went while batches were large.
        std::fs::remove_file(journal::path(bed.folder.path(), 4)).unwrap();
        bed.journal = make(bed.folder.path(), 6);
        bed.written.clear();
        bed.write_all(4 * LOOK_AFTER, SMALL);
        assert!(bed.room() > CHUNK as i64 / 4, "{}", bed.room());
        assert!(bed.is_what_was_written());
    }
}

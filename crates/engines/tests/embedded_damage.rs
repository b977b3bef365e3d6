//! Flipped bytes in the files of the embedded engine: damage is reported, and never returned as data.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use consort_engines::embedded::{self, Durability, EmbeddedLog, FolderError};
use consort_kernel::{
    Cursor, Frame, FrameKind, Log, LogEntry, Most, Name, Partition, Producer, ReadError,
    SystemClock, Timestamp,
};
use rand::rngs::StdRng;
use rand::{RngCore, SeedableRng};
use tempfile::TempDir;

/// Frames in the log, each in a batch of its own.
const FRAMES: u64 = 8;
/// Larger than anything that is kept together with its key.
const LARGE: usize = 20_000;

/// A closed folder whose log has [`FRAMES`] frames.
struct Folder {
    folder: TempDir,
    entries: Vec<LogEntry>,
}

fn at() -> Partition {
    Partition::new(Name::new("damaged").expect("a name"), 0)
}

/// What the frame with this number begins with, so that it can be found in the files.
fn payload(number: u64, bytes: usize) -> Bytes {
    let mut payload = vec![0; bytes];
    StdRng::seed_from_u64(number).fill_bytes(&mut payload);
    payload.into()
}

fn frame(number: u64, record: Bytes) -> Frame {
    Frame {
        kind: FrameKind::Events,
        producer: Producer(1),
        sequence: number,
        time: Timestamp(1_700_000_000_000),
        records: vec![record].into(),
    }
}

fn open(folder: &Path) -> Result<EmbeddedLog, FolderError> {
    let clock = Arc::new(SystemClock::default());
    embedded::open(folder, 2, Durability::Fsync, clock).map(|(log, _, _)| log)
}

async fn read(log: &EmbeddedLog, after: Cursor) -> Result<Vec<LogEntry>, ReadError> {
    log.read(&at(), &after, Most::default(), Duration::ZERO).await
}

impl Folder {
    async fn with(record: impl Fn(u64) -> Bytes) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let log = open(folder.path()).expect("the folder opens");
        for number in 0..FRAMES {
            log.append(&at(), &frame(number, record(number))).await.expect("append");
        }
        drop(log);
        // Opened again, the journal ends where its last batch does.
        let log = open(folder.path()).expect("the folder opens again");
        let entries = read(&log, Cursor::START).await.expect("read");
        assert_eq!(entries.len() as u64, FRAMES);
        Folder { folder, entries }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Moves the log's rows from the journal into a table.
    fn flush(&self) {
        let database = fjall::Database::builder(self.path().join("tables")).open();
        let database = database.expect("fjall opens");
        let options = fjall::KeyspaceCreateOptions::default;
        let log = database.keyspace("log", options).expect("the log's table");
        log.rotate_memtable_and_wait().expect("flush");
    }

    /// The one file below `under` that has these bytes, and where.
    fn find(&self, under: &str, bytes: &[u8]) -> (PathBuf, usize) {
        let mut folders = vec![self.path().join("tables").join(under)];
        let mut found = Vec::new();
        while let Some(folder) = folders.pop() {
            for file in std::fs::read_dir(folder).expect("a folder") {
                let path = file.expect("a file").path();
                if path.is_dir() {
                    folders.push(path);
                    continue;
                }
                let contents = std::fs::read(&path).expect("a file");
                let place = contents.windows(bytes.len()).position(|part| part == bytes);
                found.extend(place.map(|place| (path, place)));
            }
        }
        assert_eq!(found.len(), 1, "{found:?}");
        found.remove(0)
    }

    fn journal(&self) -> PathBuf {
        self.path().join("tables/0.jnl")
    }
}

fn flip(file: &Path, place: usize, bit: u8) {
    let mut contents = std::fs::read(file).expect("a file");
    contents[place] ^= 1 << bit;
    std::fs::write(file, contents).expect("a file");
}

fn assert_unreadable(opened: Result<EmbeddedLog, FolderError>) {
    match opened {
        Err(FolderError::Unreadable { reason, .. }) => {
            assert!(reason.contains("0.jnl is damaged at byte"), "{reason}");
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_flipped_byte_of_a_frame_in_the_journal_keeps_the_folder_from_opening() {
    // The large ones repeat themselves: compressed, one byte would spoil what follows.
    let text = |number| Bytes::from(format!("frame {number} ").repeat(LARGE / 8));
    let short = |number| payload(number, 100);
    let record = move |number: u64| if number == 3 { text(number) } else { short(number) };
    let folder = Folder::with(record).await;
    for number in [3, 4, FRAMES - 1] {
        let whole = record(number);
        let (file, start) = folder.find("", &whole[..100]);
        for place in [start, start + whole.len() / 2, start + whole.len() - 1] {
            flip(&file, place, 0);
            assert_unreadable(open(folder.path()));
            flip(&file, place, 0);
        }
    }
    let log = open(folder.path()).expect("what is mended opens");
    assert_eq!(read(&log, Cursor::START).await.as_ref(), Ok(&folder.entries));
}

#[tokio::test]
async fn no_flipped_bit_of_a_batch_in_the_journal_costs_what_is_behind_it() {
    let folder = Folder::with(|number| payload(number, 20)).await;
    let journal = folder.journal();
    let sound = std::fs::read(&journal).expect("the journal");
    let (_, from) = folder.find("", &payload(3, 20));
    let (_, to) = folder.find("", &payload(4, 20));
    let mut unharmed = 0;
    for place in from..to {
        for bit in [0, 7] {
            flip(&journal, place, bit);
            match open(folder.path()) {
                // A batch's number that stays between its neighbours' changes nothing.
                Ok(log) => {
                    let entries = read(&log, Cursor::START).await;
                    assert_eq!(entries.as_ref(), Ok(&folder.entries), "bit {bit} of byte {place}");
                    unharmed += 1;
                }
                refused => assert_unreadable(refused),
            }
            std::fs::write(&journal, &sound).expect("the journal");
        }
    }
    assert!(unharmed <= 1, "{unharmed} flipped bits were not seen");
}

#[tokio::test]
async fn a_flipped_bit_in_the_last_batch_is_told_by_the_folder_or_by_the_cursor() {
    let folder = Folder::with(|number| payload(number, 20)).await;
    let journal = folder.journal();
    let sound = std::fs::read(&journal).expect("the journal");
    let last = &folder.entries[FRAMES as usize - 1];
    let before = &folder.entries[..FRAMES as usize - 1];
    let (_, from) = folder.find("", &payload(FRAMES - 2, 20));
    // From the end of the batch before: its checksum and trailer follow its payload.
    let (mut refused, mut lost) = (0, 0);
    for place in from + 20 + 13..sound.len() {
        for bit in [0, 7] {
            flip(&journal, place, bit);
            // Built with debug assertions, fjall itself panics where two lengths differ.
            match std::panic::catch_unwind(|| open(folder.path())) {
                Err(_) | Ok(Err(FolderError::Unreadable { .. })) => refused += 1,
                Ok(Err(error)) => panic!("{error}"),
                Ok(Ok(log)) => match read(&log, last.cursor()).await {
                    Err(ReadError::Lost { number, .. }) => {
                        assert_eq!(number, last.offset);
                        assert_eq!(read(&log, Cursor::START).await.as_deref(), Ok(before));
                        lost += 1;
                    }
                    answer => {
                        assert_eq!(answer, Ok(vec![]), "bit {bit} of byte {place}");
                        let entries = read(&log, Cursor::START).await;
                        assert_eq!(entries.as_ref(), Ok(&folder.entries));
                    }
                },
            }
            std::fs::write(&journal, &sound).expect("the journal");
        }
    }
    assert!(refused > 0 && lost > 0, "{refused} refused, {lost} lost");
}

#[tokio::test]
async fn a_batch_that_a_power_loss_left_half_written_is_cut_off() {
    let folder = Folder::with(|number| payload(number, LARGE)).await;
    let (file, start) = folder.find("", &payload(FRAMES - 1, LARGE)[..64]);
    let mut contents = std::fs::read(&file).expect("the journal");
    let sector = (start + LARGE / 2).next_multiple_of(512);
    contents[sector..sector + 512].fill(0);
    std::fs::write(&file, contents).expect("the journal");
    let log = open(folder.path()).expect("what was acknowledged before is whole");
    let before = &folder.entries[..FRAMES as usize - 1];
    assert_eq!(read(&log, Cursor::START).await.as_deref(), Ok(before));
    let last = &folder.entries[FRAMES as usize - 1];
    let lost = read(&log, last.cursor()).await;
    assert!(matches!(lost, Err(ReadError::Lost { .. })), "whoever read it is told: {lost:?}");
    log.append(&at(), &frame(100, payload(100, 10))).await.expect("it goes on");
}

#[tokio::test]
async fn a_flipped_byte_of_a_frame_in_a_table_is_corrupt() {
    for bytes in [100, LARGE] {
        let folder = Folder::with(|number| payload(number, bytes)).await;
        folder.flush();
        for number in [0, 5] {
            let (file, place) = folder.find("keyspaces", &payload(number, bytes)[..64]);
            flip(&file, place + 10, 3);
            let log = open(folder.path()).expect("tables are read when they are needed");
            assert_corrupt(&log, &folder.entries, number).await;
            if bytes == LARGE {
                let behind = folder.entries[number as usize + 1..].to_vec();
                assert_eq!(read(&log, Cursor::at(number + 1)).await, Ok(behind));
            }
            drop(log);
            flip(&file, place + 10, 3);
        }
        let log = open(folder.path()).expect("what is mended opens");
        assert_eq!(read(&log, Cursor::START).await.as_ref(), Ok(&folder.entries));
    }
}

/// Reading comes to an end at the damaged entry or before it, with nothing wrong on the way.
async fn assert_corrupt(log: &EmbeddedLog, entries: &[LogEntry], damaged: u64) {
    let mut cursor = Cursor::START;
    loop {
        match read(log, cursor).await {
            Ok(page) => {
                let next = cursor.next as usize;
                assert!(!page.is_empty(), "the end was reached over a damaged frame");
                assert_eq!(page, entries[next..next + page.len()]);
                cursor = page[page.len() - 1].cursor();
                assert!(cursor.next <= damaged, "a damaged frame was returned");
            }
            Err(ReadError::Corrupt { number, .. }) => {
                assert!(number <= damaged, "{number}");
                return;
            }
            Err(error) => panic!("{error}"),
        }
    }
}

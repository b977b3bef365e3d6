//! Ends statements that run too long, record too much, or keep the WAL of their file from being reset, from within
//! SQLite (H17, H14, H29).
//!
//! `sqlite3_interrupt` from another thread is never used: it could end a statement that began later, and with
//! it a whole group (T11).

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::session::SessionMemory;

/// Steps of SQLite's virtual machine between two looks at the clock: some microseconds of work.
const STEPS: i32 = 1_000;
/// Most memory that a recording may take.
pub const SESSION_BYTES: u64 = 64 * 1024 * 1024;

/// Largest WAL of a file. Above it, the oldest reads are ended, so that it can be reset.
pub const WAL_BYTES: u64 = 256 * 1024 * 1024;
/// A read looks at the WAL of its file this long after it began, and then again and again. Reads that end
/// before never hold the WAL for long.
const WAL_LOOK: Duration = Duration::from_millis(100);

/// The bounds of the statement that runs on one connection.
#[derive(Clone, Debug)]
pub struct StatementBounds(Arc<Bounds>);

#[derive(Debug)]
struct Bounds {
    start: Instant,
    /// Nanoseconds after `start`; `u64::MAX` for no deadline.
    deadline: AtomicU64,
    is_over_time: AtomicBool,
    is_over_memory: AtomicBool,
    is_over_wal: AtomicBool,
    wal: Option<WalBound>,
}

/// The WAL of a reader's file.
#[derive(Debug)]
struct WalBound {
    path: PathBuf,
    most: u64,
    /// Nanoseconds after the start: when to look next.
    look_at: AtomicU64,
}

impl StatementBounds {
    /// Bounds that hold for all statements of `connection` from now on.
    pub fn install(connection: &mut Connection) -> rusqlite::Result<(Self, MemorySlot)> {
        StatementBounds::with_wal(connection, None)
    }

    /// The same for a connection that reads `file`: its reads also end while the file's WAL is larger than
    /// `most` bytes.
    pub fn install_for_reads(
        connection: &mut Connection,
        file: &Path,
        most: u64,
    ) -> rusqlite::Result<Self> {
        let mut path = file.as_os_str().to_owned();
        path.push("-wal");
        let wal = WalBound { path: path.into(), most, look_at: AtomicU64::new(u64::MAX) };
        Ok(StatementBounds::with_wal(connection, Some(wal))?.0)
    }

    fn with_wal(
        connection: &mut Connection,
        wal: Option<WalBound>,
    ) -> rusqlite::Result<(Self, MemorySlot)> {
        let bounds = StatementBounds(Arc::new(Bounds {
            start: Instant::now(),
            deadline: AtomicU64::new(u64::MAX),
            is_over_time: AtomicBool::new(false),
            is_over_memory: AtomicBool::new(false),
            is_over_wal: AtomicBool::new(false),
            wal,
        }));
        let (handler, slot) = (bounds.clone(), MemorySlot::default());
        let memory = slot.clone();
        connection.progress_handler(STEPS, Some(move || handler.must_end(&memory)))?;
        Ok((bounds, slot))
    }

    /// Gives the statements from now on this much time together.
    pub fn begin(&self, time: Duration) {
        let now = self.0.start.elapsed();
        self.0.deadline.store(nanos(now.saturating_add(time)), Ordering::Relaxed);
        self.0.is_over_time.store(false, Ordering::Relaxed);
        self.0.is_over_memory.store(false, Ordering::Relaxed);
        self.0.is_over_wal.store(false, Ordering::Relaxed);
        if let Some(wal) = &self.0.wal {
            wal.look_at.store(nanos(now + WAL_LOOK), Ordering::Relaxed);
        }
    }

    /// Lets statements run without a bound: for the worker's own.
    pub fn end(&self) {
        self.0.deadline.store(u64::MAX, Ordering::Relaxed);
    }

    /// Whether a statement was ended for its time.
    pub fn is_over_time(&self) -> bool {
        self.0.is_over_time.load(Ordering::Relaxed)
    }

    /// Whether a statement was ended for the memory of its changes.
    pub fn is_over_memory(&self) -> bool {
        self.0.is_over_memory.load(Ordering::Relaxed)
    }

    /// Whether a read was ended for the WAL of its file.
    pub fn is_over_wal(&self) -> bool {
        self.0.is_over_wal.load(Ordering::Relaxed)
    }

    fn must_end(&self, memory: &MemorySlot) -> bool {
        let deadline = self.0.deadline.load(Ordering::Relaxed);
        if deadline == u64::MAX {
            return false;
        }
        let now = nanos(self.0.start.elapsed());
        let over_time = now >= deadline;
        let over_memory = memory.bytes() > SESSION_BYTES;
        let over_wal = self.0.wal.as_ref().is_some_and(|wal| wal.is_over(now));
        self.0.is_over_time.fetch_or(over_time, Ordering::Relaxed);
        self.0.is_over_memory.fetch_or(over_memory, Ordering::Relaxed);
        self.0.is_over_wal.fetch_or(over_wal, Ordering::Relaxed);
        over_time || over_memory || over_wal
    }
}

impl WalBound {
    /// The size of the file tells: a WAL that is reset is cut to a few MiB.
    fn is_over(&self, now: u64) -> bool {
        if now < self.look_at.load(Ordering::Relaxed) {
            return false;
        }
        self.look_at.store(now + nanos(WAL_LOOK), Ordering::Relaxed);
        std::fs::metadata(&self.path).is_ok_and(|found| found.len() > self.most)
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Where the recording of a connection is put once there is one.
#[derive(Clone, Debug, Default)]
pub struct MemorySlot(Arc<std::sync::OnceLock<SessionMemory>>);

impl MemorySlot {
    pub(crate) fn fill(&self, memory: SessionMemory) {
        // A slot belongs to one connection, which is filled once.
        let _ = self.0.set(memory);
    }

    fn bytes(&self) -> u64 {
        self.0.get().map_or(0, SessionMemory::bytes)
    }
}

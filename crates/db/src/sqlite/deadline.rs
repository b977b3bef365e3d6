//! Ends statements that run too long or record too much, from within SQLite (H17, H14).
//!
//! `sqlite3_interrupt` from another thread is never used: it could end a statement that began later, and with
//! it a whole group (T11).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::session::SessionMemory;

/// Steps of SQLite's virtual machine between two looks at the clock: some microseconds of work.
const STEPS: i32 = 1_000;
/// Most memory that a recording may take.
pub const SESSION_BYTES: u64 = 64 * 1024 * 1024;

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
}

impl StatementBounds {
    /// Bounds that hold for all statements of `connection` from now on.
    pub fn install(connection: &mut Connection) -> rusqlite::Result<(Self, MemorySlot)> {
        let bounds = StatementBounds(Arc::new(Bounds {
            start: Instant::now(),
            deadline: AtomicU64::new(u64::MAX),
            is_over_time: AtomicBool::new(false),
            is_over_memory: AtomicBool::new(false),
        }));
        let (handler, slot) = (bounds.clone(), MemorySlot::default());
        let memory = slot.clone();
        connection.progress_handler(STEPS, Some(move || handler.must_end(&memory)))?;
        Ok((bounds, slot))
    }

    /// Gives the statements from now on this much time together.
    pub fn begin(&self, time: Duration) {
        let end = self.0.start.elapsed().saturating_add(time);
        let nanos = u64::try_from(end.as_nanos()).unwrap_or(u64::MAX);
        self.0.deadline.store(nanos, Ordering::Relaxed);
        self.0.is_over_time.store(false, Ordering::Relaxed);
        self.0.is_over_memory.store(false, Ordering::Relaxed);
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

    fn must_end(&self, memory: &MemorySlot) -> bool {
        let deadline = self.0.deadline.load(Ordering::Relaxed);
        if deadline == u64::MAX {
            return false;
        }
        let now = u64::try_from(self.0.start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let over_time = now >= deadline;
        let over_memory = memory.bytes() > SESSION_BYTES;
        self.0.is_over_time.fetch_or(over_time, Ordering::Relaxed);
        self.0.is_over_memory.fetch_or(over_memory, Ordering::Relaxed);
        over_time || over_memory
    }
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

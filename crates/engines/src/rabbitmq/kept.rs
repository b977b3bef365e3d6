//! Readers between two reads: attached, at the place where their last page ended.

use std::time::Duration;

use consort_kernel::{Cursor, Partition};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::reader::Reader;

/// Readers that are kept at once. Each has a channel, of which a connection has 2,047 by default, and
/// the messages sent ahead to it.
const KEPT: usize = 256;

/// For how long. A worker that still wants its partition reads every few seconds.
pub(super) const IDLE_FOR: Duration = Duration::from_secs(60);

/// The readers of one connection that nobody uses right now.
#[derive(Debug, Default)]
pub(super) struct Kept {
    readers: Mutex<Vec<Idle>>,
}

#[derive(Debug)]
struct Idle {
    at: Partition,
    after: Cursor,
    reader: Reader,
    since: Instant,
}

impl Kept {
    /// The reader that goes on exactly where this cursor stands. What the cursor vouches for was
    /// delivered through this same connection, so it has been checked since the last interruption.
    pub(super) fn take(&self, at: &Partition, after: &Cursor) -> Option<Reader> {
        let mut readers = self.readers.lock();
        let found = readers.iter().rposition(|idle| idle.after == *after && idle.at == *at)?;
        Some(readers.remove(found).reader)
    }

    /// Keeps a reader for whoever comes with the cursor `after`; beyond the bound the one that has been
    /// idle longest goes.
    pub(super) fn keep(&self, at: &Partition, after: Cursor, reader: Reader) {
        if !reader.is_open() {
            return;
        }
        let idle = Idle { at: at.clone(), after, reader, since: Instant::now() };
        let mut readers = self.readers.lock();
        readers.push(idle);
        let gone = (readers.len() > KEPT).then(|| readers.remove(0));
        drop(readers);
        drop(gone);
    }

    /// Lets go of those that nobody came back for.
    pub(super) fn sweep(&self) {
        let mut readers = self.readers.lock();
        let used = readers.iter().position(|idle| idle.since.elapsed() < IDLE_FOR);
        let used = used.unwrap_or(readers.len());
        let gone: Vec<Idle> = readers.drain(..used).collect();
        drop(readers);
        drop(gone);
    }
}

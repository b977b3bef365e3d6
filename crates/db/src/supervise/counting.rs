//! Puts the reads of this process into the store: a task of each node for each database.
//!
//! A count is absolute, so a commit that is repeated counts once. It expects the window cell, so no count reaches a
//! window that has ended: the reads behind it count in the next one.

use std::time::Duration;

use consort_kernel::{Cell, Commit, Expect, Kind, Operation};
use tokio::time::sleep;

use super::window::{WindowCell, encode_count};
use crate::db::Database;
use crate::settle::Settlement;
use crate::store::DbStoreError;

/// How often counts are put.
const PUT_EVERY: Duration = Duration::from_millis(500);
/// How long one put is repeated.
const SETTLE_WITHIN: Duration = Duration::from_secs(2);
/// How much longer than two windows a count stays: processes and servers have clocks of their own.
const KEEP_LONGER: Duration = Duration::from_secs(10);

/// What the store has of the reads of this process.
#[derive(Clone, Copy, Debug, Default)]
struct ReadCount {
    /// The window under which they were counted last.
    window: u64,
    /// Reads that were counted in windows before it.
    before: u64,
    /// Reads that were counted in it.
    counted: u64,
}

impl ReadCount {
    /// Whether all of `total` reads are counted.
    fn is_complete(&self, total: u64) -> bool {
        self.before + self.counted == total
    }

    /// The count to put under `window`, for `total` reads in all.
    fn count(&self, window: u64, total: u64) -> u64 {
        match window == self.window {
            true => total - self.before,
            false => total - self.before - self.counted,
        }
    }

    /// The store has `count` under `window`.
    fn put(&mut self, window: u64, count: u64) {
        if window != self.window {
            *self = ReadCount { window, before: self.before + self.counted, counted: 0 };
        }
        self.counted = count;
    }
}

/// Puts the counts of this process, for as long as it runs.
pub async fn keep_counts(database: Database) {
    let mut count = ReadCount::default();
    loop {
        sleep(PUT_EVERY).await;
        if count.is_complete(database.reads()) {
            continue;
        }
        if let Err(error) = put_count(&database, &mut count).await {
            tracing::debug!(database = database.name(), %error, "reads could not be counted; tries again");
        }
    }
}

async fn put_count(database: &Database, count: &mut ReadCount) -> Result<(), DbStoreError> {
    let Some(node) = database.node().handle() else { return Ok(()) };
    let (store, total) = (database.store(), database.reads());
    let key = store.cells().window();
    let stored = store.bytes(std::slice::from_ref(&key)).await?.remove(0);
    let cell = stored.as_deref().map(WindowCell::decode).transpose()?.unwrap_or_default();
    let window = cell.counted();
    let reads = count.count(window, total);
    let now = store.now().await?;
    let until = now.after(database.settings().readers.window * 2 + KEEP_LONGER);
    let place = store.cells().count(window, node.incarnation());
    let commit = Commit::of([
        Operation::Put { key: place.clone(), value: encode_count(reads) },
        Operation::Expire { cell: Cell::new(Kind::Bytes, place), at: Some(until) },
    ]);
    match store.settle(&commit.expecting(Expect::Bytes(key, stored)), SETTLE_WITHIN).await {
        Settlement::Applied => count.put(window, reads),
        // Another window has begun: these reads count there.
        Settlement::Stale { .. } => {}
        Settlement::Failed(error) => return Err(error),
        Settlement::Unknown(fault) => return Err(fault.into()),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_read_counts_in_one_window() {
        let mut count = ReadCount::default();
        let steps = [
            ("the first reads wait for window 1", 1, 3, 3),
            ("it runs", 1, 5, 5),
            ("a window later", 2, 9, 4),
            ("more of it", 2, 12, 7),
            ("two windows later", 4, 13, 1),
        ];
        for (what, window, total, expected) in steps {
            assert!(!count.is_complete(total), "{what}");
            assert_eq!(count.count(window, total), expected, "{what}");
            count.put(window, expected);
            assert!(count.is_complete(total), "{what}");
        }
        // A put that found another window changed nothing.
        assert_eq!(count.count(4, 20), 8);
        assert_eq!(count.count(5, 20), 7);
    }
}

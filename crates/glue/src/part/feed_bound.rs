//! A feed that is bounded in rows and bytes.

use std::collections::VecDeque;
use std::time::Duration;

use consort_kernel::{Cursor, Most, Name, ReadError, Shard, Store};

/// Pages that are read of a feed in one round: the rest is read in the next.
const PAGES: usize = 100;

/// How far a feed is read, and how large its last rows are.
#[derive(Debug)]
pub(super) struct FeedBound {
    shard: Shard,
    feed: Name,
    most: Most,
    cursor: Cursor,
    /// Number and bytes of each row, oldest first: bounded, since a round ends with a trim.
    rows: VecDeque<(u64, usize)>,
    bytes: usize,
}

impl FeedBound {
    /// A feed that is to have at most so many rows and bytes.
    pub(super) fn new(shard: Shard, feed: Name, most: Most) -> Self {
        FeedBound { shard, feed, most, cursor: Cursor::START, rows: VecDeque::new(), bytes: 0 }
    }

    /// Reads on, and trims the feed where it is too large.
    pub(super) async fn round(&mut self, store: &dyn Store) -> Result<(), String> {
        let (shard, feed) = (self.shard, self.feed.clone());
        let told = |error: &dyn std::fmt::Display| {
            format!("the feed {feed} of {shard} stays long: {error}")
        };
        let mut restarts = 0;
        for _ in 0..PAGES {
            match store.feed(shard, &feed, &self.cursor, Most::default(), Duration::ZERO).await {
                Ok(page) if page.is_empty() => break,
                Ok(page) => {
                    for entry in page {
                        self.cursor = entry.cursor();
                        self.bytes += entry.entry.len();
                        self.rows.push_back((entry.number, entry.entry.len()));
                    }
                    self.drop_oldest();
                }
                // Another node trimmed it, or the shard was rolled back: read again from the oldest row.
                Err(ReadError::Trimmed { first, .. }) if restarts < 2 => {
                    restarts += 1;
                    self.restart(Cursor { next: first, last: None });
                }
                Err(ReadError::Lost { .. }) if restarts < 2 => {
                    restarts += 1;
                    self.restart(Cursor::START);
                }
                Err(error) => return Err(told(&error)),
            }
        }
        let Some((first, _)) = self.rows.front() else { return Ok(()) };
        let trimmed = store.trim_feed(shard, &feed, *first).await;
        trimmed.map_err(|error| told(&error))
    }

    fn restart(&mut self, cursor: Cursor) {
        self.cursor = cursor;
        self.rows.clear();
        self.bytes = 0;
    }

    /// Lets go of the oldest rows beyond the bounds; the last row stays.
    fn drop_oldest(&mut self) {
        while self.rows.len() > 1
            && (self.rows.len() > self.most.entries || self.bytes > self.most.bytes)
            && let Some((_, bytes)) = self.rows.pop_front()
        {
            self.bytes -= bytes;
        }
    }
}

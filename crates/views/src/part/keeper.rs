//! The keeper of a stream: lets go of what the log has kept for long enough, and of the oldest lines of
//! reject lists.

use std::sync::Arc;
use std::time::Duration;

use consort_cluster::worker::Cells;
use consort_cluster::{Ended, Runtime, Tenure};
use consort_kernel::{Cursor, Log, Most, Name, Partition, ReadError, Shard, Store, Timestamp};

use super::PIPELINE;
use crate::keys;
use crate::refused;
use crate::stream::Stream;

/// How often it looks.
const ROUND: Duration = Duration::from_secs(60);

/// How many lines of a view's lists stay in each shard.
const LINES_KEPT: u64 = 1_000;

/// What a keeper needs.
pub(super) struct Keeper {
    pub(super) log: Arc<dyn Log>,
    pub(super) store: Arc<dyn Store>,
    pub(super) runtime: Arc<dyn Runtime>,
    pub(super) stream: Arc<Stream>,
    pub(super) views: Vec<Name>,
}

impl Keeper {
    /// Looks again and again until the tenure ends. What fails is tried again in the next round.
    pub(super) async fn run(self, mut tenure: Tenure) -> Ended {
        tenure.ready();
        loop {
            let trouble = tokio::select! {
                biased;
                () = tenure.ending() => return Ended::Drained,
                done = self.round() => done.err(),
            };
            tenure.say(|gauge| gauge.trouble = trouble);
            tokio::select! {
                biased;
                () = tenure.ending() => return Ended::Drained,
                () = self.runtime.sleep(ROUND) => {}
            }
        }
    }

    async fn round(&self) -> Result<(), String> {
        for index in 0..self.stream.partitions {
            self.trim(&self.stream.partition(index)).await?;
        }
        for view in &self.views {
            for shard in (0..self.store.shards()).map(Shard) {
                self.shorten(shard, &keys::rejects(view)).await?;
                self.shorten(shard, &keys::overflows(view)).await?;
            }
        }
        let stream = &self.stream.name;
        self.shorten(refused::home(&*self.store, stream), &keys::refused(stream)).await
    }

    /// Trims what is applied and older than the stream keeps.
    async fn trim(&self, partition: &Partition) -> Result<(), String> {
        let told = |error: &dyn std::fmt::Display| format!("{partition} is not trimmed: {error}");
        let cells = Cells::new(&PIPELINE, partition, self.store.shards());
        let checkpoint = cells.read_checkpoint(&*self.store).await.map_err(|error| told(&error))?;
        // The entry that the checkpoint vouches for stays.
        let Some((applied, _)) = checkpoint.stand.last else { return Ok(()) };
        let now = self.store.now().await.map_err(|error| told(&error))?;
        let oldest = Timestamp(now.0.saturating_sub(millis(self.stream.retain)));
        let first = self.log.first(partition).await.map_err(|error| told(&error))?;
        let before = self.first_kept(partition, first, applied, oldest).await;
        match before.map_err(|error| told(&error))? {
            before if before > first => {
                self.log.trim(partition, before).await.map_err(|error| told(&error))
            }
            _ => Ok(()),
        }
    }

    /// The first entry from `low` on that is not older than `oldest`, at most `high`: found by halving,
    /// since times of frames grow with their offsets, or nearly.
    async fn first_kept(
        &self,
        partition: &Partition,
        mut low: u64,
        mut high: u64,
        oldest: Timestamp,
    ) -> Result<u64, ReadError> {
        while low < high {
            let middle = low + (high - low) / 2;
            let cursor = Cursor { next: middle, last: None };
            let found = self.log.read(partition, &cursor, Most::entries(1), Duration::ZERO).await?;
            match found.first() {
                Some(entry) if entry.frame.time < oldest => low = entry.offset.max(middle) + 1,
                _ => high = middle,
            }
        }
        Ok(low.min(high))
    }

    /// Lets go of all but the last lines of a list.
    async fn shorten(&self, shard: Shard, feed: &Name) -> Result<(), String> {
        let told = |error: &dyn std::fmt::Display| format!("the list {feed} stays long: {error}");
        let mut cursor = Cursor::START;
        loop {
            let read = self.store.feed(shard, feed, &cursor, Most::default(), Duration::ZERO).await;
            let page = match read {
                Err(ReadError::Trimmed { first, .. }) if cursor.next < first => {
                    cursor = Cursor { next: first, last: None };
                    continue;
                }
                read => read.map_err(|error| told(&error))?,
            };
            match page.last() {
                Some(last) => cursor = last.cursor(),
                None => break,
            }
        }
        match cursor.next.saturating_sub(LINES_KEPT) {
            0 => Ok(()),
            before => self.store.trim_feed(shard, feed, before).await.map_err(|error| told(&error)),
        }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

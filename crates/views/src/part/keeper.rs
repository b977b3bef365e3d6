//! The keeper of a stream: lets go of what the log has kept for long enough, and of the oldest lines of
//! reject lists.

use std::sync::Arc;
use std::time::Duration;

use consort_cluster::retention::trim_log;
use consort_cluster::{Ended, Runtime, Tenure};
use consort_kernel::{Cursor, Log, Most, Name, Partition, ReadError, Shard, Store};

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
    pub(super) async fn run(self, tenure: Tenure) -> Ended {
        let round = || async { (self.round().await.err(), ROUND) };
        tenure.rounds(&*self.runtime, round).await
    }

    async fn round(&self) -> Result<(), String> {
        for index in 0..self.stream.partitions {
            self.trim(&self.stream.partition(index)).await?;
        }
        for view in &self.views {
            for shard in (0..self.store.shards()).map(Shard) {
                self.shorten(shard, &keys::rejects(view)).await?;
                self.shorten(shard, &keys::overflows(view)).await?;
                self.shorten(shard, &keys::late(view)).await?;
            }
        }
        let stream = &self.stream.name;
        self.shorten(refused::home(&*self.store, stream), &keys::refused(stream)).await
    }

    /// Trims what is applied and older than the stream keeps.
    async fn trim(&self, partition: &Partition) -> Result<(), String> {
        let (log, store) = (&*self.log, &*self.store);
        let trimmed = trim_log(log, store, &PIPELINE, partition, self.stream.retain).await;
        trimmed.map_err(|error| format!("{partition} is not trimmed: {error}"))
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

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use consort_cluster::TokioRuntime;
    use consort_cluster::format;
    use consort_cluster::worker::{Cells, Checkpoint, Stand};
    use consort_kernel::{
        Clock, Commit, Frame, FrameKind, ManualClock, Note, Operation, Producer, Timestamp, memory,
    };

    const MINUTE: u64 = 60_000;

    struct Bed {
        keeper: Keeper,
        clock: Arc<ManualClock>,
        partition: Partition,
    }

    /// Ten frames, a minute apart, of a stream that keeps five minutes.
    async fn bed() -> Bed {
        let clock = Arc::new(ManualClock::at(Timestamp(0)));
        let (log, store) = memory::open(2, clock.clone());
        let stream = Stream {
            name: "rides".parse().unwrap(),
            schema: Arc::default(),
            key: Vec::new(),
            id: None,
            ids_for: Duration::from_secs(60),
            time: None,
            partitions: 1,
            retain: Duration::from_secs(300),
            route: None,
        };
        let partition = stream.partition(0);
        for sequence in 0..10 {
            let time = Timestamp(sequence * MINUTE);
            let (kind, records) = (FrameKind::Events, vec![Bytes::from_static(b"x")]);
            let frame =
                Frame { kind, producer: Producer(1), sequence, time, records: records.into() };
            log.append(&partition, &frame).await.unwrap();
        }
        let keeper = Keeper {
            log: Arc::new(log),
            store: Arc::new(store),
            runtime: TokioRuntime::current(),
            stream: Arc::new(stream),
            views: vec!["count".parse().unwrap()],
        };
        Bed { keeper, clock, partition }
    }

    impl Bed {
        /// The first `frames` frames are folded.
        async fn fold(&self, frames: usize) {
            let read = self.keeper.log.read(
                &self.partition,
                &Cursor::START,
                Most::default(),
                Duration::ZERO,
            );
            let mut stand = Stand::default();
            for entry in read.await.unwrap().iter().take(frames) {
                stand.pass(entry, Timestamp(u64::MAX));
            }
            let cells = Cells::new(&PIPELINE, &self.partition, self.keeper.store.shards());
            let value = format::encode(&Checkpoint { stand, ..Checkpoint::default() });
            let put = Operation::Put { key: cells.checkpoint(), value };
            self.keeper.store.commit(cells.home(), Commit::of([put])).await.unwrap();
        }

        /// The oldest frame after a round at this minute.
        async fn first_after_round(&self, minute: u64) -> u64 {
            let minutes = Timestamp(minute * MINUTE).since(self.clock.now());
            self.clock.advance(minutes);
            self.keeper.round().await.unwrap();
            self.keeper.log.first(&self.partition).await.unwrap()
        }
    }

    #[tokio::test]
    async fn what_is_old_and_applied_is_let_go() {
        let bed = bed().await;
        bed.fold(10).await;
        assert_eq!(bed.first_after_round(5).await, 0);
        assert_eq!(bed.first_after_round(8).await, 3);
        assert_eq!(bed.first_after_round(8).await, 3);
        // The entry that the checkpoint vouches for stays, however old.
        assert_eq!(bed.first_after_round(1_000).await, 9);
    }

    #[tokio::test]
    async fn what_is_not_applied_stays() {
        let bed = bed().await;
        assert_eq!(bed.first_after_round(1_000).await, 0);
        bed.fold(4).await;
        assert_eq!(bed.first_after_round(1_000).await, 3);
    }

    #[tokio::test]
    async fn lists_keep_their_last_lines() {
        let bed = bed().await;
        let (feed, shard) = (keys::rejects(&bed.keeper.views[0]), Shard(1));
        let lines = LINES_KEPT + 500;
        let note = |_| {
            let entry = Bytes::from_static(b"line");
            Operation::Append(Note { feed: feed.clone(), entry })
        };
        bed.keeper.store.commit(shard, Commit::of((0..lines).map(note))).await.unwrap();
        for _ in 0..2 {
            bed.keeper.round().await.unwrap();
            let read = bed.keeper.store.feed(
                shard,
                &feed,
                &Cursor::START,
                Most::default(),
                Duration::ZERO,
            );
            let trimmed = read.await.unwrap_err();
            assert!(matches!(trimmed, ReadError::Trimmed { first: 500, .. }), "{trimmed:?}");
        }
    }
}

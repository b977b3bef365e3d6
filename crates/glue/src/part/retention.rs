//! The retention of a collection: lets go of pieces that the log has kept for long enough, and of the oldest rejects
//! and outcomes.

use std::sync::Arc;
use std::time::Duration;

use consort_cluster::retention::trim_log;
use consort_cluster::{Ended, Runtime, Tenure};
use consort_kernel::{Log, Most, Partition, Store};
use tokio::sync::Mutex;

use super::PIPELINE;
use super::feed_bound::FeedBound;
use crate::CollectionCells;
use crate::collection::Collection;

/// How often feeds are trimmed: under load a shard has thousands of outcomes a second.
const ROUND: Duration = Duration::from_secs(10);

/// In how many rounds the log is trimmed once: finding its oldest piece to keep costs some reads a partition.
const LOG_ROUNDS: u32 = 6;

/// The rejects of a shard: an operator looks at the latest, and each may hold a piece of 16 KiB.
const REJECTS: Most = Most { entries: 10_000, bytes: 64 << 20 };

/// The outcomes of a shard: a waiting request reads its own within 10 s, and needs none before its own.
const OUTCOMES: Most = Most { entries: 10_000, bytes: 64 << 20 };

/// What retention needs.
pub(super) struct Retention {
    pub(super) log: Arc<dyn Log>,
    pub(super) store: Arc<dyn Store>,
    pub(super) runtime: Arc<dyn Runtime>,
    pub(super) cells: CollectionCells,
    pub(super) collection: Arc<Collection>,
}

impl Retention {
    /// Looks again and again until the tenure ends. What fails is tried again in the next round.
    pub(super) async fn run(self, tenure: Tenure) -> Ended {
        let state = Mutex::new((0u32, self.feeds()));
        let round = || async {
            let (number, feeds) = &mut *state.lock().await;
            let trims_log = number.is_multiple_of(LOG_ROUNDS);
            *number = number.wrapping_add(1);
            (self.round(feeds, trims_log).await.err(), ROUND)
        };
        tenure.rounds(&*self.runtime, round).await
    }

    /// The feeds that are bounded here. Feed rows are trimmed by their age, and not past a sink: elsewhere.
    pub(super) fn feeds(&self) -> Vec<FeedBound> {
        let shards = self.collection.partitions.min(self.store.shards().into());
        let shards = (0..shards).map(|index| CollectionCells::shard(index, self.store.shards()));
        let bounds = |shard| {
            let rejects = FeedBound::new(shard, self.cells.rejects().clone(), REJECTS);
            [rejects, FeedBound::new(shard, self.cells.outcomes().clone(), OUTCOMES)]
        };
        shards.flat_map(bounds).collect()
    }

    pub(super) async fn round(
        &self,
        feeds: &mut [FeedBound],
        trims_log: bool,
    ) -> Result<(), String> {
        let mut trouble = None;
        for feed in feeds {
            if let Err(error) = feed.round(&*self.store).await {
                trouble = Some(error);
            }
        }
        let (log, store, retain) = (&*self.log, &*self.store, self.collection.retain);
        let partitions = if trims_log { self.collection.partitions } else { 0 };
        for index in 0..partitions {
            let partition = Partition::new(self.cells.stream().clone(), index);
            if let Err(error) = trim_log(log, store, &PIPELINE, &partition, retain).await {
                trouble = Some(format!("{partition} is not trimmed: {error}"));
            }
        }
        trouble.map_or(Ok(()), Err)
    }
}

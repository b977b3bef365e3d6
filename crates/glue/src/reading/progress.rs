//! Waits until a piece is applied.
//!
//! A piece is applied when the mark of its document's shard has passed it, or when the partition's checkpoint has,
//! whichever comes first: a record without effect moves the checkpoint alone.

use std::time::Duration;

use consort_cluster::worker::{Cells, FORGET_AFTER, ReadCellError, Stand};
use consort_cluster::{Place, Runtime};
use consort_kernel::Name;

use super::CollectionReader;

/// How often the cells are read again while nothing tells that they changed: a watch is only a hint.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Why it is not known how far a partition is applied.
pub type ReachError = ReadCellError;

/// How far a partition is applied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AppliedUpTo {
    mark: Stand,
    checkpoint: Stand,
}

impl AppliedUpTo {
    /// Whether the frame at this place is applied.
    pub fn has_passed(&self, place: &Place) -> bool {
        [&self.mark, &self.checkpoint].into_iter().any(|stand| {
            // Producers are forgotten by log time: when that is so far beyond the frame, it was passed long ago.
            stand.has_passed(place.producer, place.sequence)
                || stand.watermark().since(place.time) > FORGET_AFTER
        })
    }

    /// The era of the partition.
    pub fn era(&self) -> u64 {
        self.mark.era.max(self.checkpoint.era)
    }
}

impl CollectionReader {
    /// How far a partition is applied.
    pub async fn applied(&self, pipeline: &Name, index: u32) -> Result<AppliedUpTo, ReachError> {
        let partition = self.log_partition(index);
        let cells = Cells::new(pipeline, &partition, self.store.shards());
        let shard = self.shard_of_partition(index);
        let (mark, checkpoint) =
            tokio::join!(cells.read_mark(&*self.store, shard), cells.read_checkpoint(&*self.store));
        Ok(AppliedUpTo { mark: mark?.stand, checkpoint: checkpoint?.stand })
    }

    /// Waits until a partition has moved, or some time is over: what was read before may be old then.
    pub fn moved(
        &self,
        pipeline: &Name,
        index: u32,
        runtime: &dyn Runtime,
        within: Duration,
    ) -> impl Future<Output = ()> + Send + use<> {
        let cells = Cells::new(pipeline, &self.log_partition(index), self.store.shards());
        let mut mark = self.store.watch(self.shard_of_partition(index), &cells.mark());
        let mut checkpoint = self.store.watch(cells.home(), &cells.checkpoint());
        let sleep = runtime.sleep(within.min(LOOK_EVERY));
        async move {
            tokio::select! {
                biased;
                () = mark.changed() => {}
                () = checkpoint.changed() => {}
                () = sleep => {}
            }
        }
    }

    /// Waits until the frames at all of these places of one partition are applied; false if that takes longer.
    pub async fn reached(
        &self,
        pipeline: &Name,
        index: u32,
        places: &[&Place],
        runtime: &dyn Runtime,
        within: Duration,
    ) -> Result<bool, ReachError> {
        let began = runtime.elapsed();
        loop {
            let left = within.saturating_sub(runtime.elapsed().saturating_sub(began));
            // Watched before it is read: a change in between wakes.
            let moved = self.moved(pipeline, index, runtime, left);
            let applied = self.applied(pipeline, index).await?;
            if places.iter().all(|place| applied.has_passed(place)) {
                return Ok(true);
            }
            if left.is_zero() {
                return Ok(false);
            }
            moved.await;
        }
    }
}

//! How far all partitions of a stream have come, in log time: a window closes when the slowest has passed it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use consort_cluster::Runtime;
use consort_cluster::format;
use consort_cluster::worker::{Cells, Checkpoint};
use consort_kernel::{Cell, Kind, Partition, Shard, Store, Timestamp, Value};
use futures::future::try_join_all;
use tokio::sync::Mutex;

use super::PIPELINE;
use crate::stream::Stream;

/// For how long an answer is good. Many closers of a node ask at the same moment, and watermarks only grow:
/// an old answer closes a window later, never too early.
const GOOD_FOR: Duration = Duration::from_millis(100);

/// The watermarks of a stream, as all closers of a node see them.
#[derive(Debug)]
pub(super) struct Watermarks {
    store: Arc<dyn Store>,
    runtime: Arc<dyn Runtime>,
    stream: Arc<Stream>,
    known: Mutex<Option<(Duration, Slowest)>>,
}

/// The partition that is furthest behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Slowest {
    pub(super) partition: Partition,
    pub(super) watermark: Timestamp,
}

impl Watermarks {
    pub(super) fn new(
        store: Arc<dyn Store>,
        runtime: Arc<dyn Runtime>,
        stream: Arc<Stream>,
    ) -> Self {
        Watermarks { store, runtime, stream, known: Mutex::default() }
    }

    /// The partition that is furthest behind, and where.
    pub(super) async fn slowest(&self) -> Result<Slowest, String> {
        // Held across the reads on purpose: the other closers want the same answer.
        let mut known = self.known.lock().await;
        let now = self.runtime.elapsed();
        if let Some((at, slowest)) = &*known
            && now.saturating_sub(*at) < GOOD_FOR
        {
            return Ok(slowest.clone());
        }
        let slowest = self.read().await?;
        *known = Some((now, slowest.clone()));
        Ok(slowest)
    }

    async fn read(&self) -> Result<Slowest, String> {
        let mut by_shard: BTreeMap<Shard, Vec<(u32, Cell)>> = BTreeMap::new();
        for index in 0..self.stream.partitions {
            let partition = self.stream.partition(index);
            let cells = Cells::new(&PIPELINE, &partition, self.store.shards());
            let cell = Cell::new(Kind::Bytes, cells.checkpoint());
            by_shard.entry(cells.home()).or_default().push((index, cell));
        }
        let reads = by_shard.into_iter().map(|(shard, cells)| async move {
            let (indexes, cells): (Vec<u32>, Vec<Cell>) = cells.into_iter().unzip();
            let held =
                self.store.get_all(shard, &cells).await.map_err(|error| error.to_string())?;
            indexes.into_iter().zip(held).map(|(index, held)| self.watermark(index, held)).collect()
        });
        let all: Vec<Vec<Slowest>> = try_join_all(reads.collect::<Vec<_>>()).await?;
        let slowest = all.into_iter().flatten().min_by_key(|one| one.watermark);
        slowest.ok_or_else(|| format!("the stream {} has no partitions", self.stream.name))
    }

    /// A partition without a checkpoint has come nowhere: nobody has worked on it yet.
    fn watermark(&self, index: u32, held: Option<Value>) -> Result<Slowest, String> {
        let partition = self.stream.partition(index);
        let watermark = match held {
            Some(Value::Bytes(bytes)) => {
                let read = format::decode::<Checkpoint>(&bytes);
                let checkpoint =
                    read.map_err(|error| format!("the checkpoint of {partition}: {error}"))?;
                checkpoint.stand.watermark()
            }
            _ => Timestamp(0),
        };
        Ok(Slowest { partition, watermark })
    }
}

//! What the folds of a stream have counted: kept with the state itself, so the same for everybody.

use std::collections::BTreeMap;

use consort_cluster::worker::Cells;
use consort_kernel::limits::PAGE_ROWS;
use consort_kernel::{Cell, Kind, QueryError, Shard, Store, Value};
use futures::future::try_join_all;

use crate::keys;
use crate::part::PIPELINE;
use crate::stream::Stream;

/// The events of a stream by what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tallies {
    /// Taken by the views.
    pub applied: i64,
    /// Left out, since an event with the same id came before.
    pub duplicate: i64,
    /// Left out, since their records cannot be read.
    pub unreadable: i64,
}

impl Tallies {
    /// Reads and sums them up over all partitions.
    pub async fn read(store: &dyn Store, stream: &Stream) -> Result<Tallies, QueryError> {
        const WHAT: [&str; 3] = ["applied", "duplicate", "unreadable"];
        let mut by_shard: BTreeMap<Shard, Vec<(usize, Cell)>> = BTreeMap::new();
        for index in 0..stream.partitions {
            let home = Cells::new(&PIPELINE, &stream.partition(index), store.shards()).home();
            let cells = WHAT.iter().enumerate().map(|(at, what)| {
                (at, Cell::new(Kind::Counter, keys::tally(&stream.name, index, what)))
            });
            by_shard.entry(home).or_default().extend(cells);
        }
        // All at once: on a slow store, one answer after another would come too late for anybody.
        let pages = by_shard.iter().flat_map(|(&shard, cells)| {
            cells.chunks(PAGE_ROWS).map(move |some| async move {
                let named: Vec<Cell> = some.iter().map(|(_, cell)| cell.clone()).collect();
                let held = store.get(shard, &named).await?;
                Ok::<_, QueryError>(some.iter().map(|(at, _)| *at).zip(held))
            })
        });
        let mut sums = [0; WHAT.len()];
        for (at, value) in try_join_all(pages).await?.into_iter().flatten() {
            if let Some(Value::Counter(count)) = value {
                sums[at] += count;
            }
        }
        let [applied, duplicate, unreadable] = sums;
        Ok(Tallies { applied, duplicate, unreadable })
    }

    /// All of them, by name.
    pub fn all(&self) -> [(&'static str, i64); 3] {
        [("applied", self.applied), ("duplicate", self.duplicate), ("unreadable", self.unreadable)]
    }
}

//! What the folds of a stream have counted: kept with the state itself, so the same for everybody.
//!
//! Nothing disappears: of every view, received = applied + late + duplicate + rejected.

use std::collections::BTreeMap;

use consort_cluster::worker::Cells;
use consort_kernel::limits::PAGE_ROWS;
use consort_kernel::{Cell, Key, Kind, QueryError, Shard, Store, Value};
use futures::future::try_join_all;

use crate::keys;
use crate::part::PIPELINE;
use crate::stream::Stream;
use crate::view::View;

/// The events of a stream by what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tallies {
    /// All that were read from the log.
    pub received: i64,
    /// Taken by the views.
    pub applied: i64,
    /// Left out, since an event with the same id came before.
    pub duplicate: i64,
    /// Left out, since their records cannot be read.
    pub unreadable: i64,
    /// Left out, since their time is too far ahead.
    pub ahead: i64,
}

/// The events of a view by what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ViewTallies {
    /// All that its stream received.
    pub received: i64,
    /// Taken, those included that its condition leaves out.
    pub applied: i64,
    /// Listed, since their window was closed or gone.
    pub late: i64,
    /// Left out, since an event with the same id came before.
    pub duplicate: i64,
    /// Listed or counted, since they cannot be read or taken.
    pub rejected: i64,
}

impl Tallies {
    /// Reads and sums them up over all partitions.
    pub async fn read(store: &dyn Store, stream: &Stream) -> Result<Tallies, QueryError> {
        const WHAT: [&str; 5] = ["received", "applied", "duplicate", "unreadable", "ahead"];
        let mut cells = Vec::new();
        for index in 0..stream.partitions {
            let home = Cells::new(&PIPELINE, &stream.partition(index), store.shards()).home();
            let tally = |(at, what)| (home, at, keys::tally(&stream.name, index, what));
            cells.extend(WHAT.into_iter().enumerate().map(tally));
        }
        let [received, applied, duplicate, unreadable, ahead] = sums(store, cells).await?;
        Ok(Tallies { received, applied, duplicate, unreadable, ahead })
    }

    /// All of them, by name.
    pub fn all(&self) -> [(&'static str, i64); 5] {
        [
            ("received", self.received),
            ("applied", self.applied),
            ("duplicate", self.duplicate),
            ("unreadable", self.unreadable),
            ("ahead", self.ahead),
        ]
    }

    /// Those of a view of this stream.
    pub async fn of_view(&self, store: &dyn Store, view: &View) -> Result<ViewTallies, QueryError> {
        let keys =
            [keys::seen(view, "applied"), keys::seen(view, "late"), keys::rejected(&view.name)];
        let cells = (0..store.shards()).flat_map(|shard| {
            keys.iter().enumerate().map(move |(at, key)| (Shard(shard), at, key.clone()))
        });
        let [taken, late, refused] = sums(store, cells.collect()).await?;
        Ok(ViewTallies {
            received: self.received,
            // Without windows nothing is late, and the view counts nothing of its own.
            applied: if view.windows.is_some() { taken } else { self.applied - refused },
            late,
            duplicate: self.duplicate,
            rejected: self.unreadable + self.ahead + refused,
        })
    }
}

impl ViewTallies {
    /// All of them, by name.
    pub fn all(&self) -> [(&'static str, i64); 5] {
        [
            ("received", self.received),
            ("applied", self.applied),
            ("late", self.late),
            ("duplicate", self.duplicate),
            ("rejected", self.rejected),
        ]
    }

    /// Whether all that was received is accounted for.
    pub fn is_balanced(&self) -> bool {
        self.received == self.applied + self.late + self.duplicate + self.rejected
    }
}

/// The sums of counters, each given with which of the sums it belongs to.
async fn sums<const N: usize>(
    store: &dyn Store,
    cells: Vec<(Shard, usize, Key)>,
) -> Result<[i64; N], QueryError> {
    let mut by_shard: BTreeMap<Shard, Vec<(usize, Cell)>> = BTreeMap::new();
    for (shard, at, key) in cells {
        by_shard.entry(shard).or_default().push((at, Cell::new(Kind::Counter, key)));
    }
    // All at once: on a slow store, one answer after another would come too late for anybody.
    let pages = by_shard.iter().flat_map(|(&shard, cells)| {
        cells.chunks(PAGE_ROWS).map(move |some| async move {
            let named: Vec<Cell> = some.iter().map(|(_, cell)| cell.clone()).collect();
            let held = store.get(shard, &named).await?;
            Ok::<_, QueryError>(some.iter().map(|(at, _)| *at).zip(held))
        })
    });
    let mut sums = [0; N];
    for (at, value) in try_join_all(pages).await?.into_iter().flatten() {
        if let Some(Value::Counter(count)) = value {
            sums[at] += count;
        }
    }
    Ok(sums)
}

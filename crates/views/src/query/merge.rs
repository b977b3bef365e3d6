//! One ordered walk over the cells of all shards.

use std::collections::VecDeque;

use consort_kernel::limits::PAGE_ROWS;
use consort_kernel::{Key, Kind, QueryError, Shard, Store, Value};
use futures::future::try_join_all;

/// Cells of one kind with a common prefix, from every shard, in the order of their keys.
pub(super) struct Merge<'a> {
    store: &'a dyn Store,
    kind: Kind,
    prefix: Key,
    page: usize,
    shards: Vec<Walk>,
}

/// Where the walk stands in one shard.
struct Walk {
    shard: Shard,
    after: Option<Key>,
    rows: VecDeque<(Key, Value)>,
    /// A shard has no more when a page of it is empty.
    done: bool,
}

impl<'a> Merge<'a> {
    /// Behind `after`, reading up to `page` rows of a shard at once.
    pub(super) fn new(
        store: &'a dyn Store,
        kind: Kind,
        prefix: Key,
        after: Option<Key>,
        page: usize,
    ) -> Self {
        let walk = |shard| Walk { shard, after: after.clone(), rows: VecDeque::new(), done: false };
        let shards = (0..store.shards()).map(|shard| walk(Shard(shard))).collect();
        Merge { store, kind, prefix, page: page.min(PAGE_ROWS), shards }
    }

    /// The next cell; none when all shards are through.
    pub(super) async fn next(&mut self) -> Result<Option<(Key, Value)>, QueryError> {
        let Merge { store, kind, prefix, page, shards } = self;
        // Every shard must show its next row before the smallest of them is known.
        let empty = shards.iter_mut().filter(|walk| walk.rows.is_empty() && !walk.done);
        try_join_all(empty.map(|walk| walk.fill(*store, *kind, prefix, *page))).await?;
        let heads = shards.iter_mut().filter(|walk| !walk.rows.is_empty());
        let least = heads.min_by(|a, b| a.head().cmp(&b.head()));
        Ok(least.and_then(|walk| walk.rows.pop_front()))
    }
}

impl Walk {
    fn head(&self) -> Option<&Key> {
        self.rows.front().map(|(key, _)| key)
    }

    async fn fill(
        &mut self,
        store: &dyn Store,
        kind: Kind,
        prefix: &Key,
        page: usize,
    ) -> Result<(), QueryError> {
        let rows = store.scan(self.shard, kind, prefix, self.after.as_ref(), page).await?;
        match rows.last() {
            Some((key, _)) => self.after = Some(key.clone()),
            None => self.done = true,
        }
        self.rows = rows.into();
        Ok(())
    }
}

//! An operator's decision on a deliverer that stopped because rows were lost: go on from where.

use std::sync::Arc;
use std::time::Duration;

use consort_cluster::worker::{ResolveError, Resume};
use consort_cluster::{Role, Runtime};
use consort_kernel::{Cursor, Most, Name, ReadError, Shard, Store};

use crate::cell::{Changed, CursorCell, Found};
use crate::{feed, names};

/// A deliverer's feeds in a shard.
#[derive(Debug)]
pub(crate) struct Decision {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) runtime: Arc<dyn Runtime>,
    pub(crate) role: Role,
    pub(crate) sink: Name,
    pub(crate) shard: Shard,
    pub(crate) feeds: Vec<Name>,
}

impl Decision {
    /// Moves the cursors of those feeds that are stopped, and of no others. Tells the first row of the last
    /// of them. The deliverer finds its cursor moved when it looks again.
    pub(crate) async fn carry_out(self, from: Resume) -> Result<u64, ResolveError> {
        let failed = |reason: String| ResolveError::Failed(reason);
        let mut begun = None;
        for feed in &self.feeds {
            let (store, runtime) = (Arc::clone(&self.store), Arc::clone(&self.runtime));
            let key = names::cursor(&self.sink, feed);
            let cell = CursorCell { store, runtime, shard: self.shard, key };
            let found = cell.read().await.map_err(failed)?;
            if !self.is_lost(feed, &found).await {
                continue;
            }
            let next = self.place(feed, from).await;
            let next = next.map_err(|error| failed(error.to_string()))?;
            let stand = found.stand.moved_to(&Cursor::at(next));
            match cell.change(&found, stand, Vec::new()).await.map_err(failed)? {
                Changed::Done(_) => begun = Some(next),
                Changed::Stale => return Err(self.at_work()),
            }
        }
        begun.ok_or_else(|| self.at_work())
    }

    fn at_work(&self) -> ResolveError {
        ResolveError::Failed(format!(
            "{} is at work: only a deliverer that stopped can be resolved",
            self.role
        ))
    }

    async fn is_lost(&self, feed: &Name, found: &Found) -> bool {
        let cursor = found.stand.cursor();
        let most = Most::entries(1);
        let read = self.store.feed(self.shard, feed, &cursor, most, Duration::ZERO).await;
        !found.is_new()
            && matches!(
                read,
                Err(ReadError::Trimmed { .. } | ReadError::Lost { .. } | ReadError::Corrupt { .. })
            )
    }

    async fn place(&self, feed: &Name, from: Resume) -> Result<u64, ReadError> {
        let first = feed::first(&*self.store, self.shard, feed).await?;
        match from {
            Resume::Offset(number) => Ok(number),
            Resume::First => Ok(first),
            Resume::End => feed::end(&*self.store, self.shard, feed, first).await,
        }
    }
}

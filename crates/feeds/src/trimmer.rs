//! Lets go of rows that every sink has and that are too old for subscribers, and of the oldest parked ones.

use std::sync::Arc;
use std::time::Duration;

use consort_cluster::{Ended, Runtime, Tenure};
use consort_kernel::{Name, Shard, Store};

use crate::cell::CursorCell;
use crate::{feed, names};

/// How often it looks.
const ROUND: Duration = Duration::from_secs(60);

/// Rows of a feed that stay in each shard, for subscribers that were away.
pub(crate) const ROWS_KEPT: u64 = 100_000;

/// Parked rows of a sink that stay in each shard.
pub(crate) const PARKED_KEPT: u64 = 10_000;

/// Trims one feed in all shards.
#[derive(Debug)]
pub(crate) struct Trimmer {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) runtime: Arc<dyn Runtime>,
    pub(crate) feed: Name,
    /// How many entries stay at least.
    pub(crate) kept: u64,
    /// The sinks that it is delivered to.
    pub(crate) sinks: Vec<Name>,
}

impl Trimmer {
    /// Looks again and again until the tenure ends. What fails is tried again in the next round.
    pub(crate) async fn run(self, tenure: Tenure) -> Ended {
        let round = || async { (self.round().await.err(), ROUND) };
        tenure.rounds(&*self.runtime, round).await
    }

    async fn round(&self) -> Result<(), String> {
        for shard in (0..self.store.shards()).map(Shard) {
            let trimmed = self.trim(shard).await;
            trimmed.map_err(|reason| format!("{} is not trimmed: {reason}", self.feed))?;
        }
        Ok(())
    }

    async fn trim(&self, shard: Shard) -> Result<(), String> {
        let store = &*self.store;
        let first = feed::first(store, shard, &self.feed).await.map_err(|e| e.to_string())?;
        let mut needed = u64::MAX;
        for sink in &self.sinks {
            let key = names::cursor(sink, &self.feed);
            let (store, runtime) = (Arc::clone(&self.store), Arc::clone(&self.runtime));
            let found = CursorCell { store, runtime, shard, key }.read().await?;
            needed = needed.min(found.stand.needs());
        }
        if needed <= first {
            return Ok(());
        }
        let end = feed::end(store, shard, &self.feed, first).await.map_err(|e| e.to_string())?;
        let before = needed.min(end.saturating_sub(self.kept));
        match before > first {
            true => store.trim_feed(shard, &self.feed, before).await.map_err(|e| e.to_string()),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::Stand;
    use bytes::Bytes;
    use consort_cluster::{TokioRuntime, format};
    use consort_kernel::{Commit, Cursor, Digest, Note, Operation, SystemClock, memory};

    const SHARD: Shard = Shard(1);

    /// A feed of 100 entries, of which 30 stay, with these sinks.
    async fn trimmer(sinks: &[&str]) -> Trimmer {
        let (_, store) = memory::open(2, Arc::new(SystemClock::default()));
        let feed: Name = "rows.v".parse().unwrap();
        let note =
            |_| Operation::Append(Note { feed: feed.clone(), entry: Bytes::from_static(b"x") });
        store.commit(SHARD, Commit::of((0..100).map(note))).await.unwrap();
        Trimmer {
            store: Arc::new(store),
            runtime: TokioRuntime::current(),
            feed,
            kept: 30,
            sinks: sinks.iter().map(|sink| sink.parse().unwrap()).collect(),
        }
    }

    impl Trimmer {
        async fn first_after_round(&self) -> u64 {
            self.round().await.unwrap();
            feed::first(&*self.store, SHARD, &self.feed).await.unwrap()
        }

        async fn deliver(&self, sink: &str, last: u64) {
            let cursor = Cursor::behind(last, Digest::of(b"x"));
            let value = format::encode(&Stand::default().moved_to(&cursor));
            let key = names::cursor(&sink.parse().unwrap(), &self.feed);
            let put = Operation::Put { key, value };
            self.store.commit(SHARD, Commit::of([put])).await.unwrap();
        }
    }

    #[tokio::test]
    async fn without_sinks_the_last_rows_stay() {
        assert_eq!(trimmer(&[]).await.first_after_round().await, 70);
    }

    #[tokio::test]
    async fn nothing_is_trimmed_past_the_slowest_sink() {
        let trimmer = trimmer(&["a", "b"]).await;
        trimmer.deliver("a", 99).await;
        assert_eq!(trimmer.first_after_round().await, 0, "b has nothing yet");
        trimmer.deliver("b", 40).await;
        assert_eq!(trimmer.first_after_round().await, 40, "the entry that b vouches for stays");
        trimmer.deliver("b", 99).await;
        assert_eq!(trimmer.first_after_round().await, 70);
    }
}

//! Trims a feed: entries that every sink has go when they are too old, or too many bytes, for subscribers. Lists
//! of parked changes are trimmed by count and bytes.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use consort_cluster::{Ended, Runtime, Tenure, format};
use consort_kernel::{
    Cell, Commit, CommitError, Expect, Key, Kind, Name, Operation, Shard, Store, Value,
};

use crate::cell::CursorCell;
use crate::marks::{Keep, Marks};
use crate::{feed, names};

/// How often it looks. A feed may exceed its bounds by what comes in such a time.
const ROUND: Duration = Duration::from_secs(60);

/// The parked changes of a sink that stay in each shard: enough to see a pattern, of any age. One takes up to
/// 100 kB, so their bytes are bounded as well.
pub(crate) const PARKED_KEPT: Keep = Keep { age: Duration::MAX, entries: 10_000, bytes: 64 << 20 };

/// Trims one feed in all shards.
#[derive(Debug)]
pub(crate) struct Trimmer {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) runtime: Arc<dyn Runtime>,
    pub(crate) feed: Name,
    pub(crate) keep: Keep,
    /// The sinks that it is delivered to.
    pub(crate) sinks: Vec<Name>,
}

impl Trimmer {
    /// Looks again and again until the tenure ends. A round that failed is made good by the next.
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
        let marks = self.note(shard, first).await?;
        let now = store.now().await.map_err(|fault| fault.to_string())?;
        // Every engine keeps the newest entry: see `Retention`.
        let before = marks.first_kept(now, &self.keep).min(self.needed(shard).await?);
        match before > first {
            true => store.trim_feed(shard, &self.feed, before).await.map_err(|e| e.to_string()),
            false => Ok(()),
        }
    }

    /// The oldest entry that a sink needs.
    async fn needed(&self, shard: Shard) -> Result<u64, String> {
        let mut needed = u64::MAX;
        for sink in &self.sinks {
            let key = names::cursor(sink, &self.feed);
            let (store, runtime) = (Arc::clone(&self.store), Arc::clone(&self.runtime));
            let found = CursorCell { store, runtime, shard, key }.read().await?;
            needed = needed.min(found.stand.needs());
        }
        Ok(needed)
    }

    /// Notes where the feed ends now, and how large the entries are that came since the last look.
    async fn note(&self, shard: Shard, first: u64) -> Result<Marks, String> {
        let store = &*self.store;
        let key = names::marks(&self.feed);
        let (stored, mut marks) = self.marks(shard, &key).await?;
        let from = marks.end(first);
        let end = feed::end(store, shard, &self.feed, from).await.map_err(|e| e.to_string())?;
        if end == from && (stored.is_some() || end == first) {
            return Ok(marks);
        }
        let added = feed::estimate(store, shard, &self.feed, from..end).await;
        let added = added.map_err(|error| error.to_string())?;
        let now = store.now().await.map_err(|fault| fault.to_string())?;
        marks.note((first, end), added, now, &self.keep);
        let put = Operation::Put { key: key.clone(), value: format::encode(&marks) };
        let commit = Commit::of([put]).expecting(Expect::Bytes(key, stored));
        match store.commit(shard, commit).await {
            // Another trimmer was at work: its marks are as good, and are read in the next round.
            Ok(_) | Err(CommitError::Stale(_)) => Ok(marks),
            Err(error) => Err(format!("its marks cannot be written: {error}")),
        }
    }

    async fn marks(&self, shard: Shard, key: &Key) -> Result<(Option<Bytes>, Marks), String> {
        let told = |error: &dyn std::fmt::Display| format!("its marks cannot be read: {error}");
        let cell = Cell::new(Kind::Bytes, key.clone());
        let read = self.store.get(shard, &[cell]).await.map_err(|error| told(&error))?;
        match read.into_iter().next().flatten() {
            Some(Value::Bytes(stored)) => {
                let marks = format::decode(&stored).map_err(|error| told(&error))?;
                Ok((Some(stored), marks))
            }
            _ => Ok((None, Marks::default())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::Stand;
    use crate::spec::Retention;
    use consort_cluster::TokioRuntime;
    use consort_kernel::{Cursor, Digest, ManualClock, Note, Timestamp, memory};

    const SHARD: Shard = Shard(1);
    const HOUR: Duration = Duration::from_secs(3_600);
    const LARGE: Retention = Retention { age: Duration::MAX, bytes: u64::MAX };

    struct Bed {
        trimmer: Trimmer,
        clock: Arc<ManualClock>,
    }

    /// A feed of 100 entries of 10 bytes each, with these sinks.
    async fn bed(keep: impl Into<Keep>, sinks: &[&str]) -> Bed {
        let clock = Arc::new(ManualClock::at(Timestamp(1_000_000)));
        let (_, store) = memory::open(2, clock.clone());
        let trimmer = Trimmer {
            store: Arc::new(store),
            runtime: TokioRuntime::current(),
            feed: "rows.v".parse().unwrap(),
            keep: keep.into(),
            sinks: sinks.iter().map(|sink| sink.parse().unwrap()).collect(),
        };
        let bed = Bed { trimmer, clock };
        bed.append(100, 10).await;
        bed
    }

    impl Bed {
        async fn append(&self, entries: usize, bytes: usize) {
            let Trimmer { store, feed, .. } = &self.trimmer;
            let entry = Bytes::from(vec![b'x'; bytes]);
            let note = Operation::Append(Note { feed: feed.clone(), entry });
            store.commit(SHARD, Commit::of(vec![note; entries])).await.unwrap();
        }

        async fn first_after_round(&self) -> u64 {
            let Trimmer { store, feed, .. } = &self.trimmer;
            self.trimmer.round().await.unwrap();
            feed::first(&**store, SHARD, feed).await.unwrap()
        }

        async fn deliver(&self, sink: &str, last: u64) {
            let cursor = Cursor::behind(last, Digest::of(b"x"));
            let value = format::encode(&Stand::default().moved_to(&cursor));
            let key = names::cursor(&sink.parse().unwrap(), &self.trimmer.feed);
            let put = Operation::Put { key, value };
            self.trimmer.store.commit(SHARD, Commit::of([put])).await.unwrap();
        }
    }

    #[tokio::test]
    async fn entries_go_when_they_are_too_old() {
        let bed = bed(Retention { age: 24 * HOUR, ..LARGE }, &[]).await;
        assert_eq!(bed.first_after_round().await, 0);
        bed.clock.advance(20 * HOUR);
        bed.append(50, 10).await;
        assert_eq!(bed.first_after_round().await, 0, "none is a day old");
        bed.clock.advance(4 * HOUR);
        assert_eq!(bed.first_after_round().await, 100, "those of the first look are");
        bed.clock.advance(24 * HOUR);
        assert_eq!(bed.first_after_round().await, 149, "the newest stays");
    }

    #[tokio::test]
    async fn the_oldest_go_when_the_feed_is_too_large() {
        let bed = bed(Retention { bytes: 300, ..LARGE }, &[]).await;
        assert_eq!(bed.first_after_round().await, 70);
        bed.append(5, 20).await;
        assert_eq!(bed.first_after_round().await, 80);
        bed.append(10_000, 10).await;
        assert_eq!(bed.first_after_round().await, 10_075, "the sample tells sizes as well");
    }

    #[tokio::test]
    async fn nothing_is_trimmed_past_the_slowest_sink() {
        let bed = bed(Retention { age: HOUR, bytes: 300 }, &["a", "b"]).await;
        bed.deliver("a", 99).await;
        assert_eq!(bed.first_after_round().await, 0, "b has nothing yet");
        bed.clock.advance(2 * HOUR);
        assert_eq!(bed.first_after_round().await, 0, "however old it is");
        bed.deliver("b", 40).await;
        assert_eq!(bed.first_after_round().await, 40, "the entry that b vouches for stays");
        bed.deliver("b", 99).await;
        assert_eq!(bed.first_after_round().await, 99);
    }

    #[tokio::test]
    async fn parked_changes_are_trimmed_by_count_and_bytes_and_not_by_age() {
        let bed = bed(Keep { entries: 30, ..PARKED_KEPT }, &[]).await;
        bed.clock.advance(10_000 * HOUR);
        assert_eq!(bed.first_after_round().await, 70);
        let fewer = Keep { bytes: 200, ..bed.trimmer.keep };
        let bed = Bed { trimmer: Trimmer { keep: fewer, ..bed.trimmer }, ..bed };
        assert_eq!(bed.first_after_round().await, 80);
    }
}

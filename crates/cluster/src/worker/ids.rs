//! Ids: an event that was sent twice counts once.
//!
//! An id is kept with the place of the record that first carried it, in the partition's home shard beside
//! the checkpoint: whatever happens to that shard happens to both. It is found again by the time of its
//! frame, in buckets as long as an id lives, so two records within that time stand in the same bucket or
//! in neighbouring ones, and old buckets can be cleared away by log time.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use consort_kernel::limits::PAGE_ROWS;
use consort_kernel::{Cell, Commit, Expect, Key, Kind, Operation, Store, Timestamp, Value};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::Setback;
use super::cells::Cells;
use super::stand::Position;
use crate::format;

/// Ids looked up and committed at once: three cells each, and one more, in one page.
const IDS_AT_ONCE: usize = (PAGE_ROWS - 1) / 3;

/// How much later than its lifetime an id is cleared away, in log time: frames of several producers are
/// only nearly in the order of their times.
const SLACK: Duration = Duration::from_secs(600);

/// A record that carries an id.
#[derive(Clone, Debug)]
pub(super) struct Carried {
    pub(super) id: Bytes,
    pub(super) position: Position,
    pub(super) time: Timestamp,
}

/// Where an id was first seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Seen {
    position: Position,
    time: u64,
}

/// What an id says of its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// The first: to be kept.
    First,
    /// The first, and kept already: this is a batch that was begun before.
    Kept,
    /// Another record with this id came before.
    Duplicate,
}

/// Cells as they were found, and what they mean.
type Held = BTreeMap<Key, (Option<Bytes>, Option<Seen>)>;

/// The ids of one pipeline of one partition.
#[derive(Clone, Copy)]
pub(super) struct Ids<'a> {
    pub(super) cells: &'a Cells,
    pub(super) store: &'a dyn Store,
    /// For how long an id counts.
    pub(super) lifetime: Duration,
    /// The checkpoint as it was read: an owner whose time is over keeps nothing.
    pub(super) checkpoint: &'a Option<Bytes>,
}

/// What ids say of a batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Settled {
    /// The records that are duplicates.
    pub(super) duplicates: BTreeSet<Position>,
    /// How far ids are kept now, for the checkpoint to expect.
    ///
    /// Ids are kept, then the home shard is rolled back to just before, then the checkpoint is committed:
    /// checkpoint and mark are what they were, so both would be accepted, and the ids be missing for good.
    pub(super) kept: Option<Expect>,
}

impl Ids<'_> {
    /// Keeps the ids that are new, and tells which records are duplicates.
    pub(super) async fn settle(&self, carried: &[Carried]) -> Result<Settled, Setback> {
        let mut settled = Settled::default();
        for some in carried.chunks(IDS_AT_ONCE) {
            self.settle_some(some, &mut settled).await?;
        }
        Ok(settled)
    }

    async fn settle_some(&self, carried: &[Carried], settled: &mut Settled) -> Result<(), Setback> {
        let (mut held, kept) = self.look_up(carried).await?;
        let found = Expect::Bytes(self.cells.kept(), kept.clone());
        if settled.kept.as_ref().is_some_and(|left| *left != found) {
            return Err(Setback::Stale);
        }
        let mut commit = Commit::default();
        for one in carried {
            let keys = self.keys(one);
            let mine = Seen { position: one.position, time: one.time.0 };
            let seen = keys.clone().map(|key| held.get(&key).and_then(|(_, seen)| *seen));
            match judge(seen, mine, self.lifetime) {
                Verdict::Duplicate => {
                    settled.duplicates.insert(one.position);
                }
                Verdict::Kept => {}
                Verdict::First => {
                    let [_, key, _] = keys;
                    let value = format::encode(&mine);
                    let before = held.get(&key).and_then(|(raw, _)| raw.clone());
                    held.insert(key.clone(), (Some(value.clone()), Some(mine)));
                    commit.expects.push(Expect::Bytes(key.clone(), before));
                    commit.operations.push(Operation::Put { key, value });
                }
            }
        }
        if commit.operations.is_empty() {
            settled.kept = Some(found);
            return Ok(());
        }
        let before = kept.as_deref().map(read::<Position>).transpose()?;
        let last = carried.last().map(|one| one.position);
        let (key, value) = (self.cells.kept(), format::encode(&before.max(last)));
        settled.kept = Some(Expect::Bytes(key.clone(), Some(value.clone())));
        commit.operations.push(Operation::Put { key, value });
        self.commit(commit.expecting(found)).await
    }

    /// What stands under the keys that these ids may be kept under, and how far ids are kept, at one moment.
    async fn look_up(&self, carried: &[Carried]) -> Result<(Held, Option<Bytes>), Setback> {
        let keys: BTreeSet<Key> = carried.iter().flat_map(|one| self.keys(one)).collect();
        let named = keys.iter().cloned().chain([self.cells.kept()]);
        let cells: Vec<Cell> = named.map(|key| Cell::new(Kind::Bytes, key)).collect();
        let values = self.store.get(self.cells.home(), &cells).await?;
        let mut raw = values.into_iter().map(|value| match value {
            Some(Value::Bytes(raw)) => Some(raw),
            _ => None,
        });
        let mut held = Held::new();
        for (key, raw) in keys.into_iter().zip(&mut raw) {
            if let Some(raw) = raw {
                let seen = read::<Seen>(&raw)?;
                held.insert(key, (Some(raw), Some(seen)));
            }
        }
        Ok((held, raw.next().flatten()))
    }

    /// Clears away up to `most` ids that no record to come can meet any more. True if there may be more.
    pub(super) async fn forget(&self, watermark: Timestamp, most: usize) -> Result<bool, Setback> {
        let reach = self.lifetime * 2 + SLACK;
        let oldest = self.bucket(Timestamp(watermark.0.saturating_sub(millis(reach))));
        let prefix = self.cells.ids();
        let rows = self.store.scan(self.cells.home(), Kind::Bytes, &prefix, None, most).await?;
        let past = rows.iter().map(|(key, _)| key).take_while(|key| **key < prefix.with(oldest));
        let deletions: Vec<Operation> =
            past.map(|key| Operation::Delete(Cell::new(Kind::Bytes, key.clone()))).collect();
        if deletions.is_empty() {
            return Ok(false);
        }
        let more = deletions.len() == rows.len();
        self.commit(Commit::of(deletions)).await?;
        Ok(more)
    }

    async fn commit(&self, commit: Commit) -> Result<(), Setback> {
        let expect = Expect::Bytes(self.cells.checkpoint(), self.checkpoint.clone());
        self.store.commit(self.cells.home(), commit.expecting(expect)).await?;
        Ok(())
    }

    fn bucket(&self, time: Timestamp) -> u64 {
        time.0 / millis(self.lifetime).max(1)
    }

    /// The keys of the bucket before, of this record's own bucket, and of the one after.
    fn keys(&self, one: &Carried) -> [Key; 3] {
        let bucket = self.bucket(one.time);
        [bucket.saturating_sub(1), bucket, bucket.saturating_add(1)]
            .map(|bucket| self.cells.ids().with(bucket).with(&one.id[..]))
    }
}

fn read<T: DeserializeOwned>(raw: &[u8]) -> Result<T, Setback> {
    format::decode(raw).map_err(|error| Setback::Loss(format!("an id cannot be read: {error}")))
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// The first record of a partition that carries an id is the one that counts; others within the id's
/// lifetime are duplicates of it. Who comes first is decided by the log, so it is decided the same each
/// time.
fn judge(seen: [Option<Seen>; 3], mine: Seen, lifetime: Duration) -> Verdict {
    let held = || seen.iter().flatten();
    if held().any(|seen| seen.position == mine.position) {
        return Verdict::Kept;
    }
    let before = |seen: &&Seen| {
        seen.position < mine.position && seen.time.abs_diff(mine.time) <= millis(lifetime)
    };
    if held().any(|seen| before(&seen)) { Verdict::Duplicate } else { Verdict::First }
}

#[cfg(test)]
mod tests {
    use super::*;
    use consort_kernel::memory::MemoryStore;
    use consort_kernel::{ManualClock, Partition};
    use std::sync::Arc;

    const LIFETIME: Duration = Duration::from_millis(100);

    fn seen(offset: u64, time: u64) -> Seen {
        Seen { position: Position { era: 0, offset, record: 0 }, time }
    }

    #[test]
    fn the_first_record_counts_and_others_within_the_lifetime_do_not() {
        let verdict = |held, mine| judge([None, held, None], mine, LIFETIME);
        assert_eq!(verdict(None, seen(5, 0)), Verdict::First);
        assert_eq!(verdict(Some(seen(5, 0)), seen(5, 0)), Verdict::Kept);
        assert_eq!(verdict(Some(seen(5, 0)), seen(6, 100)), Verdict::Duplicate);
        assert_eq!(verdict(Some(seen(5, 0)), seen(6, 101)), Verdict::First);
        // Times may run backwards a little; the log's order decides.
        assert_eq!(verdict(Some(seen(5, 50)), seen(6, 0)), Verdict::Duplicate);
        assert_eq!(verdict(Some(seen(6, 0)), seen(5, 0)), Verdict::First);
    }

    fn carried(id: &'static str, offset: u64, time: u64) -> Carried {
        let Seen { position, time } = seen(offset, time);
        Carried { id: Bytes::from_static(id.as_bytes()), position, time: Timestamp(time) }
    }

    fn cells() -> (MemoryStore, Cells) {
        let store = MemoryStore::new(2, Arc::new(ManualClock::default()));
        let partition = Partition::new("s".parse().unwrap(), 0);
        (store, Cells::new(&"all".parse().unwrap(), &partition, 2))
    }

    #[tokio::test]
    async fn a_batch_that_is_settled_twice_is_settled_the_same() {
        let (store, cells) = cells();
        let ids = Ids { cells: &cells, store: &store, lifetime: LIFETIME, checkpoint: &None };
        let batch = [
            carried("a", 0, 0),
            carried("b", 1, 90),
            carried("a", 2, 95),
            carried("b", 3, 110),
            carried("a", 4, 120),
        ];
        let first = ids.settle(&batch).await.unwrap();
        let places: Vec<u64> = first.duplicates.iter().map(|position| position.offset).collect();
        assert_eq!(places, [2, 3]);
        assert_eq!(ids.settle(&batch).await.unwrap(), first);
        assert_eq!(ids.settle(&batch[2..3]).await.unwrap().duplicates.len(), 1);
        let later = ids.settle(&[carried("c", 5, 130)]).await.unwrap();
        assert_ne!(later.kept, first.kept, "more ids are kept");
    }

    #[tokio::test]
    async fn an_owner_whose_checkpoint_has_moved_keeps_no_ids() {
        let (store, cells) = cells();
        let put = Operation::Put { key: cells.checkpoint(), value: Bytes::from_static(b"new") };
        store.commit(cells.home(), Commit::of([put])).await.unwrap();
        let ids = Ids { cells: &cells, store: &store, lifetime: LIFETIME, checkpoint: &None };
        let settled = ids.settle(&[carried("a", 0, 0)]).await;
        assert!(matches!(settled, Err(Setback::Stale)), "{settled:?}");
    }

    #[tokio::test]
    async fn ids_are_cleared_away_by_log_time() {
        let (store, cells) = cells();
        let ids = Ids { cells: &cells, store: &store, lifetime: LIFETIME, checkpoint: &None };
        let later = millis(SLACK) + 1000;
        let batch = [carried("a", 0, 0), carried("b", 1, 50), carried("c", 2, later)];
        ids.settle(&batch).await.unwrap();
        assert!(!ids.forget(Timestamp(millis(SLACK)), 10).await.unwrap());
        assert!(ids.forget(Timestamp(later), 1).await.unwrap());
        assert!(!ids.forget(Timestamp(later), 10).await.unwrap());
        let left = store.scan(cells.home(), Kind::Bytes, &cells.ids(), None, 10).await.unwrap();
        assert_eq!(left.len(), 1);
    }
}

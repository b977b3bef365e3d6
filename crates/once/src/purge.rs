//! Purging, by key and by tag.
//!
//! A purge removes the cell, whatever it holds: a value, an error, or a computation, whose outcome is
//! then refused because its cell is gone; whoever waits for it computes anew. So nothing whose
//! computation began before a purge is served after it.
//!
//! The tags of a value are not known before it is computed. Therefore each shard counts its purges by
//! tag, and notes in one of [`BUCKETS`] cells which was the last that hit a tag of this bucket. A
//! computation remembers the count it began under; it publishes only if no bucket of its tags was hit
//! since, and expects those cells to be what it read, so that no purge slips in between. Two tags that
//! share a bucket cost a computation now and then, and nothing else.

use bytes::Bytes;
use consort_kernel::{
    Cell, Commit, CommitError, Element, Expect, Kind, Name, Operation, Shard, Value,
};
use ring::digest::{SHA256, digest};

use crate::answer::OnceError;
use crate::desk::{Desk, tell};
use crate::inner::Inner;
use crate::key::{self, OnceKey};

/// Cells per space and shard that tell when tags were purged.
const BUCKETS: u32 = 1024;
/// Keys in one commit of a purge by tag: each takes four steps of it.
const PAGE: usize = 200;
/// How often a purge is tried while others purge or the store does not say what happened.
const TRIES: usize = 20;

/// What the index of a tag holds for each key: the version of that index.
pub(crate) const TAGGED: Bytes = Bytes::from_static(b"\x01");

/// When the tags of a value were purged last.
#[derive(Clone, Debug)]
pub(crate) struct Marks(Vec<(consort_kernel::Key, Option<Bytes>)>);

impl Marks {
    /// Reads the marks of `tags` in the shard of `key`.
    pub(crate) async fn read(
        desk: &Desk,
        key: &OnceKey,
        tags: &[String],
    ) -> Result<Self, OnceError> {
        if tags.is_empty() {
            return Ok(Marks(Vec::new()));
        }
        let mut buckets: Vec<u32> = tags.iter().map(|tag| bucket(tag)).collect();
        buckets.sort_unstable();
        buckets.dedup();
        let keys = buckets.into_iter().map(|bucket| key::purged(key.space(), bucket));
        let cells: Vec<Cell> = keys.map(|key| Cell::new(Kind::Bytes, key)).collect();
        let values = desk.store.get(desk.shard(key), &cells).await?;
        let marks = cells.into_iter().zip(values).map(|(cell, value)| match value {
            Some(Value::Bytes(bytes)) => (cell.key, Some(bytes)),
            _ => (cell.key, None),
        });
        Ok(Marks(marks.collect()))
    }

    /// Whether one of them was purged after there had been `purges`. A mark that cannot be read counts.
    pub(crate) fn any_after(&self, purges: i64) -> bool {
        let number = |bytes: &Bytes| bytes.as_ref().try_into().map_or(i64::MAX, i64::from_be_bytes);
        self.0.iter().any(|(_, mark)| mark.as_ref().is_some_and(|mark| number(mark) > purges))
    }

    /// That they are still so.
    pub(crate) fn expects(self) -> Vec<Expect> {
        self.0.into_iter().map(|(key, mark)| Expect::Bytes(key, mark)).collect()
    }
}

/// A stored fact, like every placement: the same in every release.
fn bucket(tag: &str) -> u32 {
    let digest = digest(&SHA256, tag.as_bytes());
    let start = digest.as_ref().first_chunk().copied().unwrap_or_default();
    u32::from_be_bytes(start) % BUCKETS
}

/// Removes what is there for a key. Tells whether there was anything.
pub(crate) async fn purge(inner: &Inner, key: &OnceKey) -> Result<bool, OnceError> {
    let desk = &inner.desk;
    let shard = desk.shard(key);
    let there = desk.store.get(shard, &[Cell::new(Kind::Bytes, key.head())]).await?;
    commit(desk, shard, Commit::of(removal(key))).await?;
    inner.cache.forget(shard, key.as_bytes(), None);
    Ok(there.into_iter().any(|value| value.is_some()))
}

/// Removes everything in `space` that has `tag`. Tells how many keys that were.
pub(crate) async fn purge_tag(inner: &Inner, space: &Name, tag: &str) -> Result<u64, OnceError> {
    let shards = (0..inner.desk.store.shards()).map(Shard);
    let purged = shards.map(|shard| purge_tag_in(inner, shard, space, tag));
    let purged = futures::future::join_all(purged).await;
    purged.into_iter().try_fold(0, |sum, purged| Ok(sum + purged?))
}

async fn purge_tag_in(
    inner: &Inner,
    shard: Shard,
    space: &Name,
    tag: &str,
) -> Result<u64, OnceError> {
    let desk = &inner.desk;
    mark(desk, shard, space, tag).await?;
    // From here on nothing that was being computed can bring the tag back. What is there goes page by
    // page; if this is cut short, the index still has the rest, for the purge that is tried again.
    let prefix = key::tagged(space, tag);
    let mut after = None;
    let mut purged = 0;
    loop {
        let page = desk.store.scan(shard, Kind::Bytes, &prefix, after.as_ref(), PAGE).await?;
        let Some((last, _)) = page.last() else { return Ok(purged) };
        after = Some(last.clone());
        let mut operations = Vec::with_capacity(4 * page.len());
        let mut keys = Vec::with_capacity(page.len());
        for (index, _) in page {
            if let Ok(Some(Element::Bytes(bytes))) = index.elements().map(|mut e| e.pop()) {
                let key = OnceKey::from_bytes(space, &bytes);
                operations.extend(removal(&key));
                keys.push(key);
            }
            operations.push(Operation::Delete(Cell::new(Kind::Bytes, index)));
        }
        commit(desk, shard, Commit::of(operations)).await?;
        for key in &keys {
            inner.cache.forget(shard, key.as_bytes(), None);
        }
        purged += keys.len() as u64;
    }
}

/// Counts the purge, and marks the bucket of its tag with that count.
async fn mark(desk: &Desk, shard: Shard, space: &Name, tag: &str) -> Result<(), OnceError> {
    let purges = key::purges(space);
    for _ in 0..TRIES {
        let held = desk.store.get(shard, &[Cell::new(Kind::Counter, purges.clone())]).await?;
        let held = match held.first() {
            Some(Some(Value::Counter(purges))) => Some(*purges),
            _ => None,
        };
        let number = held.unwrap_or(0) + 1;
        let value = Bytes::copy_from_slice(&number.to_be_bytes());
        let operations = [
            Operation::Add { key: purges.clone(), by: 1, on_overflow: None },
            Operation::Put { key: key::purged(space, bucket(tag)), value },
        ];
        let expected = Expect::Counter(purges.clone(), held);
        match desk.store.commit(shard, Commit::of(operations).expecting(expected)).await {
            Ok(_) => return Ok(()),
            // Another purge came first; or this one may have been applied, and twice is as good as once.
            Err(CommitError::Stale(_) | CommitError::Unknown(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(OnceError::unavailable("too many purge at once: try again"))
}

fn removal(key: &OnceKey) -> [Operation; 3] {
    [
        Operation::Delete(Cell::new(Kind::Bytes, key.head())),
        Operation::Delete(Cell::new(Kind::Bytes, key.body())),
        tell(key, None),
    ]
}

/// Commits what may be done twice, until it is known to be done.
async fn commit(desk: &Desk, shard: Shard, commit: Commit) -> Result<(), OnceError> {
    let mut last = OnceError::unavailable("a purge was never tried");
    for _ in 0..TRIES {
        match desk.store.commit(shard, commit.clone()).await {
            Ok(_) => return Ok(()),
            Err(error @ CommitError::Unknown(_)) => last = error.into(),
            Err(error) => return Err(error.into()),
        }
    }
    Err(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_falls_into_the_same_bucket_in_every_release() {
        assert_eq!([bucket(""), bucket("a"), bucket("news")], [66, 274, 233]);
    }

    #[test]
    fn only_a_mark_that_is_newer_counts() {
        let mark = |number: i64| Some(Bytes::copy_from_slice(&number.to_be_bytes()));
        let marks = |mark| Marks(vec![(consort_kernel::Key::default(), mark)]);
        assert!(!marks(None).any_after(0));
        assert!(!marks(mark(3)).any_after(3));
        assert!(marks(mark(4)).any_after(3));
        assert!(marks(Some(Bytes::from_static(b"?"))).any_after(3));
        assert!(!Marks(Vec::new()).any_after(0));
    }
}

//! The news: a feed in every shard that tells which keys no longer have the value they had. Purges and
//! refreshes append to it in their own commits, and every node follows it for the sake of its cache.
//!
//! A node may serve from its cache only what it can vouch for. An empty read says that up to the moment
//! it began nothing went unheard; that holds for [`VOUCH_FOR`]. Any error, and any gap in the feed, means
//! that something may have gone unheard: the shard's values are dropped.

use std::time::Duration;

use bytes::Bytes;
use consort_cluster::runtime::within;
use consort_kernel::{Cursor, FeedEntry, Most, Name, Note, ReadError, Shard};

use crate::cache::Cache;
use crate::desk::Desk;
use crate::fence::{FENCE_BYTES, Fence, Generation};

pub(crate) const VERSION: u8 = 1;
const FEED: &str = "once.news";
/// How long an empty read is let wait; each one that ends renews what the cache can vouch for.
const READ_FOR: Duration = Duration::from_secs(1);
/// How long a cache serves after the last time it was known to have heard everything. So a purge holds
/// on every node after this time, whatever happened to its connection.
pub(crate) const VOUCH_FOR: Duration = Duration::from_secs(3);
/// The pause after an error.
const PAUSE: Duration = Duration::from_millis(200);
/// Entries that stay readable: a node that falls behind further drops its cache.
const KEPT: u64 = 1024;
/// How often the feed is trimmed, in entries.
const TRIM_EVERY: u64 = 256;

/// What the feed says that `key` has no longer its former value, but that of `generation`, or none.
pub(crate) fn note(key: &crate::OnceKey, generation: Option<Generation>) -> Note {
    let fence = generation.map(|generation| generation.0.to_bytes());
    let mut entry = vec![VERSION, u8::from(fence.is_some())];
    entry.extend(fence.unwrap_or_default());
    entry.extend(key.as_bytes());
    Note { feed: feed(), entry: entry.into() }
}

/// The key's bytes and the generation it has now; `None` if this release cannot read the entry.
fn read(entry: &Bytes) -> Option<(&[u8], Option<Generation>)> {
    let (&[version, some], rest) = entry.split_first_chunk::<2>()?;
    let (fence, key) = rest.split_first_chunk::<FENCE_BYTES>()?;
    let generation = (some == 1).then(|| Generation(Fence::from_bytes(*fence)));
    (version == VERSION && some <= 1).then_some((key, generation))
}

fn feed() -> Name {
    match Name::new(FEED) {
        Ok(name) => name,
        // A constant: the test of the format would have seen it.
        Err(error) => panic!("{FEED} is no name of a feed: {error}"),
    }
}

/// Follows the news of one shard for ever.
pub(crate) async fn follow(desk: &Desk, cache: &Cache, shard: Shard) {
    let feed = feed();
    let mut cursor = Cursor::START;
    let mut wait = Duration::ZERO;
    cache.interrupt(shard);
    loop {
        let began = desk.runtime.elapsed();
        let read = desk.store.feed(shard, &feed, &cursor, Most::default(), wait);
        match within(&*desk.runtime, READ_FOR + VOUCH_FOR, read).await {
            Some(Ok(entries)) => match entries.last() {
                None => {
                    cache.vouch(shard, began);
                    wait = READ_FOR;
                }
                Some(last) => {
                    entries.iter().for_each(|entry| hear(cache, shard, entry));
                    cursor = last.cursor();
                    wait = Duration::ZERO;
                    trim(desk, &feed, shard, &entries).await;
                }
            },
            Some(Err(error)) => {
                cache.interrupt(shard);
                tracing::debug!(%shard, %error, "the news of purges were interrupted");
                cursor = resume(cursor, &error);
                wait = Duration::ZERO;
                desk.runtime.sleep(PAUSE).await;
            }
            None => cache.interrupt(shard),
        }
    }
}

fn hear(cache: &Cache, shard: Shard, entry: &FeedEntry) {
    match read(&entry.entry) {
        Some((key, generation)) => cache.forget(shard, key, generation),
        None => cache.interrupt(shard),
    }
}

/// Where to go on after an error. The cache was emptied, so nothing that is skipped is missed.
fn resume(cursor: Cursor, error: &ReadError) -> Cursor {
    match error {
        ReadError::Trimmed { first, .. } => Cursor::at(*first),
        ReadError::Lost { .. } => Cursor::START,
        ReadError::Corrupt { number, .. } => Cursor::at(number + 1),
        ReadError::Refused(_) | ReadError::Engine(_) => cursor,
    }
}

/// Lets go of old news, now and then. Any node may, and a failure is made good by the next.
async fn trim(desk: &Desk, feed: &Name, shard: Shard, entries: &[FeedEntry]) {
    let Some(due) = entries.iter().rfind(|entry| entry.number % TRIM_EVERY == TRIM_EVERY - 1)
    else {
        return;
    };
    let before = due.number.saturating_sub(KEPT);
    if before > 0
        && let Err(error) = desk.store.trim_feed(shard, feed, before).await
    {
        tracing::debug!(%shard, %error, "old news of purges could not be trimmed");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OnceKey;
    use consort_kernel::Digest;

    #[test]
    fn version_1_is_read_in_every_release() {
        let key = OnceKey::new(&Name::new("items").unwrap(), &[b"a"]);
        let generation = Generation(Fence { incarnation: 1, attempt: 2 });
        let told = note(&key, Some(generation));
        let stored = b"\x01\x01\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x02\x02items\0\x14\x01a\0";
        assert_eq!((told.feed.as_str(), &told.entry[..]), (FEED, &stored[..]));
        assert_eq!(read(&told.entry), Some((key.as_bytes(), Some(generation))));
        assert_eq!(read(&note(&key, None).entry), Some((key.as_bytes(), None)));
        assert_eq!(read(&Bytes::from_static(b"\x02\x01")), None);
        assert_eq!(read(&Bytes::from(vec![2; 30])), None);
    }

    #[test]
    fn a_reader_goes_on_behind_what_it_cannot_have() {
        let at = Cursor::behind(6, Digest::of(b"x"));
        let lost = ReadError::Lost { number: 6, expected: Digest::of(b"x"), found: None };
        assert_eq!(resume(at, &ReadError::Trimmed { cursor: at, first: 9 }), Cursor::at(9));
        assert_eq!(resume(at, &lost), Cursor::START);
        assert_eq!(resume(at, &ReadError::corrupt_feed(0, &feed(), 7, "x")), Cursor::at(8));
        let engine = ReadError::Engine(consort_kernel::Fault::Retryable("x".into()));
        assert_eq!(resume(at, &engine), at);
    }
}

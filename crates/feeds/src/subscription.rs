//! Reading a feed from outside: over all shards, with one cursor that can be taken up again.
//!
//! Changes of one subject come in their order; between shards there is none.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use consort_kernel::limits::PAGE_BYTES;
use consort_kernel::{Budget, Change, Cursor, Digest, Most, Name, ReadError, Shard, Store};
use futures::future::{join_all, select_all};

use crate::feed;
use crate::spec::FeedSpec;

/// The format of written places.
pub(crate) const VERSION: u8 = 1;

/// Where a subscriber stands: a cursor for each shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place(Vec<Cursor>);

/// A text is no place in a feed of this store.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the cursor is none that this feed gave: use one as it was given, or leave it out to begin with the oldest change"
)]
pub struct BadCursor;

/// Some changes, each with the place behind it.
#[derive(Clone, Debug)]
pub struct Page {
    /// The changes; one that cannot be read is `None`.
    pub changes: Vec<(Option<Change>, Place)>,
    /// The place behind all of them.
    pub next: Place,
}

/// Reads one feed.
#[derive(Clone, Debug)]
pub struct Subscription {
    store: Arc<dyn Store>,
    spec: Arc<FeedSpec>,
}

impl Subscription {
    /// A reader of this feed.
    pub fn new(store: Arc<dyn Store>, spec: Arc<FeedSpec>) -> Self {
        Subscription { store, spec }
    }

    fn feed(&self) -> &Name {
        &self.spec.feed
    }

    /// Before the oldest change that is kept.
    pub async fn oldest(&self) -> Result<Place, ReadError> {
        let first = async |shard| feed::first(&*self.store, shard, self.feed()).await;
        self.everywhere(first).await
    }

    /// Behind the newest change.
    pub async fn newest(&self) -> Result<Place, ReadError> {
        let end = async |shard| {
            let first = feed::first(&*self.store, shard, self.feed()).await?;
            feed::end(&*self.store, shard, self.feed(), first).await
        };
        self.everywhere(end).await
    }

    async fn everywhere<F: Future<Output = Result<u64, ReadError>>>(
        &self,
        look: impl Fn(Shard) -> F,
    ) -> Result<Place, ReadError> {
        let looks = (0..self.store.shards()).map(|shard| look(Shard(shard)));
        let found: Result<Vec<u64>, ReadError> = join_all(looks).await.into_iter().collect();
        Ok(Place(found?.into_iter().map(Cursor::at).collect()))
    }

    /// A written place, if it is one of this store.
    pub fn place(&self, text: &str) -> Result<Place, BadCursor> {
        let place = Place::decode(text).ok_or(BadCursor)?;
        match place.0.len() == usize::from(self.store.shards()) {
            true => Ok(place),
            false => Err(BadCursor),
        }
    }

    /// Up to `limit` changes behind `place`; if there are none, it waits up to `wait` for the first. A page ends
    /// with the change that takes it past [`PAGE_BYTES`], all shards together.
    pub async fn read(
        &self,
        place: &Place,
        limit: usize,
        wait: Duration,
    ) -> Result<Page, ReadError> {
        let page = self.look(place, limit).await?;
        if !page.changes.is_empty() || wait.is_zero() {
            return Ok(page);
        }
        let waits = place.0.iter().enumerate().map(|(shard, cursor)| {
            let most = Most::entries(1);
            Box::pin(async move {
                let shard = Shard(shard as u16);
                self.store.feed(shard, self.feed(), cursor, most, wait).await
            })
        });
        // The first that has something; those that have nothing all end after `wait`.
        let mut left: Vec<_> = waits.collect();
        while !left.is_empty() {
            let (found, _, others) = select_all(left).await;
            if !found?.is_empty() {
                break;
            }
            left = others;
        }
        self.look(place, limit).await
    }

    /// What is there now. Shards take turns in coming first, so that a busy one starves no other.
    async fn look(&self, place: &Place, limit: usize) -> Result<Page, ReadError> {
        let mut next = place.clone();
        let (mut changes, mut bytes, mut budget) = (Vec::new(), 0, Budget::default());
        let shards = place.0.len();
        let turn = place.0.iter().fold(0, |sum, cursor| (sum + cursor.next) % shards.max(1) as u64);
        for step in 0..shards {
            let at = (turn as usize + step) % shards;
            let left = limit.saturating_sub(changes.len());
            if left == 0 || bytes >= PAGE_BYTES {
                break;
            }
            let (shard, most) =
                (Shard(at as u16), Most { entries: left, bytes: PAGE_BYTES - bytes });
            let cursor = &place.0[at];
            let entries = self.store.feed(shard, self.feed(), cursor, most, Duration::ZERO).await?;
            for entry in entries {
                next.0[at] = entry.cursor();
                bytes += entry.entry.len();
                changes.push((self.spec.payload.decode(&entry.entry).ok(), next.clone()));
                budget.spend(entry.entry.len()).await;
            }
        }
        Ok(Page { changes, next })
    }
}

impl Place {
    /// Version, then for each shard the next number, and the digest of the entry before it, if one was read.
    pub fn encode(&self) -> String {
        let mut bytes = vec![VERSION];
        for cursor in &self.0 {
            // The lowest bit tells whether a digest follows. Numbers of feeds stay far below 63 bits.
            push_number(&mut bytes, (cursor.next << 1) | u64::from(cursor.last.is_some()));
            if let Some((_, digest)) = cursor.last {
                bytes.extend_from_slice(&digest.0);
            }
        }
        URL_SAFE_NO_PAD.encode(bytes)
    }

    fn decode(text: &str) -> Option<Place> {
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        let mut rest = bytes.strip_prefix(&[VERSION])?;
        let mut cursors = Vec::new();
        while !rest.is_empty() {
            let number = take_number(&mut rest)?;
            let next = number >> 1;
            let last = match number & 1 {
                0 => None,
                // Numbers of a feed have no gaps: the entry read last is the one before.
                _ => {
                    let (digest, behind) = rest.split_at_checked(Digest::LENGTH)?;
                    rest = behind;
                    Some((next.checked_sub(1)?, Digest::from_slice(digest)?))
                }
            };
            cursors.push(Cursor { next, last });
        }
        Some(Place(cursors))
    }
}

/// Seven bits a byte, the lowest first; the highest bit says that more follow.
fn push_number(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn take_number(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    for at in 0..10 {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f).checked_shl(7 * at)?;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::task::Poll;

    use crate::fixtures::{feed, point};
    use consort_kernel::{Commit, Note, Operation, SystemClock, memory};
    use futures::poll;

    const LONG: Duration = Duration::from_secs(60);

    fn subscription() -> Subscription {
        let (_, store) = memory::open(3, Arc::new(SystemClock::default()));
        Subscription::new(Arc::new(store), feed("v"))
    }

    impl Subscription {
        async fn emit(&self, shard: u16, values: std::ops::Range<u64>) {
            let note = |value: u64| {
                let entry = point("a", &value.to_string(), value).encode();
                Operation::Append(Note { feed: self.feed().clone(), entry })
            };
            self.store.commit(Shard(shard), Commit::of(values.map(note))).await.unwrap();
        }
    }

    fn values(page: &Page) -> Vec<u64> {
        page.changes.iter().map(|(change, _)| change.as_ref().unwrap().revision).collect()
    }

    #[test]
    fn a_place_is_read_as_it_was_written_in_every_release() {
        let behind = Cursor::behind(300, Digest::of(b"consort"));
        let place = Place(vec![Cursor::START, behind, Cursor::at(u64::MAX >> 2)]);
        let written = place.encode();
        assert_eq!(written, "AQDbBB3Uy-5MdMtf7xpNg5wi_u_-_________38");
        assert_eq!(Place::decode(&written), Some(place));
        for wrong in ["", "A", "AQ=", "Ag", "AQGA", "AQM", &written[..30], "AQD_________________8B"]
        {
            assert!(Place::decode(wrong).is_none_or(|place| place.0.len() != 3), "{wrong}");
        }
    }

    #[tokio::test]
    async fn all_shards_are_read_and_every_place_goes_on_behind_its_row() {
        let feed = subscription();
        feed.emit(0, 0..3).await;
        feed.emit(2, 3..5).await;
        let start = feed.oldest().await.unwrap();
        let page = feed.read(&start, 100, Duration::ZERO).await.unwrap();
        let all = values(&page);
        assert_eq!(all.len(), 5);
        for (at, (_, place)) in page.changes.iter().enumerate() {
            let place = feed.place(&place.encode()).unwrap();
            let rest = feed.read(&place, 100, Duration::ZERO).await.unwrap();
            let mut seen: Vec<u64> = [&all[..=at], &values(&rest)].concat();
            seen.sort_unstable();
            assert_eq!(seen, [0, 1, 2, 3, 4]);
        }
        let end = feed.newest().await.unwrap();
        assert!(feed.read(&end, 100, Duration::ZERO).await.unwrap().changes.is_empty());
        let some = feed.read(&start, 2, Duration::ZERO).await.unwrap();
        assert_eq!((some.changes.len(), &some.changes[1].1), (2, &some.next));
    }

    #[tokio::test]
    async fn a_page_is_bounded_in_bytes_over_all_shards() {
        let feed = subscription();
        let large = format!("\"{}\"", "x".repeat(3 << 20));
        for shard in 0..3 {
            for revision in 0..2 {
                let entry = point("a", &large, revision).encode();
                let note = Note { feed: feed.feed().clone(), entry };
                let commit = Commit::of([Operation::Append(note)]);
                feed.store.commit(Shard(shard), commit).await.unwrap();
            }
        }
        let mut place = feed.oldest().await.unwrap();
        for left in [6, 3] {
            let page = feed.read(&place, 100, Duration::ZERO).await.unwrap();
            assert_eq!(page.changes.len(), 3, "of {left}: 8 MiB, and the one that passes them");
            place = page.next;
        }
        assert!(feed.read(&place, 100, Duration::ZERO).await.unwrap().changes.is_empty());
    }

    #[tokio::test]
    async fn a_large_page_is_decoded_in_steps() {
        let feed = subscription();
        let large = format!("\"{}\"", "x".repeat(64 << 10));
        for revision in 0..20 {
            let entry = point("a", &large, revision).encode();
            let append = Operation::Append(Note { feed: feed.feed().clone(), entry });
            feed.store.commit(Shard(0), Commit::of([append])).await.unwrap();
        }
        let start = feed.oldest().await.unwrap();
        let (mut reading, mut yields) = (pin!(feed.read(&start, 100, Duration::ZERO)), 0);
        let page = loop {
            match poll!(&mut reading) {
                Poll::Ready(page) => break page.unwrap(),
                Poll::Pending => yields += 1,
            }
        };
        assert_eq!((page.changes.len(), yields), (20, 20));
    }

    #[tokio::test]
    async fn a_reader_is_woken_by_any_shard() {
        let feed = subscription();
        let start = feed.oldest().await.unwrap();
        let reading = feed.read(&start, 10, LONG);
        let (page, ()) = tokio::join!(reading, feed.emit(1, 7..8));
        assert_eq!(values(&page.unwrap()), [7]);
    }

    #[tokio::test]
    async fn what_was_trimmed_or_lost_is_told() {
        let feed = subscription();
        feed.emit(1, 0..9).await;
        let start = feed.oldest().await.unwrap();
        let page = feed.read(&start, 3, Duration::ZERO).await.unwrap();
        feed.store.trim_feed(Shard(1), feed.feed(), 5).await.unwrap();
        let read = feed.read(&page.next, 3, LONG).await;
        assert!(matches!(read, Err(ReadError::Trimmed { first: 5, .. })), "{read:?}");
        let mut forged = feed.newest().await.unwrap();
        forged.0[1] = Cursor::behind(8, Digest::of(b"another"));
        let read = feed.read(&forged, 3, LONG).await;
        assert!(matches!(read, Err(ReadError::Lost { .. })), "{read:?}");
        assert_eq!(feed.place(&Place(vec![Cursor::START]).encode()), Err(BadCursor));
    }
}

//! What a subscriber sees.

use super::*;
use std::pin::pin;
use std::task::Poll;

use crate::fixtures::{feed, point};
use consort_kernel::{Commit, Digest, Note, Operation, SystemClock, memory};
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

fn values(page: &FeedPage) -> Vec<u64> {
    page.changes.iter().map(|row| row.change.as_ref().unwrap().revision).collect()
}

#[tokio::test]
async fn all_shards_are_read_and_every_cursor_goes_on_behind_its_row() {
    let feed = subscription();
    feed.emit(0, 0..3).await;
    feed.emit(2, 3..5).await;
    let start = feed.oldest().await.unwrap();
    let page = feed.read(&start, 100, Duration::ZERO).await.unwrap();
    let all = values(&page);
    assert_eq!(all.len(), 5);
    for (at, row) in page.changes.iter().enumerate() {
        let cursor = feed.cursor(&row.cursor.as_ref().unwrap().encode()).unwrap();
        let rest = feed.read(&cursor, 100, Duration::ZERO).await.unwrap();
        let mut seen: Vec<u64> = [&all[..=at], &values(&rest)].concat();
        seen.sort_unstable();
        assert_eq!(seen, [0, 1, 2, 3, 4]);
    }
    let end = feed.newest().await.unwrap();
    assert!(feed.read(&end, 100, Duration::ZERO).await.unwrap().changes.is_empty());
    let some = feed.read(&start, 2, Duration::ZERO).await.unwrap();
    assert_eq!((some.changes.len(), some.changes[1].cursor.as_ref()), (2, Some(&some.next)));
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
    let mut cursor = feed.oldest().await.unwrap();
    for left in [6, 3] {
        let page = feed.read(&cursor, 100, Duration::ZERO).await.unwrap();
        assert_eq!(page.changes.len(), 3, "of {left}: 8 MiB, and the one that passes them");
        cursor = page.next;
    }
    assert!(feed.read(&cursor, 100, Duration::ZERO).await.unwrap().changes.is_empty());
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
    forged.cursors[1] = Cursor::behind(8, Digest::of(b"another"));
    let read = feed.read(&forged, 3, LONG).await;
    assert!(matches!(read, Err(ReadError::Lost { .. })), "{read:?}");
    let short = FeedCursor { scope: CursorScope::All, cursors: vec![Cursor::START] };
    assert_eq!(feed.cursor(&short.encode()), Err(BadCursor::Unknown));
}

#[tokio::test]
async fn the_newest_cursor_knows_the_last_change_of_each_shard() {
    let feed = subscription();
    feed.emit(1, 0..9).await;
    let newest = feed.newest().await.unwrap();
    let known: Vec<Option<u64>> =
        newest.cursors.iter().map(|cursor| cursor.last.map(|(number, _)| number)).collect();
    assert_eq!(known, [None, Some(8), None]);
    // After a rollback another change stands under the number that the cursor knows.
    let rolled_back = subscription();
    rolled_back.emit(1, 20..29).await;
    let read = rolled_back.read(&newest, 3, LONG).await;
    assert!(matches!(read, Err(ReadError::Lost { number: 8, .. })), "{read:?}");
}

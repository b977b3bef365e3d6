//! The cases of the `Store` contract that concern feeds.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;
use tokio::time::timeout;

use super::{A_WHILE, PATIENCE, StoreHarness, name};
use crate::{
    Cell, Commit, CommitError, Cursor, Expect, FeedEntry, Key, Kind, Most, Name, Note, Operation,
    ReadError, Shard, Store, Value,
};

const SHARD: Shard = Shard(1);
const NO_WAIT: Duration = Duration::ZERO;

fn append(feed: &Name, entry: impl Into<Bytes>) -> Operation {
    Operation::Append(Note { feed: feed.clone(), entry: entry.into() })
}

async fn append_all(store: &Arc<dyn Store>, feed: &Name, texts: std::ops::Range<u64>) {
    for n in texts {
        let commit = Commit::of([append(feed, format!("entry {n}"))]);
        store.commit(SHARD, commit).await.expect("append");
    }
}

async fn read_all(store: &Arc<dyn Store>, shard: Shard, feed: &Name) -> Vec<FeedEntry> {
    store.feed(shard, feed, &Cursor::START, Most::default(), NO_WAIT).await.expect("feed")
}

fn numbers(entries: &[FeedEntry]) -> Vec<u64> {
    entries.iter().map(|entry| entry.number).collect()
}

pub async fn entries_are_numbered_without_gaps(harness: &dyn StoreHarness) {
    let (store, feed) = (harness.store(), name("changes"));
    assert_eq!(read_all(&store, SHARD, &feed).await, []);
    let several = (0..3).map(|n| append(&feed, format!("entry {n}")));
    store.commit(SHARD, Commit::of(several)).await.expect("commit");
    append_all(&store, &feed, 3..6).await;
    let entries = read_all(&store, SHARD, &feed).await;
    assert_eq!(numbers(&entries), [0, 1, 2, 3, 4, 5]);
    for (n, entry) in entries.iter().enumerate() {
        assert_eq!(entry.entry, format!("entry {n}"));
    }
    let every_byte: Vec<u8> = (0..=255).collect();
    let odd = [append(&feed, Bytes::new()), append(&feed, every_byte.clone())];
    store.commit(SHARD, Commit::of(odd)).await.expect("commit");
    let entries = read_all(&store, SHARD, &feed).await;
    assert_eq!(entries[6].entry, Bytes::new());
    assert_eq!(entries[7].entry, every_byte);
}

pub async fn a_stale_commit_appends_nothing(harness: &dyn StoreHarness) {
    let (store, feed) = (harness.store(), name("guarded"));
    let guard = Key::from(["guard"]);
    let commit = Commit::of([append(&feed, "never")])
        .expecting(Expect::Bytes(guard, Some(Bytes::from_static(b"held"))));
    assert_eq!(store.commit(SHARD, commit).await, Err(CommitError::Stale(vec![None])));
    append_all(&store, &feed, 0..1).await;
    assert_eq!(numbers(&read_all(&store, SHARD, &feed).await), [0]);
}

pub async fn an_entry_is_never_seen_before_the_cells_of_its_commit(harness: &dyn StoreHarness) {
    const COMMITS: u64 = 100;
    // So many that a commit which is not applied at one moment is seen half-way.
    const CELLS: u64 = 200;
    let (writer, reader) = (harness.store(), harness.elsewhere().await);
    let feed = name("together");
    let cell = |place: u64| Key::from(["together"]).with(place as i64);
    let writing = {
        let feed = feed.clone();
        tokio::spawn(async move {
            for n in 1..=COMMITS {
                let value = Bytes::copy_from_slice(&n.to_be_bytes());
                let put = |place| Operation::Put { key: cell(place), value: value.clone() };
                let commit = [append(&feed, value.clone())].into_iter().chain((0..CELLS).map(put));
                writer.commit(SHARD, Commit::of(commit)).await.expect("commit");
            }
        })
    };
    let cells = [0, CELLS / 2, CELLS - 1].map(|place| Cell::new(Kind::Bytes, cell(place)));
    let (mut cursor, mut seen) = (Cursor::START, 0);
    while seen < COMMITS {
        let page = next_page(&reader, &feed, &cursor).await;
        let last = page.last().expect("an entry within the wait");
        (cursor, seen) = (last.cursor(), seen + page.len() as u64);
        for value in reader.get(SHARD, &cells).await.expect("get") {
            let Some(Value::Bytes(value)) = value else { panic!("an entry without its cells") };
            assert!(value >= last.entry, "entry {:?} with the cells of {value:?}", last.entry);
        }
    }
    writing.await.expect("the writer");
}

/// The entries behind a cursor; waits for the first.
async fn next_page(store: &Arc<dyn Store>, feed: &Name, after: &Cursor) -> Vec<FeedEntry> {
    store.feed(SHARD, feed, after, Most::default(), PATIENCE).await.expect("feed")
}

pub async fn feeds_and_shards_are_apart(harness: &dyn StoreHarness) {
    let store = harness.store();
    let (a, b) = (name("a"), name("b"));
    for (shard, feed, text) in [(0, &a, "0a"), (0, &b, "0b"), (1, &a, "1a")] {
        store.commit(Shard(shard), Commit::of([append(feed, text)])).await.expect("commit");
    }
    for (shard, feed, text) in [(0, &a, "0a"), (0, &b, "0b"), (1, &a, "1a")] {
        let entries = read_all(&store, Shard(shard), feed).await;
        assert_eq!((numbers(&entries), &entries[0].entry[..]), (vec![0], text.as_bytes()));
    }
    assert_eq!(read_all(&store, Shard(1), &b).await, []);
}

pub async fn a_reader_goes_on_behind_its_cursor(harness: &dyn StoreHarness) {
    let (store, feed) = (harness.store(), name("resume"));
    append_all(&store, &feed, 0..7).await;
    let mut cursor = Cursor::START;
    let mut seen = Vec::new();
    loop {
        let page =
            store.feed(SHARD, &feed, &cursor, Most::entries(3), NO_WAIT).await.expect("feed");
        let Some(last) = page.last() else { break };
        cursor = last.cursor();
        seen.extend(numbers(&page));
    }
    assert_eq!(seen, (0..7).collect::<Vec<_>>());
    assert_eq!(cursor.next, 7);
}

pub async fn a_waiting_read_returns_when_an_entry_arrives(harness: &dyn StoreHarness) {
    let (store, feed) = (harness.elsewhere().await, name("waits"));
    let mut cursor = Cursor::START;
    for n in 0..4 {
        let mut reader = store.feed(SHARD, &feed, &cursor, Most::default(), PATIENCE);
        assert!(timeout(A_WHILE, &mut reader).await.is_err(), "it waits while there is nothing");
        append_all(&harness.store(), &feed, n..n + 1).await;
        let entries = reader.await.expect("feed");
        assert_eq!(numbers(&entries), [n]);
        cursor = entries[0].cursor();
    }
}

pub async fn a_waiting_read_ends_with_its_wait(harness: &dyn StoreHarness) {
    let wait = Duration::from_millis(50);
    let (store, feed) = (harness.store(), name("silent"));
    let read = store.feed(SHARD, &feed, &Cursor::START, Most::default(), wait).await;
    assert_eq!(read, Ok(vec![]));
}

pub async fn a_read_is_bounded_and_brings_at_least_one(harness: &dyn StoreHarness) {
    let (store, feed) = (harness.store(), name("bounds"));
    for _ in 0..5 {
        let entry = vec![7u8; 10_000];
        store.commit(SHARD, Commit::of([append(&feed, entry)])).await.expect("commit");
    }
    for (bytes, most) in [(1, 1), (15_000, 2), (1_000_000, 5)] {
        let bound = Most { entries: 5, bytes };
        let page = store.feed(SHARD, &feed, &Cursor::START, bound, NO_WAIT).await.expect("feed");
        assert!((1..=most).contains(&page.len()), "{} entries for {bytes} bytes", page.len());
    }
}

pub async fn trimming_keeps_the_numbers(harness: &dyn StoreHarness) {
    let (store, feed) = (harness.store(), name("trimmed"));
    append_all(&store, &feed, 0..10).await;
    let entries = read_all(&store, SHARD, &feed).await;
    store.trim_feed(SHARD, &feed, 6).await.expect("trim");
    let answer = store.feed(SHARD, &feed, &Cursor::START, Most::default(), NO_WAIT).await;
    match answer {
        Err(ReadError::Trimmed { first, .. }) => assert!((1..=6).contains(&first)),
        other => panic!("entries are gone and the reader was not told: {other:?}"),
    }
    let behind = entries[6].cursor();
    let rest = store.feed(SHARD, &feed, &behind, Most::default(), NO_WAIT).await;
    assert_eq!(rest.as_deref(), Ok(&entries[7..]));
    store.trim_feed(SHARD, &feed, u64::MAX).await.expect("trim");
    append_all(&store, &feed, 10..11).await;
    let newest = entries[9].cursor();
    let next = store.feed(SHARD, &feed, &newest, Most::default(), NO_WAIT).await.expect("feed");
    assert_eq!(numbers(&next), [10]);
}

pub async fn a_lost_tail_is_told_by_its_number(harness: &dyn StoreHarness) {
    let (store, feed) = (harness.store(), name("lost"));
    append_all(&store, &feed, 0..6).await;
    let entries = read_all(&store, SHARD, &feed).await;
    drop(store);
    harness.lose_feed_tail(SHARD, &feed, 4).await;
    let store = harness.store();
    let answer = store.feed(SHARD, &feed, &entries[5].cursor(), Most::default(), NO_WAIT).await;
    let lost = ReadError::Lost { number: 5, expected: entries[5].digest, found: None };
    assert_eq!(answer, Err(lost));
}

pub async fn a_lost_tail_that_grew_again_is_told_by_its_digest(harness: &dyn StoreHarness) {
    let (store, feed) = (harness.store(), name("regrown"));
    append_all(&store, &feed, 0..6).await;
    let entries = read_all(&store, SHARD, &feed).await;
    drop(store);
    harness.lose_feed_tail(SHARD, &feed, 4).await;
    let store = harness.store();
    append_all(&store, &feed, 100..110).await;
    let answer = store.feed(SHARD, &feed, &entries[5].cursor(), Most::default(), NO_WAIT).await;
    assert!(matches!(answer, Err(ReadError::Lost { number: 5, found: Some(_), .. })), "{answer:?}");
}

pub async fn concurrent_appends_leave_no_gap(harness: &dyn StoreHarness) {
    let (store, feed) = (harness.store(), name("crowded"));
    let writers = (0..8).map(|writer| {
        let (store, feed) = (store.clone(), feed.clone());
        tokio::spawn(async move {
            for n in 0..20 {
                let commit = Commit::of([append(&feed, format!("{writer} {n}"))]);
                store.commit(SHARD, commit).await.expect("append");
            }
        })
    });
    for writer in join_all(writers).await {
        writer.expect("a writer");
    }
    let entries = read_all(&store, SHARD, &feed).await;
    assert_eq!(numbers(&entries), (0..160).collect::<Vec<_>>());
    let mut texts: Vec<&Bytes> = entries.iter().map(|entry| &entry.entry).collect();
    texts.sort_unstable();
    texts.dedup();
    assert_eq!(texts.len(), 160, "each entry once");
}

//! Subscribers that read a part of a feed, or states.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use consort_feeds::{
    BadCursor, FeedCursor, FeedPage, FeedSelection, SendMode, Subject, Subscription,
};
use consort_kernel::limits::PAGE_BYTES;

use crate::bed::PATIENCE;
use crate::documents::{Archive, feed, shown, subject};

const NOW: Duration = Duration::ZERO;

fn subscribe(archive: &Archive, selection: FeedSelection) -> Subscription {
    Subscription::with_selection(archive.store.clone(), feed(&[]), selection).unwrap()
}

fn tenant(tenant: &str) -> FeedSelection {
    FeedSelection { tenant: Some(tenant.into()), ..FeedSelection::default() }
}

fn one(subject: &Subject) -> FeedSelection {
    FeedSelection { subject: Some(subject.clone()), ..FeedSelection::default() }
}

fn states() -> FeedSelection {
    FeedSelection { send: SendMode::States, ..FeedSelection::default() }
}

fn rows(page: &FeedPage) -> Vec<String> {
    let mut rows: Vec<String> =
        page.changes.iter().map(|row| shown(row.change.as_ref().unwrap())).collect();
    rows.sort();
    rows
}

#[tokio::test]
async fn rows_of_another_tenant_are_not_in_the_page_although_the_cursor_moves() {
    let archive = Archive::new(3);
    for id in ["a", "b", "c"] {
        archive.store(&subject("mine", id), 1..=2).await;
        archive.store(&subject("theirs", id), 1..=5).await;
    }
    let mine = subscribe(&archive, tenant("mine"));
    let start = mine.oldest().await.unwrap();
    let page = mine.read(&start, 100, NOW).await.unwrap();
    assert_eq!(rows(&page).len(), 6);
    assert!(rows(&page).iter().all(|row| row.starts_with("mine/")), "{:?}", rows(&page));

    archive.store(&subject("theirs", "a"), 6..=9).await;
    let empty = mine.read(&page.next, 100, NOW).await.unwrap();
    assert_eq!((rows(&empty).len(), empty.next == page.next), (0, false));
    // One that waits is not ended by rows that it does not get.
    let a = subject("mine", "a");
    let waiting = mine.read(&page.next, 100, PATIENCE);
    let (page, ()) = tokio::join!(waiting, archive.store(&a, 3..=3));
    assert_eq!(rows(&page.unwrap()), ["mine/a 2-3"]);
}

#[tokio::test]
async fn a_limit_counts_the_rows_that_the_subscriber_gets() {
    let archive = Archive::new(1);
    for version in 1..=9 {
        archive.store(&subject("theirs", "a"), version..=version).await;
        archive.store(&subject("mine", "a"), version..=version).await;
    }
    let mine = subscribe(&archive, tenant("mine"));
    let (mut cursor, mut seen) = (mine.oldest().await.unwrap(), Vec::new());
    loop {
        let page = mine.read(&cursor, 2, NOW).await.unwrap();
        assert!(page.changes.len() <= 2);
        if page.changes.is_empty() {
            break;
        }
        seen.extend(rows(&page));
        cursor = page.next;
    }
    assert_eq!(seen, Vec::from_iter((1..=9).map(|n| format!("mine/a {}-{n}", n - 1))));
}

#[tokio::test]
async fn one_document_is_read_from_its_one_shard() {
    let archive = Archive::new(3);
    let (a, b) = (subject("t", "a"), subject("t", "b"));
    archive.store(&a, 1..=3).await;
    archive.store(&b, 1..=3).await;
    // In the same shard, under the same id.
    archive.store(&subject("u", "a"), 1..=3).await;
    let reader = subscribe(&archive, one(&a));
    let start = reader.oldest().await.unwrap();
    let page = reader.read(&start, 2, NOW).await.unwrap();
    assert_eq!(rows(&page), ["t/a 0-1", "t/a 1-2"]);
    // A cursor of one document is no cursor of the whole feed, nor of a document in another shard.
    let written = page.next.encode();
    assert_eq!(reader.cursor(&written), Ok(page.next));
    let all = Subscription::new(archive.store.clone(), feed(&[]));
    assert_eq!(all.cursor(&written), Err(BadCursor::OtherSubject));
    assert_eq!(subscribe(&archive, one(&b)).cursor(&written), Err(BadCursor::OtherSubject));
    // A cursor over all shards serves it.
    let newest = all.newest().await.unwrap().encode();
    archive.store(&a, 4..=4).await;
    archive.store(&b, 4..=4).await;
    let from = reader.cursor(&newest).unwrap();
    assert_eq!(rows(&reader.read(&from, 9, NOW).await.unwrap()), ["t/a 3-4"]);
}

#[tokio::test]
async fn a_page_of_states_has_each_document_once() {
    let archive = Archive::new(3);
    for version in 1..=5 {
        for id in ["a", "b", "c", "d"] {
            archive.store(&subject("t", id), version..=version).await;
        }
    }
    archive.delete(&subject("t", "d"), 6).await;
    let reader = subscribe(&archive, states());
    let page = reader.read(&reader.oldest().await.unwrap(), 100, NOW).await.unwrap();
    let expected = ["t/a 0-5 state", "t/b 0-5 state", "t/c 0-5 state", "t/d 0-6 delete"];
    assert_eq!(rows(&page), expected);
    assert!(reader.read(&page.next, 100, NOW).await.unwrap().changes.is_empty());
    // A page that ends early ends before the first change that none of its states stands for.
    let mut cursor = reader.oldest().await.unwrap();
    let mut seen = Vec::new();
    for _ in 0..20 {
        let page = reader.read(&cursor, 1, NOW).await.unwrap();
        seen.extend(rows(&page));
        cursor = page.next;
    }
    for (id, end) in [("a", "-5 state"), ("b", "-5 state"), ("c", "-5 state"), ("d", "-6 delete")] {
        let last = seen.iter().rfind(|row| row.starts_with(&format!("t/{id}")));
        assert!(last.is_some_and(|row| row.ends_with(end)), "{seen:?}");
    }
}

#[tokio::test]
async fn a_page_of_states_is_bounded_in_bytes() {
    let archive = Archive::new(1);
    let ids = ["a", "b", "c", "d", "e", "f"];
    for id in ids {
        archive.store_large(&subject("t", id), 1..=2, 3 << 20).await;
    }
    let reader = subscribe(&archive, states());
    let (mut cursor, mut seen) = (reader.oldest().await.unwrap(), Vec::new());
    while seen.len() < ids.len() {
        let page = reader.read(&cursor, 100, NOW).await.unwrap();
        let sizes = page.changes.iter().map(|row| row.change.as_ref().unwrap().payload.get().len());
        let bytes: usize = sizes.sum();
        assert!(!page.changes.is_empty() && bytes < PAGE_BYTES + (4 << 20), "{bytes}");
        seen.extend(rows(&page));
        cursor = page.next;
    }
    assert_eq!(seen, ids.map(|id| format!("t/{id} 0-2 state")));
}

/// Reads a page of states and applies it as a cache does. Tells the documents that went backwards.
async fn apply(
    reader: &Subscription,
    cursor: FeedCursor,
    cache: &mut BTreeMap<String, u64>,
) -> FeedCursor {
    let page = reader.read(&cursor, 7, NOW).await.unwrap();
    for row in &page.changes {
        let change = row.change.as_ref().unwrap();
        let version = cache.entry(change.subject.clone()).or_default();
        assert!(change.revision >= *version, "{} went backwards", change.subject);
        *version = change.revision;
    }
    page.next
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn states_never_go_backwards_and_end_with_the_latest() {
    const LAST: u64 = 300;
    let archive = Archive::new(3);
    let writer = archive.clone();
    let writing = tokio::spawn(async move {
        for version in 1..=LAST {
            for id in ["a", "b", "c", "d"] {
                writer.store(&subject("t", id), version..=version).await;
            }
        }
    });
    let reader = subscribe(&archive, states());
    let (mut cursor, mut cache) = (reader.oldest().await.unwrap(), BTreeMap::new());
    while !writing.is_finished() {
        // Each page is read by another subscriber: the cursor alone says where it stands.
        let reader = subscribe(&archive, states());
        let written = reader.cursor(&cursor.encode()).unwrap();
        cursor = apply(&reader, written, &mut cache).await;
    }
    writing.await.unwrap();
    let newest = reader.newest().await.unwrap();
    while cursor != newest {
        cursor = apply(&reader, cursor, &mut cache).await;
    }
    let expected = ["a", "b", "c", "d"].map(|id| (id.to_owned(), LAST));
    assert_eq!(cache, BTreeMap::from(expected));
}

/// A snapshot is scanned behind the newest cursor while versions are written.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_snapshot_and_the_changes_behind_its_cursor_equal_a_replay() {
    const LAST: u64 = 200;
    let archive = Archive::new(3);
    let ids = ["a", "b", "c", "d"];
    let (writer, middle) = (archive.clone(), Arc::new(tokio::sync::Notify::new()));
    let begin = middle.clone();
    let writing = tokio::spawn(async move {
        for version in 1..=LAST {
            for id in ids {
                writer.store(&subject("t", id), version..=version).await;
            }
            if version == LAST / 4 {
                begin.notify_one();
            }
        }
    });
    middle.notified().await;
    let reader = Subscription::new(archive.store.clone(), feed(&[]));
    let cursor = reader.newest().await.unwrap();
    let mut replica: BTreeMap<String, u64> = BTreeMap::new();
    // The scan: states of all documents, each at some moment after the cursor.
    let scan = subscribe(&archive, states());
    let listed = scan.read(&scan.oldest().await.unwrap(), 100, NOW).await.unwrap();
    for row in listed.changes {
        let change = row.change.unwrap();
        replica.insert(change.subject.clone(), change.revision);
    }
    assert_eq!(replica.len(), ids.len());
    writing.await.unwrap();
    let mut cursor = cursor;
    loop {
        let page = reader.read(&cursor, 100, NOW).await.unwrap();
        if page.changes.is_empty() {
            break;
        }
        for row in page.changes {
            let change = row.change.unwrap();
            let version = replica.get_mut(&change.subject).unwrap();
            // Rows that are not above the listed version are skipped; no version between is missing.
            if change.revision > *version {
                assert_eq!(
                    change.revision,
                    *version + 1,
                    "a version of {} is missing",
                    change.subject
                );
                *version = change.revision;
            }
        }
        cursor = page.next;
    }
    assert_eq!(replica, BTreeMap::from(ids.map(|id| (id.to_owned(), LAST))));
}

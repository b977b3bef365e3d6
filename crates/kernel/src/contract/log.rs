//! The cases of the `Log` contract.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;
use tokio::time::timeout;

use super::{A_WHILE, LogHarness, PATIENCE, frame, partition};
use crate::limits::{FRAME_BYTES, RECORD_BYTES};
use crate::{AppendError, Cursor, Frame, FrameKind, Log, LogEntry, Most, Partition, ReadError};

const NO_WAIT: Duration = Duration::ZERO;
/// Frame header and record length: what a frame of one record has beyond the record.
const OVERHEAD: usize = 44;

async fn append_all(log: &Arc<dyn Log>, at: &Partition, frames: impl IntoIterator<Item = Frame>) {
    for frame in frames {
        log.append(at, &frame).await.expect("append");
    }
}

/// Reads from `cursor` until `count` entries have come, waiting for them.
async fn read_some(
    log: &Arc<dyn Log>,
    at: &Partition,
    mut cursor: Cursor,
    count: usize,
) -> Vec<LogEntry> {
    let mut entries = Vec::new();
    while entries.len() < count {
        let page = log.read(at, &cursor, Most::default(), PATIENCE).await.expect("read");
        let last = page.last().expect("an entry within the suite's patience");
        cursor = last.cursor();
        entries.extend(page);
    }
    entries
}

fn sequences(entries: &[LogEntry]) -> Vec<u64> {
    entries.iter().map(|entry| entry.frame.sequence).collect()
}

pub async fn entries_come_back_in_order(harness: &dyn LogHarness) {
    let (log, at) = (harness.log(), partition("orders", 0));
    append_all(&log, &at, (0..50).map(|n| frame(1, n))).await;
    let entries = read_some(&log, &at, Cursor::START, 50).await;
    assert_eq!(sequences(&entries), (0..50).collect::<Vec<_>>());
    assert!(entries.is_sorted_by(|a, b| a.offset < b.offset), "offsets grow");
    assert_eq!(log.first(&at).await, Ok(entries[0].offset));
}

pub async fn a_frame_comes_back_whole(harness: &dyn LogHarness) {
    let (log, at) = (harness.log(), partition("whole", 3));
    let mut written = frame(u64::MAX, u64::MAX);
    written.kind = FrameKind::Control;
    written.records = vec![
        Bytes::new(),
        Bytes::from((0..=255u8).collect::<Vec<_>>()),
        Bytes::from_static(b"\r\n\0 text"),
    ]
    .into();
    append_all(&log, &at, [written.clone()]).await;
    let entries = read_some(&log, &at, Cursor::START, 1).await;
    assert_eq!(entries[0].frame, written);
}

pub async fn partitions_and_streams_are_apart(harness: &dyn LogHarness) {
    let log = harness.log();
    let places = [partition("a", 0), partition("a", 1), partition("b", 0), partition("a.b", 0)];
    for (n, at) in places.iter().enumerate() {
        append_all(&log, at, [frame(n as u64, 7)]).await;
    }
    for (n, at) in places.iter().enumerate() {
        let entries = read_some(&log, at, Cursor::START, 1).await;
        assert_eq!(entries[0].frame, frame(n as u64, 7));
        let behind = entries[0].cursor();
        assert_eq!(log.read(at, &behind, Most::default(), NO_WAIT).await, Ok(vec![]));
    }
}

pub async fn an_empty_partition_reads_as_nothing(harness: &dyn LogHarness) {
    let (log, at) = (harness.log(), partition("empty", 5));
    assert_eq!(log.first(&at).await, Ok(0));
    assert_eq!(log.read(&at, &Cursor::START, Most::default(), NO_WAIT).await, Ok(vec![]));
    assert_eq!(log.trim(&at, 10).await, Ok(()));
    append_all(&log, &at, [frame(1, 1)]).await;
    assert_eq!(sequences(&read_some(&log, &at, Cursor::START, 1).await), [1]);
}

pub async fn a_repeat_after_an_unknown_outcome_is_there_twice_in_order(harness: &dyn LogHarness) {
    let (log, at) = (harness.log(), partition("repeats", 0));
    let sent = [frame(1, 1), frame(1, 2), frame(1, 2), frame(1, 3)];
    append_all(&log, &at, sent).await;
    let entries = read_some(&log, &at, Cursor::START, 4).await;
    assert_eq!(sequences(&entries), [1, 2, 2, 3]);
    assert_eq!(entries[1].frame, entries[2].frame);
}

pub async fn overlapping_appends_all_land_once(harness: &dyn LogHarness) {
    const PRODUCERS: u64 = 8;
    const EACH: u64 = 25;
    let (log, at) = (harness.log(), partition("busy", 0));
    let producers = (0..PRODUCERS).map(|producer| {
        let (log, at) = (log.clone(), at.clone());
        tokio::spawn(async move {
            append_all(&log, &at, (0..EACH).map(|n| frame(producer, n))).await;
        })
    });
    for producer in join_all(producers).await {
        producer.expect("a producer");
    }
    let entries = read_some(&log, &at, Cursor::START, (PRODUCERS * EACH) as usize).await;
    for producer in 0..PRODUCERS {
        let own = entries.iter().filter(|entry| entry.frame.producer.0 == producer);
        let own: Vec<u64> = own.map(|entry| entry.frame.sequence).collect();
        assert_eq!(own, (0..EACH).collect::<Vec<_>>(), "each producer's frames in its order");
    }
}

pub async fn frames_appended_together_all_land_but_those_refused(harness: &dyn LogHarness) {
    let log = harness.log();
    let large = |bytes| {
        let records = vec![Bytes::from(vec![7; bytes])].into();
        Frame { records, ..frame(1, 0) }
    };
    // Together they are more than an engine may want to write at once.
    let sizes = [1, RECORD_BYTES, RECORD_BYTES + 1, RECORD_BYTES, 0, RECORD_BYTES];
    let at = |n: usize| partition("together", n as u32);
    let frames: Vec<(Partition, Frame)> =
        sizes.iter().enumerate().map(|(n, bytes)| (at(n), large(*bytes))).collect();
    let outcomes = log.append_all(&frames).await;
    assert_eq!(outcomes.len(), frames.len());
    for (n, outcome) in outcomes.iter().enumerate() {
        let read = log.read(&at(n), &Cursor::START, Most::default(), NO_WAIT).await.expect("read");
        let read: Vec<&Frame> = read.iter().map(|entry| &entry.frame).collect();
        if sizes[n] > RECORD_BYTES {
            assert!(matches!(outcome, Err(AppendError::Refused(_))), "{outcome:?}");
            assert!(read.is_empty());
        } else {
            assert_eq!(*outcome, Ok(()));
            assert!(read == [&frames[n].1], "the frame of partition {n}");
        }
    }
    assert_eq!(log.append_all(&[]).await, []);
}

pub async fn a_reader_goes_on_behind_its_cursor(harness: &dyn LogHarness) {
    let (log, at) = (harness.log(), partition("resume", 0));
    append_all(&log, &at, (0..10).map(|n| frame(1, n))).await;
    let mut seen = Vec::new();
    let mut cursor = Cursor::START;
    while seen.len() < 10 {
        let page = log.read(&at, &cursor, Most::entries(3), PATIENCE).await.expect("read");
        assert!((1..=3).contains(&page.len()));
        cursor = page[page.len() - 1].cursor();
        seen.extend(sequences(&page));
    }
    assert_eq!(seen, (0..10).collect::<Vec<_>>());
    append_all(&log, &at, [frame(1, 10)]).await;
    assert_eq!(sequences(&read_some(&log, &at, cursor, 1).await), [10]);
    let again = read_some(&log, &at, Cursor::START, 11).await;
    let unvouched = Cursor::at(again[4].offset);
    assert_eq!(read_some(&log, &at, unvouched, 7).await, again[4..]);
}

pub async fn a_read_is_bounded_and_brings_at_least_one(harness: &dyn LogHarness) {
    let (log, at) = (harness.log(), partition("bounds", 0));
    append_all(&log, &at, (0..6).map(|n| large(n, 10_000))).await;
    let one = Most { entries: 100, bytes: 1 };
    let page = log.read(&at, &Cursor::START, one, PATIENCE).await.expect("read");
    assert_eq!(sequences(&page), [0]);
    let few = Most { entries: 100, bytes: 25_000 };
    let page = log.read(&at, &Cursor::START, few, PATIENCE).await.expect("read");
    assert!((1..=3).contains(&page.len()), "{} entries", page.len());
    let page = log.read(&at, &Cursor::START, Most::entries(2), PATIENCE).await.expect("read");
    assert!((1..=2).contains(&page.len()), "{} entries", page.len());
}

pub async fn a_waiting_read_returns_when_a_frame_arrives(harness: &dyn LogHarness) {
    let (log, at) = (harness.log(), partition("waits", 0));
    append_all(&log, &at, [frame(1, 0)]).await;
    let mut cursor = read_some(&log, &at, Cursor::START, 1).await[0].cursor();
    for n in 1..5 {
        let mut reader = log.read(&at, &cursor, Most::default(), PATIENCE);
        assert!(timeout(A_WHILE, &mut reader).await.is_err(), "it waits while there is nothing");
        append_all(&log, &at, [frame(1, n)]).await;
        let entries = reader.await.expect("read");
        assert_eq!(sequences(&entries), [n]);
        cursor = entries[0].cursor();
    }
}

pub async fn a_waiting_read_ends_with_its_wait(harness: &dyn LogHarness) {
    let (log, at) = (harness.log(), partition("silent", 0));
    let wait = Duration::from_millis(50);
    assert_eq!(log.read(&at, &Cursor::START, Most::default(), wait).await, Ok(vec![]));
    append_all(&log, &at, [frame(1, 0)]).await;
    let cursor = read_some(&log, &at, Cursor::START, 1).await[0].cursor();
    assert_eq!(log.read(&at, &cursor, Most::default(), wait).await, Ok(vec![]));
}

pub async fn trimming_moves_the_first_entry_only_forward(harness: &dyn LogHarness) {
    let (log, at) = (harness.log(), partition("trim", 0));
    append_all(&log, &at, (0..10).map(|n| frame(1, n))).await;
    let entries = read_some(&log, &at, Cursor::START, 10).await;
    log.trim(&at, entries[6].offset).await.expect("trim");
    let first = log.first(&at).await.expect("first");
    assert!(first <= entries[6].offset, "nothing at or above the bound may go");
    log.trim(&at, entries[2].offset).await.expect("trim");
    assert!(log.first(&at).await.expect("first") >= first);
    assert_eq!(read_some(&log, &at, entries[6].cursor(), 3).await, entries[7..]);

    log.trim(&at, u64::MAX).await.expect("trim");
    let newest = &entries[9];
    let first = log.first(&at).await.expect("first");
    assert!(first <= newest.offset, "the newest entry stays: cursors vouch for it");
    append_all(&log, &at, [frame(1, 10)]).await;
    let next = read_some(&log, &at, newest.cursor(), 1).await;
    assert_eq!(sequences(&next), [10]);
    assert!(next[0].offset > newest.offset, "numbers are not used again");
}

pub async fn what_was_trimmed_is_told(harness: &dyn LogHarness) {
    let (log, at) = (harness.log(), partition("trimmed", 0));
    append_all(&log, &at, (0..10).map(|n| frame(1, n))).await;
    let entries = read_some(&log, &at, Cursor::START, 10).await;
    log.trim(&at, entries[5].offset).await.expect("trim");
    let first = log.first(&at).await.expect("first");
    for cursor in [Cursor::START, entries[1].cursor(), entries[4].cursor(), entries[5].cursor()] {
        let needed = cursor.last.map_or(cursor.next, |(number, _)| number);
        let answer = log.read(&at, &cursor, Most::default(), NO_WAIT).await;
        if needed < first {
            assert_eq!(answer, Err(ReadError::Trimmed { cursor, first }));
        } else {
            assert!(answer.is_ok(), "{answer:?}");
        }
    }
}

pub async fn a_lost_tail_is_told_by_its_number(harness: &dyn LogHarness) {
    let (log, at) = (harness.log(), partition("lost", 0));
    append_all(&log, &at, (0..6).map(|n| frame(1, n))).await;
    let entries = read_some(&log, &at, Cursor::START, 6).await;
    drop(log);
    harness.lose_tail(&at, entries[4].offset).await;
    let log = harness.log();
    let answer = log.read(&at, &entries[5].cursor(), Most::default(), PATIENCE).await;
    let lost =
        ReadError::Lost { number: entries[5].offset, expected: entries[5].digest, found: None };
    assert_eq!(answer, Err(lost));
    let unharmed = log.read(&at, &entries[2].cursor(), Most::default(), PATIENCE).await;
    assert_eq!(unharmed.map(|page| sequences(&page)), Ok(vec![3]));
}

pub async fn a_lost_tail_that_grew_again_is_told_by_its_digest(harness: &dyn LogHarness) {
    let (log, at) = (harness.log(), partition("regrown", 0));
    append_all(&log, &at, (0..6).map(|n| frame(1, n))).await;
    let entries = read_some(&log, &at, Cursor::START, 6).await;
    drop(log);
    harness.lose_tail(&at, entries[4].offset).await;
    let log = harness.log();
    append_all(&log, &at, (0..6).map(|n| frame(2, n))).await;
    match log.read(&at, &entries[5].cursor(), Most::default(), PATIENCE).await {
        Err(ReadError::Lost { number, expected, found }) => {
            assert_eq!((number, expected), (entries[5].offset, entries[5].digest));
            assert_ne!(found, Some(expected));
        }
        other => panic!("a reader went on over a lost tail: {other:?}"),
    }
    let regrown = read_some(&log, &at, entries[3].cursor(), 6).await;
    assert!(regrown.iter().all(|entry| entry.frame.producer.0 == 2));
}

pub async fn no_entry_below_the_cursor_is_returned(harness: &dyn LogHarness) {
    let (log, at) = (harness.log(), partition("beyond", 0));
    append_all(&log, &at, (0..3).map(|n| frame(1, n))).await;
    let entries = read_some(&log, &at, Cursor::START, 3).await;
    let beyond = Cursor::at(entries[2].offset + 3);
    let short = Duration::from_millis(50);
    assert_eq!(log.read(&at, &beyond, Most::default(), short).await, Ok(vec![]));
    append_all(&log, &at, (3..9).map(|n| frame(1, n))).await;
    let page = log.read(&at, &beyond, Most::default(), PATIENCE).await.expect("read");
    assert!(!page.is_empty());
    assert!(page.iter().all(|entry| entry.offset >= beyond.next), "{page:?}");
}

pub async fn a_flipped_bit_is_reported_and_never_returned(harness: &dyn LogHarness) {
    let (log, at) = (harness.log(), partition("damaged", 0));
    append_all(&log, &at, (0..5).map(|n| frame(1, n))).await;
    let entries = read_some(&log, &at, Cursor::START, 5).await;
    drop(log);
    harness.corrupt(&at, entries[2].offset).await;
    let log = harness.log();
    let sound = read_some(&log, &at, Cursor::START, 2).await;
    assert_eq!(sequences(&sound), [0, 1], "what stands before the damage is returned");
    match log.read(&at, &sound[1].cursor(), Most::default(), PATIENCE).await {
        Err(ReadError::Corrupt { number, .. }) => assert_eq!(number, entries[2].offset),
        other => panic!("a damaged frame was not reported: {other:?}"),
    }
    let behind = Cursor::at(entries[3].offset);
    assert_eq!(sequences(&read_some(&log, &at, behind, 2).await), [3, 4]);
}

pub async fn the_largest_frame_fits_and_a_larger_one_is_refused(harness: &dyn LogHarness) {
    let (log, at) = (harness.log(), partition("large", 0));
    let record = Bytes::from(vec![0xA5; RECORD_BYTES]);
    let rest = Bytes::from(vec![0x5A; FRAME_BYTES - RECORD_BYTES - OVERHEAD - 4]);
    let mut largest = frame(1, 1);
    largest.records = vec![record, rest].into();
    assert_eq!(largest.encoded_len(), FRAME_BYTES);
    append_all(&log, &at, [largest.clone()]).await;

    let mut over = largest.clone();
    over.records = over.records.iter().chain([&[][..]]).collect();
    let refused = log.append(&at, &over).await;
    assert!(matches!(refused, Err(AppendError::Refused(_))), "{refused:?}");
    let refused = log.append(&at, &large(2, RECORD_BYTES + 1)).await;
    assert!(matches!(refused, Err(AppendError::Refused(_))), "{refused:?}");

    append_all(&log, &at, [frame(1, 2)]).await;
    let entries = read_some(&log, &at, Cursor::START, 2).await;
    assert_eq!(entries[0].frame, largest);
    assert_eq!(sequences(&entries), [1, 2], "what was refused left nothing behind");
}

pub async fn every_reader_sees_the_same(harness: &dyn LogHarness) {
    let (log, at) = (harness.log(), partition("shared", 0));
    let readers: Vec<_> = (0..4)
        .map(|_| {
            let (log, at) = (log.clone(), at.clone());
            tokio::spawn(async move { read_some(&log, &at, Cursor::START, 40).await })
        })
        .collect();
    append_all(&log, &at, (0..40).map(|n| frame(1, n))).await;
    let seen = join_all(readers).await;
    let first = seen[0].as_ref().expect("a reader");
    assert_eq!(sequences(first), (0..40).collect::<Vec<_>>());
    assert!(seen.iter().all(|entries| entries.as_ref().expect("a reader") == first));
}

pub async fn a_ping_is_answered(harness: &dyn LogHarness) {
    assert_eq!(harness.log().ping().await, Ok(()));
}

fn large(sequence: u64, bytes: usize) -> Frame {
    let mut large = frame(1, sequence);
    large.records = vec![Bytes::from(vec![sequence as u8; bytes])].into();
    large
}

//! The independent fold: reads the log as it stands, and counts by itself.
//!
//! It shares the form of a record and the names of the cells with the tally, and nothing of the worker.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::Duration;

use bytes::Bytes;
use consort_engines::Engine;
use consort_kernel::{Cursor, Digest, FrameKind, LogEntry, Most};
use futures::future::join_all;
use tokio::time::Instant;

use crate::tally::{self, Entry, PARTITIONS};

/// How long a read waits for more before a partition counts as read to its end. A broker on a busy machine
/// may take its time; below the time of a tick, or there would be no end.
const END_WAIT: Duration = Duration::from_secs(1);

/// How long what was applied may take to be read again.
const READ_WITHIN: Duration = Duration::from_secs(60);

/// What a key's or a group's cells must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// The values in the order of the log, of one partition after the other.
    pub values: Vec<u64>,
    /// Number of records, and the digest over them in their order.
    pub chain: Option<(u64, Digest)>,
    /// Rank and value of the last.
    pub last: Option<(Bytes, u64)>,
    /// Records whose id was there before.
    pub duplicates: u64,
}

impl Count {
    /// The values without their order.
    pub fn set(&self) -> BTreeSet<u64> {
        self.values.iter().copied().collect()
    }
}

/// What the whole log comes to.
#[derive(Clone, Debug, Default)]
pub struct Fold {
    /// By key.
    pub keys: BTreeMap<String, Count>,
    /// By group.
    pub groups: BTreeMap<String, Count>,
    /// By partition, the offset of the last frame with events.
    pub ends: BTreeMap<u32, u64>,
    /// Frames with events that count.
    pub frames: u64,
    /// Frames that stood in the log again.
    pub repeats: u64,
    /// Control frames.
    pub controls: u64,
}

impl Fold {
    /// Reads and counts everything.
    ///
    /// # Panics
    ///
    /// If the log cannot be read, or ends before what was applied.
    pub async fn of(engine: &Engine) -> Fold {
        let mut fold = Fold::default();
        for (index, entries) in
            (0..).zip(join_all((0..PARTITIONS).map(|at| read(engine, at))).await)
        {
            fold.partition(index, &entries);
        }
        fold
    }

    fn partition(&mut self, index: u32, entries: &[LogEntry]) {
        let mut passed: HashMap<u64, u64> = HashMap::new();
        let mut ids: HashSet<String> = HashSet::new();
        for entry in entries {
            let frame = &entry.frame;
            let last = passed.get(&frame.producer.0).copied();
            let repeated = last.is_some_and(|last| frame.sequence <= last);
            passed.insert(frame.producer.0, last.map_or(frame.sequence, |l| l.max(frame.sequence)));
            if frame.kind == FrameKind::Control {
                self.controls += 1;
                continue;
            }
            self.ends.insert(index, entry.offset);
            if repeated {
                self.repeats += 1;
                continue;
            }
            self.frames += 1;
            for (at, record) in frame.records.iter().enumerate() {
                let text = std::str::from_utf8(record).expect("records are text");
                let read: Entry = text.parse().expect("records are entries");
                let rank = tally::rank(frame.time.0, index, entry.offset, at as u32);
                let fresh = ids.insert(read.id.clone());
                self.record(&read, record, rank, fresh);
            }
        }
    }

    fn record(&mut self, entry: &Entry, record: &[u8], rank: Bytes, fresh: bool) {
        let key = self.keys.entry(entry.key.clone()).or_default();
        if !fresh {
            key.duplicates += 1;
            return;
        }
        let (length, before) = match &key.chain {
            Some((length, digest)) => {
                (*length, [&length.to_be_bytes()[..], &digest.0[..]].concat())
            }
            None => (0, Vec::new()),
        };
        key.chain = Some((length + 1, Digest::of(&[&before[..], record].concat())));
        let group = self.groups.entry(tally::group_of(entry.value)).or_default();
        for count in [key, group] {
            count.values.push(entry.value);
            if count.last.as_ref().is_none_or(|(highest, _)| *highest < rank) {
                count.last = Some((rank.clone(), entry.value));
            }
        }
    }
}

/// All entries of a partition: at least those that were applied.
async fn read(engine: &Engine, index: u32) -> Vec<LogEntry> {
    let checkpoint = tally::cells(index).read_checkpoint(&*engine.store).await;
    let applied = checkpoint.expect("the checkpoint can be read").stand.next;
    let at = tally::partition(index);
    let (mut entries, mut cursor): (Vec<LogEntry>, _) = (Vec::new(), Cursor::START);
    let deadline = Instant::now() + READ_WITHIN;
    loop {
        let page = engine.log.read(&at, &cursor, Most::default(), END_WAIT).await;
        let page = page.unwrap_or_else(|error| panic!("{at}: {error}"));
        match page.last() {
            Some(last) => cursor = last.cursor(),
            None if cursor.next >= applied => return entries,
            None => assert!(
                Instant::now() < deadline,
                "{at} was applied up to {applied}, and the log ends at {}",
                cursor.next
            ),
        }
        entries.extend(page);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use consort_kernel::{Frame, Producer, Timestamp};

    fn frame(offset: u64, producer: u64, sequence: u64, records: &[&'static str]) -> LogEntry {
        let records = records.iter().collect();
        let (producer, time) = (Producer(producer), Timestamp(offset));
        let frame = Frame { kind: FrameKind::Events, producer, sequence, time, records };
        LogEntry { offset, digest: Digest::of(&offset.to_be_bytes()), frame }
    }

    #[test]
    fn repeats_and_duplicates_count_once() {
        let mut fold = Fold::default();
        fold.partition(
            0,
            &[
                frame(0, 1, 0, &["a 1 r1", "b 2 r2"]),
                frame(1, 1, 0, &["a 1 r1", "b 2 r2"]),
                frame(2, 2, 0, &["a 3 r3", "a 1 r1"]),
                frame(3, 1, 1, &["a 4 r4"]),
            ],
        );
        assert_eq!(fold.keys["a"].values, [1, 3, 4]);
        assert_eq!(fold.keys["a"].duplicates, 1);
        assert_eq!(fold.keys["a"].last.as_ref().map(|(_, value)| *value), Some(4));
        assert_eq!(fold.keys["b"].chain.map(|(length, _)| length), Some(1));
        assert_eq!((fold.frames, fold.repeats, fold.ends[&0]), (3, 1, 3));
    }
}

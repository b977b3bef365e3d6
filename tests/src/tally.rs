//! The tally: a small part that folds a stream into every kind of cell, so that a record that was lost,
//! counted twice or taken out of order shows.
//!
//! A record is the text `key value id`. A key stands in one partition; a group, which its value decides,
//! is touched by all of them. The cells of one key lie in different shards, so that every record is
//! applied by several commits.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use consort::Services;
use consort_cluster::worker::{self, Memory, Plan, Record, Sheet};
use consort_cluster::{Ended, Part, Role, Tenure};
use consort_kernel::{
    Cell, Digest, Key, Kind, Most, Name, Partition, Shard, partition_of, shard_of,
};
use futures::future::BoxFuture;

use crate::late::LateStore;

/// Partitions of the stream, and so the roles there are.
pub const PARTITIONS: u32 = 8;

/// Shards of the store.
pub const SHARDS: u16 = 4;

/// Groups that values fall into.
pub const GROUPS: u64 = 5;

/// Longer than any trial takes: a record that is sent again is always known again.
const IDS_FOR: Duration = Duration::from_secs(3600);

/// Short, so that silent partitions get control frames during a trial.
const TICK_AFTER: Duration = Duration::from_secs(2);

/// Few frames at once, so that there are many commits to be interrupted.
const BATCH: usize = 24;

/// Longer than a server is down in a trial, though not by much: some owners do give up.
const YIELD_AFTER: Duration = Duration::from_secs(8);

/// The stream.
pub fn stream() -> Name {
    Name::new("tally").expect("a name")
}

/// The pipeline, which has the name that operators' commands go by where a part says nothing else.
fn pipeline() -> Name {
    Name::new("all").expect("a name")
}

/// A partition of the stream.
pub fn partition(index: u32) -> Partition {
    Partition::new(stream(), index)
}

/// All roles of the tally.
pub fn roles() -> Vec<Role> {
    (0..PARTITIONS).map(|index| Role::new("worker", partition(index).to_string())).collect()
}

/// Where the worker of a partition keeps its place.
pub fn cells(index: u32) -> worker::Cells {
    worker::Cells::new(&pipeline(), &partition(index), SHARDS)
}

/// What a record says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What is counted.
    pub key: String,
    /// Unlike every other record's, so that a sum or a set tells which records were counted.
    pub value: u64,
    /// The same for a record that is sent again.
    pub id: String,
}

impl Entry {
    /// The partition that all records of this key stand in.
    pub fn partition(&self) -> u32 {
        partition_of(self.key.as_bytes(), PARTITIONS)
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.key, self.value, self.id)
    }
}

impl FromStr for Entry {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text.split(' ').collect::<Vec<_>>()[..] {
            [key, value, id] => {
                let value = value.parse().map_err(drop)?;
                Ok(Entry { key: key.into(), value, id: id.into() })
            }
            _ => Err(()),
        }
    }
}

/// What the tally keeps, of a key or of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kept {
    /// How many records.
    Count,
    /// The sum of their values.
    Sum,
    /// The smallest value.
    Least,
    /// The largest value.
    Most,
    /// The value with the highest rank.
    Last,
    /// All values.
    Values,
    /// The number of records and a digest over them and their order.
    Chain,
    /// How many records were sent again.
    Duplicates,
}

impl Kept {
    /// What is kept of keys.
    pub const OF_KEYS: [Kept; 8] = [
        Kept::Count,
        Kept::Sum,
        Kept::Least,
        Kept::Most,
        Kept::Last,
        Kept::Values,
        Kept::Chain,
        Kept::Duplicates,
    ];

    /// What is kept of groups. No chain: there is no order between partitions.
    pub const OF_GROUPS: [Kept; 6] =
        [Kept::Count, Kept::Sum, Kept::Least, Kept::Most, Kept::Last, Kept::Values];

    fn kind(self) -> Kind {
        match self {
            Kept::Count | Kept::Sum | Kept::Duplicates => Kind::Counter,
            Kept::Least => Kind::Min,
            Kept::Most => Kind::Max,
            Kept::Last => Kind::Last,
            Kept::Values => Kind::Set,
            Kept::Chain => Kind::Bytes,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Kept::Count => "count",
            Kept::Sum => "sum",
            Kept::Least => "least",
            Kept::Most => "most",
            Kept::Last => "last",
            Kept::Values => "values",
            Kept::Chain => "chain",
            Kept::Duplicates => "duplicates",
        }
    }

    /// Where it is kept of `subject`.
    pub fn cell(self, subject: &str) -> (Shard, Cell) {
        let key = root().with(self.word()).with(subject);
        (shard_of(&key, SHARDS), Cell::new(self.kind(), key))
    }
}

/// What all keys of the tally begin with.
pub fn root() -> Key {
    Key::from(["tally"])
}

/// How a group is named among the subjects: no key looks like it.
pub fn group_of(value: u64) -> String {
    format!("group:{}", value % GROUPS)
}

/// Where a record is counted that cannot be read; nobody sends one.
const UNREADABLE: &str = "unreadable:";

/// A value as a member and as a rank.
pub fn number(value: u64) -> Bytes {
    Bytes::copy_from_slice(&value.to_be_bytes())
}

/// What decides which record is the last: the frame's time, then its place.
pub fn rank(time: u64, partition: u32, offset: u64, record: u32) -> Bytes {
    let numbers = [time, partition.into(), offset, record.into()];
    numbers.iter().flat_map(|number| number.to_be_bytes()).collect::<Vec<_>>().into()
}

/// The chain with one more record.
fn lengthened(chain: Option<&Bytes>, record: &[u8]) -> Bytes {
    let before = chain.map_or(&[][..], |chain| &chain[..]);
    let length = before.first_chunk().map_or(0, |length| u64::from_be_bytes(*length)) + 1;
    let digest = Digest::of(&[before, record].concat());
    [&length.to_be_bytes()[..], &digest.0].concat().into()
}

/// What the records of the stream do.
#[derive(Debug)]
struct Tally;

impl Tally {
    fn count(record: &Record<'_>, entry: &Entry, subject: &str, sheet: &mut Sheet) {
        let place = |kept: Kept| {
            let (shard, cell) = kept.cell(subject);
            (shard, cell.key)
        };
        let value = number(entry.value);
        let (shard, key) = place(Kept::Count);
        sheet.add(shard, key, 1, None);
        let (shard, key) = place(Kept::Sum);
        sheet.add(shard, key, entry.value as i64, None);
        let (shard, key) = place(Kept::Least);
        sheet.min(shard, key, value.clone());
        let (shard, key) = place(Kept::Most);
        sheet.max(shard, key, value.clone());
        let (shard, key) = place(Kept::Last);
        let at = record.position;
        let rank = rank(record.time.0, record.partition.index, at.offset, at.record);
        sheet.last(shard, key, rank, value.clone());
        let (shard, key) = place(Kept::Values);
        sheet.insert(shard, key, value);
    }
}

impl Plan for Tally {
    fn apply(&self, record: &Record<'_>, _: &mut Memory, sheet: &mut Sheet) {
        let Some(entry) = read(record) else {
            let (shard, cell) = Kept::Count.cell(UNREADABLE);
            return sheet.add(shard, cell.key, 1, None);
        };
        Tally::count(record, &entry, &entry.key, sheet);
        Tally::count(record, &entry, &group_of(entry.value), sheet);
        let (shard, cell) = Kept::Chain.cell(&entry.key);
        let chain = lengthened(sheet.read(shard, &cell.key).as_ref(), record.bytes);
        sheet.put(shard, cell.key, chain);
    }

    fn reads(&self, record: &Record<'_>, _: &mut Memory) -> Vec<(Shard, Key)> {
        let chain = read(record).map(|entry| Kept::Chain.cell(&entry.key));
        chain.map(|(shard, cell)| (shard, cell.key)).into_iter().collect()
    }

    fn ids_for(&self) -> Option<Duration> {
        Some(IDS_FOR)
    }

    fn id(&self, record: &Record<'_>) -> Option<Bytes> {
        read(record).map(|entry| entry.id.into())
    }

    fn duplicate(&self, record: &Record<'_>, sheet: &mut Sheet) {
        if let Some(entry) = read(record) {
            let (shard, cell) = Kept::Duplicates.cell(&entry.key);
            sheet.add(shard, cell.key, 1, None);
        }
    }

    fn tick_after(&self) -> Option<Duration> {
        Some(TICK_AFTER)
    }
}

fn read(record: &Record<'_>) -> Option<Entry> {
    std::str::from_utf8(record.bytes).ok()?.parse().ok()
}

/// The part: a role for each partition.
#[derive(Debug)]
pub struct TallyPart {
    services: Services,
}

impl TallyPart {
    /// A part that counts on `services`, whose commits are late at times.
    pub fn new(services: &Services) -> Self {
        TallyPart {
            services: Services { store: LateStore::over(&services.store), ..services.clone() },
        }
    }
}

impl Part for TallyPart {
    fn roles(&self) -> Vec<Role> {
        roles()
    }

    fn work(&self, tenure: Tenure) -> BoxFuture<'static, Ended> {
        let index = tenure.role().name().rsplit('/').next().and_then(|text| text.parse().ok());
        let options = worker::Options {
            log: Arc::clone(&self.services.log),
            store: Arc::clone(&self.services.store),
            runtime: Arc::clone(&self.services.runtime),
            entropy: Arc::clone(&self.services.entropy),
            partition: partition(index.expect("a role of the tally ends with its partition")),
            pipeline: pipeline(),
            plan: Arc::new(Tally),
            appender: Arc::clone(&self.services.appender),
            batch: Most::entries(BATCH),
            linger: Duration::ZERO,
            yield_after: YIELD_AFTER,
        };
        Box::pin(worker::run(options, tenure))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_read_as_it_was_written() {
        let entry = Entry { key: "k-1".into(), value: 7, id: "r7".into() };
        assert_eq!(entry.to_string().parse(), Ok(entry));
        assert_eq!("k-1 7".parse::<Entry>(), Err(()));
        assert_eq!("k-1 seven r7".parse::<Entry>(), Err(()));
    }

    #[test]
    fn a_chain_tells_order_and_number() {
        let chain = |records: &[&[u8]]| {
            records.iter().fold(None, |chain, record| Some(lengthened(chain.as_ref(), record)))
        };
        assert_ne!(chain(&[b"a", b"b"]), chain(&[b"b", b"a"]));
        assert_ne!(chain(&[b"a"]), chain(&[b"a", b"a"]));
        assert_eq!(chain(&[b"a", b"b"]).map(|chain| chain[7]), Some(2));
    }
}

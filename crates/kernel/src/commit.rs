//! The commit: what a shard is expected to hold, and the operations to apply if it does.

use bytes::Bytes;

use crate::clock::Timestamp;
use crate::error::Refusal;
use crate::key::Key;
use crate::limits::{
    COMMIT_BYTES, COMMIT_STEPS, ENTRY_BYTES, KEY_BYTES, MEMBER_BYTES, RANK_BYTES, VALUE_BYTES,
    within,
};
use crate::name::Name;
use crate::store::Shard;
use crate::wake::Topic;

/// What a cell is. Each kind has a space of keys of its own: a counter and a set under the same key are
/// two cells, so no operation can meet a cell of the wrong kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Bytes that are replaced whole: leases, marks, documents.
    Bytes,
    /// A number of 64 bits that is added to.
    Counter,
    /// The smallest rank it was shown.
    Min,
    /// The largest rank it was shown.
    Max,
    /// The value that came with the largest rank.
    Last,
    /// Distinct members, which can be listed in their order.
    Set,
    /// How many distinct members it was shown, exactly. They are kept, but cannot be listed: an engine may
    /// keep them without an order, which is cheaper.
    Distinct,
    /// About how many distinct members it was shown, in bounded memory.
    Sketch,
}

impl Kind {
    /// All kinds, in the order of their codes.
    pub const ALL: [Kind; 8] = [
        Kind::Bytes,
        Kind::Counter,
        Kind::Min,
        Kind::Max,
        Kind::Last,
        Kind::Set,
        Kind::Distinct,
        Kind::Sketch,
    ];

    /// The letter that stands for this kind in stored keys.
    pub fn code(self) -> u8 {
        match self {
            Kind::Bytes => b'b',
            Kind::Counter => b'c',
            Kind::Min => b'i',
            Kind::Max => b'a',
            Kind::Last => b'l',
            Kind::Set => b's',
            Kind::Distinct => b'd',
            Kind::Sketch => b'k',
        }
    }

    /// The kind that a stored letter stands for.
    pub fn from_code(code: u8) -> Option<Self> {
        Kind::ALL.into_iter().find(|kind| kind.code() == code)
    }
}

/// A cell's address within a shard.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cell {
    /// What it is.
    pub kind: Kind,
    /// Its key among those of its kind.
    pub key: Key,
}

impl Cell {
    /// The cell of `kind` under `key`.
    pub fn new(kind: Kind, key: Key) -> Self {
        Cell { kind, key }
    }
}

/// What a cell holds. Of sets, distinct counts and sketches it is the number of members; see
/// [`Store::members`](crate::Store::members) for the members themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A bytes cell's contents.
    Bytes(Bytes),
    /// A counter's number.
    Counter(i64),
    /// The smallest rank so far.
    Min(Bytes),
    /// The largest rank so far.
    Max(Bytes),
    /// The value with the largest rank so far.
    Last {
        /// What decided.
        rank: Bytes,
        /// What came with it.
        value: Bytes,
    },
    /// How many members the set has.
    Set(u64),
    /// How many distinct members it was shown.
    Distinct(u64),
    /// About how many members the sketch was shown.
    Sketch(u64),
}

impl Value {
    /// How many bytes it carries: what counts towards the end of a page.
    pub fn bytes(&self) -> usize {
        match self {
            Value::Bytes(bytes) | Value::Min(bytes) | Value::Max(bytes) => bytes.len(),
            Value::Last { rank, value } => rank.len() + value.len(),
            Value::Counter(_) | Value::Set(_) | Value::Distinct(_) | Value::Sketch(_) => 8,
        }
    }
}

/// One thing that must hold for a commit to be applied. `None` expects that there is no such cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expect {
    /// A bytes cell holds just this.
    Bytes(Key, Option<Bytes>),
    /// A counter stands at just this.
    Counter(Key, Option<i64>),
}

impl Expect {
    /// The cell that is looked at.
    pub fn cell(&self) -> Cell {
        match self {
            Expect::Bytes(key, _) => Cell::new(Kind::Bytes, key.clone()),
            Expect::Counter(key, _) => Cell::new(Kind::Counter, key.clone()),
        }
    }

    /// Whether the cell's present value is the expected one.
    pub fn holds(&self, present: Option<&Value>) -> bool {
        match (self, present) {
            (Expect::Bytes(_, None) | Expect::Counter(_, None), None) => true,
            (Expect::Bytes(_, Some(wanted)), Some(Value::Bytes(held))) => wanted == held,
            (Expect::Counter(_, Some(wanted)), Some(Value::Counter(held))) => wanted == held,
            _ => false,
        }
    }
}

/// An entry to append to a feed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The feed's name within the shard.
    pub feed: Name,
    /// The entry.
    pub entry: Bytes,
}

/// One change of a shard. Several operations of one commit are applied in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Makes the bytes cell hold `value`, and never expire.
    Put {
        /// The cell's key.
        key: Key,
        /// What it is to hold.
        value: Bytes,
    },
    /// Removes the cell. Removing what is not there changes nothing.
    Delete(Cell),
    /// Adds to the counter, which starts at 0. An addition that would overflow is left out, told in
    /// [`Committed::left_out`], and noted if the caller gave a note.
    Add {
        /// The counter's key.
        key: Key,
        /// What to add.
        by: i64,
        /// What to append where, should it overflow.
        on_overflow: Option<Note>,
    },
    /// Keeps the smaller of the cell's rank and this one, compared as bytes.
    Min {
        /// The cell's key.
        key: Key,
        /// What it is shown.
        rank: Bytes,
    },
    /// Keeps the larger of the cell's rank and this one, compared as bytes.
    Max {
        /// The cell's key.
        key: Key,
        /// What it is shown.
        rank: Bytes,
    },
    /// Replaces rank and value if this rank is larger than the cell's, compared as bytes. An equal rank
    /// changes nothing, so a repeat is harmless.
    Last {
        /// The cell's key.
        key: Key,
        /// What decides: event time, partition and offset, as an encoded key.
        rank: Bytes,
        /// What to keep.
        value: Bytes,
    },
    /// Makes these members of the set. Those that are in it already change nothing.
    Insert {
        /// The set's key.
        key: Key,
        /// The members.
        members: Vec<Bytes>,
    },
    /// Shows these members to the distinct count. Those that it has seen change nothing.
    Distinct {
        /// The count's key.
        key: Key,
        /// The members.
        members: Vec<Bytes>,
    },
    /// Shows these members to the sketch.
    Sketch {
        /// The sketch's key.
        key: Key,
        /// The members.
        members: Vec<Bytes>,
    },
    /// Sets when the cell expires, or that it never does. A cell that is not there stays so.
    Expire {
        /// The cell.
        cell: Cell,
        /// From this time on it is gone.
        at: Option<Timestamp>,
    },
    /// Appends an entry to a feed.
    Append(Note),
}

/// How soon a commit should be taken, where an engine has a queue of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lane {
    /// Before all bulk work: leases, heartbeats, fences.
    Urgent,
    /// In turn.
    #[default]
    Bulk,
}

/// A mini-transaction on one shard: if every expectation holds, every operation is applied; otherwise
/// nothing is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Commit {
    /// What must hold.
    pub expects: Vec<Expect>,
    /// What is then applied, in this order.
    pub operations: Vec<Operation>,
    /// How soon.
    pub lane: Lane,
}

/// What a successful commit has to say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Committed {
    /// Which operations were additions that would have overflowed, by their place in the commit.
    pub left_out: Vec<usize>,
}

impl Commit {
    /// A commit of these operations that expects nothing.
    pub fn of(operations: impl IntoIterator<Item = Operation>) -> Self {
        Commit { operations: operations.into_iter().collect(), ..Commit::default() }
    }

    /// The same commit, expecting this too.
    pub fn expecting(mut self, expect: Expect) -> Self {
        self.expects.push(expect);
        self
    }

    /// The same commit, before all bulk work.
    pub fn urgent(mut self) -> Self {
        self.lane = Lane::Urgent;
        self
    }

    /// Refuses what is beyond the bounds of the contract. Every engine calls it before anything else.
    pub fn validate(&self) -> Result<(), Refusal> {
        let size = self.size()?;
        within("a commit's steps", size.steps, COMMIT_STEPS)?;
        within("a commit's bytes", size.bytes, COMMIT_BYTES)
    }

    /// The memory that the commit takes, about: its bytes, and what holds each of them.
    pub fn memory(&self) -> usize {
        self.size().map_or(COMMIT_BYTES, |size| size.bytes + size.steps * size_of::<Operation>())
    }

    fn size(&self) -> Result<Size, Refusal> {
        let mut size = Size::default();
        for expect in &self.expects {
            match expect {
                Expect::Bytes(key, value) => {
                    size.key(key)?;
                    size.value(value.as_ref().map_or(0, Bytes::len))?;
                }
                Expect::Counter(key, _) => size.key(key)?,
            }
        }
        for operation in &self.operations {
            size.operation(operation)?;
        }
        Ok(size)
    }

    /// What waiters are to be told of when this commit was applied: the bytes cells it puts or deletes,
    /// and the feeds it appends to.
    pub fn topics(&self, shard: Shard) -> Vec<Topic> {
        let topic = |operation: &Operation| match operation {
            Operation::Put { key, .. } => Some(Topic::cell(shard, key)),
            Operation::Delete(cell) if cell.kind == Kind::Bytes => {
                Some(Topic::cell(shard, &cell.key))
            }
            Operation::Append(note) | Operation::Add { on_overflow: Some(note), .. } => {
                Some(Topic::feed(shard, &note.feed))
            }
            _ => None,
        };
        let mut topics: Vec<Topic> = self.operations.iter().filter_map(topic).collect();
        topics.sort_unstable();
        topics.dedup();
        topics
    }
}

/// The running total of a commit's steps and bytes.
#[derive(Debug, Default)]
struct Size {
    steps: usize,
    bytes: usize,
}

impl Size {
    fn key(&mut self, key: &Key) -> Result<(), Refusal> {
        self.steps += 1;
        self.part("a key's bytes", key.as_bytes().len(), KEY_BYTES)
    }

    fn value(&mut self, length: usize) -> Result<(), Refusal> {
        self.part("a value's bytes", length, VALUE_BYTES)
    }

    fn part(&mut self, what: &'static str, length: usize, limit: usize) -> Result<(), Refusal> {
        self.bytes += length;
        within(what, length, limit)
    }

    fn members(&mut self, members: &[Bytes]) -> Result<(), Refusal> {
        self.steps += members.len().saturating_sub(1);
        members.iter().try_for_each(|m| self.part("a member's bytes", m.len(), MEMBER_BYTES))
    }

    fn note(&mut self, note: &Note) -> Result<(), Refusal> {
        self.part("a feed entry's bytes", note.entry.len(), ENTRY_BYTES)
    }

    fn operation(&mut self, operation: &Operation) -> Result<(), Refusal> {
        match operation {
            Operation::Put { key, value } => {
                self.key(key)?;
                self.value(value.len())
            }
            Operation::Delete(cell) | Operation::Expire { cell, .. } => self.key(&cell.key),
            Operation::Add { key, on_overflow, .. } => {
                self.key(key)?;
                on_overflow.as_ref().map_or(Ok(()), |note| self.note(note))
            }
            Operation::Min { key, rank } | Operation::Max { key, rank } => {
                self.key(key)?;
                self.part("a rank's bytes", rank.len(), RANK_BYTES)
            }
            Operation::Last { key, rank, value } => {
                self.key(key)?;
                self.part("a rank's bytes", rank.len(), RANK_BYTES)?;
                self.value(value.len())
            }
            Operation::Insert { key, members }
            | Operation::Distinct { key, members }
            | Operation::Sketch { key, members } => {
                self.key(key)?;
                self.members(members)
            }
            Operation::Append(note) => {
                self.steps += 1;
                self.note(note)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> Key {
        Key::from(["k"])
    }

    #[test]
    fn kinds_have_codes_of_their_own() {
        for kind in Kind::ALL {
            assert_eq!(Kind::from_code(kind.code()), Some(kind));
        }
        assert_eq!(Kind::from_code(b'?'), None);
    }

    #[test]
    fn each_bound_refuses_and_says_what() {
        let long = Key::from(["x".repeat(KEY_BYTES).as_str()]);
        let big = |n: usize| Bytes::from(vec![0; n]);
        let cases = [
            ("a key's bytes", Operation::Put { key: long, value: big(0) }),
            ("a value's bytes", Operation::Put { key: key(), value: big(VALUE_BYTES + 1) }),
            ("a rank's bytes", Operation::Min { key: key(), rank: big(RANK_BYTES + 1) }),
            (
                "a member's bytes",
                Operation::Insert { key: key(), members: vec![big(MEMBER_BYTES + 1)] },
            ),
            (
                "a feed entry's bytes",
                Operation::Append(Note {
                    feed: Name::new("f").unwrap(),
                    entry: big(ENTRY_BYTES + 1),
                }),
            ),
            (
                "a commit's steps",
                Operation::Insert { key: key(), members: vec![big(1); COMMIT_STEPS + 1] },
            ),
        ];
        for (wanted, operation) in cases {
            match Commit::of([operation]).validate() {
                Err(Refusal::TooLarge { what, .. }) => assert_eq!(what, wanted),
                other => panic!("{wanted}: {other:?}"),
            }
        }
        let whole = (0..5).map(|_| Operation::Put { key: key(), value: big(VALUE_BYTES) });
        assert!(matches!(
            Commit::of(whole).validate(),
            Err(Refusal::TooLarge { what: "a commit's bytes", .. })
        ));
    }

    #[test]
    fn steps_count_members() {
        let insert = Operation::Insert { key: key(), members: vec![Bytes::new(); 3] };
        let commit = Commit::of([insert]).expecting(Expect::Counter(key(), None));
        assert_eq!(commit.size().map(|size| size.steps), Ok(4));
        assert_eq!(commit.validate(), Ok(()));
    }
}

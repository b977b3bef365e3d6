//! One shard of the memory store: cells and feeds in plain collections.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use bytes::Bytes;

use crate::clock::Timestamp;
use crate::commit::{Cell, Commit, Committed, Kind, Note, Operation, Value};
use crate::cursor::Cursor;
use crate::digest::Digest;
use crate::error::{CommitError, ReadError};
use crate::key::Key;
use crate::limits::{PAGE_BYTES, PAGE_ROWS};
use crate::name::Name;
use crate::sketch::Sketch;
use crate::store::{FeedEntry, Most};

/// What a cell holds, in full.
#[derive(Clone, Debug)]
enum Held {
    Bytes(Bytes),
    Counter(i64),
    Min(Bytes),
    Max(Bytes),
    Last { rank: Bytes, value: Bytes },
    Set(BTreeSet<Bytes>),
    Distinct(BTreeSet<Bytes>),
    Sketch(Box<Sketch>),
}

impl Held {
    fn value(&self) -> Value {
        match self {
            Held::Bytes(value) => Value::Bytes(value.clone()),
            Held::Counter(number) => Value::Counter(*number),
            Held::Min(rank) => Value::Min(rank.clone()),
            Held::Max(rank) => Value::Max(rank.clone()),
            Held::Last { rank, value } => Value::Last { rank: rank.clone(), value: value.clone() },
            Held::Set(members) => Value::Set(members.len() as u64),
            Held::Distinct(members) => Value::Distinct(members.len() as u64),
            Held::Sketch(sketch) => Value::Sketch(sketch.estimate()),
        }
    }

    fn size(&self) -> usize {
        match self {
            Held::Bytes(value) | Held::Last { value, .. } => value.len(),
            _ => 0,
        }
    }
}

#[derive(Clone, Debug)]
struct Slot {
    held: Held,
    expires: Option<Timestamp>,
}

/// A feed's entries by number. The newest is never trimmed, so it tells the next number.
type Feed = BTreeMap<u64, Bytes>;

/// Cells and feeds.
#[derive(Clone, Debug, Default)]
pub(super) struct MemoryShard {
    cells: BTreeMap<Cell, Slot>,
    feeds: HashMap<Name, Feed>,
}

impl MemoryShard {
    pub(super) fn commit(
        &mut self,
        commit: &Commit,
        now: Timestamp,
    ) -> Result<Committed, CommitError> {
        let present: Vec<Option<Value>> =
            commit.expects.iter().map(|expect| self.get(&expect.cell(), now)).collect();
        let mut pairs = commit.expects.iter().zip(&present);
        if !pairs.all(|(expect, value)| expect.holds(value.as_ref())) {
            return Err(CommitError::Stale(present));
        }
        let mut committed = Committed::default();
        for (place, operation) in commit.operations.iter().enumerate() {
            if !self.apply(operation, now) {
                committed.left_out.push(place);
            }
        }
        Ok(committed)
    }

    pub(super) fn get(&self, cell: &Cell, now: Timestamp) -> Option<Value> {
        self.alive(cell, now).map(|slot| slot.held.value())
    }

    pub(super) fn scan(
        &self,
        kind: Kind,
        prefix: &Key,
        after: Option<&Key>,
        limit: usize,
        now: Timestamp,
    ) -> Vec<(Key, Value)> {
        let mut rows = Vec::new();
        let mut bytes = 0;
        for (cell, slot) in self.cells.range(Cell::new(kind, prefix.clone())..) {
            if cell.kind != kind
                || !cell.key.starts_with(prefix) && cell.key.as_bytes() >= &prefix.end()[..]
            {
                break;
            }
            if !cell.key.starts_with(prefix)
                || after.is_some_and(|after| cell.key <= *after)
                || gone(slot, now)
            {
                continue;
            }
            rows.push((cell.key.clone(), slot.held.value()));
            bytes += slot.held.size();
            if rows.len() >= limit.min(PAGE_ROWS) || bytes >= PAGE_BYTES {
                break;
            }
        }
        rows
    }

    pub(super) fn members(
        &self,
        key: &Key,
        after: Option<&[u8]>,
        limit: usize,
        now: Timestamp,
    ) -> Vec<Bytes> {
        let cell = Cell::new(Kind::Set, key.clone());
        let Some(Held::Set(members)) = self.alive(&cell, now).map(|slot| &slot.held) else {
            return Vec::new();
        };
        let behind = |member: &&Bytes| after.is_none_or(|after| &member[..] > after);
        members.iter().filter(behind).take(limit.min(PAGE_ROWS)).cloned().collect()
    }

    pub(super) fn feed(
        &self,
        feed: &Name,
        after: &Cursor,
        most: Most,
    ) -> Result<Vec<FeedEntry>, ReadError> {
        let Some(entries) = self.feeds.get(feed) else {
            after.verify(0, None)?;
            return Ok(Vec::new());
        };
        let vouched = after.last.and_then(|(number, _)| entries.get(&number));
        let first = entries.first_key_value().map_or(0, |(&number, _)| number);
        after.verify(first, vouched.map(|entry| Digest::of(entry)))?;

        let mut read = Vec::new();
        let mut bytes = 0;
        for (&number, entry) in entries.range(after.next..) {
            read.push(FeedEntry { number, digest: Digest::of(entry), entry: entry.clone() });
            bytes += entry.len();
            if most.reached(read.len(), bytes) {
                break;
            }
        }
        Ok(read)
    }

    pub(super) fn trim_feed(&mut self, feed: &Name, before: u64) {
        if let Some(entries) = self.feeds.get_mut(feed)
            && let Some((&newest, _)) = entries.last_key_value()
        {
            *entries = entries.split_off(&before.min(newest));
        }
    }

    fn alive(&self, cell: &Cell, now: Timestamp) -> Option<&Slot> {
        self.cells.get(cell).filter(|slot| !gone(slot, now))
    }

    /// The cell to change, made by `fresh` if there is none or the one there has expired.
    fn slot(&mut self, kind: Kind, key: &Key, now: Timestamp, fresh: Held) -> &mut Held {
        // A key of its own: the one given may share a large piece of memory with others, which are not kept.
        let cell = Cell::new(kind, Key::from_stored(key.as_bytes().to_vec()));
        let slot =
            self.cells.entry(cell).or_insert_with(|| Slot { held: fresh.clone(), expires: None });
        if gone(slot, now) {
            *slot = Slot { held: fresh, expires: None };
        }
        &mut slot.held
    }

    /// Applies one operation; false if it was an addition that had to be left out.
    fn apply(&mut self, operation: &Operation, now: Timestamp) -> bool {
        match operation {
            Operation::Put { key, value } => {
                let slot = Slot { held: Held::Bytes(value.clone()), expires: None };
                self.cells.insert(Cell::new(Kind::Bytes, key.clone()), slot);
            }
            Operation::Delete(cell) => {
                self.cells.remove(cell);
            }
            Operation::Add { key, by, on_overflow } => {
                return self.add(key, *by, on_overflow.as_ref(), now);
            }
            Operation::Min { key, rank } => {
                if let Held::Min(held) = self.slot(Kind::Min, key, now, Held::Min(rank.clone()))
                    && *rank < *held
                {
                    *held = rank.clone();
                }
            }
            Operation::Max { key, rank } => {
                if let Held::Max(held) = self.slot(Kind::Max, key, now, Held::Max(rank.clone()))
                    && *rank > *held
                {
                    *held = rank.clone();
                }
            }
            Operation::Last { key, rank, value } => {
                let fresh = Held::Last { rank: rank.clone(), value: value.clone() };
                let held = self.slot(Kind::Last, key, now, fresh.clone());
                if matches!(held, Held::Last { rank: before, .. } if *rank > *before) {
                    *held = fresh;
                }
            }
            Operation::Insert { key, members } if !members.is_empty() => {
                if let Held::Set(held) = self.slot(Kind::Set, key, now, Held::Set(BTreeSet::new()))
                {
                    held.extend(members.iter().cloned());
                }
            }
            Operation::Distinct { key, members } if !members.is_empty() => {
                if let Held::Distinct(held) =
                    self.slot(Kind::Distinct, key, now, Held::Distinct(BTreeSet::new()))
                {
                    held.extend(members.iter().cloned());
                }
            }
            Operation::Sketch { key, members } if !members.is_empty() => {
                if let Held::Sketch(held) =
                    self.slot(Kind::Sketch, key, now, Held::Sketch(Box::default()))
                {
                    for member in members {
                        held.insert(member);
                    }
                }
            }
            Operation::Insert { .. } | Operation::Distinct { .. } | Operation::Sketch { .. } => {}
            Operation::Expire { cell, at } => self.expire(cell, *at, now),
            Operation::Append(note) => self.append(note),
        }
        true
    }

    fn add(&mut self, key: &Key, by: i64, on_overflow: Option<&Note>, now: Timestamp) -> bool {
        if let Held::Counter(number) = self.slot(Kind::Counter, key, now, Held::Counter(0))
            && let Some(sum) = number.checked_add(by)
        {
            *number = sum;
            return true;
        }
        if let Some(note) = on_overflow {
            self.append(note);
        }
        false
    }

    fn expire(&mut self, cell: &Cell, at: Option<Timestamp>, now: Timestamp) {
        match self.cells.get_mut(cell) {
            Some(slot) if !gone(slot, now) => slot.expires = at,
            _ => {}
        }
    }

    fn append(&mut self, note: &Note) {
        let entries = self.feeds.entry(note.feed.clone()).or_default();
        let number = entries.last_key_value().map_or(0, |(&last, _)| last + 1);
        entries.insert(number, note.entry.clone());
    }
}

fn gone(slot: &Slot, now: Timestamp) -> bool {
    slot.expires.is_some_and(|at| at <= now)
}

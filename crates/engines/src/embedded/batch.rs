//! One batch in the making: appends and commits folded, in their order, into rows to write at once.
//!
//! Commits see the changes of those before them in the batch through the cache, although nothing is
//! written yet. Expectations are checked before anything is changed, and no operation can fail after
//! that, so a commit is folded in whole or not at all.

use bytes::Bytes;
use consort_kernel::{
    Cell, Commit, CommitError, Committed, Expect, Key, Kind, Note, Operation, Shard, Sketch,
    Timestamp, Value,
};
use hashbrown::{HashMap, HashSet};

use super::cache::Cache;
use super::cell::Row;
use super::merger::{Due, Piece};
use super::rows;
use super::runs::Blocks;
use super::sets::SetRow;
use super::small::SmallSet;
use super::sweep::Backlog;
use super::tables::Tables;

/// The row that keeps the last number given to a set's generation or run.
const GENERATION_ROW: &[u8] = b"generation";

/// What the writer remembers from batch to batch.
#[derive(Debug, Default)]
pub(super) struct Memory {
    pub(super) cache: Cache,
    pub(super) backlog: Backlog,
    /// The next number of each partition and feed, by table and prefix.
    next: HashMap<(bool, Vec<u8>), u64>,
    /// The last number given to a set's generation or run.
    generation: Option<u64>,
    /// The generations of the sets whose runs are being merged.
    merging: HashSet<u64>,
}

impl Memory {
    /// Nobody merges these runs.
    pub(super) fn not_merging(&mut self, due: &Due) {
        self.merging.remove(&due.generation);
        self.backlog.abandon(&grave(due));
    }

    /// The number that the next entry of a partition (`log`) or feed gets.
    pub(super) fn next(&mut self, tables: &Tables, log: bool, prefix: &[u8]) -> fjall::Result<u64> {
        let place = (log, prefix.to_vec());
        if let Some(&next) = self.next.get(&place) {
            return Ok(next);
        }
        let table = if log { &tables.log } else { &tables.feeds };
        let next = match table.prefix(prefix).next_back() {
            Some(newest) => rows::entry_number(&newest.key()?) + 1,
            None => 0,
        };
        self.next.insert(place, next);
        Ok(next)
    }

    fn advance(&mut self, log: bool, prefix: &[u8], next: u64) {
        self.next.insert((log, prefix.to_vec()), next);
    }
}

/// Where the run lies that these become, until it is whole.
fn grave(due: &Due) -> Vec<u8> {
    rows::block(due.generation, due.number, &[])
}

/// What came of a batch.
#[derive(Debug)]
pub(super) struct Written {
    /// How many rows it had.
    pub(super) rows: usize,
    /// Runs that should be merged, now that they can be read.
    pub(super) due: Vec<Due>,
}

/// The batch.
pub(super) struct Batch<'a> {
    tables: &'a Tables,
    memory: &'a mut Memory,
    now: Timestamp,
    write: fjall::OwnedWriteBatch,
    dirty: HashSet<fjall::Slice>,
    new_generation: bool,
    due: Vec<Due>,
}

impl<'a> Batch<'a> {
    pub(super) fn new(tables: &'a Tables, memory: &'a mut Memory, now: Timestamp) -> Self {
        let write = tables.db.batch();
        Batch {
            tables,
            memory,
            now,
            write,
            dirty: HashSet::new(),
            new_generation: false,
            due: Vec::new(),
        }
    }

    /// Puts an entry at the end of a partition (`log`) or feed.
    pub(super) fn append(
        &mut self,
        log: bool,
        prefix: &[u8],
        value: fjall::Slice,
    ) -> fjall::Result<()> {
        let number = self.memory.next(self.tables, log, prefix)?;
        let table = if log { &self.tables.log } else { &self.tables.feeds };
        self.write.insert(table, rows::entry(prefix, number), value);
        self.memory.advance(log, prefix, number + 1);
        Ok(())
    }

    /// Folds a commit in, or says why not. The outer error is the disk's.
    pub(super) fn commit(
        &mut self,
        shard: Shard,
        commit: &Commit,
    ) -> fjall::Result<Result<Committed, CommitError>> {
        if let Some(present) = self.stale(shard, &commit.expects)? {
            return Ok(Err(CommitError::Stale(present)));
        }
        let mut committed = Committed::default();
        for (place, operation) in commit.operations.iter().enumerate() {
            if !self.apply(shard, operation)? {
                committed.left_out.push(place);
            }
        }
        Ok(Ok(committed))
    }

    /// Lets go of the entries of a partition (`log`) or feed below a number, but for the newest.
    pub(super) fn trim(&mut self, log: bool, prefix: Vec<u8>, before: u64) -> fjall::Result<()> {
        let next = self.memory.next(self.tables, log, &prefix)?;
        let before = before.min(next.saturating_sub(1));
        let first = self.tables.firsts.raise(log, &prefix, before);
        self.memory.backlog.trim(log, prefix, first, before);
        Ok(())
    }

    /// How many rows it will write, about.
    pub(super) fn rows(&self) -> usize {
        self.dirty.len() + self.write.len()
    }

    /// Writes everything.
    pub(super) fn write(mut self, mode: fjall::PersistMode) -> fjall::Result<Written> {
        let mut dirty: Vec<fjall::Slice> = self.dirty.drain().collect();
        // In the order of the table, neighbours are inserted one after another: their surroundings are
        // still in the processor's cache.
        dirty.sort_unstable();
        for key in &dirty {
            match self.memory.cache.get(key).flatten() {
                Some(row) => self.write.insert(&self.tables.cells, key.clone(), row.into_slice()),
                None => self.write.remove(&self.tables.cells, key.clone()),
            }
        }
        if self.new_generation {
            let generation = self.memory.generation.unwrap_or_default();
            self.write.insert(&self.tables.meta, GENERATION_ROW, generation.to_be_bytes());
        }
        let rows = self.write.len();
        self.write.durability(Some(mode)).commit()?;
        self.memory.cache.settle(&dirty);
        Ok(Written { rows, due: self.due })
    }

    /// The present values, if an expectation does not hold.
    fn stale(
        &mut self,
        shard: Shard,
        expects: &[Expect],
    ) -> fjall::Result<Option<Vec<Option<Value>>>> {
        let mut present = Vec::with_capacity(expects.len());
        for expect in expects {
            let cell = expect.cell();
            let row = self.row(&rows::cell(shard, &cell))?;
            present.push(row.and_then(|row| row.value(cell.kind)));
        }
        let mut pairs = expects.iter().zip(&present);
        let hold = pairs.all(|(expect, value)| expect.holds(value.as_ref()));
        Ok((!hold).then_some(present))
    }

    /// A cell's row as this batch has it; `None` if it is absent or has expired.
    fn row(&mut self, key: &[u8]) -> fjall::Result<Option<Row>> {
        let row = match self.memory.cache.get(key) {
            Some(row) => row,
            None => {
                let row = self.tables.cells.get(key)?.map(Row::stored);
                self.memory.cache.remember(key.into(), row.clone());
                row
            }
        };
        Ok(row.filter(|row| !row.expired(self.now)))
    }

    fn set(&mut self, key: Vec<u8>, row: Option<Row>) {
        let key = fjall::Slice::from(key);
        self.dirty.insert(key.clone());
        self.memory.cache.remember(key, row);
    }

    /// Applies one operation; false if it was an addition that had to be left out.
    fn apply(&mut self, shard: Shard, operation: &Operation) -> fjall::Result<bool> {
        match operation {
            Operation::Put { key, value } => {
                let key = rows::cell_row(shard, Kind::Bytes, key.as_bytes());
                self.set(key, Some(Row::new(None, value)));
            }
            Operation::Delete(cell) => self.delete(rows::cell(shard, cell), cell.kind)?,
            Operation::Add { key, by, on_overflow } => {
                return self.add(shard, key, *by, on_overflow.as_ref());
            }
            Operation::Min { key, rank } => {
                self.extreme(shard, Kind::Min, key, rank, |held| rank < held)?
            }
            Operation::Max { key, rank } => {
                self.extreme(shard, Kind::Max, key, rank, |held| rank > held)?
            }
            Operation::Last { key, rank, value } => {
                let key = rows::cell_row(shard, Kind::Last, key.as_bytes());
                let held = self.row(&key)?;
                if held.as_ref().is_none_or(|held| rank > held.as_last().0) {
                    let expires = held.and_then(|held| held.expires());
                    self.set(key, Some(Row::last(expires, rank, value)));
                }
            }
            Operation::Insert { key, members } if !members.is_empty() => {
                self.insert(shard, Kind::Set, key, members)?;
            }
            Operation::Distinct { key, members } if !members.is_empty() => {
                self.insert(shard, Kind::Distinct, key, members)?;
            }
            Operation::Sketch { key, members } if !members.is_empty() => {
                self.sketch(shard, key, members)?;
            }
            Operation::Insert { .. } | Operation::Distinct { .. } | Operation::Sketch { .. } => {}
            Operation::Expire { cell, at } => self.expire(shard, cell, *at)?,
            Operation::Append(note) => self.note(shard, note)?,
        }
        Ok(true)
    }

    fn delete(&mut self, key: Vec<u8>, kind: Kind) -> fjall::Result<()> {
        // The row is read even if it has expired: its members must be cleared away all the same.
        self.row(&key)?;
        if let Some(row) = self.memory.cache.get(&key).flatten() {
            self.bury(kind, &row);
            self.set(key, None);
        }
        Ok(())
    }

    /// Notes that a set's members are no longer needed.
    fn bury(&mut self, kind: Kind, row: &Row) {
        if rows::has_members(kind) && !row.as_set().runs.is_empty() {
            let generation = row.as_set().generation;
            self.memory.merging.remove(&generation);
            self.dig(&generation.to_be_bytes());
        }
    }

    /// The blocks that begin with this are no longer needed.
    fn dig(&mut self, grave: &[u8]) {
        self.write.insert(&self.tables.graves, grave, b"");
        self.memory.backlog.buries(grave);
    }

    fn add(
        &mut self,
        shard: Shard,
        key: &Key,
        by: i64,
        on_overflow: Option<&Note>,
    ) -> fjall::Result<bool> {
        let key = rows::cell_row(shard, Kind::Counter, key.as_bytes());
        let held = self.row(&key)?;
        let number = held.as_ref().map_or(0, Row::as_counter);
        if let Some(sum) = number.checked_add(by) {
            let expires = held.and_then(|held| held.expires());
            self.set(key, Some(Row::counter(expires, sum)));
            return Ok(true);
        }
        if let Some(note) = on_overflow {
            self.note(shard, note)?;
        }
        Ok(false)
    }

    fn extreme(
        &mut self,
        shard: Shard,
        kind: Kind,
        key: &Key,
        rank: &Bytes,
        wins: impl Fn(&[u8]) -> bool,
    ) -> fjall::Result<()> {
        let key = rows::cell_row(shard, kind, key.as_bytes());
        let held = self.row(&key)?;
        if held.as_ref().is_none_or(|held| wins(held.contents())) {
            let expires = held.and_then(|held| held.expires());
            self.set(key, Some(Row::new(expires, rank)));
        }
        Ok(())
    }

    fn insert(
        &mut self,
        shard: Shard,
        kind: Kind,
        key: &Key,
        members: &[Bytes],
    ) -> fjall::Result<()> {
        let key = rows::cell_row(shard, kind, key.as_bytes());
        let held = self.row(&key)?;
        if held.is_none() {
            // An expired set may still have runs: they are buried, and the new one starts apart.
            self.delete(key.clone(), kind)?;
        }
        let expires = held.as_ref().and_then(Row::expires);
        let mut set = held.as_ref().map(Row::as_set).unwrap_or_default();
        let mut all: Vec<&[u8]> =
            set.tail.members().chain(members.iter().map(|member| &member[..])).collect();
        all.sort_unstable();
        all.dedup();
        let tail = SmallSet::of_few(&all);
        match tail {
            Some(tail) if tail == set.tail => return Ok(()),
            Some(tail) => set.tail = tail,
            None => {
                let number = self.next_number()?;
                let generation = if set.runs.is_empty() { number } else { set.generation };
                let mut blocks = Blocks::new(generation, number);
                all.into_iter().for_each(|member| blocks.push(member));
                self.write_blocks(blocks.take());
                set.generation = generation;
                let run = blocks.run();
                set.runs.push(run);
                set.tail = SmallSet::default();
                self.look_for_due(&key, &set)?;
            }
        }
        self.set(key, Some(Row::set(expires, &set)));
        Ok(())
    }

    fn write_blocks(&mut self, rows: Vec<(Vec<u8>, Vec<u8>)>) {
        for (row, block) in rows {
            self.write.insert(&self.tables.members, row, block);
        }
    }

    /// Writes a piece of a run that is made of several; with the last one it takes their place, unless the
    /// set has changed in this.
    pub(super) fn piece(&mut self, piece: Piece) -> fjall::Result<()> {
        self.write_blocks(piece.rows);
        let Some((due, run)) = piece.whole else { return Ok(()) };
        self.memory.merging.remove(&due.generation);
        let held = self.row(&due.cell)?.map(|row| (row.expires(), row.as_set()));
        let held = held.filter(|(_, set)| set.generation == due.generation);
        let Some((expires, mut set)) = held else {
            self.memory.backlog.abandon(&grave(&due));
            return Ok(());
        };
        if !set.replace(&due.runs, run) {
            self.memory.backlog.abandon(&grave(&due));
            return Ok(());
        }
        self.memory.backlog.keep(&grave(&due));
        self.write.remove(&self.tables.graves, grave(&due));
        for old in &due.runs {
            self.dig(&rows::block(due.generation, old.number, &[]));
        }
        self.look_for_due(&due.cell, &set)?;
        self.set(due.cell, Some(Row::set(expires, &set)));
        Ok(())
    }

    /// Asks for a merge, if it is time for one and none is under way.
    fn look_for_due(&mut self, cell: &[u8], set: &SetRow) -> fjall::Result<()> {
        if self.memory.merging.contains(&set.generation) {
            return Ok(());
        }
        if let Some(runs) = set.due() {
            let (number, generation) = (self.next_number()?, set.generation);
            let due = Due { cell: cell.to_vec(), generation, runs, number };
            self.memory.merging.insert(generation);
            self.write.insert(&self.tables.graves, grave(&due), b"");
            self.memory.backlog.spare(grave(&due));
            self.due.push(due);
        }
        Ok(())
    }

    /// A number for a generation or run that was never given before.
    fn next_number(&mut self) -> fjall::Result<u64> {
        let last = match self.memory.generation {
            Some(last) => last,
            None => {
                let stored = self.tables.meta.get(GENERATION_ROW)?;
                let stored = stored.and_then(|row| row.first_chunk().copied());
                stored.map_or(0, u64::from_be_bytes)
            }
        };
        self.memory.generation = Some(last + 1);
        self.new_generation = true;
        Ok(last + 1)
    }

    fn sketch(&mut self, shard: Shard, key: &Key, members: &[Bytes]) -> fjall::Result<()> {
        let key = rows::cell_row(shard, Kind::Sketch, key.as_bytes());
        let held = self.row(&key)?;
        let mut sketch =
            held.as_ref().and_then(|held| Sketch::decode(held.contents())).unwrap_or_default();
        let mut changed = held.is_none();
        for member in members {
            changed |= sketch.insert(member);
        }
        if changed {
            let expires = held.and_then(|held| held.expires());
            self.set(key, Some(Row::new(expires, &sketch.encode())));
        }
        Ok(())
    }

    fn expire(&mut self, shard: Shard, cell: &Cell, at: Option<Timestamp>) -> fjall::Result<()> {
        let key = rows::cell(shard, cell);
        if let Some(held) = self.row(&key)? {
            if let Some(at) = at {
                let row = rows::expiry(at.0.max(1), &key);
                self.memory.backlog.expires(&row);
                self.write.insert(&self.tables.expiries, row, b"");
            }
            let row = Row::new(at, held.contents());
            self.set(key, Some(row));
        }
        Ok(())
    }

    fn note(&mut self, shard: Shard, note: &Note) -> fjall::Result<()> {
        let prefix = rows::feed(shard, &note.feed);
        self.append(false, &prefix, rows::note_value(&note.entry).into())
    }
}

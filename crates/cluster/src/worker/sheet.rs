//! The sheet: what a run of records does, by shard, while it is being planned.
//!
//! It merges operations on the same cell, leaves out what lies below a shard's mark, and knows when a
//! commit is large enough.

use std::collections::BTreeMap;

use bytes::Bytes;
use consort_kernel::{Cell, Expect, Key, Kind, Note, Operation, Shard, Timestamp};
use hashbrown::{HashMap, HashSet};

use super::shown::Shown;
use super::stand::Position;
#[cfg(feature = "mutations")]
use crate::mutation::Mutation;

/// Steps of one shard after which the sheet counts as full. A commit may have 10,000: the rest is room for
/// what one record may add. On Redis a script of this many takes some ten milliseconds.
pub const FULL_STEPS: usize = 2_000;

/// Bytes of one shard after which the sheet counts as full, of the 16 MiB that a commit may have.
pub const FULL_BYTES: usize = 4 << 20;

/// What an operation weighs besides its value: a key has at most a kilobyte and mostly some tens of bytes.
const CELL_BYTES: usize = 64;

/// Steps of one shard after which the sheet of a plan that folds by slices counts as full. Such plans append an
/// entry to a feed with most records. A commit of 2,000 entries holds the embedded engine's writer for some 7 ms,
/// and appends wait for it meanwhile; with 500 they wait for less than 2 ms.
pub const SLICE_STEPS: usize = 500;

/// Operations by shard, and the cells they were decided by.
#[derive(Debug)]
pub struct Sheet {
    shards: BTreeMap<Shard, ShardSheet>,
    /// The shards that the plan named, if it named any.
    named: Option<Vec<Shard>>,
    /// The epoch of the owner's tenure.
    epoch: u64,
    /// Steps after which the sheet is full.
    full_steps: usize,
    /// The shards' marks, below which nothing is applied.
    marks: BTreeMap<Shard, Position>,
    /// Bytes cells as they are after all that was planned so far.
    cells: HashMap<(Shard, Key), Option<Bytes>>,
    /// Members that need not be shown again.
    shown: Shown,
    /// The record being planned.
    at: Position,
    /// The most operations that a shard had when they were last taken: about so many follow.
    operations_before: usize,
    /// Counted up whenever operations that were planned before can no longer be added to.
    turn: u64,
    full: bool,
    #[cfg(feature = "mutations")]
    pub(super) mutation: Option<Mutation>,
}

/// Where the operation on a cell stands that more of the same can be added to. One who adds to the same cell
/// over and over keeps it, and the cell need not be looked for. A fresh one stands nowhere.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spot(Option<(u64, usize)>);

/// What is planned for one shard.
#[derive(Debug, Default)]
pub(super) struct ShardSheet {
    pub(super) expects: Vec<Expect>,
    pub(super) operations: Vec<Operation>,
    /// Where the operation stands that the next one on the same cell can be merged with.
    last_on: HashMap<(Kind, Key), usize>,
    /// Bytes cells that are expected or written already.
    touched: HashSet<Key>,
    steps: usize,
    bytes: usize,
    /// Bytes that are still to be written.
    reserved: usize,
    /// See [`Sheet::full_steps`].
    full_steps: usize,
}

impl Default for Sheet {
    fn default() -> Self {
        Sheet {
            shards: BTreeMap::new(),
            named: None,
            epoch: 0,
            full_steps: FULL_STEPS,
            marks: BTreeMap::new(),
            cells: HashMap::new(),
            shown: Shown::default(),
            at: Position::default(),
            operations_before: 0,
            turn: 0,
            full: false,
            #[cfg(feature = "mutations")]
            mutation: None,
        }
    }
}

impl Sheet {
    /// An empty sheet over shards with these marks, with these cells read, and these members known.
    pub(super) fn new(
        marks: BTreeMap<Shard, Position>,
        cells: HashMap<(Shard, Key), Option<Bytes>>,
        shown: Shown,
    ) -> Self {
        Sheet { marks, cells, shown, ..Sheet::default() }
    }

    /// The same sheet of an owner with this epoch, for a plan that names these shards.
    pub(super) fn of_tenure(self, epoch: u64, named: Option<Vec<Shard>>) -> Self {
        Sheet { epoch, named, ..self }
    }

    /// The same sheet, full after so many steps.
    pub(super) fn with_full_steps(self, full_steps: usize) -> Self {
        Sheet { full_steps, ..self }
    }

    /// Forgets all cells, and knows these.
    pub(super) fn know(&mut self, cells: HashMap<(Shard, Key), Option<Bytes>>) {
        self.cells = cells;
    }

    /// What follows is done by the record at this place.
    pub(super) fn turn_to(&mut self, at: Position) {
        self.at = at;
    }

    /// Whether it should be committed before more is planned.
    pub(super) fn is_full(&self) -> bool {
        self.full
    }

    /// The members that would be known if all that was planned were committed.
    #[cfg(feature = "mutations")]
    pub(super) fn shown(&self) -> &Shown {
        &self.shown
    }

    /// The bytes cells as they are after all that was planned, and the members that are known then.
    pub(super) fn into_known(self) -> (HashMap<(Shard, Key), Option<Bytes>>, Shown) {
        (self.cells, self.shown)
    }

    /// Takes what was planned; the shards' marks are then at `end`.
    pub(super) fn take(&mut self, end: Position) -> BTreeMap<Shard, ShardSheet> {
        self.full = false;
        self.turn += 1;
        let taken = std::mem::take(&mut self.shards);
        self.operations_before =
            taken.values().map(|sheet| sheet.operations.len()).max().unwrap_or(0);
        for &shard in taken.keys() {
            self.marks.insert(shard, end);
        }
        taken
    }

    /// Adds to a counter. Should it overflow, the addition is left out and `on_overflow` noted; additions
    /// with the same note are one.
    pub fn add(&mut self, shard: Shard, key: Key, by: i64, on_overflow: Option<Note>) {
        let Some(sheet) = self.sheet(shard) else { return };
        if let Some(Operation::Add { by: sum, on_overflow: note, .. }) =
            sheet.same(Kind::Counter, &key)
            && *note == on_overflow
            && let Some(merged) = sum.checked_add(by)
        {
            *sum = merged;
            return;
        }
        let add = Operation::Add { key: key.clone(), by, on_overflow };
        sheet.push_on(Kind::Counter, key, add);
        self.weigh(shard);
    }

    /// As [`add`](Sheet::add), at a spot that is only used for this cell. The cell is not looked for otherwise:
    /// what is added without the spot, or at another one, is an operation of its own.
    pub fn add_at(
        &mut self,
        spot: &mut Spot,
        shard: Shard,
        key: &Key,
        by: i64,
        on_overflow: impl FnOnce() -> Option<Note>,
    ) {
        let turn = self.turn;
        let Some(sheet) = self.sheet(shard) else { return };
        if let Some(Operation::Add { by: sum, .. }) = sheet.at(turn, *spot)
            && let Some(merged) = sum.checked_add(by)
        {
            *sum = merged;
            return;
        }
        let add = Operation::Add { key: key.clone(), by, on_overflow: on_overflow() };
        *spot = sheet.push_at(turn, add);
        self.full |= sheet.is_full();
    }

    /// As [`add`](Sheet::add), at a spot of which several may be for this cell: it is looked for where a spot
    /// is new.
    pub fn add_near(&mut self, spot: &mut Spot, shard: Shard, key: &Key, by: i64) {
        let turn = self.turn;
        let Some(sheet) = self.sheet(shard) else { return };
        if let Some(Operation::Add { by: sum, .. }) = sheet.at(turn, *spot)
            && let Some(merged) = sum.checked_add(by)
        {
            *sum = merged;
            return;
        }
        self.add(shard, key.clone(), by, None);
        let place = self.sheet(shard).and_then(|sheet| sheet.place(Kind::Counter, key));
        *spot = Spot(place.map(|place| (turn, place)));
    }

    /// As [`insert`](Sheet::insert), at a spot: see [`add_at`](Sheet::add_at).
    pub fn insert_at(&mut self, spot: &mut Spot, shard: Shard, key: &Key, member: Bytes) {
        self.show_at(Kind::Set, spot, shard, key, member);
    }

    /// As [`distinct`](Sheet::distinct), at a spot: see [`add_at`](Sheet::add_at).
    pub fn distinct_at(&mut self, spot: &mut Spot, shard: Shard, key: &Key, member: Bytes) {
        self.show_at(Kind::Distinct, spot, shard, key, member);
    }

    fn show_at(&mut self, kind: Kind, spot: &mut Spot, shard: Shard, key: &Key, member: Bytes) {
        if !self.takes(shard) || self.shown.knows(shard, kind, key, &member) {
            return;
        }
        let turn = self.turn;
        let Some(sheet) = self.sheet(shard) else { return };
        if let Some(members) = sheet.at(turn, *spot).and_then(members_of) {
            let size = member.len();
            members.push(member);
            sheet.grow(size);
        } else {
            *spot = sheet.push_at(turn, showing(kind, key.clone(), member));
        }
        self.full |= sheet.is_full();
    }

    /// What tells the present commits from earlier and later ones.
    pub fn turn(&self) -> u64 {
        self.turn
    }

    /// Whether the shard takes what the present record does. Once it does, it takes all that follow.
    pub fn takes(&self, shard: Shard) -> bool {
        self.marks.get(&shard).is_none_or(|&mark| self.at >= mark)
    }

    /// Keeps the smallest rank.
    pub fn min(&mut self, shard: Shard, key: Key, rank: Bytes) {
        let Some(sheet) = self.sheet(shard) else { return };
        if let Some(Operation::Min { rank: held, .. }) = sheet.same(Kind::Min, &key) {
            if rank < *held {
                *held = rank;
            }
            return;
        }
        sheet.push_on(Kind::Min, key.clone(), Operation::Min { key, rank });
        self.weigh(shard);
    }

    /// Keeps the largest rank.
    pub fn max(&mut self, shard: Shard, key: Key, rank: Bytes) {
        let Some(sheet) = self.sheet(shard) else { return };
        if let Some(Operation::Max { rank: held, .. }) = sheet.same(Kind::Max, &key) {
            if rank > *held {
                *held = rank;
            }
            return;
        }
        sheet.push_on(Kind::Max, key.clone(), Operation::Max { key, rank });
        self.weigh(shard);
    }

    /// Keeps the value with the largest rank.
    pub fn last(&mut self, shard: Shard, key: Key, rank: Bytes, value: Bytes) {
        let Some(sheet) = self.sheet(shard) else { return };
        if let Some(Operation::Last { rank: held, value: kept, .. }) = sheet.same(Kind::Last, &key)
        {
            if rank > *held {
                (*held, *kept) = (rank, value);
            }
            return;
        }
        sheet.push_on(Kind::Last, key.clone(), Operation::Last { key, rank, value });
        self.weigh(shard);
    }

    /// Makes `member` one of the set. What is known to be there is left out; so nobody else may take members
    /// from a set, or remove it, as long as records for it come.
    pub fn insert(&mut self, shard: Shard, key: Key, member: Bytes) {
        self.show(Kind::Set, shard, key, member);
    }

    /// Shows `member` to the distinct count, as [`insert`](Sheet::insert) does to a set.
    pub fn distinct(&mut self, shard: Shard, key: Key, member: Bytes) {
        self.show(Kind::Distinct, shard, key, member);
    }

    /// Shows `member` to the sketch.
    pub fn sketch(&mut self, shard: Shard, key: Key, member: Bytes) {
        self.show(Kind::Sketch, shard, key, member);
    }

    /// Shows `member` to a cell of a kind that counts members.
    fn show(&mut self, kind: Kind, shard: Shard, key: Key, member: Bytes) {
        if !self.takes(shard) || self.shown.knows(shard, kind, &key, &member) {
            return;
        }
        let Some(sheet) = self.sheet(shard) else { return };
        let size = member.len();
        if let Some(members) = sheet.same(kind, &key).and_then(members_of) {
            members.push(member);
            sheet.grow(size);
        } else {
            sheet.push_on(kind, key.clone(), showing(kind, key, member));
        }
        self.weigh(shard);
    }

    /// Makes the bytes cell hold `value`. It replaces an earlier `put` of the same cell that is not taken yet, so a
    /// cell is written once a commit however many records change it.
    pub fn put(&mut self, shard: Shard, key: Key, value: Bytes) {
        let Some(sheet) = self.sheet(shard) else { return };
        match sheet.same(Kind::Bytes, &key) {
            Some(Operation::Put { value: held, .. }) => {
                let before = std::mem::replace(held, value.clone()).len();
                sheet.bytes = sheet.bytes - before + value.len();
            }
            _ => {
                let put = Operation::Put { key: key.clone(), value: value.clone() };
                sheet.push_on(Kind::Bytes, key.clone(), put);
                sheet.touched.insert(key.clone());
            }
        }
        self.cells.insert((shard, key), Some(value));
        self.weigh(shard);
    }

    /// Removes a cell.
    pub fn delete(&mut self, shard: Shard, cell: Cell) {
        // What comes later must stay behind the deletion.
        self.turn += 1;
        self.shown.forget();
        let Some(sheet) = self.sheet(shard) else { return };
        sheet.last_on.remove(&(cell.kind, cell.key.clone()));
        sheet.push(Operation::Delete(cell.clone()));
        if cell.kind == Kind::Bytes {
            sheet.touched.insert(cell.key.clone());
            self.cells.insert((shard, cell.key), None);
        }
        self.weigh(shard);
    }

    /// Sets when a cell expires.
    pub fn expire(&mut self, shard: Shard, cell: Cell, at: Option<Timestamp>) {
        self.turn += 1;
        self.shown.forget();
        let Some(sheet) = self.sheet(shard) else { return };
        sheet.last_on.remove(&(cell.kind, cell.key.clone()));
        sheet.push(Operation::Expire { cell, at });
        self.weigh(shard);
    }

    /// Appends to a feed.
    pub fn append(&mut self, shard: Shard, note: Note) {
        let Some(sheet) = self.sheet(shard) else { return };
        sheet.push(Operation::Append(note));
        self.weigh(shard);
    }

    /// A bytes cell's content after all that was planned so far. The commit expects that no other writer changed
    /// it.
    ///
    /// # Panics
    ///
    /// If [`Plan::reads`](super::Plan::reads) did not name it.
    pub fn read(&mut self, shard: Shard, key: &Key) -> Option<Bytes> {
        let value = self.known(shard, key);
        if let Some(sheet) = self.sheet(shard)
            && sheet.touched.insert(key.clone())
        {
            sheet.expects.push(Expect::Bytes(key.clone(), value.clone()));
            sheet.grow(value.as_ref().map_or(0, Bytes::len) + CELL_BYTES);
            self.weigh(shard);
        }
        value
    }

    /// As [`read`](Sheet::read), but the commit expects nothing of this cell. Only for cells that change in
    /// commits of the partition's owner alone: each of those moves the mark, and every commit expects the mark.
    ///
    /// # Panics
    ///
    /// If [`Plan::reads`](super::Plan::reads) did not name it.
    pub fn read_owned(&self, shard: Shard, key: &Key) -> Option<Bytes> {
        self.known(shard, key)
    }

    /// Counts `bytes` towards a full sheet until the next commit, for values that
    /// [`Plan::finish_step`](super::Plan::finish_step) is going to put.
    pub fn reserve(&mut self, shard: Shard, bytes: usize) {
        let Some(sheet) = self.sheet(shard) else { return };
        sheet.reserved = sheet.reserved.saturating_add(bytes);
        self.weigh(shard);
    }

    /// The epoch of the owner's tenure. It grows with every change of owner, so stored rows that carry it differ
    /// from those that another owner wrote of the same records.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    fn known(&self, shard: Shard, key: &Key) -> Option<Bytes> {
        // The key is cloned to look up the pair: its bytes are shared, not copied.
        let Some(value) = self.cells.get(&(shard, key.clone())) else {
            panic!("{key:?} of {shard} is read but was not named by `reads`");
        };
        value.clone()
    }

    /// As [`read`](Sheet::read), but the commit expects nothing: a rule that is broken on purpose.
    #[cfg(feature = "mutations")]
    pub fn look(&self, shard: Shard, key: &Key) -> Option<Bytes> {
        self.cells.get(&(shard, key.clone())).cloned().flatten()
    }

    /// The shard's part, unless the shard has applied this record already.
    fn sheet(&mut self, shard: Shard) -> Option<&mut ShardSheet> {
        if let Some(named) = &self.named {
            assert!(named.contains(&shard), "{shard} is touched, but the plan named {named:?}");
        }
        let applied = !self.takes(shard);
        #[cfg(feature = "mutations")]
        let applied = applied && self.mutation != Some(Mutation::MarksMoveBackwards);
        let (room, full_steps) = (self.operations_before, self.full_steps);
        let fresh = || ShardSheet::new(room, full_steps);
        (!applied).then(|| self.shards.entry(shard).or_insert_with(fresh))
    }

    fn weigh(&mut self, shard: Shard) {
        if let Some(sheet) = self.shards.get(&shard) {
            self.full |= sheet.is_full();
        }
    }
}

/// The operation that shows a member to a cell of a kind that counts members.
fn showing(kind: Kind, key: Key, member: Bytes) -> Operation {
    let members = vec![member];
    match kind {
        Kind::Distinct => Operation::Distinct { key, members },
        Kind::Sketch => Operation::Sketch { key, members },
        _ => Operation::Insert { key, members },
    }
}

/// The members that an operation shows to its cell.
fn members_of(operation: &mut Operation) -> Option<&mut Vec<Bytes>> {
    match operation {
        Operation::Insert { members, .. }
        | Operation::Distinct { members, .. }
        | Operation::Sketch { members, .. } => Some(members),
        _ => None,
    }
}

impl ShardSheet {
    /// An empty one, for about so many operations.
    fn new(operations: usize, full_steps: usize) -> Self {
        let operations = Vec::with_capacity(operations);
        ShardSheet { operations, full_steps, ..ShardSheet::default() }
    }

    fn is_full(&self) -> bool {
        self.steps >= self.full_steps || self.bytes + self.reserved >= FULL_BYTES
    }

    /// The operation at a spot, if it was found in the same turn.
    fn at(&mut self, turn: u64, spot: Spot) -> Option<&mut Operation> {
        let (_, place) = spot.0.filter(|(found, _)| *found == turn)?;
        self.operations.get_mut(place)
    }

    /// The operation on a cell that more can be merged with.
    fn same(&mut self, kind: Kind, key: &Key) -> Option<&mut Operation> {
        let place = self.place(kind, key)?;
        self.operations.get_mut(place)
    }

    fn place(&self, kind: Kind, key: &Key) -> Option<usize> {
        // The key is cloned to look up the pair: its bytes are shared, not copied.
        self.last_on.get(&(kind, key.clone())).copied()
    }

    fn push_on(&mut self, kind: Kind, key: Key, operation: Operation) {
        self.last_on.insert((kind, key), self.operations.len());
        self.push(operation);
    }

    /// Tells where.
    fn push_at(&mut self, turn: u64, operation: Operation) -> Spot {
        let spot = Spot(Some((turn, self.operations.len())));
        self.push(operation);
        spot
    }

    fn push(&mut self, operation: Operation) {
        let size = match &operation {
            Operation::Put { value, .. } | Operation::Last { value, .. } => value.len(),
            Operation::Append(note) => note.entry.len(),
            Operation::Insert { members, .. }
            | Operation::Distinct { members, .. }
            | Operation::Sketch { members, .. } => members.iter().map(Bytes::len).sum(),
            _ => 0,
        };
        self.grow(size + CELL_BYTES);
        self.operations.push(operation);
    }

    fn grow(&mut self, bytes: usize) {
        self.steps += 1;
        self.bytes += bytes;
    }
}

#[cfg(test)]
mod tests;

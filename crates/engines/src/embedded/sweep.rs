//! Clearing away, in small steps between batches: expired cells, members of deleted sets, and trimmed
//! entries. Nothing here changes what a reader sees; it only frees space.

use std::collections::{HashSet, VecDeque};

use consort_kernel::{Kind, Timestamp};

use super::batch::Memory;
use super::cell::Row;
use super::rows;
use super::tables::Tables;

/// Rows cleared in one step: an append may have to wait a few milliseconds behind it. After a batch that
/// wrote more rows, as many as it wrote: so clearing away keeps up with writing.
const STEP_ROWS: usize = 500;

/// What is to be cleared away, and where clearing stands.
///
/// Rows that were removed stay as tombstones until fjall compacts them. A step that began at the front
/// would walk over those of all steps before it, and a long backlog would make each append wait longer
/// than the last; so each step goes on where the one before ended.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    trims: VecDeque<Trim>,
    /// No expiry stands below this row.
    expiries_from: Vec<u8>,
    /// No grave stands below this row, but for those that are spared.
    graves_from: Vec<u8>,
    /// The grave that is being cleared, and the row below which it is clear.
    clearing: Option<(Vec<u8>, Vec<u8>)>,
    /// Graves of runs that are being made.
    spared: HashSet<Vec<u8>>,
}

/// Entries of a partition (`log`) or feed, from one number up to before another.
#[derive(Debug)]
struct Trim {
    log: bool,
    prefix: Vec<u8>,
    from: u64,
    before: u64,
}

impl Backlog {
    /// Entries of a partition (`log`) or feed are no longer needed.
    pub(super) fn trim(&mut self, log: bool, prefix: Vec<u8>, from: u64, before: u64) {
        let same = |trim: &&mut Trim| trim.log == log && trim.prefix == prefix;
        match self.trims.iter_mut().find(same) {
            Some(trim) => trim.before = trim.before.max(before),
            None if from < before => self.trims.push_back(Trim { log, prefix, from, before }),
            None => {}
        }
    }

    /// A row of expiries is written.
    pub(super) fn expires(&mut self, row: &[u8]) {
        lower(&mut self.expiries_from, row);
    }

    /// A row of graves is written for a run that is being made: it is not to be cleared yet.
    pub(super) fn spare(&mut self, row: Vec<u8>) {
        self.spared.insert(row);
    }

    /// The run is whole, and its grave is removed.
    pub(super) fn keep(&mut self, row: &[u8]) {
        self.spared.remove(row);
    }

    /// The run will not be whole.
    pub(super) fn abandon(&mut self, row: &[u8]) {
        self.spared.remove(row);
        self.buries(row);
    }

    /// A row of graves is written.
    pub(super) fn buries(&mut self, row: &[u8]) {
        lower(&mut self.graves_from, row);
    }
}

fn lower(from: &mut Vec<u8>, row: &[u8]) {
    if row < from.as_slice() {
        *from = row.to_vec();
    }
}

/// One step, after `written` rows were written. True if there is more to do at once.
pub(super) fn step(
    tables: &Tables,
    memory: &mut Memory,
    now: Timestamp,
    written: usize,
    mode: fjall::PersistMode,
) -> fjall::Result<bool> {
    let mut write = tables.db.batch().durability(Some(mode));
    let mut left = STEP_ROWS.max(written);
    let graves = expired(tables, memory, &mut write, &mut left, now)?;
    buried(tables, &mut memory.backlog, &mut write, &mut left)?;
    // They are not in the table yet, and clearing may have gone past them.
    for grave in graves {
        memory.backlog.buries(&grave);
    }
    trimmed(tables, &mut memory.backlog, &mut write, &mut left)?;
    // Nobody waits for this to be durable. But every batch is, before the next is written: so a journal
    // that lost one in the middle is damaged, and not torn by a power loss (see super::journal).
    write.commit()?;
    Ok(left == 0)
}

fn expired(
    tables: &Tables,
    memory: &mut Memory,
    write: &mut fjall::OwnedWriteBatch,
    left: &mut usize,
    now: Timestamp,
) -> fjall::Result<Vec<[u8; 8]>> {
    let due = rows::expiry(now.0, &[0xFF]);
    let from = memory.backlog.expiries_from.clone();
    let mut graves = Vec::new();
    if from > due {
        return Ok(graves);
    }
    for row in tables.expiries.range(from..=due).take(*left) {
        *left -= 1;
        let row = row.key()?;
        let cell = &row[size_of::<u64>()..];
        write.remove(&tables.expiries, row.clone());
        memory.backlog.expiries_from = row.to_vec();
        // The cell may have been put again since, with another expiry or none.
        let Some(held) = tables.cells.get(cell)?.map(Row::stored) else { continue };
        if held.expired(now) {
            write.remove(&tables.cells, cell);
            let code = cell.get(rows::KIND_BYTES - 1).copied();
            let kind = code.and_then(Kind::from_code);
            if kind.is_some_and(rows::has_members) && !held.as_set().runs.is_empty() {
                let grave = held.as_set().generation.to_be_bytes();
                write.insert(&tables.graves, grave, b"");
                graves.push(grave);
            }
            memory.cache.forget(cell);
        }
    }
    Ok(graves)
}

fn buried(
    tables: &Tables,
    backlog: &mut Backlog,
    write: &mut fjall::OwnedWriteBatch,
    left: &mut usize,
) -> fjall::Result<()> {
    for grave in tables.graves.range(backlog.graves_from.clone()..) {
        let grave = grave.key()?;
        if backlog.spared.contains(&grave[..]) {
            continue;
        }
        let from = match backlog.clearing.take() {
            Some((clearing, from)) if clearing == grave[..] => from,
            _ => grave.to_vec(),
        };
        for block in tables.members.range(from..rows::behind(&grave)).take(*left) {
            let block = block.key()?;
            *left -= 1;
            backlog.clearing = Some((grave.to_vec(), block.to_vec()));
            write.remove(&tables.members, block);
        }
        // With no row left over there may be more blocks: the grave stays for the next step.
        if *left == 0 {
            return Ok(());
        }
        *left -= 1;
        backlog.clearing = None;
        backlog.graves_from = grave.to_vec();
        write.remove(&tables.graves, grave);
    }
    Ok(())
}

fn trimmed(
    tables: &Tables,
    backlog: &mut Backlog,
    write: &mut fjall::OwnedWriteBatch,
    left: &mut usize,
) -> fjall::Result<()> {
    while let Some(trim) = backlog.trims.front_mut() {
        let table = if trim.log { &tables.log } else { &tables.feeds };
        let range = rows::entry(&trim.prefix, trim.from)..rows::entry(&trim.prefix, trim.before);
        for row in table.range(range).take(*left) {
            *left -= 1;
            let row = row.key()?;
            trim.from = rows::entry_number(&row) + 1;
            write.remove(table, row);
        }
        if *left == 0 {
            return Ok(());
        }
        backlog.trims.pop_front();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embedded::batch::Batch;
    use crate::embedded::merger::{self, Due};
    use bytes::Bytes;
    use consort_kernel::{Cell, Commit, Key, Operation, Shard};

    /// Tables with the writer's memory, and no writer.
    struct Bench {
        _folder: tempfile::TempDir,
        tables: Tables,
        memory: Memory,
        due: Vec<Due>,
    }

    impl Bench {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let tables = Tables::open(folder.path()).unwrap();
            Bench { _folder: folder, tables, memory: Memory::default(), due: Vec::new() }
        }

        fn commit(&mut self, operations: impl IntoIterator<Item = Operation>) {
            let mut batch = Batch::new(&self.tables, &mut self.memory, Timestamp(1));
            batch.commit(Shard(0), &Commit::of(operations)).unwrap().unwrap();
            self.due.extend(batch.write(fjall::PersistMode::Buffer).unwrap().due);
        }

        /// Merges what is due.
        fn merge(&mut self) {
            while let Some(due) = self.due.pop() {
                let (tables, memory) = (&self.tables, &mut self.memory);
                let mut write = |piece| {
                    let mut batch = Batch::new(tables, memory, Timestamp(1));
                    batch.piece(piece).unwrap();
                    self.due.extend(batch.write(fjall::PersistMode::Buffer).unwrap().due);
                    true
                };
                merger::merge(tables, due, 1_000, &mut write).unwrap();
            }
        }

        /// Steps until nothing is left to do, and tells how many.
        fn clear(&mut self, now: u64) -> usize {
            let (now, mode) = (Timestamp(now), fjall::PersistMode::Buffer);
            let step = |_: &usize| step(&self.tables, &mut self.memory, now, 0, mode).unwrap();
            1 + (0..1_000).take_while(step).count()
        }

        fn rows(&self) -> [usize; 4] {
            let Tables { cells, members, expiries, graves, .. } = &self.tables;
            [cells, members, expiries, graves].map(|table| table.iter().count())
        }
    }

    fn key(number: u64) -> Key {
        Key::from(["k"]).with(number)
    }

    fn set(number: u64) -> Cell {
        Cell::new(Kind::Set, key(number))
    }

    fn insert(number: u64, members: u32) -> Operation {
        let members = (0..members).map(|n| Bytes::copy_from_slice(&n.to_be_bytes())).collect();
        Operation::Insert { key: key(number), members }
    }

    #[test]
    fn a_large_set_is_cleared_in_steps() {
        let mut bench = Bench::new();
        // Each of them fills a block.
        let long = |n: usize| Bytes::from([&n.to_be_bytes()[..], &[0; 16 * 1024]].concat());
        let members = (0..3 * STEP_ROWS).map(long).collect();
        bench.commit([Operation::Insert { key: key(1), members }, insert(2, 50)]);
        assert_eq!(bench.rows(), [2, 3 * STEP_ROWS + 1, 0, 0]);
        bench.commit([Operation::Delete(set(1))]);
        assert_eq!(bench.clear(1), 4);
        assert_eq!(bench.rows(), [1, 1, 0, 0]);
    }

    #[test]
    fn what_a_distinct_count_has_seen_is_cleared_away_with_it() {
        let mut bench = Bench::new();
        let cell = |number| Cell::new(Kind::Distinct, key(number));
        let show = |number| match insert(number, 2_000) {
            Operation::Insert { key, members } => Operation::Distinct { key, members },
            other => other,
        };
        let expire = Operation::Expire { cell: cell(2), at: Some(Timestamp(10)) };
        bench.commit([show(1), show(2), expire]);
        let [cells, members, expiries, graves] = bench.rows();
        assert_eq!([cells, expiries, graves], [2, 1, 0]);
        assert!(members > 0, "too few to lie in blocks");
        bench.commit([Operation::Delete(cell(1))]);
        // What expires in one sweep is buried, and cleared in the next.
        bench.clear(20);
        bench.clear(20);
        assert_eq!(bench.rows(), [0, 0, 0, 0]);
    }

    #[test]
    fn runs_that_were_merged_are_cleared_away() {
        let mut bench = Bench::new();
        for _ in 0..8 {
            bench.commit([insert(1, 50)]);
        }
        assert_eq!(bench.rows(), [1, 8, 0, 1], "the run that they become lies in a grave");
        bench.merge();
        bench.clear(1);
        assert_eq!(bench.rows(), [1, 1, 0, 0]);
    }

    #[test]
    fn a_set_is_cleared_whole_although_runs_of_it_were_cleared_before() {
        let mut bench = Bench::new();
        bench.commit([insert(1, 2_000)]);
        for _ in 0..8 {
            bench.commit([insert(1, 50)]);
        }
        bench.merge();
        bench.clear(1);
        bench.commit([Operation::Delete(set(1))]);
        bench.clear(1);
        assert_eq!(bench.rows(), [0, 0, 0, 0]);
    }

    #[test]
    fn a_run_that_was_not_finished_is_cleared_away() {
        let mut bench = Bench::new();
        for round in 0..8 {
            bench.commit([insert(1, 500 + round)]);
        }
        let due = bench.due.pop().expect("eight runs are due");
        let mut pieces = Vec::new();
        let mut keep = |piece| {
            pieces.push(piece);
            true
        };
        merger::merge(&bench.tables, due, 1_000, &mut keep).unwrap();
        let first = pieces.swap_remove(0);
        let mut batch = Batch::new(&bench.tables, &mut bench.memory, Timestamp(1));
        batch.piece(first).unwrap();
        batch.write(fjall::PersistMode::Buffer).unwrap();
        bench.clear(1);
        assert_eq!(bench.rows(), [1, 9, 0, 1], "it is spared while it is being made");
        // As after a crash: nobody knows of it any more.
        bench.memory = Memory::default();
        bench.clear(1);
        assert_eq!(bench.rows(), [1, 8, 0, 0]);
    }

    #[test]
    fn what_comes_before_the_place_where_clearing_stands_is_cleared_too() {
        let mut bench = Bench::new();
        let expire = |number, at| Operation::Expire { cell: set(number), at: Some(Timestamp(at)) };
        // More than a row has: they become runs.
        bench.commit([1, 2, 3, 4, 5].map(|number| insert(number, 40)));
        bench.commit([expire(5, 50)]);
        bench.clear(50);
        bench.commit([expire(2, 20), Operation::Delete(set(4))]);
        bench.clear(50);
        bench.clear(50);
        assert_eq!(bench.rows(), [2, 2, 0, 0], "the first and the third set are left");
        bench.commit([Operation::Delete(set(1))]);
        bench.clear(50);
        assert_eq!(bench.rows(), [1, 1, 0, 0], "the third set is left");
    }
}

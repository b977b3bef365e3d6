//! Runs of a set's members: written in sorted blocks, read in order, and merged, so that a member that
//! stands in several of them comes once.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use fjall::{Readable, Slice};

use super::rows;
use super::sets::{Run, SetRow};
use super::small::{self, LENGTH_BYTES};
use super::tables::Tables;

/// A block is closed when it has so many bytes. Reading a member reads a block.
const BLOCK_BYTES: usize = 16 * 1024;

/// Sorted members on their way into a run, in blocks.
#[derive(Debug)]
pub(super) struct Blocks {
    generation: u64,
    /// What is known of the run so far.
    run: Run,
    /// Rows that are not written yet.
    rows: Vec<(Vec<u8>, Vec<u8>)>,
    /// Bytes in those.
    held: usize,
}

impl Blocks {
    /// None yet, of the run with this number.
    pub(super) fn new(generation: u64, number: u64) -> Self {
        let run = Run { number, members: 0, bytes: 0 };
        Blocks { generation, run, rows: Vec::new(), held: 0 }
    }

    /// Takes a member that is greater than all before it.
    pub(super) fn push(&mut self, member: &[u8]) {
        match self.rows.last_mut() {
            Some((_, block)) if block.len() < BLOCK_BYTES => small::push(block, member),
            _ => {
                let mut block = Vec::with_capacity(BLOCK_BYTES / 4);
                small::push(&mut block, member);
                self.rows.push((rows::block(self.generation, self.run.number, member), block));
            }
        }
        let size = LENGTH_BYTES + member.len();
        self.run.members += 1;
        self.run.bytes += size as u64;
        self.held += size;
    }

    /// Bytes that are not written yet.
    pub(super) fn held(&self) -> usize {
        self.held
    }

    /// The rows that are not written yet; later members begin a new block.
    pub(super) fn take(&mut self) -> Vec<(Vec<u8>, Vec<u8>)> {
        self.held = 0;
        std::mem::take(&mut self.rows)
    }

    /// The run as it is.
    pub(super) fn run(&self) -> Run {
        self.run
    }
}

/// One run, or a tail, read in order.
struct Reader {
    /// The blocks behind this one.
    blocks: Option<fjall::Iter>,
    block: Slice,
    /// Where the present member begins and ends.
    from: usize,
    to: usize,
}

impl Reader {
    /// At the first member behind `after`; `None` if there is none.
    fn open(
        tables: &Tables,
        snapshot: &fjall::Snapshot,
        generation: u64,
        run: Run,
        after: Option<&[u8]>,
    ) -> fjall::Result<Option<Reader>> {
        let end = rows::block(generation, run.number + 1, &[]);
        let mut start = rows::block(generation, run.number, &[]);
        if let Some(after) = after {
            // Of the blocks that do not begin behind it, the last one may hold it.
            let holding = rows::block(generation, run.number, after);
            if let Some(row) = snapshot.range(&tables.members, start.clone()..=holding).next_back()
            {
                start = row.key()?.to_vec();
            }
        }
        let blocks = snapshot.range(&tables.members, start..end);
        Reader { blocks: Some(blocks), block: Slice::from(&b""[..]), from: 0, to: 0 }.seek(after)
    }

    /// The members of a tail.
    fn tail(bytes: &[u8], after: Option<&[u8]>) -> fjall::Result<Option<Reader>> {
        Reader { blocks: None, block: Slice::from(bytes), from: 0, to: 0 }.seek(after)
    }

    fn seek(mut self, after: Option<&[u8]>) -> fjall::Result<Option<Reader>> {
        while self.step()? {
            if after.is_none_or(|after| self.member() > after) {
                return Ok(Some(self));
            }
        }
        Ok(None)
    }

    fn member(&self) -> &[u8] {
        &self.block[self.from..self.to]
    }

    /// Goes to the next member; false if there is none.
    fn step(&mut self) -> fjall::Result<bool> {
        loop {
            if let Some(length) = small::length(&self.block[self.to..]) {
                self.from = self.to + LENGTH_BYTES;
                self.to = self.from + length;
                return Ok(true);
            }
            let Some(next) = self.blocks.as_mut().and_then(Iterator::next) else {
                return Ok(false);
            };
            (self.block, self.to) = (next.value()?, 0);
        }
    }
}

impl PartialEq for Reader {
    fn eq(&self, other: &Self) -> bool {
        self.member() == other.member()
    }
}

impl Eq for Reader {}

impl PartialOrd for Reader {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Reader {
    fn cmp(&self, other: &Self) -> Ordering {
        self.member().cmp(other.member())
    }
}

/// Several runs read as one: in order, each member once.
pub(super) struct Merge {
    readers: BinaryHeap<Reverse<Reader>>,
    /// The member that was given last, once one was.
    last: Vec<u8>,
    began: bool,
}

impl Merge {
    /// Of these runs.
    pub(super) fn of(
        tables: &Tables,
        snapshot: &fjall::Snapshot,
        generation: u64,
        runs: &[Run],
        after: Option<&[u8]>,
    ) -> fjall::Result<Merge> {
        let mut readers = BinaryHeap::with_capacity(runs.len() + 1);
        for &run in runs {
            let reader = Reader::open(tables, snapshot, generation, run, after)?;
            readers.extend(reader.map(Reverse));
        }
        Ok(Merge { readers, last: Vec::new(), began: false })
    }

    /// Of all members of a set that are greater than `after`.
    pub(super) fn of_set(
        tables: &Tables,
        snapshot: &fjall::Snapshot,
        set: &SetRow,
        after: Option<&[u8]>,
    ) -> fjall::Result<Merge> {
        let mut merge = Merge::of(tables, snapshot, set.generation, &set.runs, after)?;
        merge.readers.extend(Reader::tail(set.tail.as_bytes(), after)?.map(Reverse));
        Ok(merge)
    }

    /// The next member.
    pub(super) fn next(&mut self) -> fjall::Result<Option<&[u8]>> {
        while let Some(mut first) = self.readers.peek_mut() {
            let member = first.0.member();
            // The first may be empty, as `last` is before it.
            let again = self.began && self.last == member;
            if !again {
                self.last.clear();
                self.last.extend_from_slice(member);
                self.began = true;
            }
            if !first.0.step()? {
                PeekMut::pop(first);
            }
            if !again {
                return Ok(Some(&self.last));
            }
        }
        Ok(None)
    }

    /// How many there are.
    pub(super) fn count(mut self) -> fjall::Result<u64> {
        let mut count = 0;
        while self.next()?.is_some() {
            count += 1;
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embedded::batch::{Batch, Memory};
    use crate::embedded::cell::Row;
    use crate::embedded::counts::Counts;
    use crate::embedded::merger::{self, Due};
    use bytes::Bytes;
    use consort_kernel::{Cell, Commit, Key, Kind, Operation, Shard, Timestamp};
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const BUFFER: fjall::PersistMode = fjall::PersistMode::Buffer;

    /// A set with the writer's memory, and no writer.
    struct Bed {
        _folder: tempfile::TempDir,
        tables: Tables,
        memory: Memory,
        counts: Counts,
        due: Vec<Due>,
    }

    impl Bed {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let tables = Tables::open(folder.path()).unwrap();
            let (memory, counts) = Default::default();
            Bed { _folder: folder, tables, memory, counts, due: Vec::new() }
        }

        fn commit(&mut self, operation: Operation) {
            let mut batch = Batch::new(&self.tables, &mut self.memory, Timestamp(1));
            batch.commit(Shard(0), &Commit::of([operation])).unwrap().unwrap();
            self.due.extend(batch.write(BUFFER).unwrap().due);
        }

        fn insert(&mut self, members: impl IntoIterator<Item = u32>) {
            let members = members.into_iter().map(member).collect();
            self.commit(Operation::Insert { key: key(), members });
        }

        fn delete(&mut self) {
            self.commit(Operation::Delete(Cell::new(Kind::Set, key())));
        }

        /// What the merger does, and the writer with it.
        fn merge(&mut self, due: Due) {
            let (tables, memory) = (&self.tables, &mut self.memory);
            let mut write = |piece| {
                let mut batch = Batch::new(tables, memory, Timestamp(1));
                batch.piece(piece).unwrap();
                self.due.extend(batch.write(BUFFER).unwrap().due);
                true
            };
            merger::merge(tables, due, 10_000, &mut write).unwrap();
        }

        fn set(&self) -> SetRow {
            let row = rows::cell_row(Shard(0), Kind::Set, key().as_bytes());
            let row = self.tables.cells.get(row).unwrap().map(Row::stored);
            row.map(|row| row.as_set()).unwrap_or_default()
        }

        fn members(&self, after: Option<u32>) -> Vec<Vec<u8>> {
            let (snapshot, after) = (self.tables.db.snapshot(), after.map(member));
            let mut merge =
                Merge::of_set(&self.tables, &snapshot, &self.set(), after.as_deref()).unwrap();
            let mut members = Vec::new();
            while let Some(member) = merge.next().unwrap() {
                members.push(member.to_vec());
            }
            members
        }

        fn count(&self) -> u64 {
            let snapshot = self.tables.db.snapshot();
            self.counts.of(&self.tables, &snapshot, &self.set().encode()).unwrap().members
        }
    }

    fn key() -> Key {
        Key::from(["set"])
    }

    /// The first is empty; they differ in length.
    fn member(number: u32) -> Bytes {
        if number == 0 { Bytes::new() } else { Bytes::from(number.to_string()) }
    }

    #[derive(Clone, Debug)]
    enum Step {
        Insert { from: u32, by: u32, members: u32 },
        Merge,
        Delete,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            10 => (0..5_000u32, 1..4u32, 1..80u32)
                .prop_map(|(from, by, members)| Step::Insert { from, by, members }),
            1 => (0..50u32, 1..2u32, 500..4_000u32)
                .prop_map(|(from, by, members)| Step::Insert { from, by, members }),
            3 => Just(Step::Merge),
            1 => Just(Step::Delete),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn a_set_of_runs_holds_what_was_put_into_it(
            steps in prop::collection::vec(step(), 1..120),
            after in 0..6_000u32,
        ) {
            let (mut bed, mut expected) = (Bed::new(), BTreeSet::new());
            for step in steps {
                match step {
                    Step::Insert { from, by, members } => {
                        let numbers = (0..members).map(|n| from + n * by);
                        expected.extend(numbers.clone().map(member));
                        bed.insert(numbers);
                    }
                    Step::Merge => {
                        let due = bed.due.pop();
                        due.into_iter().for_each(|due| bed.merge(due));
                    }
                    Step::Delete => {
                        bed.delete();
                        expected.clear();
                    }
                }
                prop_assert_eq!(bed.count(), expected.len() as u64);
            }
            prop_assert!(bed.members(None).iter().eq(expected.iter()));
            let behind = expected.range(member(after)..).filter(|held| **held != member(after));
            prop_assert!(bed.members(Some(after)).iter().eq(behind));
        }
    }

    #[test]
    fn what_comes_while_runs_are_merged_stays() {
        let mut bed = Bed::new();
        for round in 0..8 {
            bed.insert(round * 10..round * 10 + 100);
        }
        let due = bed.due.pop().expect("eight runs are due");
        bed.insert(1_000..1_100);
        bed.merge(due);
        assert_eq!(bed.set().runs.len(), 2);
        assert_eq!(bed.count(), 170 + 100);
    }

    #[test]
    fn a_set_that_was_deleted_meanwhile_gets_nothing_back() {
        let mut bed = Bed::new();
        for _ in 0..8 {
            bed.insert(0..100);
        }
        let due = bed.due.pop().expect("eight runs are due");
        bed.delete();
        bed.insert(500..600);
        bed.merge(due);
        assert_eq!((bed.set().runs.len(), bed.count()), (1, 100));
    }

    #[test]
    fn members_that_come_again_do_not_make_a_set_larger() {
        const MEMBERS: u32 = 6_000;
        const LONG: usize = 100;
        let mut bed = Bed::new();
        for round in 0..2_000u32 {
            let members = (0..600).map(|n| (round * 600 + n) % MEMBERS);
            let members: Vec<Bytes> = members.map(|n| format!("{n:0LONG$}").into()).collect();
            bed.commit(Operation::Insert { key: key(), members });
            while let Some(due) = bed.due.pop() {
                bed.merge(due);
            }
        }
        let runs = bed.set().runs;
        let (bytes, runs) = (runs.iter().map(|run| run.bytes).sum::<u64>(), runs.len());
        let once = u64::from(MEMBERS) * (LENGTH_BYTES + LONG) as u64;
        assert!(runs <= 3 * 8 && bytes <= 10 * once, "{runs} runs, {bytes} of {once} bytes");
        assert_eq!(bed.count(), u64::from(MEMBERS));
    }

    #[test]
    fn merges_follow_one_another_until_runs_are_few() {
        let mut bed = Bed::new();
        for round in 0..512 {
            bed.insert((0..40).map(|n| n * 512 + round));
            while let Some(due) = bed.due.pop() {
                bed.merge(due);
            }
        }
        let runs = bed.set().runs.len();
        assert!(runs <= 3 * 7, "{runs} runs");
        assert_eq!(bed.count(), 512 * 40);
    }
}

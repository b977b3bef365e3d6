//! A plan on given cells, without a store: for dry runs and for tests of plans.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use consort_kernel::{Key, LogEntry, Operation, Partition, Shard, Timestamp};
use hashbrown::HashMap;

use super::plan::{Folding, Memory, Plan, RejectCause};
use super::planner::{Planner, Progress, ReadCells, cells_named, fresh_records};
use super::sheet::{SLICE_STEPS, Sheet};
use super::shown::Shown;
use super::stand::{Position, Stand};

/// A partition that a plan is tried on. It keeps bytes cells, memory and passed producers from frame to frame,
/// as an owner does whose commits all succeed. It stores nothing.
///
/// A dry run makes one, asks [`reads`](Rehearsal::reads) which cells a frame needs, reads them from the store,
/// tells them by [`know`](Rehearsal::know), and takes the operations of [`apply`](Rehearsal::apply).
#[derive(Debug)]
pub struct Rehearsal<'a> {
    plan: &'a dyn Plan,
    partition: &'a Partition,
    epoch: u64,
    shards: u16,
    stand: Stand,
    memory: Memory,
    cells: ReadCells,
}

/// One commit that was not made.
#[derive(Clone, Debug, PartialEq)]
pub struct RehearsedStep {
    /// The operations, by shard.
    pub operations: BTreeMap<Shard, Vec<Operation>>,
    /// Where the marks would stand.
    pub end: Position,
}

impl<'a> Rehearsal<'a> {
    /// A new partition, in a store of `shards` shards.
    pub fn new(plan: &'a dyn Plan, partition: &'a Partition, shards: u16) -> Self {
        Rehearsal {
            plan,
            partition,
            epoch: 1,
            shards,
            stand: Stand::default(),
            memory: Memory::default(),
            cells: HashMap::new(),
        }
    }

    /// Another owner takes over, with this epoch and an empty memory.
    pub fn take_over(&mut self, epoch: u64) {
        self.epoch = epoch;
        self.memory = Memory::default();
    }

    /// The cells that the records of `entry` name and that are not known yet, each once. They count as absent
    /// until [`know`](Rehearsal::know) tells them.
    pub fn reads(&mut self, entry: &LogEntry) -> Vec<(Shard, Key)> {
        self.plan.begin_slice(&mut self.memory);
        self.named(entry).into_iter().filter(|cell| !self.cells.contains_key(cell)).collect()
    }

    /// Tells a bytes cell.
    pub fn know(&mut self, shard: Shard, key: Key, value: Option<Bytes>) {
        self.cells.insert((shard, key), value);
    }

    /// A bytes cell as it is known, after all that was applied.
    pub fn cell(&self, shard: Shard, key: &Key) -> Option<&Bytes> {
        self.cells.get(&(shard, key.clone()))?.as_ref()
    }

    /// All bytes cells that are known to be there.
    pub fn cells(&self) -> impl Iterator<Item = (Shard, &Key, &Bytes)> {
        let cells = self.cells.iter();
        cells.filter_map(|((shard, key), value)| Some((*shard, key, value.as_ref()?)))
    }

    /// Applies the records of `entry` as one slice. A repeat of a frame does nothing.
    pub fn apply(&mut self, entry: &LogEntry) -> Vec<RehearsedStep> {
        self.plan(entry, None)
    }

    /// Rejects the records of `entry` instead of applying them, as after a setback.
    pub fn reject(&mut self, entry: &LogEntry, cause: &RejectCause) -> Vec<RehearsedStep> {
        self.memory = Memory::default();
        self.plan(entry, Some(cause))
    }

    fn named(&mut self, entry: &LogEntry) -> BTreeSet<(Shard, Key)> {
        let entries = std::slice::from_ref(entry);
        fresh_records(self.partition, &self.stand, entries, 0, Timestamp(u64::MAX))
            .flat_map(|(_, record)| cells_named(self.plan, &record, &mut self.memory))
            .collect()
    }

    fn plan(&mut self, entry: &LogEntry, cause: Option<&RejectCause>) -> Vec<RehearsedStep> {
        for cell in self.reads(entry) {
            self.cells.insert(cell, None);
        }
        let full_steps = match self.plan.folding() {
            Folding::Batches => super::sheet::FULL_STEPS,
            Folding::Slices => SLICE_STEPS,
        };
        let named = self.plan.shards(self.partition, self.shards);
        let cells = std::mem::take(&mut self.cells);
        let sheet = Sheet::new(BTreeMap::new(), cells, Shown::default());
        let mut planner = Planner {
            partition: self.partition,
            plan: self.plan,
            entries: std::slice::from_ref(entry),
            now: Timestamp(u64::MAX),
            duplicates: &BTreeSet::new(),
            taken: Position::default(),
            stand: self.stand.clone(),
            memory: &mut self.memory,
            sheet: sheet.of_tenure(self.epoch, named).with_full_steps(full_steps),
            progress: Progress::default(),
            until: None,
        };
        let mut steps = Vec::new();
        while let Some(step) = match cause {
            None => planner.next(),
            Some(cause) => planner.reject(cause),
        } {
            let shards = step.shards.into_iter();
            let operations = shards.map(|(shard, sheet)| (shard, sheet.operations)).collect();
            steps.push(RehearsedStep { operations, end: step.end.position() });
        }
        self.stand = planner.stand;
        (self.cells, _) = planner.sheet.into_known();
        steps
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::{Record, Sheet};
    use consort_kernel::{Digest, Frame, FrameKind, Producer};

    const SHARD: Shard = Shard(1);

    /// Appends each record's bytes to one text, which it writes once a step.
    #[derive(Debug)]
    struct Joining;

    /// The text, and whether it has changed since it was written.
    #[derive(Debug, Default)]
    struct Joined(Option<Vec<u8>>, bool);

    fn key() -> Key {
        Key::from(["text"])
    }

    impl Plan for Joining {
        fn folding(&self) -> Folding {
            Folding::Slices
        }

        fn shards(&self, _: &Partition, _: u16) -> Option<Vec<Shard>> {
            Some(vec![SHARD])
        }

        fn reads(&self, _: &Record<'_>, memory: &mut Memory) -> Vec<(Shard, Key)> {
            if memory.recall::<Joined>().0.is_some() { Vec::new() } else { vec![(SHARD, key())] }
        }

        fn apply(&self, record: &Record<'_>, memory: &mut Memory, sheet: &mut Sheet) {
            let read = || sheet.read_owned(SHARD, &key()).unwrap_or_default().to_vec();
            let joined = memory.recall::<Joined>();
            joined.0.get_or_insert_with(read).extend(record.bytes);
            joined.1 = true;
            sheet.reserve(SHARD, record.bytes.len());
        }

        fn finish_step(&self, memory: &mut Memory, sheet: &mut Sheet) {
            if let Joined(Some(text), changed @ true) = memory.recall() {
                *changed = false;
                sheet.put(SHARD, key(), text.clone().into());
            }
        }

        fn reject(&self, _: &Record<'_>, cause: &RejectCause, _: &mut Memory, sheet: &mut Sheet) {
            sheet.put(SHARD, Key::from(["why"]), format!("{cause:?}").into());
        }
    }

    fn entry(offset: u64, records: &[&'static str]) -> LogEntry {
        let frame = Frame {
            kind: FrameKind::Events,
            producer: Producer(1),
            sequence: offset,
            time: Timestamp(5),
            records: records.iter().collect(),
        };
        LogEntry { offset, digest: Digest::of(&offset.to_be_bytes()), frame }
    }

    #[test]
    fn a_rehearsal_says_which_cells_it_needs_and_what_would_be_written() {
        let partition = Partition::new("s".parse().unwrap(), 0);
        let mut rehearsal = Rehearsal::new(&Joining, &partition, 2);
        assert_eq!(rehearsal.reads(&entry(0, &["b", "c"])), [(SHARD, key())]);
        rehearsal.know(SHARD, key(), Some(Bytes::from_static(b"a")));
        let steps = rehearsal.apply(&entry(0, &["b", "c"]));
        let put = Operation::Put { key: key(), value: Bytes::from_static(b"abc") };
        assert_eq!(steps.len(), 1);
        assert_eq!(steps[0].operations, BTreeMap::from([(SHARD, vec![put])]));
        assert!(rehearsal.reads(&entry(1, &["d"])).is_empty(), "the memory stands for the cell");
        rehearsal.take_over(2);
        rehearsal.apply(&entry(1, &["d"]));
        assert_eq!(rehearsal.cell(SHARD, &key()).map(|text| &text[..]), Some(&b"abcd"[..]));
        assert!(rehearsal.apply(&entry(1, &["d"])).is_empty(), "the frame is a repeat");
        rehearsal.reject(&entry(2, &["e"]), &RejectCause::Panicked);
        assert_eq!(rehearsal.cells().count(), 2);
        assert_eq!(rehearsal.cell(SHARD, &key()).map(|text| &text[..]), Some(&b"abcd"[..]));
    }
}

//! Planning, pure: frames and marks in, commits by shard out, cut where a commit is large enough.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use consort_kernel::{FrameKind, Key, LogEntry, Partition, Shard, Timestamp};
use hashbrown::HashMap;

use super::control::Control;
use super::plan::{Memory, Plan, Record};
use super::sheet::{ShardSheet, Sheet};
use super::stand::{Mark, Position, Stand};

/// The frames of one batch, on their way into commits.
pub(super) struct Planner<'a> {
    pub(super) partition: &'a Partition,
    pub(super) plan: &'a dyn Plan,
    pub(super) entries: &'a [LogEntry],
    /// The store's time, not later than now.
    pub(super) now: Timestamp,
    /// Records whose id was seen before.
    pub(super) duplicates: &'a BTreeSet<Position>,
    /// Before the frame that is being planned.
    pub(super) stand: Stand,
    pub(super) memory: Memory,
    pub(super) sheet: Sheet,
    pub(super) progress: Progress,
}

/// How far the planner has come within its batch.
#[derive(Debug, Default)]
pub(super) struct Progress {
    frame: usize,
    record: usize,
    pub(super) records: u64,
    pub(super) repeats: u64,
}

/// What is to be committed together: for each shard its operations, and where its mark then stands.
pub(super) struct Step {
    pub(super) shards: BTreeMap<Shard, ShardSheet>,
    pub(super) end: Mark,
}

impl Planner<'_> {
    /// The next step; `None` when the batch is planned, and `stand` is behind its last frame.
    pub(super) fn next(&mut self) -> Option<Step> {
        while let Some(entry) = self.entries.get(self.progress.frame) {
            let mut behind = self.stand.clone();
            if behind.pass(entry, self.now) {
                while self.progress.record < entry.frame.records.len() {
                    self.apply(entry, behind.watermark());
                    self.progress.record += 1;
                    if self.sheet.is_full() && self.progress.record < entry.frame.records.len() {
                        let record = self.progress.record as u32;
                        return Some(self.step(Mark::inside(self.stand.clone(), entry, record)));
                    }
                }
            } else {
                self.progress.repeats += 1;
            }
            self.stand = behind;
            self.progress.frame += 1;
            self.progress.record = 0;
            if self.sheet.is_full() {
                return Some(self.step(Mark::at(self.stand.clone())));
            }
        }
        let last = self.step(Mark::at(self.stand.clone()));
        (!last.shards.is_empty()).then_some(last)
    }

    /// The first frame that is not planned to its end.
    pub(super) fn next_frame(&self) -> Option<&LogEntry> {
        self.entries.get(self.progress.frame)
    }

    fn step(&mut self, end: Mark) -> Step {
        Step { shards: self.sheet.take(end.position()), end }
    }

    fn apply(&mut self, entry: &LogEntry, watermark: Timestamp) {
        let index = self.progress.record;
        let record = place(self.partition, self.stand.era, entry, index, watermark);
        let Some(record) = record else { return };
        self.sheet.turn_to(record.position);
        self.progress.records += 1;
        match entry.frame.kind {
            FrameKind::Events if self.duplicates.contains(&record.position) => {
                self.plan.duplicate(&record, &mut self.sheet);
            }
            FrameKind::Events => self.plan.apply(&record, &mut self.memory, &mut self.sheet),
            FrameKind::Control => match Control::decode(record.bytes) {
                Ok(Control::Tick) => {}
                Ok(control) => self.plan.control(&record, &control, &mut self.sheet),
                Err(error) => tracing::error!(
                    partition = %self.partition, offset = entry.offset, %error,
                    "a control record cannot be read and is left out"
                ),
            },
        }
    }
}

/// The records of `entries` that are no repeats and no control records, as `stand` is stepped over them.
pub(super) fn fresh_records<'a>(
    partition: &'a Partition,
    stand: &Stand,
    entries: &'a [LogEntry],
    now: Timestamp,
) -> impl Iterator<Item = Record<'a>> {
    let mut stand = stand.clone();
    entries.iter().flat_map(move |entry| {
        let fresh = stand.pass(entry, now) && entry.frame.kind == FrameKind::Events;
        let (era, watermark) = (stand.era, stand.watermark());
        let records = if fresh { entry.frame.records.len() } else { 0 };
        (0..records).filter_map(move |at| place(partition, era, entry, at, watermark))
    })
}

fn place<'a>(
    partition: &'a Partition,
    era: u64,
    entry: &'a LogEntry,
    index: usize,
    watermark: Timestamp,
) -> Option<Record<'a>> {
    Some(Record {
        partition,
        position: Position { era, offset: entry.offset, record: index as u32 },
        time: entry.frame.time,
        watermark,
        bytes: entry.frame.records.get(index)?,
        among: &entry.frame.records,
    })
}

/// Cells as they were read for a batch.
pub(super) type ReadCells = HashMap<(Shard, Key), Option<Bytes>>;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::sheet::FULL_STEPS;
    use crate::worker::shown::Shown;
    use consort_kernel::{Digest, Frame, Operation, Producer};

    #[derive(Debug)]
    struct Count;

    impl Plan for Count {
        fn apply(&self, record: &Record<'_>, _: &mut Memory, sheet: &mut Sheet) {
            let place = [record.position.offset, u64::from(record.position.record)];
            let key = Key::of(place.map(Into::into));
            sheet.add(Shard((record.position.record % 2) as u16), key, 1, None);
        }
    }

    fn entry(offset: u64, sequence: u64, records: usize) -> LogEntry {
        let frame = Frame {
            kind: FrameKind::Events,
            producer: Producer(1),
            sequence,
            time: Timestamp(5),
            records: vec![[]; records].into(),
        };
        LogEntry { offset, digest: Digest::of(&offset.to_be_bytes()), frame }
    }

    fn steps(entries: &[LogEntry], marks: BTreeMap<Shard, Position>) -> Vec<Step> {
        let partition = Partition::new("s".parse().unwrap(), 0);
        let mut planner = Planner {
            partition: &partition,
            plan: &Count,
            entries,
            now: Timestamp(100),
            duplicates: &BTreeSet::new(),
            stand: Stand::default(),
            memory: Memory::default(),
            sheet: Sheet::new(marks, HashMap::new(), Shown::default()),
            progress: Progress::default(),
        };
        std::iter::from_fn(|| planner.next()).collect()
    }

    fn operations(steps: &[Step]) -> Vec<Operation> {
        let shards = steps.iter().flat_map(|step| step.shards.values());
        let mut all: Vec<_> = shards.flat_map(|sheet| sheet.operations.clone()).collect();
        all.sort_by_key(|operation| format!("{operation:?}"));
        all
    }

    #[test]
    fn a_large_frame_is_cut_between_records_and_loses_none() {
        let entries = [entry(0, 0, 3), entry(1, 1, 5 * FULL_STEPS), entry(2, 2, 3)];
        let whole = steps(&entries, BTreeMap::new());
        assert!(whole.len() > 2);
        let places: Vec<Position> = whole.iter().map(|step| step.end.position()).collect();
        assert!(places.is_sorted());
        assert_eq!(operations(&whole).len(), 6 + 5 * FULL_STEPS);
        assert_eq!(whole.last().map(|step| step.end.position().offset), Some(3));
    }

    #[test]
    fn after_a_crash_at_any_step_the_rest_is_planned_and_nothing_else() {
        let entries = [entry(0, 0, 3), entry(1, 1, 3 * FULL_STEPS), entry(2, 2, 3)];
        let whole = steps(&entries, BTreeMap::new());
        for crashed in 0..whole.len() {
            // One shard took this step, the other did not.
            let done = whole[crashed].end.position();
            let before = crashed.checked_sub(1).map(|before| whole[before].end.position());
            let marks = [(Shard(0), Some(done)), (Shard(1), before)];
            let marks = marks.into_iter().filter_map(|(s, mark)| Some((s, mark?))).collect();
            let again = steps(&entries, marks);
            let mut all = operations(&again);
            for (at, step) in whole[..=crashed].iter().enumerate() {
                for (shard, sheet) in &step.shards {
                    if at < crashed || *shard == Shard(0) {
                        all.extend(sheet.operations.clone());
                    }
                }
            }
            all.sort_by_key(|operation| format!("{operation:?}"));
            assert_eq!(all, operations(&whole), "crashed at step {crashed}");
        }
    }

    #[test]
    fn repeats_are_left_out() {
        let entries = [entry(0, 0, 1), entry(1, 0, 1), entry(2, 1, 1)];
        assert_eq!(operations(&steps(&entries, BTreeMap::new())).len(), 2);
    }
}

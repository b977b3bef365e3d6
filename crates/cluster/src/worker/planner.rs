//! Planning, pure: frames and marks in, commits by shard out, cut where a commit is large enough.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use consort_kernel::{FrameKind, Key, LogEntry, Partition, Shard, Timestamp};
use hashbrown::HashMap;

use super::control::Control;
use super::plan::{Memory, Plan, Record, RejectCause};
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
    /// All shards of the plan have taken the records before it.
    pub(super) taken: Position,
    /// Before the frame that is being planned.
    pub(super) stand: Stand,
    pub(super) memory: &'a mut Memory,
    pub(super) sheet: Sheet,
    pub(super) progress: Progress,
    /// Where the slice ends that is being planned; `None`: with the batch.
    pub(super) until: Option<BatchPlace>,
}

/// A record's place within its batch: frame and record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct BatchPlace {
    pub(super) frame: usize,
    pub(super) record: usize,
}

/// How far the planner has come within its batch.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Progress {
    pub(super) next: BatchPlace,
    pub(super) records: u64,
    pub(super) repeats: u64,
}

/// What is to be committed together: for each shard its operations, and where its mark then stands.
pub(super) struct Step {
    pub(super) shards: BTreeMap<Shard, ShardSheet>,
    pub(super) end: Mark,
}

/// What the record that is planned does.
enum Doing<'a> {
    Its,
    Rejected(&'a RejectCause),
}

impl<'a> Planner<'a> {
    /// The next step. `None` when the slice is planned; if it ends with the batch, `stand` is then behind the
    /// last frame.
    pub(super) fn next(&mut self) -> Option<Step> {
        self.next_doing(Doing::Its)
    }

    /// As [`next`](Planner::next), but the records of the slice are rejected.
    pub(super) fn reject(&mut self, cause: &RejectCause) -> Option<Step> {
        self.next_doing(Doing::Rejected(cause))
    }

    fn next_doing(&mut self, doing: Doing<'_>) -> Option<Step> {
        while let Some(entry) = self.entries.get(self.progress.next.frame) {
            if self.progress.next.record == 0 && self.is_slice_planned() {
                return self.last_step(Mark::at(self.stand.clone()));
            }
            let mut behind = self.stand.clone();
            if behind.pass(entry, self.now) {
                while self.progress.next.record < entry.frame.records.len() {
                    if self.is_slice_planned() {
                        return self.last_step(Mark::inside(self.stand.clone(), entry, self.at()));
                    }
                    self.apply(entry, behind.watermark(), &doing);
                    self.progress.next.record += 1;
                    if self.sheet.is_full() && self.progress.next.record < entry.frame.records.len()
                    {
                        let mark = Mark::inside(self.stand.clone(), entry, self.at());
                        return Some(self.step(mark));
                    }
                }
            } else {
                self.progress.repeats += 1;
            }
            self.stand = behind;
            self.progress.next = BatchPlace { frame: self.progress.next.frame + 1, record: 0 };
            if self.sheet.is_full() {
                return Some(self.step(Mark::at(self.stand.clone())));
            }
        }
        self.last_step(Mark::at(self.stand.clone()))
    }

    /// The first frame that is not planned to its end.
    pub(super) fn next_frame(&self) -> Option<&LogEntry> {
        self.entries.get(self.progress.next.frame)
    }

    /// The next record's place in the log, or a lower one.
    pub(super) fn position(&self) -> Position {
        let record = self.progress.next.record as u32;
        let offset = self.next_frame().map_or(self.stand.next, |entry| entry.offset);
        Position { era: self.stand.era, offset, record }
    }

    /// The records that are not planned, with their places in the batch.
    pub(super) fn ahead(&self) -> impl Iterator<Item = (BatchPlace, Record<'a>)> + use<'a> {
        let next = self.progress.next;
        fresh_records(self.partition, &self.stand, self.entries, next.frame, self.now)
            .skip_while(move |(at, _)| *at < next)
    }

    fn is_slice_planned(&self) -> bool {
        self.until.is_some_and(|until| self.progress.next >= until)
    }

    fn at(&self) -> u32 {
        self.progress.next.record as u32
    }

    fn last_step(&mut self, end: Mark) -> Option<Step> {
        let step = self.step(end);
        (!step.shards.is_empty()).then_some(step)
    }

    fn step(&mut self, end: Mark) -> Step {
        #[cfg(feature = "mutations")]
        if self.sheet.mutation == Some(crate::mutation::Mutation::StepUnfinished) {
            return Step { shards: self.sheet.take(end.position()), end };
        }
        self.plan.finish_step(self.memory, &mut self.sheet);
        Step { shards: self.sheet.take(end.position()), end }
    }

    fn apply(&mut self, entry: &LogEntry, watermark: Timestamp, doing: &Doing<'_>) {
        let index = self.progress.next.record;
        let record = place(self.partition, self.stand.era, entry, index, watermark);
        let Some(record) = record else { return };
        self.progress.records += 1;
        if record.position < self.taken {
            return;
        }
        self.sheet.turn_to(record.position);
        match (doing, record.kind) {
            (Doing::Rejected(cause), _) => {
                self.plan.reject(&record, cause, self.memory, &mut self.sheet);
            }
            (Doing::Its, FrameKind::Events) if self.duplicates.contains(&record.position) => {
                self.plan.duplicate(&record, &mut self.sheet);
            }
            (Doing::Its, FrameKind::Events) => {
                self.plan.apply(&record, self.memory, &mut self.sheet);
            }
            (Doing::Its, FrameKind::Control) => match Control::decode(record.bytes) {
                Ok(Control::Tick) => {}
                Ok(control) => {
                    self.plan.control(&record, &control, self.memory, &mut self.sheet);
                }
                Err(error) => tracing::error!(
                    partition = %self.partition, offset = entry.offset, %error,
                    "a control record cannot be read and is left out"
                ),
            },
        }
    }
}

/// The records of `entries` from frame `first` on that are no repeats, as `stand` is stepped over them.
pub(super) fn fresh_records<'a>(
    partition: &'a Partition,
    stand: &Stand,
    entries: &'a [LogEntry],
    first: usize,
    now: Timestamp,
) -> impl Iterator<Item = (BatchPlace, Record<'a>)> + use<'a> {
    let mut stand = stand.clone();
    entries.iter().enumerate().skip(first).flat_map(move |(frame, entry)| {
        let fresh = stand.pass(entry, now);
        let (era, watermark) = (stand.era, stand.watermark());
        let records = if fresh { entry.frame.records.len() } else { 0 };
        (0..records).filter_map(move |record| {
            let at = BatchPlace { frame, record };
            Some((at, place(partition, era, entry, record, watermark)?))
        })
    })
}

/// The cells that a record names.
pub(super) fn cells_named(
    plan: &dyn Plan,
    record: &Record<'_>,
    memory: &mut Memory,
) -> Vec<(Shard, Key)> {
    match record.kind {
        FrameKind::Events => plan.reads(record, memory),
        FrameKind::Control => match Control::decode(record.bytes) {
            Ok(Control::Tick) | Err(_) => Vec::new(),
            Ok(control) => plan.control_reads(record, &control, memory),
        },
    }
}

fn place<'a>(
    partition: &'a Partition,
    era: u64,
    entry: &'a LogEntry,
    index: usize,
    watermark: Timestamp,
) -> Option<Record<'a>> {
    let frame = &entry.frame;
    Some(Record {
        partition,
        position: Position { era, offset: entry.offset, record: index as u32 },
        kind: frame.kind,
        producer: frame.producer,
        sequence: frame.sequence,
        time: frame.time,
        watermark,
        bytes: frame.records.get(index)?,
        among: &frame.records,
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
            taken: Position::default(),
            stand: Stand::default(),
            memory: &mut Memory::default(),
            sheet: Sheet::new(marks, HashMap::new(), Shown::default()),
            progress: Progress::default(),
            until: None,
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

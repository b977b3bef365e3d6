//! The plan that a part brings to the worker: how records become operations.

use std::any::Any;
use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use consort_kernel::{FrameKind, Key, Partition, Producer, Records, Refusal, Shard, Timestamp};
use parking_lot::Mutex;

use super::control::Control;
use super::sheet::Sheet;
use super::stand::Position;

/// The fold of a stream: what each record does to the store.
///
/// Every function here is pure: the same records, cells and epoch give the same operations, on every node and
/// each time, whatever the hour. That is what lets a crashed owner's batch be planned again by another. What a
/// record does to a shard may depend on cells of that shard only.
///
/// None of [`reads`](Plan::reads), [`apply`](Plan::apply), [`control_reads`](Plan::control_reads),
/// [`control`](Plan::control), [`duplicate`](Plan::duplicate) and [`reject`](Plan::reject) is called for a record
/// that all shards of the plan have taken: after a crash between a commit and the checkpoint, cells and memory
/// include it already.
///
/// A plan that [folds by slices](Folding::Slices) is called in this order, again and again until the batch is
/// planned:
///
/// 1. [`begin_slice`](Plan::begin_slice).
/// 2. `reads` or `control_reads` for the next records, until a page of cells
///    ([`PAGE_BYTES`](consort_kernel::limits::PAGE_BYTES), [`PAGE_ROWS`](consort_kernel::limits::PAGE_ROWS)) is
///    named. The worker reads them. The slice ends before the first record whose cells were not all read; that
///    record is asked again in the next slice.
/// 3. `apply` or `control` for the records of the slice, in order. Whenever the sheet is full, and at the end of
///    the slice, [`finish_step`](Plan::finish_step); then the step is committed before anything more is planned.
///
/// If a step is refused as too large, or the plan panics, the memory is dropped, everything is loaded again, and
/// the batch is planned record by record: each is a slice of its own. A record that fails alone goes to `reject`.
pub trait Plan: Send + Sync + fmt::Debug {
    /// What `record` does.
    fn apply(&self, record: &Record<'_>, memory: &mut Memory, sheet: &mut Sheet);

    /// The shards, of a store of `shards`, that records of `partition` touch; `None`: any of them. The worker
    /// reads the marks of these shards alone, so the answer must be the same in every release.
    ///
    /// # Panics
    ///
    /// The sheet panics when a plan touches a shard that it did not name.
    fn shards(&self, _partition: &Partition, _shards: u16) -> Option<Vec<Shard>> {
        None
    }

    /// How much is planned at once, and for how long the memory lives.
    fn folding(&self) -> Folding {
        Folding::Batches
    }

    /// A slice begins: nothing is planned that is not committed, and cells that were read for earlier slices are
    /// unknown again. Here a plan lets go of memory beyond its bound: between `reads` and the end of its slice it
    /// may not, since `reads` leaves out cells that the memory stands for.
    fn begin_slice(&self, _memory: &mut Memory) {}

    /// The cells that [`apply`](Plan::apply) will look at through [`Sheet::read`] or [`Sheet::read_owned`]. The
    /// record alone names them, or the record and the memory: no cell may name another.
    ///
    /// It is asked for all records of a batch, or of a slice, before the first of them is applied. A plan that
    /// folds by batches need not name a cell again in the same batch. A plan that folds by slices names all cells
    /// that the record needs, unless the memory stands for them; each is read once a slice.
    fn reads(&self, _record: &Record<'_>, _memory: &mut Memory) -> Vec<(Shard, Key)> {
        Vec::new()
    }

    /// For how long ids are remembered, between the append times of two frames; `None` if records have
    /// no ids that the worker keeps.
    fn ids_for(&self) -> Option<Duration> {
        None
    }

    /// The record's id. A later record with the same id is a duplicate.
    fn id(&self, _record: &Record<'_>) -> Option<Bytes> {
        None
    }

    /// What a duplicate does; nothing, unless it is to be counted.
    fn duplicate(&self, _record: &Record<'_>, _sheet: &mut Sheet) {}

    /// The cells that [`control`](Plan::control) will look at, as [`reads`](Plan::reads) names those of `apply`.
    fn control_reads(
        &self,
        _record: &Record<'_>,
        _control: &Control,
        _memory: &mut Memory,
    ) -> Vec<(Shard, Key)> {
        Vec::new()
    }

    /// What a control record does, ticks aside, which move the watermark by themselves.
    fn control(
        &self,
        _record: &Record<'_>,
        _control: &Control,
        _memory: &mut Memory,
        _sheet: &mut Sheet,
    ) {
    }

    /// Writes what was gathered in the memory since the last step, such as a body that many records changed: the
    /// changes only. Called before each step is taken and at the end of each slice, which may have no records; the
    /// sheet is at the last record that was planned. Afterwards the sheet and the memory say the same.
    /// [`Sheet::reserve`] makes sure that there is room.
    fn finish_step(&self, _memory: &mut Memory, _sheet: &mut Sheet) {}

    /// Accounts for a record, or control record, that no commit holds, or on which the plan panicked alone. Called
    /// instead of `apply` or `control`, on an empty sheet and an empty memory, with the cells that the record names
    /// by such a memory, or with no cells if the plan panics when it names them; `finish_step` follows. If this step fails as well, the partition stops until an operator decides.
    ///
    /// Only for plans that fold by slices. Of others a record that no commit holds stops the partition.
    fn reject(
        &self,
        _record: &Record<'_>,
        _cause: &RejectCause,
        _memory: &mut Memory,
        _sheet: &mut Sheet,
    ) {
    }

    /// Bytes cells of `partition` that no record to come can meet any more, now that the log has come to
    /// `log_time`. Asked once a batch. The owner deletes up to
    /// [`PAGE_ROWS`](consort_kernel::limits::PAGE_ROWS) of them, in a commit that expects its mark. Frames of
    /// several producers are only nearly in the order of their times, so the plan leaves some slack.
    fn expired(&self, _partition: &Partition, _log_time: Timestamp) -> Option<ExpiredRange> {
        None
    }

    /// How long an owner with nothing to read waits before it appends a tick; `None` for no ticks.
    fn tick_after(&self) -> Option<Duration> {
        None
    }

    /// The cell of kind `Max` that says how far the watermark is awaited, in milliseconds as eight bytes.
    /// An owner whose watermark is there appends no tick. Without such a cell ticks are always awaited.
    fn awaited(&self) -> Option<(Shard, Key)> {
        None
    }
}

/// How the worker leads a plan through a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Folding {
    /// All cells of a batch are read before it is planned. Cells may be shared with other writers, so commits
    /// expect them, and the worker keeps them from batch to batch. The memory lives for one batch.
    Batches,
    /// The batch is planned in slices: cells of at most a page are read, planned and committed, then the next. For
    /// plans whose cells change in commits of their partition's owner alone: [`Sheet::read_owned`]. Such a plan
    /// names exactly one shard.
    ///
    /// The memory lives until a setback, or until a load finds that the shard's mark is not as this owner left it.
    /// The plan bounds it. The worker keeps no cells.
    Slices,
}

/// Why a record is rejected although its plan would take it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RejectCause {
    /// No commit holds what the record does.
    Oversized(Refusal),
    /// The plan panicked on it.
    Panicked,
}

/// Bytes cells of one shard: those whose keys begin with `prefix` and are less than `before`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpiredRange {
    /// Where they are.
    pub shard: Shard,
    /// The beginning that their keys have in common.
    pub prefix: Key,
    /// The key behind the last of them.
    pub before: Key,
}

/// A plan's memory: parsed or worked out once, used for many records. For how long it lives depends on
/// [`Plan::folding`]. It begins empty, and the operations must be the same without it.
#[derive(Debug, Default)]
pub struct Memory {
    /// Never locked: the mutex makes the memory `Sync` although its contents need not be.
    contents: Mutex<Option<Box<dyn Any + Send>>>,
}

impl Memory {
    /// What was remembered; as it begins, if nothing was.
    pub fn recall<T: Default + Send + 'static>(&mut self) -> &mut T {
        let contents = self.contents.get_mut();
        if !contents.as_ref().is_some_and(|held| held.is::<T>()) {
            *contents = Some(Box::<T>::default());
        }
        match contents.as_mut().and_then(|held| held.downcast_mut()) {
            Some(held) => held,
            None => unreachable!("it was just made"),
        }
    }
}

/// A record in its place. Its sender knows it as `producer`, `sequence` and `position.record`; the log as
/// `position`.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// The partition it stands in.
    pub partition: &'a Partition,
    /// Where it stands: era, offset, and its index within the frame.
    pub position: Position,
    /// Whether it is an event or a control record.
    pub kind: FrameKind,
    /// Who appended its frame.
    pub producer: Producer,
    /// The frame's number among those of its producer and partition.
    pub sequence: u64,
    /// When its frame was appended, as its producer knew.
    pub time: Timestamp,
    /// The watermark with this frame.
    pub watermark: Timestamp,
    /// What was sent.
    pub bytes: &'a [u8],
    /// The records of its frame, of which it is one.
    pub among: &'a Records,
}

impl Record<'_> {
    /// A part of it, which shares the memory of its frame.
    ///
    /// # Panics
    ///
    /// If it is a part of something else.
    pub fn share(&self, part: &[u8]) -> Bytes {
        self.among.share(part)
    }
}

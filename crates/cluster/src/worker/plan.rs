//! What a part brings to the worker: how records become operations.

use std::any::Any;
use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use consort_kernel::{Key, Partition, Records, Shard, Timestamp};

use super::control::Control;
use super::sheet::Sheet;
use super::stand::Position;

/// The fold of a stream: what each record does to the store.
///
/// Every function here is pure: the same records give the same operations, on every node and each time,
/// whatever the hour. That is what lets a crashed owner's batch be planned again by another. What a record
/// does to a shard may depend on cells of that shard only.
pub trait Plan: Send + Sync + fmt::Debug {
    /// What `record` does.
    fn apply(&self, record: &Record<'_>, memory: &mut Memory, sheet: &mut Sheet);

    /// The cells that [`apply`](Plan::apply) will look at through [`Sheet::read`]. It is asked for all records
    /// of a batch before the first is applied, and need not name a cell again.
    fn reads(&self, _record: &Record<'_>, _memory: &mut Memory) -> Vec<(Shard, Key)> {
        Vec::new()
    }

    /// For how long ids are remembered, between the append times of two frames; `None` if records have
    /// no ids.
    fn ids_for(&self) -> Option<Duration> {
        None
    }

    /// The record's id. A later record with the same id is a duplicate.
    fn id(&self, _record: &Record<'_>) -> Option<Bytes> {
        None
    }

    /// What a duplicate does; nothing, unless it is to be counted.
    fn duplicate(&self, _record: &Record<'_>, _sheet: &mut Sheet) {}

    /// What a control record does, ticks aside, which move the watermark by themselves.
    fn control(&self, _record: &Record<'_>, _control: &Control, _sheet: &mut Sheet) {}

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

/// What a plan remembers while one batch is planned, so that what many records have in common is worked out
/// once. It begins empty, and what comes out must be the same without it.
#[derive(Debug, Default)]
pub struct Memory(Option<Box<dyn Any + Send>>);

impl Memory {
    /// What was remembered; as it begins, if nothing was.
    pub fn recall<T: Default + Send + 'static>(&mut self) -> &mut T {
        if !self.0.as_ref().is_some_and(|held| held.is::<T>()) {
            self.0 = Some(Box::<T>::default());
        }
        match self.0.as_mut().and_then(|held| held.downcast_mut()) {
            Some(held) => held,
            None => unreachable!("it was just made"),
        }
    }
}

/// A record in its place.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// The partition it stands in.
    pub partition: &'a Partition,
    /// Where it stands.
    pub position: Position,
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

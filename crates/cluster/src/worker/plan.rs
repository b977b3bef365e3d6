//! What a part brings to the worker: how records become operations.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use consort_kernel::{Key, Partition, Shard, Timestamp};

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
    fn apply(&self, record: &Record<'_>, sheet: &mut Sheet);

    /// The cells that [`apply`](Plan::apply) will look at through [`Sheet::read`].
    fn reads(&self, _record: &Record<'_>) -> Vec<(Shard, Key)> {
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
    pub bytes: &'a Bytes,
}

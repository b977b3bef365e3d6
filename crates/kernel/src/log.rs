//! The `Log` contract: streams of frames, in partitions, each in one order for everybody.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::future::join_all;

use crate::cursor::Cursor;
use crate::digest::Digest;
use crate::error::{AppendError, Fault, ReadError};
use crate::frame::Frame;
use crate::name::Name;
use crate::store::Most;

/// One partition of a stream: the unit of order.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Partition {
    /// The stream's name.
    pub stream: Name,
    /// Which of its partitions, from 0.
    pub index: u32,
}

impl Partition {
    /// Partition `index` of `stream`.
    pub fn new(stream: Name, index: u32) -> Self {
        Partition { stream, index }
    }
}

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.stream, self.index)
    }
}

/// A frame as it stands in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEntry {
    /// Its place.
    pub offset: u64,
    /// Its digest, for cursors.
    pub digest: Digest,
    /// What it is.
    pub frame: Frame,
}

impl LogEntry {
    /// Reads a stored frame of `at`; damage is reported and never returned as an entry.
    pub fn from_stored(at: &Partition, offset: u64, stored: &Bytes) -> Result<Self, ReadError> {
        let frame = Frame::decode(stored).map_err(|error| ReadError::Corrupt {
            place: format!("stream partition {at}"),
            number: offset,
            reason: error.to_string(),
        })?;
        Ok(LogEntry { offset, digest: Digest::of(stored), frame })
    }

    /// Where a reader stands that has consumed this entry.
    pub fn cursor(&self) -> Cursor {
        Cursor::behind(self.offset, self.digest)
    }
}

/// Streams in.
///
/// A partition exists as soon as it is named; one that was never appended to is empty. Offsets start at
/// 0 and only grow within a partition. They may have gaps; they are never used twice while the engine
/// keeps what it acknowledged.
#[async_trait]
pub trait Log: Send + Sync + fmt::Debug {
    /// Puts a frame at the end of the partition. It is durable (in the engine's sense) and readable when
    /// this returns.
    ///
    /// Calls for one partition that overlap may land in either order; a call that begins after another
    /// returned lands behind it. On [`AppendError::Unknown`] the frame may be there: appending it again
    /// can put it in twice, which readers recognise by producer and sequence. So a producer keeps one
    /// frame per partition in flight, and settles it before it sends the next. It gives each try a time of
    /// its own: cursors know entries by their bytes, and two tries are two entries.
    async fn append(&self, at: &Partition, frame: &Frame) -> Result<(), AppendError>;

    /// Appends several frames at once, each as by [`append`](Log::append), and each with an outcome of its own;
    /// outcomes stand in the order of the frames. No partition is named twice.
    ///
    /// An engine that writes in batches puts them into one, if they are not too large for it, so that none of them
    /// waits for two.
    async fn append_all(&self, frames: &[(Partition, Frame)]) -> Vec<Result<(), AppendError>> {
        join_all(frames.iter().map(|(at, frame)| self.append(at, frame))).await
    }

    /// The entries from `after.next` on, in order, up to `most`; at least one if there is any. With none
    /// to read it waits up to `wait` for one, and then answers with none.
    ///
    /// No entry below `after.next` is ever returned. If the cursor vouches for an entry, that entry must
    /// still be there and be the same, else [`ReadError::Lost`]; this is checked at the latest when the
    /// connection to the engine was interrupted since it was last checked. If entries that the cursor
    /// has yet to see, or the one it vouches for, were trimmed away: [`ReadError::Trimmed`]. A damaged
    /// frame is [`ReadError::Corrupt`], when it is the first that would be returned; sound ones before
    /// it are returned first.
    async fn read(
        &self,
        at: &Partition,
        after: &Cursor,
        most: Most,
        wait: Duration,
    ) -> Result<Vec<LogEntry>, ReadError>;

    /// The oldest offset that can still be read; where there is none, the offset of a frame to come or
    /// one before it.
    async fn first(&self, at: &Partition) -> Result<u64, Fault>;

    /// Lets go of entries below `before`. Best effort: an engine may keep more, and always keeps the
    /// newest entry. A caller never trims the entry that a cursor vouches for.
    async fn trim(&self, at: &Partition, before: u64) -> Result<(), Fault>;

    /// Whether the engine answers.
    async fn ping(&self) -> Result<(), Fault>;
}

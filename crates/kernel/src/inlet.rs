//! The `Inlet` contract: a queue of messages that others fill, outside of Consort.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

use crate::error::Fault;

/// One message of an [`Inlet`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// What its sender put in, of any size: it may be more than a record can hold, and the consumer judges.
    pub body: Bytes,
    /// The id that its sender gave it, if any. The queue does not look at it.
    pub id: Option<String>,
    /// For [`Inlet::settle`].
    pub tag: Tag,
    /// Whether somebody may have been given it before.
    pub redelivered: bool,
}

/// Names a message to the inlet that handed it out, for as long as the same session with the queue
/// lasts. After that it names nothing, and never another message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag {
    session: u64,
    number: u64,
}

impl Tag {
    /// Message `number` of a session. No two sessions of a process have the same number.
    pub fn new(session: u64, number: u64) -> Self {
        Tag { session, number }
    }

    /// The session that the message came in.
    pub fn session(self) -> u64 {
        self.session
    }

    /// Which message of it.
    pub fn number(self) -> u64 {
        self.number
    }
}

/// A queue of messages, taken in batches and settled once they are safe.
///
/// The queue keeps a message until it was settled. What was taken and not settled comes again, to this
/// consumer or another, when the session with the queue ends: when the connection breaks, the queue's
/// server restarts, or the inlet is dropped. So every message comes at least once. It can come again
/// after it was settled too, if the session ended before the queue heard of that; a consumer that must not
/// count twice knows messages by their ids.
///
/// Messages come in the queue's order, but for those that come again.
#[async_trait]
pub trait Inlet: Send + Sync + fmt::Debug {
    /// Up to `most` messages, as many as have arrived; with none there it waits up to `wait` for the
    /// first, and then answers with none. It ends a batch early after
    /// [`PAGE_BYTES`](crate::limits::PAGE_BYTES).
    ///
    /// The first call begins to connect, and so does one that finds its session ended; while that is
    /// under way, there are none. If it fails, a call tells the fault, and those after it spend of their
    /// `wait` what is due before the next attempt. So calling again is all that a consumer does about a
    /// fault, even a fatal one, which says that somebody has to change something on the other side.
    ///
    /// A bounded number of messages is out at once; with so many unsettled, none come. A call that is
    /// dropped takes nothing. Of calls that overlap, each message goes to one.
    async fn take(&self, most: usize, wait: Duration) -> Result<Vec<Message>, Fault>;

    /// The queue may forget these: they were appended, or noted as rejected. In any order, and while a
    /// call of [`take`](Self::take) waits.
    ///
    /// Tags that were settled before and those of sessions that have ended are passed over: the latter's
    /// messages come again. On a fault, and when the call is dropped before it ends, the session may end,
    /// so that what was not settled comes again; settling once more does no harm.
    async fn settle(&self, tags: &[Tag]) -> Result<(), Fault>;

    /// Ends the session, so that what was taken and not settled comes again, to this consumer or another. The next
    /// [`take`](Self::take) begins another one. A consumer calls it when it gives the queue up.
    fn release(&self) {}
}

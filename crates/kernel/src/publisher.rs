//! The `Publisher` contract: a broker of others that messages are handed to, outside of Consort.

use std::fmt;

use async_trait::async_trait;
use bytes::Bytes;

use crate::error::Fault;

/// One message for an [`Publisher`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// What it says.
    pub body: Bytes,
    /// What the body is.
    pub content_type: &'static str,
    /// The same for every repeat of the same message, and for no other: its receiver knows repeats by it.
    pub id: String,
}

/// Takes messages, each of which is safe with somebody else when the call returns.
#[async_trait]
pub trait Publisher: Send + Sync + fmt::Debug {
    /// Hands over all messages in their order. When it returns, each was confirmed by the broker as stored
    /// in at least one queue. On a fault, any of them may have been stored: handing all of them over again
    /// is what to do. A fatal fault says that somebody has to change something on the other side, and the
    /// same call may succeed after that.
    ///
    /// The first call connects, and so does one that finds its connection lost.
    async fn publish(&self, messages: &[Outgoing]) -> Result<(), Fault>;
}

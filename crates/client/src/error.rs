//! Why a call did not give what was asked for.

use std::time::Duration;

/// A text that is no address of a node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{address}' is no address of a node: {reason}; write http://HOST:PORT, for example http://127.0.0.1:7400"
)]
pub struct AddressError {
    pub(crate) address: String,
    pub(crate) reason: String,
}

/// How a call can fail.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    /// No connection came about: nothing was asked.
    #[error("cannot reach {url}: {reason}")]
    Unreachable {
        /// The node's address.
        url: String,
        /// What happened.
        reason: String,
    },
    /// The connection broke, or no answer came in time. What was asked may have been done.
    #[error("{url} did not answer: {reason}")]
    NoAnswer {
        /// The node's address.
        url: String,
        /// What happened.
        reason: String,
    },
    /// The node said no, and why.
    #[error("{detail}")]
    Refused {
        /// The HTTP status.
        status: u16,
        /// The problem's name for programs; empty if there is none.
        kind: String,
        /// The node's words.
        detail: String,
    },
    /// What answered is no Consort node, or one of another release.
    #[error("{url} gave an answer that is not Consort's: {reason}")]
    Unreadable {
        /// The node's address.
        url: String,
        /// What does not fit.
        reason: String,
    },
}

impl ClientError {
    /// The problem's name, if the node refused.
    pub fn kind(&self) -> Option<&str> {
        match self {
            ClientError::Refused { kind, .. } => Some(kind),
            _ => None,
        }
    }
}

pub(crate) fn late(time: Duration) -> String {
    format!("nothing came within {time:?}")
}

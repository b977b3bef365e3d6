//! Retiring a node: an operator's wish as a cell, which the node finds and acts on.

use bytes::Bytes;
use consort_kernel::{Commit, CommitError, Expect, Fault, Operation, Store, Timestamp};
use serde::{Deserialize, Serialize};

use crate::format::{encode, millis};
use crate::keys;
use crate::member::{FORGET_AFTER, Member};
use crate::roster::{Found, Roster};

/// How often a request is made anew when a heartbeat or another request came between. The two are
/// milliseconds apart and a heartbeat comes twice a second, so even the second try is rare.
const TRIES: usize = 10;

/// The drain cell of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drain {
    /// When it was asked for.
    #[serde(with = "millis")]
    pub since: Timestamp,
}

/// Why a node is not retired.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DrainError {
    /// No live node has this id.
    #[error("there is no live node '{id}': {}", known(.live))]
    NoSuchNode {
        /// The id asked for.
        id: String,
        /// The ids that there are.
        live: Vec<String>,
    },
    /// Nobody would be left to take its roles.
    #[error("'{id}' is the last node that stays: start another before you retire it, or stop it")]
    Last {
        /// The id asked for.
        id: String,
    },
    /// The store's own failure. The request may have been taken: asking again is harmless.
    #[error("the store failed: {0}")]
    Store(Fault),
}

fn known(live: &[String]) -> String {
    if live.is_empty() {
        "there is none at all".into()
    } else {
        format!("there are {}", live.join(", "))
    }
}

/// Asks node `id`, whichever it is, to hand its roles over and leave. Asking again changes nothing.
pub async fn request_drain(store: &dyn Store, id: &str) -> Result<(), DrainError> {
    request_drain_as(store, id, None).await
}

/// As [`request_drain`]; `alone` is the incarnation of the only process there can be, if that is so.
pub(crate) async fn request_drain_as(
    store: &dyn Store,
    id: &str,
    alone: Option<u64>,
) -> Result<(), DrainError> {
    let mut fault = Fault::Retryable("heartbeats or other requests came between".into());
    for _ in 0..TRIES {
        let roster = Roster::read(store).await.map_err(DrainError::Store)?.seen_by(alone);
        if !roster.live().any(|member| member.id == id) {
            let live = roster.live().map(|member| member.id.clone()).collect();
            return Err(DrainError::NoSuchNode { id: id.into(), live });
        }
        if roster.drains.contains_key(id) {
            return Ok(());
        }
        let staying = roster.live().find(|m| m.id != id && !roster.is_draining(m));
        let Some(heir) = staying.and_then(|member| roster.members.get(&member.id)) else {
            return Err(DrainError::Last { id: id.into() });
        };
        match store.commit(keys::SHARD, request(&roster, id, heir)).await {
            Ok(_) => return Ok(()),
            Err(CommitError::Stale(_)) => {}
            Err(CommitError::Unknown(unknown)) => fault = unknown,
            Err(CommitError::Engine(failed)) => return Err(DrainError::Store(failed)),
            Err(CommitError::Refused(refusal)) => {
                return Err(DrainError::Store(Fault::Fatal(refusal.to_string())));
            }
        }
    }
    Err(DrainError::Store(fault))
}

/// The request, which expects that one who stays is there just as it was seen, and was not asked to leave:
/// of two requests for the last two nodes, the later one finds the other's, or that the node is gone. Its
/// cell changes with every heartbeat, and then the request is made anew.
fn request(roster: &Roster, id: &str, heir: &Found<Member>) -> Commit {
    let (key, news) = (keys::drain(id), keys::news());
    Commit::of([
        Operation::Put { key: key.clone(), value: encode(&Drain { since: roster.now }) },
        Operation::Expire { cell: keys::cell(key), at: Some(roster.now.after(FORGET_AFTER)) },
        Operation::Put { key: news, value: news_of(id, roster.now) },
    ])
    .expecting(Expect::Bytes(keys::member(&heir.value.id), Some(heir.stored.clone())))
    .expecting(Expect::Bytes(keys::drain(&heir.value.id), None))
    .urgent()
}

/// What the news cell holds: only that it was put counts, but a reader may wonder by whom.
pub(crate) fn news_of(id: &str, now: Timestamp) -> Bytes {
    encode(&(id, now.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::decode;

    #[test]
    fn version_1_is_read_in_every_release() {
        let stored = b"\x01{\"since\":5}";
        assert_eq!(&encode(&Drain { since: Timestamp(5) })[..], stored);
        assert_eq!(decode(stored), Ok(Drain { since: Timestamp(5) }));
    }
}

//! Joining: how a process takes a node's id, and finds out whether another one is using it.
//!
//! A member cell that is not renewed belonged to a process that died, most likely this node before its
//! restart: it is waited out. One that is renewed belongs to a living process, and the id is refused.

use std::time::Duration;

use bytes::Bytes;
use consort_kernel::{Fault, Operation, Store, Timestamp};

use crate::change::{Move, Outcome, change, delete};
use crate::drain::news_of;
use crate::format::{decode, encode};
use crate::keys;
use crate::member::{IdError, Member};
use crate::roster::fault;
use crate::runtime::{Runtime, within};

/// After how many renewals a member counts as alive. One may come from a process that was killed: its
/// last heartbeat can still be on its way when the next process looks for the first time.
const ALIVE_AFTER: u32 = 2;

/// How often a failing store is asked again before the join is given up: about five seconds.
const TRIES: u32 = 20;
const RETRY_AFTER: Duration = Duration::from_millis(250);

/// Why a node could not join.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JoinError {
    /// The id cannot be one.
    #[error(transparent)]
    Id(#[from] IdError),
    /// Heartbeats must come often enough that one may be lost.
    #[error(
        "a heartbeat every {heartbeat:?} is too seldom for a time to live of {ttl:?}: it must be at most a third"
    )]
    Timing {
        /// How often.
        heartbeat: Duration,
        /// How long a lease lasts.
        ttl: Duration,
    },
    /// A living node has this id.
    #[error(
        "the node id '{id}' is in use: a living node at {address} (version {version}) has it; choose \
         another id with --node, or stop that node first"
    )]
    Taken {
        /// The id.
        id: String,
        /// Where the other is reached.
        address: String,
        /// Its release.
        version: String,
    },
    /// What stands under this id cannot be read, so nobody can tell whether it is alive.
    #[error(
        "the member cell of node '{id}' cannot be read: {reason}; choose another id with --node, or \
         start the release that wrote it"
    )]
    Unreadable {
        /// The id.
        id: String,
        /// Why.
        reason: String,
    },
    /// The store's own failure.
    #[error("the store failed: {0}")]
    Store(Fault),
    /// The task that joins ended before it was done.
    #[error("{0}; this is a defect of Consort, please report it")]
    Failed(String),
}

/// A try to take the id.
enum Attempt {
    /// It is taken, and stored like this.
    Joined(Member, Bytes),
    /// Another process has it, and is not known to be dead.
    Held(Member, Timestamp),
    /// It changed hands between the look and the try.
    Changed,
}

/// Makes `member` a member of the cluster. With `sole`, every other process is known to be dead.
pub(crate) async fn join(
    store: &dyn Store,
    runtime: &dyn Runtime,
    member: &Member,
    sole: bool,
    ttl: Duration,
) -> Result<(Member, Bytes), JoinError> {
    let mut wake = store.watch(keys::SHARD, &keys::member(&member.id));
    let mut watched: Option<(Member, u32)> = None;
    let mut faults = 0;
    loop {
        let attempt = within(runtime, ttl, attempt(store, member, sole, ttl)).await;
        let attempt = attempt.unwrap_or_else(|| Err(JoinError::Store(no_answer(ttl))));
        match attempt {
            Ok(Attempt::Joined(member, stored)) => return Ok((member, stored)),
            Ok(Attempt::Changed) => {}
            Ok(Attempt::Held(other, now)) => {
                let first = watched.is_none();
                let renewals = renewals(watched.take(), &other);
                if renewals >= ALIVE_AFTER {
                    let Member { id, address, version, .. } = other;
                    return Err(JoinError::Taken { id, address, version });
                }
                if first {
                    tracing::debug!(node = %other.id, "waits for an earlier process with this id");
                }
                let left = other.until.since(now);
                watched = Some((other, renewals));
                // Woken or not, it looks again.
                let _ = within(runtime, left, wake.changed()).await;
            }
            Err(JoinError::Store(fault)) if fault.retryable() && faults < TRIES => {
                faults += 1;
                tracing::warn!(node = %member.id, %fault, "the store failed while joining; tries again");
                runtime.sleep(RETRY_AFTER).await;
            }
            Err(error) => return Err(error),
        }
    }
}

/// What is said of a store that did not answer in time.
pub(crate) fn no_answer(time: Duration) -> Fault {
    Fault::Retryable(format!("no answer within {time:?}"))
}

/// How often the process behind `other` was seen to renew.
fn renewals(before: Option<(Member, u32)>, other: &Member) -> u32 {
    match before {
        Some((seen, count)) if seen.incarnation == other.incarnation => {
            count + u32::from(seen.renewed != other.renewed)
        }
        _ => 0,
    }
}

async fn attempt(
    store: &dyn Store,
    member: &Member,
    sole: bool,
    ttl: Duration,
) -> Result<Attempt, JoinError> {
    let key = keys::member(&member.id);
    let now = store.now().await.map_err(JoinError::Store)?;
    let found = store.get(keys::SHARD, &[keys::cell(key.clone())]).await;
    let found = found.map_err(|error| JoinError::Store(fault(error)))?;
    let found = match found.into_iter().next().flatten() {
        Some(consort_kernel::Value::Bytes(stored)) => Some(stored),
        _ => None,
    };
    if let Some(stored) = &found
        && !sole
    {
        let other: Member = read(&member.id, stored)?;
        if other.is_alive(now) && other.incarnation != member.incarnation {
            return Ok(Attempt::Held(other, now));
        }
    }
    let joined = Member { since: now, ..member.renewed(now, ttl) };
    let stored = encode(&joined);
    let step = Move { key: key.clone(), from: found, to: Some(stored.clone()) };
    // What was said of or by an earlier process with this id is over.
    let also = vec![
        Operation::Expire { cell: keys::cell(key), at: Some(joined.forgotten_at()) },
        delete(keys::drain(&member.id)),
        delete(keys::report(&member.id)),
        Operation::Put { key: keys::news(), value: news_of(&member.id, now) },
    ];
    match change(store, &[step], also).await {
        Outcome::Done => Ok(Attempt::Joined(joined, stored)),
        Outcome::Failed(fault) => Err(JoinError::Store(fault)),
        Outcome::Seen(values) => match values.into_iter().next().flatten() {
            Some(stored) => {
                let found: Member = read(&member.id, &stored)?;
                let mine = found.incarnation == member.incarnation;
                Ok(if mine { Attempt::Joined(found, stored) } else { Attempt::Changed })
            }
            None => Ok(Attempt::Changed),
        },
    }
}

fn read(id: &str, stored: &[u8]) -> Result<Member, JoinError> {
    decode(stored)
        .map_err(|error| JoinError::Unreadable { id: id.into(), reason: error.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_is_alive_when_it_was_seen_to_renew_twice() {
        let member = |incarnation, renewed| Member {
            id: "a".into(),
            incarnation,
            address: String::new(),
            version: String::new(),
            since: Timestamp(0),
            load: 0,
            draining: false,
            renewed: Timestamp(renewed),
            until: Timestamp(renewed + 3000),
        };
        assert_eq!(renewals(None, &member(1, 0)), 0);
        assert_eq!(renewals(Some((member(1, 0), 0)), &member(1, 0)), 0);
        assert_eq!(renewals(Some((member(1, 0), 0)), &member(1, 500)), 1);
        assert_eq!(renewals(Some((member(1, 500), 1)), &member(1, 1000)), 2);
        assert_eq!(renewals(Some((member(1, 500), 1)), &member(2, 1000)), 0);
    }
}

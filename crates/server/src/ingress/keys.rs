//! Idempotency keys: a key belongs to the first event that comes with it.
//!
//! The workers know repeats by their ids, each for its own partition and by the time of the log. A key that comes
//! again with another event may meet another partition, or be dropped as a repeat although it is none. So before the
//! append, the door claims the key: one commit binds the event's digest to (stream, key).
//!
//! *The promise.* From the moment an event with a key is accepted, another event with that key is refused for as long
//! as workers know the key, and 20 to 60 seconds longer. The same event is always let in, and workers count it once
//! within their time.
//!
//! *A failed append releases nothing.* The claim stays, so another event with that key is refused although no event was
//! accepted with it. Were it released: a try of the event fails, and its node is about to release the key. A repeat through
//! another node finds the claim, and is accepted. The release comes now, and another event takes the key: two events are
//! accepted with one key. The client has to send the same event again in any case, as it cannot tell a lost answer from a
//! lost event.
//!
//! *The edge.* Workers forget a key by log time, and a claim expires by the clock of the server that keeps it. A claim
//! that ended first would let another event in, which the worker would then drop as a repeat. So a claim lives longer
//! by [`SLACK`]. It covers the time between the claim and its append ([`POST_WITHIN`](super::POST_WITHIN)), the age of
//! a claim that a repeat leaves as it is ([`REFRESH_AFTER`]), and what is left of the minute for clocks that differ.
//! Servers whose clocks differ by more than that may free a key too early; then such an event is answered as accepted
//! and counts as a repeat. Nothing else depends on a clock.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use consort_cluster::StoreTime;
use consort_kernel::{
    Cell, Commit, CommitError, Digest, Expect, Fault, Key, Kind, Name, Operation, Store, Timestamp,
    Value, shard_of,
};
use tokio::time::{Instant, sleep, timeout_at};

/// How much longer a claim lives than workers know its key.
const SLACK: Duration = Duration::from_secs(60);

/// A repeat renews a claim that is older than this. Repeats within it cost no more than the first post.
const REFRESH_AFTER: Duration = Duration::from_secs(30);

/// The pause before a claim is tried again; twice as long each time, up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

const ROOM: &str = "idempotency-key";

/// The version of a stored claim.
pub(crate) const VERSION: u8 = 1;

/// An idempotency key, and the digest of the event that came with it.
#[derive(Clone, Copy, Debug)]
pub struct Keyed<'a> {
    /// The key.
    pub key: &'a str,
    /// Of the event's canonical bytes, which are the same however it came in.
    pub digest: Digest,
}

/// Why a key could not be claimed. The event is not stored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClaimError {
    /// Another event came with it before.
    #[error("this Idempotency-Key came before with another event")]
    Reused,
    /// The store did not say in time. The key may be claimed for this event.
    #[error("the store did not settle the Idempotency-Key: {0}")]
    Unsettled(Fault),
}

/// The keys of one stream.
pub(super) struct IdempotencyKeys {
    pub(super) store: Arc<dyn Store>,
    pub(super) time: StoreTime,
    pub(super) stream: Name,
    /// For how long the workers know a key.
    pub(super) keys_for: Duration,
}

/// What is stored of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Claim {
    digest: Digest,
    /// When it was made or renewed, in store time.
    time: Timestamp,
}

impl IdempotencyKeys {
    /// Claims a key for an event, by the deadline.
    pub(super) async fn claim(
        &self,
        keyed: Keyed<'_>,
        deadline: Instant,
    ) -> Result<(), ClaimError> {
        timeout_at(deadline, self.settle(keyed, deadline)).await.unwrap_or_else(|_| {
            let fault = "it did not answer in time";
            Err(ClaimError::Unsettled(Fault::Retryable(fault.into())))
        })
    }

    /// Tries until the outcome is known. A commit with an unknown outcome is safe to repeat: it expects the cell as it
    /// was before, and if it was applied, the repeat finds this event's own digest.
    async fn settle(&self, keyed: Keyed<'_>, deadline: Instant) -> Result<(), ClaimError> {
        let cell = Key::from([ROOM, self.stream.as_str(), keyed.key]);
        let mut held = None;
        let mut pause = FIRST_PAUSE;
        loop {
            let fault = match self.try_claim(&cell, keyed.digest, held.clone()).await {
                Ok(Tried::Settled) => return Ok(()),
                Ok(Tried::Reused) => return Err(ClaimError::Reused),
                Ok(Tried::Found(found)) => {
                    held = found;
                    continue;
                }
                Err(fault) => fault,
            };
            if !fault.retryable() || Instant::now() + pause >= deadline {
                return Err(ClaimError::Unsettled(fault));
            }
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    async fn try_claim(
        &self,
        cell: &Key,
        digest: Digest,
        held: Option<Bytes>,
    ) -> Result<Tried, Fault> {
        let claim = Claim { digest, time: self.time.now().await? };
        let expires = claim.time.after(self.keys_for + SLACK);
        let commit = Commit::of([
            Operation::Put { key: cell.clone(), value: claim.encode() },
            Operation::Expire { cell: Cell::new(Kind::Bytes, cell.clone()), at: Some(expires) },
        ]);
        let commit = commit.expecting(Expect::Bytes(cell.clone(), held));
        let present = match self.store.commit(shard_of(cell, self.store.shards()), commit).await {
            Ok(_) => return Ok(Tried::Settled),
            Err(CommitError::Stale(present)) => present.into_iter().next().flatten(),
            Err(CommitError::Unknown(fault) | CommitError::Engine(fault)) => return Err(fault),
            Err(CommitError::Refused(refusal)) => return Err(Fault::Fatal(refusal.to_string())),
        };
        // It expired, or was deleted, since it was found.
        let Some(Value::Bytes(bytes)) = present else { return Ok(Tried::Found(None)) };
        match Claim::decode(&bytes) {
            None => Err(Fault::Fatal("its stored form is of an unknown version".into())),
            Some(found) if found.digest != digest => Ok(Tried::Reused),
            Some(found) if claim.time.since(found.time) < REFRESH_AFTER => Ok(Tried::Settled),
            Some(_) => Ok(Tried::Found(Some(bytes))),
        }
    }
}

/// What one try came to.
enum Tried {
    /// The key belongs to this event.
    Settled,
    /// It belongs to another.
    Reused,
    /// The cell holds this instead of what was expected.
    Found(Option<Bytes>),
}

impl Claim {
    fn encode(self) -> Bytes {
        [&[VERSION][..], &self.digest.0, &self.time.0.to_be_bytes()].concat().into()
    }

    fn decode(bytes: &[u8]) -> Option<Claim> {
        let (digest, time) = bytes.strip_prefix(&[VERSION])?.split_at_checked(Digest::LENGTH)?;
        let time = Timestamp(u64::from_be_bytes(time.try_into().ok()?));
        Some(Claim { digest: Digest::from_slice(digest)?, time })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stored_form_of_a_claim_stays_as_it_is() {
        let claim = Claim { digest: Digest([7; Digest::LENGTH]), time: Timestamp(0x0102) };
        let stored = [&[1][..], &[7; 16], &[0, 0, 0, 0, 0, 0, 1, 2]].concat();
        assert_eq!(claim.encode(), stored);
        assert_eq!(Claim::decode(&stored), Some(claim));
        for wrong in
            [&stored[..24], &[&stored[..], &[0]].concat(), &[&[2][..], &stored[1..]].concat()]
        {
            assert_eq!(Claim::decode(wrong), None);
        }
    }
}

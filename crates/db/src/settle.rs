//! Commits that are repeated until their outcome is known.
//!
//! After an unknown outcome only the identical commit may follow, until the store says that it was applied or
//! that an expected cell holds something else (C3). This is for commits that expect what they change.

use std::time::Duration;

use consort_kernel::{Commit, CommitError, Fault};
use tokio::time::{Instant, sleep};

use crate::store::{DatabaseStore, DbStoreError};

/// The pause before the first repeat; each next one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
/// The longest pause between two repeats.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// How a commit came to its end.
#[derive(Debug)]
pub(crate) enum Settlement {
    /// It was applied.
    Applied,
    /// An expected cell holds something else.
    Stale {
        /// Whether an earlier attempt may have been applied: its outcome was unknown. The cells that the commit
        /// changes tell, unless they have changed again.
        may_be_applied: bool,
    },
    /// Nothing was changed.
    Failed(DbStoreError),
    /// The time was over before the outcome was known.
    Unknown(Fault),
}

impl DatabaseStore {
    /// Commits, and repeats the commit for at most `within` where its outcome is unknown or a repeat may
    /// succeed.
    pub(crate) async fn settle(&self, commit: &Commit, within: Duration) -> Settlement {
        let give_up_at = Instant::now() + within;
        let mut may_be_applied = false;
        let mut pause = FIRST_PAUSE;
        loop {
            let fault = match self.store().commit(self.cells().shard(), commit.clone()).await {
                Ok(_) => return Settlement::Applied,
                Err(CommitError::Stale(_)) => return Settlement::Stale { may_be_applied },
                Err(CommitError::Refused(refusal)) => {
                    return Settlement::Failed(DbStoreError::Refused(refusal.to_string()));
                }
                Err(CommitError::Unknown(fault)) => {
                    may_be_applied = true;
                    fault
                }
                Err(CommitError::Engine(fault)) if may_be_applied || fault.retryable() => fault,
                Err(CommitError::Engine(fault)) => {
                    return Settlement::Failed(DbStoreError::Engine(fault));
                }
            };
            if Instant::now() + pause > give_up_at {
                return match may_be_applied {
                    true => Settlement::Unknown(fault),
                    false => Settlement::Failed(DbStoreError::Engine(fault)),
                };
            }
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

#[cfg(test)]
mod tests {
    use consort_kernel::{Expect, Key, Operation};

    use super::*;
    use crate::bed::{CommitFault, StoreBed};

    const WITHIN: Duration = Duration::from_secs(5);

    fn put(bed: &StoreBed, from: Option<&'static str>, to: &'static str) -> (Key, Commit) {
        let key = bed.store.cells().window();
        let commit = Commit::of([Operation::Put { key: key.clone(), value: to.into() }])
            .expecting(Expect::Bytes(key.clone(), from.map(Into::into)));
        (key, commit)
    }

    #[tokio::test(start_paused = true)]
    async fn a_commit_is_repeated_until_its_outcome_is_known() {
        let bed = StoreBed::new().await;
        let cases = [
            ("at once", vec![], "applied"),
            ("lost", vec![CommitFault::LostUnknown; 3], "applied"),
            ("refused for a while", vec![CommitFault::Refused; 3], "applied"),
            (
                "applied, then a fault",
                vec![CommitFault::AppliedUnknown, CommitFault::Refused],
                "open",
            ),
            ("out of reach", vec![CommitFault::Refused; 99], "failed"),
            ("silent", vec![CommitFault::LostUnknown; 99], "unknown"),
        ];
        for (what, faults, expected) in cases {
            let (key, commit) = put(&bed, None, "x");
            bed.hooked.fail(faults);
            let outcome = match bed.store.settle(&commit, WITHIN).await {
                Settlement::Applied => "applied",
                Settlement::Stale { may_be_applied: true } => "open",
                Settlement::Stale { may_be_applied: false } => "stale",
                Settlement::Failed(_) => "failed",
                Settlement::Unknown(_) => "unknown",
            };
            assert_eq!(outcome, expected, "{what}");
            bed.hooked.fail([]);
            bed.delete(&key).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_commit_that_expects_another_cell_is_stale_at_once() {
        let bed = StoreBed::new().await;
        bed.store.settle(&put(&bed, None, "x").1, WITHIN).await;
        let (_, second) = put(&bed, None, "y");
        let settled = bed.store.settle(&second, WITHIN).await;
        assert!(matches!(settled, Settlement::Stale { may_be_applied: false }), "{settled:?}");
    }
}

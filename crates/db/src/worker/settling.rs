//! Settling a group: its commit is repeated until its outcome is certain, or the leader must stop.

use std::time::Duration;

use bytes::Bytes;
use consort_kernel::Key;
use tokio::time::{Instant, sleep};

use super::shared::boot_time;
use super::{RETRY_PAUSE, Worker};
use crate::head::{DbHead, GroupEnd};
use crate::write::commit::{FeedVerdict, HeadCommit, HeadVerdict};

/// The pause before a commit is repeated.
const REPEAT_PAUSE: Duration = Duration::from_millis(20);

/// What became of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum GroupVerdict {
    /// The store has it, and the worker still leads: the head is this one now.
    Stored(Box<DbHead>),
    /// The store has it, and another worker leads.
    StoredAndDeposed,
    /// The store does not have it and never will, and another worker leads.
    Deposed,
    /// The store does not have it: it cannot be reached. The worker still leads.
    NotStored,
    /// It may be there or come yet: the leader had to stop before that was settled.
    Unknown,
}

/// A group that the store is to take.
#[derive(Clone, Copy, Debug)]
pub(super) struct GroupToStore<'a> {
    pub(super) entries: &'a [Bytes],
    pub(super) end: &'a GroupEnd,
    /// Cells that are put in the same commit.
    pub(super) beside: &'a [(Key, Bytes)],
}

/// The bounds of settling.
#[derive(Clone, Copy, Debug)]
pub(super) struct SettleBounds {
    /// How long a commit that certainly changed nothing is repeated.
    pub(super) give_up: Duration,
    /// How long one that may have been applied is repeated before the leader stops: the lease of its node.
    pub(super) stop: Duration,
}

impl Worker {
    /// Commits a group of the leader with this claim (step 6 of the write path).
    pub(super) async fn settle(
        &mut self,
        head: &DbHead,
        claim: u64,
        group: &GroupToStore<'_>,
        bounds: SettleBounds,
    ) -> GroupVerdict {
        let Ok(put) = head.advanced(claim, group.end) else { return GroupVerdict::Deposed };
        let mut commit = HeadCommit::new(head.clone(), put);
        let (start, began) = (Instant::now(), boot_time());
        loop {
            let (entries, beside) = (group.entries, group.beside);
            let store = self.db.store();
            let answer = store.append_group(&commit.expect, &commit.put, entries, beside).await;
            match commit.settle(&answer) {
                HeadVerdict::Stored => {
                    return self.stored(&commit, &answer, began);
                }
                HeadVerdict::NotStored => return GroupVerdict::Deposed,
                HeadVerdict::Repeat if self.must_stop(start, bounds) => {
                    return GroupVerdict::Unknown;
                }
                HeadVerdict::Repeat => {}
                HeadVerdict::MayRepeat if start.elapsed() >= bounds.give_up => {
                    return GroupVerdict::NotStored;
                }
                HeadVerdict::MayRepeat => {}
                HeadVerdict::AskFeed { index } => {
                    return self.ask_feed(&commit, index, start, bounds).await;
                }
            }
            if self.control.is_killed() && !commit.is_open {
                return GroupVerdict::NotStored;
            }
            sleep(REPEAT_PAUSE).await;
        }
    }

    fn stored(
        &mut self,
        commit: &HeadCommit,
        answer: &crate::write::commit::HeadAnswer,
        began: Duration,
    ) -> GroupVerdict {
        use crate::write::commit::HeadAnswer;
        let is_own_head = match answer {
            HeadAnswer::Ok => true,
            HeadAnswer::Stale(Some(found)) => **found == commit.put,
            _ => false,
        };
        if !is_own_head {
            return GroupVerdict::StoredAndDeposed;
        }
        self.judge(self.seen, Some(&commit.put));
        self.local.looked(began);
        GroupVerdict::Stored(Box::new(commit.put.clone()))
    }

    /// The fence makes the feed final: the entry at the intended index decides (H40).
    async fn ask_feed(
        &mut self,
        commit: &HeadCommit,
        index: u64,
        start: Instant,
        bounds: SettleBounds,
    ) -> GroupVerdict {
        loop {
            if let Some(found) = self.db.store().intended_entry(commit.put.era, index).await {
                return match commit.settle_by_feed(found) {
                    FeedVerdict::Stored => GroupVerdict::StoredAndDeposed,
                    FeedVerdict::NotStored => GroupVerdict::Deposed,
                    FeedVerdict::Unknown => GroupVerdict::Unknown,
                };
            }
            if self.must_stop(start, bounds) {
                return GroupVerdict::Unknown;
            }
            sleep(RETRY_PAUSE).await;
        }
    }

    fn must_stop(&self, start: Instant, bounds: SettleBounds) -> bool {
        self.control.is_killed() || start.elapsed() >= bounds.stop
    }
}

//! The outcome of a commit on the head: stored, not stored, or still open.
//!
//! A commit whose outcome is unknown was applied, or still will be, or never will be. No read settles
//! this. The only safe step is to repeat the identical commit until the head says that it, or anything
//! else, replaced the expected head (C3).

use consort_kernel::Digest;

use crate::head::DbHead;

/// A commit that replaces one head by another: a group, a claim, or the end of a lead.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HeadCommit {
    /// The head that it expects.
    pub expect: DbHead,
    /// The head that it puts.
    pub put: DbHead,
    /// Whether an attempt ended with an unknown outcome. Once true it stays true (H36).
    pub is_open: bool,
}

/// The store's answer to one attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeadAnswer {
    /// Applied.
    Ok,
    /// Not applied: the head is this one.
    Stale(Option<Box<DbHead>>),
    /// Applied, or will be, or nothing.
    Unknown,
    /// This attempt changed nothing.
    Fault,
}

/// What the answers so far mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadVerdict {
    /// The commit was applied.
    Stored,
    /// The commit was not applied, and never will be.
    NotStored,
    /// Only a repeat of the identical commit can tell. A worker that must stop answers `unknown`.
    Repeat,
    /// Nothing was changed so far: a repeat may succeed, and giving up is `not stored`.
    MayRepeat,
    /// The head is another one, so the feed is final up to this index: the entry there decides (H40).
    AskFeed {
        /// The index of the last entry of the commit's group.
        index: u64,
    },
}

/// What the feed holds at the index that a commit intended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntendedEntry {
    /// An entry with this digest.
    Present(Digest),
    /// Nothing: the feed ends before.
    Absent,
    /// It has been trimmed, or its era has been cleared away.
    Trimmed,
}

/// The outcome that the feed proves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeedVerdict {
    /// The commit was applied.
    Stored,
    /// The commit was not applied, and never will be.
    NotStored,
    /// Nothing proves it any more.
    Unknown,
}

impl HeadCommit {
    /// A commit that was not sent yet.
    pub fn new(expect: DbHead, put: DbHead) -> Self {
        HeadCommit { expect, put, is_open: false }
    }

    /// Takes the answer to one more attempt into account.
    pub fn settle(&mut self, answer: &HeadAnswer) -> HeadVerdict {
        match answer {
            HeadAnswer::Ok => HeadVerdict::Stored,
            HeadAnswer::Stale(Some(head)) if **head == self.put => HeadVerdict::Stored,
            HeadAnswer::Unknown => {
                self.is_open = true;
                HeadVerdict::Repeat
            }
            HeadAnswer::Fault if self.is_open => HeadVerdict::Repeat,
            HeadAnswer::Fault => HeadVerdict::MayRepeat,
            HeadAnswer::Stale(_) if !self.is_open => HeadVerdict::NotStored,
            HeadAnswer::Stale(found) => self.settle_open(found.as_deref()),
        }
    }

    /// Decides by the entry that stands where the last entry of this commit's group was meant to be. The
    /// digest covers the epoch, so an equal entry is this commit's own.
    pub fn settle_by_feed(&self, found: IntendedEntry) -> FeedVerdict {
        match found {
            IntendedEntry::Present(digest) if Some(digest) == self.put.digest => {
                FeedVerdict::Stored
            }
            IntendedEntry::Present(_) | IntendedEntry::Absent => FeedVerdict::NotStored,
            IntendedEntry::Trimmed => FeedVerdict::Unknown,
        }
    }

    /// An attempt may have been applied, and the head is neither the expected one nor the intended one.
    fn settle_open(&self, found: Option<&DbHead>) -> HeadVerdict {
        let index = self.put.index;
        if self.put.index == self.expect.index {
            // A claim, or the end of a lead: the worker does not lead in either case.
            return HeadVerdict::NotStored;
        }
        match found {
            Some(head) if self.is_same_history(head) && head.index < index => {
                HeadVerdict::NotStored
            }
            Some(head) if self.is_same_history(head) && head.index == index => {
                match head.digest == self.put.digest {
                    true => HeadVerdict::Stored,
                    false => HeadVerdict::NotStored,
                }
            }
            _ => HeadVerdict::AskFeed { index },
        }
    }

    fn is_same_history(&self, head: &DbHead) -> bool {
        head.database == self.put.database && head.era == self.put.era
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::{ContentHash, SchemaChain};
    use crate::head::EraBase;
    use crate::head::tests::{SQLITE, group, holder, led};

    fn commit() -> HeadCommit {
        let head = led(1);
        let put = head.advanced(1, &group(2, 7)).unwrap();
        HeadCommit::new(head, put)
    }

    fn open() -> HeadCommit {
        HeadCommit { is_open: true, ..commit() }
    }

    fn deposed(head: &DbHead) -> DbHead {
        head.claimed(holder(2, 9), SQLITE).unwrap()
    }

    fn stale(head: DbHead) -> HeadAnswer {
        HeadAnswer::Stale(Some(Box::new(head)))
    }

    #[test]
    fn the_answers_so_far_decide() {
        let (expect, put) = (commit().expect, commit().put);
        let other = |content| {
            let next = deposed(&expect);
            next.advanced(9, &group(2, content)).unwrap()
        };
        let later = deposed(&put).advanced(9, &group(1, 8)).unwrap();
        let base = EraBase {
            origin: 3,
            chain: SchemaChain::START,
            content: ContentHash(0),
            sqlite: SQLITE,
        };
        let ask = HeadVerdict::AskFeed { index: 2 };
        let cases = [
            ("ok", commit(), HeadAnswer::Ok, HeadVerdict::Stored),
            ("an earlier attempt was applied", commit(), stale(put.clone()), HeadVerdict::Stored),
            ("C3: unknown", commit(), HeadAnswer::Unknown, HeadVerdict::Repeat),
            ("a fault", commit(), HeadAnswer::Fault, HeadVerdict::MayRepeat),
            ("H36: a fault after unknown", open(), HeadAnswer::Fault, HeadVerdict::Repeat),
            ("H3: deposed", commit(), stale(deposed(&expect)), HeadVerdict::NotStored),
            ("H3: no head", commit(), HeadAnswer::Stale(None), HeadVerdict::NotStored),
            ("H40: the head names it", open(), stale(deposed(&put)), HeadVerdict::Stored),
            ("H40: claimed before it", open(), stale(deposed(&expect)), HeadVerdict::NotStored),
            ("H40: another entry there", open(), stale(other(5)), HeadVerdict::NotStored),
            ("H40: the head is further", open(), stale(later), ask),
            ("H40: another era", open(), stale(put.restored(base)), ask),
            ("H40: no head", open(), HeadAnswer::Stale(None), ask),
        ];
        for (what, mut commit, answer, expected) in cases {
            assert_eq!(commit.settle(&answer), expected, "{what}");
        }
    }

    #[test]
    fn h36_an_unknown_outcome_stays_open_whatever_fault_follows() {
        let mut commit = commit();
        assert_eq!(commit.settle(&HeadAnswer::Fault), HeadVerdict::MayRepeat);
        assert_eq!(commit.settle(&HeadAnswer::Unknown), HeadVerdict::Repeat);
        for _ in 0..3 {
            assert_eq!(commit.settle(&HeadAnswer::Fault), HeadVerdict::Repeat);
        }
        assert!(commit.is_open);
    }

    #[test]
    fn h40_the_entry_at_the_intended_index_decides_and_a_trimmed_one_leaves_it_unknown() {
        let own = open().put.digest.unwrap();
        let other = Digest::of(b"other");
        let cases = [
            (IntendedEntry::Present(own), FeedVerdict::Stored),
            (IntendedEntry::Present(other), FeedVerdict::NotStored),
            (IntendedEntry::Absent, FeedVerdict::NotStored),
            (IntendedEntry::Trimmed, FeedVerdict::Unknown),
        ];
        for (found, expected) in cases {
            assert_eq!(open().settle_by_feed(found), expected, "{found:?}");
        }
    }

    #[test]
    fn an_open_claim_that_another_claim_replaced_gives_no_lead() {
        let head = DbHead::created(9, 4, SQLITE);
        let mut claim = HeadCommit::new(head.clone(), head.claimed(holder(1, 1), SQLITE).unwrap());
        assert_eq!(claim.settle(&HeadAnswer::Unknown), HeadVerdict::Repeat);
        let other = head.claimed(holder(2, 2), SQLITE).unwrap();
        assert_eq!(claim.settle(&stale(other)), HeadVerdict::NotStored);
    }
}

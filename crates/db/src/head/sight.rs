//! A look at the head, compared with the heads that the worker knew before.

use super::{DbHead, HeadState};
use crate::position::DbPosition;

/// The part of a head that never goes back within an era, and the claim that goes with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LastSeen {
    database: u128,
    era: u64,
    era_origin: u64,
    epoch: u64,
    claim: Option<u64>,
    index: u64,
    digest: Option<consort_kernel::Digest>,
}

/// The meaning of a look at the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadSight {
    /// The head is the same as before, or later in the same history.
    Forward,
    /// Another database, or a later era: the worker serves nothing and loads again (H4).
    OtherHistory,
    /// The head went back, or is gone: the store lost what it had acknowledged (H34, H8).
    LostTail,
    /// An operator has to decide before anything is written.
    Stopped,
}

impl LastSeen {
    /// The point of history at which this head stands.
    pub fn new(head: &DbHead) -> Self {
        LastSeen {
            database: head.database,
            era: head.era,
            era_origin: head.era_origin,
            epoch: head.epoch,
            claim: head.holder.as_ref().map(|holder| holder.claim),
            index: head.index,
            digest: head.digest,
        }
    }

    /// The position of the head that was seen.
    pub fn position(&self) -> DbPosition {
        DbPosition { era: self.era, index: self.index }
    }

    /// What it means that a look shows `head`. `self` is the point that the worker knew *before that look
    /// began*: two looks may overlap, and the older answer may arrive last (H34).
    pub fn judge(&self, head: Option<&DbHead>) -> HeadSight {
        let Some(head) = head else {
            return HeadSight::LostTail;
        };
        let now = LastSeen::new(head);
        if now.database != self.database || now.era > self.era {
            return HeadSight::OtherHistory;
        }
        if self.contradicts(&now) {
            return HeadSight::LostTail;
        }
        match head.state {
            HeadState::Stopped { .. } => HeadSight::Stopped,
            HeadState::Led | HeadState::Vacant { .. } => HeadSight::Forward,
        }
    }

    /// The later of two points of one history, for answers that arrive out of order.
    #[must_use]
    pub fn latest(self, other: LastSeen) -> LastSeen {
        let rank = |seen: &LastSeen| (seen.era, seen.epoch, seen.index);
        match rank(&other) > rank(&self) || other.database != self.database {
            true => other,
            false => self,
        }
    }

    /// Whether `now` cannot lie behind `self` in one history. Equal numbers need equal contents: an engine
    /// that lost its tail may have grown again to the same length.
    fn contradicts(&self, now: &LastSeen) -> bool {
        let went_back = now.era < self.era || now.epoch < self.epoch || now.index < self.index;
        let other_origin = now.era == self.era && now.era_origin != self.era_origin;
        let other_claim = now.epoch == self.epoch && now.claim != self.claim;
        let other_entry = now.index == self.index && now.digest != self.digest;
        went_back || other_origin || other_claim || other_entry
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::{ContentHash, SchemaChain};
    use crate::head::EraBase;
    use crate::head::tests::{SQLITE, group, holder, led};

    fn written(claim: u64) -> DbHead {
        led(claim).advanced(claim, &group(1, 1)).unwrap()
    }

    #[test]
    fn h34_a_head_that_goes_back_within_its_era_is_a_lost_tail() {
        let base = EraBase {
            origin: 3,
            chain: SchemaChain::START,
            content: ContentHash(0),
            sqlite: SQLITE,
        };
        let seen = written(5);
        let second = seen.claimed(holder(2, 6), SQLITE).unwrap();
        let cases = [
            ("the same", &seen, Some(seen.clone()), HeadSight::Forward),
            ("one more entry", &led(5), Some(seen.clone()), HeadSight::Forward),
            ("one more claim", &seen, Some(second.clone()), HeadSight::Forward),
            ("vacated", &seen, Some(seen.vacated(5, None).unwrap()), HeadSight::Forward),
            ("stopped", &seen, Some(seen.stopped("x").unwrap()), HeadSight::Stopped),
            ("a later era", &seen, Some(seen.restored(base)), HeadSight::OtherHistory),
            (
                "another database",
                &seen,
                Some(DbHead { database: 1, ..seen.clone() }),
                HeadSight::OtherHistory,
            ),
            ("no head", &seen, None, HeadSight::LostTail),
            ("a lower index", &seen, Some(led(5)), HeadSight::LostTail),
            ("a lower epoch", &second, Some(seen.clone()), HeadSight::LostTail),
            ("another claim of this epoch", &seen, Some(written(9)), HeadSight::LostTail),
            (
                "another entry at this index",
                &seen,
                Some(led(5).advanced(5, &group(1, 2)).unwrap()),
                HeadSight::LostTail,
            ),
            ("an older era", &seen.restored(base), Some(seen.clone()), HeadSight::LostTail),
            (
                "a lower index under a later claim",
                &seen,
                Some(led(5).claimed(holder(2, 8), SQLITE).unwrap()),
                HeadSight::LostTail,
            ),
        ];
        for (what, before, now, expected) in cases {
            assert_eq!(LastSeen::new(before).judge(now.as_ref()), expected, "{what}");
        }
    }

    #[test]
    fn h34_an_older_answer_that_arrives_last_is_no_lost_tail() {
        let (old, new) = (led(5), written(5));
        let before_both = LastSeen::new(&old);
        assert_eq!(before_both.judge(Some(&new)), HeadSight::Forward);
        assert_eq!(before_both.judge(Some(&old)), HeadSight::Forward);
        let kept = before_both.latest(LastSeen::new(&new)).latest(LastSeen::new(&old));
        assert_eq!(kept, LastSeen::new(&new));
    }
}

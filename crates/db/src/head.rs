//! The head of a database: the one cell that every write, claim and stop replaces by compare-and-commit.
//!
//! The functions here make the next head from the present one and do no I/O. The commit that stores the
//! next head expects the very bytes of the present one, so a head that another worker has replaced
//! fences off everything that was made from it (C4, H2).

pub(crate) mod format;
mod sight;

use consort_kernel::Digest;

use crate::hash::{ContentHash, SchemaChain};
use crate::position::DbPosition;

pub use sight::{HeadSight, LastSeen};

/// The era of a database that was never restored. It alone begins empty.
pub const FIRST_ERA: u64 = 1;
/// Longest reason that a stopped head carries, in bytes; a longer one is cut.
pub const STOP_REASON_BYTES: usize = 1024;

/// The contents of the head cell.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DbHead {
    /// The id of the database, drawn at random when it was created.
    pub database: u128,
    /// Grows with every restore.
    pub era: u64,
    /// Drawn at random for each era. It tells the maker of an era that the era is the one it made, also
    /// when the outcome of its commit was unknown.
    pub era_origin: u64,
    /// Grows with every claim, also from era to era.
    pub epoch: u64,
    /// The worker that claimed last in this era.
    pub holder: Option<HeadHolder>,
    /// The index of the last entry; 0 before the first one of the era.
    pub index: u64,
    /// The digest of the last entry; `None` before the first one of the era.
    pub digest: Option<Digest>,
    /// The schema, after the last entry.
    pub chain: SchemaChain,
    /// The contents, after the last entry.
    pub content: ContentHash,
    /// The highest version of SQLite that has led the database, such as 3054001 (H30).
    pub sqlite: u32,
    /// Whether a worker leads.
    pub state: HeadState,
}

/// A worker that claimed the head.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HeadHolder {
    /// Its node.
    pub node: String,
    /// The process of that node.
    pub incarnation: u64,
    /// Its slot.
    pub slot: u16,
    /// Its worker id.
    pub worker: u64,
    /// Drawn at random for each claim, so that no two claims are the same bytes (H35).
    pub claim: u64,
}

/// Whether a worker leads.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum HeadState {
    /// The holder leads.
    Led,
    /// The holder gave the lead up, or the era is new.
    Vacant {
        /// The worker that should claim next.
        successor: Option<u64>,
    },
    /// The store lost entries that it had acknowledged: nothing is written until an operator decides.
    Stopped {
        /// What was found, and by which worker.
        reason: String,
    },
}

/// The contents with which an era begins: those of its first snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EraBase {
    /// Drawn at random for this era.
    pub origin: u64,
    /// The schema.
    pub chain: SchemaChain,
    /// The contents.
    pub content: ContentHash,
    /// The version of SQLite that made them.
    pub sqlite: u32,
}

/// A group of entries that a leader wants to append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupEnd {
    /// How many entries the group has.
    pub entries: u64,
    /// The digest of its last entry.
    pub digest: Digest,
    /// The schema after it.
    pub chain: SchemaChain,
    /// The contents after it.
    pub content: ContentHash,
}

/// A step that the present head does not allow.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeadError {
    /// The database is stopped.
    #[error("the database is stopped ({0}): run `consort db resolve` to begin a new era")]
    Stopped(String),
    /// The database is not stopped, so there is nothing to resolve.
    #[error("the database is not stopped, so there is nothing to resolve")]
    NotStopped,
    /// The step belongs to the leader, and another claim stands in the head, or none.
    #[error("another worker has claimed the lead, or it was given up")]
    NotLeader,
    /// The worker has an older SQLite than a leader before it (H30).
    #[error(
        "the database was written by SQLite {needed} and this node has {found}: upgrade this node"
    )]
    OlderSqlite {
        /// The version in the head.
        needed: u32,
        /// The version of this node.
        found: u32,
    },
}

impl DbHead {
    /// The head of a database that begins now, empty and without a leader.
    pub fn created(database: u128, origin: u64, sqlite: u32) -> Self {
        let base =
            EraBase { origin, chain: SchemaChain::START, content: ContentHash::EMPTY, sqlite };
        DbHead::beginning(database, FIRST_ERA, 0, base)
    }

    /// Where the history ends.
    pub fn position(&self) -> DbPosition {
        DbPosition { era: self.era, index: self.index }
    }

    /// Whether the claim with this number leads.
    pub fn is_led_by(&self, claim: u64) -> bool {
        self.state == HeadState::Led
            && self.holder.as_ref().is_some_and(|holder| holder.claim == claim)
    }

    /// The head after `holder` claimed the lead. Any worker may claim at any time: whether one should is
    /// decided elsewhere, and no safety rests on it.
    pub fn claimed(&self, holder: HeadHolder, sqlite: u32) -> Result<DbHead, HeadError> {
        self.check_not_stopped()?;
        if sqlite < self.sqlite {
            return Err(HeadError::OlderSqlite { needed: self.sqlite, found: sqlite });
        }
        Ok(DbHead {
            epoch: self.epoch + 1,
            holder: Some(holder),
            sqlite,
            state: HeadState::Led,
            ..self.clone()
        })
    }

    /// The head after the leader with this claim appended a group.
    pub fn advanced(&self, claim: u64, group: &GroupEnd) -> Result<DbHead, HeadError> {
        self.check_led_by(claim)?;
        Ok(DbHead {
            index: self.index + group.entries,
            digest: Some(group.digest),
            chain: group.chain,
            content: group.content,
            ..self.clone()
        })
    }

    /// The head after the leader with this claim gave the lead up, to `successor` if it names one (H28).
    pub fn vacated(&self, claim: u64, successor: Option<u64>) -> Result<DbHead, HeadError> {
        self.check_led_by(claim)?;
        Ok(DbHead { state: HeadState::Vacant { successor }, ..self.clone() })
    }

    /// The head after a worker found that the store lost entries (H8, H34).
    pub fn stopped(&self, reason: &str) -> Result<DbHead, HeadError> {
        self.check_not_stopped()?;
        let cut = reason.floor_char_boundary(STOP_REASON_BYTES);
        Ok(DbHead {
            state: HeadState::Stopped { reason: reason[..cut].to_owned() },
            ..self.clone()
        })
    }

    /// The head of the era that begins with a restore. Positions of this era are refused from then on
    /// (H11); the epoch goes on, so no later claim can equal one of this era.
    #[must_use]
    pub fn restored(&self, base: EraBase) -> DbHead {
        DbHead::beginning(self.database, self.era + 1, self.epoch, base)
    }

    /// The head of the era in which an operator ends a stop.
    pub fn resolved(&self, base: EraBase) -> Result<DbHead, HeadError> {
        match self.state {
            HeadState::Stopped { .. } => Ok(self.restored(base)),
            HeadState::Led | HeadState::Vacant { .. } => Err(HeadError::NotStopped),
        }
    }

    fn beginning(database: u128, era: u64, epoch: u64, base: EraBase) -> DbHead {
        DbHead {
            database,
            era,
            era_origin: base.origin,
            epoch,
            holder: None,
            index: 0,
            digest: None,
            chain: base.chain,
            content: base.content,
            sqlite: base.sqlite,
            state: HeadState::Vacant { successor: None },
        }
    }

    fn check_led_by(&self, claim: u64) -> Result<(), HeadError> {
        self.check_not_stopped()?;
        match self.is_led_by(claim) {
            true => Ok(()),
            false => Err(HeadError::NotLeader),
        }
    }

    fn check_not_stopped(&self) -> Result<(), HeadError> {
        match &self.state {
            HeadState::Stopped { reason } => Err(HeadError::Stopped(reason.clone())),
            HeadState::Led | HeadState::Vacant { .. } => Ok(()),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) const SQLITE: u32 = 3_054_001;

    pub(crate) fn holder(worker: u64, claim: u64) -> HeadHolder {
        HeadHolder { node: "a".into(), incarnation: 7, slot: 2, worker, claim }
    }

    pub(crate) fn group(entries: u64, content: u128) -> GroupEnd {
        let digest = Digest::of(&content.to_be_bytes());
        let chain = SchemaChain::START.then("x");
        GroupEnd { entries, digest, chain, content: ContentHash(content) }
    }

    pub(crate) fn led(claim: u64) -> DbHead {
        DbHead::created(9, 4, SQLITE).claimed(holder(1, claim), SQLITE).unwrap()
    }

    fn base() -> EraBase {
        EraBase {
            origin: 5,
            chain: SchemaChain::START.then("y"),
            content: ContentHash(77),
            sqlite: SQLITE,
        }
    }

    #[test]
    fn h35_two_claims_of_the_same_head_are_never_the_same_bytes() {
        let head = DbHead::created(9, 4, SQLITE);
        let a = head.claimed(holder(1, 100), SQLITE).unwrap();
        let b = head.claimed(holder(1, 101), SQLITE).unwrap();
        assert_eq!((a.epoch, b.epoch), (1, 1));
        assert_ne!(a.encode(), b.encode());
    }

    #[test]
    fn h2_a_claim_changes_the_head_that_the_leader_before_expects() {
        let before = led(100);
        let after = before.claimed(holder(2, 200), SQLITE).unwrap();
        assert_ne!(before.encode(), after.encode());
        assert_eq!((after.epoch, after.position()), (2, before.position()));
        assert_eq!(after.advanced(100, &group(1, 3)), Err(HeadError::NotLeader));
        assert_eq!(after.vacated(100, None), Err(HeadError::NotLeader));
    }

    #[test]
    fn a_group_moves_the_index_by_its_entries() {
        let head = led(100).advanced(100, &group(3, 5)).unwrap();
        assert_eq!((head.index, head.content, head.epoch), (3, ContentHash(5), 1));
        assert_eq!(head.digest, Some(group(3, 5).digest));
        assert_eq!(head.advanced(100, &group(1, 6)).unwrap().index, 4);
    }

    #[test]
    fn h28_a_leader_that_vacates_names_its_successor_and_leads_no_more() {
        let vacant = led(100).vacated(100, Some(3)).unwrap();
        assert_eq!(vacant.state, HeadState::Vacant { successor: Some(3) });
        assert!(!vacant.is_led_by(100));
        assert_eq!(vacant.advanced(100, &group(1, 1)), Err(HeadError::NotLeader));
        assert!(vacant.claimed(holder(3, 300), SQLITE).unwrap().is_led_by(300));
    }

    #[test]
    fn h8_a_stopped_database_takes_no_write_and_no_claim_until_it_is_resolved() {
        let stopped = led(100).stopped("entry 4 is gone").unwrap();
        let refusal = HeadError::Stopped("entry 4 is gone".into());
        assert_eq!(stopped.claimed(holder(2, 200), SQLITE), Err(refusal.clone()));
        assert_eq!(stopped.advanced(100, &group(1, 1)), Err(refusal.clone()));
        assert_eq!(stopped.stopped("again"), Err(refusal));
        assert_eq!(led(100).resolved(base()), Err(HeadError::NotStopped));
        let resolved = stopped.resolved(base()).unwrap();
        assert!(resolved.claimed(holder(2, 200), SQLITE).is_ok());
    }

    #[test]
    fn a_long_reason_is_cut_between_characters() {
        let stopped = led(1).stopped(&"ä".repeat(STOP_REASON_BYTES)).unwrap();
        match stopped.state {
            HeadState::Stopped { reason } => assert_eq!(reason.len(), STOP_REASON_BYTES),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn h11_a_restore_begins_a_new_era_at_index_0_and_keeps_the_epoch() {
        let old = led(100).advanced(100, &group(1, 1)).unwrap();
        let new = old.restored(base());
        assert!(new.position() > old.position());
        assert_eq!((new.era, new.index, new.digest), (2, 0, None));
        assert_eq!((new.epoch, new.database), (old.epoch, old.database));
        assert_eq!((new.chain, new.content), (base().chain, base().content));
        assert_eq!(new.advanced(100, &group(1, 1)), Err(HeadError::NotLeader));
        assert_eq!(new.claimed(holder(1, 300), SQLITE).unwrap().epoch, 2);
    }

    #[test]
    fn h30_a_worker_with_an_older_sqlite_does_not_claim() {
        let newer = DbHead::created(9, 4, SQLITE + 1);
        let error = newer.claimed(holder(1, 1), SQLITE).unwrap_err();
        assert_eq!(error, HeadError::OlderSqlite { needed: SQLITE + 1, found: SQLITE });
        assert!(error.to_string().contains("upgrade this node"));
        let claimed = DbHead::created(9, 4, SQLITE).claimed(holder(1, 1), SQLITE + 1).unwrap();
        assert_eq!(claimed.sqlite, SQLITE + 1);
    }
}

//! The members of sets that the writer met lately, so that those which come again and again are not looked
//! up in the tables each time.
//!
//! Only what is in a set is remembered, never that something is not. A set that is deleted takes its
//! generation with it: its members' rows are never asked for again. Two generations of memory, as the
//! cache of cells has.

use hashbrown::HashSet;

/// Bytes of rows in one generation, about: there are two.
const GENERATION_BYTES: usize = 24 * 1024 * 1024;

/// What the table itself takes for a row.
const ROW_OVERHEAD: usize = 40;

/// Rows of members that are there.
#[derive(Debug, Default)]
pub(super) struct Members {
    young: HashSet<Vec<u8>>,
    old: HashSet<Vec<u8>>,
    bytes: usize,
}

impl Members {
    /// Whether this row is known to be there, in the table or in the batch in hand.
    pub(super) fn knows(&mut self, row: &[u8]) -> bool {
        if self.young.contains(row) {
            return true;
        }
        match self.old.take(row) {
            Some(row) => {
                self.remember(row);
                true
            }
            None => false,
        }
    }

    /// This row is there.
    pub(super) fn remember(&mut self, row: Vec<u8>) {
        self.bytes += row.len() + ROW_OVERHEAD;
        self.young.insert(row);
    }

    /// Called when a batch is written: makes room. Within a batch nothing is forgotten, since its rows are
    /// not in the table yet.
    pub(super) fn settle(&mut self) {
        if self.bytes > GENERATION_BYTES {
            self.old = std::mem::take(&mut self.young);
            self.bytes = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_hot_stays_known_and_memory_is_bounded() {
        let mut members = Members::default();
        members.remember(b"hot".to_vec());
        for n in 0..2_000_000u32 {
            assert!(!members.knows(&n.to_be_bytes()));
            members.remember(n.to_be_bytes().to_vec());
            if n % 100 == 0 {
                members.settle();
                assert!(members.knows(b"hot"), "forgotten after {n}");
            }
        }
        let rows = members.young.len() + members.old.len();
        assert!(rows * ROW_OVERHEAD <= 2 * GENERATION_BYTES + 100 * ROW_OVERHEAD, "{rows} rows");
    }
}

//! How many members sets have. Where that takes reading them, it is remembered.

use hashbrown::HashMap;
use parking_lot::Mutex;

use super::runs::Merge;
use super::sets::SetRow;
use super::tables::Tables;

/// Of so many sets counts are remembered; then all are forgotten.
const REMEMBERED: usize = 10_000;

/// The last count of each set, by its generation, with the contents of its row at that time: these name its
/// runs, whose members never change, so that a count is right as long as the row is the same.
#[derive(Debug, Default)]
pub(super) struct Counts {
    known: Mutex<HashMap<u64, (Vec<u8>, u64)>>,
}

/// A count, and how many bytes were read for it, about.
pub(super) struct Counted {
    pub(super) members: u64,
    pub(super) bytes: usize,
}

impl Counts {
    /// Counts the members of the set whose row has these contents.
    pub(super) fn of(
        &self,
        tables: &Tables,
        snapshot: &fjall::Snapshot,
        contents: &[u8],
    ) -> fjall::Result<Counted> {
        let set = SetRow::read(contents);
        if let Some(members) = set.count() {
            return Ok(Counted { members, bytes: 0 });
        }
        if let Some((row, members)) = self.known.lock().get(&set.generation)
            && row == contents
        {
            return Ok(Counted { members: *members, bytes: 0 });
        }
        let members = Merge::of_set(tables, snapshot, &set, None)?.count()?;
        let mut known = self.known.lock();
        if known.len() >= REMEMBERED {
            known.clear();
        }
        known.insert(set.generation, (contents.to_vec(), members));
        let bytes = set.runs.iter().map(|run| run.bytes as usize).sum();
        Ok(Counted { members, bytes })
    }
}

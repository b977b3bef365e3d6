//! What a set's row holds: its newest members, and the list of the runs that hold the others.
//!
//! Members are not looked up when they are put in: a commit's new members become a run, sorted and written
//! in blocks, and runs are merged with one another later, eight of about the same size at a time (see
//! [`super::merger`]). A member may stand in several runs. So what a set costs to grow does not depend on
//! how large it is, and how many members it has is told by whoever reads it (see [`super::runs`]).

use super::small::SmallSet;

/// So many runs of about the same size are merged into one.
const MERGED_RUNS: usize = 8;

const RUN_BYTES: usize = 24;

/// A sorted part of a set. Its members never change, and its number is never given again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) number: u64,
    pub(super) members: u64,
    pub(super) bytes: u64,
}

impl Run {
    /// Runs of one tier differ in size by less than eight times.
    fn tier(self) -> u32 {
        self.bytes.max(1).ilog2() / 3
    }
}

/// A set as its row has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SetRow {
    /// A set that is deleted and made again gets a new generation, so that deleting is one row and its runs
    /// can be cleared away later. 0 as long as there are no runs.
    pub(super) generation: u64,
    pub(super) runs: Vec<Run>,
    /// The newest members; of most sets, all of them.
    pub(super) tail: SmallSet,
}

impl SetRow {
    /// Reads what [`encode`](SetRow::encode) gave: generation (8), number of runs (4), each run's number (8),
    /// members (8) and bytes (8), then the tail. All little-endian.
    pub(super) fn read(contents: &[u8]) -> SetRow {
        SetRow::parse(contents).unwrap_or_default()
    }

    fn parse(contents: &[u8]) -> Option<SetRow> {
        let (generation, rest) = contents.split_first_chunk()?;
        let (count, rest) = rest.split_first_chunk()?;
        let count = u32::from_le_bytes(*count) as usize;
        let (runs, tail) = rest.split_at_checked(count.checked_mul(RUN_BYTES)?)?;
        let run = |run: &[u8]| {
            let (number, rest) = run.split_first_chunk()?;
            let (members, bytes) = rest.split_first_chunk()?;
            Some(Run {
                number: u64::from_le_bytes(*number),
                members: u64::from_le_bytes(*members),
                bytes: u64::from_le_bytes(*bytes.first_chunk()?),
            })
        };
        Some(SetRow {
            generation: u64::from_le_bytes(*generation),
            runs: runs.chunks_exact(RUN_BYTES).map(run).collect::<Option<_>>()?,
            tail: SmallSet::read(tail),
        })
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut contents =
            Vec::with_capacity(12 + self.runs.len() * RUN_BYTES + self.tail.as_bytes().len());
        contents.extend(self.generation.to_le_bytes());
        contents.extend((self.runs.len() as u32).to_le_bytes());
        for run in &self.runs {
            contents.extend(run.number.to_le_bytes());
            contents.extend(run.members.to_le_bytes());
            contents.extend(run.bytes.to_le_bytes());
        }
        contents.extend(self.tail.as_bytes());
        contents
    }

    /// How many members it has, if that can be told without reading them.
    pub(super) fn count(&self) -> Option<u64> {
        match &self.runs[..] {
            [] => Some(self.tail.len() as u64),
            [run] if self.tail.len() == 0 => Some(run.members),
            _ => None,
        }
    }

    /// Runs that should be merged: the smallest eight of about the same size.
    pub(super) fn due(&self) -> Option<Vec<Run>> {
        let mut runs = self.runs.clone();
        runs.sort_unstable_by_key(|run| run.bytes);
        let mut tiers = runs.chunk_by(|one, other| one.tier() == other.tier());
        let due = tiers.find(|tier| tier.len() >= MERGED_RUNS)?;
        Some(due[..MERGED_RUNS].to_vec())
    }

    /// Puts one run in the place of others; false if they are not all there.
    pub(super) fn replace(&mut self, merged: &[Run], run: Run) -> bool {
        if !merged.iter().all(|old| self.runs.contains(old)) {
            return false;
        }
        self.runs.retain(|held| !merged.contains(held));
        self.runs.push(run);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(number: u64, bytes: u64) -> Run {
        Run { number, members: bytes / 10, bytes }
    }

    #[test]
    fn a_row_gives_back_what_it_was_made_of() {
        let mut set =
            SetRow { generation: 7, runs: vec![run(1, 900), run(2, 50)], ..SetRow::default() };
        set.tail = SmallSet::of_few(&[b"x"]).unwrap();
        assert_eq!(SetRow::read(&set.encode()), set);
        assert_eq!(SetRow::read(&SetRow::default().encode()), SetRow::default());
    }

    #[test]
    fn a_count_is_known_where_nothing_can_stand_twice() {
        let mut set = SetRow::default();
        assert_eq!(set.count(), Some(0));
        set.tail = SmallSet::of_few(&[b"x"]).unwrap();
        assert_eq!(set.count(), Some(1));
        set.runs.push(run(1, 900));
        assert_eq!(set.count(), None, "x may be one of the ninety");
        set.tail = SmallSet::default();
        assert_eq!(set.count(), Some(90));
        set.runs.push(run(2, 900));
        assert_eq!(set.count(), None);
    }

    #[test]
    fn runs_of_about_the_same_size_are_merged_and_the_smaller_ones_first() {
        let runs = |sizes: &[u64]| {
            let runs = (0..).zip(sizes).map(|(number, &bytes)| run(number, bytes)).collect();
            SetRow { runs, ..SetRow::default() }
        };
        let due = |sizes: &[u64]| {
            runs(sizes).due().map(|due| due.iter().map(|run| run.bytes).collect::<Vec<_>>())
        };
        assert_eq!(due(&[600; 7]), None);
        assert_eq!(due(&[600; 9]), Some(vec![600; 8]));
        assert_eq!(due(&[600, 600, 600, 600, 5_000, 5_000, 5_000, 5_000]), None);
        assert_eq!(due(&[1 << 40; 9]), Some(vec![1 << 40; 8]));
        let mixed = [[600; 8], [5_000; 8]].concat();
        assert_eq!(due(&mixed), Some(vec![600; 8]));
    }

    #[test]
    fn runs_that_are_gone_are_not_replaced() {
        let mut set =
            SetRow { runs: vec![run(1, 10), run(2, 10), run(3, 10)], ..SetRow::default() };
        assert!(!set.replace(&[run(1, 10), run(9, 10)], run(10, 20)));
        assert_eq!(set.runs.len(), 3);
        assert!(set.replace(&[run(1, 10), run(3, 10)], run(10, 20)));
        assert_eq!(set.runs, [run(2, 10), run(10, 20)]);
    }
}

//! Numbers of lines, as ranges.

use serde::{Serialize, Serializer};

/// Numbers of lines in ascending order, as first and last of each range.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct LineRanges(Vec<(u64, u64)>);

impl LineRanges {
    /// Adds a line behind the others.
    pub(super) fn push(&mut self, line: u64) {
        self.push_range(line, line);
    }

    /// Adds lines behind the others.
    pub(super) fn push_range(&mut self, first: u64, last: u64) {
        match self.0.last_mut() {
            Some((_, end)) if *end + 1 == first => *end = last,
            _ => self.0.push((first, last)),
        }
    }

    /// Adds lines that stand anywhere between these.
    pub(super) fn merge(&mut self, other: LineRanges) {
        self.0.extend(other.0);
        self.0.sort_unstable();
        let ranges = std::mem::take(&mut self.0);
        ranges.into_iter().for_each(|(first, last)| self.push_range(first, last));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Serialize for LineRanges {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|(first, last)| [first, last]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_join_to_ranges_however_they_come() {
        let mut odd = LineRanges::default();
        [1, 3, 5, 6].into_iter().for_each(|line| odd.push(line));
        let mut even = LineRanges::default();
        [2, 4, 9].into_iter().for_each(|line| even.push(line));
        odd.merge(even);
        assert_eq!(serde_json::to_string(&odd).unwrap(), "[[1,6],[9,9]]");
        odd.push_range(10, 20);
        assert_eq!(serde_json::to_string(&odd).unwrap(), "[[1,6],[9,20]]");
    }
}

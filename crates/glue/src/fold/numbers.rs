//! The numbers of sources: which are used up, which were skipped, and which were used up ahead of their turn.

use super::Fold;
use crate::bounds::{MAX_PASSED_RANGES, MAX_SKIPPED_RANGES, MAX_SOURCES};
use crate::stored::pending::PassedRange;
use crate::stored::{PieceOutcome, SourceNumber, SourceNumbers};

impl SourceNumbers {
    /// Whether a number up to the last one never came.
    pub(super) fn is_skipped(&self, seq: u64) -> bool {
        self.skipped.iter().any(|(first, last)| (*first..=*last).contains(&seq))
    }

    /// The numbers behind the last one and before `next` will never come. Of more ranges than a head keeps, the two
    /// lowest become one: numbers between them are taken for skipped as well, never for a repeat.
    pub(super) fn skip_to(&mut self, next: u64) {
        self.skipped.push((self.last + 1, next - 1));
        self.last = next - 1;
        self.outcome = None;
        if self.skipped.len() > MAX_SKIPPED_RANGES {
            let (first, _) = self.skipped.remove(0);
            self.skipped[0].0 = first;
        }
    }
}

impl Fold<'_> {
    /// The index of a source, which is added if there is room.
    pub(super) fn source_index(&mut self, name: &str) -> Option<usize> {
        let sources = &mut self.state.head.sources;
        if let Some(index) = sources.iter().position(|source| source.name == name) {
            return Some(index);
        }
        if sources.len() >= MAX_SOURCES {
            return None;
        }
        self.state.changed = true;
        sources.push(SourceNumbers { name: name.to_owned(), ..SourceNumbers::default() });
        Some(sources.len() - 1)
    }

    /// The last number of a source that was used up; 0 for a new source.
    pub(super) fn last_number(&self, name: &str) -> u64 {
        self.state.head.source(name).map_or(0, |source| source.last)
    }

    /// Uses up the number of a piece that was judged.
    pub(super) fn use_number(&mut self, number: SourceNumber<'_>, outcome: &PieceOutcome) {
        let Some(index) = self.source_index(number.source) else { return };
        let source = &mut self.state.head.sources[index];
        if number.seq > source.last + 1 {
            return self.pass(number);
        }
        if number.seq < source.last || source.is_skipped(number.seq) {
            return;
        }
        source.last = number.seq;
        source.outcome = Some(outcome.brief());
        self.pass_over(index);
    }

    /// Whether a number was used up ahead of its turn.
    pub(super) fn is_passed(&self, number: SourceNumber<'_>) -> bool {
        self.state.pending.passed.iter().any(|range| {
            range.source == number.source && (range.first..=range.last).contains(&number.seq)
        })
    }

    /// Steps over numbers that were used up ahead of their turn.
    pub(super) fn pass_over(&mut self, index: usize) {
        let source = &mut self.state.head.sources[index];
        let passed = &mut self.state.pending.passed;
        while let Some(at) = passed
            .iter()
            .position(|range| range.source == source.name && range.first == source.last + 1)
        {
            source.last = passed.remove(at).last;
            source.outcome = None;
        }
    }

    /// The lowest number of a source that was used up ahead of its turn.
    pub(super) fn first_passed(&self, name: &str) -> Option<u64> {
        let ranges = self.state.pending.passed.iter().filter(|range| range.source == name);
        ranges.map(|range| range.first).min()
    }

    /// Remembers a number that is used up while a lower one is still open. Beyond the bound it stays free.
    fn pass(&mut self, SourceNumber { source, seq }: SourceNumber<'_>) {
        let passed = &mut self.state.pending.passed;
        let touches = |range: &PassedRange| {
            range.source == source && range.first <= seq + 1 && seq <= range.last + 1
        };
        let Some(at) = passed.iter().position(touches) else {
            if passed.len() < MAX_PASSED_RANGES {
                passed.push(PassedRange { source: source.to_owned(), first: seq, last: seq });
            }
            return;
        };
        passed[at].first = passed[at].first.min(seq);
        passed[at].last = passed[at].last.max(seq);
        let (first, last) = (passed[at].first, passed[at].last);
        let beside = |range: &PassedRange| {
            range.source == source && (range.last + 1 == first || last + 1 == range.first)
        };
        if let Some(other) = passed.iter().position(beside) {
            let other = passed.remove(other);
            let range =
                passed.iter_mut().find(|range| range.source == source && range.first == first);
            if let Some(range) = range {
                range.first = range.first.min(other.first);
                range.last = range.last.max(other.last);
            }
        }
    }
}

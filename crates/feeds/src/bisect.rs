//! Finds the rows that a sink refuses, by halving what it refused. Pure: the caller sends what is asked for
//! and tells the outcome.

use std::ops::Range;

/// The way through a batch. Ranges come in their order, so that of two revisions of a row the later is sent
/// later, however often the batch is cut.
#[derive(Debug)]
pub(crate) struct Bisect {
    /// What is to be sent, the next one last.
    left: Vec<Range<usize>>,
    done: usize,
}

impl Bisect {
    /// A batch of `rows` rows.
    pub(crate) fn new(rows: usize) -> Self {
        Bisect { left: Vec::from_iter((rows > 0).then_some(0..rows)), done: 0 }
    }

    /// What to send next; none when all rows are settled.
    pub(crate) fn next(&self) -> Option<Range<usize>> {
        self.left.last().cloned()
    }

    /// How many rows from the first one on are settled.
    pub(crate) fn done(&self) -> usize {
        self.done
    }

    /// The sink took it.
    pub(crate) fn taken(&mut self) {
        if let Some(range) = self.left.pop() {
            self.done = range.end;
        }
    }

    /// The sink refused it for good. Tells the row, if it was a single one: it is settled then, to be
    /// parked. Otherwise its halves come next.
    pub(crate) fn refused(&mut self) -> Option<usize> {
        let range = self.left.pop()?;
        if range.len() == 1 {
            self.done = range.end;
            return Some(range.start);
        }
        let middle = range.start + range.len() / 2;
        self.left.push(middle..range.end);
        self.left.push(range.start..middle);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Which rows are parked, and the ranges that were taken, of a batch with these bad rows.
    fn run(rows: usize, bad: &[usize]) -> (Vec<usize>, Vec<(usize, usize)>) {
        let mut bisect = Bisect::new(rows);
        let (mut parked, mut taken) = (Vec::new(), Vec::new());
        while let Some(range) = bisect.next() {
            if bad.iter().any(|row| range.contains(row)) {
                parked.extend(bisect.refused());
            } else {
                taken.push((range.start, range.end));
                bisect.taken();
            }
        }
        assert_eq!(bisect.done(), rows);
        (parked, taken)
    }

    #[test]
    fn just_the_refused_rows_are_parked_and_all_others_sent_in_order() {
        assert_eq!(run(0, &[]), (vec![], vec![]));
        assert_eq!(run(5, &[]), (vec![], vec![(0, 5)]));
        assert_eq!(run(1, &[0]), (vec![0], vec![]));
        assert_eq!(run(8, &[5]), (vec![5], vec![(0, 4), (4, 5), (6, 8)]));
        assert_eq!(run(3, &[0, 2]), (vec![0, 2], vec![(1, 2)]));
        let all: Vec<usize> = (0..7).collect();
        assert_eq!(run(7, &all), (all, vec![]));
    }

    #[test]
    fn what_is_settled_is_always_a_beginning() {
        let mut bisect = Bisect::new(4);
        assert_eq!((bisect.refused(), bisect.done()), (None, 0));
        bisect.taken();
        assert_eq!((bisect.next(), bisect.done()), (Some(2..4), 2));
    }
}

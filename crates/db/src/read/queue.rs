//! Reads that wait for a thread, by the file that they are for.

use std::collections::{HashMap, VecDeque};

/// Most reads that wait in a node.
pub(crate) const QUEUE_READS: usize = 4096;

/// The waiting reads. Files take turns, so that one with many reads does not keep the others waiting.
#[derive(Debug)]
pub(crate) struct ReadQueue<T> {
    /// By the generation of the file. No entry is empty.
    files: HashMap<u64, VecDeque<Waiting<T>>>,
    turns: VecDeque<u64>,
    len: usize,
    arrivals: u64,
}

#[derive(Debug)]
struct Waiting<T> {
    arrival: u64,
    read: T,
}

/// How many reads had arrived at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrivals(u64);

impl<T> ReadQueue<T> {
    pub(crate) fn new() -> Self {
        ReadQueue { files: HashMap::new(), turns: VecDeque::new(), len: 0, arrivals: 0 }
    }

    /// Puts a read at the end of its file's queue, or returns it because too many wait.
    pub(crate) fn push(&mut self, file: u64, read: T) -> Result<(), T> {
        if self.len >= QUEUE_READS {
            return Err(read);
        }
        self.len += 1;
        self.arrivals += 1;
        let waiting = self.files.entry(file).or_insert_with(|| {
            self.turns.push_back(file);
            VecDeque::new()
        });
        waiting.push_back(Waiting { arrival: self.arrivals, read });
        Ok(())
    }

    /// The oldest read of the file whose turn it is.
    pub(crate) fn pop(&mut self) -> Option<(u64, T)> {
        let file = *self.turns.front()?;
        self.turns.rotate_left(1);
        let read = self.pop_of(file, self.arrivals())?;
        Some((file, read))
    }

    /// The oldest read of this file, if it had arrived by then.
    pub(crate) fn pop_of(&mut self, file: u64, by: Arrivals) -> Option<T> {
        let waiting = self.files.get_mut(&file)?;
        let read = waiting.pop_front_if(|first| first.arrival <= by.0)?;
        self.len -= 1;
        if waiting.is_empty() {
            self.files.remove(&file);
            self.turns.retain(|turn| *turn != file);
        }
        Some(read.read)
    }

    /// The reads that have arrived so far.
    pub(crate) fn arrivals(&self) -> Arrivals {
        Arrivals(self.arrivals)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_take_turns_and_reads_of_one_file_stay_in_order() {
        let mut queue = ReadQueue::new();
        for (file, read) in [(1, "a"), (1, "b"), (1, "c"), (2, "d"), (3, "e"), (2, "f")] {
            queue.push(file, read).unwrap();
        }
        let order: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(order, [(1, "a"), (2, "d"), (3, "e"), (1, "b"), (2, "f"), (1, "c")]);
        assert!(queue.files.is_empty() && queue.turns.is_empty() && queue.len == 0);
    }

    #[test]
    fn a_read_that_arrived_after_the_snapshot_does_not_use_it() {
        let mut queue = ReadQueue::new();
        queue.push(1, "before").unwrap();
        let snapshot = queue.arrivals();
        queue.push(1, "after").unwrap();
        assert_eq!(queue.pop_of(1, snapshot), Some("before"));
        assert_eq!(queue.pop_of(1, snapshot), None);
        assert_eq!(queue.pop_of(1, queue.arrivals()), Some("after"));
    }

    #[test]
    fn the_queue_is_bounded() {
        let mut queue = ReadQueue::new();
        let pushed = (0..QUEUE_READS as u64 + 5).filter(|n| queue.push(n % 3, *n).is_ok()).count();
        assert_eq!(pushed, QUEUE_READS);
        queue.pop();
        assert_eq!(queue.push(7, 7), Ok(()));
    }
}

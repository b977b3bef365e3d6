//! What the hammer told: a line before each attempt and one after each acknowledgement.

use std::fmt;
use std::str::FromStr;

use consort_kernel::Producer;

use crate::work::{PARTITIONS, SHARDS};

/// One thing that the hammer does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    /// The append of a frame.
    Append {
        /// Where.
        partition: u32,
        /// By whom.
        producer: Producer,
        /// Which.
        sequence: u64,
    },
    /// A commit.
    Commit {
        /// Where.
        shard: u16,
        /// Which.
        number: u64,
    },
}

/// A line of the hammer's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    /// The engine is open.
    Open,
    /// This is about to be tried: from now on it may be in the engine.
    Try(Deed),
    /// This was acknowledged: from now on it must be in the engine.
    Done(Deed),
}

impl fmt::Display for Deed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Deed::Append { partition, producer, sequence } => {
                write!(f, "append {partition} {} {sequence}", producer.0)
            }
            Deed::Commit { shard, number } => write!(f, "commit {shard} {number}"),
        }
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Line::Open => f.write_str("open"),
            Line::Try(deed) => write!(f, "try {deed}"),
            Line::Done(deed) => write!(f, "done {deed}"),
        }
    }
}

impl FromStr for Line {
    type Err = ();

    fn from_str(line: &str) -> Result<Self, ()> {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |word: &str| word.parse::<u64>().map_err(drop);
        let (verb, deed) = match words[..] {
            ["open"] => return Ok(Line::Open),
            [verb, "append", partition, producer, sequence] => {
                let partition = partition.parse().map_err(drop)?;
                let (producer, sequence) = (Producer(number(producer)?), number(sequence)?);
                (verb, Deed::Append { partition, producer, sequence })
            }
            [verb, "commit", shard, count] => {
                let shard = shard.parse().map_err(drop)?;
                (verb, Deed::Commit { shard, number: number(count)? })
            }
            _ => return Err(()),
        };
        match verb {
            "try" => Ok(Line::Try(deed)),
            "done" => Ok(Line::Done(deed)),
            _ => Err(()),
        }
    }
}

/// How far a run came at one place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reached {
    /// How many were tried, or up to which number.
    pub tried: u64,
    /// How many were acknowledged, or up to which number.
    pub done: u64,
}

/// How far one run of the hammer came, by what it told.
#[derive(Clone, Debug)]
pub struct Record {
    /// Whether it had the engine open.
    pub open: bool,
    /// The producer and the count of its frames, by partition.
    pub appends: Vec<Option<(Producer, Reached)>>,
    /// The numbers of commits, by shard; none where it did not come to commit.
    pub commits: Vec<Option<Reached>>,
    /// All acknowledgements.
    pub done: usize,
}

impl Default for Record {
    fn default() -> Self {
        let appends = vec![None; PARTITIONS as usize];
        let commits = vec![None; usize::from(SHARDS)];
        Record { open: false, appends, commits, done: 0 }
    }
}

impl Record {
    /// Takes a line down.
    pub fn take(&mut self, line: Line) {
        match line {
            Line::Open => self.open = true,
            Line::Try(deed) => *self.place(deed).0 = place_number(deed),
            Line::Done(deed) => {
                *self.place(deed).1 = place_number(deed);
                self.done += 1;
            }
        }
    }

    /// What was tried and what is done, at the deed's place.
    fn place(&mut self, deed: Deed) -> (&mut u64, &mut u64) {
        let reached = match deed {
            Deed::Append { partition, producer, .. } => {
                let place = &mut self.appends[partition as usize];
                &mut place.get_or_insert((producer, Reached::default())).1
            }
            Deed::Commit { shard, number } => {
                let before = Reached { tried: number - 1, done: number - 1 };
                self.commits[usize::from(shard)].get_or_insert(before)
            }
        };
        (&mut reached.tried, &mut reached.done)
    }
}

/// Sequences count from 0: with this one there are one more.
fn place_number(deed: Deed) -> u64 {
    match deed {
        Deed::Append { sequence, .. } => sequence + 1,
        Deed::Commit { number, .. } => number,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_they_were_written() {
        let append = Deed::Append { partition: 3, producer: Producer(u64::MAX), sequence: 9 };
        let commit = Deed::Commit { shard: 2, number: 7 };
        for line in [Line::Open, Line::Try(append), Line::Done(append), Line::Done(commit)] {
            assert_eq!(line.to_string().parse(), Ok(line));
        }
        for wrong in ["", "done", "did append 0 0 0", "try append 0 0", "try commit 0 x"] {
            assert_eq!(wrong.parse::<Line>(), Err(()));
        }
    }

    #[test]
    fn a_record_knows_what_was_tried_and_what_is_done() {
        let mut record = Record::default();
        let deed = |sequence| Deed::Append { partition: 1, producer: Producer(5), sequence };
        record.take(Line::Try(deed(0)));
        record.take(Line::Done(deed(0)));
        record.take(Line::Try(deed(1)));
        record.take(Line::Try(Deed::Commit { shard: 0, number: 40 }));
        assert_eq!(record.appends[1], Some((Producer(5), Reached { tried: 2, done: 1 })));
        assert_eq!(record.commits[0], Some(Reached { tried: 40, done: 39 }));
        assert_eq!(record.done, 1);
    }
}

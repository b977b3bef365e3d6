//! The engines beside the bare libraries and servers they stand on.

mod embedded;
mod rabbitmq;
mod redis;

use anyhow::Result;
use bytes::Bytes;
use consort_kernel::{
    Commit, Frame, FrameKind, Key, Name, Note, Operation, Partition, Producer, Timestamp,
};
use rand::{Rng, RngCore};

use crate::measure::Pace;
use crate::report::Report;

const RECORD_BYTES: usize = 64;
/// Additions in one commit.
const ADDITIONS: u64 = 1_000;

/// Feed entries in one commit, and the size of each: a batch of pieces that glue applies appends such rows.
const ENTRIES: u64 = 2_000;
const ENTRY_BYTES: usize = 300;

/// Measures all of them.
pub(crate) async fn run(pace: Pace, report: &mut Report) -> Result<()> {
    eprintln!("embedded");
    embedded::run(pace, report).await?;
    eprintln!("redis");
    redis::run(pace, report).await?;
    eprintln!("rabbitmq");
    rabbitmq::run(pace, report).await
}

fn partition(index: u32) -> Partition {
    Partition::new(Name::new("bench").expect("a name"), index)
}

/// What records are made of. It matters: fjall compresses its journal unless told otherwise, and the
/// embedded engine tells it otherwise (see `embedded/tables.rs`).
#[derive(Clone, Copy, Debug)]
enum Contents {
    /// Does not compress: everybody writes its full size.
    Random,
    /// Events as services send them: much the same, but for the numbers.
    Text,
}

fn frame(records: usize, bytes: usize, contents: Contents) -> Frame {
    let record = |_| {
        let mut random = rand::rng();
        let mut record = vec![b' '; bytes];
        match contents {
            Contents::Random => random.fill_bytes(&mut record),
            Contents::Text => {
                let (skier, lift) = (random.random_range(1..100_000), random.random_range(1..60));
                let text =
                    format!("{{\"resort\":3,\"skier\":{skier},\"day\":12,\"liftID\":{lift}}}");
                let length = text.len().min(bytes);
                record[..length].copy_from_slice(&text.as_bytes()[..length]);
            }
        }
        Bytes::from(record)
    };
    Frame {
        kind: FrameKind::Events,
        producer: Producer(1),
        sequence: 0,
        time: Timestamp(1_700_000_000_000),
        records: (0..records).map(record).collect(),
    }
}

fn counter(number: u64) -> Key {
    Key::from(["counter"]).with(number)
}

fn random_counters(counters: u64) -> Vec<u64> {
    let mut random = rand::rng();
    (0..ADDITIONS).map(|_| random.random_range(0..counters)).collect()
}

/// A commit of additions to random counters.
fn additions(counters: u64) -> Commit {
    let add = |n| Operation::Add { key: counter(n), by: 1, on_overflow: None };
    Commit::of(random_counters(counters).into_iter().map(add))
}

/// A commit that appends [`ENTRIES`] entries to a feed.
fn entries() -> Commit {
    let feed = Name::new("rows").expect("a name");
    let append = |entry| Operation::Append(Note { feed: feed.clone(), entry });
    Commit::of(random_entries().into_iter().map(append))
}

/// What does not compress, so that every side writes its full size.
fn random_entries() -> Vec<Bytes> {
    let mut random = rand::rng();
    let mut entry = || {
        let mut entry = vec![0; ENTRY_BYTES];
        random.fill_bytes(&mut entry);
        Bytes::from(entry)
    };
    (0..ENTRIES).map(|_| entry()).collect()
}

/// Commits that make every counter once.
fn fill(counters: u64) -> impl Iterator<Item = Commit> {
    const STEP: u64 = 5_000;
    (0..counters.div_ceil(STEP)).map(move |chunk| {
        let numbers = chunk * STEP..counters.min((chunk + 1) * STEP);
        let add = |n| Operation::Add { key: counter(n), by: 1, on_overflow: None };
        Commit::of(numbers.map(add))
    })
}

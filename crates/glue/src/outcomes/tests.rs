//! Requests hear of their pieces, whatever comes first: the outcome or the answer of the log.

use consort_cluster::TokioRuntime;
use consort_kernel::{Commit, Note, Operation, SystemClock, memory};

use super::*;
use crate::PiecePlace;
use crate::stored::PieceOutcome;

const SHARD: Shard = Shard(1);
const LONG: Duration = Duration::from_secs(30);

struct Bed {
    store: Arc<dyn Store>,
    feed: Name,
    waiters: OutcomeWaiters,
}

impl Bed {
    fn new() -> Bed {
        let (_, store) = memory::open(2, Arc::new(SystemClock::default()));
        let store: Arc<dyn Store> = Arc::new(store);
        let feed = Name::new("glue.content.outcomes").unwrap();
        let waiters =
            OutcomeWaiters::new(Arc::clone(&store), TokioRuntime::current(), feed.clone());
        Bed { store, feed, waiters }
    }

    async fn write(&self, entries: Vec<Vec<u8>>) {
        let note = |entry: Vec<u8>| {
            Operation::Append(Note { feed: self.feed.clone(), entry: entry.into() })
        };
        self.store.commit(SHARD, Commit::of(entries.into_iter().map(note))).await.unwrap();
    }

    async fn outcomes(&self, sequences: std::ops::Range<u64>) {
        self.write(sequences.map(|sequence| entry(sequence).encode()).collect()).await;
    }
}

fn key(sequence: u64) -> OutcomeKey {
    OutcomeKey { partition: 1, producer: 7, sequence, record: 0 }
}

fn entry(sequence: u64) -> OutcomeEntry {
    let place = PiecePlace { partition: 1, era: 0, offset: sequence, record: 0 };
    let outcome = PieceOutcome::Queued;
    OutcomeEntry { key: key(sequence), place, repeat: false, outcome }
}

#[tokio::test]
async fn an_outcome_before_its_key_is_kept_and_one_behind_it_is_awaited() {
    let bed = Bed::new();
    let (early, late) = (bed.waiters.register(SHARD), bed.waiters.register(SHARD));
    bed.outcomes(0..3).await;
    // The reader has all three before any request tells its key.
    while early.tail.kept() < 3 {
        tokio::task::yield_now().await;
    }
    assert_eq!(early.outcome(key(1), LONG).await, Some(entry(1)));
    let waiting = tokio::spawn(late.outcome(key(5), LONG));
    bed.outcomes(3..6).await;
    assert_eq!(waiting.await.unwrap(), Some(entry(5)));
}

#[tokio::test]
async fn trimmed_outcomes_and_unreadable_ones_are_passed_over() {
    let bed = Bed::new();
    bed.outcomes(0..10).await;
    bed.store.trim_feed(SHARD, &bed.feed, 8).await.unwrap();
    let wait = bed.waiters.register(SHARD);
    bed.write(vec![b"\xffof a later release".to_vec()]).await;
    bed.outcomes(10..11).await;
    assert_eq!(wait.outcome(key(10), LONG).await, Some(entry(10)));
}

#[tokio::test(start_paused = true)]
async fn a_request_whose_outcome_does_not_come_hears_so_in_time() {
    let bed = Bed::new();
    let wait = bed.waiters.register(SHARD);
    bed.outcomes(0..1).await;
    assert_eq!(wait.outcome(key(7), Duration::from_secs(10)).await, None);
}

#[tokio::test(start_paused = true)]
async fn the_reader_ends_when_nobody_waits_and_the_next_one_goes_on() {
    let bed = Bed::new();
    for sequence in 0..3 {
        let wait = bed.waiters.register(SHARD);
        bed.outcomes(sequence..sequence + 1).await;
        assert_eq!(wait.outcome(key(sequence), LONG).await, Some(entry(sequence)));
        let tail = Arc::clone(&bed.waiters.0.tails.lock()[&SHARD]);
        while tail.is_running() {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }
}

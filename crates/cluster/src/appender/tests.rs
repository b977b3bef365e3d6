//! That frames are repeated in their order, and given up when their time is over.

use super::*;
use crate::runtime::TokioRuntime;
use async_trait::async_trait;
use consort_kernel::memory::MemoryLog;
use consort_kernel::{
    Cursor, Digest, LogEntry, ManualClock, Most, ReadError, SeededEntropy, memory,
};
use futures::FutureExt;

/// A log that takes every frame and says so only from time to time.
#[derive(Debug, Default)]
struct Mumbling {
    log: MemoryLog,
    /// How many of the next appends end unknown, or never.
    unknown: Mutex<u32>,
    silent: Mutex<bool>,
}

#[async_trait]
impl Log for Mumbling {
    async fn append(&self, at: &Partition, frame: &Frame) -> Result<(), AppendError> {
        self.log.append(at, frame).await?;
        if *self.silent.lock() {
            std::future::pending::<()>().await;
        }
        let mut unknown = self.unknown.lock();
        if *unknown > 0 {
            *unknown -= 1;
            return Err(AppendError::Unknown(Fault::Retryable("mumbled".into())));
        }
        Ok(())
    }

    async fn read(
        &self,
        at: &Partition,
        after: &Cursor,
        most: Most,
        wait: Duration,
    ) -> Result<Vec<LogEntry>, ReadError> {
        self.log.read(at, after, most, wait).await
    }

    async fn first(&self, at: &Partition) -> Result<u64, Fault> {
        self.log.first(at).await
    }

    async fn trim(&self, at: &Partition, before: u64) -> Result<(), Fault> {
        self.log.trim(at, before).await
    }

    async fn ping(&self) -> Result<(), Fault> {
        Ok(())
    }
}

struct Bed {
    log: Arc<Mumbling>,
    appender: Appender,
    partition: Partition,
}

fn bed() -> Bed {
    let log = Arc::new(Mumbling::default());
    let (_, store) = memory::open(1, Arc::new(ManualClock::at(Timestamp(1_000))));
    let entropy = Arc::new(SeededEntropy::new(7));
    let (runtime, store) = (TokioRuntime::current(), Arc::new(store));
    let give_up = Duration::from_secs(1);
    let appender = Appender::new(log.clone(), store, runtime, entropy, give_up);
    Bed { log, appender, partition: Partition::new("s".parse().unwrap(), 0) }
}

async fn entries(bed: &Bed) -> Vec<LogEntry> {
    let all = bed.log.read(&bed.partition, &Cursor::START, Most::default(), Duration::ZERO);
    all.await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_repeat_has_the_same_sequence_and_never_the_same_bytes() {
    let bed = bed();
    *bed.log.unknown.lock() = 2;
    let place = bed.appender.events(&bed.partition, [[]]).await.unwrap();
    let next = bed.appender.events(&bed.partition, [[]]).await.unwrap();
    assert_eq!((place.sequence, next.sequence), (0, 1));
    assert_eq!(place.producer, next.producer);
    let entries = entries(&bed).await;
    let sequences: Vec<u64> = entries.iter().map(|entry| entry.frame.sequence).collect();
    assert_eq!(sequences, [0, 0, 0, 1]);
    let mut digests: Vec<Digest> = entries.iter().map(|entry| entry.digest).collect();
    digests.sort_unstable();
    digests.dedup();
    assert_eq!(digests.len(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_round_settles_each_of_its_frames() {
    let bed = bed();
    let at = |index| Partition::new("s".parse().unwrap(), index);
    bed.appender.events(&at(2), [[]]).await.unwrap();
    // Two of the three end unknown, and are appended once more.
    *bed.log.unknown.lock() = 2;
    let load = |index| Load { at: at(index), records: ["x"].into(), until: None };
    let loads = || (0..3).map(load).collect();
    let first = bed.appender.round(loads()).await;
    let second = bed.appender.round(loads()).await;
    for (index, (first, second)) in first.iter().zip(&second).enumerate() {
        let (first, second) = (first.as_ref().unwrap(), second.as_ref().unwrap());
        assert_eq!(first.partition, at(index as u32));
        assert_eq!(first.producer, second.producer);
        let before = u64::from(index == 2);
        assert_eq!((first.sequence, second.sequence), (before, before + 1));
    }
    let sequences = async |index| {
        let all = bed.log.read(&at(index), &Cursor::START, Most::default(), Duration::ZERO).await;
        let all = all.unwrap().into_iter().map(|entry| entry.frame.sequence);
        all.collect::<Vec<u64>>()
    };
    assert_eq!(sequences(0).await, [0, 0, 1]);
    assert_eq!(sequences(1).await, [0, 0, 1]);
    assert_eq!(sequences(2).await, [0, 1, 2]);
}

#[tokio::test(start_paused = true)]
async fn a_round_that_nobody_waits_for_ends_its_producers() {
    let bed = bed();
    bed.appender.events(&bed.partition, [[]]).await.unwrap();
    *bed.log.silent.lock() = true;
    let at = &bed.partition;
    let load = || vec![Load { at: at.clone(), records: ["x"].into(), until: None }];
    assert_eq!(bed.appender.round(load()).now_or_never(), None);
    *bed.log.silent.lock() = false;
    let place = bed.appender.round(load()).await.remove(0).unwrap();
    let entries = entries(&bed).await;
    assert_eq!(entries[0].frame.producer, entries[1].frame.producer);
    assert_eq!(entries[2].frame.producer, place.producer);
    assert_ne!(entries[1].frame.producer, place.producer);
}

#[tokio::test(start_paused = true)]
async fn what_stays_unknown_is_given_up_as_unknown() {
    let bed = bed();
    *bed.log.unknown.lock() = u32::MAX;
    let given_up = bed.appender.events(&bed.partition, [[]]).await;
    assert!(matches!(given_up, Err(AppendError::Unknown(_))), "{given_up:?}");
}

#[tokio::test(start_paused = true)]
async fn a_frame_that_nobody_waits_for_ends_its_producer() {
    let bed = bed();
    bed.appender.events(&bed.partition, [[]]).await.unwrap();
    *bed.log.silent.lock() = true;
    let dropped = bed.appender.events(&bed.partition, [[]]).now_or_never();
    assert_eq!(dropped, None);
    *bed.log.silent.lock() = false;
    bed.appender.events(&bed.partition, [[]]).await.unwrap();
    let entries = entries(&bed).await;
    assert_eq!(entries[0].frame.producer, entries[1].frame.producer);
    assert_ne!(entries[1].frame.producer, entries[2].frame.producer);
}

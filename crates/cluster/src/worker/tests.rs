//! The worker on the memory engine: one partition, one owner at a time, and what it must never get wrong.

mod bed;
mod slices;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use consort_kernel::{Commit, Key, Log, Operation, Shard, Store, Timestamp, shard_of};

use super::*;
use crate::role::Role;
use crate::runtime::{Task, TokioRuntime};
use bed::{Bed, Large, Running, SHARDS, Sparing, Tally, Unreadable, awaited};

#[tokio::test(start_paused = true)]
async fn frames_are_folded_in_order_and_repeats_dropped() {
    let bed = Bed::new();
    let worker = bed.start();
    for sequence in 0..10 {
        bed.append(1, sequence, &["a", "b", "a"]).await;
        bed.append(1, sequence, &["a", "b", "a"]).await;
        bed.append(2, sequence, &["b"]).await;
    }
    bed.applied(30).await;
    assert_eq!((bed.count("a").await, bed.count("b").await), (20, 20));
    worker.gauge(|gauge| gauge.applied == 40 && gauge.lag == Some(Duration::ZERO)).await;
    worker.drain().await;
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_ends_anywhere_is_continued_by_the_next() {
    let bed = Bed::new();
    for sequence in 0..200 {
        bed.append(1, sequence, &["a", "b", "c", "d"]).await;
        if sequence % 7 == 0 {
            let worker = bed.start();
            for _ in 0..sequence % 13 {
                tokio::task::yield_now().await;
            }
            drop(worker);
        }
    }
    let worker = bed.start();
    bed.applied(200).await;
    for text in ["a", "b", "c", "d"] {
        assert_eq!(bed.count(text).await, 200, "{text}");
    }
    worker.drain().await;
}

#[tokio::test(start_paused = true)]
async fn two_owners_at_once_are_slow_and_never_wrong() {
    let bed = Bed::new();
    let workers = [bed.start(), bed.start(), bed.start()];
    for sequence in 0..300 {
        bed.append(1, sequence, &["a", "b", "c"]).await;
        if sequence % 5 == 0 {
            tokio::time::sleep(Duration::from_millis(3)).await;
        }
    }
    bed.applied(300).await;
    for text in ["a", "b", "c"] {
        assert_eq!(bed.count(text).await, 300, "{text}");
    }
    for worker in workers {
        worker.drain().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_tail_stops_the_partition_until_an_operator_decides() {
    let bed = Bed::new();
    let worker = bed.start();
    for sequence in 0..6 {
        bed.append(1, sequence, &["a"]).await;
    }
    bed.applied(6).await;
    bed.log.lose_tail(&bed.partition, 4);
    for sequence in 6..12 {
        bed.append(1, sequence, &["b"]).await;
    }
    let gauge = worker.gauge(|gauge| gauge.stopped.is_some()).await;
    assert!(gauge.stopped.is_some_and(|reason| reason.contains("entry 5 was read as")));
    assert_eq!(bed.count("b").await, 0);

    // The next owner finds the same.
    worker.drain().await;
    let worker = bed.start();
    worker.gauge(|gauge| gauge.stopped.is_some()).await;

    let (store, log): (&dyn Store, &dyn Log) = (&*bed.store, &*bed.log);
    let pipeline = "all".parse().unwrap();
    let decided = resolve(store, log, &bed.partition, &pipeline, Resume::Offset(0)).await.unwrap();
    assert_eq!((decided.stand.era, decided.stand.next), (1, 0));
    worker.gauge(|gauge| gauge.stopped.is_none()).await;
    bed.applied(10).await;
    // What was applied before is known by its producer and sequence; what took its place is applied.
    assert_eq!((bed.count("a").await, bed.count("b").await), (6, 6));
    // Nothing is lost any more: the decision said again must not skip what came since.
    for from in [Resume::First, Resume::End] {
        let again = resolve(store, log, &bed.partition, &pipeline, from).await;
        assert_eq!(again, Err(ResolveError::AtWork(bed.partition.clone())));
    }
    worker.drain().await;
}

#[tokio::test(start_paused = true)]
async fn a_tail_that_was_applied_but_not_checkpointed_is_missed_too() {
    let bed = Bed::new();
    for sequence in 0..3 {
        bed.append(1, sequence, &["a"]).await;
    }
    let home = Cells::new(&"all".parse().unwrap(), &bed.partition, SHARDS).home();
    let image = bed.store.image(home);
    let worker = bed.start();
    bed.applied(3).await;
    worker.drain().await;
    // As if it had crashed between the shards and the checkpoint, and the log then lost what was applied.
    let counted = shard_of(&Key::of(["count".into(), b"a"[..].into()]), SHARDS);
    assert_ne!(counted, home, "choose another text");
    bed.store.roll_back(home, image);
    bed.log.lose_tail(&bed.partition, 1);
    let worker = bed.start();
    worker.gauge(|gauge| gauge.stopped.is_some()).await;
    worker.drain().await;
}

#[tokio::test(start_paused = true)]
async fn a_lost_tail_is_missed_although_a_shard_was_rolled_back_to_before_it() {
    let bed = Bed::new();
    let counted = shard_of(&Key::of(["count".into(), b"a"[..].into()]), SHARDS);
    let image = bed.store.image(counted);
    let worker = bed.start();
    for sequence in 0..6 {
        bed.append(1, sequence, &["a"]).await;
    }
    bed.applied(6).await;
    worker.drain().await;
    // The worker begins at the shard's mark, where the log is sound; only the checkpoint knows of the end.
    bed.store.roll_back(counted, image);
    bed.log.lose_tail(&bed.partition, 4);
    for sequence in 6..12 {
        bed.append(1, sequence, &["b"]).await;
    }
    let worker = bed.start();
    worker.gauge(|gauge| gauge.stopped.is_some()).await;
    assert_eq!(bed.count("b").await, 0);
    worker.drain().await;
}

#[tokio::test(start_paused = true)]
async fn a_decision_that_was_cut_off_or_undone_stops_the_partition_until_it_is_repeated() {
    let pipeline = "all".parse().unwrap();
    for undone in (0..SHARDS).map(Shard) {
        let bed = Bed::new();
        bed.append(1, 0, &["a"]).await;
        let worker = bed.start();
        bed.applied(1).await;
        let image = bed.store.image(undone);
        let (store, log): (&dyn Store, &dyn Log) = (&*bed.store, &*bed.log);
        let here = Resume::Offset(1);
        resolve(store, log, &bed.partition, &pipeline, here).await.unwrap();
        // One shard is as it was before: its mark, and of the home shard the checkpoint, are of the old era.
        bed.store.roll_back(undone, image);
        let gauge = worker.gauge(|gauge| gauge.stopped.is_some()).await;
        assert!(gauge.stopped.is_some_and(|reason| reason.contains("decide again")));
        resolve(store, log, &bed.partition, &pipeline, Resume::End).await.unwrap();
        worker.gauge(|gauge| gauge.stopped.is_none()).await;
        bed.append(1, 1, &["b"]).await;
        bed.applied(2).await;
        assert_eq!((bed.count("a").await, bed.count("b").await), (1, 1), "{undone}");
        worker.drain().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_shard_that_was_rolled_back_is_applied_again_from_its_mark() {
    for shard in (0..SHARDS).map(Shard) {
        let bed = Bed::new();
        let texts = ["a", "b", "c", "d", "e", "f", "g", "h"];
        let worker = bed.start();
        bed.append(1, 0, &texts).await;
        bed.append(1, 0, &texts).await;
        bed.applied(2).await;
        let image = bed.store.image(shard);
        // A repeat stands on each side of the image: what was passed must be known as it was then.
        bed.append(1, 1, &texts).await;
        bed.append(2, 0, &texts).await;
        bed.append(1, 1, &texts).await;
        bed.append(1, 2, &texts).await;
        bed.applied(6).await;
        bed.store.roll_back(shard, image);
        bed.append(2, 0, &texts).await;
        bed.applied(7).await;
        while bed.count("a").await + bed.count("h").await < 8 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        tokio::time::sleep(2 * LOAD_EVERY).await;
        for text in texts {
            assert_eq!(bed.count(text).await, 4, "{text} with {shard} rolled back");
        }
        worker.drain().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_record_with_an_id_counts_once() {
    let bed = Bed { plan: Arc::new(Tally { ids: true, tick: None, awaited: false }), ..Bed::new() };
    let worker = bed.start();
    bed.append(1, 0, &["a", "b", "a"]).await;
    bed.append(2, 0, &["b", "c"]).await;
    bed.applied(2).await;
    let counts = (bed.count("a").await, bed.count("b").await, bed.count("c").await);
    assert_eq!(counts, (1, 1, 1));
    bed.clock.advance(Duration::from_secs(61));
    bed.append(2, 1, &["a"]).await;
    bed.applied(3).await;
    assert_eq!(bed.count("a").await, 2);
    worker.drain().await;
}

#[tokio::test(start_paused = true)]
async fn a_silent_partition_ticks_and_its_watermark_moves() {
    let tick = Some(Duration::from_millis(500));
    let bed = Bed { plan: Arc::new(Tally { ids: false, tick, awaited: false }), ..Bed::new() };
    let worker = bed.start();
    bed.append(1, 0, &["a"]).await;
    bed.applied(1).await;
    bed.clock.advance(Duration::from_secs(5));
    bed.applied(2).await;
    let stand = bed.checkpoint().await.stand;
    assert_eq!(stand.watermark(), bed.store.now().await.unwrap());
    assert_eq!(bed.count("a").await, 1);
    worker.drain().await;
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_gets_nowhere_yields_and_says_why() {
    let bed = Bed::new();
    match bed.start_on(Arc::new(Unreadable)).task.await {
        Ok(Ended::Yielded { reason }) => {
            assert!(reason.contains("stood still") && reason.contains("hums"), "{reason}");
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_partition_ticks_only_while_its_watermark_is_awaited() {
    let mut bed = Bed::new();
    let tick = Some(Duration::from_millis(500));
    bed.plan = Arc::new(Tally { ids: false, tick, awaited: true });
    let worker = bed.start();
    bed.append(1, 0, &["a"]).await;
    bed.applied(1).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(bed.checkpoint().await.stand.next, 1, "nobody waits, and nothing is appended");
    bed.clock.advance(Duration::from_secs(60));
    let now = bed.store.now().await.unwrap();
    let (shard, key) = awaited();
    let rank = Bytes::copy_from_slice(&now.0.to_be_bytes());
    let wait = Commit::of([Operation::Max { key, rank }]);
    bed.store.commit(shard, wait).await.unwrap();
    bed.applied(2).await;
    assert!(bed.checkpoint().await.stand.watermark() >= now, "one tick is enough");
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(bed.checkpoint().await.stand.next, 2, "and it is the only one");
    worker.drain().await;
}

#[tokio::test(start_paused = true)]
async fn a_batch_is_filled_from_a_log_that_gives_little_at_once() {
    let bed = Bed::new();
    for sequence in 0..5 {
        bed.append(1, sequence, &["a"]).await;
    }
    let sparing: Arc<dyn Log> = Arc::new(Sparing(bed.log.clone()));
    let batches = async |linger| {
        let (tenure, _control) = Tenure::new(Role::new("worker", "s/0"), 1);
        let options = Options { linger, ..bed.options(sparing.clone()) };
        let worker = Worker::new(options, tenure);
        let (mut stand, mut batches) = (Stand::default(), Vec::new());
        while stand.next < 5 {
            let entries = worker.read(&stand).await.unwrap().unwrap();
            for entry in &entries {
                assert!(stand.pass(entry, Timestamp(0)), "no frame is a repeat");
            }
            batches.push(entries.len());
        }
        batches
    };
    assert_eq!(batches(Duration::from_millis(400)).await, [3, 2], "a batch has three at most");
    assert_eq!(batches(Duration::ZERO).await, [1; 5]);
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_does_not_linger_gathers_only_what_has_waited_for_long() {
    let bed = Bed::new();
    for sequence in 0..3 {
        bed.append(1, sequence, &["a"]).await;
    }
    let sparing: Arc<dyn Log> = Arc::new(Sparing(bed.log.clone()));
    let (tenure, _control) = Tenure::new(Role::new("worker", "s/0"), 1);
    let mut worker = Worker::new(bed.options(sparing), tenure);
    let written = bed.store.now().await.unwrap();
    for (age, expected) in [(50, 1), (51, 3)] {
        let now = written.after(Duration::from_millis(age));
        worker.store_time = Some((now, worker.options.runtime.elapsed()));
        let entries = worker.read(&Stand::default()).await.unwrap().unwrap();
        assert_eq!(entries.len(), expected, "frames in hand, the oldest {age} ms old");
    }
}

#[tokio::test(start_paused = true)]
async fn a_batch_grows_while_the_one_before_is_committed() {
    let bed = Bed::new();
    bed.append(1, 0, &["a"]).await;
    let (tenure, _control) = Tenure::new(Role::new("worker", "s/0"), 1);
    let batch = Most::entries(100);
    let worker = Worker::new(Options { batch, ..bed.options(bed.log.clone()) }, tenure);
    let mut entries = worker.read(&Stand::default()).await.unwrap().unwrap();
    bed.append(1, 1, &["a"]).await;
    bed.append(1, 2, &["a"]).await;
    Reader::of(&worker).top_up(&mut entries).await;
    assert_eq!(entries.len(), 3);
}

/// How many frames a reader gives that has begun with eight and is not to read for a while, and how long it takes,
/// when more come in these steps.
async fn lingering(batch: Most, step: Option<Duration>) -> (usize, Duration) {
    let bed = Bed::new();
    for sequence in 0..8 {
        bed.append(1, sequence, &["a"]).await;
    }
    let (tenure, _control) = Tenure::new(Role::new("worker", "s/0"), 1);
    let options = Options { batch, linger: LINGER, ..bed.options(bed.log.clone()) };
    let worker = Worker::new(options, tenure);
    let mut reader = Reader::of(&worker);
    reader.not_before = worker.options.runtime.elapsed() + LINGER;
    let load = async {
        let Some(step) = step else { return std::future::pending().await };
        for sequence in 8.. {
            tokio::time::sleep(step).await;
            bed.append(1, sequence, &["a"]).await;
        }
    };
    let (began, stand) = (tokio::time::Instant::now(), Stand::default());
    let entries = tokio::select! {
        entries = reader.read(&stand) => entries.unwrap().unwrap(),
        () = load => unreachable!("it has no end"),
    };
    assert!(entries.iter().map(|entry| entry.offset).eq(0..entries.len() as u64));
    (entries.len(), began.elapsed())
}

const LINGER: Duration = Duration::from_millis(400);

#[tokio::test(start_paused = true)]
async fn a_load_is_waited_for_while_it_lasts_and_until_a_batch_is_full() {
    let step = Some(Duration::from_millis(10));
    let (frames, took) = lingering(Most::entries(1000), step).await;
    assert!(frames >= 8 + 38 && took >= LINGER, "{frames} after {took:?}");
    let (frames, took) = lingering(Most::entries(20), step).await;
    assert!(frames >= 20 && took < LINGER / 2, "{frames} after {took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_load_that_has_ended_is_not_waited_for() {
    let (frames, took) = lingering(Most::entries(1000), None).await;
    assert!(frames == 8 && took < LINGER / 2, "{frames} after {took:?}");
}

#[tokio::test(start_paused = true)]
async fn an_end_is_not_kept_waiting_by_a_batch_that_is_being_gathered() {
    let bed = Bed::new();
    bed.append(1, 0, &["a"]).await;
    let (tenure, control) = Tenure::new(Role::new("worker", "s/0"), 1);
    let worker = Worker::new(Options { linger: LINGER, ..bed.options(bed.log.clone()) }, tenure);
    let mut reader = Reader::of(&worker);
    reader.not_before = worker.options.runtime.elapsed() + LINGER;
    control.end();
    let (began, stand) = (tokio::time::Instant::now(), Stand::default());
    assert!(reader.read(&stand).await.unwrap().is_none());
    assert_eq!(began.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_batch_does_not_wait_for_what_trickles_in_behind_it() {
    let bed = Bed::new();
    for sequence in 0..8 {
        bed.append(1, sequence, &["a"]).await;
    }
    let (tenure, _control) = Tenure::new(Role::new("worker", "s/0"), 1);
    let (batch, linger) = (Most::entries(100), Duration::from_millis(400));
    let worker = Worker::new(Options { batch, linger, ..bed.options(bed.log.clone()) }, tenure);
    let trickle = async {
        for sequence in 8.. {
            tokio::time::sleep(Duration::from_millis(1)).await;
            bed.append(1, sequence, &["a"]).await;
        }
    };
    let stand = Stand::default();
    let entries = tokio::select! {
        entries = worker.read(&stand) => entries.unwrap().unwrap(),
        () = trickle => unreachable!("it has no end"),
    };
    assert_eq!(entries.len(), 9, "one more look, and no second");
}

#[tokio::test(start_paused = true)]
async fn how_far_behind_it_is_is_told_while_a_large_batch_is_applied() {
    let bed = Bed::new();
    for sequence in 0..3 {
        bed.append(1, sequence, &["a", "b"]).await;
        bed.clock.advance(Duration::from_secs(10));
    }
    let (tenure, control) = Tenure::new(Role::new("worker", "s/0"), 1);
    let plan = Arc::new(Large { gauges: control.gauges(), seen: Default::default() });
    let options = Options { plan: plan.clone(), ..bed.options(bed.log.clone()) };
    let task = Task::spawn(&*TokioRuntime::current(), "worker", run(options, tenure));
    bed.applied(3).await;
    let told = plan.seen.lock().clone();
    assert_eq!(told, [30, 30, 20, 20, 10, 10].map(|seconds| Some(Duration::from_secs(seconds))));
    Running { control, task }.drain().await;
}

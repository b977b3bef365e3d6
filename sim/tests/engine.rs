//! The engine as nodes see it: every fault does just what it says, and runs with all of them repeat.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use consort_cluster::Runtime;
use consort_kernel::{
    AppendError, Cell, Commit, CommitError, Cursor, Expect, Fault, Frame, FrameKind, Key, Kind,
    Log, Most, Name, Note, Operation, Partition, Producer, QueryError, ReadError, Shard, Store,
    Timestamp, Value,
};
use consort_sim::faults::SLOWEST;
use consort_sim::{FaultKind, Faults, Halt, World, at_once};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const SHARD: Shard = Shard(1);

fn world(kind: FaultKind) -> World {
    World::with_faults(1, 2, Faults::none(1).with(kind, 1000))
}

fn calm() -> World {
    World::with_faults(1, 2, Faults::none(1))
}

fn key() -> Key {
    Key::from(["k"])
}

fn put(value: &'static str) -> Commit {
    Commit::of([Operation::Put { key: key(), value: Bytes::from(value) }])
}

fn held(world: &World) -> Option<Value> {
    at_once(world.store.get(SHARD, &[Cell::new(Kind::Bytes, key())])).unwrap().remove(0)
}

fn value(text: &'static str) -> Option<Value> {
    Some(Value::Bytes(Bytes::from(text)))
}

fn partition() -> Partition {
    Partition::new(Name::new("s").unwrap(), 0)
}

fn frame(sequence: u64) -> Frame {
    let records = vec![Bytes::from(sequence.to_string())];
    let (producer, time) = (Producer(7), Timestamp(0));
    Frame { kind: FrameKind::Events, producer, sequence, time, records: records.into() }
}

fn sequences(world: &World) -> Vec<u64> {
    world.entries(&partition()).unwrap().iter().map(|entry| entry.frame.sequence).collect()
}

fn commit(world: &World, commit: Commit) -> Result<(), CommitError> {
    let store = world.node_store(0);
    let committed = world.run(async move { store.commit(SHARD, commit).await }, MINUTE);
    committed.unwrap().map(|_| ())
}

fn append(world: &World, sequence: u64) -> Result<(), AppendError> {
    let log = world.node_log(0);
    world.run(async move { log.append(&partition(), &frame(sequence)).await }, MINUTE).unwrap()
}

fn read(world: &World, after: Cursor, wait: Duration) -> Result<Vec<u64>, ReadError> {
    let log = world.node_log(0);
    let read = async move { log.read(&partition(), &after, Most::default(), wait).await };
    let entries = world.run(read, MINUTE).unwrap()?;
    Ok(entries.iter().map(|entry| entry.offset).collect())
}

#[test]
fn without_faults_calls_do_what_they_say() {
    let world = calm();
    assert_eq!(commit(&world, put("a")), Ok(()));
    let stale = commit(&world, put("b").expecting(Expect::Bytes(key(), None)));
    assert_eq!(stale, Err(CommitError::Stale(vec![value("a")])));
    assert_eq!(append(&world, 0), Ok(()));
    assert_eq!(read(&world, Cursor::START, Duration::ZERO), Ok(vec![0]));
}

#[test]
fn a_failed_write_changes_nothing() {
    let world = world(FaultKind::WriteFails);
    assert!(matches!(commit(&world, put("a")), Err(CommitError::Engine(f)) if f.retryable()));
    assert!(matches!(append(&world, 0), Err(AppendError::Engine(f)) if f.retryable()));
    assert_eq!((held(&world), sequences(&world)), (None, vec![]));
}

#[test]
fn a_lost_request_is_unknown_and_never_arrives() {
    let world = world(FaultKind::RequestLost);
    assert!(matches!(commit(&world, put("a")), Err(CommitError::Unknown(_))));
    assert!(matches!(append(&world, 0), Err(AppendError::Unknown(_))));
    world.run_for(2 * SLOWEST).unwrap();
    assert_eq!((held(&world), sequences(&world)), (None, vec![]));
}

#[test]
fn a_lost_answer_is_unknown_but_took_effect() {
    let world = world(FaultKind::AnswerLost);
    assert!(matches!(commit(&world, put("a")), Err(CommitError::Unknown(_))));
    assert!(matches!(append(&world, 0), Err(AppendError::Unknown(_))));
    assert_eq!((held(&world), sequences(&world)), (value("a"), vec![0]));
}

#[test]
fn a_straggler_arrives_although_its_node_is_dead() {
    let world = world(FaultKind::Straggles);
    assert!(matches!(commit(&world, put("a")), Err(CommitError::Unknown(_))));
    assert!(matches!(append(&world, 0), Err(AppendError::Unknown(_))));
    assert_eq!((held(&world), sequences(&world)), (None, vec![]));
    world.handle().crash(0);
    world.faults.stop();
    world.run_for(SLOWEST + SECOND).unwrap();
    assert_eq!((held(&world), sequences(&world)), (value("a"), vec![0]));
}

#[test]
fn a_straggling_commit_is_still_compared_when_it_arrives() {
    let world = world(FaultKind::Straggles);
    let late = put("late").expecting(Expect::Bytes(key(), None));
    assert!(matches!(commit(&world, late), Err(CommitError::Unknown(_))));
    world.faults.stop();
    assert_eq!(commit(&world, put("first")), Ok(()));
    world.run_for(SLOWEST + SECOND).unwrap();
    assert_eq!(held(&world), value("first"));
}

#[test]
fn a_repeated_append_stands_twice_side_by_side() {
    let world = world(FaultKind::LandsTwice);
    assert_eq!((append(&world, 0), append(&world, 1)), (Ok(()), Ok(())));
    assert_eq!(sequences(&world), [0, 0, 1, 1]);
}

#[test]
fn a_refusal_is_told_whatever_the_faults() {
    let world = world(FaultKind::RequestLost);
    let store = world.node_store(0);
    let refused = world.run(async move { store.commit(Shard(9), put("a")).await }, MINUTE);
    assert!(matches!(refused, Ok(Err(CommitError::Refused(_)))));
}

#[test]
fn reads_and_the_clock_fail_by_rates_of_their_own() {
    let world = world(FaultKind::ReadFails);
    let store = world.node_store(0);
    let answers =
        world.run(async move { (store.get(SHARD, &[]).await, store.now().await) }, MINUTE);
    let (got, now) = answers.unwrap();
    assert!(matches!(got, Err(QueryError::Engine(Fault::Retryable(_)))), "{got:?}");
    assert!(now.is_ok());
    assert!(matches!(read(&world, Cursor::START, Duration::ZERO), Err(ReadError::Engine(_))));

    let world = self::world(FaultKind::ClockFails);
    let store = world.node_store(0);
    let answers =
        world.run(async move { (store.get(SHARD, &[]).await, store.now().await) }, MINUTE);
    assert!(matches!(answers.unwrap(), (Ok(_), Err(Fault::Retryable(_)))));
}

#[test]
fn a_fatal_fault_fells_one_node_until_it_dies() {
    let world = world(FaultKind::Fatal);
    assert!(matches!(commit(&world, put("a")), Err(CommitError::Engine(Fault::Fatal(_)))));
    world.faults.stop();
    assert!(matches!(append(&world, 0), Err(AppendError::Engine(Fault::Fatal(_)))));
    assert_eq!((world.faults.take_felled(), world.faults.take_felled()), (Some(0), None));
    let other = world.node_store(1);
    assert!(world.run(async move { other.now().await }, MINUTE).unwrap().is_ok());
    world.handle().crash(0);
    assert_eq!(commit(&world, put("a")), Ok(()), "a new life on a sound engine");
}

#[test]
fn the_stores_clock_shows_virtual_time() {
    let world = calm();
    let now = || at_once(world.store.now()).unwrap();
    let before = now();
    world.run_for(90 * SECOND).unwrap();
    assert_eq!(now().since(before), 90 * SECOND);
}

#[test]
fn a_waiting_read_waits_in_virtual_time_and_is_woken() {
    let world = calm();
    let started = world.handle().now();
    assert_eq!(read(&world, Cursor::START, 30 * SECOND), Ok(vec![]));
    let waited = world.handle().now() - started;
    assert!(waited >= 30 * SECOND && waited < 31 * SECOND, "{waited:?}");

    let (log, runtime) = (world.node_log(1), world.runtime(1));
    let late = async move {
        runtime.sleep(Duration::from_millis(2500)).await;
        log.append(&partition(), &frame(0)).await.unwrap();
    };
    world.runtime(1).spawn("appends", late);
    let started = world.handle().now();
    assert_eq!(read(&world, Cursor::START, 30 * SECOND), Ok(vec![0]));
    let waited = world.handle().now() - started;
    assert!(waited < Duration::from_millis(2600), "{waited:?}");
}

#[test]
fn a_waiting_feed_is_woken_by_the_commit_that_appends_to_it() {
    let world = calm();
    let feed = Name::new("f").unwrap();
    let (store, runtime) = (world.node_store(1), world.runtime(1));
    let note = Note { feed: feed.clone(), entry: Bytes::from("news") };
    let late = async move {
        runtime.sleep(SECOND / 2).await;
        store.commit(SHARD, Commit::of([Operation::Append(note)])).await.unwrap();
    };
    world.runtime(1).spawn("commits", late);
    let store = world.node_store(0);
    let wait = async move {
        store.feed(SHARD, &feed, &Cursor::START, Most::default(), 30 * SECOND).await.unwrap().len()
    };
    assert_eq!(world.run(wait, MINUTE), Ok(1));
    assert!(world.handle().now() < SECOND);
}

#[test]
fn a_watched_cell_wakes_across_nodes() {
    let world = calm();
    let (store, runtime) = (world.node_store(1), world.runtime(1));
    let late = async move {
        runtime.sleep(SECOND).await;
        store.commit(SHARD, put("a")).await.unwrap();
    };
    world.runtime(1).spawn("commits", late);
    let mut wake = world.node_store(0).watch(SHARD, &key());
    world.run(async move { wake.changed().await }, 2 * SECOND).unwrap();
}

#[test]
fn a_pause_makes_a_commit_late_and_stale() {
    let world = World::with_faults(1, 2, Faults::none(1).delayed(SECOND));
    let outcome = Arc::new(parking_lot::Mutex::new(None));
    let (store, slot) = (world.node_store(1), Arc::clone(&outcome));
    let zombie = async move {
        let commit = put("zombie").expecting(Expect::Bytes(key(), None));
        *slot.lock() = Some(store.commit(SHARD, commit).await);
    };
    world.runtime(1).spawn("zombie", zombie);
    // Its first step: the commit is on its way.
    let steps = world.handle().steps();
    world.run_until(|| world.handle().steps() > steps, SECOND).unwrap();
    world.handle().pause(1);
    assert_eq!(commit(&world, put("heir")), Ok(()));
    world.run_for(MINUTE).unwrap();
    assert_eq!(*outcome.lock(), None);
    world.handle().resume(1);
    world.run_until(|| outcome.lock().is_some(), MINUTE).unwrap();
    assert_eq!(*outcome.lock(), Some(Err(CommitError::Stale(vec![value("heir")]))));
}

#[test]
fn crashes_fall_before_and_after_the_effect() {
    let ends = |seed| {
        let world = World::with_faults(seed, 2, Faults::none(seed).delayed(SECOND));
        let store = world.node_store(0);
        let work = async move {
            let _ = store.commit(SHARD, put("a")).await;
        };
        world.runtime(0).spawn("commits", work);
        world.run_for(SECOND / 2).unwrap();
        world.handle().crash(0);
        world.run_for(MINUTE).unwrap();
        held(&world).is_some()
    };
    let ends: BTreeSet<bool> = (0..20).map(ends).collect();
    assert_eq!(ends, BTreeSet::from([false, true]));
}

#[test]
fn a_lost_tail_that_grew_again_and_a_rolled_back_shard_are_there_to_be_found() {
    let world = calm();
    for sequence in 0..4 {
        append(&world, sequence).unwrap();
    }
    let consumed = world.entries(&partition()).unwrap().pop().unwrap().cursor();
    world.lose_tail(&partition(), 2);
    assert_eq!(sequences(&world), [0, 1]);
    let lost = read(&world, consumed, Duration::ZERO);
    assert!(matches!(lost, Err(ReadError::Lost { number: 3, found: None, .. })), "{lost:?}");
    world.regrow(&partition(), &[frame(7), frame(8), frame(9)]);
    assert_eq!(sequences(&world), [0, 1, 7, 8, 9]);
    let lost = read(&world, consumed, Duration::ZERO);
    assert!(matches!(lost, Err(ReadError::Lost { number: 3, found: Some(_), .. })), "{lost:?}");

    commit(&world, put("old")).unwrap();
    let image = world.image(SHARD);
    commit(&world, put("new")).unwrap();
    world.roll_back(SHARD, image);
    assert_eq!(held(&world), value("old"));
}

/// Three nodes count on one counter, each addition made once by its own mark, under all faults of the
/// seed, with crashes and pauses.
fn storm(seed: u64) -> Result<(u64, i64), Halt> {
    let world = World::new(seed, 2);
    let done = Arc::new(AtomicU64::new(0));
    for node in 0..3 {
        world.run_for(SECOND)?;
        start_counting(&world, node, &done);
    }
    let dice = consort_sim::Dice::new(seed, "scenario");
    for _ in 0..20 {
        world.run_for(dice.time(SECOND))?;
        let node = dice.below(3) as u32;
        match dice.below(3) {
            0 => world.handle().pause(node),
            1 => world.handle().resume(node),
            _ => {
                world.handle().crash(node);
                start_counting(&world, node, &done);
            }
        }
    }
    world.faults.stop();
    if let Some(felled) = world.faults.take_felled() {
        world.handle().crash(felled);
        start_counting(&world, felled, &done);
    }
    (0..3).for_each(|node| world.handle().resume(node));
    world.run_until(|| done.load(Ordering::Relaxed) == 0b111, 10 * MINUTE)?;
    let cell = Cell::new(Kind::Counter, key());
    match at_once(world.store.get(SHARD, &[cell])).unwrap().remove(0) {
        Some(Value::Counter(count)) => Ok((world.handle().trace_hash(), count)),
        other => panic!("{other:?}"),
    }
}

fn start_counting(world: &World, node: u32, done: &Arc<AtomicU64>) {
    const GOAL: i64 = 20;
    let (store, runtime) = (world.node_store(node), world.runtime(node));
    let done = Arc::clone(done);
    let mine = Key::from(["mark", &node.to_string()]);
    let work = async move {
        loop {
            let cell = Cell::new(Kind::Counter, mine.clone());
            let at = match store.get(SHARD, &[cell]).await.as_deref() {
                Ok([Some(Value::Counter(at))]) => Some(*at),
                Ok(_) => None,
                Err(QueryError::Engine(Fault::Fatal(_))) => return,
                Err(_) => continue,
            };
            if at == Some(GOAL) {
                done.fetch_or(1 << node, Ordering::Relaxed);
                return;
            }
            let add = |key| Operation::Add { key, by: 1, on_overflow: None };
            let commit = Commit::of([add(mine.clone()), add(key())])
                .expecting(Expect::Counter(mine.clone(), at));
            let _ = store.commit(SHARD, commit).await;
        }
    };
    runtime.spawn("counts", work);
}

#[test]
fn a_storm_repeats_step_by_step_and_counts_right() {
    let mut hashes = BTreeSet::new();
    for seed in 0..40 {
        let (hash, count) = storm(seed).unwrap_or_else(|halt| panic!("seed {seed}: {halt}"));
        assert_eq!(count, 60, "seed {seed}");
        assert_eq!(storm(seed), Ok((hash, count)), "seed {seed}");
        hashes.insert(hash);
    }
    assert_eq!(hashes.len(), 40, "every seed has a run of its own");
}

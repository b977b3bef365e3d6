//! The scheduler: one seed, one run; pauses, crashes and bounds.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use consort_cluster::runtime::within;
use consort_cluster::{Runtime, Task};
use consort_sim::{Executor, Halt, Handle, NodeRuntime, Owner};
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot, watch};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

fn node(executor: &Executor, node: u32) -> NodeRuntime {
    NodeRuntime::new(executor.handle().clone(), node)
}

/// Tasks of three nodes that talk over every sort of channel: what they note, and the run's hash.
fn chatter(seed: u64) -> (u64, Vec<String>) {
    let executor = Executor::new(seed);
    let handle = executor.handle().clone();
    handle.keep_trace(10_000);
    let (news, heard) = watch::channel(0_u32);
    let (sender, mut receiver) = mpsc::channel::<u32>(4);
    for number in 0..24 {
        let runtime = node(&executor, number % 3);
        let (mut heard, sender) = (heard.clone(), sender.clone());
        let (handle, sleeper) = (handle.clone(), runtime.clone());
        runtime.spawn("listener", async move {
            while heard.changed().await.is_ok() {
                let value = *heard.borrow();
                handle.note(format_args!("{number} heard {value}"));
                sleeper.sleep(Duration::from_millis(u64::from(value % 3))).await;
                if sender.send(number).await.is_err() {
                    return;
                }
            }
        });
    }
    drop((heard, sender));
    let teller = handle.clone();
    handle.spawn("teller", async move {
        for value in 1..=10 {
            news.send_replace(value);
            teller.sleep(Duration::from_millis(2)).await;
        }
    });
    let (done, finished) = oneshot::channel();
    let collector = handle.clone();
    handle.spawn("collector", async move {
        let mut count = 0;
        while let Some(number) = receiver.recv().await {
            collector.note(format_args!("collected {number}"));
            count += 1;
        }
        let _ = done.send(count);
    });
    let count = executor.run(finished, MINUTE).unwrap().unwrap();
    handle.note(format_args!("{count} in all"));
    (handle.trace_hash(), handle.trace())
}

#[test]
fn one_seed_gives_one_trace() {
    let mut hashes = BTreeSet::new();
    for seed in 0..20 {
        let (hash, trace) = chatter(seed);
        assert_eq!(chatter(seed), (hash, trace), "seed {seed}");
        hashes.insert(hash);
    }
    assert_eq!(hashes.len(), 20, "every seed has a run of its own");
}

#[test]
fn seeds_find_both_ends_of_a_race() {
    let race = |seed| {
        let executor = Executor::new(seed);
        let counter = Arc::new(AtomicU64::new(0));
        for number in 0..2 {
            let counter = Arc::clone(&counter);
            let runtime = node(&executor, number);
            runtime.clone().spawn("adds", async move {
                let before = counter.load(Ordering::Relaxed);
                runtime.sleep(Duration::ZERO).await;
                counter.store(before + 1, Ordering::Relaxed);
            });
        }
        executor.run_for(SECOND).unwrap();
        counter.load(Ordering::Relaxed)
    };
    let ends: BTreeSet<u64> = (0..50).map(race).collect();
    assert_eq!(ends, BTreeSet::from([1, 2]));
}

#[test]
fn time_jumps_to_the_next_timer_and_a_dropped_sleep_leaves_none() {
    let executor = Executor::new(1);
    let runtime = node(&executor, 0);
    let sleeper = runtime.clone();
    let result = executor.run(
        async move {
            let given_up = within(&sleeper, SECOND, sleeper.sleep(10 * SECOND)).await;
            let in_time = within(&sleeper, 10 * SECOND, sleeper.sleep(SECOND)).await;
            (given_up, in_time, sleeper.elapsed())
        },
        MINUTE,
    );
    let (given_up, in_time, elapsed) = result.unwrap();
    assert_eq!((given_up, in_time), (None, Some(())));
    assert!(elapsed >= 2 * SECOND && elapsed < 3 * SECOND, "{elapsed:?}");
    executor.handle().spawn("never", std::future::pending());
    assert!(matches!(executor.run_for(SECOND), Err(Halt::Deadlock { .. })), "timers were left");
}

#[test]
fn a_sleep_without_end_does_not_lead_time_there() {
    let executor = Executor::new(1);
    let runtime = node(&executor, 0);
    runtime.spawn("sleeps", runtime.sleep(Duration::MAX));
    assert!(matches!(executor.run_for(Duration::MAX), Err(Halt::Deadlock { .. })));
    assert!(executor.handle().now() < SECOND);
}

#[test]
fn a_paused_node_does_its_next_step_late() {
    let executor = Executor::new(3);
    let handle = executor.handle().clone();
    let beats = Arc::new(Mutex::new(Vec::new()));
    for number in 0..2 {
        let (runtime, beats) = (node(&executor, number), Arc::clone(&beats));
        runtime.clone().spawn("beats", async move {
            loop {
                runtime.sleep(SECOND).await;
                beats.lock().push((number, runtime.elapsed().as_secs()));
            }
        });
    }
    let of = |number| {
        let beats = beats.lock();
        beats.iter().filter(|beat| beat.0 == number).map(|beat| beat.1).collect::<Vec<_>>()
    };
    executor.run_for(Duration::from_millis(2500)).unwrap();
    handle.pause(1);
    executor.run_for(5 * SECOND).unwrap();
    assert_eq!(of(0), [1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(of(1), [1, 2]);
    handle.resume(1);
    executor.run_for(SECOND).unwrap();
    assert_eq!(of(1), [1, 2, 7], "the sleep was over long ago; the next began when it woke");
}

#[test]
fn all_paused_is_no_deadlock() {
    let executor = Executor::new(3);
    node(&executor, 0).spawn("waits to run", async {});
    executor.handle().pause(0);
    executor.run_for(SECOND).unwrap();
    assert_eq!(executor.handle().tasks(Owner::Node(0)), 1);
    executor.handle().resume(0);
    executor.run_for(SECOND).unwrap();
    assert_eq!(executor.handle().tasks(Owner::Node(0)), 0);
}

/// Counts its drop, and tries to start a task of its dead node by it.
struct Guard {
    runtime: NodeRuntime,
    drops: Arc<AtomicU64>,
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.drops.fetch_add(1, Ordering::Relaxed);
        self.runtime.spawn("last words", async { panic!("a dead node spoke") });
    }
}

#[test]
fn a_crash_drops_all_tasks_of_the_node_at_once_and_for_good() {
    let executor = Executor::new(5);
    let handle = executor.handle().clone();
    let drops = Arc::new(AtomicU64::new(0));
    for task in 0..6 {
        let runtime = node(&executor, task % 2);
        let guard = Guard { runtime: runtime.clone(), drops: Arc::clone(&drops) };
        runtime.clone().spawn("guarded", async move {
            let _guard = guard;
            runtime.sleep(10 * SECOND).await;
            std::future::pending::<()>().await;
        });
    }
    executor.run_for(SECOND).unwrap();
    handle.crash(1);
    assert_eq!(drops.load(Ordering::Relaxed), 3);
    assert_eq!((handle.tasks(Owner::Node(0)), handle.tasks(Owner::Node(1))), (3, 0));
    let reborn = node(&executor, 1);
    let again = executor.handle().clone();
    reborn.spawn("new life", async move { again.note("node 1 lives again") });
    executor.run_for(SECOND).unwrap();
    assert_eq!((reborn.life(), drops.load(Ordering::Relaxed)), (1, 3));
    handle.crash(0);
    drop(executor);
    assert_eq!(drops.load(Ordering::Relaxed), 6);
}

#[test]
fn a_node_can_die_by_its_own_step() {
    let executor = Executor::new(5);
    let handle = executor.handle().clone();
    let (sender, receiver) = oneshot::channel::<()>();
    node(&executor, 0).spawn("kills itself", async move {
        handle.crash(0);
        std::future::pending::<()>().await;
        drop(sender);
    });
    assert!(executor.run(receiver, SECOND).unwrap().is_err());
    assert_eq!(executor.handle().tasks(Owner::Node(0)), 0);
}

#[test]
fn dropping_the_executor_drops_its_tasks() {
    let drops = Arc::new(AtomicU64::new(0));
    let executor = Executor::new(1);
    let runtime = node(&executor, 0);
    let guard = Guard { runtime: runtime.clone(), drops: Arc::clone(&drops) };
    runtime.spawn("guarded", async move {
        let _guard = guard;
        std::future::pending::<()>().await;
    });
    drop(executor);
    assert_eq!(drops.load(Ordering::Relaxed), 1);
}

#[test]
fn tasks_of_production_code_give_results_and_end_when_dropped() {
    let executor = Executor::new(9);
    let runtime = node(&executor, 0);
    let ended = executor.run(
        async move {
            let sum = Task::spawn(&runtime, "sum", async { 1 + 1 }).await;
            let (sender, receiver) = oneshot::channel::<()>();
            drop(Task::spawn(&runtime, "waits", async move {
                std::future::pending::<()>().await;
                drop(sender);
            }));
            (sum, receiver.await.is_err())
        },
        SECOND,
    );
    assert_eq!(ended.unwrap(), (Ok(2), true));
}

#[test]
fn a_biased_select_needs_no_tokio_runtime() {
    let executor = Executor::new(2);
    let handle = executor.handle().clone();
    let (sender, mut receiver) = mpsc::channel::<u32>(1);
    let slow = handle.clone();
    handle.spawn("sends", async move {
        slow.sleep(2 * SECOND).await;
        let _ = sender.send(7).await;
    });
    let chosen = executor.run(
        async move {
            let mut ticks = 0;
            loop {
                tokio::select! {
                    biased;
                    value = receiver.recv() => return (ticks, value),
                    () = handle.sleep(SECOND - Duration::from_millis(1)) => ticks += 1,
                }
            }
        },
        MINUTE,
    );
    assert_eq!(chosen.unwrap(), (2, Some(7)));
}

#[test]
fn what_cannot_go_on_says_why() {
    let executor = Executor::new(4);
    node(&executor, 7).spawn("stuck", std::future::pending());
    let halt = executor.run_for(SECOND).unwrap_err();
    assert_eq!(halt.to_string(), "deadlock: nothing will ever wake stuck of node 7");

    let executor = Executor::new(4);
    executor.handle().set_most_steps(1000);
    let spins = |handle: Handle| async move {
        loop {
            handle.sleep(Duration::ZERO).await;
        }
    };
    executor.handle().spawn("spins", spins(executor.handle().clone()));
    assert_eq!(executor.run_for(MINUTE), Err(Halt::Unfinished { steps: 1000 }));

    let executor = Executor::new(4);
    executor.handle().spawn("spins", spins(executor.handle().clone()));
    let bound = Duration::from_millis(1);
    assert_eq!(executor.run_until(|| false, bound), Err(Halt::Late { bound }));

    let executor = Executor::new(4);
    node(&executor, 1).spawn("falls", async { panic!("over {}", "a stone") });
    let halt = executor.run_for(SECOND).unwrap_err();
    assert_eq!(halt.to_string(), "falls of node 1 panicked: over a stone");
}

#[test]
fn only_the_end_of_a_trace_is_kept_as_text() {
    let executor = Executor::new(4);
    executor.handle().keep_trace(2);
    for event in ["one", "two", "three"] {
        executor.handle().note(event);
    }
    let ends: Vec<String> = executor.handle().trace();
    assert_eq!(ends.len(), 2);
    assert!(ends[0].ends_with("two") && ends[1].ends_with("three"), "{ends:?}");
}

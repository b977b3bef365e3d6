//! Many ask at once: one computes, all get that answer, whatever happens to the one who computes.

mod bed;

use std::collections::HashSet;

use bed::*;
use consort_once::{
    Computed, Failure, FailureKind, OnError, Once, OnceError, Options, Source, Terms,
};

#[tokio::test(start_paused = true)]
async fn a_thousand_requests_at_once_over_three_nodes_are_one_computation() {
    let bed = Bed::new(3);
    let work = Work::gated();
    let asked: Vec<_> = (0..1000).map(|n| work.ask(&bed.nodes[n % 3], &terms())).collect();
    work.started(1).await;
    eventually(|| bed.nodes.iter().map(|n| n.figures().waiting).sum::<u64>() == 1000).await;
    tokio::time::sleep(secs(10)).await; // Longer than the lease, which is renewed meanwhile.
    work.open();
    let mut generations = HashSet::new();
    let mut computed = 0;
    for asked in asked {
        let answer = asked.await.unwrap().unwrap();
        assert_eq!(&answer.value[..], b"value 1");
        generations.insert(answer.generation);
        computed += usize::from(answer.source == Source::Computed);
    }
    assert_eq!((work.runs(), generations.len(), computed), (1, 1, 1));
    for node in &bed.nodes {
        let figures = node.figures();
        assert_eq!((figures.waiting, figures.flights), (0, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn each_node_has_one_waiter_at_the_store_however_many_ask() {
    let bed = Bed::new(2);
    let work = Work::gated();
    let first = work.ask(&bed.nodes[0], &terms());
    work.started(1).await;
    let asked: Vec<_> = (0..500).map(|_| work.ask(&bed.nodes[1], &terms())).collect();
    eventually(|| bed.nodes[1].figures().waiting == 500).await;
    tokio::time::sleep(millis(500)).await;
    let gets = bed.stores[1].gets.load(std::sync::atomic::Ordering::Relaxed);
    assert!(gets < 10, "{gets}");
    work.open();
    first.await.unwrap().unwrap();
    for asked in asked {
        assert_eq!(asked.await.unwrap().unwrap().source, Source::Joined);
    }
}

#[tokio::test(start_paused = true)]
async fn waiters_learn_of_the_answer_at_once() {
    let bed = Bed::new(2);
    let work = Work::gated();
    let first = work.ask(&bed.nodes[0], &terms());
    work.started(1).await;
    let second = work.ask(&bed.nodes[1], &terms());
    eventually(|| bed.nodes[1].figures().waiting == 1).await;
    let before = tokio::time::Instant::now();
    work.open();
    assert_eq!(text(&second.await.unwrap()), "value 1");
    // Paused time moves only when everybody waits for it: the wake needed none of it.
    assert!(before.elapsed() < millis(1));
    first.await.unwrap().unwrap();
}

/// Starts a computation on a node of its own and kills that where it stands: its runtime is dropped with
/// all its tasks, so the lease is neither renewed nor released. Tells how often it computed.
fn computes_and_dies(bed: &Bed, terms: &Terms) -> usize {
    let (memory, terms) = (bed.memory.clone(), terms.clone());
    let doomed = std::thread::spawn(move || {
        let work = Work::gated();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let entropy = std::sync::Arc::new(consort_kernel::SeededEntropy::new(99));
            let runtime = consort_cluster::TokioRuntime::current();
            let node = Once::new(Options::new(Faulty::over(memory), runtime, entropy));
            let asked = work.ask(&node, &terms);
            work.started(1).await;
            asked.abort();
        });
        work.runs()
    });
    doomed.join().unwrap()
}

#[tokio::test]
async fn when_the_holder_is_killed_exactly_one_other_takes_over() {
    let bed = Bed::new(3);
    let terms = Terms { lease: millis(300), ..terms() };
    assert_eq!(computes_and_dies(&bed, &terms), 1);
    let work = Work::free();
    let asked: Vec<_> = (0..30).map(|n| work.ask(&bed.nodes[n % 3], &terms)).collect();
    for asked in asked {
        assert_eq!(text(&asked.await.unwrap()), "value 1");
    }
    assert_eq!(work.runs(), 1);
    assert_eq!(bed.nodes.iter().map(|n| n.figures().takeovers).sum::<u64>(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_paused_holder_is_refused_and_gets_the_newer_answer() {
    let bed = Bed::new(2);
    let (slow, quick) = (Work::gated().giving(|_| Ok(Computed::new("late"))), Work::gated());
    let first = slow.ask(&bed.nodes[0], &terms());
    slow.started(1).await;
    // Cut off from the store it cannot renew its lease, as if it were paused.
    bed.stores[0].set_down(true);
    let second = quick.ask(&bed.nodes[1], &terms());
    quick.started(1).await;
    bed.stores[0].set_down(false);
    slow.open();
    eventually(|| bed.nodes[0].figures().refused == 1).await;
    quick.open();
    let (first, second) = (first.await.unwrap().unwrap(), second.await.unwrap().unwrap());
    assert_eq!(&second.value[..], b"value 1");
    assert_eq!(first.generation, second.generation);
    assert_eq!(bed.nodes[1].peek(&key("k")).await.unwrap().unwrap().value, second.value);
}

#[tokio::test(start_paused = true)]
async fn an_error_reaches_all_and_is_kept_for_its_time() {
    let bed = Bed::new(2);
    let work = Work::gated().giving(|run| match run {
        1 => Err(Failure::new(FailureKind::Refused(502), "bad gateway")),
        _ => Ok(Computed::new("better")),
    });
    let asked: Vec<_> = (0..10).map(|n| work.ask(&bed.nodes[n % 2], &terms())).collect();
    work.started(1).await;
    eventually(|| bed.nodes.iter().map(|n| n.figures().waiting).sum::<u64>() == 10).await;
    work.open();
    for asked in asked {
        match asked.await.unwrap() {
            Err(OnceError::Failed { failure, .. }) => {
                assert_eq!(failure, Failure::new(FailureKind::Refused(502), "bad gateway"));
            }
            other => panic!("{other:?}"),
        }
    }
    tokio::time::sleep(millis(900)).await;
    assert!(matches!(work.get(&bed.nodes[1], &terms()).await, Err(OnceError::Failed { .. })));
    assert_eq!(work.runs(), 1);
    tokio::time::sleep(millis(200)).await;
    assert_eq!(text(&work.get(&bed.nodes[1], &terms()).await), "better");
}

#[tokio::test(start_paused = true)]
async fn an_error_that_is_not_kept_still_reaches_all_who_wait() {
    let bed = Bed::new(2);
    let terms = Terms { errors_for: secs(0), ..terms() };
    let work = Work::gated().giving(|_| Err(Failure::new(FailureKind::TimedOut, "slow")));
    let asked: Vec<_> = (0..10).map(|n| work.ask(&bed.nodes[n % 2], &terms)).collect();
    work.started(1).await;
    eventually(|| bed.nodes.iter().map(|n| n.figures().waiting).sum::<u64>() == 10).await;
    work.let_one();
    for asked in asked {
        assert!(matches!(asked.await.unwrap(), Err(OnceError::Failed { .. })));
    }
    assert_eq!(work.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn with_reelection_another_node_tries_for_itself() {
    let bed = Bed::new(2);
    let terms = Terms { on_error: OnError::Reelect, ..terms() };
    let bad = Work::gated().giving(|_| Err(Failure::new(FailureKind::Other, "bad node")));
    let good = Work::free();
    let first = bad.ask(&bed.nodes[0], &terms);
    bad.started(1).await;
    let second = good.ask(&bed.nodes[1], &terms);
    eventually(|| bed.nodes[1].figures().waiting == 1).await;
    bad.open();
    assert!(matches!(first.await.unwrap(), Err(OnceError::Failed { .. })));
    assert_eq!(text(&second.await.unwrap()), "value 1");
}

#[tokio::test(start_paused = true)]
async fn a_computation_that_panics_strands_nobody() {
    let bed = Bed::new(2);
    let work = Work::gated().giving(|run| panic!("run {run} is cursed"));
    let asked: Vec<_> = (0..10).map(|n| work.ask(&bed.nodes[n % 2], &terms())).collect();
    work.started(1).await;
    eventually(|| bed.nodes.iter().map(|n| n.figures().waiting).sum::<u64>() == 10).await;
    work.open();
    for asked in asked {
        match asked.await.unwrap() {
            Err(OnceError::Failed { failure, .. }) => {
                assert_eq!(failure.kind, FailureKind::Panicked);
                assert!(failure.reason.contains("run 1 is cursed"), "{failure}");
            }
            other => panic!("{other:?}"),
        }
    }
    let immediately = bed.nodes[0]
        .get(&key("other"), &terms(), || -> std::future::Ready<Result<Computed, Failure>> {
            panic!("before it began")
        })
        .await;
    assert!(matches!(immediately, Err(OnceError::Failed { .. })), "{immediately:?}");
}

#[tokio::test(start_paused = true)]
async fn a_caller_who_leaves_takes_nobody_down() {
    let bed = Bed::new(2);
    let work = Work::gated();
    let first = work.ask(&bed.nodes[0], &terms());
    work.started(1).await;
    let joined = work.ask(&bed.nodes[0], &terms());
    let elsewhere = work.ask(&bed.nodes[1], &terms());
    eventually(|| bed.nodes.iter().map(|n| n.figures().waiting).sum::<u64>() == 3).await;
    first.abort();
    joined.abort();
    eventually(|| bed.nodes[0].figures().waiting == 0).await;
    tokio::time::sleep(secs(10)).await;
    work.open();
    assert_eq!(text(&elsewhere.await.unwrap()), "value 1");
    assert_eq!(work.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_flight_that_only_waits_ends_with_its_last_caller() {
    let bed = Bed::new(2);
    let work = Work::gated();
    let first = work.ask(&bed.nodes[0], &terms());
    work.started(1).await;
    let second = work.ask(&bed.nodes[1], &terms());
    eventually(|| bed.nodes[1].figures().flights == 1).await;
    second.abort();
    eventually(|| bed.nodes[1].figures().flights == 0).await;
    work.open();
    first.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn too_many_are_turned_away() {
    let bed = Bed::with(1, |options| {
        options.waiters_per_key = 3;
        options.waiters = 5;
    });
    let node = &bed.nodes[0];
    let work = Work::gated();
    let asked: Vec<_> = (0..3).map(|_| work.ask(node, &terms())).collect();
    eventually(|| node.figures().waiting == 3).await;
    assert_eq!(work.get(node, &terms()).await, Err(OnceError::Crowded));
    let others: Vec<_> = ["a", "b"]
        .map(|name| {
            let (work, node) = (work.clone(), node.clone());
            tokio::spawn(async move { work.get_key(&node, &key(name), &terms()).await })
        })
        .into();
    eventually(|| node.figures().waiting == 5).await;
    assert_eq!(work.get_key(node, &key("c"), &terms()).await, Err(OnceError::Crowded));
    work.open();
    for asked in asked.into_iter().chain(others) {
        asked.await.unwrap().unwrap();
    }
    assert_eq!(node.figures().crowded, 2);
    work.get_key(node, &key("c"), &terms()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn who_waits_too_long_gets_its_deadline_and_the_computation_goes_on() {
    let bed = Bed::new(1);
    let work = Work::gated();
    let terms = Terms { wait: millis(500), ..terms() };
    assert_eq!(work.get(&bed.nodes[0], &terms).await, Err(OnceError::Deadline));
    work.open();
    eventually(|| bed.nodes[0].figures().flights == 0).await;
    let answer = work.get(&bed.nodes[0], &terms).await.unwrap();
    assert_eq!((answer.source, work.runs()), (Source::Store, 1));
}

#[tokio::test(start_paused = true)]
async fn a_computation_that_never_ends_is_given_up() {
    let bed = Bed::new(1);
    let work = Work::gated();
    let terms = Terms { compute_for: secs(20), ..terms() };
    match work.get(&bed.nodes[0], &terms).await {
        Err(OnceError::Failed { failure, .. }) => assert_eq!(failure.kind, FailureKind::TimedOut),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_value_that_is_too_large_is_an_error() {
    let bed = Bed::new(1);
    let work = Work::free().giving(|_| Ok(Computed::new(vec![0; 101])));
    let terms = Terms { max_value: 100, ..terms() };
    match work.get(&bed.nodes[0], &terms).await {
        Err(OnceError::Failed { failure, .. }) => assert_eq!(failure.kind, FailureKind::TooLarge),
        other => panic!("{other:?}"),
    }
    let work = Work::free().giving(|_| Ok(Computed::new(vec![0; 100])));
    assert!(work.get_key(&bed.nodes[0], &key("fits"), &terms).await.is_ok());
    let work =
        Work::free().giving(|_| Ok(Computed::new("").tagged((0..65).map(|n| n.to_string()))));
    let tagged = work.get_key(&bed.nodes[0], &key("tags"), &terms).await;
    assert!(matches!(tagged, Err(OnceError::Failed { .. })), "{tagged:?}");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_shuts_down_lets_another_take_over_at_once() {
    let bed = Bed::new(2);
    let (stop, running) = bed.run(0);
    let (slow, quick) = (Work::gated(), Work::free());
    let terms = Terms { lease: secs(600), wait: secs(30), ..terms() };
    let first = slow.ask(&bed.nodes[0], &terms);
    slow.started(1).await;
    let second = quick.ask(&bed.nodes[1], &terms);
    eventually(|| bed.nodes[1].figures().waiting == 1).await;
    stop.send(()).unwrap();
    assert_eq!(text(&second.await.unwrap()), "value 1");
    assert!(matches!(first.await.unwrap(), Err(OnceError::Unavailable { retryable: true, .. })));
    running.await.unwrap();
    assert!(slow.get(&bed.nodes[0], &terms).await.is_err());
    assert_eq!((slow.runs(), quick.runs()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn the_only_process_does_not_wait_for_a_dead_one() {
    let bed = Bed::with(2, |options| options.sole = true);
    let terms = Terms { lease: secs(600), ..terms() };
    let dead = Work::gated();
    let asked = dead.ask(&bed.nodes[0], &terms);
    dead.started(1).await;
    let work = Work::free();
    assert_eq!(text(&work.get(&bed.nodes[1], &terms).await), "value 1");
    asked.abort();
}

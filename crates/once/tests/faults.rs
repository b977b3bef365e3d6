//! A store that is full, out of reach, or does not say what became of a commit: nobody computes without
//! having won the cell, and nobody hangs.

mod bed;

use bed::*;
use consort_once::{Computed, Failure, FailureKind, OnceError, Terms};

fn unavailable(result: &Result<consort_once::Answer, OnceError>) -> bool {
    matches!(result, Err(OnceError::Unavailable { retryable: true, .. }))
}

#[tokio::test(start_paused = true)]
async fn a_full_store_is_an_error_and_never_a_computation() {
    let bed = Bed::new(1);
    let work = Work::free();
    bed.stores[0].next(&[Fate::Full]);
    let refused = work.get(&bed.nodes[0], &terms()).await;
    assert!(unavailable(&refused), "{refused:?}");
    assert_eq!(work.runs(), 0);
    assert_eq!(text(&work.get(&bed.nodes[0], &terms()).await), "value 1");
}

#[tokio::test(start_paused = true)]
async fn a_store_out_of_reach_is_an_error_and_never_a_computation() {
    let bed = Bed::new(1);
    let work = Work::free();
    bed.stores[0].set_down(true);
    assert!(unavailable(&work.get(&bed.nodes[0], &terms()).await));
    assert!(bed.nodes[0].peek(&key("k")).await.is_err());
    assert!(bed.nodes[0].purge(&key("k")).await.is_err());
    assert!(bed.nodes[0].purge_tag(&space(), "x").await.is_err());
    assert_eq!((work.runs(), bed.nodes[0].figures().unavailable), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn whoever_does_not_know_whether_it_won_looks_first() {
    for (fate, attempts) in [(Fate::AppliedUnknown, 1), (Fate::LostUnknown, 2)] {
        let bed = Bed::new(1);
        let work = Work::free();
        bed.stores[0].next(&[fate]);
        assert_eq!(text(&work.get(&bed.nodes[0], &terms()).await), "value 1", "{fate:?}");
        assert_eq!(work.runs(), 1);
        // One commit for each attempt to win the cell, and one to publish.
        let commits = bed.stores[0].commits.load(std::sync::atomic::Ordering::Relaxed);
        assert_eq!(commits, attempts + 1, "{fate:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_does_not_know_whether_it_published_looks_first() {
    for fate in [Fate::AppliedUnknown, Fate::LostUnknown, Fate::Full] {
        let bed = Bed::new(2);
        let work = Work::free();
        bed.stores[0].next(&[Fate::Fine, fate]);
        let answer = work.get(&bed.nodes[0], &terms()).await.unwrap();
        let there = bed.nodes[1].peek(&key("k")).await.unwrap().unwrap();
        assert_eq!((answer.generation, work.runs()), (there.generation, 1), "{fate:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_does_not_know_whether_its_error_is_stored_looks_first() {
    for fate in [Fate::AppliedUnknown, Fate::LostUnknown, Fate::Full] {
        let bed = Bed::new(2);
        let work = Work::free().giving(|_| Err(Failure::new(FailureKind::Other, "no")));
        bed.stores[0].next(&[Fate::Fine, fate]);
        let failed = |result| matches!(result, Err(OnceError::Failed { .. }));
        assert!(failed(work.get(&bed.nodes[0], &terms()).await), "{fate:?}");
        assert!(failed(work.get(&bed.nodes[1], &terms()).await), "{fate:?}");
        assert_eq!(work.runs(), 1, "{fate:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_renewal_of_unknown_outcome_does_not_cost_the_lease() {
    for fate in [Fate::AppliedUnknown, Fate::LostUnknown, Fate::Full] {
        let bed = Bed::new(1);
        let work = Work::gated();
        bed.stores[0].next(&[Fate::Fine, fate, Fate::Fine, fate]);
        let asked = work.ask(&bed.nodes[0], &terms());
        work.started(1).await;
        tokio::time::sleep(secs(10)).await;
        work.open();
        assert_eq!(text(&asked.await.unwrap()), "value 1", "{fate:?}");
        assert_eq!(work.runs(), 1, "{fate:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_refresh_of_unknown_outcome_leaves_the_value() {
    let terms = Terms { fresh_for: secs(10), stale_if_error: secs(60), ..terms() };
    for fate in [Fate::AppliedUnknown, Fate::LostUnknown] {
        let bed = Bed::new(1);
        let work = Work::free().giving(|run| match run {
            1 => Ok(Computed::new("good")),
            _ => Err(Failure::new(FailureKind::Other, "no")),
        });
        work.get(&bed.nodes[0], &terms).await.unwrap();
        tokio::time::sleep(secs(11)).await;
        bed.stores[0].next(&[Fate::Fine, fate]);
        assert_eq!(text(&work.get(&bed.nodes[0], &terms).await), "good", "{fate:?}");
        assert_eq!(work.runs(), 2, "{fate:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_value_that_cannot_be_published_is_an_error_and_another_computes() {
    let bed = Bed::new(2);
    let (work, other) = (Work::gated(), Work::free());
    let first = work.ask(&bed.nodes[0], &terms());
    work.started(1).await;
    bed.stores[0].set_down(true);
    work.open();
    assert!(unavailable(&first.await.unwrap()));
    assert_eq!(text(&other.get(&bed.nodes[1], &terms()).await), "value 1");
}

#[tokio::test(start_paused = true)]
async fn waiters_bear_a_short_silence_of_the_store_and_get_an_error_after_a_long_one() {
    let bed = Bed::new(2);
    let work = Work::gated();
    let first = work.ask(&bed.nodes[0], &terms());
    work.started(1).await;
    let ask = || work.ask(&bed.nodes[1], &terms());
    let patient = ask();
    eventually(|| bed.nodes[1].figures().waiting == 1).await;
    tokio::time::sleep(millis(10)).await;
    bed.stores[1].set_down(true);
    tokio::time::sleep(secs(2)).await;
    bed.stores[1].set_down(false);
    work.open();
    assert_eq!(text(&patient.await.unwrap()), "value 1");
    first.await.unwrap().unwrap();

    let work = Work::gated();
    tokio::time::sleep(secs(100)).await;
    let first = work.ask(&bed.nodes[0], &terms());
    work.started(1).await;
    let patient = work.ask(&bed.nodes[1], &terms());
    eventually(|| bed.nodes[1].figures().waiting == 1).await;
    tokio::time::sleep(millis(10)).await;
    bed.stores[1].set_down(true);
    assert!(unavailable(&patient.await.unwrap()));
    work.open();
    first.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_purge_of_unknown_outcome_is_repeated() {
    let bed = Bed::new(1);
    let work = Work::free().giving(|run| Ok(Computed::new(format!("value {run}")).tagged(["t"])));
    for fate in [Fate::AppliedUnknown, Fate::LostUnknown] {
        work.get(&bed.nodes[0], &terms()).await.unwrap();
        bed.stores[0].next(&[fate]);
        assert_eq!(bed.nodes[0].purge(&key("k")).await, Ok(true), "{fate:?}");
        assert_eq!(bed.nodes[0].peek(&key("k")).await, Ok(None), "{fate:?}");
        work.get(&bed.nodes[0], &terms()).await.unwrap();
        bed.stores[0].next(&[fate; 4]);
        bed.nodes[0].purge_tag(&space(), "t").await.unwrap();
        assert_eq!(bed.nodes[0].peek(&key("k")).await, Ok(None), "{fate:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_cell_of_a_later_release_is_left_alone() {
    use consort_kernel::{Commit, Key, Kind, Operation, Shard, Store};
    let bed = Bed::new(1);
    let work = Work::free();
    work.get(&bed.nodes[0], &terms()).await.unwrap();
    for shard in (0..4).map(Shard) {
        let heads = Key::from(["once", "head"]);
        let page = bed.memory.scan(shard, Kind::Bytes, &heads, None, 9).await.unwrap();
        for (key, _) in page {
            let put = Operation::Put { key, value: vec![2, 0].into() };
            bed.memory.commit(shard, Commit::of([put])).await.unwrap();
        }
    }
    match work.get(&bed.nodes[0], &terms()).await {
        Err(OnceError::Unavailable { retryable, reason }) => {
            assert!(!retryable && reason.contains("version 2"), "{reason}");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(work.runs(), 1);
}

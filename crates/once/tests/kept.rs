//! What is kept, and for how long: freshness, refreshes, errors, and what must not be kept.

mod bed;

use std::sync::Arc;

use bed::*;
use consort_once::{Computed, Failure, FailureKind, Generation, OnceError, Terms};
use tokio::sync::Semaphore;

fn staling() -> Terms {
    Terms { fresh_for: secs(10), stale_for: secs(10), ..terms() }
}

#[tokio::test(start_paused = true)]
async fn a_value_is_fresh_from_its_publication_on_and_reading_renews_nothing() {
    let bed = Bed::new(2);
    let work = Work::free();
    for wait in [0, 30, 29] {
        tokio::time::sleep(secs(wait)).await;
        let answer = work.get(&bed.nodes[1], &terms()).await.unwrap();
        assert_eq!(&answer.value[..], b"value 1");
        assert!(!answer.stale && answer.fresh_left <= secs(60));
    }
    let answer = work.get(&bed.nodes[0], &terms()).await.unwrap();
    assert_eq!((answer.age, answer.fresh_left, answer.usable_left), (secs(59), secs(1), secs(1)));
    tokio::time::sleep(secs(1)).await;
    assert_eq!(text(&work.get(&bed.nodes[0], &terms()).await), "value 2");
}

#[tokio::test(start_paused = true)]
async fn a_stale_value_is_served_while_exactly_one_refreshes() {
    let bed = Bed::new(3);
    let work = Work::gated();
    work.let_one();
    work.get(&bed.nodes[0], &staling()).await.unwrap();
    tokio::time::sleep(secs(11)).await;
    for n in 0..30 {
        let answer = work.get(&bed.nodes[n % 3], &staling()).await.unwrap();
        assert_eq!((&answer.value[..], answer.stale), (&b"value 1"[..], true));
        assert_eq!((answer.age, answer.usable_left), (secs(11), secs(9)));
    }
    work.started(2).await;
    // Longer than a lease, which is renewed; and nobody else refreshes.
    tokio::time::sleep(secs(5)).await;
    work.get(&bed.nodes[1], &staling()).await.unwrap();
    assert_eq!(work.runs(), 2);
    work.open();
    eventually(|| bed.nodes.iter().all(|node| node.figures().flights == 0)).await;
    let answer = work.get(&bed.nodes[2], &staling()).await.unwrap();
    assert_eq!((&answer.value[..], answer.stale, work.runs()), (&b"value 2"[..], false, 2));
    assert_eq!(bed.nodes.iter().map(|n| n.figures().refreshes).sum::<u64>(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_stale_value_stays_when_its_refresh_fails_and_the_next_is_not_tried_at_once() {
    let bed = Bed::new(2);
    let work = Work::free().giving(|run| match run {
        1 => Ok(Computed::new("good")),
        _ => Err(Failure::new(FailureKind::Unreachable, "gone")),
    });
    work.get(&bed.nodes[0], &staling()).await.unwrap();
    tokio::time::sleep(secs(11)).await;
    assert_eq!(text(&work.get(&bed.nodes[0], &staling()).await), "good");
    work.started(2).await;
    eventually(|| bed.nodes[0].figures().flights == 0).await;
    for n in 0..10 {
        assert_eq!(text(&work.get(&bed.nodes[n % 2], &staling()).await), "good");
    }
    assert_eq!(work.runs(), 2);
    tokio::time::sleep(secs(1)).await;
    assert_eq!(text(&work.get(&bed.nodes[1], &staling()).await), "good");
    work.started(3).await;
}

#[tokio::test(start_paused = true)]
async fn an_old_value_is_served_if_the_computation_fails_and_only_then() {
    let bed = Bed::new(2);
    let terms = Terms { fresh_for: secs(10), stale_if_error: secs(60), ..terms() };
    let work = Work::gated().giving(|run| match run {
        2 => Err(Failure::new(FailureKind::Unreachable, "gone")),
        run => Ok(Computed::new(format!("value {run}"))),
    });
    work.let_one();
    work.get(&bed.nodes[0], &terms).await.unwrap();
    tokio::time::sleep(secs(11)).await;
    let asked: Vec<_> = (0..6).map(|n| work.ask(&bed.nodes[n % 2], &terms)).collect();
    work.started(2).await;
    eventually(|| bed.nodes.iter().map(|n| n.figures().waiting).sum::<u64>() == 6).await;
    work.let_one();
    for asked in asked {
        let answer = asked.await.unwrap().unwrap();
        assert_eq!((&answer.value[..], answer.stale), (&b"value 1"[..], true));
    }
    tokio::time::sleep(secs(2)).await;
    work.open();
    assert_eq!(text(&work.get(&bed.nodes[1], &terms).await), "value 3");
}

#[tokio::test(start_paused = true)]
async fn a_value_that_nears_its_end_is_refreshed_early_by_one() {
    let bed = Bed::new(2);
    let terms = Terms { refresh_early: true, fresh_for: secs(100), ..Terms::default() };
    let slow = Work::gated();
    let first = slow.ask(&bed.nodes[0], &terms);
    slow.started(1).await;
    tokio::time::sleep(secs(2)).await;
    slow.let_one();
    first.await.unwrap().unwrap();
    tokio::time::sleep(secs(80)).await;
    for n in 0..200 {
        slow.get(&bed.nodes[n % 2], &terms).await.unwrap();
    }
    assert_eq!(slow.runs(), 1);
    tokio::time::sleep(secs(19)).await;
    for n in 0..200 {
        assert_eq!(text(&slow.get(&bed.nodes[n % 2], &terms).await), "value 1");
    }
    slow.started(2).await;
    slow.open();
    eventually(|| bed.nodes.iter().all(|node| node.figures().flights == 0)).await;
    assert_eq!(text(&slow.get(&bed.nodes[1], &terms).await), "value 2");
    assert_eq!(slow.runs(), 2);
    assert_eq!(bed.nodes.iter().map(|n| n.figures().early_refreshes).sum::<u64>(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_value_that_must_not_be_kept_is_for_those_who_wait_and_nobody_later() {
    let bed = Bed::new(3);
    let work = Work::gated().giving(|run| Ok(Computed::new(format!("value {run}")).unkept()));
    let asked: Vec<_> = (0..9).map(|n| work.ask(&bed.nodes[n % 3], &terms())).collect();
    work.started(1).await;
    eventually(|| bed.nodes.iter().map(|n| n.figures().waiting).sum::<u64>() == 9).await;
    tokio::time::sleep(secs(1)).await;
    work.let_one();
    let mut generations = std::collections::HashSet::new();
    for asked in asked {
        let answer = asked.await.unwrap().unwrap();
        assert_eq!((&answer.value[..], answer.stale), (&b"value 1"[..], false));
        generations.insert(answer.generation);
    }
    assert_eq!((work.runs(), generations.len()), (1, 1));
    assert_eq!(bed.nodes[1].peek(&key("k")).await, Ok(None));
    work.open();
    assert_eq!(text(&work.get(&bed.nodes[1], &terms()).await), "value 2");
    assert_eq!(text(&work.get(&bed.nodes[1], &terms()).await), "value 3");
}

#[tokio::test(start_paused = true)]
async fn a_generation_is_there_or_gone() {
    let bed = Bed::new(2);
    let work = Work::free();
    let first = work.get(&bed.nodes[0], &terms()).await.unwrap();
    let again = bed.nodes[1].get_generation(&key("k"), &first.generation).await.unwrap();
    assert_eq!(again.value, first.value);
    let other: Generation = "00000000000000000000000000000000".parse().unwrap();
    let gone = bed.nodes[1].get_generation(&key("k"), &other).await;
    assert_eq!(gone, Err(OnceError::Gone));
    tokio::time::sleep(secs(61)).await;
    let second = work.get(&bed.nodes[0], &terms()).await.unwrap();
    assert_ne!(second.generation, first.generation);
    let gone = bed.nodes[1].get_generation(&key("k"), &first.generation).await;
    assert_eq!(gone, Err(OnceError::Gone));
    assert_eq!(bed.nodes[1].peek(&key("never")).await, Ok(None));
}

#[tokio::test(start_paused = true)]
async fn what_is_of_no_use_leaves_the_store() {
    use consort_kernel::{Key, Kind, Shard, Store};
    let bed = Bed::new(1);
    let work = Work::free().giving(|_| Ok(Computed::new("x").tagged(["news"])));
    work.get(&bed.nodes[0], &terms()).await.unwrap();
    let failing = Work::free().giving(|_| Err(Failure::new(FailureKind::Other, "no")));
    let _ = failing.get_key(&bed.nodes[0], &key("bad"), &terms()).await;
    let cells = async || {
        let mut cells = 0;
        for shard in 0..bed.memory.shards() {
            let all = Key::from(["once"]);
            let page = bed.memory.scan(Shard(shard), Kind::Bytes, &all, None, 100).await;
            cells += page.unwrap().len();
        }
        cells
    };
    assert_eq!(cells().await, 4);
    tokio::time::sleep(secs(75)).await;
    assert_eq!(cells().await, 0);
}

#[tokio::test(start_paused = true)]
async fn who_joins_a_flight_after_the_publication_does_not_get_what_must_not_be_kept() {
    let bed = Bed::new(2);
    let work = Work::gated().giving(|run| Ok(Computed::new(format!("value {run}")).unkept()));
    let first = work.ask(&bed.nodes[0], &terms());
    work.started(1).await;
    let waiting = work.ask(&bed.nodes[1], &terms());
    eventually(|| bed.nodes[1].figures().waiting == 1).await;
    tokio::time::sleep(millis(10)).await;
    // Node 1 is slow to learn what it reads; meanwhile the value is published, and one more comes.
    let slow = Arc::new(Semaphore::new(0));
    *bed.stores[1].slow_gets.lock() = Some(slow.clone());
    work.let_one();
    assert_eq!(text(&first.await.unwrap()), "value 1");
    tokio::time::sleep(millis(10)).await;
    let late = work.ask(&bed.nodes[1], &terms());
    eventually(|| bed.nodes[1].figures().waiting == 2).await;
    *bed.stores[1].slow_gets.lock() = None;
    slow.add_permits(1);
    work.open();
    assert_eq!(text(&waiting.await.unwrap()), "value 1");
    assert_eq!(text(&late.await.unwrap()), "value 2");
}

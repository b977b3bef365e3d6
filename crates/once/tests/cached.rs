//! This node's cache: it serves without asking the store, and never what a purge has removed.

mod bed;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bed::*;
use consort_once::{Source, Terms};
use tokio::sync::Semaphore;

fn staling() -> Terms {
    Terms { fresh_for: secs(10), stale_for: secs(10), ..terms() }
}

#[tokio::test(start_paused = true)]
async fn a_hot_key_is_served_without_asking_the_store() {
    let bed = Bed::new(1);
    let _running = bed.run(0);
    tokio::time::sleep(millis(10)).await;
    let work = Work::free();
    work.get(&bed.nodes[0], &terms()).await.unwrap();
    let gets = bed.stores[0].gets.load(Ordering::Relaxed);
    for wait in [0, 0, 10, 20] {
        tokio::time::sleep(secs(wait)).await;
        let answer = work.get(&bed.nodes[0], &terms()).await.unwrap();
        assert_eq!(answer.source, Source::Node);
    }
    let answer = work.get(&bed.nodes[0], &terms()).await.unwrap();
    assert_eq!((answer.age, answer.fresh_left), (secs(30), secs(30)));
    assert_eq!(bed.stores[0].gets.load(Ordering::Relaxed), gets);
    // It ends here as it does everywhere.
    tokio::time::sleep(secs(30)).await;
    assert_eq!(text(&work.get(&bed.nodes[0], &terms()).await), "value 2");
}

#[tokio::test(start_paused = true)]
async fn a_stale_hot_key_is_refreshed_by_one_and_served_meanwhile() {
    let bed = Bed::new(2);
    let _running = [bed.run(0), bed.run(1)];
    tokio::time::sleep(millis(10)).await;
    let work = Work::gated();
    work.let_one();
    for node in &bed.nodes {
        work.get(node, &staling()).await.unwrap();
    }
    tokio::time::sleep(secs(11)).await;
    for n in 0..100 {
        let answer = work.get(&bed.nodes[n % 2], &staling()).await.unwrap();
        assert_eq!((answer.source, answer.stale), (Source::Node, true));
    }
    work.started(2).await;
    tokio::time::sleep(secs(4)).await;
    assert_eq!(text(&work.get(&bed.nodes[0], &staling()).await), "value 1");
    work.open();
    // The refresh is news to both caches.
    eventually(|| bed.nodes.iter().all(|node| node.figures().flights == 0)).await;
    tokio::time::sleep(millis(10)).await;
    for node in &bed.nodes {
        assert_eq!(text(&work.get(node, &staling()).await), "value 2");
    }
    assert_eq!(work.runs(), 2);
}

#[tokio::test(start_paused = true)]
async fn the_cache_is_emptied_when_its_news_are_interrupted() {
    let bed = Bed::new(2);
    let _running = bed.run(0);
    tokio::time::sleep(millis(10)).await;
    let work = Work::free();
    work.get(&bed.nodes[0], &terms()).await.unwrap();
    assert_eq!(bed.nodes[0].figures().cached, 1);
    bed.stores[0].set_feeds_down(true);
    eventually(|| bed.nodes[0].figures().cached == 0).await;
    bed.nodes[1].purge(&key("k")).await.unwrap();
    assert_eq!(text(&work.get(&bed.nodes[0], &terms()).await), "value 2");
    assert_eq!(bed.nodes[0].figures().cached, 0);
    assert!(bed.nodes[0].figures().interruptions >= 1);
    bed.stores[0].set_feeds_down(false);
    tokio::time::sleep(secs(1)).await;
    work.get(&bed.nodes[0], &terms()).await.unwrap();
    assert_eq!(work.get(&bed.nodes[0], &terms()).await.unwrap().source, Source::Node);
}

#[tokio::test(start_paused = true)]
async fn without_news_nothing_is_served_from_the_cache() {
    let bed = Bed::new(1);
    let work = Work::free();
    for _ in 0..3 {
        let answer = work.get(&bed.nodes[0], &terms()).await.unwrap();
        assert_ne!(answer.source, Source::Node);
    }
}

#[tokio::test(start_paused = true)]
async fn a_value_that_was_read_before_a_purge_is_not_cached_after_it() {
    let bed = Bed::new(2);
    let _running = bed.run(0);
    tokio::time::sleep(millis(10)).await;
    let work = Work::free();
    work.get(&bed.nodes[1], &terms()).await.unwrap();
    // Node 0 reads the value, and is slow to take it in.
    let slow = Arc::new(Semaphore::new(0));
    *bed.stores[0].slow_gets.lock() = Some(slow.clone());
    let asked = work.ask(&bed.nodes[0], &terms());
    let gets = || bed.stores[0].gets.load(Ordering::Relaxed);
    eventually(|| gets() == 1).await;
    bed.nodes[1].purge(&key("k")).await.unwrap();
    tokio::time::sleep(millis(10)).await;
    *bed.stores[0].slow_gets.lock() = None;
    slow.add_permits(1);
    // This request began before the purge and may have the old value; nobody after it does.
    assert_eq!(text(&asked.await.unwrap()), "value 1");
    let figures = bed.nodes[0].figures();
    assert_eq!((figures.cached, figures.fills_discarded), (0, 1));
    assert_eq!(text(&work.get(&bed.nodes[0], &terms()).await), "value 2");
}

#[tokio::test(start_paused = true)]
async fn a_refresh_that_cannot_begin_is_not_tried_with_every_request() {
    let bed = Bed::new(1);
    let _running = bed.run(0);
    tokio::time::sleep(millis(10)).await;
    let work = Work::free();
    work.get(&bed.nodes[0], &staling()).await.unwrap();
    tokio::time::sleep(secs(11)).await;
    bed.stores[0].next(&[Fate::Full; 100]);
    let commits = || bed.stores[0].commits.load(Ordering::Relaxed);
    let before = commits();
    for _ in 0..100 {
        assert_eq!(text(&work.get(&bed.nodes[0], &staling()).await), "value 1");
        tokio::time::sleep(millis(1)).await;
    }
    assert_eq!((commits() - before, work.runs()), (1, 1));
    bed.stores[0].next(&[]);
    tokio::time::sleep(secs(1)).await;
    work.get(&bed.nodes[0], &staling()).await.unwrap();
    work.started(2).await;
}

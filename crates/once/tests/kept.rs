//! What is kept, for how long, and how it goes: freshness, refreshes, purges and this node's cache.

mod bed;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bed::*;
use consort_once::{Computed, Failure, FailureKind, Generation, OnceError, OnceKey, Source, Terms};
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
async fn a_purge_removes_the_value_on_every_node() {
    let bed = Bed::new(2);
    let _running = [bed.run(0), bed.run(1)];
    tokio::time::sleep(millis(10)).await;
    let work = Work::free();
    for node in [0, 0, 1, 1] {
        assert_eq!(text(&work.get(&bed.nodes[node], &terms()).await), "value 1");
    }
    let cached = work.get(&bed.nodes[1], &terms()).await.unwrap();
    assert_eq!(cached.source, Source::Node);
    assert_eq!(bed.nodes[0].purge(&key("k")).await, Ok(true));
    assert_eq!(bed.nodes[0].peek(&key("k")).await, Ok(None));
    // The other node hears of it without any time passing.
    eventually(|| bed.nodes[1].figures().cached == 0).await;
    assert_eq!(text(&work.get(&bed.nodes[1], &terms()).await), "value 2");
    assert_eq!(bed.nodes[0].purge(&key("never")).await, Ok(false));
}

#[tokio::test(start_paused = true)]
async fn a_purge_wins_against_a_computation_under_way() {
    let bed = Bed::new(2);
    let work = Work::gated();
    let first = work.ask(&bed.nodes[0], &terms());
    work.started(1).await;
    let second = work.ask(&bed.nodes[1], &terms());
    eventually(|| bed.nodes[1].figures().waiting == 1).await;
    assert_eq!(bed.nodes[1].purge(&key("k")).await, Ok(true));
    work.started(2).await;
    work.open();
    let (first, second) = (first.await.unwrap().unwrap(), second.await.unwrap().unwrap());
    assert_eq!((&first.value[..], &second.value[..]), (&b"value 2"[..], &b"value 2"[..]));
    assert_eq!((first.generation, work.runs()), (second.generation, 2));
}

#[tokio::test(start_paused = true)]
async fn a_lone_caller_whose_key_is_purged_computes_again() {
    let bed = Bed::new(1);
    let work = Work::gated();
    let asked = work.ask(&bed.nodes[0], &terms());
    work.started(1).await;
    bed.nodes[0].purge(&key("k")).await.unwrap();
    work.open();
    assert_eq!(text(&asked.await.unwrap()), "value 2");
}

#[tokio::test(start_paused = true)]
async fn a_tag_purges_all_that_have_it_and_nothing_else() {
    let bed = Bed::new(2);
    let _running = bed.run(1);
    tokio::time::sleep(millis(10)).await;
    let tagged = Work::free().giving(|_| Ok(Computed::new("x").tagged(["news", "sport"])));
    let plain = Work::free().giving(|_| Ok(Computed::new("y").tagged(["weather"])));
    let keys: Vec<OnceKey> = (0..450).map(|n| key(&format!("tagged {n}"))).collect();
    for key in &keys {
        tagged.get_key(&bed.nodes[0], key, &terms()).await.unwrap();
    }
    plain.get(&bed.nodes[0], &terms()).await.unwrap();
    tagged.get_key(&bed.nodes[1], &keys[7], &terms()).await.unwrap();
    assert_eq!(bed.nodes[1].purge_tag(&space(), "news").await, Ok(450));
    for key in &keys {
        assert_eq!(bed.nodes[1].peek(key).await, Ok(None));
    }
    assert!(bed.nodes[0].peek(&key("k")).await.unwrap().is_some());
    assert_eq!(bed.nodes[1].purge_tag(&space(), "news").await, Ok(0));
    assert_eq!(bed.nodes[1].purge_tag(&space(), "unheard of").await, Ok(0));
}

#[tokio::test(start_paused = true)]
async fn a_purge_by_tag_wins_against_a_computation_that_turns_out_to_have_it() {
    let bed = Bed::new(1);
    let node = &bed.nodes[0];
    let make = |run| Ok(Computed::new(format!("value {run}")).tagged(["news"]));
    let work = Work::gated().giving(make);
    let asked = work.ask(node, &terms());
    work.started(1).await;
    node.purge_tag(&space(), "news").await.unwrap();
    work.open();
    assert_eq!(text(&asked.await.unwrap()), "value 2");
    // Another tag's purge is nothing to it.
    let other = Work::gated().giving(make);
    let asked = {
        let (other, node) = (other.clone(), node.clone());
        tokio::spawn(async move { other.get_key(&node, &key("b"), &terms()).await })
    };
    other.started(1).await;
    node.purge_tag(&space(), "weather").await.unwrap();
    other.open();
    assert_eq!(text(&asked.await.unwrap()), "value 1");
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
    let looks = || bed.stores.iter().map(|s| s.gets.load(Ordering::Relaxed)).sum::<usize>();
    let before = looks();
    for n in 0..100 {
        let answer = work.get(&bed.nodes[n % 2], &staling()).await.unwrap();
        assert_eq!((answer.source, answer.stale), (Source::Node, true));
        tokio::time::sleep(millis(1)).await;
    }
    work.started(2).await;
    // Each node looked into a refresh once, and not with every request.
    assert_eq!(looks() - before, 2);
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

//! Purges, by key and by tag: what was there is gone, and what was being computed is not published.

mod bed;

use bed::*;
use consort_once::{Computed, OnceKey, Source};

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

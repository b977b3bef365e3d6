//! A node that is killed in the middle of posts, again and again: what it acknowledged counts once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use consort_testbed::eventually;
use serde_json::json;

use crate::bed::{Apart, PATIENCE};
use crate::caller::Caller;

const STREAM: &str = r#"
[stream.rides]
key = "skier"
id = "ride"
partitions = 4
fields = { skier = "int", ride = "int", lift = "int" }

[view.rides_of]
from = "rides"
by = ["skier"]
count = true

[view.ride_numbers]
from = "rides"
by = ["skier"]
distinct = "ride"

[view.vertical]
from = "rides"
by = ["skier"]
sum = "lift * 10"

[view.all]
from = "rides"
count = true
"#;

const POSTERS: u64 = 4;
const KILLS: u64 = 4;

/// How many posts are answered between two kills.
const BETWEEN: u64 = 120;

struct Posting {
    answered: AtomicU64,
    over: AtomicBool,
}

/// Posts rides one after another, each until it is answered, and gives how many there were.
async fn post(skier: u64, mut caller: Caller, posting: Arc<Posting>) -> (u64, Caller) {
    let mut rides = 0;
    while !posting.over.load(Ordering::Relaxed) {
        rides += 1;
        let ride = skier * 1_000_000 + rides;
        let event = json!({"skier": skier, "ride": ride, "lift": skier}).to_string();
        loop {
            match caller.try_post("/streams/rides", &[], event.clone()).await {
                Ok(reply) if reply.status == 201 => break,
                Ok(reply) => assert_eq!(reply.status, 503, "{reply:?}"),
                // It was killed before it answered, or is not back yet: the same ride again.
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
        posting.answered.fetch_add(1, Ordering::Relaxed);
    }
    (rides, caller)
}

#[tokio::test]
async fn rides_that_were_acknowledged_count_once_across_kills() {
    let mut node = Apart::start(STREAM).await;
    let posting = Arc::new(Posting { answered: AtomicU64::new(0), over: AtomicBool::new(false) });
    let posts: Vec<_> = (1..=POSTERS)
        .map(|skier| tokio::spawn(post(skier, node.caller(), Arc::clone(&posting))))
        .collect();
    for kill in 1..=KILLS {
        let answered = || posting.answered.load(Ordering::Relaxed);
        let enough = format!("{} posts are answered", kill * BETWEEN);
        eventually(&enough, PATIENCE, || async { answered() >= kill * BETWEEN }).await;
        node.crash().await;
    }
    posting.over.store(true, Ordering::Relaxed);
    let mut total = 0;
    for (skier, posts) in (1..).zip(posts) {
        // The poster's own positions are of nodes that are dead; they hold all the same.
        let (rides, mut caller) = posts.await.expect("all rides are answered at last");
        total += rides;
        for (view, expected) in
            [("rides_of", rides), ("ride_numbers", rides), ("vertical", rides * skier * 10)]
        {
            let value = caller.value(&format!("/views/{view}?skier={skier}")).await;
            assert_eq!(value, json!(expected), "{view} of skier {skier}");
        }
    }
    assert!(total >= KILLS * BETWEEN, "{total}");
    let mut caller = node.caller();
    assert_eq!(caller.value("/views/all").await, json!(total));
}

#[tokio::test]
async fn lines_that_were_acknowledged_count_once_across_a_kill() {
    const RIDES: u64 = 3_000;
    let mut node = Apart::start(STREAM).await;
    let lines: String = (1..=RIDES)
        .map(|ride| format!("{{\"skier\":{},\"ride\":{ride},\"lift\":1}}\n", ride % 7))
        .collect();
    let mut caller = node.caller();
    assert_eq!(caller.lines("/streams/rides", lines.clone()).await.status, 201);
    // Nobody has looked whether they were applied.
    node.crash().await;
    let mut caller = node.caller();
    let after_kill = "all lines are applied";
    eventually(after_kill, PATIENCE, || {
        let mut caller = node.caller();
        async move { caller.value("/views/all").await == json!(RIDES) }
    })
    .await;
    assert_eq!(caller.lines("/streams/rides", lines).await.status, 201);
    assert_eq!(caller.value("/views/all").await, json!(RIDES), "they were sent again");
}

//! What arrives, in which order, and what does not hold it back.

use std::sync::Arc;

use bytes::Bytes;
use consort_cluster::worker::{ResolveError, Resume};
use consort_feeds::{FeedsPart, deliverer_role};
use consort_kernel::{Commit, Note, Operation};
use consort_testbed::eventually;

use crate::bed::{Bed, Deliverer, PATIENCE, SHARD, Shelf, feed, name, open_sink, row};

#[tokio::test]
async fn rows_arrive_in_order_and_a_successor_goes_on_where_the_last_one_ended() {
    let bed = Bed::new();
    let shelf = Arc::new(Shelf::default());
    bed.emit((1..=3).map(|n| row("a", "1", n))).await;
    let first = bed.deliver(shelf.clone(), bed.options());
    eventually("three rows arrive", PATIENCE, || async { shelf.all().len() == 3 }).await;
    bed.emit([row("a", "1", 4)]).await;
    eventually("the fourth arrives", PATIENCE, || async { shelf.all().len() == 4 }).await;
    first.end().await;
    bed.emit([row("a", "1", 5)]).await;
    // After a hand-over in good order nobody waits: the default bounds would take ten seconds.
    let second = bed.deliver(shelf.clone(), bed.options());
    eventually("the fifth arrives", PATIENCE, || async { shelf.all().len() >= 5 }).await;
    assert_eq!(shelf.all(), ["a:1", "a:2", "a:3", "a:4", "a:5"]);
    let figures = second.part.figures();
    let (_, figures) = figures.all().next().unwrap();
    eventually("it is counted", PATIENCE, || async { figures.delivered() == 1 }).await;
    second.end().await;
}

#[tokio::test]
async fn a_refused_row_is_parked_alone() {
    let bed = Bed::new();
    let shelf = Arc::new(Shelf::default());
    shelf.refused.lock().extend(["bad".to_owned(), "worse".to_owned()]);
    let users = ["a", "b", "bad", "c", "d", "e", "worse"];
    bed.emit(users.map(|user| row(user, "1", 1))).await;
    let garbled = Note { feed: name("rows.v"), entry: Bytes::from_static(b"\x01{}") };
    bed.store.commit(SHARD, Commit::of([Operation::Append(garbled)])).await.unwrap();
    bed.emit([row("last", "1", 1)]).await;
    let deliverer = bed.deliver(shelf.clone(), bed.options());
    let arrived = || async { shelf.all().last().is_some_and(|last| last == "last:1") };
    eventually("the last row arrives", PATIENCE, arrived).await;
    deliverer.end().await;
    assert_eq!(shelf.all(), ["a:1", "b:1", "c:1", "d:1", "e:1", "last:1"]);
    let parked = bed.parked("s").await;
    let numbers: Vec<u64> = parked.iter().map(|parked| parked.number).collect();
    assert_eq!(numbers, [2, 6, 7]);
    assert_eq!(parked[0].reason, "not this one");
    assert!(parked[0].row.as_ref().unwrap().get().contains("\"user\":\"bad\""));
    assert!(parked[2].row.is_none() && parked[2].reason.contains("malformed"), "{parked:?}");
}

#[tokio::test]
async fn a_dead_sink_holds_back_nobody_and_gets_everything_later() {
    let bed = Bed::new();
    let (dead, live) = (Arc::new(Shelf::default()), Arc::new(Shelf::default()));
    *dead.down.lock() = Some("it is away".into());
    bed.emit((1..=3).map(|n| row("a", "1", n))).await;
    let sinks = vec![open_sink("dead", dead.clone()), open_sink("live", live.clone())];
    let feed = || vec![feed(&["dead", "live"])];
    let part = || FeedsPart::with_sinks(feed(), sinks.clone(), bed.options()).unwrap();
    let failing = Deliverer::start(part(), "dead");
    let working = Deliverer::start(part(), "live");
    eventually("the live one has all", PATIENCE, || async { live.all().len() == 3 }).await;
    let says = || async {
        failing.trouble().is_some_and(|trouble| trouble.contains("it is away"))
            && failing.part.figures().all().any(|(_, figures)| figures.retries() > 0)
    };
    eventually("the dead one is told of", PATIENCE, says).await;
    *dead.down.lock() = None;
    eventually("the dead one has all", PATIENCE, || async { dead.all() == live.all() }).await;
    eventually("nothing is told any more", PATIENCE, || async { failing.trouble().is_none() })
        .await;
    failing.end().await;
    working.end().await;
}

#[tokio::test]
async fn a_sink_that_comes_late_begins_with_the_oldest_row_that_is_kept() {
    let bed = Bed::new();
    bed.emit((1..=5).map(|n| row("a", "1", n))).await;
    bed.store.trim_feed(SHARD, &name("rows.v"), 3).await.unwrap();
    let shelf = Arc::new(Shelf::default());
    let deliverer = bed.deliver(shelf.clone(), bed.options());
    eventually("two rows arrive", PATIENCE, || async { shelf.all() == ["a:4", "a:5"] }).await;
    deliverer.end().await;
    // Whoever was further back than the oldest row stops, and says so.
    bed.emit((6..=9).map(|n| row("a", "1", n))).await;
    bed.store.trim_feed(SHARD, &name("rows.v"), 8).await.unwrap();
    let deliverer = bed.deliver(shelf.clone(), bed.options());
    let stopped = || async { deliverer.control.gauge().stopped };
    let stopped = eventually("it stops", PATIENCE, stopped).await;
    assert!(stopped.contains("entries before 8 are gone"), "{stopped}");
    assert!(stopped.contains("`consort resolve deliver:s/0`"), "{stopped}");
    assert_eq!(shelf.all(), ["a:4", "a:5"]);
    // An operator decides.
    let role = deliverer_role(&name("s"), SHARD);
    let resolve = |from| deliverer.part.resolve(&role, from).unwrap();
    assert_eq!(resolve(Resume::First).await, Ok(8));
    assert!(matches!(resolve(Resume::First).await, Err(ResolveError::Failed(_))), "it is at work");
    eventually("it goes on", PATIENCE, || async { shelf.all() == ["a:4", "a:5", "a:9"] }).await;
    let told = || async { deliverer.control.gauge().stopped.is_none() };
    eventually("nothing is told any more", PATIENCE, told).await;
    assert!(deliverer.part.resolve(&"worker:s/0".parse().unwrap(), Resume::First).is_none());
    deliverer.end().await;
}

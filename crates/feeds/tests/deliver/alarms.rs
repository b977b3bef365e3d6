//! The alarm of a sink that holds too much, in paused time.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::bed::{Bed, Deliverer, Shelf, row};

/// Far longer than rows may wait without an alarm.
const LONG: Duration = Duration::from_secs(3_600);
/// More rows than may wait without one, in commits that a store takes.
const COMMITS: u64 = 101;
const EACH: u64 = 1_000;

/// How many alarms there are, and how many rows are held.
fn figures(deliverer: &Deliverer) -> (u64, u64) {
    let figures = deliverer.part.figures();
    let (_, figures) = figures.all().next().expect("there is one sink");
    (figures.alarms(), figures.held())
}

/// Waits until there is an alarm, or none any more; tells how long that took.
async fn until(deliverer: &Deliverer, alarming: bool) -> Duration {
    let began = Instant::now();
    while (figures(deliverer).0 > 0) != alarming {
        assert!(began.elapsed() < LONG, "alarming: {}", !alarming);
        sleep(Duration::from_millis(100)).await;
    }
    began.elapsed()
}

#[tokio::test(start_paused = true)]
async fn rows_that_wait_for_long_are_an_alarm_until_the_sink_takes_them() {
    let bed = Bed::new();
    let shelf = Arc::new(Shelf::default());
    *shelf.down.lock() = Some("it is away".into());
    bed.emit((1..=3).map(|n| row("a", "1", n))).await;
    let deliverer = bed.deliver(shelf.clone(), bed.options());
    let after = until(&deliverer, true).await;
    assert!(after > Duration::from_secs(600), "already after {after:?}");
    assert_eq!(figures(&deliverer), (1, 3));
    let trouble = deliverer.trouble().expect("it is told to operators");
    assert!(trouble.contains("holds 3 rows of rows.v"), "{trouble}");
    assert!(trouble.contains("mend the sink, or take it out of the config"), "{trouble}");

    *shelf.down.lock() = None;
    until(&deliverer, false).await;
    assert_eq!(shelf.all(), ["a:1", "a:2", "a:3"]);
    assert_eq!((figures(&deliverer), deliverer.trouble()), ((0, 0), None));
    deliverer.end().await;
}

#[tokio::test(start_paused = true)]
async fn too_many_rows_are_an_alarm_long_before_they_are_old() {
    let bed = Bed::new();
    let shelf = Arc::new(Shelf::default());
    *shelf.down.lock() = Some("it is away".into());
    let deliverer = bed.deliver(shelf.clone(), bed.options());
    for commit in 0..COMMITS {
        let rows = (0..EACH).map(|n| row("a", "1", commit * EACH + n));
        bed.emit(rows).await;
    }
    let after = until(&deliverer, true).await;
    assert!(after < Duration::from_secs(120), "only after {after:?}");
    assert_eq!(figures(&deliverer), (1, COMMITS * EACH));
    *shelf.down.lock() = None;
    until(&deliverer, false).await;
    deliverer.end().await;
    assert_eq!(shelf.all().len() as u64, COMMITS * EACH);
}

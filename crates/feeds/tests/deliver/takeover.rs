//! Two deliverers at once: the newest revision stays.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use consort_feeds::{Delivery, Failed, Options, Sink, Timing};
use consort_kernel::{Cell, Key, Kind, Value};
use consort_testbed::eventually;
use tokio::sync::Semaphore;

use crate::bed::{Bed, PATIENCE, SHARD, Shelf, row};

/// The shelf behind a way on which requests stand still until they are let through.
#[derive(Debug)]
struct Slow {
    shelf: Arc<Shelf>,
    arrived: Semaphore,
    pass: Semaphore,
}

#[async_trait]
impl Sink for Slow {
    async fn deliver(&self, rows: &[Delivery]) -> Result<(), Failed> {
        self.arrived.add_permits(1);
        self.pass.acquire().await.unwrap().forget();
        self.shelf.take(rows)
    }
}

fn slow(shelf: &Arc<Shelf>) -> Arc<Slow> {
    let (arrived, pass) = (Semaphore::new(0), Semaphore::new(0));
    Arc::new(Slow { shelf: Arc::clone(shelf), arrived, pass })
}

fn timing(options: Options, request_within: Duration) -> Options {
    Options { timing: Timing { request_within, slack: Duration::ZERO }, ..options }
}

/// The first is stopped with its request under way: its timers stand still as well, so that nothing ends
/// the request before it wakes. The second has delivered everything by then.
#[tokio::test]
async fn a_request_of_a_stopped_deliverer_that_arrives_late_is_made_good() {
    let bed = Bed::new();
    let shelf = Arc::new(Shelf::default());
    bed.emit([row("a", "1", 1)]).await;
    let stopped = slow(&shelf);
    let first = bed.deliver(stopped.clone(), timing(bed.options(), PATIENCE));
    stopped.arrived.acquire().await.unwrap().forget();
    // Its node has lost the lease meanwhile, and drops its work.
    first.drop_work();
    bed.emit([row("a", "2", 2)]).await;

    let short = Duration::from_millis(50);
    let second = bed.deliver(shelf.clone(), timing(bed.options(), short));
    eventually("the second delivers all", PATIENCE, || async { shelf.all() == ["a:1", "a:2"] })
        .await;
    // Now the first one's request arrives, and puts the old revision over the new one.
    stopped.pass.add_permits(1);
    eventually("the late one arrives", PATIENCE, || async { shelf.all().len() >= 3 }).await;
    let again = || async { shelf.all() == ["a:1", "a:2", "a:1", "a:1", "a:2"] };
    eventually("all is delivered again", PATIENCE, again).await;
    assert_eq!(shelf.last.lock()["a"], 2);
    second.end().await;
}

/// Keeps what comes at once, and answers when it is let.
#[derive(Debug)]
struct Silent {
    shelf: Arc<Shelf>,
    answer: Semaphore,
}

#[async_trait]
impl Sink for Silent {
    async fn deliver(&self, rows: &[Delivery]) -> Result<(), Failed> {
        let taken = self.shelf.take(rows);
        self.answer.acquire().await.unwrap().forget();
        taken
    }
}

/// As before, but the second has not moved its cursor yet when the late request arrives.
#[tokio::test]
async fn a_late_request_is_made_good_although_its_successor_is_still_being_answered() {
    let bed = Bed::new();
    let shelf = Arc::new(Shelf::default());
    bed.emit([row("a", "1", 1)]).await;
    let stopped = slow(&shelf);
    let first = bed.deliver(stopped.clone(), timing(bed.options(), PATIENCE));
    stopped.arrived.acquire().await.unwrap().forget();
    first.drop_work();
    bed.emit([row("a", "2", 2)]).await;

    let silent = Arc::new(Silent { shelf: Arc::clone(&shelf), answer: Semaphore::new(0) });
    let second = bed.deliver(silent.clone(), timing(bed.options(), Duration::from_secs(2)));
    eventually("the second delivers all", PATIENCE, || async { shelf.all() == ["a:1", "a:2"] })
        .await;
    stopped.pass.add_permits(1);
    let given_back = || async {
        let key = Key::from(["feeds", "cursor", "s", "rows.v"]);
        let cell = bed.store.get(SHARD, &[Cell::new(Kind::Bytes, key)]).await.unwrap();
        let again = b"\"again\":1";
        matches!(&cell[0], Some(Value::Bytes(cell)) if cell.windows(9).any(|part| part == again))
    };
    eventually("the first gives back what it sent", PATIENCE, given_back).await;
    silent.answer.add_permits(9);
    let again = || async { shelf.all() == ["a:1", "a:2", "a:1", "a:1", "a:2"] };
    eventually("all is delivered again", PATIENCE, again).await;
    assert_eq!(shelf.last.lock()["a"], 2);
    second.end().await;
}

#[tokio::test]
async fn a_new_deliverer_sends_nothing_before_the_old_ones_requests_have_ended() {
    let bed = Bed::new();
    let shelf = Arc::new(Shelf::default());
    bed.emit([row("a", "1", 1)]).await;
    let within = Duration::from_millis(300);
    let hanging = slow(&shelf);
    let first = bed.deliver(hanging.clone(), timing(bed.options(), within));
    hanging.arrived.acquire().await.unwrap().forget();
    first.drop_work();
    bed.emit([row("a", "2", 2)]).await;
    let second = bed.deliver(shelf.clone(), timing(bed.options(), 2 * within));
    eventually("the second delivers", PATIENCE, || async { !shelf.all().is_empty() }).await;
    // The request of the first was given up long before: nobody waits at its gate any more.
    hanging.pass.add_permits(1);
    assert_eq!(hanging.pass.available_permits(), 1);
    assert_eq!(shelf.all(), ["a:1", "a:2"]);
    second.end().await;
}

#[tokio::test]
async fn where_every_earlier_process_is_dead_nobody_waits() {
    let bed = Bed::new();
    let shelf = Arc::new(Shelf::default());
    bed.emit([row("a", "1", 1)]).await;
    let hanging = slow(&shelf);
    let sole = || Options { sole: true, ..timing(bed.options(), PATIENCE) };
    let first = bed.deliver(hanging.clone(), sole());
    hanging.arrived.acquire().await.unwrap().forget();
    first.drop_work();
    // Another process has another part. It would wait for longer than the test does.
    let second = bed.deliver(
        shelf.clone(),
        Options { timing: timing(bed.options(), 2 * PATIENCE).timing, ..sole() },
    );
    eventually("the second delivers", PATIENCE, || async { shelf.all() == ["a:1"] }).await;
    second.end().await;
}

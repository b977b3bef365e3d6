//! Documents that a sink does not get because it refused one of their changes, and their release.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use consort_feeds::parked_subject::{
    PARKED_SUBJECTS_MAX, ReleaseError, parked_subjects, release_subject,
};
use consort_feeds::{Delivery, Failed, Options, SendMode, Sink, Subject, Timing};
use consort_testbed::eventually;
use tokio::sync::Semaphore;

use crate::bed::{Bed, Deliverer, PATIENCE, name};
use crate::documents::{Archive, Reader, feed, subject};

fn start(archive: &Archive, reader: &Arc<Reader>) -> Deliverer {
    archive.deliver(reader.clone(), SendMode::Pieces, Bed::new().options())
}

async fn release(archive: &Archive, subject: &Subject) -> Result<(), ReleaseError> {
    release_subject(&*archive.store, &name("s"), &feed(&["s"]), subject).await
}

async fn arrived(reader: &Reader, last: &str) {
    let there = || async { reader.all().last().is_some_and(|row| row == last) };
    eventually(&format!("'{last}' arrives last"), PATIENCE, there).await;
}

#[tokio::test]
async fn later_rows_of_a_refused_document_are_passed_over_and_others_arrive() {
    let (archive, reader) = (Archive::new(1), Arc::new(Reader::default()));
    let (a, b) = (subject("t", "a"), subject("t", "b"));
    reader.refuse(&["t/a 1-2"]);
    archive.store(&a, 1..=3).await;
    archive.store(&b, 1..=2).await;
    let deliverer = start(&archive, &reader);
    arrived(&reader, "t/b 1-2").await;
    // The next deliverer knows the parked document as well.
    deliverer.end().await;
    archive.store(&a, 4..=4).await;
    archive.store(&b, 3..=3).await;
    let deliverer = start(&archive, &reader);
    arrived(&reader, "t/b 2-3").await;
    assert_eq!(reader.all(), ["t/a 0-1", "t/b 0-1", "t/b 1-2", "t/b 2-3"]);
    let parked = parked_subjects(&*archive.store, &name("s"), &feed(&["s"]), 10).await.unwrap();
    let shown = serde_json::to_string(&parked).unwrap();
    let expected = concat!(
        r#"[{"feed":"archive/documents","tenant":"t","id":"a","version":2,"#,
        r#""reason":"not this one"}]"#
    );
    assert_eq!(shown, expected);
    deliverer.end().await;
}

#[tokio::test]
async fn a_release_sends_the_present_state_and_then_the_pieces_that_follow() {
    let (archive, reader) = (Archive::new(1), Arc::new(Reader::default()));
    let a = subject("t", "a");
    reader.refuse(&["t/a 1-2"]);
    archive.store(&a, 1..=3).await;
    archive.store(&subject("t", "b"), 1..=1).await;
    let deliverer = start(&archive, &reader);
    arrived(&reader, "t/b 0-1").await;
    assert_eq!(release(&archive, &subject("t", "b")).await, Err(not_parked("b")));
    release(&archive, &a).await.unwrap();
    arrived(&reader, "t/a 1-3 state").await;
    archive.store(&a, 4..=5).await;
    arrived(&reader, "t/a 4-5").await;
    assert_eq!(reader.all(), ["t/a 0-1", "t/b 0-1", "t/a 1-3 state", "t/a 3-4", "t/a 4-5"]);
    assert_eq!(archive.parked_cell(&a).await, None, "the cell goes when it has no more use");
    assert_eq!(release(&archive, &a).await, Err(not_parked("a")));
    deliverer.end().await;
}

fn not_parked(id: &str) -> ReleaseError {
    ReleaseError::NotParked(subject("t", id))
}

/// The rows that wait behind a dead sink are in the state already when the document is released.
#[tokio::test]
async fn rows_up_to_the_released_state_are_passed_over() {
    let (archive, reader) = (Archive::new(1), Arc::new(Reader::default()));
    let (a, b) = (subject("t", "a"), subject("t", "b"));
    reader.refuse(&["t/a 0-1"]);
    archive.store(&a, 1..=1).await;
    archive.store(&b, 1..=1).await;
    let deliverer = start(&archive, &reader);
    arrived(&reader, "t/b 0-1").await;
    deliverer.end().await;
    // Nobody delivers while these are stored: they stand behind the cursor when the release is done.
    archive.store(&a, 2..=4).await;
    archive.store(&b, 2..=2).await;
    reader.refuse(&[]);
    release(&archive, &a).await.unwrap();
    let deliverer = start(&archive, &reader);
    arrived(&reader, "t/b 1-2").await;
    archive.store(&a, 5..=5).await;
    arrived(&reader, "t/a 4-5").await;
    assert_eq!(reader.all(), ["t/b 0-1", "t/a 0-4 state", "t/b 1-2", "t/a 4-5"]);
    deliverer.end().await;
}

#[tokio::test]
async fn a_released_document_can_be_refused_again() {
    let (archive, reader) = (Archive::new(1), Arc::new(Reader::default()));
    let a = subject("t", "a");
    reader.refuse(&["t/a 0-1", "t/a 0-2 state", "t/a 2-3"]);
    archive.store(&a, 1..=2).await;
    let deliverer = start(&archive, &reader);
    let is_parked = || async { archive.parked_cell(&a).await.is_some() };
    eventually("the document is parked", PATIENCE, is_parked).await;
    release(&archive, &a).await.unwrap();
    let refused = || async { Bed { store: archive.store.clone() }.parked("s").await.len() == 2 };
    eventually("the state is refused as well", PATIENCE, refused).await;
    reader.refuse(&["t/a 2-3"]);
    release(&archive, &a).await.unwrap();
    arrived(&reader, "t/a 0-2 state").await;
    archive.store(&a, 3..=3).await;
    let refused = || async { Bed { store: archive.store.clone() }.parked("s").await.len() == 3 };
    eventually("the next piece is refused", PATIENCE, refused).await;
    archive.store(&a, 4..=4).await;
    release(&archive, &a).await.unwrap();
    arrived(&reader, "t/a 2-4 state").await;
    deliverer.end().await;
}

#[tokio::test]
async fn the_release_of_a_document_that_is_gone_sends_a_delete() {
    let (archive, reader) = (Archive::new(1), Arc::new(Reader::default()));
    let a = subject("t", "a");
    reader.refuse(&["t/a 1-2"]);
    archive.store(&a, 1..=2).await;
    archive.delete(&a, 3).await;
    let deliverer = start(&archive, &reader);
    let is_parked = || async { archive.parked_cell(&a).await.is_some() };
    eventually("the document is parked", PATIENCE, is_parked).await;
    release(&archive, &a).await.unwrap();
    arrived(&reader, "t/a 1-2 delete").await;
    deliverer.end().await;
}

#[tokio::test]
async fn too_many_parked_documents_stop_the_delivery_with_an_alarm() {
    let (archive, reader) = (Archive::new(1), Arc::new(Reader::default()));
    let ids: Vec<Subject> =
        (0..=PARKED_SUBJECTS_MAX).map(|n| subject("t", &format!("{n:04}"))).collect();
    let refused: Vec<String> = ids.iter().map(|subject| format!("t/{} 0-1", subject.id)).collect();
    reader.refuse(&refused.iter().map(String::as_str).collect::<Vec<_>>());
    for id in &ids {
        archive.store(id, 1..=1).await;
    }
    archive.store(&subject("t", "last"), 1..=1).await;
    let deliverer = start(&archive, &reader);
    let stopped = || async {
        deliverer.trouble().is_some_and(|told| told.contains("has 1000 parked documents"))
    };
    eventually("the delivery stops", PATIENCE, stopped).await;
    let (_, figures) =
        deliverer.part.figures().all().map(|(n, f)| (n.clone(), f.alarms())).next().unwrap();
    assert_eq!(figures, 1);
    assert_eq!(reader.all(), [""; 0], "nothing behind the refused row is sent");
    assert_eq!(archive.parked_cell(&ids[PARKED_SUBJECTS_MAX]).await, None);

    // A release makes room for the one that could not be parked.
    release(&archive, &ids[0]).await.unwrap();
    arrived(&reader, "t/last 0-1").await;
    assert_eq!(reader.all(), ["t/0000 0-1 state", "t/last 0-1"]);
    assert!(archive.parked_cell(&ids[PARKED_SUBJECTS_MAX]).await.is_some());
    eventually("the alarm ends", PATIENCE, || async { deliverer.trouble().is_none() }).await;
    deliverer.end().await;
}

/// The reader behind a way on which requests stand still until they are let through.
#[derive(Debug)]
struct Slow {
    reader: Arc<Reader>,
    arrived: Semaphore,
    pass: Semaphore,
}

#[async_trait]
impl Sink for Slow {
    async fn deliver(&self, rows: &[Delivery]) -> Result<(), Failed> {
        self.arrived.add_permits(1);
        self.pass.acquire().await.unwrap().forget();
        self.reader.take(rows)
    }
}

fn timing(request_within: Duration) -> Options {
    let timing = Timing { request_within, slack: Duration::ZERO };
    Options { timing, ..Bed::new().options() }
}

/// The first deliverer is stopped with the state of a release under way. The second releases the document and sends
/// newer pieces. Then the old state arrives and would stand over them.
#[tokio::test]
async fn a_state_of_a_stopped_deliverer_that_arrives_late_is_made_good() {
    let (archive, reader) = (Archive::new(1), Arc::new(Reader::default()));
    let a = subject("t", "a");
    reader.refuse(&["t/a 0-1"]);
    archive.store(&a, 1..=2).await;
    let deliverer = start(&archive, &reader);
    let is_parked = || async { archive.parked_cell(&a).await.is_some() };
    eventually("the document is parked", PATIENCE, is_parked).await;
    deliverer.end().await;
    release(&archive, &a).await.unwrap();

    let (arrivals, pass) = (Semaphore::new(0), Semaphore::new(0));
    let slow = Arc::new(Slow { reader: reader.clone(), arrived: arrivals, pass });
    let stopped = archive.deliver(slow.clone(), SendMode::Pieces, timing(PATIENCE));
    slow.arrived.acquire().await.unwrap().forget();
    stopped.drop_work();

    let within = Duration::from_millis(50);
    let second = archive.deliver(reader.clone(), SendMode::Pieces, timing(within));
    arrived(&reader, "t/a 0-2 state").await;
    archive.store(&a, 3..=3).await;
    arrived(&reader, "t/a 2-3").await;
    slow.pass.add_permits(1);
    let late = || async { reader.all().len() > 2 };
    eventually("the late state arrives", PATIENCE, late).await;
    arrived(&reader, "t/a 0-3 state").await;
    assert_eq!(reader.applied.lock()["a"], 3);
    archive.store(&a, 4..=4).await;
    arrived(&reader, "t/a 3-4").await;
    assert_eq!(*reader.gaps.lock(), [""; 0]);
    second.end().await;
}

#[tokio::test]
async fn a_takeover_in_the_middle_of_a_release_releases_the_document_once_more() {
    let (archive, reader) = (Archive::new(1), Arc::new(Reader::default()));
    let a = subject("t", "a");
    reader.refuse(&["t/a 0-1"]);
    archive.store(&a, 1..=1).await;
    let deliverer = start(&archive, &reader);
    let is_parked = || async { archive.parked_cell(&a).await.is_some() };
    eventually("the document is parked", PATIENCE, is_parked).await;
    deliverer.end().await;
    release(&archive, &a).await.unwrap();
    // This one never gets an answer, and its request is given up.
    let within = Duration::from_millis(100);
    let (arrivals, pass) = (Semaphore::new(0), Semaphore::new(0));
    let slow = Arc::new(Slow { reader: reader.clone(), arrived: arrivals, pass });
    let first = archive.deliver(slow.clone(), SendMode::Pieces, timing(within));
    slow.arrived.acquire().await.unwrap().forget();
    first.drop_work();
    archive.store(&a, 2..=2).await;
    let second = archive.deliver(reader.clone(), SendMode::Pieces, timing(within));
    arrived(&reader, "t/a 0-2 state").await;
    archive.store(&a, 3..=3).await;
    arrived(&reader, "t/a 2-3").await;
    assert_eq!(reader.all(), ["t/a 0-2 state", "t/a 2-3"]);
    second.end().await;
}

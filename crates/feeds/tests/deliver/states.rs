//! Sinks that take states: each changed document as it is at delivery.

use std::sync::Arc;

use consort_feeds::SendMode;
use consort_testbed::eventually;

use crate::bed::{Bed, PATIENCE};
use crate::documents::{Archive, Reader, subject};

#[tokio::test]
async fn a_run_of_changes_is_sent_as_the_present_state_of_each_document() {
    let (archive, reader) = (Archive::new(1), Arc::new(Reader::default()));
    let (a, b, c) = (subject("t", "a"), subject("t", "b"), subject("t", "c"));
    archive.store(&a, 1..=2).await;
    archive.store(&b, 1..=1).await;
    archive.store(&c, 1..=1).await;
    archive.store(&a, 3..=4).await;
    archive.delete(&c, 2).await;
    let deliverer = archive.deliver(reader.clone(), SendMode::States, Bed::new().options());
    let all = ["t/a 0-4 state", "t/b 0-1 state", "t/c 0-2 delete"];
    eventually("the states arrive", PATIENCE, || async { reader.all() == all }).await;
    archive.store(&a, 5..=5).await;
    let all = [&all[..], &["t/a 4-5 state"]].concat();
    eventually("the next state arrives", PATIENCE, || async { reader.all() == all }).await;
    deliverer.end().await;
}

#[tokio::test]
async fn a_refused_state_is_parked_alone() {
    let (archive, reader) = (Archive::new(1), Arc::new(Reader::default()));
    let (a, b) = (subject("t", "a"), subject("t", "b"));
    archive.store(&a, 1..=2).await;
    archive.store(&b, 1..=2).await;
    reader.refuse(&["t/a 0-2 state"]);
    let deliverer = archive.deliver(reader.clone(), SendMode::States, Bed::new().options());
    eventually("the other arrives", PATIENCE, || async { reader.all() == ["t/b 0-2 state"] }).await;
    assert_eq!(archive.parked_cell(&a).await, None);
    archive.store(&a, 3..=3).await;
    let all = ["t/b 0-2 state", "t/a 2-3 state"];
    eventually("the next state of it arrives", PATIENCE, || async { reader.all() == all }).await;
    let parked = Bed { store: archive.store.clone() }.parked("s").await;
    assert_eq!(parked.iter().map(|parked| parked.number).collect::<Vec<_>>(), [1]);
    deliverer.end().await;
}

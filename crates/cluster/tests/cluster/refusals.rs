//! Work that gives up, breaks, or finds a loss.

use std::time::Duration;

use consort_cluster::refusal::{REFUSE_FOR, REST};
use consort_cluster::{ClusterNode, Role, request_drain};
use tokio::time::Instant;

use crate::player::Manner;
use crate::stage::{Stage, TTL};

/// A role of two nodes that is meant for `a` and behaves like this there.
async fn on_two_nodes(manner: Manner) -> (Stage, Role, [ClusterNode; 2]) {
    let stage = Stage::with_roles(8);
    let meant = stage.meant(&["a", "b"]);
    let role = meant.iter().find(|(_, id)| *id == "a").map(|(role, _)| role.clone()).unwrap();
    let nodes = [stage.node("a").await, stage.node("b").await];
    stage.settled(&["a", "b"]).await;
    // From here on it does not work on `a`. It leaves once, and comes back.
    stage.record.set("a", &role, manner);
    (stage, role, nodes)
}

async fn given_up(manner: Manner, reason: &str) {
    let (stage, role, nodes) = on_two_nodes(manner).await;
    let [a, _b] = nodes;
    drop(a);
    stage.settled(&["b"]).await;
    let _a = stage.node("a").await;
    let at_b = async || stage.record.working().get(&role).is_some_and(|id| id == "b");
    stage.until("it is refused", async || !stage.status_of(&role).await.refusals.is_empty()).await;
    let since = Instant::now();
    stage.until("the other works on it", at_b).await;
    let told = stage.status_of(&role).await.refusals;
    assert_eq!((told[0].node.as_str(), told[0].reason.as_str()), ("a", reason));
    // It is not handed straight back: the other keeps it for as long as the refusal lasts.
    let shifts = stage.record.shifts_of(&role).len();
    tokio::time::sleep(REFUSE_FOR.saturating_sub(since.elapsed() + Duration::from_secs(1))).await;
    assert!(at_b().await);
    assert_eq!(stage.record.shifts_of(&role).len(), shifts);
    // Then it is tried again, where it belongs.
    stage.record.set("a", &role, Manner::Obeys);
    stage.settled(&["a", "b"]).await;
    assert!(stage.status_of(&role).await.refusals.is_empty());
    stage.record.assert_no_overlap();
}

#[tokio::test(start_paused = true)]
async fn a_role_that_was_given_up_goes_elsewhere_for_a_while() {
    given_up(Manner::Yields("it stands still"), "it stands still").await;
}

#[tokio::test(start_paused = true)]
async fn work_that_panics_goes_elsewhere_with_the_text() {
    let role = Stage::with_roles(8).meant(&["a", "b"]);
    let role = role.iter().find(|(_, id)| *id == "a").map(|(role, _)| role.clone()).unwrap();
    given_up(Manner::Panics("out of luck"), &format!("work {role} panicked: out of luck")).await;
}

#[tokio::test(start_paused = true)]
async fn work_that_returns_unasked_goes_elsewhere() {
    given_up(Manner::Quits, "it ended by itself").await;
}

#[tokio::test(start_paused = true)]
async fn a_role_that_nobody_can_do_is_tried_again_after_a_rest() {
    let stage = Stage::with_roles(1);
    let role = stage.role(0);
    stage.record.set("a", &role, Manner::Yields("no luck"));
    let _node = stage.node("a").await;
    tokio::time::sleep(REST * 10).await;
    let tries = stage.record.shifts_of(&role).len();
    assert!((9..=11).contains(&tries), "{tries} tries in ten rests");
    stage.record.set("a", &role, Manner::Obeys);
    stage.settled(&["a"]).await;
}

async fn stopped(manner: Manner) {
    let stage = Stage::with_roles(8);
    let meant = (stage.meant(&["a"]), stage.meant(&["a", "b"]));
    let moves = |id: &&Role| meant.0[*id] == "a" && meant.1[*id] == "b";
    let role = meant.0.keys().find(moves).unwrap().clone();
    stage.record.set("a", &role, manner.clone());
    stage.record.set("b", &role, manner);
    let _a = stage.node("a").await;
    stage.until("it stopped", async || stage.status_of(&role).await.stopped.is_some()).await;
    // It belongs to the other, but stays.
    let _b = stage.node("b").await;
    let others = async || {
        let status = stage.status().await;
        status.roles.iter().all(|r| r.role == role || r.owner.as_ref() == Some(&meant.1[&r.role]))
    };
    stage.until("all others are shared", others).await;
    tokio::time::sleep(TTL * 5).await;
    let status = stage.status_of(&role).await;
    assert_eq!((status.owner.as_deref(), status.epoch), (Some("a"), 1));
    assert_eq!(status.stopped.as_deref(), Some("the log lost its tail"));
    assert_eq!(stage.record.shifts_of(&role).len(), 1, "and is not tried again");
    // When its node retires, it stops where it goes.
    request_drain(&*stage.memory, "a").await.unwrap();
    let moved = async || {
        let status = stage.status_of(&role).await;
        status.owner.as_deref() == Some("b") && status.stopped.is_some()
    };
    stage.until("it stopped there", moved).await;
    assert_eq!(stage.status_of(&role).await.epoch, 2);
}

#[tokio::test(start_paused = true)]
async fn a_role_that_stopped_stays_visibly_until_its_node_retires() {
    stopped(Manner::Stops("the log lost its tail")).await;
}

#[tokio::test(start_paused = true)]
async fn work_that_stands_still_for_a_loss_stays_as_well() {
    stopped(Manner::StandsStill("the log lost its tail")).await;
}

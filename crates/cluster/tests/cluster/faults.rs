//! Stores that do not answer, fail, forget, or do not know; nodes that were out of touch.

use std::sync::Arc;
use std::time::Duration;

use consort_cluster::{ClusterNode, Health, Holder, Lease, Left, Options, keys};
use consort_kernel::{Shard, Timestamp};
use tokio::time::Instant;

use crate::stage::{HEARTBEAT, Stage, TTL};
use crate::unsound::Mode;

async fn out_of_touch(mode: Mode) {
    let stage = Stage::with_roles(8);
    let store = stage.store();
    let node = stage.node_on("a", &store).await;
    stage.settled(&["a"]).await;
    store.behave(mode);
    stage.until("all work is dropped", async || stage.record.working().is_empty()).await;
    for n in 0..8 {
        let role = stage.role(n);
        let dropped = stage.record.shifts_of(&role)[0].ended.unwrap();
        let lease = stage.lease(&role).await;
        assert!(dropped < lease.until, "{role}: dropped at {dropped}, lapses at {}", lease.until);
        // Not at the first trouble either: it could have gone on until about then.
        assert!(dropped.after(HEARTBEAT + Duration::from_millis(1)) >= lease.until);
    }
    assert!(matches!(node.handle().health(), Health::Fenced { .. }));
    assert_eq!(*stage.witness.fenced.lock(), [8]);
    tokio::time::sleep(TTL * 3).await;
    store.behave(Mode::Sound);
    stage.settled(&["a"]).await;
    assert_eq!(node.handle().health(), Health::Member);
    for role in stage.roles.lock().iter() {
        let epochs: Vec<u64> =
            stage.record.shifts_of(role).iter().map(|shift| shift.epoch).collect();
        assert_eq!(epochs, [1, 2], "{role}");
    }
    assert_eq!(stage.member("a").await.unwrap().incarnation, node.handle().incarnation());
}

#[tokio::test(start_paused = true)]
async fn a_node_whose_store_is_silent_drops_its_work_before_its_leases_lapse() {
    out_of_touch(Mode::Silent).await;
}

#[tokio::test(start_paused = true)]
async fn a_node_whose_store_fails_drops_its_work_before_its_leases_lapse() {
    out_of_touch(Mode::Failing).await;
}

/// Commits take longer than a lease lasts.
const SLOW: Mode = Mode::Slow(Duration::from_secs(7));

#[tokio::test(start_paused = true)]
async fn a_node_on_a_shared_store_that_is_slow_drops_its_work_before_its_leases_lapse() {
    out_of_touch(SLOW).await;
}

async fn alone_and_out_of_touch(mode: Mode) {
    let stage = Stage::with_roles(8);
    let store = stage.store();
    let (shared, lease_store) = (Arc::clone(&store) as _, Arc::clone(&store) as _);
    let options = Options { sole: true, store: shared, lease_store, ..stage.options("a") };
    let node = ClusterNode::join(options).await.expect("joins");
    stage.settled(&["a"]).await;
    store.behave(mode);
    let late = || matches!(node.handle().health(), Health::Late { .. });
    stage.until("the heartbeats are late", async || late()).await;
    tokio::time::sleep(TTL * 10).await;
    assert!(late());
    assert_eq!(node.handle().health().trouble(), None);
    store.behave(Mode::Sound);
    let well = async || node.handle().health() == Health::Member;
    stage.until("the heartbeats are in time", well).await;
    stage.settled(&["a"]).await;
    assert_eq!(stage.record.shifts().len(), 8, "no work was interrupted");
    assert_eq!(*stage.witness.fenced.lock(), Vec::<usize>::new());
}

#[tokio::test(start_paused = true)]
async fn a_sole_node_whose_store_is_slow_keeps_its_work() {
    alone_and_out_of_touch(SLOW).await;
}

#[tokio::test(start_paused = true)]
async fn a_sole_node_whose_store_is_silent_keeps_its_work() {
    alone_and_out_of_touch(Mode::Silent).await;
}

#[tokio::test(start_paused = true)]
async fn a_sole_node_whose_store_fails_keeps_its_work() {
    alone_and_out_of_touch(Mode::Failing).await;
}

#[tokio::test(start_paused = true)]
async fn a_short_silence_interrupts_nothing() {
    let stage = Stage::with_roles(8);
    let store = stage.store();
    let _node = stage.node_on("a", &store).await;
    stage.settled(&["a"]).await;
    for _ in 0..5 {
        store.behave(Mode::Silent);
        tokio::time::sleep(TTL / 2).await;
        store.behave(Mode::Sound);
        tokio::time::sleep(HEARTBEAT).await;
    }
    assert_eq!(stage.record.shifts().len(), 8);
}

#[tokio::test(start_paused = true)]
async fn others_take_over_from_a_node_that_is_out_of_touch_and_it_comes_back() {
    let stage = Stage::with_roles(16);
    let store = stage.store();
    let (_a, _b) = (stage.node("a").await, stage.node_on("b", &store).await);
    stage.settled(&["a", "b"]).await;
    store.behave(Mode::Silent);
    stage.settled(&["a"]).await;
    store.behave(Mode::Sound);
    stage.settled(&["a", "b"]).await;
    stage.record.assert_no_overlap();
}

#[tokio::test(start_paused = true)]
async fn outcomes_that_nobody_knows_are_looked_up() {
    let stage = Stage::with_roles(16);
    let stores = [stage.store(), stage.store()];
    stores.iter().for_each(|store| store.behave(Mode::Unknowing));
    let a = stage.node_on("a", &stores[0]).await;
    let b = stage.node_on("b", &stores[1]).await;
    stage.settled(&["a", "b"]).await;
    tokio::time::sleep(TTL * 5).await;
    stage.settled(&["a", "b"]).await;
    b.handle().drain().await.unwrap();
    assert_eq!(b.ended().await, Left::Drained);
    stage.settled(&["a"]).await;
    assert_eq!(*stage.witness.fenced.lock(), Vec::<usize>::new());
    assert_eq!(*stage.witness.lost.lock(), []);
    stage.record.assert_no_overlap();
    a.handle().stop();
    assert_eq!(a.ended().await, Left::Stopped);
    assert!(stage.status().await.roles.iter().all(|role| role.owner.is_none()));
}

#[tokio::test(start_paused = true)]
async fn a_role_that_somebody_took_is_dropped_at_the_next_heartbeat() {
    let stage = Stage::with_roles(4);
    let _node = stage.node("a").await;
    stage.settled(&["a"]).await;
    let role = stage.role(1);
    let thief = Holder { id: "thief".into(), incarnation: 9 };
    let before = stage.lease(&role).await;
    let stolen = Lease::acquired_by(&thief, Some(&before), stage.clock.now(), TTL);
    stage.force(keys::lease(&role), &stolen).await;
    let taken = Instant::now();
    stage.until("it is dropped", async || stage.record.working().len() == 3).await;
    assert!(taken.elapsed() <= HEARTBEAT + Duration::from_millis(20));
    assert_eq!(*stage.witness.lost.lock(), std::slice::from_ref(&role));
    // The thief does not renew: the role comes back under the next epoch, the others never left.
    stage.settled(&["a"]).await;
    assert_eq!(stage.lease(&role).await.epoch, before.epoch + 2);
    assert_eq!(stage.record.shifts().len(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_node_whose_id_was_taken_meanwhile_ends_and_says_so() {
    let stage = Stage::with_roles(4);
    let store = stage.store();
    let old = stage.node_on("a", &store).await;
    stage.settled(&["a"]).await;
    store.behave(Mode::Silent);
    let _new = stage.node("a").await;
    stage.settled(&["a"]).await;
    store.behave(Mode::Sound);
    let left = old.ended().await;
    assert_eq!(left, Left::Replaced { address: "a.example:7400".into() });
    assert!(left.to_string().contains("give each node an id of its own"), "{left}");
    stage.settled(&["a"]).await;
    assert_eq!(stage.record.shifts().len(), 8, "the new one went on undisturbed");
}

#[tokio::test(start_paused = true)]
async fn a_store_that_went_back_is_told_again_what_it_forgot() {
    let stage = Stage::with_roles(8);
    let empty = stage.memory.image(Shard(0));
    let (_a, _b) = (stage.node("a").await, stage.node("b").await);
    stage.settled(&["a", "b"]).await;
    stage.memory.roll_back(Shard(0), empty);
    assert!(stage.roster().await.members.is_empty());
    // Both are members again, and the work is shared as before, whoever was seen first.
    stage.settled(&["a", "b"]).await;
    tokio::time::sleep(TTL * 2).await;
    stage.settled(&["a", "b"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_lone_node_goes_on_when_the_store_went_back() {
    let stage = Stage::with_roles(8);
    let empty = stage.memory.image(Shard(0));
    let _node = stage.node("a").await;
    stage.settled(&["a"]).await;
    stage.memory.roll_back(Shard(0), empty);
    stage.until("leases are back", async || stage.roster().await.leases.len() == 8).await;
    tokio::time::sleep(TTL * 2).await;
    stage.settled(&["a"]).await;
    assert_eq!(stage.record.shifts().len(), 8, "no work was interrupted");
}

#[tokio::test(start_paused = true)]
async fn a_node_can_be_stopped_although_the_store_is_silent() {
    let stage = Stage::with_roles(4);
    let store = stage.store();
    let node = stage.node_on("a", &store).await;
    stage.settled(&["a"]).await;
    store.behave(Mode::Silent);
    let asked = Instant::now();
    node.handle().stop();
    assert_eq!(node.ended().await, Left::Stopped);
    assert!(asked.elapsed() < Duration::from_secs(30));
    assert!(stage.record.working().is_empty());
}

#[tokio::test(start_paused = true)]
async fn cells_of_another_release_are_passed_over() {
    let stage = Stage::with_roles(4);
    let locked = stage.role(2);
    stage.force(keys::lease(&locked), &"not a lease").await;
    stage.force(keys::root().with("vote"), &Timestamp(7).0).await;
    let _node = stage.node("a").await;
    stage.until("the others are worked on", async || stage.record.working().len() == 3).await;
    tokio::time::sleep(TTL * 3).await;
    assert_eq!(stage.record.shifts().len(), 3);
    let status = stage.status().await;
    assert_eq!(status.unreadable.len(), 2, "{:?}", status.unreadable);
}

#[tokio::test(start_paused = true)]
async fn more_leases_than_fit_one_commit_are_renewed_in_several() {
    let stage = Stage::with_roles(900);
    let (_a, _b) = (stage.node("a").await, stage.node("b").await);
    stage.settled(&["a", "b"]).await;
    tokio::time::sleep(TTL * 2).await;
    stage.settled(&["a", "b"]).await;
    stage.record.assert_no_overlap();
    let store = stage.roster().await;
    assert_eq!(store.leases.len(), 900);
    assert_eq!(*stage.witness.lost.lock(), []);
}

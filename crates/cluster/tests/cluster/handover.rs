//! How roles change hands when nodes die, drain and stop, and how long nobody works on them.

use std::sync::Arc;
use std::time::Duration;

use consort_cluster::{
    ClusterNode, DrainError, Health, Left, Options, Pause, PauseCause, request_drain,
};
use consort_kernel::Store;
use tokio::time::Instant;

use crate::player::Manner;
use crate::stage::{HEARTBEAT, Stage, TTL};
use crate::unsound::{Mode, UnsoundStore};

#[tokio::test(start_paused = true)]
async fn the_roles_of_a_killed_node_are_taken_over_under_new_epochs() {
    let stage = Stage::with_roles(32);
    let _staying = [stage.node("a").await, stage.node("b").await];
    let killed = stage.node("c").await;
    stage.settled(&["a", "b", "c"]).await;
    let roles = stage.record.working_on("c");
    assert!(!roles.is_empty());
    let before = stage.roster().await;
    drop(killed);
    stage.settled(&["a", "b"]).await;
    let after = stage.roster().await;
    for role in &roles {
        let epoch = before.leases[role].value.epoch;
        assert_eq!(after.leases[role].value.epoch, epoch + 1, "{role}");
    }
    stage.record.assert_no_overlap();
    let pauses = stage.pauses(PauseCause::TakenOver);
    assert_eq!(pauses.len(), roles.len());
    for pause in pauses {
        // From the last renewal on: a whole time to live, and what it takes to notice.
        assert!(TTL <= pause && pause <= TTL + Duration::from_millis(50), "{pause:?}");
    }
    let handle = stage.status().await;
    let dead = handle.nodes.iter().find(|node| node.id == "c").expect("it is still told of");
    assert!(!dead.live);
}

#[tokio::test(start_paused = true)]
async fn a_retired_node_hands_everything_over_and_leaves() {
    let stage = Stage::with_roles(32);
    let (a, b) = (stage.node("a").await, stage.node("b").await);
    stage.settled(&["a", "b"]).await;
    let roles = stage.record.working_on("b").len();
    // Those of roles that the first node took before the second one had joined.
    let earlier = stage.pauses(PauseCause::HandedOver).len();
    let asked = Instant::now();
    request_drain(&*stage.memory, "b").await.unwrap();
    assert_eq!(b.handle().ended().await, Left::Drained);
    assert_eq!(b.handle().health(), Health::Left(Left::Drained));
    stage.settled(&["a"]).await;
    // Nobody waited for a lease to lapse, nor for a heartbeat or a look that was due anyhow.
    assert!(asked.elapsed() < HEARTBEAT + Duration::from_millis(50));
    let pauses = stage.pauses(PauseCause::HandedOver).split_off(earlier);
    assert_eq!(pauses.len(), roles);
    assert!(pauses.iter().all(|pause| *pause < Duration::from_millis(20)), "{pauses:?}");
    stage.record.assert_no_overlap();
    let roster = stage.roster().await;
    assert!(!roster.members.contains_key("b") && !roster.reports.contains_key("b"));
    assert!(roster.drains.is_empty());
    assert_eq!(a.handle().health(), Health::Member);
}

#[tokio::test(start_paused = true)]
async fn only_a_node_that_can_be_spared_is_retired() {
    let stage = Stage::with_roles(4);
    let (a, _b) = (stage.node("a").await, stage.node("b").await);
    stage.settled(&["a", "b"]).await;
    let unknown = request_drain(&*stage.memory, "x").await.unwrap_err();
    assert_eq!(unknown.to_string(), "there is no live node 'x': there are a, b");
    // Both at once: the one has looked, then the other is taken, and the one finds it.
    let slow = stage.store();
    slow.behave(Mode::Withholding);
    let quick = async {
        let taken = request_drain(&*stage.memory, "a").await;
        let again = request_drain(&*stage.memory, "a").await;
        slow.behave(Mode::Sound);
        (taken, again)
    };
    let (late, quick) = tokio::join!(request_drain(&*slow, "b"), quick);
    assert_eq!(quick, (Ok(()), Ok(())), "asking again changes nothing");
    assert_eq!(late, Err(DrainError::Last { id: "b".into() }));
    assert_eq!(a.ended().await, Left::Drained);
    stage.settled(&["b"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_stopped_node_hands_over_and_leaves() {
    let stage = Stage::with_roles(8);
    let (_a, b) = (stage.node("a").await, stage.node("b").await);
    stage.settled(&["a", "b"]).await;
    b.handle().stop();
    assert_eq!(b.ended().await, Left::Stopped);
    stage.settled(&["a"]).await;
    stage.record.assert_no_overlap();
}

#[tokio::test(start_paused = true)]
async fn work_that_will_not_end_is_dropped_when_its_time_is_over() {
    let stage = Stage::with_roles(2);
    for n in 0..2 {
        stage.record.set("a", &stage.role(n), Manner::Ignores);
    }
    let node = stage.node("a").await;
    stage.settled(&["a"]).await;
    let asked = Instant::now();
    node.handle().stop();
    stage.until("it is leaving", async || node.handle().health() == Health::Leaving).await;
    assert_eq!(node.ended().await, Left::Stopped);
    assert!(asked.elapsed() <= Duration::from_secs(11));
    assert!(stage.record.working().is_empty());
    assert!(stage.status().await.roles.iter().all(|role| role.owner.is_none()));
}

#[tokio::test(start_paused = true)]
async fn the_pause_of_a_role_is_told_in_the_status() {
    let stage = Stage::with_roles(1);
    let first = stage.node("a").await;
    stage.settled(&["a"]).await;
    let role = stage.role(0);
    stage.until("it is told", async || stage.status_of(&role).await.pause.is_some()).await;
    let status = stage.status_of(&role).await;
    assert_eq!(status.pause, Some(Pause { cause: PauseCause::First, millis: 0 }));
    assert_eq!((status.applied, status.epoch), (7, 1));
    first.handle().stop();
    first.ended().await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let _second = stage.node("b").await;
    stage.settled(&["b"]).await;
    let status = stage.status_of(&role).await;
    assert_eq!(status.pause, Some(Pause { cause: PauseCause::HandedOver, millis: 5000 }));
}

#[tokio::test(start_paused = true)]
async fn news_of_a_node_that_joins_and_of_released_roles_waits_for_nothing() {
    let stage = Stage::with_roles(32);
    let _first = stage.node("a").await;
    stage.settled(&["a"]).await;
    // Between two heartbeats and two looks.
    tokio::time::sleep(HEARTBEAT / 3).await;
    let joined = Instant::now();
    let _second = stage.node("b").await;
    let meant = stage.meant(&["a", "b"]);
    stage.until("the work is shared", async || stage.record.working() == meant).await;
    assert!(joined.elapsed() < Duration::from_millis(50), "{:?}", joined.elapsed());
    let pauses = stage.pauses(PauseCause::HandedOver);
    assert!(!pauses.is_empty() && pauses.iter().all(Duration::is_zero), "{pauses:?}");
}

#[tokio::test(start_paused = true)]
async fn without_wakes_the_work_is_shared_all_the_same_only_later() {
    let stage = Stage::with_roles(16);
    let store = || UnsoundStore::new(Arc::clone(&stage.memory) as Arc<dyn Store>, true);
    let join = async |id| {
        let store = store();
        let options = Options { lease_store: store as Arc<dyn Store>, ..stage.options(id) };
        ClusterNode::join(options).await.unwrap()
    };
    let _nodes = [join("a").await, join("b").await];
    stage.settled(&["a", "b"]).await;
    request_drain(&*stage.memory, "b").await.unwrap();
    stage.settled(&["a"]).await;
    stage.record.assert_no_overlap();
}

#[tokio::test(start_paused = true)]
async fn a_settled_cluster_looks_about_once_in_a_time_to_live() {
    let stage = Stage::with_roles(16);
    let store = stage.store();
    let _nodes = [stage.node_on("a", &store).await, stage.node("b").await];
    stage.settled(&["a", "b"]).await;
    let before = store.scans();
    tokio::time::sleep(TTL * 10).await;
    let looks = (store.scans() - before) / 2;
    assert!((9..=14).contains(&looks), "{looks} looks in ten times to live");
}

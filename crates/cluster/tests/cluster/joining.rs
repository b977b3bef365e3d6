//! Joining: who is let in, who waits, and how the work is shared then.

use std::sync::Arc;
use std::time::Duration;

use consort_cluster::member::Member;
use consort_cluster::ownership::bound;
use consort_cluster::{ClusterNode, DrainError, Health, JoinError, Left, Options, Role, keys};
use consort_kernel::Store;
use tokio::time::Instant;

use crate::stage::{HEARTBEAT, Stage, TTL};
use crate::unsound::Mode;

#[tokio::test(start_paused = true)]
async fn three_nodes_share_all_roles_as_the_pure_function_says() {
    let stage = Stage::with_roles(64);
    let nodes = [stage.node("a").await, stage.node("b").await, stage.node("c").await];
    stage.settled(&["a", "b", "c"]).await;
    let status = nodes[0].handle().status().await.unwrap();
    assert_eq!(status.roles.len(), 64);
    for id in ["a", "b", "c"] {
        let roles = stage.record.working_on(id).len();
        assert!(0 < roles && roles <= bound(64, 3), "{id} has {roles}");
    }
    stage.record.assert_no_overlap();
    // The load is told by the next heartbeat.
    let told = async || stage.status().await.nodes.iter().map(|node| node.load).sum::<u64>() == 64;
    stage.until("the load is told", told).await;
    let node = &stage.status().await.nodes[0];
    assert_eq!((node.address.as_str(), node.version.as_str()), ("a.example:7400", "0.1.0"));
}

#[tokio::test(start_paused = true)]
async fn a_node_that_joins_leaves_alone_what_need_not_move() {
    let stage = Stage::with_roles(64);
    let _nodes = [stage.node("a").await, stage.node("b").await];
    stage.settled(&["a", "b"]).await;
    let before = (stage.meant(&["a", "b"]), stage.roster().await);
    let _third = stage.node("c").await;
    stage.settled(&["a", "b", "c"]).await;
    let (after, roster) = (stage.meant(&["a", "b", "c"]), stage.roster().await);
    for (role, owner) in &before.0 {
        let epochs = before.1.leases[role].value.epoch..=roster.leases[role].value.epoch;
        let moved = *owner != after[role];
        assert_eq!(epochs.count(), if moved { 2 } else { 1 }, "{role}");
    }
    stage.record.assert_no_overlap();
}

#[tokio::test(start_paused = true)]
async fn an_id_that_a_living_node_has_is_refused_with_what_to_do() {
    let stage = Stage::with_roles(4);
    let _first = stage.node("a").await;
    let refused = ClusterNode::join(stage.options("a")).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "the node id 'a' is in use: a living node at a.example:7400 (version 0.1.0) has it; choose \
         another id with --node, or stop that node first"
    );
    stage.settled(&["a"]).await;
    assert_eq!(stage.record.shifts().len(), 4, "the first went on undisturbed");
}

#[tokio::test(start_paused = true)]
async fn a_dead_predecessor_is_waited_out() {
    let stage = Stage::with_roles(8);
    let first = stage.node("a").await;
    stage.settled(&["a"]).await;
    drop(first);
    let died = Instant::now();
    let lapses = stage.member("a").await.unwrap().until;
    let _second = stage.node("a").await;
    assert!(stage.clock.now() >= lapses);
    assert!(died.elapsed() <= TTL);
    stage.settled(&["a"]).await;
    for role in stage.roles.lock().iter() {
        let epochs: Vec<u64> =
            stage.record.shifts_of(role).iter().map(|shift| shift.epoch).collect();
        assert_eq!(epochs, [1, 2], "{role}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_last_heartbeat_on_its_way_is_no_sign_of_life() {
    let stage = Stage::with_roles(1);
    let now = stage.clock.now();
    let dead = Member {
        id: "a".into(),
        incarnation: 77,
        address: "x".into(),
        version: "x".into(),
        since: now,
        load: 0,
        draining: false,
        renewed: now,
        until: now.after(TTL),
    };
    stage.force(keys::member("a"), &dead).await;
    let late = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        stage.force(keys::member("a"), &dead.renewed(stage.clock.now(), TTL)).await;
    };
    let (joined, ()) = tokio::join!(ClusterNode::join(stage.options("a")), late);
    joined.expect("it was dead after all");
}

#[tokio::test(start_paused = true)]
async fn an_id_is_free_as_soon_as_its_node_has_left() {
    let stage = Stage::with_roles(4);
    let first = stage.node("a").await;
    stage.settled(&["a"]).await;
    first.handle().stop();
    assert_eq!(first.ended().await, Left::Stopped);
    let left = Instant::now();
    let _second = stage.node("a").await;
    assert_eq!(left.elapsed(), Duration::ZERO);
    stage.settled(&["a"]).await;
    stage.record.assert_no_overlap();
}

#[tokio::test(start_paused = true)]
async fn whoever_is_alone_finds_earlier_leases_void() {
    let stage = Stage::with_roles(8);
    let first = stage.node("a").await;
    let other = stage.node("b").await;
    stage.settled(&["a", "b"]).await;
    drop((first, other));
    let opened = Instant::now();
    let node = ClusterNode::join(Options { sole: true, ..stage.options("a") }).await.unwrap();
    let handle = node.handle();
    stage
        .until("all work goes on", async || {
            stage.record.working_on("a").len() == 8
                && handle.status().await.unwrap().roles.iter().all(|role| role.ready)
        })
        .await;
    // Only for the report to be written: nothing waited for a lease to lapse.
    assert!(opened.elapsed() <= HEARTBEAT + HEARTBEAT);
    let live: Vec<bool> = handle.status().await.unwrap().nodes.iter().map(|n| n.live).collect();
    assert_eq!(live, [true, false]);
    assert!(matches!(handle.drain().await, Err(DrainError::Last { .. })));
    assert_eq!(handle.health(), Health::Member);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_work_is_refused_at_once() {
    let stage = Stage::with_roles(1);
    let bad = ClusterNode::join(stage.options("a b")).await.unwrap_err();
    assert!(matches!(bad, JoinError::Id(_)), "{bad}");
    let slow = Options { heartbeat: TTL, ..stage.options("a") };
    let bad = ClusterNode::join(slow).await.unwrap_err();
    assert!(matches!(bad, JoinError::Timing { .. }), "{bad}");
    stage.force(keys::member("a"), &"not a member").await;
    let bad = ClusterNode::join(stage.options("a")).await.unwrap_err();
    assert!(matches!(bad, JoinError::Unreadable { .. }), "{bad}");
}

#[tokio::test(start_paused = true)]
async fn a_store_that_fails_for_a_while_is_asked_again() {
    let stage = Stage::with_roles(1);
    let store = stage.store();
    store.behave(Mode::Failing);
    let lease_store = || Arc::clone(&store) as Arc<dyn Store>;
    let options = || Options { lease_store: lease_store(), ..stage.options("a") };
    let failed = ClusterNode::join(options()).await.unwrap_err();
    assert!(matches!(failed, JoinError::Store(_)), "{failed}");
    let recovers = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        store.behave(Mode::Sound);
    };
    let (joined, ()) = tokio::join!(ClusterNode::join(options()), recovers);
    let _node = joined.expect("it answers again");
    stage.settled(&["a"]).await;
}

#[tokio::test(start_paused = true)]
async fn roles_that_a_part_brings_later_are_taken_when_told() {
    let stage = Stage::with_roles(2);
    let node = stage.node("a").await;
    stage.settled(&["a"]).await;
    stage.roles.lock().push(Role::new("closer", "x"));
    let told = Instant::now();
    node.handle().roles_changed();
    stage.until("it is worked on", async || stage.record.working().len() == 3).await;
    assert!(told.elapsed() < HEARTBEAT);
    stage.roles.lock().remove(0);
    node.handle().roles_changed();
    stage.until("it is let go", async || stage.record.working().len() == 2).await;
}

//! Roles of one group are on different nodes, while the nodes suffice (C9).

use std::collections::BTreeMap;

use consort_cluster::Role;

use crate::player::REPLICA;
use crate::stage::Stage;

fn replicas(count: usize) -> Vec<Role> {
    (0..count).map(|n| Role::new(REPLICA, format!("notes/{n}"))).collect()
}

#[tokio::test(start_paused = true)]
async fn c9_replicas_are_on_different_nodes_and_one_more_moves_none() {
    let stage = Stage::with_roles(0);
    *stage.roles.lock() = replicas(2);
    let nodes = (stage.node("a").await, stage.node("b").await);
    stage.settled(&["a", "b"]).await;
    let before: BTreeMap<Role, String> = stage.record.working();
    assert_ne!(before[&replicas(2)[0]], before[&replicas(2)[1]]);
    let epochs =
        [stage.lease(&replicas(2)[0]).await.epoch, stage.lease(&replicas(2)[1]).await.epoch];

    *stage.roles.lock() = replicas(3);
    nodes.0.handle().roles_changed();
    nodes.1.handle().roles_changed();
    stage.settled(&["a", "b"]).await;
    for (role, owner) in before {
        assert_eq!(stage.record.working()[&role], owner, "{role}");
    }
    let after =
        [stage.lease(&replicas(2)[0]).await.epoch, stage.lease(&replicas(2)[1]).await.epoch];
    assert_eq!(after, epochs);
}

//! A private Redis Cluster: its slots, their moves, the loss of a master.

use std::time::Duration;

use consort_testbed::{RedisCluster, RedisOptions, Reply, eventually};
use redis::AsyncCommands;

fn text(text: &str) -> Reply {
    Reply::Text(text.to_owned())
}

async fn slot_of(cluster: &RedisCluster, key: &str) -> u16 {
    let slot =
        cluster.nodes()[0].call(&["CLUSTER", "KEYSLOT", key]).await.unwrap().integer().unwrap();
    u16::try_from(slot).unwrap()
}

#[tokio::test]
async fn a_client_library_finds_every_slot() {
    let cluster = RedisCluster::start(RedisOptions::new()).await;
    let addresses = cluster.url().strip_prefix("redis-cluster://").unwrap().to_owned();
    let addresses: Vec<String> =
        addresses.split(',').map(|address| format!("redis://{address}")).collect();
    assert_eq!(addresses.len(), 3);
    let client = redis::cluster::ClusterClient::new(addresses).unwrap();
    let mut connection = client.get_async_connection().await.unwrap();
    for key in 0..100 {
        let _: () = connection.set(key, key).await.unwrap();
    }
    let mut keys = 0;
    for node in cluster.nodes() {
        let held = node.call(&["DBSIZE"]).await.unwrap().integer().unwrap();
        assert!(held > 0, "every master got some of a hundred keys");
        keys += held;
    }
    assert_eq!(keys, 100);
}

#[tokio::test]
async fn a_slot_moves_with_its_keys_and_redirects() {
    let cluster = RedisCluster::start(RedisOptions::new().password("secret-1")).await;
    let slot = slot_of(&cluster, "{tag}").await;
    let from = cluster.owner(slot).await;
    let to = (from + 1) % 3;
    let (old, new) = (&cluster.nodes()[from], &cluster.nodes()[to]);
    for key in 0..250 {
        assert_eq!(
            old.call(&["SET", &format!("{{tag}}{key}"), "value"]).await.unwrap(),
            text("OK")
        );
    }

    cluster.begin_move(slot, to).await;
    assert_eq!(old.call(&["GET", "{tag}7"]).await.unwrap(), text("value"));
    let asked = old.call(&["GET", "{tag}absent"]).await.unwrap();
    assert_eq!(asked, Reply::Error(format!("ASK {slot} 127.0.0.1:{}", new.port())));

    cluster.finish_move(slot, to).await;
    let moved = old.call(&["GET", "{tag}7"]).await.unwrap();
    assert_eq!(moved, Reply::Error(format!("MOVED {slot} 127.0.0.1:{}", new.port())));
    assert_eq!(
        new.call(&["CLUSTER", "COUNTKEYSINSLOT", &slot.to_string()]).await.unwrap(),
        Reply::Integer(250)
    );
    assert_eq!(cluster.owner(slot).await, to);

    cluster.move_slot(slot, from).await;
    assert_eq!(old.call(&["GET", "{tag}7"]).await.unwrap(), text("value"));
    cluster.settled().await;
}

#[tokio::test]
async fn the_cluster_serves_again_when_a_lost_master_is_back() {
    let mut cluster = RedisCluster::start(RedisOptions::new()).await;
    let slot = slot_of(&cluster, "key").await;
    let owner = cluster.owner(slot).await;
    cluster.nodes()[owner].call(&["SET", "key", "value"]).await.unwrap();

    cluster.node(owner).kill().await;
    let other = &cluster.nodes()[(owner + 1) % 3];
    eventually("the others see the loss", Duration::from_secs(30), || async {
        other
            .call(&["CLUSTER", "INFO"])
            .await
            .unwrap()
            .text()
            .unwrap()
            .contains("cluster_state:fail")
    })
    .await;

    cluster.node(owner).restart().await;
    cluster.settled().await;
    assert_eq!(cluster.nodes()[owner].call(&["GET", "key"]).await.unwrap(), text("value"));

    cluster.node(owner).restart_empty().await;
    cluster.settled().await;
    assert_eq!(cluster.nodes()[owner].call(&["GET", "key"]).await.unwrap(), Reply::Nil);
    assert_eq!(cluster.owner(slot).await, owner);
}

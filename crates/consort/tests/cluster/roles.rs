//! Roles among nodes: shared, handed over at a drain, taken over after a crash, and measured.

use std::sync::Arc;

use consort::Services;
use consort_client::{Client, Cluster};
use consort_cluster::{Ended, Left, Part, Role, Tenure};
use consort_testbed::{RedisOptions, RedisServer};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::bed::{consort, node_here, sees};

const ROLES: usize = 8;

/// Roles whose work is to be there.
#[derive(Debug)]
struct Toy;

impl Part for Toy {
    fn roles(&self) -> Vec<Role> {
        (0..ROLES).map(|n| Role::new("toy", format!("t/{n}"))).collect()
    }

    fn work(&self, mut tenure: Tenure) -> BoxFuture<'static, Ended> {
        async move {
            tenure.ready();
            tenure.ending().await;
            Ended::Drained
        }
        .boxed()
    }
}

fn toys(_: &Services) -> Vec<Arc<dyn Part>> {
    vec![Arc::new(Toy)]
}

/// The cluster's own roles: the scaler.
const OWN_ROLES: usize = 1;

/// Whether all roles are at work, each by one of these and all of these by some.
fn shared_by(cluster: &Cluster, ids: &[&str]) -> bool {
    let roles = &cluster.status.roles;
    let owns = |id: &&str| {
        let mut toys = roles.iter().filter(|role| role.role.kind() == "toy");
        toys.any(|role| role.owner.as_deref() == Some(id))
    };
    let at_work = |role: &consort_cluster::status::RoleStatus| {
        role.pause.is_some() && role.owner.as_deref().is_some_and(|owner| ids.contains(&owner))
    };
    roles.len() == ROLES + OWN_ROLES && roles.iter().all(at_work) && ids.iter().all(owns)
}

pub(crate) async fn metrics(client: &Client) -> String {
    let address = client.url().trim_start_matches("http://");
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = "GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

pub(crate) fn figure(metrics: &str, name: &str) -> u64 {
    let line = metrics.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
    line.unwrap_or_else(|| panic!("{name} in\n{metrics}")).parse().unwrap()
}

#[tokio::test]
async fn roles_are_shared_handed_over_and_the_pauses_measured() {
    let redis = RedisServer::start(RedisOptions::new()).await;
    let (a, at_a) = node_here("a", &redis.url(), toys).await;
    sees(&at_a, "a has all roles", |cluster| shared_by(cluster, &["a"])).await;
    let (b, at_b) = node_here("b", &redis.url(), toys).await;
    sees(&at_b, "both have some", |cluster| shared_by(cluster, &["a", "b"])).await;

    let status = consort(["status", "--url", at_a.url()]).await;
    assert_eq!(status.code, Some(0), "{status:?}");
    let (_, owners) = status.out.split_once("\n\n").unwrap();
    let owners: Vec<Vec<&str>> =
        owners.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
    let owners: Vec<_> = owners.into_iter().filter(|line| line[0] == "toy").collect();
    assert_eq!(owners.len(), 2, "{status:?}");
    assert_eq!(
        (owners[0][..2].to_vec(), owners[1][..2].to_vec()),
        (vec!["toy", "a"], vec!["toy", "b"])
    );
    let numbers: Vec<usize> = owners.iter().map(|line| line[2].parse().unwrap()).collect();
    assert_eq!(numbers.iter().sum::<usize>(), ROLES);
    let full = consort(["status", "--roles", "--url", at_a.url()]).await;
    assert_eq!(
        full.out.lines().filter(|line| line.starts_with("toy:t/")).count(),
        ROLES,
        "{full:?}"
    );

    let drained = consort(["drain", "a", "--url", at_b.url()]).await;
    assert_eq!(drained.code, Some(0), "{drained:?}");
    assert_eq!(a.left().await, Left::Drained);
    a.stop().await;
    sees(&at_b, "b has all roles", |cluster| shared_by(cluster, &["b"])).await;

    let measured = metrics(&at_b).await;
    let pauses = r#"consort_cluster_handover_pause_seconds_count{cause="handed_over"}"#;
    assert_eq!(figure(&measured, pauses), (ROLES + OWN_ROLES) as u64);
    assert_eq!(figure(&measured, r#"consort_cluster_roles_held{kind="toy"}"#), ROLES as u64);
    assert_eq!(figure(&measured, r#"consort_cluster_nodes{state="live"}"#), 1);
    b.stop().await;
}

#[tokio::test]
async fn roles_of_a_node_that_died_are_taken_over() {
    let redis = RedisServer::start(RedisOptions::new()).await;
    let (a, at_a) = node_here("a", &redis.url(), toys).await;
    sees(&at_a, "a has all roles", |cluster| shared_by(cluster, &["a"])).await;
    let (b, at_b) = node_here("b", &redis.url(), toys).await;
    sees(&at_b, "both have some", |cluster| shared_by(cluster, &["a", "b"])).await;
    // A node that is dropped ends without a word.
    drop(a);
    sees(&at_b, "b has all roles", |cluster| shared_by(cluster, &["b"])).await;
    let pauses = r#"consort_cluster_handover_pause_seconds_count{cause="taken_over"}"#;
    assert!(figure(&metrics(&at_b).await, pauses) > 0);
    let status = consort(["status", "--url", at_b.url()]).await;
    assert!(status.out.contains("taken over"), "{status:?}");
    assert_eq!(status.code, Some(0), "{status:?}");
    b.stop().await;
}

//! What a node answers about its cluster, and what it does to it when told.

use std::sync::Arc;
use std::time::Duration;

use consort_cluster::format::encode;
use consort_cluster::scaling::{self, NodeSignal, ScaleCell, ScaleSignal};
use consort_cluster::worker::{ResolveError, Resume};
use consort_cluster::{
    ClusterNode, Ended, Left, Observer, Options, Part, Role, Roster, Runtime, ScaleSettings,
    Tenure, TokioRuntime, UnmeasuredLoad, keys,
};
use consort_kernel::{
    Commit, Name, Operation, Partition, Store, SystemClock, SystemEntropy, Timestamp, memory,
};
use consort_server::{Cluster, Metrics, Resolved, Resolver, Resolvers, Resolving};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::{Value, json};

use crate::client::{Answer, Running, options, start, within};

/// Works on nothing; a role named `lost` has stopped.
#[derive(Debug)]
struct Toy(Vec<&'static str>);

impl Part for Toy {
    fn roles(&self) -> Vec<Role> {
        self.0.iter().map(|role| role.parse().unwrap()).collect()
    }

    fn work(&self, mut tenure: Tenure) -> BoxFuture<'static, Ended> {
        async move {
            let lost = tenure.role().name().starts_with("lost");
            tenure.say(|gauge| {
                gauge.lag = Some(Duration::from_millis(1500));
                gauge.stopped = lost.then(|| "the log lost frame 7".into());
            });
            tenure.ready();
            tenure.ending().await;
            Ended::Drained
        }
        .boxed()
    }
}

/// Knows workers, and never finds one at work but `lost/1`.
#[derive(Debug)]
struct ToyResolver;

impl Resolver for ToyResolver {
    fn resolve(&self, role: &Role, from: Resume) -> Option<Resolving> {
        let at_work = role.name() == "lost/1";
        let offset = match from {
            Resume::Offset(offset) => offset,
            Resume::First => 3,
            Resume::End => 9,
        };
        let outcome = match at_work {
            true => Err(ResolveError::AtWork(Partition::new(Name::new("lost").unwrap(), 1))),
            false => Ok(Resolved { era: 1, offset }),
        };
        (role.kind() == "worker").then(|| async move { outcome }.boxed())
    }
}

fn store() -> Arc<dyn Store> {
    Arc::new(memory::open(4, Arc::new(SystemClock::default())).1)
}

async fn join(
    id: &str,
    store: &Arc<dyn Store>,
    roles: &[&'static str],
    observer: Arc<dyn Observer>,
) -> ClusterNode {
    let runtime: Arc<dyn Runtime> = TokioRuntime::current();
    let options = Options {
        id: id.into(),
        address: "127.0.0.1:7400".into(),
        version: "1.2.3".into(),
        ttl: Duration::from_secs(3),
        heartbeat: Duration::from_millis(100),
        sole: false,
        parts: vec![Arc::new(Toy(roles.to_vec()))],
        store: Arc::clone(store),
        lease_store: Arc::clone(store),
        work_runtime: Arc::clone(&runtime),
        runtime,
        entropy: Arc::new(SystemEntropy),
        observer,
        load: Arc::new(UnmeasuredLoad),
    };
    ClusterNode::join(options).await.unwrap()
}

async fn serve() -> (Running, Cluster) {
    let mut metrics = Metrics::new("1.2.3");
    let resolvers = Resolvers::default();
    resolvers.add(Arc::new(ToyResolver));
    let cluster = Cluster::new(resolvers, &mut metrics);
    let mut options = options();
    options.routes = cluster.routes();
    options.probes = vec![cluster.probe()];
    options.metrics = metrics;
    (start(options).await, cluster)
}

async fn get(server: &Running, path: &str) -> Answer {
    server.ask(&format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n")).await
}

async fn post(server: &Running, path: &str, body: &str) -> Answer {
    let length = body.len();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\n\r\n"
    );
    server.ask(&(head + body)).await
}

/// Asks until the answer's roles satisfy `fits`.
async fn roles_once(server: &Running, fits: impl Fn(&Value) -> bool) -> Value {
    within(async {
        loop {
            let answer: Value = serde_json::from_str(&get(server, "/cluster").await.body).unwrap();
            if answer["roles"].as_array().unwrap().iter().all(&fits) {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await
}

#[tokio::test]
async fn before_it_has_joined_a_node_says_so() {
    let (server, _cluster) = serve().await;
    let ready = get(&server, "/readyz").await;
    assert_eq!(
        (ready.status, ready.problem().1.as_str()),
        (503, "cluster: the node is about to join")
    );
    let answers = [
        get(&server, "/cluster").await,
        post(&server, "/cluster/nodes/a/drain", "{}").await,
        post(&server, "/cluster/roles/worker:s%2F0/resolve", r#"{"from":"end"}"#).await,
    ];
    for answer in answers {
        assert_eq!((answer.status, answer.problem().0.as_str()), (503, "not-joined"));
    }
    assert_eq!(get(&server, "/metrics").await.status, 200);
}

#[tokio::test]
async fn nodes_and_roles_are_shown_and_measured() {
    let (server, cluster) = serve().await;
    let store = store();
    let node = join("a", &store, &["worker:s/0", "closer:v/0"], cluster.observer()).await;
    cluster.joined(node.handle());
    let answer =
        roles_once(&server, |role| role["ready"] == true && !role["pause"].is_null()).await;
    let shown = &answer["nodes"][0];
    assert_eq!((&shown["id"], &shown["address"]), (&json!("a"), &json!("127.0.0.1:7400")));
    assert_eq!((&shown["live"], &shown["draining"]), (&json!(true), &json!(false)));
    assert_eq!(answer.get("wanted"), None, "no scaler has decided");
    let role = &answer["roles"][1];
    assert_eq!((&role["role"], &role["owner"]), (&json!("worker:s/0"), &json!("a")));
    assert_eq!((&role["epoch"], &role["lag"]), (&json!(1), &json!(1500)));
    assert_eq!(role["pause"]["cause"], "first");
    assert_eq!(get(&server, "/readyz").await.status, 200);

    let metrics = server.metrics().await;
    for line in [
        r#"consort_cluster_roles_held{kind="worker"} 1"#,
        r#"consort_cluster_roles_acquired_total{kind="closer"} 1"#,
        r#"consort_cluster_lag_seconds{kind="worker"} 1.5"#,
        r#"consort_cluster_handover_pause_seconds_count{cause="first"} 2"#,
        r#"consort_cluster_nodes{state="live"} 1"#,
    ] {
        assert!(metrics.lines().any(|shown| shown == line), "{line} in\n{metrics}");
    }
}

/// A decision for the only live node, made so long ago.
async fn decide(store: &Arc<dyn Store>, ago: Duration) {
    let now = Timestamp(store.now().await.unwrap().0 - ago.as_millis() as u64);
    let signal = ScaleSignal { nodes: vec![NodeSignal::default()], ..ScaleSignal::default() };
    let state = scaling::decide(&signal, None, &ScaleSettings::default(), now);
    let value = encode(&ScaleCell { epoch: 1, state });
    let put = Operation::Put { key: keys::scale(), value };
    store.commit(keys::SHARD, Commit::of([put])).await.unwrap();
}

#[tokio::test]
async fn the_number_of_nodes_wanted_is_shown_while_it_is_fresh_and_asking_changes_nothing() {
    let (server, cluster) = serve().await;
    let store = store();
    decide(&store, Duration::from_secs(50)).await;
    let node = join("a", &store, &["worker:s/0"], cluster.observer()).await;
    cluster.joined(node.handle());
    let cell = || async { Roster::read(&*store).await.unwrap().scale };
    let before = cell().await;
    for _ in 0..200 {
        let answer: Value = serde_json::from_str(&get(&server, "/cluster").await.body).unwrap();
        assert_eq!((&answer["wanted"], &answer["scaling"]["wanted"]), (&json!(1), &json!(1)));
        assert!(answer["scaling"]["why"].as_str().is_some_and(|why| !why.is_empty()), "{answer}");
        assert_eq!(answer["scaling"]["limited_by"], Value::Null);
    }
    let wanted = "consort_cluster_nodes_wanted{} 1";
    assert!(server.metrics().await.lines().any(|line| line == wanted));
    assert_eq!(cell().await, before);

    decide(&store, Duration::from_secs(61)).await;
    let old = within(async {
        loop {
            let answer: Value = serde_json::from_str(&get(&server, "/cluster").await.body).unwrap();
            if answer.get("wanted").is_none() {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    assert_eq!(old.await.get("scaling"), None);
    let metrics = server.metrics().await;
    assert!(!metrics.contains("consort_cluster_nodes_wanted{}"), "{metrics}");
}

#[tokio::test]
async fn a_node_is_retired_unless_it_is_unknown_or_the_last() {
    let (server, cluster) = serve().await;
    let store = store();
    let node = join("a", &store, &["worker:s/0"], cluster.observer()).await;
    cluster.joined(node.handle());
    let last = post(&server, "/cluster/nodes/a/drain", "{}").await;
    assert_eq!((last.status, last.problem().0.as_str()), (409, "last-node"));
    assert!(last.problem().1.contains("start another before you retire it"), "{last:?}");

    let other = join("b", &store, &["worker:s/0"], cluster.observer()).await;
    let unknown = post(&server, "/cluster/nodes/c/drain", "{}").await;
    let said = "there is no live node 'c': there are a, b";
    assert_eq!((unknown.status, unknown.problem()), (404, ("no-such-node".into(), said.into())));

    let accepted = post(&server, "/cluster/nodes/a/drain", "{}").await;
    assert_eq!((accepted.status, accepted.body.as_str()), (202, r#"{"draining":"a"}"#));
    assert_eq!(within(node.ended()).await, Left::Drained);
    let ready = get(&server, "/readyz").await;
    assert_eq!((ready.status, ready.problem().1.as_str()), (503, "cluster: the node was retired"));
    drop(other);
}

#[tokio::test]
async fn orders_need_a_json_body_so_that_no_form_can_send_them() {
    let (server, cluster) = serve().await;
    let store = store();
    let node = join("a", &store, &["worker:lost/0"], cluster.observer()).await;
    let other = join("b", &store, &["worker:lost/0"], cluster.observer()).await;
    cluster.joined(node.handle());
    let drain = "/cluster/nodes/a/drain";
    let resolve = "/cluster/roles/worker:lost%2F0/resolve";
    let end = r#"{"from":"end"}"#;
    let long: &str = &format!("{{\"{}\":1}}", "x".repeat(1024));
    for (path, content_type, body, status, kind) in [
        (drain, "", "", 415, "content-type"),
        (drain, "content-type: text/plain\r\n", "{}", 415, "content-type"),
        (drain, "content-type: application/x-www-form-urlencoded\r\n", "{}", 415, "content-type"),
        (drain, "content-type: multipart/form-data\r\n", "{}", 415, "content-type"),
        (drain, "content-type: application/json\r\n", "", 400, "bad-retirement"),
        (drain, "content-type: application/json\r\n", r#"{"now":true}"#, 400, "bad-retirement"),
        (drain, "content-type: application/json\r\n", long, 413, "body-too-large"),
        (resolve, "content-type: application/json\r\n", long, 413, "body-too-large"),
        (resolve, "", end, 415, "content-type"),
        (resolve, "content-type: text/plain\r\n", end, 415, "content-type"),
        ("/cluster/roles/worker:lost/0/resolve", "", end, 415, "content-type"),
    ] {
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\n{content_type}content-length: {}\r\n\r\n{body}",
            body.len()
        );
        let answer = server.ask(&request).await;
        assert_eq!((answer.status, answer.problem().0.as_str()), (status, kind), "{request}");
    }
    let charset = "content-type: Application/JSON; charset=utf-8\r\ncontent-length: 2\r\n\r\n{}";
    let accepted =
        server.ask(&format!("POST {drain} HTTP/1.1\r\nhost: localhost\r\n{charset}")).await;
    assert_eq!(accepted.status, 202, "{accepted:?}");
    drop(other);
}

#[tokio::test]
async fn only_a_partition_that_stopped_can_be_resolved() {
    let (server, cluster) = serve().await;
    let store = store();
    let roles = ["worker:lost/0", "worker:lost/1", "worker:s/0", "closer:lost"];
    let node = join("a", &store, &roles, cluster.observer()).await;
    cluster.joined(node.handle());
    roles_once(&server, |role| role["ready"] == true).await;

    let first = r#"{"from":"first"}"#;
    for (path, body, status, kind, says) in [
        ("worker:lost%2F0", "{}", 400, "bad-decision", r#"{"from": "end"}"#),
        ("worker:lost%2F7", first, 404, "no-such-role", "shows the 4 that there are"),
        ("nonsense", first, 404, "no-such-role", "write KIND:NAME"),
        ("%ff", first, 400, "bad-path", "UTF-8"),
        ("worker:s/0", first, 409, "at-work", "at work on node 'a'"),
        ("worker:lost/1", first, 409, "at-work", "lost/1 is at work"),
        ("closer:lost", first, 409, "no-partition", "folds no partition"),
    ] {
        let answer = post(&server, &format!("/cluster/roles/{path}/resolve"), body).await;
        let (told, detail) = answer.problem();
        assert_eq!((answer.status, told.as_str()), (status, kind), "{path}: {detail}");
        assert!(detail.contains(says), "{path}: {detail}");
    }
    for (path, body, offset) in [
        ("worker:lost%2F0", first, 3),
        ("worker:lost/0", r#"{"from":"end"}"#, 9),
        ("worker:lost/0", r#"{"from":17}"#, 17),
    ] {
        let answer = post(&server, &format!("/cluster/roles/{path}/resolve"), body).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        assert_eq!(answer.body, format!("{{\"era\":1,\"offset\":{offset}}}"));
    }
}

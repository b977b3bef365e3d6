//! Several nodes on one Redis, or on a Redis Cluster: one answer for all of them, whatever becomes of the node that computes it.

use std::fs;
use std::net::SocketAddr;

use consort_testbed::{Port, Process, RedisCluster, RedisOptions, RedisServer, eventually};
use futures::future::join_all;
use serde_json::json;
use tempfile::TempDir;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::bed::{Caller, PATIENCE, Said, calls, consort, listens, start_upstream};

struct Nodes {
    upstream: SocketAddr,
    nodes: Vec<(Process, SocketAddr)>,
    _kept: (Process, Vec<Port>, TempDir),
}

impl Nodes {
    /// Three nodes on this engine, with the space `items`.
    async fn start(engine: &str, items: &str) -> Nodes {
        let folder = tempfile::tempdir().expect("a folder");
        let (process, upstream) = start_upstream(&folder).await;
        let (mut nodes, mut ports) = (Vec::new(), Vec::new());
        for id in ["a", "b", "c"] {
            let port = Port::claim();
            let address = SocketAddr::from(([127, 0, 0, 1], port.number()));
            let text = format!(
                "[node]\nid = '{id}'\n[http]\nlisten = '{address}'\n[engine]\nurl = '{engine}'\n\
                 [once.items]\nupstream = 'http://{upstream}/items/{{path}}?{{query}}'\n{items}"
            );
            let path = folder.path().join(format!("{id}.toml"));
            fs::write(&path, text).expect("a file");
            let mut command = consort(&["serve", "-c"]);
            command.arg(&path).current_dir(folder.path());
            nodes.push((Process::start(&command, &folder.path().join(id)), address));
            ports.push(port);
        }
        for (node, _) in &nodes {
            listens(node, "listens on http://").await;
        }
        Nodes { upstream, nodes, _kept: (process, ports, folder) }
    }

    /// Asks all nodes at once, `times` each.
    async fn ask(&self, path: &str, times: usize) -> Vec<Said> {
        let addresses = self.nodes.iter().map(|(_, address)| *address);
        let all = addresses.flat_map(|address| std::iter::repeat_n(address, times));
        join_all(all.map(|address| async move { Caller::of(address).get(path).await })).await
    }
}

#[track_caller]
fn one_generation(answers: &[Said]) -> String {
    let generation = answers[0].generation();
    for answer in answers {
        assert_eq!((answer.status(), answer.generation()), (200, generation.clone()));
    }
    generation
}

async fn one_answer_on(engine: &str) {
    let bed = Nodes::start(engine, "fresh_for = '1h'\nrefresh_early = false\n").await;
    for round in 0..5 {
        let path = format!("/once/items/round{round}?delay=200ms&tag=red");
        let generation = one_generation(&bed.ask(&path, 10).await);
        assert_eq!(calls(bed.upstream, &format!("round{round}")).await, 1);
        // From memory, from the store: it is the same one.
        assert_eq!(one_generation(&bed.ask(&path, 1).await), generation);
    }
    let path = "/once/items/round0?delay=200ms&tag=red";
    let before = one_generation(&bed.ask(path, 1).await);
    let purge = Caller::of(bed.nodes[0].1).post("/once/items/purge", r#"{"tag": "red"}"#).await;
    assert_eq!(purge.json(), json!({"purged": 5}));
    let anew = || async {
        let answers = bed.ask(path, 1).await;
        answers.iter().all(|answer| answer.status() == 200 && answer.generation() != before)
    };
    eventually("no node has the old one", PATIENCE, anew).await;
    one_generation(&bed.ask(path, 3).await);
    assert_eq!(calls(bed.upstream, "round0").await, 2);
}

#[tokio::test]
async fn all_nodes_give_one_answer_and_let_go_of_it_together() {
    let redis = RedisServer::start(RedisOptions::default()).await;
    one_answer_on(&redis.url()).await;
}

#[tokio::test]
async fn all_nodes_on_a_cluster_give_one_answer_and_let_go_of_it_together() {
    let redis = RedisCluster::start(RedisOptions::default()).await;
    one_answer_on(&redis.url()).await;
}

#[tokio::test]
async fn a_node_that_dies_while_it_computes_is_replaced_by_one() {
    let redis = RedisServer::start(RedisOptions::default()).await;
    let items = "fresh_for = '1h'\nlease = '1s'\nrefresh_early = false\n";
    let mut bed = Nodes::start(&redis.url(), items).await;
    let path = "/once/items/a?delay=3s";
    let first = bed.nodes[0].1;
    let lost = tokio::spawn(async move {
        let client = consort_client::Client::new(&format!("http://{first}"), None);
        let mut connection = consort_client::Connection::new(client.expect("an address"), PATIENCE);
        connection.send(consort_client::Method::GET, path, &[], "").await.is_err()
    });
    let upstream = bed.upstream;
    let begun = || async { calls(upstream, "a").await == 1 };
    eventually("the first node computes", PATIENCE, begun).await;
    bed.nodes[0].0.kill().await;
    assert!(lost.await.expect("it ends"), "its own client has lost its connection");
    bed.nodes.remove(0);
    one_generation(&bed.ask(path, 10).await);
    assert_eq!(calls(bed.upstream, "a").await, 2);
}

#[tokio::test]
async fn a_node_that_is_stopped_while_it_computes_lets_another_take_over_at_once() {
    let redis = RedisServer::start(RedisOptions::default()).await;
    let items = "fresh_for = '1h'\nlease = '300s'\nrefresh_early = false\n";
    let mut bed = Nodes::start(&redis.url(), items).await;
    let path = "/once/items/a?delay=5s";
    let first = bed.nodes[0].1;
    let mut client = TcpStream::connect(first).await.expect("a connection");
    let request = format!("GET {path} HTTP/1.1\r\nhost: {first}\r\n\r\n");
    client.write_all(request.as_bytes()).await.expect("the request is sent");
    let upstream = bed.upstream;
    let begun = || async { calls(upstream, "a").await == 1 };
    eventually("the first node computes", PATIENCE, begun).await;
    // The node goes on computing for later requests, but no request holds up its stop. A reset, because a client
    // that only closes its socket looks like one that waits for its answer.
    client.set_zero_linger().expect("an option");
    drop(client);
    let (mut stopped, _) = bed.nodes.remove(0);
    let (answers, ()) = tokio::join!(bed.ask(path, 3), stopped.terminate(PATIENCE));
    one_generation(&answers);
    assert_eq!(calls(bed.upstream, "a").await, 2);
}

#[tokio::test]
async fn without_the_store_nothing_is_computed_and_everybody_is_told() {
    let mut redis = RedisServer::start(RedisOptions::default()).await;
    let bed = Nodes::start(&redis.url(), "wait = '5s'\n").await;
    redis.kill().await;
    for answer in bed.ask("/once/items/a", 3).await {
        assert!([503, 504].contains(&answer.status()), "{}", answer.text());
        assert_eq!(answer.header("content-type"), "application/problem+json");
        assert!(!answer.header("retry-after").is_empty(), "{answer:?}");
    }
    assert_eq!(calls(bed.upstream, "a").await, 0);
    redis.restart().await;
    let upstream = bed.upstream;
    let heals = || async {
        let answers = bed.ask("/once/items/a", 3).await;
        answers.iter().all(|answer| answer.status() == 200)
    };
    eventually("it goes on", PATIENCE, heals).await;
    assert_eq!(calls(upstream, "a").await, 1);
}

#[tokio::test]
async fn with_reelection_a_failure_is_of_one_node_and_another_tries_for_itself() {
    let redis = RedisServer::start(RedisOptions::default()).await;
    let items =
        "fresh_for = '1h'\nerrors_for = '1h'\non_error = 'reelect'\nrefresh_early = false\n";
    let bed = Nodes::start(&redis.url(), items).await;
    let answers = bed.ask("/once/items/a?delay=500ms&fail=1", 5).await;
    // The node that asked first, and nobody else, was told of the failure; a request that came to it late may have
    // missed it.
    let failed = answers.iter().filter(|answer| answer.status() == 502).count();
    assert!((1..=5).contains(&failed), "{failed} of {answers:?}");
    let good: Vec<Said> = answers.into_iter().filter(|answer| answer.status() == 200).collect();
    assert_eq!(good.len(), 15 - failed);
    one_generation(&good);
    assert_eq!(calls(bed.upstream, "a").await, 2);
}

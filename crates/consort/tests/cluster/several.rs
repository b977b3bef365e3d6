//! Several nodes on one Redis: who is there, who leaves, who died, and who may come back.

use consort_testbed::{RedisOptions, RedisServer, eventually};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::bed::{Node, PATIENCE, consort, live};

/// What is on standard output under `STATE`, by node.
fn states(table: &str) -> Vec<(&str, &str)> {
    let lines = table.lines().skip(1).take_while(|line| !line.is_empty());
    let cells = lines.map(|line| line.split_whitespace().collect::<Vec<_>>());
    cells.map(|cells| (cells[0], cells[cells.len() - 1])).collect()
}

#[tokio::test]
async fn a_retired_nodes_process_ends_well_and_the_others_stay() {
    let redis = RedisServer::start(RedisOptions::new()).await;
    let url = redis.url();
    let (mut a, mut b, c) =
        (Node::start("a", &url), Node::start("b", &url), Node::start("c", &url));
    for node in [&a, &b, &c] {
        node.joined().await;
    }
    // Whichever is asked, the answer is the same.
    for node in [&a, &b, &c] {
        let status = consort(["status", "--url", &node.url()]).await;
        assert_eq!(status.code, Some(0), "{status:?}");
        assert_eq!(states(&status.out), [("a", "live"), ("b", "live"), ("c", "live")]);
        assert!(status.words.contains("3 live nodes"), "{status:?}");
    }

    // Asked through another node.
    let drained = consort(["drain", "a", "--url", &b.url()]).await;
    assert_eq!((drained.code, drained.out.as_str()), (Some(0), ""), "{drained:?}");
    assert!(
        drained.words.contains("'a' was asked to") && drained.words.ends_with("'a' has left\n"),
        "{drained:?}"
    );
    let (code, said) = a.end().await;
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("the node was retired"), "{said}");
    assert_eq!(live(&b.client().cluster().await.unwrap()), ["b", "c"]);

    // Asked through itself: the command turns to another node when this one is gone.
    let drained = consort(["drain", "b", "--url", &b.url()]).await;
    assert_eq!(drained.code, Some(0), "{drained:?}");
    let (code, said) = b.end().await;
    assert_eq!(code, Some(0), "{said}");

    let last = consort(["drain", "c", "--url", &c.url(), "--no-wait"]).await;
    assert_eq!(last.code, Some(1));
    assert!(last.words.contains("'c' is the last node that stays"), "{last:?}");
    c.stop().await;
}

#[tokio::test]
async fn a_stopped_node_leaves_and_an_id_of_a_living_node_is_refused() {
    let redis = RedisServer::start(RedisOptions::new()).await;
    let url = redis.url();
    let (a, b) = (Node::start("a", &url), Node::start("b", &url));
    a.joined().await;
    b.joined().await;

    let mut twin = Node::start("a", &url);
    let (code, said) = twin.end().await;
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("the node id 'a' is in use: a living node at 127.0.0.1:"), "{said}");
    assert!(said.contains("--node"), "{said}");
    assert_eq!(live(&b.client().cluster().await.unwrap()), ["a", "b"]);

    a.stop().await;
    let seen = b.sees("only b is left", |cluster| cluster.status.nodes.len() == 1).await;
    assert_eq!(live(&seen), ["b"]);
    b.stop().await;
}

#[tokio::test]
async fn a_killed_node_is_seen_dead_and_comes_back_under_its_id() {
    let redis = RedisServer::start(RedisOptions::new()).await;
    let url = redis.url();
    let (mut a, b) = (Node::start("a", &url), Node::start("b", &url));
    a.joined().await;
    b.joined().await;

    a.process.kill().await;
    // At once, within its lease: the one before is waited out, and that is said.
    a.restart();
    a.says("waits until its lease has lapsed").await;
    a.joined().await;
    let seen = b.sees("a is back", |cluster| live(cluster) == ["a", "b"]).await;
    assert_eq!(seen.status.nodes.len(), 2);

    a.process.kill().await;
    b.sees("a is dead", |cluster| live(cluster) == ["b"]).await;
    let status = consort(["status", "--url", &b.url()]).await;
    assert_eq!(states(&status.out), [("a", "dead"), ("b", "live")]);
    assert!(status.words.contains("Note: 'a' at 127.0.0.1:"), "{status:?}");
    assert_eq!(status.code, Some(0), "{status:?}");
    b.stop().await;
}

#[tokio::test]
async fn a_node_that_was_replaced_while_it_was_paused_ends_and_says_why() {
    let redis = RedisServer::start(RedisOptions::new()).await;
    let url = redis.url();
    let mut paused = Node::start("a", &url);
    paused.joined().await;
    paused.process.pause();
    let successor = Node::start("a", &url);
    successor.joined().await;
    paused.process.resume();
    let (code, said) = paused.end().await;
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("another process, at 127.0.0.1:"), "{said}");
    successor.stop().await;
}

#[tokio::test]
async fn a_node_out_of_touch_is_not_ready_and_says_why() {
    let mut redis = RedisServer::start(RedisOptions::new()).await;
    let node = Node::start("a", &redis.url());
    node.joined().await;
    redis.kill().await;
    let what = "the node is not ready, since its leases could not be renewed";
    eventually(what, PATIENCE, || async {
        let answer = ready(&node).await.ok()?;
        answer
            .contains("cluster: all work is dropped, since leases could not be renewed")
            .then_some(())
    })
    .await;
    let status = consort(["status", "--url", &node.url()]).await;
    assert_eq!(status.code, Some(1), "{status:?}");
    assert!(status.words.contains("the store failed"), "{status:?}");
    redis.restart().await;
    eventually("the node is ready again", PATIENCE, || async {
        ready(&node).await.is_ok_and(|answer| answer.starts_with("HTTP/1.1 200 "))
    })
    .await;
    node.stop().await;
}

async fn ready(node: &Node) -> std::io::Result<String> {
    let url = node.url();
    let mut stream = TcpStream::connect(url.trim_start_matches("http://")).await?;
    stream
        .write_all(b"GET /readyz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        .await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

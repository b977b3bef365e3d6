//! A single node: it is a cluster, too.

use tokio::io::{AsyncBufReadExt as _, BufReader};

use crate::bed::{Node, consort, consort_knowing, watching, within};

const EMBEDDED: &str = "embedded:./data";

#[tokio::test]
async fn a_single_node_shows_itself_and_cannot_be_retired() {
    let node = Node::start("solo", EMBEDDED);
    node.joined().await;
    let url = node.url();

    let status = consort(["status", "--url", &url]).await;
    assert_eq!(status.code, Some(0), "{status:?}");
    assert_eq!(status.words, "1 live node, no roles; all is well.\n");
    let mut lines = status.out.lines();
    let head: Vec<&str> = lines.next().unwrap().split_whitespace().collect();
    assert_eq!(head, ["NODE", "ADDRESS", "VERSION", "UP", "FOR", "ROLES", "STATE"]);
    let line: Vec<&str> = lines.next().unwrap().split_whitespace().collect();
    let address = url.strip_prefix("http://").unwrap();
    assert_eq!(line[..3], ["solo", address, env!("CARGO_PKG_VERSION")]);
    assert_eq!(line.last(), Some(&"live"));

    let json = consort(["status", "--json", "--url", address]).await;
    let json: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(json["nodes"][0]["id"], "solo");
    // An embedded engine never has a second node: no number is decided.
    assert_eq!(json.get("wanted"), None);

    let drain = consort(["drain", "solo", "--url", &url]).await;
    assert_eq!((drain.code, drain.out.as_str()), (Some(1), ""));
    assert!(drain.words.contains("'solo' is the last node that stays"), "{drain:?}");
    let drain = consort(["drain", "nobody", "--url", &url]).await;
    assert_eq!(drain.code, Some(1));
    assert!(drain.words.contains("no live node 'nobody': there are solo"), "{drain:?}");
    let resolve = consort(["resolve", "worker:rides/0", "--from", "end", "--url", &url]).await;
    assert_eq!(resolve.code, Some(1));
    assert!(resolve.words.contains("there is no role 'worker:rides/0'"), "{resolve:?}");
    node.stop().await;
}

#[tokio::test]
async fn a_watched_cluster_is_told_again_and_again() {
    let mut node = Node::start("solo", EMBEDDED);
    node.joined().await;
    let mut watch = watching(&["--json", "--url", &node.url()]);
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let mut next = async || within(lines.next_line()).await.unwrap().expect("one more look");
    for _ in 0..2 {
        let json: serde_json::Value = serde_json::from_str(&next().await).unwrap();
        assert_eq!(json["nodes"][0]["id"], "solo");
    }
    // It outlives the node, and sees it come back.
    node.process.kill().await;
    let mut words = BufReader::new(watch.stderr.take().unwrap()).lines();
    while !within(words.next_line()).await.unwrap().expect("words").contains("cannot reach") {}
    node.restart();
    node.joined().await;
    next().await;
    node.stop().await;
}

#[tokio::test]
async fn a_killed_node_on_the_embedded_engine_resumes_at_once() {
    let mut node = Node::start("solo", EMBEDDED);
    node.joined().await;
    node.process.kill().await;
    node.restart();
    node.joined().await;
    assert!(!node.process.output().contains("had this node's id"), "{}", node.process.output());
    node.stop().await;
}

#[tokio::test]
async fn a_node_with_tokens_is_asked_with_one() {
    let token = "correct-horse-battery";
    let node = Node::start_set("solo", "memory:", &[&format!("http.tokens={token}")]);
    node.joined().await;
    let url = node.url();
    let without = consort(["status", "--url", &url]).await;
    assert_eq!(without.code, Some(1));
    assert!(without.words.contains("give it with --token or CONSORT_TOKEN"), "{without:?}");
    let wrong = consort(["status", "--url", &url, "--token", "wrong-horse-battery"]).await;
    assert_eq!(wrong.code, Some(1));
    let with = consort(["status", "--url", &url, "--token", token]).await;
    assert_eq!(with.code, Some(0), "{with:?}");
    let known = [("CONSORT_TOKEN", token), ("CONSORT_URL", &url)];
    let with = consort_knowing(&known, ["status"]).await;
    assert_eq!(with.code, Some(0), "{with:?}");
    node.stop().await;
}

#[tokio::test]
async fn a_node_that_is_not_there_is_told_with_what_to_do() {
    let port = consort_testbed::Port::claim();
    let url = format!("http://127.0.0.1:{}", port.number());
    for arguments in [
        vec!["status"],
        vec!["drain", "a"],
        vec!["resolve", "worker:s/0", "--from", "end", "--yes"],
    ] {
        let said = consort_knowing(&[("CONSORT_URL", &url)], arguments).await;
        assert_eq!((said.code, said.out.as_str()), (Some(1), ""));
        assert!(said.words.contains(&format!("cannot reach {url}")), "{said:?}");
        assert!(said.words.contains("--url"), "{said:?}");
    }
    let said = consort(["status", "--url", "https://h:1"]).await;
    assert_eq!(said.code, Some(1));
    assert!(said.words.contains("plain HTTP"), "{said:?}");
    let said = consort(["resolve", "worker:s/0", "--from", "middle"]).await;
    assert_eq!(said.code, Some(2));
    assert!(said.words.contains("'first', 'end' or the number of a frame"), "{said:?}");
}

#[tokio::test]
async fn help_teaches_by_examples() {
    for (command, teaches) in [
        ("status", "consort status --watch"),
        ("drain", "consort drain a --no-wait"),
        ("resolve", "consort resolve worker:lift_rides/7 --from first --yes"),
    ] {
        let said = consort([command, "--help"]).await;
        assert_eq!(said.code, Some(0));
        assert!(said.out.contains(teaches) && said.out.contains("Exit codes:"), "{}", said.out);
        assert!(said.out.contains("CONSORT_TOKEN"), "{}", said.out);
    }
}

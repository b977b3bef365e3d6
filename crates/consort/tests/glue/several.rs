//! Two nodes on one Redis: their definitions agree, and no try of a post lands after its client gave up.

use std::time::Duration;

use consort_testbed::{Proxy, RedisOptions, RedisServer, eventually};
use serde_json::json;

use crate::bed::{GlueNode, MERGE, PATIENCE, is_applied, json, text};

const COLLECTION: &str =
    "[glue.content]\nformat = 'json'\npartitions = 1\nhistory = 20\nmax_document = '1MiB'\n";

fn config(id: &str, url: &str, collection: &str) -> String {
    format!(
        "[node]\nid = '{id}'\n[http]\nlisten = '127.0.0.1:0'\n[engine]\nurl = '{url}'\nshards = 2\n{collection}"
    )
}

#[tokio::test]
async fn a_node_with_another_definition_of_a_collection_says_so_and_does_not_start() {
    let redis = RedisServer::start(RedisOptions::new()).await;
    let first = GlueNode::start_as(&config("a", &redis.url(), COLLECTION)).await;
    for (was, is, told) in [
        ("'1MiB'", "'512KiB'", "max_document"),
        ("history = 20", "history = 21", "history"),
        ("'json'", "'xml'", "format"),
        ("partitions = 1", "partitions = 2", "partitions"),
    ] {
        let other = COLLECTION.replace(was, is);
        let refused = GlueNode::try_start(&config("b", &redis.url(), &other)).await;
        let said = refused.err().unwrap_or_else(|| panic!("a node with {is} starts"));
        assert!(said.contains("content") && said.contains(told), "{said}");
    }
    // A gate is each node's own.
    let gate = format!("{COLLECTION}gate = 'off'\n");
    let second = GlueNode::start_as(&config("b", &redis.url(), &gate)).await;
    is_applied(&second.editor().put("/glue/content/d", &json!({"a": 1})).await, 1);
    assert_eq!(text(&first.editor().get("/glue/content/d").await), "{\"a\":1}");
}

#[tokio::test]
async fn no_copy_of_a_piece_lands_after_its_client_gave_up_and_went_to_another_node() {
    let redis = RedisServer::start(RedisOptions::new()).await;
    let proxy = Proxy::start(([127, 0, 0, 1], redis.port()).into()).await;
    let through = format!("redis://{}/0", proxy.address());
    let far = GlueNode::start_as(&config("far", &through, COLLECTION)).await;
    let near = GlueNode::start_as(&config("near", &redis.url(), COLLECTION)).await;
    is_applied(&far.editor().put("/glue/content/d", &json!({"n": 0})).await, 1);
    // The first node is cut off while it has a post in hand.
    proxy.refuse(true);
    proxy.cut();
    let post = far
        .editor()
        .send(consort_client::Method::PATCH, "/glue/content/d", MERGE, "{\"n\":1}")
        .await;
    assert_eq!(post.status, 503, "{}", text(&post));
    let was_refused = json(&post)["type"] == "urn:consort:problem:not-stored";
    // Its client gives up, and goes on through the other one.
    is_applied(&near.editor().merge("/glue/content/d", &json!({"n": 2})).await, 2);
    proxy.refuse(false);
    proxy.heal();
    let far_works = || async { far.editor().get("/readyz").await.status == 200 };
    eventually("the first node is back", PATIENCE, far_works).await;
    is_applied(&far.editor().merge("/glue/content/d", &json!({"back": true})).await, 3);
    // A try that is sent later than its deadline would land within a moment.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let read = near.editor().get("/glue/content/d").await;
    assert_eq!(json(&read), json!({"back": true, "n": 2}), "refused: {was_refused}");
    assert!(read.header("etag").is_some_and(|tag| tag.ends_with(".3\"")), "{:?}", read.headers);
}

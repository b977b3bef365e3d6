//! Rejections that need some history: of sources, gaps, halts, and conditions that can no longer hold.

use consort_client::Method;
use consort_kernel::Partition;
use consort_testbed::{RedisOptions, RedisServer};
use serde_json::{Value, json};

use crate::bed::{GlueNode, LINES, MERGE, PATCH, PATIENCE, is_applied, is_problem, json, text};
use crate::example::Bed;
use crate::verify::{CONFIG, forget};

#[tokio::test]
async fn a_document_knows_32_sources_and_no_more() {
    let node = GlueNode::start().await;
    let mut editor = node.editor();
    for n in 1..=32 {
        let path = format!("/glue/content/d?source=s{n}&seq=1");
        is_applied(&editor.merge(&path, &json!({ "n": n })).await, n);
    }
    let path = "/glue/content/d?source=s33&seq=1";
    is_problem(&editor.merge(path, &json!({"n": 33})).await, 422, "too-many-sources", &["32"]);
    // A piece without a number still comes in, and so does one of a known source.
    is_applied(&editor.merge("/glue/content/d", &json!({"n": 34})).await, 33);
    is_applied(&editor.merge("/glue/content/d?source=s1&seq=2", &json!({"n": 35})).await, 34);
    assert_eq!(editor.counters("content").await["rejected"], 1);
}

#[tokio::test]
async fn a_piece_behind_a_gap_is_rejected_where_the_collection_says_so() {
    let node = GlueNode::start().await;
    let mut editor = node.editor();
    let path = "/glue/exact/d?source=s&seq=2";
    assert_eq!(json(&editor.merge(path, &json!({"n": 2})).await)["state"], "held");
    // The gap ends by the log after 100 ms; the same piece again gets what became of it.
    let deadline = tokio::time::Instant::now() + PATIENCE;
    let rejected = loop {
        let repeat = editor.merge(path, &json!({"n": 2})).await;
        assert_eq!(repeat.header("consort-repeat"), Some("true"));
        if repeat.status != 202 {
            break repeat;
        }
        assert!(tokio::time::Instant::now() < deadline, "the gap does not end");
    };
    is_problem(&rejected, 409, "gap", &[]);
    let late = editor.merge("/glue/exact/d?source=s&seq=1", &json!({"n": 1})).await;
    is_problem(&late, 409, "late", &[]);
    is_applied(&editor.merge("/glue/exact/d?source=s&seq=3", &json!({"n": 3})).await, 1);
    editor.counters("exact").await;
}

#[tokio::test]
async fn more_pieces_than_may_wait_behind_a_halt_are_rejected() {
    let node = GlueNode::start().await;
    let mut editor = node.editor();
    is_applied(&editor.put("/glue/strict/d", &json!({"a": 1})).await, 1);
    let failing = "[{\"op\":\"remove\",\"path\":\"/x\"}]";
    let halted = editor.send(Method::PATCH, "/glue/strict/d?wait=applied", PATCH, failing).await;
    let place = json(&halted)["place"].as_str().expect("a place").to_owned();
    let line = |n: u64| json!({"id": "d", "form": "merge-patch", "piece": {"n": n}}).to_string();
    let lines: String = (0..300).map(|n| line(n) + "\n").collect();
    let bulk = editor.send(Method::POST, "/glue/strict", LINES, lines).await;
    assert_eq!(json(&bulk)["accepted"], 300, "{}", text(&bulk));
    let reply = editor.merge("/glue/strict/d", &json!({"n": 300})).await;
    is_problem(&reply, 423, "halted", &[&place]);
    let counters = editor.counters("strict").await;
    let number = |name: &str| counters[name].as_u64().expect("a number");
    // The halting piece waits as well: 256 in all.
    assert_eq!((number("queued"), number("rejected")), (256, 302 - 256), "{counters}");
    // Those that were rejected are listed with their content; the others follow the decision, in steps.
    let rejects = editor.json("/glue/strict/rejects?id=d&limit=1000").await;
    let last = rejects["rejects"].as_array().expect("rejects").last().expect("some").clone();
    assert_eq!((&last["reason"], &last["piece"]), (&json!("halted"), &json!({"n": 300})));
    let decision = json!({ "place": place }).to_string();
    let path = "/glue/strict/d/discard?wait=applied";
    assert_eq!(editor.send(Method::POST, path, &[], decision).await.status, 200);
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while editor.counters("strict").await["queued"] != 0 {
        assert!(tokio::time::Instant::now() < deadline, "the pieces are not released");
    }
    assert_eq!(text(&editor.get("/glue/strict/d").await), "{\"a\":1,\"n\":254}");
}

#[tokio::test]
async fn a_condition_that_can_never_hold_again_is_refused_before_the_log() {
    let node = GlueNode::start().await;
    let mut editor = node.editor();
    let first = editor.put("/glue/content/d", &json!({"n": 1})).await;
    let tag = first.header("etag").expect("an ETag").to_owned();
    is_applied(&editor.merge("/glue/content/d?source=epg&seq=1", &json!({"n": 2})).await, 2);
    let outdated = [("if-match", &*tag), MERGE[0]];
    let reply = editor.send(Method::PATCH, "/glue/content/d", &outdated, "{\"n\":3}").await;
    is_problem(&reply, 412, "condition-failed", &["version 2"]);
    let said = json(&reply);
    assert_eq!(
        (&said["source"], &said["seq"]),
        (&json!("epg"), &json!(1)),
        "of the present version"
    );
    assert_eq!(said.get("place"), None, "it has no place in the log");
    let list = editor.json("/glue/content/rejects").await;
    assert_eq!(list["rejects"], json!([]), "it was never accepted");
    assert_eq!(editor.counters("content").await["received"], 2);

    // A piece with a key or a number may repeat one that succeeded: the log judges it, and lists it.
    let keyed = [outdated[0], outdated[1], ("idempotency-key", "k")];
    let reply = editor.send(Method::PATCH, "/glue/content/d", &keyed, "{\"n\":4}").await;
    is_problem(&reply, 412, "condition-failed", &[]);
    assert!(json(&reply)["place"].is_string());
    let list = editor.json("/glue/content/rejects").await;
    assert_eq!(list["rejects"].as_array().map(Vec::len), Some(1), "{list}");
}

#[tokio::test]
async fn readers_hear_503_while_the_store_is_gone_and_the_document_afterwards() {
    let mut redis = RedisServer::start(RedisOptions::new()).await;
    let node = GlueNode::start_as(&format!(
        "[http]\nlisten = '127.0.0.1:0'\n[engine]\nurl = '{}'\nshards = 2\n\
         [glue.content]\nformat = 'json'\npartitions = 2\n",
        redis.url()
    ))
    .await;
    let mut editor = node.editor();
    is_applied(&editor.put("/glue/content/d", &json!({"a": 1})).await, 1);
    redis.stop().await;
    for path in ["/glue/content/d", "/glue/content", "/glue/content/rejects"] {
        let reply = node.editor().get(path).await;
        is_problem(&reply, 503, "store-failed", &["ask again"]);
        assert!(reply.header("retry-after").is_some());
    }
    redis.restart().await;
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        let reply = node.editor().get("/glue/content/d").await;
        if reply.status == 200 {
            let document: Value = json(&reply);
            assert_eq!(document, json!({"a": 1}));
            break;
        }
        assert!(tokio::time::Instant::now() < deadline, "{}", text(&reply));
    }
}

#[tokio::test]
async fn a_large_rejected_piece_is_listed_from_the_log_while_the_log_keeps_it() {
    let mut bed = Bed::start_with(&CONFIG.replace("halt", "skip")).await;
    let mut editor = bed.editor();
    is_applied(&editor.put("/glue/content/d", &json!({})).await, 1);
    let failing = json!([{"op": "test", "path": "/none", "value": "x".repeat(40_000)}]);
    let path = "/glue/content/d?wait=applied";
    let sent = editor.send(Method::PATCH, path, PATCH, failing.to_string()).await;
    is_problem(&sent, 409, "missing-path", &[]);
    is_applied(&editor.put("/glue/content/last", &json!({})).await, 1);
    let rejects = editor.json("/glue/content/rejects").await;
    assert_eq!(rejects["rejects"][0]["piece"], failing, "read from its place in the log");

    bed.node.terminate(PATIENCE).await;
    let place = json(&sent)["place"].as_str().expect("a place").to_owned();
    let offset: u64 = place.split('-').nth(2).expect("an offset").parse().expect("a number");
    let log = Partition::new("glue.content".parse().expect("a name"), 0);
    forget(&bed, &log, offset + 1).await;
    bed.restart().await;
    // The reject stays, and says how large the piece was.
    let rejects = bed.editor().json("/glue/content/rejects").await;
    let reject = &rejects["rejects"][0];
    assert_eq!((reject.get("piece"), &reject["reason"]), (None, &json!("missing-path")));
    assert_eq!(reject["piece_bytes"], failing.to_string().len());
}

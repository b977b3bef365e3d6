//! A repeat gets the first outcome, whatever that was.

use consort_client::{Method, Reply};
use serde_json::json;

use crate::bed::{Editor, GlueNode, MERGE, PATCH, is_applied, is_problem, json, text};

async fn keyed(editor: &mut Editor, key: &str, patch: &str) -> Reply {
    let headers = [("idempotency-key", key), MERGE[0]];
    editor.send(Method::PATCH, "/glue/content/d?wait=applied", &headers, patch.to_owned()).await
}

#[tokio::test]
async fn an_applied_piece_is_repeated_by_its_key_and_applied_once() {
    let node = GlueNode::start().await;
    let mut editor = node.editor();
    let first = keyed(&mut editor, "k", "{\"a\":1}").await;
    is_applied(&first, 1);
    assert_eq!(first.header("consort-repeat"), None);
    is_applied(&keyed(&mut editor, "l", "{\"a\":2}").await, 2);
    let repeat = keyed(&mut editor, "k", "{\"a\":1}").await;
    is_applied(&repeat, 1);
    assert_eq!(repeat.header("consort-repeat"), Some("true"));
    is_problem(&keyed(&mut editor, "k", "{\"a\":3}").await, 422, "key-reused", &[]);
    assert_eq!(text(&editor.get("/glue/content/d").await), "{\"a\":2}");
    // The key counts for this document alone.
    let headers = [("idempotency-key", "k"), MERGE[0]];
    let other = editor.send(Method::PATCH, "/glue/content/e?wait=applied", &headers, "{}").await;
    is_applied(&other, 1);
}

#[tokio::test]
async fn a_rejected_piece_is_repeated_by_key_and_by_number() {
    let node = GlueNode::start().await;
    let mut editor = node.editor();
    is_applied(&editor.put("/glue/content/d", &json!({})).await, 1);
    let failing = "[{\"op\":\"remove\",\"path\":\"/x\"}]";
    let headers = [("idempotency-key", "k"), PATCH[0]];
    for (path, headers) in [
        ("/glue/content/d?wait=applied", &headers[..]),
        ("/glue/content/d?wait=applied&source=s&seq=1", PATCH),
    ] {
        let first = editor.send(Method::PATCH, path, headers, failing).await;
        is_problem(&first, 409, "missing-path", &[]);
        // What would apply now does not change the first outcome.
        editor.put("/glue/content/d", &json!({"x": 1})).await;
        let repeat = editor.send(Method::PATCH, path, headers, failing).await;
        is_problem(&repeat, 409, "missing-path", &[]);
        assert_eq!(repeat.header("consort-repeat"), Some("true"));
        assert_eq!(json(&repeat)["place"], json(&first)["place"]);
        editor.put("/glue/content/d", &json!({})).await;
    }
    assert_eq!(editor.counters("content").await["rejected"], 2);
}

#[tokio::test]
async fn a_held_piece_is_known_by_its_number() {
    let node = GlueNode::start().await;
    let mut editor = node.editor();
    let path = "/glue/content/d?wait=applied&source=s&seq=2";
    for repeat in [None, Some("true")] {
        let held = editor.send(Method::PATCH, path, MERGE, "{\"a\":2}").await;
        assert_eq!((held.status.as_u16(), json(&held)["state"].as_str()), (202, Some("held")));
        assert_eq!(held.header("consort-repeat"), repeat);
    }
    let counters = editor.counters("content").await;
    assert_eq!((&counters["held"], &counters["repeats"]), (&json!(1), &json!(1)));
}

#[tokio::test]
async fn a_conditional_piece_that_succeeded_is_no_conflict_when_it_comes_again() {
    let node = GlueNode::start().await;
    let mut editor = node.editor();
    let created = editor.put("/glue/content/d", &json!({})).await;
    let tag = created.header("etag").unwrap().to_owned();
    let headers = [("if-match", &*tag), ("idempotency-key", "k"), MERGE[0]];
    for repeat in [None, Some("true")] {
        let reply = editor.send(Method::PATCH, "/glue/content/d", &headers, "{\"a\":1}").await;
        is_applied(&reply, 2);
        assert_eq!(reply.header("consort-repeat"), repeat);
    }
}

//! A document that halted goes on by an operator's decision.

use consort_client::Method;
use serde_json::{Value, json};

use crate::bed::{Editor, GlueNode, MERGE, PATCH, is_applied, is_problem, json, text};

const FAILING: &str = "[{\"op\":\"remove\",\"path\":\"/x\"}]";

/// A halted document with one piece queued behind; the place of the piece that halted it.
async fn halt(editor: &mut Editor, id: &str) -> String {
    let path = format!("/glue/strict/{id}");
    is_applied(&editor.put(&path, &json!({"a": 1})).await, 1);
    let failed = editor.send(Method::PATCH, &format!("{path}?wait=applied"), PATCH, FAILING).await;
    is_problem(&failed, 409, "missing-path", &[]);
    let queued = editor.merge(&path, &json!({"b": 2})).await;
    is_problem(&queued, 423, "queued", &[]);
    let read = editor.get(&path).await;
    assert_eq!((text(&read), read.header("consort-state")), ("{\"a\":1}".into(), Some("halted")));
    json(&failed)["place"].as_str().unwrap().to_owned()
}

async fn decide(editor: &mut Editor, path: &str, decision: &Value) -> consort_client::Reply {
    editor
        .send(Method::POST, &format!("/glue/strict/{path}?wait=applied"), &[], decision.to_string())
        .await
}

/// Reads a document that is released by its own traffic or by the timer.
async fn settles(editor: &mut Editor, path: &str, expected: &str) {
    let deadline = tokio::time::Instant::now() + crate::bed::PATIENCE;
    loop {
        let read = editor.get(path).await;
        if text(&read) == expected && read.header("consort-state") == Some("live") {
            return;
        }
        assert!(tokio::time::Instant::now() < deadline, "{}: {:?}", text(&read), read.headers);
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_discarded_piece_is_rejected_and_those_behind_it_are_applied() {
    let node = GlueNode::start().await;
    let mut editor = node.editor();
    let place = halt(&mut editor, "d").await;
    let wrong = decide(&mut editor, "d/discard", &json!({"place": "0-0-999-0"})).await;
    is_problem(&wrong, 409, "not-halted", &[]);
    let discarded = decide(&mut editor, "d/discard", &json!({ "place": place })).await;
    assert_eq!(discarded.status, 200, "{}", text(&discarded));
    settles(&mut editor, "/glue/strict/d", "{\"a\":1,\"b\":2}").await;
    let list = editor.json("/glue/strict/rejects?id=d").await;
    assert_eq!(list["rejects"][0]["place"], place, "{list}");
    assert_eq!(editor.counters("strict").await["queued"], 0);
}

#[tokio::test]
async fn a_replacement_is_applied_in_place_of_the_piece_that_halted() {
    let node = GlueNode::start().await;
    let mut editor = node.editor();
    let place = halt(&mut editor, "d").await;
    let bad = json!({"place": place, "form": "merge-patch"});
    is_problem(&decide(&mut editor, "d/retry", &bad).await, 400, "malformed", &["needs 'piece'"]);
    let replacement = json!({"place": place, "form": "merge-patch", "piece": {"x": 1}});
    is_applied(&decide(&mut editor, "d/retry", &replacement).await, 2);
    settles(&mut editor, "/glue/strict/d", "{\"a\":1,\"b\":2,\"x\":1}").await;
    let counters = editor.counters("strict").await;
    assert_eq!((&counters["rejected"], &counters["applied"]), (&json!(0), &json!(3)));
}

#[tokio::test]
async fn a_merge_patch_without_a_document_is_rejected_where_the_collection_says_so() {
    let node = GlueNode::start().await;
    let mut editor = node.editor();
    let reply = editor.send(Method::PATCH, "/glue/strict/none?wait=applied", MERGE, "{}").await;
    is_problem(&reply, 404, "no-document", &[]);
}

//! Pieces with numbers are applied in the order of their numbers.

use consort_client::Method;
use consort_testbed::eventually;
use serde_json::json;

use crate::bed::{GlueNode, MERGE, PATCH, PATIENCE, is_applied, is_problem, json, text};

fn numbered(seq: u64) -> String {
    format!("/glue/content/d?source=epg&seq={seq}&wait=applied")
}

fn add(seq: u64) -> String {
    json!([{"op": "add", "path": "/list/-", "value": seq}]).to_string()
}

#[tokio::test]
async fn numbers_sent_as_1_3_2_2_1_4_are_applied_as_1_2_3_4() {
    let node = GlueNode::start().await;
    let mut editor = node.editor();
    is_applied(&editor.put("/glue/content/d", &json!({"list": []})).await, 1);
    let mut said = Vec::new();
    for seq in [1, 3, 2, 2, 1, 4] {
        let reply = editor.send(Method::PATCH, &numbered(seq), PATCH, add(seq)).await;
        let repeat = reply.header("consort-repeat").is_some();
        said.push((
            reply.status.as_u16(),
            json(&reply)["state"].as_str().unwrap().to_owned(),
            repeat,
        ));
    }
    let told: Vec<_> =
        said.iter().map(|(status, state, repeat)| (*status, &**state, *repeat)).collect();
    assert_eq!(told[..2], [(200, "applied", false), (202, "held", false)]);
    assert_eq!(told[2], (200, "applied", false));
    // Of older numbers than a source's last one only the number is remembered.
    assert!(told[3].0 == 200 && told[3].2 && told[4] == (200, "repeat", true), "{told:?}");
    assert_eq!(told[5], (200, "applied", false));
    assert_eq!(text(&editor.get("/glue/content/d").await), "{\"list\":[1,2,3,4]}");
    let counters = editor.counters("content").await;
    assert_eq!((&counters["applied"], &counters["repeats"]), (&json!(5), &json!(2)));
}

#[tokio::test]
async fn a_held_piece_names_the_missing_numbers() {
    let node = GlueNode::start().await;
    let mut editor = node.editor();
    let held = editor.send(Method::PATCH, &numbered(3), MERGE, "{\"a\":3}").await;
    assert_eq!(held.status, 202);
    assert_eq!(json(&held), json!({"state": "held", "missing": [1, 2]}));
    is_problem(&editor.get("/glue/content/d").await, 404, "no-document", &[]);
    assert_eq!(editor.counters("content").await["held"], 1);
}

#[tokio::test]
async fn a_gap_ends_by_the_log_and_a_late_piece_is_rejected() {
    let node = GlueNode::start().await;
    let mut editor = node.editor();
    let path = |seq: u64| format!("/glue/plain/d?source=epg&seq={seq}&wait=applied");
    let held = editor.send(Method::PATCH, &path(2), MERGE, "{\"a\":2}").await;
    assert_eq!(held.status, 202, "{}", text(&held));
    let editor = tokio::sync::Mutex::new(editor);
    eventually("the gap ends and the held piece is applied", PATIENCE, || async {
        text(&editor.lock().await.get("/glue/plain/d").await) == "{\"a\":2}"
    })
    .await;
    let mut editor = editor.into_inner();
    let late = editor.send(Method::PATCH, &path(1), MERGE, "{\"a\":1}").await;
    is_problem(&late, 409, "late", &[]);
    let list = editor.json("/glue/plain/rejects").await;
    let noted = &list["rejects"][0];
    assert_eq!((&noted["source"], &noted["seq"]), (&json!("epg"), &json!(1)), "{list}");
    editor.counters("plain").await;
}

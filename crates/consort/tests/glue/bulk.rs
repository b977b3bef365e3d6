//! Many pieces in one request.

use consort_client::Method;
use serde_json::{Value, json};

use crate::bed::{GlueNode, LINES, is_problem, json, text};

fn lines(pieces: &[Value]) -> String {
    pieces.iter().map(|piece| format!("{piece}\n")).collect()
}

#[tokio::test]
async fn good_lines_are_stored_in_their_order_and_bad_ones_are_named() {
    let node = GlueNode::start().await;
    let mut editor = node.editor();
    let body = [
        lines(&[
            json!({"id": "a", "form": "whole", "piece": {"n": []}}),
            json!({"id": "a", "form": "json-patch", "piece": [{"op": "add", "path": "/n/-", "value": 1}], "source": "s", "seq": 1}),
        ]),
        "not json\n\n".to_owned(),
        lines(&[
            json!({"id": "a", "form": "json-patch", "piece": [{"op": "add", "path": "/n/-", "value": 2}], "key": "k"}),
            json!({"id": "b", "form": "xml-patch", "piece": "<d/>"}),
            json!({"id": "b", "form": "merge-patch", "piece": {"b": 1}, "if_none_match": "*"}),
            json!({"id": "c", "form": "delete", "extra": true}),
            json!({"id": "", "form": "delete"}),
            json!({"id": "d", "form": "merge-patch", "piece": {}, "source": "s"}),
        ]),
    ]
    .concat();
    let reply = editor.send(Method::POST, "/glue/content", LINES, body).await;
    assert_eq!(reply.status, 202, "{}", text(&reply));
    let said = json(&reply);
    assert_eq!((&said["accepted"], &said["rejected"]), (&json!(5), &json!(4)), "{said}");
    let refused: Vec<_> = said["rejections"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["line"].as_u64().unwrap(), one["reason"].as_str().unwrap()))
        .collect();
    assert_eq!(refused, [(3, "malformed"), (6, "content-type"), (9, "id"), (10, "parameter")]);
    let position = said["position"].as_str().unwrap();
    let read = editor.get_with("/glue/content/a", &[("consort-after", position)]).await;
    assert_eq!(text(&read), "{\"n\":[1,2]}");
    assert_eq!(text(&editor.get("/glue/content/b").await), "{\"b\":1}");
}

#[tokio::test]
async fn a_page_of_a_feed_can_be_posted_to_another_collection() {
    let node = GlueNode::start().await;
    let mut editor = node.editor();
    for n in 1..=3 {
        editor
            .merge(&format!("/glue/content/d?source=s&seq={n}"), &json!({ format!("m{n}"): n }))
            .await;
    }
    let rows = text(&editor.get("/feeds/glue/content").await);
    assert_eq!(rows.lines().count(), 3, "{rows}");
    let copied = editor.send(Method::POST, "/glue/plain", LINES, rows).await;
    assert_eq!(json(&copied)["accepted"], 3, "{}", text(&copied));
    let position = copied.header("consort-position").unwrap().to_owned();
    let read = editor.get_with("/glue/plain/d", &[("consort-after", &position)]).await;
    assert_eq!(text(&read), "{\"m1\":1,\"m2\":2,\"m3\":3}");
}

#[tokio::test]
async fn many_thousand_pieces_of_one_document_arrive_in_order() {
    let node = GlueNode::start().await;
    let mut editor = node.editor();
    let piece = |n: u64| json!({"id": "d", "form": "merge-patch", "piece": {"n": n}, "source": "s", "seq": n});
    let body = lines(&(1..=5_000).map(piece).collect::<Vec<_>>());
    let reply = editor.send(Method::POST, "/glue/content", LINES, body.clone()).await;
    assert_eq!((reply.status.as_u16(), &json(&reply)["accepted"]), (202, &json!(5_000)));
    let position = reply.header("consort-position").unwrap().to_owned();
    let read = editor.get_with("/glue/content/d", &[("consort-after", &position)]).await;
    assert_eq!(text(&read), "{\"n\":5000}");
    let counters = editor.counters("content").await;
    assert_eq!((&counters["applied"], &counters["held"]), (&json!(5_000), &json!(0)));
    // All of it again changes nothing.
    let again = editor.send(Method::POST, "/glue/content", LINES, body).await;
    let position = again.header("consort-position").unwrap().to_owned();
    let read = editor.get_with("/glue/content/d", &[("consort-after", &position)]).await;
    assert!(read.header("etag").unwrap().ends_with(".5000\""), "{:?}", read.header("etag"));
    assert_eq!(editor.counters("content").await["repeats"], 5_000);
}

#[tokio::test]
async fn a_body_of_nothing_but_bad_lines_is_refused() {
    let node = GlueNode::start().await;
    let mut editor = node.editor();
    let reply = editor.send(Method::POST, "/glue/content", LINES, "x\n".repeat(1_000)).await;
    is_problem(&reply, 400, "no-piece", &[]);
    let said = json(&reply);
    assert_eq!(
        (&said["rejected"], said["rejections"].as_array().unwrap().len()),
        (&json!(1_000), 100)
    );
    let empty = editor.send(Method::POST, "/glue/content", LINES, "").await;
    assert_eq!((empty.status.as_u16(), &json(&empty)["accepted"]), (202, &json!(0)));
}

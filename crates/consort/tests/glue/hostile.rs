//! Pieces that are made to cost much are refused or rejected, and the next piece is applied.

use consort_client::Method;
use serde_json::json;

use crate::bed::{GlueNode, Headers, MERGE, PATCH, XML, XML_PATCH, is_applied, text};

struct Bomb {
    name: &'static str,
    path: &'static str,
    method: Method,
    headers: Headers<'static>,
    body: String,
    kinds: &'static [&'static str],
}

fn bombs() -> Vec<Bomb> {
    let json = |name, method, headers, body, kinds| Bomb {
        name,
        path: "/glue/content/d",
        method,
        headers,
        body,
        kinds,
    };
    let xml = |name, method, headers, body, kinds| Bomb {
        name,
        path: "/glue/guides/d",
        method,
        headers,
        body,
        kinds,
    };
    let operations = |count: usize, one: &str| format!("[{}]", vec![one; count].join(","));
    let copy = r#"{"op":"copy","from":"/a","path":"/a/-"}"#;
    let insert = r#"{"op":"add","path":"/a/0","value":1}"#;
    vec![
        json(
            "copies that double",
            Method::PATCH,
            PATCH,
            operations(40, copy),
            &["too-large", "too-deep"],
        ),
        json(
            "100,000 operations",
            Method::PATCH,
            PATCH,
            operations(40_000, insert),
            &["too-many-operations", "piece-too-large"],
        ),
        json(
            "depth",
            Method::PUT,
            &[],
            format!("{}{}", "[".repeat(100_000), "]".repeat(100_000)),
            &["piece-too-deep"],
        ),
        json(
            "depth in a merge patch",
            Method::PATCH,
            MERGE,
            format!("{}1{}", "{\"a\":".repeat(5_000), "}".repeat(5_000)),
            &["piece-too-deep"],
        ),
        json("duplicate names", Method::PUT, &[], "{\"a\":1,\"a\":1}".into(), &["duplicate-name"]),
        json(
            "a number beyond doubles",
            Method::PUT,
            &[],
            "1e400".into(),
            &["number-would-change", "malformed"],
        ),
        xml(
            "entities",
            Method::PUT,
            XML,
            "<!DOCTYPE a [<!ENTITY b \"x\">]><a>&b;</a>".into(),
            &["invalid-entity-declaration"],
        ),
        xml(
            "depth",
            Method::PUT,
            XML,
            format!("{}{}", "<a>".repeat(5_000), "</a>".repeat(5_000)),
            &["piece-too-deep"],
        ),
        xml(
            "selectors over everything",
            Method::PATCH,
            XML_PATCH,
            format!("<d>{}</d>", "<remove sel=\"//*[a='1'][b='2']\"/>".repeat(900)),
            &["unlocated-node", "too-costly", "too-many-operations"],
        ),
    ]
}

#[tokio::test]
async fn after_each_bomb_the_document_and_its_neighbours_go_on() {
    let node = GlueNode::start().await;
    let mut editor = node.editor();
    let array: Vec<u32> = (0..2_000).collect();
    is_applied(&editor.put("/glue/content/d", &json!({ "a": array })).await, 1);
    let many = format!("<a>{}</a>", "<b/>".repeat(2_000));
    is_applied(&editor.send(Method::PUT, "/glue/guides/d?wait=applied", XML, many).await, 1);
    for (version, bomb) in (2..).zip(bombs()) {
        let Bomb { name, path, method, headers, body, kinds } = bomb;
        let reply = editor.send(method, &format!("{path}?wait=applied"), headers, body).await;
        let said = text(&reply);
        assert!(reply.status.is_client_error(), "{name}: {said}");
        assert!(kinds.iter().any(|kind| said.contains(&format!(":{kind}\""))), "{name}: {said}");
        is_applied(&editor.merge("/glue/content/d", &json!({ "after": name })).await, version);
        is_applied(&editor.put(&format!("/glue/content/next{version}"), &json!({})).await, 1);
    }
    editor.counters("content").await;
    editor.counters("guides").await;
}

#[tokio::test]
async fn bombs_in_a_bulk_request_are_refused_line_by_line() {
    let node = GlueNode::start().await;
    let mut editor = node.editor();
    let deep = format!("{}{}", "[".repeat(50_000), "]".repeat(50_000));
    let bomb = format!("{{\"id\":\"d\",\"form\":\"whole\",\"piece\":{deep}}}\n");
    let good = "{\"id\":\"d\",\"form\":\"whole\",\"piece\":{}}\n";
    let body = [good, &bomb, good, &bomb.repeat(20), good].concat();
    let reply = editor.send(Method::POST, "/glue/content", crate::bed::LINES, body).await;
    let said = crate::bed::json(&reply);
    assert_eq!((&said["accepted"], &said["rejected"]), (&json!(3), &json!(21)), "{said}");
}

//! Old versions of documents, and their differences.

use consort_client::Method;
use serde_json::{Value, json};

use crate::bed::{GlueNode, is_applied, is_problem, json, text};

const DOCUMENT: &str = "/glue/content/d";

#[tokio::test]
async fn each_of_the_last_versions_can_be_read_and_compared() {
    let node = GlueNode::start().await;
    let mut editor = node.editor();
    for n in 1..=30 {
        is_applied(
            &editor.merge(&format!("{DOCUMENT}?source=s&seq={n}"), &json!({ "n": n })).await,
            n,
        );
    }
    for version in 11..=30 {
        let read = editor.get(&format!("{DOCUMENT}?version={version}")).await;
        assert_eq!(text(&read), json!({ "n": version }).to_string(), "version {version}");
        assert!(read.header("etag").unwrap().ends_with(&format!(".{version}\"")));
    }
    for version in [0, 10, 31] {
        let read = editor.get(&format!("{DOCUMENT}?version={version}")).await;
        is_problem(&read, 404, "no-version", &["11 to 30"]);
    }
    let diff = editor.get(&format!("{DOCUMENT}/diff?from=12&to=20")).await;
    assert_eq!(diff.header("content-type"), Some("application/json-patch+json"));
    assert_eq!(json(&diff), json!([{"op": "replace", "path": "/n", "value": 20}]));
    let to_now = editor.get(&format!("{DOCUMENT}/diff?from=12")).await;
    assert_eq!(json(&to_now)[0]["value"], 30);
}

#[tokio::test]
async fn versions_are_listed_newest_first_page_by_page() {
    let node = GlueNode::start().await;
    let mut editor = node.editor();
    for n in 1..=25 {
        editor.merge(&format!("{DOCUMENT}?source=s&seq={n}"), &json!({ "n": n })).await;
    }
    let (mut seen, mut after) = (Vec::new(), String::new());
    loop {
        let page = editor.json(&format!("{DOCUMENT}/versions?limit=7{after}")).await;
        let versions = page["versions"].as_array().unwrap();
        seen.extend(versions.iter().map(|one| one["version"].as_u64().unwrap()));
        let first = &versions[0];
        assert_eq!((&first["form"], &first["source"]), (&json!("merge-patch"), &json!("s")));
        assert_eq!(first["was"].as_u64().unwrap() + 1, first["version"].as_u64().unwrap());
        let Some(next) = page["next"].as_u64() else { break };
        after = format!("&after={next}");
    }
    assert_eq!(seen, (6..=25).rev().collect::<Vec<_>>());
}

#[tokio::test]
async fn a_deleted_version_is_gone_and_the_one_before_is_still_there() {
    let node = GlueNode::start().await;
    let mut editor = node.editor();
    is_applied(&editor.put(DOCUMENT, &json!({"a": 1})).await, 1);
    let deleted = editor.send(Method::DELETE, &format!("{DOCUMENT}?wait=applied"), &[], "").await;
    is_applied(&deleted, 2);
    is_applied(&editor.put(DOCUMENT, &json!({"a": 3})).await, 3);
    assert_eq!(text(&editor.get(&format!("{DOCUMENT}?version=1")).await), "{\"a\":1}");
    is_problem(&editor.get(&format!("{DOCUMENT}?version=2")).await, 410, "deleted", &[]);
    assert_eq!(text(&editor.get(&format!("{DOCUMENT}?version=3")).await), "{\"a\":3}");
    let versions: Value = editor.json(&format!("{DOCUMENT}/versions")).await;
    let forms: Vec<_> =
        versions["versions"].as_array().unwrap().iter().map(|one| &one["form"]).collect();
    assert_eq!(forms, ["whole", "delete", "whole"]);
}

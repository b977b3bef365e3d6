//! Lists of documents, and the cursor that joins a list to the feed.

use std::collections::BTreeMap;

use consort_client::Method;
use serde_json::{Value, json};

use crate::bed::{Editor, GlueNode, LINES, json, text};

async fn fill(editor: &mut Editor, documents: usize) {
    let line = |n: usize| {
        format!("{}\n", json!({"id": format!("d{n:04}"), "form": "whole", "piece": {"n": n}}))
    };
    let body: String = (0..documents).map(line).collect();
    let reply = editor.send(Method::POST, "/glue/content", LINES, body).await;
    assert_eq!(json(&reply)["accepted"], documents, "{}", text(&reply));
    let position = reply.header("consort-position").unwrap().to_owned();
    editor.get_with("/glue/content/none", &[("consort-after", &position)]).await;
}

/// All pages of a list.
async fn all(editor: &mut Editor, query: &str) -> Vec<Value> {
    let (mut documents, mut after) = (Vec::new(), String::new());
    loop {
        let page = editor.json(&format!("/glue/content?{query}{after}")).await;
        documents.extend(page["documents"].as_array().unwrap().clone());
        let Some(next) = page["next"].as_str() else { return documents };
        after = format!("&after={next}");
    }
}

#[tokio::test]
async fn documents_are_listed_once_in_the_order_of_their_ids() {
    let node = GlueNode::start().await;
    let mut editor = node.editor();
    fill(&mut editor, 250).await;
    for limit in [7, 100, 250, 1000] {
        let documents = all(&mut editor, &format!("limit={limit}")).await;
        let ids: Vec<_> = documents.iter().map(|one| one["id"].as_str().unwrap()).collect();
        let expected: Vec<_> = (0..250).map(|n| format!("d{n:04}")).collect();
        assert_eq!(ids, expected, "pages of {limit}");
        assert!(
            documents.iter().all(|one| one.get("document").is_none() && one["state"] == "live")
        );
    }
    let whole = all(&mut editor, "documents=true&limit=60").await;
    assert!(whole.iter().enumerate().all(|(n, one)| one["document"] == json!({ "n": n })));
}

#[tokio::test]
async fn tombstones_are_listed_where_they_are_asked_for() {
    let node = GlueNode::start().await;
    let mut editor = node.editor();
    fill(&mut editor, 3).await;
    editor.send(Method::DELETE, "/glue/content/d0001?wait=applied", &[], "").await;
    assert_eq!(all(&mut editor, "").await.len(), 2);
    let documents = all(&mut editor, "deleted=true&documents=true").await;
    assert_eq!((&documents[1]["state"], &documents[1]["version"]), (&json!("deleted"), &json!(2)));
    assert!(documents[1].get("document").is_none());
}

#[tokio::test]
async fn a_list_and_the_feed_behind_its_cursor_make_the_present_state() {
    let node = GlueNode::start().await;
    let mut editor = node.editor();
    fill(&mut editor, 40).await;
    let first = editor.get("/glue/content?documents=true&deleted=true&limit=10").await;
    let cursor = first.header("consort-cursor").expect("a cursor").to_owned();
    let mut state: BTreeMap<String, Value> = BTreeMap::new();
    let mut page = json(&first);
    // Documents change while the list is read.
    for n in 0.. {
        for one in page["documents"].as_array().unwrap() {
            state.insert(one["id"].as_str().unwrap().to_owned(), one.clone());
        }
        let path = format!("/glue/content/d{:04}", 39 - n * 7);
        editor.merge(&path, &json!({ "changed": n })).await;
        let Some(next) = page["next"].as_str() else { break };
        let path = format!("/glue/content?documents=true&deleted=true&limit=10&after={next}");
        let next = editor.get(&path).await;
        assert_eq!(next.header("consort-cursor"), None, "the first page has the cursor");
        page = json(&next);
    }
    let rows = text(&editor.get(&format!("/feeds/glue/content?after={cursor}&limit=1000")).await);
    for row in rows.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()) {
        let listed = state.get_mut(row["id"].as_str().unwrap()).expect("it was listed");
        if row["version"].as_u64() > listed["version"].as_u64() {
            assert_eq!(row["was"], listed["version"], "no version is missing");
            listed["document"]["changed"] = row["piece"]["changed"].clone();
            listed["version"] = row["version"].clone();
        }
    }
    for now in all(&mut editor, "documents=true").await {
        let made = &state[now["id"].as_str().unwrap()];
        assert_eq!((&made["document"], &made["version"]), (&now["document"], &now["version"]));
    }
}

#[tokio::test]
async fn the_overview_shows_collections_and_their_counters() {
    let node = GlueNode::start().await;
    let mut editor = node.editor();
    fill(&mut editor, 5).await;
    let overview = editor.json("/glue").await;
    let names: Vec<_> =
        overview["collections"].as_array().unwrap().iter().map(|one| &one["collection"]).collect();
    assert_eq!(names, ["content", "exact", "guides", "plain", "strict"]);
    let content = &overview["collections"][0];
    assert_eq!((&content["format"], &content["partitions"]), (&json!("json"), &json!(2)));
    assert_eq!(content["tenants"]["default"]["applied"], 5);
    assert_eq!(editor.counters("content").await["applied"], 5);
    assert!(text(&editor.get("/").await).contains("\"/glue\""));
}

//! Every call by every status of the interface.

use consort_client::Method;
use serde_json::json;

use crate::bed::{
    GlueNode, Headers, LINES, MERGE, PATCH, XML, XML_PATCH, is_applied, is_problem, json, text,
};

const DOCUMENT: &str = "/glue/content/crid:%2F%2Fa%2F1";

#[tokio::test]
async fn a_document_is_put_patched_read_and_deleted() {
    let node = GlueNode::start().await;
    let mut editor = node.editor();
    is_applied(&editor.put(DOCUMENT, &json!({"title": "A", "n": 1})).await, 1);
    is_applied(&editor.merge(DOCUMENT, &json!({"n": null, "tags": ["x"]})).await, 2);
    let patch = json!([{"op": "add", "path": "/tags/-", "value": "y"}]).to_string();
    let patched =
        editor.send(Method::PATCH, &format!("{DOCUMENT}?wait=applied"), PATCH, patch).await;
    is_applied(&patched, 3);

    let read = editor.get(DOCUMENT).await;
    assert_eq!(text(&read), r#"{"tags":["x","y"],"title":"A"}"#);
    assert_eq!(read.header("content-type"), Some("application/json"));
    assert_eq!(read.header("consort-state"), Some("live"));
    let tag = read.header("etag").expect("an ETag").to_owned();
    assert_eq!(Some(&*tag), patched.header("etag"));
    let same = editor.get_with(DOCUMENT, &[("if-none-match", &tag)]).await;
    assert_eq!((same.status.as_u16(), same.body.len()), (304, 0));
    let head = editor.send(Method::HEAD, DOCUMENT, &[], "").await;
    assert_eq!((head.status.as_u16(), head.header("etag")), (200, Some(&*tag)));

    let deleted = editor.send(Method::DELETE, &format!("{DOCUMENT}?wait=applied"), &[], "").await;
    is_applied(&deleted, 4);
    is_problem(&editor.get(DOCUMENT).await, 410, "deleted", &["version 4"]);
    let again = editor.send(Method::DELETE, &format!("{DOCUMENT}?wait=applied"), &[], "").await;
    assert_eq!(again.status, 204, "{}", text(&again));
    is_problem(&editor.merge(DOCUMENT, &json!({"a": 1})).await, 410, "deleted", &[]);
    let revived = editor.put(DOCUMENT, &json!({"title": "B"})).await;
    is_applied(&revived, 5);
    assert_ne!(json(&revived)["life"], json(&patched)["life"], "a new life begins");
}

#[tokio::test]
async fn a_piece_is_accepted_and_its_position_is_waited_for() {
    let node = GlueNode::start().await;
    let mut editor = node.editor();
    for n in 1..=20 {
        let body = json!({ "n": n }).to_string();
        let accepted = editor.send(Method::PUT, DOCUMENT, &[], body).await;
        assert_eq!(
            (accepted.status.as_u16(), text(&accepted)),
            (202, r#"{"state":"accepted"}"#.into())
        );
        let position = accepted.header("consort-position").expect("a position").to_owned();
        let read = editor.get_with(DOCUMENT, &[("consort-after", &position)]).await;
        assert_eq!(text(&read), json!({ "n": n }).to_string());
    }
    let strange =
        editor.get_with(DOCUMENT, &[("consort-after", "glue.plain/0:0000000000000001:1:1")]);
    is_problem(&strange.await, 400, "position", &["glue.plain/0"]);
}

#[tokio::test]
async fn xml_documents_are_patched_by_selectors() {
    let node = GlueNode::start().await;
    let mut editor = node.editor();
    let path = "/glue/guides/g1?wait=applied";
    is_applied(&editor.send(Method::PUT, path, XML, "<g><t>a</t></g>").await, 1);
    let patch = "<diff><replace sel=\"g/t/text()\">b</replace></diff>";
    is_applied(&editor.send(Method::PATCH, path, XML_PATCH, patch).await, 2);
    let read = editor.get("/glue/guides/g1").await;
    assert_eq!(
        (text(&read), read.header("content-type")),
        ("<g><t>b</t></g>".into(), Some("application/xml"))
    );
    let lost = "<diff><remove sel=\"g/none\"/></diff>";
    let lost = editor.send(Method::PATCH, path, XML_PATCH, lost).await;
    is_problem(&lost, 409, "unlocated-node", &[]);
    assert_eq!(json(&lost)["version"], 2);
    assert!(json(&lost)["place"].is_string());
    let missing =
        editor.send(Method::PATCH, "/glue/guides/none?wait=applied", XML_PATCH, patch).await;
    is_problem(&missing, 404, "no-document", &[]);
    is_problem(&editor.get("/glue/guides/g1/diff?from=1").await, 406, "no-difference", &["XML"]);
}

#[tokio::test]
async fn bad_requests_are_refused_before_they_are_stored() {
    let node = GlueNode::start().await;
    let mut editor = node.editor();
    let long_id = format!("/glue/content/{}", "x".repeat(513));
    let big = format!("\"{}\"", "x".repeat(1984 << 10));
    let cases: &[(Method, &str, Headers<'_>, &str, u16, &str)] = &[
        (Method::PUT, DOCUMENT, &[], "{", 400, "malformed"),
        (Method::PUT, DOCUMENT, &[], "", 400, "malformed"),
        (Method::PUT, DOCUMENT, &[], "{\"a\":1,\"a\":2}", 400, "duplicate-name"),
        (Method::PUT, DOCUMENT, &[], "12345678901234567890123", 400, "number-would-change"),
        (Method::PUT, DOCUMENT, &[], &big, 413, "piece-too-large"),
        (Method::PUT, "/glue/guides/g", XML, "<!DOCTYPE g><g/>", 400, "invalid-entity-declaration"),
        (Method::PATCH, DOCUMENT, PATCH, "[{\"op\":\"jump\"}]", 400, "malformed"),
        (Method::DELETE, DOCUMENT, &[], "{}", 400, "malformed"),
        (Method::PUT, DOCUMENT, XML, "<g/>", 415, "content-type"),
        (Method::PATCH, DOCUMENT, &[], "{}", 415, "content-type"),
        (Method::PATCH, "/glue/guides/g", MERGE, "{}", 415, "content-type"),
        (Method::PUT, "/glue/none/1", &[], "{}", 404, "no-such-collection"),
        (Method::GET, "/glue/none/1", &[], "", 404, "no-such-collection"),
        (Method::PUT, "/glue/content/rejects", &[], "{}", 400, "invalid-id"),
        (Method::PUT, "/glue/content/a%0Ab", &[], "{}", 400, "invalid-id"),
        (Method::PUT, "/glue/content/%FF", &[], "{}", 400, "invalid-id"),
        (Method::PUT, &long_id, &[], "{}", 400, "invalid-id"),
        (Method::PUT, "/glue/content/1?source=a", &[], "{}", 400, "invalid-query"),
        (Method::PUT, "/glue/content/1?source=a&seq=0", &[], "{}", 400, "invalid-query"),
        (
            Method::PUT,
            "/glue/content/1?source=a&seq=9007199254740992",
            &[],
            "{}",
            400,
            "invalid-query",
        ),
        (Method::PUT, "/glue/content/1?wait=stored", &[], "{}", 400, "invalid-query"),
        (Method::PUT, "/glue/content/1?wiat=applied", &[], "{}", 400, "invalid-query"),
        (Method::PUT, DOCUMENT, &[("if-match", "\"nonsense\"")], "{}", 400, "condition"),
        (Method::PUT, DOCUMENT, &[("idempotency-key", "two words")], "{}", 400, "idempotency-key"),
        (Method::PUT, DOCUMENT, &[("consort-tenant", "a/b")], "{}", 400, "tenant"),
        (Method::PUT, DOCUMENT, &[("consort-tenant", "*")], "{}", 400, "tenant"),
        (Method::GET, "/glue/content?limit=0", &[], "", 400, "invalid-query"),
        (Method::GET, "/glue/content?after=zz", &[], "", 400, "invalid-query"),
        (Method::GET, "/glue/content/rejects?after=x", &[], "", 400, "invalid-query"),
        (Method::GET, "/glue/content/1?version=x", &[], "", 400, "invalid-query"),
        (Method::GET, "/glue/content/1/diff", &[], "", 400, "invalid-query"),
        (Method::GET, "/glue/content/none", &[], "", 404, "no-document"),
        (Method::GET, "/glue/content/none?version=1", &[], "", 404, "no-document"),
        (Method::GET, "/glue/content/none/versions", &[], "", 404, "no-document"),
        (Method::GET, "/glue/plain/1/versions", &[], "", 404, "no-history"),
        (Method::POST, "/glue/content", &[], "{}", 415, "content-type"),
        (Method::POST, "/glue/content", LINES, "{}", 400, "no-piece"),
        (Method::POST, "/glue/content/1/retry", &[], "{}", 400, "malformed"),
        (Method::POST, "/glue/content/1/discard", XML, "", 415, "content-type"),
    ];
    for (method, path, headers, body, status, kind) in cases {
        let (method, status) = (method.clone(), *status);
        let reply = editor.send(method.clone(), path, headers, body.to_string()).await;
        assert_eq!(reply.status.as_u16(), status, "{method} {path:.80}: {:.500}", text(&reply));
        is_problem(&reply, status, kind, &[]);
        if method == Method::PATCH && status == 415 {
            let taken = reply.header("accept-patch").expect("the types that it takes");
            assert!(taken.contains("patch"), "{taken}");
        }
    }
    for collection in ["content", "guides", "plain"] {
        assert_eq!(editor.counters(collection).await["received"], 0, "nothing was stored");
    }
}

#[tokio::test]
async fn pieces_that_can_never_apply_and_those_that_do_not_apply_now_are_listed() {
    let node = GlueNode::start().await;
    let mut editor = node.editor();
    is_applied(&editor.put("/glue/plain/1", &json!({"a": {"b": 1}})).await, 1);
    let path = "/glue/plain/1?wait=applied";
    let long = "x".repeat(2_000);
    for (patch, status, kind) in [
        (json!([{"op": "remove", "path": "/none"}]), 409, "missing-path"),
        (json!([{"op": "test", "path": "/a/b", "value": 2}]), 409, "test-failed"),
        (json!([{"op": "move", "from": "/a", "path": "/a/b"}]), 422, "move-into-itself"),
        (json!([{"op": "add", "path": "/long", "value": long}]), 422, "too-large"),
    ] {
        let reply = editor.send(Method::PATCH, path, PATCH, patch.to_string()).await;
        is_problem(&reply, status, kind, &[]);
        assert_eq!(json(&reply)["version"], 1, "the document is as it was");
    }
    let list = editor.json("/glue/plain/rejects").await;
    let reasons: Vec<_> =
        list["rejects"].as_array().unwrap().iter().map(|one| &one["reason"]).collect();
    assert_eq!(reasons, ["missing-path", "test-failed", "move-into-itself", "too-large"]);
    let first = &list["rejects"][0];
    assert_eq!(first["piece"], json!([{"op": "remove", "path": "/none"}]));
    assert_eq!(
        (&first["id"], &first["tenant"], &first["form"]),
        (&json!("1"), &json!("default"), &json!("json-patch"))
    );
    let counters = editor.counters("plain").await;
    assert_eq!((&counters["applied"], &counters["rejected"]), (&json!(1), &json!(4)));
}

#[tokio::test]
async fn conditions_hold_for_one_version_alone() {
    let node = GlueNode::start().await;
    let mut editor = node.editor();
    let created = editor.send(Method::PUT, DOCUMENT, &[("if-none-match", "*")], "{}").await;
    is_applied(&created, 1);
    let tag = created.header("etag").unwrap().to_owned();
    let again = editor.send(Method::PUT, DOCUMENT, &[("if-none-match", "*")], "{}").await;
    is_problem(&again, 412, "condition-failed", &[]);
    let changed = editor.send(Method::PUT, DOCUMENT, &[("if-match", &tag)], "{\"a\":1}").await;
    is_applied(&changed, 2);
    let late = editor.send(Method::PUT, DOCUMENT, &[("if-match", &tag)], "{\"a\":2}").await;
    is_problem(&late, 412, "condition-failed", &["version 2"]);
    assert_eq!(json(&late)["version"], 2);
    let any = editor.send(Method::PUT, "/glue/content/none", &[("if-match", "*")], "{}").await;
    is_problem(&any, 412, "condition-failed", &[]);
    assert_eq!(text(&editor.get(DOCUMENT).await), "{\"a\":1}");
}

#[tokio::test]
async fn a_delete_without_a_document_changes_nothing() {
    let node = GlueNode::start().await;
    let mut editor = node.editor();
    let deleted = editor.send(Method::DELETE, "/glue/content/none?wait=applied", &[], "").await;
    assert_eq!((deleted.status.as_u16(), text(&deleted)), (204, String::new()));
    assert_eq!(editor.counters("content").await["repeats"], 1);
    assert_eq!(text(&editor.get("/feeds/glue/content").await), "");
}

#[tokio::test]
async fn a_dry_run_tells_the_outcome_and_stores_nothing() {
    let node = GlueNode::start().await;
    let mut editor = node.editor();
    is_applied(&editor.put(DOCUMENT, &json!({"a": 1})).await, 1);
    let dry = format!("{DOCUMENT}?dry_run=true");
    let reply = editor.send(Method::PATCH, &dry, MERGE, "{\"b\":2}").await;
    assert_eq!(reply.status, 200, "{}", text(&reply));
    assert_eq!(json(&reply), json!({"dry_run": true, "version": 2, "document": {"a": 1, "b": 2}}));
    let failing = "[{\"op\":\"remove\",\"path\":\"/x\"}]";
    is_problem(&editor.send(Method::PATCH, &dry, PATCH, failing).await, 409, "missing-path", &[]);
    assert_eq!(text(&editor.get(DOCUMENT).await), "{\"a\":1}");
    let counters = editor.counters("content").await;
    assert_eq!((&counters["received"], &counters["rejected"]), (&json!(1), &json!(0)));
}

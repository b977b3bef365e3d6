//! Letting go of answers: by key and by tag.

use consort_client::Method;
use serde_json::json;

use crate::bed::{Bed, LASTING};

#[tokio::test]
async fn a_purged_key_is_computed_anew() {
    let bed = Bed::start(&format!("{LASTING}headers = ['accept-language']\n")).await;
    let mut caller = bed.caller();
    let path = "/once/items/a?x=1";
    let first = caller.good(path).await.generation();
    let other = caller.good("/once/items/a").await.generation();
    let purged = caller.delete("/once/items/%61?position=3&x=1").await;
    assert_eq!((purged.status(), purged.json()), (200, json!({"purged": 1})));
    assert_eq!(caller.delete(path).await.json(), json!({"purged": 0}));
    let second = caller.good(path).await.generation();
    assert_ne!(second, first);
    assert_eq!(caller.good("/once/items/a").await.generation(), other, "others stay");

    for body in [r#"{"key": "a?x=1"}"#, r#"{"key": "/%61?x=1", "headers": {"x-other": "1"}}"#] {
        let before = caller.good(path).await.generation();
        assert_eq!(caller.post("/once/items/purge", body).await.json(), json!({"purged": 1}));
        assert_ne!(caller.good(path).await.generation(), before);
    }

    let posted = caller.post("/once/items/a", r#"{"b":1,"a":2}"#).await.generation();
    let body = r#"{"key": "a", "body": {"a": 2, "b": 1}}"#;
    assert_eq!(caller.post("/once/items/purge", body).await.json(), json!({"purged": 1}));
    let again = caller.post("/once/items/a", r#"{"a":2,"b":1}"#).await.generation();
    assert_ne!(again, posted);
    let deleted = caller.send(Method::DELETE, "/once/items/a", &[], r#"{"a":2,"b":1}"#).await;
    assert_eq!(deleted.json(), json!({"purged": 1}));
    assert_eq!(caller.good("/once/items/a").await.generation(), other, "that of the GET stays");

    let german: &[(&str, &str)] = &[("accept-language", "de")];
    let de = caller.get_with("/once/items/a", german).await.generation();
    let body = r#"{"key": "a", "headers": {"Accept-Language": "de"}}"#;
    assert_eq!(caller.post("/once/items/purge", body).await.json(), json!({"purged": 1}));
    assert_ne!(caller.get_with("/once/items/a", german).await.generation(), de);
    let deleted = caller.send(Method::DELETE, "/once/items/a", german, "").await;
    assert_eq!(deleted.json(), json!({"purged": 1}));
    assert_eq!(caller.good("/once/items/a").await.generation(), other);
}

#[tokio::test]
async fn a_purged_tag_takes_all_answers_that_have_it() {
    let both = "[once.others]\nupstream = 'http://UPSTREAM/items/{path}?{query}'\n";
    let bed = Bed::start(&format!("{LASTING}{both}{LASTING}")).await;
    let mut caller = bed.caller();
    let paths = [
        ("/once/items/a?tag=red,%20large", true),
        ("/once/items/b?tag=red", true),
        ("/once/items/c?tag=large", false),
        ("/once/items/d?tag=redder", false),
        ("/once/items/e", false),
        ("/once/others/a?tag=red", false),
    ];
    let mut before = Vec::new();
    for (path, _) in paths {
        before.push(caller.good(path).await.generation());
    }
    let purged = caller.post("/once/items/purge", r#"{"tag": "red"}"#).await;
    assert_eq!((purged.status(), purged.json()), (200, json!({"purged": 2})));
    for ((path, gone), before) in paths.into_iter().zip(before) {
        assert_eq!(caller.good(path).await.generation() != before, gone, "{path}");
    }
    let none = caller.post("/once/items/purge", r#"{"tag": "blue"}"#).await;
    assert_eq!(none.json(), json!({"purged": 0}));
}

#[tokio::test]
async fn a_purge_that_says_nothing_or_too_much_is_refused() {
    let bed = Bed::start(LASTING).await;
    let mut caller = bed.caller();
    for body in [
        "",
        "{}",
        "[]",
        r#"{"key": 1}"#,
        r#"{"tag": ""}"#,
        r#"{"kye": "a"}"#,
        r#"{"key": "a", "tag": "b"}"#,
        r#"{"tag": "b", "body": {}}"#,
        r#"{"key": "a", "body": 1}"#,
        r#"{"key": "a", "headers": {"a b": "c"}}"#,
    ] {
        let refused = caller.post("/once/items/purge", body).await;
        refused.is_problem(400, "purge", &["{\"key\": \"path?query\"}", "{\"tag\": \"…\"}"]);
    }
    let dots = caller.post("/once/items/purge", r#"{"key": "../a"}"#).await;
    dots.is_problem(400, "path", &["'..'"]);
    let unknown = caller.post("/once/itms/purge", r#"{"key": "a"}"#).await;
    unknown.is_problem(404, "no-such-once", &["'items'"]);
    // Only a POST purges: as a path it can be asked for.
    caller.good("/once/items/purge").await;
    assert_eq!(bed.calls("purge").await, 1);
}

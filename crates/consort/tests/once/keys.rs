//! Which requests are the same: spellings, parameters, bodies and headers.

use consort_client::Method;
use serde_json::json;

use crate::bed::{Bed, LASTING};

#[tokio::test]
async fn spellings_of_one_request_are_one_key() {
    let bed = Bed::start(LASTING).await;
    let mut caller = bed.caller();
    let mut generations = Vec::new();
    for same in [
        &[
            "/once/items/a%20b/c?x=1&y=2",
            "/once/items/%61%20b/c?y=2&x=1",
            "/once/items/a%20b/%63?&x=1&position=0&y=2",
        ][..],
        &["/once/items/a%20b/c?y=1&x=2"],
        &["/once/items/a%20b?x=1&y=2"],
        &["/once/items/a%20b/c/?x=1&y=2"],
        &["/once/items/q?t=a+b", "/once/items/q?t=a%20b"],
        &["/once/items/q?t=a%2Bb"],
        &["/once/items/q?t=1&t=2"],
        &["/once/items/q?t=2&t=1"],
        &["/once/items", "/once/items/", "/once/items?position=1"],
    ] {
        let mut of_these = Vec::new();
        for path in same {
            of_these.push(caller.good(path).await.generation());
        }
        of_these.dedup();
        assert_eq!(of_these.len(), 1, "{same:?}");
        generations.append(&mut of_these);
    }
    let different = generations.len();
    generations.sort_unstable();
    generations.dedup();
    assert_eq!(generations.len(), different, "different requests are different keys");
    assert_eq!(bed.calls("").await, different as u64);
}

#[tokio::test]
async fn the_upstream_gets_the_canonical_request_and_listed_headers() {
    let bed = Bed::start(&format!("{LASTING}headers = ['Accept-Language', 'x-tenant']\n")).await;
    let mut caller = bed.caller();
    let headers = &[
        ("accept-language", "de"),
        ("x-other", "s3cret"),
        ("cookie", "s3cret"),
        ("if-none-match", "\"x\""),
        ("accept-encoding", "gzip"),
    ];
    let answer = caller.get_with("/once/items/%61+b?z=1&echo=1&a=%2F&position=", headers).await;
    answer.is_problem(400, "position", &[]);
    let answer = caller.get_with("/once/items/%61+b?z=1&echo=1&a=%2F", headers).await;
    let echo = answer.json();
    assert_eq!(echo["method"], "GET");
    assert_eq!(echo["path"], "/items/a%2Bb");
    assert_eq!(echo["query"], "a=%2F&echo=1&z=1");
    let host = bed.upstream_address().to_string();
    let expected =
        json!({"accept": "*/*", "accept-language": "de", "host": host, "user-agent": "consort"});
    assert_eq!(echo["headers"], expected);
    assert_eq!(answer.header("vary"), "accept-language, x-tenant");

    // Each value of a listed header has an answer of its own.
    let of = |headers: &'static [(&'static str, &'static str)]| {
        let mut caller = bed.caller();
        async move { caller.get_with("/once/items/split", headers).await.generation() }
    };
    let de = of(&[("accept-language", "de")]).await;
    assert_eq!(of(&[("accept-language", "de"), ("x-other", "1")]).await, de);
    let others = [
        of(&[("accept-language", "en")]).await,
        of(&[("x-tenant", "de")]).await,
        of(&[("accept-language", "")]).await,
        of(&[]).await,
    ];
    assert!(!others.contains(&de));
    assert_eq!(bed.calls("split").await, 5);
}

#[tokio::test]
async fn parameters_may_come_as_a_json_body() {
    let bed = Bed::start(LASTING).await;
    let mut caller = bed.caller();
    let path = "/once/items/search?echo=1";
    let first = caller.post(path, r#"{"b": [1, {"d": 2, "c": 1.0}], "a": "\u00e4"}"#).await;
    assert_eq!(first.status(), 200, "{}", first.text());
    let echo = first.json();
    assert_eq!(echo["method"], "POST");
    assert_eq!(echo["body"], r#"{"a":"ä","b":[1,{"c":1.0,"d":2}]}"#);
    assert_eq!(echo["headers"]["content-type"], "application/json");
    let same = caller.post(path, "{\"a\":\"ä\",\n\"b\":[1,{\"c\":1.0,\"d\":2}]}").await;
    assert_eq!(same.generation(), first.generation());
    let other = caller.post(path, r#"{"a": "ä", "b": [{"c": 1.0, "d": 2}, 1]}"#).await;
    assert_ne!(other.generation(), first.generation());
    let none = caller.post(path, "{}").await;
    let get = caller.good(path).await;
    assert_ne!(none.generation(), get.generation());
    assert_eq!(get.json()["method"], "GET");
    let one = caller.post("/once/items/list?position=3", "{}").await;
    assert_eq!(one.json()["position"], json!(3));
    let as_curl = [("content-type", "application/x-www-form-urlencoded")];
    let curl = caller.send(Method::POST, path, &as_curl, "{}").await;
    assert_eq!(curl.generation(), none.generation());

    for (body, words) in [
        ("", "not JSON"),
        ("{", "not JSON"),
        ("[1]", "not a JSON object"),
        ("{\"a\":1,\"a\":1}", "'a' comes twice"),
    ] {
        let refused = caller.post(path, body).await;
        refused.is_problem(400, "parameters", &["a JSON object of parameters", words]);
    }
    let xml = caller.send(Method::POST, path, &[("content-type", "text/xml")], "<a/>").await;
    xml.is_problem(415, "content-type", &["application/json"]);
    let large = format!("{{\"a\":\"{}\"}}", "x".repeat(64 * 1024));
    let large = caller.post(path, &large).await;
    large.is_problem(413, "parameters-too-large", &["more than 65536 bytes"]);
    let long = caller.get(&format!("/once/items/{}", "x".repeat(9000))).await;
    long.is_problem(414, "key-too-long", &["9000 bytes", "JSON body of a POST"]);
}

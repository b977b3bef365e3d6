//! Every route that changes something, and some that only tell, against pages and hosts.

use crate::bed::{Bed, PIECES, POSTS, exchange, status};

/// Pieces of documents: method, path, type of the body, body. Each adds one.
const DOCUMENTS: [(&str, &str, &str, &str); 4] = [
    ("PUT", "/glue/content/a", "application/json", "{}"),
    ("PATCH", "/glue/content/a", "application/merge-patch+json", r#"{"b":1}"#),
    ("DELETE", "/glue/content/a", "", ""),
    ("POST", "/glue/content", "application/x-ndjson", r#"{"id":"a","form":"whole","piece":{}}"#),
];

/// Orders and computations: method, path, type of the body, body.
const OTHERS: [(&str, &str, &str, &str); 12] = [
    ("POST", "/api/v2/write?bucket=points", "text/plain", "points v=1"),
    ("POST", "/query?q=CREATE%20DATABASE%20points", "text/plain", ""),
    ("GET", "/once/items/a", "", ""),
    ("POST", "/once/items/a", "application/json", "{}"),
    ("DELETE", "/once/items/a", "", ""),
    ("POST", "/once/items/purge", "application/json", r#"{"tag":"red"}"#),
    ("POST", "/glue/content/a/retry", "application/json", r#"{"place":"0-0-0-0"}"#),
    ("POST", "/glue/content/a/discard", "application/json", r#"{"place":"0-0-0-0"}"#),
    (
        "POST",
        "/sinks/documents/parked/release",
        "application/json",
        r#"{"collection":"content","id":"a"}"#,
    ),
    ("POST", "/cluster/nodes/a/drain", "application/json", "{}"),
    ("POST", "/cluster/roles/worker:rides%2F0/resolve", "application/json", r#"{"from":"end"}"#),
    ("POST", "/cluster/roles/worker:rides/0/resolve", "application/json", r#"{"from":"end"}"#),
];

const TELLING: [&str; 26] = [
    "/",
    "/streams",
    "/streams/rides",
    "/sinks",
    "/healthz",
    "/readyz",
    "/metrics",
    "/cluster",
    "/views",
    "/views/rides_of_lift?lift=7",
    "/lifts/7/rides",
    "/feeds",
    "/feeds/views/rides_by_minute",
    "/views/rides_of_lift/rejects",
    "/views/rides_by_minute/late",
    "/streams/rides/rejects",
    "/sinks/documents/parked",
    "/glue",
    "/glue/content?documents=true",
    "/glue/content/rejects",
    "/glue/content/a",
    "/glue/content/a/versions",
    "/glue/content/a/diff?from=1",
    "/feeds/glue/content",
    "/once",
    "/nowhere",
];

fn request((method, path, kind, body): (&str, &str, &str, &str), headers: &str) -> String {
    let length = body.len();
    let kind = if kind.is_empty() { String::new() } else { format!("content-type: {kind}\r\n") };
    format!(
        "{method} {path} HTTP/1.1\r\n{headers}{kind}connection: close\r\n\
         content-length: {length}\r\n\r\n{body}"
    )
}

fn routes() -> Vec<(&'static str, &'static str, &'static str, &'static str)> {
    let posts = POSTS.map(|(path, kind, body)| ("POST", path, kind, body));
    let telling = TELLING.map(|path| ("GET", path, "", ""));
    [&posts[..], &DOCUMENTS, &OTHERS, &telling].concat()
}

#[tokio::test]
async fn no_page_of_another_origin_and_no_strange_host_gets_past_the_door() {
    let bed = Bed::start("").await;
    let address = bed.address();
    for (headers, refused) in [
        ("host: HOST\r\norigin: http://evil.example\r\n", 403),
        ("host: HOST\r\norigin: null\r\n", 403),
        ("host: HOST\r\norigin: http://127.0.0.1:1\r\n", 403),
        ("host: HOST\r\nsec-fetch-site: cross-site\r\n", 403),
        ("host: HOST\r\nsec-fetch-site: same-site\r\n", 403),
        ("host: evil.example\r\n", 421),
        ("host: evil.example\r\norigin: http://evil.example\r\n", 421),
        ("", 400),
        ("host: HOST\r\nhost: HOST\r\n", 400),
    ] {
        let headers = headers.replace("HOST", &address.to_string());
        for route in routes() {
            for method in [route.0, "OPTIONS", "HEAD"] {
                let request = request((method, route.1, route.2, route.3), &headers);
                let answer = exchange(address, &request, false).await;
                assert_eq!(status(&answer), refused, "{request}\n{answer}");
            }
        }
    }
    bed.assert_untouched().await;
}

#[tokio::test]
async fn programs_and_the_nodes_own_pages_use_every_route() {
    let bed = Bed::start("").await;
    let address = bed.address();
    for headers in [
        "host: HOST\r\n",
        "host: HOST\r\norigin: http://HOST\r\nsec-fetch-site: same-origin\r\n",
        "host: HOST\r\nsec-fetch-site: none\r\n",
    ] {
        let headers = headers.replace("HOST", &address.to_string());
        for route in routes() {
            let answer = exchange(address, &request(route, &headers), false).await;
            assert!(![400, 403, 421].contains(&status(&answer)), "{route:?}\n{answer}");
        }
    }
    assert_eq!((bed.accepted("rides").await, bed.accepted("points").await), (6, 9));
    assert_eq!(bed.accepted(PIECES).await, 12);
}

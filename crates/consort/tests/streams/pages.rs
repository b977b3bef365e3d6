//! The pages that say what a node is and has: `GET /`, `GET /streams` and `GET /streams/{stream}`.

use consort::config::{ConfigFile, Sources};
use consort::{Config, Node};
use consort_client::Method;
use serde_json::json;

use crate::bed::Here;
use crate::caller::{Caller, text};

const DECLARED: &str = r#"
[stream.rides]
route      = "POST /rides/{skier}"
key        = "skier"
id         = "ticket"
time       = "at"
retain     = "2h"
partitions = 3
fields     = { skier = "int 1..10", lift = "int?", ticket = "text 1..32", at = "int" }

[stream.events]
form       = "line-loose"
key        = ["event_type"]
partitions = 2
udp        = "127.0.0.1:0"

[view.event_count]
from  = "events"
by    = ["event_type"]
count = true

[once.items]
upstream = "http://127.0.0.1:9/{path}"
"#;

#[tokio::test]
async fn the_streams_are_shown_with_fields_types_key_and_ways_in() {
    let node = Here::start(DECLARED).await;
    let mut caller = node.caller();
    let rides = json!({
        "stream": "rides",
        "form": "json",
        "fields": [
            {"name": "at", "type": "int"},
            {"name": "lift", "type": "int?"},
            {"name": "skier", "type": "int 1..10"},
            {"name": "ticket", "type": "text 1..32"},
        ],
        "other_fields": "rejected",
        "key": ["skier"],
        "id": "ticket",
        "ids_for": 3600.0,
        "time": "at",
        "partitions": 3,
        "retain": 7200.0,
        "routes": ["POST /streams/rides", "POST /rides/{skier}"],
        "udp": null,
        "amqp_queue": null,
    });
    assert_eq!(caller.json("/streams/rides").await, rides);
    // A stream of lines has a path of its own for its posts.
    let events = caller.json("/streams/events").await;
    assert_eq!(events["form"], "line-loose");
    assert_eq!(events["other_fields"], "ignored");
    assert_eq!(events["key"], json!(["event_type"]));
    let routes = json!([
        "POST /streams/events",
        "POST /write?db=events",
        "POST /api/v2/write?bucket=events"
    ]);
    assert_eq!(events["routes"], routes);
    assert_eq!(events["udp"], node.udp("events").to_string());
    assert_eq!(caller.json("/streams").await, json!({"streams": [events, rides]}));

    let missing = caller.get("/streams/ride").await;
    assert_eq!(missing.status, 404);
    let said = text(&missing);
    assert!(said.contains("there is no stream 'ride'; there are 'events', 'rides'"), "{said}");
    // Posts go where they went.
    caller.accept("/streams/rides", r#"{"skier":1,"ticket":"a","at":7}"#).await;
    caller.accept("/streams/events", "event_type=x value=1").await;
}

#[tokio::test]
async fn the_home_page_is_json_for_programs_and_html_for_browsers() {
    let node = Here::start(DECLARED).await;
    let mut caller = node.caller();
    let home = caller.json("/").await;
    assert_eq!(
        (&home["name"], &home["version"]),
        (&json!("Consort"), &json!(env!("CARGO_PKG_VERSION")))
    );
    let id = home["node"].as_str().expect("the node's id").to_owned();
    let paths: Vec<String> = home["links"]
        .as_array()
        .expect("links")
        .iter()
        .map(|link| link["path"].as_str().expect("a path").to_owned())
        .collect();
    for path in
        ["/streams", "/views", "/feeds", "/sinks", "/once", "/cluster", "/metrics", "/healthz"]
    {
        assert!(paths.iter().any(|link| link == path), "{path} is missing: {paths:?}");
        assert_eq!(caller.get(path).await.status, 200, "{path}");
    }
    assert!(paths.iter().any(|link| link == "/once/items/"), "a space is missing: {paths:?}");

    let browser = [("accept", "text/html,application/xhtml+xml,*/*;q=0.8")];
    let page = caller.get_with("/", &browser).await;
    assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
    assert_eq!(page.header("vary"), Some("accept"));
    let policy = page.header("content-security-policy").expect("a policy");
    assert!(policy.contains("default-src 'none'"), "{policy}");
    let page = text(&page);
    assert!(page.starts_with("<!doctype html>") && page.contains(&id), "{page}");
    assert!(!page.contains("<script"), "{page}");
    for path in paths {
        assert!(page.contains(&format!("<a href=\"{path}\">")), "{path}: {page}");
    }

    let lost = caller.get("/nowhere").await;
    assert_eq!(lost.status, 404);
    assert!(text(&lost).contains("GET / lists what this node serves"), "{}", text(&lost));
}

#[tokio::test]
async fn the_pages_ask_for_the_access_token() {
    const TOKEN: &str = "0123456789abcdef";
    let settings = format!("[http]\nlisten = \"127.0.0.1:0\"\ntokens = [\"{TOKEN}\"]\n");
    let file = ConfigFile {
        name: "test".into(),
        text: format!("{settings}[engine]\nurl = \"memory:\"\n{DECLARED}"),
    };
    let config = Config::resolve(&Sources { file: Some(file), ..Sources::default() });
    let node = Node::start(config.unwrap_or_else(|problems| panic!("{problems}"))).await;
    let node = node.expect("a node");
    let mut caller = Caller::of(&format!("http://{}", node.address()));
    let token = format!("Bearer {TOKEN}");
    for path in ["/", "/streams", "/streams/rides", "/streams/events"] {
        for accept in ["application/json", "text/html"] {
            let refused = caller.send(Method::GET, path, &[("accept", accept)], "").await;
            assert_eq!(refused.status, 401, "{path}");
            assert!(!text(&refused).contains("rides"), "{}", text(&refused));
            let headers = [("accept", accept), ("authorization", &token)];
            assert_eq!(caller.send(Method::GET, path, &headers, "").await.status, 200, "{path}");
        }
    }
    node.stop().await;
}

//! `http.md` is written by hand: every route that it names must exist on a node, and every path that the server's
//! code names must stand there.

use std::fs;

use consort::config::{ConfigFile, Sources};
use consort::{Config, Node};

use super::metrics::ask;
use super::root;

const CONFIG: &str = r#"
[http]
listen = "127.0.0.1:0"
[engine]
url = "memory:"
[stream.events]
route = "POST /users/{user}/events"
fields = { user = "int", kind = "text?" }
[stream.lines]
form = "line"
[sink.rows]
kind = "file"
path = "/dev/null"
[view.minutes]
from = "events"
by = ["user"]
count = true
window = "1m"
sink = "rows"
[once.items]
upstream = "http://127.0.0.1:9/{path}"
[glue.content]
format = "json"
[db.items]
"#;

/// The routes of the page: headings such as "### `GET /views/{view}`".
fn routes(page: &str) -> Vec<(String, String)> {
    let headings = page.lines().filter(|line| line.starts_with("### `"));
    let codes = headings.flat_map(|line| line.split('`').skip(1).step_by(2));
    codes
        .map(|route| {
            let (method, path) = route.split_once(' ').expect("a route is a method and a path");
            (method.to_owned(), path.to_owned())
        })
        .collect()
}

/// The path with names that the node knows.
fn filled(path: &str) -> String {
    let names = [
        ("{collection}", "content"),
        ("{stream}", "events"),
        ("{view}", "minutes"),
        ("{sink}", "rows"),
        ("{name}", "items"),
        ("{path}", "today"),
        ("{id}", "none"),
        ("{role}", "worker:events"),
        ("{index}", "0"),
    ];
    names.iter().fold(path.to_owned(), |path, (name, value)| path.replace(name, value))
}

#[test]
fn every_path_of_the_code_is_on_the_page() {
    let page =
        fs::read_to_string(root().join("docs/reference/http.md")).expect("the page is there");
    let paths: Vec<String> = routes(&page).into_iter().map(|(_, path)| path).collect();
    let mut folders = vec![root().join("crates/server/src")];
    let mut found = 0;
    while let Some(folder) = folders.pop() {
        for entry in
            fs::read_dir(&folder).expect("a folder").map(|entry| entry.expect("an entry").path())
        {
            if entry.is_dir() {
                folders.push(entry);
                continue;
            }
            let text = fs::read_to_string(&entry).expect("a source file");
            let code = text.split("#[cfg(test)]").next().unwrap_or_default();
            for (at, call) in code.match_indices(".route(\"") {
                let path = code[at + call.len()..].split('"').next().unwrap_or_default();
                let path = path.replace("{*", "{");
                // A space of once has three paths: without a slash, with one, and with more behind it.
                let is_listed = paths.iter().any(|listed| {
                    *listed == path || listed.starts_with(&path) && path.starts_with("/once/")
                });
                assert!(is_listed, "docs/reference/http.md has no heading for {path} of {entry:?}");
                found += 1;
            }
        }
    }
    assert!(found >= 20, "the routes of the code were not found: {found}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_route_of_the_page_exists() {
    let page =
        fs::read_to_string(root().join("docs/reference/http.md")).expect("the page is there");
    let file = ConfigFile { name: "test".into(), text: CONFIG.into() };
    let config = Config::resolve(&Sources { file: Some(file), ..Sources::default() })
        .unwrap_or_else(|problems| panic!("{problems}"));
    let node = Node::start(config).await.expect("a node");
    let routes = routes(&page);
    assert!(routes.len() >= 25, "the routes of the page were not found: {routes:?}");
    for (method, path) in &routes {
        let path = filled(path);
        assert!(!path.contains('{'), "the test has no value for a part of {path}");
        let (status, body) = ask(node.address(), method, &path).await;
        let is_there = !body.contains("urn:consort:problem:not-found") && status != 405;
        assert!(is_there, "{method} {path} is not served: {status} {body}");
    }
    let (status, _) = ask(node.address(), "GET", "/no/such/route").await;
    assert_eq!(status, 404, "a path without a route is not found");
    node.stop().await;
}

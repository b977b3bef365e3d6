//! `GET /`: what this node is, and where to go from here. JSON by default; a small static page for browsers.

use std::fmt::Write as _;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use serde::Serialize;

use crate::cluster::Cluster;

/// The page needs no script and no file, so that a browser is told to load none.
const POLICY: HeaderValue =
    HeaderValue::from_static("default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'");

const JSON: HeaderValue = HeaderValue::from_static("application/json");

const VERSION: &str = env!("CARGO_PKG_VERSION");
const TAGLINE: &str = "Many nodes, one answer.";

const STYLE: &str = "body{font:16px/1.6 system-ui,sans-serif;max-width:46rem;margin:3rem auto;padding:0 1rem}\
    td{padding:.1rem 1.5rem .1rem 0;vertical-align:top}code{font-size:1rem}";

/// The pages of the node itself; parts bring theirs.
const PAGES: [(&str, &str); 3] = [
    ("/cluster", "the nodes, and the roles that each of them owns"),
    ("/metrics", "metrics in the format of Prometheus"),
    ("/healthz", "whether the process lives; /readyz: whether it can do its work"),
];

/// A path of this node, and what is found there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Link {
    /// The path.
    pub path: String,
    /// What is there, in a few words.
    pub about: String,
}

struct Home {
    cluster: Cluster,
    links: Vec<Link>,
}

/// `GET /`, with the links of the parts before those that every node has.
pub fn routes(cluster: &Cluster, more: impl IntoIterator<Item = Link>) -> Router {
    let pages = PAGES.map(|(path, about)| Link { path: path.into(), about: about.into() });
    let links = more.into_iter().chain(pages).collect();
    let home = Home { cluster: cluster.clone(), links };
    Router::new().route("/", get(answer)).with_state(Arc::new(home))
}

async fn answer(State(home): State<Arc<Home>>, headers: HeaderMap) -> Response {
    let node = home.cluster.node().map(|node| node.id());
    let mut response = match wants_html(&headers) {
        true => Html(page(node, &home.links)).into_response(),
        false => ([(header::CONTENT_TYPE, JSON)], listed(node, &home.links)).into_response(),
    };
    let headers = response.headers_mut();
    headers.insert(header::VARY, HeaderValue::from_static("accept"));
    headers.insert(header::CONTENT_SECURITY_POLICY, POLICY);
    response
}

/// Browsers name `text/html` in `Accept`. A client that names nothing, or anything (`*/*`), gets JSON.
fn wants_html(headers: &HeaderMap) -> bool {
    let accepted =
        headers.get_all(header::ACCEPT).into_iter().filter_map(|value| value.to_str().ok());
    let mut ranges = accepted.flat_map(|value| value.split(','));
    ranges.any(|range| {
        let (kind, parameters) = range.split_once(';').unwrap_or((range, ""));
        let refused = parameters.split(';').any(|parameter| {
            let weight = parameter.trim().strip_prefix("q=").map(str::parse::<f32>);
            matches!(weight, Some(Ok(0.0)))
        });
        kind.trim().eq_ignore_ascii_case("text/html") && !refused
    })
}

#[derive(Serialize)]
struct Listed<'a> {
    name: &'static str,
    about: &'static str,
    version: &'static str,
    /// None until the node has joined its cluster.
    node: Option<&'a str>,
    links: &'a [Link],
}

/// JSON in lines, since people read it too.
fn listed(node: Option<&str>, links: &[Link]) -> String {
    let listed = Listed { name: "Consort", about: TAGLINE, version: VERSION, node, links };
    // Plain texts: writing them into memory cannot fail.
    serde_json::to_string_pretty(&listed).unwrap_or_default() + "\n"
}

fn page(node: Option<&str>, links: &[Link]) -> String {
    let node = match node {
        Some(id) => format!("Node <b>{}</b>", escaped(id)),
        None => "This node is about to join its cluster".to_owned(),
    };
    let mut rows = String::new();
    for Link { path, about } in links {
        let (path, about) = (escaped(path), escaped(about));
        // Writing to a `String` cannot fail.
        let _ = writeln!(
            rows,
            "<tr><td><a href=\"{path}\"><code>{path}</code></a></td><td>{about}</td></tr>"
        );
    }
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><title>Consort</title>\n\
         <style>{STYLE}</style></head>\n<body>\n<h1>Consort</h1>\n<p>{TAGLINE}</p>\n\
         <p>{node}, version {VERSION}.</p>\n<table>\n{rows}</table>\n</body>\n</html>\n"
    )
}

/// A text as it may stand between tags and within a quoted attribute.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn browsers_get_html_and_everything_else_json() {
        let cases: [(&[&str], bool); 9] = [
            (&[], false),
            (&["*/*"], false),
            (&["application/json"], false),
            (&["text/html"], true),
            (&["text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"], true),
            (&["application/json", "Text/HTML ; q=0.5"], true),
            (&["text/html;q=0, application/json"], false),
            (&["text/html;level=1;q=0.0"], false),
            (&["text/htmlx"], false),
        ];
        for (accept, html) in cases {
            let mut headers = HeaderMap::new();
            for value in accept {
                headers.append(header::ACCEPT, HeaderValue::from_static(value));
            }
            assert_eq!(wants_html(&headers), html, "{accept:?}");
        }
    }

    #[test]
    fn names_cannot_add_markup_to_the_page() {
        let link = Link { path: "/once/\"><script>".into(), about: "a & b's".into() };
        let page = page(Some("<script>alert(1)</script>"), &[link]);
        assert!(!page.contains("<script"), "{page}");
        assert!(page.contains("<b>&lt;script&gt;alert(1)&lt;/script&gt;</b>"), "{page}");
        assert!(page.contains("href=\"/once/&quot;&gt;&lt;script&gt;\""), "{page}");
        assert!(page.contains("a &amp; b&#39;s"), "{page}");
    }
}

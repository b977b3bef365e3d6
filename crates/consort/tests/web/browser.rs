//! A real browser shows a page of another origin, which tries to use a node by all that HTML has for it.

use serde_json::{Value, json};

use crate::bed::Bed;
use crate::page::PageServer;

/// Routes on which the page's requests must have arrived, or the page has proved nothing.
const REACHED: [(&str, &str); 18] = [
    ("/views/{view}", "GET"),
    ("/once/{name}/{*path}", "GET"),
    ("/once/{name}/{*path}", "OPTIONS"),
    ("/rides/{lift}", "POST"),
    ("/rides/{lift}", "OPTIONS"),
    ("/streams/{stream}", "POST"),
    ("/streams/points", "POST"),
    ("/write", "POST"),
    ("/feeds/{*path}", "GET"),
    ("/cluster/nodes/{id}/drain", "POST"),
    ("/glue/{collection}", "GET"),
    ("/glue/{collection}", "POST"),
    ("/glue/{collection}", "OPTIONS"),
    ("/glue/{collection}/{id}", "GET"),
    ("/glue/{collection}/{id}", "OPTIONS"),
    ("/glue/{collection}/{id}/retry", "POST"),
    ("/glue/{collection}/{id}/discard", "POST"),
    ("/sinks/{sink}/parked/release", "OPTIONS"),
];

#[tokio::test(flavor = "multi_thread")]
async fn a_page_on_another_port_changes_and_reads_nothing() {
    let bed = Bed::start("").await;
    let port = bed.address().port();
    let pages = PageServer::bind().await;
    // The second is a name that an attacker has pointed at this machine.
    for (host, bases) in [
        ("127.0.0.1", vec![format!("http://127.0.0.1:{port}"), format!("http://localhost:{port}")]),
        ("evil.test", vec![format!("http://evil.test:{port}"), format!("http://127.0.0.1:{port}")]),
    ] {
        let bases = serde_json::to_string(&bases).expect("JSON");
        let page = include_str!("attack.html").replace("BASES", &bases);
        let report = pages.report(host, &page).await;
        for (what, became) in report.as_object().expect("an object") {
            let (_, way) = what.split_once(' ').expect("a way");
            assert!(is_harmless(way, became), "{host}: {what}: {became}");
        }
        bed.assert_untouched().await;
    }
    let metrics = bed.get("/metrics").await;
    for (route, method) in REACHED {
        let name = format!(
            "consort_http_requests_total{{route=\"{route}\",method=\"{method}\",status=\"4xx\"}}"
        );
        assert!(metrics.contains(&name), "{name} is missing in\n{metrics}");
    }
}

/// Whether what the page reports of one way tells it nothing.
fn is_harmless(way: &str, became: &Value) -> bool {
    let became = became.as_str().unwrap_or_default();
    match way.split(' ').next() {
        // The standard gives such a page an empty answer whatever the server says.
        Some("no-cors") => became == "opaque 0 ''",
        Some("cors") => became == "refused: TypeError",
        Some("image" | "script" | "events") => became == "failed",
        // Whether a beacon or a form was taken, no page is told; the node's metrics tell it.
        Some("iframe") => became == "closed",
        _ => ["queued", "closed", "no answer"].contains(&became),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_a_listed_origin_reads_and_posts() {
    let pages = PageServer::bind().await;
    let bed = Bed::start(&format!("origins = [\"http://{}\"]", pages.address())).await;
    let page = include_str!("listed.html").replace("NODE", &format!("http://{}", bed.address()));
    let report = pages.report("127.0.0.1", &page).await;
    let expected = json!({"posted": 201, "position": "string", "value": 1, "events": "open"});
    assert_eq!(report, expected);
    assert_eq!(bed.accepted("rides").await, 1);
}

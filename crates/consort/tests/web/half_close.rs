//! Many clients send a request, end their sending side, and all get their answers; each event counts once.

use consort_testbed::eventually;
use futures::future::join_all;

use crate::bed::{Bed, PATIENCE, exchange, status};

const CLIENTS: usize = 50;

/// The answers to as many clients, all at once.
async fn answers(bed: &Bed, request: &str) -> Vec<String> {
    let address = bed.address();
    join_all((0..CLIENTS).map(|_| exchange(address, request, true))).await
}

fn post(path: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\n{headers}content-length: {length}\r\n\r\n{body}"
    )
}

#[tokio::test]
async fn every_half_closed_client_is_answered_and_counted_once() {
    let bed = Bed::start("").await;
    let lines = "{\"lift\":7,\"time\":1}\n".repeat(3);
    let get = "GET /lifts/7/rides HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let wait =
        "GET /feeds/views/rides_by_minute?after=now&wait=1 HTTP/1.1\r\nhost: localhost\r\n\r\n";
    for (request, expected, events) in [
        // By the short way, by the router, in bulk; then what only asks.
        (post("/rides/7", "", r#"{"time":1}"#), 201, 1),
        (post("/rides/7?by=router", "", r#"{"time":1}"#), 201, 1),
        (post("/streams/rides", "content-type: application/x-ndjson\r\n", &lines), 200, 3),
        (get.into(), 200, 0),
        (wait.into(), 200, 0),
    ] {
        let before = bed.accepted("rides").await;
        for answer in answers(&bed, &request).await {
            assert_eq!(status(&answer) / 100, expected / 100, "{request}\n{answer}");
        }
        let counted = bed.accepted("rides").await - before;
        assert_eq!(counted, events * CLIENTS as u64, "{request}");
    }
    let all = format!("\"value\":{}", 5 * CLIENTS);
    let complete = || async { bed.get("/views/rides_of_lift?lift=7").await.contains(&all) };
    eventually("each event is in the view, once", PATIENCE, complete).await;
}

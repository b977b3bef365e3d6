//! Answers to single pieces and readers while the log, the store or the workers fail.

use axum::response::Response;
use consort_kernel::{Commit, Note, Operation, Shard};
use tokio::time::Instant;

use super::*;

fn good() -> Bed {
    bed(u64::MAX, AppendError::Engine(Fault::Fatal("never".into())))
}

impl Bed {
    async fn answer(&self, request: Request<Body>) -> Response {
        self.routes.clone().oneshot(request).await.unwrap()
    }

    async fn put(&self, path: &str) -> Response {
        let request = Request::put(path).header(header::CONTENT_TYPE, "application/json");
        self.answer(request.body(Body::from("{}")).unwrap()).await
    }

    async fn get(&self, path: &str) -> Response {
        self.answer(Request::get(path).body(Body::empty()).unwrap()).await
    }
}

async fn json_of(response: Response) -> Value {
    let body = response.into_body().collect().await.unwrap().to_bytes();
    serde_json::from_slice(&body).unwrap()
}

/// Checks that an answer is a 503 of this kind, which says when to come again.
async fn is_unavailable(response: Response, kind: &str) {
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert!(response.headers().contains_key(header::RETRY_AFTER), "{:?}", response.headers());
    let said = json_of(response).await;
    assert_eq!(said["type"], format!("urn:consort:problem:{kind}"), "{said}");
}

#[tokio::test(start_paused = true)]
async fn a_piece_that_the_log_does_not_take_is_not_stored() {
    let bed = bed(0, AppendError::Engine(Fault::Fatal("on purpose".into())));
    is_unavailable(bed.put("/glue/content/d").await, "not-stored").await;
    assert_eq!(bed.put("/glue/content/d").await.status(), StatusCode::ACCEPTED, "the next one is");
}

#[tokio::test(start_paused = true)]
async fn a_piece_whose_append_ends_unknown_may_be_stored() {
    let bed = bed(0, AppendError::Unknown(Fault::Fatal("on purpose".into())));
    let response = bed.put("/glue/content/d?source=s&seq=1").await;
    is_unavailable(response, "outcome-unknown").await;
}

#[tokio::test(start_paused = true)]
async fn a_piece_that_is_not_applied_in_time_is_accepted_with_its_position() {
    // Nothing is applied here.
    let (bed, began) = (good(), Instant::now());
    let response = bed.put("/glue/content/d?wait=applied").await;
    assert_eq!(response.status(), StatusCode::ACCEPTED);
    let position = response.headers()["consort-position"].to_str().unwrap().to_owned();
    assert!(position.starts_with("glue.content/0:"), "{position}");
    assert_eq!(json_of(response).await, json!({"state": "accepted"}));
    let waited = began.elapsed();
    assert!(waited >= Duration::from_secs(9) && waited <= Duration::from_secs(11), "{waited:?}");
    // Asking again with the position waits as long, and says that it is not reached.
    let request = Request::get("/glue/content/d").header("consort-after", position);
    let response = bed.answer(request.body(Body::empty()).unwrap()).await;
    is_unavailable(response, "not-reached").await;
}

#[tokio::test(start_paused = true)]
async fn a_collection_whose_gate_is_full_is_overloaded() {
    let bed = good();
    let gate = bed.glue.0.collections["content"].ingress.gate().clone();
    for _ in 0..3 {
        gate.lag(Duration::from_secs(60));
        tokio::time::advance(Duration::from_secs(1)).await;
    }
    // A bulk request has taken all that is admitted for many seconds.
    let deadline = Instant::now() + Duration::from_secs(10);
    while gate.enter(10_000, deadline).await.is_ok() {
        gate.lag(Duration::from_secs(60));
    }
    is_unavailable(bed.put("/glue/content/d").await, "overloaded").await;
}

#[tokio::test]
async fn a_store_that_does_not_answer_is_told_to_readers() {
    let bed = good();
    bed.store.fail();
    for path in ["/glue/content/d", "/glue/content", "/glue/content/rejects", "/glue"] {
        is_unavailable(bed.get(path).await, "store-failed").await;
    }
}

#[tokio::test]
async fn the_cursor_of_a_list_is_taken_before_its_scan() {
    let bed = good();
    let row = |text: &str| {
        let entry = bytes::Bytes::from(text.to_owned());
        Commit::of([Operation::Append(Note { feed: "glue.content".parse().unwrap(), entry })])
    };
    bed.store.commit(Shard(0), row("before")).await.unwrap();
    let cursor = async || {
        let feed = &bed.glue.0.collections["content"].feed;
        feed.newest().await.unwrap().encode()
    };
    let before = cursor().await;
    // A document changes between the look at the feed and the first page's scan.
    bed.store.commit_before_scan(Shard(0), row("meanwhile"));
    let response = bed.get("/glue/content").await;
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(response.headers()["consort-cursor"], *before, "the change is behind the cursor");
    assert_ne!(cursor().await, before);
}

//! A page of large changes.

use std::sync::Arc;

use consort_feeds::{FeedPage, FeedSpec, PageChange, Payload, Retention, Subscription};
use consort_kernel::{Change, Moment, SystemClock, memory};
use serde_json::json;
use serde_json::value::to_raw_value;

#[derive(Debug)]
struct Notes;

impl Payload for Notes {
    fn name(&self) -> &'static str {
        "note"
    }

    fn id(&self, change: &Change) -> Result<String, String> {
        Ok(change.revision.to_string())
    }
}

/// Twenty changes, each as large as a step.
pub(super) async fn large_page() -> FeedPage {
    let (_, store) = memory::open(1, Arc::new(SystemClock::default()));
    let feed = FeedSpec {
        path: "test/notes".to_owned(),
        feed: "test.notes".parse().unwrap(),
        payload: Arc::new(Notes),
        retention: Retention::default(),
        sinks: Vec::new(),
    };
    let cursor = Subscription::new(Arc::new(store), Arc::new(feed)).oldest().await.unwrap();
    let payload = to_raw_value(&json!({ "text": "x".repeat(64 << 10) })).unwrap();
    let change = Change { subject: "a".to_owned(), time: Moment(0), revision: 1, payload };
    let row = PageChange { change: Some(change), cursor: Some(cursor.clone()) };
    FeedPage { changes: vec![row; 20], next: cursor }
}

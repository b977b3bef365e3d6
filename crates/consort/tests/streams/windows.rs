//! Views with windows, on a node: they open, close, are amended and let go, and every event is accounted for.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use consort_testbed::eventually;
use serde_json::{Value, json};

use crate::bed::{Here, PATIENCE};
use crate::caller::{Caller, is_problem, text};

const STREAM: &str = r#"
[stream.events]
key = "product"
partitions = 4
time = "at"
fields = { product = "text", user = "text", at = "int" }

[view.users]
from = "events"
by = ["product"]
window = "1m"
grace = "1s"
distinct = "user"

[view.strict]
from = "events"
by = ["product"]
window = "1m"
grace = "1s"
late = "list"
count = true

[view.short]
from = "events"
by = ["product"]
window = "10s"
grace = "0s"
keep = "1s"
count = true
"#;

const EVENTS: &str = "/streams/events";

/// 2016-12-04T18:38:00Z, in seconds: long ago, so its windows close as soon as their grace is over.
const MINUTE: i64 = 1_480_876_680;
const START: &str = "2016-12-04T18:38:00Z";

fn event(product: &str, user: &str, second: i64) -> String {
    json!({"product": product, "user": user, "at": second * 1_000_000_000}).to_string()
}

async fn send(caller: &mut Caller, events: &[String]) {
    caller.accept(EVENTS, format!("[{}]", events.join(","))).await;
}

/// Waits until the window of this answer is in a state, and gives the answer.
async fn comes_to_state(caller: &mut Caller, path: &str, state: &str) -> Value {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        let answer = caller.json(path).await;
        if answer["window"]["state"] == state {
            return answer;
        }
        assert!(tokio::time::Instant::now() < deadline, "not {state}: {answer}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// What `/metrics` says of a view, by outcome.
async fn outcomes(caller: &mut Caller, view: &str) -> BTreeMap<String, i64> {
    let metrics = text(&caller.get("/metrics").await);
    let begin = format!("consort_view_events{{view=\"{view}\",outcome=\"");
    let lines = metrics.lines().filter_map(|line| line.strip_prefix(&begin));
    let read = lines.filter_map(|line| line.split_once("\"} "));
    read.filter_map(|(name, count)| Some((name.to_owned(), count.parse().ok()?))).collect()
}

fn is_balanced(outcomes: &BTreeMap<String, i64>) {
    let of = |name: &str| outcomes.get(name).copied().unwrap_or_default();
    let sum = of("applied") + of("late") + of("duplicate") + of("rejected");
    assert_eq!(of("received"), sum, "{outcomes:?}");
}

#[tokio::test]
async fn a_window_of_long_ago_opens_closes_and_is_amended() {
    let node = Here::start(STREAM).await;
    let mut caller = node.caller();
    send(&mut caller, &[event("a", "u1", MINUTE), event("a", "u1", MINUTE + 59)]).await;
    send(&mut caller, &[event("a", "u2", MINUTE + 5), event("b", "u1", MINUTE + 60)]).await;
    let one = format!("/views/users?product=a&start={START}");
    let closed = comes_to_state(&mut caller, &one, "closed").await;
    let window = json!({"start": START, "end": "2016-12-04T18:39:00Z", "state": "closed"});
    let expected =
        json!({"view": "users", "group": {"product": "a"}, "window": window, "value": 2});
    assert_eq!(closed, expected);
    send(&mut caller, &[event("a", "u3", MINUTE + 1)]).await;
    assert_eq!(caller.value(&one).await, json!(3), "an event that comes late counts");
    let inside = format!("/views/users?product=a&start={}", (MINUTE + 30) * 1_000_000_000);
    assert_eq!(caller.value(&inside).await, json!(3), "any moment of a window names it");
    is_balanced(&outcomes(&mut caller, "users").await);
}

#[tokio::test]
async fn late_events_are_listed_where_that_is_wanted() {
    let node = Here::start(STREAM).await;
    let mut caller = node.caller();
    send(&mut caller, &[event("a", "u1", MINUTE)]).await;
    let one = format!("/views/strict?product=a&start={START}");
    comes_to_state(&mut caller, &one, "closed").await;
    send(&mut caller, &[event("a", "u2", MINUTE), event("a", "u3", MINUTE)]).await;
    assert_eq!(caller.value(&one).await, json!(1));
    let late = caller.json("/views/strict/late").await;
    let lines = late["late"].as_array().expect("a list");
    assert_eq!(lines.len(), 2, "{late}");
    let line = &lines[0]["rejected"];
    assert!(line["reason"].as_str().expect("a reason").contains(START), "{line}");
    assert!(line["event"].as_str().expect("the event").contains("\"product\":\"a\""), "{line}");
    let outcomes = outcomes(&mut caller, "strict").await;
    assert_eq!((outcomes["applied"], outcomes["late"]), (1, 2));
    is_balanced(&outcomes);
}

#[tokio::test]
async fn windows_are_listed_in_their_order_and_between_moments() {
    let node = Here::start(STREAM).await;
    let mut caller = node.caller();
    let events: Vec<String> = (0..6)
        .flat_map(|minute| ["a", "b", "c"].map(|product| event(product, "u", MINUTE + 60 * minute)))
        .collect();
    send(&mut caller, &events).await;
    let mut seen = Vec::new();
    let mut next = String::new();
    loop {
        let page = caller.json(&format!("/views/users?limit=4{next}")).await;
        for group in page["groups"].as_array().expect("groups") {
            assert_eq!(group["value"], json!(1));
            let start = group["window"]["start"].as_str().expect("a start").to_owned();
            seen.push((start, group["group"]["product"].as_str().expect("a text").to_owned()));
        }
        match page["next"].as_str() {
            Some(cursor) => next = format!("&after={cursor}"),
            None => break,
        }
    }
    assert!(seen.is_sorted() && seen.len() == 18, "{seen:?}");
    let between = "start=2016-12-04T18:40:00Z&end=2016-12-04T18:42:00Z";
    let page = caller.json(&format!("/views/users?{between}")).await;
    assert_eq!(page["groups"].as_array().map(Vec::len), Some(6), "{page}");
    let of_one = caller.json(&format!("/views/users?product=b&{between}")).await;
    let starts: Vec<&Value> = of_one["groups"]
        .as_array()
        .expect("groups")
        .iter()
        .map(|g| &g["window"]["start"])
        .collect();
    assert_eq!(starts, ["2016-12-04T18:40:00Z", "2016-12-04T18:41:00Z"]);
    let csv = caller.get_with(&format!("/views/users?{between}"), &[("accept", "text/csv")]).await;
    assert!(text(&csv).starts_with("start,end,state,product,value\r\n2016-12-04T18:40:00Z,"));
    let wrong = caller.get("/views/users?start=yesterday").await;
    is_problem(&wrong, 400, "invalid-query", &["'start' must be a moment", "yesterday"]);
}

#[tokio::test]
async fn a_window_that_was_let_go_is_not_born_again() {
    let node = Here::start(STREAM).await;
    let mut caller = node.caller();
    send(&mut caller, &[event("a", "u1", MINUTE)]).await;
    let one = format!("/views/short?product=a&start={START}");
    comes_to_state(&mut caller, &one, "gone").await;
    send(&mut caller, &[event("a", "u2", MINUTE)]).await;
    assert_eq!(caller.value(&one).await, json!(0));
    let late = caller.json("/views/short/late").await;
    assert_eq!(late["late"].as_array().map(Vec::len), Some(1), "{late}");
    is_balanced(&outcomes(&mut caller, "short").await);
}

#[tokio::test]
async fn a_silent_stream_closes_its_windows() {
    let node = Here::start(STREAM).await;
    let mut caller = node.caller();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs() as i64;
    send(&mut caller, &[event("a", "u1", now)]).await;
    let path = format!("/views/short?product=a&start={}", now * 1_000_000_000);
    let gone_or_closed = |state: &Value| *state == "closed" || *state == "gone";
    eventually("a window of now closes although nothing more comes", 3 * PATIENCE, || {
        let mut asking = node.caller();
        let path = path.clone();
        async move { gone_or_closed(&asking.json(&path).await["window"]["state"]) }
    })
    .await;
}

#[tokio::test]
async fn events_from_the_future_are_rejected_and_counted() {
    let node = Here::start(STREAM).await;
    let mut caller = node.caller();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs() as i64;
    send(&mut caller, &[event("a", "u1", now + 3_600), event("a", "u1", now)]).await;
    let groups = caller.json("/views/users?product=a").await;
    assert_eq!(groups["groups"].as_array().map(Vec::len), Some(1), "{groups}");
    let outcomes = outcomes(&mut caller, "users").await;
    assert_eq!((outcomes["applied"], outcomes["rejected"]), (1, 1));
    is_balanced(&outcomes);
    let rejects = caller.json("/views/users/rejects").await;
    assert!(rejects.to_string().contains("ahead"), "{rejects}");
}

#[tokio::test]
async fn only_views_with_windows_have_late_events() {
    let plain = "[view.plain]\nfrom = \"events\"\ncount = true\n";
    let node = Here::start(&format!("{STREAM}\n{plain}")).await;
    let mut caller = node.caller();
    let none = caller.get("/views/plain/late").await;
    is_problem(&none, 404, "no-windows", &["has no windows"]);
    let unknown = caller.get("/views/nothing/late").await;
    is_problem(&unknown, 404, "no-such-view", &["'users'"]);
    let moment = caller.get("/views/plain?start=0").await;
    is_problem(&moment, 400, "invalid-query", &["no field 'start'"]);
}

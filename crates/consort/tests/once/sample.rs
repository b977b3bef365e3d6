//! The sample upstream itself: another list each time, a count, and switches that are told when they are wrong.

use consort_client::Method;
use serde_json::json;

use crate::bed::{Caller, PATIENCE, consort, start_upstream};

#[tokio::test]
async fn each_call_gives_another_list_and_is_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut process, address) = start_upstream(&folder).await;
    let mut caller = Caller::of(address);
    let (first, second) = (caller.good("/items/a").await, caller.good("/items/a").await);
    assert_eq!(first.json().as_array().map(Vec::len), Some(5));
    assert_ne!(first.text(), second.text());
    caller.post("/items/b/c", "{}").await;
    let calls = caller.good("/calls").await.json();
    assert_eq!(calls, json!({"calls": 3, "paths": {"/items/a": 2, "/items/b/c": 1}}));
    assert_eq!(caller.delete("/calls").await.status(), 204);
    assert_eq!(caller.good("/calls").await.json(), json!({"calls": 0, "paths": {}}));
    for (switch, words) in [
        ("delay=5", "must be a duration"),
        ("status=9", "'status' must be a status, not '9'"),
        ("size=9", "must be a size"),
        ("fail=x", "'fail' must be a number of calls, not 'x'"),
    ] {
        let refused = caller.send(Method::GET, &format!("/items/a?{switch}"), &[], "").await;
        refused.is_problem(400, "switch", &[words]);
    }
    process.terminate(PATIENCE).await;
    assert_eq!(process.exit_code(), Some(0), "{}", process.output());
}

#[test]
fn it_teaches_its_switches_and_stays_on_this_machine() {
    let help = consort(&["sample-upstream", "--help"]).output().expect("it runs");
    let help = String::from_utf8(help.stdout).expect("text");
    for word in [
        "delay=5s",
        "status=503",
        "fail=2",
        "size=2MiB",
        "redirect=URL",
        "GET /calls",
        "examples/items.toml",
    ] {
        assert!(help.contains(word), "{word} is not in\n{help}");
    }
    let open = consort(&["sample-upstream", "--listen", "0.0.0.0:0"]).output().expect("it runs");
    assert_eq!(open.status.code(), Some(1));
    let said = String::from_utf8(open.stderr).expect("text");
    assert!(said.contains("listen on 127.0.0.1"), "{said}");
    let slow = consort(&["sample-upstream", "--delay", "5"]).output().expect("it runs");
    assert_eq!(slow.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&slow.stderr).contains("must be a duration"));
}

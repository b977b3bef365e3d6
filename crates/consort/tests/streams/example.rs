//! The public lift-ride API of `examples/lifts.toml`, and the commands at its head.

use std::process::Command;

use consort_client::Method;
use serde_json::json;

use crate::bed::{Apart, Here, lifts};
use crate::caller::{Caller, is_problem, json, text};

const RIDES: &str = "/skiers/1/seasons/2020/days/45/skiers/45";

#[tokio::test]
async fn rides_are_posted_and_asked_for_by_the_public_paths() {
    let node = Here::start(&lifts()).await;
    let mut caller = node.caller();
    let vertical = caller.get(RIDES).await;
    assert_eq!((vertical.status.as_u16(), &vertical.body[..]), (200, &b"0"[..]));

    let reply = caller.accept(RIDES, r#"{"time": 217, "liftID": 21, "waitTime": 3}"#).await;
    assert_eq!(json(&reply), json!({"accepted": 1}));
    caller.accept(RIDES, r#"{"time": 300, "liftID": 4}"#).await;
    caller.accept("/skiers/1/seasons/2020/days/45/skiers/46", r#"{"time":0,"liftID":60}"#).await;
    // Another resort, another day and another season are none of this day's business.
    for other in [
        "/skiers/2/seasons/2020/days/45/skiers/45",
        "/skiers/1/seasons/2020/days/46/skiers/45",
        "/skiers/1/seasons/2021/days/45/skiers/45",
    ] {
        caller.accept(other, r#"{"time": 1439, "liftID": 1, "waitTime": null}"#).await;
    }

    let vertical = caller.get(RIDES).await;
    assert_eq!((vertical.status.as_u16(), &vertical.body[..]), (200, &b"250"[..]));
    for path in ["/resorts/1/seasons/2020/days/45/skiers", "/resorts/1/seasons/2020/day/45/skiers"]
    {
        let reply = caller.get(path).await;
        assert_eq!((reply.status.as_u16(), &reply.body[..]), (200, &br#"{"numSkiers":2}"#[..]));
        assert_eq!(reply.header("content-type"), Some("application/json"));
    }
    let nobody = caller.get("/resorts/9/seasons/2020/days/45/skiers").await;
    assert_eq!(&nobody.body[..], br#"{"numSkiers":0}"#);
}

#[tokio::test]
async fn the_six_questions_are_answered() {
    let node = Here::start(&lifts()).await;
    let mut caller = node.caller();
    for (resort, day, skier, time, lift) in [
        (1, 45, 45, 59, 21),
        (1, 45, 45, 60, 21),
        (2, 45, 45, 61, 3),
        (1, 46, 45, 60, 1),
        (1, 45, 7, 119, 21),
    ] {
        let path = format!("/skiers/{resort}/seasons/2020/days/{day}/skiers/{skier}");
        caller.accept(&path, format!(r#"{{"time":{time},"liftID":{lift}}}"#)).await;
    }
    for (question, answer) in [
        ("skier_days?skier=45&season=2020", json!(2)),
        ("skier_vertical?skier=45&season=2020&day=45", json!(450)),
        ("skier_lifts?skier=45&season=2020&day=45", json!([3, 21])),
        ("resort_skiers?resort=1&season=2020&day=45", json!(2)),
        ("lift_rides_per_day?liftID=21&season=2020&day=45", json!(3)),
        ("rides_per_hour?season=2020&day=45&hour=1", json!(3)),
    ] {
        assert_eq!(caller.value(&format!("/views/{question}")).await, answer, "{question}");
    }
}

#[tokio::test]
async fn an_invalid_ride_is_told_which_field_and_why() {
    let node = Here::start(&lifts()).await;
    let mut caller = node.caller();
    let ride = r#"{"time": 217, "liftID": 21}"#;
    let path = |part: &str, value: &str| RIDES.replacen(part, value, 1);
    for (path, body, words) in [
        (path("/1/", "/11/"), ride, ["field 'resort'", "a whole number from 1 to 10"]),
        (path("/1/", "/one/"), ride, ["field 'resort'", "a whole number from 1 to 10"]),
        (path("/45/", "/0/"), ride, ["field 'day'", "from 1 to 366"]),
        (path("/45/", "/367/"), ride, ["field 'day'", "from 1 to 366"]),
        (path("skiers/45", "skiers/100001"), ride, ["field 'skier'", "from 1 to 100000"]),
        (path("skiers/45", "skiers/4.5"), ride, ["field 'skier'", "from 1 to 100000"]),
        (RIDES.into(), r#"{"time": 1440, "liftID": 21}"#, ["field 'time'", "from 0 to 1439"]),
        (RIDES.into(), r#"{"time": -1, "liftID": 21}"#, ["field 'time'", "from 0 to 1439"]),
        (RIDES.into(), r#"{"time": 217, "liftID": 61}"#, ["field 'liftID'", "from 1 to 60"]),
        (RIDES.into(), r#"{"time": 217, "liftID": "21"}"#, ["field 'liftID'", "from 1 to 60"]),
        (RIDES.into(), r#"{"liftID": 21}"#, ["field 'time' is missing", "from 0 to 1439"]),
        (RIDES.into(), r#"{"time": 217}"#, ["field 'liftID' is missing", "from 1 to 60"]),
        (
            RIDES.into(),
            r#"{"time": 217, "liftID": 21, "waitTime": "3"}"#,
            ["field 'waitTime'", "a whole number"],
        ),
        (
            RIDES.into(),
            r#"{"time": 217, "liftID": 21, "lift": 1}"#,
            ["unknown field 'lift'", "'liftID'"],
        ),
        (
            RIDES.into(),
            r#"{"time": 217, "liftID": 21, "skier": 45}"#,
            ["field 'skier'", "comes twice"],
        ),
        (RIDES.into(), "", ["not a JSON object", "EOF"]),
        (RIDES.into(), "time=217", ["not a JSON object", "line 1"]),
    ] {
        is_problem(&caller.post(&path, body).await, 400, "invalid-event", &words);
    }
    let wrong_query = caller.get("/resorts/x/seasons/2020/days/45/skiers").await;
    is_problem(&wrong_query, 400, "invalid-query", &["'resort'", "a whole number", "'x'"]);
    // None of them counted.
    assert_eq!(caller.value("/views/rides_per_hour?season=2020&day=45&hour=3").await, json!(0));
}

#[tokio::test]
async fn paths_are_read_as_they_are_encoded() {
    let node = Here::start(&lifts()).await;
    let mut caller = node.caller();
    let path = "/skiers/1/seasons/20%2F21%20%C3%A9/days/45/skiers/45";
    caller.accept(path, r#"{"time": 217, "liftID": 21}"#).await;
    assert_eq!(&caller.get(path).await.body[..], b"210");
    let asked = "/views/skier_days?skier=45&season=20/21+%C3%A9";
    assert_eq!(caller.value(asked).await, json!(1));
    let no_text = "/skiers/1/seasons/%ff/days/45/skiers/45";
    let reply = caller.post(no_text, r#"{"time": 217, "liftID": 21}"#).await;
    is_problem(&reply, 400, "path", &["UTF-8"]);
    is_problem(&caller.get(no_text).await, 400, "path", &["UTF-8"]);
}

#[tokio::test]
async fn elsewhere_there_is_nothing() {
    let node = Here::start(&lifts()).await;
    let mut caller = node.caller();
    for path in [
        "/skiers",
        "/skiers/1/seasons/2020/days/45/skiers",
        "/skiers/1/seasons/2020/days/45/skiers/45/",
        "/skiers/seasons/2020/days/45/skiers/45",
        "/resorts/1/seasons/2020/days/45",
        "/skier/1/seasons/2020/days/45/skiers/45",
    ] {
        let reply = caller.send(Method::GET, path, &[], "").await;
        assert_eq!(reply.status, 404, "{path}");
        assert_eq!(reply.header("content-type"), Some("application/problem+json"), "{path}");
    }
    for (method, path, allowed) in [
        (Method::DELETE, RIDES, "GET,HEAD,POST"),
        (Method::PUT, RIDES, "GET,HEAD,POST"),
        (Method::POST, "/resorts/1/seasons/2020/days/45/skiers", "GET,HEAD"),
        (Method::POST, "/views/skier_days", "GET,HEAD"),
        (Method::DELETE, "/streams/lift_rides", "GET,HEAD,POST"),
    ] {
        let reply = caller.send(method.clone(), path, &[], "{}").await;
        assert_eq!(reply.status, 405, "{method} {path}: {}", text(&reply));
        assert_eq!(reply.header("content-type"), Some("application/problem+json"), "{path}");
        let allow = reply.header("allow").unwrap_or_default();
        let mut said: Vec<&str> = allow.split(',').map(str::trim).collect();
        said.sort_unstable();
        assert_eq!(said.join(","), allowed, "{method} {path}");
    }
}

/// The lines behind `#   ` at the head of the file, with those that end in a backslash joined.
fn head_commands() -> Vec<String> {
    let example = include_str!("../../../../examples/lifts.toml");
    let head = example.lines().take_while(|line| line.starts_with('#'));
    let lines: Vec<&str> = head.filter_map(|line| line.strip_prefix("#   ")).collect();
    let joined = lines.join("\n").replace("\\\n", " ");
    joined.lines().map(str::to_owned).collect()
}

#[tokio::test]
async fn the_commands_at_the_head_of_the_example_work() {
    let commands = head_commands();
    let (serve, curls) = commands.split_first().expect("commands");
    assert_eq!(serve, "consort serve -c examples/lifts.toml");
    let node = Apart::start(&lifts()).await;
    let mut said = Vec::new();
    for curl in curls {
        assert!(curl.starts_with("curl "), "{curl}");
        // Any free port instead of 7400, which another test may have.
        let command = curl.replace("127.0.0.1:7400", &node.address().to_string());
        let output = Command::new("sh").args(["-ec", &command]).output().expect("a shell");
        assert!(output.status.success(), "{command}: {output:?}");
        said.push(String::from_utf8(output.stdout).expect("text"));
        let position = said[0].lines().find_map(|line| line.strip_prefix("consort-position: "));
        Caller::of(&node.url()).reaches(position.expect("a position")).await;
    }
    assert!(said[0].starts_with("HTTP/1.1 201 Created"), "{}", said[0]);
    let group = r#"{"view":"skier_days","group":{"skier":45,"season":"2020"},"value":1}"#;
    assert_eq!(said[1], group);
}

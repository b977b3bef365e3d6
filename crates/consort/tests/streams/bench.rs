//! `consort bench lifts`: it measures, and it finds a wrong answer.

use consort_testbed::eventually;
use serde_json::Value;

use crate::bed::{Apart, Here, PATIENCE, consort, lifts};

const LOAD: [&str; 6] = ["bench", "lifts", "--requests", "2000", "--threads", "8"];

#[tokio::test]
async fn a_run_against_a_good_node_shows_figures_and_ends_well() {
    let node = Apart::start(&lifts()).await;
    let url = node.url();
    let said = consort(LOAD.iter().copied().chain(["--url", &url])).await;
    assert_eq!(said.code, Some(0), "{said:?}");
    for name in
        ["accepted ", "throughput ", "mean ", "median ", "p99 ", "max ", "refused ", "errors "]
    {
        assert_eq!(said.out.lines().filter(|line| line.starts_with(name)).count(), 1, "{said:?}");
    }
    assert_eq!(said.out.lines().count(), 8, "only figures are on standard output: {said:?}");
    assert!(said.out.starts_with("accepted          2000 rides"), "{said:?}");
    assert!(said.words.contains("answers are exact"), "{said:?}");

    let more = ["--url", &url, "--json", "--retry", "--skiers", "50"];
    let said = consort(LOAD.iter().copied().chain(more)).await;
    assert_eq!(said.code, Some(0), "{said:?}");
    let figures: Value = serde_json::from_str(&said.out).expect("one JSON object");
    assert_eq!((figures["accepted"].as_u64(), figures["failed"].as_u64()), (Some(2000), Some(0)));
    for name in ["requests_per_second", "mean_ms", "median_ms", "p99_ms", "max_ms", "seconds"] {
        assert!(figures[name].as_f64().is_some_and(|figure| figure > 0.0), "{name}: {figures}");
    }
}

#[tokio::test]
async fn with_retries_a_run_is_exact_though_the_node_is_killed() {
    let mut node = Apart::start(&lifts()).await;
    let url = node.url();
    let mut arguments = LOAD.map(str::to_owned).to_vec();
    arguments[3] = "6000".into();
    arguments.extend(["--url", &url, "--retry", "--season", "killed"].map(str::to_owned));
    let run = tokio::spawn(consort(arguments));
    eventually("rides are counted", PATIENCE, || {
        let mut caller = node.caller();
        async move {
            let hours = caller.json("/views/rides_per_hour?season=killed").await;
            hours["groups"].as_array().is_some_and(|hours| !hours.is_empty())
        }
    })
    .await;
    assert!(!run.is_finished(), "the node is killed in the middle of the run");
    node.crash().await;
    let said = run.await.expect("it ends");
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(said.out.starts_with("accepted          6000 rides"), "{said:?}");
    assert!(said.words.contains("answers are exact\n"), "nothing was left out: {said:?}");
}

#[tokio::test]
async fn a_count_that_differs_is_found() {
    let node = Here::start(&lifts()).await;
    let mut caller = node.caller();
    let ride = r#"{"time": 30, "liftID": 7}"#;
    caller.accept("/skiers/1/seasons/taken/days/1/skiers/1", ride).await;
    let url = node.url();
    let said = consort(LOAD.iter().copied().chain(["--url", &url, "--season", "taken"])).await;
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(said.words.contains("answers differ from what was counted"), "{said:?}");
    assert!(said.words.contains("/views/rides_per_hour?season=taken&day=1&hour=0"), "{said:?}");
    assert!(said.out.starts_with("accepted          2000 rides"), "{said:?}");
}

#[tokio::test]
async fn a_node_without_the_views_is_told_so() {
    let node = Here::start("").await;
    let url = node.url();
    let said = consort(LOAD.iter().copied().chain(["--url", &url])).await;
    assert_eq!(said.code, Some(1), "{said:?}");
    assert_eq!(said.out, "");
    let words = format!("{url} does not serve the lift rides");
    assert!(said.words.contains(&words), "{said:?}");
    assert!(said.words.contains("examples/lifts.toml"), "what to do is not said: {said:?}");
}

#[tokio::test]
async fn an_address_where_nobody_listens_is_told() {
    let said = consort(LOAD.iter().copied().chain(["--url", "http://127.0.0.1:1"])).await;
    assert_eq!((said.code, said.out.as_str()), (Some(1), ""), "{said:?}");
    assert!(said.words.contains("http://127.0.0.1:1"), "{said:?}");
}

#[tokio::test]
async fn a_season_that_no_path_can_hold_is_refused_before_the_run() {
    for season in ["", "20/21", "2020 21", "a?b"] {
        let said = consort(LOAD.iter().copied().chain(["--season", season])).await;
        assert_eq!((said.code, said.out.as_str()), (Some(2), ""), "{season}: {said:?}");
        assert!(said.words.contains("--season"), "{season}: {said:?}");
    }
}

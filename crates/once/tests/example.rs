//! The example of library mode does what it says, in memory and on a Redis.

use std::process::Command;

use consort_testbed::{RedisOptions, RedisServer};

fn run(arguments: &[&str]) {
    // Cargo builds examples before the tests of their package.
    let built = std::env::current_exe().unwrap();
    let folder = built.parent().and_then(|deps| deps.parent()).unwrap();
    let example = folder.join("examples").join("once");
    let output = Command::new(example).args(arguments).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(
        lines,
        ["300 answers, 1 computation, one generation: true", "purged by tag: 1, left: false"]
    );
}

#[test]
fn the_example_runs_to_its_end() {
    run(&[]);
}

#[tokio::test]
async fn the_example_runs_on_redis_too() {
    let redis = RedisServer::start(RedisOptions::default()).await;
    run(&[&redis.url()]);
}

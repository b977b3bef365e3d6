//! `examples/items.toml`: good, and what it promises holds on a real node.

use std::fs;
use std::process::Command;

use consort_testbed::{Port, Process, RedisOptions, RedisServer, eventually};
use futures::future::join_all;
use serde_json::Value;
use std::net::SocketAddr;

use crate::bed::{Caller, PATIENCE, calls, consort, listens, start_upstream};

const EXAMPLE: &str = include_str!("../../../../examples/items.toml");

/// Where the example has its upstream.
const UPSTREAM: &str = "127.0.0.1:9000";

/// The lines behind `#   ` at the head of the file, with those that end in a backslash joined.
fn head_commands() -> Vec<String> {
    let head = EXAMPLE.lines().take_while(|line| line.starts_with('#'));
    let lines: Vec<&str> = head.filter_map(|line| line.strip_prefix("#   ")).collect();
    lines.join("\n").replace("\\\n", " ").lines().map(str::to_owned).collect()
}

#[tokio::test]
async fn the_example_does_what_it_says() {
    assert!(EXAMPLE.contains(UPSTREAM), "the example has another upstream than it had");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("items.toml");
    let (_upstream, upstream) = start_upstream(&folder).await;
    fs::write(&path, EXAMPLE.replace(UPSTREAM, &upstream.to_string())).expect("a file");
    let checked = consort(&["check", "-c"]).arg(&path).output().expect("it runs");
    let said = String::from_utf8(checked.stderr).expect("text");
    assert!(checked.status.success() && said.contains("once 'items': asks http://"), "{said}");

    let port = Port::claim();
    let address = SocketAddr::from(([127, 0, 0, 1], port.number()));
    let mut command = consort(&["serve", "-c"]);
    command.arg(&path).args(["--listen", &address.to_string()]).current_dir(folder.path());
    let node = Process::start(&command, &folder.path().join("node.log"));
    listens(&node, "listens on http://").await;

    // The commands at the head, as somebody would type them.
    let commands = head_commands();
    assert_eq!(commands[0], "consort sample-upstream --delay 200ms");
    assert_eq!(commands[1], "consort serve -c examples/items.toml");
    for curl in &commands[2..] {
        assert!(curl.starts_with("curl "), "{curl}");
        let command = curl
            .replace("127.0.0.1:7400", &address.to_string())
            .replace(UPSTREAM, &upstream.to_string());
        let output = Command::new("sh").args(["-ec", &command]).output().expect("a shell");
        assert!(output.status.success(), "{command}: {output:?}");
    }

    five_of_one_list(&[address]).await;
    let asked_once = || async { calls(upstream, "five").await == 1 };
    eventually("the upstream was asked once", PATIENCE, asked_once).await;
}

#[tokio::test]
async fn the_example_on_three_nodes_gives_items_of_one_list_too() {
    let redis = RedisServer::start(RedisOptions::default()).await;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("items.toml");
    let (_upstream, upstream) = start_upstream(&folder).await;
    fs::write(&path, EXAMPLE.replace(UPSTREAM, &upstream.to_string())).expect("a file");
    let start = |id: &str| {
        let mut command = consort(&["serve", "--listen", "127.0.0.1:0", "--engine", &redis.url()]);
        command.arg("-c").arg(&path).current_dir(folder.path());
        Process::start(&command, &folder.path().join(id))
    };
    let nodes = ["a", "b", "c"].map(start);
    let mut addresses = Vec::new();
    for node in &nodes {
        addresses.push(listens(node, "listens on http://").await);
    }
    five_of_one_list(&addresses).await;
    assert_eq!(calls(upstream, "five").await, 1);
}

#[tokio::test]
async fn the_tour_has_the_list_and_asks_an_upstream_of_its_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = consort(&["serve", "--listen", "127.0.0.1:0"]);
    command.current_dir(folder.path());
    let node = Process::start(&command, &folder.path().join("node.log"));
    let address = listens(&node, "listens on http://").await;
    five_of_one_list(&[address]).await;
    // What it says can be tried is what can be.
    let said = || async { node.output().contains("in a browser").then_some(()) };
    eventually("it says what to try", PATIENCE, said).await;
    let output = node.output();
    let lines: Vec<&str> = output.lines().collect();
    let tried: Vec<(&str, &str)> = lines
        .windows(2)
        .filter_map(|pair| Some((pair[0].strip_prefix("  curl ")?, pair[1].trim())))
        .collect();
    assert_eq!(tried.len(), 7, "{output}");
    for (curl, answer) in tried {
        let command = format!("curl --fail --silent {curl}");
        // A view has the ride a moment after it is accepted.
        eventually(&format!("{command} answers {answer}"), PATIENCE, || async {
            let output = Command::new("sh").args(["-ec", &command]).output().expect("a shell");
            assert!(output.status.success(), "{command}: {output:?}");
            let said = String::from_utf8(output.stdout).expect("text");
            let shown = answer.split("     (").next().unwrap_or_default();
            !shown.starts_with('{') || said == shown
        })
        .await;
    }
    let home = output.split("open ").nth(1).and_then(|rest| rest.split(" in a browser").next());
    assert_eq!(home, Some(&*format!("http://{address}/")), "{output}");
}

/// Asks for all items at once, each of the next node: they are of one list.
async fn five_of_one_list(nodes: &[SocketAddr]) {
    let asking = nodes.iter().cycle().zip(0..5).map(|(node, position)| async move {
        let path = format!("/once/items/five?delay=300ms&position={position}");
        Caller::of(*node).good(&path).await
    });
    let answers = join_all(asking).await;
    let generation = answers[0].generation();
    assert!(answers.iter().all(|answer| answer.generation() == generation), "{answers:?}");
    let items: Vec<Value> = answers.iter().map(|answer| answer.json()).collect();
    for (position, item) in items.iter().enumerate() {
        assert_eq!((&item["position"], &item["call"]), (&position.into(), &items[0]["call"]));
    }
}

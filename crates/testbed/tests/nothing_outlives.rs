//! A holder that is killed without warning leaves no server behind.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use consort_testbed::eventually;

const GONE_WITHIN: Duration = Duration::from_secs(30);

/// Processes with their parents, zombies left out: one whose parent never reaps it is gone all the
/// same.
fn processes() -> Vec<(u32, u32)> {
    let stats = std::fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
        let mut fields = stat.rsplit_once(") ")?.1.split(' ');
        let state = fields.next()?;
        let parent = fields.next()?.parse().ok()?;
        (!matches!(state, "Z" | "X")).then_some((pid, parent))
    });
    stats.collect()
}

fn descendants(ancestor: u32) -> Vec<u32> {
    let processes = processes();
    let mut found = vec![ancestor];
    let mut next = 0;
    while let Some(parent) = found.get(next).copied() {
        found.extend(
            processes.iter().filter(|process| process.1 == parent).map(|process| process.0),
        );
        next += 1;
    }
    found.split_off(1)
}

/// Kills a holder of `server` by SIGKILL and waits until everything that it had started is gone.
async fn nothing_outlives_a_killed_holder_of(server: &str, signal_first: Option<&str>) {
    // A killed holder cannot remove its temporary folders, so they are made in one that is removed.
    let folder = tempfile::tempdir().unwrap();
    let mut holder: Child = Command::new(env!("CARGO_BIN_EXE_testbed"))
        .arg(server)
        .env("TMPDIR", folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(holder.stdout.take().unwrap()).lines();
    let url = lines.next().expect("the URL is told").unwrap();
    let servers: Vec<u32> =
        lines.next().unwrap().unwrap().split(' ').map(|pid| pid.parse().unwrap()).collect();
    let started = descendants(holder.id());
    assert!(
        servers.iter().all(|server| started.contains(server)),
        "{servers:?} are among {started:?} at {url}"
    );
    if let Some(signal) = signal_first {
        let servers = servers.iter().map(u32::to_string);
        assert!(Command::new("kill").arg(signal).args(servers).status().unwrap().success());
    }

    holder.kill().unwrap();
    holder.wait().unwrap();
    eventually("all that the holder had started is gone", GONE_WITHIN, || async {
        let running = processes();
        !started.iter().any(|pid| running.iter().any(|process| process.0 == *pid))
    })
    .await;
}

#[tokio::test]
async fn redis_does_not() {
    nothing_outlives_a_killed_holder_of("redis", None).await;
}

#[tokio::test]
async fn a_paused_redis_does_not() {
    nothing_outlives_a_killed_holder_of("redis", Some("-STOP")).await;
}

#[tokio::test]
async fn a_redis_cluster_does_not() {
    nothing_outlives_a_killed_holder_of("redis-cluster", None).await;
}

#[tokio::test]
async fn rabbitmq_and_its_helper_processes_do_not() {
    nothing_outlives_a_killed_holder_of("rabbitmq", None).await;
}

//! The real binary on every engine: ready, not ready when the engine is out of reach and why, and ready
//! again by itself.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use consort_testbed::{
    Port, Process, RabbitOptions, RabbitServer, RedisOptions, RedisServer, eventually,
    shared_cluster,
};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const PATIENCE: Duration = Duration::from_secs(60);

struct Node {
    process: Process,
    port: Port,
    _folder: TempDir,
}

impl Node {
    fn start(engine: &str) -> Node {
        let folder = tempfile::tempdir().expect("a folder");
        let port = Port::claim();
        let path = folder.path().join("consort.toml");
        let listen = format!("[http]\nlisten = \"127.0.0.1:{}\"\n", port.number());
        let namespace = format!("namespace = \"e2e-{}\"\n", port.number());
        fs::write(&path, format!("{listen}[engine]\n{namespace}{engine}\n")).expect("a file");
        let mut command = Command::new(env!("CARGO_BIN_EXE_consort"));
        command.args(["serve", "-c"]).arg(&path).current_dir(folder.path());
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("CONSORT_") {
                command.env_remove(name);
            }
        }
        let process = Process::start(&command, &folder.path().join("log"));
        Node { process, port, _folder: folder }
    }

    /// The status and body of `GET /readyz`.
    async fn ready(&self) -> std::io::Result<(u16, String)> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port.number())).await?;
        let request = "GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
        let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        Ok((status.unwrap_or_default(), body.to_string()))
    }

    async fn answers(&self, wanted: u16) -> String {
        let what = format!("/readyz says {wanted}; the node said: {}", self.process.output());
        eventually(&what, PATIENCE, || async {
            self.ready().await.ok().filter(|(status, _)| *status == wanted).map(|(_, body)| body)
        })
        .await
    }

    /// Stops it as a service manager does.
    async fn stop(mut self) {
        self.process.terminate(PATIENCE).await;
        assert_eq!(self.process.exit_code(), Some(0), "{}", self.process.output());
    }
}

#[tokio::test]
async fn a_node_on_the_embedded_engine_starts_and_stops() {
    let node = Node::start("url = \"embedded:./data\"");
    node.answers(200).await;
    assert!(node.process.output().contains("every acknowledged write is on the disk"));
    node.stop().await;
}

#[tokio::test]
async fn a_node_on_redis_says_when_it_is_out_of_reach_and_recovers() {
    let mut server = RedisServer::start(RedisOptions::new().password("hush-hush")).await;
    let node = Node::start(&format!("url = \"{}\"", server.url()));
    node.answers(200).await;
    server.pause();
    let reason = node.answers(503).await;
    assert!(reason.contains("store") && !reason.contains("hush-hush"), "{reason}");
    server.resume();
    node.answers(200).await;
    server.kill().await;
    let reason = node.answers(503).await;
    assert!(reason.contains("redis at redis://***@127.0.0.1"), "{reason}");
    server.restart().await;
    node.answers(200).await;
    assert!(!node.process.output().contains("hush-hush"), "{}", node.process.output());
    node.stop().await;
}

#[tokio::test]
async fn a_node_on_a_redis_cluster_is_ready() {
    let (url, _cluster) = shared_cluster().await;
    let node = Node::start(&format!("url = \"{url}\""));
    node.answers(200).await;
    // The greeting comes last, a moment after the node is ready.
    let masters = || async { node.process.output().contains("(3 masters)").then_some(()) };
    eventually("it says how many masters the cluster has", PATIENCE, masters).await;
    node.stop().await;
}

#[tokio::test]
async fn a_node_with_a_broker_says_when_that_is_out_of_reach_and_recovers() {
    let server = RedisServer::start(RedisOptions::new()).await;
    let mut broker = RabbitServer::start(RabbitOptions::new()).await;
    let engine = format!("url = \"{}\"\nbroker = \"{}\"", server.url(), broker.url());
    let node = Node::start(&engine);
    node.answers(200).await;
    broker.kill().await;
    let reason = node.answers(503).await;
    assert!(reason.contains("log") && !reason.contains("guest"), "{reason}");
    broker.restart().await;
    node.answers(200).await;
    node.stop().await;
}

#[tokio::test]
async fn an_engine_that_cannot_be_opened_ends_the_process_with_the_reason() {
    let port = Port::claim();
    let folder = PathBuf::from("/proc/no-such-folder");
    for (engine, says) in [
        (format!("url = \"redis://:hush-hush@127.0.0.1:{}\"", port.number()), "cannot reach"),
        (format!("url = \"embedded:{}\"", folder.display()), "/proc/no-such-folder"),
    ] {
        let mut node = Node::start(&engine);
        node.process.end(PATIENCE).await;
        let said = node.process.output();
        assert_eq!(node.process.exit_code(), Some(74), "{said}");
        assert!(said.contains(says) && !said.contains("hush-hush"), "{said}");
    }
}

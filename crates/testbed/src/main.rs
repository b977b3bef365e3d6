//! Starts one private server by hand and holds it: `testbed redis | redis-cluster | rabbitmq`.
//!
//! Prints the server's URL and its process ids, and ends it when killed, however suddenly, or when
//! standard input ends.

use std::io::{self, Read, Write};
use std::process::ExitCode;

use consort_testbed::{RabbitOptions, RabbitServer, RedisCluster, RedisOptions, RedisServer};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some("redis") => {
            let server = RedisServer::start(RedisOptions::new()).await;
            hold(&server.url(), &[server.pid()]);
        }
        Some("redis-cluster") => {
            let cluster = RedisCluster::start(RedisOptions::new()).await;
            let pids: Vec<u32> = cluster.nodes().iter().map(RedisServer::pid).collect();
            hold(&cluster.url(), &pids);
        }
        Some("rabbitmq") => {
            let server = RabbitServer::start(RabbitOptions::new()).await;
            hold(&server.url(), &[server.pid()]);
        }
        _ => {
            eprintln!("usage: testbed redis | redis-cluster | rabbitmq");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// Blocking is fine here: nothing else is to be done until the end of input.
fn hold(url: &str, pids: &[u32]) {
    let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
    let told = writeln!(io::stdout(), "{url}\n{}", pids.join(" "));
    if told.is_ok() {
        let _ = io::stdin().read_to_end(&mut Vec::new());
    }
}

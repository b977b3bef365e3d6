//! The upstream: `consort sample-upstream` as a process. Its count of the calls is kept apart from everything that
//! the nodes say.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use consort_client::{Client, Connection, Method};
use consort_testbed::{Process, eventually};
use serde_json::Value;

use super::crew::PATIENCE;

const SAYS: &str = "the sample upstream listens on http://";

/// An upstream.
#[derive(Debug)]
pub struct Upstream {
    _process: Process,
    address: String,
}

impl Upstream {
    /// Starts one whose answers take `delay`.
    pub async fn start(program: &str, delay: Duration, folder: &Path) -> Upstream {
        let mut command = Command::new(program);
        command.args(["sample-upstream", "--listen", "127.0.0.1:0"]);
        command.args(["--delay", &format!("{}ms", delay.as_millis())]);
        let process = Process::start(&command, &folder.join("upstream.log"));
        let address = eventually("the upstream listens", PATIENCE, || async {
            let output = process.output();
            Some(output.split_once(SAYS)?.1.split_once('/')?.0.to_owned())
        })
        .await;
        Upstream { _process: process, address }
    }

    /// Host and port.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// How often it was asked for a path below `/items/`.
    pub async fn calls(&self, path: &str) -> u64 {
        let client = Client::new(&format!("http://{}", self.address), None).expect("an address");
        let asked = Connection::new(client, PATIENCE).send(Method::GET, "/calls", &[], "").await;
        let calls: Value =
            serde_json::from_slice(&asked.expect("the upstream tells").body).expect("JSON");
        calls["paths"][format!("/items/{path}")].as_u64().unwrap_or_default()
    }

    /// Waits until it was asked so often for a path.
    pub async fn is_asked(&self, path: &str, times: u64) {
        let what = format!("the upstream is asked {times} times for {path}");
        eventually(&what, PATIENCE, || async { self.calls(path).await >= times }).await;
    }
}

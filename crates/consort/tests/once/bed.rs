//! A node and its upstream, both as processes.

use std::fs;
use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use consort_client::{Client, Connection, Method, Reply};
use consort_testbed::{Port, Process, eventually};
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// How long a test waits for what must happen.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A list that is fresh for longer than any test takes.
pub(crate) const LASTING: &str = "fresh_for = '1h'\nerrors_for = '1h'\nrefresh_early = false\n";

/// Headers of a request.
pub(crate) type Headers<'a> = &'a [(&'static str, &'a str)];

/// A node with the space `items`, and what it asks.
pub(crate) struct Bed {
    pub(crate) upstream: Process,
    upstream_address: SocketAddr,
    port: Port,
    _node: Process,
    _folder: TempDir,
}

impl Bed {
    /// `items` are the settings of [once.items] but for its upstream. What else there is to declare comes behind
    /// them; `UPSTREAM` stands there for the upstream's address.
    pub(crate) async fn start(items: &str) -> Bed {
        Bed::start_with(items, &[]).await
    }

    /// The same with variables of the node's environment.
    pub(crate) async fn start_with(items: &str, variables: &[(&str, &str)]) -> Bed {
        let folder = tempfile::tempdir().expect("a folder");
        let (upstream, upstream_address) = start_upstream(&folder).await;
        let port = Port::claim();
        let text = format!(
            "[http]\nlisten = '127.0.0.1:{}'\n[engine]\nurl = 'embedded:./data'\n\
             [once.items]\nupstream = 'http://UPSTREAM/items/{{path}}?{{query}}'\n{items}",
            port.number()
        );
        let config = folder.path().join("consort.toml");
        fs::write(&config, text.replace("UPSTREAM", &upstream_address.to_string()))
            .expect("a file");
        let mut command = consort(&["serve", "-c"]);
        command.arg(&config).current_dir(folder.path()).envs(variables.iter().copied());
        let node = Process::start(&command, &folder.path().join("node.log"));
        listens(&node, "listens on http://").await;
        Bed { upstream, upstream_address, port, _node: node, _folder: folder }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port.number()))
    }

    pub(crate) fn upstream_address(&self) -> SocketAddr {
        self.upstream_address
    }

    pub(crate) fn caller(&self) -> Caller {
        Caller::of(self.address())
    }

    /// How often the upstream was asked for a path; for all, if it is empty.
    pub(crate) async fn calls(&self, path: &str) -> u64 {
        calls(self.upstream_address, path).await
    }
}

/// How often a sample upstream was asked for a path below `/items/`; in all, if it is empty.
pub(crate) async fn calls(upstream: SocketAddr, path: &str) -> u64 {
    let calls = Caller::of(upstream).get("/calls").await.json();
    match path {
        "" => calls["calls"].as_u64().expect("a number"),
        path => calls["paths"][format!("/items/{path}")].as_u64().unwrap_or_default(),
    }
}

/// Starts a sample upstream on a free port.
pub(crate) async fn start_upstream(folder: &TempDir) -> (Process, SocketAddr) {
    let command = consort(&["sample-upstream", "--listen", "127.0.0.1:0"]);
    let upstream = Process::start(&command, &folder.path().join("upstream.log"));
    let address = listens(&upstream, "the sample upstream listens on http://").await;
    (upstream, address)
}

/// Waits until a process says where it listens.
pub(crate) async fn listens(process: &Process, words: &str) -> SocketAddr {
    let said = || async {
        let output = process.output();
        let rest = output.split_once(words)?.1;
        rest.split(|c: char| c.is_whitespace() || c == '/').next()?.parse().ok()
    };
    eventually("it listens", PATIENCE, said).await
}

/// The binary, without this process's own settings.
pub(crate) fn consort(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_consort"));
    command.args(arguments);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("CONSORT_") {
            command.env_remove(name);
        }
    }
    command
}

/// A client with one connection.
pub(crate) struct Caller(Connection);

impl Caller {
    pub(crate) fn of(address: SocketAddr) -> Caller {
        let client = Client::new(&format!("http://{address}"), None).expect("an address");
        Caller(Connection::new(client, PATIENCE))
    }

    pub(crate) async fn send(
        &mut self,
        method: Method,
        path: &str,
        headers: Headers<'_>,
        body: &str,
    ) -> Said {
        let sent = self.0.send(method, path, headers, body.to_owned()).await;
        Said(sent.unwrap_or_else(|error| panic!("{path}: {error}")))
    }

    pub(crate) async fn get(&mut self, path: &str) -> Said {
        self.send(Method::GET, path, &[], "").await
    }

    pub(crate) async fn get_with(&mut self, path: &str, headers: Headers<'_>) -> Said {
        self.send(Method::GET, path, headers, "").await
    }

    pub(crate) async fn post(&mut self, path: &str, body: &str) -> Said {
        self.send(Method::POST, path, &[], body).await
    }

    pub(crate) async fn delete(&mut self, path: &str) -> Said {
        self.send(Method::DELETE, path, &[], "").await
    }

    /// Asks for what must be there.
    pub(crate) async fn good(&mut self, path: &str) -> Said {
        let said = self.get(path).await;
        assert_eq!(said.0.status, 200, "{path}: {}", said.text());
        said
    }
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Said(pub(crate) Reply);

impl Said {
    pub(crate) fn status(&self) -> u16 {
        self.0.status.as_u16()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.0.header(name).unwrap_or_default()
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.body).into_owned()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.0.body)
            .unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    /// Which computation it is from.
    pub(crate) fn generation(&self) -> String {
        let generation = self.header("consort-generation");
        assert_eq!(generation.len(), 32, "{self:?}");
        generation.to_owned()
    }

    /// Checks that it is a problem of this kind which says these words.
    #[track_caller]
    pub(crate) fn is_problem(&self, status: u16, kind: &str, words: &[&str]) {
        let said = self.text();
        assert_eq!(self.status(), status, "{said}");
        assert_eq!(self.header("content-type"), "application/problem+json", "{said}");
        let problem = self.json();
        assert_eq!(problem["type"], format!("urn:consort:problem:{kind}"), "{said}");
        let detail = problem["detail"].as_str().unwrap_or_default();
        for word in words {
            assert!(detail.contains(word), "'{word}' is not said: {said}");
        }
    }
}

/// Sends bytes as they are, and gives the status and the body of the answer.
pub(crate) async fn raw(address: SocketAddr, request: &str) -> (u16, String) {
    let exchange = async {
        let mut stream = TcpStream::connect(address).await.expect("a connection");
        stream.write_all(request.as_bytes()).await.expect("the request is sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("an answer");
        answer
    };
    let answer = tokio::time::timeout(PATIENCE, exchange).await.expect("an answer in time");
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    (status.unwrap_or_else(|| panic!("{answer}")), body.to_owned())
}

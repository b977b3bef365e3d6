//! A private InfluxDB 1.x server.

use std::fs;
use std::io;
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::ports::Port;
use crate::process::Process;
use crate::program;
use crate::start::{Started, TRIES, await_up};

/// A start takes about a second; the rest is for a machine that compiles meanwhile.
const UP_WITHIN: Duration = Duration::from_secs(60);

/// An `influxd` of its own, gone when dropped.
#[derive(Debug)]
pub struct InfluxServer {
    process: Process,
    port: Port,
    _backup: Port,
    folder: TempDir,
}

impl InfluxServer {
    /// Starts a server and waits until it answers.
    ///
    /// # Panics
    ///
    /// If InfluxDB is not installed or does not start.
    pub async fn start() -> InfluxServer {
        for _ in 0..TRIES {
            let mut server = InfluxServer::spawn(Port::claim(), Port::claim());
            if server.await_up().await == Started::Up {
                return server;
            }
        }
        panic!("influxd found its ports taken {TRIES} times in a row");
    }

    /// Starts a server on a port that the caller chose, and waits until it answers.
    ///
    /// # Panics
    ///
    /// If InfluxDB is not installed or does not start.
    pub async fn start_on(port: Port) -> InfluxServer {
        let mut server = InfluxServer::spawn(port, Port::claim());
        let started = server.await_up().await;
        assert_eq!(started, Started::Up, "port {} was taken meanwhile", server.port());
        server
    }

    fn spawn(port: Port, backup: Port) -> InfluxServer {
        let folder = tempfile::Builder::new()
            .prefix("consort-influx-")
            .tempdir()
            .expect("a temporary folder can be made");
        let at = |name: &str| folder.path().join(name).display().to_string();
        let (http, rpc) = (port.number(), backup.number());
        let configuration = format!(
            "reporting-disabled = true\nbind-address = \"127.0.0.1:{rpc}\"\n\
             [meta]\ndir = \"{}\"\n\
             [data]\ndir = \"{}\"\nwal-dir = \"{}\"\nquery-log-enabled = false\n\
             [monitor]\nstore-enabled = false\n\
             [http]\nbind-address = \"127.0.0.1:{http}\"\nlog-enabled = false\n",
            at("meta"),
            at("data"),
            at("wal"),
        );
        fs::write(folder.path().join("influxdb.conf"), configuration)
            .expect("influxdb.conf can be written");
        InfluxServer { process: process(&folder), port, _backup: backup, folder }
    }

    /// `http://127.0.0.1:port`
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port.number())
    }

    /// The port of its HTTP interface.
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// Runs a statement or query in a database, and gives the answer's JSON.
    ///
    /// # Panics
    ///
    /// If the server does not answer with 200.
    pub async fn query(&self, database: &str, statement: &str) -> String {
        let answer = ask(self.port(), database, statement).await.expect("InfluxDB answers");
        let (head, body) = answer.split_once("\r\n\r\n").expect("an answer has a head");
        assert!(head.starts_with("HTTP/1.1 200"), "InfluxDB answers {answer}");
        body.trim().to_owned()
    }

    /// SIGKILL; returns once the process is gone.
    pub async fn kill(&mut self) {
        self.process.kill().await;
    }

    /// SIGSTOP: connections stay open, nothing is answered.
    pub fn pause(&mut self) {
        self.process.pause();
    }

    /// SIGCONT: what was sent meanwhile is answered now.
    pub fn resume(&mut self) {
        self.process.resume();
    }

    /// Kills the server if it still runs, starts it on the same ports with its data, and waits until it
    /// answers.
    pub async fn restart(&mut self) {
        self.kill().await;
        self.process = process(&self.folder);
        let started = self.await_up().await;
        let port = self.port();
        assert_eq!(started, Started::Up, "another program took port {port} while influxd was down");
    }

    async fn await_up(&mut self) -> Started {
        let port = self.port();
        let answers = async || match ask(port, "", "SHOW DATABASES").await {
            Ok(answer) => answer.starts_with("HTTP/1.1 200"),
            Err(_) => false,
        };
        await_up(&mut self.process, UP_WITHIN, answers).await
    }
}

fn process(folder: &TempDir) -> Process {
    let mut command = Command::new(program::find_in_package("influxd", "influxdb"));
    command.arg("-config").arg(folder.path().join("influxdb.conf"));
    Process::start(&command, &folder.path().join("log"))
}

async fn ask(port: u16, database: &str, statement: &str) -> io::Result<String> {
    let form = format!("db={}&epoch=ns&q={}", encoded(database), encoded(statement));
    let request = format!(
        "POST /query HTTP/1.0\r\ncontent-type: application/x-www-form-urlencoded\r\n\
         content-length: {}\r\n\r\n{form}",
        form.len()
    );
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer.replacen("HTTP/1.0", "HTTP/1.1", 1))
}

fn encoded(text: &str) -> String {
    let encode = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'-' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(encode).collect()
}

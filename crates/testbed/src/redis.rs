//! A private Redis server.

use std::fs;
use std::io;
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

use crate::ports::Port;
use crate::process::Process;
use crate::program;
use crate::redis_options::{RedisOptions, RedisPorts};
use crate::resp::{Reply, RespConnection};
use crate::start::{Started, TRIES, await_up};

/// A start takes some 50 ms; the rest is for a machine that compiles meanwhile, and for loading
/// data.
const UP_WITHIN: Duration = Duration::from_secs(30);

/// SIGTERM makes Redis flush its append-only file, nothing more.
const STOPPED_WITHIN: Duration = Duration::from_secs(30);

/// A `redis-server` of its own, gone when dropped.
#[derive(Debug)]
pub struct RedisServer {
    process: Process,
    options: RedisOptions,
    port: Port,
    tls_port: Option<Port>,
    bus_port: Option<Port>,
    folder: TempDir,
}

impl RedisServer {
    /// Starts a server and waits until it answers PING.
    ///
    /// # Panics
    ///
    /// If redis-server is not installed or does not start.
    pub async fn start(options: RedisOptions) -> RedisServer {
        for _ in 0..TRIES {
            let mut server = RedisServer::spawn(options.clone(), Port::claim());
            if server.await_up().await == Started::Up {
                return server;
            }
        }
        panic!("redis-server found its ports taken {TRIES} times in a row");
    }

    /// Starts a server on a port that the caller chose, and waits until it answers PING.
    ///
    /// # Panics
    ///
    /// If redis-server is not installed or does not start.
    pub async fn start_on(port: Port, options: RedisOptions) -> RedisServer {
        let mut server = RedisServer::spawn(options, port);
        let started = server.await_up().await;
        assert_eq!(started, Started::Up, "port {} was taken meanwhile", server.port());
        server
    }

    fn spawn(options: RedisOptions, port: Port) -> RedisServer {
        let folder = tempfile::Builder::new()
            .prefix("consort-redis-")
            .tempdir()
            .expect("a temporary folder can be made");
        let data = folder.path().join("data");
        fs::create_dir(&data).expect("a folder for the data can be made");
        let tls_port = options.tls.is_some().then(Port::claim);
        let bus_port = options.cluster.then(Port::claim);
        let ports = RedisPorts {
            plain: port.number(),
            tls: tls_port.as_ref().map(Port::number),
            bus: bus_port.as_ref().map(Port::number),
        };
        let configuration = options.configuration(ports, folder.path(), &data);
        fs::write(folder.path().join("redis.conf"), configuration)
            .expect("redis.conf can be written");
        RedisServer { process: process(&folder), options, port, tls_port, bus_port, folder }
    }

    /// `redis://127.0.0.1:port/0`, with the password where there is one; `rediss://` and the TLS
    /// port where there is TLS.
    pub fn url(&self) -> String {
        match &self.tls_port {
            Some(port) => format!("rediss://{}/0", self.authority(port)),
            None => self.plain_url(),
        }
    }

    /// The URL of the port without TLS, which is always open.
    pub fn plain_url(&self) -> String {
        format!("redis://{}/0", self.authority(&self.port))
    }

    fn authority(&self, port: &Port) -> String {
        let password = self
            .options
            .password
            .as_ref()
            .map(|password| format!(":{password}@"))
            .unwrap_or_default();
        format!("{password}127.0.0.1:{}", port.number())
    }

    /// The port without TLS.
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// The port of the cluster bus, in cluster mode.
    pub fn bus_port(&self) -> Option<u16> {
        self.bus_port.as_ref().map(Port::number)
    }

    /// The process id of redis-server as it runs now.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// What the server has printed since its last start.
    pub fn output(&self) -> String {
        self.process.output()
    }

    /// Sends one command over a connection of its own.
    pub async fn call(&self, command: &[&str]) -> io::Result<Reply> {
        self.connect().await?.call(command).await
    }

    /// A plain connection, logged in.
    pub async fn connect(&self) -> io::Result<RespConnection> {
        RespConnection::open(self.port(), self.options.password.as_deref()).await
    }

    /// SIGKILL; returns once the process is gone.
    pub async fn kill(&mut self) {
        self.process.kill().await;
    }

    /// SIGTERM; returns once the server has ended by itself.
    pub async fn stop(&mut self) {
        self.process.terminate(STOPPED_WITHIN).await;
    }

    /// SIGSTOP: connections stay open, nothing is answered.
    pub fn pause(&mut self) {
        self.process.pause();
    }

    /// SIGCONT: what was sent meanwhile is answered now.
    pub fn resume(&mut self) {
        self.process.resume();
    }

    /// Kills the server if it still runs, starts it on the same ports with its data, and waits
    /// until it answers.
    pub async fn restart(&mut self) {
        self.kill().await;
        self.process = process(&self.folder);
        let started = self.await_up().await;
        assert_eq!(
            started,
            Started::Up,
            "another program took port {} while redis-server was down",
            self.port()
        );
    }

    /// As [`restart`](Self::restart), but everything that was stored is gone. A cluster node keeps
    /// its name and its slots.
    pub async fn restart_empty(&mut self) {
        self.kill().await;
        let data = self.folder.path().join("data");
        fs::remove_dir_all(&data).expect("the data can be removed");
        fs::create_dir(&data).expect("a folder for the data can be made");
        self.restart().await;
    }

    async fn await_up(&mut self) -> Started {
        let (port, pid, password) = (self.port(), self.pid(), self.options.password.clone());
        let answers = async || answers(port, pid, password.as_deref()).await.unwrap_or(false);
        await_up(&mut self.process, UP_WITHIN, answers).await
    }
}

fn process(folder: &TempDir) -> Process {
    let mut command = Command::new(program::find("redis-server"));
    command.arg(folder.path().join("redis.conf"));
    Process::start(&command, &folder.path().join("log"))
}

/// Whether this very process answers: on a port that was lost, another Redis may. A server that still
/// loads its data answers PING with an error, and is not up.
async fn answers(port: u16, pid: u32, password: Option<&str>) -> io::Result<bool> {
    let mut connection = RespConnection::open(port, password).await?;
    let pong = connection.call(&["PING"]).await?;
    let server = connection.call(&["INFO", "server"]).await?;
    let is_ours = server.text().is_some_and(|text| text.contains(&format!("process_id:{pid}\r\n")));
    Ok(is_ours && pong == Reply::Text("PONG".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_port_lost_to_another_program_is_noticed() {
        let port = Port::claim();
        let _other = std::net::TcpListener::bind(("127.0.0.1", port.number())).unwrap();
        let mut server = RedisServer::spawn(RedisOptions::new(), port);
        assert_eq!(server.await_up().await, Started::PortTaken);
    }

    #[tokio::test]
    async fn a_port_lost_to_another_redis_is_noticed() {
        let other = RedisServer::start(RedisOptions::new()).await;
        let config = other.folder.path().join("redis.conf");
        let port = Port::claim();
        let mut server = RedisServer::spawn(RedisOptions::new(), port);
        server.kill().await;
        fs::copy(config, server.folder.path().join("redis.conf")).unwrap();
        server.process = process(&server.folder);
        server.port = other.port;
        assert_eq!(server.await_up().await, Started::PortTaken);
    }

    #[tokio::test]
    #[should_panic(expected = "ended at its start with code Some(1)")]
    async fn a_server_that_cannot_start_is_shown_with_its_last_words() {
        RedisServer::start(RedisOptions::new().line("no-such-setting 1")).await;
    }
}

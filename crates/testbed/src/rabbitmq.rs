//! A private RabbitMQ broker, or the one that a whole test run shares.
//!
//! The Erlang VM is started directly, as the package's own script would start it once all its
//! settings are made. The script would change to the user `rabbitmq` and leave an `epmd` daemon
//! behind; this broker has neither an epmd nor a port for other nodes, so `rabbitmqctl` cannot
//! reach it.

use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::ports::Port;
use crate::process::Process;
use crate::program;
use crate::rabbitmq_home;
use crate::rabbitmq_options::RabbitOptions;
use crate::start::{Started, TRIES, await_up};

/// The environment variable that names the URL of a broker for all tests of a run.
pub const SHARED_BROKER: &str = "CONSORT_TESTBED_AMQP";

/// A start takes four to five seconds of one core; several may start at once on a machine that
/// compiles meanwhile.
const UP_WITHIN: Duration = Duration::from_secs(120);

/// A broker closes its queues and tables before it ends.
const STOPPED_WITHIN: Duration = Duration::from_secs(60);

/// A broker without plugins; what its folders hold decides what it remembers.
#[derive(Debug)]
pub struct RabbitServer {
    url: String,
    tls_url: Option<String>,
    /// Absent if the broker is shared, and so not ours to hurt.
    broker: Option<Broker>,
}

#[derive(Debug)]
struct Broker {
    process: Process,
    port: Port,
    tls_port: Option<Port>,
    folder: TempDir,
}

impl RabbitServer {
    /// Starts a broker and waits until it answers the AMQP handshake.
    ///
    /// # Panics
    ///
    /// If rabbitmq-server is not installed or does not start.
    pub async fn start(options: RabbitOptions) -> RabbitServer {
        for _ in 0..TRIES {
            let mut broker = Broker::spawn(&options, Port::claim());
            if broker.await_up().await == Started::Up {
                return RabbitServer::private_at(broker);
            }
        }
        panic!("rabbitmq-server found its ports taken {TRIES} times in a row");
    }

    /// Starts a broker on a port that the caller chose, and waits until it answers the AMQP handshake.
    ///
    /// # Panics
    ///
    /// If rabbitmq-server is not installed or does not start.
    pub async fn start_on(port: Port, options: RabbitOptions) -> RabbitServer {
        let mut broker = Broker::spawn(&options, port);
        let started = broker.await_up().await;
        assert_eq!(started, Started::Up, "port {} was taken meanwhile", broker.port.number());
        RabbitServer::private_at(broker)
    }

    fn private_at(broker: Broker) -> RabbitServer {
        let url = format!("amqp://guest:guest@127.0.0.1:{}/%2f", broker.port.number());
        let tls_url = broker
            .tls_port
            .as_ref()
            .map(|port| format!("amqps://guest:guest@127.0.0.1:{}/%2f", port.number()));
        RabbitServer { url, tls_url, broker: Some(broker) }
    }

    /// The broker that [`SHARED_BROKER`] names, or else a private one.
    ///
    /// For tests that leave the broker as it is and take names of their own for what they declare:
    /// starting one is slow.
    pub async fn shared() -> RabbitServer {
        match std::env::var(SHARED_BROKER) {
            Ok(url) if !url.is_empty() => RabbitServer::at(&url),
            _ => RabbitServer::start(RabbitOptions::new()).await,
        }
    }

    /// A broker that somebody else runs. All that would hurt it panics.
    pub fn at(url: &str) -> RabbitServer {
        RabbitServer { url: url.to_owned(), tls_url: None, broker: None }
    }

    /// `amqp://guest:guest@127.0.0.1:port/%2f`
    pub fn url(&self) -> String {
        self.url.clone()
    }

    /// `amqps://guest:guest@127.0.0.1:port/%2f`
    ///
    /// # Panics
    ///
    /// If the broker was started without TLS.
    pub fn tls_url(&self) -> String {
        self.tls_url.clone().expect("the broker was started with TLS")
    }

    /// The port without TLS.
    pub fn port(&self) -> u16 {
        self.private("named by its port").port.number()
    }

    /// The process id of the Erlang VM as it runs now.
    pub fn pid(&self) -> u32 {
        self.private("named by its process").process.pid()
    }

    /// What the broker has printed since its last start, its log included.
    pub fn output(&self) -> String {
        self.private("asked for its log").process.output()
    }

    /// SIGKILL; returns once the Erlang VM is gone. Its helper processes end with it.
    pub async fn kill(&mut self) {
        self.private_mut("killed").process.kill().await;
    }

    /// SIGTERM; returns once the broker has ended by itself.
    pub async fn stop(&mut self) {
        self.private_mut("stopped").process.terminate(STOPPED_WITHIN).await;
    }

    /// SIGSTOP: connections stay open, nothing is answered.
    pub fn pause(&mut self) {
        self.private_mut("paused").process.pause();
    }

    /// SIGCONT: what was sent meanwhile is answered now.
    pub fn resume(&mut self) {
        self.private_mut("resumed").process.resume();
    }

    /// Kills the broker if it still runs, starts it on the same ports with its data, and waits
    /// until it answers.
    pub async fn restart(&mut self) {
        self.private_mut("restarted").restart().await;
    }

    /// As [`restart`](Self::restart), but everything that was stored or declared is gone.
    pub async fn restart_empty(&mut self) {
        let broker = self.private_mut("restarted");
        broker.process.kill().await;
        fs::remove_dir_all(broker.folder.path().join("data")).expect("the data can be removed");
        broker.restart().await;
    }

    fn private(&self, done: &str) -> &Broker {
        self.broker.as_ref().unwrap_or_else(|| panic!("{}", not_ours(done)))
    }

    fn private_mut(&mut self, done: &str) -> &mut Broker {
        self.broker.as_mut().unwrap_or_else(|| panic!("{}", not_ours(done)))
    }
}

impl Broker {
    fn spawn(options: &RabbitOptions, port: Port) -> Broker {
        let folder = tempfile::Builder::new()
            .prefix("consort-rabbit-")
            .tempdir()
            .expect("a temporary folder can be made");
        let tls_port = options.tls.is_some().then(Port::claim);
        let configuration =
            options.configuration(port.number(), tls_port.as_ref().map(Port::number));
        let write = |name: &str, text: &str| {
            fs::write(folder.path().join(name), text).expect("a setting can be written")
        };
        write("rabbitmq.conf", &configuration);
        write("enabled_plugins", "[].\n");
        Broker { process: process(folder.path(), port.number()), port, tls_port, folder }
    }

    async fn restart(&mut self) {
        self.process.kill().await;
        self.process = process(self.folder.path(), self.port.number());
        let started = self.await_up().await;
        assert_eq!(
            started,
            Started::Up,
            "another program took port {} while the broker was down",
            self.port.number()
        );
    }

    async fn await_up(&mut self) -> Started {
        let port = self.port.number();
        let tls_port = self.tls_port.as_ref().map(Port::number);
        await_up(&mut self.process, UP_WITHIN, async || {
            answers(port).await.unwrap_or(false) && listens(tls_port).await
        })
        .await
    }
}

fn process(folder: &Path, port: u16) -> Process {
    let home = rabbitmq_home::find();
    let libraries = folder.join("libraries");
    let code = rabbitmq_home::link_libraries(&home, &libraries);
    let node = format!("rabbit-{port}@localhost");
    let mut command = Command::new(program::find("erl"));
    command
        .args(["-noinput", "-boot", "start_sasl", "-s", "rabbit", "boot", "-pa"])
        .args(code)
        // The node has a name, for its data are filed under it, but is not to be found by other
        // nodes.
        .args([
            "-sname",
            &node,
            "-start_epmd",
            "false",
            "-dist_listen",
            "false",
            "-erl_epmd_port",
            "1",
        ])
        // Two schedulers that sleep when idle: several brokers may share two cores.
        .args(["+S", "2:2", "+sbwt", "none", "+sbwtdcpu", "none", "+sbwtdio", "none", "+W", "w"])
        .args(["-syslog", "logger", "[]", "-syslog", "syslog_error_logger", "false"])
        .args(["-kernel", "prevent_overlapping_partitions", "false"])
        .current_dir(folder)
        .env("HOME", folder)
        .env("RABBITMQ_HOME", &home)
        .env("RABBITMQ_PLUGINS_DIR", &libraries)
        .env("RABBITMQ_NODENAME", &node)
        .env("RABBITMQ_MNESIA_BASE", folder.join("data"))
        .env("RABBITMQ_LOG_BASE", folder.join("logs"))
        .env("RABBITMQ_LOGS", "-")
        .env("RABBITMQ_PID_FILE", folder.join("pid"))
        .env("RABBITMQ_ENABLED_PLUGINS_FILE", folder.join("enabled_plugins"))
        .env("RABBITMQ_CONFIG_FILE", folder.join("rabbitmq.conf"))
        .env("RABBITMQ_CONF_ENV_FILE", folder.join("no-rabbitmq-env.conf"))
        .env("SYS_PREFIX", "")
        .env("ERL_CRASH_DUMP_BYTES", "0");
    Process::start(&command, &folder.join("log"))
}

/// Says the protocol header and looks for a method frame, the beginning of `connection.start`.
async fn answers(port: u16) -> io::Result<bool> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
    stream.write_all(b"AMQP\x00\x00\x09\x01").await?;
    Ok(stream.read_u8().await? == 1)
}

/// The broker opens its listeners one after the other: that with TLS is the later one.
async fn listens(port: Option<u16>) -> bool {
    match port {
        Some(port) => TcpStream::connect(("127.0.0.1", port)).await.is_ok(),
        None => true,
    }
}

fn not_ours(done: &str) -> String {
    format!(
        "a shared broker ({SHARED_BROKER}) is not {done}: use RabbitServer::start for a private one"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_port_lost_to_another_program_is_noticed() {
        let port = Port::claim();
        let _other = std::net::TcpListener::bind(("127.0.0.1", port.number())).unwrap();
        let mut broker = Broker::spawn(&RabbitOptions::new(), port);
        // The other program accepts connections too, but says nothing.
        assert_eq!(broker.await_up().await, Started::PortTaken);
    }
}

//! The relay from the outside: lines in by UDP and TCP, copies out by UDP and HTTP.

use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use consort::config::relay::{RelayConfig, RelayFlags};
use consort::config::{ConfigFile, Sources};
use consort::relay::Relay;
use consort::{Config, Node};
use consort_client::{Client, Connection, Method};
use consort_testbed::{Port, Process, eventually};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpStream, UdpSocket};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// How long a test waits for what must happen.
const PATIENCE: Duration = Duration::from_secs(60);

/// A relay in this process.
struct Here {
    udp: Option<SocketAddr>,
    tcp: Option<SocketAddr>,
    http: SocketAddr,
    stop: oneshot::Sender<()>,
    ended: JoinHandle<()>,
}

impl Here {
    /// Starts a relay; `relay` are settings beside the addresses.
    async fn start(relay: &str, rest: &str) -> Here {
        let addresses = "[relay]\nudp = '127.0.0.1:0'\ntcp = '127.0.0.1:0'\nhttp = '127.0.0.1:0'\n";
        let file = ConfigFile { name: "test".into(), text: format!("{addresses}{relay}\n{rest}") };
        let config = RelayConfig::resolve(Some(&file), &RelayFlags::default());
        let relay = Relay::bind(config.unwrap_or_else(|problems| panic!("{problems}"))).await;
        let relay = relay.expect("sockets");
        let (udp, tcp, http) = (relay.udp(), relay.tcp(), relay.http());
        let (stop, stopped) = oneshot::channel::<()>();
        let ended = tokio::spawn(relay.run(async { drop(stopped.await) }));
        Here { udp, tcp, http, stop, ended }
    }

    async fn send(&self, datagram: impl AsRef<[u8]>) {
        let socket = UdpSocket::bind("127.0.0.1:0").await.expect("a socket");
        let to = self.udp.expect("an address");
        socket.send_to(datagram.as_ref(), to).await.expect("it is sent");
    }

    /// A counter, by its name and labels.
    async fn counted(&self, name: &str) -> u64 {
        counted(self.http, name).await
    }

    async fn comes_to(&self, name: &str, value: u64) {
        let http = self.http;
        eventually(name, PATIENCE, || async move { counted(http, name).await == value }).await;
    }

    async fn stop(self) {
        self.stop.send(()).expect("it runs");
        timeout(PATIENCE, self.ended).await.expect("it ends").expect("it did not panic");
    }
}

async fn counted(http: SocketAddr, name: &str) -> u64 {
    let client = Client::new(&format!("http://{http}"), None).expect("an address");
    let mut connection = Connection::new(client, PATIENCE);
    let reply = connection.send(Method::GET, "/metrics", &[], "").await.expect("an answer");
    let text = String::from_utf8(reply.body.to_vec()).expect("text");
    let value = text.lines().find_map(|line| line.strip_prefix(&format!("consort_relay_{name} ")));
    value.map_or(0, |value| value.parse().expect("a number"))
}

/// Somebody who takes datagrams.
struct Taker(UdpSocket);

impl Taker {
    async fn new() -> Taker {
        Taker(UdpSocket::bind("127.0.0.1:0").await.expect("a socket"))
    }

    fn address(&self) -> SocketAddr {
        self.0.local_addr().expect("an address")
    }

    /// As a target of this name.
    fn target(&self, name: &str) -> String {
        format!("[target.{name}]\nudp = '{}'\n", self.address())
    }

    async fn datagram(&self) -> String {
        let mut buffer = vec![0; 65_536];
        let length =
            timeout(PATIENCE, self.0.recv(&mut buffer)).await.expect("a datagram").expect("it");
        String::from_utf8(buffer[..length].to_vec()).expect("text")
    }

    async fn lines(&self, count: usize) -> Vec<String> {
        let mut lines = Vec::new();
        while lines.len() < count {
            lines.extend(self.datagram().await.lines().map(str::to_owned));
        }
        assert_eq!(lines.len(), count, "{lines:?}");
        lines
    }
}

#[tokio::test]
async fn copies_have_one_time_and_a_dead_target_costs_the_others_nothing() {
    let (a, b) = (Taker::new().await, Taker::new().await);
    let dead = Port::claim();
    let targets = format!(
        "{}{}[target.dead]\nudp = '127.0.0.1:{}'\n[target.gone]\nhttp = 'http://127.0.0.1:{}/write?db=x'\n",
        a.target("a"),
        b.target("b"),
        dead.number(),
        dead.number()
    );
    let relay =
        Here::start("form = 'line-loose'\ndefault = ['dead', 'a', 'gone', 'b']", &targets).await;
    for at in 0..20 {
        relay
            .send(format!("event_type=e,n={at} value=ann\nevent_type=e,n={at} value=bob 7\n"))
            .await;
    }
    let (to_a, to_b) = (a.lines(40).await, b.lines(40).await);
    assert_eq!(to_a, to_b, "each copy is the same");
    assert!(to_a.iter().filter(|line| line.ends_with("value=bob 7")).count() == 20, "{to_a:?}");
    let stamped =
        to_a.iter().filter_map(|line| line.split_once("value=ann ").map(|(_, time)| time));
    let times: Vec<i64> = stamped.map(|time| time.parse().expect("a time")).collect();
    assert_eq!(times.len(), 20);
    assert!(times.iter().all(|time| *time > 1_700_000_000_000_000_000), "{times:?}");
    relay.comes_to("sent_total{target=\"a\"}", 40).await;
    relay.comes_to("lines_total", 40).await;
    assert_eq!(relay.counted("stamped_total").await, 20);
    let name = "the target that is gone is tried again";
    let http = relay.http;
    let again = || async move { counted(http, "retries_total{target=\"gone\"}").await > 0 };
    eventually(name, PATIENCE, again).await;
}

#[tokio::test]
async fn lines_go_where_their_route_says() {
    let (events, cpus, rest) = (Taker::new().await, Taker::new().await, Taker::new().await);
    let targets = format!(
        "{}{}{}[[route]]\ntag = 'event_type=error'\nto = ['events', 'cpus']\n[[route]]\nmeasurement = 'cpu'\nto = 'cpus'\n",
        events.target("events"),
        cpus.target("cpus"),
        rest.target("rest")
    );
    let relay = Here::start("default = 'rest'", &targets).await;
    relay.send("m,event_type=error v=1 1\nm,event_type=ok v=1 2\ncpu v=1 3\ncpu,event_type=error v=1 4").await;
    assert_eq!(events.lines(2).await, ["m,event_type=error v=1 1", "cpu,event_type=error v=1 4"]);
    let expected = ["m,event_type=error v=1 1", "cpu v=1 3", "cpu,event_type=error v=1 4"];
    assert_eq!(cpus.lines(3).await, expected);
    assert_eq!(rest.lines(1).await, ["m,event_type=ok v=1 2"]);
}

#[tokio::test]
async fn what_is_no_line_or_has_no_target_is_counted() {
    let taker = Taker::new().await;
    let targets = format!("{}[[route]]\nmeasurement = 'm'\nto = 'a'\n", taker.target("a"));
    let relay = Here::start("", &targets).await;
    relay.send("m v=1 1\nbroken\nn v=1 2\n\n# a comment\nm v=2 3").await;
    assert_eq!(taker.lines(2).await, ["m v=1 1", "m v=2 3"]);
    relay.comes_to("refused_total{reason=\"malformed\"}", 1).await;
    relay.comes_to("refused_total{reason=\"unrouted\"}", 1).await;
    let strict = Here::start("allow = ['10.0.0.0/8']", &targets).await;
    strict.send("m v=1 1").await;
    strict.comes_to("refused_total{reason=\"disallowed\"}", 1).await;
    assert_eq!(strict.counted("lines_total").await, 0);
}

#[tokio::test]
async fn lines_are_packed_into_datagrams_and_never_split() {
    let taker = Taker::new().await;
    let relay = Here::start("default = 'a'\ndatagram = 256", &taker.target("a")).await;
    let long = "x".repeat(600);
    let mut sent: Vec<String> = (0..200).map(|at| format!("m,n={at} v=1i {at}")).collect();
    sent.insert(100, format!("m long=\"{long}\" 5"));
    for lines in sent.chunks(20) {
        relay.send(lines.join("\n")).await;
    }
    let (mut received, mut datagrams) = (Vec::new(), 0);
    while received.len() < sent.len() {
        let datagram = taker.datagram().await;
        assert!(datagram.len() <= 256 || datagram.contains(&long), "{datagram}");
        received.extend(datagram.lines().map(str::to_owned));
        datagrams += 1;
    }
    assert_eq!(received, sent);
    assert!(datagrams < sent.len() / 4, "{datagrams} datagrams for {} lines", sent.len());
}

#[tokio::test]
async fn connections_bring_lines_in_pieces() {
    let taker = Taker::new().await;
    let relay = Here::start("default = 'a'", &taker.target("a")).await;
    let to = relay.tcp.expect("an address");
    let mut stream = TcpStream::connect(to).await.expect("a connection");
    stream.write_all(b"m v=1 1\nm te").await.expect("it is sent");
    assert_eq!(taker.datagram().await, "m v=1 1");
    stream.write_all(b"xt=\"one\ntwo\" 2\r\nm v=").await.expect("it is sent");
    assert_eq!(taker.datagram().await, "m text=\"one\ntwo\" 2");
    let long = format!("1,long=\"{}\" 3\nm v=4 4\n", "x".repeat(100_000));
    stream.write_all(long.as_bytes()).await.expect("it is sent");
    assert_eq!(taker.datagram().await, "m v=4 4");
    relay.comes_to("refused_total{reason=\"oversize\"}", 1).await;
    stream.write_all(b"m v=5").await.expect("it is sent");
    drop(stream);
    let last = taker.datagram().await;
    assert!(last.starts_with("m v=5 1"), "{last}");
}

#[tokio::test]
async fn a_stop_delivers_what_has_arrived() {
    let taker = Taker::new().await;
    let relay = Here::start("default = 'a'", &taker.target("a")).await;
    for at in 0..50 {
        relay.send(format!("m v=1 {at}")).await;
    }
    relay.stop().await;
    let expected: Vec<String> = (0..50).map(|at| format!("m v=1 {at}")).collect();
    assert_eq!(taker.lines(50).await, expected);
}

const NODE: &str = "[engine]\nurl = 'memory:'\n[stream.loads]\nform = 'line'\n[view.all]\nfrom = 'loads'\ncount = true\n";

#[tokio::test]
async fn a_database_that_was_down_gets_its_lines_when_it_is_back() {
    let port = Port::claim();
    let target = format!(
        "[target.node]\nhttp = 'http://127.0.0.1:{}/api/v2/write?bucket=loads'\ntoken = '0123456789abcdef'\n",
        port.number()
    );
    let relay = Here::start("default = 'node'", &target).await;
    relay.send("m v=1 1\nm v=2").await;
    let http = relay.http;
    let again = || async move { counted(http, "retries_total{target=\"node\"}").await > 0 };
    eventually("the relay tries again", PATIENCE, again).await;
    let http =
        format!("[http]\nlisten = '127.0.0.1:{}'\ntokens = ['0123456789abcdef']\n", port.number());
    let file = ConfigFile { name: "test".into(), text: format!("{http}{NODE}") };
    let config = Config::resolve(&Sources { file: Some(file), ..Sources::default() });
    let node =
        Node::start(config.unwrap_or_else(|problems| panic!("{problems}"))).await.expect("a node");
    relay.comes_to("sent_total{target=\"node\"}", 2).await;
    assert_eq!(relay.counted("dropped_total{target=\"node\",reason=\"full\"}").await, 0);
    let url = format!("http://{}", node.address());
    let client = Client::new(&url, Some("0123456789abcdef")).expect("an address");
    eventually("both lines are counted", PATIENCE, || {
        let mut connection = Connection::new(client.clone(), PATIENCE);
        async move {
            let reply =
                connection.send(Method::GET, "/views/all", &[], "").await.expect("an answer");
            String::from_utf8_lossy(&reply.body).contains("\"value\":2")
        }
    })
    .await;
    node.stop().await;
}

#[tokio::test]
async fn the_command_relays_and_its_mistakes_are_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let taker = Taker::new().await;
    let mut command = Command::new(env!("CARGO_BIN_EXE_consort"));
    let to = taker.address().to_string();
    command.args(["relay", "--udp", "127.0.0.1:0", "--http", "127.0.0.1:0", "--to", &to]);
    let mut process = Process::start(&command, &folder.path().join("log"));
    let said = || process.output();
    eventually("it listens", PATIENCE, || async { said().contains("/metrics") }).await;
    let said = process.output();
    let address =
        said.split("udp://").nth(1).and_then(|rest| rest.lines().next()).expect("an address");
    let socket = UdpSocket::bind("127.0.0.1:0").await.expect("a socket");
    socket.send_to(b"m v=1 1", address.trim()).await.expect("it is sent");
    assert_eq!(taker.datagram().await, "m v=1 1");
    process.terminate(PATIENCE).await;
    assert_eq!(process.exit_code(), Some(0), "{}", process.output());

    let path = folder.path().join("relay.toml");
    std::fs::write(&path, "[relay]\nudb = '127.0.0.1:1'\n").expect("a file");
    let output =
        Command::new(env!("CARGO_BIN_EXE_consort")).args(["relay", "-c"]).arg(&path).output();
    let output = output.expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("relay.toml:2:1: unknown setting 'udb' in [relay]; did you mean 'udp'?"),
        "{said}"
    );
}

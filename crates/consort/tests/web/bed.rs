//! A node with a route of every part, which keeps everything in memory, and the upstream that it may ask.

use std::net::SocketAddr;
use std::time::Duration;

use consort::config::{ConfigFile, Sources};
use consort::upstream::SampleUpstream;
use consort::{Config, Node};
use consort_client::{Client, Connection, Method};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// How long a test waits for what must happen.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

const DECLARATIONS: &str = r#"
[stream.rides]
route  = "POST /rides/{lift}"
fields = { lift = "int 1..60", time = "int" }
unknown_fields = "ignore"

[stream.points]
form   = "line"

[sink.rows]
kind   = "file"
format = "ndjson"
path   = "FOLDER/rows"

[view.rides_of_lift]
from  = "rides"
by    = ["lift"]
count = true
route = "GET /lifts/{lift}/rides"

[view.rides_by_minute]
from   = "rides"
by     = ["lift"]
window = "1m"
count  = true
sink   = ["rows"]

[once.items]
upstream = "http://UPSTREAM/items/{path}?{query}"

[glue.content]
format     = "json"
partitions = 1
history    = 5
sink       = ["documents"]

[sink.documents]
kind   = "file"
format = "ndjson"
path   = "FOLDER/documents"
"#;

/// The streams, the routes by which events come to them, and a body that counts one event.
pub(crate) const POSTS: [(&str, &str, &str); 4] = [
    ("/rides/7", "application/json", r#"{"time":1}"#),
    ("/streams/rides", "application/json", r#"{"lift":7,"time":1}"#),
    ("/streams/points", "text/plain", "points v=1"),
    ("/write?db=points", "text/plain", "points v=1"),
];

/// The stream of the collection's pieces.
pub(crate) const PIECES: &str = "glue.content";

/// The metric that counts all answers.
const ANSWERED: &str = "consort_http_requests_total";

/// The routes that a test itself asks with success.
const OWN_ROUTES: [&str; 3] = ["/metrics", "/cluster", "/glue"];

pub(crate) struct Bed {
    node: Node,
    upstream: SocketAddr,
    _folder: TempDir,
}

impl Bed {
    /// `settings` stand in [http].
    pub(crate) async fn start(settings: &str) -> Bed {
        let folder = tempfile::tempdir().expect("a folder");
        let loopback = SocketAddr::from(([127, 0, 0, 1], 0));
        let sample = SampleUpstream::bind(loopback, Duration::ZERO).await.expect("an upstream");
        let upstream = sample.address();
        tokio::spawn(sample.run(std::future::pending()));
        let declarations = DECLARATIONS
            .replace("FOLDER", &folder.path().to_string_lossy())
            .replace("UPSTREAM", &upstream.to_string());
        let text = format!(
            "[http]\nlisten = \"127.0.0.1:0\"\n{settings}\n[node]\nid = \"a\"\n\
             [engine]\nurl = \"memory:\"\n{declarations}"
        );
        let file = Some(ConfigFile { name: "test".into(), text });
        let config = Config::resolve(&Sources { file, ..Sources::default() });
        let config = config.unwrap_or_else(|problems| panic!("{problems}"));
        let node = Node::start(config).await.expect("a node");
        Bed { node, upstream, _folder: folder }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.node.address()
    }

    /// The body of a good answer.
    pub(crate) async fn get(&self, path: &str) -> String {
        ask(self.address(), path).await
    }

    /// The number behind a name in the metrics; 0 as long as it has none.
    pub(crate) async fn metric(&self, name: &str) -> u64 {
        let metrics = self.get("/metrics").await;
        let found = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        found.map_or(0, |number| number.parse().expect("a number"))
    }

    /// How many events a stream has accepted.
    pub(crate) async fn accepted(&self, stream: &str) -> u64 {
        self.metric(&format!("consort_stream_accepted_total{{stream=\"{stream}\"}}")).await
    }

    /// Fails unless the node is as it was when it started: no event, no piece, no computation, no order, and no good
    /// answer but those that this asks for.
    pub(crate) async fn assert_untouched(&self) {
        for stream in ["rides", "points", PIECES] {
            assert_eq!(self.accepted(stream).await, 0, "{stream}");
        }
        let collections = self.get("/glue").await;
        assert!(collections.contains("\"received\":0"), "{collections}");
        let cluster = self.get("/cluster").await;
        assert!(cluster.contains("\"draining\":false"), "{cluster}");
        let calls = ask(self.upstream, "/calls").await;
        assert!(calls.contains("\"calls\":0"), "{calls}");
        let metrics = self.get("/metrics").await;
        let own =
            |line: &str| OWN_ROUTES.iter().any(|route| line.contains(&format!("\"{route}\"")));
        let mut answers = metrics.lines().filter(|line| line.starts_with(ANSWERED));
        let good = answers
            .find(|line| line.contains("status=\"2xx\"") && !line.ends_with(" 0") && !own(line));
        assert_eq!(good, None);
    }
}

async fn ask(address: SocketAddr, path: &str) -> String {
    let client = Client::new(&format!("http://{address}"), None).expect("an address");
    let mut connection = Connection::new(client, PATIENCE);
    let reply = connection.send(Method::GET, path, &[], String::new()).await.expect("an answer");
    assert_eq!(reply.status.as_u16(), 200, "{path}");
    String::from_utf8_lossy(&reply.body).into_owned()
}

/// Sends bytes, ends the sending side if it is said so, and gives everything that is answered.
pub(crate) async fn exchange(address: SocketAddr, request: &str, ends: bool) -> String {
    let exchange = async {
        let mut stream = TcpStream::connect(address).await.expect("a connection");
        stream.write_all(request.as_bytes()).await.expect("the request is sent");
        if ends {
            stream.shutdown().await.expect("the sending side ends");
        }
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.expect("an answer");
        String::from_utf8_lossy(&answer).into_owned()
    };
    tokio::time::timeout(PATIENCE, exchange).await.expect("an answer in time")
}

/// The status of an answer.
pub(crate) fn status(answer: &str) -> u16 {
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
    status.unwrap_or_else(|| panic!("no status in '{answer}'"))
}

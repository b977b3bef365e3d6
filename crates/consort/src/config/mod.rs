//! The node's settings: defaults, file, environment and flags, laid over each other in that order.
//!
//! One table, [`schema`], lists every setting with its name, its meaning and how it is read and
//! shown. The file, the environment, `--set` and `consort config --defaults` are all derived from
//! it. All problems of all sources are collected, each with its place; none of them ever repeats a
//! secret.
//!
//! Streams, views, sinks and spaces of once have names of the user's choice, so they are declared in the file alone:
//! [`document`] finds them, [`definitions`] makes of them what the node runs.

mod checks;
mod declared;
mod defaults;
mod definitions;
mod document;
mod fields;
mod once;
mod overrides;
mod problem;
mod read;
mod reader;
mod redact;
pub mod relay;
mod routes;
mod schema;
mod sinks;
mod spot;
mod streams;
mod suggest;
mod summary;
pub(crate) mod udp;
mod uses;
mod views;
mod windows;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use consort_feeds::{Outlet, SinkConfig, UnknownSink};
use consort_server::once::{Space, Template};
use consort_server::udp::IpNet;
use consort_server::{HostName, Origin, Tokens};
use consort_views::Definitions;

pub use defaults::commented_defaults;
pub use overrides::Flag;
pub use problem::{Problem, Problems};
pub use redact::SecretUrl;
pub use summary::counted;

use problem::Place;
use read::Raw;
use schema::Setting;

/// The engine of the tour, which runs when no config file is given.
pub const TOUR_ENGINE: &str = "embedded:./consort-tour";

/// What the tour shows: its streams, views and spaces. Its other settings are the defaults.
const TOUR: &str =
    concat!(include_str!("../../../../examples/lifts.toml"), include_str!("tour.toml"));

/// A duration such as "500ms", for the command line.
pub fn duration(text: &str) -> Result<Duration, String> {
    read::duration(&Raw::Loose(text.to_owned()), Duration::ZERO..=Duration::from_secs(3600))
}

/// A size such as "64KiB", for the command line.
pub fn size(text: &str, most: u64) -> Result<u64, String> {
    read::size(&Raw::Loose(text.to_owned()), 0..=most)
}

/// Everything a node can be told.
#[derive(Debug, Clone, Default)]
pub struct Config {
    pub node: NodeConfig,
    pub http: HttpConfig,
    pub engine: EngineConfig,
    pub cluster: ClusterConfig,
    pub log: LogConfig,
    pub once: OnceConfig,
    /// The streams and views.
    pub definitions: Definitions,
    /// What is this node's matter alone of each stream, by its name.
    pub streams: BTreeMap<String, StreamSettings>,
    /// Where rows can be delivered to.
    pub sinks: Vec<SinkConfig>,
    /// The views that emit rows, each with the names of the sinks that they go to.
    pub rows: BTreeMap<String, Vec<String>>,
}

/// What a stream's definition does not say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StreamSettings {
    pub gate: Gate,
    /// The queue that the stream reads, beside what is posted.
    pub amqp: Option<AmqpSource>,
    /// Where it takes datagrams.
    pub udp: Option<UdpSource>,
}

/// A socket to receive datagrams of lines on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UdpSource {
    pub listen: SocketAddr,
    /// Who may send; everybody who can, if it is empty.
    pub allow: Vec<IpNet>,
    /// What the kernel may hold for it, in bytes.
    pub buffer: u64,
}

/// How a stream meets overload.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Gate {
    /// As many at a time as appends stay quick with.
    #[default]
    Adaptive,
    /// Delays posts above a fixed rate.
    Breaker,
    /// Takes everything.
    Off,
}

/// A RabbitMQ queue to read events from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AmqpSource {
    pub url: SecretUrl,
    pub queue: String,
}

/// `[node]`
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeConfig {
    /// `None`: host name and a random part, chosen when the node starts.
    pub id: Option<String>,
}

/// `[http]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpConfig {
    pub listen: SocketAddr,
    /// Host and port by which others reach the node; `None`: where it listens.
    pub advertise: Option<String>,
    /// From `tokens`, or from the file named by `tokens_file`.
    pub tokens: Tokens,
    pub tokens_file: Option<PathBuf>,
    /// Further names of the node, for requests without a token.
    pub hosts: Vec<HostName>,
    /// Web pages that may use the node.
    pub origins: Vec<Origin>,
    pub max_body: u64,
    pub max_connections: usize,
    pub first_byte_timeout: Duration,
    pub header_timeout: Duration,
    pub body_timeout: Duration,
}

/// `[engine]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineConfig {
    pub url: SecretUrl,
    pub broker: Option<SecretUrl>,
    pub namespace: String,
    /// `None`: as many as suit the engine, see [`EngineConfig::partitions`].
    pub partitions: Option<u16>,
    pub shards: u16,
    pub durability: Durability,
    pub allow_volatile: bool,
    pub tls_ca: Option<PathBuf>,
}

/// What the embedded engine has done with a write before it counts as done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// On the disk: survives a power loss.
    Fsync,
    /// With the operating system: survives a killed process.
    Process,
}

/// `[cluster]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterConfig {
    /// How long a node may be silent before its work is taken over.
    pub lease: Duration,
    /// How often it says that it is there.
    pub heartbeat: Duration,
}

/// `[once]`, and the spaces below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OnceConfig {
    /// Bytes of answers that the node keeps in memory.
    pub cache: u64,
    /// Requests that may wait on the node, in all and for one key.
    pub waiters: usize,
    pub waiters_per_key: usize,
    pub spaces: Vec<Space>,
}

/// `[log]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogConfig {
    pub format: LogFormat,
    /// A level, or directives of tracing's `EnvFilter`.
    pub level: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    Text,
    Json,
}

/// Where settings come from; the environment wins over the file, and the flags over both.
#[derive(Clone, Default)]
pub struct Sources {
    /// Without a file the node runs the tour.
    pub file: Option<ConfigFile>,
    /// The process's environment; only names that begin with `CONSORT_` are looked at.
    pub environment: Vec<(std::ffi::OsString, std::ffi::OsString)>,
    pub flags: Vec<Flag>,
}

/// A config file that has been read.
#[derive(Clone)]
pub struct ConfigFile {
    /// As the user named it, for messages.
    pub name: String,
    pub text: String,
}

/// The environment is left out: it is full of other programs' secrets.
impl std::fmt::Debug for Sources {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sources")
            .field("file", &self.file)
            .field("flags", &self.flags)
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for ConfigFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConfigFile").field("name", &self.name).finish_non_exhaustive()
    }
}

/// One setting, given somewhere.
struct Assignment {
    setting: &'static Setting,
    raw: Raw,
    place: Place,
}

/// Where each setting came from, and which could not be read: what the checks across settings need
/// to know.
#[derive(Default)]
struct Given {
    places: BTreeMap<&'static str, Place>,
    unreadable: BTreeSet<&'static str>,
}

impl Config {
    /// Lays all sources over the defaults. Reads the file named by `tokens_file`, and no other.
    pub fn resolve(sources: &Sources) -> Result<Config, Problems> {
        let mut problems = Vec::new();
        let mut config = Config::default();
        let tour = || ConfigFile { name: "the tour".to_owned(), text: TOUR.to_owned() };
        let file = sources.file.as_ref().map_or_else(|| Cow::Owned(tour()), Cow::Borrowed);
        let mut document = document::read(&file, &mut problems);
        let mut assignments = std::mem::take(&mut document.assignments);
        if sources.file.is_none() {
            assignments.clear();
            config.engine.url = SecretUrl::new(TOUR_ENGINE);
        }
        overrides::from_environment(&sources.environment, &mut assignments, &mut problems);
        overrides::from_flags(&sources.flags, &mut assignments, &mut problems);

        let mut given = Given::default();
        for Assignment { setting, raw, place } in assignments {
            match (setting.set)(&mut config, &raw) {
                Ok(()) => {
                    given.places.insert(setting.path, place);
                }
                Err(wrong) => {
                    given.unreadable.insert(setting.path);
                    problems.push(Problem::new(place, format!("{} {wrong}", setting.named())));
                }
            }
        }
        definitions::read(&mut config, &document, &mut given, &mut problems);
        checks::across(&mut config, &given, sources.file.is_some(), &mut problems);
        if problems.is_empty() { Ok(config) } else { Err(Problems::new(problems)) }
    }
}

impl Config {
    /// Has every space of once ask the sample upstream that listens here: it is the tour's.
    pub fn ask_upstream_at(&mut self, address: SocketAddr) {
        for space in &mut self.once.spaces {
            if let Ok(template) =
                Template::parse(&format!("http://{address}/items/{{path}}?{{query}}"))
            {
                space.upstream = template;
            }
        }
    }

    /// The sinks that views name, each with the feeds of those views. `views` are the names of views, each
    /// with the names of its sinks.
    pub fn outlets<'a>(
        &self,
        views: impl IntoIterator<Item = (&'a str, &'a [String])>,
    ) -> Result<Vec<Outlet>, UnknownSink> {
        consort_feeds::outlets(&self.sinks, views)
    }
}

impl Default for HttpConfig {
    fn default() -> HttpConfig {
        let limits = consort_server::Limits::default();
        HttpConfig {
            listen: SocketAddr::from(([127, 0, 0, 1], 7400)),
            advertise: None,
            tokens: Tokens::default(),
            tokens_file: None,
            hosts: Vec::new(),
            origins: Vec::new(),
            max_body: limits.max_body,
            max_connections: limits.max_connections,
            first_byte_timeout: limits.first_byte,
            header_timeout: limits.header,
            body_timeout: limits.body,
        }
    }
}

/// Partitions of a new stream where nodes share the work.
const PARTITIONS_SHARED: u16 = 32;

/// Partitions of a new stream where one node does all the work. More of them make frames smaller, and each
/// frame costs; fewer leave processors without work where there are many, though one thread writes for all.
const PARTITIONS_ALONE: u16 = 4;

impl EngineConfig {
    /// Partitions of a new stream that does not say how many.
    pub fn partitions(&self) -> u16 {
        let alone = ["embedded", "memory"].contains(&self.url.scheme());
        self.partitions.unwrap_or(if alone { PARTITIONS_ALONE } else { PARTITIONS_SHARED })
    }
}

impl Default for EngineConfig {
    fn default() -> EngineConfig {
        EngineConfig {
            url: SecretUrl::new("embedded:./consort-data"),
            broker: None,
            namespace: "default".to_owned(),
            partitions: None,
            shards: 16,
            durability: Durability::Fsync,
            allow_volatile: false,
            tls_ca: None,
        }
    }
}

impl Default for ClusterConfig {
    fn default() -> ClusterConfig {
        ClusterConfig {
            lease: consort_cluster::node::TTL,
            heartbeat: consort_cluster::node::HEARTBEAT,
        }
    }
}

impl Default for OnceConfig {
    fn default() -> OnceConfig {
        OnceConfig {
            cache: consort_once::CACHE_BYTES as u64,
            waiters: consort_once::WAITERS,
            waiters_per_key: consort_once::WAITERS_PER_KEY,
            spaces: Vec::new(),
        }
    }
}

impl Default for LogConfig {
    fn default() -> LogConfig {
        LogConfig { format: LogFormat::Text, level: "info".to_owned() }
    }
}

#[cfg(test)]
mod tests;

//! The settings of the node itself, with their defaults.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use consort_server::{HostName, Origin, Tokens};

use super::Config;
use super::redact::SecretUrl;

/// The folder for the node's own files, where neither `[node] data` nor an embedded engine gives one.
const DATA_FOLDER: &str = "./consort-node";

/// The node's own files within the folder of an embedded engine, which has other names for its own.
const DATA_IN_ENGINE: &str = "node";

/// `[node]`
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeConfig {
    /// `None`: host name and a random part, chosen when the node starts.
    pub id: Option<String>,
    /// `None`: a folder that suits the engine, see [`Config::data_folder`].
    pub data: Option<PathBuf>,
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

impl Config {
    /// The folder for this node's own files, such as the caches of databases. It may not exist yet.
    pub fn data_folder(&self) -> PathBuf {
        match (&self.node.data, self.engine.url.reveal().strip_prefix("embedded:")) {
            (Some(data), _) => data.clone(),
            (None, Some(folder)) => Path::new(folder).join(DATA_IN_ENGINE),
            (None, None) => PathBuf::from(DATA_FOLDER),
        }
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

impl Default for LogConfig {
    fn default() -> LogConfig {
        LogConfig { format: LogFormat::Text, level: "info".to_owned() }
    }
}

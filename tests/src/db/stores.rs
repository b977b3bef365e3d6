//! The store below the nodes: how it is started, reached, taken down, and opened afterwards.

use std::net::SocketAddr;
use std::time::Duration;

use consort_engines::{Durability, Engine, Options};
use consort_testbed::{Fsync, Proxy, RedisOptions, RedisServer};
use tempfile::TempDir;

/// Kinds of stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DbUpon {
    /// One Redis, with a line of its own for each of three nodes.
    Redis,
    /// The embedded engine of a single node.
    Embedded,
}

/// How a server is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StopSignal {
    /// SIGKILL.
    Kill,
    /// SIGTERM.
    Term,
}

/// The store of a trial.
#[derive(Debug)]
pub enum DbStore {
    /// A private Redis, which writes its file before each answer: it loses nothing, however it ends.
    Redis(RedisServer),
    /// The folder of an embedded engine.
    Embedded(TempDir),
}

impl DbUpon {
    /// How many nodes a trial has.
    pub fn nodes(self) -> usize {
        match self {
            DbUpon::Redis => 3,
            DbUpon::Embedded => 1,
        }
    }
}

impl DbStore {
    /// Starts it.
    pub async fn start(upon: DbUpon) -> DbStore {
        match upon {
            DbUpon::Redis => {
                let options = RedisOptions::new().fsync(Fsync::Always);
                DbStore::Redis(RedisServer::start(options).await)
            }
            DbUpon::Embedded => {
                let folder = tempfile::Builder::new().prefix("consort-db-store-").tempdir();
                DbStore::Embedded(folder.expect("a folder for the store can be made"))
            }
        }
    }

    /// A line for one node to a server; none to an embedded engine.
    pub async fn line(&self) -> Option<Proxy> {
        match self {
            DbStore::Redis(redis) => {
                Some(Proxy::start(SocketAddr::from(([127, 0, 0, 1], redis.port()))).await)
            }
            DbStore::Embedded(_) => None,
        }
    }

    /// The engine's address, by the node's line if it has one.
    pub fn url(&self, line: Option<&Proxy>) -> String {
        match (self, line) {
            (DbStore::Redis(_), Some(line)) => format!("redis://{}/0", line.address()),
            (DbStore::Redis(redis), None) => redis.url(),
            (DbStore::Embedded(folder), _) => format!("embedded:{}", folder.path().display()),
        }
    }

    /// Takes a server down, and starts it again after `down_for`; returns when it serves. `false` if there is none.
    pub async fn restart(&mut self, signal: StopSignal, down_for: Duration) -> bool {
        let DbStore::Redis(redis) = self else { return false };
        match signal {
            StopSignal::Kill => redis.kill().await,
            StopSignal::Term => redis.stop().await,
        }
        tokio::time::sleep(down_for).await;
        redis.restart().await;
        true
    }

    /// Opens it, to read the feeds. The node of an embedded one must have ended.
    ///
    /// # Panics
    ///
    /// If it cannot be opened.
    pub async fn open(&self) -> Engine {
        let options = Options {
            url: self.url(None),
            broker: None,
            namespace: "default".into(),
            shards: 16,
            durability: Durability::Fsync,
            allow_volatile: false,
            tls_ca: None,
        };
        consort_engines::open(&options).await.expect("the store opens")
    }
}

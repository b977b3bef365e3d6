//! Opening an engine by its address: the one `match` that chooses.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use consort_kernel::{Clock, Inlet, Log, Poison, Publisher, Store, SystemClock, memory};

use crate::address::printable;
use crate::embedded::{self, Durability, FolderError};
use crate::layout;
use crate::rabbitmq::{RabbitInlet, RabbitLog, RabbitPublisher};
use crate::redis;

/// What to open, and how.
#[derive(Clone)]
pub struct Options {
    /// `memory:`, `embedded:PATH`, `redis://…`, `rediss://…`, `redis-cluster://…`, `rediss-cluster://…`.
    pub url: String,
    /// `amqp://…` or `amqps://…`: the log on RabbitMQ, beside a store on Redis.
    pub broker: Option<String>,
    /// Keeps several Consorts apart on one server.
    pub namespace: String,
    /// How many shards the store has; fixed when it is first used.
    pub shards: u16,
    /// What an acknowledged write survives, on the embedded engine.
    pub durability: Durability,
    /// Accepts a Redis that may forget what it acknowledged.
    pub allow_volatile: bool,
    /// A file with the certificate authority (PEM) that vouches for the servers, beside the public ones.
    pub tls_ca: Option<PathBuf>,
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options")
            .field("url", &printable(&self.url))
            .field("broker", &self.broker.as_deref().map(printable))
            .field("namespace", &self.namespace)
            .field("shards", &self.shards)
            .field("durability", &self.durability)
            .field("allow_volatile", &self.allow_volatile)
            .field("tls_ca", &self.tls_ca)
            .finish()
    }
}

/// An open engine.
#[derive(Clone, Debug)]
pub struct Engine {
    /// Streams in.
    pub log: Arc<dyn Log>,
    /// State and feeds.
    pub store: Arc<dyn Store>,
    /// The same store for leases and heartbeats alone: by a connection of their own, and before all other
    /// writes of this process.
    pub lease_store: Arc<dyn Store>,
    /// Set when the engine failed for good.
    pub poison: Poison,
    /// Whether no other process can be at work on it: opening it proves that every earlier one is dead,
    /// so what those held is free at once. True for memory and embedded, where one process has it all.
    pub sole: bool,
    /// How many frames a node should have on their way into the log at once, where more would not be faster.
    pub frames_in_flight: Option<usize>,
    /// What it is and how durable, in sentences for whoever starts the node.
    pub report: Vec<String>,
}

/// Frames of a round. One keeps RabbitMQ busy for some 0.5 to 1 ms of the processor's time, whatever it holds: with
/// more of them at once they are smaller, and no more records come in.
const BROKER_FRAMES: usize = 4;

/// Why an engine cannot be opened. No message holds a secret.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The address is of no kind that there is.
    #[error(
        "'{0}' is not an engine: use memory:, embedded:PATH, redis://HOST:PORT/DB, rediss://…, redis-cluster://HOST:PORT,HOST:PORT or rediss-cluster://…"
    )]
    UnknownEngine(String),
    /// The address or a file beside it cannot be used as it is.
    #[error("{address}: {reason}")]
    Unusable {
        /// The address, without secrets.
        address: String,
        /// What to change.
        reason: String,
    },
    /// The embedded engine's folder.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The server cannot be reached or does not let us in.
    #[error("cannot reach {address}: {reason}")]
    Unreachable {
        /// The address, without secrets.
        address: String,
        /// What happened.
        reason: String,
    },
    /// The server may forget what it acknowledged.
    #[error(
        "{address} is not safe to keep data in: {reason}; or set engine.allow_volatile = true to use it all the same"
    )]
    Volatile {
        /// The address, without secrets.
        address: String,
        /// Which settings, and what they should be.
        reason: String,
    },
    /// The store was made with another layout.
    #[error("{0}")]
    Layout(String),
}

/// Opens the engine at `options.url`, with its log at `options.broker` if there is one.
pub async fn open(options: &Options) -> Result<Engine, OpenError> {
    let scheme = options.url.split(':').next().unwrap_or_default();
    let engine = match scheme {
        "memory" if options.broker.is_none() => open_memory(options),
        "embedded" if options.broker.is_none() => open_embedded(options).await?,
        "redis" | "rediss" | "redis-cluster" | "rediss-cluster" => open_redis(options).await?,
        "memory" | "embedded" => {
            return Err(OpenError::Unusable {
                address: printable(&options.url),
                reason: "a broker needs a Redis store beside it: set engine.url to redis://…"
                    .into(),
            });
        }
        _ => return Err(OpenError::UnknownEngine(printable(&options.url))),
    };
    layout::settle(&*engine.store).await.map_err(|error| OpenError::Layout(error.to_string()))?;
    Ok(engine)
}

/// The way to a queue of somebody else, at `amqp://…` or `amqps://…`. `tls_ca` is a file with a
/// certificate authority (PEM) that vouches for the server, beside the public ones.
///
/// It reads the address and the file and does not connect: the first take does.
pub async fn open_inlet(
    url: &str,
    queue: &str,
    tls_ca: Option<&Path>,
) -> Result<Arc<dyn Inlet>, OpenError> {
    match url.split(':').next().unwrap_or_default() {
        "amqp" | "amqps" => Ok(Arc::new(RabbitInlet::open(url, queue, tls_ca).await?)),
        _ => Err(OpenError::Unusable {
            address: printable(url),
            reason: "messages are taken from RabbitMQ: write amqp://USER:PASSWORD@HOST:PORT/VHOST \
                     or amqps://…"
                .into(),
        }),
    }
}

/// As [`open_inlet`], where nobody else consumes the queue meanwhile: while another consumer does, a take tells so and
/// tries again. RabbitMQ knows this of classic queues; with others, the queue's owner declares a single active consumer.
pub async fn open_exclusive_inlet(
    url: &str,
    queue: &str,
    tls_ca: Option<&Path>,
) -> Result<Arc<dyn Inlet>, OpenError> {
    match url.split(':').next().unwrap_or_default() {
        "amqp" | "amqps" => Ok(Arc::new(RabbitInlet::open(url, queue, tls_ca).await?.exclusive())),
        _ => open_inlet(url, queue, tls_ca).await,
    }
}

/// The way to an exchange of somebody else, at `amqp://…` or `amqps://…`; the empty exchange leads to the queue
/// that `routing_key` names. `tls_ca` is as with [`open_inlet`].
///
/// It reads the address and the file and does not connect: the first publication does.
pub async fn open_publisher(
    url: &str,
    exchange: &str,
    routing_key: &str,
    tls_ca: Option<&Path>,
) -> Result<Arc<dyn Publisher>, OpenError> {
    match url.split(':').next().unwrap_or_default() {
        "amqp" | "amqps" => {
            Ok(Arc::new(RabbitPublisher::open(url, exchange, routing_key, tls_ca).await?))
        }
        _ => Err(OpenError::Unusable {
            address: printable(url),
            reason:
                "messages are published to RabbitMQ: write amqp://USER:PASSWORD@HOST:PORT/VHOST \
                     or amqps://…"
                    .into(),
        }),
    }
}

fn open_memory(options: &Options) -> Engine {
    let (log, store) = memory::open(options.shards, Arc::new(SystemClock::default()));
    let store: Arc<dyn Store> = Arc::new(store);
    Engine {
        log: Arc::new(log),
        lease_store: Arc::clone(&store),
        store,
        poison: Poison::new(),
        sole: true,
        frames_in_flight: None,
        report: vec!["engine: memory; nothing survives the end of this process".into()],
    }
}

async fn open_embedded(options: &Options) -> Result<Engine, OpenError> {
    let path = PathBuf::from(options.url.strip_prefix("embedded:").unwrap_or_default());
    if path.as_os_str().is_empty() {
        return Err(OpenError::Unusable {
            address: options.url.clone(),
            reason: "give the folder, as in embedded:./consort-data".into(),
        });
    }
    let (shards, durability) = (options.shards, options.durability);
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let opened = {
        let path = path.clone();
        tokio::task::spawn_blocking(move || embedded::open(&path, shards, durability, clock)).await
    };
    let (log, store, poison) = match opened {
        Ok(opened) => opened?,
        Err(panic) => std::panic::resume_unwind(panic.into_panic()),
    };
    let report = vec![describe(&path, durability)];
    let (log, lease_store) = (Arc::new(log), Arc::new(store.for_leases()));
    let store = Arc::new(store);
    Ok(Engine { log, store, lease_store, poison, sole: true, frames_in_flight: None, report })
}

async fn open_redis(options: &Options) -> Result<Engine, OpenError> {
    let Options { url, namespace, shards, allow_volatile, .. } = options;
    let tls_ca = options.tls_ca.as_deref();
    let (log, store, mut report) =
        redis::open(url, namespace, *shards, *allow_volatile, tls_ca).await?;
    let log: Arc<dyn Log> = match &options.broker {
        None => Arc::new(log),
        Some(broker) => {
            report.push(format!(
                "log: rabbitmq at {}; an append is acknowledged by the broker's confirm: a power loss may cost its unflushed tail, and that is detected",
                printable(broker)
            ));
            Arc::new(RabbitLog::open(broker, namespace, tls_ca).await?)
        }
    };
    let frames_in_flight = options.broker.as_ref().map(|_| BROKER_FRAMES);
    let lease_store = Arc::new(store.for_leases());
    let (store, poison) = (Arc::new(store), Poison::new());
    Ok(Engine { log, store, lease_store, poison, sole: false, frames_in_flight, report })
}

fn describe(path: &Path, durability: Durability) -> String {
    let survives = match durability {
        Durability::Fsync => "every acknowledged write is on the disk (fsync)",
        Durability::Process => {
            "acknowledged writes survive a killed process, not a power loss (durability = \"process\")"
        }
    };
    format!("engine: embedded in {}; {survives}", path.display())
}

//! Wires a node together: engine, probes, metrics, HTTP. The one place where the parts meet.

use std::net::SocketAddr;
use std::sync::Arc;

use consort_kernel::Poison;
use consort_server::axum::Router;
use consort_server::{BindError, Drained, Handle, Limits, Metrics, Probe, Server};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::config::{Config, Durability, EngineConfig, HttpConfig, SecretUrl};
use crate::identity;

/// A running node. [`Node::stop`] stops it and waits for its end; dropping it stops it without
/// waiting.
#[derive(Debug)]
pub struct Node {
    id: String,
    report: Vec<String>,
    http: Handle,
    poison: Poison,
    stop: oneshot::Sender<()>,
    ended: JoinHandle<Drained>,
}

/// Why a node did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("the engine {url} could not be opened: {source}")]
    Engine { url: SecretUrl, source: consort_engines::OpenError },
    #[error(transparent)]
    Http(#[from] BindError),
}

impl Node {
    /// Opens the engine, then the HTTP interface. Must be called within a tokio runtime.
    pub async fn start(config: Config) -> Result<Node, StartError> {
        let engine = consort_engines::open(&engine_options(&config.engine))
            .await
            .map_err(|source| StartError::Engine { url: config.engine.url.clone(), source })?;

        let mut metrics = Metrics::new(env!("CARGO_PKG_VERSION"));
        let store = config.engine.url.scheme();
        metrics
            .describe_engine(config.engine.broker.as_ref().map_or(store, SecretUrl::scheme), store);
        let server = Server::bind(consort_server::Options {
            listen: config.http.listen,
            limits: limits(&config.http),
            tokens: config.http.tokens.clone(),
            probes: probes(&engine),
            metrics,
            routes: Router::new(),
        })
        .await?;

        let http = server.handle();
        let (stop, stopped) = oneshot::channel::<()>();
        // Resolves when the stop is sent, and as well when the node is dropped.
        let ended = tokio::spawn(server.run(async { drop(stopped.await) }));
        let id = config.node.id.unwrap_or_else(identity::default_id);
        Ok(Node { id, report: engine.report, http, poison: engine.poison, stop, ended })
    }

    pub fn id(&self) -> &str {
        &self.id
    }

    /// Where the HTTP interface listens.
    pub fn address(&self) -> SocketAddr {
        self.http.address()
    }

    /// Lines that say what the engine is and how durable.
    pub fn report(&self) -> &[String] {
        &self.report
    }

    /// Waits until the engine has failed for good, and says why. The node must then be stopped.
    pub async fn failed(&self) -> String {
        self.poison.wait().await
    }

    /// Stops accepting, finishes the running requests within a bound, and closes.
    pub async fn stop(self) -> Drained {
        // An error means that the server has ended already, which is what was asked for.
        let _ = self.stop.send(());
        self.ended.await.unwrap_or_else(|error| {
            tracing::error!(
                %error,
                "the HTTP server's task failed; this is a defect of Consort, please report it"
            );
            Drained { unfinished: 0 }
        })
    }
}

fn engine_options(config: &EngineConfig) -> consort_engines::Options {
    consort_engines::Options {
        url: config.url.reveal().to_owned(),
        broker: config.broker.as_ref().map(|url| url.reveal().to_owned()),
        namespace: config.namespace.clone(),
        shards: config.shards,
        durability: match config.durability {
            Durability::Fsync => consort_engines::Durability::Fsync,
            Durability::Process => consort_engines::Durability::Process,
        },
        allow_volatile: config.allow_volatile,
        tls_ca: config.tls_ca.clone(),
    }
}

fn limits(config: &HttpConfig) -> Limits {
    Limits {
        first_byte: config.first_byte_timeout,
        header: config.header_timeout,
        body: config.body_timeout,
        max_body: config.max_body,
        max_connections: config.max_connections,
        ..Limits::default()
    }
}

fn probes(engine: &consort_engines::Engine) -> Vec<Probe> {
    let (log, store) = (Arc::clone(&engine.log), Arc::clone(&engine.store));
    let log = Probe::new("log", move || {
        let log = Arc::clone(&log);
        async move { log.ping().await.map_err(|fault| fault.to_string()) }
    });
    let store = Probe::new("store", move || {
        let store = Arc::clone(&store);
        async move { store.ping().await.map_err(|fault| fault.to_string()) }
    });
    vec![log, store]
}

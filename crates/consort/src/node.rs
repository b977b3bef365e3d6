//! Wires a node together: engine, probes, metrics, HTTP, cluster. The one place where the parts meet.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::num::NonZero;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

use consort_cluster::{ClusterNode, JoinError, Left, Part, Roster, Runtime, Scale};
use consort_engines::Engine;
use consort_kernel::{Inlet, Poison, Turns};
use consort_once::Once;
use consort_server::axum::Router;
use consort_server::feeds::Feeds;
use consort_server::udp::{self, Receiving};
use consort_server::{
    BindError, Cluster, Drained, Express, GateKind, Handle, Limits, Metrics, Probe, Server, Wanted,
};
use consort_views::{DefinitionsError, StreamsPart};
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::config::{Config, Durability, EngineConfig, Gate, HttpConfig, SecretUrl, UdpSource};
use crate::delivering::{Delivering, DeliveryError, SinkResolver};
use crate::doors::Doors;
use crate::ground::Ground;
use crate::identity;
use crate::once::{self, Computing};
use crate::partition::PartitionResolver;

/// How long a stop waits for running requests. Roles are handed over before, which may take ten seconds
/// and a lease; all of it must fit the 30 s that container platforms wait before they kill.
const REQUESTS_END_WITHIN: Duration = Duration::from_secs(15);

/// A running node. [`Node::stop`] stops it and waits for its end; dropping it ends it as a crash
/// would: others take its roles when its lease has lapsed.
#[derive(Debug)]
pub struct Node {
    id: String,
    report: Vec<String>,
    http: Http,
    udp: BTreeMap<String, SocketAddr>,
    receiving: Receiving,
    feeds: Feeds,
    computing: Computing,
    poison: Poison,
    cluster: ClusterNode,
    /// The threads of the roles. Connections of the engine that were made there end with them.
    roles: Arc<dyn Runtime>,
}

/// Why a node did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("the engine {url} could not be opened: {source}")]
    Engine { url: SecretUrl, source: consort_engines::OpenError },
    #[error(transparent)]
    Http(#[from] BindError),
    #[error(transparent)]
    Udp(#[from] udp::BindError),
    #[error(transparent)]
    Definitions(#[from] DefinitionsError),
    #[error(transparent)]
    Delivery(#[from] DeliveryError),
    #[error("cannot start threads: {0}")]
    Threads(std::io::Error),
    #[error("the node could not join the cluster: {0}")]
    Join(#[from] JoinError),
}

impl Node {
    /// Opens the engine, then the HTTP interface, then joins the cluster. Must be called within a
    /// tokio runtime.
    pub async fn start(config: Config) -> Result<Node, StartError> {
        Node::start_with(config, |_| Vec::new()).await
    }

    /// As [`start`](Node::start), with parts that bring roles. They are made when the engine is open,
    /// and given work once the node has joined.
    pub async fn start_with(
        config: Config,
        parts: impl FnOnce(&Ground) -> Vec<Arc<dyn Part>>,
    ) -> Result<Node, StartError> {
        let engine = consort_engines::open(&engine_options(&config.engine))
            .await
            .map_err(|source| StartError::Engine { url: config.engine.url.clone(), source })?;
        let ground = Ground::of(&engine);
        let definitions = Arc::new(config.definitions.agree(&*engine.store).await?);
        let mut parts = parts(&ground);
        let inlets = inlets(&config).await?;
        parts.push(Arc::new(StreamsPart::new(&definitions, ground.for_streams(inlets))));
        let delivering = Delivering::open(&config, &ground, engine.sole).await?;
        parts.push(Arc::clone(&delivering.part) as Arc<dyn Part>);
        ground.resolvers.add(Arc::new(SinkResolver(Arc::clone(&delivering.part))));
        // Behind those of the parts, which know their pipelines.
        let (log, store) = (Arc::clone(&engine.log), Arc::clone(&engine.store));
        ground.resolvers.add(Arc::new(PartitionResolver { log, store }));

        let mut metrics = Metrics::new(env!("CARGO_PKG_VERSION"));
        let store = config.engine.url.scheme();
        metrics
            .describe_engine(config.engine.broker.as_ref().map_or(store, SecretUrl::scheme), store);
        let cluster = Cluster::new(wanted(), ground.resolvers.clone(), &mut metrics);
        let once = Once::new(
            once::options(&config.once, &ground, engine.sole).map_err(StartError::Threads)?,
        );
        let doors = Doors::new(
            &definitions,
            gates(&config),
            delivering,
            (&once, config.once.spaces.clone()),
            &ground,
            &cluster,
            &mut metrics,
        )
        .map_err(StartError::Threads)?;
        let bound = doors.open_udp(datagrams(&config), &ground, &mut metrics)?;
        let udp = bound.addresses();
        let (routes, express) = doors.routes();
        let routes = (cluster.routes().merge(routes), express);
        let probes = probes(&engine).into_iter().chain([cluster.probe()]).collect();
        // Folding a batch takes milliseconds, in which no request should wait for its thread or its processor.
        let roles = ground.threads("roles", cores(), Turns::Later).map_err(StartError::Threads)?;
        let http = Http::start(&config.http, probes, routes, metrics).await?;
        let computing = Computing::start(once);

        let id = config.node.id.clone().unwrap_or_else(identity::default_id);
        let joining = consort_cluster::Options {
            id: id.clone(),
            address: config.http.advertise.unwrap_or_else(|| http.handle.address().to_string()),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            ttl: config.cluster.lease,
            heartbeat: config.cluster.heartbeat,
            sole: engine.sole,
            parts,
            store: ground.store,
            runtime: Arc::clone(&roles),
            entropy: ground.entropy,
            observer: cluster.observer(),
        };
        match join(joining).await {
            Ok(member) => {
                cluster.joined(member.handle());
                let Engine { mut report, poison, .. } = engine;
                let listens = |(stream, address)| {
                    format!("stream '{stream}' takes datagrams on udp://{address}")
                };
                report.extend(udp.iter().map(listens));
                let receiving = bound.run();
                let feeds = doors.feeds();
                let cluster = member;
                Ok(Node {
                    id,
                    report,
                    http,
                    udp,
                    receiving,
                    feeds,
                    computing,
                    poison,
                    cluster,
                    roles,
                })
            }
            Err(error) => {
                http.stop().await;
                Err(error.into())
            }
        }
    }

    pub fn id(&self) -> &str {
        &self.id
    }

    /// Where the HTTP interface listens.
    pub fn address(&self) -> SocketAddr {
        self.http.handle.address()
    }

    /// The streams that take datagrams, and where.
    pub fn udp(&self) -> &BTreeMap<String, SocketAddr> {
        &self.udp
    }

    /// Lines that say what the engine is and how durable, and where datagrams come in.
    pub fn report(&self) -> &[String] {
        &self.report
    }

    /// The node as a member of its cluster.
    pub fn cluster(&self) -> consort_cluster::Handle {
        self.cluster.handle()
    }

    /// Waits until the engine has failed for good, and says why. The node must then be stopped.
    pub async fn failed(&self) -> String {
        self.poison.wait().await
    }

    /// Waits until the node has left the cluster although nobody stopped it, and says how. The node
    /// must then be stopped.
    pub async fn left(&self) -> Left {
        self.cluster.handle().ended().await
    }

    /// Appends the datagrams that have arrived, and takes no more. Then hands its roles over and leaves
    /// the cluster, still answering requests; then stops accepting, finishes the running requests within a
    /// bound, lets others take over what it still computes, and closes.
    pub async fn stop(self) -> Drained {
        let Node { cluster, http, receiving, feeds, computing, poison, roles, .. } = self;
        tokio::select! {
            () = receiving.stop() => {}
            // Nothing can be appended to an engine that failed.
            _ = poison.wait() => {}
        }
        cluster.handle().stop();
        tokio::select! {
            _ = cluster.ended() => {}
            // Nothing can be released through an engine that failed; leases lapse.
            _ = poison.wait() => {}
        }
        feeds.close();
        let drained = http.stop().await;
        tokio::select! {
            () = computing.stop() => {}
            _ = poison.wait() => {}
        }
        drop(roles);
        drained
    }
}

/// A server that runs. Dropping it stops it without waiting.
#[derive(Debug)]
struct Http {
    handle: Handle,
    stop: oneshot::Sender<()>,
    ended: JoinHandle<Drained>,
}

impl Http {
    /// The server answers from here on, and says that it is not ready until the node has joined.
    async fn start(
        config: &HttpConfig,
        probes: Vec<Probe>,
        (routes, express): (Router, Express),
        metrics: Metrics,
    ) -> Result<Http, BindError> {
        let server = Server::bind(consort_server::Options {
            listen: config.listen,
            limits: limits(config),
            tokens: config.tokens.clone(),
            probes,
            metrics,
            express,
            routes,
        })
        .await?;
        let handle = server.handle();
        let (stop, stopped) = oneshot::channel::<()>();
        // Resolves when the stop is sent, and as well when the node is dropped.
        let ended = tokio::spawn(server.run(async { drop(stopped.await) }));
        Ok(Http { handle, stop, ended })
    }

    async fn stop(self) -> Drained {
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

/// How many there are, or one if nobody knows.
pub(crate) fn cores() -> usize {
    available_parallelism().map_or(1, NonZero::get)
}

/// The gate that each stream is to have.
fn gates(config: &Config) -> BTreeMap<String, GateKind> {
    config.streams.iter().map(|(name, stream)| (name.clone(), kind_of(stream.gate))).collect()
}

/// Where streams take datagrams.
fn datagrams(config: &Config) -> BTreeMap<String, udp::Source> {
    let source = |UdpSource { listen, allow, buffer }: &UdpSource| udp::Source {
        listen: *listen,
        allow: allow.clone(),
        buffer: *buffer,
    };
    let sources = config
        .streams
        .iter()
        .filter_map(|(name, stream)| stream.udp.as_ref().map(|udp| (name.clone(), source(udp))));
    sources.collect()
}

fn kind_of(gate: Gate) -> GateKind {
    match gate {
        Gate::Adaptive => GateKind::Adaptive,
        Gate::Breaker => GateKind::Breaker,
        Gate::Off => GateKind::Off,
    }
}

/// The queues that streams are filled from.
async fn inlets(config: &Config) -> Result<BTreeMap<String, Arc<dyn Inlet>>, StartError> {
    let mut inlets = BTreeMap::new();
    for (name, stream) in &config.streams {
        let Some(source) = &stream.amqp else { continue };
        let opened = consort_engines::open_inlet(
            source.url.reveal(),
            &source.queue,
            config.engine.tls_ca.as_deref(),
        );
        let inlet = opened
            .await
            .map_err(|error| StartError::Engine { url: source.url.clone(), source: error })?;
        inlets.insert(name.clone(), inlet);
    }
    Ok(inlets)
}

/// Joins, and says what it waits for where an earlier process has the id.
async fn join(options: consort_cluster::Options) -> Result<ClusterNode, JoinError> {
    if !options.sole
        // Whether it can be read at all, the join itself will tell.
        && let Ok(roster) = Roster::read(&*options.store).await
        && let Some(found) = roster.members.get(&options.id)
        && roster.is_live(&found.value)
    {
        let member = &found.value;
        tracing::warn!(
            node = %member.id,
            address = %member.address,
            heard_of = ?roster.now.since(member.renewed),
            up_to = ?member.until.since(roster.now),
            "another process had this node's id a moment ago; if it is dead, this one waits until its \
             lease has lapsed, and if it is alive, this one is refused"
        );
    }
    ClusterNode::join(options).await
}

/// How many nodes the cluster wants to be, by what has been seen since this node runs.
fn wanted() -> Wanted {
    let scale = Mutex::new(Scale::default());
    Box::new(move |status| scale.lock().wanted(status) as u64)
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
        stop_within: REQUESTS_END_WITHIN,
        ..Limits::default()
    }
}

fn probes(engine: &Engine) -> [Probe; 2] {
    let (log, store) = (Arc::clone(&engine.log), Arc::clone(&engine.store));
    let log = Probe::new("log", move || {
        let log = Arc::clone(&log);
        async move { log.ping().await.map_err(|fault| fault.to_string()) }
    });
    let store = Probe::new("store", move || {
        let store = Arc::clone(&store);
        async move { store.ping().await.map_err(|fault| fault.to_string()) }
    });
    [log, store]
}

//! Runs a node: opens the engine, loops over the list of parts, serves HTTP, joins the cluster, and stops all of it
//! in order.

use std::net::SocketAddr;
use std::num::NonZero;
use std::sync::Arc;
use std::thread::available_parallelism;

use consort_cluster::scaling::ScalerOptions;
use consort_cluster::{
    Agreement, AgreementError, ClusterNode, JoinError, Left, Part as Workload, Roster, Runtime,
    Scaler,
};
use consort_engines::Engine;
use consort_kernel::{Poison, Turns};
use consort_server::home::{self, Link};
use consort_server::{BindError, Cluster, Drained, Metrics, Peers, Probe, Resolvers};
use futures::future::join_all;

use crate::config::{Config, Durability, EngineConfig, SecretUrl};
use crate::extension::Extension;
use crate::http::{Http, HttpRoutes};
use crate::identity;
use crate::load::ProcessLoad;
use crate::parts::{
    self, OpenPart, Opening, Part, PartError, PartitionResolver, Running, StopPhase,
};
use crate::services::Services;

/// A running node. [`Node::stop`] stops it and waits for its end; dropping it ends it as a crash
/// would: others take its roles when its lease has lapsed.
#[derive(Debug)]
pub struct Node {
    id: String,
    report: Vec<String>,
    http: Http,
    running: Vec<Box<dyn Running>>,
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
    Definitions(#[from] AgreementError),
    #[error("{0}")]
    Part(Box<dyn std::error::Error + Send + Sync>),
    #[error("cannot start threads: {0}")]
    Threads(std::io::Error),
    #[error("the node could not join the cluster: {0}")]
    Join(#[from] JoinError),
}

impl From<PartError> for StartError {
    fn from(error: PartError) -> StartError {
        match error {
            PartError::Engine { url, source } => StartError::Engine { url, source },
            PartError::Failed(error) => StartError::Part(error),
        }
    }
}

impl Node {
    /// Runs the parts of every node. Must be called within a tokio runtime.
    pub async fn start(config: Config) -> Result<Node, StartError> {
        Node::start_extended(config, &Extension::default()).await
    }

    /// As [`start`](Node::start), with `more` parts behind those of every node.
    pub async fn start_with(config: Config, more: Vec<Arc<dyn Part>>) -> Result<Node, StartError> {
        let extension = more.into_iter().fold(Extension::default(), Extension::with_part);
        Node::start_extended(config, &extension).await
    }

    /// As [`start`](Node::start), with what `extension` adds.
    pub async fn start_extended(config: Config, extension: &Extension) -> Result<Node, StartError> {
        let more = extension.parts.iter().cloned();
        let parts: Vec<_> = parts::standard().into_iter().chain(more).collect();
        let engine = consort_engines::open(&engine_options(&config.engine))
            .await
            .map_err(|source| StartError::Engine { url: config.engine.url.clone(), source })?;
        let engine = extension.wrapped(engine);
        let mut metrics = Metrics::new(env!("CARGO_PKG_VERSION"));
        describe_engine(&config.engine, &mut metrics);
        let resolvers = Resolvers::default();
        let cluster = Cluster::new(resolvers.clone(), &mut metrics);
        let peers = Peers::new(cluster.clone(), &config.http.tokens);
        let services =
            Services::new(&engine, cluster.clone(), peers, config.data_folder(), &mut metrics)
                .map_err(StartError::Threads)?;

        let agreement = parts.iter().fold(Agreement::new(), |all, part| part.define(&config, all));
        let agreed = agreement.agree(&*services.store).await?;
        let feeds = parts.iter().map(|part| part.feeds(&config)).collect::<Result<Vec<_>, _>>()?;
        let feeds = feeds.concat();
        let mut opened = Opened::default();
        for part in &parts {
            let opening = Opening {
                config: &config,
                services: &services,
                agreed: &agreed,
                feeds: &feeds,
                metrics: &mut metrics,
            };
            opened.add(part.open(opening).await?, &resolvers);
        }
        // Behind those of the parts, which know their pipelines.
        let (log, store) = (Arc::clone(&engine.log), Arc::clone(&engine.store));
        resolvers.add(Arc::new(PartitionResolver { log, store }));

        let Opened { mut workloads, mut routes, links, mut running } = opened;
        let home = home::routes(&cluster, links);
        routes.router = cluster.routes().merge(home).merge(routes.router);
        let probes = probes(&engine).into_iter().chain([cluster.probe()]).collect();
        // Folding a batch takes milliseconds, in which no request should wait for its thread or its processor.
        let roles =
            services.threads("roles", cores(), Turns::Later).map_err(StartError::Threads)?;
        // A thread of its own, and soon its turn: neither requests nor folding delay heartbeats.
        workloads.extend(scaler(&config, &engine, &services, &roles));
        let heartbeat =
            services.threads("heartbeat", 1, Turns::Short).map_err(StartError::Threads)?;
        let http = Http::start(&config.http, probes, routes, metrics).await?;

        let id = config.node.id.clone().unwrap_or_else(identity::default_id);
        let joining = consort_cluster::Options {
            id: id.clone(),
            address: config.http.advertise.unwrap_or_else(|| http.address().to_string()),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            ttl: config.cluster.lease,
            heartbeat: config.cluster.heartbeat,
            sole: engine.sole,
            parts: workloads,
            store: services.store,
            lease_store: Arc::clone(&engine.lease_store),
            runtime: heartbeat,
            work_runtime: Arc::clone(&roles),
            entropy: services.entropy,
            observer: cluster.observer(),
            load: Arc::new(ProcessLoad(services.ingresses)),
        };
        match join(joining).await {
            Ok(member) => {
                cluster.joined(member.handle());
                running.iter_mut().for_each(|part| part.joined());
                let Engine { mut report, poison, .. } = engine;
                report.extend(running.iter().flat_map(|part| part.report()));
                Ok(Node { id, report, http, running, poison, cluster: member, roles })
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
        self.http.address()
    }

    /// Lines that say what the engine is and how durable, and where datagrams come in.
    pub fn report(&self) -> &[String] {
        &self.report
    }

    /// The node as a member of its cluster.
    pub fn cluster(&self) -> consort_cluster::Handle {
        self.cluster.handle()
    }

    /// Waits until all parts can do their work: databases have leaders, for example. It may never be so.
    pub async fn ready(&self) {
        join_all(self.running.iter().map(|part| part.ready())).await;
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
        let Node { cluster, http, mut running, poison, roles, .. } = self;
        stop_parts(&mut running, StopPhase::Sources, &poison).await;
        cluster.handle().stop();
        tokio::select! {
            _ = cluster.ended() => {}
            // Nothing can be released through an engine that failed; leases lapse.
            _ = poison.wait() => {}
        }
        stop_parts(&mut running, StopPhase::Subscribers, &poison).await;
        let drained = http.stop().await;
        stop_parts(&mut running, StopPhase::Computations, &poison).await;
        drop(roles);
        drained
    }
}

/// All parts finish a phase together. A failed engine takes nothing any more, so nothing is waited for.
async fn stop_parts(running: &mut [Box<dyn Running>], phase: StopPhase, poison: &Poison) {
    tokio::select! {
        _ = join_all(running.iter_mut().map(|part| part.stop(phase))) => {}
        _ = poison.wait() => {}
    }
}

/// What all open parts bring together.
#[derive(Default)]
struct Opened {
    workloads: Vec<Arc<dyn Workload>>,
    routes: HttpRoutes,
    links: Vec<Link>,
    running: Vec<Box<dyn Running>>,
}

impl Opened {
    fn add(&mut self, part: OpenPart, resolvers: &Resolvers) {
        self.workloads.extend(part.workloads);
        if let Some(resolver) = part.resolver {
            resolvers.add(resolver);
        }
        let HttpRoutes { router, express, long_bodies, tenant_routes } = &mut self.routes;
        *router = std::mem::take(router).merge(part.routes);
        express.merge(part.express);
        long_bodies.merge(part.long_bodies);
        tenant_routes.merge(part.tenant_routes);
        self.links.extend(part.links);
        self.running.push(part.running);
    }
}

/// The number of processors, or one if it is not known.
pub(crate) fn cores() -> usize {
    available_parallelism().map_or(1, NonZero::get)
}

fn describe_engine(config: &EngineConfig, metrics: &mut Metrics) {
    let store = config.url.scheme();
    metrics.describe_engine(config.broker.as_ref().map_or(store, SecretUrl::scheme), store);
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

/// The role that decides how many nodes are wanted. An engine for one process alone never has more than one.
fn scaler(
    config: &Config,
    engine: &Engine,
    services: &Services,
    runtime: &Arc<dyn Runtime>,
) -> Option<Arc<dyn Workload>> {
    let options = ScalerOptions {
        store: Arc::clone(&services.store),
        runtime: Arc::clone(runtime),
        settings: config.scale,
    };
    (!engine.sole).then(|| Arc::new(Scaler::new(options)) as Arc<dyn Workload>)
}

pub(crate) fn engine_options(config: &EngineConfig) -> consort_engines::Options {
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

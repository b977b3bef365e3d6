//! The databases of a node: what its door asks for writes, reads and their state.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use consort_kernel::{Entropy, Store};
use parking_lot::RwLock;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::cells::DbCells;
use crate::probe::LeaderProbe;
use crate::read::freshness::StrongLooks;
use crate::read::pool::ReadPool;
use crate::settings::DatabaseSettings;
use crate::store::{DatabaseStore, DbStoreError};
use crate::view::{DatabaseView, MembersCache, OwnNode, ViewHandle, ViewKeeper};
use crate::worker::shared::LocalWorker;
use crate::write::batch::{BatchJob, BatchOutcome};
use crate::write::job::{JobError, JobOutcome, WriteJob};
use crate::write::queue::{WriteFailure, WriterReply, WriterTask, reply};
use crate::write::schema_file::{SchemaFile, changed_file};

/// What the databases of a node need.
#[derive(Clone, Debug)]
pub struct DatabaseOptions {
    /// Where the truth is.
    pub store: Arc<dyn Store>,
    /// Randomness.
    pub entropy: Arc<dyn Entropy>,
    /// The folder for the files of workers.
    pub folder: PathBuf,
    /// The node, once it has joined.
    pub node: OwnNode,
}

/// All databases of a node. All clones are of the same ones.
#[derive(Clone, Debug)]
pub struct Databases(Arc<BTreeMap<String, Database>>);

/// One database, as this node reaches it. All clones are of the same one.
#[derive(Clone)]
pub struct Database(Arc<Shared>);

struct Shared {
    settings: DatabaseSettings,
    store: DatabaseStore,
    entropy: Arc<dyn Entropy>,
    folder: PathBuf,
    node: OwnNode,
    view: ViewHandle,
    /// The workers of this node, by id.
    local: RwLock<BTreeMap<u64, LocalWorker>>,
    pool: ReadPool,
    looks: StrongLooks,
    probe: LeaderProbe,
    /// Reads that workers of this node got since the process began.
    reads: AtomicU64,
    /// The threads on which asynchronous calls of workers run.
    runtime: tokio::runtime::Handle,
}

/// Where the leader is.
#[derive(Clone, Debug)]
pub enum LeaderPlace {
    /// In this node.
    Here(LocalWorker),
    /// In another node.
    Node {
        /// Its id.
        node: String,
        /// Host and port of its HTTP interface.
        address: String,
    },
    /// No live worker leads at the moment.
    Nowhere,
}

/// Why the schema files of a node cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SchemaCheckError {
    /// The store could not be read.
    #[error(transparent)]
    Store(#[from] DbStoreError),
    /// A file was changed after it was applied.
    #[error(transparent)]
    Changed(JobError),
}

impl Databases {
    /// The databases with these settings. Must be called within a tokio runtime. The keepers must be run for as
    /// long as the node runs, beside [`background`](Databases::background).
    pub fn new(
        settings: Vec<DatabaseSettings>,
        options: &DatabaseOptions,
    ) -> (Databases, Vec<ViewKeeper>) {
        let members = Arc::new(MembersCache::new(options.node.clone()));
        let pool = ReadPool::start();
        let mut keepers = Vec::new();
        let databases = settings.into_iter().map(|settings| {
            let cells = DbCells::new(&settings.name, options.store.shards());
            let store = DatabaseStore::new(Arc::clone(&options.store), cells);
            let (keeper, view) = ViewKeeper::new(store.clone(), Arc::clone(&members));
            keepers.push(keeper);
            let name = settings.name.to_string();
            let database = Database(Arc::new(Shared {
                folder: options.folder.join("db").join(&name),
                looks: StrongLooks::new(store.clone()),
                settings,
                store,
                entropy: Arc::clone(&options.entropy),
                node: options.node.clone(),
                view,
                local: RwLock::default(),
                pool: pool.clone(),
                probe: LeaderProbe::default(),
                reads: AtomicU64::new(0),
                runtime: tokio::runtime::Handle::current(),
            }));
            (name, database)
        });
        let databases = Databases(Arc::new(databases.collect()));
        (databases, keepers)
    }

    /// The database with this name.
    pub fn get(&self, name: &str) -> Option<&Database> {
        self.0.get(name)
    }

    /// All databases, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Database> {
        self.0.values()
    }
}

impl Database {
    /// Its name.
    pub fn name(&self) -> &str {
        self.0.settings.name.as_str()
    }

    /// Its settings.
    pub fn settings(&self) -> &DatabaseSettings {
        &self.0.settings
    }

    /// Its cells and feed.
    pub fn store(&self) -> &DatabaseStore {
        &self.0.store
    }

    /// What this node knows of it.
    pub fn view(&self) -> &ViewHandle {
        &self.0.view
    }

    /// The threads that run its reads.
    pub fn pool(&self) -> &ReadPool {
        &self.0.pool
    }

    /// Looks at the head that waiting reads share.
    pub fn looks(&self) -> &StrongLooks {
        &self.0.looks
    }

    /// The workers of this node, by id.
    pub fn local_workers(&self) -> Vec<LocalWorker> {
        self.0.local.read().values().cloned().collect()
    }

    /// Notes that a worker of this node got a read.
    pub fn count_read(&self) {
        self.0.reads.fetch_add(1, Ordering::Relaxed);
    }

    /// Reads that workers of this node got since the process began.
    pub fn reads(&self) -> u64 {
        self.0.reads.load(Ordering::Relaxed)
    }

    /// The worker that leads, if this node has it.
    pub fn local_leader(&self) -> Option<LocalWorker> {
        self.0.local.read().values().find(|worker| worker.jobs().is_some()).cloned()
    }

    /// Where the leader is, as far as this node knows.
    pub fn leader(&self) -> LeaderPlace {
        if let Some(worker) = self.local_leader() {
            return LeaderPlace::Here(worker);
        }
        let view = self.0.view.now();
        let node = view.leader().and_then(|leader| Some((leader, view.nodes.get(&leader.node)?)));
        match node {
            // Its view may be older than the end of its own lead.
            Some((leader, _)) if Some(leader.node.as_str()) == self.own_node().as_deref() => {
                LeaderPlace::Nowhere
            }
            Some((leader, node)) => {
                LeaderPlace::Node { node: leader.node.clone(), address: node.address.clone() }
            }
            None => LeaderPlace::Nowhere,
        }
    }

    /// Carries out a write at the leader of this node. The writer must take it before `take_by`.
    pub async fn write(&self, job: WriteJob, take_by: Instant) -> WriterReply<JobOutcome> {
        let run_time = match job.is_schema_change() {
            true => self.0.settings.ddl_time,
            false => self.0.settings.write_time,
        };
        let (tell, told) = oneshot::channel();
        self.submit(WriterTask::Write(job, tell), told, take_by, run_time).await
    }

    /// Carries out a batch at the leader of this node.
    pub async fn batch(&self, job: BatchJob, take_by: Instant) -> WriterReply<BatchOutcome> {
        let run_time = match job.is_schema_change() {
            true => self.0.settings.ddl_time,
            false => self.0.settings.write_time,
        };
        let (tell, told) = oneshot::channel();
        self.submit(WriterTask::Batch(job, tell), told, take_by, run_time).await
    }

    /// Applies a file of the schema at the leader of this node. One that was applied before changes nothing.
    pub async fn apply_schema_file(
        &self,
        file: SchemaFile,
        take_by: Instant,
    ) -> WriterReply<JobOutcome> {
        let (tell, told) = oneshot::channel();
        let run_time = self.0.settings.ddl_time;
        self.submit(WriterTask::SchemaFile(file, tell), told, take_by, run_time).await
    }

    /// Refuses a file whose text is another than the one that was applied under its name.
    pub async fn check_schema_files(&self, files: &[SchemaFile]) -> Result<(), SchemaCheckError> {
        let applied = self.0.store.schema_files().await?;
        let is_changed = |file: &&SchemaFile| {
            applied.iter().any(|(name, hash)| *name == file.name && *hash != file.hash())
        };
        match files.iter().find(is_changed) {
            None => Ok(()),
            Some(file) => Err(SchemaCheckError::Changed(changed_file(&file.name))),
        }
    }

    async fn submit<T>(
        &self,
        task: WriterTask,
        told: oneshot::Receiver<WriterReply<T>>,
        take_by: Instant,
        run_time: Duration,
    ) -> WriterReply<T> {
        if let Some(reason) = self.0.view.now().stopped() {
            return Err(WriteFailure::Stopped(reason.to_owned()));
        }
        let leader = self.local_leader().and_then(|worker| worker.jobs());
        let ticket = leader.ok_or(WriteFailure::NotLeader)?.send(task)?;
        // A write whose commit is still open after this time has an unknown outcome.
        let settle_by = take_by + run_time;
        reply(ticket, told, take_by, settle_by).await
    }

    /// A new random number.
    pub(crate) fn draw(&self) -> u64 {
        self.0.entropy.next()
    }

    /// The folder of its files in this node.
    pub(crate) fn folder(&self) -> &PathBuf {
        &self.0.folder
    }

    /// The sign of a dead leader.
    pub(crate) fn probe(&self) -> &LeaderProbe {
        &self.0.probe
    }

    pub(crate) fn node(&self) -> &OwnNode {
        &self.0.node
    }

    pub(crate) fn runtime(&self) -> &tokio::runtime::Handle {
        &self.0.runtime
    }

    pub(crate) fn own_node(&self) -> Option<String> {
        self.0.node.handle().map(|node| node.id().to_owned())
    }

    pub(crate) fn add_local(&self, worker: LocalWorker) {
        self.0.local.write().insert(worker.id(), worker);
        self.0.view.refresh();
    }

    pub(crate) fn remove_local(&self, id: u64) {
        self.0.local.write().remove(&id);
        self.0.view.refresh();
    }

    /// What this node knows of the database now.
    pub fn sight(&self) -> Arc<DatabaseView> {
        self.0.view.now()
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database").field("name", &self.name()).finish_non_exhaustive()
    }
}

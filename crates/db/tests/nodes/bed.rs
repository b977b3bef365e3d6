//! Nodes with databases: each has its own folder and its own way to the one store.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use consort_cluster::{
    ClusterNode, Handle, Options, Runtime, TokioRuntime, UnmeasuredLoad, Unobserved,
};
use consort_db::db::{Database, DatabaseOptions, Databases, LeaderPlace};
use consort_db::part::DbPart;
use consort_db::settings::DatabaseSettings;
use consort_db::view::OwnNode;
use consort_db::worker::shared::LocalWorker;
use consort_db::write::job::{
    JobAnswer, JobArgs, JobKey, JobOutcome, JobStatement, SqlValue, StatementResult, WriteJob,
};
use consort_db::write::queue::WriterReply;
use consort_kernel::memory::MemoryStore;
use consort_kernel::{Name, Store, SystemClock, SystemEntropy};
use tempfile::TempDir;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::faults::FaultyStore;

/// How long anything here may take: far longer than it should.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Bed {
    pub(crate) memory: Arc<MemoryStore>,
    folder: TempDir,
    settings: DatabaseSettings,
}

pub(crate) struct TestNode {
    pub(crate) store: Arc<FaultyStore>,
    pub(crate) db: Database,
    cluster: Option<ClusterNode>,
    _background: JoinSet<()>,
}

impl Bed {
    pub(crate) fn new() -> Self {
        Bed::with(|_| {})
    }

    pub(crate) fn with(change: impl FnOnce(&mut DatabaseSettings)) -> Self {
        let mut settings = DatabaseSettings::new(Name::new("notes").unwrap());
        change(&mut settings);
        Bed {
            memory: Arc::new(MemoryStore::new(4, Arc::new(SystemClock::default()))),
            folder: tempfile::tempdir().unwrap(),
            settings,
        }
    }

    pub(crate) fn folder(&self, node: &str) -> PathBuf {
        self.folder.path().join(node)
    }

    pub(crate) async fn node(&self, id: &str) -> TestNode {
        let store = FaultyStore::new(Arc::clone(&self.memory) as Arc<dyn Store>);
        let shared = Arc::clone(&store) as Arc<dyn Store>;
        let joined: Arc<OnceLock<Handle>> = Arc::default();
        let asked = Arc::clone(&joined);
        let options = DatabaseOptions {
            store: Arc::clone(&shared),
            entropy: Arc::new(SystemEntropy),
            folder: self.folder(id),
            node: OwnNode::new(move || asked.get().cloned()),
        };
        let (databases, keepers) = Databases::new(vec![self.settings.clone()], &options);
        databases.create_missing().await.unwrap();
        let mut running = JoinSet::new();
        for keeper in keepers {
            running.spawn(keeper.run());
        }
        for task in databases.background() {
            running.spawn(task);
        }
        let runtime: Arc<dyn Runtime> = TokioRuntime::current();
        let cluster = ClusterNode::join(Options {
            id: id.into(),
            address: format!("127.0.0.1:{}", 1),
            version: "0".into(),
            ttl: Duration::from_millis(1500),
            heartbeat: Duration::from_millis(200),
            sole: false,
            parts: vec![Arc::new(DbPart::new(databases.clone()))],
            store: Arc::clone(&shared),
            lease_store: shared,
            runtime: Arc::clone(&runtime),
            work_runtime: runtime,
            entropy: Arc::new(SystemEntropy),
            observer: Arc::new(Unobserved),
            load: Arc::new(UnmeasuredLoad),
        })
        .await
        .unwrap();
        joined.set(cluster.handle()).unwrap();
        let db = databases.get("notes").unwrap().clone();
        TestNode { store, db, cluster: Some(cluster), _background: running }
    }
}

impl TestNode {
    /// Waits until a worker of this node leads.
    pub(crate) async fn leads(&self) -> LocalWorker {
        eventually("this node leads", || self.db.local_leader()).await
    }

    /// Waits until no worker of this node leads.
    pub(crate) async fn leads_no_more(&self) {
        eventually("this node leads no more", || self.db.local_leader().is_none().then_some(()))
            .await;
    }

    /// Waits until this worker does not lead here any more.
    pub(crate) async fn leads_no_more_or_other(&self, id: u64) {
        let is_over = || self.db.local_leader().is_none_or(|leader| leader.id() != id);
        eventually("the worker leads no more", || is_over().then_some(())).await;
    }

    pub(crate) async fn write(&self, job: WriteJob) -> WriterReply<JobOutcome> {
        self.db.write(job, Instant::now() + Duration::from_secs(2)).await
    }

    /// A write that must be stored. Gives its index.
    pub(crate) async fn sql(&self, sql: &str) -> u64 {
        self.leads().await;
        let settled = self.write(job(sql)).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
        settled.outcome.unwrap_or_else(|error| panic!("{sql}: {error}"));
        settled.position.index
    }

    /// Leaves the cluster as an operator asks.
    pub(crate) async fn stop(mut self) {
        if let Some(cluster) = self.cluster.take() {
            cluster.handle().stop();
            cluster.ended().await;
        }
    }

    /// Ends as a crash does: leases lapse.
    pub(crate) fn kill(mut self) {
        drop(self.cluster.take());
    }
}

/// Waits for a condition.
pub(crate) async fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "{what}: never");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// The node that leads, once each of two nodes has one worker: the lead may move while the second node joins.
pub(crate) async fn leader_of(nodes: &[TestNode; 2]) -> usize {
    eventually("each node has a worker, and one leads", || {
        let is_shared = nodes.iter().all(|node| {
            let workers = node.db.local_workers();
            workers.len() == 1 && workers.iter().all(|worker| worker.status().file.is_some())
        });
        let leader = nodes.iter().position(|node| node.db.local_leader().is_some());
        leader.filter(|_| is_shared)
    })
    .await
}

/// Whether a node knows that another one leads.
pub(crate) fn knows_other_leader(node: &TestNode) -> bool {
    matches!(node.db.leader(), LeaderPlace::Node { .. })
}

pub(crate) fn job(sql: &str) -> WriteJob {
    WriteJob { statements: vec![statement(sql)], key: None }
}

pub(crate) fn keyed(key: &str, sql: &str) -> WriteJob {
    let key = JobKey { key: key.into(), hash: [sql.len() as u8; 32] };
    WriteJob { key: Some(key), ..job(sql) }
}

pub(crate) fn statement(sql: &str) -> JobStatement {
    JobStatement { sql: sql.into(), args: JobArgs::Positional(vec![]), changes: None }
}

pub(crate) fn results(answer: JobAnswer) -> Vec<StatementResult> {
    match answer {
        JobAnswer::New(results) => results,
        JobAnswer::Known { results, .. } => results.unwrap(),
    }
}

/// One number from the file of a worker.
pub(crate) fn number(worker: &LocalWorker, sql: &str) -> i64 {
    let file = worker.status().file.expect("it serves a file");
    let connection = rusqlite::Connection::open(&*file.path).unwrap();
    connection.query_row(sql, [], |row| row.get(0)).unwrap()
}

/// Waits until all workers of a node have applied this index.
pub(crate) async fn applied(node: &TestNode, index: u64) -> Vec<LocalWorker> {
    eventually("the workers have applied the index", || {
        let workers = node.db.local_workers();
        let all = workers.iter().all(|worker| worker.status().applied.index >= index);
        (!workers.is_empty() && all).then_some(workers)
    })
    .await
}

pub(crate) fn integer(value: &SqlValue) -> i64 {
    match value {
        SqlValue::Integer(number) => *number,
        other => panic!("{other:?} is no integer"),
    }
}

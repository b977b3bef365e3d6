//! The stage of these tests: a node in virtual time, a database, and workers that are cells only.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use consort_cluster::{
    ClusterNode, Ended, Handle, Options, Role, Tenure, TokioRuntime, UnmeasuredLoad, Unobserved,
};
use consort_kernel::memory::MemoryStore;
use consort_kernel::{
    Cell, Clock, Commit, Key, Kind, Name, Note, Operation, SeededEntropy, Store, Timestamp,
};
use parking_lot::Mutex;
use tempfile::TempDir;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::sleep;

use crate::cells::DbCells;
use crate::db::{Database, DatabaseOptions, Databases};
use crate::hash::{ContentHash, SchemaChain};
use crate::head::{DbHead, HeadHolder};
use crate::position::DbPosition;
use crate::settings::DatabaseSettings;
use crate::snapshot::manifest::Manifest;
use crate::supervise::counting::keep_counts;
use crate::supervise::run::supervise;
use crate::supervise::wanted::WantedWorkers;
use crate::supervise::window::WindowCell;
use crate::view::OwnNode;
use crate::worker::cell::{WorkerCell, WorkerState};

/// The store's clock, which goes as tokio's virtual time does.
#[derive(Debug)]
struct VirtualClock(tokio::time::Instant);

impl Clock for VirtualClock {
    fn now(&self) -> Timestamp {
        Timestamp(1_000_000).after(self.0.elapsed())
    }
}

pub(super) struct Bed {
    pub(super) db: Database,
    memory: Arc<MemoryStore>,
    supervisor: Mutex<Option<(consort_cluster::tenure::TenureControl, JoinHandle<Ended>)>>,
    incarnation: u64,
    _node: Option<ClusterNode>,
    _folder: TempDir,
    _tasks: JoinSet<()>,
}

pub(super) fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

impl Bed {
    pub(super) async fn new() -> Bed {
        Bed::with_window(seconds(120)).await
    }

    pub(super) async fn with_window(window: Duration) -> Bed {
        Bed::open(window, true).await
    }

    /// A node that has not joined its cluster.
    pub(super) async fn before_join() -> Bed {
        Bed::open(seconds(120), false).await
    }

    async fn open(window: Duration, joins: bool) -> Bed {
        let folder = tempfile::tempdir().unwrap();
        let clock = Arc::new(VirtualClock(tokio::time::Instant::now()));
        let memory = Arc::new(MemoryStore::new(2, clock));
        let mut settings = DatabaseSettings::new(Name::new("notes").unwrap());
        settings.readers.window = window;
        let joined: Arc<OnceLock<Handle>> = Arc::default();
        let asked = Arc::clone(&joined);
        let options = DatabaseOptions {
            store: Arc::clone(&memory) as Arc<dyn Store>,
            entropy: Arc::new(SeededEntropy::new(3)),
            folder: folder.path().to_owned(),
            node: OwnNode::new(move || asked.get().cloned()),
        };
        let (databases, keepers) = Databases::new(vec![settings], &options);
        databases.create_missing().await.unwrap();
        let db = databases.get("notes").unwrap().clone();
        let mut tasks = JoinSet::new();
        for keeper in keepers {
            tasks.spawn(keeper.run());
        }
        tasks.spawn(keep_counts(db.clone()));
        let node = match joins {
            true => Some(join(&memory).await),
            false => None,
        };
        if let Some(node) = &node {
            joined.set(node.handle()).unwrap();
        }
        let incarnation = node.as_ref().map_or(0, |node| node.handle().incarnation());
        let bed = Bed {
            db,
            memory,
            supervisor: Mutex::default(),
            incarnation,
            _node: node,
            _folder: folder,
            _tasks: tasks,
        };
        bed.staff().await;
        bed.lead(1).await;
        bed.pass(1).await;
        bed
    }

    pub(super) fn cells(&self) -> &DbCells {
        self.db.store().cells()
    }

    /// Time passes.
    pub(super) async fn pass(&self, time: u64) {
        sleep(seconds(time)).await;
    }

    /// A supervisor begins.
    pub(super) fn supervise(&self) {
        let (tenure, control) = Tenure::new(Role::new("db-supervisor", "notes"), 1);
        let task = tokio::spawn(supervise(self.db.clone(), tenure));
        *self.supervisor.lock() = Some((control, task));
    }

    /// The supervisor is asked to end, and ends.
    pub(super) async fn end_supervisor(&self) -> Ended {
        let (control, task) = self.supervisor.lock().take().unwrap();
        control.end();
        task.await.unwrap()
    }

    /// Waits until the supervisor ends by itself.
    pub(super) async fn supervisor_ends(&self) -> Ended {
        let (_control, task) = self.supervisor.lock().take().unwrap();
        task.await.unwrap()
    }

    /// Workers of this node get so many reads.
    pub(super) fn read(&self, reads: u64) {
        (0..reads).for_each(|_| self.db.count_read());
    }

    pub(super) async fn wanted(&self) -> WantedWorkers {
        self.db.store().sight().await.unwrap().wanted.unwrap()
    }

    /// How many readers are wanted.
    pub(super) async fn readers(&self) -> usize {
        self.wanted().await.slots.len() - 1
    }

    pub(super) async fn window(&self) -> WindowCell {
        let stored = self.db.store().bytes(&[self.cells().window()]).await.unwrap().remove(0);
        WindowCell::decode(&stored.unwrap()).unwrap()
    }

    /// The ids of all workers that have a cell.
    pub(super) async fn workers(&self) -> Vec<u64> {
        self.db.store().workers().await.unwrap().iter().map(|worker| worker.id).collect()
    }

    /// Each wanted slot gets a worker, and those of other slots end.
    pub(super) async fn staff(&self) {
        let wanted = self.wanted().await;
        let workers = self.db.store().workers().await.unwrap();
        for worker in workers.iter().filter(|worker| !wanted.slots.contains(&worker.slot)) {
            self.delete(&self.cells().worker(worker.id)).await;
        }
        let mut next = wanted.clone();
        for slot in wanted.slots.iter().filter(|slot| workers.iter().all(|w| w.slot != **slot)) {
            let (id, drawn) = next.draw_worker();
            next = drawn;
            self.worker(id, *slot, "a", self.incarnation).await;
        }
        self.put(&self.cells().wanted(), &next.encode()).await;
    }

    /// A worker writes its cell.
    pub(super) async fn worker(&self, id: u64, slot: u16, node: &str, incarnation: u64) {
        let cell = WorkerCell {
            id,
            slot,
            node: node.into(),
            incarnation,
            since: Timestamp(1),
            applied: DbPosition { era: 1, index: 0 },
            state: WorkerState::Fit,
        };
        self.put(&self.cells().worker(id), &cell.encode()).await;
    }

    async fn head(&self) -> DbHead {
        self.db.store().head().await.unwrap().unwrap()
    }

    /// This worker claims the lead.
    pub(super) async fn lead(&self, worker: u64) {
        let head = self.head().await;
        let (node, incarnation) = ("a".to_owned(), self.incarnation);
        let holder = HeadHolder { node, incarnation, slot: 0, worker, claim: worker };
        let led = head.claimed(holder, head.sqlite).unwrap();
        self.put(&self.cells().head(), &led.encode()).await;
    }

    /// The leader gives the lead up.
    pub(super) async fn vacate(&self) {
        let head = self.head().await;
        let claim = head.holder.as_ref().unwrap().claim;
        self.put(&self.cells().head(), &head.vacated(claim, None).unwrap().encode()).await;
    }

    /// Entries of so many bytes are appended.
    pub(super) async fn append(&self, entries: u64, bytes: usize) {
        let feed = self.cells().feed(1).unwrap();
        let entry = Bytes::from(vec![7; bytes]);
        for _ in 0..entries {
            let note = Note { feed: feed.clone(), entry: entry.clone() };
            let commit = Commit::of([Operation::Append(note)]);
            self.memory.commit(self.cells().shard(), commit).await.unwrap();
        }
        let index = self.head().await.index + entries;
        self.pretend_index(index).await;
    }

    /// The head says this index, although the feed may not have its entry.
    pub(super) async fn pretend_index(&self, index: u64) {
        let head = DbHead { index, ..self.head().await };
        self.put(&self.cells().head(), &head.encode()).await;
    }

    /// There is a snapshot of this index, and the request for it is taken back.
    pub(super) async fn pretend_snapshot(&self, index: u64) {
        let manifest = Manifest {
            era: 1,
            index,
            digest: None,
            chain: SchemaChain::START,
            content: ContentHash::EMPTY,
            sqlite: 0,
            page_bytes: 4096,
            file_bytes: 0,
            chunks: Vec::new(),
        };
        self.put(&self.cells().manifests()[0], &manifest.encode()).await;
        let wanted = self.wanted().await.snapshot_made(index).unwrap();
        self.put(&self.cells().wanted(), &wanted.encode()).await;
    }

    /// A worker asks for a snapshot.
    pub(super) async fn want_snapshot(&self, behind: u64) {
        let wanted = self.wanted().await.with_snapshot(behind).unwrap();
        self.put(&self.cells().wanted(), &wanted.encode()).await;
    }

    pub(super) async fn put(&self, key: &Key, value: &[u8]) {
        let put = Operation::Put { key: key.clone(), value: value.to_vec().into() };
        self.memory.commit(self.cells().shard(), Commit::of([put])).await.unwrap();
    }

    async fn delete(&self, key: &Key) {
        let delete = Operation::Delete(Cell::new(Kind::Bytes, key.clone()));
        self.memory.commit(self.cells().shard(), Commit::of([delete])).await.unwrap();
    }

    /// How many cells there are below a key.
    pub(super) async fn keys(&self, prefix: &Key) -> usize {
        self.db.store().scan(prefix).await.unwrap().len()
    }
}

async fn join(memory: &Arc<MemoryStore>) -> ClusterNode {
    let store = Arc::clone(memory) as Arc<dyn Store>;
    let runtime = TokioRuntime::current();
    let options = Options {
        id: "a".into(),
        address: "127.0.0.1:1".into(),
        version: "0".into(),
        ttl: seconds(3),
        heartbeat: Duration::from_millis(500),
        sole: false,
        parts: Vec::new(),
        store: Arc::clone(&store),
        lease_store: store,
        runtime: runtime.clone(),
        work_runtime: runtime,
        entropy: Arc::new(SeededEntropy::new(4)),
        observer: Arc::new(Unobserved),
        load: Arc::new(UnmeasuredLoad),
    };
    ClusterNode::join(options).await.unwrap()
}

//! A database in a memory store, with the file of its leader: for tests of snapshots and of the supervisor.

mod hooked;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use consort_kernel::memory::MemoryStore;
use consort_kernel::{
    Cell, Commit, Cursor, Expect, Key, Kind, ManualClock, Most, Name, Operation, Store, Timestamp,
};
use tempfile::TempDir;

use crate::cells::DbCells;
use crate::follow::Follower;
use crate::head::{DbHead, HeadHolder};
use crate::local::FileState;
use crate::snapshot::loading::{LoadSnapshotError, load_newest};
use crate::snapshot::make::{copy_file, describe};
use crate::snapshot::manifest::Manifest;
use crate::snapshot::upload::{PublishError, UploadedSnapshot, upload};
use crate::sqlite::connect::open_reader;
use crate::store::DatabaseStore;
use crate::write::commit::HeadAnswer;
use crate::write::group::{GroupRun, GroupTerms, GroupWriter};
use crate::write::job::{JobArgs, JobLimits, JobStatement, WriteJob};

pub(crate) use hooked::{Call, CommitFault, HookedStore};

const CLAIM: u64 = 77;

pub(crate) struct StoreBed {
    pub(crate) folder: TempDir,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) hooked: Arc<HookedStore>,
    /// The database, by a way on which calls can be stopped and fail.
    pub(crate) store: DatabaseStore,
    /// The database, by a way on which they cannot.
    pub(crate) direct: DatabaseStore,
    pub(crate) head: DbHead,
    leader: GroupWriter,
    files: u32,
}

impl StoreBed {
    pub(crate) async fn new() -> StoreBed {
        let folder = tempfile::tempdir().unwrap();
        let clock = Arc::new(ManualClock::at(Timestamp(1_000_000)));
        let memory = Arc::new(MemoryStore::new(2, Arc::clone(&clock) as _));
        let hooked = HookedStore::new(Arc::clone(&memory) as Arc<dyn Store>);
        let cells = DbCells::new(&Name::new("notes").unwrap(), 2);
        let store = DatabaseStore::new(Arc::clone(&hooked) as _, cells.clone());
        let direct = DatabaseStore::new(Arc::clone(&memory) as _, cells.clone());
        let sqlite = rusqlite::version_number() as u32;
        let holder =
            HeadHolder { node: "a".into(), incarnation: 1, slot: 0, worker: 1, claim: CLAIM };
        let head = DbHead::created(5, 6, sqlite).claimed(holder, sqlite).unwrap();
        let put = Operation::Put { key: cells.head(), value: head.encode() };
        memory.commit(cells.shard(), Commit::of([put])).await.unwrap();
        let leader = GroupWriter::open(&folder.path().join("leader"), 1, 1 << 40).unwrap();
        StoreBed { folder, clock, hooked, store, direct, head, leader, files: 0 }
    }

    /// A database with some 1 MB of rows.
    pub(crate) async fn filled() -> StoreBed {
        let mut bed = StoreBed::new().await;
        bed.sql("CREATE TABLE t (a INTEGER PRIMARY KEY, b)").await;
        bed.sql(
            "WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n LIMIT 3000)
            INSERT INTO t SELECT x, hex(randomblob(150)) FROM n",
        )
        .await;
        bed
    }

    /// The leader's file.
    pub(crate) fn leader_file(&self) -> PathBuf {
        self.folder.path().join("leader")
    }

    /// The state of the leader's file.
    pub(crate) fn state(&self) -> &FileState {
        self.leader.state()
    }

    /// A path where no file is.
    pub(crate) fn fresh_path(&mut self) -> PathBuf {
        self.files += 1;
        self.folder.path().join(format!("file-{}", self.files))
    }

    /// The leader writes. Returns the index.
    pub(crate) async fn sql(&mut self, sql: &str) -> u64 {
        let statement =
            JobStatement { sql: sql.into(), args: JobArgs::Positional(vec![]), changes: None };
        let job = WriteJob { statements: vec![statement], key: None };
        let terms = GroupTerms {
            epoch: self.head.epoch,
            time: self.now(),
            limits: JobLimits::default(),
            group_time: Duration::MAX,
            group_bytes: u64::MAX,
        };
        let run = self.leader.run(std::slice::from_ref(&job), &terms).unwrap();
        let GroupRun::Open(group) = run else { panic!("one job runs alone") };
        group.outcomes.into_iter().for_each(|outcome| drop(outcome.unwrap()));
        let next = self.head.advanced(CLAIM, &group.end.unwrap()).unwrap();
        let answer = self.direct.append_group(&self.head, &next, &group.entries, &[]).await;
        assert_eq!(answer, HeadAnswer::Ok);
        self.leader.commit().unwrap();
        self.head = next;
        self.head.index
    }

    /// Copies the leader's file.
    pub(crate) fn copy(&mut self) -> (PathBuf, Manifest) {
        let copy = self.fresh_path();
        let source = open_reader(&self.leader_file()).unwrap();
        let state = copy_file(&source, &copy).unwrap();
        let manifest = describe(&copy, &state).unwrap();
        (copy, manifest)
    }

    /// Copies the leader's file and puts its chunks.
    pub(crate) async fn upload(&mut self) -> Result<UploadedSnapshot, PublishError> {
        let (copy, manifest) = self.copy();
        upload(&self.store, &copy, manifest).await
    }

    /// Makes a snapshot of the leader's file.
    pub(crate) async fn snapshot(&mut self) -> Manifest {
        let uploaded = self.upload().await.unwrap();
        let manifest = uploaded.manifest().clone();
        uploaded.publish(&self.store).await.unwrap();
        manifest
    }

    /// Loads the newest snapshot.
    pub(crate) async fn load(&mut self) -> (PathBuf, Result<Option<FileState>, LoadSnapshotError>) {
        let path = self.fresh_path();
        let loaded = load_newest(&self.store, &self.head, &path).await;
        assert_eq!(path.exists(), matches!(loaded, Ok(Some(_))), "a file without a snapshot");
        (path, loaded)
    }

    /// Applies the feed to a file that was loaded: it then has the contents of the leader.
    pub(crate) async fn assert_follows(&self, path: &Path) {
        let mut follower = Follower::open(path, self.head.era).unwrap();
        loop {
            let at = *follower.state();
            let cursor = match at.digest {
                None => Cursor::START,
                Some(digest) => Cursor::behind(at.index - 1, digest),
            };
            let read = self.direct.entries(at.era, &cursor, Most::default(), Duration::ZERO);
            let entries: Vec<_> = read.await.unwrap().into_iter().map(|e| e.entry).collect();
            if entries.is_empty() {
                break;
            }
            assert!(follower.apply(&entries).unwrap() > 0);
        }
        assert_eq!(follower.state(), self.leader.state());
        assert_eq!(follower.scan().unwrap(), self.leader.state().content);
    }

    pub(crate) fn now(&self) -> Timestamp {
        consort_kernel::Clock::now(&*self.clock)
    }

    pub(crate) async fn delete(&self, key: &Key) {
        let delete = Operation::Delete(Cell::new(Kind::Bytes, key.clone()));
        let none: [Expect; 0] = [];
        self.direct.commit(none, vec![delete]).await;
    }

    pub(crate) async fn put(&self, key: &Key, value: &[u8]) {
        let put = Operation::Put { key: key.clone(), value: value.to_vec().into() };
        let none: [Expect; 0] = [];
        self.direct.commit(none, vec![put]).await;
    }

    /// How many chunks there are.
    pub(crate) async fn chunks(&self) -> usize {
        self.direct.scan(&self.direct.cells().chunks()).await.unwrap().len()
    }
}

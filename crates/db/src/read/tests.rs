//! Reads on the files of a leader and a reader, with the head in memory.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use consort_kernel::memory::{MemoryStore, ShardImage};
use consort_kernel::{ManualClock, Name, Operation, SeededEntropy, Timestamp};
use tokio::time::Instant;

use super::file::FileReader;
use super::pool::PoolFailure;
use super::{BatchReadOutcome, Consistency, ReadAnswer, ReadFailure, ReadJob, ReadLimits};
use crate::db::{Database, DatabaseOptions, Databases};
use crate::follow::Follower;
use crate::head::tests::{SQLITE, holder};
use crate::head::{DbHead, EraBase};
use crate::position::DbPosition;
use crate::settings::DatabaseSettings;
use crate::view::OwnNode;
use crate::worker::cell::WorkerState;
use crate::worker::shared::{LocalWorker, ServedFile, boot_time};
use crate::write::batch::{BatchCondition, BatchJob, BatchStep, StepOutcome};
use crate::write::control::TransactionControl;
use crate::write::group::{GroupRun, GroupTerms, GroupWriter};
use crate::write::job::{JobArgs, JobErrorKind, JobLimits, JobStatement, SqlValue, WriteJob};
use crate::write::queue::job_queue;

/// A query that makes its thread panic.
pub(super) const PANIC: &str = "SELECT 'panic'";
const DATABASE: u128 = 9;

struct ReadBed {
    _folder: tempfile::TempDir,
    store: Arc<MemoryStore>,
    database: Database,
    head: DbHead,
    writer: GroupWriter,
    follower: Follower,
    leader: LocalWorker,
    reader: LocalWorker,
    feed: Vec<bytes::Bytes>,
}

fn statement(sql: &str) -> JobStatement {
    JobStatement { sql: sql.into(), args: JobArgs::Positional(vec![]), changes: None }
}

fn queries(sql: &[&str]) -> ReadJob {
    ReadJob { queries: sql.iter().map(|sql| statement(sql)).collect() }
}

fn batch(sql: &[&str]) -> BatchJob {
    let step = |sql: &&str| BatchStep { statement: statement(sql), condition: None };
    BatchJob { steps: sql.iter().map(step).collect() }
}

/// One letter for each step: done, failed or skipped.
fn letters(outcomes: &[StepOutcome]) -> String {
    let letter = |outcome: &StepOutcome| match outcome {
        StepOutcome::Done(_) => 'd',
        StepOutcome::Failed(_) => 'f',
        StepOutcome::Skipped => 's',
    };
    outcomes.iter().map(letter).collect()
}

/// For reads that a worker takes: far away, since the machine may be busy.
fn soon() -> Instant {
    Instant::now() + Duration::from_secs(20)
}

/// For reads that no worker takes.
fn at_once() -> Instant {
    Instant::now() + Duration::from_millis(50)
}

fn at(index: u64) -> DbPosition {
    DbPosition { era: 1, index }
}

fn served(path: PathBuf, generation: u64) -> Option<ServedFile> {
    Some(ServedFile { path: Arc::new(path), generation, database: DATABASE })
}

impl ReadBed {
    async fn new() -> Self {
        ReadBed::with(|_| ()).await
    }

    async fn with(change: impl FnOnce(&mut DatabaseSettings)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Arc::new(MemoryStore::new(4, Arc::new(ManualClock::at(Timestamp(1_000)))));
        let mut settings = DatabaseSettings::new(Name::new("notes").unwrap());
        change(&mut settings);
        let options = DatabaseOptions {
            store: store.clone(),
            entropy: Arc::new(SeededEntropy::new(1)),
            folder: folder.path().to_owned(),
            node: OwnNode::new(|| None),
        };
        let (databases, _) = Databases::new(vec![settings], &options);
        let database = databases.get("notes").unwrap().clone();
        let path = |name: &str| folder.path().join(name);
        let writer = GroupWriter::open(&path("leader"), 1, 1 << 30).unwrap();
        let follower = Follower::open(&path("reader"), 1).unwrap();
        let worker = |id: u64, name: &str| {
            let worker = LocalWorker::new(id, id as u16);
            worker.say(|status| {
                status.state = WorkerState::Fit;
                status.file = served(path(name), id);
                status.applied = at(0);
            });
            worker.looked(boot_time());
            database.add_local(worker.clone());
            worker
        };
        let (leader, reader) = (worker(1, "leader"), worker(2, "reader"));
        leader.set_jobs(Some(job_queue().0));
        let head = DbHead::created(DATABASE, 4, SQLITE).claimed(holder(1, 7), SQLITE).unwrap();
        let feed = Vec::new();
        let mut bed = ReadBed {
            _folder: folder,
            store,
            database,
            head,
            writer,
            follower,
            leader,
            reader,
            feed,
        };
        bed.put_head().await;
        bed.write("CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT)").await;
        bed.write("INSERT INTO t VALUES (1, 'one')").await;
        bed.follow();
        bed
    }

    async fn put_head(&mut self) {
        let put =
            Operation::Put { key: self.database.store().cells().head(), value: self.head.encode() };
        self.database.store().commit([], vec![put]).await;
    }

    /// A write at the leader; the reader does not have it yet.
    async fn write(&mut self, sql: &str) {
        let terms = GroupTerms {
            epoch: 1,
            time: Timestamp(1),
            limits: JobLimits::default(),
            group_time: Duration::MAX,
            group_bytes: u64::MAX,
        };
        let job = WriteJob { statements: vec![statement(sql)], key: None };
        let GroupRun::Open(group) = self.writer.run(&[job], &terms).unwrap() else {
            panic!("one job runs alone");
        };
        group.outcomes.into_iter().for_each(|outcome| drop(outcome.unwrap()));
        self.feed.extend(group.entries);
        self.head = self.head.advanced(7, &group.end.unwrap()).unwrap();
        self.put_head().await;
        self.writer.commit().unwrap();
        let applied = self.writer.state().position();
        self.leader.say(|status| status.applied = applied);
    }

    /// The reader applies all entries.
    fn follow(&mut self) {
        let from = self.follower.state().index as usize;
        self.follower.apply(&self.feed[from..]).unwrap();
        let applied = self.follower.state().position();
        self.reader.say(|status| status.applied = applied);
    }

    async fn read(&self, sql: &str) -> Result<ReadAnswer, ReadFailure> {
        self.database.read(queries(&[sql]), Consistency::Any, None, soon()).await
    }

    async fn strong(&self, sql: &str) -> Result<ReadAnswer, ReadFailure> {
        self.database.read(queries(&[sql]), Consistency::Strong, None, soon()).await
    }

    async fn strong_at_once(&self, sql: &str) -> Result<ReadAnswer, ReadFailure> {
        self.database.read(queries(&[sql]), Consistency::Strong, None, at_once()).await
    }

    async fn refused(&self, sql: &str) -> JobErrorKind {
        match self.read(sql).await {
            Err(ReadFailure::Job(error)) => error.kind,
            other => panic!("{sql}: {other:?}"),
        }
    }

    fn image(&self) -> ShardImage {
        self.store.image(self.database.store().cells().shard())
    }

    fn roll_back(&self, image: ShardImage) {
        self.store.roll_back(self.database.store().cells().shard(), image);
    }
}

fn numbers(answer: &ReadAnswer) -> Vec<i64> {
    let number = |row: &Vec<SqlValue>| match row[0] {
        SqlValue::Integer(number) => number,
        ref other => panic!("{other:?}"),
    };
    answer.results[0].rows.iter().map(number).collect()
}

#[tokio::test]
async fn an_answer_names_its_snapshot_its_worker_and_its_columns() {
    let bed = ReadBed::new().await;
    let job = queries(&["SELECT a, b, a + 1 AS c FROM t", "SELECT count(*) FROM t"]);
    let answer = bed.database.read(job, Consistency::Any, None, soon()).await.unwrap();
    assert_eq!((answer.position, answer.worker), (at(2), 2));
    let rows = &answer.results[0];
    assert_eq!(rows.columns, ["a", "b", "c"]);
    assert_eq!(rows.types, [Some("INTEGER".to_owned()), Some("TEXT".to_owned()), None]);
    assert_eq!(rows.rows, [vec![1.into(), "one".into(), 2.into()]]);
    assert_eq!(answer.results[1].rows, [[SqlValue::Integer(1)]]);
    assert_eq!(bed.database.reads(), 1);
}

#[tokio::test]
async fn a_read_changes_nothing_and_reaches_nothing_of_the_worker() {
    let bed = ReadBed::new().await;
    let refused = [
        "INSERT INTO t VALUES (2, 'two')",
        "DELETE FROM t",
        "WITH x AS (SELECT 9) INSERT INTO t SELECT 9, 'nine'",
        "CREATE TABLE u (a)",
        "PRAGMA user_version = 3",
        "PRAGMA query_only = 0",
        "BEGIN",
        "COMMIT",
        "ATTACH '/etc/passwd' AS x",
        "SELECT * FROM _consort_keys",
        "SELECT 1; SELECT 2",
        "SELECT * FROM missing",
        "",
    ];
    for sql in refused {
        assert_eq!(bed.refused(sql).await, JobErrorKind::Request, "{sql}");
        let outcome = bed.database.read_batch(batch(&["SELECT 1", sql]), soon()).await;
        let is_control = TransactionControl::parse(sql).is_some();
        assert_eq!(outcome == Ok(BatchReadOutcome::NotRead), !is_control, "{sql}: {outcome:?}");
    }
    let allowed =
        ["PRAGMA table_info(t)", "PRAGMA user_version", "EXPLAIN DELETE FROM t", "VALUES (1)"];
    for sql in allowed {
        bed.read(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
    assert_eq!(numbers(&bed.read("SELECT count(*) FROM t").await.unwrap()), [1]);
    assert!(bed.database.reads() >= 5);
}

#[tokio::test]
async fn h18_an_answer_above_its_bounds_is_refused_over_all_queries_together() {
    let bed = ReadBed::with(|settings| {
        settings.max_rows = 3;
        settings.max_answer = 1_000;
    })
    .await;
    let two = "VALUES (1), (2)";
    assert_eq!(numbers(&bed.read("VALUES (1), (2), (3)").await.unwrap()), [1, 2, 3]);
    let both = bed.database.read(queries(&[two, two]), Consistency::Any, None, soon()).await;
    match both {
        Err(ReadFailure::Job(error)) => {
            assert_eq!((error.kind, error.statement), (JobErrorKind::AnswerTooLarge, Some(1)));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(bed.refused("SELECT zeroblob(2000)").await, JobErrorKind::AnswerTooLarge);
}

#[tokio::test]
async fn h17_a_read_that_runs_for_ever_is_ended() {
    let bed = ReadBed::with(|settings| settings.read_time = Duration::from_millis(50)).await;
    let endless =
        "WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT sum(x) FROM n";
    assert_eq!(bed.refused(endless).await, JobErrorKind::TimeLimit);
    assert_eq!(numbers(&bed.read("SELECT a FROM t").await.unwrap()), [1]);
}

#[tokio::test]
async fn h29_a_read_that_keeps_a_large_wal_from_being_reset_is_ended() {
    let mut bed = ReadBed::new().await;
    let path = bed.leader.status().file.unwrap().path;
    let mut reader = FileReader::with_wal_bound(&path, 100_000).unwrap();
    reader.begin().unwrap();
    bed.write("INSERT INTO t SELECT value, hex(randomblob(300)) FROM json_each('[5,6,7,8,9]')")
        .await;
    let limits =
        ReadLimits { read_time: Duration::from_secs(60), ..bed.database.settings().read_limits() };
    let slow = "WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n LIMIT 3000000)
        SELECT max(x) FROM n";
    let wal = std::fs::metadata(path.with_file_name("leader-wal")).unwrap().len();
    assert!(wal < 100_000, "{wal}");
    reader.run(&queries(&[slow]), &limits).unwrap();
    for n in 1..40 {
        bed.write(&format!("INSERT INTO t VALUES ({n}00, hex(randomblob(3000)))")).await;
    }
    let error = reader.run(&queries(&[slow]), &limits).unwrap_err();
    assert!(format!("{error:?}").contains("write-ahead log"), "{error:?}");
    reader.run(&queries(&["SELECT a FROM t"]), &limits).unwrap();
}

#[tokio::test]
async fn t14_columns_are_those_of_the_present_schema() {
    let mut bed = ReadBed::new().await;
    let columns = async |bed: &ReadBed| {
        let answer = bed.read("SELECT * FROM t").await.unwrap().results.remove(0);
        (answer.columns, answer.types.len(), answer.rows[0].len())
    };
    let names = |names: &[&str]| names.iter().map(|name| name.to_string()).collect::<Vec<_>>();
    for _ in 0..8 {
        assert_eq!(columns(&bed).await, (names(&["a", "b"]), 2, 2));
    }
    bed.write("ALTER TABLE t ADD COLUMN c").await;
    bed.follow();
    for _ in 0..8 {
        assert_eq!(columns(&bed).await, (names(&["a", "b", "c"]), 3, 3));
    }
}

#[tokio::test]
async fn t5_the_rowid_of_a_table_with_another_key_is_hidden_from_reads() {
    let mut bed = ReadBed::new().await;
    bed.write("CREATE TABLE k (a TEXT NOT NULL PRIMARY KEY)").await;
    bed.follow();
    for _ in 0..8 {
        assert_eq!(bed.refused("SELECT rowid FROM k").await, JobErrorKind::Request);
        bed.read("SELECT rowid FROM t").await.unwrap();
    }
}

#[tokio::test]
async fn h31_a_panic_costs_one_read_only() {
    let bed = ReadBed::new().await;
    for _ in 0..8 {
        assert_eq!(bed.read(PANIC).await, Err(ReadFailure::Panicked));
        assert_eq!(numbers(&bed.read("SELECT a FROM t").await.unwrap()), [1]);
    }
}

#[tokio::test]
async fn c6_a_strong_read_waits_until_its_worker_has_the_head_s_index() {
    let mut bed = ReadBed::new().await;
    bed.leader.say(|status| status.file = None);
    bed.write("INSERT INTO t VALUES (2, 'two')").await;
    let sql = "SELECT a FROM t ORDER BY a";
    assert_eq!(numbers(&bed.read(sql).await.unwrap()), [1]);
    assert_eq!(bed.strong_at_once(sql).await, Err(ReadFailure::Behind(at(3))));
    let database = bed.database.clone();
    let strong = tokio::spawn(async move {
        database.read(queries(&[sql]), Consistency::Strong, None, soon()).await
    });
    tokio::task::yield_now().await;
    bed.follow();
    let answer = strong.await.unwrap().unwrap();
    assert_eq!((numbers(&answer), answer.position, answer.worker), (vec![1, 2], at(3), 2));
}

#[tokio::test]
async fn a_reader_that_is_behind_leaves_a_strong_read_to_the_leader() {
    let mut bed = ReadBed::new().await;
    bed.write("INSERT INTO t VALUES (2, 'two')").await;
    assert_eq!(bed.strong("SELECT a FROM t").await.unwrap().worker, 1);
    assert_eq!(bed.read("SELECT a FROM t").await.unwrap().worker, 2);
    bed.follow();
    assert_eq!(bed.strong("SELECT a FROM t").await.unwrap().worker, 2);
}

#[tokio::test]
async fn a_read_after_a_position_waits_for_it_and_an_older_era_is_refused() {
    let mut bed = ReadBed::new().await;
    let after_by = async |bed: &ReadBed, position, consistency, take_by| {
        let job = queries(&["SELECT a FROM t"]);
        bed.database.read(job, consistency, Some(position), take_by).await.map(|a| a.position)
    };
    let after = async |bed: &ReadBed, position, consistency| {
        after_by(bed, position, consistency, soon()).await
    };
    for consistency in [Consistency::Any, Consistency::Strong] {
        assert_eq!(after(&bed, at(2), consistency).await, Ok(at(2)));
        let behind = after_by(&bed, at(3), consistency, at_once()).await;
        assert_eq!(behind, Err(ReadFailure::Behind(at(3))));
        let asked = DbPosition { era: 0, index: 90 };
        let older = after(&bed, asked, consistency).await;
        assert_eq!(older, Err(ReadFailure::OlderEra { asked, era: 1 }));
    }
    bed.write("INSERT INTO t VALUES (2, 'two')").await;
    assert_eq!(after(&bed, at(3), Consistency::Any).await, Ok(at(3)));
}

#[tokio::test]
async fn h4_a_worker_that_has_not_looked_lately_serves_no_default_read() {
    let bed = ReadBed::new().await;
    for worker in [&bed.leader, &bed.reader] {
        worker.forget_looks();
    }
    assert_eq!(bed.read("SELECT a FROM t").await, Err(ReadFailure::NoWorker));
    let max_stale = bed.database.settings().max_stale;
    bed.reader.looked(boot_time().saturating_sub(max_stale + Duration::from_secs(1)));
    assert_eq!(bed.read("SELECT a FROM t").await, Err(ReadFailure::NoWorker));
    bed.strong("SELECT a FROM t").await.unwrap();
    bed.reader.looked(boot_time());
    bed.read("SELECT a FROM t").await.unwrap();
}

#[tokio::test]
async fn h4_a_worker_of_another_database_or_a_former_era_serves_no_strong_read() {
    let mut bed = ReadBed::new().await;
    let own = bed.head.clone();
    bed.head.database = 1;
    bed.put_head().await;
    assert_eq!(bed.strong("SELECT a FROM t").await, Err(ReadFailure::NoWorker));
    let base = EraBase { origin: 5, chain: own.chain, content: own.content, sqlite: SQLITE };
    bed.head = own.restored(base);
    bed.put_head().await;
    let present = DbPosition { era: 2, index: 0 };
    let read = bed.strong_at_once("SELECT a FROM t").await;
    assert_eq!(read, Err(ReadFailure::Behind(present)));
}

#[tokio::test]
async fn h34_no_strong_read_is_answered_from_a_lower_head() {
    let mut bed = ReadBed::new().await;
    let before = bed.image();
    bed.write("INSERT INTO t VALUES (2, 'two')").await;
    bed.follow();
    bed.strong("SELECT a FROM t").await.unwrap();
    bed.roll_back(before.clone());
    assert!(matches!(bed.strong("SELECT a FROM t").await, Err(ReadFailure::Stopped(_))));
    // A node that never looked before finds it by the index of its workers.
    let other = ReadBed::new().await;
    for worker in [&other.leader, &other.reader] {
        worker.say(|status| status.applied = at(3));
    }
    assert!(matches!(other.strong("SELECT a FROM t").await, Err(ReadFailure::Stopped(_))));
    bed.read("SELECT a FROM t").await.unwrap();
}

#[tokio::test]
async fn h8_a_file_with_another_entry_at_the_head_s_index_serves_no_strong_read() {
    let mut bed = ReadBed::new().await;
    bed.head.digest = Some(consort_kernel::Digest::of(b"another entry"));
    bed.put_head().await;
    assert_eq!(bed.strong("SELECT a FROM t").await, Err(ReadFailure::NoWorker));
    bed.head = bed.head.stopped("entry 2 differs").unwrap();
    bed.put_head().await;
    let stopped = bed.strong("SELECT a FROM t").await;
    assert_eq!(stopped, Err(ReadFailure::Stopped("entry 2 differs".into())));
    bed.read("SELECT a FROM t").await.unwrap();
}

#[tokio::test]
async fn a_file_that_was_loaded_anew_is_opened_anew() {
    let bed = ReadBed::new().await;
    bed.leader.say(|status| status.state = WorkerState::Unfit);
    for _ in 0..8 {
        assert_eq!(numbers(&bed.read("SELECT count(*) FROM t").await.unwrap()), [1]);
    }
    let old = bed.reader.status().file.unwrap();
    let path = old.path.with_file_name("again");
    let mut again = Follower::open(&path, 1).unwrap();
    again.apply(&bed.feed[..1]).unwrap();
    bed.reader.say(|status| {
        status.file = served(path, 77);
        status.applied = at(1);
    });
    for _ in 0..8 {
        let answer = bed.read("SELECT count(*) FROM t").await.unwrap();
        assert_eq!((numbers(&answer), answer.position), (vec![0], at(1)));
    }
    let gone = bed.database.pool().on_file(&bed.reader, &old, soon(), |_, _| ()).await;
    assert_eq!(gone, Err(PoolFailure::NotServed));
    bed.reader.say(|status| status.file = None);
    assert_eq!(bed.read("SELECT 1").await, Err(ReadFailure::NoWorker));
}

#[tokio::test]
async fn a_snapshot_stays_the_same_over_multiple_requests() {
    let mut bed = ReadBed::new().await;
    let limits = bed.database.settings().read_limits();
    let count = async |snapshot: &mut super::snapshot::ReadSnapshot| {
        let answer = snapshot.run_batch(batch(&["SELECT count(*) FROM t"]), limits, soon()).await?;
        match &answer.outcomes[0] {
            StepOutcome::Done(result) => Ok(result.rows.clone()),
            other => panic!("{other:?}"),
        }
    };
    let one = |number: i64| Ok(vec![vec![SqlValue::Integer(number)]]);
    let mut snapshot = bed.database.open_snapshot(soon()).await.unwrap();
    assert_eq!(snapshot.position(), at(2));
    bed.write("INSERT INTO t VALUES (2, 'two')").await;
    bed.follow();
    assert_eq!(count(&mut snapshot).await, one(1));
    let steps = batch(&["DELETE FROM t", "SELECT * FROM missing", "BEGIN", "SELECT 1", "COMMIT"]);
    let answer = snapshot.run_batch(steps, limits, soon()).await.unwrap();
    assert_eq!((letters(&answer.outcomes).as_str(), answer.is_in_transaction), ("fffdd", false));
    assert_eq!(count(&mut snapshot).await, one(1));
    let mut later = bed.database.open_snapshot(soon()).await.unwrap();
    assert_eq!(count(&mut later).await, one(2));
    bed.reader.say(|status| status.file = None);
    assert_eq!(count(&mut later).await, Err(ReadFailure::NoWorker));
    assert_eq!(bed.database.reads(), 2);
}

#[tokio::test]
async fn a_batch_of_reads_sees_one_snapshot_and_its_conditions_hold() {
    let bed = ReadBed::new().await;
    let cases: &[(&[&str], &str, bool)] = &[
        (&["BEGIN", "SELECT a FROM t", "COMMIT"], "ddd", false),
        (&["BEGIN TRANSACTION READONLY", "SELECT a FROM t"], "dd", true),
        (&["BEGIN", "BEGIN", "SAVEPOINT s", "RELEASE s", "ROLLBACK"], "dfddd", false),
        (&["COMMIT", "ROLLBACK", "SAVEPOINT s", "SELECT a FROM t"], "fffd", false),
        (&["PRAGMA foreign_keys = on", "SELECT abs(-9223372036854775807 - 1)"], "df", false),
    ];
    for (steps, expected, is_open) in cases {
        match bed.database.read_batch(batch(steps), soon()).await.unwrap() {
            BatchReadOutcome::Read(answer) => {
                assert_eq!(letters(&answer.outcomes), *expected, "{steps:?}");
                assert_eq!((answer.is_in_transaction, answer.position), (*is_open, at(2)));
            }
            BatchReadOutcome::NotRead => panic!("{steps:?}"),
        }
    }
    let mut conditional = batch(&["SELECT abs(-9223372036854775807 - 1)", "SELECT 1", "SELECT 2"]);
    conditional.steps[1].condition = Some(BatchCondition::Ok(0));
    conditional.steps[2].condition = Some(BatchCondition::Error(0));
    match bed.database.read_batch(conditional, soon()).await.unwrap() {
        BatchReadOutcome::Read(answer) => assert_eq!(letters(&answer.outcomes), "fsd"),
        BatchReadOutcome::NotRead => panic!("it only reads"),
    }
}

#[tokio::test]
async fn a_statement_is_described_without_being_run() {
    let bed = ReadBed::new().await;
    let sql = "INSERT INTO t VALUES (:a, ?) RETURNING b";
    let shape = bed.database.describe(sql.into(), soon()).await.unwrap();
    assert_eq!(shape.parameters, [Some(":a".to_owned()), None]);
    assert_eq!(shape.columns, [("b".to_owned(), Some("TEXT".to_owned()))]);
    assert!(!shape.is_readonly && !shape.is_explain);
    let shape = bed.database.describe("EXPLAIN SELECT 1".into(), soon()).await.unwrap();
    assert!(shape.is_readonly && shape.is_explain);
    let error = bed.database.describe("SELECT * FROM missing".into(), soon()).await.unwrap_err();
    assert!(error.to_string().contains("no such table"), "{error}");
    assert_eq!(numbers(&bed.read("SELECT count(*) FROM t").await.unwrap()), [1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_reads_and_writes_at_once_see_whole_states_in_order() {
    let mut bed = ReadBed::new().await;
    bed.write("UPDATE t SET b = 2").await;
    bed.follow();
    let read = async |database: Database, consistency: Consistency| {
        let mut last = at(0);
        for _ in 0..200 {
            let job = queries(&["SELECT b FROM t", "SELECT b FROM t"]);
            let take_by = Instant::now() + Duration::from_secs(20);
            let answer = database.read(job, consistency, Some(last), take_by).await.unwrap();
            assert!(answer.position >= last);
            last = answer.position;
            let value = SqlValue::from(last.index.to_string().as_str());
            let is_state = |rows: &super::QueryRows| rows.rows == [[value.clone()]];
            assert!(last == at(3) || answer.results.iter().all(is_state), "{answer:?}");
        }
    };
    let readers: Vec<_> = (0..16)
        .map(|n| {
            let consistency = if n % 2 == 0 { Consistency::Any } else { Consistency::Strong };
            tokio::spawn(read(bed.database.clone(), consistency))
        })
        .collect();
    for n in 4..100 {
        bed.write(&format!("UPDATE t SET b = {n}")).await;
        if n % 3 == 0 {
            bed.follow();
        }
    }
    bed.follow();
    for reader in readers {
        reader.await.unwrap();
    }
    assert_eq!(bed.database.reads(), 16 * 200);
}

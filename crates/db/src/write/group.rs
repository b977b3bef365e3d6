//! Groups: jobs that share one local transaction, one store commit and one fsync (steps 2 to 4 and 7 of the
//! write path). The store's part lies between [`GroupWriter::run`] and [`GroupWriter::commit`].

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use bytes::Bytes;
use consort_kernel::{Digest, Timestamp};
use rusqlite::Connection;

use super::job::{JobAnswer, JobError, JobErrorKind, JobLimits, JobOutcome, WriteJob};
use super::keys;
use super::statement::StatementRunner;
use super::steps::StepState;
use crate::entry::{EntryGroup, EntryPart, SetValues, entry_digest};
use crate::hash::ContentHash;
use crate::head::GroupEnd;
use crate::local::FileState;
use crate::sqlite::authorizer::{SqlGuard, SqlScope};
use crate::sqlite::connect::open_writer;
use crate::sqlite::deadline::{SESSION_BYTES, StatementBounds};
use crate::sqlite::scan::{add_changes, content_hash};
use crate::sqlite::session::{RecordedConnection, SessionError};
use crate::sqlite::shape::tables_with_hidden_rowid;

/// How often a group is run again without a job that ended its transaction; then each job runs alone (T11).
const RERUNS: usize = 3;

/// The leader's writer on one file.
#[derive(Debug)]
pub struct GroupWriter {
    pub(super) file: RecordedConnection,
    pub(super) runner: StatementRunner,
    /// The state of the file, committed.
    pub(super) at: FileState,
    /// `sqlite_sequence`, committed (T4).
    pub(super) sequences: BTreeMap<String, i64>,
    pub(super) open: Option<OpenTransaction>,
    /// The interactive transaction that has the writer.
    pub(super) transaction: Option<StepState>,
}

/// The state that the open transaction leads to.
#[derive(Debug)]
pub(super) struct OpenTransaction {
    pub(super) next: FileState,
    pub(super) sequences: BTreeMap<String, i64>,
    pub(super) changes_schema: bool,
}

/// The leader's terms for one group.
#[derive(Clone, Copy, Debug)]
pub struct GroupTerms {
    /// Its epoch.
    pub epoch: u64,
    /// The store's time.
    pub time: Timestamp,
    /// The bounds of each job.
    pub limits: JobLimits,
    /// The group takes no further job after this time.
    pub group_time: Duration,
    /// The group takes no further job once its changes take this much memory.
    pub group_bytes: u64,
}

/// The end of a run.
#[derive(Debug)]
pub enum GroupRun {
    /// The local transaction is open; the store decides.
    Open(OpenGroup),
    /// The jobs cannot share a transaction: run each of them alone. Nothing was changed.
    RunAlone,
}

/// A group that waits for the store.
#[derive(Debug)]
pub struct OpenGroup {
    /// One for each job that the group has taken, to be told when the group is settled (H6). The jobs behind them
    /// were not run: they belong to the next group.
    pub outcomes: Vec<JobOutcome>,
    /// The entries to append; empty if the group changes nothing. Then the leader looks at the head before
    /// it answers (H9).
    pub entries: Vec<Bytes>,
    /// The end of the entries, for the next head.
    pub end: Option<GroupEnd>,
}

/// A failure of the writer itself: it gives the lead up.
#[derive(Debug, thiserror::Error)]
pub enum WriterError {
    /// SQLite failed in a statement of the writer.
    #[error("the writer's file failed: {0}")]
    Sqlite(#[from] rusqlite::Error),
    /// The changes could not be recorded.
    #[error("the writer's changes could not be recorded: {0}")]
    Session(#[from] SessionError),
}

/// The entries of a group, and where they end; neither if it changes nothing.
pub(super) type ClosedGroup = (Vec<Bytes>, Option<GroupEnd>);

/// A job that ended the transaction of the whole group.
pub(super) struct Culprit {
    job: usize,
    error: JobError,
}

/// Why a run of the jobs did not reach its end.
pub(super) enum RunEnd {
    Culprit(Culprit),
    Failed(WriterError),
}

impl From<WriterError> for RunEnd {
    fn from(error: WriterError) -> Self {
        RunEnd::Failed(error)
    }
}

impl From<rusqlite::Error> for RunEnd {
    fn from(error: rusqlite::Error) -> Self {
        RunEnd::Failed(error.into())
    }
}

impl From<SessionError> for RunEnd {
    fn from(error: SessionError) -> Self {
        RunEnd::Failed(error.into())
    }
}

impl GroupWriter {
    /// Opens the file for writing. `era` counts if the file is new. It grows to `max_size` bytes at most.
    pub fn open(path: &Path, era: u64, max_size: u64) -> Result<Self, WriterError> {
        let mut connection = open_writer(path)?;
        limit_size(&connection, max_size)?;
        let guard = SqlGuard::install(&mut connection)?;
        let (bounds, memory) = StatementBounds::install(&mut connection)?;
        let file = RecordedConnection::new(connection)?;
        memory.fill(file.memory_probe());
        let at = FileState::read(file.connection())?.unwrap_or(FileState::empty(era));
        guard.hide_rowids(tables_with_hidden_rowid(file.connection())?);
        let sequences = read_sequences(file.connection())?;
        let runner = StatementRunner::new(guard, bounds);
        Ok(GroupWriter { file, runner, at, sequences, open: None, transaction: None })
    }

    /// The committed state of the file.
    pub fn state(&self) -> &FileState {
        &self.at
    }

    /// Scans the file for its content hash.
    pub fn scan(&self) -> Result<ContentHash, WriterError> {
        Ok(content_hash(self.file.connection())?)
    }

    /// Runs the jobs in one transaction and leaves it open. A request with DDL runs alone (C7).
    pub fn run(&mut self, jobs: &[WriteJob], terms: &GroupTerms) -> Result<GroupRun, WriterError> {
        if self.open.is_some() || self.transaction.is_some() {
            self.roll_back()?;
        }
        match jobs {
            [only] if only.is_schema_change() => {
                self.run_schema_job(only, terms).map(GroupRun::Open)
            }
            _ if jobs.iter().any(WriteJob::is_schema_change) => Ok(GroupRun::RunAlone),
            _ => self.run_rows(jobs, terms),
        }
    }

    /// Makes the open group final: the store has it, or it changes nothing.
    pub fn commit(&mut self) -> Result<(), WriterError> {
        let Some(open) = self.open.take() else { return Ok(()) };
        self.file.connection().execute_batch("COMMIT")?;
        self.at = open.next;
        self.sequences = open.sequences;
        self.after_schema(open.changes_schema)
    }

    /// Takes the open group back: the store does not have it.
    pub fn roll_back(&mut self) -> Result<(), WriterError> {
        self.transaction = None;
        let changes_schema = self.open.take().is_some_and(|open| open.changes_schema);
        if !self.file.connection().is_autocommit() {
            self.file.connection().execute_batch("ROLLBACK")?;
        }
        self.after_schema(changes_schema)
    }

    fn run_rows(&mut self, jobs: &[WriteJob], terms: &GroupTerms) -> Result<GroupRun, WriterError> {
        let mut culprits = BTreeMap::new();
        loop {
            match self.try_rows(jobs, terms, &culprits) {
                Ok(group) => return Ok(group),
                Err(RunEnd::Failed(error)) => {
                    self.roll_back()?;
                    return Err(error);
                }
                Err(RunEnd::Culprit(culprit)) => {
                    self.roll_back()?;
                    if culprits.len() >= RERUNS && jobs.len() > 1 {
                        return Ok(GroupRun::RunAlone);
                    }
                    culprits.insert(culprit.job, culprit.error);
                }
            }
        }
    }

    fn try_rows(
        &mut self,
        jobs: &[WriteJob],
        terms: &GroupTerms,
        culprits: &BTreeMap<usize, JobError>,
    ) -> Result<GroupRun, RunEnd> {
        self.file.begin()?;
        self.file.connection().execute_batch("BEGIN IMMEDIATE")?;
        let mut outcomes = Vec::with_capacity(jobs.len());
        let began = Instant::now();
        for (n, job) in jobs.iter().enumerate() {
            let is_full =
                began.elapsed() >= terms.group_time || self.file.memory() > terms.group_bytes;
            if n > 0 && is_full {
                break;
            }
            outcomes.push(match culprits.get(&n) {
                Some(error) => Err(error.clone()),
                None => self.run_job(n, job, terms)?,
            });
        }
        let changeset = self.recorded()?;
        let mut next = self.at;
        add_changes(&mut next.content, &changeset)?;
        let parts = if changeset.is_empty() { vec![] } else { vec![EntryPart::Rows(changeset)] };
        let closed = self.close(next, parts, None, false, terms)?;
        match closed {
            Some((entries, end)) => Ok(GroupRun::Open(OpenGroup { outcomes, entries, end })),
            None if jobs.len() > 1 => {
                self.roll_back()?;
                Ok(GroupRun::RunAlone)
            }
            None => Err(RunEnd::Culprit(Culprit { job: 0, error: too_large() })),
        }
    }

    /// Runs one job in its savepoint. An error of the job is its outcome and costs the others nothing.
    fn run_job(
        &mut self,
        n: usize,
        job: &WriteJob,
        terms: &GroupTerms,
    ) -> Result<JobOutcome, RunEnd> {
        let connection = self.file.connection();
        if let Some(key) = &job.key {
            match keys::look_up(connection, key, terms.time)? {
                Ok(None) => {}
                Ok(Some(answer)) => return Ok(Ok(answer)),
                Err(error) => return Ok(Err(error)),
            }
        }
        connection.prepare_cached("SAVEPOINT job")?.execute([])?;
        self.file.forget_last_insert();
        self.runner.begin_job(terms.limits.write_time, &terms.limits);
        let ran = self.run_statements(job);
        self.runner.end_job();
        let connection = self.file.connection();
        if connection.is_autocommit() {
            // The statement took the whole transaction with it (T11).
            let error = ran.err().unwrap_or_else(|| {
                JobError::new(JobErrorKind::Request, "the request ended its transaction")
            });
            return Err(RunEnd::Culprit(Culprit { job: n, error }));
        }
        let outcome = match ran {
            Ok(results) => {
                if let Some(key) = &job.key {
                    keys::remember(connection, key, &results, self.at.index + 1, terms.time)?;
                }
                Ok(JobAnswer::New(results))
            }
            Err(error) => {
                connection.prepare_cached("ROLLBACK TO job")?.execute([])?;
                Err(error)
            }
        };
        connection.prepare_cached("RELEASE job")?.execute([])?;
        Ok(outcome)
    }

    fn run_statements(
        &mut self,
        job: &WriteJob,
    ) -> Result<Vec<super::job::StatementResult>, JobError> {
        let mut results = Vec::with_capacity(job.statements.len());
        for (n, statement) in job.statements.iter().enumerate() {
            let connection = self.file.connection();
            let ran = self.runner.run(connection, statement, SqlScope::Rows);
            let result = ran.map_err(|error| error.at(n))?;
            if connection.is_autocommit() {
                break;
            }
            if self.file.memory() > SESSION_BYTES {
                return Err(too_large().at(n));
            }
            check_changes(statement.changes, result.changes).map_err(|error| error.at(n))?;
            results.push(result);
        }
        self.check_deferred()?;
        Ok(results)
    }

    /// A deferred foreign key would pass `RELEASE` and fail `COMMIT`, when the store has the entry (H37).
    pub(super) fn check_deferred(&self) -> Result<(), JobError> {
        match self.file.has_deferred_violations() {
            Ok(false) => Ok(()),
            Ok(true) => Err(JobError {
                code: Some(rusqlite::ffi::SQLITE_CONSTRAINT_FOREIGNKEY),
                ..JobError::new(JobErrorKind::Constraint, "FOREIGN KEY constraint failed")
            }),
            Err(error) => Err(JobError::new(JobErrorKind::Request, error.to_string())),
        }
    }

    /// The changes so far. `fts5` keeps rows in memory until a savepoint or the commit, so a savepoint makes it
    /// write them while the recording runs (T15).
    pub(super) fn recorded(&self) -> Result<Bytes, WriterError> {
        let connection = self.file.connection();
        connection.prepare_cached("SAVEPOINT flush")?.execute([])?;
        connection.prepare_cached("RELEASE flush")?.execute([])?;
        Ok(self.file.changeset()?)
    }

    /// Adds the values that no changeset carries, makes the entries, and notes the next state in the file.
    /// `None` if the entries would be too large.
    pub(super) fn close(
        &mut self,
        mut next: FileState,
        mut parts: Vec<EntryPart>,
        user_version: Option<i64>,
        changes_schema: bool,
        terms: &GroupTerms,
    ) -> Result<Option<ClosedGroup>, WriterError> {
        let sequences = read_sequences(self.file.connection())?;
        let set = SetValues { sequences: differences(&self.sequences, &sequences), user_version };
        if !set.is_empty() {
            parts.push(EntryPart::Set(set));
        }
        if parts.is_empty() {
            self.open = Some(OpenTransaction { next, sequences, changes_schema });
            return Ok(Some((Vec::new(), None)));
        }
        let group = EntryGroup {
            epoch: terms.epoch,
            time: terms.time,
            sqlite: rusqlite::version_number() as u32,
            chain_before: self.at.chain,
            content_after: next.content,
            parts,
        };
        let Ok(entries) = group.encode() else { return Ok(None) };
        let digest = entries.last().map_or(Digest([0; Digest::LENGTH]), |last| entry_digest(last));
        next.index += entries.len() as u64;
        next.digest = Some(digest);
        next.chain = group.chain_after();
        next.write(self.file.connection())?;
        let end = GroupEnd {
            entries: entries.len() as u64,
            digest,
            chain: next.chain,
            content: next.content,
        };
        self.open = Some(OpenTransaction { next, sequences, changes_schema });
        Ok(Some((entries, Some(end))))
    }

    /// Restores the state of a connection that runs rows, after a group that changed the schema.
    pub(super) fn after_schema(&mut self, changes_schema: bool) -> Result<(), WriterError> {
        if changes_schema {
            let connection = self.file.connection();
            self.runner.forget(connection);
            connection.pragma_update(None, "foreign_keys", true)?;
            self.runner.guard.hide_rowids(tables_with_hidden_rowid(connection)?);
        }
        Ok(())
    }
}

pub(super) fn check_changes(wanted: Option<u64>, found: u64) -> Result<(), JobError> {
    match wanted {
        Some(wanted) if wanted != found => {
            let message =
                format!("the statement changed {found} rows, and the request expects {wanted}");
            Err(JobError::new(JobErrorKind::Expectation, message))
        }
        _ => Ok(()),
    }
}

pub(super) fn too_large() -> JobError {
    let message = format!(
        "the request changes more than {} bytes of rows: split it into smaller ones",
        crate::entry::GROUP_BYTES
    );
    JobError::new(JobErrorKind::TooLarge, message)
}

/// SQLite counts in pages, and refuses a page beyond the limit with `SQLITE_FULL`.
fn limit_size(connection: &Connection, max_size: u64) -> rusqlite::Result<()> {
    let page: u32 = connection.query_row("PRAGMA page_size", [], |row| row.get(0))?;
    let pages = i64::try_from(max_size / u64::from(page.max(1))).unwrap_or(i64::MAX).max(1);
    connection.pragma_update_and_check(None, "max_page_count", pages, |_| Ok(()))
}

/// `sqlite_sequence`, which exists only with a table that counts.
pub(super) fn read_sequences(connection: &Connection) -> rusqlite::Result<BTreeMap<String, i64>> {
    if !connection.table_exists(None::<&str>, "sqlite_sequence")? {
        return Ok(BTreeMap::new());
    }
    let mut statement = connection.prepare_cached("SELECT name, seq FROM sqlite_sequence")?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    rows.collect()
}

fn differences(
    before: &BTreeMap<String, i64>,
    after: &BTreeMap<String, i64>,
) -> Vec<(String, Option<i64>)> {
    let changed = after.iter().filter(|(name, counter)| before.get(*name) != Some(counter));
    let changed = changed.map(|(name, counter)| (name.clone(), Some(*counter)));
    let gone = before.keys().filter(|name| !after.contains_key(*name));
    changed.chain(gone.map(|name| (name.clone(), None))).collect()
}

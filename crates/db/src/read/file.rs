//! A connection that reads one file: it runs queries within one snapshot, and nothing but queries.

use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;

use super::{QueryRows, ReadJob, ReadLimits, StatementShape};
use crate::hash::SchemaChain;
use crate::local::FileState;
use crate::sqlite::authorizer::{SqlGuard, SqlScope};
use crate::sqlite::connect::open_reader;
use crate::sqlite::deadline::{StatementBounds, WAL_BYTES};
use crate::sqlite::shape::tables_with_hidden_rowid;
use crate::write::job::{JobError, JobErrorKind, JobStatement};
use crate::write::statement::{
    AnswerBounds, CollectedRows, RunError, bind, check_text, collect, prepare_for_user,
};

/// A reader's connection to one file.
#[derive(Debug)]
pub(crate) struct FileReader {
    connection: Connection,
    guard: SqlGuard,
    bounds: StatementBounds,
    /// The schema for which statements are cached.
    chain: Option<SchemaChain>,
}

/// Why a job has no rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum QueryError {
    /// A statement cannot be prepared here, or changes data: it may be one for the leader.
    NotRead(JobError),
    /// A query failed.
    Failed(JobError),
}

impl FileReader {
    /// Opens a file that a worker has made.
    pub(crate) fn open(path: &Path) -> rusqlite::Result<Self> {
        FileReader::with_wal_bound(path, WAL_BYTES)
    }

    pub(super) fn with_wal_bound(path: &Path, wal_bytes: u64) -> rusqlite::Result<Self> {
        let mut connection = open_reader(path)?;
        let guard = SqlGuard::install(&mut connection)?;
        let bounds = StatementBounds::install_for_reads(&mut connection, path, wal_bytes)?;
        Ok(FileReader { connection, guard, bounds, chain: None })
    }

    /// Begins a read transaction. Its snapshot is the file as of this call, and the state is that of the snapshot.
    pub(crate) fn begin(&mut self) -> rusqlite::Result<FileState> {
        self.connection.prepare_cached("BEGIN")?.execute([])?;
        let state = match FileState::read(&self.connection) {
            Ok(Some(state)) => self.follow_schema(&state).map(|()| state),
            Ok(None) => Err(rusqlite::Error::QueryReturnedNoRows),
            Err(error) => Err(error),
        };
        state.inspect_err(|_| self.end())
    }

    /// Ends the read transaction.
    pub(crate) fn end(&mut self) {
        if !self.connection.is_autocommit()
            && let Err(error) = self.connection.execute_batch("ROLLBACK")
        {
            tracing::warn!(%error, "a read transaction did not end");
        }
    }

    /// Runs the queries in order, within the open transaction.
    pub(crate) fn run(
        &mut self,
        job: &ReadJob,
        limits: &ReadLimits,
    ) -> Result<Vec<QueryRows>, QueryError> {
        let mut answer = self.begin_job(limits);
        let query = |(n, query): (usize, &JobStatement)| {
            self.query(query, &mut answer).map_err(|error| error.at(n))
        };
        let results = job.queries.iter().enumerate().map(query).collect();
        self.end_job();
        results
    }

    /// The statements that follow have this much time, and this much of an answer, together.
    pub(super) fn begin_job(&self, limits: &ReadLimits) -> AnswerBounds {
        self.bounds.begin(limits.read_time);
        AnswerBounds::new(limits.max_rows, limits.max_answer)
    }

    pub(super) fn end_job(&self) {
        self.bounds.end();
    }

    /// The shape of a statement, which is prepared and not run. A statement that changes data has one as well.
    pub(crate) fn describe(
        &mut self,
        sql: &str,
        time: Duration,
    ) -> Result<StatementShape, JobError> {
        self.bounds.begin(time);
        let shape = self.prepare_shape(sql);
        self.bounds.end();
        let shape = shape.map_err(|error| error.explain(&self.guard, &self.bounds));
        self.guard.own();
        shape
    }

    fn prepare_shape(&self, sql: &str) -> Result<StatementShape, RunError> {
        check_text(sql)?;
        self.guard.prepare(SqlScope::Rows);
        let prepared = prepare_for_user(&self.connection, sql)?;
        let name = |n: usize| prepared.parameter_name(n).map(str::to_owned);
        let column = |column: rusqlite::Column<'_>| {
            (column.name().to_owned(), column.decl_type().map(str::to_owned))
        };
        Ok(StatementShape {
            parameters: (1..=prepared.parameter_count()).map(name).collect(),
            columns: prepared.columns().map(column).collect(),
            is_explain: prepared.is_explain() != 0,
            is_readonly: prepared.readonly() || prepared.is_explain() != 0,
        })
    }

    /// Runs one query of a job that has begun.
    pub(super) fn query(
        &self,
        query: &JobStatement,
        answer: &mut AnswerBounds,
    ) -> Result<QueryRows, QueryError> {
        let explain = |error: RunError| error.explain(&self.guard, &self.bounds);
        let rows = self.query_guarded(query, answer).map_err(|error| match error {
            Unanswered::NotPrepared(error) => QueryError::NotRead(explain(error)),
            Unanswered::Failed(error) => QueryError::Failed(explain(error)),
        });
        self.guard.own();
        rows
    }

    fn query_guarded(
        &self,
        query: &JobStatement,
        answer: &mut AnswerBounds,
    ) -> Result<QueryRows, Unanswered> {
        #[cfg(test)]
        assert!(query.sql != super::tests::PANIC, "a test asks for a panic");
        check_text(&query.sql).map_err(|error| Unanswered::NotPrepared(error.into()))?;
        self.guard.prepare(SqlScope::Rows);
        let prepared = prepare_for_user(&self.connection, &query.sql);
        let mut prepared = prepared.map_err(|error| Unanswered::NotPrepared(error.into()))?;
        // An explanation only lists the steps.
        if !prepared.readonly() && prepared.is_explain() == 0 {
            let message = "the statement changes data, and this request only reads";
            let error = JobError::new(JobErrorKind::Request, message);
            return Err(Unanswered::NotPrepared(error.into()));
        }
        self.guard.run();
        bind(&mut prepared, &query.args)?;
        let CollectedRows { columns, types, rows } = collect(&mut prepared, answer)?;
        Ok(QueryRows { columns, types, rows })
    }

    /// After a change of the schema, cached statements may mean something else (T14).
    fn follow_schema(&mut self, state: &FileState) -> rusqlite::Result<()> {
        if self.chain != Some(state.chain) {
            self.connection.flush_prepared_statement_cache();
            self.guard.hide_rowids(tables_with_hidden_rowid(&self.connection)?);
            self.chain = Some(state.chain);
        }
        Ok(())
    }
}

impl QueryError {
    fn at(self, query: usize) -> Self {
        match self {
            QueryError::NotRead(error) => QueryError::NotRead(error.at(query)),
            QueryError::Failed(error) => QueryError::Failed(error.at(query)),
        }
    }
}

/// Why a query has no rows, and whether it was prepared.
enum Unanswered {
    NotPrepared(RunError),
    Failed(RunError),
}

impl From<RunError> for Unanswered {
    fn from(error: RunError) -> Self {
        Unanswered::Failed(error)
    }
}

//! Runs one statement of a user, within its bounds: on the writer's connection, or on a reader's.

use std::collections::HashMap;
use std::time::Duration;

use rusqlite::{CachedStatement, Column, Connection, Statement, ffi};

use super::job::{
    JobArgs, JobError, JobErrorKind, JobLimits, JobStatement, SqlValue, StatementResult,
};
use super::text::{forbidden, has_second_statement, is_blank_text};
use crate::sqlite::authorizer::{SqlGuard, SqlScope};
use crate::sqlite::deadline::StatementBounds;

/// Statements of which the target is remembered; then all are forgotten, together with the cache.
const TARGETS: usize = 1_000;

/// Stands before each text of a user in the statement cache. Without it, a user who sends the very text of a
/// statement of the worker would get that statement, which no guard has looked at (H19).
const USER_MARK: &str = "/*user*/";

/// The means to run statements: the guard, the bounds, and the tables that cached statements insert into.
#[derive(Debug)]
pub(crate) struct StatementRunner {
    pub(crate) guard: SqlGuard,
    pub(crate) bounds: StatementBounds,
    /// What the running job may still answer.
    answer: AnswerBounds,
    /// For each prepared text, whether the rowids of its target are the same on every worker.
    has_shared_rowid: HashMap<String, bool>,
}

impl StatementRunner {
    pub(crate) fn new(guard: SqlGuard, bounds: StatementBounds) -> Self {
        let answer = AnswerBounds::new(0, 0);
        StatementRunner { guard, bounds, answer, has_shared_rowid: HashMap::new() }
    }

    /// A job begins: its statements have this much time and this much of an answer together.
    pub(crate) fn begin_job(&mut self, time: Duration, limits: &JobLimits) {
        self.bounds.begin(time);
        self.answer = AnswerBounds::new(limits.max_rows, limits.max_answer);
    }

    /// The job is over: the worker's own statements follow.
    pub(crate) fn end_job(&mut self) {
        self.bounds.end();
    }

    /// Forgets all statements: after a change of the schema they may mean something else (T14).
    pub(crate) fn forget(&mut self, connection: &Connection) {
        connection.flush_prepared_statement_cache();
        self.has_shared_rowid.clear();
    }

    /// Runs a statement to its end. After an error the transaction may be gone (T11).
    pub(crate) fn run(
        &mut self,
        connection: &Connection,
        statement: &JobStatement,
        scope: SqlScope,
    ) -> Result<StatementResult, JobError> {
        let outcome = self.run_guarded(connection, statement, scope);
        let outcome = outcome.map_err(|error| error.explain(&self.guard, &self.bounds));
        self.guard.own();
        outcome
    }

    fn run_guarded(
        &mut self,
        connection: &Connection,
        statement: &JobStatement,
        scope: SqlScope,
    ) -> Result<StatementResult, RunError> {
        if self.has_shared_rowid.len() >= TARGETS {
            self.forget(connection);
        }
        check_text(&statement.sql)?;
        self.guard.prepare(scope);
        // A schema request changes what texts mean, so it prepares each anew.
        let mut cached;
        let mut fresh;
        let prepared: &mut Statement<'_> = match scope {
            SqlScope::Schema => {
                fresh = connection.prepare(&statement.sql)?;
                &mut fresh
            }
            SqlScope::Own | SqlScope::Rows => {
                cached = prepare_for_user(connection, &statement.sql)?;
                &mut cached
            }
        };
        if let Some(is_shared) = self.guard.inserts_with_shared_rowid() {
            self.has_shared_rowid.insert(statement.sql.clone(), is_shared);
        }
        let is_shared = self.has_shared_rowid.get(&statement.sql).copied().unwrap_or(false);
        self.guard.run();
        bind(prepared, &statement.args)?;
        let before = connection.total_changes();
        let is_write = !prepared.readonly();
        let answer = collect(prepared, &mut self.answer)?;
        let changes = match connection.total_changes() != before {
            true => connection.changes(),
            false => 0,
        };
        let last_id = connection.last_insert_rowid();
        let last_id = (is_write && is_shared && changes > 0 && last_id != 0).then_some(last_id);
        let CollectedRows { columns, types, rows } = answer;
        Ok(StatementResult { changes, last_id, columns, types, rows })
    }
}

/// Refuses a text that SQLite need not see: none or multiple statements, or one that is denied.
pub(crate) fn check_text(sql: &str) -> Result<(), JobError> {
    let refuse = |message: &str| Err(JobError::new(JobErrorKind::Request, message));
    if is_blank_text(sql) {
        return refuse("there is no statement in this text");
    }
    if has_second_statement(sql) {
        return refuse("a text has one statement: send each of multiple statements by itself");
    }
    forbidden(sql).map_or(Ok(()), refuse)
}

/// The prepared statement of a user's text, from the connection's cache if it is there. The guard must have been
/// told its scope.
pub(crate) fn prepare_for_user<'c>(
    connection: &'c Connection,
    sql: &str,
) -> rusqlite::Result<CachedStatement<'c>> {
    connection.prepare_cached(&format!("{USER_MARK}{sql}"))
}

/// Why a statement did not run to its end.
#[derive(Debug)]
pub(crate) enum RunError {
    Job(JobError),
    Sqlite(rusqlite::Error),
}

impl RunError {
    /// The error in words for the client. The guard tells the reason of a denial.
    pub(crate) fn explain(self, guard: &SqlGuard, bounds: &StatementBounds) -> JobError {
        match (self, guard.take_denial()) {
            (RunError::Job(error), _) => error,
            (RunError::Sqlite(_), Some(reason)) => JobError::new(JobErrorKind::Request, reason),
            (RunError::Sqlite(error), None) => explain(bounds, &error),
        }
    }
}

/// The error of SQLite in words for the client.
fn explain(bounds: &StatementBounds, error: &rusqlite::Error) -> JobError {
    if bounds.is_over_time() {
        let message = "the statements of the request took too long and were ended";
        return JobError::new(JobErrorKind::TimeLimit, message);
    }
    if bounds.is_over_memory() {
        let message = "the request changes too many rows at once: split it into smaller ones";
        return JobError::new(JobErrorKind::TooLarge, message);
    }
    if bounds.is_over_wal() {
        let message = "the read was ended because it kept the write-ahead log from being reset: select less at once";
        return JobError::new(JobErrorKind::TimeLimit, message);
    }
    let code = error.sqlite_error().map(|error| error.extended_code);
    let kind = match code.map(|code| code & 0xff) {
        Some(ffi::SQLITE_CONSTRAINT) => JobErrorKind::Constraint,
        Some(ffi::SQLITE_TOOBIG) => JobErrorKind::TooLarge,
        Some(ffi::SQLITE_FULL) => JobErrorKind::Full,
        _ => JobErrorKind::Request,
    };
    let message = match kind {
        JobErrorKind::TooLarge => {
            "a value or the statement is above its limit (4 MiB, or 1 MiB of SQL): larger data belongs in \
             an object store"
                .to_owned()
        }
        _ => match error {
            // Without the text, which the client has, and which begins with a mark here.
            rusqlite::Error::SqlInputError { msg, .. } => msg.clone(),
            error => error.to_string(),
        },
    };
    JobError { kind, statement: None, code, message }
}

impl From<JobError> for RunError {
    fn from(error: JobError) -> Self {
        RunError::Job(error)
    }
}

impl From<rusqlite::Error> for RunError {
    fn from(error: rusqlite::Error) -> Self {
        RunError::Sqlite(error)
    }
}

pub(crate) fn bind(statement: &mut Statement<'_>, args: &JobArgs) -> Result<(), RunError> {
    statement.clear_bindings();
    let wanted = statement.parameter_count();
    let refuse = |message: String| Err(JobError::new(JobErrorKind::Request, message).into());
    match args {
        JobArgs::Positional(values) => {
            if values.len() != wanted {
                return refuse(format!(
                    "the statement has {wanted} parameters, and {} arguments came",
                    values.len()
                ));
            }
            for (n, value) in values.iter().enumerate() {
                statement.raw_bind_parameter(n + 1, value)?;
            }
        }
        JobArgs::Named(values) => {
            for (name, value) in values {
                match place(statement, name)? {
                    Some(place) => statement.raw_bind_parameter(place, value)?,
                    None => return refuse(format!("the statement has no parameter '{name}'")),
                }
            }
        }
    }
    Ok(())
}

fn place(statement: &Statement<'_>, name: &str) -> rusqlite::Result<Option<usize>> {
    for prefix in ["", ":", "@", "$"] {
        if let Some(place) = statement.parameter_index(&format!("{prefix}{name}"))? {
            return Ok(Some(place));
        }
    }
    Ok(None)
}

/// The size of an answer so far, and the most that it may have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AnswerBounds {
    rows: usize,
    bytes: usize,
    max_rows: usize,
    max_bytes: usize,
}

/// The rows of a statement, and the columns that they have.
#[derive(Debug)]
pub(crate) struct CollectedRows {
    pub(crate) columns: Vec<String>,
    pub(crate) types: Vec<Option<String>>,
    pub(crate) rows: Vec<Vec<SqlValue>>,
}

/// Runs to the end and keeps the rows. The names of columns are read after the first step: a statement that
/// was prepared before a column was added has the old ones until then (T14).
pub(crate) fn collect(
    statement: &mut Statement<'_>,
    bounds: &mut AnswerBounds,
) -> Result<CollectedRows, RunError> {
    let mut collected = Vec::new();
    let mut columns = None;
    let mut rows = statement.raw_query();
    while let Some(row) = rows.next()? {
        let stepped = row.as_ref();
        let (names, _) = columns.get_or_insert_with(|| owned_columns(stepped));
        let values: Vec<SqlValue> = (0..names.len())
            .map(|n| row.get_ref(n).map(SqlValue::from_sqlite))
            .collect::<rusqlite::Result<_>>()?;
        bounds.add_row(&values)?;
        collected.push(values);
    }
    drop(rows);
    let (columns, types) = columns.unwrap_or_else(|| owned_columns(statement));
    Ok(CollectedRows { columns, types, rows: collected })
}

impl AnswerBounds {
    pub(crate) fn new(max_rows: usize, max_bytes: usize) -> Self {
        AnswerBounds { rows: 0, bytes: 0, max_rows, max_bytes }
    }

    fn add_row(&mut self, row: &[SqlValue]) -> Result<(), JobError> {
        self.rows += 1;
        self.bytes += row.iter().map(SqlValue::bytes).sum::<usize>();
        if self.rows <= self.max_rows && self.bytes <= self.max_bytes {
            return Ok(());
        }
        let message = format!(
            "the answer is above {} rows or {} bytes: select less of it",
            self.max_rows, self.max_bytes
        );
        Err(JobError::new(JobErrorKind::AnswerTooLarge, message))
    }
}

fn owned_columns(statement: &Statement<'_>) -> (Vec<String>, Vec<Option<String>>) {
    let column =
        |column: Column<'_>| (column.name().to_owned(), column.decl_type().map(str::to_owned));
    statement.columns().map(column).unzip()
}

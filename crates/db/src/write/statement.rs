//! Runs one statement of a user on the writer's connection, within its bounds.

use std::collections::HashMap;

use rusqlite::{Connection, Statement, ffi};

use super::job::{
    JobArgs, JobError, JobErrorKind, JobLimits, JobStatement, SqlValue, StatementResult,
};
use super::text::{forbidden, has_second_statement};
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
    /// For each prepared text, whether the rowids of its target are the same on every worker.
    has_shared_rowid: HashMap<String, bool>,
}

impl StatementRunner {
    pub(crate) fn new(guard: SqlGuard, bounds: StatementBounds) -> Self {
        StatementRunner { guard, bounds, has_shared_rowid: HashMap::new() }
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
        limits: &JobLimits,
    ) -> Result<StatementResult, JobError> {
        let outcome = self.run_guarded(connection, statement, scope, limits);
        let denial = self.guard.take_denial();
        self.guard.own();
        outcome.map_err(|error| match (error, denial) {
            (RunError::Job(error), _) => error,
            (RunError::Sqlite(_), Some(reason)) => JobError::new(JobErrorKind::Request, reason),
            (RunError::Sqlite(error), None) => self.explain(&error),
        })
    }

    fn run_guarded(
        &mut self,
        connection: &Connection,
        statement: &JobStatement,
        scope: SqlScope,
        limits: &JobLimits,
    ) -> Result<StatementResult, RunError> {
        if self.has_shared_rowid.len() >= TARGETS {
            self.forget(connection);
        }
        if has_second_statement(&statement.sql) {
            let message = "a text has one statement: send each of multiple statements by itself";
            return Err(JobError::new(JobErrorKind::Request, message).into());
        }
        if let Some(message) = forbidden(&statement.sql) {
            return Err(JobError::new(JobErrorKind::Request, message).into());
        }
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
                cached = connection.prepare_cached(&format!("{USER_MARK}{}", statement.sql))?;
                &mut cached
            }
        };
        if prepared.expanded_sql().is_none() {
            return Err(
                JobError::new(JobErrorKind::Request, "there is no statement in this text").into()
            );
        }
        if let Some(is_shared) = self.guard.inserts_with_shared_rowid() {
            self.has_shared_rowid.insert(statement.sql.clone(), is_shared);
        }
        let is_shared = self.has_shared_rowid.get(&statement.sql).copied().unwrap_or(false);
        self.guard.run();
        bind(prepared, &statement.args)?;
        let before = connection.total_changes();
        let is_write = !prepared.readonly();
        let (columns, rows) = collect(prepared, limits)?;
        let changes = match connection.total_changes() != before {
            true => connection.changes(),
            false => 0,
        };
        let last_id = connection.last_insert_rowid();
        let last_id = (is_write && is_shared && changes > 0 && last_id != 0).then_some(last_id);
        Ok(StatementResult { changes, last_id, columns, rows })
    }

    /// The error in words for the client.
    pub(crate) fn explain(&self, error: &rusqlite::Error) -> JobError {
        if self.bounds.is_over_time() {
            let message = "the statements of the request took too long and were ended";
            return JobError::new(JobErrorKind::TimeLimit, message);
        }
        if self.bounds.is_over_memory() {
            let message = "the request changes too many rows at once: split it into smaller ones";
            return JobError::new(JobErrorKind::TooLarge, message);
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
}

enum RunError {
    Job(JobError),
    Sqlite(rusqlite::Error),
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

fn bind(statement: &mut Statement<'_>, args: &JobArgs) -> Result<(), RunError> {
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

type Answer = (Vec<String>, Vec<Vec<SqlValue>>);

/// Runs to the end and keeps the rows. The names of columns are read after the first step: a statement that
/// was prepared before a column was added has the old ones until then (T14).
fn collect(statement: &mut Statement<'_>, limits: &JobLimits) -> Result<Answer, RunError> {
    let (mut collected, mut bytes) = (Vec::new(), 0);
    let mut names = None;
    let mut rows = statement.raw_query();
    while let Some(row) = rows.next()? {
        let stepped = row.as_ref();
        let names = names.get_or_insert_with(|| owned_names(stepped));
        let values: Vec<SqlValue> = (0..names.len())
            .map(|n| row.get_ref(n).map(SqlValue::from_sqlite))
            .collect::<rusqlite::Result<_>>()?;
        bytes += values.iter().map(SqlValue::bytes).sum::<usize>();
        if collected.len() >= limits.max_rows || bytes > limits.max_answer {
            let message = format!(
                "the answer is above {} rows or {} bytes: select less of it",
                limits.max_rows, limits.max_answer
            );
            return Err(JobError::new(JobErrorKind::AnswerTooLarge, message).into());
        }
        collected.push(values);
    }
    drop(rows);
    Ok((names.unwrap_or_else(|| owned_names(statement)), collected))
}

fn owned_names(statement: &Statement<'_>) -> Vec<String> {
    statement.column_names().map(str::to_owned).collect()
}

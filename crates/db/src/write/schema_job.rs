//! Requests with DDL: one entry of ordered parts, in one local transaction (C7).
//!
//! Foreign keys are off while it runs, on every worker, or `DROP TABLE` of a parent would delete rows at the
//! leader only (T10). No statement of DDL runs inside a session (T6): the recording ends before each one and
//! a new one begins behind it.

use rusqlite::{Connection, OptionalExtension};

use super::batch::BatchJob;
use super::group::{GroupTerms, GroupWriter, OpenGroup, WriterError, check_changes, too_large};
use super::job::{JobAnswer, JobError, JobErrorKind, StatementResult, WriteJob};
use super::keys;
use super::schema_file::{self, AppliedFile, SchemaFile, changed_file};
use super::text::{foreign_keys_pragma, is_pragma, is_schema_statement};
use crate::entry::EntryPart;
use crate::sqlite::authorizer::SqlScope;
use crate::sqlite::scan::content_hash;
use crate::sqlite::shape::check_schema;

impl WriteJob {
    /// Whether the request changes the schema. The guard refuses a change of the schema in every other request, so
    /// a text that this function does not recognise is refused and never lost.
    pub fn is_schema_change(&self) -> bool {
        self.statements.iter().any(|statement| is_schema_statement(&statement.sql))
    }
}

impl BatchJob {
    /// Whether one of the steps changes the schema, or has the foreign keys off: that is a migration.
    pub fn is_schema_change(&self) -> bool {
        let is_schema =
            |sql: &str| is_schema_statement(sql) || foreign_keys_pragma(sql) == Some(false);
        self.steps.iter().any(|step| is_schema(&step.statement.sql))
    }
}

impl GroupWriter {
    /// Runs a schema file. One that was applied before changes nothing.
    pub fn run_schema_file(
        &mut self,
        file: &SchemaFile,
        terms: &GroupTerms,
    ) -> Result<OpenGroup, WriterError> {
        self.roll_back()?;
        match schema_file::applied_hash(self.file.connection(), &file.name)? {
            Some(hash) if hash == file.hash() => return Ok(unchanged(Ok(JobAnswer::New(vec![])))),
            Some(_) => return Ok(unchanged(Err(changed_file(&file.name)))),
            None => {}
        }
        match file.job() {
            Ok(job) => self.run_schema_change(&job, Some(file), terms),
            Err(error) => Ok(unchanged(Err(error))),
        }
    }

    /// The files that were applied, with the one of the open group.
    pub fn schema_files(&self) -> Result<Vec<AppliedFile>, WriterError> {
        Ok(schema_file::applied_files(self.file.connection())?)
    }

    pub(super) fn run_schema_job(
        &mut self,
        job: &WriteJob,
        terms: &GroupTerms,
    ) -> Result<OpenGroup, WriterError> {
        self.run_schema_change(job, None, terms)
    }

    fn run_schema_change(
        &mut self,
        job: &WriteJob,
        file: Option<&SchemaFile>,
        terms: &GroupTerms,
    ) -> Result<OpenGroup, WriterError> {
        if let Some(key) = &job.key {
            match keys::look_up(self.file.connection(), key, terms.time)?.transpose() {
                None => {}
                Some(outcome) => return Ok(unchanged(outcome)),
            }
        }
        self.file.end();
        // Inside a transaction the pragma would do nothing.
        self.file.connection().pragma_update(None, "foreign_keys", false)?;
        self.file.connection().execute_batch("BEGIN IMMEDIATE")?;
        match self.try_schema_job(job, file, terms) {
            Ok(group) => Ok(group),
            Err(SchemaEnd::Job(error)) => {
                self.roll_back()?;
                self.after_schema(true)?;
                Ok(unchanged(Err(error)))
            }
            Err(SchemaEnd::Writer(error)) => {
                self.roll_back()?;
                self.after_schema(true)?;
                Err(error)
            }
        }
    }

    fn try_schema_job(
        &mut self,
        job: &WriteJob,
        file: Option<&SchemaFile>,
        terms: &GroupTerms,
    ) -> Result<OpenGroup, SchemaEnd> {
        let version_before = user_version(self.file.connection())?;
        self.file.forget_last_insert();
        self.runner.begin_job(terms.limits.ddl_time, &terms.limits);
        let ran = self.run_parts(job);
        self.runner.end_job();
        let (results, mut parts) = ran?;
        if let Some(key) = &job.key {
            self.file.begin()?;
            let index = self.at.index + 1;
            keys::remember(self.file.connection(), key, &results, index, terms.time)?;
            self.take_rows(&mut parts)?;
        }
        if let Some(file) = file {
            self.file.begin()?;
            schema_file::note_file(self.file.connection(), file)?;
            self.take_rows(&mut parts)?;
        }
        self.check_result()?;
        let mut next = self.at;
        next.content = content_hash(self.file.connection())?;
        let version = user_version(self.file.connection())?;
        let version = (version != version_before).then_some(version);
        match self.close(next, parts, version, true, terms)? {
            Some((entries, end)) => {
                let outcomes = vec![Ok(JobAnswer::New(results))];
                Ok(OpenGroup { outcomes, entries, end })
            }
            None => Err(too_large().into()),
        }
    }

    fn run_parts(
        &mut self,
        job: &WriteJob,
    ) -> Result<(Vec<StatementResult>, Vec<EntryPart>), SchemaEnd> {
        let (mut results, mut parts) = (Vec::new(), Vec::new());
        for (n, statement) in job.statements.iter().enumerate() {
            let is_schema = is_schema_statement(&statement.sql);
            match is_schema {
                true => self.take_rows(&mut parts)?,
                false => self.file.begin_if_off()?,
            }
            let scope = if is_schema { SqlScope::Schema } else { SqlScope::Rows };
            let connection = self.file.connection();
            let ran = self.runner.run(connection, statement, scope);
            if is_schema {
                // Cached texts may mean something else now.
                self.runner.forget(connection);
            }
            let result = ran.map_err(|error| error.at(n))?;
            check_changes(statement.changes, result.changes).map_err(|error| error.at(n))?;
            results.push(result);
            // A pragma sets its value in a part of its own (T13).
            if is_schema && !is_pragma(&statement.sql) {
                parts.push(EntryPart::Ddl(statement.sql.clone()));
            }
        }
        self.take_rows(&mut parts)?;
        Ok((results, parts))
    }

    /// Ends the recording and keeps its changes as the next part.
    pub(super) fn take_rows(&mut self, parts: &mut Vec<EntryPart>) -> Result<(), SchemaEnd> {
        let changeset = self.recorded()?;
        self.file.end();
        if !changeset.is_empty() {
            parts.push(EntryPart::Rows(changeset));
        }
        Ok(())
    }

    /// The rules for tables, and the foreign keys that were off.
    pub(super) fn check_result(&self) -> Result<(), SchemaEnd> {
        let connection = self.file.connection();
        if let Err(refusal) = check_schema(connection)? {
            return Err(JobError::new(JobErrorKind::Schema, refusal.to_string()).into());
        }
        if let Some(name) = reserved_name(connection)? {
            let message =
                format!("{name} is reserved: names that begin with _consort belong to Consort");
            return Err(JobError::new(JobErrorKind::Request, message).into());
        }
        let mut statement = connection.prepare("PRAGMA foreign_key_check")?;
        let mut rows = statement.query([])?;
        match rows.next()? {
            None => Ok(()),
            Some(row) => {
                let (table, parent): (String, String) = (row.get(0)?, row.get(2)?);
                let message = format!(
                    "FOREIGN KEY constraint failed: a row of {table} would refer to a missing row of {parent}"
                );
                let code = Some(rusqlite::ffi::SQLITE_CONSTRAINT_FOREIGNKEY);
                let error = JobError::new(JobErrorKind::Constraint, message);
                Err(JobError { code, ..error }.into())
            }
        }
    }
}

pub(super) enum SchemaEnd {
    Job(JobError),
    Writer(WriterError),
}

impl From<JobError> for SchemaEnd {
    fn from(error: JobError) -> Self {
        SchemaEnd::Job(error)
    }
}

impl From<rusqlite::Error> for SchemaEnd {
    fn from(error: rusqlite::Error) -> Self {
        SchemaEnd::Writer(error.into())
    }
}

impl From<crate::sqlite::session::SessionError> for SchemaEnd {
    fn from(error: crate::sqlite::session::SessionError) -> Self {
        SchemaEnd::Writer(error.into())
    }
}

impl From<WriterError> for SchemaEnd {
    fn from(error: WriterError) -> Self {
        SchemaEnd::Writer(error)
    }
}

fn unchanged(outcome: Result<JobAnswer, JobError>) -> OpenGroup {
    OpenGroup { outcomes: vec![outcome], entries: Vec::new(), end: None }
}

/// A name that only a rename can have given: the guard does not see the new one.
fn reserved_name(connection: &Connection) -> rusqlite::Result<Option<String>> {
    let sql =
        "SELECT name FROM sqlite_schema WHERE name LIKE '\\_consort%' ESCAPE '\\' AND name NOT IN
        ('_consort_local', '_consort_keys', '_consort_keys_time', '_consort_schema')";
    connection.query_row(sql, [], |row| row.get(0)).optional()
}

pub(super) fn user_version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.query_row("PRAGMA user_version", [], |row| row.get(0))
}

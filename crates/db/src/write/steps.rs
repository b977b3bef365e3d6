//! Runs the steps of a batch or of an interactive transaction, within the transaction of a group. A `BEGIN` of the
//! client is a savepoint here; a step that fails changes nothing.

use std::collections::BTreeMap;

use super::batch::{BatchJob, BatchStep, StepOutcome};
use super::control::{TransactionControl, control_error, no_savepoint};
use super::group::{GroupWriter, WriterError, check_changes, too_large};
use super::job::{JobError, JobErrorKind, StatementResult};
use super::schema_job::SchemaEnd;
use super::text::{foreign_keys_pragma, is_pragma, is_schema_statement};
use crate::entry::EntryPart;
use crate::sqlite::authorizer::SqlScope;
use crate::sqlite::deadline::SESSION_BYTES;

/// The savepoint that stands for the client's transaction.
const TRANSACTION: &str = "client";

/// The transaction of the client, between two steps.
#[derive(Debug)]
pub(super) struct StepState {
    /// The open transaction of the client, and its savepoints behind it.
    marks: Vec<SavepointMark>,
    /// In a migration: the parts of its entry so far.
    pub(super) parts: Vec<EntryPart>,
    is_migration: bool,
    /// An interactive transaction cannot begin another one in the request that ends it.
    may_begin: bool,
}

/// A savepoint.
#[derive(Debug)]
struct SavepointMark {
    name: String,
    /// How many parts stood before it.
    parts: usize,
}

/// Why a run of steps did not reach its end.
pub(super) enum StepsEnd {
    /// A statement ended the transaction of the whole group (T11).
    Culprit(usize, JobError),
    /// An error of all steps together.
    Whole(JobError),
    /// The writer failed.
    Failed(WriterError),
}

impl StepState {
    pub(super) fn of_batch(is_migration: bool) -> Self {
        StepState { marks: Vec::new(), parts: Vec::new(), is_migration, may_begin: true }
    }

    pub(super) fn is_in_transaction(&self) -> bool {
        !self.marks.is_empty()
    }
}

impl GroupWriter {
    /// Runs all steps. Those of `culprits` ended the transaction in a run before and fail here.
    pub(super) fn run_steps(
        &mut self,
        batch: &BatchJob,
        state: &mut StepState,
        culprits: &BTreeMap<usize, JobError>,
    ) -> Result<Vec<StepOutcome>, StepsEnd> {
        let mut outcomes = Vec::with_capacity(batch.steps.len());
        for (n, step) in batch.steps.iter().enumerate() {
            let is_autocommit = !state.is_in_transaction();
            let condition = step.condition.as_ref();
            let outcome = match condition.is_none_or(|c| c.holds(&outcomes, is_autocommit)) {
                false => StepOutcome::Skipped,
                true => match self.run_step(n, step, state, culprits)? {
                    Ok(result) => StepOutcome::Done(result),
                    Err(error) => StepOutcome::Failed(error.at(n)),
                },
            };
            outcomes.push(outcome);
        }
        Ok(outcomes)
    }

    /// Begins the client's transaction: the steps of an interactive one follow.
    pub(super) fn begin_interactive(&mut self) -> Result<StepState, StepsEnd> {
        let mut state = StepState::of_batch(false);
        self.mark(&mut state, TRANSACTION)?;
        state.may_begin = false;
        Ok(state)
    }

    /// Takes back a transaction that the client left open.
    pub(super) fn end_steps(&mut self, state: &mut StepState) -> Result<(), StepsEnd> {
        match state.is_in_transaction() {
            true => self.undo(state, 0),
            false => Ok(()),
        }
    }

    fn run_step(
        &mut self,
        n: usize,
        step: &BatchStep,
        state: &mut StepState,
        culprits: &BTreeMap<usize, JobError>,
    ) -> Result<Result<StatementResult, JobError>, StepsEnd> {
        let sql = &step.statement.sql;
        if let Some(control) = TransactionControl::parse(sql) {
            return Ok(self.control(&control, state)?.map(|()| StatementResult::default()));
        }
        if foreign_keys_pragma(sql).is_some() {
            // They are off for the whole of a migration, and on for everything else.
            return Ok(Ok(StatementResult::default()));
        }
        if let Some(error) = culprits.get(&n) {
            // As SQLite does, it takes the client's transaction with it, but not the steps before.
            self.end_steps(state)?;
            return Ok(Err(error.clone()));
        }
        let is_schema = is_schema_statement(sql);
        if is_schema && !state.is_migration {
            let message =
                "an interactive transaction cannot change the schema: send a batch or a migration";
            return Ok(Err(JobError::new(JobErrorKind::Request, message)));
        }
        match is_schema {
            true => self.take_rows(&mut state.parts)?,
            false => self.file.begin_if_off().map_err(WriterError::from)?,
        }
        self.execute("SAVEPOINT step")?;
        let ran = self.run_statement(step, state, is_schema);
        if self.file.connection().is_autocommit() {
            return Err(self.ended(n, ran.err()));
        }
        if ran.is_err() {
            self.execute("ROLLBACK TO step")?;
        }
        self.execute("RELEASE step")?;
        if is_schema {
            // Cached texts may mean something else now.
            self.runner.forget(self.file.connection());
        }
        match ran {
            Err(error) if self.is_over_bounds() => Err(StepsEnd::Whole(error.at(n))),
            Ok(_) if self.file.memory() > SESSION_BYTES => Err(StepsEnd::Whole(too_large().at(n))),
            Ok(result) => {
                // A pragma sets its value in a part of its own (T13).
                if is_schema && !is_pragma(sql) {
                    state.parts.push(EntryPart::Ddl(sql.clone()));
                }
                Ok(Ok(result))
            }
            Err(error) => Ok(Err(error)),
        }
    }

    fn run_statement(
        &mut self,
        step: &BatchStep,
        state: &StepState,
        is_schema: bool,
    ) -> Result<StatementResult, JobError> {
        let scope = if is_schema { SqlScope::Schema } else { SqlScope::Rows };
        let result = self.runner.run(self.file.connection(), &step.statement, scope)?;
        check_changes(step.statement.changes, result.changes)?;
        if !state.is_in_transaction() {
            self.check_deferred()?;
        }
        Ok(result)
    }

    /// The transaction of the group is gone. More time or memory would be missing in the next run, too.
    fn ended(&self, n: usize, error: Option<JobError>) -> StepsEnd {
        let error = error.unwrap_or_else(|| {
            JobError::new(JobErrorKind::Request, "the statement ended its transaction")
        });
        match self.is_over_bounds() {
            true => StepsEnd::Whole(error.at(n)),
            false => StepsEnd::Culprit(n, error),
        }
    }

    fn is_over_bounds(&self) -> bool {
        self.runner.bounds.is_over_time() || self.runner.bounds.is_over_memory()
    }

    fn control(
        &mut self,
        control: &TransactionControl,
        state: &mut StepState,
    ) -> Result<Result<(), JobError>, StepsEnd> {
        if let Err(error) = control.check(state.is_in_transaction()) {
            return Ok(Err(error));
        }
        match control {
            TransactionControl::Begin { .. } if !state.may_begin => {
                let message = "send BEGIN in a request after the one that ends a transaction";
                return Ok(Err(control_error(message)));
            }
            TransactionControl::Begin { .. } => self.mark(state, TRANSACTION)?,
            TransactionControl::Commit => match self.check_deferred() {
                Ok(()) => self.release(state, 0)?,
                Err(error) => return Ok(Err(error)),
            },
            TransactionControl::Rollback => self.undo(state, 0)?,
            TransactionControl::Savepoint(name) => self.mark(state, &format!("client_{name}"))?,
            TransactionControl::Release(name) => match state.place(name) {
                Some(place) => self.release(state, place)?,
                None => return Ok(Err(no_savepoint(name))),
            },
            TransactionControl::RollbackTo(name) => match state.place(name) {
                Some(place) => self.undo_to(state, place)?,
                None => return Ok(Err(no_savepoint(name))),
            },
        }
        Ok(Ok(()))
    }

    fn mark(&mut self, state: &mut StepState, name: &str) -> Result<(), StepsEnd> {
        if state.is_migration {
            // A part ends here, so that parts can be taken back with the savepoint.
            self.take_rows(&mut state.parts)?;
        }
        self.execute(&format!("SAVEPOINT {name}"))?;
        state.marks.push(SavepointMark { name: name.to_owned(), parts: state.parts.len() });
        Ok(())
    }

    fn release(&mut self, state: &mut StepState, place: usize) -> Result<(), StepsEnd> {
        let Some(mark) = state.marks.get(place) else { return Ok(()) };
        self.execute(&format!("RELEASE {}", mark.name))?;
        state.marks.truncate(place);
        Ok(())
    }

    fn undo(&mut self, state: &mut StepState, place: usize) -> Result<(), StepsEnd> {
        self.undo_to(state, place)?;
        self.release(state, place)
    }

    fn undo_to(&mut self, state: &mut StepState, place: usize) -> Result<(), StepsEnd> {
        let Some(mark) = state.marks.get(place) else { return Ok(()) };
        if state.is_migration {
            // The recording may know tables that are gone now.
            self.file.end();
            state.parts.truncate(mark.parts);
        }
        self.execute(&format!("ROLLBACK TO {}", mark.name))?;
        state.marks.truncate(place + 1);
        if state.is_migration {
            self.runner.forget(self.file.connection());
        }
        Ok(())
    }

    fn execute(&self, sql: &str) -> Result<(), StepsEnd> {
        let ran = self.file.connection().prepare_cached(sql).and_then(|mut sql| sql.execute([]));
        ran.map_err(|error| StepsEnd::Failed(error.into())).map(drop)
    }
}

impl StepState {
    /// The newest savepoint with this name.
    fn place(&self, name: &str) -> Option<usize> {
        let name = format!("client_{name}");
        self.marks.iter().rposition(|mark| mark.name == name)
    }
}

impl From<WriterError> for StepsEnd {
    fn from(error: WriterError) -> Self {
        StepsEnd::Failed(error)
    }
}

impl From<rusqlite::Error> for StepsEnd {
    fn from(error: rusqlite::Error) -> Self {
        StepsEnd::Failed(error.into())
    }
}

impl From<SchemaEnd> for StepsEnd {
    fn from(end: SchemaEnd) -> Self {
        match end {
            SchemaEnd::Job(error) => StepsEnd::Whole(error),
            SchemaEnd::Writer(error) => StepsEnd::Failed(error),
        }
    }
}

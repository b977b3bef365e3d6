//! Batches that only read: their steps see one snapshot, and `BEGIN` and `COMMIT` change nothing but the errors of
//! those that follow.

use super::file::{FileReader, QueryError};
use super::{QueryRows, ReadLimits};
use crate::write::batch::{BatchJob, BatchStep, StepOutcome};
use crate::write::control::TransactionControl;
use crate::write::job::{JobError, StatementResult};
use crate::write::statement::AnswerBounds;
use crate::write::text::foreign_keys_pragma;

/// The outcomes of a batch, and whether the client's transaction is open behind it.
type BatchRead = (Vec<StepOutcome>, bool);

impl FileReader {
    /// Runs a batch within the open transaction; `None` if one of its steps does not only read.
    pub(super) fn run_batch(&mut self, batch: &BatchJob, limits: &ReadLimits) -> Option<BatchRead> {
        self.run_steps(batch, limits, false, |_| None)
    }

    /// The same for a client that has begun to read: a step that does not only read fails.
    pub(super) fn run_batch_in_snapshot(
        &mut self,
        batch: &BatchJob,
        limits: &ReadLimits,
    ) -> BatchRead {
        let ran = self.run_steps(batch, limits, true, |error| Some(StepOutcome::Failed(error)));
        ran.unwrap_or_default()
    }

    fn run_steps(
        &mut self,
        batch: &BatchJob,
        limits: &ReadLimits,
        mut is_in_transaction: bool,
        not_read: impl Fn(JobError) -> Option<StepOutcome>,
    ) -> Option<BatchRead> {
        let mut outcomes = Vec::with_capacity(batch.steps.len());
        let mut answer = self.begin_job(limits);
        for (n, step) in batch.steps.iter().enumerate() {
            let condition = step.condition.as_ref();
            let outcome = match condition.is_none_or(|c| c.holds(&outcomes, !is_in_transaction)) {
                false => StepOutcome::Skipped,
                true => match self.run_step(step, &mut answer, &mut is_in_transaction) {
                    Ok(result) => StepOutcome::Done(result),
                    Err(QueryError::Failed(error)) => StepOutcome::Failed(error.at(n)),
                    Err(QueryError::NotRead(error)) => match not_read(error.at(n)) {
                        Some(outcome) => outcome,
                        None => {
                            self.end_job();
                            return None;
                        }
                    },
                },
            };
            outcomes.push(outcome);
        }
        self.end_job();
        Some((outcomes, is_in_transaction))
    }

    fn run_step(
        &self,
        step: &BatchStep,
        answer: &mut AnswerBounds,
        is_in_transaction: &mut bool,
    ) -> Result<StatementResult, QueryError> {
        let sql = &step.statement.sql;
        if let Some(control) = TransactionControl::parse(sql) {
            control.check(*is_in_transaction).map_err(QueryError::Failed)?;
            *is_in_transaction = match control {
                TransactionControl::Begin { .. } => true,
                TransactionControl::Commit | TransactionControl::Rollback => false,
                _ => *is_in_transaction,
            };
            return Ok(StatementResult::default());
        }
        if foreign_keys_pragma(sql).is_some() {
            return Ok(StatementResult::default());
        }
        let QueryRows { columns, types, rows } = self.query(&step.statement, answer)?;
        Ok(StatementResult { columns, types, rows, ..StatementResult::default() })
    }
}

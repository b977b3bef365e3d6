//! The shape of a batch, as its statements tell it: who runs it, and whether a transaction goes on behind it.

use consort_db::write::batch::{BatchCondition, BatchJob, BatchStep, StepOutcome};
use consort_db::write::control::{TransactionControl, may_write};
use consort_db::write::job::StatementResult;

/// Where a batch outside of a transaction runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BatchShape {
    /// On a worker: it only reads, as far as its words tell.
    Read,
    /// On the writer, as one statement that shares its group with others.
    Statement,
    /// On the writer, as a whole.
    Whole,
    /// It begins a transaction that goes on over requests.
    Interactive {
        /// It only reads, on a snapshot.
        is_readonly: bool,
    },
}

impl BatchShape {
    pub(super) fn new(batch: &BatchJob) -> Self {
        let control = |step: &BatchStep| TransactionControl::parse(&step.statement.sql);
        let is_end = |step: &BatchStep| {
            let end = control(step);
            matches!(end, Some(TransactionControl::Commit | TransactionControl::Rollback))
        };
        let steps = &batch.steps;
        if let Some(first) = steps.first()
            && first.condition.is_none()
            && let Some(TransactionControl::Begin { is_readonly }) = control(first)
            && !steps.iter().any(is_end)
        {
            return BatchShape::Interactive { is_readonly };
        }
        match &steps[..] {
            steps if !steps.iter().any(|step| may_write(&step.statement.sql)) => BatchShape::Read,
            [only] if only.condition.is_none() => BatchShape::Statement,
            _ => BatchShape::Whole,
        }
    }

    /// Whether the leader must run it.
    pub(super) fn needs_leader(self) -> bool {
        match self {
            BatchShape::Read | BatchShape::Interactive { is_readonly: true } => false,
            BatchShape::Statement
            | BatchShape::Whole
            | BatchShape::Interactive { is_readonly: false } => true,
        }
    }
}

/// The batch without its `BEGIN`, which the transaction has done.
pub(super) fn without_begin(batch: BatchJob) -> BatchJob {
    let step = |step: BatchStep| BatchStep { condition: step.condition.map(shifted), ..step };
    BatchJob { steps: batch.steps.into_iter().skip(1).map(step).collect() }
}

/// The outcomes of a batch with its `BEGIN`.
pub(super) fn with_begin(outcomes: Vec<StepOutcome>) -> Vec<StepOutcome> {
    let begun = StepOutcome::Done(StatementResult::default());
    [begun].into_iter().chain(outcomes).collect()
}

/// The condition where the first step, which succeeded, is left out.
fn shifted(condition: BatchCondition) -> BatchCondition {
    let all = |conditions: Vec<BatchCondition>| conditions.into_iter().map(shifted).collect();
    match condition {
        BatchCondition::Ok(0) => BatchCondition::And(Vec::new()),
        BatchCondition::Error(0) => BatchCondition::Or(Vec::new()),
        BatchCondition::Ok(step) => BatchCondition::Ok(step - 1),
        BatchCondition::Error(step) => BatchCondition::Error(step - 1),
        BatchCondition::Not(condition) => BatchCondition::Not(Box::new(shifted(*condition))),
        BatchCondition::And(conditions) => BatchCondition::And(all(conditions)),
        BatchCondition::Or(conditions) => BatchCondition::Or(all(conditions)),
        BatchCondition::IsAutocommit => BatchCondition::IsAutocommit,
    }
}

/// Whether the client takes a transaction for open that the writer has taken back at the end of the batch.
pub(super) fn leaves_open(batch: &BatchJob, outcomes: &[StepOutcome]) -> bool {
    let mut is_open = false;
    for (step, outcome) in batch.steps.iter().zip(outcomes) {
        if matches!(outcome, StepOutcome::Done(_)) {
            is_open = match TransactionControl::parse(&step.statement.sql) {
                Some(TransactionControl::Begin { .. }) => true,
                Some(TransactionControl::Commit | TransactionControl::Rollback) => false,
                _ => is_open,
            };
        }
    }
    is_open
}

#[cfg(test)]
mod tests {
    use consort_db::write::job::{JobArgs, JobError, JobErrorKind, JobStatement};

    use super::*;

    fn batch(steps: &[&str]) -> BatchJob {
        let step = |sql: &&str| {
            let args = JobArgs::Positional(vec![]);
            let statement = JobStatement { sql: sql.to_string(), args, changes: None };
            BatchStep { statement, condition: None }
        };
        BatchJob { steps: steps.iter().map(step).collect() }
    }

    #[test]
    fn the_shape_of_a_batch_tells_who_runs_it() {
        let interactive = |is_readonly| BatchShape::Interactive { is_readonly };
        let cases: [(&[&str], BatchShape); 11] = [
            (&["SELECT 1"], BatchShape::Read),
            (&["BEGIN DEFERRED", "SELECT 1", "COMMIT", "ROLLBACK"], BatchShape::Read),
            (&["COMMIT"], BatchShape::Read),
            (&[], BatchShape::Read),
            (&["INSERT INTO t VALUES (1)"], BatchShape::Statement),
            (&["WITH x AS (SELECT 1) DELETE FROM t"], BatchShape::Statement),
            (&["BEGIN", "INSERT INTO t VALUES (1)", "COMMIT"], BatchShape::Whole),
            (&["INSERT INTO t VALUES (1)", "SELECT 1"], BatchShape::Whole),
            (&["BEGIN IMMEDIATE"], interactive(false)),
            (&["BEGIN", "SELECT 1"], interactive(false)),
            (&["BEGIN TRANSACTION READONLY", "SELECT 1"], interactive(true)),
        ];
        for (steps, expected) in cases {
            assert_eq!(BatchShape::new(&batch(steps)), expected, "{steps:?}");
        }
    }

    #[test]
    fn conditions_hold_as_before_when_the_begin_is_left_out() {
        use BatchCondition::{Error, IsAutocommit, Not, Ok};
        let done = || StepOutcome::Done(StatementResult::default());
        let error = || StepOutcome::Failed(JobError::new(JobErrorKind::Request, "x"));
        let rest = vec![done(), error(), StepOutcome::Skipped];
        let all = with_begin(rest.clone());
        for condition in [
            Ok(0),
            Error(0),
            Ok(1),
            Error(1),
            Ok(2),
            Error(2),
            Ok(3),
            Ok(9),
            Not(Box::new(Ok(0))),
            BatchCondition::And(vec![Ok(0), Not(Box::new(IsAutocommit))]),
            BatchCondition::Or(vec![Error(0), Ok(1)]),
        ] {
            let expected = condition.holds(&all, false);
            assert_eq!(shifted(condition.clone()).holds(&rest, false), expected, "{condition:?}");
        }
    }

    #[test]
    fn a_transaction_that_the_client_takes_for_open_is_noticed() {
        let done = || StepOutcome::Done(StatementResult::default());
        let steps = batch(&["BEGIN", "INSERT INTO t VALUES (1)", "COMMIT"]);
        assert!(!leaves_open(&steps, &[done(), done(), done()]));
        assert!(leaves_open(&steps, &[done(), done(), StepOutcome::Skipped]));
        assert!(!leaves_open(&steps, &[StepOutcome::Skipped, done(), StepOutcome::Skipped]));
    }
}

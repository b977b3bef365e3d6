//! A batch: steps that run in order as one job, each under a condition on the steps before it. Steps between
//! `BEGIN` and `COMMIT` take effect together; every other step succeeds or fails by itself.

use super::job::{JobError, JobStatement, StatementResult};

/// A batch.
#[derive(Clone, Debug, PartialEq)]
pub struct BatchJob {
    /// Its steps, in order.
    pub steps: Vec<BatchStep>,
}

/// One step.
#[derive(Clone, Debug, PartialEq)]
pub struct BatchStep {
    /// The statement; it may also be `BEGIN`, `COMMIT` or `ROLLBACK`.
    pub statement: JobStatement,
    /// The step runs only if this holds.
    pub condition: Option<BatchCondition>,
}

/// A condition on the steps before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BatchCondition {
    /// This step ran and succeeded.
    Ok(usize),
    /// This step ran and failed.
    Error(usize),
    /// The condition does not hold.
    Not(Box<BatchCondition>),
    /// All hold.
    And(Vec<BatchCondition>),
    /// One holds.
    Or(Vec<BatchCondition>),
    /// No transaction is open.
    IsAutocommit,
}

/// The outcome of one step.
#[derive(Clone, Debug, PartialEq)]
pub enum StepOutcome {
    /// It succeeded.
    Done(StatementResult),
    /// It failed and changed nothing.
    Failed(JobError),
    /// Its condition did not hold.
    Skipped,
}

/// The outcomes of all steps, or an error of the batch as a whole, which then changed nothing.
pub type BatchOutcome = Result<Vec<StepOutcome>, JobError>;

impl BatchCondition {
    /// Whether the condition holds after these outcomes.
    pub fn holds(&self, outcomes: &[StepOutcome], is_autocommit: bool) -> bool {
        match self {
            BatchCondition::Ok(step) => matches!(outcomes.get(*step), Some(StepOutcome::Done(_))),
            BatchCondition::Error(step) => {
                matches!(outcomes.get(*step), Some(StepOutcome::Failed(_)))
            }
            BatchCondition::Not(condition) => !condition.holds(outcomes, is_autocommit),
            BatchCondition::And(all) => all.iter().all(|one| one.holds(outcomes, is_autocommit)),
            BatchCondition::Or(any) => any.iter().any(|one| one.holds(outcomes, is_autocommit)),
            BatchCondition::IsAutocommit => is_autocommit,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_look_at_the_steps_before() {
        let done = StepOutcome::Done(StatementResult::default());
        let failed = StepOutcome::Failed(JobError::new(
            crate::write::job::JobErrorKind::Constraint,
            "taken",
        ));
        let outcomes = [done, failed, StepOutcome::Skipped];
        let ok = BatchCondition::Ok;
        let cases = [
            (ok(0), true),
            (ok(1), false),
            (ok(2), false),
            (ok(9), false),
            (BatchCondition::Error(1), true),
            (BatchCondition::Error(2), false),
            (BatchCondition::Not(Box::new(ok(1))), true),
            (BatchCondition::And(vec![ok(0), BatchCondition::Error(1)]), true),
            (BatchCondition::And(vec![ok(0), ok(1)]), false),
            (BatchCondition::Or(vec![ok(1), ok(0)]), true),
            (BatchCondition::Or(vec![]), false),
            (BatchCondition::IsAutocommit, true),
        ];
        for (condition, expected) in cases {
            assert_eq!(condition.holds(&outcomes, true), expected, "{condition:?}");
        }
        assert!(!BatchCondition::IsAutocommit.holds(&outcomes, false));
    }
}

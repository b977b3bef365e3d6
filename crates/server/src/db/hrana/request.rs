//! The requests of a stream as their JSON says them.

use std::collections::BTreeMap;

use consort_db::write::batch::{BatchCondition, BatchJob, BatchStep};
use consort_db::write::job::{JobArgs, JobStatement};
use consort_db::write::script;
use serde::Deserialize;

use super::errors::StreamError;
use super::value::HranaArgument;

/// Most requests of a pipeline, and most steps of a batch or a sequence: a migration of a large schema has fewer.
pub(super) const STEPS_MOST: usize = 10_000;

/// The body of a pipeline.
#[derive(Debug, Deserialize)]
pub(super) struct PipelineBody {
    #[serde(default)]
    pub(super) baton: Option<String>,
    pub(super) requests: Vec<StreamRequest>,
}

/// The body of a cursor.
#[derive(Debug, Deserialize)]
pub(super) struct CursorBody {
    #[serde(default)]
    pub(super) baton: Option<String>,
    pub(super) batch: BatchForm,
}

/// One request of a stream.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum StreamRequest {
    Close,
    Execute { stmt: StatementForm },
    Batch { batch: BatchForm },
    Sequence(SqlForm),
    Describe(SqlForm),
    StoreSql { sql_id: i32, sql: String },
    CloseSql { sql_id: i32 },
    GetAutocommit,
}

/// A text, or the number under which the stream has stored one.
#[derive(Debug, Deserialize)]
pub(super) struct SqlForm {
    #[serde(default)]
    sql: Option<String>,
    #[serde(default)]
    sql_id: Option<i32>,
}

/// A statement with its arguments.
#[derive(Debug, Deserialize)]
pub(super) struct StatementForm {
    #[serde(default)]
    sql: Option<String>,
    #[serde(default)]
    sql_id: Option<i32>,
    #[serde(default)]
    args: Vec<HranaArgument>,
    #[serde(default)]
    named_args: Vec<NamedArgument>,
    #[serde(default = "yes")]
    want_rows: bool,
}

#[derive(Debug, Deserialize)]
struct NamedArgument {
    name: String,
    value: HranaArgument,
}

/// A batch.
#[derive(Debug, Deserialize)]
pub(super) struct BatchForm {
    steps: Vec<StepForm>,
}

#[derive(Debug, Deserialize)]
struct StepForm {
    #[serde(default)]
    condition: Option<ConditionForm>,
    stmt: StatementForm,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ConditionForm {
    Ok { step: usize },
    Error { step: usize },
    Not { cond: Box<ConditionForm> },
    And { conds: Vec<ConditionForm> },
    Or { conds: Vec<ConditionForm> },
    IsAutocommit,
}

/// The texts that a stream has stored.
pub(super) type StoredTexts = BTreeMap<i32, String>;

fn yes() -> bool {
    true
}

impl StreamRequest {
    /// All texts of the request, as far as they are known.
    pub(super) fn texts<'a>(&'a self, stored: &'a StoredTexts) -> Vec<&'a str> {
        match self {
            StreamRequest::Execute { stmt } => stmt.text(stored).into_iter().collect(),
            StreamRequest::Batch { batch } => batch.texts(stored),
            StreamRequest::Sequence(text) => {
                text.text(stored).map(script::statements).unwrap_or_default()
            }
            StreamRequest::StoreSql { sql, .. } => vec![sql],
            StreamRequest::Close
            | StreamRequest::Describe(_)
            | StreamRequest::CloseSql { .. }
            | StreamRequest::GetAutocommit => Vec::new(),
        }
    }
}

impl SqlForm {
    /// The text.
    pub(super) fn text<'a>(&'a self, stored: &'a StoredTexts) -> Result<&'a str, StreamError> {
        text_of(self.sql.as_deref(), self.sql_id, stored)
    }
}

impl StatementForm {
    /// The statement for a worker.
    pub(super) fn job(&self, stored: &StoredTexts) -> Result<JobStatement, StreamError> {
        let sql = self.text(stored)?.to_owned();
        let positional = || self.args.iter().map(|argument| argument.0.clone()).collect();
        let named = |named: &NamedArgument| (named.name.clone(), named.value.0.clone());
        let args = match (self.args.is_empty(), self.named_args.is_empty()) {
            (_, true) => JobArgs::Positional(positional()),
            (true, false) => JobArgs::Named(self.named_args.iter().map(named).collect()),
            (false, false) => {
                let message = "a statement has arguments by place or by name, and not both";
                return Err(StreamError::new("ARGS_BOTH_POSITIONAL_AND_NAMED", message));
            }
        };
        Ok(JobStatement { sql, args, changes: None })
    }

    /// The statement as a batch of one step.
    pub(super) fn batch(&self, stored: &StoredTexts) -> Result<BatchJob, StreamError> {
        let step = BatchStep { statement: self.job(stored)?, condition: None };
        Ok(BatchJob { steps: vec![step] })
    }

    /// Whether the client wants the rows.
    pub(super) fn wants_rows(&self) -> bool {
        self.want_rows
    }

    fn text<'a>(&'a self, stored: &'a StoredTexts) -> Result<&'a str, StreamError> {
        text_of(self.sql.as_deref(), self.sql_id, stored)
    }
}

impl BatchForm {
    /// The batch for a worker.
    pub(super) fn job(&self, stored: &StoredTexts) -> Result<BatchJob, StreamError> {
        check_steps(self.steps.len())?;
        let step = |step: &StepForm| {
            let condition = step.condition.as_ref().map(ConditionForm::condition);
            Ok(BatchStep { statement: step.stmt.job(stored)?, condition })
        };
        Ok(BatchJob { steps: self.steps.iter().map(step).collect::<Result<_, StreamError>>()? })
    }

    /// For each step, whether the client wants its rows.
    pub(super) fn wants_rows(&self) -> Vec<bool> {
        self.steps.iter().map(|step| step.stmt.want_rows).collect()
    }

    pub(super) fn texts<'a>(&'a self, stored: &'a StoredTexts) -> Vec<&'a str> {
        self.steps.iter().filter_map(|step| step.stmt.text(stored).ok()).collect()
    }
}

impl ConditionForm {
    fn condition(&self) -> BatchCondition {
        let all = |conds: &[ConditionForm]| conds.iter().map(ConditionForm::condition).collect();
        match self {
            ConditionForm::Ok { step } => BatchCondition::Ok(*step),
            ConditionForm::Error { step } => BatchCondition::Error(*step),
            ConditionForm::Not { cond } => BatchCondition::Not(Box::new(cond.condition())),
            ConditionForm::And { conds } => BatchCondition::And(all(conds)),
            ConditionForm::Or { conds } => BatchCondition::Or(all(conds)),
            ConditionForm::IsAutocommit => BatchCondition::IsAutocommit,
        }
    }
}

/// A sequence: each statement of the text, as long as those before it succeed.
pub(super) fn sequence_job(script: &str) -> Result<BatchJob, StreamError> {
    let statements = script::statements(script);
    check_steps(statements.len())?;
    let step = |(n, sql): (usize, &str)| {
        let args = JobArgs::Positional(Vec::new());
        let statement = JobStatement { sql: sql.to_owned(), args, changes: None };
        BatchStep { statement, condition: n.checked_sub(1).map(BatchCondition::Ok) }
    };
    Ok(BatchJob { steps: statements.into_iter().enumerate().map(step).collect() })
}

fn text_of<'a>(
    sql: Option<&'a str>,
    sql_id: Option<i32>,
    stored: &'a StoredTexts,
) -> Result<&'a str, StreamError> {
    match (sql, sql_id) {
        (Some(sql), None) => Ok(sql),
        (None, Some(id)) => stored.get(&id).map(String::as_str).ok_or_else(|| {
            StreamError::new("SQL_NOT_FOUND", format!("no text is stored under {id}"))
        }),
        _ => Err(StreamError::new("SQL_INPUT_ERROR", "a statement has either sql or sql_id")),
    }
}

fn check_steps(steps: usize) -> Result<(), StreamError> {
    match steps > STEPS_MOST {
        true => {
            let message = format!("a batch has at most {STEPS_MOST} steps, not {steps}");
            Err(StreamError::new("SQL_INPUT_ERROR", message))
        }
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use consort_db::write::job::SqlValue;

    use super::*;

    fn parse(text: &str) -> PipelineBody {
        serde_json::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn the_requests_of_clients_are_read() {
        let body = parse(
            r#"{"baton": null, "requests": [
                {"type": "store_sql", "sql_id": 1, "sql": "SELECT :a"},
                {"type": "execute", "stmt": {"sql_id": 1, "named_args": [{"name": "a", "value": {"type": "null"}}],
                    "want_rows": false, "replication_index": "5"}},
                {"type": "batch", "batch": {"steps": [
                    {"stmt": {"sql": "BEGIN"}},
                    {"condition": {"type": "and", "conds": [{"type": "ok", "step": 0},
                        {"type": "not", "cond": {"type": "is_autocommit"}}]},
                     "stmt": {"sql": "SELECT ?", "args": [{"type": "integer", "value": "7"}], "want_rows": true}}]}},
                {"type": "sequence", "sql": "SELECT 1; SELECT 2;"},
                {"type": "describe", "sql": "SELECT 1"},
                {"type": "close_sql", "sql_id": 1},
                {"type": "get_autocommit"},
                {"type": "close"}]}"#,
        );
        let stored = StoredTexts::from([(1, "SELECT :a".to_owned())]);
        let StreamRequest::Execute { stmt } = &body.requests[1] else { panic!() };
        let job = stmt.job(&stored).unwrap();
        assert_eq!(job.args, JobArgs::Named(vec![("a".into(), SqlValue::Null)]));
        assert!(!stmt.wants_rows());
        assert_eq!(stmt.job(&StoredTexts::new()).unwrap_err().code, "SQL_NOT_FOUND");
        let StreamRequest::Batch { batch } = &body.requests[2] else { panic!() };
        let job = batch.job(&stored).unwrap();
        let not = BatchCondition::Not(Box::new(BatchCondition::IsAutocommit));
        let both = BatchCondition::And(vec![BatchCondition::Ok(0), not]);
        assert_eq!((&job.steps[0].condition, &job.steps[1].condition), (&None, &Some(both)));
        assert_eq!(job.steps[1].statement.args, JobArgs::Positional(vec![SqlValue::Integer(7)]));
        let texts: Vec<&str> =
            body.requests.iter().flat_map(|request| request.texts(&stored)).collect();
        let expected = ["SELECT :a", "SELECT :a", "BEGIN", "SELECT ?", "SELECT 1;", "SELECT 2;"];
        assert_eq!(texts, expected);
    }

    #[test]
    fn a_sequence_goes_on_while_its_statements_succeed() {
        let job = sequence_job("BEGIN; INSERT INTO t VALUES (1); COMMIT").unwrap();
        let conditions: Vec<_> = job.steps.iter().map(|step| step.condition.clone()).collect();
        assert_eq!(conditions, [None, Some(BatchCondition::Ok(0)), Some(BatchCondition::Ok(1))]);
        assert!(sequence_job(&"SELECT 1;".repeat(STEPS_MOST + 1)).is_err());
    }

    #[test]
    fn malformed_requests_are_refused() {
        for bad in [
            "{}",
            r#"{"requests": [{"type": "nope"}]}"#,
            r#"{"requests": [{"type": "execute"}]}"#,
            r#"{"requests": [{"type": "store_sql", "sql": "x"}]}"#,
            r#"{"requests": 1}"#,
        ] {
            assert!(serde_json::from_str::<PipelineBody>(bad).is_err(), "{bad}");
        }
        let both = r#"{"requests": [{"type": "execute", "stmt": {"sql": "x", "args": [{"type": "null"}],
            "named_args": [{"name": "a", "value": {"type": "null"}}]}}]}"#;
        let StreamRequest::Execute { stmt } = &parse(both).requests[0] else { panic!() };
        let error = stmt.job(&StoredTexts::new()).unwrap_err();
        assert_eq!(error.code, "ARGS_BOTH_POSITIONAL_AND_NAMED");
    }
}

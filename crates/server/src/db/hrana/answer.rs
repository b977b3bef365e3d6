//! The answers of streams as JSON, written in steps between which other tasks run.

use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use consort_db::DbPosition;
use consort_db::read::StatementShape;
use consort_db::write::batch::StepOutcome;
use consort_db::write::job::{SqlValue, StatementResult};
use consort_kernel::Budget;
use serde::ser::SerializeSeq;
use serde::{Serialize, Serializer};
use serde_json::json;

use super::errors::StreamError;
use super::value::HranaValue;

/// The answer to one request of a stream.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum StreamAnswer {
    Close,
    Execute(StatementResult, DbPosition),
    Batch(Vec<StepOutcome>, DbPosition),
    Sequence,
    Describe(StatementShape),
    StoreSql,
    CloseSql,
    GetAutocommit(bool),
}

/// An answer, or the error in its place.
pub(super) type StreamResult = Result<StreamAnswer, StreamError>;

/// Writes the results of a pipeline.
#[derive(Debug, Default)]
pub(super) struct AnswerWriter {
    body: Vec<u8>,
    budget: Budget,
}

impl AnswerWriter {
    /// The answer of a pipeline.
    pub(super) async fn pipeline(
        mut self,
        baton: Option<&str>,
        results: &[StreamResult],
    ) -> Response {
        self.text("{\"baton\":").json(&baton).text(",\"base_url\":null,\"results\":[");
        for (n, result) in results.iter().enumerate() {
            self.text(if n == 0 { "" } else { "," });
            let begin = self.body.len();
            if let Err(error) = self.result(result).await {
                self.body.truncate(begin);
                self.error(&error);
            }
        }
        self.text("]}");
        self.into_response("application/json")
    }

    /// The answer of a cursor: one line for each entry.
    pub(super) async fn cursor(mut self, baton: Option<&str>, result: &StreamResult) -> Response {
        self.text("{\"baton\":").json(&baton).text(",\"base_url\":null}\n");
        let outcomes = match result {
            Ok(StreamAnswer::Batch(outcomes, _)) => &outcomes[..],
            Ok(_) => &[],
            Err(error) => {
                self.line(&json!({ "type": "error", "error": error }));
                &[]
            }
        };
        for (n, outcome) in outcomes.iter().enumerate() {
            match outcome {
                StepOutcome::Skipped => {}
                StepOutcome::Failed(error) => {
                    let error = StreamError::from(error);
                    self.line(&json!({ "type": "step_error", "step": n, "error": error }));
                }
                StepOutcome::Done(result) => {
                    let begin = self.body.len();
                    if let Err(error) = self.cursor_step(n, result).await {
                        self.body.truncate(begin);
                        self.line(&json!({ "type": "step_error", "step": n, "error": error }));
                    }
                }
            }
        }
        self.into_response("application/x-ndjson")
    }

    async fn cursor_step(&mut self, n: usize, result: &StatementResult) -> Result<(), StreamError> {
        self.text("{\"type\":\"step_begin\",\"step\":").json(&n).columns(result).text("}\n");
        for row in &result.rows {
            let begin = self.body.len();
            self.text("{\"type\":\"row\",\"row\":").row(row)?.text("}\n");
            let length = self.body.len() - begin;
            self.budget.spend(length).await;
        }
        self.text("{\"type\":\"step_end\"").counts(result).text("}\n");
        Ok(())
    }

    async fn result(&mut self, result: &StreamResult) -> Result<(), StreamError> {
        let answer = match result {
            Ok(answer) => answer,
            Err(error) => {
                self.error(error);
                return Ok(());
            }
        };
        self.text("{\"type\":\"ok\",\"response\":{\"type\":");
        match answer {
            StreamAnswer::Close => self.text("\"close\""),
            StreamAnswer::Sequence => self.text("\"sequence\""),
            StreamAnswer::StoreSql => self.text("\"store_sql\""),
            StreamAnswer::CloseSql => self.text("\"close_sql\""),
            StreamAnswer::GetAutocommit(is_autocommit) => {
                self.text("\"get_autocommit\",\"is_autocommit\":").json(is_autocommit)
            }
            StreamAnswer::Describe(shape) => {
                self.text("\"describe\",\"result\":").json(&described(shape))
            }
            StreamAnswer::Execute(result, position) => {
                self.text("\"execute\",\"result\":");
                self.statement(result, *position).await?
            }
            StreamAnswer::Batch(outcomes, position) => {
                self.text("\"batch\",\"result\":");
                self.batch(outcomes, *position).await?
            }
        };
        self.text("}}");
        Ok(())
    }

    async fn batch(
        &mut self,
        outcomes: &[StepOutcome],
        position: DbPosition,
    ) -> Result<&mut Self, StreamError> {
        self.text("{\"step_results\":[");
        let mut errors = Vec::with_capacity(outcomes.len());
        for (n, outcome) in outcomes.iter().enumerate() {
            self.text(if n == 0 { "" } else { "," });
            let begin = self.body.len();
            let error = match outcome {
                StepOutcome::Done(result) => self.statement(result, position).await.err(),
                StepOutcome::Failed(error) => Some(StreamError::from(error)),
                StepOutcome::Skipped => None,
            };
            if error.is_some() || self.body.len() == begin {
                self.body.truncate(begin);
                self.text("null");
            }
            errors.push(error);
        }
        self.text("],\"step_errors\":").json(&errors);
        self.text(",\"replication_index\":").json(&position.index.to_string());
        Ok(self.text("}"))
    }

    async fn statement(
        &mut self,
        result: &StatementResult,
        position: DbPosition,
    ) -> Result<&mut Self, StreamError> {
        self.text("{\"cols\":");
        self.cols(result).text(",\"rows\":[");
        for (n, row) in result.rows.iter().enumerate() {
            let begin = self.body.len();
            self.text(if n == 0 { "" } else { "," }).row(row)?;
            let length = self.body.len() - begin;
            self.budget.spend(length).await;
        }
        self.text("]").counts(result);
        self.text(",\"replication_index\":").json(&position.index.to_string());
        Ok(self.text("}"))
    }

    fn columns(&mut self, result: &StatementResult) -> &mut Self {
        self.text(",\"cols\":").cols(result)
    }

    fn cols(&mut self, result: &StatementResult) -> &mut Self {
        let column = |(name, declared): (&String, &Option<String>)| json!({ "name": name, "decltype": declared });
        let columns: Vec<_> = result.columns.iter().zip(&result.types).map(column).collect();
        self.json(&columns)
    }

    /// The counts are known for changes only; rows that were read along the way are not counted.
    fn counts(&mut self, result: &StatementResult) -> &mut Self {
        let last_id = result.last_id.map(|id| id.to_string());
        self.text(",\"affected_row_count\":").json(&result.changes);
        self.text(",\"last_insert_rowid\":").json(&last_id);
        self.text(",\"rows_read\":").json(&result.rows.len());
        self.text(",\"rows_written\":").json(&result.changes)
    }

    fn row(&mut self, row: &[SqlValue]) -> Result<&mut Self, StreamError> {
        let written = serde_json::to_writer(&mut self.body, &HranaRow(row));
        written.map_err(|error| {
            let message = format!("{error}: select it as CAST(… AS BLOB)");
            StreamError::new("SQL_INPUT_ERROR", message)
        })?;
        Ok(self)
    }

    fn error(&mut self, error: &StreamError) -> &mut Self {
        self.text("{\"type\":\"error\",\"error\":").json(error).text("}")
    }

    fn line(&mut self, value: &impl Serialize) -> &mut Self {
        self.json(value).text("\n")
    }

    fn text(&mut self, text: &str) -> &mut Self {
        self.body.extend_from_slice(text.as_bytes());
        self
    }

    fn json(&mut self, value: &impl Serialize) -> &mut Self {
        // Plain values: writing them into memory cannot fail.
        let _ = serde_json::to_writer(&mut self.body, value);
        self
    }

    fn into_response(self, media_type: &'static str) -> Response {
        let media_type = HeaderValue::from_static(media_type);
        ([(header::CONTENT_TYPE, media_type)], self.body).into_response()
    }
}

fn described(shape: &StatementShape) -> serde_json::Value {
    let columns = shape.columns.iter();
    let columns = columns.map(|(name, declared)| json!({ "name": name, "decltype": declared }));
    let parameters = shape.parameters.iter().map(|name| json!({ "name": name }));
    json!({
        "params": parameters.collect::<Vec<_>>(),
        "cols": columns.collect::<Vec<_>>(),
        "is_explain": shape.is_explain,
        "is_readonly": shape.is_readonly,
    })
}

struct HranaRow<'a>(&'a [SqlValue]);

impl Serialize for HranaRow<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut list = to.serialize_seq(Some(self.0.len()))?;
        self.0.iter().try_for_each(|value| list.serialize_element(&HranaValue(value)))?;
        list.end()
    }
}

#[cfg(test)]
mod tests {
    use axum::body::to_bytes;
    use bytes::Bytes;
    use consort_db::write::job::{JobError, JobErrorKind};
    use serde_json::Value;

    use super::*;

    const AT: DbPosition = DbPosition { era: 1, index: 17 };

    fn result() -> StatementResult {
        StatementResult {
            changes: 1,
            last_id: Some(5),
            columns: vec!["a".into(), "b".into()],
            types: vec![Some("INTEGER".into()), None],
            rows: vec![vec![SqlValue::Integer(5), SqlValue::Null]],
        }
    }

    fn failed() -> StepOutcome {
        StepOutcome::Failed(JobError::new(JobErrorKind::Request, "no"))
    }

    async fn body(response: Response) -> (String, String) {
        let kind = response.headers()["content-type"].to_str().unwrap().to_owned();
        let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
        (kind, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn the_results_of_a_pipeline_have_the_form_of_the_protocol() {
        let results = [
            Ok(StreamAnswer::Execute(result(), AT)),
            Ok(StreamAnswer::Batch(
                vec![StepOutcome::Done(result()), StepOutcome::Skipped, failed()],
                AT,
            )),
            Ok(StreamAnswer::GetAutocommit(true)),
            Err(StreamError::new("X", "why")),
            Ok(StreamAnswer::Close),
        ];
        let response = AnswerWriter::default().pipeline(Some("b"), &results).await;
        let (kind, body) = body(response).await;
        assert_eq!(kind, "application/json");
        let body: Value = serde_json::from_str(&body).unwrap();
        let statement = json!({
            "cols": [{"name": "a", "decltype": "INTEGER"}, {"name": "b", "decltype": null}],
            "rows": [[{"type": "integer", "value": "5"}, {"type": "null"}]],
            "affected_row_count": 1, "last_insert_rowid": "5", "rows_read": 1, "rows_written": 1,
            "replication_index": "17",
        });
        let batch = json!({
            "step_results": [statement, null, null],
            "step_errors": [null, null, {"message": "no", "code": "SQL_INPUT_ERROR"}],
            "replication_index": "17",
        });
        let expected = json!({
            "baton": "b", "base_url": null,
            "results": [
                {"type": "ok", "response": {"type": "execute", "result": statement}},
                {"type": "ok", "response": {"type": "batch", "result": batch}},
                {"type": "ok", "response": {"type": "get_autocommit", "is_autocommit": true}},
                {"type": "error", "error": {"message": "why", "code": "X"}},
                {"type": "ok", "response": {"type": "close"}},
            ],
        });
        assert_eq!(body, expected);
    }

    #[tokio::test]
    async fn a_cursor_has_a_line_for_each_entry() {
        let outcomes = vec![StepOutcome::Skipped, StepOutcome::Done(result()), failed()];
        let result = Ok(StreamAnswer::Batch(outcomes, AT));
        let (_, text) = body(AnswerWriter::default().cursor(None, &result).await).await;
        let lines: Vec<Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let kinds: Vec<&str> =
            lines[1..].iter().map(|line| line["type"].as_str().unwrap()).collect();
        assert_eq!(kinds, ["step_begin", "row", "step_end", "step_error"]);
        assert_eq!((&lines[0]["baton"], &lines[1]["step"]), (&Value::Null, &json!(1)));
        assert_eq!(lines[3]["last_insert_rowid"], "5");
    }

    #[tokio::test]
    async fn a_text_that_is_not_utf_8_is_an_error_of_its_request() {
        let broken = StatementResult {
            rows: vec![vec![SqlValue::Text(Bytes::from_static(b"\xff")), SqlValue::Null]],
            ..result()
        };
        let done = StepOutcome::Done(broken.clone());
        let results = [
            Ok(StreamAnswer::Execute(broken, AT)),
            Ok(StreamAnswer::Batch(vec![done.clone()], AT)),
            Ok(StreamAnswer::Close),
        ];
        let (_, text) = body(AnswerWriter::default().pipeline(None, &results).await).await;
        let text: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(text["results"][0]["type"], "error");
        let step = &text["results"][1]["response"]["result"];
        assert!(step["step_results"][0].is_null() && !step["step_errors"][0].is_null());
        let result = Ok(StreamAnswer::Batch(vec![done], AT));
        let (_, text) = body(AnswerWriter::default().cursor(None, &result).await).await;
        assert!(text.lines().last().unwrap().contains("step_error"), "{text}");
    }
}

//! The answers to writes and reads that succeeded.

use axum::http::{HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use consort_db::DbPosition;
use consort_db::read::{QueryRows, ReadAnswer};
use consort_db::write::job::{JobAnswer, SqlValue, StatementResult};
use consort_db::write::queue::Settled;
use consort_kernel::Budget;
use serde::ser::{Serialize, SerializeSeq, Serializer};
use serde_json::json;

use super::values::ShownValue;

/// Where an answer tells its place in the history of the database.
pub(super) const POSITION: HeaderName = HeaderName::from_static("consort-position");

/// Where a read asks for an answer at least as new as a position.
pub(super) const AFTER: HeaderName = HeaderName::from_static("consort-after");

/// A row, as a list of values.
struct ShownRow<'a>(&'a [SqlValue]);

/// A body that is written row by row: a large one lets other tasks run.
#[derive(Default)]
struct BodyWriter {
    body: Vec<u8>,
    budget: Budget,
}

/// The answer to a write that is stored.
pub(super) async fn written(settled: Settled<JobAnswer>) -> Response {
    let Settled { position: end, outcome } = settled;
    let (position, results) = match outcome {
        JobAnswer::New(results) => (end, Some(results)),
        // A restore may have begun a new era since, and its history may be shorter.
        JobAnswer::Known { index, results } => {
            (DbPosition { index: index.min(end.index), ..end }, results)
        }
    };
    let mut writer = BodyWriter::default();
    writer.text("{").position(position).text(",\"results\":");
    match results {
        None => drop(writer.text("null")),
        Some(results) => writer.results(&results).await,
    }
    writer.text("}");
    writer.into_response(position)
}

/// The answer to a read. That of one query is its rows themselves.
pub(super) async fn read(answer: &ReadAnswer, is_single: bool) -> Response {
    let mut writer = BodyWriter::default();
    match (&answer.results[..], is_single) {
        ([only], true) => {
            writer.text("{");
            writer.rows(&only.columns, &only.rows).await;
        }
        (results, _) => {
            writer.text("{\"results\":");
            writer.row_sets(results).await;
        }
    }
    writer.text(",").position(answer.position);
    writer.text(",\"worker\":").json(&answer.worker).text("}");
    writer.into_response(answer.position)
}

/// A small answer that tells a position.
pub(super) fn at_position(position: DbPosition) -> Response {
    let text = position.to_string();
    let mut response =
        axum::Json(json!({ "position": text, "index": position.index })).into_response();
    tell_position(&mut response, position);
    response
}

/// Adds the header with a position.
pub(super) fn tell_position(response: &mut Response, position: DbPosition) {
    // A position has digits and a hyphen.
    if let Ok(value) = HeaderValue::try_from(position.to_string()) {
        response.headers_mut().insert(POSITION, value);
    }
}

impl BodyWriter {
    fn text(&mut self, text: &str) -> &mut Self {
        self.body.extend_from_slice(text.as_bytes());
        self
    }

    fn json(&mut self, value: &impl Serialize) -> &mut Self {
        // Plain values: writing them into memory cannot fail.
        let _ = serde_json::to_writer(&mut self.body, value);
        self
    }

    fn position(&mut self, position: DbPosition) -> &mut Self {
        self.text("\"position\":").json(&position.to_string());
        self.text(",\"index\":").json(&position.index)
    }

    async fn results(&mut self, results: &[StatementResult]) {
        self.text("[");
        for (n, result) in results.iter().enumerate() {
            self.text(if n == 0 { "{" } else { ",{" });
            self.text("\"changes\":").json(&result.changes);
            self.text(",\"last_id\":").json(&result.last_id);
            if !result.columns.is_empty() {
                self.text(",");
                self.rows(&result.columns, &result.rows).await;
            }
            self.text("}");
            self.budget.spend(0).await;
        }
        self.text("]");
    }

    async fn row_sets(&mut self, results: &[QueryRows]) {
        self.text("[");
        for (n, result) in results.iter().enumerate() {
            self.text(if n == 0 { "{" } else { ",{" });
            self.rows(&result.columns, &result.rows).await;
            self.text("}");
        }
        self.text("]");
    }

    async fn rows(&mut self, columns: &[String], rows: &[Vec<SqlValue>]) {
        self.text("\"columns\":").json(&columns).text(",\"rows\":[");
        for (n, row) in rows.iter().enumerate() {
            let begin = self.body.len();
            self.text(if n == 0 { "" } else { "," }).json(&ShownRow(row));
            let length = self.body.len() - begin;
            self.budget.spend(length).await;
        }
        self.text("]");
    }

    fn into_response(self, position: DbPosition) -> Response {
        let json = HeaderValue::from_static("application/json");
        let mut response = ([(header::CONTENT_TYPE, json)], self.body).into_response();
        tell_position(&mut response, position);
        response
    }
}

impl Serialize for ShownRow<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut list = to.serialize_seq(Some(self.0.len()))?;
        self.0.iter().try_for_each(|value| list.serialize_element(&ShownValue(value)))?;
        list.end()
    }
}

#[cfg(test)]
mod tests {
    use axum::body::to_bytes;
    use bytes::Bytes;

    use super::*;

    async fn told(response: Response) -> (String, String) {
        let position = response.headers()[POSITION].to_str().unwrap().to_owned();
        let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
        (position, String::from_utf8(body.to_vec()).unwrap())
    }

    fn at(index: u64) -> DbPosition {
        DbPosition { era: 1, index }
    }

    fn inserted() -> StatementResult {
        StatementResult {
            changes: 1,
            last_id: Some(7),
            columns: vec!["id".into(), "data".into()],
            types: vec![None, None],
            rows: vec![vec![SqlValue::Integer(7), SqlValue::Blob(Bytes::from_static(b"\0"))]],
        }
    }

    #[tokio::test]
    async fn a_write_answers_with_its_position_and_a_result_for_each_statement() {
        let plain = StatementResult { changes: 2, ..StatementResult::default() };
        let rows =
            r#"{"changes":1,"last_id":7,"columns":["id","data"],"rows":[[7,{"blob":"AA=="}]]}"#;
        for (outcome, position, results) in [
            (
                JobAnswer::New(vec![plain.clone(), inserted()]),
                "1-17",
                format!(r#"[{{"changes":2,"last_id":null}},{rows}]"#),
            ),
            (
                JobAnswer::Known { index: 9, results: Some(vec![plain]) },
                "1-9",
                r#"[{"changes":2,"last_id":null}]"#.to_owned(),
            ),
            (JobAnswer::Known { index: 9, results: None }, "1-9", "null".to_owned()),
            (JobAnswer::Known { index: 99, results: None }, "1-17", "null".to_owned()),
        ] {
            let index = position.rsplit('-').next().unwrap();
            let body =
                format!(r#"{{"position":"{position}","index":{index},"results":{results}}}"#);
            let response = written(Settled { position: at(17), outcome }).await;
            assert_eq!(told(response).await, (position.to_owned(), body));
        }
    }

    #[tokio::test]
    async fn a_read_answers_with_the_rows_of_one_query_or_a_list_of_them() {
        let rows = QueryRows {
            columns: vec!["username".into()],
            types: vec![None],
            rows: vec![vec!["ann".into()], vec![SqlValue::Null]],
        };
        let answer = |results| ReadAnswer { position: at(17), worker: 3, results };
        let one = r#""columns":["username"],"rows":[["ann"],[null]]"#;
        let end = r#""position":"1-17","index":17,"worker":3}"#;
        for (results, is_single, begin) in [
            (vec![rows.clone()], true, format!("{{{one}")),
            (vec![rows.clone()], false, format!(r#"{{"results":[{{{one}}}]"#)),
            (vec![rows.clone(), rows], false, format!(r#"{{"results":[{{{one}}},{{{one}}}]"#)),
        ] {
            let told = told(read(&answer(results), is_single).await).await;
            assert_eq!(told, ("1-17".to_owned(), format!("{begin},{end}")));
        }
    }

    #[tokio::test]
    async fn a_large_answer_is_written_in_steps() {
        use futures::poll;
        use std::pin::pin;
        use std::task::Poll;

        let row = vec![SqlValue::from(&*"x".repeat(64 << 10))];
        let rows = QueryRows { columns: vec!["a".into()], types: vec![], rows: vec![row; 20] };
        let answer = ReadAnswer { position: at(1), worker: 1, results: vec![rows] };
        let (mut writing, mut yields) = (pin!(read(&answer, true)), 0);
        while let Poll::Pending = poll!(&mut writing) {
            yields += 1;
        }
        assert_eq!(yields, 20);
    }
}

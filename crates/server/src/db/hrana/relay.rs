//! The hop of a pipeline to another node. A stream that moves takes its stored texts with it.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::{StatusCode, Uri, header};
use axum::response::Response;
use bytes::Bytes;
use consort_db::db::Database;
use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::errors::from_problem_json;
use super::request::StoredTexts;
use crate::db::hop::{HopOutcome, HopRequest};
use crate::peers::{Peers, RoleOwner};

/// The longest time for which the statements of one pipeline are waited for.
const RUN_MOST: Duration = Duration::from_secs(60);
/// The largest answer of another node that is looked into.
const ANSWER_MOST: usize = 64 * 1024;

/// A pipeline on its way to another node.
pub(super) struct Relay<'a> {
    pub(super) peers: &'a Peers,
    pub(super) database: &'a Database,
    pub(super) hop: &'a HopRequest,
    pub(super) take_by: Instant,
    /// How many requests it has, and whether one of them changes the schema.
    pub(super) requests: usize,
    pub(super) is_schema_change: bool,
}

#[derive(Deserialize)]
struct MovedAnswer {
    baton: Option<String>,
}

impl Relay<'_> {
    /// Sends the request as it came: to the node that holds its stream.
    pub(super) async fn send(&self, to: &RoleOwner) -> HopOutcome {
        self.send_body(to, self.hop.body.clone()).await
    }

    /// Sends the request to a node that has not held its stream.
    pub(super) async fn send_moved(&self, to: &RoleOwner, stored: &StoredTexts) -> HopOutcome {
        let baton = match stored.is_empty() {
            true => None,
            false => match self.move_texts(to, stored).await {
                Ok(baton) => Some(baton),
                Err(detail) => return HopOutcome::NotTaken(detail),
            },
        };
        match with_baton(&self.hop.body, baton) {
            Some(body) => self.send_body(to, body).await,
            None => HopOutcome::NotTaken("the request cannot be sent to another node".into()),
        }
    }

    async fn send_body(&self, to: &RoleOwner, body: Bytes) -> HopOutcome {
        let hop = HopRequest { body, ..self.hop.clone() };
        match hop.send(self.peers, to, self.take_by, self.run_time()).await {
            HopOutcome::Answered(answer) => HopOutcome::Answered(in_form(answer).await),
            outcome => outcome,
        }
    }

    /// Opens a stream with these texts on another node. It changes nothing, so it may fail.
    async fn move_texts(&self, to: &RoleOwner, stored: &StoredTexts) -> Result<String, String> {
        let store =
            |(id, sql): (&i32, &String)| json!({ "type": "store_sql", "sql_id": id, "sql": sql });
        let requests: Vec<Value> = stored.iter().map(store).collect();
        let body = json!({ "baton": null, "requests": requests }).to_string();
        let path = format!("/db/{}/v3/pipeline", self.database.name());
        let uri = path.parse::<Uri>().map_err(|error| error.to_string())?;
        let hop = HopRequest { uri, body: body.into(), ..self.hop.clone() };
        let answer = match hop.send(self.peers, to, self.take_by, Duration::ZERO).await {
            HopOutcome::Answered(answer) => answer,
            HopOutcome::NotTaken(detail) | HopOutcome::Unknown(detail) => return Err(detail),
        };
        let body = to_bytes(answer.into_body(), ANSWER_MOST).await;
        let body = body.map_err(|error| error.to_string())?;
        let moved: Option<MovedAnswer> = serde_json::from_slice(&body).ok();
        moved
            .and_then(|moved| moved.baton)
            .ok_or_else(|| format!("node '{}' has no room for the stream", to.node))
    }

    fn run_time(&self) -> Duration {
        let settings = self.database.settings();
        let each = settings.write_time.max(settings.read_time);
        let requests = u32::try_from(self.requests).unwrap_or(u32::MAX);
        let time = each.saturating_mul(requests).min(RUN_MOST);
        match self.is_schema_change {
            true => time.max(settings.ddl_time),
            false => time,
        }
    }
}

/// The body with another baton; `None` if it is not an object.
fn with_baton(body: &[u8], baton: Option<String>) -> Option<Bytes> {
    let mut members: BTreeMap<&str, Box<RawValue>> = serde_json::from_slice(body).ok()?;
    members.insert("baton", to_raw_value(&baton).ok()?);
    serde_json::to_vec(&members).ok().map(Bytes::from)
}

/// A problem of the other node is told in the form of these clients.
async fn in_form(answer: Response) -> Response {
    let media_type = answer.headers().get(header::CONTENT_TYPE);
    let is_problem = media_type.is_some_and(|kind| kind == "application/problem+json");
    if !is_problem {
        return answer;
    }
    let (head, body) = answer.into_parts();
    let body = to_bytes(body, ANSWER_MOST).await.unwrap_or_default();
    match serde_json::from_slice::<Value>(&body) {
        Ok(problem) => from_problem_json(head.status, &problem),
        Err(_) => {
            let mut response = Response::new(Body::from(body));
            *response.status_mut() = StatusCode::BAD_GATEWAY;
            response
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_baton_of_a_body_is_changed() {
        let body = br#"{"requests": [{"type": "execute", "n": 1.50}], "baton": "old"}"#;
        let changed = |baton: Option<&str>| {
            let body = with_baton(body, baton.map(str::to_owned)).unwrap();
            String::from_utf8(body.to_vec()).unwrap()
        };
        let requests = r#""requests":[{"type": "execute", "n": 1.50}]"#;
        assert_eq!(changed(Some("new")), format!(r#"{{"baton":"new",{requests}}}"#));
        assert_eq!(changed(None), format!(r#"{{"baton":null,{requests}}}"#));
        assert_eq!(with_baton(b"[]", None), None);
    }
}

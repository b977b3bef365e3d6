//! Schema files on their way to the leader. A node that has a folder of them hands each over, at any node that leads.

use axum::Json;
use axum::body::to_bytes;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, header};
use consort_db::admin::SchemaOutcome;
use consort_db::db::{Database, LeaderPlace};
pub use consort_db::write::schema_file::SchemaFile;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::DbHttp;
use super::failures::{job_refused, moved, no_worker, unknown, write_failed};
use super::hop::{HopOutcome, HopRequest};
use super::incoming::{DatabasePath, Incoming};
use crate::peers::RoleOwner;
use crate::problem::Problem;
use crate::problems;

/// The largest schema file. In JSON it has at most six times as many bytes, which every node accepts by default.
pub const SCHEMA_FILE_MOST: usize = 1024 * 1024;

/// JSON may write each byte of a text as six.
const BODY_MOST: usize = 6 * SCHEMA_FILE_MOST;

/// The largest answer to a schema file.
const ANSWER_MOST: usize = 64 * 1024;

const FORM: &str = "{\"name\": TEXT, \"sql\": TEXT}";

/// A schema file as nodes hand it over.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SentFile {
    name: String,
    sql: String,
}

/// Why a schema file was not handed over.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SchemaHandOverError {
    /// The file is at fault: the same would fail again.
    #[error("{0}")]
    Refused(String),
    /// No leader took it at the moment.
    #[error("{0}")]
    Later(String),
}

/// `POST /db/{name}/schema-files`
pub(super) async fn apply(
    State(http): State<DbHttp>,
    path: DatabasePath,
    request: Request,
) -> Result<Json<Value>, Problem> {
    let Incoming { database, hop } = http.incoming(path, request).await?;
    let SentFile { name, sql } = hop.order(BODY_MOST, FORM)?;
    let file = SchemaFile { name, sql };
    let outcome = match database.leader() {
        LeaderPlace::Here(_) => apply_here(&database, &file).await?,
        _ if hop.is_forwarded() => {
            let detail =
                format!("the leader of '{}' is not on this node any more", database.name());
            return Err(moved(detail));
        }
        LeaderPlace::Node { node, address } => {
            let to = RoleOwner { node, address, is_here: false };
            http.apply_at(&database, &to, &hop).await?
        }
        LeaderPlace::Nowhere => {
            let detail = format!("the database '{}' has no leader at the moment", database.name());
            return Err(no_worker(detail));
        }
    };
    Ok(Json(json!({ "outcome": word(outcome) })))
}

impl DbHttp {
    /// Hands a schema file to the leader, here or on another node.
    pub async fn hand_over(
        &self,
        database: &str,
        file: &SchemaFile,
    ) -> Result<SchemaOutcome, SchemaHandOverError> {
        let database = self.named(database).map_err(|problem| to_error(&problem))?;
        let outcome = match database.leader() {
            LeaderPlace::Here(_) => apply_here(&database, file).await,
            LeaderPlace::Node { node, address } => {
                let to = RoleOwner { node, address, is_here: false };
                self.apply_at(&database, &to, &hop_of(&database, file)).await
            }
            LeaderPlace::Nowhere => Err(no_worker("the database has no leader at the moment")),
        };
        outcome.map_err(|problem| to_error(&problem))
    }

    async fn apply_at(
        &self,
        database: &Database,
        to: &RoleOwner,
        hop: &HopRequest,
    ) -> Result<SchemaOutcome, Problem> {
        let settings = database.settings();
        let take_by = Instant::now() + settings.wait;
        match hop.send(self.peers(), to, take_by, settings.ddl_time).await {
            HopOutcome::Answered(answer) => {
                let is_success = answer.status().is_success();
                let body = to_bytes(answer.into_body(), ANSWER_MOST).await;
                read_answer(is_success, &body.unwrap_or_default())
            }
            HopOutcome::NotTaken(detail) => Err(no_worker(detail)),
            HopOutcome::Unknown(detail) => Err(unknown(detail)),
        }
    }
}

async fn apply_here(database: &Database, file: &SchemaFile) -> Result<SchemaOutcome, Problem> {
    let take_by = Instant::now() + database.settings().wait;
    let before = database.sight().head.as_ref().map(|head| head.position());
    let applied = database.apply_schema_file(file.clone(), take_by).await;
    let settled = applied.map_err(|failure| write_failed(&failure))?;
    match settled.outcome {
        Ok(_) if Some(settled.position) == before => Ok(SchemaOutcome::Known),
        Ok(_) => Ok(SchemaOutcome::Applied),
        Err(error) => Err(job_refused(&error)),
    }
}

fn hop_of(database: &Database, file: &SchemaFile) -> HopRequest {
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    // A name has letters, digits, '_' and '-'.
    let uri = format!("/db/{}/schema-files", database.name()).parse().unwrap_or_default();
    // Two texts: writing them into memory cannot fail.
    let sent = SentFile { name: file.name.clone(), sql: file.sql.clone() };
    let body = serde_json::to_vec(&sent).unwrap_or_default().into();
    HopRequest { method: Method::POST, uri, headers, body }
}

fn word(outcome: SchemaOutcome) -> &'static str {
    match outcome {
        SchemaOutcome::Applied => "applied",
        SchemaOutcome::Known => "known",
    }
}

fn read_answer(is_success: bool, body: &[u8]) -> Result<SchemaOutcome, Problem> {
    let told: Value = serde_json::from_slice(body).unwrap_or_default();
    if is_success {
        let outcomes = [SchemaOutcome::Applied, SchemaOutcome::Known];
        let outcome = outcomes.into_iter().find(|outcome| told["outcome"] == word(*outcome));
        return outcome
            .ok_or_else(|| unknown("the leader's node gave an answer of another release"));
    }
    let urn = told["type"].as_str().unwrap_or_default();
    let kind = problems::find(urn.rsplit(':').next().unwrap_or_default());
    let detail = told["detail"].as_str().unwrap_or("the leader's node refused the file");
    match kind {
        Some(kind) => Err(Problem::new(kind, detail)),
        None => Err(unknown(detail)),
    }
}

/// A file that the schema forbids stays forbidden; everything else may pass.
fn to_error(problem: &Problem) -> SchemaHandOverError {
    let detail = problem.detail().to_owned();
    match problem.status().is_client_error() {
        true => SchemaHandOverError::Refused(detail),
        false => SchemaHandOverError::Later(detail),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_of_the_leaders_node_is_read_back() {
        for outcome in [SchemaOutcome::Applied, SchemaOutcome::Known] {
            let body = json!({ "outcome": word(outcome) }).to_string();
            assert_eq!(read_answer(true, body.as_bytes()), Ok(outcome));
        }
        let told = |kind: &str| {
            let body = json!({ "type": format!("urn:consort:problem:{kind}"), "detail": "why" });
            to_error(&read_answer(false, body.to_string().as_bytes()).unwrap_err())
        };
        assert_eq!(told("db-schema"), SchemaHandOverError::Refused("why".into()));
        assert_eq!(told("db-request"), SchemaHandOverError::Refused("why".into()));
        assert_eq!(told("db-no-worker"), SchemaHandOverError::Later("why".into()));
        assert_eq!(told("of-a-later-release"), SchemaHandOverError::Later("why".into()));
        let empty = read_answer(true, b"").unwrap_err();
        assert!(matches!(to_error(&empty), SchemaHandOverError::Later(_)));
    }
}

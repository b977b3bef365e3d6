//! How a service stands on its Consort database.
//!
//! Reads are `strong`, so every answer has all that was acknowledged before its request came. Writes carry an
//! idempotency key. Both are repeated while that may help, until [`ANSWER_WITHIN`] has passed: a failover costs a
//! client time, and neither doubles nor loses a write.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use consort_client::{DbClient, DbClientError, DbProblem, ReadConsistency, SqlStatement};
use consort_client::{RowSet, WorkerList};
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::http::Problem;
use crate::random_key::random_key;
use crate::start_error::StartError;
use crate::statements::TABLES;

/// The usual name of the database.
const DATABASE: &str = "rideshare";

/// How long a client waits for the database. Beyond it: 503.
pub(crate) const ANSWER_WITHIN: Duration = Duration::from_secs(2);

/// How long a health check may take: less than those who ask for it wait.
const HEALTH_WITHIN: Duration = Duration::from_millis(800);

/// The pause before a request is repeated.
const PAUSE: Duration = Duration::from_millis(25);

/// Where the database is.
#[derive(Args, Clone, Debug)]
pub(crate) struct DatabaseArgs {
    /// Nodes of Consort, tried in turn
    #[arg(
        long,
        env = "RIDESHARE_CONSORT",
        value_name = "URL[,URL]",
        value_delimiter = ',',
        default_value = "http://127.0.0.1:7400"
    )]
    pub(crate) consort: Vec<String>,
    /// The name of the database
    #[arg(long, env = "RIDESHARE_DATABASE", value_name = "NAME", default_value = DATABASE)]
    pub(crate) database: String,
    /// A file with the access token of Consort
    #[arg(long, env = "RIDESHARE_TOKEN_FILE", value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
}

impl DatabaseArgs {
    /// The usual database of one node.
    pub(crate) fn at(consort: String) -> DatabaseArgs {
        let database = DATABASE.to_owned();
        DatabaseArgs { consort: vec![consort], database, token_file: None }
    }
}

/// The database. Clones share their connections.
#[derive(Clone, Debug)]
pub(crate) struct Database(Arc<DbClient>);

impl Database {
    /// A client of the database. No connection is made yet.
    pub(crate) fn new(args: &DatabaseArgs) -> Result<Database, StartError> {
        let read = |path: &PathBuf| {
            std::fs::read_to_string(path)
                .map_err(|source| StartError::TokenFile { path: path.clone(), source })
        };
        let token = args.token_file.as_ref().map(read).transpose()?;
        let token = token.as_deref().map(str::trim);
        let client = DbClient::new(&args.consort, &args.database, token, ANSWER_WITHIN)?;
        Ok(Database(Arc::new(client)))
    }

    /// The rows of one query.
    pub(crate) async fn read(&self, query: SqlStatement) -> Result<Vec<Vec<Value>>, DbClientError> {
        let read = || self.0.read(&query, ReadConsistency::Strong);
        Ok(repeated(read).await?.rows.rows)
    }

    /// The rows of several queries on one snapshot. It counts as one read.
    pub(crate) async fn read_many(
        &self,
        queries: &[SqlStatement],
    ) -> Result<Vec<RowSet>, DbClientError> {
        let read = || self.0.read_many(queries, ReadConsistency::Strong);
        Ok(repeated(read).await?.results)
    }

    /// Runs one statement and tells how many rows it changed.
    pub(crate) async fn write(&self, statement: SqlStatement) -> Result<u64, DbClientError> {
        let (statements, key) = ([statement], random_key());
        let outcome = repeated(|| self.0.write(&statements, Some(&key))).await?;
        let results = outcome.results.unwrap_or_default();
        Ok(results.first().map_or(0, |result| result.changes))
    }

    /// The live workers, sorted by id.
    pub(crate) async fn workers(&self) -> Result<WorkerList, DbClientError> {
        repeated(|| self.0.workers()).await
    }

    /// Ends a worker. The request is not repeated.
    pub(crate) async fn crash(&self, worker: u64) -> Result<(), DbClientError> {
        self.0.crash(worker).await
    }

    /// Waits until there are a leader and all tables. It writes nothing, and is no read.
    pub(crate) async fn check_tables(&self) -> Result<(), DbClientError> {
        for table in &TABLES {
            self.write(table.delete_some(0)).await?;
        }
        Ok(())
    }

    /// Whether a node answers for the database. It is no read.
    pub(crate) async fn check(&self) -> Result<(), Problem> {
        match timeout(HEALTH_WITHIN, self.0.status()).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(Problem::unavailable(error.to_string())),
            Err(_) => Err(Problem::unavailable("no node of Consort answers")),
        }
    }
}

/// An error that no service explains better. The services send no SQL that can be wrong, so a request that the database
/// refuses is a matter of its operator, not of the client.
impl From<DbClientError> for Problem {
    fn from(error: DbClientError) -> Problem {
        tracing::warn!(%error, "the database gave no answer");
        Problem::unavailable(error.to_string())
    }
}

/// Sends a request again while that may help, until [`ANSWER_WITHIN`] has passed.
async fn repeated<T, F>(request: impl Fn() -> F) -> Result<T, DbClientError>
where
    F: Future<Output = Result<T, DbClientError>>,
{
    let deadline = Instant::now() + ANSWER_WITHIN;
    let mut last = None;
    while Instant::now() < deadline {
        match timeout_at(deadline, request()).await {
            Ok(Err(error)) if error.is_retryable() => last = Some(error),
            Ok(settled) => return settled,
            Err(_) => break,
        }
        sleep(PAUSE.min(deadline.saturating_duration_since(Instant::now()))).await;
    }
    Err(last.unwrap_or_else(|| {
        let detail = format!("the database did not answer within {ANSWER_WITHIN:?}");
        DbClientError::Unknown(DbProblem { detail, ..DbProblem::default() })
    }))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn failure(make: fn(DbProblem) -> DbClientError) -> DbClientError {
        make(DbProblem { detail: "why".into(), ..DbProblem::default() })
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_is_repeated_until_it_is_settled() {
        for (make, requests) in [
            (DbClientError::Unavailable as fn(DbProblem) -> DbClientError, 3),
            (DbClientError::Unknown, 3),
            (DbClientError::Stored, 3),
            (DbClientError::Constraint, 1),
            (DbClientError::Expectation, 1),
            (DbClientError::Refused, 1),
        ] {
            let sent = Cell::new(0);
            let settled = repeated(async || {
                sent.set(sent.get() + 1);
                if sent.get() == 3 { Ok(()) } else { Err(failure(make)) }
            })
            .await;
            assert_eq!(sent.get(), requests, "{settled:?}");
            assert_eq!(settled.is_ok(), requests == 3);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_last_reason_is_told_when_the_time_is_over() {
        let begun = Instant::now();
        let error = repeated(async || Err::<(), _>(failure(DbClientError::Unavailable))).await;
        assert_eq!(error, Err(failure(DbClientError::Unavailable)));
        assert_eq!(begun.elapsed(), ANSWER_WITHIN);

        let begun = Instant::now();
        let error = repeated(std::future::pending::<Result<(), DbClientError>>).await;
        assert!(matches!(error, Err(DbClientError::Unknown(_))), "{error:?}");
        assert_eq!(begun.elapsed(), ANSWER_WITHIN);
    }
}

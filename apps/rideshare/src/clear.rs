//! Emptying all tables, in requests of bounded size.

use std::time::Duration;

use consort_client::DbClientError;
use tokio::time::timeout;

use crate::database::Database;
use crate::http::Problem;
use crate::statements::{TABLES, Table};

/// How many rows one request deletes.
const ROWS_AT_ONCE: u64 = 5_000;

/// How long all of it may take: a million rows take some ten seconds.
const CLEAR_WITHIN: Duration = Duration::from_secs(60);

/// Empties all tables. Users go last, and their rides go with them, so all three are empty when the last user is
/// deleted, even if others create rides meanwhile.
pub(crate) async fn clear(database: &Database) -> Result<(), Problem> {
    let clear = async {
        for table in &TABLES {
            empty(database, table).await?;
        }
        Ok(())
    };
    let late = |_| Err(Problem::unavailable("there are more rows than can be deleted in time"));
    timeout(CLEAR_WITHIN, clear).await.unwrap_or_else(late)
}

async fn empty(database: &Database, table: &Table) -> Result<(), Problem> {
    let mut rows = ROWS_AT_ONCE;
    loop {
        match database.write(table.delete_some(rows)).await {
            Ok(deleted) if deleted < rows => return Ok(()),
            Ok(_) => {}
            // Rows with long texts are too much for one transaction.
            Err(DbClientError::Refused(problem))
                if [413, 422].contains(&problem.status) && rows > 1 =>
            {
                rows /= 2;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

//! Schema files of a node: read and checked when it starts, handed to the leader when it has joined.

use std::time::Duration;

use consort_db::admin::SchemaOutcome;
use consort_db::db::Databases;
use consort_db::settings::DatabaseSettings;
use consort_server::db::{DbHttp, SchemaFile, SchemaHandOverError};

use crate::config::db::schema_files;
use crate::parts::PartError;

/// How long a node waits before it offers a file again that no leader took.
const RETRY_AFTER: Duration = Duration::from_millis(100);

/// How often it says that no leader takes a file.
const SAID_EVERY: u32 = 300;

/// The files of all databases that have a folder on this node.
#[derive(Debug, Default)]
pub(super) struct SchemaFiles(Vec<(String, Vec<SchemaFile>)>);

/// A schema folder cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("the schema files of database '{database}': {reason}")]
struct SchemaFolderError {
    database: String,
    reason: String,
}

impl SchemaFiles {
    /// Reads the folders.
    pub(super) fn read(settings: &[DatabaseSettings]) -> Result<SchemaFiles, PartError> {
        let mut all = Vec::new();
        for one in settings {
            let Some(folder) = &one.schema else { continue };
            let database = one.name.to_string();
            let files = schema_files(folder);
            let files = files.map_err(|reason| failed(&database, reason))?;
            all.push((database, files));
        }
        Ok(SchemaFiles(all))
    }

    /// Refuses a file that changed after it was applied.
    pub(super) async fn check(&self, databases: &Databases) -> Result<(), PartError> {
        for (name, files) in &self.0 {
            let Some(database) = databases.get(name) else { continue };
            let checked = database.check_schema_files(files).await;
            checked.map_err(|error| failed(name, error.to_string()))?;
        }
        Ok(())
    }

    pub(super) fn into_databases(self) -> Vec<(String, Vec<SchemaFile>)> {
        self.0
    }
}

fn failed(database: &str, reason: String) -> PartError {
    PartError::failed(SchemaFolderError { database: database.to_owned(), reason })
}

/// Hands the files of a database to its leader, in order, until it has all of them.
pub(super) async fn hand_over(http: DbHttp, database: String, files: Vec<SchemaFile>) {
    for file in files {
        let mut attempts = 0;
        loop {
            match http.hand_over(&database, &file).await {
                Ok(SchemaOutcome::Applied) => {
                    tracing::info!(%database, file = %file.name, "a schema file was applied");
                    break;
                }
                Ok(SchemaOutcome::Known) => break,
                Err(SchemaHandOverError::Refused(reason)) => {
                    tracing::error!(
                        %database, file = %file.name, %reason,
                        "a schema file was refused, so those behind it are not applied either; correct it and \
                         start the node again"
                    );
                    return;
                }
                Err(SchemaHandOverError::Later(reason)) => {
                    if attempts % SAID_EVERY == SAID_EVERY - 1 {
                        tracing::warn!(
                            %database, file = %file.name, %reason,
                            "a schema file waits: no leader has taken it yet"
                        );
                    }
                    attempts += 1;
                    tokio::time::sleep(RETRY_AFTER).await;
                }
            }
        }
    }
}

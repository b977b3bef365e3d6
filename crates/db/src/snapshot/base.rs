//! The file with which an era begins: the contents of a database, at index 0.

use std::path::Path;

use super::import::ImportError;
use super::make::describe;
use super::manifest::Manifest;
use crate::hash::SchemaChain;
use crate::head::EraBase;
use crate::local::FileState;
use crate::sqlite::connect::open_apply;
use crate::sqlite::scan::content_hash;
use crate::write::schema_file::{AppliedFile, applied_files};

/// What becomes of the keys of requests that may be repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestKeys {
    /// They are forgotten: the file is of another time.
    Forget,
    /// They stay, so that a write of the era before is not carried out twice. Their positions are in the new era.
    Keep,
}

/// A file that is ready to be cut into chunks.
#[derive(Clone, Debug)]
pub(crate) struct BaseFile {
    pub(crate) manifest: Manifest,
    /// The schema files that its contents have.
    pub(crate) schema_files: Vec<AppliedFile>,
}

impl BaseFile {
    /// Makes a file the base of `era`.
    pub(crate) fn prepare(path: &Path, era: u64, keys: RequestKeys) -> Result<Self, ImportError> {
        let connection = open_apply(path)?;
        match keys {
            RequestKeys::Forget => connection.execute("DELETE FROM _consort_keys", [])?,
            RequestKeys::Keep => connection.execute("UPDATE _consort_keys SET idx = 0", [])?,
        };
        let chain = match FileState::read(&connection)? {
            Some(state) => state.chain,
            None => SchemaChain::START.then(&schema_text(&connection)?),
        };
        let content = content_hash(&connection)?;
        let state = FileState { era, index: 0, digest: None, chain, content };
        state.write(&connection)?;
        let schema_files = applied_files(&connection)?;
        connection.flush_prepared_statement_cache();
        // The file alone is cut into chunks, and not a log beside it.
        connection.pragma_update_and_check(None, "journal_mode", "DELETE", |_| Ok(()))?;
        drop(connection);
        let manifest = describe(path, &state).map_err(|error| match error {
            super::make::MakeError::Io(error) => ImportError::Io(error),
            error => ImportError::Damaged(error.to_string()),
        })?;
        Ok(BaseFile { manifest, schema_files })
    }

    /// What the head of the era says of it.
    pub(crate) fn era_base(&self, origin: u64, sqlite: u32) -> EraBase {
        EraBase { origin, chain: self.manifest.chain, content: self.manifest.content, sqlite }
    }
}

/// All of the schema: the chain of a file that comes without one begins with it.
fn schema_text(connection: &rusqlite::Connection) -> rusqlite::Result<String> {
    let sql = "SELECT coalesce(group_concat(sql, ';' || char(10)), '') FROM
        (SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY type, name)";
    connection.query_row(sql, [], |row| row.get(0))
}

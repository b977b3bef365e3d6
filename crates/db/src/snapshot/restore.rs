//! Restores: a file becomes the contents of a database, and the base of a new era.

use std::io;
use std::path::{Path, PathBuf};

use super::base::{BaseFile, RequestKeys};
use super::files::{ScratchFile, on_file_thread};
use super::import::{ImportError, import};
use super::publish::SwitchError;
use super::upload::{PublishError, upload};
use crate::db::Database;
use crate::head::{DbHead, HeadError};
use crate::position::DbPosition;
use crate::store::DbStoreError;

/// How often a restore begins again because another one, or a snapshot, came first.
const TRIES: usize = 5;

/// Why nothing was restored.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// The file cannot become the contents of a database.
    #[error(transparent)]
    Import(#[from] ImportError),
    /// The new era was not begun; or, if the store did not say, perhaps it was.
    #[error(transparent)]
    Switch(#[from] SwitchError),
}

impl From<io::Error> for RestoreError {
    fn from(error: io::Error) -> Self {
        RestoreError::Import(error.into())
    }
}

impl From<DbStoreError> for RestoreError {
    fn from(error: DbStoreError) -> Self {
        RestoreError::Switch(PublishError::from(error).into())
    }
}

impl RestoreError {
    /// Whether the restore may have taken effect.
    pub fn is_unknown(&self) -> bool {
        matches!(self, RestoreError::Switch(SwitchError::Publish(PublishError::Unknown(_))))
    }
}

impl Database {
    /// Replaces the contents of the database by those of `file`, which is not changed, and begins a new era. Writes
    /// that were acknowledged in the era before are gone from then on. Returns the beginning of the new era.
    pub async fn restore(&self, file: &Path) -> Result<DbPosition, RestoreError> {
        let scratch = self.scratch_file("restore")?;
        let (file, max_size) = (file.to_owned(), self.settings().max_size);
        let checked = move || import(&file, scratch.path(), max_size).map(|()| scratch);
        let scratch = on_file_thread(checked).await?;
        let sqlite = rusqlite::version_number() as u32;
        let step = |head: &DbHead, base: &BaseFile, origin| {
            Ok(head.restored(base.era_base(origin, sqlite)))
        };
        self.begin_era(scratch, RequestKeys::Forget, step).await
    }

    /// Begins a new era with the contents of a file. `step` makes its head.
    pub(super) async fn begin_era(
        &self,
        mut scratch: ScratchFile,
        keys: RequestKeys,
        step: impl Fn(&DbHead, &BaseFile, u64) -> Result<DbHead, HeadError>,
    ) -> Result<DbPosition, RestoreError> {
        let store = self.store();
        let mut tries = 0;
        loop {
            tries += 1;
            let head = store.head().await?.ok_or(SwitchError::NoHead)?;
            let prepare = move || {
                let base = BaseFile::prepare(scratch.path(), head.era + 1, keys)?;
                Ok::<_, ImportError>((scratch, base))
            };
            let base;
            (scratch, base) = on_file_thread(prepare).await?;
            let origin = self.draw();
            let switched = async {
                let uploaded = upload(store, scratch.path(), base.manifest.clone()).await?;
                let next = |head: &DbHead| step(head, &base, origin);
                uploaded.switch_era(store, &base.schema_files, next).await
            };
            match switched.await {
                Ok(head) => {
                    let (database, era) = (self.name(), head.era);
                    tracing::warn!(database, era, "a new era begins with the contents of a file");
                    return Ok(head.position());
                }
                Err(SwitchError::Publish(PublishError::Overtaken)) if tries < TRIES => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// A file for work in the database's folder, which no other work uses.
    pub(super) fn scratch_file(&self, purpose: &str) -> io::Result<ScratchFile> {
        let name: PathBuf = self.folder().join(format!("{purpose}-{:x}.sqlite", self.draw()));
        ScratchFile::at(name)
    }
}

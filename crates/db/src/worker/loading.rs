//! Finding the file to work on: the one of the worker before, or a new one from the newest snapshot.

use std::fs;

use consort_kernel::{Cursor, Most, ReadError};
use tokio::time::sleep;

use super::folder::NotedFile;
use super::shared::ServedFile;
use super::{RETRY_PAUSE, Worker, WorkerEnd};
use crate::follow::Follower;
use crate::head::{DbHead, HeadSight};
use crate::local::FileState;
use crate::snapshot::loading::load_newest;
use crate::sqlite::connect::open_apply;

/// A file that is ready to follow the feed.
#[derive(Debug)]
pub(super) struct LoadedFile {
    pub(super) file: ServedFile,
    pub(super) follower: Follower,
}

/// Whether the file of the worker before can be used.
enum OldFile {
    Good(NotedFile),
    Useless,
    /// The feed lacks what the file has (H10).
    LostTail(String),
    /// The store could not be asked.
    Unasked,
}

impl Worker {
    /// The file to work on. Waits as long as the store cannot be reached.
    pub(super) async fn load(&mut self) -> Result<LoadedFile, WorkerEnd> {
        self.local.forget_looks();
        self.local.say(|status| status.file = None);
        loop {
            if self.control.is_killed() {
                return Err(WorkerEnd::Killed);
            }
            if self.control.is_draining() {
                return Err(WorkerEnd::Drained);
            }
            match self.try_load().await {
                Ok(Some(loaded)) => {
                    let (file, position) =
                        (loaded.file.clone(), loaded.follower.state().position());
                    self.local.say(|status| {
                        status.file = Some(file);
                        status.applied = position;
                        status.trouble = None;
                    });
                    return Ok(loaded);
                }
                Ok(None) => {}
                Err(reason) => self.local.say(|status| status.trouble = Some(reason)),
            }
            sleep(RETRY_PAUSE).await;
        }
    }

    /// One attempt; `None` if there is nothing to load yet.
    async fn try_load(&mut self) -> Result<Option<LoadedFile>, String> {
        let before = self.seen;
        let head = self.db.store().head().await.map_err(|error| error.to_string())?;
        let Some(head) = head else { return Ok(None) };
        match self.judge(before, Some(&head)) {
            HeadSight::LostTail => {
                self.stop_database("the head went back in its history").await;
                return Ok(None);
            }
            // Another era, or another database: this worker begins anew with it.
            HeadSight::OtherHistory => self.seen = Some(crate::head::LastSeen::new(&head)),
            HeadSight::Forward | HeadSight::Stopped => {}
        }
        match self.old_file(&head).await {
            OldFile::Good(noted) => self.open(noted.file, &head).map(Some),
            OldFile::Useless => self.load_new(&head).await,
            OldFile::Unasked => Ok(None),
            OldFile::LostTail(found) => {
                self.stop_database(&found).await;
                // It may hold the only copy of acknowledged writes, so it is kept and served.
                match self.folder.noted() {
                    Some(noted) => self.open(noted.file, &head).map(Some),
                    None => Ok(None),
                }
            }
        }
    }

    /// Judges the file of the worker before. Its entry is compared first, whatever else there is against the file:
    /// a file of this history whose entry is missing proves that the store lost it (H10).
    async fn old_file(&self, head: &DbHead) -> OldFile {
        let Some(noted) = self.folder.noted() else { return OldFile::Useless };
        if noted.file.database != head.database || self.failed_at.is_some() {
            return OldFile::Useless;
        }
        let state = open_apply(&noted.file.path).and_then(|file| FileState::read(&file));
        let Ok(Some(state)) = state else { return OldFile::Useless };
        if state.era != head.era {
            return OldFile::Useless;
        }
        let verdict = match cursor_of(&state) {
            cursor if cursor == Cursor::START => Ok(()),
            cursor => {
                let wait = std::time::Duration::ZERO;
                let read = self.db.store().entries(head.era, &cursor, Most::entries(1), wait).await;
                read.map(drop)
            }
        };
        match verdict {
            Ok(()) if noted.is_of_this_boot => OldFile::Good(noted),
            Ok(()) | Err(ReadError::Trimmed { .. }) => OldFile::Useless,
            Err(ReadError::Lost { .. }) => OldFile::LostTail(format!(
                "a file of this database ends with entry {}, which the feed does not have",
                state.position()
            )),
            Err(_) => OldFile::Unasked,
        }
    }

    async fn load_new(&mut self, head: &DbHead) -> Result<Option<LoadedFile>, String> {
        let generation = self.db.draw();
        let file = self.folder.new_file(generation, head.database).map_err(in_words)?;
        let scratch = self.folder.scratch("loading.sqlite");
        let loaded = load_newest(self.db.store(), head, &scratch).await;
        if loaded.map_err(|error| error.to_string())?.is_some() {
            fs::rename(&scratch, &*file.path).map_err(in_words)?;
        }
        self.folder.note(&file).map_err(in_words)?;
        self.open(file, head).map(Some)
    }

    fn open(&self, file: ServedFile, head: &DbHead) -> Result<LoadedFile, String> {
        let follower = Follower::open(&file.path, head.era).map_err(|error| error.to_string())?;
        Ok(LoadedFile { file, follower })
    }
}

/// Where a reader of the feed stands whose file is in this state.
pub(super) fn cursor_of(state: &FileState) -> Cursor {
    match (state.index.checked_sub(1), state.digest) {
        (Some(number), Some(digest)) => Cursor::behind(number, digest),
        _ => Cursor::START,
    }
}

fn in_words(error: std::io::Error) -> String {
    format!("its file cannot be made: {error}")
}

//! The cells that a supervisor decides by, as of one moment, with the bytes that a commit expects.

use bytes::Bytes;
use consort_kernel::{Commit, Expect, Operation, Value};

use super::scale::ReadWindow;
use super::wanted::WantedWorkers;
use super::window::{WindowCell, decode_count};
use crate::head::DbHead;
use crate::store::{DatabaseStore, DbStoreError};

/// Head, wanted workers and window.
#[derive(Clone, Debug)]
pub(super) struct SupervisorSight {
    pub(super) head: Option<DbHead>,
    pub(super) wanted: Option<WantedWorkers>,
    pub(super) window: WindowCell,
    stored_wanted: Option<Bytes>,
    stored_window: Option<Bytes>,
}

impl SupervisorSight {
    pub(super) async fn read(store: &DatabaseStore) -> Result<Self, DbStoreError> {
        let cells = store.cells();
        let keys = [cells.head(), cells.wanted(), cells.window()];
        let mut found = store.bytes(&keys).await?.into_iter();
        let mut next = || found.next().flatten();
        let (head, stored_wanted, stored_window) = (next(), next(), next());
        let window = stored_window.as_deref().map(WindowCell::decode).transpose()?;
        Ok(SupervisorSight {
            head: head.as_deref().map(DbHead::decode).transpose()?,
            wanted: stored_wanted.as_deref().map(WantedWorkers::decode).transpose()?,
            window: window.unwrap_or_default(),
            stored_wanted,
            stored_window,
        })
    }

    /// The reads that were counted in the running window, or that wait for one.
    pub(super) async fn reads(&self, store: &DatabaseStore) -> Result<u64, DbStoreError> {
        count(store, self.window.counted()).await
    }

    /// The running window, with all reads of the window before it: some were counted after the supervisor had added
    /// them up, and just before it ended that window.
    pub(super) async fn running(
        &self,
        store: &DatabaseStore,
    ) -> Result<Option<ReadWindow>, DbStoreError> {
        let Some(running) = self.window.running() else { return Ok(None) };
        let before = count(store, running.number.saturating_sub(1)).await?;
        Ok(Some(ReadWindow { before: before.max(running.before), ..running }))
    }

    /// A commit that replaces the wanted workers, and the window as well if there is one to put.
    pub(super) fn replace(
        &self,
        store: &DatabaseStore,
        window: Option<&WindowCell>,
        wanted: Option<&WantedWorkers>,
    ) -> Commit {
        let cells = store.cells();
        let put_window = window.map(|window| (cells.window(), window.encode()));
        let put_wanted = wanted.map(|wanted| (cells.wanted(), wanted.encode()));
        let put = |(key, value)| Operation::Put { key, value };
        let commit = Commit::of(put_window.into_iter().chain(put_wanted).map(put))
            .expecting(Expect::Bytes(cells.wanted(), self.stored_wanted.clone()));
        match window {
            Some(_) => commit.expecting(Expect::Bytes(cells.window(), self.stored_window.clone())),
            None => commit,
        }
    }
}

/// The reads of all processes in one window.
async fn count(store: &DatabaseStore, window: u64) -> Result<u64, DbStoreError> {
    let mut reads = 0u64;
    for (_, value) in store.scan(&store.cells().counts(window)).await? {
        if let Value::Bytes(stored) = value {
            reads = reads.saturating_add(decode_count(&stored)?);
        }
    }
    Ok(reads)
}

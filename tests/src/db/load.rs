//! A workload: clients that run until they are told to stop, and the histories of their calls.

use std::future::Future;
use std::panic::resume_unwind;

use tokio::task::{JoinError, JoinHandle, JoinSet};

use super::caller::Workload;

/// The running clients of a database, and the records of their calls. Dropping it ends them.
#[derive(Debug)]
pub struct DbLoad<R> {
    workload: Workload,
    clients: JoinHandle<Vec<R>>,
}

impl<R: Send + 'static> DbLoad<R> {
    /// Starts clients, which stop when `workload` says so.
    pub fn start(
        workload: Workload,
        clients: impl Future<Output = Vec<R>> + Send + 'static,
    ) -> DbLoad<R> {
        DbLoad { workload, clients: tokio::spawn(clients) }
    }

    /// How many writes are acknowledged.
    ///
    /// # Panics
    ///
    /// If a client has ended, which it only does when it panics.
    pub fn acknowledged(&self) -> usize {
        let database = self.workload.database;
        assert!(!self.clients.is_finished(), "a client of {database} panicked, as said above");
        self.workload.acknowledged()
    }

    /// Each client ends with its last call; returns the records of all.
    ///
    /// # Panics
    ///
    /// If a client did.
    pub async fn stop(mut self) -> Vec<R> {
        self.workload.stop();
        joined((&mut self.clients).await)
    }
}

impl<R> Drop for DbLoad<R> {
    fn drop(&mut self) {
        self.clients.abort();
    }
}

/// Runs all clients at the same time, and joins their records. Ends at once if one panics.
pub async fn run_all<R, F>(clients: impl IntoIterator<Item = F>) -> Vec<R>
where
    R: Send + 'static,
    F: Future<Output = Vec<R>> + Send + 'static,
{
    let mut running: JoinSet<Vec<R>> = clients.into_iter().collect();
    let mut records = Vec::new();
    while let Some(ended) = running.join_next().await {
        records.extend(joined(ended));
    }
    records
}

/// The result of a task; its panic goes on here.
fn joined<T>(ended: Result<T, JoinError>) -> T {
    ended.unwrap_or_else(|error| match error.try_into_panic() {
        Ok(panic) => resume_unwind(panic),
        Err(error) => panic!("the clients were ended early: {error}"),
    })
}

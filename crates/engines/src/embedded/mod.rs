//! The embedded engine: log and store in one folder, on fjall, with nothing else to install.
//!
//! One writer thread owns all changes. It takes the appends and commits that are waiting, folds them
//! into one batch, writes it with one fsync, and only then answers: many callers share each fsync, and
//! no tokio worker ever waits for the disk. Reads go to fjall directly, from blocking threads. A second
//! thread merges the runs of sets, and hands what comes of it to the writer.

mod ahead;
mod batch;
mod cache;
mod cell;
mod counts;
mod entries;
mod folder;
mod journal;
mod log;
mod merger;
mod packing;
mod published;
mod queue;
mod rows;
mod runs;
mod sets;
mod small;
mod store;
mod sweep;
mod tables;
mod writer;

use std::path::Path;
use std::sync::Arc;

use consort_kernel::{Clock, Fault, Poison, Wakes};

pub use folder::FolderError;
pub use log::EmbeddedLog;
pub use store::EmbeddedStore;

use counts::Counts;
use folder::FolderLock;
use merger::Merger;
use published::Published;
use queue::Queue;
pub(crate) use tables::FORMAT;
use tables::Tables;
use writer::Writer;

/// What an acknowledged write survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// Power loss, if the disk honours fsync.
    #[default]
    Fsync,
    /// A killed process, but not a power loss: the write is with the operating system.
    Process,
}

/// The one engine behind the log and the store of a folder.
#[derive(Debug)]
struct Shared {
    tables: Tables,
    queue: Arc<Queue>,
    wakes: Arc<Wakes>,
    clock: Arc<dyn Clock>,
    poison: Poison,
    published: Published,
    counts: Counts,
    /// The writer, and the merger that it feeds.
    threads: Vec<std::thread::JoinHandle<()>>,
    // Declared last: the folder is let go when everything else is closed.
    _lock: FolderLock,
}

impl Shared {
    /// The fault of an engine that failed for good.
    fn healthy(&self) -> Result<(), Fault> {
        self.poison.reason().map_or(Ok(()), |reason| Err(Fault::Fatal(reason)))
    }

    /// Runs a read where it may wait for the disk.
    async fn read<T, F>(self: &Arc<Self>, read: F) -> T
    where
        T: Send + 'static,
        F: FnOnce(&Shared) -> T + Send + 'static,
    {
        let shared = self.clone();
        match tokio::task::spawn_blocking(move || read(&shared)).await {
            Ok(answer) => answer,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // Only a runtime that is shutting down cancels blocking work: nobody is waiting.
                Err(_) => std::future::pending().await,
            },
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.queue.close();
        for thread in self.threads.drain(..) {
            // The writer ends after its present batch, and the merger with it. A panic in the writer has
            // poisoned the engine already.
            let _ = thread.join();
        }
    }
}

/// Opens the folder, making it if need be. It blocks: call it from a blocking thread.
pub fn open(
    path: &Path,
    shards: u16,
    durability: Durability,
    clock: Arc<dyn Clock>,
) -> Result<(EmbeddedLog, EmbeddedStore, Poison), FolderError> {
    let lock = FolderLock::acquire(path)?;
    let tables = Tables::open(path)?;
    let (queue, wakes, poison) =
        (Arc::new(Queue::new()), Arc::new(Wakes::default()), Poison::new());
    let io = |error| FolderError::Io { path: path.to_path_buf(), error };
    let merger = Merger::new(tables.clone(), queue.clone(), poison.clone());
    let (due, merger) = merger.start().map_err(io)?;
    let published = Published::new(&tables);
    let writer = Writer::new(
        tables.clone(),
        wakes.clone(),
        clock.clone(),
        poison.clone(),
        durability,
        due,
        published.clone(),
    );
    let writer = writer.start(queue.clone()).map_err(io)?;
    let shared = Arc::new(Shared {
        tables,
        queue,
        wakes,
        clock,
        poison: poison.clone(),
        published,
        counts: Counts::default(),
        threads: vec![writer, merger],
        _lock: lock,
    });
    Ok((EmbeddedLog::new(shared.clone()), EmbeddedStore::new(shared, shards), poison))
}

//! The threads that run reads. They are shared by all databases of a node, and each has a connection of its own to
//! every file that it reads. Reads of one file that wait at the same time share a read transaction.

use std::collections::HashMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;

use super::file::{FileReader, QueryError};
use super::queue::{Arrivals, ReadQueue};
use super::{ReadAnswer, ReadFailure, ReadJob, ReadLimits};
use crate::local::FileState;
use crate::worker::shared::{LocalWorker, ServedFile, WorkerStatus};

/// Threads of one node: two, so that one long read does not hold all others, and at most four, since the writer and
/// the runtime want cores, too.
const THREADS: (usize, usize) = (2, 4);
/// Most reads that share one read transaction.
const BATCH_READS: usize = 16;
/// A read transaction takes no further read after this time: its snapshot grows old.
const BATCH_TIME: Duration = Duration::from_millis(5);
/// How often a thread looks for files that are not served any more, and closes its connections to them.
const CLOSE_EVERY: Duration = Duration::from_secs(1);

/// The threads that run the reads of a node. All clones are of the same ones; they end with the last of them.
#[derive(Clone, Debug)]
pub struct ReadPool(Arc<PoolOwner>);

/// Why work has not been done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PoolFailure {
    /// Too many reads wait, or no thread took this one in time.
    Busy,
    /// The worker does not serve this file any more, or it cannot be read.
    NotServed,
    /// The work panicked.
    Panicked,
}

impl ReadPool {
    /// Starts the threads.
    pub fn start() -> Self {
        let shared = Arc::new(PoolShared::default());
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        for n in 0..cores.clamp(THREADS.0, THREADS.1) {
            let shared = Arc::clone(&shared);
            let thread = std::thread::Builder::new().name(format!("db-read-{n}"));
            if let Err(error) = thread.spawn(move || PoolThread::new(shared).run()) {
                tracing::error!(%error, "a thread for reads cannot be started");
            }
        }
        ReadPool(Arc::new(PoolOwner(shared)))
    }

    /// Runs a read on the file that `worker` serves now, whatever its position. A thread must take it before
    /// `take_by`.
    pub async fn run(
        &self,
        worker: &LocalWorker,
        job: ReadJob,
        limits: ReadLimits,
        take_by: Instant,
    ) -> Result<ReadAnswer, ReadFailure> {
        let file = worker.status().file.ok_or(ReadFailure::NoWorker)?;
        let work = move |reader: &mut FileReader, state: &FileState| {
            (state.position(), reader.run(&job, &limits))
        };
        let (position, results) = self.on_file(worker, &file, take_by, work).await?;
        match results {
            Ok(results) => Ok(ReadAnswer { position, worker: worker.id(), results }),
            Err(QueryError::NotRead(error) | QueryError::Failed(error)) => Err(error.into()),
        }
    }

    /// Does `work` in a read transaction on `file`, whose snapshot is later than this call.
    pub(crate) async fn on_file<T: Send + 'static>(
        &self,
        worker: &LocalWorker,
        file: &ServedFile,
        take_by: Instant,
        work: impl FnOnce(&mut FileReader, &FileState) -> T + Send + 'static,
    ) -> Result<T, PoolFailure> {
        let (tell, told) = oneshot::channel();
        let work = move |found: Option<(&mut FileReader, &FileState)>| {
            // A caller that has gone away needs no answer.
            if !tell.is_closed() {
                let _ = tell.send(found.map(|(reader, state)| work(reader, state)));
            }
        };
        let served = worker.statuses();
        self.wait(file, Work::OnFile { served, work: Box::new(work) }, told, take_by).await
    }

    /// Does `work`, which has a connection of its own to `file`.
    pub(crate) async fn apart<T: Send + 'static>(
        &self,
        file: &ServedFile,
        take_by: Instant,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, PoolFailure> {
        let (tell, told) = oneshot::channel();
        let work = move || {
            if !tell.is_closed() {
                let _ = tell.send(Some(work()));
            }
        };
        self.wait(file, Work::Apart(Box::new(work)), told, take_by).await
    }

    async fn wait<T>(
        &self,
        file: &ServedFile,
        work: Work,
        told: oneshot::Receiver<Option<T>>,
        take_by: Instant,
    ) -> Result<T, PoolFailure> {
        let is_taken = Arc::new(AtomicBool::new(false));
        let read = QueuedRead { file: file.clone(), is_taken: Arc::clone(&is_taken), work };
        self.0.0.push(read)?;
        let mut told = told;
        let told = tokio::select! {
            biased;
            told = &mut told => told,
            () = tokio::time::sleep_until(take_by) => match is_taken.load(Ordering::Acquire) {
                // It runs, and its statements have a deadline of their own.
                true => told.await,
                false => return Err(PoolFailure::Busy),
            },
        };
        told.map_err(|_| PoolFailure::Panicked)?.ok_or(PoolFailure::NotServed)
    }
}

impl From<PoolFailure> for ReadFailure {
    fn from(failure: PoolFailure) -> Self {
        match failure {
            PoolFailure::Busy => ReadFailure::Busy,
            PoolFailure::NotServed => ReadFailure::NoWorker,
            PoolFailure::Panicked => ReadFailure::Panicked,
        }
    }
}

/// Ends the threads when the last clone of the pool is gone.
#[derive(Debug)]
struct PoolOwner(Arc<PoolShared>);

impl Drop for PoolOwner {
    fn drop(&mut self) {
        self.0.waiting.lock().is_closed = true;
        self.0.arrived.notify_all();
    }
}

#[derive(Debug, Default)]
struct PoolShared {
    waiting: Mutex<WaitingReads>,
    arrived: Condvar,
}

#[derive(Debug)]
struct WaitingReads {
    queue: ReadQueue<QueuedRead>,
    is_closed: bool,
}

impl Default for WaitingReads {
    fn default() -> Self {
        WaitingReads { queue: ReadQueue::new(), is_closed: false }
    }
}

/// The next step of a thread.
enum NextStep {
    Read(QueuedRead),
    /// Nothing has arrived for a while.
    Idle,
    Closed,
}

impl PoolShared {
    fn push(&self, read: QueuedRead) -> Result<(), PoolFailure> {
        let pushed = self.waiting.lock().queue.push(read.file.generation, read);
        pushed.map_err(|_| PoolFailure::Busy)?;
        self.arrived.notify_one();
        Ok(())
    }

    fn next(&self) -> NextStep {
        let mut waiting = self.waiting.lock();
        loop {
            if waiting.is_closed {
                return NextStep::Closed;
            }
            if let Some((_, read)) = waiting.queue.pop() {
                return NextStep::Read(read);
            }
            if self.arrived.wait_for(&mut waiting, CLOSE_EVERY).timed_out() {
                return NextStep::Idle;
            }
        }
    }

    fn next_of(&self, generation: u64, by: Arrivals) -> Option<QueuedRead> {
        self.waiting.lock().queue.pop_of(generation, by)
    }

    fn arrivals(&self) -> Arrivals {
        self.waiting.lock().queue.arrivals()
    }
}

struct QueuedRead {
    file: ServedFile,
    is_taken: Arc<AtomicBool>,
    work: Work,
}

/// Work within a transaction; `None` if there is none.
type FileWork = Box<dyn FnOnce(Option<(&mut FileReader, &FileState)>) + Send>;

enum Work {
    /// On the thread's own connection, while the file is served.
    OnFile { served: watch::Receiver<WorkerStatus>, work: FileWork },
    /// On a connection that the work has.
    Apart(Box<dyn FnOnce() + Send>),
}

impl fmt::Debug for QueuedRead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueuedRead").field("file", &self.file).finish_non_exhaustive()
    }
}

/// One thread, and its connections by the generation of their file.
struct PoolThread {
    shared: Arc<PoolShared>,
    files: HashMap<u64, OpenFile>,
    closed_at: std::time::Instant,
}

struct OpenFile {
    reader: FileReader,
    served: watch::Receiver<WorkerStatus>,
}

impl PoolThread {
    fn new(shared: Arc<PoolShared>) -> Self {
        PoolThread { shared, files: HashMap::new(), closed_at: std::time::Instant::now() }
    }

    fn run(mut self) {
        loop {
            match self.shared.next() {
                NextStep::Read(read) => self.serve(read),
                NextStep::Idle => {}
                NextStep::Closed => return,
            }
            if self.closed_at.elapsed() >= CLOSE_EVERY {
                self.files.retain(|generation, file| is_served(&file.served, *generation));
                self.closed_at = std::time::Instant::now();
            }
        }
    }

    /// Runs a read, and those of the same file that wait with it, in one read transaction.
    fn serve(&mut self, first: QueuedRead) {
        first.is_taken.store(true, Ordering::Release);
        let generation = first.file.generation;
        let (served, work) = match first.work {
            Work::OnFile { served, work } => (served, work),
            Work::Apart(work) => {
                run_caught(work);
                return;
            }
        };
        // Taken out while it is in use: after a panic it is not used again.
        let Some(mut file) = self.open(&first.file, served) else { return work(None) };
        let began = std::time::Instant::now();
        // A read that arrives later may need a later snapshot.
        let arrivals = self.shared.arrivals();
        let state = match file.reader.begin() {
            Ok(state) => state,
            Err(error) => {
                tracing::warn!(path = %first.file.path.display(), %error, "a worker's file cannot be read");
                return work(None);
            }
        };
        if !file.run(generation, &state, work) {
            return;
        }
        for _ in 1..BATCH_READS {
            if began.elapsed() >= BATCH_TIME {
                break;
            }
            let Some(next) = self.shared.next_of(generation, arrivals) else { break };
            next.is_taken.store(true, Ordering::Release);
            let goes_on = match next.work {
                Work::OnFile { work, .. } => file.run(generation, &state, work),
                Work::Apart(work) => run_caught(work),
            };
            if !goes_on {
                return;
            }
        }
        file.reader.end();
        self.files.insert(generation, file);
    }

    fn open(
        &mut self,
        file: &ServedFile,
        served: watch::Receiver<WorkerStatus>,
    ) -> Option<OpenFile> {
        if let Some(open) = self.files.remove(&file.generation) {
            return Some(open);
        }
        if !is_served(&served, file.generation) {
            return None;
        }
        match FileReader::open(&file.path) {
            Ok(reader) => Some(OpenFile { reader, served }),
            Err(error) => {
                tracing::warn!(path = %file.path.display(), %error, "a worker's file cannot be opened");
                None
            }
        }
    }
}

impl OpenFile {
    /// Whether the connection can be used for more.
    fn run(&mut self, generation: u64, state: &FileState, work: FileWork) -> bool {
        if !is_served(&self.served, generation) {
            work(None);
            return true;
        }
        let reader = &mut self.reader;
        run_caught(|| work(Some((reader, state))))
    }
}

/// Whether a worker lives that serves the file of this generation.
fn is_served(served: &watch::Receiver<WorkerStatus>, generation: u64) -> bool {
    let is_alive = served.has_changed().is_ok();
    is_alive && served.borrow().file.as_ref().is_some_and(|file| file.generation == generation)
}

/// Whether the work came to its end. A panic costs this read only: its caller is told.
fn run_caught(work: impl FnOnce()) -> bool {
    let ran = catch_unwind(AssertUnwindSafe(work));
    if ran.is_err() {
        tracing::error!("a read panicked; the panic's own message stands above in this log");
    }
    ran.is_ok()
}

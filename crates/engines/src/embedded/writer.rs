//! The writer thread: takes what waits, folds it into a batch, writes it with one fsync, answers.

use std::sync::Arc;
use std::sync::mpsc::{SyncSender, TrySendError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use consort_kernel::{Clock, CommitError, Committed, Fault, Poison, Topic, Turns, Wakes};
use fjall::PersistMode;
use tokio::sync::oneshot;

use super::Durability;
use super::ahead::Ahead;
use super::batch::{Batch, Memory, Written};
use super::merger::Due;
use super::published::Published;
use super::queue::{Job, Queue, Taken, WriterLane};
use super::sweep;
use super::tables::{Tables, explain};

/// Bytes of appends and commits in one batch, about. Larger batches save no fsync worth having.
const BATCH_BYTES: usize = 8 * 1024 * 1024;
/// Bytes of a batch that renews leases: no more joins it. Twice as much takes a disk that writes 1 MiB/s half a
/// second, and a heartbeat of the node waits for that, where a full batch would take it eight.
const LEASE_BATCH_BYTES: usize = 256 * 1024;
/// How long bulk commits may be folded into one batch, and how many rows they may make dirty, which takes
/// about as long again to write: an append that arrives meanwhile waits for it.
const BULK_TIME: Duration = Duration::from_micros(300);
const BULK_ROWS: usize = 100;
/// How often there is a look for what can be cleared away.
const SWEEP_EVERY: Duration = Duration::from_millis(250);

/// What is to be told when the batch is written.
enum Reply {
    Append(oneshot::Sender<Result<(), Fault>>, Vec<Topic>),
    Commit(
        oneshot::Sender<Result<Committed, CommitError>>,
        Result<Committed, CommitError>,
        Vec<Topic>,
    ),
    Trim(oneshot::Sender<Result<(), Fault>>),
}

/// The state of the writer thread.
pub(super) struct Writer {
    tables: Tables,
    wakes: Arc<Wakes>,
    clock: Arc<dyn Clock>,
    poison: Poison,
    mode: PersistMode,
    memory: Memory,
    merger: SyncSender<Due>,
    published: Published,
    /// None where nothing is fsynced.
    ahead: Option<Ahead>,
}

/// Poisons the engine if the thread ends by a panic: no caller may wait for a writer that is gone.
struct Guard {
    queue: Arc<Queue>,
    poison: Poison,
}

impl Drop for Guard {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.poison.set("the embedded engine's writer panicked");
        }
        self.queue.close();
    }
}

impl Writer {
    pub(super) fn new(
        tables: Tables,
        wakes: Arc<Wakes>,
        clock: Arc<dyn Clock>,
        poison: Poison,
        durability: Durability,
        merger: SyncSender<Due>,
        published: Published,
    ) -> Self {
        let mode = match durability {
            Durability::Fsync => PersistMode::SyncData,
            Durability::Process => PersistMode::Buffer,
        };
        let ahead = (durability == Durability::Fsync).then(|| Ahead::new(tables.folder.clone()));
        let memory = Memory::default();
        Writer { tables, wakes, clock, poison, mode, memory, merger, published, ahead }
    }

    pub(super) fn start(self, queue: Arc<Queue>) -> std::io::Result<JoinHandle<()>> {
        let thread = std::thread::Builder::new().name("consort-writer".into());
        thread.spawn(move || self.run(&queue))
    }

    fn run(mut self, queue: &Arc<Queue>) {
        // Whoever appends waits for it, and it works for moments between two waits for the disk.
        Turns::Short.wish();
        let _guard = Guard { queue: queue.clone(), poison: self.poison.clone() };
        let mut swept = Instant::now();
        let mut more = false;
        while !queue.closed() {
            let step = match queue.next(if more { Duration::ZERO } else { SWEEP_EVERY }) {
                Some(first) => self.batch(first, queue),
                None => Ok(0),
            };
            let step = step.and_then(|written| {
                if more || swept.elapsed() >= SWEEP_EVERY {
                    let now = self.clock.now();
                    more = sweep::step(&self.tables, &mut self.memory, now, written, self.mode)?;
                    swept = Instant::now();
                }
                Ok(())
            });
            if let Err(error) = step {
                self.stop(&error);
                return;
            }
        }
    }

    /// One batch, beginning with `first`; it tells how many rows were written. An error is the disk's;
    /// all callers were told by then.
    fn batch(&mut self, first: Taken, queue: &Queue) -> fjall::Result<usize> {
        let started = Instant::now();
        let (mut bytes, mut bulk, mut leases) = (0, false, false);
        let mut replies = Vec::new();
        // Permits go when the batch is done: until then its bytes are in memory.
        let mut permits = Vec::new();
        let mut batch = Batch::new(&self.tables, &mut self.memory, self.clock.now());
        let mut taken = Some(first);
        let mut folded = Ok(());
        while let Some((job, permit)) = taken {
            bytes += permit.num_permits() * 1024;
            permits.push(permit);
            bulk |= job.lane() == WriterLane::Bulk;
            leases |= job.lane() == WriterLane::Leases;
            folded = fold(&mut batch, job, &mut replies);
            if folded.is_err() {
                break;
            }
            let full = bytes >= if leases { LEASE_BATCH_BYTES } else { BATCH_BYTES };
            taken = if full { queue.next_lease() } else { queue.next_urgent() };
            // One bulk job is taken however full the batch is: commits go on under any load of appends. A batch
            // that renews leases takes none, since one may be large; there are few such batches.
            let room = !full && batch.rows() < BULK_ROWS && started.elapsed() < BULK_TIME;
            if taken.is_none() && !leases && (!bulk || room) {
                taken = queue.next_bulk();
            }
        }
        match folded.and_then(|()| batch.write(self.mode)) {
            Ok(Written { rows, due }) => {
                self.published.publish(&self.tables);
                for reply in replies {
                    self.confirm(reply);
                }
                for due in due {
                    self.ask(due);
                }
                if let Some(ahead) = &mut self.ahead {
                    ahead.wrote(bytes);
                }
                Ok(rows)
            }
            Err(error) => {
                // Before the callers are told: whoever meets the fault finds the poison set.
                self.stop(&error);
                for reply in replies {
                    deny(reply, &explain(&error));
                }
                Err(error)
            }
        }
    }

    /// Asks the merger. Should it have no time, the set asks again when it grows.
    fn ask(&mut self, due: Due) {
        if let Err(TrySendError::Full(due) | TrySendError::Disconnected(due)) =
            self.merger.try_send(due)
        {
            self.memory.not_merging(&due);
        }
    }

    /// Nobody knows what the disk holds now. Whoever opens the folder next will see.
    fn stop(&self, error: &fjall::Error) {
        self.poison.set(format!("the embedded engine stopped: {}", explain(error)));
    }

    fn confirm(&self, reply: Reply) {
        // A caller that no longer waits for its answer has lost nothing.
        match reply {
            Reply::Append(reply, topics) => {
                let _ = reply.send(Ok(()));
                topics.into_iter().for_each(|topic| self.wakes.wake(topic));
            }
            Reply::Commit(reply, answer, topics) => {
                let applied = answer.is_ok();
                let _ = reply.send(answer);
                if applied {
                    topics.into_iter().for_each(|topic| self.wakes.wake(topic));
                }
            }
            Reply::Trim(reply) => {
                let _ = reply.send(Ok(()));
            }
        }
    }
}

/// Folds one job into the batch.
fn fold(batch: &mut Batch<'_>, job: Job, replies: &mut Vec<Reply>) -> fjall::Result<()> {
    match job {
        Job::Append { frames, reply } => {
            let topics = frames.iter().map(|frame| frame.topic).collect();
            replies.push(Reply::Append(reply, topics));
            let mut frames = frames.into_iter();
            frames.try_for_each(|frame| batch.append(true, &frame.prefix, frame.value))
        }
        Job::Commit { shard, commit, reply, .. } => {
            let topics = commit.topics(shard);
            let (answer, folded) = match batch.commit(shard, &commit) {
                Ok(answer) => (answer, Ok(())),
                Err(error) => (Ok(Committed::default()), Err(error)),
            };
            replies.push(Reply::Commit(reply, answer, topics));
            folded
        }
        Job::Trim { log, prefix, before, reply } => {
            replies.push(Reply::Trim(reply));
            batch.trim(log, prefix, before)
        }
        Job::Piece(piece) => batch.piece(piece),
    }
}

/// Tells a caller that its write may or may not be on the disk.
fn deny(reply: Reply, reason: &str) {
    let fault = Fault::Fatal(reason.to_string());
    match reply {
        Reply::Append(reply, _) => {
            let _ = reply.send(Err(fault));
        }
        Reply::Commit(reply, _, _) => {
            let _ = reply.send(Err(CommitError::Unknown(fault)));
        }
        Reply::Trim(reply) => {
            let _ = reply.send(Err(fault));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::queue::StoredFrame;
    use super::*;
    use consort_kernel::{Commit, Name, Partition, Shard, SystemClock};
    use tempfile::TempDir;

    /// A writer whose batches are written one at a time, by the test.
    struct Bed {
        _folder: TempDir,
        writer: Writer,
        queue: Queue,
    }

    type Answer = oneshot::Receiver<Result<Committed, CommitError>>;

    impl Bed {
        fn new() -> Bed {
            let folder = tempfile::tempdir().unwrap();
            let tables = Tables::open(folder.path()).unwrap();
            let (wakes, clock) = (Arc::default(), Arc::new(SystemClock::default()));
            let (merger, _) = std::sync::mpsc::sync_channel(1);
            let (poison, published) = (Poison::new(), Published::new(&tables));
            let mode = Durability::Process;
            let writer = Writer::new(tables, wakes, clock, poison, mode, merger, published);
            Bed { _folder: folder, writer, queue: Queue::new() }
        }

        fn push(&self, job: Job, bytes: usize) {
            assert!(futures::executor::block_on(self.queue.push(job, bytes)));
        }

        /// So many appends of 4 MiB.
        fn append(&self, count: usize) {
            let at = Partition::new(Name::new("busy").unwrap(), 0);
            let frame = bytes::Bytes::from(vec![0; 4 * 1024 * 1024]);
            for _ in 0..count {
                self.push(Job::append(vec![StoredFrame::new(&at, &frame)]).0, frame.len());
            }
        }

        fn commit(&self, lane: WriterLane) -> Answer {
            let (reply, answer) = oneshot::channel();
            self.push(Job::Commit { shard: Shard(0), lane, commit: Commit::default(), reply }, 0);
            answer
        }

        fn batch(&mut self) {
            let first = self.queue.next(Duration::ZERO).unwrap();
            self.writer.batch(first, &self.queue).unwrap();
        }

        /// How many jobs still wait.
        fn waiting(&self) -> usize {
            std::iter::from_fn(|| self.queue.next(Duration::ZERO)).count()
        }
    }

    #[test]
    fn a_commit_gets_through_under_any_load_of_appends() {
        let mut bed = Bed::new();
        bed.append(4);
        let mut answer = bed.commit(WriterLane::Bulk);
        bed.batch();
        assert_eq!(answer.try_recv(), Ok(Ok(Committed::default())));
        assert_eq!(bed.waiting(), 2, "there were more appends than one batch takes");
    }

    #[test]
    fn a_lease_is_in_the_next_batch_and_no_more_than_one_append_or_commit_goes_with_it() {
        let mut bed = Bed::new();
        bed.append(4);
        let bulk: Vec<Answer> = (0..300).map(|_| bed.commit(WriterLane::Bulk)).collect();
        let mut lease = bed.commit(WriterLane::Leases);
        bed.batch();
        assert_eq!(lease.try_recv(), Ok(Ok(Committed::default())));
        assert_eq!(bed.waiting(), 3 + bulk.len());
    }
}

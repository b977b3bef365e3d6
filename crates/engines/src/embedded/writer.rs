//! The writer thread: takes what waits, folds it into a batch, writes it with one fsync, answers.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use consort_kernel::{Clock, CommitError, Committed, Fault, Poison, Topic, Wakes};
use fjall::PersistMode;
use tokio::sync::oneshot;

use super::Durability;
use super::batch::{Batch, Memory};
use super::queue::{Job, Queue, Taken};
use super::sweep::{self, Trims};
use super::tables::{Tables, explain};

/// Bytes of appends and commits in one batch, about. Larger batches save no fsync worth having.
const BATCH_BYTES: usize = 8 * 1024 * 1024;
/// How long bulk commits may be folded into one batch: an append that arrives meanwhile waits for it.
const BULK_TIME: Duration = Duration::from_millis(3);
/// How often there is a look for what can be cleared away.
const SWEEP_EVERY: Duration = Duration::from_millis(250);

/// What is to be told when the batch is written.
enum Reply {
    Append(oneshot::Sender<Result<(), Fault>>, Topic),
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
    trims: Trims,
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
    ) -> Self {
        let mode = match durability {
            Durability::Fsync => PersistMode::SyncData,
            Durability::Process => PersistMode::Buffer,
        };
        let (memory, trims) = (Memory::default(), Trims::default());
        Writer { tables, wakes, clock, poison, mode, memory, trims }
    }

    pub(super) fn start(self, queue: Arc<Queue>) -> std::io::Result<JoinHandle<()>> {
        let thread = std::thread::Builder::new().name("consort-writer".into());
        thread.spawn(move || self.run(&queue))
    }

    fn run(mut self, queue: &Arc<Queue>) {
        let _guard = Guard { queue: queue.clone(), poison: self.poison.clone() };
        let mut swept = Instant::now();
        while !queue.closed() {
            let step = match queue.next(SWEEP_EVERY) {
                Some(first) => self.batch(first, queue),
                None => Ok(()),
            };
            let step = step.and_then(|()| {
                if swept.elapsed() >= SWEEP_EVERY {
                    let now = self.clock.now();
                    let more = sweep::step(&self.tables, &mut self.memory, &mut self.trims, now)?;
                    if !more {
                        swept = Instant::now();
                    }
                }
                Ok(())
            });
            if let Err(error) = step {
                // Nobody knows what the disk holds now. Whoever opens the folder next will see.
                self.poison.set(format!("the embedded engine stopped: {}", explain(&error)));
                return;
            }
        }
    }

    /// One batch, beginning with `first`. An error is the disk's; all callers were told by then.
    fn batch(&mut self, first: Taken, queue: &Queue) -> fjall::Result<()> {
        let started = Instant::now();
        let mut bytes = 0;
        let mut replies = Vec::new();
        // Permits go when the batch is done: until then its bytes are in memory.
        let mut permits = Vec::new();
        let mut batch = Batch::new(&self.tables, &mut self.memory, self.clock.now());
        let mut taken = Some(first);
        let mut folded = Ok(());
        while let Some((job, permit)) = taken {
            permits.push(permit);
            bytes += permits.last().map_or(0, |permit| permit.num_permits() * 1024);
            folded = fold(&mut batch, job, &mut replies, &mut self.trims, &self.tables);
            if folded.is_err() || bytes >= BATCH_BYTES {
                break;
            }
            taken = queue
                .next_urgent()
                .or_else(|| if started.elapsed() < BULK_TIME { queue.next_bulk() } else { None });
        }
        let written = folded.and_then(|()| batch.write(self.mode));
        match written {
            Ok(dirty) => {
                self.memory.cache.settle(&dirty);
                for reply in replies {
                    self.confirm(reply);
                }
                Ok(())
            }
            Err(error) => {
                for reply in replies {
                    deny(reply, &explain(&error));
                }
                Err(error)
            }
        }
    }

    fn confirm(&self, reply: Reply) {
        // A caller that no longer waits for its answer has lost nothing.
        match reply {
            Reply::Append(reply, topic) => {
                let _ = reply.send(Ok(()));
                self.wakes.wake(topic);
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
fn fold(
    batch: &mut Batch<'_>,
    job: Job,
    replies: &mut Vec<Reply>,
    trims: &mut Trims,
    tables: &Tables,
) -> fjall::Result<()> {
    match job {
        Job::Append { prefix, topic, bytes, digest, reply } => {
            let folded = batch.append(true, &prefix, digest, &bytes);
            replies.push(Reply::Append(reply, topic));
            folded
        }
        Job::Commit { shard, commit, reply } => {
            let topics = commit.topics(shard);
            let (answer, folded) = match batch.commit(shard, &commit) {
                Ok(answer) => (answer, Ok(())),
                Err(error) => (Ok(Committed::default()), Err(error)),
            };
            replies.push(Reply::Commit(reply, answer, topics));
            folded
        }
        Job::Trim { log, prefix, before, reply } => {
            let next = batch.next(log, &prefix)?;
            let before = before.min(next.saturating_sub(1));
            tables.firsts.raise(log, &prefix, before);
            trims.push(log, prefix, before);
            replies.push(Reply::Trim(reply));
            Ok(())
        }
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

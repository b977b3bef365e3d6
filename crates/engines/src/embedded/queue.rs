//! What waits for the writer: two lanes, each bounded in bytes.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use consort_kernel::{Commit, CommitError, Committed, Fault, Lane, Partition, Shard, Topic};
use parking_lot::{Condvar, Mutex, MutexGuard};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::merger::Piece;
use super::rows;

/// Bytes that may wait in each lane, in KiB: beyond it callers wait before they join the queue. It holds
/// two of the largest commits, or eight of the largest frames.
const WAITING_KIB: u32 = 32 * 1024;
/// How long the writer looks again before it sleeps. A caller that was just answered often comes straight
/// back, and waking a thread that sleeps takes a good part of the time of an fsync.
const LINGER: Duration = Duration::from_micros(100);
/// What a request takes besides its bytes.
const REQUEST_KIB: u32 = 1;

/// One thing for the writer to do.
#[derive(Debug)]
pub(super) enum Job {
    /// Frames that go into one batch. A fault in the reply leaves their outcome unknown.
    Append { frames: Vec<StoredFrame>, reply: oneshot::Sender<Result<(), Fault>> },
    /// A validated commit.
    Commit { shard: Shard, commit: Commit, reply: oneshot::Sender<Result<Committed, CommitError>> },
    /// Letting go of the entries of a partition or feed below a number.
    Trim { log: bool, prefix: Vec<u8>, before: u64, reply: oneshot::Sender<Result<(), Fault>> },
    /// A part of a run that is made of several.
    Piece(Piece),
}

/// A frame, as it is stored, for the end of a partition.
#[derive(Debug)]
pub(super) struct StoredFrame {
    pub(super) prefix: Vec<u8>,
    pub(super) topic: Topic,
    pub(super) value: fjall::Slice,
}

impl StoredFrame {
    /// An encoded frame of `at`. It is made where callers are many: the writer is one.
    pub(super) fn new(at: &Partition, frame: &[u8]) -> Self {
        let (prefix, value) = (rows::partition(at), rows::frame_value(frame).into());
        StoredFrame { prefix, topic: Topic::partition(at), value }
    }
}

impl Job {
    /// The append of frames.
    pub(super) fn append(frames: Vec<StoredFrame>) -> (Self, oneshot::Receiver<Result<(), Fault>>) {
        let (reply, answer) = oneshot::channel();
        (Job::Append { frames, reply }, answer)
    }

    /// Work that goes before all bulk commits.
    pub(super) fn urgent(&self) -> bool {
        match self {
            Job::Append { .. } => true,
            Job::Commit { commit, .. } => commit.lane == Lane::Urgent,
            Job::Trim { .. } | Job::Piece(_) => false,
        }
    }
}

#[derive(Debug, Default)]
struct Lanes {
    urgent: VecDeque<(Job, OwnedSemaphorePermit)>,
    bulk: VecDeque<(Job, OwnedSemaphorePermit)>,
    closed: bool,
}

/// The queue between callers and the writer. Each lane has room of its own: a lease must not wait at the
/// door behind bulk work.
#[derive(Debug)]
pub(super) struct Queue {
    lanes: Mutex<Lanes>,
    filled: Condvar,
    urgent_room: Arc<Semaphore>,
    bulk_room: Arc<Semaphore>,
}

/// What the writer takes from the queue. The permits are let go when the job is done.
pub(super) type Taken = (Job, OwnedSemaphorePermit);

impl Queue {
    pub(super) fn new() -> Self {
        Queue {
            lanes: Mutex::default(),
            filled: Condvar::new(),
            urgent_room: Arc::new(Semaphore::new(WAITING_KIB as usize)),
            bulk_room: Arc::new(Semaphore::new(WAITING_KIB as usize)),
        }
    }

    /// Joins the queue, waiting for room first. False if it is closed.
    pub(super) async fn push(&self, job: Job, bytes: usize) -> bool {
        let kib = u32::try_from(bytes / 1024).unwrap_or(u32::MAX);
        let kib = kib.saturating_add(REQUEST_KIB).min(WAITING_KIB);
        let room = if job.urgent() { &self.urgent_room } else { &self.bulk_room };
        let Ok(permit) = room.clone().acquire_many_owned(kib).await else { return false };
        let mut lanes = self.lanes.lock();
        if lanes.closed {
            return false;
        }
        if job.urgent() {
            lanes.urgent.push_back((job, permit));
        } else {
            lanes.bulk.push_back((job, permit));
        }
        drop(lanes);
        self.filled.notify_one();
        true
    }

    /// The next job; the urgent lane first. Waits up to `wait` if there is none. `None` when the wait or
    /// the queue ended: see [`Queue::closed`].
    pub(super) fn next(&self, wait: Duration) -> Option<Taken> {
        let linger = Instant::now() + LINGER.min(wait);
        let mut lanes = self.lanes.lock();
        loop {
            if let Some(taken) = lanes.urgent.pop_front() {
                return Some(taken);
            }
            if let Some(taken) = lanes.bulk.pop_front() {
                return Some(taken);
            }
            if lanes.closed {
                return None;
            }
            if Instant::now() < linger {
                MutexGuard::unlocked(&mut lanes, std::thread::yield_now);
            } else if self.filled.wait_for(&mut lanes, wait).timed_out() {
                return None;
            }
        }
    }

    /// The next urgent job, if one is there now.
    pub(super) fn next_urgent(&self) -> Option<Taken> {
        self.lanes.lock().urgent.pop_front()
    }

    /// The next bulk job, if one is there now.
    pub(super) fn next_bulk(&self) -> Option<Taken> {
        self.lanes.lock().bulk.pop_front()
    }

    /// Takes no more jobs; those in it are dropped, and their callers told so by the closed reply.
    pub(super) fn close(&self) {
        let mut lanes = self.lanes.lock();
        lanes.closed = true;
        lanes.urgent.clear();
        lanes.bulk.clear();
        drop(lanes);
        self.urgent_room.close();
        self.bulk_room.close();
        self.filled.notify_all();
    }

    pub(super) fn closed(&self) -> bool {
        self.lanes.lock().closed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    fn job(lane: Lane) -> Job {
        let commit = Commit { lane, ..Commit::default() };
        Job::Commit { shard: Shard(0), commit, reply: oneshot::channel().0 }
    }

    #[test]
    fn urgent_work_does_not_wait_at_the_door_behind_bulk_work() {
        let queue = Queue::new();
        let all = WAITING_KIB as usize * 1024;
        assert_eq!(queue.push(job(Lane::Bulk), all).now_or_never(), Some(true));
        assert_eq!(queue.push(job(Lane::Bulk), 0).now_or_never(), None, "the bulk lane is full");
        assert_eq!(queue.push(job(Lane::Urgent), 0).now_or_never(), Some(true));
        let (first, _permit) = queue.next(Duration::ZERO).expect("a job");
        assert!(first.urgent());
        queue.close();
        assert_eq!(queue.push(job(Lane::Urgent), 0).now_or_never(), Some(false));
    }
}

//! What waits for the writer: three lanes, each bounded in bytes.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use consort_kernel::{Commit, CommitError, Committed, Fault, Partition, Shard, Topic};
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

/// A lane of the queue. The writer takes from an earlier one first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriterLane {
    /// The commits that renew, take and release leases: a few small ones a second.
    Leases,
    /// Appends and urgent commits.
    Urgent,
    /// All other commits, trims, and pieces of merged runs.
    Bulk,
}

/// One thing for the writer to do.
#[derive(Debug)]
pub(super) enum Job {
    /// Frames that go into one batch. A fault in the reply leaves their outcome unknown.
    Append { frames: Vec<StoredFrame>, reply: oneshot::Sender<Result<(), Fault>> },
    /// A validated commit.
    Commit {
        shard: Shard,
        lane: WriterLane,
        commit: Commit,
        reply: oneshot::Sender<Result<Committed, CommitError>>,
    },
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

    /// The lane that it waits in.
    pub(super) fn lane(&self) -> WriterLane {
        match self {
            Job::Append { .. } => WriterLane::Urgent,
            Job::Commit { lane, .. } => *lane,
            Job::Trim { .. } | Job::Piece(_) => WriterLane::Bulk,
        }
    }
}

#[derive(Debug, Default)]
struct Lanes {
    leases: VecDeque<Taken>,
    urgent: VecDeque<Taken>,
    bulk: VecDeque<Taken>,
    closed: bool,
}

impl Lanes {
    fn lane(&mut self, lane: WriterLane) -> &mut VecDeque<Taken> {
        match lane {
            WriterLane::Leases => &mut self.leases,
            WriterLane::Urgent => &mut self.urgent,
            WriterLane::Bulk => &mut self.bulk,
        }
    }

    fn pop_urgent(&mut self) -> Option<Taken> {
        self.leases.pop_front().or_else(|| self.urgent.pop_front())
    }
}

/// The queue between callers and the writer. Each lane has room of its own. Without that a lease waits before
/// it is in the queue at all, behind every caller whose append waits for room: on a slow disk, for seconds.
#[derive(Debug)]
pub(super) struct Queue {
    lanes: Mutex<Lanes>,
    filled: Condvar,
    lease_room: Arc<Semaphore>,
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
            lease_room: Arc::new(Semaphore::new(WAITING_KIB as usize)),
            urgent_room: Arc::new(Semaphore::new(WAITING_KIB as usize)),
            bulk_room: Arc::new(Semaphore::new(WAITING_KIB as usize)),
        }
    }

    /// Joins the queue, waiting for room first. False if it is closed.
    pub(super) async fn push(&self, job: Job, bytes: usize) -> bool {
        let kib = u32::try_from(bytes / 1024).unwrap_or(u32::MAX);
        let kib = kib.saturating_add(REQUEST_KIB).min(WAITING_KIB);
        let lane = job.lane();
        let room = match lane {
            WriterLane::Leases => &self.lease_room,
            WriterLane::Urgent => &self.urgent_room,
            WriterLane::Bulk => &self.bulk_room,
        };
        let Ok(permit) = room.clone().acquire_many_owned(kib).await else { return false };
        let mut lanes = self.lanes.lock();
        if lanes.closed {
            return false;
        }
        lanes.lane(lane).push_back((job, permit));
        drop(lanes);
        self.filled.notify_one();
        true
    }

    /// The next job, of the first lane that has one. Waits up to `wait` if there is none. `None` when the wait or
    /// the queue ended: see [`Queue::closed`].
    pub(super) fn next(&self, wait: Duration) -> Option<Taken> {
        let linger = Instant::now() + LINGER.min(wait);
        let mut lanes = self.lanes.lock();
        loop {
            if let Some(taken) = lanes.pop_urgent() {
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

    /// The next job of leases, or else the next urgent one, if one is there now.
    pub(super) fn next_urgent(&self) -> Option<Taken> {
        self.lanes.lock().pop_urgent()
    }

    /// The next job of leases, if one is there now.
    pub(super) fn next_lease(&self) -> Option<Taken> {
        self.lanes.lock().leases.pop_front()
    }

    /// The next bulk job, if one is there now.
    pub(super) fn next_bulk(&self) -> Option<Taken> {
        self.lanes.lock().bulk.pop_front()
    }

    /// Takes no more jobs; those in it are dropped, and their callers told so by the closed reply.
    pub(super) fn close(&self) {
        let mut lanes = self.lanes.lock();
        lanes.closed = true;
        lanes.leases.clear();
        lanes.urgent.clear();
        lanes.bulk.clear();
        drop(lanes);
        self.lease_room.close();
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

    fn job(lane: WriterLane) -> Job {
        let (commit, reply) = (Commit::default(), oneshot::channel().0);
        Job::Commit { shard: Shard(0), lane, commit, reply }
    }

    #[test]
    fn a_full_lane_keeps_no_job_of_an_earlier_lane_from_the_queue() {
        let queue = Queue::new();
        let all = WAITING_KIB as usize * 1024;
        for (lane, earlier) in
            [(WriterLane::Bulk, WriterLane::Urgent), (WriterLane::Urgent, WriterLane::Leases)]
        {
            let queue = Queue::new();
            assert_eq!(queue.push(job(lane), all).now_or_never(), Some(true));
            assert_eq!(queue.push(job(lane), 0).now_or_never(), None, "the lane is full");
            assert_eq!(queue.push(job(earlier), 0).now_or_never(), Some(true));
            let (first, _permit) = queue.next(Duration::ZERO).expect("a job");
            assert_eq!(first.lane(), earlier);
        }
        queue.close();
        assert_eq!(queue.push(job(WriterLane::Leases), 0).now_or_never(), Some(false));
    }
}

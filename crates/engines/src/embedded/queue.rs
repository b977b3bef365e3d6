//! What waits for the writer: two lanes, bounded in bytes.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use consort_kernel::{
    Commit, CommitError, Committed, Digest, Fault, Lane, Partition, Shard, Topic,
};
use parking_lot::{Condvar, Mutex};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

/// Bytes that may wait, in KiB: beyond it callers wait before they join the queue. It holds two of the
/// largest commits and a few of the largest frames.
const WAITING_KIB: u32 = 64 * 1024;
/// What a request takes besides its bytes.
const REQUEST_KIB: u32 = 1;

/// One thing for the writer to do.
#[derive(Debug)]
pub(super) enum Job {
    /// A frame, encoded, for the end of a partition. A fault in the reply leaves the outcome unknown.
    Append {
        prefix: Vec<u8>,
        topic: Topic,
        bytes: Bytes,
        digest: Digest,
        reply: oneshot::Sender<Result<(), Fault>>,
    },
    /// A validated commit.
    Commit { shard: Shard, commit: Commit, reply: oneshot::Sender<Result<Committed, CommitError>> },
    /// Letting go of the entries of a partition or feed below a number.
    Trim { log: bool, prefix: Vec<u8>, before: u64, reply: oneshot::Sender<Result<(), Fault>> },
}

impl Job {
    /// The append of an encoded frame.
    pub(super) fn append(
        at: &Partition,
        bytes: Bytes,
    ) -> (Self, oneshot::Receiver<Result<(), Fault>>) {
        let (reply, answer) = oneshot::channel();
        let digest = Digest::of(&bytes);
        let (prefix, topic) = (super::rows::partition(at), Topic::partition(at));
        (Job::Append { prefix, topic, bytes, digest, reply }, answer)
    }

    /// Work that goes before all bulk commits.
    pub(super) fn urgent(&self) -> bool {
        match self {
            Job::Append { .. } => true,
            Job::Commit { commit, .. } => commit.lane == Lane::Urgent,
            Job::Trim { .. } => false,
        }
    }
}

#[derive(Debug, Default)]
struct Lanes {
    urgent: VecDeque<(Job, OwnedSemaphorePermit)>,
    bulk: VecDeque<(Job, OwnedSemaphorePermit)>,
    closed: bool,
}

/// The queue between callers and the writer.
#[derive(Debug)]
pub(super) struct Queue {
    lanes: Mutex<Lanes>,
    filled: Condvar,
    room: Arc<Semaphore>,
}

/// What the writer takes from the queue. The permits are let go when the job is done.
pub(super) type Taken = (Job, OwnedSemaphorePermit);

impl Queue {
    pub(super) fn new() -> Self {
        Queue {
            lanes: Mutex::default(),
            filled: Condvar::new(),
            room: Arc::new(Semaphore::new(WAITING_KIB as usize)),
        }
    }

    /// Joins the queue, waiting for room first. False if it is closed.
    pub(super) async fn push(&self, job: Job, bytes: usize) -> bool {
        let kib = u32::try_from(bytes / 1024).unwrap_or(u32::MAX);
        let kib = kib.saturating_add(REQUEST_KIB).min(WAITING_KIB);
        let Ok(permit) = self.room.clone().acquire_many_owned(kib).await else { return false };
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
        let mut lanes = self.lanes.lock();
        loop {
            if let Some(taken) = lanes.urgent.pop_front() {
                return Some(taken);
            }
            if let Some(taken) = lanes.bulk.pop_front() {
                return Some(taken);
            }
            if lanes.closed || self.filled.wait_for(&mut lanes, wait).timed_out() {
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
        self.room.close();
        self.filled.notify_all();
    }

    pub(super) fn closed(&self) -> bool {
        self.lanes.lock().closed
    }
}

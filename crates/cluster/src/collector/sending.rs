//! When frames are sent: each partition's as soon as its last one is settled, or those of several in rounds.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use consort_kernel::Partition;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt as _, StreamExt as _};
use parking_lot::Mutex;

use super::Shared;
use super::waiting::{Load, Waiting};
use crate::appender;
use crate::frames_in_flight::FramesInFlight;

/// For how long a round waits for its frames. One that takes longer waits for a log that is stuck, perhaps for its
/// partition alone, and the frames of the others do not wait with it.
const ROUND_FOR: Duration = Duration::from_millis(50);

/// Has frames sent for a partition for which none are.
pub(super) fn begin(shared: &Arc<Shared>, at: Partition, waiting: Arc<Mutex<Waiting>>) {
    let mut due = shared.due.lock();
    due.queues.push((at, waiting));
    if !std::mem::replace(&mut due.awaited, true) {
        // It ends by itself.
        drop(shared.runtime.start("collector", send_due(Arc::clone(shared)).boxed()));
    }
}

/// Sends for all partitions that are due.
async fn send_due(shared: Arc<Shared>) {
    match shared.in_flight {
        FramesInFlight::Unbounded => send_apart(&shared).await,
        // Tasks that are ready to submit do so first. A pause would be as long as several rounds.
        FramesInFlight::Joined => {
            tokio::task::yield_now().await;
            send_joined(&shared).await;
        }
        FramesInFlight::Few(count) => {
            tokio::task::yield_now().await;
            send_few(&shared, count.max(1)).await;
        }
    }
}

/// After a moment, begins to send for each partition that is due.
async fn send_apart(shared: &Arc<Shared>) {
    if !shared.linger.is_zero() {
        shared.runtime.sleep(shared.linger).await;
    }
    let queues = {
        let mut due = shared.due.lock();
        due.awaited = false;
        std::mem::take(&mut due.queues)
    };
    for (at, waiting) in queues {
        let sending = send(Arc::clone(shared), at, waiting);
        // It ends by itself when nothing waits any more.
        drop(shared.runtime.start("collector", sending.boxed()));
    }
}

/// Takes the next frame from a queue; none ends the sending for it.
fn next(shared: &Shared, waiting: &Mutex<Waiting>) -> Option<Load> {
    let now = shared.runtime.elapsed();
    let taken = waiting.lock().next(now);
    if let Some(clients) = &shared.returning {
        clients.withdrawn(taken.withdrawn);
    }
    taken.load
}

/// Sends frames of one partition until nothing waits.
async fn send(shared: Arc<Shared>, at: Partition, waiting: Arc<Mutex<Waiting>>) {
    loop {
        let Some(load) = next(&shared, &waiting) else { return };
        let append = shared.appender.events_until(&at, load.records, load.until);
        // A panic is a defect. It must not stop the partition; its submissions are told that the outcome is unknown.
        let result = AssertUnwindSafe(append).catch_unwind().await;
        if let Ok(result) = result {
            load.answers.tell(&result);
        }
    }
}

/// Sends frames until nothing waits, those of all partitions at once: a log that writes them in one batch
/// then has few and full batches.
async fn send_joined(shared: &Shared) {
    loop {
        let mut queues = {
            let mut due = shared.due.lock();
            if due.queues.is_empty() {
                due.awaited = false;
                return;
            }
            std::mem::take(&mut due.queues)
        };
        queues.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        let (mut loads, mut sent) = (Vec::new(), Vec::new());
        for (at, waiting) in queues {
            if let Some(Load { records, until, answers }) = next(shared, &waiting) {
                loads.push(appender::Load { at: at.clone(), records, until });
                sent.push((at, waiting, answers));
            }
        }
        // A panic is a defect. It must not stop the rounds to come; its submissions are told that the outcome is
        // unknown.
        let round = AssertUnwindSafe(shared.appender.round(loads)).catch_unwind().await;
        let mut results = round.unwrap_or_default().into_iter();
        for (at, waiting, answers) in sent {
            if let Some(result) = results.next() {
                answers.tell(&result);
            }
            if waiting.lock().goes_on() {
                shared.due.lock().queues.push((at, waiting));
            }
        }
    }
}

/// Sends frames until nothing waits, few in each round: those of the partitions that have waited longest.
async fn send_few(shared: &Arc<Shared>, count: usize) {
    let (mut expected, mut left_some) = (0, false);
    loop {
        // Partitions that the last round had no room for have waited long enough, and a client may wait for all of
        // its partitions at once.
        if let Some(clients) = shared.returning.as_ref().filter(|_| !left_some) {
            expected = clients.gathered(expected, &*shared.runtime).await;
        }
        let queues: Vec<_> = {
            let mut due = shared.due.lock();
            if due.queues.is_empty() {
                due.awaited = false;
                return;
            }
            left_some = due.queues.len() > count;
            let count = count.min(due.queues.len());
            due.queues.drain(..count).collect()
        };
        let frames = queues.into_iter().filter_map(|(at, waiting)| {
            let load = next(shared, &waiting)?;
            if let Some(clients) = &shared.returning {
                clients.sent(load.answers.len());
            }
            Some(send_one(Arc::clone(shared), at, waiting, load).boxed())
        });
        settle(frames.collect(), shared).await;
    }
}

/// Waits for the frames of a round. Those that take too long go on by themselves.
async fn settle(mut round: FuturesUnordered<BoxFuture<'static, ()>>, shared: &Shared) {
    let mut over = shared.runtime.sleep(ROUND_FOR);
    loop {
        tokio::select! {
            biased;
            settled = round.next() => if settled.is_none() { return },
            () = &mut over => break,
        }
    }
    for stuck in round {
        drop(shared.runtime.start("collector", stuck));
    }
}

/// Sends one frame; what has come for its partition meanwhile is due then.
async fn send_one(shared: Arc<Shared>, at: Partition, waiting: Arc<Mutex<Waiting>>, load: Load) {
    let append = shared.appender.events_until(&at, load.records, load.until);
    // A panic is a defect. It must not stop the rounds to come; its submissions are told that the outcome is unknown.
    let result = AssertUnwindSafe(append).catch_unwind().await;
    if let Some(clients) = &shared.returning {
        clients.settled(load.answers.len());
    }
    if let Ok(result) = result {
        load.answers.tell(&result);
    }
    if waiting.lock().goes_on() {
        begin(&shared, at, waiting);
    }
}

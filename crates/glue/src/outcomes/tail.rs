//! The reader of one shard's outcomes, and the requests that wait for them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use consort_kernel::{Cursor, FeedEntry, Most, ReadError, Shard};
use futures::FutureExt as _;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::Shared;
use crate::stored::{OutcomeEntry, OutcomeKey};

/// How long one read waits for an outcome: it bounds how late the reader notices that no request waits any more.
const READ_WAIT: Duration = Duration::from_secs(1);

/// How many reads without a waiting request end the reader. Requests that come one after another share one.
const IDLE_READS: u32 = 5;

/// The pause after the store failed.
const PAUSE: Duration = Duration::from_millis(100);

/// Outcomes that are kept for requests which have yet to tell their keys: as many as a shard's feed keeps. A request
/// whose outcome was dropped answers with its position when its time is over.
const KEPT: usize = 10_000;

/// The reader of a shard.
#[derive(Default)]
pub(super) struct ShardTail(Mutex<TailState>);

#[derive(Default)]
struct TailState {
    /// Where the reader stands, or the next one begins.
    cursor: Cursor,
    running: bool,
    next_id: u64,
    waiting: BTreeMap<u64, Waiting>,
    by_key: BTreeMap<OutcomeKey, u64>,
    /// Requests that have yet to tell their keys.
    keyless: BTreeSet<u64>,
    /// The outcomes that were read meanwhile.
    kept: BTreeMap<OutcomeKey, OutcomeEntry>,
    order: VecDeque<OutcomeKey>,
}

struct Waiting {
    answer: oneshot::Sender<OutcomeEntry>,
    key: Option<OutcomeKey>,
}

impl ShardTail {
    /// One more request. The last part tells whether the caller must start the reader.
    pub(super) fn register(&self) -> (u64, oneshot::Receiver<OutcomeEntry>, bool) {
        let (answer, answered) = oneshot::channel();
        let state = &mut *self.0.lock();
        let id = state.next_id;
        state.next_id += 1;
        state.waiting.insert(id, Waiting { answer, key: None });
        state.keyless.insert(id);
        let must_start = !std::mem::replace(&mut state.running, true);
        (id, answered, must_start)
    }

    /// A request tells the key of its piece; the outcome, if it has been read already.
    pub(super) fn tell(&self, id: u64, key: OutcomeKey) -> Option<OutcomeEntry> {
        let state = &mut *self.0.lock();
        let found = state.kept.get(&key).cloned();
        state.settle_key(id);
        if found.is_none()
            && let Some(waiting) = state.waiting.get_mut(&id)
        {
            waiting.key = Some(key);
            state.by_key.insert(key, id);
        }
        found
    }

    /// A request has its answer, or waits no longer.
    pub(super) fn leave(&self, id: u64) {
        let state = &mut *self.0.lock();
        state.settle_key(id);
        if let Some(Waiting { key: Some(key), .. }) = state.waiting.remove(&id) {
            state.by_key.remove(&key);
        }
    }

    fn take(&self, entry: FeedEntry) {
        let state = &mut *self.0.lock();
        state.cursor = entry.cursor();
        // A node of this release skips an entry of a later one: its request answers with its position.
        let Ok(outcome) = OutcomeEntry::decode(&entry.entry) else { return };
        if let Some(id) = state.by_key.remove(&outcome.key) {
            if let Some(waiting) = state.waiting.remove(&id) {
                // The request may have gone away just now.
                let _ = waiting.answer.send(outcome);
            }
        } else if !state.keyless.is_empty() {
            state.order.push_back(outcome.key);
            state.kept.insert(outcome.key, outcome);
            if state.order.len() > KEPT
                && let Some(oldest) = state.order.pop_front()
            {
                state.kept.remove(&oldest);
            }
        }
    }

    #[cfg(test)]
    pub(super) fn kept(&self) -> usize {
        self.0.lock().kept.len()
    }

    #[cfg(test)]
    pub(super) fn is_running(&self) -> bool {
        self.0.lock().running
    }

    fn cursor(&self) -> Cursor {
        self.0.lock().cursor
    }

    fn go_on_from(&self, cursor: Cursor) {
        self.0.lock().cursor = cursor;
    }

    fn is_idle(&self) -> bool {
        self.0.lock().waiting.is_empty()
    }

    /// Whether the reader ended, because no request waits.
    fn end(&self) -> bool {
        let state = &mut *self.0.lock();
        state.running = !state.waiting.is_empty();
        !state.running
    }
}

impl TailState {
    fn settle_key(&mut self, id: u64) {
        self.keyless.remove(&id);
        if self.keyless.is_empty() {
            self.kept.clear();
            self.order.clear();
        }
    }
}

/// Starts the reader of a shard.
pub(super) fn start(shared: Arc<Shared>, shard: Shard, tail: Arc<ShardTail>) {
    let runtime = Arc::clone(&shared.runtime);
    let name = format!("outcomes of {}, {shard}", shared.feed);
    // It ends by itself, soon after the last request.
    drop(runtime.start(&name, async move { read(&shared, shard, &tail).await }.boxed()));
}

async fn read(shared: &Shared, shard: Shard, tail: &ShardTail) {
    let mut idle = 0;
    loop {
        idle = if tail.is_idle() { idle + 1 } else { 0 };
        if idle >= IDLE_READS && tail.end() {
            return;
        }
        let cursor = tail.cursor();
        let most = Most::default();
        match shared.store.feed(shard, &shared.feed, &cursor, most, READ_WAIT).await {
            Ok(entries) => entries.into_iter().for_each(|entry| tail.take(entry)),
            Err(ReadError::Trimmed { first, .. }) => tail.go_on_from(Cursor::at(first)),
            // The shard was rolled back: what it has now is read from its beginning.
            Err(ReadError::Lost { .. }) => tail.go_on_from(Cursor::START),
            Err(error) => {
                tracing::debug!(feed = %shared.feed, %shard, %error, "outcomes cannot be read");
                shared.runtime.sleep(PAUSE).await;
            }
        }
    }
}

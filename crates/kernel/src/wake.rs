//! Wakes: how a change reaches those who wait for it, within a process.
//!
//! Engines call [`Wakes::wake`] when a topic changed; waiters hold a [`Wake`]. A wake carries nothing
//! and may be spurious: whoever is woken looks again.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use xxhash_rust::xxh3::Xxh3;

use crate::key::Key;
use crate::log::Partition;
use crate::name::Name;
use crate::store::Shard;

/// How many topics may stand in the table before those nobody listens to are swept out.
const SWEEP_ABOVE: usize = 1024;

/// What can change: a cell, a feed or a partition, as a hash. Two that collide share their wakes, which
/// costs a look and nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Topic(pub u64);

impl Topic {
    /// The bytes cell under `key`.
    pub fn cell(shard: Shard, key: &Key) -> Self {
        Topic::of(b'c', u32::from(shard.0), key.as_bytes())
    }

    /// A feed.
    pub fn feed(shard: Shard, feed: &Name) -> Self {
        Topic::of(b'f', u32::from(shard.0), feed.as_str().as_bytes())
    }

    /// A partition of a stream.
    pub fn partition(at: &Partition) -> Self {
        Topic::of(b'p', at.index, at.stream.as_str().as_bytes())
    }

    fn of(domain: u8, number: u32, name: &[u8]) -> Self {
        let mut hash = Xxh3::new();
        hash.update(&[domain]);
        hash.update(&number.to_le_bytes());
        hash.update(name);
        Topic(hash.digest())
    }
}

/// The table of topics that somebody listens to.
#[derive(Debug, Default)]
pub struct Wakes {
    topics: Mutex<HashMap<Topic, watch::Sender<()>>>,
}

impl Wakes {
    /// Starts to listen: a change from now on will wake the holder.
    pub fn listen(&self, topic: Topic) -> Wake {
        let mut topics = self.topics.lock();
        if topics.len() > SWEEP_ABOVE {
            topics.retain(|_, sender| sender.receiver_count() > 0);
        }
        let sender = topics.entry(topic).or_insert_with(|| watch::Sender::new(()));
        Wake(sender.subscribe())
    }

    /// Wakes all who listen to this topic.
    pub fn wake(&self, topic: Topic) {
        if let Some(sender) = self.topics.lock().get(&topic) {
            sender.send_replace(());
        }
    }

    /// Wakes everybody: after a time in which changes may have gone unseen.
    pub fn wake_all(&self) {
        for sender in self.topics.lock().values() {
            sender.send_replace(());
        }
    }
}

/// One listener.
#[derive(Debug)]
pub struct Wake(watch::Receiver<()>);

impl Wake {
    /// Returns once the topic changed since this was made or since it last returned.
    pub async fn changed(&mut self) {
        if self.0.changed().await.is_err() {
            // The engine is gone: nothing will change any more, and the caller's own bound ends the wait.
            std::future::pending::<()>().await;
        }
    }
}

/// Reads, and if nothing is there, reads again whenever `listen`'s topic wakes, but at the latest every
/// `look_every`, until something comes or `wait` is over.
///
/// It listens only once a first look found nothing, and then looks again before it waits: what came
/// between the two looks is not missed, and a reader with work to do never listens.
pub async fn read_or_wait<T, E, L, R, F>(
    wait: Duration,
    look_every: Duration,
    listen: L,
    mut read: R,
) -> Result<Vec<T>, E>
where
    L: FnOnce() -> Wake,
    R: FnMut() -> F,
    F: Future<Output = Result<Vec<T>, E>>,
{
    let started = Instant::now();
    let entries = read().await?;
    if !entries.is_empty() || wait.is_zero() {
        return Ok(entries);
    }
    let mut wake = listen();
    loop {
        let entries = read().await?;
        let left = wait.saturating_sub(started.elapsed());
        if !entries.is_empty() || left.is_zero() {
            return Ok(entries);
        }
        // Woken or not, it looks again.
        let _ = timeout(left.min(look_every), wake.changed()).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;
    use std::cell::Cell;

    #[tokio::test(start_paused = true)]
    async fn a_reader_looks_again_when_woken_and_when_it_is_time() {
        let wakes = Wakes::default();
        let looks = Cell::new(0);
        let second = Duration::from_secs(1);
        let read = || {
            looks.set(looks.get() + 1);
            let found = if looks.get() == 5 { vec![7] } else { vec![] };
            async move { Ok::<_, ()>(found) }
        };
        let listen = || wakes.listen(Topic(1));
        assert_eq!(read_or_wait(10 * second, second, listen, read).await, Ok(vec![7]));
        let read = || async { Ok::<Vec<u8>, ()>(vec![]) };
        assert_eq!(read_or_wait(3 * second, second, listen, read).await, Ok(vec![]));
        assert_eq!(read_or_wait(Duration::ZERO, second, listen, read).await, Ok(vec![]));
    }

    #[tokio::test]
    async fn a_change_between_listening_and_waiting_is_not_missed() {
        let wakes = Wakes::default();
        let mut wake = wakes.listen(Topic(1));
        let mut other = wakes.listen(Topic(2));
        wakes.wake(Topic(1));
        wake.changed().await;
        assert!(wake.changed().now_or_never().is_none());
        assert!(other.changed().now_or_never().is_none());
        wakes.wake_all();
        other.changed().await;
    }

    #[test]
    fn topics_without_listeners_are_swept_out() {
        let wakes = Wakes::default();
        for topic in 0..10_000 {
            drop(wakes.listen(Topic(topic)));
        }
        assert!(wakes.topics.lock().len() <= SWEEP_ABOVE + 1);
    }
}

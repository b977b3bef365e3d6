//! This node's cache of values: a hot key is served without asking the store.
//!
//! It is bounded in bytes; what was not used lately goes first. It may be wrong only for as long as the
//! [news](crate::news) need, and two rules keep it so. *A shard that cannot vouch serves nothing*, and
//! when news may have been missed its values are dropped. *A fill is discarded if news came since its
//! read began*: otherwise a reader that fetched the value before a purge, and was slow to put it here,
//! would bring back what the purge had already removed, with nobody left to remove it again.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use consort_kernel::{Shard, Timestamp};
use parking_lot::RwLock;

use crate::desk::Found;
use crate::fence::Generation;
use crate::figures::{Tallies, count};
use crate::key::OnceKey;
use crate::news::VOUCH_FOR;
use crate::state::Ready;

/// What an entry takes besides key and value, about: the maps' places and what holds them together.
const OVERHEAD: usize = 300;
/// A value may take this part of the cache, so that one cannot push out all others.
const LARGEST_PART: usize = 4;

#[derive(Debug)]
pub(crate) struct Cache {
    bound: usize,
    shelf: RwLock<Shelf>,
    channels: Vec<Channel>,
    tallies: Arc<Tallies>,
}

#[derive(Debug, Default)]
struct Shelf {
    kept: HashMap<Bytes, Arc<Kept>>,
    /// The keys in the order in which they are considered for removal, with a second chance for those
    /// that were used since. May name keys that are gone.
    order: VecDeque<Bytes>,
    bytes: usize,
}

/// What is known about the news of one shard.
#[derive(Debug, Default)]
struct Channel {
    /// Grows with every piece of news and every interruption.
    version: AtomicU64,
    /// When it had heard everything, in this node's milliseconds, and one more; 0 for never.
    heard: AtomicU64,
}

/// A value in the cache.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) ready: Ready,
    pub(crate) value: Bytes,
    shard: Shard,
    /// The store's time, and this node's before that was asked for.
    read: (Timestamp, Duration),
    used: AtomicBool,
    /// When a refresh may be looked into again, in this node's milliseconds.
    look_again: AtomicU64,
}

impl Kept {
    /// The store's time, as far as this node can tell: somewhat later than it is, never earlier.
    pub(crate) fn now(&self, elapsed: Duration) -> Timestamp {
        self.read.0.after(elapsed.saturating_sub(self.read.1))
    }

    /// Whether it is this caller who should look into a refresh: one at a time, and not all the time.
    pub(crate) fn take_look(&self, elapsed: Duration, every: Duration) -> bool {
        let due = self.look_again.load(Ordering::Relaxed);
        let now = millis(elapsed);
        let next = now.saturating_add(millis(every));
        let take =
            || self.look_again.compare_exchange(due, next, Ordering::Relaxed, Ordering::Relaxed);
        now >= due && take().is_ok()
    }

    fn size(&self, key: &Bytes) -> usize {
        key.len() + self.value.len() + OVERHEAD
    }
}

/// What a fill must still find unchanged when it ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticket {
    shard: Shard,
    version: u64,
}

impl Cache {
    pub(crate) fn new(bound: usize, shards: u16, tallies: Arc<Tallies>) -> Self {
        let channels = (0..shards).map(|_| Channel::default()).collect();
        Cache { bound, shelf: RwLock::default(), channels, tallies }
    }

    fn channel(&self, shard: Shard) -> &Channel {
        &self.channels[usize::from(shard.0)]
    }

    /// The value of a key, if it is here and can be vouched for.
    pub(crate) fn get(&self, key: &OnceKey, elapsed: Duration) -> Option<Arc<Kept>> {
        let kept = self.shelf.read().kept.get(key.as_bytes()).cloned()?;
        let heard = self.channel(kept.shard).heard.load(Ordering::Acquire);
        if heard == 0 || millis(elapsed) >= heard - 1 + millis(VOUCH_FOR) {
            return None;
        }
        if !kept.used.load(Ordering::Relaxed) {
            kept.used.store(true, Ordering::Relaxed);
        }
        Some(kept)
    }

    /// Taken before the read whose result is to be put here.
    pub(crate) fn ticket(&self, shard: Shard) -> Ticket {
        Ticket { shard, version: self.channel(shard).version.load(Ordering::Acquire) }
    }

    /// Puts a value here, unless news came since the ticket was taken.
    pub(crate) fn fill(&self, ticket: Ticket, key: &OnceKey, ready: Ready, found: &Found) {
        let channel = self.channel(ticket.shard);
        let kept = Kept {
            ready,
            value: found.body.clone(),
            shard: ticket.shard,
            read: (found.now, found.at),
            used: AtomicBool::new(false),
            look_again: AtomicU64::new(0),
        };
        let key = Bytes::copy_from_slice(key.as_bytes());
        let size = kept.size(&key);
        if size > self.bound / LARGEST_PART || channel.heard.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut shelf = self.shelf.write();
        // Under the lock: whoever brings news raises the version first and removes afterwards, so either
        // it is seen here, or that removal comes after this fill.
        if channel.version.load(Ordering::Acquire) != ticket.version {
            count(&self.tallies.fills_discarded);
            return;
        }
        if let Some(former) = shelf.kept.get(&key)
            && former.ready.generation == ready.generation
        {
            // Read again, it is still the same value: who looks into its refresh goes on from there.
            let look_again = former.look_again.load(Ordering::Relaxed);
            kept.look_again.store(look_again, Ordering::Relaxed);
        }
        shelf.bytes += size;
        match shelf.kept.insert(key.clone(), Arc::new(kept)) {
            Some(former) => shelf.bytes -= former.size(&key),
            None => shelf.order.push_back(key),
        }
        shelf.shrink(self.bound);
    }

    /// Drops the value of a key, unless it is the one of `generation`.
    pub(crate) fn forget(&self, shard: Shard, key: &[u8], generation: Option<Generation>) {
        self.channel(shard).version.fetch_add(1, Ordering::AcqRel);
        let mut shelf = self.shelf.write();
        let held = shelf.kept.get(key).map(|kept| Generation(kept.ready.generation));
        if held.is_some() && held != generation {
            shelf.remove(key);
        }
    }

    /// Says that up to `at` everything was heard that concerns this shard.
    pub(crate) fn vouch(&self, shard: Shard, at: Duration) {
        self.channel(shard).heard.store(millis(at) + 1, Ordering::Release);
    }

    /// Drops all values of a shard, and serves none until it is vouched for again.
    pub(crate) fn interrupt(&self, shard: Shard) {
        let channel = self.channel(shard);
        if channel.heard.swap(0, Ordering::AcqRel) != 0 {
            count(&self.tallies.interruptions);
        }
        channel.version.fetch_add(1, Ordering::AcqRel);
        let mut shelf = self.shelf.write();
        let Shelf { kept, order, bytes } = &mut *shelf;
        kept.retain(|_, kept| kept.shard != shard);
        order.retain(|key| kept.contains_key(key));
        *bytes = kept.iter().map(|(key, kept)| kept.size(key)).sum();
    }

    /// How many values there are, and their bytes.
    pub(crate) fn size(&self) -> (usize, usize) {
        let shelf = self.shelf.read();
        (shelf.kept.len(), shelf.bytes)
    }
}

impl Shelf {
    fn remove(&mut self, key: &[u8]) {
        if let Some((key, kept)) = self.kept.remove_entry(key) {
            self.bytes -= kept.size(&key);
        }
        // Names of keys that are gone are dropped when their turn comes, or here when they are too many.
        if self.order.len() > 2 * self.kept.len() + 16 {
            let kept = &self.kept;
            let mut named = std::collections::HashSet::new();
            self.order.retain(|key| kept.contains_key(key) && named.insert(key.clone()));
        }
    }

    fn shrink(&mut self, bound: usize) {
        while self.bytes > bound {
            let Some(key) = self.order.pop_front() else { break };
            match self.kept.get(&key) {
                Some(kept) if kept.used.swap(false, Ordering::Relaxed) => self.order.push_back(key),
                Some(_) => self.remove(&key),
                None => {}
            }
        }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX / 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fence::Fence;
    use consort_kernel::Name;

    const S: Shard = Shard(0);
    const NOW: Duration = Duration::from_secs(100);

    fn cache(bound: usize) -> Cache {
        let cache = Cache::new(bound, 2, Arc::default());
        cache.vouch(S, NOW);
        cache
    }

    fn key(n: usize) -> OnceKey {
        OnceKey::new(&Name::new("s").unwrap(), &[n.to_string().as_bytes()])
    }

    fn fence(attempt: u64) -> Fence {
        Fence { incarnation: 1, attempt }
    }

    fn fill(cache: &Cache, ticket: Ticket, n: usize, bytes: usize) {
        let ready = Ready {
            generation: fence(n as u64),
            published: Timestamp(0),
            fresh_until: Timestamp(9),
            usable_until: Timestamp(9),
            excusable_until: Timestamp(9),
            excused_until: Timestamp(0),
            cost: 0,
            refresh: None,
        };
        let found = Found {
            state: None,
            head: None,
            body: vec![0; bytes].into(),
            purges: 0,
            now: Timestamp(1000),
            at: NOW,
        };
        cache.fill(ticket, &key(n), ready, &found);
    }

    #[test]
    fn a_fill_is_discarded_if_news_came_since_its_read_began() {
        let cache = cache(1 << 20);
        let early = cache.ticket(S);
        cache.forget(S, key(1).as_bytes(), None);
        fill(&cache, early, 1, 10);
        assert!(cache.get(&key(1), NOW).is_none());
        assert_eq!(cache.tallies.figures().fills_discarded, 1);
        fill(&cache, cache.ticket(S), 1, 10);
        assert!(cache.get(&key(1), NOW).is_some());
        // News of the very generation that is here drop nothing.
        cache.forget(S, key(1).as_bytes(), Some(Generation(fence(1))));
        assert!(cache.get(&key(1), NOW).is_some());
        cache.forget(S, key(1).as_bytes(), Some(Generation(fence(2))));
        assert!(cache.get(&key(1), NOW).is_none());
        assert_eq!(cache.size(), (0, 0));
    }

    #[test]
    fn a_shard_that_was_interrupted_is_emptied() {
        let cache = cache(1 << 20);
        fill(&cache, cache.ticket(S), 1, 10);
        let before = cache.ticket(S);
        cache.interrupt(S);
        assert_eq!(cache.size(), (0, 0));
        cache.vouch(S, NOW);
        assert!(cache.get(&key(1), NOW).is_none());
        fill(&cache, before, 1, 10);
        assert_eq!(cache.size(), (0, 0));
        assert_eq!(cache.tallies.figures().interruptions, 1);
    }

    #[test]
    fn a_shard_serves_only_while_it_is_vouched_for() {
        let cache = cache(1 << 20);
        fill(&cache, cache.ticket(S), 1, 10);
        let tick = Duration::from_millis(1);
        assert!(cache.get(&key(1), NOW + VOUCH_FOR - tick).is_some());
        assert!(cache.get(&key(1), NOW + VOUCH_FOR).is_none());
        cache.vouch(S, NOW + VOUCH_FOR);
        assert!(cache.get(&key(1), NOW + VOUCH_FOR).is_some());
    }

    #[test]
    fn it_is_bounded_and_what_was_used_stays_longest() {
        let cache = cache(20_000);
        for n in 0..100 {
            fill(&cache, cache.ticket(S), n, 1000);
            assert!(cache.get(&key(0), NOW).is_some(), "{n}");
            assert!(cache.size().1 <= 20_000);
        }
        assert!(cache.size().0 > 10);
        assert!(cache.get(&key(1), NOW).is_none());
        // Too large for it: the others stay.
        fill(&cache, cache.ticket(S), 500, 10_000);
        assert!(cache.get(&key(0), NOW).is_some() && cache.get(&key(500), NOW).is_none());
        for n in 0..1000 {
            fill(&cache, cache.ticket(S), n % 7, 10);
            cache.forget(S, key(n % 7).as_bytes(), None);
        }
        assert!(cache.shelf.read().order.len() < 100);
    }

    #[test]
    fn a_refresh_is_looked_into_by_one_at_a_time() {
        let cache = cache(1 << 20);
        fill(&cache, cache.ticket(S), 1, 10);
        let kept = cache.get(&key(1), NOW).unwrap();
        let second = Duration::from_secs(1);
        assert!(kept.take_look(NOW, second));
        assert!(!kept.take_look(NOW, second));
        assert!(kept.take_look(NOW + second, second));
        assert_eq!(kept.now(NOW + second), Timestamp(2000));
    }
}

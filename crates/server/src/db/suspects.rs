//! Writes that may have ended leaders (H31). A request that crashes the writer is sent again by its client, or by a door
//! that has its key, and would end one leader after another.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// How many leaders a request may end before it is refused. One may have died for another reason.
const LEADERS: usize = 2;

/// How long it is refused: long enough for an operator to see the cause.
const REFUSED_FOR: Duration = Duration::from_secs(600);

/// How many leaders of a request are remembered: some of them may turn out to live.
const REMEMBERED: usize = 4;

/// How many requests are watched. The oldest one goes first.
const WATCHED: usize = 1_024;

/// The requests that were in flight when a leader went away, by the hash of their statements.
#[derive(Debug, Default)]
pub(super) struct Suspects(Mutex<HashMap<[u8; 32], Suspect>>);

#[derive(Debug)]
struct Suspect {
    /// Those that had it, by worker id, which never comes back.
    leaders: Vec<SuspectLeader>,
    last: Instant,
}

#[derive(Debug, PartialEq, Eq)]
struct SuspectLeader {
    worker: u64,
    /// Its writer panicked, and the worker lives on.
    has_panicked: bool,
}

impl Suspects {
    /// Whether no request is watched, as in all quiet times: then no hash is needed.
    pub(super) fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }

    /// The answer of `leader` to the request did not come: it counts if the leader turns out to be dead.
    pub(super) fn note_silent(&self, hash: [u8; 32], leader: u64) {
        self.note(hash, SuspectLeader { worker: leader, has_panicked: false });
    }

    /// The writer of `leader` panicked on the request.
    pub(super) fn note_panicked(&self, hash: [u8; 32], leader: u64) {
        self.note(hash, SuspectLeader { worker: leader, has_panicked: true });
    }

    fn note(&self, hash: [u8; 32], leader: SuspectLeader) {
        let now = Instant::now();
        let mut watched = self.0.lock();
        watched.retain(|_, suspect| now - suspect.last < REFUSED_FOR);
        if watched.len() >= WATCHED
            && let Some(oldest) = watched.iter().min_by_key(|(_, suspect)| suspect.last)
        {
            let oldest = *oldest.0;
            watched.remove(&oldest);
        }
        let suspect = watched.entry(hash).or_insert(Suspect { leaders: Vec::new(), last: now });
        suspect.last = now;
        if !suspect.leaders.contains(&leader) {
            suspect.leaders.truncate(REMEMBERED - 1);
            suspect.leaders.insert(0, leader);
        }
    }

    /// The request was answered, so that it is not the one that ends leaders.
    pub(super) fn clear(&self, hash: &[u8; 32]) {
        self.0.lock().remove(hash);
    }

    /// Whether the request is refused: as many leaders went away with it and are not among the living.
    pub(super) fn is_refused(&self, hash: &[u8; 32], lives: impl Fn(u64) -> bool) -> bool {
        let watched = self.0.lock();
        let Some(suspect) = watched.get(hash) else { return false };
        let ended = |leader: &&SuspectLeader| leader.has_panicked || !lives(leader.worker);
        let dead = suspect.leaders.iter().filter(ended).count();
        dead >= LEADERS && suspect.last.elapsed() < REFUSED_FOR
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: [u8; 32] = [7; 32];

    #[tokio::test(start_paused = true)]
    async fn h31_a_request_that_ended_two_leaders_is_refused_for_ten_minutes() {
        let suspects = Suspects::default();
        let none_lives = |_| false;
        suspects.note_silent(HASH, 1);
        suspects.note_silent(HASH, 1);
        assert!(!suspects.is_refused(&HASH, none_lives), "it ended one leader");
        suspects.note_silent(HASH, 2);
        assert!(suspects.is_refused(&HASH, none_lives));
        assert!(!suspects.is_refused(&HASH, |leader| leader == 2), "the second one lives");
        assert!(!suspects.is_refused(&[8; 32], none_lives), "another request");
        tokio::time::advance(REFUSED_FOR).await;
        assert!(!suspects.is_refused(&HASH, none_lives));
    }

    #[tokio::test(start_paused = true)]
    async fn h31_a_panic_counts_although_the_worker_lives_on() {
        let suspects = Suspects::default();
        suspects.note_panicked(HASH, 1);
        suspects.note_panicked(HASH, 2);
        assert!(suspects.is_refused(&HASH, |_| true));
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_was_answered_is_no_suspect() {
        let suspects = Suspects::default();
        suspects.note_silent(HASH, 1);
        suspects.clear(&HASH);
        suspects.note_silent(HASH, 2);
        assert!(!suspects.is_refused(&HASH, |_| false));
    }

    #[tokio::test(start_paused = true)]
    async fn the_oldest_of_too_many_requests_is_forgotten() {
        let suspects = Suspects::default();
        let hash = |n: usize| {
            let mut hash = [0; 32];
            hash[..8].copy_from_slice(&n.to_be_bytes());
            hash
        };
        for n in 0..=WATCHED {
            suspects.note_silent(hash(n), 1);
            suspects.note_silent(hash(n), 2);
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        assert!(!suspects.is_refused(&hash(0), |_| false));
        assert!(suspects.is_refused(&hash(WATCHED), |_| false));
    }
}

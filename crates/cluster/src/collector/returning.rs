//! How many submissions a round of frames waits for, where each frame costs the same whatever is in it.
//!
//! Clients that were answered in the last rounds are likely to return soon with more. So a round begins when most of
//! them are back, not with the first. The number of submissions that were out at once tells how many to expect. The
//! wait is short for clients that do not return, and a client that is alone does not wait at all.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use tokio::sync::Notify;

use crate::runtime::Runtime;

/// How long a round waits for the clients that it expects: about as long as a busy broker takes for a frame.
const WAIT_MOST: Duration = Duration::from_millis(3);

/// A round begins when all but one in so many are there. The last ones are still on their way through the sockets of a
/// busy machine, and all others would wait for them.
const LATE: usize = 10;

/// With each round that sees fewer, one in so many is no longer expected.
const FORGOTTEN: usize = 8;

/// Counts the submissions that wait and those on their way into the log, and how many a round waits for.
#[derive(Debug, Default)]
pub(super) struct ReturningClients {
    waiting: AtomicUsize,
    sent: AtomicUsize,
    /// The most that were out at once since the last round began.
    most: AtomicUsize,
    /// How many the next round waits for; 0 while none does.
    wanted: AtomicUsize,
    enough: Notify,
}

impl ReturningClients {
    /// One more waits.
    pub(super) fn arrived(&self) {
        let waiting = self.waiting.fetch_add(1, SeqCst) + 1;
        // A round says how many it wants and then looks how many there are; each submission is counted and then
        // looks how many are wanted. So the last one that was wanted is seen by one of the two.
        if waiting == self.wanted.load(SeqCst) {
            self.enough.notify_one();
        }
    }

    /// So many of the waiting submissions left their queue without a frame.
    pub(super) fn withdrawn(&self, count: usize) {
        self.waiting.fetch_sub(count, SeqCst);
    }

    /// So many of the waiting submissions are on their way.
    pub(super) fn sent(&self, count: usize) {
        self.waiting.fetch_sub(count, SeqCst);
        self.sent.fetch_add(count, SeqCst);
    }

    /// The outcome of so many is known.
    pub(super) fn settled(&self, count: usize) {
        let sent = self.sent.fetch_sub(count, SeqCst);
        self.most.fetch_max(self.waiting.load(SeqCst) + sent, SeqCst);
    }

    /// Waits until a round is to begin, and returns how many were expected. `before` is what the call before it
    /// returned, 0 for the first.
    pub(super) async fn gathered(&self, before: usize, runtime: &dyn Runtime) -> usize {
        let expected = expected(before, self.most.swap(0, SeqCst));
        let wanted = wanted(expected.saturating_sub(self.sent.load(SeqCst)));
        self.wanted.store(wanted, SeqCst);
        if self.waiting.load(SeqCst) < wanted {
            let mut over = runtime.sleep(WAIT_MOST);
            // The notice of an earlier round may have come after that had begun: hence the second look.
            while self.waiting.load(SeqCst) < wanted {
                tokio::select! {
                    biased;
                    () = self.enough.notified() => {}
                    () = &mut over => break,
                }
            }
        }
        self.wanted.store(0, SeqCst);
        expected
    }
}

/// How many are expected after a round that saw `most` of them, where so many had been expected before.
fn expected(before: usize, most: usize) -> usize {
    most.max(before - before.div_ceil(FORGOTTEN))
}

/// How many of them a round waits for.
fn wanted(expected: usize) -> usize {
    (expected - expected.div_ceil(LATE)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::TokioRuntime;

    use std::sync::Arc;

    use futures::FutureExt as _;

    #[test]
    fn a_client_that_does_not_return_is_forgotten_and_one_that_comes_is_expected_at_once() {
        assert_eq!(expected(0, 128), 128);
        assert_eq!(expected(128, 120), 120);
        assert_eq!(expected(128, 0), 112);
        let rounds = std::iter::successors(Some(128), |&before| Some(expected(before, 0)));
        assert!(rounds.take(30).last().is_some_and(|left| left == 0));
    }

    #[test]
    fn a_round_waits_for_most_clients_and_a_single_one_does_not_wait() {
        assert_eq!([0, 1, 2, 3, 10, 11, 128].map(wanted), [1, 1, 1, 2, 9, 9, 115]);
    }

    /// A round in which so many came, were sent and settled.
    fn after_a_round_of(count: usize) -> ReturningClients {
        let clients = ReturningClients::default();
        (0..count).for_each(|_| clients.arrived());
        clients.sent(count);
        clients.settled(count);
        clients
    }

    #[tokio::test(start_paused = true)]
    async fn a_round_begins_as_soon_as_the_expected_clients_are_there() {
        let (clients, runtime) = (Arc::new(after_a_round_of(20)), TokioRuntime::current());
        let mut round = std::pin::pin!(clients.gathered(0, &*runtime));
        for _ in 0..17 {
            clients.arrived();
            assert!((&mut round).now_or_never().is_none());
        }
        clients.arrived();
        assert_eq!((&mut round).now_or_never(), Some(20));
    }

    #[tokio::test(start_paused = true)]
    async fn a_round_waits_briefly_and_not_for_submissions_on_their_way() {
        let (clients, runtime) = (after_a_round_of(20), TokioRuntime::current());
        clients.arrived();
        let began = runtime.elapsed();
        let expected = clients.gathered(0, &*runtime).await;
        let waited = runtime.elapsed() - began;
        assert!(waited >= WAIT_MOST && waited < 2 * WAIT_MOST, "{waited:?}");
        // Of twenty, eighteen are stuck in the log: the round waits for no others in their stead.
        (0..18).for_each(|_| clients.arrived());
        clients.sent(18);
        assert_eq!(clients.gathered(expected, &*runtime).now_or_never(), Some(17));
    }

    #[tokio::test(start_paused = true)]
    async fn a_notice_that_came_too_late_does_not_begin_the_next_round() {
        let (clients, runtime) = (after_a_round_of(20), TokioRuntime::current());
        clients.enough.notify_one();
        assert!(clients.gathered(0, &*runtime).now_or_never().is_none());
    }
}

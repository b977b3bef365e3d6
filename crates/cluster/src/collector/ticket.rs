//! Tickets: the order of one request's records survives a failed append.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// No submission has failed.
const NONE: u64 = u64::MAX;

/// The order of one request, or one queue, for one partition.
///
/// Submissions with the same ticket are stored in their order. Once one of them was refused, failed, was taken back,
/// or ended unknown, the collector sends no later one: it answers
/// [`NotStored::Behind`](super::NotStored::Behind). So the stored submissions of a ticket are always its first ones,
/// perhaps with one more whose outcome is unknown.
///
/// A ticket belongs to one partition queue. Clones are the same ticket.
#[derive(Clone, Debug)]
pub struct Ticket(Arc<Numbers>);

#[derive(Debug)]
struct Numbers {
    /// Of the next submission.
    next: AtomicU64,
    /// The first submission that is not stored for certain.
    failed: AtomicU64,
    /// Whether failures are forgotten, to prove that the simulator notices.
    #[cfg(feature = "mutations")]
    is_ignored: bool,
}

/// A submission's number in its ticket.
#[derive(Clone, Debug)]
pub(super) struct Numbered {
    ticket: Ticket,
    number: u64,
}

impl Default for Ticket {
    fn default() -> Self {
        Ticket(Arc::new(Numbers::default()))
    }
}

impl Default for Numbers {
    fn default() -> Self {
        Numbers {
            next: AtomicU64::new(0),
            failed: AtomicU64::new(NONE),
            #[cfg(feature = "mutations")]
            is_ignored: false,
        }
    }
}

impl Ticket {
    /// A ticket whose failures are forgotten.
    #[cfg(feature = "mutations")]
    pub fn ignored() -> Self {
        Ticket(Arc::new(Numbers { is_ignored: true, ..Numbers::default() }))
    }

    /// Numbers the next submission. The caller holds the lock of the partition queue.
    pub(super) fn number(&self) -> Numbered {
        Numbered { ticket: self.clone(), number: self.0.next.fetch_add(1, SeqCst) }
    }
}

impl Numbered {
    /// The submission is not stored for certain.
    pub(super) fn fail(&self) {
        #[cfg(feature = "mutations")]
        if self.ticket.0.is_ignored {
            return;
        }
        self.ticket.0.failed.fetch_min(self.number, SeqCst);
    }

    /// Whether an earlier submission of the ticket failed.
    pub(super) fn is_behind_failure(&self) -> bool {
        self.ticket.0.failed.load(SeqCst) < self.number
    }
}

//! The ledger: what the riders were told.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::rides::Ride;

/// All riders write into it; all clones are of the same one.
#[derive(Clone, Debug, Default)]
pub struct Ledger(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    acknowledged: Mutex<Vec<Ride>>,
    refused: AtomicUsize,
    broken: AtomicUsize,
    repeats: AtomicUsize,
    questions: AtomicUsize,
}

impl Ledger {
    /// The ride was acknowledged, for the first time.
    pub fn acknowledge(&self, ride: Ride) {
        self.0.acknowledged.lock().push(ride);
    }

    /// A post was refused, and will be sent again.
    pub fn refuse(&self) {
        self.0.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// A connection broke or an answer did not come.
    pub fn breaks(&self) {
        self.0.broken.fetch_add(1, Ordering::Relaxed);
    }

    /// A ride that was acknowledged is sent once more.
    pub fn repeat(&self) {
        self.0.repeats.fetch_add(1, Ordering::Relaxed);
    }

    /// A question was answered with all that it had to include.
    pub fn answer(&self) {
        self.0.questions.fetch_add(1, Ordering::Relaxed);
    }

    /// What was acknowledged.
    pub fn acknowledged(&self) -> Vec<Ride> {
        self.0.acknowledged.lock().clone()
    }

    /// How much was acknowledged.
    pub fn len(&self) -> usize {
        self.0.acknowledged.lock().len()
    }

    /// Whether nothing was acknowledged yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How often a connection broke or an answer did not come.
    pub fn broken(&self) -> usize {
        self.0.broken.load(Ordering::Relaxed)
    }

    /// All of it, for people.
    pub fn report(&self) -> String {
        let read = |number: &AtomicUsize| number.load(Ordering::Relaxed);
        format!(
            "{} rides acknowledged, {} refusals, {} broken tries, {} sent once more; {} questions answered",
            self.len(),
            read(&self.0.refused),
            read(&self.0.broken),
            read(&self.0.repeats),
            read(&self.0.questions),
        )
    }
}

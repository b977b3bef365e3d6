//! The memory that the request bodies of a node take together. It is counted in bytes, and has a bound: a body
//! that does not fit is answered 503 at once, since waiting for room would only hold more of it.
//!
//! A body that its handler keeps whole takes its length. One that is streamed takes what it has on its way into the
//! log, which is bounded whatever its length is.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::http::Extensions;

use crate::problem::Problem;
use crate::problems;

/// When a client whose body found no room should try again.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The memory of all bodies of a server; all clones are of the same one.
#[derive(Clone, Debug)]
pub(crate) struct BodyMemory(Arc<Account>);

#[derive(Debug)]
struct Account {
    most: usize,
    taken: AtomicUsize,
}

/// What one request takes of it. All clones are of the same request, and the last gives it back. By default it is of
/// no account: nothing is counted.
#[derive(Clone, Debug, Default)]
pub(crate) struct BodyShare(Option<Arc<Share>>);

#[derive(Debug)]
struct Share {
    memory: BodyMemory,
    taken: AtomicUsize,
}

/// The bodies of a node take as much memory as they may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the requests under way hold {most} bytes of bodies, as many as this node keeps")]
pub(crate) struct BodiesFull {
    most: usize,
}

impl BodyMemory {
    pub(crate) fn new(most: usize) -> BodyMemory {
        BodyMemory(Arc::new(Account { most, taken: AtomicUsize::new(0) }))
    }

    /// The share of one more request, which takes nothing yet.
    pub(crate) fn share(&self) -> BodyShare {
        let share = Share { memory: self.clone(), taken: AtomicUsize::new(0) };
        BodyShare(Some(Arc::new(share)))
    }

    fn take(&self, bytes: usize) -> Result<(), BodiesFull> {
        let Account { most, taken } = &*self.0;
        let with_these =
            |before: usize| before.checked_add(bytes).filter(|together| together <= most);
        match taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, with_these) {
            Ok(_) => Ok(()),
            Err(_) => Err(BodiesFull { most: *most }),
        }
    }

    fn give_back(&self, bytes: usize) {
        self.0.taken.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl BodyShare {
    /// The share of a request, by its extensions.
    pub(crate) fn from_extensions(extensions: &Extensions) -> BodyShare {
        extensions.get::<BodyShare>().cloned().unwrap_or_default()
    }

    /// Takes so many bytes in all: more than before, or fewer. Only one task of a request may do so.
    pub(crate) fn hold(&self, bytes: usize) -> Result<(), BodiesFull> {
        let Some(share) = &self.0 else { return Ok(()) };
        let taken = share.taken.load(Ordering::Relaxed);
        match bytes.checked_sub(taken) {
            Some(more) => return self.add(more),
            None => share.memory.give_back(taken - bytes),
        }
        share.taken.store(bytes, Ordering::Relaxed);
        Ok(())
    }

    /// Takes so many bytes more.
    pub(crate) fn add(&self, bytes: usize) -> Result<(), BodiesFull> {
        let Some(share) = &self.0 else { return Ok(()) };
        share.memory.take(bytes)?;
        share.taken.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.memory.give_back(*self.taken.get_mut());
    }
}

impl BodiesFull {
    pub(crate) fn problem(self) -> Problem {
        let detail = format!("{self}; try again, or ask another node");
        Problem::new(problems::BODIES_MEMORY, detail).retry_after(RETRY_AFTER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_together_stay_below_the_bound_and_give_back_what_they_took() {
        let memory = BodyMemory::new(100);
        let (one, other) = (memory.share(), memory.share());
        assert_eq!(one.add(60), Ok(()));
        assert_eq!(other.add(41), Err(BodiesFull { most: 100 }));
        assert_eq!(other.add(usize::MAX), Err(BodiesFull { most: 100 }));
        assert_eq!(other.add(40), Ok(()));
        let clone = one.clone();
        drop(one);
        assert_eq!(other.add(1), Err(BodiesFull { most: 100 }), "a clone keeps it");
        drop(clone);
        assert_eq!(other.add(60), Ok(()));
        let third = memory.share();
        assert_eq!(other.hold(30), Ok(()), "less than before");
        assert_eq!(third.hold(70), Ok(()));
        assert_eq!(third.hold(71), Err(BodiesFull { most: 100 }));
        drop(other);
        assert_eq!(third.hold(100), Ok(()));
    }
}

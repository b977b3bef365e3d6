//! The first request computes; everyone else gets that answer, on any node, even when the first one dies.
//!
//! ```
//! # use std::{sync::Arc, time::Duration};
//! # use consort_cluster::TokioRuntime;
//! # use consort_kernel::{Name, SystemClock, SystemEntropy, memory::MemoryStore};
//! use consort_once::{Computed, Once, OnceKey, Options, Terms};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let store = Arc::new(MemoryStore::new(16, Arc::new(SystemClock::default())));
//! let once = Once::new(Options::new(store, TokioRuntime::current(), Arc::new(SystemEntropy)));
//! let key = OnceKey::new(&Name::new("items")?, &[b"books", b"page=3"]);
//! let answer = once.get(&key, &Terms::default(), || async { Ok(Computed::new("[1, 2, 3]")) }).await?;
//! assert_eq!(&answer.value[..], b"[1, 2, 3]");
//! # Ok(())
//! # }
//! ```
//!
//! All handles over one [`Store`](consort_kernel::Store) are one, whichever process they are in. For each
//! key there is a cell: somebody *computes*, a value is *ready*, or the computation *failed*. Every step
//! from one to the next is a commit that expects the very bytes it was made from:
//!
//! - **One computes.** Of all who find nothing, one wins the cell with a *fence* that was never used before;
//!   the others wait, woken by the store, one waiter for each node and key. The fence becomes the value's
//!   [`Generation`], so no two values share one.
//! - **It may die.** The winner renews a lease while it computes. If it falls silent, the lease lapses, and
//!   one of the waiters wins the cell in its place. If it comes back late, its commit expects a cell that
//!   is no longer there, and is refused. The lease only saves work; the comparison is what keeps it right.
//! - **It may fail.** A [`Failure`] is an outcome like a value: all who wait get it, on every node, and so
//!   does everybody who asks within [`Terms::errors_for`].
//! - **It may grow old.** A stale value is served while exactly one refreshes it, and as its end nears one
//!   refreshes it early.
//! - **It may be purged**, by key or by tag; what was being computed then is refused and computed anew.
//! - **A value that must not be kept** ([`Computed::keep`]) is published like any other, with no time to live.
//!   Those who looked at the key before it was there, and did not see it, know without any clock that it
//!   came while they waited: it is theirs. Whoever sees it at its first look computes for itself.
//! - **The store may not answer.** Then there is an error, never a second computation: nobody computes
//!   without having won the cell, and after a commit whose outcome is unknown the cell is looked at first.
//!
//! # Where to look
//!
//! `decide` and `step` are the pure core; `model` checks them in every interleaving. `conduct` flies the
//! requests of a node for one key, `attempt` computes, `purge` purges, `cache` and `news` keep this node's
//! memory honest. It knows no HTTP: what a key means and where values come from is the caller's.

mod answer;
mod attempt;
mod cache;
mod conduct;
mod decide;
mod desk;
mod early;
mod fence;
mod figures;
mod flights;
mod formats;
mod inner;
mod key;
#[cfg(test)]
mod model;
mod news;
mod once;
mod purge;
mod state;
mod step;
mod terms;

pub use answer::{Answer, OnceError, Source};
pub use fence::{GENERATION_DIGITS, Generation, GenerationError};
pub use figures::Figures;
pub use formats::FORMATS;
pub use key::OnceKey;
pub use once::{CACHE_BYTES, Once, Options, WAITERS, WAITERS_PER_KEY};
pub use terms::{Computed, Failure, FailureKind, OnError, Terms};

/// Tags that one value may have. Each is a cell of the commit that publishes it.
pub const TAGS: usize = 64;
/// Bytes of a failure's reason that travel to other nodes.
pub const REASON_BYTES: usize = 1024;

//! The first request computes; everyone else gets that answer, on any node, even when the first one dies.

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
mod inner;
mod key;
mod news;
mod once;
mod purge;
mod state;
mod step;
mod terms;

pub use answer::{Answer, OnceError, Source};
pub use fence::{Generation, GenerationError};
pub use figures::Figures;
pub use key::OnceKey;
pub use once::{CACHE_BYTES, Once, Options, WAITERS, WAITERS_PER_KEY};
pub use terms::{Computed, Failure, FailureKind, OnError, Terms};

/// Tags that one value may have. Each is a cell of the commit that publishes it.
pub const TAGS: usize = 64;
/// Bytes of a failure's reason that travel to other nodes.
pub const REASON_BYTES: usize = 1024;

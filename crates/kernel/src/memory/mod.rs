//! The memory engine: the contracts in their plainest form, and the model that other engines are
//! compared with. Nothing survives the process.

mod log;
mod shard;
mod store;

use std::sync::Arc;

pub use log::MemoryLog;
pub use store::{MemoryStore, ShardImage};

use crate::clock::Clock;

/// A log and a store in memory.
pub fn open(shards: u16, clock: Arc<dyn Clock>) -> (MemoryLog, MemoryStore) {
    (MemoryLog::default(), MemoryStore::new(shards, clock))
}

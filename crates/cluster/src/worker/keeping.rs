//! Keeping a plan's memory from one load to the next.

use std::collections::BTreeMap;

use bytes::Bytes;
use consort_kernel::Shard;

use super::Worker;
use super::cells::Loaded;
use super::plan::Memory;

/// A memory, and the marks that it goes with.
pub(super) struct KeptMemory {
    memory: Memory,
    marks: BTreeMap<Shard, Option<Bytes>>,
}

impl KeptMemory {
    /// The memory of a load that nothing went wrong with.
    pub(super) fn new(loaded: Loaded) -> Self {
        KeptMemory { marks: loaded.raw_marks(), memory: loaded.memory }
    }
}

impl Worker {
    /// The memory of the load before, if every commit since then succeeded and the marks are as this owner left
    /// them.
    pub(super) fn kept_memory(&mut self, loaded: &Loaded) -> Memory {
        #[cfg(feature = "mutations")]
        if let Some(spoiled) = self.spoiled.get_mut().take() {
            return spoiled;
        }
        let kept = self.kept.take().filter(|kept| kept.marks == loaded.raw_marks());
        kept.map(|kept| kept.memory).unwrap_or_default()
    }

    /// Keeps a memory although a commit failed: a rule that is broken on purpose.
    #[cfg(feature = "mutations")]
    pub(super) fn keep_anyway(&self, memory: Memory) {
        if self.mutation == Some(crate::mutation::Mutation::MemoryKept) {
            *self.spoiled.lock() = Some(memory);
        }
    }
}

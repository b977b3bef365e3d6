//! Where the cells and the feed of a database are. All of them are in one shard, chosen by the name, so one
//! commit can change any of them.

use consort_kernel::{Key, Name, NameError, Shard, shard_of};

use crate::snapshot::chunks::ChunkName;

/// The kinds of cells of a database, as stored keys name them.
const HEAD: &str = "head";
const WANTED: &str = "wanted";
const WORKER: &str = "worker";
const MANIFEST: &str = "manifest";
const CHUNK: &str = "chunk";
const WINDOW: &str = "window";
const READS: &str = "reads";
const SCHEMA: &str = "schema";
const SWEEP: &str = "sweep";

/// The places of one database.
#[derive(Clone, Debug)]
pub struct DbCells {
    name: Name,
    root: Key,
    shard: Shard,
}

impl DbCells {
    /// The places of the database `name`, in a store with this many shards.
    pub fn new(name: &Name, shards: u16) -> Self {
        let root = Key::from(["db", name.as_str()]);
        let shard = shard_of(&root, shards);
        DbCells { name: name.clone(), root, shard }
    }

    /// The name of the database.
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// The shard of everything that belongs to the database.
    pub fn shard(&self) -> Shard {
        self.shard
    }

    /// The head.
    pub fn head(&self) -> Key {
        self.root.with(HEAD)
    }

    /// The wanted workers.
    pub fn wanted(&self) -> Key {
        self.root.with(WANTED)
    }

    /// The schema files that were applied.
    pub fn schema(&self) -> Key {
        self.root.with(SCHEMA)
    }

    /// What the keys of all workers begin with.
    pub fn workers(&self) -> Key {
        self.root.with(WORKER)
    }

    /// One worker.
    pub fn worker(&self, id: u64) -> Key {
        self.workers().with(id)
    }

    /// The two manifests.
    pub fn manifests(&self) -> [Key; 2] {
        let place = |n: u64| self.root.with(MANIFEST).with(n);
        [place(0), place(1)]
    }

    /// What the keys of all chunks begin with.
    pub fn chunks(&self) -> Key {
        self.root.with(CHUNK)
    }

    /// One chunk.
    pub fn chunk(&self, name: ChunkName) -> Key {
        self.chunks().with(name.0.as_slice())
    }

    /// The batches of chunks that no manifest may name.
    pub fn sweep(&self) -> Key {
        self.root.with(SWEEP)
    }

    /// The names of the chunks in one of these batches.
    pub fn sweep_batch(&self, number: u64) -> Key {
        self.sweep().with(number)
    }

    /// The running window of reads.
    pub fn window(&self) -> Key {
        self.root.with(WINDOW)
    }

    /// What the counts of all processes in one window begin with.
    pub fn counts(&self, window: u64) -> Key {
        self.root.with(READS).with(window)
    }

    /// The count of one process in one window.
    pub fn count(&self, window: u64, incarnation: u64) -> Key {
        self.counts(window).with(incarnation)
    }

    /// The feed of one era.
    pub fn feed(&self, era: u64) -> Result<Name, NameError> {
        Name::new(&format!("db.{}.{era}", self.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_places_of_a_database_lie_under_its_name() {
        let cells = DbCells::new(&Name::new("notes").unwrap(), 16);
        let root = Key::from(["db", "notes"]);
        let keys = [cells.head(), cells.wanted(), cells.worker(7), cells.window()];
        assert!(keys.iter().all(|key| key.starts_with(&root)));
        assert!(cells.worker(7).starts_with(&cells.workers()));
        assert_ne!(cells.manifests()[0], cells.manifests()[1]);
        assert_eq!(cells.feed(3).unwrap().as_str(), "db.notes.3");
        assert_eq!(cells.shard(), DbCells::new(&Name::new("notes").unwrap(), 16).shard());
    }
}

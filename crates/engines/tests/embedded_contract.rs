//! The embedded engine under the contract suites.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use consort_engines::embedded::{self, Durability, EmbeddedLog, EmbeddedStore};
use consort_kernel::contract::{LogHarness, StoreHarness};
use consort_kernel::{Log, Name, Partition, Shard, Store, SystemClock};
use parking_lot::Mutex;
use tempfile::TempDir;

struct Embedded {
    folder: TempDir,
    open: Mutex<Option<(EmbeddedLog, EmbeddedStore)>>,
}

fn open() -> Embedded {
    let folder = tempfile::tempdir().expect("a folder");
    let open = Mutex::new(Some(open_at(&folder)));
    Embedded { folder, open }
}

fn open_at(folder: &TempDir) -> (EmbeddedLog, EmbeddedStore) {
    let clock = Arc::new(SystemClock::default());
    let opened = embedded::open(folder.path(), 2, Durability::Fsync, clock);
    let (log, store, _) = opened.expect("the folder opens");
    (log, store)
}

impl Embedded {
    fn opened(&self) -> (EmbeddedLog, EmbeddedStore) {
        self.open.lock().clone().expect("the engine is open")
    }

    /// Changes the tables behind the engine's back, while it is closed.
    fn tamper(&self, table: &str, change: impl FnOnce(&fjall::Keyspace)) {
        *self.open.lock() = None;
        let database = fjall::Database::builder(self.folder.path().join("tables")).open();
        let database = database.expect("no case holds the engine while it is tampered with");
        let options = || {
            let separated = Some(fjall::KvSeparationOptions::default());
            fjall::KeyspaceCreateOptions::default().with_kv_separation(separated)
        };
        change(&database.keyspace(table, options).expect("the table"));
        database.persist(fjall::PersistMode::SyncAll).expect("persist");
        drop(database);
        *self.open.lock() = Some(open_at(&self.folder));
    }
}

fn number(row: &[u8]) -> u64 {
    u64::from_be_bytes(*row.last_chunk().expect("a number"))
}

fn lose(table: &fjall::Keyspace, name: &Name, from: u64) {
    let rows: Vec<fjall::Slice> = table.iter().map(|row| row.key().expect("a row")).collect();
    let name = name.as_str().as_bytes();
    for row in rows {
        if row.windows(name.len()).any(|part| part == name) && number(&row) >= from {
            table.remove(row).expect("remove");
        }
    }
}

#[async_trait]
impl LogHarness for Embedded {
    fn log(&self) -> Arc<dyn Log> {
        Arc::new(self.opened().0)
    }

    async fn lose_tail(&self, at: &Partition, from: u64) {
        self.tamper("log", |table| lose(table, &at.stream, from));
    }

    async fn corrupt(&self, at: &Partition, offset: u64) {
        let name = at.stream.as_str().as_bytes().to_vec();
        self.tamper("log", |table| {
            let rows = table.iter().map(|row| row.into_inner().expect("a row"));
            let found = rows.into_iter().find(|(row, _)| {
                number(row) == offset && row.windows(name.len()).any(|part| part == name)
            });
            let (row, value) = found.expect("the frame");
            let mut value = Bytes::copy_from_slice(&value).to_vec();
            let last = value.len() - 1;
            value[last] ^= 1;
            table.insert(row, value).expect("insert");
        });
    }
}

#[async_trait]
impl StoreHarness for Embedded {
    fn store(&self) -> Arc<dyn Store> {
        Arc::new(self.opened().1)
    }

    async fn elsewhere(&self) -> Arc<dyn Store> {
        self.store()
    }

    async fn lose_feed_tail(&self, _: Shard, feed: &Name, from: u64) {
        self.tamper("feeds", |table| lose(table, feed, from));
    }
}

mod embedded_engine {
    use super::*;
    consort_kernel::log_suite!(open());
    consort_kernel::store_suite!(open());
}

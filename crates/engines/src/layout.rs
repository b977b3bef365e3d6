//! What is fixed when a store is first used, kept in the store itself, so that no later start can
//! disagree with it.

use bytes::Bytes;
use consort_kernel::{Commit, CommitError, Expect, Key, Operation, Shard, Store, Value};

/// The layout of cells, feeds and streams as this release reads and writes them.
pub(crate) const FORMAT: u32 = 2;

/// Why a store cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LayoutError {
    #[error(
        "the store was made with '{stored}', and this node wants '{wanted}': both are fixed when a store is first used; set engine.shards to what it was and use the release that made it, or use another namespace"
    )]
    Differs { stored: String, wanted: String },
    #[error("the store's layout cannot be read: {0}")]
    Failed(CommitError),
}

/// Writes the layout down, or compares with what was written down before.
pub(crate) async fn settle(store: &dyn Store) -> Result<(), LayoutError> {
    let key = Key::from(["consort", "layout"]);
    let wanted = format!("format {FORMAT}, {} shards", store.shards());
    let commit = Commit::of([Operation::Put { key: key.clone(), value: wanted.clone().into() }])
        .expecting(Expect::Bytes(key, None))
        .urgent();
    match store.commit(Shard(0), commit).await {
        Ok(_) => Ok(()),
        Err(CommitError::Stale(present)) => match present.into_iter().next().flatten() {
            Some(Value::Bytes(stored)) if stored == wanted => Ok(()),
            Some(Value::Bytes(stored)) => {
                Err(LayoutError::Differs { stored: text(&stored), wanted })
            }
            _ => Err(LayoutError::Differs { stored: "something else".into(), wanted }),
        },
        Err(error) => Err(LayoutError::Failed(error)),
    }
}

fn text(stored: &Bytes) -> String {
    String::from_utf8_lossy(stored).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use consort_kernel::SystemClock;
    use consort_kernel::memory::MemoryStore;
    use std::sync::Arc;

    #[tokio::test]
    async fn another_number_of_shards_is_refused() {
        let clock = Arc::new(SystemClock::default());
        let store = MemoryStore::new(4, clock.clone());
        settle(&store).await.expect("the first use writes it down");
        settle(&store).await.expect("the second finds the same");
        let other = MemoryStore::new(8, clock);
        other.roll_back(Shard(0), store.image(Shard(0)));
        let error = settle(&other).await.expect_err("another number").to_string();
        assert!(error.contains("'format 2, 4 shards'"), "{error}");
        assert!(error.contains("'format 2, 8 shards'"), "{error}");
    }
}

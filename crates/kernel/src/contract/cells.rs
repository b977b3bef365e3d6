//! What the store cases share: short ways to change and look at cells of one shard.

use std::sync::Arc;

use bytes::Bytes;

use crate::{Cell, Commit, Committed, Key, Kind, Operation, Shard, Store, Value};

pub(super) const SHARD: Shard = Shard(1);

pub(super) fn key(text: &str) -> Key {
    Key::from([text])
}

pub(super) fn put(key: Key, value: impl Into<Bytes>) -> Operation {
    Operation::Put { key, value: value.into() }
}

pub(super) fn add(key: Key, by: i64) -> Operation {
    Operation::Add { key, by, on_overflow: None }
}

pub(super) fn bytes(text: &'static str) -> Option<Value> {
    Some(Value::Bytes(Bytes::from_static(text.as_bytes())))
}

pub(super) fn counter(number: i64) -> Option<Value> {
    Some(Value::Counter(number))
}

pub(super) async fn commit(
    store: &Arc<dyn Store>,
    operations: impl IntoIterator<Item = Operation>,
) {
    let committed = store.commit(SHARD, Commit::of(operations)).await;
    assert_eq!(committed, Ok(Committed::default()));
}

pub(super) async fn get(store: &Arc<dyn Store>, kind: Kind, key: &Key) -> Option<Value> {
    let values = store.get(SHARD, &[Cell::new(kind, key.clone())]).await.expect("get");
    values.into_iter().next().expect("one answer for one cell")
}

/// All keys of a kind under a prefix, read in pages of `limit`.
pub(super) async fn scan(
    store: &Arc<dyn Store>,
    kind: Kind,
    prefix: &Key,
    limit: usize,
) -> Vec<(Key, Value)> {
    let mut rows: Vec<(Key, Value)> = Vec::new();
    loop {
        let after = rows.last().map(|row| row.0.clone());
        let page = store.scan(SHARD, kind, prefix, after.as_ref(), limit).await.expect("scan");
        assert!(page.len() <= limit);
        if page.is_empty() {
            return rows;
        }
        rows.extend(page);
    }
}

//! The cases of the `Store` contract that concern keys and their order.

use super::StoreHarness;
use super::cells::{SHARD, add, commit, get, key, put, scan};
use crate::limits::VALUE_BYTES;
use crate::{Cell, Element, Key, Kind, Operation, Value};

pub async fn scans_are_ordered_and_paged(harness: &dyn StoreHarness) {
    let store = harness.store();
    let row = |group: i64, n: i64| Key::of(["row".into(), Element::from(group), n.into()]);
    let mut expected: Vec<(Key, Value)> = Vec::new();
    for group in -3..3 {
        for n in [-300, -1, 0, 1, 255, 256, 70_000] {
            commit(&store, [add(row(group, n), group * 10 + n)]).await;
            expected.push((row(group, n), Value::Counter(group * 10 + n)));
        }
    }
    assert_eq!(scan(&store, Kind::Counter, &Key::default(), 1_000).await, expected);
    assert_eq!(scan(&store, Kind::Counter, &key("row"), 5).await, expected);
    let group = key("row").with(-2i64);
    assert_eq!(scan(&store, Kind::Counter, &group, 3).await, expected[7..14]);
    assert_eq!(scan(&store, Kind::Counter, &key("other"), 3).await, []);
    let after = row(1, 0);
    let page = store.scan(SHARD, Kind::Counter, &key("row"), Some(&after), 2).await;
    assert_eq!(page.as_deref(), Ok(&expected[31..33]));
    let before_all = Key::of([Element::Bytes(vec![])]);
    let page = store.scan(SHARD, Kind::Counter, &group, Some(&before_all), 2).await;
    assert_eq!(page.as_deref(), Ok(&expected[7..9]), "after may lie before the prefix");
    let behind_all = key("z");
    let page = store.scan(SHARD, Kind::Counter, &group, Some(&behind_all), 2).await;
    assert_eq!(page, Ok(vec![]), "or behind it");
    commit(&store, [Operation::Delete(Cell::new(Kind::Counter, row(0, 0)))]).await;
    assert_eq!(scan(&store, Kind::Counter, &Key::default(), 10).await.len(), expected.len() - 1);
}

pub async fn a_scan_takes_whole_elements(harness: &dyn StoreHarness) {
    let store = harness.store();
    let keys = [
        Key::from(["a"]),
        Key::from(["a", "x"]),
        Key::from(["a", "y", "z"]),
        Key::from(["a\0"]),
        Key::from(["a\0", "x"]),
        Key::from(["ab"]),
    ];
    commit(&store, keys.iter().map(|key| put(key.clone(), "v"))).await;
    let under = scan(&store, Kind::Bytes, &Key::from(["a"]), 2).await;
    let under: Vec<Key> = under.into_iter().map(|row| row.0).collect();
    assert_eq!(under, keys[..3]);
    assert_eq!(scan(&store, Kind::Bytes, &Key::from(["a\0"]), 2).await.len(), 2);
}

pub async fn a_scan_of_large_values_ends_its_pages_early(harness: &dyn StoreHarness) {
    let store = harness.store();
    for n in 0..6i64 {
        commit(&store, [put(key("big").with(n), vec![n as u8; VALUE_BYTES])]).await;
    }
    let page = store.scan(SHARD, Kind::Bytes, &key("big"), None, 100).await.expect("scan");
    assert!((1..6).contains(&page.len()), "{} values of 4 MiB in one page", page.len());
    let rows = scan(&store, Kind::Bytes, &key("big"), 100).await;
    let firsts: Vec<u8> = rows.iter().map(|row| first_byte(&row.1)).collect();
    assert_eq!(firsts, [0, 1, 2, 3, 4, 5]);
}

fn first_byte(value: &Value) -> u8 {
    match value {
        Value::Bytes(bytes) if bytes.len() == VALUE_BYTES => bytes[0],
        other => panic!("another value came back: {other:?}"),
    }
}

pub async fn keys_may_hold_every_byte(harness: &dyn StoreHarness) {
    let store = harness.store();
    let mut keys: Vec<Key> =
        (0..=255u8).map(|b| Key::of([Element::Bytes(vec![b, b'.'])])).collect();
    keys.push(Key::of([Element::Bytes((0..=255).collect())]));
    let rows = keys.iter().enumerate().map(|(n, key)| put(key.clone(), n.to_string()));
    commit(&store, rows).await;
    for (n, key) in keys.iter().enumerate() {
        let value = Value::Bytes(n.to_string().into());
        assert_eq!(get(&store, Kind::Bytes, key).await, Some(value));
    }
    keys.sort();
    let scanned = scan(&store, Kind::Bytes, &Key::default(), 50).await;
    assert_eq!(scanned.into_iter().map(|row| row.0).collect::<Vec<_>>(), keys);
}

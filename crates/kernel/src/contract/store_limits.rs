//! The cases of the `Store` contract that concern its bounds.

use bytes::Bytes;

use super::cells::{SHARD, add, commit, get, key, put, scan};
use super::{StoreHarness, name};
use crate::limits::{
    COMMIT_BYTES, COMMIT_STEPS, ENTRY_BYTES, KEY_BYTES, MEMBER_BYTES, PAGE_BYTES, PAGE_ROWS,
    VALUE_BYTES,
};
use crate::{
    Cell, Commit, CommitError, Committed, Cursor, Element, Expect, Key, Kind, Most, Note,
    Operation, QueryError, Value,
};

pub async fn the_largest_values_fit_and_larger_ones_are_refused(harness: &dyn StoreHarness) {
    let store = harness.store();
    let long = Key::of([Element::Bytes(vec![b'k'; KEY_BYTES - 2])]);
    assert_eq!(long.as_bytes().len(), KEY_BYTES);
    let value = Bytes::from(vec![1; VALUE_BYTES]);
    let entry = Bytes::from(vec![2; ENTRY_BYTES]);
    let member = Bytes::from(vec![3; MEMBER_BYTES]);
    let note = |entry: &Bytes| Operation::Append(Note { feed: name("f"), entry: entry.clone() });
    let insert =
        |member: &Bytes| Operation::Insert { key: key("s"), members: vec![member.clone()] };
    commit(&store, [put(long.clone(), value.clone()), note(&entry), insert(&member)]).await;
    assert_eq!(get(&store, Kind::Bytes, &long).await, Some(Value::Bytes(value.clone())));
    assert_eq!(store.members(SHARD, &key("s"), None, 1).await, Ok(vec![member.clone()]));
    let expecting = Commit::default().expecting(Expect::Bytes(long.clone(), Some(value.clone())));
    assert_eq!(store.commit(SHARD, expecting).await, Ok(Committed::default()));

    let more = |bytes: &Bytes| Bytes::from([&bytes[..], b"+"].concat());
    let longer = Key::of([Element::Bytes(vec![b'k'; KEY_BYTES - 1])]);
    let over =
        [put(longer, ""), put(key("v"), more(&value)), note(&more(&entry)), insert(&more(&member))];
    for operation in over {
        let refused = store.commit(SHARD, Commit::of([add(key("n"), 1), operation])).await;
        assert!(matches!(refused, Err(CommitError::Refused(_))), "{refused:?}");
    }
    assert_eq!(get(&store, Kind::Counter, &key("n")).await, None, "nothing of it was applied");
    let cells = vec![Cell::new(Kind::Bytes, key("k")); PAGE_ROWS + 1];
    let refused = store.get(SHARD, &cells).await;
    assert!(matches!(refused, Err(QueryError::Refused(_))), "{refused:?}");
}

pub async fn a_get_of_large_values_ends_early_and_never_calls_an_unread_cell_absent(
    harness: &dyn StoreHarness,
) {
    const CELLS: usize = 8;
    let store = harness.store();
    let value = |n: usize| (n != 3).then(|| Value::Bytes(vec![n as u8; VALUE_BYTES / 2].into()));
    let expected: Vec<Option<Value>> = (0..CELLS).map(value).collect();
    for (n, value) in expected.iter().enumerate() {
        if let Some(Value::Bytes(bytes)) = value {
            commit(&store, [put(key("large").with(n as u64), bytes.clone())]).await;
        }
    }
    let cells: Vec<Cell> =
        (0..CELLS).map(|n| Cell::new(Kind::Bytes, key("large").with(n as u64))).collect();
    let mut from = 0;
    while from < CELLS {
        let read = store.get(SHARD, &cells[from..]).await.expect("get");
        let bytes: usize = read.iter().flatten().map(Value::bytes).sum();
        assert!(!read.is_empty(), "nothing was read from cell {from} on");
        assert!(bytes < PAGE_BYTES + VALUE_BYTES, "one answer of {bytes} bytes");
        assert!(from > 0 || read.len() < CELLS, "{CELLS} values of 2 MiB in one answer");
        assert_eq!(read, expected[from..from + read.len()]);
        from += read.len();
    }
    assert_eq!(store.get_all(SHARD, &cells).await, Ok(expected));
    assert_eq!(store.get(SHARD, &[]).await, Ok(Vec::new()));
}

pub async fn the_largest_commit_fits_and_a_larger_one_is_refused(harness: &dyn StoreHarness) {
    const STEPS: u64 = COMMIT_STEPS as u64;
    let store = harness.store();
    commit(&store, (0..STEPS).map(|n| add(key("n").with(n % 4_000), 1))).await;
    commit(&store, (0..STEPS).map(|n| put(key("n").with(n), "v"))).await;
    let members = (0..STEPS).map(|n| Bytes::from(n.to_string())).collect::<Vec<_>>();
    commit(&store, [Operation::Insert { key: key("s"), members: members.clone() }]).await;
    commit(&store, [Operation::Sketch { key: key("s"), members: members.clone() }]).await;
    let rows = scan(&store, Kind::Counter, &key("n"), PAGE_ROWS).await;
    assert_eq!(rows.len(), 4_000);
    assert_eq!(rows[1_999].1, Value::Counter(3));
    assert_eq!(rows[2_000].1, Value::Counter(2));
    assert_eq!(scan(&store, Kind::Bytes, &key("n"), PAGE_ROWS).await.len(), COMMIT_STEPS);
    assert_eq!(store.cardinality(SHARD, &key("s")).await, Ok(STEPS));
    let over = Operation::Insert { key: key("t"), members };
    let refused = store.commit(SHARD, Commit::of([add(key("t"), 1), over])).await;
    assert!(matches!(refused, Err(CommitError::Refused(_))), "{refused:?}");
    assert_eq!(get(&store, Kind::Counter, &key("t")).await, None);
}

pub async fn a_commit_of_all_bytes_is_applied_whole_and_one_byte_more_is_refused(
    harness: &dyn StoreHarness,
) {
    let store = harness.store();
    let (large, keys) = (Bytes::from(vec![7; VALUE_BYTES]), ["a", "b", "c"].map(key));
    // Values and an entry as large as they may be, and one that fills the commit up.
    let filled = |rest: usize| {
        let puts = keys.iter().map(|key| put(key.clone(), large.clone()));
        let entry = Operation::Append(Note { feed: name("f"), entry: large.clone() });
        let operations = puts.take(2).chain([entry, put(keys[2].clone(), large.slice(..rest))]);
        Commit::of(operations).expecting(Expect::Bytes(key("absent"), None))
    };
    let (mut most, mut over) = (0, VALUE_BYTES + 1);
    while over - most > 1 {
        let middle = most.midpoint(over);
        match middle <= VALUE_BYTES && filled(middle).validate().is_ok() {
            true => most = middle,
            false => over = middle,
        }
    }
    assert!(most > VALUE_BYTES - KEY_BYTES, "{COMMIT_BYTES} bytes hold four of the largest values");
    let refused = store.commit(SHARD, filled(most + 1)).await;
    assert!(matches!(refused, Err(CommitError::Refused(_))), "{refused:?}");
    assert_eq!(get(&store, Kind::Bytes, &keys[0]).await, None, "nothing of it was applied");

    assert_eq!(store.commit(SHARD, filled(most)).await, Ok(Committed::default()));
    for (key, bytes) in keys.iter().zip([VALUE_BYTES, VALUE_BYTES, most]) {
        let held = get(&store, Kind::Bytes, key).await;
        assert_eq!(held, Some(Value::Bytes(large.slice(..bytes))), "{key:?}");
    }
    let (feed, wait) = (name("f"), std::time::Duration::ZERO);
    let read = store.feed(SHARD, &feed, &Cursor::START, Most::default(), wait).await;
    assert_eq!(read.expect("the feed").remove(0).entry, large);
}

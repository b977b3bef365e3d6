//! The cases of the `Store` contract that concern cells.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;

use super::{PATIENCE, StoreHarness, eventually, name};
use crate::limits::{COMMIT_STEPS, ENTRY_BYTES, KEY_BYTES, MEMBER_BYTES, PAGE_ROWS, VALUE_BYTES};
use crate::{
    Cell, Commit, CommitError, Committed, Cursor, Element, Expect, Key, Kind, Most, Note,
    Operation, QueryError, Shard, Store, Timestamp, Value,
};

const SHARD: Shard = Shard(1);

fn key(text: &str) -> Key {
    Key::from([text])
}

fn put(key: Key, value: impl Into<Bytes>) -> Operation {
    Operation::Put { key, value: value.into() }
}

fn add(key: Key, by: i64) -> Operation {
    Operation::Add { key, by, on_overflow: None }
}

fn bytes(text: &'static str) -> Option<Value> {
    Some(Value::Bytes(Bytes::from_static(text.as_bytes())))
}

fn counter(number: i64) -> Option<Value> {
    Some(Value::Counter(number))
}

async fn commit(store: &Arc<dyn Store>, operations: impl IntoIterator<Item = Operation>) {
    let committed = store.commit(SHARD, Commit::of(operations)).await;
    assert_eq!(committed, Ok(Committed::default()));
}

async fn get(store: &Arc<dyn Store>, kind: Kind, key: &Key) -> Option<Value> {
    let values = store.get(SHARD, &[Cell::new(kind, key.clone())]).await.expect("get");
    values.into_iter().next().expect("one answer for one cell")
}

/// All keys of a kind under a prefix, read in pages of `limit`.
async fn scan(store: &Arc<dyn Store>, kind: Kind, prefix: &Key, limit: usize) -> Vec<(Key, Value)> {
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

pub async fn a_cell_holds_what_was_put_until_it_is_deleted(harness: &dyn StoreHarness) {
    let store = harness.store();
    let (a, b) = (key("a"), key("b"));
    assert_eq!(get(&store, Kind::Bytes, &a).await, None);
    commit(&store, [put(a.clone(), "one"), put(b.clone(), "")]).await;
    let cells = [&b, &a, &key("c"), &a].map(|key| Cell::new(Kind::Bytes, key.clone()));
    let values = store.get(SHARD, &cells).await;
    assert_eq!(values, Ok(vec![bytes(""), bytes("one"), None, bytes("one")]));
    commit(&store, [put(a.clone(), "two")]).await;
    assert_eq!(get(&store, Kind::Bytes, &a).await, bytes("two"));
    commit(&store, [Operation::Delete(Cell::new(Kind::Bytes, a.clone()))]).await;
    commit(&store, [Operation::Delete(Cell::new(Kind::Bytes, a.clone()))]).await;
    assert_eq!(get(&store, Kind::Bytes, &a).await, None);
    assert_eq!(scan(&store, Kind::Bytes, &Key::default(), 10).await.len(), 1);
}

pub async fn a_commit_needs_all_its_expectations(harness: &dyn StoreHarness) {
    let store = harness.store();
    commit(&store, [put(key("a"), "1"), put(key("b"), "2"), add(key("n"), 3)]).await;
    let change = || {
        let members = vec![Bytes::from_static(b"m")];
        Commit::of([
            put(key("a"), "changed"),
            Operation::Delete(Cell::new(Kind::Bytes, key("b"))),
            add(key("n"), 1),
            Operation::Insert { key: key("s"), members },
            Operation::Append(Note { feed: name("f"), entry: Bytes::from_static(b"e") }),
        ])
        .expecting(Expect::Bytes(key("a"), Some(Bytes::from_static(b"1"))))
        .expecting(Expect::Counter(key("n"), Some(3)))
        .expecting(Expect::Bytes(key("absent"), None))
    };
    let there = || vec![bytes("1"), counter(3), None];
    for (wrong, found) in [
        (Expect::Bytes(key("b"), Some(Bytes::from_static(b"3"))), bytes("2")),
        (Expect::Bytes(key("b"), None), bytes("2")),
        (Expect::Counter(key("n"), Some(4)), counter(3)),
        (Expect::Counter(key("n"), None), counter(3)),
        (Expect::Bytes(key("z"), Some(Bytes::new())), None),
    ] {
        let answer = store.commit(SHARD, change().expecting(wrong)).await;
        let present = there().into_iter().chain([found]).collect();
        assert_eq!(answer, Err(CommitError::Stale(present)));
    }
    assert_eq!(get(&store, Kind::Bytes, &key("a")).await, bytes("1"));
    assert_eq!(get(&store, Kind::Bytes, &key("b")).await, bytes("2"));
    assert_eq!(get(&store, Kind::Counter, &key("n")).await, counter(3));
    assert_eq!(get(&store, Kind::Set, &key("s")).await, None);
    let feed = name("f");
    let read = store.feed(SHARD, &feed, &Cursor::START, Most::default(), Duration::ZERO).await;
    assert_eq!(read, Ok(vec![]));

    assert_eq!(store.commit(SHARD, change()).await, Ok(Committed::default()));
    assert_eq!(get(&store, Kind::Bytes, &key("a")).await, bytes("changed"));
    assert_eq!(get(&store, Kind::Bytes, &key("b")).await, None);
    assert_eq!(get(&store, Kind::Counter, &key("n")).await, counter(4));
}

pub async fn absence_can_be_expected(harness: &dyn StoreHarness) {
    let store = harness.store();
    let first = || Commit::of([put(key("id"), "mine")]).expecting(Expect::Bytes(key("id"), None));
    assert_eq!(store.commit(SHARD, first()).await, Ok(Committed::default()));
    assert_eq!(store.commit(SHARD, first()).await, Err(CommitError::Stale(vec![bytes("mine")])));
    let only = Commit::default().expecting(Expect::Bytes(key("id"), None));
    assert_eq!(store.commit(SHARD, only).await, Err(CommitError::Stale(vec![bytes("mine")])));
}

pub async fn a_counter_at_zero_is_not_absent(harness: &dyn StoreHarness) {
    let store = harness.store();
    commit(&store, [add(key("n"), 5), add(key("n"), -5), add(key("zero"), 0)]).await;
    assert_eq!(get(&store, Kind::Counter, &key("n")).await, counter(0));
    assert_eq!(get(&store, Kind::Counter, &key("zero")).await, counter(0));
    let none = Commit::default().expecting(Expect::Counter(key("n"), None));
    assert_eq!(store.commit(SHARD, none).await, Err(CommitError::Stale(vec![counter(0)])));
    let zero = Commit::default().expecting(Expect::Counter(key("n"), Some(0)));
    assert_eq!(store.commit(SHARD, zero).await, Ok(Committed::default()));
    assert_eq!(scan(&store, Kind::Counter, &Key::default(), 10).await.len(), 2);
}

pub async fn operations_are_applied_in_their_order(harness: &dyn StoreHarness) {
    let store = harness.store();
    let n = || Cell::new(Kind::Counter, key("n"));
    commit(
        &store,
        [
            put(key("a"), "1"),
            put(key("a"), "2"),
            Operation::Delete(Cell::new(Kind::Bytes, key("b"))),
            put(key("b"), "3"),
            put(key("c"), "4"),
            Operation::Delete(Cell::new(Kind::Bytes, key("c"))),
            add(key("n"), 5),
            Operation::Delete(n()),
            add(key("n"), 2),
            add(key("n"), 1),
        ],
    )
    .await;
    assert_eq!(get(&store, Kind::Bytes, &key("a")).await, bytes("2"));
    assert_eq!(get(&store, Kind::Bytes, &key("b")).await, bytes("3"));
    assert_eq!(get(&store, Kind::Bytes, &key("c")).await, None);
    assert_eq!(get(&store, Kind::Counter, &key("n")).await, counter(3));
    assert_eq!(scan(&store, Kind::Bytes, &Key::default(), 10).await.len(), 2);
}

pub async fn kinds_are_apart(harness: &dyn StoreHarness) {
    let store = harness.store();
    let k = || key("same");
    let rank = || Bytes::from_static(b"r");
    let members = || vec![Bytes::from_static(b"m"), Bytes::from_static(b"n")];
    commit(
        &store,
        [
            put(k(), "b"),
            add(k(), 7),
            Operation::Min { key: k(), rank: rank() },
            Operation::Max { key: k(), rank: rank() },
            Operation::Last { key: k(), rank: rank(), value: Bytes::from_static(b"v") },
            Operation::Insert { key: k(), members: members() },
            Operation::Sketch { key: k(), members: members() },
        ],
    )
    .await;
    let values = [
        Value::Bytes(Bytes::from_static(b"b")),
        Value::Counter(7),
        Value::Min(rank()),
        Value::Max(rank()),
        Value::Last { rank: rank(), value: Bytes::from_static(b"v") },
        Value::Set(2),
        Value::Sketch(2),
    ];
    for (kind, value) in Kind::ALL.into_iter().zip(values.clone()) {
        assert_eq!(get(&store, kind, &k()).await, Some(value.clone()));
        assert_eq!(scan(&store, kind, &Key::default(), 10).await, [(k(), value)]);
    }
    for gone in Kind::ALL {
        commit(&store, [Operation::Delete(Cell::new(gone, k()))]).await;
        let left = Kind::ALL.map(|kind| Cell::new(kind, k()));
        let left = store.get(SHARD, &left).await.expect("get");
        let expected = Kind::ALL.into_iter().zip(values.clone());
        let expected = expected.map(|(kind, value)| (kind > gone).then_some(value));
        assert_eq!(left, expected.collect::<Vec<_>>());
        assert_eq!(scan(&store, gone, &Key::default(), 10).await, []);
    }
    assert_eq!(store.members(SHARD, &k(), None, 10).await, Ok(vec![]));
}

pub async fn shards_are_apart(harness: &dyn StoreHarness) {
    let store = harness.store();
    for shard in [Shard(0), Shard(1)] {
        let commit = Commit::of([add(key("n"), i64::from(shard.0) + 10)]);
        store.commit(shard, commit).await.expect("commit");
    }
    let cell = [Cell::new(Kind::Counter, key("n"))];
    assert_eq!(store.get(Shard(0), &cell).await, Ok(vec![counter(10)]));
    assert_eq!(store.get(Shard(1), &cell).await, Ok(vec![counter(11)]));
    let beyond = Shard(store.shards());
    let refused = store.commit(beyond, Commit::default()).await;
    assert!(matches!(refused, Err(CommitError::Refused(_))), "{refused:?}");
    let refused = store.get(beyond, &cell).await;
    assert!(matches!(refused, Err(QueryError::Refused(_))), "{refused:?}");
}

pub async fn counters_add_up(harness: &dyn StoreHarness) {
    let store = harness.store();
    commit(&store, [add(key("n"), 1), add(key("n"), 41), add(key("m"), -7)]).await;
    commit(&store, [add(key("n"), -2), add(key("m"), -3)]).await;
    assert_eq!(get(&store, Kind::Counter, &key("n")).await, counter(40));
    assert_eq!(get(&store, Kind::Counter, &key("m")).await, counter(-10));
    // Beyond 2^53 a double would round; a counter does not.
    commit(&store, [add(key("big"), (1 << 53) - 1), add(key("low"), i64::MIN)]).await;
    commit(&store, [add(key("big"), 2), add(key("low"), 1)]).await;
    commit(&store, [add(key("big"), 1), add(key("low"), 1)]).await;
    assert_eq!(get(&store, Kind::Counter, &key("big")).await, counter((1 << 53) + 2));
    assert_eq!(get(&store, Kind::Counter, &key("low")).await, counter(i64::MIN + 2));
    commit(&store, [add(key("big"), i64::MIN), add(key("low"), i64::MAX)]).await;
    assert_eq!(get(&store, Kind::Counter, &key("big")).await, counter(i64::MIN + (1 << 53) + 2));
    assert_eq!(get(&store, Kind::Counter, &key("low")).await, counter(1));
}

pub async fn an_addition_that_overflows_is_left_out_and_noted(harness: &dyn StoreHarness) {
    let store = harness.store();
    let noted = |text: &'static str| {
        Some(Note { feed: name("rejects"), entry: Bytes::from_static(text.as_bytes()) })
    };
    commit(&store, [add(key("top"), i64::MAX), add(key("low"), i64::MIN)]).await;
    let operations = [
        add(key("n"), 1),
        Operation::Add { key: key("top"), by: 1, on_overflow: noted("too much") },
        Operation::Add { key: key("low"), by: -1, on_overflow: noted("too little") },
        add(key("top"), i64::MAX),
        add(key("top"), -1),
        add(key("top"), 1),
        Operation::Add { key: key("n"), by: 1, on_overflow: noted("not needed") },
    ];
    let committed = store.commit(SHARD, Commit::of(operations)).await;
    assert_eq!(committed, Ok(Committed { left_out: vec![1, 2, 3] }));
    assert_eq!(get(&store, Kind::Counter, &key("n")).await, counter(2));
    assert_eq!(get(&store, Kind::Counter, &key("top")).await, counter(i64::MAX));
    assert_eq!(get(&store, Kind::Counter, &key("low")).await, counter(i64::MIN));
    let rejects = store
        .feed(SHARD, &name("rejects"), &Cursor::START, Most::default(), Duration::ZERO)
        .await
        .expect("feed");
    let texts: Vec<&Bytes> = rejects.iter().map(|entry| &entry.entry).collect();
    assert_eq!(texts, ["too much", "too little"]);
}

pub async fn extremes_are_decided_by_rank_whoever_writes_first(harness: &dyn StoreHarness) {
    let store = harness.store();
    // Ranks that a comparison by text, by length or by signed bytes would get wrong.
    let ranks: Vec<Bytes> =
        [&b"\x00"[..], b"\x00\x00", b"\x00\xff", b"a", b"a\x00", b"aa", b"b", b"\x80", b"\xff\x00"]
            .into_iter()
            .map(Bytes::from_static)
            .collect();
    let shows = |key: Key, rank: &Bytes| {
        let value = Bytes::from([b"value of ", &rank[..]].concat());
        [
            Operation::Min { key: key.clone(), rank: rank.clone() },
            Operation::Max { key: key.clone(), rank: rank.clone() },
            Operation::Last { key, rank: rank.clone(), value },
        ]
    };
    let writers = (0..4usize).map(|writer| {
        let (store, ranks) = (store.clone(), ranks.clone());
        tokio::spawn(async move {
            for n in 0..ranks.len() {
                let rank = &ranks[(n * 5 + writer * 2) % ranks.len()];
                commit(&store, shows(key("k"), rank)).await;
            }
        })
    });
    for writer in join_all(writers).await {
        writer.expect("a writer");
    }
    let (least, most) = (&ranks[0], &ranks[ranks.len() - 1]);
    assert_eq!(get(&store, Kind::Min, &key("k")).await, Some(Value::Min(least.clone())));
    assert_eq!(get(&store, Kind::Max, &key("k")).await, Some(Value::Max(most.clone())));
    let value = Bytes::from([b"value of ", &most[..]].concat());
    let last = Value::Last { rank: most.clone(), value };
    assert_eq!(get(&store, Kind::Last, &key("k")).await, Some(last.clone()));
    let repeat = Operation::Last { key: key("k"), rank: most.clone(), value: Bytes::new() };
    commit(&store, [repeat]).await;
    assert_eq!(
        get(&store, Kind::Last, &key("k")).await,
        Some(last),
        "an equal rank changes nothing"
    );
}

pub async fn sets_hold_each_member_once_in_order(harness: &dyn StoreHarness) {
    let store = harness.store();
    let k = key("set");
    assert_eq!(store.cardinality(SHARD, &k).await, Ok(0));
    let insert = |members: Vec<Bytes>| Operation::Insert { key: key("set"), members };
    commit(&store, [insert(vec![])]).await;
    assert_eq!(get(&store, Kind::Set, &k).await, None);
    let member = |n: u8| Bytes::from(vec![n, n]);
    commit(&store, [insert((0..=255).rev().map(member).collect())]).await;
    commit(&store, [insert(vec![member(3), member(3), Bytes::new()]), insert(vec![member(9)])])
        .await;
    assert_eq!(store.cardinality(SHARD, &k).await, Ok(257));
    assert_eq!(get(&store, Kind::Set, &k).await, Some(Value::Set(257)));
    let mut members: Vec<Bytes> = Vec::new();
    loop {
        let after = members.last().cloned();
        let page = store.members(SHARD, &k, after.as_deref(), 100).await.expect("members");
        assert!(page.len() <= 100);
        if page.is_empty() {
            break;
        }
        members.extend(page);
    }
    let expected: Vec<Bytes> = [Bytes::new()].into_iter().chain((0..=255).map(member)).collect();
    assert_eq!(members, expected);

    commit(&store, [Operation::Delete(Cell::new(Kind::Set, key("set"))), insert(vec![member(1)])])
        .await;
    assert_eq!(store.members(SHARD, &k, None, 100).await, Ok(vec![member(1)]));
    assert_eq!(store.cardinality(SHARD, &k).await, Ok(1));
}

pub async fn sketches_estimate(harness: &dyn StoreHarness) {
    let store = harness.store();
    for round in 0..2 {
        for chunk in 0..20u32 {
            let members = (0..500u32).map(|n| Bytes::from((chunk * 500 + n).to_string())).collect();
            commit(&store, [Operation::Sketch { key: key("k"), members }]).await;
        }
        match get(&store, Kind::Sketch, &key("k")).await {
            Some(Value::Sketch(about)) => {
                assert!((9_600..=10_400).contains(&about), "round {round}: {about}");
            }
            other => panic!("{other:?}"),
        }
    }
    let few = vec![Bytes::from_static(b"a"), Bytes::from_static(b"b")];
    commit(&store, [Operation::Sketch { key: key("few"), members: few }]).await;
    assert_eq!(get(&store, Kind::Sketch, &key("few")).await, Some(Value::Sketch(2)));
}

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

pub async fn cells_expire_by_the_stores_clock(harness: &dyn StoreHarness) {
    let store = harness.store();
    let now = store.now().await.expect("now");
    let later = now.after(Duration::from_secs(3_600));
    let members = vec![Bytes::from_static(b"m")];
    let rank = Bytes::from_static(b"r");
    let fill = |k: &str| {
        [
            put(key(k), "v"),
            add(key(k), 5),
            Operation::Min { key: key(k), rank: rank.clone() },
            Operation::Max { key: key(k), rank: rank.clone() },
            Operation::Last { key: key(k), rank: rank.clone(), value: Bytes::new() },
            Operation::Insert { key: key(k), members: members.clone() },
            Operation::Sketch { key: key(k), members: members.clone() },
        ]
    };
    let expire = |k: &str, at: Option<Timestamp>| {
        let cell = |kind| Cell::new(kind, key(k));
        Kind::ALL.map(|kind| Operation::Expire { cell: cell(kind), at })
    };
    commit(&store, fill("soon").into_iter().chain(fill("late")).chain(fill("kept"))).await;
    let soon = store.now().await.expect("now").after(Duration::from_millis(30));
    let all = expire("soon", Some(soon)).into_iter().chain(expire("late", Some(later)));
    let all = all.chain(expire("kept", Some(soon))).chain(expire("kept", None));
    commit(&store, all.chain(expire("never there", Some(soon)))).await;
    eventually("the clock passes", || async { store.now().await.expect("now") > soon }).await;

    for kind in Kind::ALL {
        assert_eq!(get(&store, kind, &key("soon")).await, None, "{kind:?}");
        assert!(get(&store, kind, &key("late")).await.is_some(), "{kind:?}");
        assert!(get(&store, kind, &key("kept")).await.is_some(), "{kind:?}");
        let rows = scan(&store, kind, &Key::default(), 10).await;
        let keys: Vec<Key> = rows.into_iter().map(|row| row.0).collect();
        assert_eq!(keys, [key("kept"), key("late")], "{kind:?}");
    }
    assert_eq!(store.members(SHARD, &key("soon"), None, 10).await, Ok(vec![]));
    let absent = Commit::of([add(key("soon"), 2)])
        .expecting(Expect::Bytes(key("soon"), None))
        .expecting(Expect::Counter(key("soon"), None));
    assert_eq!(store.commit(SHARD, absent).await, Ok(Committed::default()));
    assert_eq!(get(&store, Kind::Counter, &key("soon")).await, counter(2), "it starts anew");
}

pub async fn a_put_clears_the_expiry(harness: &dyn StoreHarness) {
    let store = harness.store();
    let expire = |kind, at| Operation::Expire { cell: Cell::new(kind, key("k")), at: Some(at) };
    commit(&store, [put(key("k"), "old"), add(key("k"), 1)]).await;
    let soon = store.now().await.expect("now").after(Duration::from_millis(20));
    commit(&store, [expire(Kind::Bytes, soon), expire(Kind::Counter, soon)]).await;
    commit(&store, [put(key("k"), "new"), add(key("k"), 1)]).await;
    eventually("the clock passes", || async { store.now().await.expect("now") > soon }).await;
    assert_eq!(get(&store, Kind::Bytes, &key("k")).await, bytes("new"));
    assert_eq!(get(&store, Kind::Counter, &key("k")).await, None, "adding keeps the expiry");
    let past = Timestamp(1);
    commit(&store, [put(key("k"), "gone"), expire(Kind::Bytes, past)]).await;
    assert_eq!(get(&store, Kind::Bytes, &key("k")).await, None);
    commit(&store, [put(key("k"), "a"), expire(Kind::Bytes, past), put(key("k"), "b")]).await;
    assert_eq!(get(&store, Kind::Bytes, &key("k")).await, bytes("b"));
}

pub async fn many_cells_expire_at_once(harness: &dyn StoreHarness) {
    const CELLS: u64 = 2_000;
    let store = harness.store();
    let id = |n: u64| key("id").with(n);
    for chunk in 0..4 {
        let ids = chunk * CELLS / 4..(chunk + 1) * CELLS / 4;
        commit(&store, ids.map(|n| put(id(n), "seen"))).await;
    }
    commit(&store, [put(key("stays"), "here")]).await;
    let soon = store.now().await.expect("now").after(Duration::from_millis(50));
    for chunk in 0..4 {
        let ids = chunk * CELLS / 4..(chunk + 1) * CELLS / 4;
        let expire = |n| Operation::Expire { cell: Cell::new(Kind::Bytes, id(n)), at: Some(soon) };
        commit(&store, ids.map(expire)).await;
    }
    eventually("the clock passes", || async { store.now().await.expect("now") > soon }).await;
    // However many there are, the very first call sees none of them.
    assert_eq!(get(&store, Kind::Bytes, &id(CELLS - 1)).await, None);
    assert_eq!(scan(&store, Kind::Bytes, &key("id"), 100).await, []);
    let absent = Commit::default().expecting(Expect::Bytes(id(CELLS - 2), None));
    assert_eq!(store.commit(SHARD, absent).await, Ok(Committed::default()));
    assert_eq!(get(&store, Kind::Bytes, &key("stays")).await, bytes("here"));
}

pub async fn concurrent_committers_never_lose_an_update(harness: &dyn StoreHarness) {
    const WRITERS: u64 = 8;
    const EACH: u64 = 15;
    let stores = [harness.store(), harness.elsewhere().await];
    let writers = (0..WRITERS).map(|writer| {
        let store = stores[writer as usize % 2].clone();
        tokio::spawn(async move {
            let mut held: Option<Bytes> = None;
            let mut done = 0;
            while done < EACH {
                let number: u64 = held.as_ref().map_or(0, |held| {
                    std::str::from_utf8(held).expect("text").parse().expect("a number")
                });
                let next = Bytes::from((number + 1).to_string());
                let commit = Commit::of([put(key("n"), next.clone())])
                    .expecting(Expect::Bytes(key("n"), held.clone()));
                match store.commit(SHARD, commit).await {
                    Ok(_) => {
                        done += 1;
                        held = Some(next);
                    }
                    Err(CommitError::Stale(present)) => match &present[..] {
                        [Some(Value::Bytes(now))] => held = Some(now.clone()),
                        other => panic!("{other:?}"),
                    },
                    Err(error) => panic!("{error}"),
                }
            }
        })
    });
    for writer in join_all(writers).await {
        writer.expect("a writer");
    }
    let total = Value::Bytes((WRITERS * EACH).to_string().into());
    assert_eq!(get(&stores[0], Kind::Bytes, &key("n")).await, Some(total));
}

pub async fn concurrent_additions_all_count(harness: &dyn StoreHarness) {
    let store = harness.store();
    let writers = (0..8).map(|writer: i64| {
        let store = store.clone();
        tokio::spawn(async move {
            for n in 0..20u64 {
                let member = Bytes::from(format!("{writer} {n}"));
                let insert = Operation::Insert { key: key("set"), members: vec![member] };
                commit(&store, [add(key("n"), writer), add(key("m").with(n), 1), insert]).await;
            }
        })
    });
    for writer in join_all(writers).await {
        writer.expect("a writer");
    }
    assert_eq!(get(&store, Kind::Counter, &key("n")).await, counter(28 * 20));
    let each = scan(&store, Kind::Counter, &key("m"), 7).await;
    assert_eq!(each.len(), 20);
    assert!(each.iter().all(|row| row.1 == Value::Counter(8)));
    assert_eq!(store.cardinality(SHARD, &key("set")).await, Ok(160));
}

pub async fn a_commit_is_seen_by_every_node(harness: &dyn StoreHarness) {
    let (here, there) = (harness.store(), harness.elsewhere().await);
    for n in 0..50 {
        commit(&here, [add(key("n"), 1)]).await;
        assert_eq!(get(&there, Kind::Counter, &key("n")).await, counter(2 * n + 1));
        commit(&there, [add(key("n"), 1)]).await;
        assert_eq!(get(&here, Kind::Counter, &key("n")).await, counter(2 * n + 2));
    }
}

pub async fn a_watch_wakes_after_a_change(harness: &dyn StoreHarness) {
    let (here, there) = (harness.store(), harness.elsewhere().await);
    let changes = [
        put(key("k"), "1"),
        put(key("k"), "2"),
        Operation::Delete(Cell::new(Kind::Bytes, key("k"))),
    ];
    for change in changes {
        let before = get(&here, Kind::Bytes, &key("k")).await;
        let mut wake = here.watch(SHARD, &key("k"));
        commit(&there, [change]).await;
        // Wakes may come for nothing, so the holder looks after each; the test is that one comes.
        let woken = async {
            loop {
                wake.changed().await;
                if get(&here, Kind::Bytes, &key("k")).await != before {
                    break;
                }
            }
        };
        tokio::time::timeout(PATIENCE, woken).await.expect("a wake after the change");
    }
}

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

pub async fn time_never_goes_backwards(harness: &dyn StoreHarness) {
    let store = harness.store();
    let start = store.now().await.expect("now");
    assert!(start > Timestamp(1_600_000_000_000), "milliseconds since 1970");
    let mut before = start;
    eventually("time goes on", || {
        let store = store.clone();
        async move { store.now().await.expect("now") > start }
    })
    .await;
    for _ in 0..100 {
        let now = store.now().await.expect("now");
        assert!(now >= before);
        before = now;
    }
}

pub async fn a_ping_is_answered(harness: &dyn StoreHarness) {
    assert_eq!(harness.store().ping().await, Ok(()));
}

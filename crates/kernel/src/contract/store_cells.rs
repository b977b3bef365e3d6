//! The cases of the `Store` contract that concern what each kind of cell does, and when cells expire.

use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;

use super::cells::{SHARD, add, bytes, commit, counter, get, key, put, scan};
use super::{StoreHarness, eventually, name};
use crate::limits::COMMIT_STEPS;
use crate::{
    Cell, Commit, Committed, Cursor, Expect, Key, Kind, Most, Note, Operation, Timestamp, Value,
};

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

pub async fn a_distinct_count_counts_each_member_once(harness: &dyn StoreHarness) {
    let store = harness.store();
    let k = key("users");
    let show = |members: Vec<Bytes>| Operation::Distinct { key: key("users"), members };
    let count = || get(&store, Kind::Distinct, &k);
    commit(&store, [show(vec![])]).await;
    assert_eq!(count().await, None);
    let mut seen = std::collections::BTreeSet::new();
    for n in 0..200u32 {
        // More of them each time, out of order, of different lengths, and some again.
        let member = |m: u32| Bytes::from(vec![m as u8; (m % 7) as usize]);
        let members: Vec<Bytes> = (0..=n).map(|m| member((n * m).wrapping_mul(37))).collect();
        seen.extend(members.clone());
        commit(&store, [show(members)]).await;
        assert_eq!(count().await, Some(Value::Distinct(seen.len() as u64)));
    }
    // The set under the same key is another cell.
    assert_eq!(store.members(SHARD, &k, None, 10).await, Ok(vec![]));
    assert_eq!(store.cardinality(SHARD, &k).await, Ok(0));
    let gone = || Operation::Delete(Cell::new(Kind::Distinct, key("users")));
    commit(&store, [gone(), show(vec![Bytes::from_static(b"m")])]).await;
    assert_eq!(count().await, Some(Value::Distinct(1)));
    commit(&store, [gone()]).await;
    assert_eq!(count().await, None);
    // As many as a commit takes, which may be more than an engine takes at once.
    let many = (0..COMMIT_STEPS as u32).map(|n| Bytes::from(n.to_be_bytes().to_vec()));
    commit(&store, [show(many.collect())]).await;
    assert_eq!(count().await, Some(Value::Distinct(COMMIT_STEPS as u64)));
}

/// An engine may keep small sets in another way than large ones.
pub async fn a_set_keeps_its_members_as_it_grows(harness: &dyn StoreHarness) {
    let store = harness.store();
    let k = key("growing");
    let mut expected = std::collections::BTreeSet::new();
    for n in 0..100u8 {
        // Out of order, of different lengths, and some of them again.
        let members = [n.wrapping_mul(37), n / 2].map(|n| Bytes::from(vec![n; usize::from(n % 5)]));
        expected.extend(members.clone());
        commit(&store, [Operation::Insert { key: k.clone(), members: members.into() }]).await;
        let held: Vec<Bytes> = expected.iter().cloned().collect();
        assert_eq!(store.cardinality(SHARD, &k).await, Ok(held.len() as u64));
        assert_eq!(store.members(SHARD, &k, None, 1_000).await, Ok(held.clone()));
        let middle = &held[held.len() / 2];
        let later = store.members(SHARD, &k, Some(&middle[..]), 1_000).await;
        assert_eq!(later, Ok(held[held.len() / 2 + 1..].to_vec()));
    }
    assert!(expected.len() > 50, "it grew to {}", expected.len());
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
            Operation::Distinct { key: key(k), members: members.clone() },
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

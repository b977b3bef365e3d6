//! The cases of the `Store` contract that concern commits: all or nothing, for everybody.

use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;

use super::cells::{SHARD, add, bytes, commit, counter, get, key, put, scan};
use super::{PATIENCE, StoreHarness, eventually, name};
use crate::{
    Cell, Commit, CommitError, Committed, Cursor, Expect, Key, Kind, Most, Note, Operation,
    QueryError, Shard, Timestamp, Value,
};

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
            Operation::Distinct { key: k(), members: members() },
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
        Value::Distinct(2),
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

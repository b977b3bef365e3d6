//! Random operations on an engine and on the model, side by side: after each step both hold the same.
//!
//! Few keys and many steps, so that operations meet. Sketches are left out, as engines may estimate a
//! little differently, and expiries lie in the far past or future, as clocks differ.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::{StoreHarness, name};
use crate::memory::MemoryStore;
use crate::{
    Cell, Commit, Cursor, Element, Expect, Key, Kind, Most, Note, Operation, Shard, Store,
    SystemClock, Timestamp, Value,
};

/// Gives the seed of a run that failed, to see it again.
const SEED: &str = "CONSORT_TESTBED_SEED";
const STEPS: usize = 400;
const SHARDS: u16 = 2;
const FEEDS: [&str; 2] = ["left", "right"];
const EXACT: [Kind; 7] =
    [Kind::Bytes, Kind::Counter, Kind::Min, Kind::Max, Kind::Last, Kind::Set, Kind::Distinct];

pub async fn the_engine_agrees_with_the_model(harness: &dyn StoreHarness) {
    let given = std::env::var(SEED).ok().and_then(|seed| seed.parse().ok());
    let seed: u64 = given.unwrap_or_else(rand::random);
    let model: Arc<dyn Store> =
        Arc::new(MemoryStore::new(SHARDS, Arc::new(SystemClock::default())));
    let engine = harness.store();
    let mut random = Random(StdRng::seed_from_u64(seed));
    for step in 0..STEPS {
        let place = format!("seed {seed}, step {step}");
        let shard = Shard(random.0.random_range(0..SHARDS));
        if random.one_in(25) {
            let (feed, before) = (random.feed(), random.0.random_range(0..40));
            // Engines may keep more than asked, so feeds are compared from where the model's begin.
            model.trim_feed(shard, &feed, before).await.expect("trim");
            engine.trim_feed(shard, &feed, before).await.expect("trim");
        } else {
            let commit = random.commit(&model, shard).await;
            let expected = model.commit(shard, commit.clone()).await;
            let answer = engine.commit(shard, commit.clone()).await;
            assert_eq!(answer, expected, "{place}: {commit:?}");
        }
        compare(&engine, &model, shard, &place, &mut random).await;
    }
}

async fn compare(
    engine: &Arc<dyn Store>,
    model: &Arc<dyn Store>,
    shard: Shard,
    place: &str,
    random: &mut Random,
) {
    let (prefix, after, limit) = (random.prefix(), random.key(), random.0.random_range(1..20));
    let after = random.one_in(2).then_some(after);
    for kind in EXACT {
        let answer = engine.scan(shard, kind, &prefix, after.as_ref(), limit).await;
        let expected = model.scan(shard, kind, &prefix, after.as_ref(), limit).await;
        assert_eq!(answer, expected, "{place}: {kind:?} under {prefix:?} after {after:?}");
    }
    let cells: Vec<Cell> = EXACT.map(|kind| Cell::new(kind, random.key())).to_vec();
    assert_eq!(
        engine.get(shard, &cells).await,
        model.get(shard, &cells).await,
        "{place}: {cells:?}"
    );
    let (set, after) = (random.key(), random.member());
    let answer = engine.members(shard, &set, Some(&after), limit).await;
    let expected = model.members(shard, &set, Some(&after), limit).await;
    assert_eq!(answer, expected, "{place}: members of {set:?} after {after:?}");
    for feed in FEEDS.map(name) {
        let from = Cursor::at(random.0.random_range(30..60));
        let expected = model.feed(shard, &feed, &from, Most::entries(limit), Duration::ZERO).await;
        let answer = engine.feed(shard, &feed, &from, Most::entries(limit), Duration::ZERO).await;
        if let Ok(expected) = expected {
            let answer = answer.unwrap_or_else(|error| panic!("{place}: {feed}: {error}"));
            assert_eq!(answer, expected, "{place}: {feed} from {}", from.next);
        }
    }
}

struct Random(StdRng);

impl Random {
    fn one_in(&mut self, n: u32) -> bool {
        self.0.random_ratio(1, n)
    }

    fn key(&mut self) -> Key {
        let texts = ["", "a", "a\0", "b", "\u{ff}"];
        let text = texts[self.0.random_range(0..texts.len())];
        match self.0.random_range(0..3) {
            0 => Key::from([text]),
            1 => Key::from([text]).with(self.0.random_range(-2..3i64)),
            _ => Key::of([Element::Bytes(vec![self.0.random_range(0..3) * 127]), text.into()]),
        }
    }

    fn prefix(&mut self) -> Key {
        if self.one_in(3) { Key::default() } else { self.key() }
    }

    fn feed(&mut self) -> crate::Name {
        name(FEEDS[self.0.random_range(0..FEEDS.len())])
    }

    fn member(&mut self) -> Bytes {
        let length = self.0.random_range(0..3);
        (0..length).map(|_| [0, b'm', 255][self.0.random_range(0..3usize)]).collect()
    }

    fn number(&mut self) -> i64 {
        match self.0.random_range(0..8) {
            0 => i64::MAX,
            1 => i64::MIN,
            2 => 1 << 53,
            3 => -(1 << 53),
            _ => self.0.random_range(-5..6),
        }
    }

    fn cell(&mut self) -> Cell {
        Cell::new(EXACT[self.0.random_range(0..EXACT.len())], self.key())
    }

    fn note(&mut self) -> Note {
        Note { feed: self.feed(), entry: self.member() }
    }

    fn operation(&mut self) -> Operation {
        let key = self.key();
        match self.0.random_range(0..13) {
            0 | 1 => Operation::Put { key, value: self.member() },
            2 => Operation::Delete(self.cell()),
            3..=5 => {
                let on_overflow = if self.one_in(2) { Some(self.note()) } else { None };
                Operation::Add { key, by: self.number(), on_overflow }
            }
            6 => Operation::Min { key, rank: self.member() },
            7 => Operation::Max { key, rank: self.member() },
            8 => Operation::Last { key, rank: self.member(), value: self.member() },
            9 => {
                let count = self.0.random_range(0..6);
                Operation::Insert { key, members: (0..count).map(|_| self.member()).collect() }
            }
            10 => {
                let count = self.0.random_range(0..6);
                Operation::Distinct { key, members: (0..count).map(|_| self.member()).collect() }
            }
            11 => {
                let ends = [None, Some(Timestamp(1)), Some(Timestamp(4_000_000_000_000))];
                Operation::Expire { cell: self.cell(), at: ends[self.0.random_range(0..3usize)] }
            }
            _ => Operation::Append(self.note()),
        }
    }

    /// A commit whose expectations mostly hold, as they were read from the model.
    async fn commit(&mut self, model: &Arc<dyn Store>, shard: Shard) -> Commit {
        let count = self.0.random_range(0..12);
        let mut commit = Commit::of((0..count).map(|_| self.operation()).collect::<Vec<_>>());
        for _ in 0..self.0.random_range(0..4) {
            let (bytes, counter) = (self.key(), self.key());
            let cells =
                [Cell::new(Kind::Bytes, bytes.clone()), Cell::new(Kind::Counter, counter.clone())];
            let held = model.get(shard, &cells).await.expect("get");
            let wrong = self.one_in(8);
            commit = commit.expecting(match &held[0] {
                Some(Value::Bytes(value)) if !wrong => Expect::Bytes(bytes, Some(value.clone())),
                None if !wrong => Expect::Bytes(bytes, None),
                _ => Expect::Bytes(bytes, Some(Bytes::from_static(b"wrong"))),
            });
            commit = commit.expecting(match &held[1] {
                Some(Value::Counter(number)) => Expect::Counter(counter, Some(*number)),
                _ => Expect::Counter(counter, None),
            });
        }
        if self.one_in(5) { commit.urgent() } else { commit }
    }
}

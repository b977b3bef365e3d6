//! What the store holds, beside what the fold says it must.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::time::Duration;

use bytes::Bytes;
use consort_kernel::memory::MemoryStore;
use consort_kernel::{Cursor, Key, Kind, Most, Name, Shard, Store, Value};

use crate::event::{Change, group_of, root};
use crate::fold::{Content, State};
use crate::world::at_once;

/// How many differences are told.
const TOLD: usize = 5;

/// Reads everything that the tally keeps, and the feed of every shard. An error if a feed has a gap or an
/// entry that is none.
pub fn read(store: &MemoryStore, feed: &Name) -> Result<State, String> {
    let mut state = State::default();
    for shard in (0..store.shards()).map(Shard) {
        for kind in Kind::ALL {
            for (key, value) in cells(store, shard, kind) {
                let content = content(store, shard, &key, value);
                state.cells.insert((shard, kind, key), content);
            }
        }
        let mut cursor = Cursor::START;
        loop {
            let page = at_once(store.feed(shard, feed, &cursor, Most::default(), Duration::ZERO));
            let page = page.map_err(|error| format!("the feed of {shard}: {error}"))?;
            let Some(last) = page.last() else { break };
            let after = last.cursor();
            for (number, entry) in (cursor.next..).zip(page) {
                if entry.number != number {
                    return Err(format!("the feed of {shard} lacks its entry {number}"));
                }
                let change = Change::decode(&entry.entry);
                let change = change.ok_or_else(|| format!("{shard} has a strange feed entry"))?;
                let place = (shard, change.partition);
                state.feeds.entry(place).or_default().push(entry.entry);
            }
            cursor = after;
        }
    }
    Ok(state)
}

fn cells(store: &MemoryStore, shard: Shard, kind: Kind) -> Vec<(Key, Value)> {
    let mut rows: Vec<(Key, Value)> = Vec::new();
    loop {
        let after = rows.last().map(|(key, _)| key.clone());
        let page = at_once(store.scan(shard, kind, &root(), after.as_ref(), usize::MAX));
        let page = page.unwrap_or_else(|error| panic!("the memory engine cannot fail: {error}"));
        if page.is_empty() {
            return rows;
        }
        rows.extend(page);
    }
}

fn content(store: &MemoryStore, shard: Shard, key: &Key, value: Value) -> Content {
    match value {
        Value::Counter(number) => Content::Number(number),
        Value::Bytes(bytes) | Value::Min(bytes) | Value::Max(bytes) => Content::Bytes(bytes),
        Value::Last { rank, value } => Content::Ranked(rank, value),
        Value::Set(_) => Content::Members(members(store, shard, key)),
        Value::Distinct(number) | Value::Sketch(number) => Content::Number(number as i64),
    }
}

fn members(store: &MemoryStore, shard: Shard, key: &Key) -> BTreeSet<Bytes> {
    let mut members = BTreeSet::new();
    loop {
        let after: Option<Bytes> = members.last().cloned();
        let page = at_once(store.members(shard, key, after.as_deref(), usize::MAX));
        let page = page.unwrap_or_else(|error| panic!("the memory engine cannot fail: {error}"));
        if page.is_empty() {
            return members;
        }
        members.extend(page);
    }
}

/// Where `held` differs from `wanted` in the groups that are `certain`; `None` if nowhere.
pub fn difference(
    held: &State,
    wanted: &State,
    certain: impl Fn(u16) -> bool + Copy,
) -> Option<String> {
    let mut told = Vec::new();
    let compared = |place: &&(Shard, Kind, Key)| group_of(&place.2).is_none_or(certain);
    let places: BTreeSet<_> = held.cells.keys().chain(wanted.cells.keys()).collect();
    for place in places.into_iter().filter(compared) {
        let (held, wanted) = (held.cells.get(place), wanted.cells.get(place));
        if held != wanted {
            let (shard, kind, key) = place;
            told.push(format!("{kind:?} {key:?} of {shard} is {}", but(&held, &wanted)));
        }
    }
    let (held, wanted) = (certain_feeds(held, certain), certain_feeds(wanted, certain));
    for place in held.keys().chain(wanted.keys()).collect::<BTreeSet<_>>() {
        let (held, wanted) = (held.get(place), wanted.get(place));
        if held != wanted {
            let (shard, partition) = place;
            let numbers = |changes: Option<&Vec<Change>>| -> Vec<(u64, u32)> {
                let changes = changes.map(Vec::as_slice).unwrap_or_default();
                changes.iter().map(|change| (change.offset, change.record)).collect()
            };
            let but = but(&numbers(held), &numbers(wanted));
            told.push(format!("the feed of {shard} has of partition {partition} {but}"));
        }
    }
    let more = told.len().saturating_sub(TOLD);
    told.truncate(TOLD);
    if more > 0 {
        told.push(format!("and {more} more"));
    }
    (!told.is_empty()).then(|| told.join("\n  "))
}

fn but(held: &impl Debug, wanted: &impl Debug) -> String {
    format!("{held:?}\n    but should be {wanted:?}")
}

fn certain_feeds(
    state: &State,
    certain: impl Fn(u16) -> bool,
) -> BTreeMap<(Shard, u32), Vec<Change>> {
    let mut feeds = BTreeMap::new();
    for (&place, entries) in &state.feeds {
        let changes = entries.iter().filter_map(Change::decode);
        let changes: Vec<Change> = changes.filter(|change| certain(change.group)).collect();
        if !changes.is_empty() {
            feeds.insert(place, changes);
        }
    }
    feeds
}

//! The independent fold: what the state must be, from the log alone.
//!
//! It knows nothing of marks, checkpoints, batches or owners, and shares no code with the worker: a frame
//! counts when its producer has sent none with this number or a later one before; a record counts when no
//! record with its id did so shortly before.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use consort_cluster::worker::Control;
use consort_kernel::{FrameKind, Key, Kind, LogEntry, Shard};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::event::{Change, Event, cell, own_cell};
use crate::tally::PART;

/// What a cell holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// A counter's number.
    Number(i64),
    /// A rank, or the bytes of a bytes cell.
    Bytes(Bytes),
    /// The rank and value of a `last` cell.
    Ranked(Bytes, Bytes),
    /// A set's members.
    Members(BTreeSet<Bytes>),
}

/// What the shards hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// By shard, kind and key.
    pub cells: BTreeMap<(Shard, Kind, Key), Content>,
    /// By shard and partition, in the feed's order. How partitions interleave is up to chance.
    pub feeds: BTreeMap<(Shard, u32), Vec<Bytes>>,
}

/// What a fold goes by.
#[derive(Clone, Copy, Debug)]
pub struct Fold {
    /// How many shards there are.
    pub shards: u16,
    /// For how long ids count.
    pub ids_for: Duration,
}

/// How far a shard has come with a partition: the first frame and record that it has not applied.
pub type Reach = (u64, u32);

/// What there is to tell of a fold besides the state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// Frames that were repeats.
    pub repeats: u64,
    /// Records that were duplicates.
    pub duplicates: u64,
}

impl Fold {
    /// The state after all of `log`, by partition, as far as each shard has come.
    pub fn state(
        &self,
        log: &BTreeMap<u32, Vec<LogEntry>>,
        reach: impl Fn(u32, Shard) -> Reach,
    ) -> (State, Left) {
        let (mut state, mut left) = (State::default(), Left::default());
        for (&partition, entries) in log {
            let mut kept: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
            let fresh = fresh(entries);
            left.repeats += (entries.len() - fresh.len()) as u64;
            for entry in fresh {
                for (record, bytes) in entry.frame.records.iter().enumerate() {
                    let at = (entry.offset, record as u32);
                    let reached = |shard| at < reach(partition, shard);
                    if entry.frame.kind == FrameKind::Control {
                        self.word(&mut state, bytes, reached);
                        continue;
                    }
                    let event = Event::decode(bytes);
                    if self.is_duplicate(&mut kept, &event, entry.frame.time.0) {
                        left.duplicates += 1;
                        let (shard, key) = cell("duplicates", event.group, self.shards);
                        state.add(shard, key, 1, reached(shard));
                    } else {
                        self.event(&mut state, partition, at, &event, bytes, reached);
                    }
                }
            }
        }
        (state, left)
    }

    fn is_duplicate(&self, kept: &mut BTreeMap<u64, Vec<u64>>, event: &Event, time: u64) -> bool {
        if event.id == 0 {
            return false;
        }
        let times = kept.entry(event.id).or_default();
        let close = |&before: &u64| Duration::from_millis(time.abs_diff(before)) <= self.ids_for;
        if times.iter().any(close) {
            return true;
        }
        times.push(time);
        false
    }

    fn word(&self, state: &mut State, bytes: &[u8], reached: impl Fn(Shard) -> bool) {
        if let Ok(Control::Word { part, text }) = Control::decode(bytes)
            && part == PART
            && let Ok(group) = text.parse()
        {
            let (shard, key) = cell("words", group, self.shards);
            state.add(shard, key, 1, reached(shard));
        }
    }

    fn event(
        &self,
        state: &mut State,
        partition: u32,
        (offset, record): (u64, u32),
        event: &Event,
        bytes: &[u8],
        reached: impl Fn(Shard) -> bool,
    ) {
        let cell = |what| cell(what, event.group, self.shards);
        let value = Key::of([event.value.into()]).to_bytes();
        for (what, by) in [("count", 1), ("sum", event.value)] {
            let (shard, key) = cell(what);
            state.add(shard, key, by, reached(shard));
        }
        for (what, kind) in [("min", Kind::Min), ("max", Kind::Max)] {
            let (shard, key) = cell(what);
            if reached(shard) {
                state.extreme(shard, kind, key, value.clone());
            }
        }
        let (shard, key) = cell("last");
        if reached(shard) {
            let place = [event.time, u64::from(partition), offset, u64::from(record)];
            let rank = Key::of(place.map(Into::into)).to_bytes();
            state.last(shard, key, rank, Bytes::copy_from_slice(&event.serial.to_be_bytes()));
        }
        let (shard, key) = cell("set");
        if reached(shard) {
            state.insert(shard, key, value);
        }
        let (shard, key) = cell("spread");
        for part in 0..event.spread {
            if reached(shard) {
                let member = Key::of([event.serial.into(), u32::from(part).into()]);
                state.insert(shard, key.clone(), member.to_bytes());
            }
        }
        let (shard, _) = cell("feed");
        if reached(shard) {
            let Event { serial, group, .. } = *event;
            let change = Change { partition, offset, record, serial, group };
            state.feeds.entry((shard, partition)).or_default().push(change.encode());
        }
        let (shard, key) = own_cell("chain", event.group, partition, self.shards);
        if reached(shard) {
            state.link(shard, key, bytes);
        }
    }
}

/// The frames that count.
pub fn fresh(entries: &[LogEntry]) -> Vec<&LogEntry> {
    let mut highest: BTreeMap<u64, u64> = BTreeMap::new();
    let mut fresh = Vec::new();
    for entry in entries {
        let (producer, sequence) = (entry.frame.producer.0, entry.frame.sequence);
        if highest.get(&producer).is_some_and(|&highest| sequence <= highest) {
            continue;
        }
        highest.insert(producer, sequence);
        fresh.push(entry);
    }
    fresh
}

impl State {
    fn add(&mut self, shard: Shard, key: Key, by: i64, reached: bool) {
        if !reached {
            return;
        }
        let content = self.cells.entry((shard, Kind::Counter, key)).or_insert(Content::Number(0));
        if let Content::Number(number) = content {
            *number += by;
        }
    }

    fn extreme(&mut self, shard: Shard, kind: Kind, key: Key, rank: Bytes) {
        let content =
            self.cells.entry((shard, kind, key)).or_insert_with(|| Content::Bytes(rank.clone()));
        if let Content::Bytes(held) = content
            && (if kind == Kind::Min { rank < *held } else { rank > *held })
        {
            *held = rank;
        }
    }

    fn last(&mut self, shard: Shard, key: Key, rank: Bytes, value: Bytes) {
        let ranked = Content::Ranked(rank.clone(), value);
        let held = self.cells.entry((shard, Kind::Last, key)).or_insert_with(|| ranked.clone());
        if matches!(held, Content::Ranked(highest, _) if *highest < rank) {
            *held = ranked;
        }
    }

    fn insert(&mut self, shard: Shard, key: Key, member: Bytes) {
        let place = (shard, Kind::Set, key);
        let content = self.cells.entry(place).or_insert_with(|| Content::Members(BTreeSet::new()));
        if let Content::Members(members) = content {
            members.insert(member);
        }
    }

    fn link(&mut self, shard: Shard, key: Key, record: &[u8]) {
        let place = (shard, Kind::Bytes, key);
        let seed = match self.cells.get(&place) {
            Some(Content::Bytes(before)) => xxh3_64_with_seed(before, 1),
            _ => 0,
        };
        let link = xxh3_64_with_seed(record, seed).to_be_bytes();
        self.cells.insert(place, Content::Bytes(Bytes::copy_from_slice(&link)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use consort_kernel::{Digest, Frame, Producer, Timestamp};

    fn entry(offset: u64, producer: u64, sequence: u64, time: u64, ids: &[u64]) -> LogEntry {
        let event = |(at, &id)| {
            let serial = offset * 10 + at as u64;
            Event { serial, group: 1, value: 5, id, time, spread: 0 }.encode()
        };
        let frame = Frame {
            kind: FrameKind::Events,
            producer: Producer(producer),
            sequence,
            time: Timestamp(time),
            records: ids.iter().enumerate().map(event).collect(),
        };
        LogEntry { offset, digest: Digest::of(&offset.to_be_bytes()), frame }
    }

    #[test]
    fn repeats_and_duplicates_do_not_count() {
        let log = vec![
            entry(0, 1, 0, 0, &[7, 0, 0]),
            entry(1, 1, 0, 0, &[7, 0, 0]),
            entry(2, 2, 9, 10, &[7, 8]),
            entry(3, 1, 1, 11, &[7]),
            entry(4, 2, 8, 11, &[0]),
        ];
        let fold = Fold { shards: 2, ids_for: Duration::from_millis(10) };
        let log = BTreeMap::from([(0, log)]);
        let (state, left) = fold.state(&log, |_, _| (u64::MAX, 0));
        assert_eq!(left, Left { repeats: 2, duplicates: 1 });
        let (shard, key) = cell("count", 1, 2);
        let count = |state: &State| state.cells.get(&(shard, Kind::Counter, key.clone())).cloned();
        assert_eq!(count(&state), Some(Content::Number(5)));
        let (state, _) = fold.state(&log, |_, _| (0, 2));
        assert_eq!(count(&state), Some(Content::Number(2)));
    }
}

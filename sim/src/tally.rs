//! The plan of a simulation: each record does one of everything that a shard can do.

use std::time::Duration;

use bytes::Bytes;
use consort_cluster::worker::{Control, Memory, Plan, Record, Sheet};
use consort_kernel::{Key, Name, Note, Shard};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::event::{Change, Event, cell, own_cell};

/// The name of the feed that every shard has.
pub const FEED: &str = "changes";

/// Whose control records these are.
pub const PART: &str = "tally";

/// Counts, sums, compares, collects, tells and chains.
#[derive(Debug)]
pub struct Tally {
    /// How many shards there are.
    pub shards: u16,
    /// For how long ids count.
    pub ids_for: Duration,
    /// How long a partition is silent before it ticks.
    pub tick_after: Option<Duration>,
    /// The feed.
    pub feed: Name,
}

impl Plan for Tally {
    fn apply(&self, record: &Record<'_>, _: &mut Memory, sheet: &mut Sheet) {
        let event = Event::decode(record.bytes);
        let cell = |what| cell(what, event.group, self.shards);
        let (shard, key) = cell("count");
        sheet.add(shard, key, 1, None);
        let (shard, key) = cell("sum");
        sheet.add(shard, key, event.value, None);
        let value = Key::of([event.value.into()]).to_bytes();
        let (shard, key) = cell("min");
        sheet.min(shard, key, value.clone());
        let (shard, key) = cell("max");
        sheet.max(shard, key, value.clone());
        let (shard, key) = cell("last");
        let serial = Bytes::copy_from_slice(&event.serial.to_be_bytes());
        sheet.last(shard, key, rank(record, &event), serial);
        let (shard, key) = cell("set");
        sheet.insert(shard, key, value);
        let (shard, key) = cell("spread");
        for part in 0..event.spread {
            let member = Key::of([event.serial.into(), u32::from(part).into()]);
            sheet.insert(shard, key.clone(), member.to_bytes());
        }
        let (shard, _) = cell("feed");
        sheet.append(shard, Note { feed: self.feed.clone(), entry: change(record, &event) });
        let (shard, key) = self.chain(record, &event);
        let before = sheet.read(shard, &key);
        sheet.put(shard, key, link(before.as_deref(), record));
    }

    fn reads(&self, record: &Record<'_>, _: &mut Memory) -> Vec<(Shard, Key)> {
        vec![self.chain(record, &Event::decode(record.bytes))]
    }

    fn ids_for(&self) -> Option<Duration> {
        Some(self.ids_for)
    }

    fn id(&self, record: &Record<'_>) -> Option<Bytes> {
        let id = Event::decode(record.bytes).id;
        (id > 0).then(|| Bytes::copy_from_slice(&id.to_be_bytes()))
    }

    fn duplicate(&self, record: &Record<'_>, sheet: &mut Sheet) {
        let (shard, key) = cell("duplicates", Event::decode(record.bytes).group, self.shards);
        sheet.add(shard, key, 1, None);
    }

    fn control(&self, _: &Record<'_>, control: &Control, _: &mut Memory, sheet: &mut Sheet) {
        if let Control::Word { part, text } = control
            && part == PART
            && let Ok(group) = text.parse()
        {
            let (shard, key) = cell("words", group, self.shards);
            sheet.add(shard, key, 1, None);
        }
    }

    fn tick_after(&self) -> Option<Duration> {
        self.tick_after
    }
}

impl Tally {
    /// The cell that only this record's partition writes.
    fn chain(&self, record: &Record<'_>, event: &Event) -> (Shard, Key) {
        own_cell("chain", event.group, record.partition.index, self.shards)
    }
}

fn rank(record: &Record<'_>, event: &Event) -> Bytes {
    let (partition, place) = (record.partition.index, record.position);
    Key::of([event.time.into(), partition.into(), place.offset.into(), place.record.into()])
        .to_bytes()
}

fn change(record: &Record<'_>, event: &Event) -> Bytes {
    let (partition, place) = (record.partition.index, record.position);
    let Event { serial, group, .. } = *event;
    Change { partition, offset: place.offset, record: place.record, serial, group }.encode()
}

/// A chain tells every record before it, in order: one left out, one twice or two exchanged give another.
fn link(before: Option<&[u8]>, record: &Record<'_>) -> Bytes {
    let before = before.map_or(0, |bytes| xxh3_64_with_seed(bytes, 1));
    Bytes::copy_from_slice(&xxh3_64_with_seed(record.bytes, before).to_be_bytes())
}

//! The account of a run: what the log says, by an independent fold, beside what the windows came to.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use consort_cluster::format;
use consort_kernel::{Cursor, FrameKind, Key, Kind, Moment, Most, Name, Shard, Store as _, Value};
use consort_views::{Event, Late, Rejected, View, WindowRow};
use serde::Deserialize;

use super::stage::{GRACE, PARTITIONS, Stage};
use crate::outcome::Coverage;
use crate::world::{World, at_once};

/// Where a record stands: partition, offset, record.
type Place = (u32, u64, u32);

/// A window of a group.
type Group = (i64, i64);

/// What is known so far.
#[derive(Debug, Default)]
pub(super) struct Account {
    coverage: Coverage,
}

struct Seen {
    group: i64,
    user: i64,
    start: i64,
    /// The watermark of its partition with its frame, in milliseconds.
    watermark: u64,
}

/// The part of a late event's line that matters here.
#[derive(Deserialize)]
struct Line {
    partition: u32,
    offset: u64,
    record: u32,
}

impl Account {
    pub(super) fn coverage(&self) -> Coverage {
        self.coverage.clone()
    }

    /// What is not yet as it must be in the end.
    pub(super) fn unsettled(&self, world: &World, stage: &Stage) -> Option<String> {
        for view in &stage.definitions.views {
            for shard in shards(world) {
                for (key, state) in scan(world, shard, Kind::Bytes, window_prefix(view)) {
                    let Value::Bytes(state) = state else { continue };
                    let text = String::from_utf8_lossy(&state).into_owned();
                    if !text.contains("closed") {
                        return Some(format!("{}: {key:?} is {text}", view.name));
                    }
                }
                if let Some((key, _)) =
                    scan(world, shard, Kind::Counter, Key::of(["dirty".into(), view.number.into()]))
                        .pop()
                {
                    return Some(format!("{}: {key:?} is dirty", view.name));
                }
            }
        }
        // All that is in the log has been applied.
        let fresh = events(world, stage).len() as i64;
        let tallies = at_once(consort_views::Tallies::read(&*world.store, stage.stream()));
        match tallies {
            Ok(tallies) if tallies.applied == fresh => None,
            tallies => Some(format!("{tallies:?} of {fresh}")),
        }
    }

    /// What is left of windows that should be gone.
    pub(super) fn left_over(&self, world: &World, stage: &Stage) -> Option<String> {
        for view in &stage.definitions.views {
            for shard in shards(world) {
                let kind = match view.windows.as_ref().map(|windows| windows.late) {
                    Some(Late::List) => Kind::Distinct,
                    _ => Kind::Counter,
                };
                let groups = Key::of([view.number.into()]);
                for (kind, prefix) in [(Kind::Bytes, window_prefix(view)), (kind, groups)] {
                    if let Some((key, _)) = scan(world, shard, kind, prefix).pop() {
                        return Some(format!("{}: {key:?} in {shard}", view.name));
                    }
                }
            }
        }
        None
    }

    /// Compares the newest rows with the log.
    pub(super) fn check(&mut self, world: &World, stage: &Stage) -> Result<(), String> {
        let events = events(world, stage);
        self.coverage.add("events", events.len() as u64);
        for view in &stage.definitions.views {
            let late = self.late(world, view, &events)?;
            let applied: BTreeMap<Place, &Seen> = events
                .iter()
                .filter(|(place, _)| !late.contains(*place))
                .map(|(place, seen)| (*place, seen))
                .collect();
            self.coverage.add(&format!("late events {}", view.name), late.len() as u64);
            counters(world, view, applied.len(), late.len())?;
            let newest = self.newest(world, view)?;
            let mut expected: BTreeMap<Group, BTreeSet<(Place, i64)>> = BTreeMap::new();
            for (place, seen) in &applied {
                let users = expected.entry((seen.start, seen.group)).or_default();
                let amended = view.windows.as_ref().is_some_and(|w| w.late == Late::Amend);
                users.insert((if amended { *place } else { Place::default() }, seen.user));
            }
            let expected: BTreeMap<Group, String> =
                expected.into_iter().map(|(group, set)| (group, set.len().to_string())).collect();
            if newest != expected {
                let differing =
                    expected.iter().find(|(group, value)| newest.get(*group) != Some(*value));
                let beyond = newest.keys().find(|group| !expected.contains_key(*group));
                return Err(format!(
                    "the newest rows of {} are not what the log says: expected {differing:?}, got {:?}, \
                     beyond it {beyond:?}",
                    view.name,
                    differing.and_then(|(group, _)| newest.get(group)),
                ));
            }
        }
        Ok(())
    }

    /// The newest value of each group, after a look at how its revisions follow each other.
    fn newest(&mut self, world: &World, view: &View) -> Result<BTreeMap<Group, String>, String> {
        let mut newest: BTreeMap<Group, (u64, String)> = BTreeMap::new();
        let list = WindowRow::feed(view.name.as_str()).map_err(|error| error.to_string())?;
        for shard in shards(world) {
            for entry in feed(world, shard, &list) {
                let row = WindowRow::decode(&entry).map_err(|error| error.to_string())?;
                let group = row.group.0.first().and_then(|(_, json)| json.get().parse().ok());
                let group = (row.start.0, group.unwrap_or(i64::MIN));
                let (revision, value) = (row.revision, row.value.get().to_string());
                self.coverage.add("rows", 1);
                self.coverage.add("rows emitted again", u64::from(revision > 1));
                match newest.insert(group, (revision, value)) {
                    Some((before, _)) if before >= revision => {
                        return Err(format!(
                            "{}: revision {revision} of {group:?} follows {before}",
                            view.name
                        ));
                    }
                    _ => {}
                }
            }
        }
        Ok(newest.into_iter().map(|(group, (_, value))| (group, value)).collect())
    }

    /// The events that were listed as late: rightly, and once each.
    fn late(
        &self,
        world: &World,
        view: &View,
        events: &BTreeMap<Place, Seen>,
    ) -> Result<BTreeSet<Place>, String> {
        let mut late = BTreeSet::new();
        let list = Name::new(&format!("late.{}", view.name)).map_err(|error| error.to_string())?;
        for shard in shards(world) {
            for entry in feed(world, shard, &list) {
                let line: Line = format::decode(&entry).map_err(|error| error.to_string())?;
                let _: Rejected = format::decode(&entry).map_err(|error| error.to_string())?;
                let place = (line.partition, line.offset, line.record);
                let seen = events.get(&place).ok_or_else(|| format!("{place:?} is no event"))?;
                let windows = view.windows.as_ref().ok_or("no windows")?;
                let end = windows.end_of(Moment(seen.start)).0 / 1_000_000;
                // A window closes when the log has gone beyond it in every partition.
                if seen.watermark < end as u64 + GRACE.as_millis() as u64 {
                    return Err(format!(
                        "{}: the event at {place:?} came in time and is listed as late: its window was \
                         closed early",
                        view.name
                    ));
                }
                if !late.insert(place) {
                    return Err(format!("{}: {place:?} is listed twice", view.name));
                }
            }
        }
        Ok(late)
    }
}

/// Received = applied + late, by the view's own counters.
fn counters(world: &World, view: &View, applied: usize, late: usize) -> Result<(), String> {
    for (what, expected) in [("applied", applied), ("late", late)] {
        let key = Key::of(["seen".into(), view.number.into(), what.into()]);
        let counted: i64 = shards(world)
            .flat_map(|shard| scan(world, shard, Kind::Counter, key.clone()))
            .map(|(_, value)| if let Value::Counter(count) = value { count } else { 0 })
            .sum();
        if counted != expected as i64 {
            return Err(format!("{}: {counted} {what} counted of {expected}", view.name));
        }
    }
    Ok(())
}

/// All events of the log that are no repeats.
fn events(world: &World, stage: &Stage) -> BTreeMap<Place, Seen> {
    let mut events = BTreeMap::new();
    let stream = stage.stream();
    let windows = stage.definitions.views[0].windows.clone();
    for index in 0..PARTITIONS {
        let mut passed: BTreeMap<u64, u64> = BTreeMap::new();
        let mut watermark = 0;
        for entry in world.entries(&stream.partition(index)).unwrap_or_default() {
            let frame = entry.frame;
            watermark = watermark.max(frame.time.0);
            let fresh = passed.get(&frame.producer.0).is_none_or(|last| frame.sequence > *last);
            if fresh {
                passed.insert(frame.producer.0, frame.sequence);
            }
            if !fresh || frame.kind != FrameKind::Events {
                continue;
            }
            for (record, bytes) in frame.records.iter().enumerate() {
                let Ok(event) = Event::decode(&stream.schema, bytes) else { continue };
                let number = |at: usize| match event.values[at] {
                    Some(consort_views::Value::Int(number)) => number,
                    _ => i64::MIN,
                };
                let length = windows.as_ref().map_or(Duration::ZERO, |windows| windows.length);
                let length = length.as_nanos() as i64;
                let start = number(2).div_euclid(length) * length;
                let (group, user) = (number(0), number(1));
                let seen = Seen { group, user, start, watermark };
                events.insert((index, entry.offset, record as u32), seen);
            }
        }
    }
    events
}

fn window_prefix(view: &View) -> Key {
    Key::of(["window".into(), view.number.into()])
}

fn shards(world: &World) -> impl Iterator<Item = Shard> + use<> {
    use consort_kernel::Store as _;
    (0..world.store.shards()).map(Shard)
}

fn scan(world: &World, shard: Shard, kind: Kind, prefix: Key) -> Vec<(Key, Value)> {
    let mut all: Vec<(Key, Value)> = Vec::new();
    loop {
        let after = all.last().map(|(key, _)| key.clone());
        let page = at_once(world.store.scan(shard, kind, &prefix, after.as_ref(), 1000));
        match page {
            Ok(page) if !page.is_empty() => all.extend(page),
            _ => return all,
        }
    }
}

fn feed(world: &World, shard: Shard, name: &Name) -> Vec<bytes::Bytes> {
    let (mut all, mut cursor) = (Vec::new(), Cursor::START);
    loop {
        let page = at_once(world.store.feed(shard, name, &cursor, Most::default(), Duration::ZERO));
        match page {
            Ok(page) if !page.is_empty() => {
                cursor = page[page.len() - 1].cursor();
                all.extend(page.into_iter().map(|entry| entry.entry));
            }
            _ => return all,
        }
    }
}

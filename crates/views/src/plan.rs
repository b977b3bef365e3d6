//! The plan of a stream: what each of its events does to its views. Pure.

mod grouping;
mod memo;
mod planned;
mod windowed;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use consort_cluster::worker::{Cells, Memory, Plan, Record, Sheet};
use consort_kernel::limits::{KEY_BYTES, RANK_BYTES, VALUE_BYTES};
use consort_kernel::{Element, Key, Moment, Name, Note, Shard};

use crate::event::{Event, Field};
use crate::expression::EvaluationError;
use crate::keys;
use crate::part::{PIPELINE, Rules};
use crate::rejects::Rejected;
use crate::stream::Stream;
use crate::view::{Aggregate, View};
use crate::window::{self, MAX_FUTURE};
use grouping::Grouping;
use memo::{Group, Members, Memo};
use planned::Planned;
use windowed::WindowPlan;

/// How long a partition with nothing to read waits before it looks whether a window waits for it.
const TICK_AFTER: Duration = Duration::from_millis(500);

/// The fold of a stream into its views.
#[derive(Debug)]
pub struct StreamPlan {
    stream: Arc<Stream>,
    groupings: Vec<Grouping>,
    shards: u16,
    /// For each partition, where its own cells are.
    homes: Vec<Home>,
}

/// The cells of a partition.
#[derive(Debug)]
struct Home {
    shard: Shard,
    applied: Key,
    duplicates: Key,
    unreadable: Key,
    ahead: Key,
    received: Key,
}

/// A view with what its keys have in common.
#[derive(Debug)]
struct ViewPlan {
    view: Arc<View>,
    groups: Key,
    overflows: Name,
    rejects: Name,
    rejected: Key,
    windowed: Option<WindowPlan>,
}

/// Why a view cannot take an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
enum Untakable {
    #[error("{0}")]
    Evaluation(#[from] EvaluationError),
    #[error("its group's key is longer than {KEY_BYTES} bytes")]
    Group,
    #[error("its value is longer than {0} bytes")]
    Value(usize),
    #[error("the state of its window cannot be read")]
    Window,
}

impl StreamPlan {
    /// The plan of `stream` for those of `views` that are kept of it, in a store of `shards` shards.
    pub fn new(stream: Arc<Stream>, views: &[Arc<View>], shards: u16) -> Self {
        StreamPlan::by_rules(stream, views, shards, Rules::default())
    }

    pub(crate) fn by_rules(
        stream: Arc<Stream>,
        views: &[Arc<View>],
        shards: u16,
        rules: Rules,
    ) -> Self {
        let own = views.iter().filter(|view| view.from.name == stream.name);
        let groupings = Grouping::all(own, rules);
        let home = |index| Home::new(&stream, index, shards);
        let homes = (0..stream.partitions).map(home).collect();
        StreamPlan { stream, groupings, shards, homes }
    }
}

impl Home {
    fn new(stream: &Stream, index: u32, shards: u16) -> Self {
        let tally = |what| keys::tally(&stream.name, index, what);
        Home {
            shard: Cells::new(&PIPELINE, &stream.partition(index), shards).home(),
            applied: tally("applied"),
            duplicates: tally("duplicate"),
            unreadable: tally("unreadable"),
            ahead: tally("ahead"),
            received: tally("received"),
        }
    }
}

impl Plan for StreamPlan {
    fn apply(&self, record: &Record<'_>, memory: &mut Memory, sheet: &mut Sheet) {
        let Some(home) = self.homes.get(record.partition.index as usize) else { return };
        let memo = memory.recall::<Memo>().of(self.groupings.len());
        sheet.add_at(&mut memo.received, home.shard, &home.received, 1, || None);
        let event = match Planned::read(&self.stream.schema, *record) {
            Ok(event) => event,
            Err(error) => {
                let (partition, at) = (record.partition, record.position);
                tracing::error!(%partition, offset = at.offset, record = at.record, %error, "left out");
                sheet.add(home.shard, home.unreadable.clone(), 1, None);
                return;
            }
        };
        if self.has_windows() && window::is_ahead(self.moment(&event), record.time) {
            for view in self.groupings.iter().flat_map(|grouping| &grouping.views) {
                let reason = format!("its time is more than {MAX_FUTURE:?} ahead");
                let note = view.rejection(&self.stream, record, event.event(), reason);
                sheet.append(home.shard, note);
            }
            sheet.add(home.shard, home.ahead.clone(), 1, None);
            return;
        }
        let number = memo.met.number(record.position);
        for (grouping, placed) in self.groupings.iter().zip(&mut memo.groupings) {
            let known = number.and_then(|number| placed.met(number));
            let slot = known.map_or_else(|| grouping.place(&event, self, placed), Ok);
            for (at, view) in grouping.views.iter().enumerate() {
                let group = slot.and_then(|slot| match slot {
                    None => Ok(None),
                    Some(slot) => match placed.group(slot, at, grouping.views.len()) {
                        None => Err(Untakable::Group),
                        group => Ok(group),
                    },
                });
                let members = &mut memo.members;
                let applied =
                    group.and_then(|group| view.apply(&event, self, home, group, members, sheet));
                if let Err(reason) = applied {
                    let reason = reason.to_string();
                    let note = view.rejection(&self.stream, record, event.event(), reason);
                    sheet.append(home.shard, note);
                    sheet.add(home.shard, view.rejected.clone(), 1, None);
                }
            }
        }
        sheet.add_at(&mut memo.applied, home.shard, &home.applied, 1, || None);
    }

    fn reads(&self, record: &Record<'_>, memory: &mut Memory) -> Vec<(Shard, Key)> {
        let mut cells = Vec::new();
        if !self.has_windows() {
            return cells;
        }
        let Ok(event) = Planned::read(&self.stream.schema, *record) else { return cells };
        let memo = memory.recall::<Memo>().of(self.groupings.len());
        memo.met.meet(record.position);
        for (grouping, placed) in self.groupings.iter().zip(&mut memo.groupings) {
            if !grouping.has_windows() {
                continue;
            }
            let slot = grouping.place(&event, self, placed);
            placed.meet(slot);
            let Ok(Some(slot)) = slot else { continue };
            for (at, view) in grouping.views.iter().enumerate() {
                if let Some(windowed) = &view.windowed
                    && let Some(group) = placed.group(slot, at, grouping.views.len())
                    && let Some(start) = group.start
                    && !std::mem::replace(&mut group.named, true)
                {
                    cells.push((group.shard, windowed.floor.clone()));
                    cells.push((group.shard, keys::window(&view.view, start)));
                }
            }
        }
        cells
    }

    fn ids_for(&self) -> Option<Duration> {
        Some(self.stream.ids_for)
    }

    fn id(&self, record: &Record<'_>) -> Option<Bytes> {
        Event::id_of(record.bytes).map(|id| record.share(id))
    }

    fn duplicate(&self, record: &Record<'_>, sheet: &mut Sheet) {
        if let Some(home) = self.homes.get(record.partition.index as usize) {
            sheet.add(home.shard, home.received.clone(), 1, None);
            sheet.add(home.shard, home.duplicates.clone(), 1, None);
        }
    }

    fn tick_after(&self) -> Option<Duration> {
        self.has_windows().then_some(TICK_AFTER)
    }

    fn awaited(&self) -> Option<(Shard, Key)> {
        Some(keys::awaited(&self.stream.name))
    }
}

impl StreamPlan {
    fn has_windows(&self) -> bool {
        self.groupings.iter().any(Grouping::has_windows)
    }

    /// The event's own time, or when it was appended.
    fn moment(&self, event: &Planned<'_>) -> Moment {
        match self.stream.time.and_then(|at| event.field(at)) {
            Some(Field::Int(nanoseconds)) => Moment(nanoseconds),
            _ => window::moment_of(event.record.time),
        }
    }
}

impl ViewPlan {
    fn new(view: Arc<View>, rules: Rules) -> Self {
        ViewPlan {
            groups: keys::groups(&view),
            overflows: keys::overflows(&view.name),
            rejects: keys::rejects(&view.name),
            rejected: keys::rejected(&view.name),
            windowed: WindowPlan::new(&view, rules),
            view,
        }
    }

    /// What the list of rejects is told.
    fn rejection(
        &self,
        stream: &Stream,
        record: &Record<'_>,
        event: &Event,
        reason: String,
    ) -> Note {
        let entry = Rejected::of(stream, record, event, reason).encode();
        Note { feed: self.rejects.clone(), entry }
    }

    /// What the event does. One whose group or value is absent does nothing here.
    fn apply(
        &self,
        event: &Planned<'_>,
        plan: &StreamPlan,
        home: &Home,
        group: Option<&mut Group>,
        members: &mut Members,
        sheet: &mut Sheet,
    ) -> Result<(), Untakable> {
        let change = match group {
            Some(_) => Change::of(&self.view.aggregate, event, members, || rank(plan, event))?,
            None => None,
        };
        let (Some(group), Some(change)) = (group, change) else {
            if let Some(windowed) = &self.windowed {
                sheet.add(home.shard, windowed.applied.clone(), 1, None);
            }
            return Ok(());
        };
        if let (Some(windowed), Some(start)) = (&self.windowed, group.start) {
            let record = &event.record;
            let late =
                || Rejected::of(&plan.stream, record, event.event(), windowed.lateness(start));
            if !windowed.enter(record, start, group, sheet, late)? {
                return Ok(());
            }
        }
        let Group { key, shard, cell, .. } = group;
        let shard = *shard;
        match change {
            Change::Add(by) => sheet
                .add_at(cell, shard, key, by, || Some(keys::overflow_note(&self.overflows, key))),
            Change::Min(rank) => sheet.min(shard, key.clone(), rank),
            Change::Max(rank) => sheet.max(shard, key.clone(), rank),
            Change::Last(rank, value) => sheet.last(shard, key.clone(), rank, value),
            Change::Insert(member) => sheet.insert_at(cell, shard, key, member),
            Change::Distinct(member) => sheet.distinct_at(cell, shard, key, member),
            Change::Sketch(member) => sheet.sketch(shard, key.clone(), member),
        }
        Ok(())
    }
}

/// What an event does to its group's cell.
enum Change {
    Add(i64),
    Min(Bytes),
    Max(Bytes),
    Last(Bytes, Bytes),
    Insert(Bytes),
    Distinct(Bytes),
    Sketch(Bytes),
}

impl Change {
    /// Nothing, if a value that it needs is absent.
    fn of(
        aggregate: &Aggregate,
        event: &Planned<'_>,
        members: &mut Members,
        rank: impl FnOnce() -> Bytes,
    ) -> Result<Option<Change>, Untakable> {
        let expressions = aggregate.expressions();
        let encoded = |most| event.encoded(expressions, most);
        let mut member = || event.member(expressions, members);
        Ok(match aggregate {
            Aggregate::Count => Some(Change::Add(1)),
            Aggregate::Sum(expression) => event.number(expression)?.map(Change::Add),
            Aggregate::Min(_) => encoded(RANK_BYTES)?.map(Change::Min),
            Aggregate::Max(_) => encoded(RANK_BYTES)?.map(Change::Max),
            Aggregate::Last(_) => encoded(VALUE_BYTES)?.map(|value| Change::Last(rank(), value)),
            Aggregate::Set(_) => member()?.map(Change::Insert),
            Aggregate::Distinct(_) => member()?.map(Change::Distinct),
            Aggregate::DistinctApprox(_) => member()?.map(Change::Sketch),
        })
    }
}

/// What decides which of two events is the later one: event time, then partition and place.
fn rank(plan: &StreamPlan, event: &Planned<'_>) -> Bytes {
    let time = plan.moment(event).0;
    let (partition, at) = (event.record.partition.index, event.record.position);
    let place = [partition.into(), at.era.into(), at.offset.into(), at.record.into()];
    Key::of([Element::from(time)].into_iter().chain(place)).to_bytes()
}

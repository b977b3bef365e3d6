//! The plan of a stream: what each of its events does to its views. Pure.

mod windowed;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use consort_cluster::worker::{Cells, Plan, Record, Sheet};
use consort_kernel::limits::{KEY_BYTES, MEMBER_BYTES, RANK_BYTES, VALUE_BYTES};
use consort_kernel::{Element, Key, Moment, Name, Note, Shard};

use crate::event::Event;
use crate::expression::{EvaluationError, Expression};
use crate::keys;
use crate::part::{PIPELINE, Rules};
use crate::rejects::Rejected;
use crate::stream::Stream;
use crate::value::Value;
use crate::view::{Aggregate, View};
use crate::window::{self, MAX_FUTURE};
use windowed::WindowPlan;

/// How long a partition with nothing to read waits before it looks whether a window waits for it.
const TICK_AFTER: Duration = Duration::from_millis(500);

/// The fold of a stream into its views.
#[derive(Debug)]
pub struct StreamPlan {
    stream: Arc<Stream>,
    views: Vec<ViewPlan>,
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

/// Where an event belongs in a view.
struct Placed {
    /// The group's cell.
    key: Key,
    shard: Shard,
    /// Where its window begins, if the view has windows.
    start: Option<Moment>,
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
        let views = own.map(|view| ViewPlan::new(Arc::clone(view), rules)).collect();
        let home = |index| Home::new(&stream, index, shards);
        let homes = (0..stream.partitions).map(home).collect();
        StreamPlan { stream, views, shards, homes }
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
    fn apply(&self, record: &Record<'_>, sheet: &mut Sheet) {
        let Some(home) = self.homes.get(record.partition.index as usize) else { return };
        sheet.add(home.shard, home.received.clone(), 1, None);
        let event = match Event::decode(&self.stream.schema, record.bytes) {
            Ok(event) => event,
            Err(error) => {
                let (partition, at) = (record.partition, record.position);
                tracing::error!(%partition, offset = at.offset, record = at.record, %error, "left out");
                sheet.add(home.shard, home.unreadable.clone(), 1, None);
                return;
            }
        };
        if self.has_windows() && window::is_ahead(self.moment(record, &event), record.time) {
            for view in &self.views {
                let reason = format!("its time is more than {MAX_FUTURE:?} ahead");
                sheet.append(home.shard, view.rejection(&self.stream, record, &event, reason));
            }
            sheet.add(home.shard, home.ahead.clone(), 1, None);
            return;
        }
        for view in &self.views {
            if let Err(reason) = view.apply(record, &event, self, home, sheet) {
                let note = view.rejection(&self.stream, record, &event, reason.to_string());
                sheet.append(home.shard, note);
                sheet.add(home.shard, view.rejected.clone(), 1, None);
            }
        }
        sheet.add(home.shard, home.applied.clone(), 1, None);
    }

    fn reads(&self, record: &Record<'_>) -> Vec<(Shard, Key)> {
        let mut cells = Vec::new();
        if !self.has_windows() {
            return cells;
        }
        let Ok(event) = Event::decode(&self.stream.schema, record.bytes) else { return cells };
        for view in &self.views {
            if let Some(windowed) = &view.windowed
                && let Ok(Some(Placed { shard, start: Some(start), .. })) =
                    view.place(record, &event, self)
            {
                cells.push((shard, windowed.floor.clone()));
                cells.push((shard, keys::window(&view.view, start)));
            }
        }
        cells
    }

    fn ids_for(&self) -> Option<Duration> {
        Some(self.stream.ids_for)
    }

    fn id(&self, record: &Record<'_>) -> Option<Bytes> {
        Event::id_of(record.bytes).map(|id| record.bytes.slice_ref(id))
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
        self.views.iter().any(|view| view.windowed.is_some())
    }

    /// The event's own time, or when it was appended.
    fn moment(&self, record: &Record<'_>, event: &Event) -> Moment {
        match self.stream.time.and_then(|at| event.values[at].as_ref()) {
            Some(Value::Int(nanoseconds)) => Moment(*nanoseconds),
            _ => window::moment_of(record.time),
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

    /// Where the event belongs; nowhere if it does not count, or has no group.
    fn place(
        &self,
        record: &Record<'_>,
        event: &Event,
        plan: &StreamPlan,
    ) -> Result<Option<Placed>, Untakable> {
        let view = &*self.view;
        if let Some(condition) = &view.condition
            && !condition.holds(event)?
        {
            return Ok(None);
        }
        let expressions = view.by.iter().map(|field| &field.expression);
        let Some(group) = elements(expressions, event)? else { return Ok(None) };
        let start =
            view.windows.as_ref().map(|windows| windows.start_of(plan.moment(record, event)));
        let key = match start {
            None => self.groups.extended(group),
            Some(start) => keys::window_groups(view, start).extended(group),
        };
        let most = if start.is_some() { KEY_BYTES - keys::DIRTY_MORE } else { KEY_BYTES };
        if key.as_bytes().len() > most {
            return Err(Untakable::Group);
        }
        let shard = keys::shard(&key, plan.shards);
        Ok(Some(Placed { key, shard, start }))
    }

    /// What the event does. One whose group or value is absent does nothing here.
    fn apply(
        &self,
        record: &Record<'_>,
        event: &Event,
        plan: &StreamPlan,
        home: &Home,
        sheet: &mut Sheet,
    ) -> Result<(), Untakable> {
        let view = &*self.view;
        let placed = self.place(record, event, plan)?;
        let taken = match placed {
            Some(_) => elements(view.aggregate.expressions(), event)?,
            None => None,
        };
        let (Some(Placed { key, shard, start }), Some(taken)) = (placed, taken) else {
            if let Some(windowed) = &self.windowed {
                sheet.add(home.shard, windowed.applied.clone(), 1, None);
            }
            return Ok(());
        };
        let change = Change::of(&view.aggregate, taken, || rank(plan, record, event))?;
        if let (Some(windowed), Some(start)) = (&self.windowed, start) {
            let late = || Rejected::of(&plan.stream, record, event, windowed.lateness(start));
            if !windowed.enter(record, shard, start, &key, sheet, late)? {
                return Ok(());
            }
        }
        match change {
            Change::Add(by) => self.add(sheet, shard, key, by),
            Change::Min(rank) => sheet.min(shard, key, rank),
            Change::Max(rank) => sheet.max(shard, key, rank),
            Change::Last(rank, value) => sheet.last(shard, key, rank, value),
            Change::Insert(member) => sheet.insert(shard, key, member),
            Change::Sketch(member) => sheet.sketch(shard, key, member),
        }
        Ok(())
    }

    fn add(&self, sheet: &mut Sheet, shard: Shard, key: Key, by: i64) {
        let note = keys::overflow_note(&self.overflows, &key);
        sheet.add(shard, key, by, Some(note));
    }
}

/// What an event does to its group's cell.
enum Change {
    Add(i64),
    Min(Bytes),
    Max(Bytes),
    Last(Bytes, Bytes),
    Insert(Bytes),
    Sketch(Bytes),
}

impl Change {
    fn of(
        aggregate: &Aggregate,
        taken: Vec<Element>,
        rank: impl FnOnce() -> Bytes,
    ) -> Result<Change, Untakable> {
        Ok(match aggregate {
            Aggregate::Count => Change::Add(1),
            Aggregate::Sum(_) => Change::Add(number(&taken)),
            Aggregate::Min(_) => Change::Min(bounded(taken, RANK_BYTES)?),
            Aggregate::Max(_) => Change::Max(bounded(taken, RANK_BYTES)?),
            Aggregate::Last(_) => Change::Last(rank(), bounded(taken, VALUE_BYTES)?),
            Aggregate::Distinct(_) | Aggregate::Set(_) => {
                Change::Insert(bounded(taken, MEMBER_BYTES)?)
            }
            Aggregate::DistinctApprox(_) => Change::Sketch(bounded(taken, MEMBER_BYTES)?),
        })
    }
}

/// The values of these expressions as elements of a key; none if one of them is absent.
fn elements<'a>(
    expressions: impl IntoIterator<Item = &'a Expression>,
    event: &Event,
) -> Result<Option<Vec<Element>>, EvaluationError> {
    let mut elements = Vec::new();
    for expression in expressions {
        // A plain field is not copied twice.
        let element = match expression.as_field() {
            Some(at) => event.values.get(at).and_then(Option::as_ref).map(Value::element),
            None => expression.evaluate(event)?.as_ref().map(Value::element),
        };
        let Some(element) = element else { return Ok(None) };
        elements.push(element);
    }
    Ok(Some(elements))
}

/// The number that a sum adds: its expression was checked to be one.
fn number(taken: &[Element]) -> i64 {
    match taken {
        [Element::Number(number)] => i64::try_from(*number).unwrap_or_default(),
        _ => 0,
    }
}

fn bounded(taken: Vec<Element>, most: usize) -> Result<Bytes, Untakable> {
    let bytes = Key::of(taken).to_bytes();
    if bytes.len() > most {
        return Err(Untakable::Value(most));
    }
    Ok(bytes)
}

/// What decides which of two events is the later one: event time, then partition and place.
fn rank(plan: &StreamPlan, record: &Record<'_>, event: &Event) -> Bytes {
    let time = plan.moment(record, event).0;
    let (partition, at) = (record.partition.index, record.position);
    let place = [partition.into(), at.era.into(), at.offset.into(), at.record.into()];
    Key::of([Element::from(time)].into_iter().chain(place)).to_bytes()
}

//! The plan of a stream: what each of its events does to its views. Pure.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use consort_cluster::worker::{Cells, Plan, Record, Sheet};
use consort_kernel::limits::{KEY_BYTES, MEMBER_BYTES, RANK_BYTES, VALUE_BYTES};
use consort_kernel::{Element, Key, Name, Note, Shard};

use crate::event::Event;
use crate::expression::{EvaluationError, Expression};
use crate::keys;
use crate::part::PIPELINE;
use crate::rejects::Rejected;
use crate::stream::Stream;
use crate::value::Value;
use crate::view::{Aggregate, View};

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
}

/// A view with what its keys have in common.
#[derive(Debug)]
struct ViewPlan {
    view: Arc<View>,
    groups: Key,
    overflows: Name,
    rejects: Name,
    rejected: Key,
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
}

impl StreamPlan {
    /// The plan of `stream` for those of `views` that are kept of it, in a store of `shards` shards.
    pub fn new(stream: Arc<Stream>, views: &[Arc<View>], shards: u16) -> Self {
        let own = views.iter().filter(|view| view.from.name == stream.name);
        let views = own.map(|view| ViewPlan::new(Arc::clone(view))).collect();
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
        }
    }
}

impl Plan for StreamPlan {
    fn apply(&self, record: &Record<'_>, sheet: &mut Sheet) {
        let Some(home) = self.homes.get(record.partition.index as usize) else { return };
        let event = match Event::decode(&self.stream.schema, record.bytes) {
            Ok(event) => event,
            Err(error) => {
                let (partition, at) = (record.partition, record.position);
                tracing::error!(%partition, offset = at.offset, record = at.record, %error, "left out");
                sheet.add(home.shard, home.unreadable.clone(), 1, None);
                return;
            }
        };
        for view in &self.views {
            if let Err(reason) = view.apply(record, &event, self, sheet) {
                let rejected = Rejected::of(&self.stream, record, &event, reason.to_string());
                let note = Note { feed: view.rejects.clone(), entry: rejected.encode() };
                sheet.append(home.shard, note);
                sheet.add(home.shard, view.rejected.clone(), 1, None);
            }
        }
        sheet.add(home.shard, home.applied.clone(), 1, None);
    }

    fn ids_for(&self) -> Option<Duration> {
        Some(self.stream.ids_for)
    }

    fn id(&self, record: &Record<'_>) -> Option<Bytes> {
        Event::id_of(record.bytes).map(|id| record.bytes.slice_ref(id))
    }

    fn duplicate(&self, record: &Record<'_>, sheet: &mut Sheet) {
        if let Some(home) = self.homes.get(record.partition.index as usize) {
            sheet.add(home.shard, home.duplicates.clone(), 1, None);
        }
    }
}

impl ViewPlan {
    fn new(view: Arc<View>) -> Self {
        ViewPlan {
            groups: keys::groups(&view),
            overflows: keys::overflows(&view.name),
            rejects: keys::rejects(&view.name),
            rejected: keys::rejected(&view.name),
            view,
        }
    }

    /// What the event does. One whose group or value is absent does nothing here.
    fn apply(
        &self,
        record: &Record<'_>,
        event: &Event,
        plan: &StreamPlan,
        sheet: &mut Sheet,
    ) -> Result<(), Untakable> {
        let view = &*self.view;
        if let Some(condition) = &view.condition
            && !condition.holds(event)?
        {
            return Ok(());
        }
        let expressions = view.by.iter().map(|field| &field.expression);
        let Some(group) = elements(expressions, event)? else { return Ok(()) };
        let Some(taken) = elements(view.aggregate.expressions(), event)? else { return Ok(()) };
        let key = self.groups.extended(group);
        if key.as_bytes().len() > KEY_BYTES {
            return Err(Untakable::Group);
        }
        let shard = keys::shard(&key, plan.shards);
        match &view.aggregate {
            Aggregate::Count => self.add(sheet, shard, key, 1),
            Aggregate::Sum(_) => self.add(sheet, shard, key, number(&taken)),
            Aggregate::Min(_) => sheet.min(shard, key, bounded(taken, RANK_BYTES)?),
            Aggregate::Max(_) => sheet.max(shard, key, bounded(taken, RANK_BYTES)?),
            Aggregate::Last(_) => {
                let rank = rank(&plan.stream, record, event);
                sheet.last(shard, key, rank, bounded(taken, VALUE_BYTES)?);
            }
            Aggregate::Distinct(_) | Aggregate::Set(_) => {
                sheet.insert(shard, key, bounded(taken, MEMBER_BYTES)?);
            }
            Aggregate::DistinctApprox(_) => {
                sheet.sketch(shard, key, bounded(taken, MEMBER_BYTES)?);
            }
        }
        Ok(())
    }

    fn add(&self, sheet: &mut Sheet, shard: Shard, key: Key, by: i64) {
        let note = keys::overflow_note(&self.overflows, &key);
        sheet.add(shard, key, by, Some(note));
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
fn rank(stream: &Stream, record: &Record<'_>, event: &Event) -> Bytes {
    let own = stream.time.and_then(|at| event.values[at].as_ref());
    let time = match own {
        Some(Value::Int(nanoseconds)) => *nanoseconds,
        _ => i64::try_from(record.time.0.saturating_mul(1_000_000)).unwrap_or(i64::MAX),
    };
    let (partition, at) = (record.partition.index, record.position);
    let place = [partition.into(), at.era.into(), at.offset.into(), at.record.into()];
    Key::of([Element::from(time)].into_iter().chain(place)).to_bytes()
}

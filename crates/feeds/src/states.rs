//! From changes to states: a run of changes becomes each changed subject once, as it is now.
//!
//! The states are read after the changes, so a state is never older than the changes that it stands for. The next run
//! is read later and therefore finds the same states or newer ones: states never go backwards.

use std::collections::HashMap;

use consort_kernel::{Change, ChangeError, QueryError, Shard, Store};

use crate::row::Row;
use crate::subjects::{CoveredChanges, Subject, SubjectPayload};

/// The states of a run of changes.
#[derive(Debug)]
pub(crate) struct StateRun {
    /// The states, in the order in which their subjects changed first.
    pub(crate) items: Vec<StateItem>,
    /// How many of the changes they stand for, from the first one on.
    pub(crate) rows: usize,
    /// The bytes of the states.
    pub(crate) bytes: usize,
}

/// A state, or a change that cannot be read.
#[derive(Debug)]
pub(crate) struct StateItem {
    /// The first change that it stands for, by its position in the run.
    pub(crate) first: usize,
    /// The number of the last one in the feed.
    pub(crate) number: u64,
    pub(crate) change: Result<Change, ChangeError>,
}

/// The bounds of a run: how many items, and the bytes after which it ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StateBounds {
    pub(crate) items: usize,
    pub(crate) bytes: usize,
}

/// Reads the states that these changes of a shard lead to. The run stands for at least one change.
pub(crate) async fn read_states(
    store: &dyn Store,
    shard: Shard,
    payload: &dyn SubjectPayload,
    rows: &[Row],
    bounds: StateBounds,
) -> Result<StateRun, QueryError> {
    let (units, covered_rows) = units(rows, bounds.items.max(1));
    let asked: Vec<CoveredChanges> = units.iter().filter_map(|unit| unit.covered.clone()).collect();
    let (mut states, mut bytes) = (Vec::new(), 0);
    while states.len() < asked.len() && (states.is_empty() || bytes < bounds.bytes) {
        let left = bounds.bytes.saturating_sub(bytes);
        let found = payload.states(store, shard, &asked[states.len()..], left).await?;
        let sizes = found.iter().flatten().map(|state| state.change.payload.get().len());
        bytes += sizes.sum::<usize>();
        // The contract promises one at least; without it the loop would not end.
        states.extend(if found.is_empty() { vec![None] } else { found });
    }
    let mut states = states.into_iter();
    let mut items = Vec::with_capacity(units.len());
    for unit in units {
        let change = match unit.covered {
            None => rows[unit.first].change.clone(),
            Some(_) => match states.next() {
                Some(Some(state)) => Ok(state.change),
                Some(None) => continue,
                // The states beyond the bound: the run ends before the first change that they stand for.
                None => return Ok(StateRun { items, rows: unit.first, bytes }),
            },
        };
        items.push(StateItem { first: unit.first, number: rows[unit.last].number, change });
    }
    Ok(StateRun { items, rows: covered_rows, bytes })
}

/// One subject of the run, or one change without a subject.
struct Unit {
    covered: Option<CoveredChanges>,
    first: usize,
    last: usize,
}

/// The first units of these changes, and how many changes they are.
fn units(rows: &[Row], most: usize) -> (Vec<Unit>, usize) {
    let mut units: Vec<Unit> = Vec::new();
    let mut by_subject: HashMap<&Subject, usize> = HashMap::new();
    for (at, row) in rows.iter().enumerate() {
        let known = row.subject.as_ref().and_then(|change| by_subject.get(&change.subject));
        if let (Some(known), Some(change), Ok(told)) = (known, &row.subject, &row.change) {
            let unit = &mut units[*known];
            unit.last = at;
            if let Some(covered) = &mut unit.covered {
                (covered.last, covered.time) = (change.revision, told.time);
                covered.is_end = change.is_end;
            }
            continue;
        }
        if units.len() == most {
            return (units, at);
        }
        let covered = row.subject.as_ref().zip(row.change.as_ref().ok()).map(|(change, told)| {
            by_subject.insert(&change.subject, units.len());
            CoveredChanges {
                subject: change.subject.clone(),
                was: change.revision.version.saturating_sub(1),
                last: change.revision,
                time: told.time,
                is_end: change.is_end,
            }
        });
        units.push(Unit { covered, first: at, last: at });
    }
    (units, rows.len())
}

//! Folding a batch by slices: cells of at most a page are read, planned and committed, then the next.
//!
//! A step that the store refuses, or a plan that panics, costs one record and never the partition: the batch is
//! planned again record by record, and a record that fails alone is rejected.

use std::any::Any;
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use bytes::Bytes;
use consort_kernel::limits::PAGE_ROWS;
use consort_kernel::{Key, Shard};

use super::apply::{Batch, Folded};
use super::cells::Loaded;
use super::plan::{Memory, RejectCause};
use super::planner::{BatchPlace, Planner, ReadCells, cells_named};
use super::sheet::SLICE_STEPS;
use super::stand::Position;
use super::{Setback, Worker};

/// Records of one slice at most: naming and planning them takes some milliseconds, for which the thread serves
/// no other role.
const SLICE_RECORDS: usize = 2_000;

/// Why a slice was not committed.
enum SliceFault {
    /// One of its records is at fault.
    Record(RejectCause),
    Setback(Setback),
}

/// The cells of a slice, before they are read.
#[derive(Default)]
struct NamedCells {
    /// In the order in which records name them first.
    cells: Vec<(Shard, Key)>,
    /// The slice's records, each with how many of the cells must be known before it is planned.
    records: Vec<(BatchPlace, usize)>,
    /// The record behind the slice.
    until: Option<BatchPlace>,
}

impl Worker {
    /// Plans and commits a batch slice by slice.
    pub(super) async fn fold_by_slices(
        &self,
        loaded: &mut Loaded,
        batch: Batch<'_>,
    ) -> Result<Folded, Setback> {
        let mut memory = std::mem::take(&mut loaded.memory);
        let known = batch.known;
        let last = batch.entries.last().map(|entry| entry.offset + 1).unwrap_or_default();
        let end = Position { era: batch.stand.era, offset: last, record: 0 };
        let sheet = self.sheet(loaded, ReadCells::default()).with_full_steps(SLICE_STEPS);
        let mut planner = self.planner(loaded, batch, &mut memory, sheet);
        let mut result = Ok(());
        while result.is_ok() && planner.next_frame().is_some() {
            result = if self.doubted.is_some_and(|doubted| planner.position() < doubted) {
                self.fold_alone(loaded, &mut planner).await
            } else {
                match self.fold_slice(loaded, &mut planner).await {
                    Err(SliceFault::Record(cause)) => {
                        tracing::warn!(
                            partition = %self.options.partition, ?cause,
                            "a batch could not be planned; it is planned again record by record"
                        );
                        Err(Setback::Doubted(end))
                    }
                    Err(SliceFault::Setback(setback)) => Err(setback),
                    Ok(()) => Ok(()),
                }
            };
            self.tell_progress(&planner, known);
        }
        let Planner { stand, progress, .. } = planner;
        match result {
            Ok(()) => {
                loaded.memory = memory;
                Ok(Folded { stand, progress })
            }
            Err(setback) => {
                #[cfg(feature = "mutations")]
                self.keep_anyway(memory);
                Err(setback)
            }
        }
    }

    /// Plans the next record as a slice of its own, and rejects it if it is at fault.
    async fn fold_alone(
        &self,
        loaded: &mut Loaded,
        planner: &mut Planner<'_>,
    ) -> Result<(), Setback> {
        let (stand, progress) = (planner.stand.clone(), planner.progress);
        let outcome = match self.read_slice(loaded, planner, true).await {
            Ok(cells) => self.commit_slice(loaded, planner, cells).await,
            Err(fault) => Err(fault),
        };
        let cause = match outcome {
            Ok(()) => return Ok(()),
            Err(SliceFault::Setback(setback)) => return Err(setback),
            Err(SliceFault::Record(cause)) => cause,
        };
        let partition = &self.options.partition;
        (planner.stand, planner.progress) = (stand, progress);
        let record = planner.position();
        tracing::error!(%partition, ?record, ?cause, "a record is rejected: it cannot be applied");
        // The memory and the sheet hold a part of the record. Without them it names all of its cells.
        *planner.memory = Memory::default();
        planner.sheet = self.sheet(loaded, ReadCells::default()).with_full_steps(SLICE_STEPS);
        match self.read_slice(loaded, planner, true).await {
            Ok(cells) => planner.sheet.know(cells),
            // A record whose cells cannot be named is rejected without cells.
            Err(SliceFault::Record(_)) => {}
            Err(SliceFault::Setback(setback)) => return Err(setback),
        }
        let rejected = guarded(|| planner.reject(&cause));
        let stopped = |reason: String| {
            Setback::Loss(format!("a record can neither be applied nor rejected: {reason}"))
        };
        match rejected.map_err(stopped)? {
            None => Ok(()),
            Some(step) => match self.commit_step(loaded, step).await {
                Err(Setback::Oversized(refusal)) => Err(stopped(refusal.to_string())),
                other => other,
            },
        }
    }

    /// Plans and commits the next slice.
    async fn fold_slice(
        &self,
        loaded: &mut Loaded,
        planner: &mut Planner<'_>,
    ) -> Result<(), SliceFault> {
        let cells = self.read_slice(loaded, planner, false).await?;
        self.commit_slice(loaded, planner, cells).await
    }

    /// Reads the cells of the next slice: a page of them, and all those of its first record. The slice ends before
    /// the first record whose cells are not among them; with the first record, if it is to be alone.
    async fn read_slice(
        &self,
        loaded: &Loaded,
        planner: &mut Planner<'_>,
        alone: bool,
    ) -> Result<ReadCells, SliceFault> {
        let most = if alone { 1 } else { SLICE_RECORDS };
        if alone {
            // Also if the record panics when it names its cells.
            planner.until = planner.ahead().nth(1).map(|(at, _)| at);
        }
        let NamedCells { cells, records, until } =
            guarded(|| name_cells(planner, most)).map_err(panicked)?;
        planner.until = until;
        let Some(&(shard, _)) = cells.first() else { return Ok(ReadCells::default()) };
        let elsewhere = cells.iter().find(|(other, _)| *other != shard);
        assert!(elsewhere.is_none(), "a plan that folds by slices has one shard: {elsewhere:?}");
        let keys: Vec<Key> = cells.into_iter().map(|(_, key)| key).collect();
        let first = records.first().map_or(0, |(_, needed)| *needed);
        let mut values = self.read_of_mark(loaded, shard, &keys).await?;
        while values.len() < first {
            values.extend(self.read_of_mark(loaded, shard, &keys[values.len()..]).await?);
        }
        let behind = records.iter().find(|(_, needed)| *needed > values.len());
        planner.until = behind.map(|(at, _)| *at).or(until);
        Ok(keys.into_iter().map(|key| (shard, key)).zip(values).collect())
    }

    /// Reads a page of cells, and the mark with them: what is planned on them is committed to this mark, and must
    /// have been read at it. The commit's own expectation does not say so: a late commit of an owner before may move
    /// the mark, the cells be read, and a fail-over take the commit and the mark back.
    async fn read_of_mark(
        &self,
        loaded: &Loaded,
        shard: Shard,
        keys: &[Key],
    ) -> Result<Vec<Option<Bytes>>, SliceFault> {
        let page = keys.iter().take(PAGE_ROWS - 1).cloned();
        let page: Vec<Key> = std::iter::once(self.cells.mark()).chain(page).collect();
        let mut values = self.read_page(shard, &page).await.map_err(SliceFault::Setback)?;
        let expected = loaded.marks.get(&shard).and_then(|held| held.raw.as_ref());
        let is_expected = values.remove(0).as_ref() == expected;
        #[cfg(feature = "mutations")]
        let is_expected =
            is_expected || self.mutation == Some(crate::mutation::Mutation::CellsOfAnyMark);
        if !is_expected {
            return Err(SliceFault::Setback(Setback::Stale));
        }
        Ok(values)
    }

    /// Plans the slice, and commits it step by step.
    async fn commit_slice(
        &self,
        loaded: &mut Loaded,
        planner: &mut Planner<'_>,
        cells: ReadCells,
    ) -> Result<(), SliceFault> {
        planner.sheet.know(cells);
        while let Some(step) = guarded(|| planner.next()).map_err(panicked)? {
            self.commit_step(loaded, step).await.map_err(|setback| match setback {
                Setback::Oversized(refusal) => SliceFault::Record(RejectCause::Oversized(refusal)),
                other => SliceFault::Setback(other),
            })?;
        }
        Ok(())
    }
}

/// Asks the plan for the cells of up to `most` records, which fit one page.
fn name_cells(planner: &mut Planner<'_>, most: usize) -> NamedCells {
    let (mut named, mut known) = (NamedCells::default(), HashSet::new());
    planner.plan.begin_slice(planner.memory);
    for (at, record) in planner.ahead() {
        if named.records.len() == most {
            named.until = Some(at);
            break;
        }
        if record.position >= planner.taken {
            let cells = cells_named(planner.plan, &record, planner.memory);
            let fresh: Vec<_> = cells.into_iter().filter(|cell| !known.contains(cell)).collect();
            if !named.records.is_empty() && named.cells.len() + fresh.len() > PAGE_ROWS {
                named.until = Some(at);
                break;
            }
            named.cells.extend(fresh.into_iter().filter(|cell| known.insert(cell.clone())));
        }
        named.records.push((at, named.cells.len()));
    }
    named
}

/// Runs the plan; the message, if it panics. Memory and sheet are dropped then.
fn guarded<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| message_of(&*panic))
}

fn message_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic".to_owned())
}

fn panicked(message: String) -> SliceFault {
    tracing::error!(%message, "the plan panicked");
    SliceFault::Record(RejectCause::Panicked)
}

//! Applying one batch: ids, cells, commits by shard, then the checkpoint.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use consort_kernel::limits::PAGE_ROWS;
use consort_kernel::{
    Cell, Commit, CommitError, Expect, FrameKind, Key, Kind, LogEntry, Operation, Shard, Timestamp,
    Value,
};
use futures::future::{join_all, try_join_all};

use super::cells::{Held, Loaded};
use super::ids::{Carried, Ids, Settled};
use super::plan::{ExpiredRange, Folding, Memory};
use super::planner::{Planner, Progress, ReadCells, Step, cells_named, fresh_records};
use super::sheet::{ShardSheet, Sheet};
use super::stand::{Checkpoint, Mark, Position, Stand};
use super::{Applied, Options, Setback, Worker};
use crate::format;
#[cfg(feature = "mutations")]
use crate::mutation::Mutation;

/// Entries on their way into commits.
#[derive(Clone)]
pub(super) struct Batch<'a> {
    /// Before the first of them.
    pub(super) stand: Stand,
    pub(super) entries: &'a [LogEntry],
    /// Records whose id was seen before.
    pub(super) duplicates: &'a BTreeSet<Position>,
    /// The store's time, and the local time then.
    pub(super) known: (Timestamp, Duration),
}

/// A batch that is committed.
pub(super) struct Folded {
    /// Behind its last frame.
    pub(super) stand: Stand,
    pub(super) progress: Progress,
}

/// So many cells of the plan are remembered from one batch to the next.
const CELLS_KEPT: usize = 10_000;

impl Worker {
    /// Commits what `entries`, which follow `stand`, do; then the checkpoint behind them.
    pub(super) async fn apply(
        &self,
        loaded: &mut Loaded,
        stand: Stand,
        entries: &[LogEntry],
    ) -> Result<Applied, Setback> {
        let now = self.options.store.now().await?;
        let known = (now, self.options.runtime.elapsed());
        if entries.is_empty() {
            return Ok(Applied { stand, records: 0, known });
        }
        self.meet_vouched(loaded, entries).await?;
        let Settled { duplicates, kept } = self.settle_ids(loaded, &stand, entries, now).await?;
        #[cfg(feature = "mutations")]
        if self.mutation == Some(Mutation::CheckpointFirst) {
            let mut behind = stand.clone();
            for entry in entries {
                behind.pass(entry, now);
            }
            self.commit_checkpoint(loaded, &behind, kept.clone()).await?;
        }
        let batch = Batch { stand, entries, duplicates: &duplicates, known };
        let folded = match self.options.plan.folding() {
            Folding::Batches => self.fold_at_once(loaded, batch).await?,
            Folding::Slices => self.fold_by_slices(loaded, batch).await?,
        };
        let Folded { stand, progress } = folded;
        if progress.repeats > 0 {
            let repeats = progress.repeats;
            tracing::debug!(partition = %self.options.partition, repeats, "frames were repeats");
        }
        self.commit_checkpoint(loaded, &stand, kept).await?;
        self.delete_expired(loaded, stand.watermark()).await?;
        Ok(Applied { stand, records: progress.records, known })
    }

    /// Plans the batch as a whole, with all its cells read before.
    async fn fold_at_once(&self, loaded: &mut Loaded, batch: Batch<'_>) -> Result<Folded, Setback> {
        let mut memory = Memory::default();
        let cells = self.read_cells(loaded, &batch, &mut memory).await?;
        let sheet = self.sheet(loaded, cells);
        let known = batch.known;
        let mut planner = self.planner(loaded, batch, &mut memory, sheet);
        while let Some(step) = planner.next() {
            #[cfg(feature = "mutations")]
            if self.mutation == Some(Mutation::MembersAlwaysKnown) {
                self.shown.lock().clone_from(planner.sheet.shown());
            }
            self.commit_step(loaded, step).await?;
            self.tell_progress(&planner, known);
        }
        let Planner { stand, progress, sheet, .. } = planner;
        let (cells, shown) = sheet.into_known();
        loaded.shown = shown;
        if cells.len() <= CELLS_KEPT {
            loaded.cells = cells;
        }
        Ok(Folded { stand, progress })
    }

    pub(super) fn planner<'a>(
        &'a self,
        loaded: &Loaded,
        batch: Batch<'a>,
        memory: &'a mut Memory,
        sheet: Sheet,
    ) -> Planner<'a> {
        let Batch { stand, entries, duplicates, known } = batch;
        Planner {
            partition: &self.options.partition,
            plan: &*self.options.plan,
            entries,
            now: known.0,
            duplicates,
            taken: self.taken(loaded),
            stand,
            memory,
            sheet,
            progress: Progress::default(),
            until: None,
        }
    }

    /// All shards of the plan have taken the records before this one.
    fn taken(&self, loaded: &Loaded) -> Position {
        #[cfg(feature = "mutations")]
        if self.mutation == Some(Mutation::TakenPlannedAgain) {
            return Position::default();
        }
        loaded.positions().into_values().min().unwrap_or_default()
    }

    /// A batch can take seconds, and gates go by how far behind it is meanwhile.
    pub(super) fn tell_progress(&self, planner: &Planner<'_>, known: (Timestamp, Duration)) {
        if let Some(next) = planner.next_frame() {
            self.tell_behind(Some(next), known);
        }
    }

    /// Frames that shards have applied before must be those that are read now.
    ///
    /// While a shard that was rolled back catches up, the log may lose its end and grow again between two
    /// reads, somewhere between here and the checkpoint. So what lies beyond these entries is asked for, too:
    /// if it still stands now, then these were read from the same log.
    async fn meet_vouched(&self, loaded: &Loaded, entries: &[LogEntry]) -> Result<(), Setback> {
        let (Some(first), Some(last)) = (entries.first(), entries.last()) else { return Ok(()) };
        if !self.checks_digests() {
            return Ok(());
        }
        let here = first.offset..=last.offset;
        for (offset, digest) in loaded.vouched_ahead().into_iter().filter(|v| here.contains(&v.0)) {
            let met = entries.iter().find(|entry| entry.offset == offset);
            if met.map(|entry| entry.digest) != Some(digest) {
                return Err(Setback::Loss(format!(
                    "entry {offset} was applied as {digest}, and now another stands there"
                )));
            }
        }
        let Options { log, partition, .. } = &self.options;
        Ok(loaded.verify_ahead(&**log, partition, last.offset + 1).await?)
    }

    async fn settle_ids(
        &self,
        loaded: &Loaded,
        stand: &Stand,
        entries: &[LogEntry],
        now: Timestamp,
    ) -> Result<Settled, Setback> {
        let plan = &self.options.plan;
        let Some(lifetime) = plan.ids_for() else { return Ok(Settled::default()) };
        let records = fresh_records(&self.options.partition, stand, entries, 0, now);
        let carried: Vec<Carried> = records
            .filter(|(_, record)| record.kind == FrameKind::Events)
            .filter_map(|(_, record)| {
                let id = plan.id(&record)?;
                Some(Carried { id, position: record.position, time: record.time })
            })
            .collect();
        let ids = Ids {
            cells: &self.cells,
            store: &*self.options.store,
            lifetime,
            checkpoint: &loaded.checkpoint.raw,
        };
        let settled = ids.settle(&carried).await?;
        // At least as many are cleared away as came, so that there is no end to neither.
        for _ in 0..=carried.len() / PAGE_ROWS {
            if !ids.forget(stand.watermark(), PAGE_ROWS).await? {
                break;
            }
        }
        Ok(settled)
    }

    /// The cells that the plan will look at: as they are known, or read now.
    async fn read_cells(
        &self,
        loaded: &mut Loaded,
        batch: &Batch<'_>,
        memory: &mut Memory,
    ) -> Result<ReadCells, Setback> {
        let Batch { stand, entries, known, .. } = batch;
        let records = fresh_records(&self.options.partition, stand, entries, 0, known.0);
        let mut cells = std::mem::take(&mut loaded.cells);
        let mut wanted: BTreeMap<Shard, BTreeSet<Key>> = BTreeMap::new();
        let plan = &*self.options.plan;
        let taken = self.taken(loaded);
        let records = records.filter(|(_, record)| record.position >= taken);
        for cell in records.flat_map(|(_, record)| cells_named(plan, &record, memory)) {
            if !cells.contains_key(&cell) {
                wanted.entry(cell.0).or_default().insert(cell.1);
            }
        }
        let reads = wanted.into_iter().map(|(shard, keys)| async move {
            let keys: Vec<Key> = keys.into_iter().collect();
            let mut values = Vec::with_capacity(keys.len());
            while values.len() < keys.len() {
                values.extend(self.read_page(shard, &keys[values.len()..]).await?);
            }
            Ok::<_, Setback>((shard, keys, values))
        });
        for (shard, keys, values) in try_join_all(reads).await? {
            cells.extend(keys.into_iter().map(|key| (shard, key)).zip(values));
        }
        Ok(cells)
    }

    /// What the first of these bytes cells hold: at least one of them.
    pub(super) async fn read_page(
        &self,
        shard: Shard,
        keys: &[Key],
    ) -> Result<Vec<Option<Bytes>>, Setback> {
        let page = &keys[..keys.len().min(PAGE_ROWS)];
        let cells: Vec<Cell> = page.iter().map(|key| Cell::new(Kind::Bytes, key.clone())).collect();
        let values = self.options.store.get(shard, &cells).await?;
        let bytes = values.into_iter().map(|value| match value {
            Some(Value::Bytes(bytes)) => Some(bytes),
            _ => None,
        });
        Ok(bytes.collect())
    }

    pub(super) fn sheet(&self, loaded: &mut Loaded, cells: ReadCells) -> Sheet {
        // Given back when all of the batch is committed: until then nothing of it is known to be there.
        let shown = std::mem::take(&mut loaded.shown);
        #[cfg(feature = "mutations")]
        let shown = match self.mutation {
            Some(Mutation::MembersAlwaysKnown) => self.shown.lock().clone(),
            _ => shown,
        };
        let sheet = Sheet::new(loaded.positions(), cells, shown);
        #[cfg_attr(not(feature = "mutations"), expect(unused_mut))]
        let mut sheet = sheet.of_tenure(self.tenure.epoch(), self.named.clone());
        #[cfg(feature = "mutations")]
        {
            sheet.mutation = self.mutation;
        }
        sheet
    }

    /// Commits one step to all shards it touches, at once. Those that took it are known by their marks,
    /// whatever became of the others.
    pub(super) async fn commit_step(&self, loaded: &mut Loaded, step: Step) -> Result<(), Setback> {
        let raw = format::encode(&step.end);
        let commits = step.shards.into_iter().map(|(shard, sheet)| {
            let commit = self.commit_of(loaded, shard, sheet, &raw);
            async move { (shard, self.options.store.commit(shard, commit).await) }
        });
        let results = join_all(commits.collect::<Vec<_>>()).await;
        let mut setback = None;
        for (shard, result) in results {
            match result {
                Ok(_) => {
                    let held = Held { raw: Some(raw.clone()), value: step.end.clone() };
                    loaded.marks.insert(shard, held);
                }
                Err(CommitError::Refused(refusal)) => setback = Some(Setback::Oversized(refusal)),
                // A refusal and a loss outweigh everything else: they will not go away by themselves.
                Err(error) => match (Setback::from(error), &setback) {
                    (loss @ Setback::Loss(_), _) => setback = Some(loss),
                    (other, None) => setback = Some(other),
                    _ => {}
                },
            }
        }
        setback.map_or(Ok(()), Err)
    }

    fn commit_of(&self, loaded: &Loaded, shard: Shard, sheet: ShardSheet, mark: &Bytes) -> Commit {
        let key = self.cells.mark();
        let expected = loaded.marks.get(&shard).and_then(|held| held.raw.clone());
        let mut commit = Commit::of(sheet.operations);
        commit.expects = sheet.expects;
        commit.operations.push(Operation::Put { key: key.clone(), value: mark.clone() });
        #[cfg(feature = "mutations")]
        if self.mutation == Some(Mutation::NoMarkCheck) {
            return commit;
        }
        commit.expecting(Expect::Bytes(key, expected))
    }

    /// Deletes some of the cells that no record to come can meet any more.
    ///
    /// The commit expects the mark and does not move it. So an owner whose time is over deletes nothing, and one
    /// whose commit ended unknown may repeat it: nothing but the plan's own commits puts such cells, and they move
    /// the mark.
    pub(super) async fn delete_expired(
        &self,
        loaded: &mut Loaded,
        log_time: Timestamp,
    ) -> Result<(), Setback> {
        let expired = self.options.plan.expired(&self.options.partition, log_time);
        let Some(range) = expired.filter(|range| loaded.deleted.as_ref() != Some(range)) else {
            return Ok(());
        };
        let ExpiredRange { shard, prefix, before } = &range;
        let rows = self.options.store.scan(*shard, Kind::Bytes, prefix, None, PAGE_ROWS).await?;
        let expired = rows.iter().map(|(key, _)| key).take_while(|key| *key < before);
        let deletions: Vec<Operation> =
            expired.map(|key| Operation::Delete(Cell::new(Kind::Bytes, key.clone()))).collect();
        let all_deleted = rows.is_empty() || deletions.len() < rows.len();
        if !deletions.is_empty() {
            let mark = loaded.marks.get(shard).and_then(|held| held.raw.clone());
            let expect = Expect::Bytes(self.cells.mark(), mark);
            self.options.store.commit(*shard, Commit::of(deletions).expecting(expect)).await?;
        }
        if all_deleted {
            loaded.deleted = Some(range);
        }
        Ok(())
    }

    /// Moves the checkpoint to `stand`, unless it is there or beyond: then shards that were rolled back
    /// are still being applied again. It expects that ids are still kept as far as when they told the
    /// duplicates.
    async fn commit_checkpoint(
        &self,
        loaded: &mut Loaded,
        stand: &Stand,
        kept: Option<Expect>,
    ) -> Result<(), Setback> {
        if stand.position() <= loaded.checkpoint.value.stand.position() {
            return Ok(());
        }
        let left = |mark: &Held<Mark>| mark.value.position();
        let marks = loaded.marks.iter().filter(|(_, mark)| mark.raw.is_some());
        let marks = marks.map(|(shard, mark)| (shard.0, left(mark))).collect();
        let checkpoint = Checkpoint { stand: stand.clone(), marks };
        let raw = format::encode(&checkpoint);
        let key = self.cells.checkpoint();
        let put = Operation::Put { key: key.clone(), value: raw.clone() };
        let expect = Expect::Bytes(key, loaded.checkpoint.raw.clone());
        let mut commit = Commit::of([put]).expecting(expect);
        commit.expects.extend(kept);
        self.options.store.commit(self.cells.home(), commit).await?;
        loaded.checkpoint = Held { raw: Some(raw), value: checkpoint };
        Ok(())
    }
}

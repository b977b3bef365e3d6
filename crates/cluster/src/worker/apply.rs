//! Applying one batch: ids, cells, commits by shard, then the checkpoint.

use std::collections::{BTreeMap, BTreeSet};

use consort_kernel::limits::PAGE_ROWS;
use consort_kernel::{
    Cell, Commit, Expect, FrameKind, Key, Kind, LogEntry, Operation, Shard, Timestamp, Value,
};
use futures::future::join_all;

use super::cells::{Held, Loaded};
use super::ids::{Carried, Ids, Settled};
use super::plan::Memory;
use super::planner::{Planner, Progress, ReadCells, Step, cells_named, fresh_records};
use super::sheet::{ShardSheet, Sheet};
use super::stand::{Checkpoint, Mark, Position, Stand};
use super::{Applied, Options, Setback, Worker};
use crate::format;
#[cfg(feature = "mutations")]
use crate::mutation::Mutation;

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
        let mut memory = Memory::default();
        let cells = self.read_cells(loaded, &stand, entries, now, &mut memory).await?;
        let mut planner = Planner {
            partition: &self.options.partition,
            plan: &*self.options.plan,
            entries,
            now,
            duplicates: &duplicates,
            taken: Position::default(),
            stand,
            memory: &mut memory,
            sheet: self.sheet(loaded, cells),
            progress: Progress::default(),
            until: None,
        };
        #[cfg(feature = "mutations")]
        if self.mutation == Some(Mutation::CheckpointFirst) {
            let mut behind = planner.stand.clone();
            for entry in entries {
                behind.pass(entry, now);
            }
            self.commit_checkpoint(loaded, &behind, kept.clone()).await?;
        }
        while let Some(step) = planner.next() {
            #[cfg(feature = "mutations")]
            if self.mutation == Some(Mutation::MembersAlwaysKnown) {
                self.shown.lock().clone_from(planner.sheet.shown());
            }
            self.commit_step(loaded, step).await?;
            // A batch can take seconds, and gates go by how far behind it is meanwhile.
            if let Some(next) = planner.next_frame() {
                self.tell_behind(Some(next), known);
            }
        }
        let (stand, records) = (planner.stand, planner.progress.records);
        if planner.progress.repeats > 0 {
            let repeats = planner.progress.repeats;
            tracing::debug!(partition = %self.options.partition, repeats, "frames were repeats");
        }
        let (cells, shown) = planner.sheet.into_known();
        loaded.shown = shown;
        if cells.len() <= CELLS_KEPT {
            loaded.cells = cells;
        }
        self.commit_checkpoint(loaded, &stand, kept).await?;
        Ok(Applied { stand, records, known })
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
        stand: &Stand,
        entries: &[LogEntry],
        now: Timestamp,
        memory: &mut Memory,
    ) -> Result<ReadCells, Setback> {
        let records = fresh_records(&self.options.partition, stand, entries, 0, now);
        let mut cells = std::mem::take(&mut loaded.cells);
        let mut wanted: BTreeMap<Shard, BTreeSet<Key>> = BTreeMap::new();
        let plan = &*self.options.plan;
        for cell in records.flat_map(|(_, record)| cells_named(plan, &record, memory)) {
            if !cells.contains_key(&cell) {
                wanted.entry(cell.0).or_default().insert(cell.1);
            }
        }
        for (shard, keys) in wanted {
            let keys: Vec<Key> = keys.into_iter().collect();
            for keys in keys.chunks(PAGE_ROWS) {
                let named: Vec<Cell> =
                    keys.iter().map(|key| Cell::new(Kind::Bytes, key.clone())).collect();
                let values = self.options.store.get(shard, &named).await?;
                for (key, value) in keys.iter().zip(values) {
                    let value = match value {
                        Some(Value::Bytes(bytes)) => Some(bytes),
                        _ => None,
                    };
                    cells.insert((shard, key.clone()), value);
                }
            }
        }
        Ok(cells)
    }

    fn sheet(&self, loaded: &mut Loaded, cells: ReadCells) -> Sheet {
        // Given back when all of the batch is committed: until then nothing of it is known to be there.
        let shown = std::mem::take(&mut loaded.shown);
        #[cfg(feature = "mutations")]
        {
            let shown = match self.mutation {
                Some(Mutation::MembersAlwaysKnown) => self.shown.lock().clone(),
                _ => shown,
            };
            let mut sheet = Sheet::new(loaded.positions(), cells, shown);
            sheet.mutation = self.mutation;
            sheet
        }
        #[cfg(not(feature = "mutations"))]
        Sheet::new(loaded.positions(), cells, shown)
    }

    /// Commits one step to all shards it touches, at once. Those that took it are known by their marks,
    /// whatever became of the others.
    async fn commit_step(&self, loaded: &mut Loaded, step: Step) -> Result<(), Setback> {
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
                // A loss outweighs everything else: it will not go away by itself.
                Err(error) => match (Setback::from(error), &setback) {
                    (loss @ Setback::Loss(_), _) => setback = Some(loss),
                    (other, None) => setback = Some(other),
                    _ => {}
                },
            }
        }
        setback.map_or(Ok(()), Err)
    }

    fn commit_of(
        &self,
        loaded: &Loaded,
        shard: Shard,
        sheet: ShardSheet,
        mark: &bytes::Bytes,
    ) -> Commit {
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

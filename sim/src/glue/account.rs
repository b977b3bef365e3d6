//! The account of a run: what the store holds, beside what the naive fold of the crate makes of the log.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use consort_cluster::worker::Cells;
use consort_glue::part::PIPELINE;
use consort_glue::reference::ReferenceFold;
use consort_glue::stored::{PieceOutcome, RowForm};
use consort_glue::{CollectionCells, PieceForm, TenantCounter};
use consort_kernel::LogEntry;

use super::stage::{GlueStage, PARTITIONS};
use super::stored::Stored;
use crate::fold::fresh;
use crate::outcome::Coverage;
use crate::world::{World, at_once};

/// What is known so far.
#[derive(Debug)]
pub(super) struct Account {
    stage: Arc<GlueStage>,
    coverage: Coverage,
}

impl Account {
    pub(super) fn new(stage: Arc<GlueStage>) -> Self {
        Account { stage, coverage: Coverage::default() }
    }

    pub(super) fn coverage(&self) -> Coverage {
        self.coverage.clone()
    }

    pub(super) fn rolled_back(&mut self) {
        self.coverage.add("shards rolled back", 1);
    }

    /// A partition whose log is not applied to its end.
    pub(super) fn unapplied(&self, world: &World) -> Option<String> {
        let unsettled = self.stage.queue.unsettled();
        if unsettled > 0 {
            return Some(format!("{unsettled} messages of the queue are not settled"));
        }
        (0..PARTITIONS).find_map(|index| {
            let at = self.stage.partition(index);
            let last = world.entries(&at).ok()?.last()?.offset;
            let cells = Cells::new(&PIPELINE, &at, self.stage.shards);
            let checkpoint = at_once(cells.read_checkpoint(&*world.store));
            // A shard that was rolled back is behind the checkpoint until its mark has come there again.
            let shard = CollectionCells::shard(index, self.stage.shards);
            let mark = at_once(cells.read_mark(&*world.store, shard));
            let (Ok(checkpoint), Ok(mark)) = (checkpoint, mark) else {
                return Some(format!("{at}: its cells cannot be read"));
            };
            let left = checkpoint.marks.get(&shard.0).copied().unwrap_or_default();
            (checkpoint.stand.next <= last || mark.position() < left)
                .then(|| format!("{at} is at {} of {last}", checkpoint.stand.next))
        })
    }

    /// Compares everything.
    pub(super) fn check(&mut self, world: &World) -> Result<(), String> {
        let stage = Arc::clone(&self.stage);
        let stored = Stored::read(world, &stage)?;
        let mut counts: BTreeMap<(String, TenantCounter), i64> = BTreeMap::new();
        for index in 0..PARTITIONS {
            let entries = world.entries(&stage.partition(index));
            let entries: Vec<LogEntry> = entries.map_err(|error| error.to_string())?;
            let entries = fresh(&entries);
            stage.requests.hold(index, &entries, &mut self.coverage)?;
            let messages = stage.queue.holds(index, &entries)?;
            self.coverage.add("messages of a queue", messages);
            let mut reference = ReferenceFold::new((*stage.collection).clone());
            entries.iter().for_each(|entry| reference.take(index, 0, entry));
            self.cover(&reference);
            equal("rows", index, stored.rows.get(&index), &reference.rows)?;
            equal("rejects", index, stored.rejects.get(&index), &reference.rejects)?;
            equal("outcomes", index, stored.outcomes.get(&index), &reference.outcomes)?;
            stored.documents_hold(index, &reference)?;
            for (name, by) in reference.counters {
                *counts.entry(name).or_default() += by;
            }
        }
        stored.counts_hold(&counts)
    }

    fn cover(&mut self, reference: &ReferenceFold) {
        let delete = RowForm::Piece(PieceForm::Delete);
        let deletes = reference.rows.iter().filter(|row| row.form == delete).count();
        self.coverage.add("versions", reference.rows.len() as u64);
        self.coverage.add("deletes", deletes as u64);
        for reject in &reference.rejects {
            self.coverage.add(&format!("rejected: {}", reject.reason), 1);
        }
        for told in &reference.outcomes {
            let end = match &told.outcome {
                PieceOutcome::Applied(_) => "applied",
                PieceOutcome::Unchanged => "unchanged",
                PieceOutcome::Rejected { .. } => "rejected",
                PieceOutcome::Held(_) => "held",
                PieceOutcome::Queued => "queued",
                PieceOutcome::Repeat => "repeat",
                PieceOutcome::Discarded => "discarded",
            };
            self.coverage.add(&format!("told: {end}"), 1);
            self.coverage.add("told again", told.repeat.into());
        }
        let halted = reference.documents.values().filter(|one| one.halted.is_some()).count();
        self.coverage.add("documents halted at the end", halted as u64);
    }
}

/// Both must be the same, in the same order.
fn equal<T: PartialEq + Debug>(
    what: &str,
    partition: u32,
    stored: Option<&Vec<T>>,
    expected: &[T],
) -> Result<(), String> {
    let stored = stored.map(Vec::as_slice).unwrap_or_default();
    if stored == expected {
        return Ok(());
    }
    let at = stored.iter().zip(expected).take_while(|(one, other)| one == other).count();
    let (found, wanted) = (stored.get(at), expected.get(at));
    Err(format!(
        "the {what} of partition {partition} are not what the log says: {} instead of {}, at {at} {found:?} \
         instead of {wanted:?}",
        stored.len(),
        expected.len()
    ))
}

//! What must hold: at every moment, at some moments, and at the end.

use std::collections::BTreeMap;

use consort_cluster::format::decode;
use consort_cluster::worker::{Cells, Checkpoint, Mark};
use consort_kernel::{Cell, Kind, LogEntry, Shard, Store, Value};

use crate::compare::{difference, read};
use crate::event::{AFTERWARDS, PRIVATE};
use crate::fold::Reach;
use crate::scenario::Scenario;
use crate::shape::name;
use crate::tally::FEED;
use crate::world::at_once;

impl Scenario {
    /// What was seen at any moment so far.
    pub(crate) fn check_always(&self) -> Result<(), String> {
        self.world.witness.complaint().map_or(Ok(()), Err)
    }

    /// Every shard holds what the log says up to its marks, no more and no less.
    pub(crate) fn check_marks(&mut self) -> Result<(), String> {
        self.look_for_hidden()?;
        let log = self.entries()?;
        let mut marks: BTreeMap<(u32, Shard), Reach> = BTreeMap::new();
        for partition in self.shape.all_partitions() {
            for shard in self.shards() {
                marks.insert((partition, shard), self.reach(partition, shard)?);
            }
        }
        let reach = |partition, shard| marks.get(&(partition, shard)).copied().unwrap_or_default();
        let (wanted, _) = self.fold.state(&log, reach);
        let held = read(&self.world.store, &name(FEED))?;
        self.coverage.add("comparisons by the marks", 1);
        // Under an offset that was lost, one shard may still stand for the frame of before.
        let unsettled =
            self.loss.as_ref().is_some_and(|loss| !loss.must_be_noticed() && !loss.resolved);
        let certain = |group| self.is_certain(group) && !(unsettled && group >= AFTERWARDS);
        difference(&held, &wanted, certain)
            .map_or(Ok(()), |what| Err(format!("shards are not what their marks say:\n  {what}")))
    }

    /// Everything before `ends` is applied, and the state is that of the whole log.
    pub(crate) fn check_done(&self, ends: &BTreeMap<u32, u64>) -> Result<(), String> {
        for (&partition, &end) in ends {
            let next = self.checkpoint(partition).stand.next;
            if next < end {
                return Err(format!("partition {partition} is applied to {next} of {end}"));
            }
        }
        let (wanted, _) = self.fold.state(&self.entries()?, |_, _| (u64::MAX, 0));
        let held = read(&self.world.store, &name(FEED))?;
        difference(&held, &wanted, |group| self.is_certain(group))
            .map_or(Ok(()), |what| Err(format!("the state is not what the log says:\n  {what}")))
    }

    /// The state is that of the whole log, and the log is what producers were told.
    pub(crate) fn check_end(&mut self) -> Result<(), String> {
        self.check_done(&BTreeMap::new())?;
        let log = self.entries()?;
        let (_, left) = self.fold.state(&log, |_, _| (0, 0));
        self.coverage.add("repeats left out", left.repeats);
        self.coverage.add("duplicates left out", left.duplicates);
        let lost = self.loss.as_ref().map(|loss| loss.lost()).unwrap_or_default();
        self.source.ledger.check(&log, &lost)
    }

    /// Where each partition's log ends.
    pub(crate) fn ends(&self) -> Result<BTreeMap<u32, u64>, String> {
        let log = self.entries()?;
        let end = |entries: &Vec<LogEntry>| entries.last().map_or(0, |last| last.offset + 1);
        Ok(log.iter().map(|(&partition, entries)| (partition, end(entries))).collect())
    }

    fn entries(&self) -> Result<BTreeMap<u32, Vec<LogEntry>>, String> {
        let read = |partition| Ok((partition, self.entries_of(partition)?));
        self.shape.all_partitions().map(read).collect()
    }

    /// What a partition's log holds.
    pub(crate) fn entries_of(&self, partition: u32) -> Result<Vec<LogEntry>, String> {
        let entries = self.world.entries(&self.shape.partition(partition));
        entries.map_err(|error| format!("the log of partition {partition}: {error}"))
    }

    /// How far a shard's mark says it has come with a partition.
    fn reach(&self, partition: u32, shard: Shard) -> Result<Reach, String> {
        let mark: Mark = self.cell(shard, self.cells(partition).mark())?;
        // Nothing of what came after a deep loss may be applied before the partition has begun anew.
        let counts = self.loss.as_ref().is_none_or(|loss| {
            !loss.must_be_noticed() || loss.partition != partition || mark.position().era > 0
        });
        let position = mark.position();
        Ok(if counts { (position.offset, position.record) } else { (0, 0) })
    }

    /// Whether the state of a group is known from the log. What was there before a loss is not; what came
    /// after it is, unless the loss is hidden or fell into frames that only some shards had applied.
    fn is_certain(&self, group: u16) -> bool {
        let half = self.loss.as_ref().is_some_and(|loss| !loss.deep && loss.resolved);
        let hidden = self.loss.as_ref().is_some_and(|loss| loss.hidden);
        group < PRIVATE || group >= AFTERWARDS && !half && !hidden
    }

    /// The checkpoint of a partition.
    pub(crate) fn checkpoint(&self, partition: u32) -> Checkpoint {
        let cells = self.cells(partition);
        self.cell(cells.home(), cells.checkpoint()).unwrap_or_default()
    }

    fn cells(&self, partition: u32) -> Cells {
        let (pipeline, partition) = (self.shape.pipeline(), self.shape.partition(partition));
        Cells::new(&pipeline, &partition, self.shape.shards)
    }

    fn cell<T>(&self, shard: Shard, key: consort_kernel::Key) -> Result<T, String>
    where
        T: serde::de::DeserializeOwned + Default,
    {
        let cell = Cell::new(Kind::Bytes, key);
        match at_once(self.world.store.get(shard, &[cell])).map(|mut values| values.pop().flatten())
        {
            Ok(Some(Value::Bytes(bytes))) => decode(&bytes).map_err(|error| error.to_string()),
            _ => Ok(T::default()),
        }
    }
}

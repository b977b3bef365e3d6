//! Where a worker keeps its place: the checkpoint in the partition's home shard, a mark in every shard.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use consort_kernel::{
    Cell, Cursor, Digest, Element, Fault, Key, Kind, Log, Most, Name, Partition, QueryError,
    ReadError, Shard, Store, Value, shard_of,
};
use futures::future::try_join_all;
use serde::de::DeserializeOwned;

use super::Setback;
use super::plan::{ExpiredRange, Memory};
use super::planner::ReadCells;
use super::shown::Shown;
use super::stand::{Checkpoint, Mark, Position, Stand};
use crate::format;

/// The cells of one pipeline of one partition.
#[derive(Clone, Debug)]
pub struct Cells {
    /// What all keys of this pipeline and partition end with.
    place: [Element; 3],
    home: Shard,
    /// The shards that the pipeline touches.
    pub(super) shards: Vec<Shard>,
}

/// A cell as it was read or written last: the bytes to expect, and what they mean.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Held<T> {
    pub(super) raw: Option<Bytes>,
    pub(super) value: T,
}

/// Where a worker begins.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) checkpoint: Held<Checkpoint>,
    pub(super) marks: BTreeMap<Shard, Held<Mark>>,
    /// Where to go on: the checkpoint, or the lowest mark that was rolled back.
    pub(super) start: Stand,
    /// Shards that hold less than the checkpoint knows they held.
    pub(super) rolled_back: Vec<Shard>,
    /// Cells of the plan as they were read or left last. Every commit expects them, so one that somebody
    /// else changed is noticed, and then all is loaded again.
    pub(super) cells: ReadCells,
    /// Members that were committed since.
    pub(super) shown: Shown,
    /// The memory of a plan that folds by slices: it goes with the marks.
    pub(super) memory: Memory,
    /// The expired cells that were deleted last, all of them.
    pub(super) deleted: Option<ExpiredRange>,
}

impl Cells {
    /// The cells of `pipeline` on `partition`, in a store of `shards` shards.
    pub fn new(pipeline: &Name, partition: &Partition, shards: u16) -> Self {
        let place =
            [pipeline.as_str().into(), partition.stream.as_str().into(), partition.index.into()];
        let home = shard_of(&Key::of(place.clone()), shards);
        Cells { place, home, shards: (0..shards).map(Shard).collect() }
    }

    /// The cells of a pipeline that touches these shards only; `None`: all.
    pub(super) fn of_shards(self, named: Option<Vec<Shard>>) -> Self {
        let shards = named.unwrap_or(self.shards);
        Cells { shards, ..self }
    }

    /// The shard of the checkpoint and of the ids.
    pub fn home(&self) -> Shard {
        self.home
    }

    /// The checkpoint's key.
    pub fn checkpoint(&self) -> Key {
        self.key("checkpoint")
    }

    /// The key of the mark, the same in every shard.
    pub fn mark(&self) -> Key {
        self.key("mark")
    }

    /// What the keys of all ids begin with.
    pub(super) fn ids(&self) -> Key {
        self.key("id")
    }

    /// The key of the place up to which ids are kept.
    pub(super) fn kept(&self) -> Key {
        self.key("kept")
    }

    fn key(&self, what: &str) -> Key {
        Key::of([what.into()].into_iter().chain(self.place.clone()))
    }

    /// The checkpoint as it stands; the beginning if there is none.
    pub async fn read_checkpoint(&self, store: &dyn Store) -> Result<Checkpoint, ReadCellError> {
        let held = read::<Checkpoint>(store, self.home, self.checkpoint()).await?;
        Ok(held.value)
    }

    /// The mark of `shard` as it stands; the beginning if there is none. It passes a position before the checkpoint
    /// does, unless the records up to there did nothing to the shard.
    pub async fn read_mark(&self, store: &dyn Store, shard: Shard) -> Result<Mark, ReadCellError> {
        Ok(read::<Mark>(store, shard, self.mark()).await?.value)
    }

    /// Reads checkpoint and marks, in this order: marks only grow, so one that is found below what the
    /// checkpoint says was rolled back. Read the other way round, an owner at work between the two reads
    /// would look like a loss.
    pub(super) async fn load(
        &self,
        store: &dyn Store,
        log: &dyn Log,
        partition: &Partition,
    ) -> Result<Loaded, Setback> {
        let checkpoint = read::<Checkpoint>(store, self.home, self.checkpoint()).await?;
        let read_mark = async |shard: Shard| {
            Ok::<_, ReadCellError>((shard, read::<Mark>(store, shard, self.mark()).await?))
        };
        let marks: BTreeMap<Shard, Held<Mark>> =
            try_join_all(self.shards.iter().copied().map(read_mark)).await?.into_iter().collect();

        let unused = checkpoint.raw.is_none() && marks.values().all(|mark| mark.raw.is_none());
        let mut start = checkpoint.value.stand.clone();
        if unused {
            // A new pipeline takes what the log still has.
            start.next = log.first(partition).await?;
        }
        let mut rolled_back = Vec::new();
        for (&shard, mark) in &marks {
            let left = checkpoint.value.marks.get(&shard.0).copied().unwrap_or_default();
            if mark.value.position() < left {
                rolled_back.push(shard);
                if mark.value.position() < start.position() {
                    start = mark.value.stand.clone();
                }
            }
        }
        Ok(Loaded {
            checkpoint,
            marks,
            start,
            rolled_back,
            cells: ReadCells::new(),
            shown: Shown::default(),
            memory: Memory::default(),
            deleted: None,
        })
    }
}

impl Loaded {
    /// The shards' places, for planning.
    pub(super) fn positions(&self) -> BTreeMap<Shard, Position> {
        self.marks.iter().map(|(&shard, mark)| (shard, mark.value.position())).collect()
    }

    /// The marks, as they must be expected.
    pub(super) fn raw_marks(&self) -> BTreeMap<Shard, Option<Bytes>> {
        self.marks.iter().map(|(&shard, mark)| (shard, mark.raw.clone())).collect()
    }

    /// Refuses marks of another era than the checkpoint's: their offsets count frames of another log.
    ///
    /// Marks ahead are those of a decision that was cut off, or the checkpoint's shard was rolled back to
    /// before it. A mark behind is that of a shard that was rolled back. Either way only the operator knows
    /// where to go on.
    pub(super) fn verify_era(&self) -> Result<(), Setback> {
        let era = self.checkpoint.value.stand.era;
        match self.marks.iter().find(|(_, mark)| mark.value.stand.era != era) {
            None => Ok(()),
            Some((shard, mark)) => Err(Setback::Loss(format!(
                "the mark of {shard} is of era {}, the checkpoint of era {era}: a decision on this partition \
                 was cut off, or a shard was rolled back to before it; decide again",
                mark.value.stand.era
            ))),
        }
    }

    /// The frames from `start` on that shards have applied or the checkpoint has passed: they must be met
    /// again, the same.
    ///
    /// Otherwise the log lost its end after they were applied, and what stands there now would be taken
    /// for applied. Two owners may have left different frames under one offset, one of them read before a
    /// loss: so these are pairs, and of two for one offset one will not be met.
    pub(super) fn vouched_ahead(&self) -> BTreeSet<(u64, Digest)> {
        let marks = self.marks.values().filter_map(|mark| mark.value.vouched());
        let vouched = marks.chain(self.checkpoint.value.stand.last);
        vouched.filter(|&(offset, _)| offset >= self.start.next).collect()
    }

    /// Asks the log for the last of the frames that must be met again, if it stands at `from` or beyond: a
    /// log loses its end, so where that one stands, all before it do.
    pub(super) async fn verify_ahead(
        &self,
        log: &dyn Log,
        partition: &Partition,
        from: u64,
    ) -> Result<(), ReadError> {
        if let Some((offset, digest)) = self.vouched_ahead().pop_last()
            && offset >= from
        {
            let behind = Cursor::behind(offset, digest);
            log.read(partition, &behind, Most::entries(1), Duration::ZERO).await?;
        }
        Ok(())
    }
}

/// Why a cell of the worker's could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadCellError {
    /// The engine's own failure.
    #[error("{0}")]
    Query(#[from] QueryError),
    /// It is not what this release writes.
    #[error("the cell {key} of {shard} cannot be read: {error}")]
    Format {
        /// Which cell.
        key: String,
        /// Where.
        shard: Shard,
        /// What does not fit.
        error: format::FormatError,
    },
}

impl From<ReadCellError> for Setback {
    fn from(error: ReadCellError) -> Self {
        match error {
            ReadCellError::Query(QueryError::Engine(fault)) => Setback::Fault(fault),
            other => Setback::Loss(other.to_string()),
        }
    }
}

impl From<Fault> for Setback {
    fn from(fault: Fault) -> Self {
        Setback::Fault(fault)
    }
}

async fn read<T: DeserializeOwned + Default>(
    store: &dyn Store,
    shard: Shard,
    key: Key,
) -> Result<Held<T>, ReadCellError> {
    let cells = store.get(shard, &[Cell::new(Kind::Bytes, key.clone())]).await?;
    match cells.into_iter().next().flatten() {
        Some(Value::Bytes(raw)) => {
            let value = format::decode(&raw).map_err(|error| ReadCellError::Format {
                key: format!("{key:?}"),
                shard,
                error,
            })?;
            Ok(Held { raw: Some(raw), value })
        }
        _ => Ok(Held { raw: None, value: T::default() }),
    }
}

//! What a run looks like: drawn from its seed before it begins.

use std::fmt;
use std::time::Duration;

use consort_cluster::mutation::Mutation;
use consort_kernel::{Most, Name, Partition};

use crate::dice::Dice;
use crate::faults::{FaultKind, Faults};

/// A rule that is broken on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Twist {
    /// One of the worker's.
    Worker(Mutation),
    /// A producer sends a frame before the one before it is settled.
    TwoInFlight,
    /// The store's minimum is a read and then a put.
    ReadThenPutMin,
}

/// Who says which node works on a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ownership {
    /// The scenario, at will: nobody, one, or several at once.
    Assigned,
    /// The cluster's nodes, by their leases.
    Leased,
}

/// What a run looks like.
#[derive(Clone, Debug)]
pub struct Shape {
    /// The seed.
    pub seed: u64,
    /// The rule that is broken, if any.
    pub twist: Option<Twist>,
    /// How many nodes.
    pub nodes: u32,
    /// How many partitions.
    pub partitions: u32,
    /// How many shards.
    pub shards: u16,
    /// Who owns.
    pub ownership: Ownership,
    /// How many groups all partitions share.
    pub groups: u16,
    /// How many different ids there are in a partition.
    pub ids: u64,
    /// For how long ids count.
    pub ids_for: Duration,
    /// How long a partition is silent before it ticks.
    pub tick_after: Option<Duration>,
    /// How many frames a worker reads at once.
    pub batch: usize,
    /// How far apart a worker's batches begin.
    pub linger: Duration,
    /// How long a worker may get nowhere.
    pub yield_after: Duration,
    /// Producers on each node that go through an appender.
    pub producers: u32,
    /// Producers on each node that make their frames themselves.
    pub raw_producers: u32,
    /// How long a producer waits between two frames at most.
    pub gap: Duration,
    /// Frames in all, about.
    pub frames: u64,
    /// Of a thousand records, how many are so large that commits are cut.
    pub large: u32,
    /// How many turns the faulty part has.
    pub turns: u32,
    /// How long a turn takes at most.
    pub turn: Duration,
    /// The partition that may lose its tail.
    pub lossy: Option<u32>,
}

impl Shape {
    /// The shape of the run of `seed`.
    pub fn draw(seed: u64, faults: &Faults, twist: Option<Twist>) -> Self {
        let dice = Dice::new(seed, "shape");
        let between = |low: u64, high: u64| low + dice.below(high - low + 1);
        let millis = Duration::from_millis;
        let partitions = between(1, 4) as u32;
        let lossy = dice.below(u64::from(partitions)) as u32;
        let raw_producers = between(0, 1) as u32;
        let leased = dice.per_mille(500);
        let linger = Dice::new(seed, "linger").pick(&[0, 0, 20, 100]).unwrap_or_default();
        let turns = [millis(5), millis(50), millis(300), millis(1_500)];
        let turn = dice.pick(&turns).unwrap_or_default();
        Shape {
            seed,
            twist,
            nodes: between(2, 4) as u32,
            partitions,
            shards: between(2, 5) as u16,
            ownership: if leased { Ownership::Leased } else { Ownership::Assigned },
            groups: between(1, 4) as u16,
            ids: between(3, 60),
            ids_for: dice.pick(&[millis(200), millis(2_000), millis(30_000)]).unwrap_or_default(),
            tick_after: dice.per_mille(300).then(|| millis(between(500, 3_000))),
            batch: between(1, 6) as usize,
            linger: millis(linger),
            yield_after: millis(between(3_000, 20_000)),
            producers: between(1, 2) as u32,
            raw_producers: raw_producers.max(u32::from(twist == Some(Twist::TwoInFlight))),
            // So that frames come until the faults end, more or less.
            gap: turn * dice.pick(&[1, 3, 8]).unwrap_or(1),
            frames: between(20, 250),
            large: dice.pick(&[0, 0, 0, 8]).unwrap_or_default(),
            turns: between(30, 150) as u32,
            turn,
            lossy: (faults.rate(FaultKind::LosesTail) > 0).then_some(lossy),
        }
    }

    /// The stream's partition `index`.
    pub fn partition(&self, index: u32) -> Partition {
        Partition::new(name("s"), index)
    }

    /// All partitions.
    pub fn all_partitions(&self) -> impl Iterator<Item = u32> + use<> {
        0..self.partitions
    }

    /// The pipeline of all workers.
    pub fn pipeline(&self) -> Name {
        name("tally")
    }

    /// How much a worker reads at once.
    pub fn batch(&self) -> Most {
        Most::entries(self.batch)
    }

    /// The worker's rule that is broken.
    pub fn mutation(&self) -> Option<Mutation> {
        match self.twist {
            Some(Twist::Worker(mutation)) => Some(mutation),
            _ => None,
        }
    }
}

/// A name that is known to be one.
pub fn name(text: &'static str) -> Name {
    Name::new(text).unwrap_or_else(|error| panic!("'{text}' is no name: {error}"))
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shape { nodes, partitions, shards, ownership, turns, turn, .. } = self;
        write!(
            f,
            "{nodes} nodes, {partitions} partitions, {shards} shards, {ownership:?} owners, "
        )?;
        let Shape { producers, raw_producers, frames, gap, groups, ids, ids_for, .. } = self;
        write!(
            f,
            "{producers} producers and {raw_producers} raw ones on each node, {frames} frames "
        )?;
        write!(f, "with up to {gap:?} between two, {groups} groups, {ids} ids for {ids_for:?}, ")?;
        let Shape { batch, linger, yield_after, tick_after, large, lossy, twist, .. } = self;
        write!(
            f,
            "batches of {batch} {linger:?} apart, yields after {yield_after:?}, ticks after {tick_after:?}, "
        )?;
        write!(
            f,
            "{large}‰ large records, {turns} turns of up to {turn:?}, lossy partition {lossy:?}"
        )?;
        twist.map_or(Ok(()), |twist| write!(f, ", {twist:?}"))
    }
}

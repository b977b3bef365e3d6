//! Owners at the scenario's will: nobody, one, or several at once on the same partition.

use std::collections::BTreeMap;
use std::sync::Arc;

use consort_cluster::tenure::TenureControl;
use consort_cluster::{Ended, Role, Task, Tenure, worker};
use futures::FutureExt;

use crate::dice::Dice;
use crate::shape::Shape;
use crate::station::Station;
use crate::tally::Tally;

/// How many owners a partition has at once at most.
const AT_ONCE: usize = 3;

/// Of a thousand turns, in how many a partition without an owner gets one.
const TAKEN_UP: u32 = 200;

/// Of a thousand turns, in how many a partition's owners are changed.
const CHANGED: u32 = 60;

/// A worker at work.
#[derive(Debug)]
struct Owner {
    node: u32,
    partition: u32,
    control: TenureControl,
    task: Task<Ended>,
}

/// Who works on what.
#[derive(Debug)]
pub(crate) struct Assigned {
    shape: Shape,
    tally: Arc<Tally>,
    owners: Vec<Owner>,
    epoch: u64,
    /// How often two owners were at work at once.
    pub(crate) doubled: u64,
    /// How often an owner gave up.
    pub(crate) yielded: u64,
}

impl Assigned {
    /// Nobody yet.
    pub(crate) fn new(shape: Shape, tally: Arc<Tally>) -> Self {
        Assigned { shape, tally, owners: Vec::new(), epoch: 0, doubled: 0, yielded: 0 }
    }

    /// A node is gone, and its owners with it.
    pub(crate) fn crashed(&mut self, node: u32) {
        self.owners.retain(|owner| owner.node != node);
    }

    /// Takes note of owners that ended, and changes some; an error if one panicked.
    pub(crate) fn turn(&mut self, dice: &Dice, up: &BTreeMap<u32, Station>) -> Result<(), String> {
        self.reap()?;
        for partition in self.shape.all_partitions() {
            let of = |owner: &Owner| owner.partition == partition;
            let at: Vec<usize> =
                (0..self.owners.len()).filter(|&at| of(&self.owners[at])).collect();
            let Some(one) = dice.pick(&at) else {
                if dice.per_mille(TAKEN_UP) {
                    self.start(dice, up, partition);
                }
                continue;
            };
            if !dice.per_mille(CHANGED) {
                continue;
            }
            match dice.below(3) {
                0 => self.owners[one].control.end(),
                1 => drop(self.owners.remove(one)),
                _ if at.len() < AT_ONCE => self.start(dice, up, partition),
                _ => {}
            }
        }
        Ok(())
    }

    /// Sees to it that every partition has an owner; an error if one panicked.
    pub(crate) fn fill(&mut self, dice: &Dice, up: &BTreeMap<u32, Station>) -> Result<(), String> {
        self.reap()?;
        for partition in self.shape.all_partitions() {
            if !self.owners.iter().any(|owner| owner.partition == partition) {
                self.start(dice, up, partition);
            }
        }
        Ok(())
    }

    /// Whether somebody says that this partition is stopped.
    pub(crate) fn is_stopped(&self, partition: u32) -> bool {
        let its = self.owners.iter().filter(|owner| owner.partition == partition);
        its.into_iter().any(|owner| owner.control.is_stopped())
    }

    fn reap(&mut self) -> Result<(), String> {
        for owner in std::mem::take(&mut self.owners) {
            let Owner { node, partition, control, mut task } = owner;
            match (&mut task).now_or_never() {
                None => self.owners.push(Owner { node, partition, control, task }),
                Some(Ok(Ended::Yielded { .. })) => self.yielded += 1,
                Some(Ok(Ended::Drained)) => {}
                Some(Ok(Ended::Stopped { reason })) => {
                    return Err(format!("the worker left its partition stopped: {reason}"));
                }
                Some(Err(panicked)) => return Err(panicked.to_string()),
            }
        }
        Ok(())
    }

    fn start(&mut self, dice: &Dice, up: &BTreeMap<u32, Station>, partition: u32) {
        let nodes: Vec<u32> = up.keys().copied().collect();
        let Some(station) = dice.pick(&nodes).and_then(|node| up.get(&node)) else { return };
        self.doubled += u64::from(self.owners.iter().any(|owner| owner.partition == partition));
        self.epoch += 1;
        let at = self.shape.partition(partition);
        let (tenure, control) = Tenure::new(Role::new("worker", at.to_string()), self.epoch);
        let options = station.worker(&self.shape, &self.tally, partition);
        let name = format!("worker of {at}");
        let task = Task::spawn(
            &*station.runtime,
            &name,
            worker::run_broken(options, tenure, self.shape.mutation()),
        );
        self.owners.push(Owner { node: station.node, partition, control, task });
    }
}

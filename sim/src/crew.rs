//! The nodes of a scenario and the owners of its roles, who change while nodes crash and pause.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use consort_cluster::tenure::TenureControl;
use consort_cluster::{Ended, Part, Role, Task, Tenure, queue_consumer};
use futures::FutureExt as _;

use crate::dice::Dice;
use crate::faults::FaultKind;
use crate::world::World;

/// Of a thousand turns, in how many a role changes hands; of those, some have two owners for a while.
const CHANGED: u32 = 150;

/// How long a killed or paused node is away at most.
const AWAY: Duration = Duration::from_secs(40);

/// Starts a node: its part, and whatever else runs on it.
type Start = Box<dyn Fn(&World, &Dice, u32) -> Arc<dyn Part>>;

/// The owner of a role.
struct Owner {
    node: u32,
    role: Role,
    control: TenureControl,
    task: Task<Ended>,
}

/// Nodes and owners.
pub(crate) struct Crew {
    start: Start,
    roles: Vec<Role>,
    owners: Vec<Owner>,
    up: BTreeMap<u32, Arc<dyn Part>>,
    away: BTreeMap<u32, Duration>,
    paused: BTreeMap<u32, Duration>,
    epoch: u64,
}

impl Crew {
    /// No node yet, for these roles.
    pub(crate) fn new(roles: Vec<Role>, start: Start) -> Self {
        Crew {
            start,
            roles,
            owners: Vec::new(),
            up: BTreeMap::new(),
            away: BTreeMap::new(),
            paused: BTreeMap::new(),
            epoch: 0,
        }
    }

    /// Starts a node.
    pub(crate) fn start(&mut self, world: &World, dice: &Dice, node: u32) {
        let part = (self.start)(world, dice, node);
        self.up.insert(node, part);
    }

    /// Crashes or pauses a node, if the faults say so.
    pub(crate) fn strike(&mut self, world: &World, dice: &Dice) {
        let up: Vec<u32> = self.up.keys().copied().collect();
        let Some(node) = dice.pick(&up) else { return };
        let until = world.handle().now() + dice.time(AWAY);
        if world.faults.strikes(FaultKind::Crash) {
            world.handle().crash(node);
            self.up.remove(&node);
            self.paused.remove(&node);
            self.owners.retain(|owner| owner.node != node);
            self.away.insert(node, until);
        } else if !self.paused.contains_key(&node) && world.faults.strikes(FaultKind::Pause) {
            world.handle().pause(node);
            self.paused.insert(node, until);
        }
    }

    /// Brings the nodes back whose time has come.
    pub(crate) fn recover(&mut self, world: &World, dice: &Dice) {
        let now = world.handle().now();
        for node in due(&mut self.away, now) {
            self.start(world, dice, node);
        }
        for node in due(&mut self.paused, now) {
            world.handle().resume(node);
        }
    }

    /// Brings all nodes back.
    pub(crate) fn recover_all(&mut self, world: &World, dice: &Dice) {
        for until in self.away.values_mut().chain(self.paused.values_mut()) {
            *until = Duration::ZERO;
        }
        self.recover(world, dice);
    }

    /// Gives every free role an owner, and lets some roles change hands.
    pub(crate) fn change_hands(&mut self, world: &World, dice: &Dice) -> Result<(), String> {
        self.reap()?;
        for role in self.roles.clone() {
            let mut owned = (0..self.owners.len()).filter(|&at| self.owners[at].role == role);
            let one = owned.next();
            let alone = owned.next().is_none();
            match one {
                None => self.take_up(world, dice, role),
                Some(at) if dice.per_mille(CHANGED) => match dice.below(3) {
                    0 => self.owners[at].control.end(),
                    1 => drop(self.owners.remove(at)),
                    _ if alone => self.take_up(world, dice, role),
                    _ => {}
                },
                Some(_) => {}
            }
        }
        Ok(())
    }

    /// Gives every free role an owner.
    pub(crate) fn fill(&mut self, world: &World, dice: &Dice) -> Result<(), String> {
        self.reap()?;
        for role in self.roles.clone() {
            if !self.owners.iter().any(|owner| owner.role == role) {
                self.take_up(world, dice, role);
            }
        }
        Ok(())
    }

    /// Why a role stands still, if one does.
    pub(crate) fn stopped(&self) -> Option<String> {
        self.owners.iter().find_map(|owner| owner.control.gauge().stopped)
    }

    fn reap(&mut self) -> Result<(), String> {
        for mut owner in std::mem::take(&mut self.owners) {
            match (&mut owner.task).now_or_never() {
                None => self.owners.push(owner),
                Some(Ok(Ended::Stopped { reason })) => return Err(reason),
                Some(Ok(_)) => {}
                Some(Err(panicked)) => return Err(panicked.to_string()),
            }
        }
        Ok(())
    }

    fn take_up(&mut self, world: &World, dice: &Dice, role: Role) {
        let mut nodes: Vec<u32> = self.up.keys().copied().collect();
        if role.kind() == queue_consumer::KIND {
            // A node has one session with a queue, for one tenure at a time.
            nodes.retain(|node| {
                !self.owners.iter().any(|own| own.role == role && own.node == *node)
            });
        }
        let Some(node) = dice.pick(&nodes) else { return };
        let Some(part) = self.up.get(&node) else { return };
        self.epoch += 1;
        let (tenure, control) = Tenure::new(role.clone(), self.epoch);
        let runtime = world.runtime(node);
        let task = Task::spawn(&*runtime, &role.to_string(), part.work(tenure));
        self.owners.push(Owner { node, role, control, task });
    }
}

impl fmt::Debug for Crew {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Crew").field("up", &self.up.len()).finish_non_exhaustive()
    }
}

/// Takes those whose time has come.
fn due(times: &mut BTreeMap<u32, Duration>, now: Duration) -> Vec<u32> {
    let due = times.extract_if(.., |_, until| *until <= now);
    due.map(|(node, _)| node).collect()
}

//! Windows under faults: workers, closers and producers on a few nodes, then calm, and then the account: the
//! newest row of every group is what the log says, less what was listed as late; nothing was closed early;
//! and what was let go is gone for good.

mod account;
mod stage;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use consort_cluster::tenure::TenureControl;
use consort_cluster::{Ended, Part as _, Role, Task, Tenure};
use consort_views::StreamsPart;
use consort_views::part::{Rule, Rules};
use futures::FutureExt as _;

use crate::dice::Dice;
use crate::faults::{FaultKind, Faults};
use crate::outcome::Coverage;
use crate::world::World;
use account::Account;
use stage::{Stage, produce};

const NODES: u32 = 3;
const SHARDS: u16 = 2;

/// Turns in which things go wrong, and how long each is at most.
const TURNS: usize = 80;
const TURN: Duration = Duration::from_secs(3);

/// Of a thousand turns, in how many a role changes hands; of those, some have two owners for a while.
const CHANGED: u32 = 150;

/// How long a call takes at most when it is not slow; one of these for a run.
const DELAYS: [Duration; 2] = [Duration::from_millis(5), Duration::from_millis(300)];

/// How long a killed or paused node is away at most.
const AWAY: Duration = Duration::from_secs(40);

/// How long after the last fault all windows must be closed, and how long then until all are let go.
const CLOSED_WITHIN: Duration = Duration::from_secs(120);
const GONE_WITHIN: Duration = Duration::from_secs(240);

/// Faults that this scenario is about. Engines that lose data are another matter.
const FAULTS: [FaultKind; 9] = [
    FaultKind::WriteFails,
    FaultKind::RequestLost,
    FaultKind::AnswerLost,
    FaultKind::Straggles,
    FaultKind::ReadFails,
    FaultKind::ClockFails,
    FaultKind::Slow,
    FaultKind::Crash,
    FaultKind::Pause,
];

/// Who works on a role.
struct Owner {
    node: u32,
    role: Role,
    control: TenureControl,
    task: Task<Ended>,
}

struct Run {
    // The first field: dropping it ends all tasks before what they use goes.
    world: World,
    stage: Arc<Stage>,
    dice: Dice,
    owners: Vec<Owner>,
    up: BTreeMap<u32, Arc<StreamsPart>>,
    away: BTreeMap<u32, Duration>,
    paused: BTreeMap<u32, Duration>,
    rules: Rules,
    epoch: u64,
    account: Account,
}

/// Runs a seed, with a rule broken if that is wanted. Says what happened, or what did not hold.
pub fn run(seed: u64, broken: Option<Rule>) -> Result<Coverage, String> {
    let drawn = Faults::draw(seed);
    let faults = FAULTS
        .iter()
        .fold(Faults::none(seed), |faults, &kind| faults.with(kind, drawn.rate(kind).min(50)));
    let delay = Dice::new(seed, "delay").pick(&DELAYS).unwrap_or_default();
    let world = World::with_faults(seed, SHARDS, faults.delayed(delay));
    let mut run = Run {
        stage: Arc::new(Stage::new(seed)),
        dice: Dice::new(seed, "windows"),
        owners: Vec::new(),
        up: BTreeMap::new(),
        away: BTreeMap::new(),
        paused: BTreeMap::new(),
        rules: broken.map_or_else(Rules::default, Rules::without),
        epoch: 0,
        account: Account::default(),
        world,
    };
    run.play().map_err(|what| format!("seed {seed}, {broken:?}: {what}"))?;
    let mut coverage = run.account.coverage();
    for (kind, times) in run.world.faults.struck() {
        coverage.add(&format!("{kind:?}"), times);
    }
    Ok(coverage)
}

impl Run {
    fn play(&mut self) -> Result<(), String> {
        for node in 0..NODES {
            self.start(node);
        }
        for _ in 0..TURNS {
            self.run_for(self.dice.time(TURN))?;
            self.strike();
            self.recover();
            self.change_hands()?;
        }
        self.world.handle().note("calm");
        self.world.faults.stop();
        self.stage.stop();
        for until in self.away.values_mut().chain(self.paused.values_mut()) {
            *until = Duration::ZERO;
        }
        self.recover();
        self.wait_for("all windows are closed", CLOSED_WITHIN, |run| {
            run.account.unsettled(&run.world, &run.stage)
        })?;
        self.account.check(&self.world, &self.stage)?;
        self.wait_for("all windows are let go", GONE_WITHIN, |run| {
            run.account.left_over(&run.world, &run.stage)
        })?;
        self.account.check(&self.world, &self.stage)
    }

    /// Lets time pass until nothing is missing.
    fn wait_for(
        &mut self,
        what: &str,
        bound: Duration,
        mut missing: impl FnMut(&Run) -> Option<String>,
    ) -> Result<(), String> {
        let until = self.world.handle().now() + bound;
        loop {
            self.fill()?;
            self.run_for(Duration::from_secs(1))?;
            let Some(missing) = missing(self) else { return Ok(()) };
            if self.world.handle().now() >= until {
                return Err(format!("not after {bound:?} without faults: {what}: {missing}"));
            }
        }
    }

    fn run_for(&self, time: Duration) -> Result<(), String> {
        self.world.run_for(time).map_err(|halt| halt.to_string())
    }

    fn start(&mut self, node: u32) {
        let (options, line) = stage::options(&self.world, node, self.rules);
        let part = StreamsPart::new(&self.stage.definitions, options);
        let dice = Dice::new(self.dice.below(u64::MAX), &format!("producer of {node}"));
        line.runtime.spawn("producer", produce(Arc::clone(&self.stage), line.clone(), dice));
        self.up.insert(node, Arc::new(part));
    }

    fn strike(&mut self) {
        let up: Vec<u32> = self.up.keys().copied().collect();
        let Some(node) = self.dice.pick(&up) else { return };
        let until = self.world.handle().now() + self.dice.time(AWAY);
        if self.world.faults.strikes(FaultKind::Crash) {
            self.world.handle().crash(node);
            self.up.remove(&node);
            self.paused.remove(&node);
            self.owners.retain(|owner| owner.node != node);
            self.away.insert(node, until);
        } else if !self.paused.contains_key(&node) && self.world.faults.strikes(FaultKind::Pause) {
            self.world.handle().pause(node);
            self.paused.insert(node, until);
        }
    }

    fn recover(&mut self) {
        let now = self.world.handle().now();
        for node in due(&mut self.away, now) {
            self.start(node);
        }
        for node in due(&mut self.paused, now) {
            self.world.handle().resume(node);
        }
    }

    fn change_hands(&mut self) -> Result<(), String> {
        self.reap()?;
        for role in self.stage.roles.clone() {
            let mut owned = (0..self.owners.len()).filter(|&at| self.owners[at].role == role);
            let one = owned.next();
            let alone = owned.next().is_none();
            match one {
                None => self.take_up(role),
                Some(at) if self.dice.per_mille(CHANGED) => match self.dice.below(3) {
                    0 => self.owners[at].control.end(),
                    1 => drop(self.owners.remove(at)),
                    _ if alone => self.take_up(role),
                    _ => {}
                },
                Some(_) => {}
            }
        }
        Ok(())
    }

    fn fill(&mut self) -> Result<(), String> {
        self.reap()?;
        for role in self.stage.roles.clone() {
            if !self.owners.iter().any(|owner| owner.role == role) {
                self.take_up(role);
            }
        }
        Ok(())
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

    fn take_up(&mut self, role: Role) {
        let nodes: Vec<u32> = self.up.keys().copied().collect();
        let Some(node) = self.dice.pick(&nodes) else { return };
        let Some(part) = self.up.get(&node) else { return };
        self.epoch += 1;
        let (tenure, control) = Tenure::new(role.clone(), self.epoch);
        let runtime = self.world.runtime(node);
        let task = Task::spawn(&*runtime, &role.to_string(), part.work(tenure));
        self.owners.push(Owner { node, role, control, task });
    }
}

/// Takes those whose time has come.
fn due(times: &mut BTreeMap<u32, Duration>, now: Duration) -> Vec<u32> {
    let due = times.extract_if(.., |_, until| *until <= now);
    due.map(|(node, _)| node).collect()
}

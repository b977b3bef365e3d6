//! Windows under faults: workers, closers and producers on a few nodes, then calm, and then the account: the
//! newest row of every group is what the log says, less what was listed as late; nothing was closed early;
//! and what was let go is gone for good.

mod account;
mod stage;

use std::sync::Arc;
use std::time::Duration;

use consort_cluster::Part;
use consort_views::StreamsPart;
use consort_views::part::{Rule, Rules};

use crate::crew::Crew;
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

/// How long a call takes at most when it is not slow; one of these for a run.
const DELAYS: [Duration; 2] = [Duration::from_millis(5), Duration::from_millis(300)];

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

struct Run {
    // The first field: dropping it ends all tasks before what they use goes.
    world: World,
    stage: Arc<Stage>,
    dice: Dice,
    crew: Crew,
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
    let stage = Arc::new(Stage::new(seed));
    let rules = broken.map_or_else(Rules::default, Rules::without);
    let mut run = Run {
        crew: crew(&stage, rules),
        stage,
        dice: Dice::new(seed, "windows"),
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

fn crew(stage: &Arc<Stage>, rules: Rules) -> Crew {
    let staged = Arc::clone(stage);
    let start = move |world: &World, dice: &Dice, node| -> Arc<dyn Part> {
        let (options, line) = stage::options(world, node, rules);
        let part = StreamsPart::new(&staged.definitions, options);
        let dice = Dice::new(dice.below(u64::MAX), &format!("producer of {node}"));
        line.runtime.spawn("producer", produce(Arc::clone(&staged), line.clone(), dice));
        Arc::new(part)
    };
    Crew::new(stage.roles.clone(), Box::new(start))
}

impl Run {
    fn play(&mut self) -> Result<(), String> {
        for node in 0..NODES {
            self.crew.start(&self.world, &self.dice, node);
        }
        for _ in 0..TURNS {
            self.run_for(self.dice.time(TURN))?;
            self.crew.strike(&self.world, &self.dice);
            self.crew.recover(&self.world, &self.dice);
            self.crew.change_hands(&self.world, &self.dice)?;
        }
        self.world.handle().note("calm");
        self.world.faults.stop();
        self.stage.stop();
        self.crew.recover_all(&self.world, &self.dice);
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
            self.crew.fill(&self.world, &self.dice)?;
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
}

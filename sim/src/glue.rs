//! Collections under faults: workers, timers and senders on a few nodes, shards that are rolled back, then calm, and
//! then the account: documents, rows, rejects, outcomes and counters are what the log says, by a reference that reads
//! the log alone.

mod account;
mod queue;
mod requests;
mod stage;
mod stored;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use consort_cluster::mutation::Mutation;
use consort_cluster::{Part, Ticket, queue_consumer};
use consort_glue::fold::FoldRule;
use consort_kernel::Shard;
use consort_kernel::memory::ShardImage;

use crate::crew::Crew;
use crate::dice::Dice;
use crate::faults::{FaultKind, Faults};
use crate::outcome::Coverage;
use crate::world::World;
use account::Account;
use requests::send_requests;
use stage::{GlueStage, GlueStation, send};

const NODES: u32 = 3;
/// Fewer shards than partitions: some partitions share one.
const SHARDS: u16 = 2;

/// Turns in which things go wrong, and how long each is at most.
const TURNS: usize = 60;
const TURN: Duration = Duration::from_secs(2);

/// How long a call takes at most when it is not slow; one of these for a run.
const DELAYS: [Duration; 2] = [Duration::from_millis(5), Duration::from_millis(200)];

/// Of a thousand turns, in how many an image of a shard is taken, and in how many a shard is rolled back.
const IMAGED: u32 = 100;
const ROLLED_BACK: u32 = 40;

/// How many images are kept.
const IMAGES: usize = 3;

/// How long after the last fault everything in the log must be applied.
const DONE_WITHIN: Duration = Duration::from_secs(240);

/// How long everything then has to stay as it is: gaps end, and workers look again.
const QUIET: Duration = Duration::from_secs(40);

/// Faults that this scenario is about. A log that loses its end is another matter.
const FAULTS: [FaultKind; 10] = [
    FaultKind::WriteFails,
    FaultKind::RequestLost,
    FaultKind::AnswerLost,
    FaultKind::Straggles,
    FaultKind::LandsTwice,
    FaultKind::ReadFails,
    FaultKind::ClockFails,
    FaultKind::Slow,
    FaultKind::Crash,
    FaultKind::Pause,
];

/// A rule that is broken on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GlueTwist {
    /// One of the worker's.
    Worker(Mutation),
    /// One of the fold's.
    Fold(FoldRule),
    /// Submissions are stored behind failed ones of their request (H9).
    TicketIgnored,
    /// Frames are tried again after their deadlines (H8).
    TriesLate,
    /// A queue has two consumers at once (H11).
    SecondTaker,
}

struct Run {
    // The first field: dropping it ends all tasks before what they use goes.
    world: World,
    stage: Arc<GlueStage>,
    dice: Dice,
    crew: Crew,
    images: VecDeque<(Shard, ShardImage)>,
    account: Account,
}

/// Runs a seed, with a rule broken if that is wanted. Says how often things happened, or which rule did not hold.
pub fn run(seed: u64, twist: Option<GlueTwist>) -> Result<Coverage, String> {
    let drawn = Faults::draw(seed);
    let faults = FAULTS
        .iter()
        .fold(Faults::none(seed), |faults, &kind| faults.with(kind, drawn.rate(kind).min(50)));
    let delay = Dice::new(seed, "delay").pick(&DELAYS).unwrap_or_default();
    let world = World::with_faults(seed, SHARDS, faults.delayed(delay));
    let stage = Arc::new(GlueStage::new(seed, &world));
    let mut run = Run {
        crew: crew(&stage, twist),
        account: Account::new(Arc::clone(&stage)),
        stage,
        dice: Dice::new(seed, "glue"),
        images: VecDeque::new(),
        world,
    };
    run.play().map_err(|what| format!("seed {seed}, {twist:?}: {what}"))?;
    let mut coverage = run.account.coverage();
    for (kind, times) in run.world.faults.struck() {
        coverage.add(&format!("{kind:?}"), times);
    }
    Ok(coverage)
}

fn crew(stage: &Arc<GlueStage>, twist: Option<GlueTwist>) -> Crew {
    let staged = Arc::clone(stage);
    let start = move |world: &World, dice: &Dice, node| -> Arc<dyn Part> {
        let station = GlueStation::new(&staged, world, node, twist);
        let own = Dice::new(dice.below(u64::MAX), &format!("sender of {node}"));
        let sender = send(Arc::clone(&staged), station.appender(), world.runtime(node), own);
        world.runtime(node).spawn("sender", sender);
        let tickets = match twist {
            Some(GlueTwist::TicketIgnored) => Ticket::ignored,
            _ => Ticket::default,
        };
        let dice = Dice::new(dice.below(u64::MAX), &format!("requests of {node}"));
        let (stage, collector) = (Arc::clone(&staged), station.collector());
        let requests = send_requests(stage, collector, world.runtime(node), dice, tickets);
        world.runtime(node).spawn("requests", requests);
        Arc::new(station)
    };
    let mut roles = stage.roles();
    if twist == Some(GlueTwist::Worker(Mutation::CellsOfAnyMark)) {
        // It shows where a document is read while a rival commits, which is rare where a queue keeps partitions busy.
        roles.retain(|role| role.kind() != queue_consumer::KIND);
    }
    Crew::new(roles, Box::new(start))
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
            self.roll_back();
        }
        self.world.handle().note("calm");
        self.world.faults.stop();
        self.stage.stop();
        self.crew.recover_all(&self.world, &self.dice);
        self.settle(DONE_WITHIN)?;
        for _ in 0..QUIET.as_secs() {
            self.crew.fill(&self.world, &self.dice)?;
            self.run_for(Duration::from_secs(1))?;
        }
        self.settle(DONE_WITHIN)?;
        self.account.check(&self.world)
    }

    /// Lets time pass until everything in the log is applied.
    fn settle(&mut self, bound: Duration) -> Result<(), String> {
        let until = self.world.handle().now() + bound;
        loop {
            self.crew.fill(&self.world, &self.dice)?;
            self.run_for(Duration::from_secs(1))?;
            if let Some(reason) = self.crew.stopped() {
                return Err(format!("a role stands still: {reason}"));
            }
            let Some(missing) = self.account.unapplied(&self.world) else { return Ok(()) };
            if self.world.handle().now() >= until {
                return Err(format!("not after {bound:?} without faults: {missing}"));
            }
        }
    }

    /// Takes an image of a shard, or makes a shard what it was.
    fn roll_back(&mut self) {
        if self.dice.per_mille(IMAGED) {
            let shard = Shard(self.dice.below(SHARDS.into()) as u16);
            self.images.push_back((shard, self.world.image(shard)));
            if self.images.len() > IMAGES {
                self.images.pop_front();
            }
        }
        if self.dice.per_mille(ROLLED_BACK)
            && let Some((shard, image)) = self.images.pop_front()
        {
            self.world.roll_back(shard, image);
            self.account.rolled_back();
        }
    }

    fn run_for(&self, time: Duration) -> Result<(), String> {
        self.world.run_for(time).map_err(|halt| halt.to_string())
    }
}

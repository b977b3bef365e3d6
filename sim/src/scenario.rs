//! One run: nodes that work while everything goes wrong, then calm, and then the account.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use consort_kernel::memory::ShardImage;
use consort_kernel::{Shard, Store};

use crate::assigned::Assigned;
use crate::dice::Dice;
use crate::faults::{FaultKind, Faults, SLOWEST};
use crate::fold::Fold;
use crate::leased::{Leased, UNDERSTUDY};
use crate::loss::Loss;
use crate::outcome::Coverage;
use crate::producer::Source;
use crate::shape::{Ownership, Shape, Twist, name};
use crate::station::Station;
use crate::tally::{FEED, Tally};
use crate::world::World;

/// How long a killed node stays away at most.
const DOWN: Duration = Duration::from_secs(10);

/// How long a paused node stands still at most; one of these. The last is beyond every lease, and far
/// below the time after which workers forget a producer.
const PAUSES: [Duration; 3] =
    [Duration::from_millis(200), Duration::from_secs(4), Duration::from_secs(40)];

/// Of a thousand pauses, how many make somebody start another process under the node's id.
const REPLACED: u32 = 200;

/// Of a thousand turns, in how many an image of a shard is taken, if shards are rolled back at all.
const IMAGED: u32 = 300;

/// How many images are kept.
const IMAGES: usize = 4;

/// Of a thousand turns, after how many the state is compared.
const COMPARED: u32 = 100;

/// How many steps a turn has at most that ends between two steps rather than at a time.
const STEPS: u64 = 300;

/// How long after the last fault everything must be done: time for leases to lapse, refusals to end and
/// workers to look again by themselves.
const DONE_WITHIN: Duration = Duration::from_secs(240);

/// How often it is looked whether everything is done.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How long everything then has to stay as it is.
const QUIET: Duration = Duration::from_secs(30);

/// Who works on what.
#[derive(Debug)]
pub(crate) enum Owners {
    Assigned(Assigned),
    Leased(Leased),
}

/// A run under way.
#[derive(Debug)]
pub struct Scenario {
    // The first field: dropping it ends all tasks before what they use goes.
    pub(crate) world: World,
    pub(crate) shape: Shape,
    pub(crate) source: Arc<Source>,
    pub(crate) dice: Dice,
    pub(crate) fold: Fold,
    pub(crate) owners: Owners,
    pub(crate) loss: Option<Loss>,
    pub(crate) coverage: Coverage,
    up: BTreeMap<u32, Station>,
    down: BTreeMap<u32, Duration>,
    paused: BTreeMap<u32, Duration>,
    images: VecDeque<(Shard, ShardImage)>,
}

impl Scenario {
    /// The run of `seed`, not yet begun.
    pub fn new(seed: u64, twist: Option<Twist>) -> Self {
        let faults = Faults::draw(seed);
        let shape = Shape::draw(seed, &faults, twist);
        let world = World::with_faults(seed, shape.shards, faults);
        let Shape { shards, ids_for, tick_after, .. } = shape;
        let tally = Arc::new(Tally { shards, ids_for, tick_after, feed: name(FEED) });
        let owners = match shape.ownership {
            Ownership::Assigned => Owners::Assigned(Assigned::new(shape.clone(), tally)),
            Ownership::Leased => Owners::Leased(Leased::new(shape.clone(), tally)),
        };
        Scenario {
            source: Arc::new(Source::new(shape.clone())),
            dice: Dice::new(seed, "scenario"),
            fold: Fold { shards, ids_for },
            owners,
            loss: None,
            coverage: Coverage::default(),
            up: BTreeMap::new(),
            down: BTreeMap::new(),
            paused: BTreeMap::new(),
            images: VecDeque::new(),
            shape,
            world,
        }
    }

    /// Runs it to its end, or to the first thing that may not be.
    pub fn run(&mut self) -> Result<(), String> {
        for node in 0..self.shape.nodes {
            self.start(node);
        }
        for _ in 0..self.shape.turns {
            self.advance()?;
            self.strike_nodes();
            self.strike_engine();
            self.recover_due();
            match &mut self.owners {
                Owners::Assigned(owners) => owners.turn(&self.dice, &self.up)?,
                Owners::Leased(owners) => owners.turn(&self.dice, &self.up)?,
            }
            self.decide_sometimes();
            self.check_always()?;
            if self.dice.per_mille(COMPARED) {
                self.check_marks()?;
            }
        }
        self.calm_down()?;
        self.check_marks()?;
        self.resolve_for_certain()?;
        self.finish()?;
        self.run_for(QUIET)?;
        self.check_always()?;
        self.look_for_hidden()?;
        self.check_end()
    }

    fn advance(&self) -> Result<(), String> {
        if self.dice.per_mille(300) {
            let until = self.world.handle().steps() + 1 + self.dice.below(STEPS);
            let there = || self.world.handle().steps() >= until;
            // Nothing may happen for so long that the bound ends it.
            let _ = self.world.run_until(there, self.shape.turn);
            return Ok(());
        }
        self.run_for(self.dice.time(self.shape.turn))
    }

    pub(crate) fn run_for(&self, time: Duration) -> Result<(), String> {
        self.world.run_for(time).map_err(|halt| halt.to_string())
    }

    fn start(&mut self, node: u32) {
        let station = Station::open(&self.world, &self.shape, node);
        station.produce(&self.source);
        if let Owners::Leased(owners) = &self.owners {
            owners.start(&station);
        }
        self.up.insert(node, station);
    }

    fn crash(&mut self, node: u32) {
        self.world.handle().crash(node);
        self.paused.remove(&node);
        if self.up.remove(&node).is_none() {
            return;
        }
        let back = self.world.handle().now() + self.dice.time(DOWN);
        self.down.insert(node, back);
        match &mut self.owners {
            Owners::Assigned(owners) => owners.crashed(node),
            Owners::Leased(owners) => owners.crashed(node),
        }
    }

    fn strike_nodes(&mut self) {
        if let Some(felled) = self.world.faults.take_felled() {
            self.crash(felled);
        }
        let up: Vec<u32> = self.up.keys().copied().collect();
        if let Some(node) = self.dice.pick(&up)
            && self.world.faults.strikes(FaultKind::Crash)
        {
            self.crash(node);
        }
        let running = |node: &u32| self.up.contains_key(node) && !self.paused.contains_key(node);
        let running: Vec<u32> = up.into_iter().filter(running).collect();
        if let Some(node) = self.dice.pick(&running)
            && self.world.faults.strikes(FaultKind::Pause)
        {
            self.world.handle().pause(node);
            let longest = self.dice.pick(&PAUSES).unwrap_or_default();
            let until = self.world.handle().now() + self.dice.time(longest);
            self.paused.insert(node, until);
            self.replace_sometimes(node);
        }
    }

    /// Starts another process under the id of a node that stands still, as one does who takes it for dead.
    fn replace_sometimes(&mut self, node: u32) {
        let understudy = node + UNDERSTUDY;
        let there = self.up.contains_key(&understudy) || self.down.contains_key(&understudy);
        let leased = self.shape.ownership == Ownership::Leased;
        if leased && node < UNDERSTUDY && !there && self.dice.per_mille(REPLACED) {
            self.start(understudy);
        }
    }

    fn strike_engine(&mut self) {
        let faults = &self.world.faults;
        let images_count = self.loss.as_ref().is_none_or(|loss| loss.resolved);
        if !images_count {
            // What was before a loss does not come back: the operator's decision is about what is lost.
            self.images.clear();
        } else if faults.rate(FaultKind::RollsBack) > 0 && self.dice.per_mille(IMAGED) {
            let shard = Shard(self.dice.below(u64::from(self.shape.shards)) as u16);
            if self.images.len() == IMAGES {
                self.images.pop_front();
            }
            self.images.push_back((shard, self.world.image(shard)));
        }
        if !self.images.is_empty() && self.world.faults.strikes(FaultKind::RollsBack) {
            let at = self.dice.below(self.images.len() as u64) as usize;
            if let Some((shard, image)) = self.images.remove(at) {
                // Later images are of what then never was.
                self.images.retain(|(of, _)| *of != shard);
                self.world.roll_back(shard, image);
            }
        }
        if self.can_lose() && self.world.faults.strikes(FaultKind::LosesTail) {
            self.lose();
        }
    }

    fn recover_due(&mut self) {
        let now = self.world.handle().now();
        for node in due(&mut self.down, now) {
            self.start(node);
        }
        for node in due(&mut self.paused, now) {
            self.world.handle().resume(node);
        }
    }

    /// No more faults; everybody is back and at work.
    fn calm_down(&mut self) -> Result<(), String> {
        self.world.handle().note("calm");
        self.world.faults.stop();
        self.source.stop();
        if let Some(felled) = self.world.faults.take_felled() {
            self.crash(felled);
        }
        for until in self.down.values_mut().chain(self.paused.values_mut()) {
            *until = Duration::ZERO;
        }
        self.recover_due();
        self.fill()?;
        // What is under way takes this long each way, and so does what nobody waits for any more.
        self.run_for(3 * SLOWEST)
    }

    pub(crate) fn fill(&mut self) -> Result<(), String> {
        match &mut self.owners {
            Owners::Assigned(owners) => owners.fill(&self.dice, &self.up),
            Owners::Leased(owners) => owners.complaint(),
        }
    }

    /// Waits until everything in the log is applied.
    fn finish(&mut self) -> Result<(), String> {
        let until = self.world.handle().now() + DONE_WITHIN;
        loop {
            self.fill()?;
            let ends = self.ends()?;
            self.run_for(LOOK_EVERY)?;
            self.check_always()?;
            self.look_for_hidden()?;
            let done = self.check_done(&ends).and_then(|()| self.check_owners());
            let Err(missing) = done else { return Ok(()) };
            if self.world.handle().now() >= until {
                return Err(format!("after {DONE_WITHIN:?} without faults: {missing}"));
            }
        }
    }

    fn check_owners(&self) -> Result<(), String> {
        match &self.owners {
            Owners::Assigned(_) => Ok(()),
            Owners::Leased(owners) => owners.check_workers(),
        }
    }

    pub(crate) fn is_stopped(&self, partition: u32) -> bool {
        match &self.owners {
            Owners::Assigned(owners) => owners.is_stopped(partition),
            Owners::Leased(owners) => owners.is_stopped(&self.world.store, partition),
        }
    }

    /// What happened in this run, for the account of all.
    pub fn coverage(&self) -> Coverage {
        let mut coverage = self.coverage.clone();
        for (kind, times) in self.world.faults.struck() {
            coverage.add(&format!("{kind:?}"), times);
        }
        coverage.add(&format!("{:?} owners", self.shape.ownership), 1);
        match &self.owners {
            Owners::Assigned(owners) => {
                coverage.add("second owners", owners.doubled);
                coverage.add("owners that yielded", owners.yielded);
            }
            Owners::Leased(owners) => {
                coverage.add("nodes asked to leave", owners.asked);
                coverage.merge(&owners.happened());
                coverage.add("acquired leases", self.world.witness.epochs());
            }
        }
        coverage.add("frames cut by a mark", self.world.witness.cut());
        let fates = self.source.ledger.fates();
        coverage.add("appends acknowledged", fates.acknowledged);
        coverage.add("appends unknown", fates.unknown);
        coverage.add("appends failed", fates.failed);
        coverage
    }

    /// The world, its time and its trace.
    pub fn world(&self) -> &World {
        &self.world
    }

    /// What the run looks like.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    pub(crate) fn shards(&self) -> impl Iterator<Item = Shard> + use<> {
        (0..self.world.store.shards()).map(Shard)
    }
}

/// Takes those whose time has come.
fn due(times: &mut BTreeMap<u32, Duration>, now: Duration) -> Vec<u32> {
    let due: Vec<u32> =
        times.iter().filter(|(_, until)| **until <= now).map(|(&node, _)| node).collect();
    times.retain(|node, _| !due.contains(node));
    due
}

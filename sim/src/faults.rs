//! What goes wrong in a run, and how often: drawn from its seed.
//!
//! Each run turns on a random part of the faults. Runs that have all of them all the time look alike;
//! runs that have few of them reach further.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use consort_kernel::Fault;
use parking_lot::Mutex;

use crate::dice::Dice;
use crate::runtime::NodeRuntime;

/// How often a fault that is on may strike, in a thousand: rarely, so that much happens between two, or
/// so often that they meet.
const RATES: [u32; 5] = [2, 5, 20, 50, 150];

/// One run in so many has no faults at all.
const CALM_ONE_IN: u64 = 8;

/// How long a call takes at most when it is not slow; one of these for a run.
const DELAYS: [Duration; 4] =
    [Duration::ZERO, Duration::from_millis(1), Duration::from_millis(5), Duration::from_millis(40)];

/// How long a slow call takes at most, and how late a straggler comes: beyond a lease's time to live.
pub const SLOWEST: Duration = Duration::from_secs(8);

/// What can go wrong. Those of a call are asked for at every call; those of the world by the scenario,
/// as often as it sees fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FaultKind {
    /// A write fails and changes nothing.
    WriteFails,
    /// A write's outcome is unknown: it never arrived.
    RequestLost,
    /// A write's outcome is unknown: it took effect.
    AnswerLost,
    /// A write's outcome is unknown: it takes effect later, even when its node is dead by then.
    Straggles,
    /// A frame lands twice, side by side.
    LandsTwice,
    /// A read fails.
    ReadFails,
    /// The store's clock cannot be read.
    ClockFails,
    /// A call takes long.
    Slow,
    /// The engine fails for good for one node, once in a run.
    Fatal,
    /// A node is killed.
    Crash,
    /// A node is paused.
    Pause,
    /// A partition loses its tail.
    LosesTail,
    /// A shard is rolled back.
    RollsBack,
}

impl FaultKind {
    /// All of them.
    pub const ALL: [FaultKind; 13] = [
        FaultKind::WriteFails,
        FaultKind::RequestLost,
        FaultKind::AnswerLost,
        FaultKind::Straggles,
        FaultKind::LandsTwice,
        FaultKind::ReadFails,
        FaultKind::ClockFails,
        FaultKind::Slow,
        FaultKind::Fatal,
        FaultKind::Crash,
        FaultKind::Pause,
        FaultKind::LosesTail,
        FaultKind::RollsBack,
    ];
}

/// The faults of one run.
#[derive(Debug)]
pub struct Faults {
    dice: Dice,
    rates: BTreeMap<FaultKind, u32>,
    delay: Duration,
    stopped: AtomicBool,
    felled: Mutex<Felled>,
    struck: Mutex<BTreeMap<FaultKind, u64>>,
}

/// The one life of a node that met a fatal fault.
#[derive(Debug, Default)]
struct Felled {
    life: Option<(u32, u64)>,
    told: bool,
}

impl Faults {
    /// No faults and no delays, though calls still let others run.
    pub fn none(seed: u64) -> Self {
        Faults {
            dice: Dice::new(seed, "faults"),
            rates: BTreeMap::new(),
            delay: Duration::ZERO,
            stopped: AtomicBool::new(false),
            felled: Mutex::default(),
            struck: Mutex::default(),
        }
    }

    /// The faults of the run of `seed`.
    pub fn draw(seed: u64) -> Self {
        let dice = Dice::new(seed, "plan");
        let mut faults = Faults::none(seed).delayed(dice.pick(&DELAYS).unwrap_or_default());
        if dice.below(CALM_ONE_IN) == 0 {
            return faults;
        }
        for kind in FaultKind::ALL {
            if dice.per_mille(500) {
                faults = faults.with(kind, dice.pick(&RATES).unwrap_or_default());
            }
        }
        faults
    }

    /// The same faults, but `kind` strikes in `per_mille` of a thousand cases.
    pub fn with(mut self, kind: FaultKind, per_mille: u32) -> Self {
        self.rates.insert(kind, per_mille);
        self
    }

    /// The same faults, but a call that is not slow takes up to `most` each way.
    pub fn delayed(mut self, most: Duration) -> Self {
        self.delay = most;
        self
    }

    /// No more faults from now on. Stragglers still arrive, [`SLOWEST`] from now at the latest, and a
    /// node that met a fatal fault stays as it is until it crashes.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// How often `kind` strikes in a thousand cases; 0 once faults have stopped.
    pub fn rate(&self, kind: FaultKind) -> u32 {
        match self.stopped.load(Ordering::Relaxed) {
            true => 0,
            false => self.rates.get(&kind).copied().unwrap_or(0),
        }
    }

    /// Whether `kind` strikes this time.
    pub fn strikes(&self, kind: FaultKind) -> bool {
        let rate = self.rate(kind);
        let strikes = rate > 0 && self.dice.per_mille(rate);
        if strikes {
            *self.struck.lock().entry(kind).or_default() += 1;
        }
        strikes
    }

    /// How often each kind has struck so far.
    pub fn struck(&self) -> BTreeMap<FaultKind, u64> {
        self.struck.lock().clone()
    }

    /// How long one way of a call takes.
    pub(crate) fn delay(&self) -> Duration {
        self.dice.time(if self.strikes(FaultKind::Slow) { SLOWEST } else { self.delay })
    }

    /// How late a straggler comes.
    pub(crate) fn lateness(&self) -> Duration {
        self.dice.time(SLOWEST)
    }

    /// The node that met a fatal fault, told once: the scenario crashes it, as the process would end
    /// itself. Until then every call of it fails.
    pub fn take_felled(&self) -> Option<u32> {
        let mut felled = self.felled.lock();
        let (node, _) = felled.life.filter(|_| !felled.told)?;
        felled.told = true;
        Some(node)
    }

    /// The fatal fault of this node, if it met one in this life or meets it now.
    pub(crate) fn fatal(&self, runtime: &NodeRuntime) -> Option<Fault> {
        let here = (runtime.node(), runtime.life());
        let mut felled = self.felled.lock();
        if felled.life.is_none() && self.strikes(FaultKind::Fatal) {
            felled.life = Some(here);
        }
        let fatal = || Fault::Fatal("the engine is damaged (injected)".into());
        (felled.life == Some(here)).then(fatal)
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "calls take up to {:?} each way", self.delay)?;
        for (kind, rate) in &self.rates {
            write!(f, ", {kind:?} {rate}‰")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_has_one_plan_and_seeds_differ() {
        let plan = |seed| Faults::draw(seed).to_string();
        assert_eq!(plan(3), plan(3));
        let plans: std::collections::BTreeSet<String> = (0..50).map(plan).collect();
        assert!(plans.len() > 30, "{} plans", plans.len());
        let calm = (0..100).filter(|&seed| Faults::draw(seed).rates.is_empty()).count();
        assert!((1..50).contains(&calm), "{calm} calm runs");
    }

    #[test]
    fn every_kind_is_on_in_some_runs_and_off_in_others() {
        for kind in FaultKind::ALL {
            let on = (0..100).filter(|&seed| Faults::draw(seed).rate(kind) > 0).count();
            assert!((20..80).contains(&on), "{kind:?} is on in {on} of 100");
        }
    }

    #[test]
    fn stopped_faults_do_not_strike() {
        let faults = Faults::none(1).with(FaultKind::ReadFails, 1000);
        assert!(faults.strikes(FaultKind::ReadFails));
        faults.stop();
        assert!(!faults.strikes(FaultKind::ReadFails));
    }
}

//! Running a seed, and telling what came of it.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::scenario::Scenario;
use crate::shape::Twist;

/// How many of the last events a failure tells.
const EVENTS_TOLD: usize = 120;

/// What happened, and how often.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage(BTreeMap<String, u64>);

impl Coverage {
    /// It happened some more times.
    pub fn add(&mut self, what: &str, times: u64) {
        if times > 0 {
            *self.0.entry(what.to_string()).or_default() += times;
        }
    }

    /// How often it happened.
    pub fn times(&self, what: &str) -> u64 {
        self.0.get(what).copied().unwrap_or_default()
    }

    /// Adds what happened in another run.
    pub fn merge(&mut self, other: &Coverage) {
        other.0.iter().for_each(|(what, &times)| self.add(what, times));
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|(what, times)| writeln!(f, "{times:>12} {what}"))
    }
}

/// A run in which everything held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The hash of its trace: the same for the same seed.
    pub hash: u64,
    /// Its steps.
    pub steps: u64,
    /// Its virtual time.
    pub time: Duration,
    /// What happened in it.
    pub coverage: Coverage,
}

/// A run in which something did not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The seed.
    pub seed: u64,
    /// What did not hold.
    pub what: String,
    /// The hash of the trace up to there.
    pub hash: u64,
    /// What the run looks like.
    pub shape: String,
    /// What went wrong on purpose.
    pub faults: String,
    /// The last events.
    pub trace: Vec<String>,
}

/// Runs a seed, with a rule broken if that is wanted. A violation is run again to tell its last events.
pub fn run(seed: u64, twist: Option<Twist>) -> Result<Outcome, Box<Violation>> {
    run_once(seed, twist, 0).0.map_err(|first| match run_once(seed, twist, EVENTS_TOLD).0 {
        Err(second) if (second.hash, &second.what) == (first.hash, &first.what) => second,
        _ => Box::new(Violation {
            what: format!("the same seed gave another run, the first time: {}", first.what),
            ..*first
        }),
    })
}

/// Runs a seed once, and tells the last `events` of its trace beside what came of it.
pub fn traced(seed: u64, events: usize) -> (Result<Outcome, Box<Violation>>, Vec<String>) {
    run_once(seed, None, events)
}

fn run_once(
    seed: u64,
    twist: Option<Twist>,
    events: usize,
) -> (Result<Outcome, Box<Violation>>, Vec<String>) {
    let mut scenario = Scenario::new(seed, twist);
    let handle = scenario.world().handle().clone();
    handle.keep_trace(events);
    let result = scenario.run();
    let (hash, trace) = (handle.trace_hash(), handle.trace());
    let result = match result {
        Ok(()) => Ok(Outcome {
            hash,
            steps: handle.steps(),
            time: handle.now(),
            coverage: scenario.coverage(),
        }),
        Err(what) => Err(Box::new(Violation {
            seed,
            what,
            hash,
            shape: scenario.shape().to_string(),
            faults: scenario.world().faults.to_string(),
            trace: trace.clone(),
        })),
    };
    (result, trace)
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Violation { seed, what, shape, faults, trace, .. } = self;
        writeln!(f, "seed {seed} fails: {what}")?;
        writeln!(f, "repeat it with: cargo xtask sim --seed {seed}")?;
        writeln!(f, "the run: {shape}")?;
        writeln!(f, "its faults: {faults}")?;
        writeln!(f, "its last events:")?;
        trace.iter().try_for_each(|event| writeln!(f, "  {event}"))
    }
}

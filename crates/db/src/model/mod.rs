//! A model check of head and claim: every interleaving of up to three workers that claim, write, crash, look,
//! make snapshots and stop, on a store whose commits end ok, stale, in a fault or with an outcome that no
//! one learns: applied, lost, or applied at any later time. The store may also lose its last commit.
//!
//! The workers go through the same functions as the real ones: [`DbHead`](crate::head::DbHead) and its
//! transitions, [`LastSeen::judge`](crate::head::LastSeen::judge),
//! [`HeadCommit::settle`](crate::write::commit::HeadCommit::settle) and
//! [`trim_before`](crate::snapshot::manifest::trim_before).
//!
//! What must hold: the head never goes back; an acknowledged write is in the feed, once; a write that was
//! answered as not stored never gets there; a worker's file is a prefix of the feed; no worker goes on
//! from a head lower than one it has seen, and none stops a database that lost nothing; a snapshot and the
//! feed behind it make the whole history; and from everywhere every open write can still be settled.

mod store;
mod worker;
mod world;

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use world::World;

/// What may happen in a world, in all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Budget {
    claims: u8,
    writes: u8,
    unknowns: u8,
    faults: u8,
    crashes: u8,
    departures: u8,
    snapshots: u8,
    restores: u8,
    losses: u8,
    slow_looks: u8,
}

/// The rules under test; a world without one of them must show a violation.
#[derive(Clone, Copy, Debug)]
struct ModelRules {
    /// H2: a commit is applied only over the head that it expects.
    compare: bool,
    /// C3: a commit with an unknown outcome is repeated, and no read settles it.
    repeat_unknown: bool,
    /// H36: a fault after an unknown outcome settles nothing.
    stays_open: bool,
    /// H40: after an unknown outcome the feed decides, and not the head alone.
    ask_feed: bool,
    /// H35: each claim has a number of its own.
    fresh_claims: bool,
    /// H34: a head that goes back is a lost tail.
    watch_regress: bool,
    /// H34: a look is compared with what was seen before it began.
    compare_before: bool,
    /// H11: a new era has a feed of its own, and its head is no head of the era before.
    new_era: bool,
}

type Violation = &'static str;

const RULES: ModelRules = ModelRules {
    compare: true,
    repeat_unknown: true,
    stays_open: true,
    ask_feed: true,
    fresh_claims: true,
    watch_regress: true,
    compare_before: true,
    new_era: true,
};

const CALM: Budget = Budget {
    claims: 2,
    writes: 2,
    unknowns: 0,
    faults: 0,
    crashes: 0,
    departures: 0,
    snapshots: 0,
    restores: 0,
    losses: 0,
    slow_looks: 0,
};

/// Walks all worlds; returns how many there are, or what went wrong.
fn explore(workers: usize, budget: Budget, rules: &ModelRules) -> Result<usize, Violation> {
    let mut ids: HashMap<u64, u32> = HashMap::new();
    let mut queue: Vec<Option<World>> = vec![Some(World::new(workers, budget))];
    let mut back: Vec<Vec<u32>> = vec![Vec::new()];
    let mut settled = Vec::new();
    let mut at = 0;
    while at < queue.len() {
        // A world that was looked at is needed no more, except for its number.
        let Some(world) = queue[at].take() else { break };
        if world.is_settled() {
            settled.push(at as u32);
        }
        for next in world.successors(rules)? {
            let id = *ids.entry(fingerprint(&next)).or_insert_with(|| {
                queue.push(Some(next));
                back.push(Vec::new());
                queue.len() as u32 - 1
            });
            if id != at as u32 {
                back[id as usize].push(at as u32);
            }
        }
        at += 1;
    }
    let mut reaches = vec![false; back.len()];
    while let Some(id) = settled.pop() {
        if !std::mem::replace(&mut reaches[id as usize], true) {
            settled.extend(&back[id as usize]);
        }
    }
    match reaches.iter().all(|reaches| *reaches) {
        true => Ok(reaches.len()),
        false => Err("a write can never be settled"),
    }
}

fn fingerprint(world: &World) -> u64 {
    let mut hasher = DefaultHasher::new();
    world.hash(&mut hasher);
    hasher.finish()
}

#[test]
fn the_rules_hold_in_every_interleaving() {
    let cases = [
        ("unknown outcomes and claims", 3, Budget { unknowns: 2, ..CALM }),
        (
            "faults after unknown outcomes",
            2,
            Budget { unknowns: 1, faults: 2, departures: 1, ..CALM },
        ),
        ("crashes", 3, Budget { claims: 3, crashes: 2, unknowns: 1, ..CALM }),
        ("hand-over", 3, Budget { departures: 2, unknowns: 1, ..CALM }),
        (
            "snapshots and trims",
            2,
            Budget { writes: 3, snapshots: 2, crashes: 1, unknowns: 1, ..CALM },
        ),
        ("a restore", 2, Budget { restores: 1, unknowns: 1, faults: 1, ..CALM }),
        ("a lost tail", 3, Budget { losses: 1, restores: 1, crashes: 1, ..CALM }),
        ("a lost tail and an unknown outcome", 2, Budget { losses: 1, unknowns: 1, ..CALM }),
        ("looks that overlap", 3, Budget { slow_looks: 2, ..CALM }),
    ];
    std::thread::scope(|scope| {
        for (what, workers, budget) in cases {
            scope.spawn(move || match explore(workers, budget, &RULES) {
                Ok(worlds) => assert!(worlds > 1_000, "{what}: only {worlds} worlds"),
                Err(violation) => panic!("{what}: {violation}"),
            });
        }
    });
}

#[test]
fn a_rule_that_is_taken_out_is_missed() {
    let back = "the head went back";
    let cases = [
        ("H2", ModelRules { compare: false, ..RULES }, Budget { unknowns: 1, ..CALM }, back),
        (
            "C3",
            ModelRules { repeat_unknown: false, ..RULES },
            Budget { unknowns: 1, ..CALM },
            "a write that was answered as not stored is in the feed",
        ),
        (
            "H36",
            ModelRules { stays_open: false, ..RULES },
            Budget { unknowns: 1, faults: 1, ..CALM },
            "a write that was answered as not stored is in the feed",
        ),
        (
            "H40",
            ModelRules { ask_feed: false, ..RULES },
            Budget { unknowns: 1, ..CALM },
            "a write that was answered as not stored is in the feed",
        ),
        (
            "H35",
            ModelRules { fresh_claims: false, ..RULES },
            CALM,
            "an acknowledged write is not in the feed",
        ),
        (
            "H34, a head that goes back",
            ModelRules { watch_regress: false, ..RULES },
            Budget { losses: 1, ..CALM },
            "a worker went on from a head lower than one it had seen",
        ),
        (
            "H34, looks that overlap",
            ModelRules { compare_before: false, ..RULES },
            Budget { slow_looks: 1, ..CALM },
            "a database that lost nothing was stopped",
        ),
        (
            "H11",
            ModelRules { new_era: false, ..RULES },
            Budget { restores: 1, ..CALM },
            "a database that lost nothing was stopped",
        ),
    ];
    for (rule, rules, budget, violation) in cases {
        assert_eq!(explore(2, budget, &rules), Err(violation), "{rule}");
    }
}

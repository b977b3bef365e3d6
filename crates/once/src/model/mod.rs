//! A model check of the core: every interleaving of three nodes that ask for one key, with crashes, lapsing
//! leases, purges, and commits whose outcome nobody learns — applied, lost, or applied at any later time.
//!
//! The nodes walk through the same [`decide`] and [`step`](crate::step) functions as the flights do. Time
//! is relative: *now* always stands still, and a tick moves every stored time one towards the past, where
//! times that are over are all alike. So leases may lapse at any step, and the space stays finite.
//!
//! What must hold: a generation has at most one value; no attempt changes the cell after a newer one has
//! taken it or a purge has come; nobody is answered with what was never published; and from everywhere
//! every node that lives can still reach an answer, an error or its last attempt.

mod names;
mod node;
mod world;

use std::collections::HashMap;
use std::time::Duration;

use consort_kernel::Timestamp;

use crate::decide::Before;
use crate::fence::Fence;
use crate::state::State;
use crate::step::{Life, Next};
use crate::terms::OnError;

const NOW: Timestamp = Timestamp(100);
const TICK: Duration = Duration::from_millis(1);
/// Computations that one node may start; then it stands for a caller that reached its deadline.
const ATTEMPTS: u8 = 2;

/// What the world may do to the nodes, in all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Budget {
    crashes: u8,
    unknowns: u8,
    purges: u8,
    renewals: u8,
    departures: u8,
}

/// The rules under test; taking one out must be noticed.
#[derive(Clone, Copy, Debug)]
struct Rules {
    /// An outcome is stored only over the very bytes of the attempt's own hold.
    compare: bool,
    /// Each attempt has a fence of its own.
    fresh_fences: bool,
    /// A lease that is over may be taken.
    lapse: bool,
    on_error: OnError,
    life: Life,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Answered {
    Value,
    Error,
    Deadline,
    Unavailable,
}

/// A commit: on its way, or sent with its outcome unknown.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Write {
    expect: Option<State>,
    next: Next,
    by: Fence,
    /// Which run of a computation the value comes from.
    run: Option<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Program {
    Looking(Before),
    Winning(Write, Before),
    Unsure(Fence, Before),
    Working { fence: Fence, held: State, run: u8 },
    Renewing { write: Write, run: u8 },
    Rechecking { fence: Fence, run: u8 },
    Storing { write: Write, run: u8, failed: bool },
    Settling { next: Next, fence: Fence, run: u8, failed: bool },
    Leaving(Write),
    Idle,
    Dead,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Node {
    program: Program,
    answered: Option<Answered>,
    attempts: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    cell: Option<State>,
    nodes: Vec<Node>,
    limbo: Option<Write>,
    /// The attempts that won the cell, in that order.
    won: Vec<Fence>,
    /// Those that a purge has fenced off.
    purged: Vec<Fence>,
    /// Which run gave each generation its value.
    published: Vec<(Fence, u8)>,
    /// The attempts that computed, once for each time they did.
    computed: Vec<Fence>,
    budget: Budget,
}

type Violation = &'static str;

/// What the search found: how many worlds there are, or what went wrong.
fn explore(nodes: usize, budget: Budget, rules: &Rules) -> Result<usize, Violation> {
    let mut ids: HashMap<World, u32> = HashMap::new();
    let mut queue: Vec<World> = vec![World::new(nodes, budget)];
    let mut back: Vec<Vec<u32>> = vec![Vec::new()];
    let mut ends = Vec::new();
    ids.insert(queue[0].clone(), 0);
    let mut at = 0;
    while at < queue.len() {
        // What was looked at is not needed any more, except for its number.
        let world = std::mem::replace(&mut queue[at], World::new(0, budget));
        if world.over() {
            ends.push(at as u32);
        }
        for next in world.successors(rules)? {
            let id = *ids.entry(next).or_insert_with_key(|next| {
                queue.push(next.clone());
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
    let mut open = ends;
    while let Some(id) = open.pop() {
        if !std::mem::replace(&mut reaches[id as usize], true) {
            open.extend(&back[id as usize]);
        }
    }
    match reaches.iter().all(|reaches| *reaches) {
        true => Ok(reaches.len()),
        false => Err("somebody waits for ever"),
    }
}

const RULES: Rules = Rules {
    compare: true,
    fresh_fences: true,
    lapse: true,
    on_error: OnError::Keep,
    life: Life { fresh_for: TICK, stale_for: TICK, stale_if_error: TICK, cost: Duration::ZERO },
};

const CALM: Budget = Budget { crashes: 0, unknowns: 0, purges: 0, renewals: 0, departures: 0 };

const UNKEPT: Life = Life {
    fresh_for: Duration::ZERO,
    stale_for: Duration::ZERO,
    stale_if_error: Duration::ZERO,
    cost: Duration::ZERO,
};

const CASES: [(&str, usize, Budget, Rules); 8] = [
    ("crashes", 3, Budget { crashes: 2, ..CALM }, RULES),
    ("unknown outcomes", 3, Budget { unknowns: 1, ..CALM }, RULES),
    ("purges", 3, Budget { purges: 1, ..CALM }, RULES),
    ("renewals", 3, Budget { renewals: 1, ..CALM }, RULES),
    ("departures", 3, Budget { departures: 1, ..CALM }, RULES),
    (
        "re-election",
        3,
        Budget { crashes: 1, ..CALM },
        Rules { on_error: OnError::Reelect, ..RULES },
    ),
    ("nothing is kept", 3, Budget { crashes: 1, ..CALM }, Rules { life: UNKEPT, ..RULES }),
    (
        "all of it, between two",
        2,
        Budget { crashes: 1, unknowns: 1, purges: 1, renewals: 1, departures: 0 },
        RULES,
    ),
];

#[test]
fn the_rules_hold_in_every_interleaving() {
    std::thread::scope(|scope| {
        for (what, nodes, budget, rules) in CASES {
            scope.spawn(move || match explore(nodes, budget, &rules) {
                Ok(worlds) => assert!(worlds > 10_000, "{what}: only {worlds} worlds"),
                Err(violation) => panic!("{what}: {violation}"),
            });
        }
    });
}

#[test]
fn a_rule_that_is_taken_out_is_missed() {
    let cases = [
        (Rules { compare: false, ..RULES }, CALM, "an attempt overwrote what a newer one left"),
        (
            Rules { compare: false, ..RULES },
            Budget { purges: 1, ..CALM },
            "an attempt from before a purge changed the cell after it",
        ),
        (Rules { fresh_fences: false, ..RULES }, CALM, "a generation has two values"),
        (Rules { lapse: false, ..RULES }, Budget { crashes: 1, ..CALM }, "somebody waits for ever"),
    ];
    for (rules, budget, violation) in cases {
        assert_eq!(explore(3, budget, &rules), Err(violation), "{rules:?}");
    }
}

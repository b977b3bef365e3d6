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

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use consort_kernel::Timestamp;

use crate::decide::{Asker, Before, Decision, decide};
use crate::fence::Fence;
use crate::state::{Hold, Ready, State};
use crate::step::{self, Life, Next, acquired};
use crate::terms::{Failure, FailureKind, OnError};

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

/// The name of all attempts that have not won, where their names must not count.
const PENDING: usize = 1000;

fn fence_of(n: usize) -> Fence {
    Fence { incarnation: 1, attempt: n as u64 }
}

impl Write {
    fn fences(&mut self, each: &mut dyn FnMut(&mut Fence)) {
        each(&mut self.by);
        self.expect.iter_mut().for_each(|state| fences_of(state, each));
        if let Next::Put(state) = &mut self.next {
            fences_of(state, each);
        }
    }
}

impl Program {
    fn fences(&mut self, each: &mut dyn FnMut(&mut Fence)) {
        match self {
            Program::Looking(before) => seen(before, each),
            Program::Winning(write, before) => {
                write.fences(each);
                seen(before, each);
            }
            Program::Unsure(fence, before) => {
                each(fence);
                seen(before, each);
            }
            Program::Working { fence, held, .. } => {
                each(fence);
                fences_of(held, each);
            }
            Program::Renewing { write, .. }
            | Program::Storing { write, .. }
            | Program::Leaving(write) => write.fences(each),
            Program::Rechecking { fence, .. } => each(fence),
            Program::Settling { next, fence, .. } => {
                each(fence);
                if let Next::Put(state) = next {
                    fences_of(state, each);
                }
            }
            Program::Idle | Program::Dead => {}
        }
    }
}

fn seen(before: &mut Before, each: &mut dyn FnMut(&mut Fence)) {
    if let Before::Saw(Some(fence)) = before {
        each(fence);
    }
}

fn fences_of(state: &mut State, each: &mut dyn FnMut(&mut Fence)) {
    match state {
        State::Computing(hold) => each(&mut hold.fence),
        State::Failed(failed) => each(&mut failed.fence),
        State::Ready(ready) => {
            each(&mut ready.generation);
            ready.refresh.iter_mut().for_each(|hold| each(&mut hold.fence));
        }
    }
}

fn failure() -> Failure {
    Failure::new(FailureKind::Other, "")
}

impl World {
    fn new(nodes: usize, budget: Budget) -> Self {
        let node =
            Node { program: Program::Looking(Before::Nothing), answered: None, attempts: ATTEMPTS };
        World {
            cell: None,
            nodes: vec![node; nodes],
            limbo: None,
            won: Vec::new(),
            purged: Vec::new(),
            published: Vec::new(),
            computed: Vec::new(),
            budget,
        }
    }

    /// Applies a commit if its expectation holds.
    fn apply(&mut self, write: &Write, rules: &Rules) -> Result<bool, Violation> {
        let outcome = !matches!(&write.next, Next::Put(state) if state.is_held_by(write.by));
        if write.expect != self.cell && (rules.compare || !outcome) {
            return Ok(false);
        }
        let rank = |fence: Fence| self.won.iter().position(|won| *won == fence);
        let mine = rank(write.by);
        if mine.is_some() {
            let there = self.cell.iter().flat_map(|s| [s.outcome(), s.hold().map(|h| h.fence)]);
            if there.flatten().any(|there| rank(there) > mine) {
                return Err("an attempt overwrote what a newer one left");
            }
            if self.purged.contains(&write.by) {
                return Err("an attempt from before a purge changed the cell after it");
            }
        } else {
            self.won.push(write.by);
        }
        if let (Some(run), Next::Put(State::Ready(ready))) = (write.run, &write.next)
            && ready.generation == write.by
        {
            if self.published.iter().any(|(by, other)| *by == write.by && *other != run) {
                return Err("a generation has two values");
            }
            if !self.published.contains(&(write.by, run)) {
                self.published.push((write.by, run));
            }
        }
        self.cell = match &write.next {
            Next::Put(state) => Some(state.clone()),
            Next::Clear => None,
        };
        Ok(true)
    }

    fn answer_with(&mut self, n: usize, generation: Fence) -> Result<(), Violation> {
        match self.published.iter().any(|(published, _)| *published == generation) {
            true => self.answer(n, Answered::Value),
            false => Err("somebody got what was never published"),
        }
    }

    fn answer(&mut self, n: usize, answered: Answered) -> Result<(), Violation> {
        let node = &mut self.nodes[n];
        node.answered.get_or_insert(answered);
        node.program = Program::Idle;
        Ok(())
    }

    fn tick(&mut self) {
        let writes = self.nodes.iter_mut().filter_map(|node| match &mut node.program {
            Program::Winning(write, _)
            | Program::Renewing { write, .. }
            | Program::Storing { write, .. }
            | Program::Leaving(write) => Some(write),
            Program::Working { held, .. } => {
                age(held);
                None
            }
            Program::Settling { next, .. } => {
                age_next(next);
                None
            }
            _ => None,
        });
        for write in writes.chain(&mut self.limbo) {
            write.expect.iter_mut().for_each(age);
            age_next(&mut write.next);
        }
        self.cell.iter_mut().for_each(age);
    }

    /// All worlds that may come next.
    fn successors(&self, rules: &Rules) -> Result<Vec<World>, Violation> {
        let mut worlds = Vec::new();
        let mut later = self.clone();
        later.tick();
        worlds.push(later);
        if self.budget.purges > 0 {
            let mut world = self.clone();
            world.budget.purges -= 1;
            world.purged = world.won.clone();
            world.cell = None;
            worlds.push(world);
        }
        if let Some(write) = &self.limbo {
            let mut world = self.clone();
            world.limbo = None;
            worlds.push(world.clone());
            if world.apply(write, rules)? {
                worlds.push(world);
            }
        }
        for n in 0..self.nodes.len() {
            self.node_steps(n, rules, &mut worlds)?;
        }
        worlds.iter_mut().for_each(World::normalise);
        Ok(worlds)
    }

    /// Makes worlds equal that differ in names only. Nodes have none, so their order tells nothing. Of
    /// attempts only their order counts, and those that nothing speaks of any more are forgotten.
    fn normalise(&mut self) {
        let shown = self.shown();
        let mut spoken = Vec::new();
        for node in &mut self.nodes {
            if let Program::Looking(before)
            | Program::Winning(_, before)
            | Program::Unsure(_, before) = &mut node.program
                && *before != Before::Nothing
                && *before != Before::Saw(shown)
            {
                // An outcome that is not there any more never comes back.
                *before = Before::Saw(None);
            }
            node.program.fences(&mut |fence| spoken.push(*fence));
        }
        self.cell.iter_mut().for_each(|state| fences_of(state, &mut |f| spoken.push(*f)));
        self.limbo.iter_mut().for_each(|write| write.fences(&mut |f| spoken.push(*f)));
        self.won.retain(|fence| spoken.contains(fence));
        self.purged.retain(|fence| spoken.contains(fence));
        self.purged.sort_unstable();
        self.published.retain(|(fence, _)| spoken.contains(fence));
        self.published.sort_unstable();
        self.computed.retain(|fence| spoken.contains(fence));
        self.computed.sort_unstable();

        let won = self.won.clone();
        let rank = |fence: &Fence| won.iter().position(|won| won == fence);
        let masked = |fence: &Fence| fence_of(rank(fence).unwrap_or(PENDING));
        self.nodes.sort_by_cached_key(|node| {
            let mut node = node.clone();
            node.program.fences(&mut |fence| *fence = masked(fence));
            let mut hash = DefaultHasher::new();
            node.hash(&mut hash);
            hash.finish()
        });
        let mut names = won.clone();
        for node in &mut self.nodes {
            node.program.fences(&mut |fence| {
                if !names.contains(fence) {
                    names.push(*fence);
                }
            });
        }
        names.extend(spoken.into_iter().filter(|f| !won.contains(f)));
        let rename = |fence: &mut Fence| {
            if let Some(place) = names.iter().position(|name| name == fence) {
                *fence = fence_of(place);
            }
        };
        self.nodes.iter_mut().for_each(|node| node.program.fences(&mut |f| rename(f)));
        self.cell.iter_mut().for_each(|state| fences_of(state, &mut |f| rename(f)));
        self.limbo.iter_mut().for_each(|write| write.fences(&mut |f| rename(f)));
        self.published.iter_mut().for_each(|(fence, _)| rename(fence));
        [&mut self.won, &mut self.purged, &mut self.computed]
            .into_iter()
            .for_each(|list| list.iter_mut().for_each(rename));
    }

    /// A fence that nothing speaks of.
    fn new_fence(&self) -> Fence {
        let mut world = self.clone();
        let mut used = world.won.clone();
        world.nodes.iter_mut().for_each(|node| node.program.fences(&mut |f| used.push(*f)));
        world.cell.iter_mut().for_each(|state| fences_of(state, &mut |f| used.push(*f)));
        world.limbo.iter_mut().for_each(|write| write.fences(&mut |f| used.push(*f)));
        let next = used.iter().map(|fence| fence.attempt + 1).max();
        Fence { incarnation: 1, attempt: next.unwrap_or(0) }
    }

    fn node_steps(
        &self,
        n: usize,
        rules: &Rules,
        worlds: &mut Vec<World>,
    ) -> Result<(), Violation> {
        let program = &self.nodes[n].program;
        if matches!(program, Program::Idle | Program::Dead) {
            return Ok(());
        }
        if self.budget.crashes > 0 {
            self.crash(n, rules, worlds)?;
        }
        let mut world = self.clone();
        match program {
            Program::Looking(before) => {
                world.look(n, *before, rules)?;
                worlds.push(world);
            }
            Program::Unsure(fence, before) => {
                match &self.cell {
                    Some(held) if held.is_held_by(*fence) => world.work(n, *fence, held.clone()),
                    _ => world.nodes[n].program = Program::Looking(*before),
                }
                worlds.push(world);
            }
            Program::Working { fence, held, run } => {
                self.work_steps(n, *fence, held, *run, rules, worlds);
            }
            Program::Rechecking { fence, run } => {
                let (fence, run) = (*fence, *run);
                world.nodes[n].program = match &self.cell {
                    Some(held) if held.is_held_by(fence) => {
                        Program::Working { fence, held: held.clone(), run }
                    }
                    _ => Program::Looking(Before::Saw(self.shown())),
                };
                worlds.push(world);
            }
            Program::Settling { next, fence, run, failed } => {
                world.settle(n, next, *fence, *run, *failed, rules)?;
                worlds.push(world);
            }
            Program::Winning(write, _)
            | Program::Renewing { write, .. }
            | Program::Storing { write, .. }
            | Program::Leaving(write) => self.commit_steps(n, write, rules, worlds)?,
            Program::Idle | Program::Dead => {}
        }
        Ok(())
    }

    fn shown(&self) -> Option<Fence> {
        self.cell.as_ref().and_then(State::outcome)
    }

    fn crash(&self, n: usize, rules: &Rules, worlds: &mut Vec<World>) -> Result<(), Violation> {
        let mut world = self.clone();
        world.budget.crashes -= 1;
        let pending = match &self.nodes[n].program {
            Program::Winning(write, _)
            | Program::Renewing { write, .. }
            | Program::Storing { write, .. }
            | Program::Leaving(write) => Some(write.clone()),
            _ => None,
        };
        world.nodes[n].program = Program::Dead;
        worlds.push(world.clone());
        if let Some(write) = pending {
            let mut applied = world.clone();
            applied.apply(&write, rules)?;
            worlds.push(applied);
            if world.limbo.is_none() {
                world.limbo = Some(write);
                worlds.push(world);
            }
        }
        Ok(())
    }

    fn look(&mut self, n: usize, before: Before, rules: &Rules) -> Result<(), Violation> {
        let mut seen = self.cell.clone();
        if let (false, Some(State::Computing(hold))) = (rules.lapse, &mut seen) {
            hold.until = NOW.after(TICK);
        }
        let asker = Asker { now: NOW, incarnation: 1, sole: false, before, early: false };
        let decision = decide(seen.as_ref(), &asker);
        let background = self.nodes[n].answered.is_some();
        match (&decision, &self.cell) {
            (Decision::Serve { refresh, .. }, Some(State::Ready(ready))) => {
                self.answer_with(n, ready.generation)?;
                if !*refresh || self.nodes[n].attempts == 0 {
                    return Ok(());
                }
            }
            (Decision::Fail { .. }, _) => return self.answer(n, Answered::Error),
            (Decision::Wait { .. }, _) if background => return self.answer(n, Answered::Error),
            (Decision::Wait { .. }, _) => {
                self.nodes[n].program = Program::Looking(Before::Saw(self.shown()));
                return Ok(());
            }
            _ if background => return self.answer(n, Answered::Error),
            _ => {}
        }
        if self.nodes[n].attempts == 0 {
            return self.answer(n, Answered::Deadline);
        }
        self.nodes[n].attempts -= 1;
        let by = if rules.fresh_fences { self.new_fence() } else { fence_of(0) };
        if let Some(next) = acquired(self.cell.as_ref(), &decision, by, NOW, TICK) {
            let (expect, next) = (self.cell.clone(), Next::Put(next));
            let write = Write { expect, next, by, run: None };
            self.nodes[n].program = Program::Winning(write, Before::Saw(self.shown()));
        }
        Ok(())
    }

    fn work(&mut self, n: usize, fence: Fence, held: State) {
        let run = self.computed.iter().filter(|computed| **computed == fence).count() as u8;
        self.computed.push(fence);
        self.nodes[n].program = Program::Working { fence, held, run };
    }

    fn work_steps(
        &self,
        n: usize,
        by: Fence,
        held: &State,
        run: u8,
        rules: &Rules,
        worlds: &mut Vec<World>,
    ) {
        let write = |next| Write { expect: Some(held.clone()), next, by, run: None };
        let mut push = |program, spend: fn(&mut Budget)| {
            let mut world = self.clone();
            spend(&mut world.budget);
            world.nodes[n].program = program;
            worlds.push(world);
        };
        for failed in [false, true] {
            if let Some(next) = outcome(held, by, failed, rules) {
                let write = Write { run: Some(run), ..write(next) };
                push(Program::Storing { write, run, failed }, |_| ());
            }
        }
        if let (1.., Some(next)) = (self.budget.renewals, step::renewed(held, by, NOW, TICK)) {
            let write = write(Next::Put(next));
            push(Program::Renewing { write, run }, |budget| budget.renewals -= 1);
        }
        if let (1.., Some(next)) = (self.budget.departures, step::released(held, by)) {
            push(Program::Leaving(write(next)), |budget| budget.departures -= 1);
        }
    }

    /// A commit that was sent: it is known, or it is not and was applied, lost or is still under way.
    fn commit_steps(
        &self,
        n: usize,
        write: &Write,
        rules: &Rules,
        worlds: &mut Vec<World>,
    ) -> Result<(), Violation> {
        let mut known = self.clone();
        let applied = known.apply(write, rules)?;
        let unknown = |mut world: World| -> Result<World, Violation> {
            world.budget.unknowns -= 1;
            world.unsure(n)?;
            Ok(world)
        };
        if self.budget.unknowns > 0 {
            worlds.push(unknown(known.clone())?);
            worlds.push(unknown(self.clone())?);
            if self.limbo.is_none() {
                let mut late = self.clone();
                late.limbo = Some(write.clone());
                worlds.push(unknown(late)?);
            }
        }
        match (applied, &self.nodes[n].program) {
            (true, Program::Winning(Write { next: Next::Put(held), by, .. }, _)) => {
                known.work(n, *by, held.clone());
            }
            (true, Program::Renewing { write, run }) => {
                if let Next::Put(held) = &write.next {
                    let (fence, held, run) = (write.by, held.clone(), *run);
                    known.nodes[n].program = Program::Working { fence, held, run };
                }
            }
            (true, Program::Storing { write, failed, .. }) => {
                known.stored(n, &write.next, write.by, *failed)?;
            }
            (true, _) => known.answer(n, Answered::Unavailable)?,
            (false, Program::Winning(_, before)) => {
                known.nodes[n].program = Program::Looking(*before);
            }
            (false, _) => known.unsure(n)?,
        }
        worlds.push(known);
        Ok(())
    }

    /// The node does not know what became of its commit, or knows that it was refused.
    fn unsure(&mut self, n: usize) -> Result<(), Violation> {
        let next = match self.nodes[n].program.clone() {
            Program::Winning(write, before) => Program::Unsure(write.by, before),
            Program::Renewing { write, run } => Program::Rechecking { fence: write.by, run },
            Program::Storing { write, run, failed } => {
                Program::Settling { next: write.next, fence: write.by, run, failed }
            }
            _ => return self.answer(n, Answered::Unavailable),
        };
        self.nodes[n].program = next;
        Ok(())
    }

    fn settle(
        &mut self,
        n: usize,
        next: &Next,
        by: Fence,
        run: u8,
        failed: bool,
        rules: &Rules,
    ) -> Result<(), Violation> {
        let wanted = match next {
            Next::Put(state) => state.outcome(),
            // Nobody depends on it: those here are told, and elsewhere the lease lapses.
            Next::Clear => return self.answer(n, Answered::Error),
        };
        match self.cell.clone() {
            Some(held) if held.is_held_by(by) => {
                if let Some(next) = outcome(&held, by, failed, rules) {
                    let write = Write { expect: Some(held), next, by, run: Some(run) };
                    self.nodes[n].program = Program::Storing { write, run, failed };
                }
                Ok(())
            }
            Some(there) if there.outcome() == wanted => {
                self.stored(n, &Next::Put(there), by, failed)
            }
            _ => {
                self.nodes[n].program = Program::Looking(Before::Saw(self.shown()));
                Ok(())
            }
        }
    }

    fn stored(&mut self, n: usize, next: &Next, by: Fence, failed: bool) -> Result<(), Violation> {
        match next {
            Next::Put(State::Ready(ready)) => {
                debug_assert!(failed || ready.generation == by);
                self.answer_with(n, ready.generation)
            }
            _ => self.answer(n, Answered::Error),
        }
    }

    fn over(&self) -> bool {
        let over = |node: &Node| node.program == Program::Dead || node.answered.is_some();
        self.nodes.iter().all(over)
    }
}

fn outcome(held: &State, by: Fence, failed: bool, rules: &Rules) -> Option<Next> {
    match failed {
        true => step::failed(held, by, NOW, &failure(), TICK, rules.on_error),
        false => step::published(held, by, NOW, rules.life),
    }
}

/// One tick older; what is over stays as it is.
fn older(time: &mut Timestamp) {
    time.0 = (time.0 - 1).max(NOW.0);
}

fn age(state: &mut State) {
    let age_hold = |hold: &mut Hold| older(&mut hold.until);
    match state {
        State::Computing(hold) => age_hold(hold),
        State::Failed(failed) => older(&mut failed.until),
        State::Ready(ready) => {
            let Ready { published, fresh_until, usable_until, excusable_until, .. } = ready;
            for time in [published, fresh_until, usable_until, excusable_until] {
                older(time);
            }
            ready.excused_until.0 = ready.excused_until.0.max(NOW.0 + 1);
            older(&mut ready.excused_until);
            ready.refresh.iter_mut().for_each(age_hold);
        }
    }
}

fn age_next(next: &mut Next) {
    if let Next::Put(state) = next {
        age(state);
    }
}

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

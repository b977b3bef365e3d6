//! The model's world: the cell, what commits do to it, what is checked when they do, and time.

use consort_kernel::Timestamp;

use super::{ATTEMPTS, Answered, Budget, NOW, Node, Program, Rules, Violation, World, Write};
use crate::decide::Before;
use crate::fence::Fence;
use crate::state::{Hold, Ready, State};
use crate::step::Next;

impl World {
    pub(super) fn new(nodes: usize, budget: Budget) -> Self {
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
    pub(super) fn apply(&mut self, write: &Write, rules: &Rules) -> Result<bool, Violation> {
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

    pub(super) fn answer_with(&mut self, n: usize, generation: Fence) -> Result<(), Violation> {
        match self.published.iter().any(|(published, _)| *published == generation) {
            true => self.answer(n, Answered::Value),
            false => Err("somebody got what was never published"),
        }
    }

    pub(super) fn answer(&mut self, n: usize, answered: Answered) -> Result<(), Violation> {
        let node = &mut self.nodes[n];
        node.answered.get_or_insert(answered);
        node.program = Program::Idle;
        Ok(())
    }

    pub(super) fn tick(&mut self) {
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
    pub(super) fn successors(&self, rules: &Rules) -> Result<Vec<World>, Violation> {
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

    pub(super) fn over(&self) -> bool {
        let over = |node: &Node| node.program == Program::Dead || node.answered.is_some();
        self.nodes.iter().all(over)
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

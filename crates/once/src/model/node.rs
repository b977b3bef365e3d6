//! What a node of the model may do next: the same walk as that of a flight and its attempts.

use super::names::fence_of;
use super::{Answered, Budget, NOW, Program, Rules, TICK, Violation, World, Write};
use crate::decide::{Asker, Before, Decision, decide};
use crate::fence::Fence;
use crate::state::State;
use crate::step::{self, Next, acquired};
use crate::terms::{Failure, FailureKind};

impl World {
    pub(super) fn node_steps(
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

    pub(super) fn shown(&self) -> Option<Fence> {
        self.cell.as_ref().and_then(State::outcome)
    }

    pub(super) fn crash(
        &self,
        n: usize,
        rules: &Rules,
        worlds: &mut Vec<World>,
    ) -> Result<(), Violation> {
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

    pub(super) fn look(
        &mut self,
        n: usize,
        before: Before,
        rules: &Rules,
    ) -> Result<(), Violation> {
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

    pub(super) fn work(&mut self, n: usize, fence: Fence, held: State) {
        let run = self.computed.iter().filter(|computed| **computed == fence).count() as u8;
        self.computed.push(fence);
        self.nodes[n].program = Program::Working { fence, held, run };
    }

    pub(super) fn work_steps(
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
    pub(super) fn commit_steps(
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
    pub(super) fn unsure(&mut self, n: usize) -> Result<(), Violation> {
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

    pub(super) fn settle(
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

    pub(super) fn stored(
        &mut self,
        n: usize,
        next: &Next,
        by: Fence,
        failed: bool,
    ) -> Result<(), Violation> {
        match next {
            Next::Put(State::Ready(ready)) => {
                debug_assert!(failed || ready.generation == by);
                self.answer_with(n, ready.generation)
            }
            _ => self.answer(n, Answered::Error),
        }
    }
}

fn outcome(held: &State, by: Fence, failed: bool, rules: &Rules) -> Option<Next> {
    match failed {
        true => step::failed(held, by, NOW, &failure(), TICK, rules.on_error),
        false => step::published(held, by, NOW, rules.life),
    }
}

fn failure() -> Failure {
    Failure::new(FailureKind::Other, "")
}

//! What a worker of the model may do next: the walk of a real worker, cut where others may come between.

use consort_kernel::Digest;

use super::store::{Request, Write};
use super::world::{Answer, World};
use super::{ModelRules, Violation};
use crate::hash::{ContentHash, SchemaChain};
use crate::head::{DbHead, GroupEnd, HeadHolder, HeadSight, HeadState, LastSeen};
use crate::write::commit::{FeedVerdict, HeadAnswer, HeadCommit, HeadVerdict};

/// A worker's SQLite file: it survives a crash.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct File {
    era: u64,
    index: u64,
    writes: Vec<Write>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Program {
    Following,
    Claiming(HeadCommit),
    Leading(DbHead),
    Writing(HeadCommit, Write),
    AskingFeed(HeadCommit, Write),
    Vacating(HeadCommit),
    Stopping(HeadCommit),
    Dead,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Worker {
    file: Option<File>,
    pub(super) seen: Option<LastSeen>,
    pub(super) program: Program,
    /// A look whose answer is on its way: what was seen before it began, and what it found.
    slow_look: Option<(Option<LastSeen>, DbHead)>,
}

impl Worker {
    pub(super) fn new() -> Self {
        Worker { file: None, seen: None, program: Program::Following, slow_look: None }
    }

    pub(super) fn is_idle(&self) -> bool {
        matches!(self.program, Program::Following | Program::Leading(_) | Program::Dead)
    }
}

impl World {
    pub(super) fn worker_steps(
        &self,
        n: usize,
        rules: &ModelRules,
        worlds: &mut Vec<World>,
    ) -> Result<(), Violation> {
        self.crash_step(n, worlds);
        self.slow_look_steps(n, rules, worlds)?;
        match &self.workers[n].program {
            Program::Following => self.follow_steps(n, rules, worlds),
            Program::Leading(head) => {
                self.lead_steps(n, head, worlds);
                Ok(())
            }
            Program::Claiming(commit) | Program::Vacating(commit) | Program::Stopping(commit) => {
                self.commit_steps(n, commit, None, rules, worlds)
            }
            Program::Writing(commit, write) => {
                self.commit_steps(n, commit, Some(*write), rules, worlds)
            }
            Program::AskingFeed(commit, write) => {
                let verdict = commit.settle_by_feed(self.store.intended(commit));
                let answer = match verdict {
                    FeedVerdict::Stored => Answer::Stored,
                    FeedVerdict::NotStored => Answer::NotStored,
                    FeedVerdict::Unknown => Answer::Unknown,
                };
                let mut world = self.clone();
                world.answer(*write, answer)?;
                world.workers[n].program = Program::Following;
                worlds.push(world);
                Ok(())
            }
            Program::Dead => {
                let mut world = self.clone();
                world.workers[n].program = Program::Following;
                worlds.push(world);
                Ok(())
            }
        }
    }

    /// A crash between any two steps: memory is gone, the file stays.
    fn crash_step(&self, n: usize, worlds: &mut Vec<World>) {
        if self.budget.crashes == 0 || self.workers[n].program == Program::Dead {
            return;
        }
        let mut world = self.clone();
        world.budget.crashes -= 1;
        let file = world.workers[n].file.take();
        world.workers[n] = Worker { file, program: Program::Dead, ..Worker::new() };
        worlds.push(world);
    }

    /// A look of which the answer arrives late: other looks of the same worker may come between.
    fn slow_look_steps(
        &self,
        n: usize,
        rules: &ModelRules,
        worlds: &mut Vec<World>,
    ) -> Result<(), Violation> {
        let mut world = self.clone();
        match &self.workers[n].slow_look {
            None if self.budget.slow_looks > 0 && self.workers[n].program == Program::Following => {
                world.budget.slow_looks -= 1;
                world.workers[n].slow_look = Some((self.workers[n].seen, self.store.head.clone()));
                worlds.push(world);
            }
            Some((before, found)) => {
                let compared = match rules.compare_before {
                    true => *before,
                    false => self.workers[n].seen,
                };
                world.workers[n].slow_look = None;
                let sight = compared.map_or(HeadSight::Forward, |seen| seen.judge(Some(found)));
                if sight == HeadSight::LostTail && !self.has_lost {
                    return Err("a database that lost nothing was stopped");
                }
                worlds.push(world);
            }
            None => {}
        }
        Ok(())
    }

    fn follow_steps(
        &self,
        n: usize,
        rules: &ModelRules,
        worlds: &mut Vec<World>,
    ) -> Result<(), Violation> {
        let mut looked = self.clone();
        if !looked.look(n, rules)? {
            worlds.push(looked);
            return Ok(());
        }
        worlds.push(looked.clone());
        looked.snapshot_step(n, worlds);
        if looked.budget.claims > 0 {
            let mut world = looked;
            world.budget.claims -= 1;
            let claim = if rules.fresh_claims { u64::from(world.budget.claims) } else { 0 };
            // A worker that is told apart by its claim number alone.
            let holder =
                HeadHolder { node: String::new(), incarnation: 0, slot: 0, worker: 0, claim };
            if let Ok(put) = world.store.head.claimed(holder, 0) {
                let commit = HeadCommit::new(world.store.head.clone(), put);
                world.workers[n].program = Program::Claiming(commit);
                worlds.push(world);
            }
        }
        Ok(())
    }

    /// Looks at the head and applies the feed up to it. Returns whether the worker may go on.
    fn look(&mut self, n: usize, rules: &ModelRules) -> Result<bool, Violation> {
        let head = self.store.head.clone();
        let sight = self.workers[n].seen.map_or(HeadSight::Forward, |seen| seen.judge(Some(&head)));
        let is_lost = sight == HeadSight::LostTail || self.is_file_ahead(n, &head);
        if is_lost && matches!(head.state, HeadState::Stopped { .. }) {
            return Ok(false);
        }
        if is_lost && rules.watch_regress {
            if !self.has_lost {
                return Err("a database that lost nothing was stopped");
            }
            self.stop(n, &head);
            return Ok(false);
        }
        if is_lost {
            return Err("a worker went on from a head lower than one it had seen");
        }
        let seen = LastSeen::new(&head);
        self.workers[n].seen = Some(self.workers[n].seen.map_or(seen, |s| s.latest(seen)));
        self.catch_up(n, &head)?;
        Ok(sight != HeadSight::Stopped)
    }

    /// H8, H10: the file has an entry of this era that the feed lacks, or another one. The digests of real
    /// entries tell; here the writes themselves do.
    fn is_file_ahead(&self, n: usize, head: &DbHead) -> bool {
        self.workers[n].file.as_ref().is_some_and(|file| {
            file.era == head.era && file.writes != self.store.contents(file.era, file.index)
        })
    }

    fn catch_up(&mut self, n: usize, head: &DbHead) -> Result<(), Violation> {
        let applied = self.workers[n].file.as_ref().filter(|file| file.era == head.era);
        let (start, mut writes) = match applied {
            Some(file) if self.store.is_readable_behind(file.index) => {
                (file.index, file.writes.clone())
            }
            // Another era, no file, or one that is too old: the newest snapshot.
            _ => {
                let newest = self.store.snapshots[0].ok_or("there is no snapshot to load")?;
                (newest, self.store.contents(head.era, newest))
            }
        };
        if !self.store.is_readable_behind(start) {
            return Err("entries behind a snapshot are gone");
        }
        let all = self.store.contents(head.era, head.index);
        let behind = all.len() - (head.index - start.min(head.index)) as usize;
        writes.extend(&all[behind..]);
        if writes != all {
            return Err("a worker's file is no prefix of the feed");
        }
        self.workers[n].file = Some(File { era: head.era, index: head.index, writes });
        Ok(())
    }

    fn snapshot_step(&self, n: usize, worlds: &mut Vec<World>) {
        let Some(file) = &self.workers[n].file else { return };
        let is_newer = self.store.snapshots[0].is_none_or(|newest| file.index > newest);
        if self.budget.snapshots > 0 && file.era == self.store.head.era && is_newer {
            let mut world = self.clone();
            world.budget.snapshots -= 1;
            world.store.put_snapshot(file.index);
            worlds.push(world);
        }
    }

    fn stop(&mut self, n: usize, head: &DbHead) {
        self.workers[n].program = match head.stopped("") {
            Ok(put) => Program::Stopping(HeadCommit::new(head.clone(), put)),
            Err(_) => Program::Following,
        };
    }

    fn lead_steps(&self, n: usize, head: &DbHead, worlds: &mut Vec<World>) {
        let claim = head.holder.as_ref().map_or(0, |holder| holder.claim);
        if self.budget.writes > 0 {
            let mut world = self.clone();
            let write = world.next_write();
            if let Ok(put) = head.advanced(claim, &group_end(head)) {
                let commit = HeadCommit::new(head.clone(), put);
                world.workers[n].program = Program::Writing(commit, write);
                worlds.push(world);
            }
        }
        if self.budget.departures > 0 {
            let mut world = self.clone();
            world.budget.departures -= 1;
            if let Ok(put) = head.vacated(claim, None) {
                world.workers[n].program = Program::Vacating(HeadCommit::new(head.clone(), put));
                worlds.push(world);
            }
        }
    }

    /// One attempt of a commit, with each end that it may have.
    fn commit_steps(
        &self,
        n: usize,
        commit: &HeadCommit,
        write: Option<Write>,
        rules: &ModelRules,
        worlds: &mut Vec<World>,
    ) -> Result<(), Violation> {
        let request = Request { commit: commit.clone(), write };
        let mut world = self.clone();
        let answer = world.apply(&request, rules)?;
        if self.budget.unknowns > 0 {
            let spend = |mut world: World| {
                world.budget.unknowns -= 1;
                world
            };
            // Applied, lost, or still to come.
            spend(world.clone()).settle(n, HeadAnswer::Unknown, rules, worlds)?;
            spend(self.clone()).settle(n, HeadAnswer::Unknown, rules, worlds)?;
            if self.limbo.is_none() {
                let mut later = spend(self.clone());
                later.limbo = Some(Request {
                    commit: HeadCommit::new(commit.expect.clone(), commit.put.clone()),
                    write,
                });
                later.settle(n, HeadAnswer::Unknown, rules, worlds)?;
            }
        }
        world.settle(n, answer, rules, worlds)?;
        if self.budget.faults > 0 {
            let mut world = self.clone();
            world.budget.faults -= 1;
            world.settle(n, HeadAnswer::Fault, rules, worlds)?;
        }
        Ok(())
    }

    /// What the worker makes of an answer.
    fn settle(
        mut self,
        n: usize,
        answer: HeadAnswer,
        rules: &ModelRules,
        worlds: &mut Vec<World>,
    ) -> Result<(), Violation> {
        let (mut commit, write) = match &self.workers[n].program {
            Program::Writing(commit, write) => (commit.clone(), Some(*write)),
            Program::Claiming(commit) | Program::Vacating(commit) | Program::Stopping(commit) => {
                (commit.clone(), None)
            }
            _ => return Ok(()),
        };
        let forgets_open = match answer {
            HeadAnswer::Fault => !rules.stays_open,
            HeadAnswer::Stale(_) => !rules.ask_feed,
            _ => false,
        };
        commit.is_open &= !forgets_open;
        let mut verdict = commit.settle(&answer);
        if answer == HeadAnswer::Unknown && !rules.repeat_unknown {
            // The broken rule: a read that does not find the commit is taken for proof.
            let is_there = self.store.head == commit.put;
            verdict = if is_there { HeadVerdict::Stored } else { HeadVerdict::NotStored };
        }
        match verdict {
            HeadVerdict::Stored => self.stored(n, &commit, write)?,
            HeadVerdict::NotStored => self.ended(n, write, Answer::NotStored)?,
            HeadVerdict::Repeat | HeadVerdict::MayRepeat => {
                let given_up = match verdict {
                    HeadVerdict::MayRepeat => Answer::NotStored,
                    _ => Answer::Unknown,
                };
                if verdict == HeadVerdict::MayRepeat || self.budget.departures > 0 {
                    let mut world = self.clone();
                    world.budget.departures = world.budget.departures.saturating_sub(1);
                    world.ended(n, write, given_up)?;
                    worlds.push(world);
                }
                self.repeat(n, commit);
            }
            HeadVerdict::AskFeed { .. } => match write {
                Some(write) => self.workers[n].program = Program::AskingFeed(commit, write),
                None => self.workers[n].program = Program::Following,
            },
        }
        worlds.push(self);
        Ok(())
    }

    fn repeat(&mut self, n: usize, repeated: HeadCommit) {
        if let Program::Writing(commit, _)
        | Program::Claiming(commit)
        | Program::Vacating(commit)
        | Program::Stopping(commit) = &mut self.workers[n].program
        {
            *commit = repeated;
        }
    }

    fn stored(
        &mut self,
        n: usize,
        commit: &HeadCommit,
        write: Option<Write>,
    ) -> Result<(), Violation> {
        let put = commit.put.clone();
        if let Some(write) = write {
            self.answer(write, Answer::Stored)?;
        }
        let leads = match &self.workers[n].program {
            Program::Claiming(_) | Program::Writing(..) => put.state == HeadState::Led,
            _ => false,
        };
        self.workers[n].seen = Some(LastSeen::new(&put));
        if let (Some(write), Some(file)) = (write, &mut self.workers[n].file) {
            file.index = put.index;
            file.writes.push(write);
        }
        self.workers[n].program = if leads { Program::Leading(put) } else { Program::Following };
        Ok(())
    }

    fn ended(&mut self, n: usize, write: Option<Write>, answer: Answer) -> Result<(), Violation> {
        if let Some(write) = write {
            self.answer(write, answer)?;
        }
        self.workers[n].program = Program::Following;
        Ok(())
    }
}

/// The entry of any write at this place: equal writes have equal bytes, except for epoch and index.
fn group_end(head: &DbHead) -> GroupEnd {
    let mut digest = [0; Digest::LENGTH];
    digest[0] = head.epoch as u8;
    digest[1] = head.index as u8 + 1;
    digest[2] = head.era as u8;
    let digest = Digest(digest);
    GroupEnd { entries: 1, digest, chain: SchemaChain::START, content: ContentHash::EMPTY }
}

//! A world of the model: the store, the workers, one commit that may still arrive, and all answers.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::store::{ModelStore, Request, Write, base};
use super::worker::{Program, Worker};
use super::{Budget, ModelRules, Violation};
use crate::head::HeadState;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Answer {
    Stored,
    NotStored,
    Unknown,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct World {
    pub(super) store: ModelStore,
    /// The store before its last commit: what is left if it loses that one.
    before: Option<Box<ModelStore>>,
    pub(super) has_lost: bool,
    pub(super) workers: Vec<Worker>,
    /// A commit with an unknown outcome that may still be applied.
    pub(super) limbo: Option<Request>,
    answers: Vec<(Write, Answer)>,
    pub(super) budget: Budget,
}

impl World {
    pub(super) fn new(workers: usize, budget: Budget) -> Self {
        World {
            store: ModelStore::new(),
            before: None,
            has_lost: false,
            workers: vec![Worker::new(); workers],
            limbo: None,
            answers: Vec::new(),
            budget,
        }
    }

    /// All worlds that may come next.
    pub(super) fn successors(&self, rules: &ModelRules) -> Result<Vec<World>, Violation> {
        let mut worlds = Vec::new();
        self.limbo_steps(rules, &mut worlds)?;
        self.store_steps(rules, &mut worlds);
        for n in 0..self.workers.len() {
            self.worker_steps(n, rules, &mut worlds)?;
        }
        worlds.iter_mut().for_each(World::normalise);
        worlds.iter().try_for_each(World::check_answers)?;
        Ok(worlds)
    }

    /// Whether no write is open.
    pub(super) fn is_settled(&self) -> bool {
        self.limbo.is_none() && self.workers.iter().all(Worker::is_idle)
    }

    /// Applies a request, and keeps the store as it was for a loss.
    pub(super) fn apply(
        &mut self,
        request: &Request,
        rules: &ModelRules,
    ) -> Result<crate::write::commit::HeadAnswer, Violation> {
        let before = (self.budget.losses > 0).then(|| Box::new(self.store.clone()));
        let answer = self.store.apply(request, rules)?;
        if answer == crate::write::commit::HeadAnswer::Ok {
            self.before = before;
        }
        Ok(answer)
    }

    pub(super) fn answer(&mut self, write: Write, answer: Answer) -> Result<(), Violation> {
        if answer == Answer::Stored && !self.has_lost && self.store.count(write) == 0 {
            return Err("an acknowledged write is not in the feed");
        }
        self.answers.push((write, answer));
        Ok(())
    }

    /// The number of the next write: all begun ones count, also those that a crash left open.
    pub(super) fn next_write(&mut self) -> Write {
        self.budget.writes -= 1;
        self.budget.writes
    }

    fn limbo_steps(&self, rules: &ModelRules, worlds: &mut Vec<World>) -> Result<(), Violation> {
        if let Some(request) = &self.limbo {
            let mut world = self.clone();
            world.limbo = None;
            worlds.push(world.clone());
            world.apply(request, rules)?;
            worlds.push(world);
        }
        Ok(())
    }

    fn store_steps(&self, rules: &ModelRules, worlds: &mut Vec<World>) {
        if let (Some(before), true) = (&self.before, self.budget.losses > 0) {
            let mut world = self.clone();
            world.budget.losses -= 1;
            world.store = (**before).clone();
            world.before = None;
            world.has_lost = true;
            worlds.push(world);
        }
        if self.budget.restores == 0 {
            return;
        }
        let mut world = self.clone();
        world.budget.restores -= 1;
        world.before = None;
        let head = &self.store.head;
        match (&head.state, rules.new_era) {
            (HeadState::Stopped { .. }, _) => {
                let contents = self.store.contents(head.era, head.index);
                if let Ok(resolved) = head.resolved(base()) {
                    world.store.begin_era(resolved, contents);
                }
            }
            (_, true) => world.store.begin_era(head.restored(base()), Vec::new()),
            // The broken rule: the restore replaces the contents and keeps era and head.
            (_, false) => {
                let restored = head.restored(base());
                world.store.feeds = vec![Default::default()];
                world.store.head =
                    crate::head::DbHead { era: head.era, epoch: head.epoch, ..restored };
            }
        }
        worlds.push(world);
    }

    fn check_answers(&self) -> Result<(), Violation> {
        for (write, answer) in &self.answers {
            match (answer, self.store.count(*write)) {
                // A store that loses a claim loses the fence with it: nothing can be promised then.
                (Answer::NotStored, 1..) if !self.has_lost => {
                    return Err("a write that was answered as not stored is in the feed");
                }
                (Answer::Stored, 0) if !self.has_lost => {
                    return Err("an acknowledged write is not in the feed");
                }
                (_, 2..) => return Err("a write is in the feed twice"),
                _ => {}
            }
        }
        Ok(())
    }

    /// Makes worlds equal that differ in the order of workers or answers only.
    fn normalise(&mut self) {
        self.workers.sort_by_cached_key(|worker| {
            let mut hasher = DefaultHasher::new();
            worker.hash(&mut hasher);
            hasher.finish()
        });
        self.answers.sort_unstable_by_key(|(write, _)| *write);
        if self.budget.losses == 0 {
            self.before = None;
        }
        debug_assert!(
            self.workers.iter().all(|worker| {
                !matches!(worker.program, Program::Dead) || worker.seen.is_none()
            })
        );
    }
}

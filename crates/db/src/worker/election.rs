//! When a follower claims the lead, and the claim itself.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::loading::LoadedFile;
use super::{RETRY_PAUSE, Worker};
use crate::head::{DbHead, HeadError, HeadHolder, HeadSight, HeadState};
use crate::supervise::elect::{BEHIND_WAIT, Fitness, Follower, Vacancy, claim_wait};
use crate::view::DatabaseView;
use crate::worker::cell::{WorkerCell, WorkerState};
use crate::write::commit::{HeadCommit, HeadVerdict};

/// How long a claim waits for a fresh look at workers and nodes.
const REFRESH_WITHIN: Duration = Duration::from_millis(300);

impl Worker {
    /// When this worker should claim, as the present view has it.
    pub(super) fn claim_due(&self, loaded: &LoadedFile) -> Option<Instant> {
        let view = self.db.view().now();
        let vacancy = self.vacancy(&view)?;
        let behind = loaded.follower.state().index;
        let wait = claim_wait(self.cell.id, &self.followers(&view, behind), vacancy)?;
        Some(Instant::now() + wait + self.first_election_wait(&view))
    }

    /// The first leader of a database has the lowest id, which is 1 (H25): others give it the time to load.
    fn first_election_wait(&self, view: &DatabaseView) -> Duration {
        let is_first = view.head.as_ref().is_none_or(|head| head.epoch == 0);
        match is_first && self.cell.id > 1 {
            true => BEHIND_WAIT,
            false => Duration::ZERO,
        }
    }

    /// As [`claim_due`](Self::claim_due), but a wait that has begun goes on.
    pub(super) fn next_claim(
        &self,
        begun: Option<Instant>,
        loaded: &LoadedFile,
    ) -> Option<Instant> {
        let due = self.claim_due(loaded)?;
        Some(begun.map_or(due, |begun| begun.min(due)))
    }

    /// Claims the lead if a fresh look confirms that nobody has it. `None`: this worker does not lead.
    pub(super) async fn claim_if_free(&mut self, loaded: &LoadedFile) -> Option<DbHead> {
        let view = self.db.view().refreshed(REFRESH_WITHIN).await;
        let vacancy = self.vacancy(&view)?;
        claim_wait(self.cell.id, &self.followers(&view, loaded.follower.state().index), vacancy)?;
        if let Vacancy::Refused { .. } = vacancy {
            self.db.probe().acted_on_refusal();
        }
        let before = self.seen;
        let head = self.db.store().head().await.ok()??;
        if self.judge(before, Some(&head)) != HeadSight::Forward {
            return None;
        }
        let is_same = view.head.as_ref().is_some_and(|seen| {
            (seen.epoch, seen.era, &seen.state) == (head.epoch, head.era, &head.state)
        });
        let is_own_history = head.era == loaded.follower.state().era;
        match is_same && is_own_history {
            true => self.claim(head).await,
            false => None,
        }
    }

    async fn claim(&mut self, head: DbHead) -> Option<DbHead> {
        let holder = HeadHolder {
            node: self.cell.node.clone(),
            incarnation: self.cell.incarnation,
            slot: self.cell.slot,
            worker: self.cell.id,
            claim: self.db.draw(),
        };
        let put = match head.claimed(holder, rusqlite::version_number() as u32) {
            Ok(put) => put,
            Err(HeadError::OlderSqlite { .. }) => {
                let trouble = "a newer SQLite has led the database: upgrade this node";
                self.local.say(|status| status.trouble = Some(trouble.into()));
                self.write_cell(self.cell.applied, WorkerState::Unfit).await;
                return None;
            }
            Err(_) => return None,
        };
        let mut commit = HeadCommit::new(head, put);
        while !self.control.is_killed() {
            let answer = self.db.store().replace_head(&commit.expect, &commit.put).await;
            match commit.settle(&answer) {
                HeadVerdict::Stored => {
                    self.judge(self.seen, Some(&commit.put));
                    self.db.view().refresh();
                    return Some(commit.put);
                }
                HeadVerdict::Repeat => sleep(RETRY_PAUSE).await,
                HeadVerdict::NotStored | HeadVerdict::MayRepeat | HeadVerdict::AskFeed { .. } => {
                    return None;
                }
            }
        }
        None
    }

    /// Whether the lead is free, and why.
    fn vacancy(&self, view: &DatabaseView) -> Option<Vacancy> {
        let head = view.head.as_ref()?;
        match &head.state {
            HeadState::Stopped { .. } => None,
            HeadState::Vacant { successor } => Some(Vacancy::Yielded { successor: *successor }),
            HeadState::Led => {
                let holder = head.holder.as_ref()?;
                // This worker's own lead has ended, or it would not follow.
                if holder.worker == self.cell.id
                    || !view.workers.iter().any(|worker| worker.id == holder.worker)
                {
                    return Some(Vacancy::Gone);
                }
                let refused = self.db.probe().refuses(&holder.node, holder.incarnation);
                refused.then(|| Vacancy::Refused { since_last: self.db.probe().since_acted() })
            }
        }
    }

    /// The live workers that do not lead.
    pub(super) fn followers(&self, view: &DatabaseView, applied: u64) -> Vec<Follower> {
        let head = view.head.as_ref();
        let index = head.map_or(0, |head| head.index);
        let holder = match head.map(|head| (&head.state, head.holder.as_ref())) {
            Some((HeadState::Led, Some(holder))) => Some(holder.worker),
            _ => None,
        };
        let fitness = |worker: &WorkerCell| match worker.state {
            WorkerState::Fit => Fitness::Fit,
            WorkerState::Yielded => Fitness::Yielded,
            WorkerState::Loading | WorkerState::Unfit => Fitness::Unfit,
        };
        let others = view.workers.iter().filter(|worker| worker.id != self.cell.id);
        let others = others.filter(|worker| Some(worker.id) != holder).map(|worker| Follower {
            id: worker.id,
            fitness: fitness(worker),
            behind: index.saturating_sub(worker.applied.index),
        });
        let own_fitness = match self.fitness() {
            WorkerState::Yielded => Fitness::Yielded,
            _ => Fitness::Fit,
        };
        let own = Follower {
            id: self.cell.id,
            fitness: own_fitness,
            behind: index.saturating_sub(applied),
        };
        others.chain([own]).collect()
    }
}

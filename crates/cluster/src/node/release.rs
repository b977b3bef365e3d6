//! Releasing roles whose work has ended: in one commit that tells everybody, so that the next owner
//! need not wait.

use bytes::Bytes;
use consort_kernel::{Operation, Timestamp};

use super::holding::Doing;
use super::run::{LEASES_PER_COMMIT, NodeLoop, TRIES, earlier};
use crate::change::{Move, Outcome};
use crate::drain::news_of;
use crate::format::{decode, encode};
use crate::keys;
use crate::lease::{Lease, Standing};
use crate::refusal::RoleRefusal;
use crate::role::Role;
use crate::roster::Roster;

/// How it went to take something out of the store.
pub(super) enum Released {
    Done,
    /// It was not as expected; what is there now is known.
    Again,
    Failed,
}

impl NodeLoop {
    /// Releases all roles whose work has ended by now.
    pub(super) async fn release_ended(&mut self) {
        let over = self.holdings.over();
        for roles in over.chunks(LEASES_PER_COMMIT) {
            for _ in 0..TRIES {
                match self.release(roles).await {
                    Released::Done => break,
                    Released::Again => {}
                    Released::Failed => return self.retry_soon(),
                }
            }
        }
        if !self.holdings.over().is_empty() {
            self.retry_soon();
        }
    }

    async fn release(&mut self, roles: &[Role]) -> Released {
        let now = match self.now().await {
            Ok(now) => now,
            Err(fault) => {
                tracing::warn!(node = %self.me.id, %fault, "could not release roles; tries again");
                return Released::Failed;
            }
        };
        let (roles, steps, refusals) = self.releases(roles, now);
        if roles.is_empty() {
            return Released::Done;
        }
        let mut also = refusals;
        also.push(Operation::Put { key: keys::news(), value: news_of(&self.me.id, now) });
        match self.change(&steps, also).await {
            Outcome::Done => {
                for role in &roles {
                    self.note_released(role);
                }
                Released::Done
            }
            Outcome::Seen(found) => {
                for ((role, step), found) in roles.iter().zip(&steps).zip(found) {
                    if found != step.from {
                        self.settle_release(role, found, now);
                    }
                }
                Released::Again
            }
            Outcome::Failed(fault) => {
                tracing::warn!(node = %self.me.id, %fault, "could not release roles; tries again");
                Released::Failed
            }
        }
    }

    /// The moves that release those of `roles` that are still held and over, and what tells of refusals.
    fn releases(
        &mut self,
        roles: &[Role],
        now: Timestamp,
    ) -> (Vec<Role>, Vec<Move>, Vec<Operation>) {
        let local = self.elapsed();
        let (mut over, mut steps, mut refusals) = (vec![], vec![], vec![]);
        for role in roles {
            let Some(holding) = self.holdings.0.get(role) else { continue };
            let Doing::Over { at, refusal } = &holding.doing else { continue };
            let ended = earlier(now, local.saturating_sub(*at));
            steps.push(Move {
                key: keys::lease(role),
                from: holding.stored.clone(),
                to: Some(encode(&holding.lease.released(ended))),
            });
            if let Some(reason) = refusal {
                let refusal = RoleRefusal::new(reason, now);
                let key = keys::refusal(role, &self.me.id);
                let cell = keys::cell(key.clone());
                refusals.push(Operation::Put { key, value: encode(&refusal) });
                refusals.push(Operation::Expire { cell, at: Some(refusal.until) });
                self.refused.insert(role.clone());
            }
            over.push(role.clone());
        }
        (over, steps, refusals)
    }

    /// Goes on from a lease that was not as expected.
    fn settle_release(&mut self, role: &Role, found: Option<Bytes>, now: Timestamp) {
        let Some(holding) = self.holdings.0.get(role) else { return };
        let epoch = holding.lease.epoch;
        let lease: Option<Lease> = found.as_deref().and_then(|stored| decode(stored).ok());
        // The release that nobody knew of was applied.
        if lease.is_some_and(|lease| lease.holder.is_none() && lease.epoch == epoch) {
            return self.note_released(role);
        }
        match self.standing(epoch, found.as_deref(), now) {
            // Nobody waits for it any more.
            Standing::Taken => self.lose(role),
            // Where the store went back, the release puts the epoch right as well.
            Standing::Mine | Standing::Forgotten => {
                if let Some(holding) = self.holdings.0.get_mut(role) {
                    holding.stored = found;
                }
            }
        }
    }

    fn note_released(&mut self, role: &Role) {
        if let Some(holding) = self.holdings.0.remove(role) {
            let epoch = holding.lease.epoch;
            tracing::debug!(node = %self.me.id, %role, epoch, "released a role");
            self.options.observer.on_released(role, epoch);
        }
    }

    /// Releases leases that stand for this process although it does not hold them. Best effort: if it
    /// fails, they lapse.
    pub(super) async fn release_orphans(&mut self, roster: &Roster, roles: &[Role]) {
        let (id, now) = (self.me.id.clone(), roster.now);
        let news = || Operation::Put { key: keys::news(), value: news_of(&id, now) };
        for chunk in roles.chunks(LEASES_PER_COMMIT) {
            let step = |role: &Role| {
                let found = roster.leases.get(role)?;
                // Its last renewal stays: since then nobody has worked.
                let lease = found.value.released(found.value.renewed);
                let from = Some(found.stored.clone());
                Some(Move { key: keys::lease(role), from, to: Some(encode(&lease)) })
            };
            let steps: Vec<Move> = chunk.iter().filter_map(step).collect();
            if !matches!(self.change(&steps, vec![news()]).await, Outcome::Done) {
                tracing::debug!(node = %self.me.id, "left-over leases were not released; they lapse");
            }
        }
    }
}

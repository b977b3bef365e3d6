//! Leaving: the node tells that it goes, ends all work, hands its roles over, and takes its cells away.

use std::time::Duration;

use consort_kernel::Operation;

use super::Left;
use super::handle::Health;
use super::release::Released;
use super::run::{NodeLoop, TRIES};
use crate::change::{Move, Outcome, delete};
use crate::drain::news_of;
use crate::format::decode;
use crate::keys;
use crate::member::Member;

/// How long work that is asked to end may take before it is dropped, which is safe and only wasteful. Far
/// longer than a commit takes, and well within the half minute that process supervisors wait.
pub(super) const END_WITHIN: Duration = Duration::from_secs(10);

/// A node on its way out.
#[derive(Debug)]
pub(super) struct Leaving {
    how: Left,
    /// When, by local time, a store that does not take the farewell is left without it.
    give_up_at: Option<Duration>,
}

impl NodeLoop {
    /// Tells everybody that this node goes, and asks all work to end.
    pub(super) fn begin_leaving(&mut self, how: Left) {
        if self.leaving.is_some() {
            return;
        }
        tracing::info!(node = %self.me.id, roles = self.holdings.0.len(), "hands its roles over to leave");
        self.leaving = Some(Leaving { how, give_up_at: None });
        self.health.send_replace(Health::Leaving);
        self.member.draining = true;
        self.tell = true;
        let now = self.elapsed();
        self.beat_at = now;
        for holding in self.holdings.0.values_mut() {
            holding.end(now, now + END_WITHIN);
        }
    }

    /// Takes the node's cells away once it holds nothing; gives how it left when that is done, or cannot
    /// be done in time.
    pub(super) async fn leave_if_empty(&mut self) -> Option<Left> {
        if !self.holdings.0.is_empty() {
            return None;
        }
        let now = self.elapsed();
        let ttl = self.options.ttl;
        let leaving = self.leaving.as_mut()?;
        let give_up_at = *leaving.give_up_at.get_or_insert(now + ttl);
        let how = leaving.how.clone();
        for _ in 0..TRIES {
            match self.take_away().await {
                Released::Done => return Some(how),
                Released::Again => {}
                Released::Failed => break,
            }
        }
        if give_up_at <= self.elapsed() {
            tracing::warn!(node = %self.me.id, "the store does not answer; leaves without a word, and lapses");
            return Some(how);
        }
        self.retry_soon();
        None
    }

    /// Removes the node's cells.
    async fn take_away(&mut self) -> Released {
        let Ok(now) = self.now().await else { return Released::Failed };
        let id = self.me.id.clone();
        let step = Move { key: keys::member(&id), from: self.member_stored.clone(), to: None };
        let mut also = vec![delete(keys::drain(&id)), delete(keys::report(&id))];
        also.extend(self.refused.iter().map(|role| delete(keys::refusal(role, &id))));
        also.push(Operation::Put { key: keys::news(), value: news_of(&id, now) });
        match self.change(&[step], also).await {
            Outcome::Done => Released::Done,
            Outcome::Failed(_) => Released::Failed,
            Outcome::Seen(found) => {
                let found = found.into_iter().next().flatten();
                let member: Option<Member> =
                    found.as_deref().and_then(|stored| decode(stored).ok());
                let mine = member.is_some_and(|member| member.incarnation == self.me.incarnation);
                if !mine {
                    return Released::Done;
                }
                self.member_stored = found;
                Released::Again
            }
        }
    }
}

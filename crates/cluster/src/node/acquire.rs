//! The look: what the cluster's cells show, what follows from it, and the roles that are taken.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use consort_kernel::{Store, Timestamp};

use super::Left;
use super::holding::{Before, Doing, Holding};
use super::leave::END_WITHIN;
use super::run::{LEASES_PER_COMMIT, NodeLoop, RETRY_AFTER, TRIES};
use crate::change::{Move, Outcome};
use crate::format::{decode, encode};
use crate::join::no_answer;
use crate::keys;
use crate::lease::Lease;
use crate::reconcile::reconcile;
use crate::report::WorkMeter;
use crate::role::Role;
use crate::roster::{Found, Roster};
use crate::runtime::Task;
use crate::tenure::{Part, Tenure};

/// How much later than a lease's end a node looks for it: local and store time are rounded differently.
const LAPSE_SLACK: Duration = Duration::from_millis(2);

type Parts = BTreeMap<Role, Arc<dyn Part>>;

/// A role about to be taken.
struct Claim {
    role: Role,
    previous: Option<Found<Lease>>,
    lease: Lease,
}

impl Claim {
    fn step(&self) -> Move {
        Move {
            key: keys::lease(&self.role),
            from: self.previous.as_ref().map(|found| found.stored.clone()),
            to: Some(encode(&self.lease)),
        }
    }
}

impl NodeLoop {
    /// Looks at the cluster and does what follows.
    pub(super) async fn look(&mut self) {
        let seen = self.elapsed();
        // A wake is a hint and may stay out: a look at least once in a time to live is the safety net.
        self.look_at = seen + self.options.ttl;
        let store: Arc<dyn Store> = Arc::clone(&self.options.lease_store);
        let ttl = self.options.ttl;
        let roster = self.call(Roster::read(&*store)).await;
        let roster = match roster.unwrap_or_else(|| Err(no_answer(ttl))) {
            Ok(roster) => roster.seen_by(self.shared.alone()),
            Err(fault) => {
                tracing::warn!(node = %self.me.id, %fault, "could not look at the cluster; tries again");
                self.look_at = self.elapsed() + RETRY_AFTER;
                return;
            }
        };
        self.tell_unreadable(&roster);
        if roster.drains.contains_key(&self.me.id) {
            return self.begin_leaving(Left::Drained);
        }
        let parts = self.parts();
        let roles: Vec<Role> = parts.keys().cloned().collect();
        let apart = self.apart_kinds();
        let steps = reconcile(&roster, &self.me, &roles, &apart, &self.holdings.held());
        if let Some(at) = steps.look_again_at {
            self.look_at = self.look_at.min(seen + at.since(roster.now) + LAPSE_SLACK);
        }
        for role in &steps.lost {
            self.lose(role);
        }
        let now = self.elapsed();
        for role in &steps.end {
            if let Some(holding) = self.holdings.0.get_mut(role) {
                holding.end(now, now + END_WITHIN);
            }
        }
        self.release_orphans(&roster, &steps.release).await;
        for roles in steps.acquire.chunks(LEASES_PER_COMMIT) {
            self.acquire(&roster, roles, &parts).await;
        }
    }

    /// Who does the work of which role. Of two parts that bring the same role, the first has it.
    fn parts(&self) -> Parts {
        let mut parts = Parts::new();
        for part in &self.options.parts {
            for role in part.roles() {
                parts.entry(role).or_insert_with(|| Arc::clone(part));
            }
        }
        parts
    }

    fn apart_kinds(&self) -> BTreeSet<&'static str> {
        self.options.parts.iter().flat_map(|part| part.apart_kinds()).copied().collect()
    }

    fn tell_unreadable(&mut self, roster: &Roster) {
        self.told.retain(|key| roster.unreadable.iter().any(|cell| cell.key == *key));
        for cell in &roster.unreadable {
            if self.told.insert(cell.key.clone()) {
                let (key, reason) = (&cell.key, &cell.reason);
                tracing::warn!(?key, %reason, "passes over a cell of the cluster that it cannot read");
            }
        }
    }

    /// Takes `roles`, as far as they still are what the roster showed.
    async fn acquire(&mut self, roster: &Roster, roles: &[Role], parts: &Parts) {
        let mut claims: Vec<Claim> =
            roles.iter().map(|role| self.claim(roster, role, roster.now)).collect();
        for _ in 0..TRIES {
            if claims.is_empty() || self.is_fenced() {
                break;
            }
            let steps: Vec<Move> = claims.iter().map(Claim::step).collect();
            match self.change(&steps, vec![]).await {
                Outcome::Done => {
                    for (claim, step) in claims.drain(..).zip(steps) {
                        self.start(claim, step.to, parts);
                    }
                }
                Outcome::Seen(found) => claims = self.settle_claims(claims, found, parts),
                Outcome::Failed(fault) => {
                    let roles = claims.len();
                    tracing::warn!(node = %self.me.id, %fault, roles, "could not take roles; tries again");
                    break;
                }
            }
        }
        if !claims.is_empty() {
            self.look_at = self.look_at.min(self.elapsed() + RETRY_AFTER);
        }
    }

    fn claim(&self, roster: &Roster, role: &Role, now: Timestamp) -> Claim {
        let previous = roster.leases.get(role).cloned();
        let before = previous.as_ref().map(|found| &found.value);
        let lease = Lease::acquired_by(&self.me, before, now, self.options.ttl);
        Claim { role: role.clone(), previous, lease }
    }

    /// Starts what was taken after all, and gives what can be tried again: cells that are as they were.
    fn settle_claims(
        &mut self,
        claims: Vec<Claim>,
        found: Vec<Option<Bytes>>,
        parts: &Parts,
    ) -> Vec<Claim> {
        let mut again = Vec::new();
        for (claim, found) in claims.into_iter().zip(found) {
            let lease: Option<Lease> = found.as_deref().and_then(|stored| decode(stored).ok());
            let mine =
                |lease: &Lease| lease.is_held_by(&self.me) && lease.epoch == claim.lease.epoch;
            if lease.as_ref().is_some_and(mine) {
                self.start(claim, found, parts);
            } else if found == claim.previous.as_ref().map(|found| found.stored.clone()) {
                again.push(claim);
            } else {
                // Somebody else was faster. How it stands now, another look will show.
                self.look_at = self.look_at.min(self.elapsed() + RETRY_AFTER);
            }
        }
        again
    }

    /// Starts the work of a role that was taken.
    fn start(&mut self, claim: Claim, stored: Option<Bytes>, parts: &Parts) {
        let Claim { role, previous, lease } = claim;
        // If all work was dropped meanwhile, so is this: the lease stands, and the next look either takes
        // it anew or releases it.
        let Some(part) = parts.get(&role).filter(|_| !self.is_fenced()) else { return };
        let (tenure, control) = Tenure::new(role.clone(), lease.epoch);
        self.shared.listen_to(&role, control.gauges());
        let runtime = Arc::clone(&self.options.work_runtime);
        let part = Arc::clone(part);
        let work = {
            let runtime = Arc::clone(&runtime);
            async move { (part.work(tenure).await, runtime.elapsed()) }
        };
        let task = Task::spawn(&*runtime, &format!("work {role}"), work);
        let epoch = lease.epoch;
        let before = Before::of(previous.as_ref().map(|found| &found.value), &lease);
        let ready = Some(Box::pin(control.until_ready()) as _);
        let doing = Doing::Working { task, control, ready, end_by: None };
        let meter = WorkMeter::new();
        let holding = Holding { lease, stored, doing, before, pause: None, meter, began: None };
        self.holdings.0.insert(role.clone(), holding);
        tracing::debug!(node = %self.me.id, %role, epoch, "acquired a role");
        self.options.observer.on_acquired(&role, epoch);
    }
}

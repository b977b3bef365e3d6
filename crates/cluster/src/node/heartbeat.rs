//! The heartbeat: one commit that renews the member cell and every held lease, and says how they do.

use std::time::Duration;

use bytes::Bytes;
use consort_kernel::{Fault, Operation, Timestamp};

use super::Left;
use super::handle::Health;
use super::run::{Hold, LEASES_PER_COMMIT, NodeLoop, TRIES};
use crate::change::{Move, Outcome};
use crate::drain::news_of;
use crate::format::{decode, encode};
use crate::keys;
use crate::lease::{Lease, Standing};
use crate::member::Member;
use crate::report::Report;
use crate::role::Role;

/// How soon a failed heartbeat is tried again; each further time twice as late, up to a heartbeat.
const FIRST_RETRY: Duration = Duration::from_millis(25);

/// What came of a heartbeat.
enum Beat {
    Renewed,
    /// Something else was found than was expected; what is still held is known again.
    Changed,
    Replaced(Left),
    Failed(Fault),
}

/// A lease to be renewed.
struct Renewal {
    role: Role,
    lease: Lease,
    step: Move,
}

impl NodeLoop {
    /// Renews everything. Gives how the node left if another process took its id.
    pub(super) async fn beat(&mut self) -> Option<Left> {
        for _ in 0..TRIES {
            // Before the store is asked for its time: leases last at least so long from here.
            let sent = self.elapsed();
            let beat = match self.now().await {
                Ok(now) => self.renew(now).await,
                Err(fault) => Beat::Failed(fault),
            };
            match beat {
                Beat::Renewed => {
                    self.beat_succeeded(sent);
                    return None;
                }
                Beat::Changed => {}
                Beat::Replaced(left) => return Some(left),
                Beat::Failed(fault) => {
                    self.beat_failed(&fault);
                    return None;
                }
            }
        }
        self.beat_failed(&Fault::Retryable("its cells kept changing".into()));
        None
    }

    async fn renew(&mut self, now: Timestamp) -> Beat {
        let renewals = self.renewals(now);
        let (first, rest) = renewals.split_at(renewals.len().min(LEASES_PER_COMMIT));
        let first = self.renew_member(now, first).await;
        if !matches!(first, Beat::Renewed) {
            return first;
        }
        for chunk in rest.chunks(LEASES_PER_COMMIT) {
            let steps: Vec<Move> = chunk.iter().map(|renewal| renewal.step.clone()).collect();
            match self.change(&steps, vec![]).await {
                Outcome::Done => self.note_renewed(chunk),
                Outcome::Seen(found) => {
                    self.settle(chunk, found, now);
                    return Beat::Changed;
                }
                Outcome::Failed(fault) => return Beat::Failed(fault),
            }
        }
        Beat::Renewed
    }

    fn renewals(&self, now: Timestamp) -> Vec<Renewal> {
        let renewal = |role: Role| {
            let holding = self.holdings.0.get(&role)?;
            let lease = holding.lease.renewed(now, self.options.ttl);
            let to = Some(encode(&lease));
            let step = Move { key: keys::lease(&role), from: holding.stored.clone(), to };
            Some(Renewal { role, lease, step })
        };
        self.holdings.kept().into_iter().filter_map(renewal).collect()
    }

    /// Renews the member cell, and with it the first leases.
    async fn renew_member(&mut self, now: Timestamp, leases: &[Renewal]) -> Beat {
        self.member.load = self.holdings.0.len() as u64;
        let member = self.member.renewed(now, self.options.ttl);
        let stored = encode(&member);
        let key = keys::member(&self.me.id);
        let from = self.member_stored.clone();
        let mut steps = vec![Move { key: key.clone(), from, to: Some(stored.clone()) }];
        steps.extend(leases.iter().map(|renewal| renewal.step.clone()));

        let forgotten = Some(member.forgotten_at());
        let expire = |key| Operation::Expire { cell: keys::cell(key), at: forgotten };
        let mut also = vec![expire(key)];
        let incarnation = self.me.incarnation;
        let elapsed = self.elapsed();
        let load = Some(self.meter.report(&*self.options.load, elapsed));
        let report = Report { incarnation, roles: self.holdings.reports(elapsed), load }.stored();
        if self.report_stored.as_ref() != Some(&report) {
            let key = keys::report(&self.me.id);
            also.push(Operation::Put { key, value: report.clone() });
        }
        also.push(expire(keys::report(&self.me.id)));
        if self.tell {
            also.push(Operation::Put { key: keys::news(), value: news_of(&self.me.id, now) });
        }

        match self.change(&steps, also).await {
            Outcome::Done => {
                self.member = member;
                self.member_stored = Some(stored);
                self.report_stored = Some(report);
                self.tell = false;
                self.note_renewed(leases);
                Beat::Renewed
            }
            Outcome::Seen(mut found) => {
                let own = if found.is_empty() { None } else { found.remove(0) };
                self.settle(leases, found, now);
                self.settle_member(own, now)
            }
            Outcome::Failed(fault) => Beat::Failed(fault),
        }
    }

    fn note_renewed(&mut self, renewals: &[Renewal]) {
        for Renewal { role, lease, step } in renewals {
            // It may have been dropped while the commit was waited for.
            if let Some(holding) = self.holdings.0.get_mut(role) {
                holding.lease = lease.clone();
                holding.stored = step.to.clone();
            }
        }
    }

    /// Goes on from the leases that were found.
    fn settle(&mut self, renewals: &[Renewal], found: Vec<Option<Bytes>>, now: Timestamp) {
        for (Renewal { role, lease, step }, found) in renewals.iter().zip(found) {
            if found == step.from {
                continue;
            }
            match self.standing(lease.epoch, found.as_deref(), now) {
                Standing::Taken => self.lose(role),
                Standing::Mine => self.expect(role, found),
                Standing::Forgotten => {
                    tracing::warn!(%role, "the store went back to an earlier lease; puts it anew");
                    self.expect(role, found);
                }
            }
        }
    }

    fn expect(&mut self, role: &Role, found: Option<Bytes>) {
        if let Some(holding) = self.holdings.0.get_mut(role) {
            holding.stored = found;
        }
    }

    /// How a lease of this node stands, if its cell holds `found`. What cannot be read was written by
    /// somebody else.
    pub(super) fn standing(&self, epoch: u64, found: Option<&[u8]>, now: Timestamp) -> Standing {
        let lease: Option<Lease> = match found.map(decode).transpose() {
            Ok(lease) => lease,
            Err(_) => return Standing::Taken,
        };
        let alone = self.shared.alone();
        let void = lease.as_ref().is_some_and(|l| alone.is_some_and(|mine| mine != l.incarnation));
        Lease::standing(lease.as_ref(), &self.me, epoch, now, void)
    }

    /// Goes on from the member cell that was found.
    fn settle_member(&mut self, found: Option<Bytes>, now: Timestamp) -> Beat {
        if found == self.member_stored {
            return Beat::Changed;
        }
        // Whatever happened to the cell may have happened to the report.
        self.report_stored = None;
        let other = match found.as_deref().map(decode::<Member>).transpose() {
            Ok(other) => other,
            Err(error) => {
                let address = format!("an unknown address ({error})");
                return Beat::Replaced(Left::Replaced { address });
            }
        };
        if other.as_ref().is_some_and(|other| other.incarnation == self.me.incarnation) {
            self.member_stored = found;
            return Beat::Changed;
        }
        if let Some(other) = other {
            if other.since >= self.member.since {
                return Beat::Replaced(Left::Replaced { address: other.address });
            }
            if other.is_alive(now) && self.shared.alone().is_none() {
                let reason = "the store went back to when an earlier process had this id";
                return Beat::Failed(Fault::Retryable(reason.into()));
            }
        }
        tracing::warn!(node = %self.me.id, "the store went back to before this node joined; joins anew");
        self.member_stored = found;
        self.tell = true;
        Beat::Changed
    }

    /// Drops the work of a role that somebody else has.
    pub(super) fn lose(&mut self, role: &Role) {
        if let Some(holding) = self.holdings.0.remove(role) {
            let epoch = holding.lease.epoch;
            tracing::warn!(node = %self.me.id, %role, epoch, "lost a role: another node took its lease");
            self.options.observer.on_lost(role, epoch);
            self.look_at = self.elapsed();
        }
    }

    fn beat_succeeded(&mut self, sent: Duration) {
        let before = self.hold;
        self.hold = Hold::Until(sent + self.reliable_for());
        self.beat_at = sent + self.options.heartbeat;
        if self.missed > 0 || before == Hold::Overdue {
            tracing::info!(node = %self.me.id, missed = self.missed, "renews its leases again");
            self.missed = 0;
        }
        if before == Hold::Lapsed {
            self.look_at = self.elapsed();
        }
        if !matches!(before, Hold::Until(_)) && self.leaving.is_none() {
            self.health.send_replace(Health::Member);
        }
    }

    fn beat_failed(&mut self, fault: &Fault) {
        if self.missed == 0 {
            tracing::warn!(node = %self.me.id, %fault, "could not renew its leases; tries again");
        }
        if self.is_fenced() && self.leaving.is_none() {
            self.health.send_replace(Health::Fenced { reason: fault.to_string() });
        }
        let later = FIRST_RETRY * 2u32.saturating_pow(self.missed.min(10));
        self.missed = self.missed.saturating_add(1);
        self.beat_at = self.elapsed() + later.min(self.options.heartbeat);
    }
}

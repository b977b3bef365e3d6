//! The roster: what one scan of the cluster's cells shows, at a time of the store.
//!
//! A cell that this release cannot read is told and passed over: a newer node may have written it.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use consort_kernel::limits::PAGE_ROWS;
use consort_kernel::{Fault, Key, Kind, QueryError, Store, Timestamp, Value};
use serde::de::DeserializeOwned;

use crate::drain::Drain;
use crate::format;
use crate::keys::{self, Subject};
use crate::lease::{Holder, Lease, Standing};
use crate::member::Member;
use crate::ownership::Candidate;
use crate::refusal::RoleRefusal;
use crate::report::Report;
use crate::role::Role;
use crate::scaling::ScaleCell;

/// A cell's contents beside the bytes they were read from, which a commit expects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found<T> {
    /// What it says.
    pub value: T,
    /// As it is stored.
    pub stored: Bytes,
}

/// A cell that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// Its key.
    pub key: Key,
    /// Why.
    pub reason: String,
}

/// The cluster as it was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Roster {
    /// The store's time just before the scan: what has lapsed by it, has lapsed.
    pub now: Timestamp,
    /// Nodes by id, the dead ones as well.
    pub members: BTreeMap<String, Found<Member>>,
    /// Leases by role, the free ones as well.
    pub leases: BTreeMap<Role, Found<Lease>>,
    /// Roles whose lease is there but cannot be read: nobody of this release may take them.
    pub locked: BTreeSet<Role>,
    /// Nodes that are to retire.
    pub drains: BTreeMap<String, Drain>,
    /// Who gave which role up; lapsed ones are left out.
    pub refusals: BTreeMap<(Role, String), RoleRefusal>,
    /// What each node's roles say.
    pub reports: BTreeMap<String, Report>,
    /// How many nodes the cluster wants, as the scaler last decided.
    pub scale: Option<Found<ScaleCell>>,
    /// What could not be read.
    pub unreadable: Vec<Unreadable>,
    /// If set, every process but the one with this incarnation is known to be dead.
    pub alone: Option<u64>,
}

impl Roster {
    /// Scans the cluster's cells.
    pub async fn read(store: &dyn Store) -> Result<Roster, Fault> {
        let mut roster = Roster { now: store.now().await?, ..Roster::default() };
        let root = keys::root();
        let mut after: Option<Key> = None;
        loop {
            let page = store.scan(keys::SHARD, Kind::Bytes, &root, after.as_ref(), PAGE_ROWS);
            let page = page.await.map_err(fault)?;
            let Some((last, _)) = page.last() else { return Ok(roster) };
            after = Some(last.clone());
            for (key, value) in page {
                roster.take(key, value);
            }
        }
    }

    /// The same roster; `alone` is the incarnation of the only process there can be, if that is so.
    pub fn seen_by(self, alone: Option<u64>) -> Self {
        Roster { alone, ..self }
    }

    /// Notes one cell.
    fn take(&mut self, key: Key, value: Value) {
        let Value::Bytes(stored) = value else { return };
        match self.read_cell(&key, &stored) {
            Ok(()) => {}
            Err(reason) => {
                if let Some(Subject::Lease(role)) = keys::subject(&key) {
                    self.locked.insert(role);
                }
                self.unreadable.push(Unreadable { key, reason });
            }
        }
    }

    fn read_cell(&mut self, key: &Key, stored: &Bytes) -> Result<(), String> {
        match keys::subject(key).ok_or("this release knows no such cell")? {
            Subject::Member(id) => {
                let value: Member = decode(stored)?;
                if value.id != id {
                    return Err(format!("it says that it is of node '{}'", value.id));
                }
                self.members.insert(id, Found { value, stored: stored.clone() });
            }
            Subject::Lease(role) => {
                let value = decode(stored)?;
                self.leases.insert(role, Found { value, stored: stored.clone() });
            }
            Subject::Drain(id) => {
                self.drains.insert(id, decode(stored)?);
            }
            Subject::Refusal(role, id) => {
                let refusal: RoleRefusal = decode(stored)?;
                if self.now < refusal.until {
                    self.refusals.insert((role, id), refusal);
                }
            }
            Subject::Report(id) => {
                self.reports.insert(id, decode(stored)?);
            }
            Subject::Scale => {
                let value = decode(stored)?;
                self.scale = Some(Found { value, stored: stored.clone() });
            }
            Subject::News => {}
        }
        Ok(())
    }

    /// Whether this member is alive.
    ///
    /// The only process there can be is alive because it looks, however late its heartbeats are.
    pub fn is_live(&self, member: &Member) -> bool {
        match self.alone {
            Some(mine) => member.incarnation == mine,
            None => member.is_alive(self.now),
        }
    }

    /// The nodes that are alive, by id.
    pub fn live(&self) -> impl Iterator<Item = &Member> {
        self.members.values().map(|found| &found.value).filter(|member| self.is_live(member))
    }

    /// Whether a live node is about to leave, by its own word or an operator's.
    pub fn is_draining(&self, member: &Member) -> bool {
        member.draining || self.drains.contains_key(&member.id)
    }

    /// Whether anybody may take this lease.
    pub fn is_free(&self, lease: &Lease) -> bool {
        match self.alone {
            Some(mine) => lease.holder.is_none() || lease.incarnation != mine,
            None => lease.free(self.now, false),
        }
    }

    /// How the lease of `role` stands that `me` acquired under `epoch`. One that cannot be read was
    /// written by somebody else.
    pub fn standing(&self, role: &Role, me: &Holder, epoch: u64) -> Standing {
        if self.locked.contains(role) {
            return Standing::Taken;
        }
        let lease = self.leases.get(role).map(|found| &found.value);
        let void = lease.is_some_and(|lease| self.is_void(lease.incarnation));
        Lease::standing(lease, me, epoch, self.now, void)
    }

    /// The node that holds the lease of `role`.
    pub fn owner(&self, role: &Role) -> Option<&str> {
        let lease = &self.leases.get(role)?.value;
        if self.is_free(lease) {
            return None;
        }
        lease.holder.as_deref()
    }

    /// The live nodes as placement sees them.
    pub fn candidates(&self) -> Vec<Candidate> {
        let candidate = |member: &Member| Candidate {
            id: member.id.clone(),
            draining: self.is_draining(member),
        };
        self.live().map(candidate).collect()
    }

    /// Who must not be given what.
    pub fn refused(&self) -> BTreeSet<(Role, String)> {
        self.refusals.keys().cloned().collect()
    }

    /// The next moment at which something seen here lapses, unless it is renewed: until then, what is
    /// seen stays true, or is changed by somebody who tells. What `me` keeps alive is left out.
    pub fn next_lapse(&self, me: &Holder) -> Option<Timestamp> {
        let members = self.live().filter(|member| member.holder() != *me).map(|m| m.until);
        let leases = self.leases.values().map(|found| &found.value);
        let leases = leases.filter(|lease| !self.is_free(lease) && !lease.is_held_by(me));
        let refusals = self.refusals.values().map(|refusal| refusal.until);
        members.chain(leases.map(|lease| lease.until)).chain(refusals).min()
    }

    fn is_void(&self, incarnation: u64) -> bool {
        self.alone.is_some_and(|mine| mine != incarnation)
    }
}

fn decode<T: DeserializeOwned>(stored: &[u8]) -> Result<T, String> {
    format::decode(stored).map_err(|error| error.to_string())
}

/// A query's failure. The queries here are within every bound, so a refusal is a defect.
pub(crate) fn fault(error: QueryError) -> Fault {
    match error {
        QueryError::Engine(fault) => fault,
        QueryError::Refused(refusal) => Fault::Fatal(refusal.to_string()),
    }
}

#[cfg(test)]
mod tests;

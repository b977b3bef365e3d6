//! What a node should do next: a pure decision from what it sees and what it holds.

use std::collections::{BTreeMap, BTreeSet};

use consort_kernel::Timestamp;

use crate::lease::{Holder, Standing};
use crate::ownership::owners;
use crate::role::Role;
use crate::roster::Roster;

/// A role that a node holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// The epoch of its lease.
    pub epoch: u64,
    /// How its work does.
    pub work: Work,
}

/// How the work of a held role does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// It goes on.
    Running,
    /// It was asked to end, or has ended and is to be released.
    Ending,
    /// It found a loss. The role stays here, visibly stopped, for as long as the node does: elsewhere
    /// it would only stop again.
    Stopped,
}

/// What to do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Steps {
    /// Roles to take.
    pub acquire: Vec<Role>,
    /// Roles whose work is to end, so that they can move.
    pub end: Vec<Role>,
    /// Roles that somebody else has: their work is to be dropped at once.
    pub lost: Vec<Role>,
    /// Leases that stand for this process although it does no work for them: what an unknown outcome or
    /// a fence left behind. They are to be released, so that nobody need wait for their end.
    pub release: Vec<Role>,
    /// When to look again, if nothing is told before.
    pub look_again_at: Option<Timestamp>,
}

/// Decides for the process `me`, which holds `held`, with `roles` all roles there are, and `apart` the kinds of
/// them whose groups are kept apart.
///
/// A node that is not among the live ones itself does nothing: its next heartbeat puts that right.
pub fn reconcile(
    roster: &Roster,
    me: &Holder,
    roles: &[Role],
    apart: &BTreeSet<&str>,
    held: &BTreeMap<Role, Held>,
) -> Steps {
    let mut steps = Steps { look_again_at: roster.next_lapse(me), ..Steps::default() };
    let Some(own) = roster.live().find(|member| member.holder() == *me) else {
        return steps;
    };
    let leaving = roster.is_draining(own);
    let owners = owners(&roster.candidates(), roles, apart, &roster.refused());
    let mine = |role: &Role| owners.get(role) == Some(&me.id);

    for (role, holding) in held {
        if roster.standing(role, me, holding.epoch) == Standing::Taken {
            steps.lost.push(role.clone());
        } else if should_end(holding.work, mine(role), leaving) {
            steps.end.push(role.clone());
        }
    }
    for role in roles.iter().collect::<BTreeSet<_>>() {
        if held.contains_key(role) || !mine(role) || roster.locked.contains(role) {
            continue;
        }
        let lease = roster.leases.get(role).map(|found| &found.value);
        if !lease.is_none_or(|lease| roster.is_free(lease) || lease.is_held_by(me)) {
            continue;
        }
        match rests_until(roster, me, role) {
            Some(at) => look_again(&mut steps, at),
            None => steps.acquire.push(role.clone()),
        }
    }
    let orphans = roster.leases.iter().filter(|(role, found)| {
        found.value.is_held_by(me) && !held.contains_key(*role) && !mine(role)
    });
    steps.release = orphans.map(|(role, _)| role.clone()).collect();
    steps
}

fn should_end(work: Work, mine: bool, leaving: bool) -> bool {
    match work {
        Work::Running => !mine || leaving,
        Work::Ending => false,
        Work::Stopped => leaving,
    }
}

/// Until when a role must rest that this node gave up, and that it should own all the same since every
/// other node gave it up, too.
fn rests_until(roster: &Roster, me: &Holder, role: &Role) -> Option<Timestamp> {
    let refusal = roster.refusals.get(&(role.clone(), me.id.clone()))?;
    let at = refusal.rested_at();
    (roster.now < at).then_some(at)
}

fn look_again(steps: &mut Steps, at: Timestamp) {
    steps.look_again_at = Some(steps.look_again_at.map_or(at, |before| before.min(at)));
}

#[cfg(test)]
mod tests;

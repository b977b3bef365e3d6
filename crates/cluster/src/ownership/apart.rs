//! Placement of roles that are kept apart: replicas of one thing, which should not be on one node.
//!
//! The roles of a group choose in the order of their number, and each prefers the nodes that hold fewest of
//! the group. So a role that is added at the end moves no other.
//!
//! The ties are decided by rendezvous hashing, in pairs: roles 2n and 2n + 1 rank the nodes in opposite orders,
//! so they want the same node only if it is the last one. When a node leaves, a group of two roles therefore
//! moves only the role of that node. For larger groups no rule can promise this: a choice that depends on the
//! live nodes alone, moves nothing else when a node leaves and keeps three roles apart does not exist. A role
//! that looks for another node may take one that a later role of the group had, and that role moves too.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::{hash, willing};
use crate::role::Role;

/// Gives the roles of one kind to `ids`, group by group.
pub(super) fn share_out(
    ids: &[&str],
    roles: BTreeSet<&Role>,
    refused: &BTreeSet<(Role, String)>,
    owners: &mut BTreeMap<Role, String>,
) {
    let mut groups: BTreeMap<&str, Vec<Member<'_>>> = BTreeMap::new();
    for member in roles.into_iter().map(Member::new) {
        groups.entry(member.group).or_default().push(member);
    }
    for mut members in groups.into_values() {
        members.sort_by_key(|member| (member.number, member.role));
        let mut held = vec![0usize; ids.len()];
        for member in members {
            let rank = |&at: &usize| (Reverse(held[at]), member.score(ids[at]), ids[at]);
            let choice = willing(ids, member.role, refused).into_iter().max_by_key(rank);
            let choice = choice.unwrap_or(0);
            held[choice] += 1;
            owners.insert(member.role.clone(), ids[choice].to_string());
        }
    }
}

/// A role of a group.
struct Member<'a> {
    role: &'a Role,
    group: &'a str,
    /// Its place in the group. A role without a number comes last.
    number: u64,
}

impl<'a> Member<'a> {
    fn new(role: &'a Role) -> Self {
        let (group, number) = role.name().rsplit_once('/').unwrap_or((role.name(), ""));
        Member { role, group, number: number.parse().unwrap_or(u64::MAX) }
    }

    /// How much the role wants to be on node `id`.
    fn score(&self, id: &str) -> u64 {
        let pair = (self.number / 2).to_string();
        let score = hash(&[id, self.role.kind(), self.group, &pair]);
        match self.number % 2 {
            0 => score,
            _ => !score,
        }
    }
}

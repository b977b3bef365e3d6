//! The quota of unapplied pieces that each tenant has in a partition, as this node counts it. A core without clock or I/O.
//!
//! A piece counts from its admission, so the partition's queue is included. It stops counting when the partition is
//! applied up to it, when its append fails, some time after its append ended unknown, or when the partition's era
//! changes. A tenant at its quota hears 429 long before the gate would refuse anyone.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use consort_cluster::Place;

use crate::tenants::TenantName;

/// For how long a piece counts whose append ended unknown: longer than any try could still land and be applied in a
/// cluster that is well.
pub(super) const UNKNOWN_FOR: Duration = Duration::from_secs(60);

/// A quota never shrinks below this many pieces: a client with a few requests on their way must not be refused by a
/// partition that is slow for a moment.
pub(super) const LEAST_PIECES: u64 = 16;

/// Over how much busy time the drain is measured. Shorter, and one batch would decide it.
const DRAIN_MEASURED_OVER: Duration = Duration::from_millis(250);

/// What a tenant may have unapplied in a partition, through all nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct QuotaLimits {
    pub(super) pieces: u64,
    pub(super) bytes: u64,
}

/// An admission that is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct AdmissionId(u64);

/// A tenant has as many unapplied pieces as it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the tenant has {pieces} unapplied pieces of {bytes} bytes in this partition, and its share of the quota on this node is {most_pieces} pieces and {most_bytes} bytes"
)]
pub(super) struct QuotaFull {
    pieces: u64,
    bytes: u64,
    most_pieces: u64,
    most_bytes: u64,
    /// Whether the pieces would have been admitted if the partition were faster.
    is_overload: bool,
}

/// The quotas of one partition.
#[derive(Debug)]
pub(super) struct PartitionQuota {
    limits: QuotaLimits,
    nodes: u64,
    era: Option<u64>,
    drain: Drain,
    next: u64,
    admissions: BTreeMap<AdmissionId, Admission>,
    tenants: BTreeMap<TenantName, Unapplied>,
    /// Admissions that wait to be applied, in the order in which they were stored.
    stored: VecDeque<AdmissionId>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Unapplied {
    pieces: u64,
    bytes: u64,
}

#[derive(Debug)]
struct Admission {
    tenant: TenantName,
    counted: Unapplied,
    state: AdmissionState,
}

#[derive(Debug)]
enum AdmissionState {
    /// On its way into the log.
    Appending,
    /// At this place of the log.
    Stored(Place),
    /// Perhaps in the log. It counts up to this time.
    Unknown(Duration),
}

/// How many pieces of this node the partition applies a second, measured while some wait.
#[derive(Debug, Default)]
struct Drain {
    per_second: Option<u64>,
    /// Since when pieces have waited without a break, and how many were applied since.
    busy_since: Option<Duration>,
    applied: u64,
}

impl PartitionQuota {
    pub(super) fn new(limits: QuotaLimits) -> PartitionQuota {
        PartitionQuota {
            limits,
            nodes: 1,
            era: None,
            drain: Drain::default(),
            next: 0,
            admissions: BTreeMap::new(),
            tenants: BTreeMap::new(),
            stored: VecDeque::new(),
        }
    }

    /// Admits pieces of a tenant, or refuses all of them. A tenant without unapplied pieces is admitted whatever its
    /// pieces weigh: otherwise one that is larger than the share could never come in.
    pub(super) fn admit(
        &mut self,
        tenant: &TenantName,
        pieces: u64,
        bytes: u64,
    ) -> Result<AdmissionId, QuotaFull> {
        let most = self.share();
        let known = self.tenants.get(tenant).copied().unwrap_or_default();
        let fits = |most: QuotaLimits| {
            known.pieces + pieces <= most.pieces && known.bytes + bytes <= most.bytes
        };
        if !fits(most) && known.pieces > 0 {
            return Err(QuotaFull {
                pieces: known.pieces,
                bytes: known.bytes,
                most_pieces: most.pieces,
                most_bytes: most.bytes,
                is_overload: fits(self.share_at_setting()),
            });
        }
        let (id, counted) = (AdmissionId(self.next), Unapplied { pieces, bytes });
        self.next += 1;
        let sum = self.tenants.entry(tenant.clone()).or_default();
        sum.pieces += pieces;
        sum.bytes += bytes;
        let state = AdmissionState::Appending;
        self.admissions.insert(id, Admission { tenant: tenant.clone(), counted, state });
        Ok(id)
    }

    /// What one tenant may have unapplied through this node just now.
    pub(super) fn share(&self) -> QuotaLimits {
        let QuotaLimits { pieces, bytes } = self.share_at_setting();
        // At most what the partition applies in a second.
        let drained = self.drain.per_second.map_or(pieces, |drain| pieces.min(drain));
        QuotaLimits { pieces: drained.max(self.least()), bytes }
    }

    /// The same for a partition that is fast enough.
    fn share_at_setting(&self) -> QuotaLimits {
        let share = |all: u64| all / self.nodes.max(1);
        QuotaLimits {
            pieces: share(self.limits.pieces).max(self.least()),
            bytes: share(self.limits.bytes),
        }
    }

    fn least(&self) -> u64 {
        LEAST_PIECES.min(self.limits.pieces)
    }

    /// The pieces are in the log.
    pub(super) fn stored(&mut self, id: AdmissionId, place: Place, now: Duration) {
        if let Some(admission) = self.admissions.get_mut(&id) {
            admission.state = AdmissionState::Stored(place);
            // Pieces on their way into the log, or perhaps in it, say nothing about the pace of the partition.
            if self.stored.is_empty() {
                self.drain.begin(now);
            }
            self.stored.push_back(id);
        }
    }

    /// The pieces are not in the log.
    pub(super) fn failed(&mut self, id: AdmissionId) {
        self.release(id);
    }

    /// The pieces may be in the log.
    pub(super) fn unknown(&mut self, id: AdmissionId, now: Duration) {
        if let Some(admission) = self.admissions.get_mut(&id) {
            admission.state = AdmissionState::Unknown(now + UNKNOWN_FOR);
        }
    }

    /// The partition has moved. `has_passed` tells which places are applied.
    pub(super) fn applied(&mut self, era: u64, now: Duration, has_passed: impl Fn(&Place) -> bool) {
        if self.era.replace(era).is_some_and(|before| before != era) {
            // Offsets and producers count anew: nothing of the old era will be passed any more.
            self.forget();
            return;
        }
        let mut left = VecDeque::with_capacity(self.stored.len());
        let mut applied = 0;
        for id in std::mem::take(&mut self.stored) {
            match self.admissions.get(&id) {
                Some(Admission { state: AdmissionState::Stored(place), counted, .. })
                    if has_passed(place) =>
                {
                    applied += counted.pieces;
                    self.release(id);
                }
                Some(_) => left.push_back(id),
                None => {}
            }
        }
        self.stored = left;
        self.drain.count(applied, now, self.stored.is_empty());
    }

    /// Pieces in the log are known to be applied, before the partition was looked at: their outcome has come.
    pub(super) fn settled(&mut self, id: AdmissionId, now: Duration) {
        let Some(Admission { state: AdmissionState::Stored(_), counted, .. }) =
            self.admissions.get(&id)
        else {
            return;
        };
        let applied = counted.pieces;
        self.release(id);
        self.stored.retain(|stored| *stored != id);
        self.drain.count(applied, now, self.stored.is_empty());
    }

    /// Time has passed: admissions of unknown outcome are let go.
    pub(super) fn expire(&mut self, now: Duration) {
        let is_over = |admission: &Admission| matches!(admission.state, AdmissionState::Unknown(until) if until <= now);
        let over = self.admissions.iter().filter(|(_, admission)| is_over(admission));
        let over: Vec<AdmissionId> = over.map(|(id, _)| *id).collect();
        over.into_iter().for_each(|id| self.release(id));
    }

    /// How many nodes are alive: each has an equal share.
    pub(super) fn set_nodes(&mut self, nodes: u64) {
        self.nodes = nodes.max(1);
    }

    /// Whether nothing is counted.
    pub(super) fn is_empty(&self) -> bool {
        self.admissions.is_empty()
    }

    fn release(&mut self, id: AdmissionId) {
        let Some(Admission { tenant, counted, .. }) = self.admissions.remove(&id) else { return };
        if let Some(sum) = self.tenants.get_mut(&tenant) {
            sum.pieces -= counted.pieces;
            sum.bytes -= counted.bytes;
            if sum.pieces == 0 {
                self.tenants.remove(&tenant);
            }
        }
    }

    fn forget(&mut self) {
        self.admissions.clear();
        self.tenants.clear();
        self.stored.clear();
        self.drain = Drain::default();
    }
}

impl QuotaFull {
    /// Whether a faster partition would have admitted the pieces. Otherwise the operator's setting refuses them, and no
    /// node more would change that.
    pub(super) fn is_overload(&self) -> bool {
        self.is_overload
    }
}

impl Drain {
    /// Pieces wait from now on.
    fn begin(&mut self, now: Duration) {
        self.busy_since.get_or_insert(now);
    }

    /// No pieces wait any more: what was measured up to now is kept only if it was long enough.
    fn pause(&mut self, now: Duration) {
        self.measure(now);
        (self.busy_since, self.applied) = (None, 0);
    }

    fn count(&mut self, applied: u64, now: Duration, is_idle: bool) {
        self.applied += applied;
        match is_idle {
            true => self.pause(now),
            false => self.measure(now),
        }
    }

    fn measure(&mut self, now: Duration) {
        let Some(since) = self.busy_since else { return };
        let busy = now.saturating_sub(since);
        if busy < DRAIN_MEASURED_OVER {
            return;
        }
        let per_second = u128::from(self.applied) * 1000 / busy.as_millis().max(1);
        self.per_second = Some(u64::try_from(per_second).unwrap_or(u64::MAX));
        (self.busy_since, self.applied) = (Some(now), 0);
    }
}

#[cfg(test)]
mod tests;

//! Who is told what the node does: metrics in the binary, a record in tests.

use std::fmt;
use std::time::Duration;

use crate::report::PauseCause;
use crate::role::Role;

/// Told of what happens, as it happens. The calls must not block.
pub trait Observer: Send + Sync + fmt::Debug {
    /// A role was acquired; its work begins.
    fn on_acquired(&self, _role: &Role, _epoch: u64) {}

    /// A role was released, its work ended or dropped.
    fn on_released(&self, _role: &Role, _epoch: u64) {}

    /// Somebody else took a role; its work was dropped.
    fn on_lost(&self, _role: &Role, _epoch: u64) {}

    /// The node could not renew its leases in time and dropped the work of so many roles.
    fn on_fenced(&self, _roles: usize) {}

    /// The work of a role has begun, after nobody worked on it for `pause`.
    fn on_pause(&self, _role: &Role, _cause: PauseCause, _pause: Duration) {}
}

/// Nobody.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unobserved;

impl Observer for Unobserved {}

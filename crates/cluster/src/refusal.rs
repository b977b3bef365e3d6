//! That a node gave a role up: for a while it is not given back.

use std::time::Duration;

use consort_kernel::Timestamp;
use serde::{Deserialize, Serialize};

use crate::format::millis;

/// How long a node that gave a role up is not given it again: long enough that what hindered it has
/// passed or was seen, short enough that roles come back to an even spread.
pub const REFUSE_FOR: Duration = Duration::from_secs(30);

/// How long a role rests before a node that gave it up takes it again because every other did, too.
/// Without a rest, work that ends at once everywhere would keep the store busy with hand-overs.
pub const REST: Duration = Duration::from_secs(2);

/// The longest reason that is stored, in bytes; the rest of a longer one is only logged.
const REASON_BYTES: usize = 500;

/// The refusal cell of a role and a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoleRefusal {
    /// Why, for operators.
    pub reason: String,
    /// When the role was given up.
    #[serde(with = "millis")]
    pub since: Timestamp,
    /// From this time on it means nothing.
    #[serde(with = "millis")]
    pub until: Timestamp,
}

impl RoleRefusal {
    /// A refusal from `since` on.
    pub fn new(reason: &str, since: Timestamp) -> Self {
        RoleRefusal { reason: shortened(reason).into(), since, until: since.after(REFUSE_FOR) }
    }

    /// When the node may take the role again, if nobody else would.
    pub fn rested_at(&self) -> Timestamp {
        self.since.after(REST)
    }
}

/// The beginning of a reason that is too long to be stored.
pub(crate) fn shortened(reason: &str) -> &str {
    if reason.len() <= REASON_BYTES {
        return reason;
    }
    &reason[..reason.floor_char_boundary(REASON_BYTES)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{decode, encode};

    #[test]
    fn version_1_is_read_in_every_release() {
        let refusal = RoleRefusal::new("stuck", Timestamp(5));
        let stored = b"\x01{\"reason\":\"stuck\",\"since\":5,\"until\":30005}";
        assert_eq!(&encode(&refusal)[..], stored);
        assert_eq!(decode(stored), Ok(refusal));
    }

    #[test]
    fn a_long_reason_is_cut_between_characters() {
        let long = "ä".repeat(400);
        assert_eq!(shortened(&long), "ä".repeat(250));
        let odd = format!("x{long}");
        assert_eq!(shortened(&odd), format!("x{}", "ä".repeat(249)));
        assert_eq!(shortened("short"), "short");
    }
}

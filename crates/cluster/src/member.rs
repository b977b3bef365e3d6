//! A node as the others see it: its member cell, kept alive by heartbeats.

use std::time::Duration;

use consort_kernel::Timestamp;
use serde::{Deserialize, Serialize};

use crate::format::millis;
use crate::lease::Holder;

/// The longest id of a node, in bytes: it is part of keys and of log lines.
pub const ID_MAX: usize = 64;

/// How long the cells of a node that died stay readable, so that an operator sees what was there; then
/// they expire, since ids may be drawn afresh at each start and would pile up.
pub const FORGET_AFTER: Duration = Duration::from_secs(3600);

/// The member cell of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// The node's id.
    pub id: String,
    /// A number drawn at each start of the process.
    pub incarnation: u64,
    /// Where its HTTP interface is reached.
    pub address: String,
    /// Its release.
    pub version: String,
    /// When it joined.
    #[serde(with = "millis")]
    pub since: Timestamp,
    /// How many roles it holds.
    pub load: u64,
    /// Whether it is about to leave, and wants no roles.
    pub draining: bool,
    /// When it was last heard of.
    #[serde(with = "millis")]
    pub renewed: Timestamp,
    /// From this time on it counts as dead.
    #[serde(with = "millis")]
    pub until: Timestamp,
}

/// A text that cannot be a node's id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a node's id must be 1 to {ID_MAX} characters of letters, digits, '.', '_' and '-', not {0:?}"
)]
pub struct IdError(String);

impl Member {
    /// The process that this is.
    pub fn holder(&self) -> Holder {
        Holder { id: self.id.clone(), incarnation: self.incarnation }
    }

    /// Whether it was heard of lately enough.
    pub fn is_alive(&self, now: Timestamp) -> bool {
        now < self.until
    }

    /// The same member, heard of `now`.
    pub fn renewed(&self, now: Timestamp, ttl: Duration) -> Member {
        Member { renewed: now, until: now.after(ttl), ..self.clone() }
    }

    /// When the cell may be cleared away.
    pub fn forgotten_at(&self) -> Timestamp {
        self.until.after(FORGET_AFTER)
    }
}

/// Refuses what cannot be a node's id.
pub fn validate_id(id: &str) -> Result<(), IdError> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    match id.len() {
        1..=ID_MAX if id.chars().all(allowed) => Ok(()),
        _ => Err(IdError(id.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{decode, encode};

    #[test]
    fn version_1_is_read_in_every_release() {
        let member = Member {
            id: "a".into(),
            incarnation: u64::MAX,
            address: "127.0.0.1:7400".into(),
            version: "0.1.0".into(),
            since: Timestamp(1),
            load: 3,
            draining: false,
            renewed: Timestamp(2),
            until: Timestamp(3002),
        };
        let stored = "\u{1}{\"id\":\"a\",\"incarnation\":18446744073709551615,\
            \"address\":\"127.0.0.1:7400\",\"version\":\"0.1.0\",\"since\":1,\"load\":3,\
            \"draining\":false,\"renewed\":2,\"until\":3002}";
        assert_eq!(&encode(&member)[..], stored.as_bytes());
        assert_eq!(decode(stored.as_bytes()), Ok(member));
    }

    #[test]
    fn an_id_is_what_the_setting_takes() {
        let long = "x".repeat(64);
        for good in ["a", "Node_1.eu-west", &long] {
            assert_eq!(validate_id(good), Ok(()), "{good}");
        }
        let longer = "x".repeat(65);
        for bad in ["", "a b", "a/b", "ä", &longer] {
            assert_eq!(validate_id(bad), Err(IdError(bad.into())));
        }
    }
}

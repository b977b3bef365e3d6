//! A role: one piece of work that one node at a time should do.

use std::fmt;
use std::str::FromStr;

use consort_kernel::Key;
use serde::{Deserialize, Serialize};

/// What is to be owned: its kind (`worker`, `closer`, `deliverer`, …) and its name within the kind.
///
/// Written as `kind:name`, for example `worker:lift_rides/7`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Role {
    kind: String,
    name: String,
}

/// A text that names no role.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no role: write KIND:NAME, for example worker:lift_rides/7")]
pub struct RoleError(String);

impl Role {
    /// The role `name` of `kind`. A kind has no colon.
    pub fn new(kind: &str, name: impl Into<String>) -> Self {
        assert!(!kind.is_empty() && !kind.contains(':'), "'{kind}' cannot be a kind of role");
        Role { kind: kind.into(), name: name.into() }
    }

    /// What sort of work it is. Roles of one kind are spread evenly by themselves.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// Which one of its kind.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// This role below `prefix`.
    pub(crate) fn key(&self, prefix: &Key) -> Key {
        prefix.with(self.kind.as_str()).with(self.name.as_str())
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.kind, self.name)
    }
}

impl FromStr for Role {
    type Err = RoleError;

    fn from_str(text: &str) -> Result<Self, RoleError> {
        match text.split_once(':') {
            Some((kind, name)) if !kind.is_empty() && !name.is_empty() => Ok(Role::new(kind, name)),
            _ => Err(RoleError(text.into())),
        }
    }
}

impl From<Role> for String {
    fn from(role: Role) -> String {
        role.to_string()
    }
}

impl TryFrom<String> for Role {
    type Error = RoleError;

    fn try_from(text: String) -> Result<Self, RoleError> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_is_written_as_it_is_read() {
        let role = Role::new("worker", "rides/7");
        assert_eq!(role.to_string().parse(), Ok(role));
        for bad in ["", "worker", ":x", "x:"] {
            assert!(bad.parse::<Role>().is_err(), "{bad}");
        }
    }
}
